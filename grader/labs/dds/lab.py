"""DDS: dense = dense x sparse. X times the transpose of a weight in block-sparse-row (BSR) format, 32 x 32 blocks."""

from __future__ import annotations

import torch

from grader.labs.contract import Lab, block_row_grid, integers
from grader.labs.inputs import (
    activations,
    laid_out,
    normal,
    sizes_and_strides,
    timed_activations,
)
from grader.labs.projection import Projected, Stack, half_product, row_norms
from grader.labs.tolerance import matmul_reference
from grader.model import Case, Parameter, Problem, Reference

BLOCK = 32
FEW_TOKENS = 8
"""With fewer, the first block row is empty, whatever the seed: what is made for few tokens alone meets one."""

CASES = (
    Case("one_block", "each of your configs on a single 32 x 32 block", 64, 32, 32, w="dense", configs="all"),
    Case("sparsity_90", "the timed weight, 90 % of its blocks zero", 64, 1024, 1024, w="sparsity_0.9"),
    Case("sparsity_80", "the timed weight, 80 % of its blocks zero", 64, 1024, 1024, w="sparsity_0.8"),
    Case("dense_blocks", "no block is zero, few tokens", 5, 128, 256, w="dense"),
    Case("empty_rows", "every other block row is empty; many tiles in M and N, X as every other column of a wider matrix",
         1053, 544, 544, w="empty_rows", x_layout="every_other"),
    Case("all_empty", "a weight without a single block", 32, 128, 128, w="empty"),
    Case("uneven_rows", "a full block row four times as long as a timed one, four of 16, 18, 19 and 32, the others with 0 to 2 blocks",
         192, 1056, 4128, w="uneven"),
    Case("single_token", "up to three of your configs on M = 1, as every other column of a wider matrix (stride_xk = 2)",
         1, 512, 512, w="sparsity_0.8", x_layout="every_other", configs="three"),
    Case("odd_m", "a number of tokens that is not a multiple of any tile, X as a transposed view", 133, 1088, 128, w="sparsity_0.8",
         x_layout="transposed"),
    Case("rectangular", "N and K differ", 64, 256, 512, w="sparsity_0.7"),
    Case("strided_rows", "X as a slice of a wider matrix (stride_xm > K, odd), more tokens than any timed case", 8203, 64, 96,
         w="sparsity_0.5", x_layout="odd_slice", y_layout="odd_slice"),
    Case("transposed_x", "X as a transposed view (stride_xm = 1), few tokens, none positive", 3, 256, 256,
         w="sparsity_0.7", x="negative", x_layout="transposed"),
    Case("strided_y", "Y as a slice of a wider matrix (stride_ym > N, odd), an N beyond all that are timed", 12, 1056, 96,
         w="uneven", x_layout="odd_slice", y_layout="odd_slice"),
    Case("block_orientation", "your configs on many tiles in M and N, on blocks far from symmetric, some with values beyond 1000",
         1552, 288, 96, w="slanted", configs="most"),
    Case("long_row", "each of your configs on full block rows longer than any timed one, where an fp16 accumulator loses small terms",
         32, 64, 1408, x="positive", w="positive", configs="all"),
    Case("every_config", "each of your configs on block rows of every kind: tokens that end inside a tile, X and Y strided",
         48, 1056, 288, x="traps", w="traps", x_layout="column_slice", y_layout="column_slice", configs="all"),
    Case("every_config_tall", "each of your configs on more tokens than a tile has: X transposed, with gaps, Y strided",
         301, 192, 320, x="traps", w="traps", x_layout="transposed_gaps", y_layout="column_slice", configs="all"),
    Case("persistent", "if your kernel is persistent, your configs of large tiles on 155 tiles of 128 tokens",
         3873, 160, 64, w="sparsity_0.5", configs="few"),
    Case("contiguous_token", "one token, contiguous", 1, 256, 512, w="sparsity_0.8"),
)  # fmt: skip

SPEED_CASES = (
    Case("speed_m1024_s90", "1024 tokens, sparsity 0.9", 1024, 1024, 1024, w="sparsity_0.9", launches=32),
    Case("speed_m1024_s80", "1024 tokens, sparsity 0.8", 1024, 1024, 1024, w="sparsity_0.8", launches=32),
    Case("speed_m8192_s90", "8192 tokens, sparsity 0.9", 8192, 1024, 1024, w="sparsity_0.9", launches=8),
    Case("speed_m8192_s80", "8192 tokens, sparsity 0.8", 8192, 1024, 1024, w="sparsity_0.8", launches=8),
)


