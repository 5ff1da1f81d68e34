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
    unit: how many elements of k lie in one element of the tensor.
    """

    tensor: str
    letter: str
    place: Callable[[Problem, Array], tuple[Array, Array]]
    strides: tuple[str, ...] = ()
    unit: int = 1


@dataclass(frozen=True)
class Scale:
    """A factor of the result. axis: "m" or "n", which index of Y picks its element."""

    tensor: str
    axis: str
    words: str


@dataclass(frozen=True)
class Judgement:
    """How an operand's values deviate. wrong: bool, shaped as the values; the numbers of the first wrong one are words.

    describe(position): (found, expected) of one value. before: what the value should have been a conversion of, shaped
    as the values, which tells the line where it went wrong; None when that cannot be told.
    """

    name: str
    reason: str
    wrong: Array
    describe: Callable[[tuple[int, ...]], tuple[str, str]]
    before: Array | None = None
    rank: int = 0


@dataclass(frozen=True)
class Values:
    """Operand values to be judged, all arrays of one shape.

    value: what the multiplication held. row, k: of the tensor's element that it comes from. partner: the k of the
    other side, which tells which of `unit` elements is meant. target: the row of Y, or its column, that it is for.
    used: for each scale that flowed into it, the element of the scale, -1 for none.
    """

    value: Array
    row: Array
    k: Array
    partner: Array
    target: Array
    used: Mapping[str, Array]


@dataclass(frozen=True)
class Blocks:
    """Pairs that should not meet, all arrays of one shape.

    m, n: the element of Y. left_k: of X. offset: of the right element from its tensor's first; row, k: of W.
    """

    m: Array
    n: Array
    left_k: Array
    offset: Array
    row: Array
    k: Array


@dataclass(frozen=True)
class Rule:
    """A mistaken rule that such pairs follow. aspect: rules of different aspects can hold at once.

    tensor: the one whose load is the line to look at; "" for the operand's own. detail: rules of one name that differ
    in it are different rules. telling: whether right pairs, or another rule, would have looked different here.
    """

    aspect: str
    name: str
    reason: str
    tensor: str = ""
    detail: int = 0
    telling: bool = True


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
    judge_left, judge_right: of operands. scales: the factors of Y besides the operands.
    explain_block: the rules that pairs with wrong partners follow; the most telling first.
    inputs(problem, generator): the same sizes and layouts with values that tell where they come from.
    """

    left: Operand
    right: Operand
    judge_left: Judge
    judge_right: Judge
    inputs: Callable[[Problem, torch.Generator], Problem]
    scales: tuple[Scale, ...] = ()
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
