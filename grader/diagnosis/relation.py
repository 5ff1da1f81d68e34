"""The relation: of a sample of wrong elements of Y that one program stored, a row for each product that went into them.

Columns: the element of Y, the iteration, row and k of both operands, the values that were multiplied, the factor of the
product on its way to Y and the elements of other tensors in it. What should stand there is grader.labs.expected's to say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from grader.diagnosis.flow import Flow, Multiplied, Term, follow, with_lost
from grader.diagnosis.observation import Observation
from grader.diagnosis.provenance import MIXED, NONE, OFFSET, Array, Provenance, Untraceable, merge, offsets_of
from grader.diagnosis.statements import in_one_loop, one_loop
from grader.diagnosis.stores import places_in_output, recorded_stores
from grader.diagnosis.tape import Node, Stored, Tape
from grader.labs import Lab
from grader.labs.expected import Operand, Relation
from grader.model import Config, Problem

SAMPLE = 9
"""Rows, and columns, of a program's tile that are looked at."""


@dataclass(frozen=True, eq=False)
class Run:
    """One recorded launch. wrong: bool [M, N], where Y is not what it should be, `right`; grid: its programs.

    ended: whether it came to its end; one that broke off shows what its first programs did, and nothing of the whole.
    cut_off: the program that it broke off in, of which something was still to come; None where it did not.
    text: the module whose lines the tape has.
    """

    lab: Lab
    expected: Relation
    problem: Problem
    config: Config
    grid: tuple[int, int, int]
    tape: Tape
    provenance: Provenance
    y: Array
    wrong: Array
    right: Array
    ended: bool = True
    text: str = ""
    cut_off: int | None = None

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.problem.scalars["M"], self.problem.scalars["N"], self.problem.scalars["K"]

    @property
    def strides(self) -> tuple[int, int]:
        """Of Y, in elements."""
        along_m, along_n = (int(stride) for stride in self.problem.tensors[self.lab.output].stride())
        return along_m, along_n

    @cached_property
    def stores(self) -> tuple[Stored, ...]:
        """All stores to the output, of any program."""
        return tuple(one for one in self.tape.stores if one.tensor == self.lab.output)

    @cached_property
    def reaching_output(self) -> set[int]:
        """The nodes that stores to the output were computed with."""
        found = {store.inputs[0] for _, store in recorded_stores(self)}
        for node in reversed(self.tape.nodes):
            if node.number in found:
                found.update(node.inputs)
        return found

    def loads(self, program: int, tensor: str) -> list[Node]:
        """A program's recorded loads from one tensor."""
        return [node for node in self.tape.accesses[program] if node.op == "load" and node.tensor == tensor]

    def load_of(self, number: int, tensor: str) -> Node | None:
        """The load that brought the elements of `tensor` in a node."""
        waiting, seen = [number], set()
        while waiting:
            node = self.tape.nodes[waiting.pop()]
            if node.op == "load" and node.tensor == tensor:
                return node
            fresh = [i for i in node.inputs if i not in seen and tensor in self.provenance.sources(i)]
            seen.update(fresh)
            waiting += fresh
        return None


