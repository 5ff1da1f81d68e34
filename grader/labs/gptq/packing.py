"""The packing of GPTQ checkpoints: what the words of qweight and of the zeros hold, and the weight that they stand for."""

from __future__ import annotations

import torch

from grader.labs.inputs import pack_int4, unpack_int4
from grader.model import Problem


def pack_zeros(zeros: torch.Tensor) -> torch.Tensor:
    """Zero points [G, N] of 1..16 to int32 words [G, N/8]; that of column n, minus one, sits at bits 4 * (n % 8)."""
    return pack_int4((zeros - 1).t().contiguous()).t().contiguous()


def unpack_weight(words: torch.Tensor) -> torch.Tensor:
    """int32 words [K/8, N] to int32 [K, N] of 0..15."""
    return unpack_int4(words) & 0xF


def unpack_zeros(words: torch.Tensor) -> torch.Tensor:
    """int32 words [G, N/8] to zero points, int32 [G, N] of 1..16."""
    return (unpack_int4(words.t()) & 0xF).t() + 1


def spread(of_groups: torch.Tensor, group_size: int) -> torch.Tensor:
    """[G, N] to [K, N]: row k is that of its group, k // group_size."""
    return of_groups.repeat_interleave(group_size, dim=0)


def levels(problem: Problem) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q, z + 1 and s of every weight: float64 [K, N] each, exact."""
    group_size = problem.scalars["group_size"]
    q = unpack_weight(problem.tensors["qweight_ptr"])
    zeros = spread(unpack_zeros(problem.tensors["zeros_ptr"]), group_size)
    return q.double(), zeros.double(), spread(problem.tensors["scales_ptr"], group_size).double()