def inputs(case: Case, generator: torch.Generator, device: torch.device) -> dict[str, torch.Tensor]:
    """x fp16 [M, K]; W [N, K] as values fp16 [nnz, 32, 32], crow int32 [N/32 + 1], col int32 [nnz]."""
    present = _pattern(case, generator, device)
    crow = torch.zeros(case.N // BLOCK + 1, dtype=torch.int32, device=device)
    crow[1:] = present.sum(dim=1).cumsum(0)
    rows, cols = present.nonzero(as_tuple=True)
    values = normal(generator, len(rows), BLOCK, BLOCK, device=device)
    if case.w == "slanted":
        values = values * torch.logspace(-2, 2.7, BLOCK, device=device)[None, :, None]
    elif case.w == "positive":
        values[:, ::2] = values[:, ::2].abs() + 0.1
    elif case.w == "traps":
        values[1::3] /= 32  # a block of small numbers counts, too
        values[::2, 0, 0] = 0
        values[2::5] = -values[2::5].abs()
        alone = values[3::6, 19, 13].clone()  # so does one of a single number, wherever a kernel looks for it
        values[3::6] = 0
        values[3::6, 19, 13] = alone
    return {
        "x_ptr": laid_out(activations(case, generator, device), case.x_layout),
        "values_ptr": values.to(torch.float16).contiguous(),
        "crow_indices_ptr": crow,
        "col_indices_ptr": cols.to(torch.int32),
    }


def _pattern(case: Case, generator: torch.Generator, device: torch.device) -> torch.Tensor:
    """bool [N/32, K/32]: which blocks are present, by the recipe `case.w`."""
    rows, cols = case.N // BLOCK, case.K // BLOCK
    present = torch.zeros(rows, cols, dtype=torch.bool, device=device)
    if case.w in ("dense", "positive"):
        present[:] = True
    elif case.w.startswith("sparsity_"):
        keep = round((1 - float(case.w.removeprefix("sparsity_"))) * rows * cols)
        chosen = torch.randperm(rows * cols, generator=generator, device=device)
        if case.M < FEW_TOKENS:
            chosen = chosen[chosen >= cols]
        present.view(-1)[chosen[:keep]] = True
    elif case.w == "empty_rows":
        present[::2] = torch.rand(len(present[::2]), cols, generator=generator, device=device) < 0.3
        present[0, cols // 2] = True
    elif case.w == "uneven":
        present[rows // 3] = True
        for row in range(rows):
            count = dict(zip(range(rows // 2, rows), (16, 18, 19, 32), strict=False)).get(row, row % 3)
            present[row, torch.randperm(cols, generator=generator, device=device)[:count]] = True
    elif case.w == "traps":
        for row in range(rows):
            count = (0, cols, 1, cols // 2, 0, 2, 3, 6, 7, 8, 4)[row % 11]
            present[row, torch.randperm(cols, generator=generator, device=device)[:count]] = True
    elif case.w == "slanted":
        present[torch.arange(rows, device=device), torch.randint(cols, (rows,), generator=generator, device=device)] = (
            True
        )
    elif case.w != "empty":
        raise ValueError(f"unknown weight recipe {case.w!r}")
    return present


def timed_inputs(case: Case, generator: torch.Generator, device: torch.device, launches: int, rare: bool) -> Stack:
    """As many blocks as the recipe keeps, in other places each time; a random block row is empty.

    Rare draws have one full block row and as many empty ones as that takes: it is the longest loop there is.
    """
    rows, cols = case.N // BLOCK, case.K // BLOCK
    present = round((1 - _sparsity(case)) * rows * cols)
    keys = torch.rand(launches, rows, cols, generator=generator, device=device)
    special = torch.rand(launches, rows, generator=generator, device=device).argsort(dim=1)
    empty = min(rows - 1, (rows * cols - present) // cols, rows // 4 if rare else 1)
    for number in range(empty):
        keys.scatter_(1, special[:, number, None, None].expand(-1, 1, cols), 2.0)
    if rare and present >= cols:
        keys.scatter_(1, special[:, -1, None, None].expand(-1, 1, cols), -1.0)
    place = keys.view(launches, -1).argsort(dim=1, stable=True)[:, :present].sort(dim=1).values
    counts = torch.zeros(launches, rows, dtype=torch.int64, device=device)
    counts.scatter_add_(1, place // cols, torch.ones_like(place))
    crow = torch.zeros(launches, rows + 1, dtype=torch.int32, device=device)
    crow[:, 1:] = counts.cumsum(1)
    x, _ = timed_activations(case, generator, device, launches)
    values = torch.randn(launches, present, BLOCK, BLOCK, generator=generator, device=device, dtype=torch.float16)
    columns = (place % cols).to(torch.int32)
    return {"x_ptr": x, "values_ptr": values, "crow_indices_ptr": crow, "col_indices_ptr": columns}


def _sparsity(case: Case) -> float:
    """Share of blocks that are absent from a timed weight; "dense" has them all."""
    return float(case.w.removeprefix("sparsity_")) if case.w.startswith("sparsity_") else 0.0


def project(stack: Stack, signs: torch.Tensor) -> Projected:
    """A (W^T R), block by block: each block adds its transpose times the signs of its rows to its columns."""
    x, values, crow, cols = (stack[f"{name}_ptr"] for name in ("x", "values", "crow_indices", "col_indices"))
    launches, present = cols.shape
    K, vectors = x.shape[2], signs.shape[1]
    numbers = torch.arange(present, dtype=torch.int32, device=x.device).expand(launches, -1).contiguous()
    rows = torch.searchsorted(crow.contiguous(), numbers, right=True) - 1
    blocks = values.reshape(-1, BLOCK, BLOCK).transpose(1, 2)
    parts = half_product(blocks, signs.view(-1, BLOCK, vectors)[rows.flatten()])
    launch = torch.arange(launches, device=x.device)[:, None]
    column = torch.zeros(launches * K // BLOCK, BLOCK, vectors, dtype=parts.dtype, device=x.device)
    column.index_add_(0, (launch * (K // BLOCK) + cols).flatten(), parts)
    gain = (
        row_norms(x) * torch.linalg.vector_norm(values.view(launches, -1), dim=1, dtype=torch.float32)[:, None] / K**0.5
    )
    return Projected(half_product(x, column.view(launches, K, vectors)), gain, permitted=torch.zeros_like(gain))


def dense(problem: Problem) -> torch.Tensor:
    """The weight as a dense fp16 [N, K] matrix."""
    tensors, (N, K) = problem.tensors, (problem.scalars["N"], problem.scalars["K"])
    crow, cols, values = tensors["crow_indices_ptr"].long(), tensors["col_indices_ptr"].long(), tensors["values_ptr"]
    rows = torch.repeat_interleave(torch.arange(N // BLOCK, device=crow.device), crow.diff())
    w = torch.zeros(N // BLOCK, K // BLOCK, BLOCK, BLOCK, dtype=values.dtype, device=values.device)
    w[rows, cols] = values
    return w.transpose(1, 2).reshape(N, K)


def reference(problem: Problem, roundings: int) -> Reference:
    """fp64 product with the dense weight."""
    return matmul_reference(problem.tensors["x_ptr"].double(), dense(problem).double(), roundings=roundings)


def operations(problem: Problem) -> int:
    """A multiplication and an addition for each token and each entry of a present block."""
    return 2 * problem.scalars["M"] * problem.tensors["values_ptr"].numel()


LAB = Lab(
    id="dds",
    order=3,
    title="DDS: dense x block-sparse (BSR, 32 x 32 blocks)",
    kernel="DDS_MM",
    layer="SparseLinear",
    parameters=(
        Parameter("x_ptr", "*fp16", ("M", "K")),
        Parameter("values_ptr", "*fp16", ("nnz", "BLOCK", "BLOCK")),
        Parameter("crow_indices_ptr", "*i32", ("N // BLOCK + 1",)),
        Parameter("col_indices_ptr", "*i32", ("nnz",)),
        Parameter("y_ptr", "*fp16", ("M", "N")),
        *integers("M N K stride_xm stride_xk stride_ym stride_yn"),
        Parameter("BLOCK", "constexpr"),
    ),
    cases=CASES,
    speed_cases=SPEED_CASES,
    scalars=sizes_and_strides,
    inputs=inputs,
    reference=reference,
    baseline_weight=dense,
    timed_inputs=timed_inputs,
    project=project,
    rare_inputs=True,
    default_grid=block_row_grid,
    default_grid_text="(cdiv(M, BLOCK_M), N // BLOCK)",
    operations=operations,
    split_k=False,
    blind={"all_empty": "without blocks every product is zero; the case checks that Y is written at all"},
    constants={"BLOCK": BLOCK},
)
