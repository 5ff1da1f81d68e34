"""The steps of the W8A8 notebook: load a tile with masks, quantise it, multiply, loop over K, rescale, store with a mask."""

from __future__ import annotations

import torch

from grader.labs.notebook_step import Inputs, Step, apart, normal, padded, stored, tensor

ROWS, COLUMNS, DEPTH = 16, 32, 64
ROWS_INSIDE, COLUMNS_INSIDE, DEPTH_INSIDE = ROWS - 3, COLUMNS - 5, DEPTH - 11


def _load_inputs(generator: torch.Generator) -> Inputs:
    x = apart(normal(generator, ROWS_INSIDE, DEPTH_INSIDE).to(torch.float16))
    return {"x_ptr": x, "M": ROWS_INSIDE, "K": DEPTH_INSIDE, "stride_xm": x.stride(0), "stride_xk": x.stride(1)}


def _ratios(generator: torch.Generator) -> torch.Tensor:
    """[ROWS, DEPTH] values of x / s that no rounding of the quotient can change: never near a tie, some beyond int8."""
    whole = torch.randint(-140, 141, (ROWS, DEPTH), generator=generator).double()
    return whole + torch.randint(-7, 8, (ROWS, DEPTH), generator=generator) / 16


def _quantise_inputs(generator: torch.Generator) -> Inputs:
    """Scales that fp16 does not hold: rounded to it, they carry some values across a tie."""
    scale = 2.0 ** torch.arange(-6, -6 + ROWS).clamp(max=0) * (1 + 0.45 * 2.0**-10)
    x = (_ratios(generator) * scale[:, None]).to(torch.float16)
    return {"x_ptr": x, "scale_ptr": scale.float()}


def _rounded(inputs: Inputs, scale: str = "scale_ptr") -> torch.Tensor:
    ratio = tensor(inputs, "x_ptr").double() / tensor(inputs, scale).double()[:, None]
    return torch.round(ratio).clamp(-128, 127).to(torch.int8)


def _quantised(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, generator=generator).to(torch.int8)


def _dot_inputs(generator: torch.Generator) -> Inputs:
    """Sums that fp32 does not hold."""
    acc = torch.randint(-(2**27), 2**27, (ROWS, COLUMNS), generator=generator).to(torch.int32)
    q, w = _quantised(generator, ROWS, DEPTH), _quantised(generator, DEPTH, COLUMNS)
    return {"q_ptr": q, "w_ptr": w, "acc_ptr": acc}


def _product(inputs: Inputs) -> torch.Tensor:
    return (tensor(inputs, "q_ptr").double() @ tensor(inputs, "w_ptr").double()).to(torch.int32)


def _loop_inputs(generator: torch.Generator) -> Inputs:
    """K ends in the middle of the third tile, M and N inside theirs; elements of X and columns of the weight stand apart."""
    M, N, K = ROWS_INSIDE, COLUMNS_INSIDE, 5 * DEPTH // 2
    whole = torch.randint(-127, 128, (M, K), generator=generator).double()
    x = apart((whole * 2.0**-5).to(torch.float16))
    weight = _quantised(generator, N, K + 16)[:, :K].t()
    sizes = {"M": M, "N": N, "K": K, "stride_xm": x.stride(0), "stride_xk": x.stride(1), "stride_wn": K + 16}
    return {"x_ptr": x, "qweight_ptr": weight, "input_scale_ptr": torch.full((M,), 2.0**-5), **sizes}


def _loop_sum(inputs: Inputs) -> torch.Tensor:
    """int32 [ROWS, COLUMNS]: zeros beyond M and N."""
    q, w = _rounded(inputs, "input_scale_ptr").double(), tensor(inputs, "qweight_ptr").double()
    return padded((q @ w).to(torch.int32), ROWS, COLUMNS)


def _inside(inputs: Inputs) -> torch.Tensor:
    """Exact inside M and N; what a tile holds beyond them is never stored."""
    return padded(torch.zeros(ROWS_INSIDE, COLUMNS_INSIDE, dtype=torch.float64), ROWS, COLUMNS, beyond=float("inf"))


