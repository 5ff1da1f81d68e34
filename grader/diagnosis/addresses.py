"""Columns rows and k: which elements of X and W meet for an element of Y, and which should.

A side that deviates is fitted as a combination of its row, the lane along k and the iteration, and the coefficients are
compared with the strides and the depth of a tile. Nothing here knows why a coefficient is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from grader.diagnosis.definition import line_of_axis, line_of_bound, line_of_program, line_of_step
from grader.diagnosis.fit import fit, named
from grader.diagnosis.lookups import check_index
from grader.diagnosis.observation import Observation, span
from grader.diagnosis.provenance import Array
from grader.diagnosis.relation import Products, Run, Side, element, first_of, load_of
from grader.diagnosis.tape import Node


@dataclass(frozen=True)
class _Coefficients:
    """A side's offsets, in elements: row * r + lane * j + step * iteration + base, of the multiplications of one line.

    depth: how many elements along k a tile has. rows_vary, moves: whether there are several rows, and several iterations, to tell by.
    alone: whether the program multiplies in this line alone.
    """

    row: int
    lane: int
    step: int
    base: int
    depth: int
    rows_vary: bool
    moves: bool
    alone: bool


@dataclass(frozen=True, eq=False)
class _Walk:
    """How one side of the products walks through its tensor."""

    run: Run
    products: Products
    name: str

    @property
    def side(self) -> Side:
        return self.products.side(self.name)

    @property
    def strides(self) -> tuple[int, int]:
        """Of a row, and of an element along k."""
        along_row, along_k = (self.run.problem.scalars[name] for name in self.side.operand.strides)
        return along_row, along_k

    @cached_property
    def found(self) -> _Coefficients | None:
        """The coefficients; None where no combination fits, or the tensor has no strides."""
        products, side, unit = self.products, self.side, self.side.operand.unit
        lines = [self.run.tape.nodes[term.node].line for term in products.flow.terms]
        use = np.array([lines[t] == lines[0] for t in products.term], dtype=bool)
        use &= side.asked.all(axis=0) & products.alive.all(axis=0)
        if side.operand.index and use.any():  # each iteration begins where the index says
            use &= products.iteration == products.iteration[use].min()
        if not use.any() or not side.operand.strides:
            return None
        rows, iteration, lanes = products.rows(side), products.iteration[use], products.lane[use] // unit
        made = fit(side.offset[:, use], {"row": rows[:, None], "lane": lanes[None, :], "step": iteration[None, :]})
        if made is None:
            return None
        vary, moves = bool((rows != rows[0]).any()), bool((iteration != iteration[0]).any())
        base = made[""] - (0 if vary else int(rows[0]) * self.strides[0])
        return _Coefficients(
            made["row"], made["lane"], made["step"], base, len(np.unique(lanes)), vary, moves, len(set(lines)) == 1
        )

    @cached_property
    def amiss(self) -> list[str]:
        """Which coefficients are not those of a right kernel: "row", "lane", "step"; "base" where all others are."""
        found = self.found
        if found is None:
            return []
        along_row, along_k = self.strides
        tile = found.depth * along_k
        wrong = [
            name
            for name, deviates in (
                ("row", found.rows_vary and found.row != along_row),
                ("lane", found.depth > 1 and found.lane != along_k),
                ("step", found.moves and found.alone and found.step not in (tile, tile * self.run.config.split_k)),
            )
            if deviates
        ]
        sliced = self.run.config.split_k > 1 or bool(self.side.operand.index)
        begins_right = found.base >= 0 if sliced else found.base == 0
        return wrong or ([] if begins_right or self.side.operand.index else ["base"])

    @property
    def regular(self) -> bool:
        """Whether it walks as a right kernel does: by the tensor's strides, whole tiles at a time."""
        return self.found is not None and not self.amiss

    def observed(self, wrong: Array, column: str) -> list[Observation]:
        """The coefficients that deviate. wrong: bool [E, P], products that show it."""
        _, p = first_of(self.products, wrong)
        access = load_of(self.run, self.side, p)
        makers = {"row": self._row, "lane": self._lane, "step": self._step, "base": self._base}
        found = self.found
        if access is None or found is None:
            return []
        return [one for which in self.amiss if (one := makers[which](access, found, column))]

    def _row(self, access: Node, found: _Coefficients, column: str) -> Observation:
        along = "m" if self.name == "left" else "n"
        text = f"neighbouring rows of the tile of {self.side.operand.letter} (along {along}) are {{0}} apart"
        line = _line_along(self.run, access, found.row, last=True)
        expected = f"{self.side.operand.strides[0]} = {self.strides[0]}"
        return self._told(column, "row", line, text, expected, found.row)

    def _lane(self, access: Node, found: _Coefficients, column: str) -> Observation:
        text = f"neighbours along k in the tile of {self.side.operand.letter} are {{0}} apart"
        line = _line_along(self.run, access, found.lane, last=False)
        expected = f"{self.side.operand.strides[1]} = {self.strides[1]}"
        return self._told(column, "lane", line, text, expected, found.lane)

    def _step(self, access: Node, found: _Coefficients, column: str) -> Observation:
        """How the operand moves on from iteration to iteration."""
        side, along_k, unit = self.side, self.strides[1], self.side.operand.unit
        line = self.line_of_step or access.line
        if found.step == 0:  # where the other operand moves on, this one should as well
            other = _Walk(self.run, self.products, "right" if self.name == "left" else "left").line_of_step
            line = other if other is not None and other > (line or 0) else line
        if found.step % along_k == 0 and (found.lane == along_k or found.depth == 1):
            first, then = (span(self._covered(i)) for i in (0, 1))
            text = f"k of {side.operand.letter} moves by {{0}} from one iteration to the next ({first}, then {then})"
            return self._told(
                column, "step", line, text, "{1}", found.step // along_k * unit, found.depth * unit, iteration=1
            )
        text = f"the addresses of {side.operand.letter} move by {{0}} from one iteration to the next"
        expected = f"{{1}} * {side.operand.strides[1]} (= {along_k})"
        return self._told(column, "step", line, text, expected, found.step, found.depth, iteration=1)

    def _base(self, access: Node, found: _Coefficients, column: str) -> Observation | None:
        """Where the tile begins, along its rows or along k."""
        (along_row, along_k), letter = self.strides, self.side.operand.letter
        if found.base % along_row == 0 and along_row > along_k:
            shift, rows = found.base // along_row, self.products.rows(self.side)
            low, high, noun = int(rows.min()), int(rows.max()), "rows" if self.name == "left" else "columns"
            text = f"for {noun} {low}:{high + 1} of Y rows {low + shift}:{high + shift + 1} of {letter} are loaded, "
            text += f"{{0}} {'before' if shift < 0 else 'after'} their own"
            line = line_of_program(self.run, access, _axis_along(access, along_row, last=True))
            return self._told(column, "rows begin", line, text, f"rows {low}:{high + 1}", abs(shift))
        if found.base % along_k or found.base < 0:
            return None
        line = _line_along(self.run, access, along_k, last=False)
        begin = found.base // along_k * self.side.operand.unit
        return self._told(column, "k begins", line, f"{letter} begins at k = {{0}}", "k = 0", begin)

    def _told(
        self,
        column: str,
        aspect: str,
        line: int | None,
        text: str,
        expected: str,
        *numbers: int,
        iteration: int | None = None,
    ) -> Observation:
        coefficients = tuple(named(self.run, number) for number in numbers)
        program = self.products.program
        return Observation(
            column, f"{self.name} {aspect}", line, text, expected, coefficients, program=program, iteration=iteration
        )

    @property
    def line_of_step(self) -> int | None:
        """Where the addresses move on from the first iteration to the second."""
        loads = []
        for iteration in (0, 1):
            at = np.flatnonzero(self.products.iteration == iteration)
            load = load_of(self.run, self.side, int(at[0])) if len(at) else None
            if load is None:
                return None
            loads.append(load)
        return line_of_step(self.run, *loads)

    def _covered(self, iteration: int) -> Array:
        here = (self.products.iteration == iteration) & self.side.asked[0]
        covered: Array = (self.side.k[0][here][:, None] + np.arange(self.side.operand.unit)).reshape(-1)
        return covered


