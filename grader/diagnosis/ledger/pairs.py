"""The products behind a sample of one program's elements of Y, with both operands' places in their tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from grader.diagnosis.ledger.flow import Flow, Term
from grader.diagnosis.ledger.following import follow, with_lost
from grader.diagnosis.ledger.provenance import MIXED, NONE, OFFSET, Array, Provenance, merge, offsets_of
from grader.diagnosis.ledger.tape import Node, Tape
from grader.labs import Lab
from grader.labs.stages import Operand, Stages
from grader.model import Config, Problem

SAMPLE = 9
"""Rows, and columns, of a program's tile that are looked at."""


@dataclass(frozen=True, eq=False)
class Run:
    """One recorded launch. wrong: bool [M, N], where Y is not what it should be; grid: its programs.

    ended: whether it came to its end; one that broke off shows what its first programs did, and nothing of the whole.
    walks: for the lines of a loop that holds another loop, the line where it begins: a program that stores there walks over tiles.
    """

    lab: Lab
    stages: Stages
    problem: Problem
    config: Config
    grid: tuple[int, int, int]
    tape: Tape
    provenance: Provenance
    y: Array
    wrong: Array
    ended: bool = True
    walks: Mapping[int, int] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.problem.scalars["M"], self.problem.scalars["N"], self.problem.scalars["K"]

    def way_to_load(self, number: int, tensor: str) -> Iterator[Node]:
        """The nodes from this one back to where its elements of `tensor` were loaded, that load among them."""
        nodes = self.tape.nodes
        waiting, seen = [number], set()
        while waiting:
            node = nodes[waiting.pop()]
            yield node
            if node.op == "load" and node.tensor == tensor:
                return
            for i in node.inputs:
                if i not in seen and tensor in self.provenance.sources(i):
                    seen.add(i)
                    waiting.append(i)

    def line_of_load(self, number: int, tensor: str) -> int | None:
        """The line where the elements of `tensor` in a node were loaded."""
        return next((node.line for node in self.way_to_load(number, tensor) if node.op == "load" and node.tensor == tensor), None)


@dataclass(frozen=True, eq=False)
class Side:
    """One operand's elements, all [E, P]: held values, rows and k in its tensor, whether there is such an element.

    offset: from the tensor's first element, whatever the load's mask says; asked: whether there is an address at all.
    """

    operand: Operand
    value: Array
    row: Array
    k: Array
    live: Array
    offset: Array
    asked: Array
    node: Array
    lanes: Array


@dataclass(frozen=True, eq=False)
class Beside:
    """What elements of the left tensor are multiplied with beside their partners, for each element of Y and k: [E, K].

    used: the elements of other tensors that this comes from, by tensor: offsets, -1 for none, -2 for several.
    """

    weight: Array
    used: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Pairs:
    """E elements of Y (m, n: [E]) of one store of one program, and their P products.

    turn: [P], the number of the multiplication in the program's order; term: [P], which of flow.terms.
    factor: [E, P], what the product is multiplied with on its way.
    """

    program: int
    store: Node
    flow: Flow
    m: Array
    n: Array
    left: Side
    right: Side
    turn: Array
    term: Array
    factor: Array
    alive: Array

    @property
    def live(self) -> Array:
        return self.left.live & self.right.live & self.alive


def stores_to_output(run: Run, program: int) -> list[Node]:
    """The program's recorded stores and atomics into Y."""
    return [n for n in run.tape.accesses[program] if n.op != "load" and n.tensor == run.lab.output]


def lasting(stores: Sequence[Node]) -> list[Node]:
    """Those whose elements the program does not overwrite later, and atomics."""
    kept: list[Node] = []
    for number, store in enumerate(stores):
        again = any(_overlaps(store, later) for later in stores[number + 1 :] if later.op == "store")
        if store.op != "store" or not again:
            kept.append(store)
    return kept


def in_parts(stores: Sequence[Node]) -> bool:
    """Whether the program adds to the same elements of Y several times."""
    return any(_overlaps(a, b) for n, a in enumerate(stores) for b in stores[n + 1 :] if a.op != "store" and b.op != "store")


def read_back(run: Run, program: int, stores: Sequence[Node]) -> bool:
    """Whether the program loads elements of Y that it stored itself before."""
    loads = [node for node in run.tape.accesses[program] if node.op == "load" and node.tensor == run.lab.output]
    return any(store.number < load.number and _overlaps(store, load) for load in loads for store in stores)


