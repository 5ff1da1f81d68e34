"""What a known mistake is: a name, words for the student, and the output that a kernel with it would have stored.

A lab lists its mistakes in `mistakes.py`; adding one takes about ten lines: compute the operands (or the output)
as the mistaken kernel sees them, and wrap them with `product` (or `Imitation`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from grader.labs.bound import FP16_UNDERFLOW, U_FP16, U_FP32, additions
from grader.labs.guarded import guard
from grader.model import Config, Problem

UNWRITTEN = "unwritten_or_stale"
"""What an output of NaN throughout is taken for, unless each of its elements is known to have been stored."""
TILES = (16, 32, 64, 128, 256)
TILE_NAMES = {
    "M": ("BLOCK_M", "BLOCK_SIZE_M", "BM", "TILE_M", "BLOCK_SIZE_ROW"),
    "N": ("BLOCK_N", "BLOCK_SIZE_N", "BN", "TILE_N", "BLOCK_SIZE_COL"),
    "K": ("BLOCK_K", "BLOCK_SIZE_K", "BK", "TILE_K"),
}


@dataclass(frozen=True)
class Imitation:
    """What a mistaken kernel would have stored.

    y: float64 [M, N], NaN where it stores NaN or nothing. bound: float64 [M, N] or broadcastable, how far from y
    the kernel's rounding may take it. overrun: whether it also writes outside the elements of Y. loose: only the
    size of the error is known, so that y is the right output itself. overflown: its NaN are sums of infinities, and
    nothing that was read outside the tensors. reads: the one tensor that such NaN were read outside, "" where it may be any.
    """

    y: torch.Tensor
    bound: torch.Tensor
    overrun: bool = False
    loose: bool = False
    overflown: bool = False
    reads: str = ""


@dataclass(frozen=True)
class Mistake:
    """One class of mistakes.

    what: completes "the output matches ...". hint: points at the place to look without giving the code.
    imitate(problem, config): outputs of kernels with this mistake, none where it would not show.
    witness(problem, config): one input element and what the mistake makes of it, or "".
    """

    name: str
    what: str
    hint: str
    imitate: Callable[[Problem, Config], Iterable[Imitation]]
    witness: Callable[[Problem, Config], str] | None = None


def tiles(config: Config, axis: str) -> tuple[int, ...]:
    """The tile size along "M", "N" or "K" where the config has it under a usual name, else the usual sizes."""
    for name in TILE_NAMES[axis]:
        value = config.constants.get(name)
        if isinstance(value, int) and value > 0:
            return (value,)
    return TILES


def product(a: torch.Tensor, w: torch.Tensor, *, slack: torch.Tensor | None = None, rounded: bool = False) -> Imitation:
    """The output A W^T with the rounding of an fp32 or int32 accumulator.

    a: float64 [M, K]; w: float64 [N, K]; slack: float64 [M, K], how far an element of `a` may be off (ties).
    rounded: elements of w may have been rounded to fp16 first.
    """
    y = a @ w.t()
    magnitude = a.abs() @ w.abs().t()
    share = additions(a.shape[1]) * U_FP32 + (U_FP16 if rounded else 0.0)
    bound = U_FP16 * y.abs() + share * magnitude + FP16_UNDERFLOW
    if slack is not None:
        bound = bound + slack @ w.abs().t()
    overflown = bool(y.isnan().any()) and not bool(a.isnan().any() or w.isnan().any())
    return Imitation(y, bound.nan_to_num(0.0, posinf=0.0), overflown=overflown)


def reread(tensor: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """The elements at flat offsets from the tensor's first one, as memory holds them.

    Gaps of a strided view and memory around the tensor hold the guard's poison, which is NaN in fp16 and fp32;
    farther offsets give it too. index: int64 of any shape. Returns the tensor's dtype.
    """
    guarded = guard("", tensor)
    memory = guarded.buffer.view(tensor.dtype)
    at = index + guarded.offset
    inside = (at >= 0) & (at < len(memory))
    return torch.where(inside, memory[at.clamp(0, len(memory) - 1)], memory[0])


def scattered(problem: Problem, values: torch.Tensor, address: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """Y as it reads back when element (m, n) of `values` was stored at flat offset `address[m, n]`.

    Returns (float64 [M, N], NaN where nothing was stored; whether something was stored beside Y's elements).
    """
    y = problem.tensors["y_ptr"]
    guarded = guard("", y, fill=False)
    memory = torch.full((guarded.buffer.numel() // y.element_size(),), torch.nan, dtype=torch.float64)
    at = (address + guarded.offset).flatten()
    inside = (at >= 0) & (at < len(memory))
    memory[at[inside]] = values.double().flatten()[inside]
    view = torch.as_strided(memory, y.shape, y.stride(), guarded.offset)
    read = view.clone()
    view.fill_(torch.nan)
    return read, bool((~inside).any()) or not bool(torch.isnan(memory).all())


def grid_of(rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Row and column numbers as int64 [rows, 1] and [1, columns]."""
    return torch.arange(rows)[:, None], torch.arange(columns)[None, :]
