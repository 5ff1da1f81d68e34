"""What the diagnosis expects of a lab's kernels: where the operands lie in memory, which values they must have, which scales Y has.

A lab defines it as `RELATION` in grader/labs/<id>/relation.py. Without one the lab works, but its wrong kernels are not explained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from grader.labs import optional
from grader.model import Problem

Array = np.ndarray[Any, Any]
Used = Mapping[str, Array]
"""By tensor, the elements that went into an operand's elements: float64, in the shape of the operand."""


@dataclass(frozen=True)
class Held:
    """The values that an operand must have. value: float64. permitted: allowed deviation, beyond rounding to fp16.

    before: the values before they were rounded. bits: the nibbles that they were unpacked from. Both help to find the wrong line; None
    if there are none.
    """

    value: Array
    permitted: Array | float = 0.0
    before: Array | None = None
    bits: Array | None = None


@dataclass(frozen=True)
class Operand:
    """One side of the product.

    tensor: the pointer parameter. letter: its name in sentences ("X").
    place(problem, offsets): (row, k) of the elements at these offsets from the tensor's first element. If an element packs `unit`
        values along K, k is that of the first.
    strides: names of the row stride and the k stride; () if the layout has none.
    held(problem, row, k, used): the values that the product must get for these; used: the elements of the tensor `needs` that the
        kernel combined with them.
    index, index_of(problem, offsets of the other operand): the index tensor that says where this operand's columns begin, and the
        offset of the element in it that belongs to an element of the other operand.
    words(problem, offset): the element as sentences name it, if not by row and k. height: rows per block.
    """

    tensor: str
    letter: str
    place: Callable[[Problem, Array], tuple[Array, Array]]
    held: Callable[[Problem, Array, Array, Used], Held]
    strides: tuple[str, ...] = ()
    unit: int = 1
    needs: str = ""
    index: str = ""
    index_of: Callable[[Problem, Array], Array] | None = None
    words: Callable[[Problem, int], str] | None = None
    height: int = 1

    def offsets(self, problem: Problem, row: Array, k: Array) -> Array:
        """Offsets of the elements (row, k) from the tensor's first element; -1 for those that are not stored."""
        if self.strides:
            along_row, along_k = (problem.scalars[name] for name in self.strides)
            found: Array = row * along_row + k // self.unit * along_k
            return found
        place = np.stack(self.place(problem, np.arange(problem.tensors[self.tensor].numel())), axis=1)
        known = place[:, 0] * (1 << 31) + place[:, 1] // self.unit
        if not len(known):
            return np.full(np.broadcast_shapes(row.shape, k.shape), -1)
        order, asked = np.argsort(known), row * (1 << 31) + k // self.unit
        at = order[np.clip(np.searchsorted(known[order], asked), 0, len(order) - 1)]
        return np.where(known[at] == asked, at, -1)


@dataclass(frozen=True)
class Scale:
    """A tensor whose elements scale products of Y. at(problem, m, n, k): offset of the element that belongs to a product.

    words(problem, offset): the element as sentences name it. numbers(problem, n, k): the values that a kernel may derive from the
    element for a weight (z, z + 1, -z, ...); None: only the element itself.
    """

    tensor: str
    at: Callable[[Problem, Array, Array, Array], Array]
    words: Callable[[Problem, int], str] | None = None
    numbers: Callable[[Problem, int, int], tuple[float, ...]] | None = None


@dataclass(frozen=True)
class Relation:
    """What is expected of a lab's kernels.

    left, right: the operands. scales: the factors of Y.
    inputs(problem, generator): a problem of the same sizes and layouts, whose values reveal which element they come from.
    first: two cases with no size in common. The diagnosis records these first if they fail; the catalogue of mistakes has them.
    needed(problem): bool [N, K], the k that each output channel must sum over; None: all.
    For labs whose kernels may combine the weight in several ways: subtracted: the tensor of zero points. weight(problem): float64
        [N, K], the total factor of an element of X, and the deviation permitted. weight_words(problem, n, k): its formula in words.
    """

    left: Operand
    right: Operand
    scales: tuple[Scale, ...]
    inputs: Callable[[Problem, torch.Generator], Problem]
    first: tuple[str, ...] = ("all_tails", "n_tail")
    needed: Callable[[Problem], Array] | None = None
    subtracted: tuple[Scale, ...] = ()
    weight: Callable[[Problem], Held] | None = None
    weight_words: Callable[[Problem, int, int], str] | None = None