@dataclass(frozen=True, eq=False)
class Side:
    """One operand's columns, all [E, P]: values held, rows and k in its tensor, whether there is such an element.

    offset: from the tensor's first element, whatever the load's mask says; asked: whether there is an address at all. node: [P],
    the operand of each product; lanes: where in it. lane: [P], the place of each product along k in its multiplication.
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
class Products:
    """E elements of Y (m, n: [E]) of one store of one program, and their P products.

    term: [P], which of flow.terms; iteration: [P], how many multiplications the program made in that line before; lane: [P], the
    place along k within the multiplication. factor: [E, P], what the product is multiplied with on its way. iterates: whether each
    of these multiplications is made once in each iteration of one loop, so that `iteration` numbers those. round: [P], in which
    iteration of that loop it was made, one that an unrolled loop makes several times too; None where there is no such loop.
    """

    program: int
    store: Node
    flow: Flow
    m: Array
    n: Array
    left: Side
    right: Side
    term: Array
    iteration: Array
    lane: Array
    factor: Array
    alive: Array
    iterates: bool
    round: Array | None

    @property
    def when(self) -> Array:
        """[P]: in which iteration of the loop around all, or else how many the program made in that line before."""
        return self.iteration if self.round is None else self.round

    @property
    def live(self) -> Array:
        return self.left.live & self.right.live & self.alive

    @cached_property
    def meets(self) -> Array:
        """bool [E, P]: whether both operands have the same k, of words the same word."""
        found: Array = self.left.k // self.right.operand.unit == self.right.k // self.right.operand.unit
        return found

    def side(self, name: str) -> Side:
        return self.left if name == "left" else self.right

    def other(self, side: Side) -> Side:
        return self.right if side is self.left else self.left

    def seen(
        self, column: str, aspect: str, line: int | None, found: str, expected: str = "", *, p: int = -1, **more: Any
    ) -> Observation:
        """An observation of this program, and of the iteration of one product where there is one."""
        iteration = None if p < 0 or not self.iterates else int(self.iteration[p])
        return Observation(column, aspect, line, found, expected, program=self.program, iteration=iteration, **more)

    def element(self, e: int) -> str:
        """An element of Y in words."""
        return f"Y[{self.m[e]}, {self.n[e]}]"

    def rows(self, side: Side) -> Array:
        """[E]: the row of an operand that belongs to each element of Y."""
        return self.m if side is self.left else self.n


def first_of(products: Products, wrong: Array) -> tuple[int, int]:
    """The first of some products, bool [E, P]: of the earliest iteration, then of the first element."""
    places = np.argwhere(wrong)
    order = np.lexsort((places[:, 1], places[:, 0], products.iteration[places[:, 1]]))
    e, p = places[order[0]]
    return int(e), int(p)


def needed_of(run: Run, n: int) -> Array:
    """bool [K]: the k that a column of Y needs."""
    if run.expected.needed is None:
        return np.ones(run.sizes[2], dtype=bool)
    found: Array = run.expected.needed(run.problem)[n]
    return found


def load_of(run: Run, side: Side, p: int) -> Node | None:
    """The load that brought an operand's elements of one product."""
    return run.load_of(int(side.node[p]), side.operand.tensor)


def loads_of(run: Run, side: Side) -> Iterator[tuple[Node, Array]]:
    """The loads that brought an operand's elements, and of which products, bool [P]; one may stand there several times."""
    for number in dict.fromkeys(side.node.tolist()):
        if load := run.load_of(number, side.operand.tensor):
            yield load, side.node == number


def element(run: Run, side: Side, e: int, p: int) -> str:
    """An operand's element in words."""
    words, offset, letter = side.operand.words, int(side.offset[e, p]), side.operand.letter
    row, k, unit = int(side.row[e, p]), int(side.k[e, p]), side.operand.unit
    if not 0 <= row < 1 << 29:
        own = words(run.problem, offset) if words else f"element {offset} of {side.operand.tensor.removesuffix('_ptr')}"
        return f"{own}, outside {letter}"
    place = f"{letter}[{row}, {k}]" if unit == 1 else f"the word of {letter}[{row}, {k}:{k + unit}]"
    return f"{words(run.problem, offset)} = {place}" if words else place


def sample(run: Run, store: Node, *, wrong_only: bool = True) -> Array:
    """Flat lanes of a store: some rows and some columns of the wrong elements, the first and the last ones among them."""
    m, n, inside = places_in_output(run, store)
    if wrong_only:
        M, N, _ = run.sizes
        inside = inside & run.wrong[np.clip(m, 0, M - 1), np.clip(n, 0, N - 1)]
    at = np.flatnonzero(inside)
    return _some_of(at, m[at], n[at])


def sample_of_tile(store: Node) -> Array:
    """The same of all elements that are stored, wherever they lie, by the rows and columns of the tile."""
    at = np.flatnonzero(store.active)
    return _some_of(at, *(np.unravel_index(at, store.shape) if len(store.shape) == 2 else (at, at)))


