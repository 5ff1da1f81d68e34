"""Backwards from a store to the products: every operation on the way is passed, multiplied in, added up or given up on."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from grader.diagnosis.flow import Addend, Factor, Flow, Passed, Term
from grader.diagnosis.provenance import IDENTITIES, NONE, PRODUCT, Array, Provenance, Untraceable, lanes_before
from grader.diagnosis.tape import MOVES, Node, Tape

MAX_PAIRS = 1 << 24
SUMS = ("fadd", "add", "fsub", "sub", "fma", "dot")
"""Operations that may add something to a sum."""


def follow(tape: Tape, provenance: Provenance, store: Node, lanes: Array) -> Flow:
    """The flow into the given flat lanes of a store. Raises Untraceable where it cannot be read."""
    return _Walk(tape, provenance).follow(store, lanes)


def with_lost(tape: Tape, provenance: Provenance, flow: Flow, lost: Sequence[Node]) -> Flow:
    """The flow as if products that reach no store had been summed up too, like the last one that does, or lane by lane.

    Their operands can then be looked at. Products of another shape are left out.
    """
    walk = _Walk(tape, provenance)
    walk.waiting, walk.order = {}, []
    kept = [term for term in flow.terms if term.op == "dot"] or flow.terms
    if kept:
        model, lanes = tape.nodes[kept[-1].node], kept[-1].lanes
    else:
        model, lanes = flow.store, flow.lanes[:, None]
    for node in lost:
        if node.op in ("dot", model.op) and node.shape == model.shape:
            walk._product(node, lanes, np.ones(lanes.shape), (), np.ones(lanes.shape, dtype=bool))
    terms = tuple(sorted([*flow.terms, *walk.terms], key=lambda term: term.node))
    return replace(flow, terms=terms)


class _Walk:
    def __init__(self, tape: Tape, provenance: Provenance) -> None:
        self.tape, self.provenance = tape, provenance
        self.terms: list[Term] = []
        self.beside: list[Term] = []
        self.addends: list[Addend] = []
        self.passed: list[Passed] = []
        self.again: set[int] = set()
        self.doubled: set[int] = set()
        self.pairs = 0

    def follow(self, store: Node, lanes: Array) -> Flow:
        value = store.inputs[0]
        inner = self._lanes(value, store.shape, lanes)
        ones = np.ones((len(lanes), 1))
        self.waiting: dict[int, list[Any]] = {}
        self.order: list[int] = []
        self._later(value, inner[:, None], ones, (), ones > 0)
        while self.order:
            number = -heapq.heappop(self.order)
            for entry in self.waiting.pop(number):
                with np.errstate(all="ignore"):
                    self._step(number, *entry)
        if self.beside and not self.terms:
            raise Untraceable("nothing of the right tensor")
        stored = self.provenance.values(value).reshape(-1)[inner].astype(np.float64)
        terms = tuple(sorted(self.terms, key=lambda term: term.node))
        passed = tuple(sorted(self.passed, key=lambda step: step.node))
        found = tuple(self.beside), frozenset(self.again), frozenset(self.doubled)
        return Flow(store, value, lanes, terms, tuple(self.addends), passed, stored, *found)

    def _later(self, number: int, lanes: Array, factor: Array, factors: tuple[Factor, ...], alive: Array) -> None:
        """Goes on with an input when all that uses it has been seen; what is used twice alike counts double."""
        entries = self.waiting.get(number)
        if entries is None:
            entries = self.waiting[number] = []
            heapq.heappush(self.order, -number)
        for at, (known, other, trail, lives) in enumerate(entries):
            if np.array_equal(known, lanes) and np.array_equal(lives, alive):
                self._note_again(number, trail, factors)
                entries[at] = (known, other + factor, max(trail, factors, key=len), lives)
                return
        entries.append((lanes, factor, factors, alive))

    def _note_again(self, number: int, trail: tuple[Factor, ...], factors: tuple[Factor, ...]) -> None:
        node = self.tape.nodes[number]
        if node.op in SUMS and self.provenance.carries(number):
            alike = {one.at for one in trail} == {one.at for one in factors}
            (self.doubled if alike else self.again).add(number)

    def _lanes(self, number: int, shape: tuple[int, ...], lanes: Array) -> Array:
        """Lanes of an input that is broadcast to `shape`."""
        node = self.tape.nodes[number]
        if node.shape == shape:
            return lanes
        if node.size == 1:
            return np.zeros_like(lanes)
        return np.broadcast_to(np.arange(node.size).reshape(node.shape), shape).reshape(-1)[lanes]

    def _values(self, number: int, lanes: Array) -> Array:
        values = self.provenance.values(number).reshape(-1)
        return values[lanes].astype(np.float64)

    def _step(self, number: int, lanes: Array, factor: Array, factors: tuple[Factor, ...], alive: Array) -> None:
        node = self.tape.nodes[number]
        sources = self.provenance.sources(number)
        if not self.provenance.carries(number):
            share = np.where(alive, self._values(number, lanes) * factor, 0.0).sum(axis=1)
            if (share != 0).any():
                if "?" in sources:
                    raise Untraceable(node.op)
                self.addends.append(Addend(node.line, number, share, sources))
        elif self.provenance.is_product(node) or self._meets_others(node):
            self._product(node, lanes, factor, factors, alive)
        elif node.op == "load":
            self._alone(node, lanes, factor, factors, alive)
        elif node.op in MOVES:
            for source, before, here in lanes_before(self.provenance, node, lanes):
                self._later(*(source, before, factor, factors, alive & here))
        elif node.op == "reduce" and self._sums(node):
            self._reduce(node, lanes, factor, factors, alive)
        elif node.op in ("reduce", "scan", "dot"):
            raise Untraceable(node.op)
        else:
            self._computed(node, lanes, factor, factors, alive)

    def _computed(self, node: Node, lanes: Array, factor: Array, factors: tuple[Factor, ...], alive: Array) -> None:
        """An operation on one element of each input."""
        inputs = [(i, self._lanes(i, node.shape, lanes)) for i in node.inputs]
        holding = [self.provenance.carries(i) for i, _ in inputs]
        if node.op in IDENTITIES:
            self._pass(node, lanes, *inputs[0], alive)
            self._later(*(*inputs[0], factor, factors, alive))
        elif node.op in ("fadd", "add", "fsub", "sub"):
            signs = (1.0, -1.0 if "sub" in node.op else 1.0)
            for (i, before), sign in zip(inputs, signs, strict=False):
                self._pass(node, lanes, i, before, alive)
                self._later(*(i, before, factor * sign, factors, alive))
        elif node.op in ("fmul", "mul") and sum(holding) == 1:
            self._factor(node, lanes, inputs[holding.index(True)], inputs[holding.index(False)], factor, factors, alive)
        elif node.op in ("fdiv", "precise_divf", "libdevice div_rn", "libdevice fast_dividef") and holding == [
            True,
            False,
        ]:
            self._factor(node, lanes, inputs[0], inputs[1], factor, factors, alive, divides=True)
        elif node.op == "fma" and sum(holding[:2]) <= 1:
            self._fused(node, lanes, inputs, holding, factor, factors, alive)
        elif node.op == "select":
            condition = self.provenance.values(inputs[0][0]).reshape(-1)[inputs[0][1]].astype(bool)
            self._later(*(*inputs[1], factor, factors, alive & condition))
            self._later(*(*inputs[2], factor, factors, alive & ~condition))
        else:
            self._unchanged(node, lanes, inputs, holding, factor, factors, alive)

    def _fused(self, node: Node, lanes: Array, inputs: Sequence[tuple[int, Array]], holding: Sequence[bool],
               factor: Array, factors: tuple[Factor, ...], alive: Array) -> None:  # fmt: skip
        """a * b + c where a or b carries what is followed, or neither."""
        if any(holding[:2]):
            which = holding.index(True)
            self._factor(node, lanes, inputs[which], inputs[1 - which], factor, factors, alive)
        else:
            share = self._values(*inputs[0]) * self._values(*inputs[1]) * factor
            sources = self.provenance.sources(inputs[0][0]) | self.provenance.sources(inputs[1][0])
            self.addends.append(Addend(node.line, node.number, np.where(alive, share, 0.0).sum(axis=1), sources))
        self._later(*(*inputs[2], factor, factors, alive))

    def _pass(self, node: Node, lanes: Array, source: int, before: Array, alive: Array) -> None:
        if self.provenance.carries(source):
            self.passed.append(Passed(node.number, lanes, source, before, alive))

    def _factor(self, node: Node, lanes: Array, carried: tuple[int, Array], other: tuple[int, Array], factor: Array,
                factors: tuple[Factor, ...], alive: Array, *, divides: bool = False) -> None:  # fmt: skip
        values = self._values(*other)
        sources = self.provenance.sources(other[0])
        if "?" in sources:
            raise Untraceable("a factor of unknown origin")
        each, places = np.broadcast_to(values, lanes.shape), np.broadcast_to(other[1], lanes.shape)
        within = {tensor: self._origin((other[0], places), tensor) for tensor in sources}
        made = Factor(node.line, other[0], places, each[:, 0], sources, divides, node.number, within)
        self._pass(node, lanes, *carried, alive)
        if divides:
            values = 1.0 / values
        self._later(*(*carried, factor * values, (*factors, made), alive))

    def _unchanged(self, node: Node, lanes: Array, inputs: Sequence[tuple[int, Array]], holding: Sequence[bool],
                   factor: Array, factors: tuple[Factor, ...], alive: Array) -> None:  # fmt: skip
        """An operation that the ledger does not know is passed where it changed no value."""
        after = self._values(node.number, lanes)
        for (i, before), holds in zip(inputs, holding, strict=True):
            if holds and np.array_equal(self._values(i, before)[alive], after[alive], equal_nan=True):
                self._later(*(i, before, factor, factors, alive))
                return
        raise Untraceable(node.op)

    def _reduce(self, node: Node, lanes: Array, factor: Array, factors: tuple[Factor, ...], alive: Array) -> None:
        source = self.tape.nodes[node.inputs[0]]
        numbers = np.arange(source.size).reshape(source.shape)
        axis = node.attribute[1]
        lined = (
            numbers.reshape(1, -1) if axis is None else np.moveaxis(numbers, axis, -1).reshape(-1, source.shape[axis])
        )
        length = lined.shape[1]
        self._count(lanes.size * length)
        before = lined[lanes].reshape(len(lanes), -1)
        self._pass(node, lanes, source.number, before, np.repeat(alive, length, axis=1))
        self._later(*(source.number, before, np.repeat(np.broadcast_to(factor, lanes.shape), length, axis=1), factors,
                           np.repeat(alive, length, axis=1)))  # fmt: skip

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

    def _alone(self, node: Node, lanes: Array, factor: Array, factors: tuple[Factor, ...], alive: Array) -> None:
        """Elements of the left tensor as they were loaded."""
        values, nothing = self._values(node.number, lanes), np.full(lanes.shape, NONE, dtype=np.int64)
        origins = [self._origin((node.number, lanes), self.provenance.left, masked=masked) for masked in (True, False)]
        self.beside.append(
            Term(node.number, node.line, node.op, node.number, node.number, values, np.ones(lanes.shape), origins[0], nothing,
                 origins[1], nothing, lanes, lanes, np.broadcast_to(factor, lanes.shape), factors, alive, lanes)
        )  # fmt: skip

    def _count(self, pairs: int) -> None:
        self.pairs += pairs
        if self.pairs > MAX_PAIRS:
            raise Untraceable("a product too large to follow")

    def _product(self, node: Node, lanes: Array, factor: Array, factors: tuple[Factor, ...], alive: Array) -> None:
        first, second = node.inputs[:2]
        if node.op == "dot":
            rows, columns, depth = node.shape[-2], node.shape[-1], self.tape.nodes[first].shape[-1]
            batch, row, column = lanes // (rows * columns), lanes // columns % rows, lanes % columns
            self._count(lanes.size * depth)
            k = np.arange(depth)
            one = ((batch * rows + row)[..., None] * depth + k).reshape(len(lanes), -1)
            other = ((batch[..., None] * depth + k) * columns + column[..., None]).reshape(len(lanes), -1)
            if len(node.inputs) > 2:
                accumulator = node.inputs[2]
                self._pass(node, lanes, accumulator, lanes, alive)
                self._later(*(accumulator, lanes, factor, factors, alive))
        else:
            depth = 1
            one, other = (self._lanes(i, node.shape, lanes) for i in (first, second))
            if node.op == "fma":
                third = self._lanes(node.inputs[2], node.shape, lanes)
                self._pass(node, lanes, node.inputs[2], third, alive)
                self._later(*(node.inputs[2], third, factor, factors, alive))
        swapped = self.provenance.left not in self.provenance.sources(first)
        left, right = ((second, other), (first, one)) if swapped else ((first, one), (second, other))
        terms = self.terms if self.provenance.is_product(node) else self.beside
        terms.append(
            Term(
                node.number, node.line, node.op, left[0], right[0],
                self._values(*left), self._values(*right),
                self._origin(left, self.provenance.left), self._origin(right, self.provenance.right),
                self._origin(left, self.provenance.left, masked=False),
                self._origin(right, self.provenance.right, masked=False),
                left[1], right[1],
                np.repeat(np.broadcast_to(factor, lanes.shape), depth, axis=1), factors,
                np.repeat(alive, depth, axis=1), lanes,
            )
        )  # fmt: skip

    def _origin(self, operand: tuple[int, Array], tensor: str, *, masked: bool = True) -> Array:
        origin = self.provenance.origin(operand[0], tensor, masked=masked)
        if origin is None:
            return np.full(operand[1].shape, NONE, dtype=np.int64)
        return origin.reshape(-1)[operand[1]]