def _rescale_inputs(generator: torch.Generator) -> Inputs:
    return {
        "acc_ptr": torch.randint(-(2**20), 2**20, (ROWS, COLUMNS), generator=generator).to(torch.int32),
        "input_scale_ptr": (torch.rand(ROWS, generator=generator) + 0.5) / 64,
        "weight_scale_ptr": (torch.rand(COLUMNS, generator=generator) + 0.5) / 64,
    }


def _rescaled(inputs: Inputs) -> torch.Tensor:
    """float64 [ROWS, COLUMNS]."""
    input_scale, weight_scale = tensor(inputs, "input_scale_ptr").double(), tensor(inputs, "weight_scale_ptr").double()
    return tensor(inputs, "acc_ptr").double() * input_scale[:, None] * weight_scale[None, :]


def _rescaled_room(inputs: Inputs) -> torch.Tensor:
    """What the order of the products can change in fp32: nothing, but for a result halfway between two numbers of fp16."""
    exact = _rescaled(inputs)
    high, low = ((exact * (1 + off)).to(torch.float16).double() for off in (2.0**-20, -(2.0**-20)))
    return (high - low).abs()


def _store_inputs(generator: torch.Generator) -> Inputs:
    y = normal(generator, ROWS, COLUMNS).to(torch.float16)
    return {"tile_ptr": y, "M": ROWS_INSIDE, "N": COLUMNS_INSIDE, "stride_ym": 4 * COLUMNS, "stride_yn": 2}


def _stored(inputs: Inputs) -> torch.Tensor:
    """Every other column of a wider matrix."""
    wide = torch.zeros(ROWS_INSIDE, 4 * COLUMNS, dtype=torch.float16)
    y = wide[:, : 2 * COLUMNS_INSIDE : 2]
    return y.copy_(tensor(inputs, "tile_ptr")[:ROWS_INSIDE, :COLUMNS_INSIDE])


OFFSETS = f"""
    rows, columns, depth = tl.arange(0, {ROWS}), tl.arange(0, {COLUMNS}), tl.arange(0, {DEPTH})
"""
TILE, Q, ACC, Y = (
    f"fp16 [{ROWS}, {DEPTH}]", f"int8 [{ROWS}, {DEPTH}]", f"int32 [{ROWS}, {COLUMNS}]", f"fp16 [{ROWS}, {COLUMNS}]"
)  # fmt: skip