def _overlaps(a: Node, b: Node) -> bool:
    if a.offsets is None or b.offsets is None or a.active is None or b.active is None:
        return False
    return bool(np.isin(a.offsets[a.active][:64], b.offsets[b.active]).any())


def places_in_output(run: Run, store: Node) -> tuple[Array, Array, Array]:
    """m, n (flat, for each lane) and whether the lane is active and lies in Y."""
    assert store.offsets is not None
    assert store.active is not None
    y = run.problem.tensors[run.lab.output]
    along_m, along_n = (int(stride) for stride in y.stride())
    offsets = store.offsets.reshape(-1)
    regular = _regular_places(store, (along_m, along_n))
    if regular is not None:
        m, n = regular
        inside = (m >= 0) & (m < y.shape[0]) & (n >= 0) & (n < y.shape[1]) & store.active.reshape(-1)
        return m, n, inside
    if along_m >= along_n:
        m, rest = np.divmod(offsets, along_m)
        n = rest // along_n
    else:
        n, rest = np.divmod(offsets, along_n)
        m = rest // along_m
    inside = (m >= 0) & (m < y.shape[0]) & (n >= 0) & (n < y.shape[1]) & store.active.reshape(-1)
    return m, n, inside


def _regular_places(store: Node, strides: tuple[int, int]) -> tuple[Array, Array] | None:
    """m and n by steps from the store's corner, which tells the column after a row's last from the next row's first."""
    axes = store_axes(store, strides)
    if axes is None:
        return None
    assert store.offsets is not None
    corner = int(store.offsets.reshape(-1)[0])
    wide = 0 if strides[0] >= strides[1] else 1
    first, rest = divmod(corner, strides[wide])
    start = [0, 0]
    start[wide], start[1 - wide] = first, rest // strides[1 - wide]
    numbers = np.indices(store.shape)
    m = start[0] + (0 if axes[0] is None else numbers[axes[0]])
    n = start[1] + (0 if axes[1] is None else numbers[axes[1]])
    return (np.broadcast_to(m, store.shape).reshape(-1), np.broadcast_to(n, store.shape).reshape(-1))


def store_axes(store: Node, strides: tuple[int, int]) -> tuple[int | None, int | None] | None:
    """The axes of a store along which m and n run; None where the addresses do not follow Y's strides."""
    assert store.offsets is not None
    axes: list[int | None] = [None, None]
    expected: Array = np.full(store.shape, store.offsets.reshape(-1)[0])
    for axis, length in enumerate(store.shape):
        if length == 1:
            continue
        step = int(np.take(store.offsets, 1, axis=axis).reshape(-1)[0] - np.take(store.offsets, 0, axis=axis).reshape(-1)[0])
        which = next((d for d in (1, 0) if strides[d] == step and axes[d] is None), None)
        if which is None:
            return None
        axes[which] = axis
        shape = [1] * store.offsets.ndim
        shape[axis] = length
        expected = expected + (np.arange(length) * step).reshape(shape)
    return (axes[0], axes[1]) if np.array_equal(expected, store.offsets) else None


