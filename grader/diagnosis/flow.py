"""How elements of Y came about: backwards from a store to the products, with every factor, cast and sum on the way.

What a program stored in an element of Y is read as  sum over its products of factor * left * right, plus addends.
Where a lab subtracts something from its weights, elements of the left tensor may be summed up beside their products.
Nothing here knows what would be right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from grader.diagnosis.provenance import Array
from grader.diagnosis.tape import CalledLine, Node, called_line


@dataclass(frozen=True, eq=False)
class Factor:
    """What products are multiplied with on their way to Y. values: float64 [E], for each element; node: the factor's.

    lanes: [E, R], of the node, for the R values that became an element of Y there. within: the elements of the source
    tensors in them, as provenance.origin gives them, by tensor.
    """

    line: int | None
    node: int
    lanes: Array
    values: Array
    sources: frozenset[str]
    divides: bool
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

    def within(self, factor: Factor, tensor: str) -> Array | None:
        """[E, C]: the element of a tensor in one of its factors, for each pair; None where the factor has none."""
        origin = factor.within.get(tensor)
        return None if origin is None else np.repeat(origin, self.alive.shape[1] // max(1, origin.shape[1]), axis=1)


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
    value: int
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
