"""What a lab tells the ledger: where the elements of its operands lie, and what each stage of the product holds.

A lab has its `STAGES` in grader/labs/<id>/stages.py. A lab without them works, and has no ledger.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from grader.model import Problem

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Operand:
    """One side of the product.

    tensor: the pointer parameter. letter: what sentences call it. axes: names of its row and of the summed index.
    place(problem, offsets): rows and k of elements by their offsets from the first; k is the first of `unit` elements.
    strides: names of the integers by which a row, and k, move on; () where there are none.
    unit: how many elements of k lie in one element of the tensor. index: the tensor of numbers that say where its elements are; "".
    """

    tensor: str
    letter: str
    place: Callable[[Problem, Array], tuple[Array, Array]]
    strides: tuple[str, ...] = ()
    unit: int = 1
    index: str = ""


@dataclass(frozen=True)
class Scale:
    """A factor of the result. axis: "m" or "n", which index of Y picks its element.

    at(problem, index, k): where it changes along K, the offset from the tensor's first element of the one that belongs to
    these; k is that of the right operand's element. The judge of the right operand then says which ones were taken
    (`Values.passed`). None: one element for each index, wherever k is.
    """

    tensor: str
    axis: str
    words: str
    at: Callable[[Problem, Array, Array], Array] | None = None


@dataclass(frozen=True)
class Judgement:
    """How an operand's values deviate. wrong: bool, shaped as the values; the numbers of the first wrong one are words.

    describe(position): (found, expected) of one value. before: what the value should have been a conversion of, shaped
    as the values, which tells the line where it went wrong; None when that cannot be told. tensor: the one whose elements
    went wrong, wherever on the way they came in; "" for the operand's own.
    """

    name: str
    reason: str
    wrong: Array
    describe: Callable[[tuple[int, ...]], tuple[str, str]]
    before: Array | None = None
    rank: int = 0
    tensor: str = ""


@dataclass(frozen=True)
class Values:
    """Operand values to be judged, all arrays of one shape.

    value: what the multiplication held. row, k: of the tensor's element that it comes from. partner: the k of the
    other side, which tells which of `unit` elements is meant. meets: whether both sides are of one k, or of one element of
    `unit`. target: the row of Y, or its column, that it is for.
    used: for each scale that flowed into it, and for what is subtracted, the offset of the element, -1 for none, -2 for
    several. factor: what the product is multiplied with on its way to Y; passed: as `used`, of that factor. beside: what
    the partner is multiplied with besides, all in all; beside_used: as `used`, of that.
    """

    value: Array
    row: Array
    k: Array
    partner: Array
    meets: Array
    target: Array
    used: Mapping[str, Array]
    factor: Array
    passed: Mapping[str, Array]
    beside: Array
    beside_used: Mapping[str, Array]


NO_ELEMENT, UNKNOWN_ELEMENT = -1, -2
"""In place of the element of an index that an address comes from."""


@dataclass(frozen=True)
class Blocks:
    """Pairs that should not meet, all arrays of one shape.

    m, n: the element of Y. left_k: of X. left_offset, offset: of the left and the right element from their tensors' first; row, k: of W.
    turn: the number of the multiplication. looked_up: the element of the left operand's index that its address comes from, NO_ELEMENT
    where it comes from none, UNKNOWN_ELEMENT where that is not known.
    """

    m: Array
    n: Array
    left_k: Array
    left_offset: Array
    offset: Array
    row: Array
    k: Array
    turn: Array
    looked_up: Array

    @property
    def any_looked_up(self) -> bool:
        """Whether some addresses may come from the index."""
        return bool((self.looked_up != NO_ELEMENT).any())


@dataclass(frozen=True)
class Rule:
    """A mistaken rule that such pairs follow. aspect: rules of different aspects can hold at once.

    tensor: the one whose load is the line to look at; "" for the operand's own. detail: rules of one name that differ
    in it are different rules. telling: whether right pairs, or another rule, would have looked different here. later: it
    says how places move on from turn to turn, so that the first turn shows nothing of it. last: of several loads of `tensor` it
    is the last one that counts.
    """

    aspect: str
    name: str
    reason: str
    tensor: str = ""
    detail: int = 0
    telling: bool = True
    later: bool = False
    last: bool = False


@dataclass(frozen=True)
class RuleMatches:
    """What pairs follow. asked: the aspects in which they are wrong at all, so that one of its rules should hold."""

    asked: frozenset[str]
    holding: tuple[Rule, ...]


Judge = Callable[[Problem, Values], tuple[Sequence[Judgement], Array]]
"""Returns what is wrong with the values, and the factor by which they differ from the exact ones, shaped as they are."""


@dataclass(frozen=True)
class Stages:
    """One lab's stages.

    needed(problem): bool [N, K], the k that each channel must meet; None: all.
    judge_left, judge_right: of operands. scales: the factors of Y besides the operands. subtracted: a tensor whose elements
    are subtracted from those of the right operand, or, multiplied with sums of the left one, from the result; "": none.
    explain_block: the rules that pairs with wrong partners follow; the most telling first.
    inputs(problem, generator): the same sizes and layouts with values that tell where they come from.
    telling: cases that are looked at before others where they fail, in this order.
    """

    left: Operand
    right: Operand
    judge_left: Judge
    judge_right: Judge
    inputs: Callable[[Problem, torch.Generator], Problem]
    scales: tuple[Scale, ...] = ()
    subtracted: str = ""
    telling: tuple[str, ...] = ("all_tails",)
    needed: Callable[[Problem], Array] | None = None
    explain_block: Callable[[Problem, Blocks], RuleMatches] | None = field(default=None)


def stages_of(lab_id: str) -> Stages | None:
    """The lab's stages, or None."""
    try:
        module = importlib.import_module(f"grader.labs.{lab_id}.stages")
    except ModuleNotFoundError:
        return None
    return module.STAGES  # type: ignore[no-any-return]


def exact(problem: Problem, name: str) -> Array:
    """A tensor as NumPy has it, in its own type."""
    found: Array = problem.tensors[name].cpu().numpy()
    return found


def elements(problem: Problem, name: str, offsets: Array) -> Array:
    """float64: the elements of a tensor at these offsets from its first one, NaN where none lies."""
    tensor = problem.tensors[name]
    span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    memory = torch.full((span,), torch.nan, dtype=torch.float64)
    torch.as_strided(memory, tensor.shape, tensor.stride()).copy_(tensor)
    found: Array = np.where((offsets >= 0) & (offsets < span), memory.numpy()[np.clip(offsets, 0, span - 1)], np.nan)
    return found


def by_strides(tensor: str, row: str, column: str) -> Callable[[Problem, Array], tuple[Array, Array]]:
    """Places of a matrix by its strides: (row, k) of each offset."""

    def place(problem: Problem, offsets: Array) -> tuple[Array, Array]:
        along_row, along_k = problem.scalars[row], problem.scalars[column]
        if along_row >= along_k:
            rows, rest = np.divmod(offsets, along_row)
            return rows, rest // along_k
        k, rest = np.divmod(offsets, along_k)
        return rest // along_row, k

    return place


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