def sample(run: Run, store: Node, *, wrong_only: bool = True) -> Array:
    """Flat lanes of a store: some rows and some columns of the wrong elements, the first and the last ones among them."""
    m, n, inside = places_in_output(run, store)
    if wrong_only:
        M, N, _ = run.sizes
        inside = inside & run.wrong[np.clip(m, 0, M - 1), np.clip(n, 0, N - 1)]
    at = np.flatnonzero(inside)
    if not len(at):
        return at
    chosen = []
    for values in (m[at], n[at]):
        distinct = np.unique(values)
        some = distinct[np.unique(np.linspace(0, len(distinct) - 1, SAMPLE).astype(int))]
        chosen.append(np.isin(values, some))
    both = at[chosen[0] & chosen[1]]
    return both if len(both) else at[:: max(1, len(at) // SAMPLE**2)]


def pairs_of(run: Run, program: int, store: Node, lanes: Array, *, lost: Sequence[Node] = ()) -> Pairs:
    """lost: products to be looked at although they reach no store. Raises Lost where the flow cannot be followed."""
    flow = follow(run.tape, run.provenance, store, lanes)
    if lost:
        flow = with_lost(run.tape, run.provenance, flow, lost)
    m, n, _ = places_in_output(run, store)
    order = {number: turn for turn, number in enumerate(sorted({term.node for term in flow.terms}))}
    widths = [term.left.shape[1] for term in flow.terms]
    terms = np.repeat(np.arange(len(flow.terms)), widths)
    turns = np.array([order[flow.terms[t].node] for t in terms], dtype=np.int64)
    return Pairs(
        program, store, flow, m[lanes], n[lanes],
        _side(run, flow, run.stages.left, "left", m[lanes], turns), _side(run, flow, run.stages.right, "right", n[lanes], turns),
        turns, terms, _joined(flow, "factor", len(lanes)), _joined(flow, "alive", len(lanes)) > 0,
    )  # fmt: skip


def _joined(flow: Flow, name: str, elements: int) -> Array:
    if not flow.terms:
        return np.zeros((elements, 0))
    return np.concatenate([getattr(term, name) for term in flow.terms], axis=1)


def _side(run: Run, flow: Flow, operand: Operand, name: str, wanted: Array, turns: Array) -> Side:
    elements = len(flow.lanes)
    at = _joined(flow, f"{name}_at", elements).astype(np.int64)
    asked = _joined(flow, f"{name}_asked", elements).astype(np.int64)
    addressed = (asked != NONE) & (asked != MIXED)
    offset = np.where(addressed, asked - OFFSET, 0)
    row, k = operand.place(run.problem, offset)
    row, k = _beyond(run, operand, offset, row, k, wanted[:, None], turns)
    nodes = [np.full(term.left.shape[1], getattr(term, f"{name}_node")) for term in flow.terms]
    return Side(
        operand, _joined(flow, name, elements), row, k, (at >= 0) & addressed, offset, addressed,
        np.concatenate(nodes) if nodes else np.zeros(0, dtype=int), _joined(flow, f"{name}_lanes", elements).astype(int),
    )  # fmt: skip


def _beyond(run: Run, operand: Operand, offset: Array, row: Array, k: Array, wanted: Array, turns: Array) -> tuple[Array, Array]:
    """Elements behind the end of their row, which memory has in the next one: K and more of the row that the first turn was in."""
    K = run.sizes[2]
    if not operand.strides or not offset.size or ((row == wanted) & (k < K)).all():
        return row, k
    along_row, along_k = (run.problem.scalars[name] for name in operand.strides)
    alternative, rest = np.divmod(offset - wanted * along_row, along_k)
    alternative = alternative * operand.unit
    new_row, new_k = row.copy(), k.copy()
    start = turns == 0
    if (row[:, start] == wanted).all() and (rest == 0).all():
        astray = (row != wanted) & (alternative >= 0)  # it began in the right rows, so it left them along k
        new_row, new_k = np.where(astray, wanted, row), np.where(astray, alternative, k)
    for turn in range(int(turns.max()) + 1):
        here = turns == turn
        inside = (row[:, here] == wanted) & (k[:, here] < K)
        last = np.where(inside, k[:, here], -1).max(axis=1, keepdims=True)
        behind = (~inside & (rest[:, here] == 0) & (alternative[:, here] >= K) & (alternative[:, here] - last <= here.sum())
                  & (last >= 0) & (last >= K - operand.unit))
        new_row[:, here] = np.where(behind, wanted, new_row[:, here])
        new_k[:, here] = np.where(behind, alternative[:, here], new_k[:, here])
    return new_row, new_k


def with_weights(run: Run) -> tuple[str, ...]:
    """The tensors whose elements belong to a weight besides its own: scales, and what is subtracted."""
    return (*(scale.tensor for scale in run.stages.scales), *([run.stages.subtracted] if run.stages.subtracted else []))


def scales_used(run: Run, side: Side) -> Mapping[str, Array]:
    """For each of these that flowed into an operand: the offset of the element that did, [E, P]; -1 for none, -2 for several."""
    used = {}
    for tensor in with_weights(run):
        whole = np.full(side.value.shape, NONE, dtype=np.int64)
        nodes = dict.fromkeys(side.node.tolist())
        for number in nodes:
            here = side.node == number
            whole[:, here] = _at_lanes(run, number, side.lanes[:, here], tensor)
        if any(tensor in run.provenance.sources(number) for number in nodes):
            used[tensor] = offsets_of(whole)
    return used


def scales_passed(run: Run, pairs: Pairs) -> Mapping[str, Array]:
    """The same for the factors that the products meet on their way to Y."""
    passed = {}
    for tensor in with_weights(run):
        parts = [_of_factors(term, tensor) for term in pairs.flow.terms]
        if any((part != NONE).any() for part in parts):
            passed[tensor] = offsets_of(np.concatenate(parts, axis=1))
    return passed


def beside(run: Run, pairs: Pairs) -> Beside:
    """What is made of elements of the left tensor that are summed up without their partners."""
    shape = (len(pairs.m), run.sizes[2])
    weight, used = np.zeros(shape), {tensor: np.full(shape, NONE, dtype=np.int64) for tensor in with_weights(run)}
    for term in pairs.flow.beside:
        at = term.left_at
        _, k = pairs.left.operand.place(run.problem, np.where(at >= 0, at - OFFSET, 0))
        use = (at >= 0) & term.alive & (k < shape[1])
        e, k = np.nonzero(use)[0], k[use]
        np.add.at(weight, (e, k), (term.factor * term.right)[use])
        for tensor, known in used.items():
            own = merge(_of_factors(term, tensor), _at_lanes(run, term.right_node, term.right_lanes, tensor))
            known[e, k] = merge(known[e, k], own[use])
    return Beside(weight, {tensor: offsets_of(found) for tensor, found in used.items() if (found != NONE).any()})


def _at_lanes(run: Run, number: int, lanes: Array, tensor: str) -> Array:
    """Origins in a node, shaped as the lanes."""
    origin = run.provenance.origin(number, tensor)
    return np.full(lanes.shape, NONE, dtype=np.int64) if origin is None else origin.reshape(-1)[lanes]


def _of_factors(term: Term, tensor: str) -> Array:
    """Origins in all factors of a term, [E, C]."""
    found = np.full(term.left.shape, NONE, dtype=np.int64)
    for factor in term.factors:
        within = term.within(factor, tensor)
        found = found if within is None else merge(found, within)
    return found


def holder(run: Run, pairs: Pairs, side: Side, e: int, p: int, tensor: str) -> tuple[int, int] | None:
    """A node that holds elements of `tensor` for one pair, and a lane of it: the operand, or a factor behind or beside it."""
    if tensor in run.provenance.sources(int(side.node[p])):
        return int(side.node[p]), int(side.lanes[e, p])
    for term in (pairs.flow.terms[int(pairs.term[p])], *pairs.flow.beside):
        if tensor in run.provenance.sources(term.right_node):
            return term.right_node, int(term.right_lanes[e, 0])
        for factor in term.factors:
            if tensor in factor.sources:
                return factor.node, int(factor.lanes[e, 0])
    return None


def expected_rows(pairs: Pairs, side: Side) -> Array:
    """[E, 1]: the row of an operand that belongs to each element of Y."""
    return (pairs.m if side is pairs.left else pairs.n)[:, None]


def k_in_order(pairs: Pairs, side: Side) -> Array:
    """[E, P]: k of a side; of a word, which holds several, the first k for the first pair that it is in, the next for the next."""
    unit = side.operand.unit
    if unit == 1 or not side.k.size:
        return side.k
    order = np.argsort(side.k, axis=1, kind="stable")
    ordered, places = np.take_along_axis(side.k, order, axis=1), np.arange(side.k.shape[1])
    fresh = np.diff(ordered, axis=1, prepend=-1) != 0
    since = places - np.maximum.accumulate(np.where(fresh, places, 0), axis=1)
    k: Array = side.k.copy()
    np.put_along_axis(k, order, ordered + since % unit, axis=1)
    return k


def side_words(side: Side, pairs: Pairs) -> str:
    """Which operand, in the words of sentences."""
    return "left" if side is pairs.left else "right"


def hull(numbers: Array) -> str:
    """The range from the first to the last of a sample of numbers."""
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low}:{high + 1}" if high > low else f"{low}"


def span(numbers: Array, letter: str = "") -> str:
    """Numbers as a slice where they are one, else the first few."""
    distinct = np.unique(numbers)
    if not len(distinct):
        return "none"
    low, high = int(distinct[0]), int(distinct[-1])
    if high - low + 1 == len(distinct):
        return f"{letter}{low}:{high + 1}" if high > low else f"{letter}{low}"
    steps = np.unique(np.diff(distinct))
    if len(steps) == 1:
        return f"{letter}{low}:{high + 1}:{int(steps[0])}"
    ends = np.flatnonzero(np.diff(distinct) != 1)
    runs = [(int(a), int(b)) for a, b in zip(distinct[[0, *(ends + 1)]], distinct[[*ends, -1]], strict=True)]
    words = [f"{a}:{b + 1}" if b > a else str(a) for a, b in runs[:4]]
    return ", ".join(words) + (", ..." if len(runs) > 4 else "")
