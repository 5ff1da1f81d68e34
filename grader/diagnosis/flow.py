"""How elements of Y came about: backwards from a store to the products, with every factor, cast and sum on the way.

What a program stored in an element of Y is read as  sum over its products of factor * left * right, plus addends: every operation on
the way is passed, multiplied in, added up or given up on. Where a lab subtracts something from its weights, elements of the left
tensor may be summed up beside their products. Nothing here knows what would be right.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from grader.diagnosis.provenance import IDENTITIES, NONE, PRODUCT, Array, Provenance, Untraceable, lanes_before, spread
from grader.diagnosis.tape import MOVES, CalledLine, Node, Tape, called_line

MAX_PAIRS = 1 << 24
DIVISIONS = ("fdiv", "precise_divf", "libdevice div_rn", "libdevice fast_dividef")
SUMS = ("fadd", "add", "fsub", "sub", "fma", "dot")
"""Operations that may add something to a sum."""


@dataclass(frozen=True, eq=False)
class Factor:
    """What products are multiplied with on their way to Y. node: the factor's.

    lanes: [E, R], of the node, for the R values that became an element of Y there. at: the node that multiplies with it. within: the
    elements of the source tensors in them, as provenance.origin gives them, by tensor.
    """

    line: int | None
    node: int
    lanes: Array
    at: int
    within: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Passed:
    """A node between products and Y that was passed, with its lanes and those of its input: [E, R]."""

    node: int
    lanes: Array
    source: int
    source_lanes: Array
    alive: Array


@dataclass(frozen=True, eq=False)
class Multiplied:
    """One side of C pairs for E elements of Y, all [E, C]: `lanes` of a node; values: float64; at: the tensor's elements, as
    provenance.origin gives them; asked: the same without the loads' masks."""

    node: int
    lanes: Array
    values: Array
    at: Array
    asked: Array


@dataclass(frozen=True, eq=False)
class Term:
    """One multiplication's share of E elements of Y: C pairs each.

    factor: float64 [E, C], product of `factors` and signs. lanes: [E, R], of the node's result.
    """

    node: int
    line: CalledLine | None
    op: str
    left: Multiplied
    right: Multiplied
    factor: Array
    factors: tuple[Factor, ...]
    alive: Array
    lanes: Array

    @property
    def place(self) -> tuple[int, int | None] | None:
        """The line of its multiplication and the one that called its function: each call multiplies for itself."""
        return called_line(self.line)

    @property
    def shares(self) -> Array:
        """float64 [E, C]: what each pair adds."""
        found: Array = np.where(self.alive, self.factor * self.left.values * self.right.values, 0.0)
        return found


@dataclass(frozen=True, eq=False)
class Addend:
    """Something that is added to the products and is none: its values [E] and where they come from."""

    line: int | None
    node: int
    values: Array
    sources: frozenset[str]


@dataclass(frozen=True, eq=False)
class Flow:
    """Everything that became of E elements of one store, in the order in which it happened."""

    store: Node
    lanes: Array
    terms: tuple[Term, ...]
    addends: tuple[Addend, ...]
    passed: tuple[Passed, ...]
    stored: Array
    beside: tuple[Term, ...] = ()
    """Elements of the left tensor that are summed up without one of the right: `right` is what they meet instead, or 1."""
    again: frozenset[int] = frozenset()
    """Nodes that sum up and whose sum flows on in two ways, through different factors."""
    doubled: frozenset[int] = frozenset()
    """Nodes that sum up and whose sum flows on in two ways that meet again, so that it counts twice."""

    @property
    def predicted(self) -> Array:
        """What the products, factors and addends add up to: float64 [E]."""
        total = np.zeros(len(self.lanes))
        with np.errstate(all="ignore"):
            for term in (*self.terms, *self.beside):
                total += term.shares.sum(axis=1)
            for addend in self.addends:
                total += addend.values
        return total

    @property
    def size(self) -> Array:
        """What their sizes add up to, which rounding is measured by: float64 [E]."""
        total = np.zeros(len(self.lanes))
        with np.errstate(all="ignore"):
            for term in (*self.terms, *self.beside):
                total += np.abs(term.shares).sum(axis=1)
        return total


def follow(tape: Tape, provenance: Provenance, store: Node, lanes: Array) -> Flow:
    """The flow into the given flat lanes of a store. Raises Untraceable where it cannot be read."""
    return _Walk(tape, provenance).follow(store, lanes)