def _some_of(at: Array, *axes: Array) -> Array:
    if not len(at):
        return at
    chosen = []
    for values in axes:
        distinct = np.unique(values)
        some = distinct[np.unique(np.linspace(0, len(distinct) - 1, SAMPLE).astype(int))]
        chosen.append(np.isin(values, some))
    both = at[chosen[0] & chosen[1]]
    return both if len(both) else at[:: max(1, len(at) // SAMPLE**2)]


def products_of(run: Run, program: int, store: Node, lanes: Array, *, lost: Sequence[Node] = ()) -> Products:
    """lost: products to be looked at although they reach no store. Raises Untraceable where the flow cannot be followed."""
    flow = follow(run.tape, run.provenance, store, lanes)
    if lost:
        flow = with_lost(run.tape, run.provenance, flow, lost)
    m, n, _ = places_in_output(run, store)
    widths = [term.alive.shape[1] for term in flow.terms]
    terms = np.repeat(np.arange(len(flow.terms)), widths)
    numbered = _iterations(run, program, flow.terms)
    iterations = np.array([numbered[t] for t in terms], dtype=np.int64)
    lane = np.concatenate([np.arange(width) for width in widths]) if widths else np.zeros(0, dtype=np.int64)
    factor, alive = (_joined([getattr(term, name) for term in flow.terms], len(lanes)) for name in ("factor", "alive"))
    sides = _sides(run, flow, m[lanes], n[lanes], iterations)
    iterates = all(place and in_one_loop(run.text, *place, store.line) for place in {term.place for term in flow.terms})
    return Products(
        program,
        store,
        flow,
        m[lanes],
        n[lanes],
        *sides,
        terms,
        iterations,
        lane,
        factor,
        alive > 0,
        iterates,
        iterations if iterates else _rounds(run, program, flow.terms, terms, store),
    )


def replaced(run: Run, products: Products, m: Array, n: Array) -> Products:
    """The products with other places in Y, and their operands' places seen from there."""
    left, right = _sides(run, products.flow, m, n, products.iteration)
    return replace(products, m=m, n=n, left=left, right=right)


def _iterations(run: Run, program: int, terms: Sequence[Term]) -> list[int]:
    """For each multiplication, how many the program made in the same place since the first of these: those too that reach other sums."""
    made, own = defaultdict[Any, set[int]](set), {term.node for term in terms}
    for node in run.provenance.products(run.tape.programs[program]):
        made[node.called_line].add(node.number)
    for term in terms:
        made[term.place].add(term.node)
    numbers = {node: number for nodes in made.values() for number, node in enumerate(sorted(nodes))}
    first = {place: min(nodes & own, default=0) for place, nodes in made.items()}
    return [numbers[term.node] - numbers[first[term.place]] for term in terms]


def _rounds(run: Run, program: int, terms: Sequence[Term], which: Array, store: Node) -> Array | None:
    """[P]: in which iteration of the loop around all multiplications, each maybe made several times. which: [P], of which a product is."""
    found = np.searchsorted(rounds_begun(run, program, terms, store), [term.node for term in terms])
    return (found - found.min())[which] if len(found) and found.min() else None


def rounds_begun(run: Run, program: int, terms: Sequence[Term], store: Node) -> list[int]:
    """The nodes with which each iteration of the loop around all of some multiplications begins; none where there is no one loop."""
    loops = {place and one_loop(run.text, *place, store.line) for place in {term.place for term in terms}}
    loop = loops.pop() if len(loops) == 1 else None
    if loop is None:
        return []
    head, numbers = range(loop.lineno, loop.body[0].lineno), run.tape.programs[program]
    return [i for i in numbers if run.tape.nodes[i].line in head and _begins(run, run.tape.nodes[i])]


def _begins(run: Run, node: Node) -> bool:
    """Whether a node is there once an iteration: a loop's variable, or the test of a `while` that holds."""
    return node.op == "loop_variable" or (node.op == "condition" and bool(run.provenance.values(node.inputs[0]).any()))


def _joined(parts: Sequence[Array], elements: int) -> Array:
    return np.concatenate(parts, axis=1) if parts else np.zeros((elements, 0))


def _sides(run: Run, flow: Flow, m: Array, n: Array, iterations: Array) -> tuple[Side, Side]:
    """Both operands' columns, for elements of Y at m and n."""
    left = _side(run, [term.left for term in flow.terms], run.expected.left, len(m))
    right = _side(run, [term.right for term in flow.terms], run.expected.right, len(n))
    return _beyond(run, (left, m), (right, n), iterations)


def _side(run: Run, parts: Sequence[Multiplied], operand: Operand, count: int) -> Side:
    at, asked, lanes = (
        _joined([getattr(part, name) for part in parts], count).astype(np.int64) for name in ("at", "asked", "lanes")
    )
    addressed = (asked != NONE) & (asked != MIXED)
    offset = np.where(addressed, asked - OFFSET, 0)
    row, k = operand.place(run.problem, offset)
    values = _joined([part.values for part in parts], count)
    node = np.repeat([part.node for part in parts], [part.at.shape[1] for part in parts]).astype(int)
    return Side(operand, values, row, k, (at >= 0) & addressed, offset, addressed, node, lanes)


def _beyond(run: Run, left: tuple[Side, Array], right: tuple[Side, Array], iterations: Array) -> tuple[Side, Side]:
    """Elements behind the end of their row, which memory has in a later one: K and more of the row that belongs to their element of Y,
    where the first iteration was in that row, or both operands are then as far beyond its end. left, right: each with those rows."""
    unit, start = right[0].operand.unit, iterations == 0
    past = [_past_the_end(run, *one, iterations) for one in (left, right)]
    alike = all(one.tail[:, start].all() for one in past) and bool(start.any())
    alike = alike and np.array_equal(past[0].k[:, start] // unit, past[1].k[:, start] // unit)
    found = []
    for (side, wanted), one in zip((left, right), past, strict=True):
        tail = one.tail if one.begins or alike else np.zeros_like(one.tail)
        row = np.where(tail, wanted[:, None], side.row)
        found.append(replace(side, row=row, k=np.where(tail, one.k, side.k)))
    return found[0], found[1]


@dataclass(frozen=True, eq=False)
class _Past:
    """Of an operand's elements, bool and int [E, P]: whether they may lie behind the end of the row that is wanted, and at which k of it.
    begins: whether the first iteration was in the wanted rows."""

    tail: Array
    k: Array
    begins: bool


def _past_the_end(run: Run, side: Side, wanted: Array, iterations: Array) -> _Past:
    K, operand, start = run.sizes[2], side.operand, iterations == 0
    if not operand.strides or not side.offset.size:
        return _Past(np.zeros(side.offset.shape, dtype=bool), side.k, False)
    along_row, along_k = (run.problem.scalars[name] for name in operand.strides)
    k, rest = np.divmod(side.offset - wanted[:, None] * along_row, along_k)
    k = k * operand.unit
    walked = (iterations + 1) * (1 + side.k[:, start].max(initial=0))  # as far as whole tiles lead
    tail = (rest == 0) & (k >= K) & (k < np.maximum(2 * K + 512, walked))
    begins = ((side.row[:, start] == wanted[:, None]) & (side.k[:, start] < K)).any(axis=1).all()
    return _Past(tail, k, bool(begins))


def index_elements(run: Run, side: Side) -> Array:
    """[E, P]: the element of the operand's index that each address comes from, -1 where it comes from none or from several."""
    found = np.full(side.offset.shape, NONE, dtype=np.int64)
    for number in dict.fromkeys(side.node.tolist()) if side.operand.index else ():
        here = side.node == number
        found[:, here] = _elements_of_index(run, int(number), side, side.offset[:, here])
    return found


def _elements_of_index(run: Run, number: int, side: Side, offsets: Array) -> Array:
    """Of which elements of the index the load behind a node made these offsets."""
    none = np.full(offsets.shape, NONE, dtype=np.int64)
    load = run.load_of(number, side.operand.tensor)
    if load is None:
        return none
    try:
        origin = run.provenance.origin(load.inputs[0], side.operand.index, masked=False)
    except Untraceable:
        return none
    asked, elements = load.offsets.reshape(-1), offsets_of(np.broadcast_to(origin, load.shape)).reshape(-1)
    places, which = np.unique(asked, return_inverse=True)
    lowest, highest = np.full(len(places), np.iinfo(np.int64).max), np.full(len(places), np.iinfo(np.int64).min)
    np.minimum.at(lowest, which, elements)
    np.maximum.at(highest, which, elements)
    each = np.where(lowest == highest, lowest, NONE)
    at = np.clip(np.searchsorted(places, offsets), 0, len(places) - 1)
    return np.where(places[at] == offsets, each[at], NONE)


def tensors_beside(run: Run) -> tuple[str, ...]:
    """The tensors whose elements belong to a product besides its two operands: scales, and what is subtracted."""
    return tuple(scale.tensor for scale in (*run.expected.scales, *run.expected.subtracted))


@lru_cache(8)
def held_elements(run: Run, side: Side, *, masked: bool = True) -> Mapping[str, Array]:
    """For each of these that flowed into an operand: the offset of the element that did, [E, P]; -1 for none, -2 for several. masked:
    an element that a mask left out did not."""
    used = {}
    for tensor in tensors_beside(run):
        whole = np.full(side.value.shape, NONE, dtype=np.int64)
        nodes = dict.fromkeys(side.node.tolist())
        for number in nodes:
            here = side.node == number
            whole[:, here] = run.provenance.origin_at(number, side.lanes[:, here], tensor, masked=masked)
        if any(tensor in run.provenance.sources(number) for number in nodes):
            used[tensor] = offsets_of(whole)
    return used


@lru_cache(4)
def factor_elements(run: Run, products: Products) -> Mapping[str, Array]:
    """The same for the factors that the products meet on their way to Y."""
    passed = {}
    for tensor in tensors_beside(run):
        parts = [_of_factors(term, tensor) for term in products.flow.terms]
        known = any(tensor in factor.within for term in products.flow.terms for factor in term.factors)
        if known:
            passed[tensor] = offsets_of(np.concatenate(parts, axis=1))
    return passed


def beside(run: Run, products: Products) -> tuple[Array, Mapping[str, Array]]:
    """[E, K]: what elements of the left tensor are multiplied with beside their partners, and the elements of other tensors in that."""
    shape = (len(products.m), run.sizes[2])
    weight, used = np.zeros(shape), {tensor: np.full(shape, NONE, dtype=np.int64) for tensor in tensors_beside(run)}
    for term in products.flow.beside:
        at = term.left.at
        _, k = products.left.operand.place(run.problem, np.where(at >= 0, at - OFFSET, 0))
        use = (at >= 0) & term.alive & (k < shape[1])
        e, k = np.nonzero(use)[0], k[use]
        np.add.at(weight, (e, k), (term.factor * term.right.values)[use])
        for tensor, known in used.items():
            own = merge(_of_factors(term, tensor), run.provenance.origin_at(term.right.node, term.right.lanes, tensor))
            known[e, k] = merge(known[e, k], own[use])
    return weight, {tensor: offsets_of(found) for tensor, found in used.items() if (found != NONE).any()}


def _of_factors(term: Term, tensor: str) -> Array:
    """Origins in all factors of a term, [E, C]."""
    found = np.full(term.alive.shape, NONE, dtype=np.int64)
    for factor in term.factors:
        if (origin := factor.within.get(tensor)) is not None:
            found = merge(found, np.repeat(origin, term.alive.shape[1] // max(1, origin.shape[1]), axis=1))
    return found


def holder(run: Run, products: Products, side: Side, e: int, p: int, tensor: str) -> tuple[int, int] | None:
    """A node that holds elements of `tensor` for one product, and a lane of it: the operand, or a factor behind or beside it."""
    if tensor in run.provenance.sources(int(side.node[p])):
        return int(side.node[p]), int(side.lanes[e, p])
    own = products.left.offset[e, p] + OFFSET
    for term in (
        products.flow.terms[int(products.term[p])],
        *(one for one in products.flow.beside if own in one.left.asked[e]),
    ):
        if tensor in run.provenance.sources(term.right.node):
            return term.right.node, int(term.right.lanes[e, 0])
        for factor in term.factors:
            if tensor in factor.within:
                return factor.node, int(factor.lanes[e, 0])
    return None