def relation_of(lab_id: str) -> Relation | None:
    """The lab's relation, or None."""
    relation: Relation | None = optional(lab_id, "relation")
    return relation


def exact(problem: Problem, name: str) -> Array:
    """A tensor as a NumPy array of its own dtype."""
    found: Array = problem.tensors[name].cpu().numpy()
    return found


def elements(problem: Problem, name: str, offsets: Array) -> Array:
    """float64: the elements of a tensor at these offsets from its first one; NaN where there is none."""
    tensor = problem.tensors[name]
    span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    memory = torch.full((span,), torch.nan, dtype=torch.float64)
    torch.as_strided(memory, tensor.shape, tensor.stride()).copy_(tensor)
    found: Array = np.where((offsets >= 0) & (offsets < span), memory.numpy()[np.clip(offsets, 0, span - 1)], np.nan)
    return found


def by_strides(row: str, column: str) -> Callable[[Problem, Array], tuple[Array, Array]]:
    """`place` of a strided matrix: the (row, k) of each offset; row -1 between two elements."""

    def place(problem: Problem, offsets: Array) -> tuple[Array, Array]:
        along_row, along_k = problem.scalars[row], problem.scalars[column]
        if along_row >= along_k:
            rows, rest = np.divmod(offsets, along_row)
            k, gap = np.divmod(rest, along_k)
        else:
            k, rest = np.divmod(offsets, along_k)
            rows, gap = np.divmod(rest, along_row)
        return np.where(gap == 0, rows, -1), k

    return place


def fp16_activations() -> Operand:
    """X as it is loaded, by its strides."""

    def held(problem: Problem, m: Array, k: Array, used: Used) -> Held:
        return Held(exact(problem, "x_ptr").astype(np.float64)[m, k])

    strides = ("stride_xm", "stride_xk")
    return Operand("x_ptr", "X", by_strides(*strides), held, strides)


WEIGHT_STRIDES = ("stride_wn", "stride_wk")


def stored_weight(tensor: str) -> Operand:
    """A weight as it is loaded, by its strides; the tensor is [K, N]."""

    def held(problem: Problem, n: Array, k: Array, used: Used) -> Held:
        return Held(exact(problem, tensor).astype(np.float64)[k, n])

    return Operand(tensor, "W", by_strides(*WEIGHT_STRIDES), held, WEIGHT_STRIDES)


def packed_weight(held: Callable[[Problem, Array, Array, Used], Held]) -> Operand:
    """A weight whose word k // 8 of a column holds eight k, as qweight [K / 8, N]."""
    strided = by_strides(*WEIGHT_STRIDES)

    def place(problem: Problem, offsets: Array) -> tuple[Array, Array]:
        n, word = strided(problem, offsets)
        return n, word * 8

    return Operand("qweight_ptr", "W", place, held, WEIGHT_STRIDES, unit=8)


def of_row(problem: Problem, m: Array, n: Array, k: Array) -> Array:
    """The element of a one-dimensional tensor that belongs to a row of Y."""
    found: Array = m + 0 * k
    return found


def of_column(problem: Problem, m: Array, n: Array, k: Array) -> Array:
    """The element of a one-dimensional tensor that belongs to a column of Y."""
    found: Array = n + 0 * k
    return found


def nibble(problem: Problem, n: Array, k: Array) -> Array:
    """int64: the four bits of element k of column n of qweight."""
    found: Array = exact(problem, "qweight_ptr").astype(np.int64)[k // 8, n] >> 4 * (k % 8) & 15
    return found


def refilled(problem: Problem, values: Mapping[str, torch.Tensor]) -> Problem:
    """The problem with new values in the same layouts."""
    tensors = {}
    for name, tensor in problem.tensors.items():
        if name in values:
            fresh = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
            fresh.copy_(values[name])
            tensors[name] = fresh
        else:
            tensors[name] = tensor
    return Problem(tensors=tensors, scalars=problem.scalars)
