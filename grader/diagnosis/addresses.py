"""Columns rows, k and index: which elements of X and W meet for an element of Y, and which should.

A side that deviates is fitted as a combination of its row, the lane along k and the iteration, and the coefficients are
compared with the strides and the depth of a tile. Nothing here knows why a coefficient is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from grader.diagnosis.definition import line_of_axis, line_of_bound, line_of_program, line_of_step
from grader.diagnosis.fit import fit, named
from grader.diagnosis.observation import Observation, span
from grader.diagnosis.provenance import NONE, Array, Untraceable, offsets_of
from grader.diagnosis.relation import Products, Run, Side
from grader.diagnosis.tape import Node


def check_rows(run: Run, products: Products) -> list[Observation]:
    """Each side's row against the one that belongs to the element of Y."""
    found = []
    for name in ("left", "right"):
        side = products.side(name)
        wrong = (side.row != products.rows(side)[:, None]) & products.live
        if wrong.any():
            found += _side_explained(run, products, name, wrong, "rows")
    return found


def check_k(run: Run, products: Products, amiss: frozenset[str] = frozenset()) -> list[Observation]:
    """The k of both sides against each other. amiss: sides whose rows are wrong already, of which nothing more is said."""
    left, right = products.left, products.right
    unit = right.operand.unit
    met = left.live & right.live & products.alive
    wrong = met & (left.k // unit != right.k // unit)
    if not wrong.any() or amiss:
        return []
    if left.operand.index_of is not None and (looked := check_index(run, products)):
        return looked
    regular = {name: _regular(run, products, name) for name in ("left", "right")}
    if all(regular.values()) and (apart := _begin_apart(run, products)):
        return [apart]
    blamed = [name for name, well in regular.items() if not well] or ["left", "right"]
    told: list[Observation] = []
    for name in (
        blamed if len(blamed) == 1 else sorted(blamed, key=lambda name: _fit_of(run, products, name, None) is None)
    ):
        told += _side_explained(run, products, name, wrong, "k", quiet=True)
    return told or [_met(run, products, wrong, blamed)]


def _begin_apart(run: Run, products: Products) -> Observation | None:
    """Slices of K of which one side begins elsewhere than the other."""
    begins, loads = {}, {}
    for name in ("left", "right"):
        side = products.side(name)
        live = products.live[0]
        if not live.any():
            return None
        begins[name] = int(side.k[0][live].min())
        loads[name] = run.load_of(int(side.node[int(np.flatnonzero(live)[0])]), side.operand.tensor)
    behind = min(begins, key=lambda name: begins[name])
    access = loads[behind]
    if (
        begins["left"] // products.right.operand.unit == begins["right"] // products.right.operand.unit
        or access is None
    ):
        return None
    text = f"the slice begins with k = {begins['left']} of X and k = {begins['right']} of W"
    along_k = run.problem.scalars[products.side(behind).operand.strides[1]]
    line = _line_of(run, access, along_k, last=False)
    return Observation(
        "k", f"{behind} slice", line, text, f"k = {max(begins.values())} of both", program=products.program
    )


def _met(run: Run, products: Products, wrong: Array, blamed: list[str]) -> Observation:
    """Two elements that meet and should not."""
    e, p = _first(products, wrong)
    left, right = products.left, products.right
    side = products.side(blamed[0])
    access = run.load_of(int(side.node[p]), side.operand.tensor)
    return Observation(
        "k",
        "meet",
        access.line if access else None,
        f"for Y[{products.m[e]}, {products.n[e]}], {element(run, left, e, p)} meets {element(run, right, e, p)}",
        "the same k on both sides",
        program=products.program,
        iteration=int(products.iteration[p]),
    )


def element(run: Run, side: Side, e: int, p: int) -> str:
    """An operand's element in words."""
    words, offset = side.operand.words, int(side.offset[e, p])
    row, k, unit = int(side.row[e, p]), int(side.k[e, p]), side.operand.unit
    if not 0 <= row < 1 << 29:
        own = words(run.problem, offset) if words else f"element {offset} of {side.operand.tensor.removesuffix('_ptr')}"
        return f"{own}, outside {side.operand.letter}"
    place = (
        f"{side.operand.letter}[{row}, {k}]"
        if unit == 1
        else f"the word of {side.operand.letter}[{row}, {k}:{k + unit}]"
    )
    return f"{words(run.problem, offset)} = {place}" if words else place


def _first(products: Products, wrong: Array) -> tuple[int, int]:
    """The first wrong product: of the earliest iteration, then of the first element."""
    places = np.argwhere(wrong)
    best = min(places.tolist(), key=lambda at: (int(products.iteration[at[1]]), at[0], at[1]))
    return int(best[0]), int(best[1])


@dataclass(frozen=True)
class _Fit:
    """A side's offsets: row * r + lane * j + step * iteration + base, in elements; unit lanes to an element."""

    row: int
    lane: int
    step: int
    base: int
    depth: int
    lines: int
    moves: bool
    rows_vary: bool


def _fit_of(run: Run, products: Products, name: str, only: int | None) -> _Fit | None:
    """The coefficients of one side, over the multiplications of one line; None where no combination fits."""
    side = products.side(name)
    lines = [run.tape.nodes[term.node].line for term in products.flow.terms]
    first = lines[0] if only is None and lines else only
    of_line = np.array([lines[t] == first for t in products.term], dtype=bool)
    use = of_line & side.asked.all(axis=0) & products.alive.all(axis=0)
    if side.operand.index and use.any():  # each iteration begins where the index says
        use &= products.iteration == products.iteration[use].min()
    if not use.any():
        return None
    unit = side.operand.unit
    rows = products.rows(side)[:, None]
    offset, iteration = side.offset[:, use], products.iteration[use]
    lanes = products.lane[use] // unit
    found = fit(offset, {"row": rows, "lane": lanes[None, :], "iteration": iteration[None, :]})
    if found is None:
        return None
    depth, moves = len(np.unique(lanes)), bool((iteration != iteration[0]).any())
    varies = bool((products.rows(side) != products.rows(side)[0]).any())
    return _Fit(found["row"], found["lane"], found["iteration"], found[""], depth, len(set(lines)), moves, varies)


def _regular(run: Run, products: Products, name: str) -> bool:
    """Whether a side walks its rows and k as a right kernel does: by its strides, whole tiles at a time."""
    side, found = products.side(name), _fit_of(run, products, name, None)
    if found is None or not side.operand.strides:
        return False
    along_row, along_k = (run.problem.scalars[stride] for stride in side.operand.strides)
    return not _deviating(run, products, side, found, along_row, along_k)


def _deviating(run: Run, products: Products, side: Side, found: _Fit, along_row: int, along_k: int) -> list[str]:
    """Which coefficients are not those of a right kernel: "row", "lane", "step", "base"."""
    amiss = []
    if found.rows_vary and found.row != along_row:
        amiss.append("row")
    if found.depth > 1 and found.lane != along_k:
        amiss.append("lane")
    steps = {found.depth * along_k, found.depth * along_k * run.config.split_k}
    if found.moves and found.lines == 1 and found.step not in steps:
        amiss.append("step")
    base = found.base + (0 if found.rows_vary else -int(products.rows(side)[0]) * along_row)
    if side.operand.index:
        return amiss
    if not amiss and (
        base < 0 or base % along_k or (base // along_k and run.config.split_k == 1 and base // along_k * 1 != 0)
    ):
        amiss.append("base")
    return amiss


def _side_explained(
    run: Run, products: Products, name: str, wrong: Array, column: str, *, quiet: bool = False
) -> list[Observation]:
    """What is wrong with one side's addresses: by its coefficients, else the first element that is not the right one."""
    side = products.side(name)
    found = _fit_of(run, products, name, None) if side.operand.strides else None
    if found is not None:
        along_row, along_k = (run.problem.scalars[stride] for stride in side.operand.strides)
        amiss = _deviating(run, products, side, found, along_row, along_k)
        told = [_coefficient(run, products, name, wrong, column, found, which) for which in amiss]
        if any(told):
            return [one for one in told if one]
    if quiet:
        return []
    e, p = _first(products, wrong)
    access = run.load_of(int(side.node[p]), side.operand.tensor)
    own = products.rows(side)[e]
    line = access.line if access else None
    height = side.operand.height
    if (
        height > 1 and not ((side.row - products.rows(side)[:, None])[wrong] % height).any()
    ):  # whole blocks of another row
        inside = products.flow.terms[int(products.term[p])].line or 0
        line = line_of_bound(run.text, inside, "start" if products.iteration[p] == 0 else "stop") or line
    return [
        Observation(
            column,
            f"{name} place",
            line,
            f"for Y[{products.m[e]}, {products.n[e]}], {element(run, side, e, p)} is multiplied",
            f"row {own} of {side.operand.letter}",
            program=products.program,
            iteration=int(products.iteration[p]),
        )
    ]


def _coefficient(
    run: Run, products: Products, name: str, wrong: Array, column: str, found: _Fit, which: str
) -> Observation | None:
    """One coefficient of a side's addresses, and what it should be."""
    side = products.side(name)
    letter = side.operand.letter
    row_stride, k_stride = side.operand.strides
    along_row, along_k = run.problem.scalars[row_stride], run.problem.scalars[k_stride]
    _, p = _first(products, wrong)
    access = run.load_of(int(side.node[p]), side.operand.tensor)
    if access is None:
        return None
    axis_word = "m" if side is products.left else "n"
    if which == "row":
        text = f"neighbouring rows of the tile of {letter} (along {axis_word}) are {{0}} apart"
        line = _line_of(run, access, found.row, last=True)
        return Observation(
            column,
            f"{name} row",
            line,
            text,
            f"{row_stride} = {along_row}",
            (named(run, found.row),),
            program=products.program,
        )
    if which == "lane":
        text = f"neighbours along k in the tile of {letter} are {{0}} apart"
        line = _line_of(run, access, found.lane, last=False)
        return Observation(
            column,
            f"{name} lane",
            line,
            text,
            f"{k_stride} = {along_k}",
            (named(run, found.lane),),
            program=products.program,
        )
    if which == "step":
        return _step(run, products, name, access, column, found, along_k)
    base = found.base + (0 if found.rows_vary else -int(products.rows(side)[0]) * along_row)
    return _base(run, products, name, access, column, base, along_row, along_k)


def _axis_of(access: Node, step: int, *, last: bool) -> int | None:
    """The axis of a load's tile along which its addresses move by `step`."""
    if access.offsets is None:
        return None
    found = [
        axis
        for axis in range(len(access.shape))
        if access.shape[axis] > 1
        and int(
            np.take(access.offsets, 1, axis=axis).reshape(-1)[0] - np.take(access.offsets, 0, axis=axis).reshape(-1)[0]
        )
        == step
    ]
    return found[-1 if last else 0] if found else None


def _line_of(run: Run, access: Node, step: int, *, last: bool) -> int | None:
    """The line where the offsets along the rows, or along k, of a load's tile were made."""
    axis = _axis_of(access, step, last=last)
    return access.line if axis is None else line_of_axis(run, access, axis)


def _step(run: Run, products: Products, name: str, access: Node, column: str, found: _Fit, along_k: int) -> Observation:
    """How an operand moves on from iteration to iteration."""
    side = products.side(name)
    letter, unit = side.operand.letter, side.operand.unit
    depth = found.depth * unit
    line = _line_of_step(run, products, side) or access.line
    if found.step == 0:  # where the other operand moves on, this one should as well
        other = products.right if side is products.left else products.left
        moves = _line_of_step(run, products, other)
        line = moves if moves is not None and moves > (line or 0) else line
    first, then = (span(_covered(side, products, i)) for i in (0, 1))
    if found.step % along_k == 0 and (found.lane == along_k or found.depth == 1):
        moved = named(run, found.step // along_k * unit)
        text = f"k of {letter} moves by {{0}} from one iteration to the next ({first}, then {then})"
        both = (moved, named(run, depth))
        return Observation(column, f"{name} step", line, text, "{1}", both, program=products.program, iteration=1)
    strides = side.operand.strides
    text = f"the addresses of {letter} move by {{0}} from one iteration to the next"
    numbers = (named(run, found.step), named(run, found.depth), named(run, along_k))
    expected = "{1} * " + f"{strides[1]} (= {along_k})"
    return Observation(column, f"{name} step", line, text, expected, numbers, program=products.program, iteration=1)


def _line_of_step(run: Run, products: Products, side: Side) -> int | None:
    """Where an operand's addresses move on from the first iteration to the second."""
    loads = []
    for iteration in (0, 1):
        at = np.flatnonzero(products.iteration == iteration)
        load = run.load_of(int(side.node[int(at[0])]), side.operand.tensor) if len(at) else None
        if load is None:
            return None
        loads.append(load)
    return line_of_step(run, *loads)


def _covered(side: Side, products: Products, iteration: int) -> Array:
    here = (products.iteration == iteration) & side.asked[0]
    k = side.k[0][here]
    covered: Array = (k[:, None] + np.arange(side.operand.unit)).reshape(-1)
    return covered


def _base(
    run: Run, products: Products, name: str, access: Node, column: str, base: int, along_row: int, along_k: int
) -> Observation | None:
    """Where the tile of an operand begins, along its rows or along k."""
    side = products.side(name)
    letter, unit, rows = side.operand.letter, side.operand.unit, products.rows(side)
    word = "m" if side is products.left else "n"
    if base % along_row == 0 and (base // along_row or along_row > along_k):
        shift = base // along_row
        if not shift:
            return None
        low, high = int(rows.min()), int(rows.max())
        noun = "rows" if word == "m" else "columns"
        text = f"for {noun} {low}:{high + 1} of Y rows {low + shift}:{high + shift + 1} of {letter} are loaded"
        line = line_of_program(run, access, _axis_of(access, along_row, last=True))
        where = "before" if shift < 0 else "after"
        return Observation(
            column, f"{name} rows begin", line, f"{text}, {{0}} {where} their own", f"rows {low}:{high + 1}", (named(run, abs(shift)),),
            program=products.program,
        )  # fmt: skip
    if base % along_k == 0 and base > 0:
        text = f"{letter} begins at k = {{0}}"
        line = _line_of(run, access, along_k, last=False)
        return Observation(
            column, f"{name} k begins", line, text, "k = 0", (named(run, base // along_k * unit),),
            program=products.program,
        )  # fmt: skip
    return None


def line_of_slice(run: Run, access: Node, along_k: int) -> int | None:
    """Where a program's place along k was computed."""
    return line_of_program(run, access, _axis_of(access, along_k, last=False))


def check_steps(run: Run, products: Products) -> list[Observation]:
    """Of operands that meet at the same k, and not at every k once: whether both move on by something else than a tile."""
    told = []
    for name in ("left", "right"):
        side = products.side(name)
        found = _fit_of(run, products, name, None) if side.operand.strides else None
        if found is None:
            continue
        along_row, along_k = (run.problem.scalars[stride] for stride in side.operand.strides)
        if "step" in _deviating(run, products, side, found, along_row, along_k):
            told.append(_coefficient(run, products, name, products.live, "k", found, "step"))
    return [one for one in told if one]


def check_index(run: Run, products: Products) -> list[Observation]:
    """Of an operand whose places another tensor names: whether the element of that tensor is the one that belongs to its partner."""
    side, other = products.left, products.right
    if side.operand.index_of is None:
        return []
    use = products.live
    looked = looked_up(run, side)
    wanted = side.operand.index_of(run.problem, other.offset)
    wrong = use & (looked >= 0) & (looked != wanted)
    short = side.operand.index.removesuffix("_ptr")
    if wrong.any():
        e, p = _first(products, wrong)
        access = run.load_of(int(side.node[p]), side.operand.tensor)
        line = access.line if access else None
        if access is not None:
            loads = behind_index(run, access, side.operand.index)
            line = loads[-1].line if loads else line
        text = f"{short}[{looked[e, p]}] says which columns of {side.operand.letter} meet {element(run, other, e, p)}"
        return [
            Observation(
                "index",
                "element",
                line,
                text,
                f"{short}[{wanted[e, p]}]",
                program=products.program,
                iteration=int(products.iteration[p]),
            )
        ]
    wrong = use & (side.k != other.k) & (looked == wanted)
    if wrong.any():
        e, p = _first(products, wrong)
        access = run.load_of(int(side.node[p]), side.operand.tensor)
        value = int(run.problem.tensors[side.operand.index].reshape(-1)[int(looked[e, p])])
        text = f"with {short}[{looked[e, p]}] = {value}, {element(run, side, e, p)} meets {element(run, other, e, p)}"
        return [
            Observation(
                "index", "use", access.line if access else None, text, f"{side.operand.letter}[{products.m[e]}, {other.k[e, p]}]",
                program=products.program, iteration=int(products.iteration[p]),
            )
        ]  # fmt: skip
    return []


def behind_index(run: Run, access: Node, tensor: str) -> list[Node]:
    """The loads of an index that an access's addresses come from."""
    waiting, seen, found = [access.inputs[0]], set(), []
    while waiting:
        node = run.tape.nodes[waiting.pop()]
        if node.op == "load" and node.tensor == tensor:
            found.append(node)
            continue
        for i in node.inputs:
            if i not in seen:
                seen.add(i)
                waiting.append(i)
    return sorted(found, key=lambda node: node.number)


def looked_up(run: Run, side: Side) -> Array:
    """[E, P]: the element of the operand's index that each address comes from, -1 where it comes from none or from several."""
    found = np.full(side.offset.shape, NONE, dtype=np.int64)
    for number in dict.fromkeys(side.node.tolist()) if side.operand.index else ():
        here = side.node == number
        found[:, here] = _elements_looked_up(run, int(number), side, side.offset[:, here])
    return found


def _elements_looked_up(run: Run, number: int, side: Side, offsets: Array) -> Array:
    """Of which elements of the index the load behind a node made these offsets."""
    none = np.full(offsets.shape, NONE, dtype=np.int64)
    load = run.load_of(number, side.operand.tensor)
    if load is None or load.offsets is None:
        return none
    try:
        origin = run.provenance.origin(load.inputs[0], side.operand.index, masked=False)
    except Untraceable:
        return none
    if origin is None:
        return none
    asked, elements = load.offsets.reshape(-1), offsets_of(np.broadcast_to(origin, load.shape)).reshape(-1)
    places, which = np.unique(asked, return_inverse=True)
    lowest, highest = np.full(len(places), np.iinfo(np.int64).max), np.full(len(places), np.iinfo(np.int64).min)
    np.minimum.at(lowest, which, elements)
    np.maximum.at(highest, which, elements)
    each = np.where(lowest == highest, lowest, NONE)
    at = np.clip(np.searchsorted(places, offsets), 0, len(places) - 1)
    return np.where(places[at] == offsets, each[at], NONE)