def with_lost(tape: Tape, provenance: Provenance, flow: Flow, lost: Sequence[Node]) -> Flow:
    """The flow as if products that reach no store had been summed up too, like the last one that does, or lane by lane.

    Their operands can then be looked at. Products of another shape are left out.
    """
    walk = _Walk(tape, provenance)
    dots = [term for term in flow.terms if term.op == "dot"] or flow.terms
    if dots:
        model, lanes = tape.nodes[dots[-1].node], dots[-1].lanes
    else:
        model, lanes = flow.store, flow.lanes[:, None]
    for node in lost:
        if node.op in ("dot", model.op) and node.shape == model.shape:
            walk._product(node, _Path(lanes, np.ones(lanes.shape), (), np.ones(lanes.shape, dtype=bool)))
    terms = tuple(sorted([*flow.terms, *walk.terms], key=lambda term: term.node))
    return replace(flow, terms=terms)


@dataclass(frozen=True, eq=False)
class _Path:
    """What is followed through a node. lanes: [E, R], for the R lanes that become an element of Y; factor: what they are multiplied
    with on the rest of their way, the product of `factors` and signs; alive: where they are taken at all."""

    lanes: Array
    factor: Array
    factors: tuple[Factor, ...]
    alive: Array

    def at(self, lanes: Array, sign: float = 1.0) -> _Path:
        """The same in the lanes of an input."""
        return replace(self, lanes=lanes, factor=self.factor * sign)

    def where(self, taken: Array) -> _Path:
        """Only where this is taken."""
        return replace(self, alive=self.alive & taken)

    def repeated(self, lanes: Array, times: int) -> _Path:
        """Each lane as so many lanes of an input."""
        factor = np.repeat(np.broadcast_to(self.factor, self.lanes.shape), times, axis=1)
        return _Path(lanes, factor, self.factors, np.repeat(self.alive, times, axis=1))