def check_rows(run: Run, products: Products) -> list[Observation]:
    """Each side's row against the one that belongs to the element of Y."""
    found = []
    for name in ("left", "right"):
        walk = _Walk(run, products, name)
        wrong = (walk.side.row != products.rows(walk.side)[:, None]) & products.live
        if wrong.any():
            found += walk.observed(wrong, "rows") or [_other_row(walk, wrong)]
    return found


def _other_row(walk: _Walk, wrong: Array) -> Observation:
    """The first element of another row that is multiplied, where no coefficient says why."""
    run, products, side = walk.run, walk.products, walk.side
    e, p = first_of(products, wrong)
    access = load_of(run, side, p)
    line = access.line if access else None
    height, own = side.operand.height, products.rows(side)
    if height > 1 and not ((side.row - own[:, None])[wrong] % height).any():  # whole blocks of another row
        inside = products.flow.terms[int(products.term[p])].line or 0
        line = line_of_bound(run.text, inside, "start" if products.iteration[p] == 0 else "stop") or line
    text = f"for Y[{products.m[e]}, {products.n[e]}], {element(run, side, e, p)} is multiplied"
    expected = f"row {own[e]} of {side.operand.letter}"
    return products.seen_at(e, p, "rows", f"{walk.name} place", line, text, expected)


