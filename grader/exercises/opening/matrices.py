"""The matrices that the warm-ups are given, and their sizes: no size is a multiple of a tile, and no stride is what one would guess."""

from __future__ import annotations

import torch

from grader.labs.notebook_step import Inputs, apart, normal

BLOCK = 16
N = 3 * BLOCK - 7
ROWS, COLUMNS = 16, 32
M_TALL, K_LONG, N_WIDE, BLOCK_K = 21, 80, 40, 32


def strided_matrix(generator: torch.Generator, rows: int, columns: int) -> torch.Tensor:
    """fp16 [rows, columns], every other column of a wider matrix."""
    return apart(normal(generator, rows, columns).to(torch.float16))


def with_strides(x: torch.Tensor) -> Inputs:
    return {"x_ptr": x, "stride_row": x.stride(0), "stride_column": x.stride(1)}