class _Walk:
    def __init__(self, tape: Tape, provenance: Provenance) -> None:
        self.tape, self.provenance = tape, provenance
        self.terms: list[Term] = []
        self.beside: list[Term] = []
        self.addends: list[Addend] = []
        self.passed: list[Passed] = []
        self.again: set[int] = set()
        self.doubled: set[int] = set()
        self.waiting: dict[int, list[_Path]] = {}
        self.order: list[int] = []
        self.pairs = 0

    def follow(self, store: Node, lanes: Array) -> Flow:
        value = store.inputs[0]
        inner, ones = spread(self.tape.nodes[value], store.shape, lanes), np.ones((len(lanes), 1))
        self._later(value, _Path(inner[:, None], ones, (), ones > 0))
        while self.order:
            number = -heapq.heappop(self.order)
            for path in self.waiting.pop(number):
                with np.errstate(all="ignore"):
                    self._step(self.tape.nodes[number], path)
        if self.beside and not self.terms:
            raise Untraceable("nothing of the right tensor")
        stored = self.provenance.values(value).reshape(-1)[inner].astype(np.float64)
        terms = tuple(sorted(self.terms, key=lambda term: term.node))
        passed = tuple(sorted(self.passed, key=lambda step: step.node))
        found = tuple(self.beside), frozenset(self.again), frozenset(self.doubled)
        return Flow(store, lanes, terms, tuple(self.addends), passed, stored, *found)

    def _later(self, number: int, path: _Path) -> None:
        """Goes on with an input when all that uses it has been seen; what is used twice alike counts double."""
        if number not in self.waiting:
            self.waiting[number] = []
            heapq.heappush(self.order, -number)
        entries = self.waiting[number]
        for at, known in enumerate(entries):
            if np.array_equal(known.lanes, path.lanes) and np.array_equal(known.alive, path.alive):
                if known.factor.any() and path.factor.any():  # what is multiplied by zero is not counted
                    self._note_again(number, known.factors, path.factors)
                trail = max(known.factors, path.factors, key=len)
                entries[at] = replace(known, factor=known.factor + path.factor, factors=trail)
                return
        entries.append(path)

    def _note_again(self, number: int, trail: tuple[Factor, ...], factors: tuple[Factor, ...]) -> None:
        if self.tape.nodes[number].op in SUMS and self.provenance.carries(number):
            alike = {one.at for one in trail} == {one.at for one in factors}
            (self.doubled if alike else self.again).add(number)

    def _values(self, number: int, lanes: Array) -> Array:
        values = self.provenance.values(number).reshape(-1)
        return values[lanes].astype(np.float64)

    def _step(self, node: Node, path: _Path) -> None:
        if not self.provenance.carries(node.number):
            sources = self.provenance.sources(node.number)
            self._add(node.line, node.number, self._values(node.number, path.lanes), path, sources)
        elif self.provenance.is_product(node) or self._meets_others(node):
            self._product(node, path)
        elif node.op == "load":
            self._alone(node, path)
        elif node.op in MOVES:
            for source, before, here in lanes_before(self.provenance, node, path.lanes):
                self._later(source, path.at(before).where(here))
        elif node.op == "reduce" and self._sums(node):
            self._reduce(node, path)
        elif node.op in ("reduce", "scan", "dot"):
            raise Untraceable(node.op, node.line)
        else:
            self._computed(node, path)

    def _add(self, line: int | None, number: int, values: Array, path: _Path, sources: frozenset[str]) -> None:
        """Something that is added and is no product, unless it is 0."""
        share = np.where(path.alive, values * path.factor, 0.0).sum(axis=1)
        if (share != 0).any():
            if "?" in sources:
                raise Untraceable(self.tape.nodes[number].op, line)
            self.addends.append(Addend(line, number, share, sources))

    def _computed(self, node: Node, path: _Path) -> None:
        """An operation on one element of each input."""
        inputs = [(i, spread(self.tape.nodes[i], node.shape, path.lanes)) for i in node.inputs]
        holding = [self.provenance.carries(i) for i in node.inputs]
        if node.op in IDENTITIES:
            self._pass(node, *inputs[0], path)
        elif node.op in ("fadd", "add", "fsub", "sub"):
            for (i, before), sign in zip(inputs, (1.0, -1.0 if "sub" in node.op else 1.0), strict=False):
                self._pass(node, i, before, path, sign)
        elif node.op in ("fmul", "mul") and sum(holding) == 1:
            self._factor(node, inputs[holding.index(True)], inputs[holding.index(False)], path)
        elif node.op in DIVISIONS and holding == [True, False]:
            self._factor(node, inputs[0], inputs[1], path, divides=True)
        elif node.op == "fma" and sum(holding[:2]) <= 1:
            self._fused(node, inputs, holding, path)
        elif node.op == "select":
            condition = self.provenance.values(inputs[0][0]).reshape(-1)[inputs[0][1]].astype(bool)
            self._later(inputs[1][0], path.at(inputs[1][1]).where(condition))
            self._later(inputs[2][0], path.at(inputs[2][1]).where(~condition))
        else:
            self._unchanged(node, inputs, holding, path)

    def _fused(self, node: Node, inputs: Sequence[tuple[int, Array]], holding: Sequence[bool], path: _Path) -> None:
        """a * b + c where a or b carries what is followed, or neither."""
        if any(holding[:2]):
            which = holding.index(True)
            self._factor(node, inputs[which], inputs[1 - which], path)
        else:
            sources = self.provenance.sources(inputs[0][0]) | self.provenance.sources(inputs[1][0])
            self._add(node.line, node.number, self._values(*inputs[0]) * self._values(*inputs[1]), path, sources)
        self._later(inputs[2][0], path.at(inputs[2][1]))

    def _pass(self, node: Node, source: int, before: Array, path: _Path, sign: float = 1.0) -> None:
        """Goes on with an input, and keeps what became of its values here."""
        self._note(node, source, before, path)
        self._later(source, path.at(before, sign))

    def _note(self, node: Node, source: int, before: Array, path: _Path) -> None:
        if self.provenance.carries(source):
            self.passed.append(Passed(node.number, path.lanes, source, before, path.alive))

    def _factor(
        self, node: Node, carried: tuple[int, Array], other: tuple[int, Array], path: _Path, *, divides: bool = False
    ) -> None:
        values, sources = self._values(*other), self.provenance.sources(other[0])
        if "?" in sources:
            raise Untraceable("a factor of unknown origin")
        places = np.broadcast_to(other[1], path.lanes.shape)
        within = {tensor: self.provenance.origin_at(other[0], places, tensor) for tensor in sources}
        made = Factor(node.line, other[0], places, node.number, within)
        self._note(node, *carried, path)
        factor = path.factor * (1.0 / values if divides else values)
        self._later(carried[0], _Path(carried[1], factor, (*path.factors, made), path.alive))

    def _unchanged(self, node: Node, inputs: Sequence[tuple[int, Array]], holding: Sequence[bool], path: _Path) -> None:
        """An operation that is not known is passed where it changed no value."""
        after = self._values(node.number, path.lanes)
        for (i, before), holds in zip(inputs, holding, strict=True):
            if holds and np.array_equal(self._values(i, before)[path.alive], after[path.alive], equal_nan=True):
                self._later(i, path.at(before))
                return
        raise Untraceable(node.op, node.line)

    def _reduce(self, node: Node, path: _Path) -> None:
        source, axis = self.tape.nodes[node.inputs[0]], node.attribute[1]
        numbers = np.arange(source.size).reshape(source.shape)
        lined = (
            numbers.reshape(1, -1) if axis is None else np.moveaxis(numbers, axis, -1).reshape(-1, source.shape[axis])
        )
        length = lined.shape[1]
        self._count(path.lanes.size * length)
        before = lined[path.lanes].reshape(len(path.lanes), -1)
        longer = path.repeated(before, length)
        if self.provenance.carries(source.number):
            self.passed.append(Passed(node.number, path.lanes, source.number, before, longer.alive))
        self._later(source.number, longer)

    def _sums(self, node: Node) -> bool:
        """Whether a reduction is a sum, by its name or, of a function of the student's own, by what it made of its input."""
        kind, axis = node.attribute
        if kind != "other":
            return bool(kind == "sum")
        values = self.provenance.values(node.inputs[0]).astype(np.float64)
        exact, size = values.sum(axis=axis), np.abs(values).sum(axis=axis)
        made = self.provenance.values(node.number).astype(np.float64).reshape(exact.shape)
        return len(node.inputs) == 1 and bool((np.abs(made - exact) <= 1e-5 * size).all()) and bool((size > 0).any())

    def _meets_others(self, node: Node) -> bool:
        """A product of matrices of which the left tensor is one, and something else than the right one the other."""
        first, second = node.inputs[:2] if node.op == "dot" else (node.number, node.number)
        products = PRODUCT in self.provenance.sources(first) | self.provenance.sources(second)
        return self.provenance.carries(first) != self.provenance.carries(second) and not products

    def _alone(self, node: Node, path: _Path) -> None:
        """Elements of the left tensor as they were loaded."""
        own = self._multiplied(node.number, path.lanes, self.provenance.left)
        nothing = np.full(path.lanes.shape, NONE, dtype=np.int64)
        one = Multiplied(node.number, path.lanes, np.ones(path.lanes.shape), nothing, nothing)
        each = path.repeated(path.lanes, 1)
        self.beside.append(
            Term(node.number, node.line, node.op, own, one, each.factor, path.factors, path.alive, path.lanes)
        )

    def _count(self, pairs: int) -> None:
        self.pairs += pairs
        if self.pairs > MAX_PAIRS:
            raise Untraceable("a product too large to follow")

    def _product(self, node: Node, path: _Path) -> None:
        (first, second), lanes, depth = node.inputs[:2], path.lanes, 1
        if node.op == "dot":
            rows, columns, depth = node.shape[-2], node.shape[-1], self.tape.nodes[first].shape[-1]
            batch, row, column = lanes // (rows * columns), lanes // columns % rows, lanes % columns
            self._count(lanes.size * depth)
            k = np.arange(depth)
            one = ((batch * rows + row)[..., None] * depth + k).reshape(len(lanes), -1)
            other = ((batch[..., None] * depth + k) * columns + column[..., None]).reshape(len(lanes), -1)
        else:
            one, other = (spread(self.tape.nodes[i], node.shape, lanes) for i in (first, second))
        if node.op in ("dot", "fma") and len(node.inputs) > 2:
            self._pass(node, node.inputs[2], spread(self.tape.nodes[node.inputs[2]], node.shape, lanes), path)
        if self.provenance.left not in self.provenance.sources(first):
            first, second, one, other = second, first, other, one
        left = self._multiplied(first, one, self.provenance.left)
        right = self._multiplied(second, other, self.provenance.right)
        each = path.repeated(lanes, depth)
        terms = self.terms if self.provenance.is_product(node) else self.beside
        terms.append(Term(node.number, node.line, node.op, left, right, each.factor, path.factors, each.alive, lanes))

    def _multiplied(self, number: int, lanes: Array, tensor: str) -> Multiplied:
        at, asked = (self.provenance.origin_at(number, lanes, tensor, masked=masked) for masked in (True, False))
        return Multiplied(number, lanes, self._values(number, lanes), at, asked)