def check_k(run: Run, products: Products) -> list[Observation]:
    """The k of both sides against each other."""
    left, right = products.left, products.right
    unit = right.operand.unit
    wrong = products.live & (left.k // unit != right.k // unit)
    if not wrong.any():
        return []
    if looked := check_index(run, products):
        return looked
    walks = [_Walk(run, products, name) for name in ("left", "right")]
    if all(walk.regular for walk in walks) and (apart := _begin_apart(walks)):
        return [apart]
    blamed = [walk for walk in walks if not walk.regular] or walks
    told = [one for walk in blamed for one in walk.observed(wrong, "k")]
    if told:
        return told
    e, p = first_of(products, wrong)
    access = load_of(run, blamed[0].side, p)
    text = f"for Y[{products.m[e]}, {products.n[e]}], {element(run, left, e, p)} meets {element(run, right, e, p)}"
    return [products.seen_at(e, p, "k", "meet", access.line if access else None, text, "the same k on both sides")]


def _begin_apart(walks: list[_Walk]) -> Observation | None:
    """Slices of K of which one side begins elsewhere than the other."""
    run, products = walks[0].run, walks[0].products
    live = products.live[0]
    if not live.any():
        return None
    begins = [int(walk.side.k[0][live].min()) for walk in walks]
    behind = walks[begins.index(min(begins))]
    access = load_of(run, behind.side, int(np.flatnonzero(live)[0]))
    if begins[0] // products.right.operand.unit == begins[1] // products.right.operand.unit or access is None:
        return None
    text = f"the slice begins with k = {begins[0]} of X and k = {begins[1]} of W"
    line, expected = _line_along(run, access, behind.strides[1], last=False), f"k = {max(begins)} of both"
    return Observation("k", f"{behind.name} slice", line, text, expected, program=products.program)


def check_steps(run: Run, products: Products) -> list[Observation]:
    """Of operands that meet at the same k, and not at every k once: whether both move on by something else than a tile."""
    walks = [_Walk(run, products, name) for name in ("left", "right")]
    return [one for walk in walks if "step" in walk.amiss for one in walk.observed(products.live, "k")]


def line_of_slice(run: Run, products: Products) -> int | None:
    """Where a program's place along k was computed, by the left operand's addresses."""
    walk = _Walk(run, products, "left")
    access = load_of(run, walk.side, 0)
    return line_of_program(run, access, _axis_along(access, walk.strides[1], last=False)) if access else None


def _axis_along(access: Node, step: int, *, last: bool) -> int | None:
    """The axis of a load's tile along which its addresses move by `step`."""
    offsets = access.offsets
    if offsets is None:
        return None
    found = [
        axis
        for axis in range(offsets.ndim)
        if offsets.shape[axis] > 1 and int(np.diff(offsets, axis=axis).reshape(-1)[0]) == step
    ]
    return found[-1 if last else 0] if found else None


def _line_along(run: Run, access: Node, step: int, *, last: bool) -> int | None:
    """The line where the offsets along the rows, or along k, of a load's tile were made."""
    axis = _axis_along(access, step, last=last)
    return access.line if axis is None else line_of_axis(run, access, axis)