STEPS = (
    Step(
        name="load",
        function="load_tile",
        result="tile",
        returns=TILE,
        right="Each axis has its own stride and its own end: that is all of Triton's addressing.",
        hint="each axis has its own stride and its own end; the mask needs both ends, and what it leaves out counts as zero",
        code="element (i, j) lies at ptr + rows[i] * stride_row + columns[j] * stride_column; mask=(rows < row_count)[:, None] & "
        "(columns < column_count)[None, :], and other=0 for what is left out",
        harness=f"""
@triton.jit
def harness(x_ptr, M, K, stride_xm, stride_xk, out_ptr):{OFFSETS}
    tile = load_tile(x_ptr, rows, depth, M, K, stride_xm, stride_xk)
{stored("tile", TILE)}""",
        inputs=_load_inputs,
        expected=lambda inputs: padded(tensor(inputs, "x_ptr"), ROWS, DEPTH),
    ),
    Step(
        name="quantise",
        function="quantise_tile",
        result="q",
        returns=Q,
        right="Rounded to nearest and clamped to int8, with one scale per row.",
        hint="divide each row by its own scale, round to nearest, clamp to -128..127, then convert to tl.int8",
        code="tl.floor(x / scale[:, None] + 0.5), then tl.minimum and tl.maximum with 127 and -128, then .to(tl.int8)",
        harness=f"""
@triton.jit
def harness(x_ptr, scale_ptr, out_ptr):{OFFSETS}
    q = quantise_tile(tl.load(x_ptr + rows[:, None] * {DEPTH} + depth[None, :]), tl.load(scale_ptr + rows))
{stored("q", Q)}""",
        inputs=_quantise_inputs,
        expected=_rounded,
    ),
    Step(
        name="dot",
        function="multiply_tiles",
        result="acc",
        returns=ACC,
        right="One instruction for a whole tile, exact in int32.",
        hint="the product is int32 already, and is added to acc; no conversion is needed",
        code="tl.dot(q, w, acc, out_dtype=tl.int32)",
        harness=f"""
@triton.jit
def harness(q_ptr, w_ptr, acc_ptr, out_ptr):{OFFSETS}
    q = tl.load(q_ptr + rows[:, None] * {DEPTH} + depth[None, :])
    w = tl.load(w_ptr + depth[:, None] * {COLUMNS} + columns[None, :])
    acc = multiply_tiles(q, w, tl.load(acc_ptr + rows[:, None] * {COLUMNS} + columns[None, :]))
{stored("acc", ACC)}""",
        inputs=_dot_inputs,
        expected=lambda inputs: tensor(inputs, "acc_ptr") + _product(inputs),
    ),
    Step(
        name="loop",
        function="accumulate",
        result="acc",
        returns=ACC,
        right="The heart of the kernel: every tile along K was quantised, multiplied and added, the last one masked.",
        hint="an int32 sum that begins at zero; in each iteration the same k are columns of x and rows of w, and both end at K",
        code="start from tl.zeros(..., dtype=tl.int32); for k in range(0, K, BLOCK_K): columns k to k + BLOCK_K - 1 of x, the "
        "same rows of w; the columns of x end at K, and so do the rows of w",
        harness=f"""
@triton.jit
def harness(x_ptr, qweight_ptr, input_scale_ptr, M, N, K, stride_xm, stride_xk, stride_wn, out_ptr):{OFFSETS}
    scale = tl.load(input_scale_ptr + rows, mask=rows < M, other=1.0)
    acc = accumulate(x_ptr, qweight_ptr, scale, rows, columns, M, N, K, stride_xm, stride_xk, 1, stride_wn, {ROWS}, {COLUMNS}, {DEPTH})
{stored("acc", ACC)}""",
        inputs=_loop_inputs,
        expected=_loop_sum,
        tolerance=_inside,
    ),
    Step(
        name="epilogue",
        function="rescale",
        result="y",
        returns=Y,
        right="Both scales were moved out of the sum, so they are applied once per element, not once per product.",
        hint="a sum does not fit fp16, so scale it in fp32: each row has its input_scale, each column its weight_scale",
        code="convert acc to fp32 first, give each row its input_scale (input_scale[:, None]) and each column its weight_scale "
        "(weight_scale[None, :]), end in fp16",
        harness=f"""
@triton.jit
def harness(acc_ptr, input_scale_ptr, weight_scale_ptr, out_ptr):{OFFSETS}
    acc = tl.load(acc_ptr + rows[:, None] * {COLUMNS} + columns[None, :])
    y = rescale(acc, tl.load(input_scale_ptr + rows), tl.load(weight_scale_ptr + columns))
{stored("y", Y)}""",
        inputs=_rescale_inputs,
        expected=lambda inputs: _rescaled(inputs).to(torch.float16),
        tolerance=_rescaled_room,
    ),
    Step(
        name="store",
        function="store_tile",
        result="Y",
        right="Every element inside Y was written, and none outside: all the pieces of the kernel are there.",
        hint="as in load_tile: a stride and an end for each axis",
        code="element (i, j) goes to y_ptr + rows[i] * stride_ym + columns[j] * stride_yn, where rows[i] < M and columns[j] < N",
        harness=f"""
@triton.jit
def harness(tile_ptr, M, N, stride_ym, stride_yn, out_ptr):{OFFSETS}
    y = tl.load(tile_ptr + rows[:, None] * {COLUMNS} + columns[None, :])
    store_tile(out_ptr, y, rows, columns, M, N, stride_ym, stride_yn)
""",
        inputs=_store_inputs,
        expected=_stored,
    ),
)
