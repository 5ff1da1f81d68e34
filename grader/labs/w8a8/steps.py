"""The steps of the W8A8 notebook: load a tile, quantise it, multiply, loop over K, rescale, mask."""

from __future__ import annotations

import torch

from grader.labs.notebook_step import Inputs, Slip, Step, tensor

ROWS, COLUMNS, DEPTH = 16, 32, 64


def _tile(generator: torch.Generator) -> torch.Tensor:
    """fp16 [ROWS, DEPTH], a view into a wider matrix, so that the stride of a row is not its length."""
    wide = torch.randn(ROWS, 2 * DEPTH, generator=generator).to(torch.float16)
    return wide[:, 8 : 8 + DEPTH]


def _load_inputs(generator: torch.Generator) -> Inputs:
    x = _tile(generator)
    return {"x_ptr": x, "stride_xm": x.stride(0), "stride_xk": x.stride(1)}


def _ratios(generator: torch.Generator) -> torch.Tensor:
    """[ROWS, DEPTH] values of x / s that no rounding of the quotient can change: never near a tie, some beyond int8."""
    whole = torch.randint(-140, 141, (ROWS, DEPTH), generator=generator).double()
    return whole + torch.randint(-3, 4, (ROWS, DEPTH), generator=generator) / 8


def _quantise_inputs(generator: torch.Generator) -> Inputs:
    scale = 2.0 ** torch.arange(-6, -6 + ROWS).clamp(max=0)
    x = (_ratios(generator) * scale[:, None]).to(torch.float16)
    return {"x_ptr": x, "scale_ptr": scale.float()}


def _ratio(inputs: Inputs) -> torch.Tensor:
    return tensor(inputs, "x_ptr").double() / tensor(inputs, "scale_ptr").double()[:, None]


def _int8(values: torch.Tensor) -> torch.Tensor:
    return values.clamp(-128, 127).to(torch.int8)


def _quantised(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, generator=generator).to(torch.int8)


def _dot_inputs(generator: torch.Generator) -> Inputs:
    acc = torch.randint(-1000, 1000, (ROWS, COLUMNS), generator=generator).to(torch.int32)
    return {
        "q_ptr": _quantised(generator, ROWS, DEPTH),
        "w_ptr": _quantised(generator, DEPTH, COLUMNS),
        "acc_ptr": acc,
    }


def _product(inputs: Inputs) -> torch.Tensor:
    return (tensor(inputs, "q_ptr").double() @ tensor(inputs, "w_ptr").double()).to(torch.int32)


def _loop_inputs(generator: torch.Generator) -> Inputs:
    K = 3 * DEPTH
    whole = torch.randint(-127, 128, (ROWS, K), generator=generator).double()
    scale = torch.full((ROWS,), 2.0**-5)
    weight = _quantised(generator, COLUMNS, K).t()
    return {"x_ptr": (whole * 2.0**-5).to(torch.float16), "w_ptr": weight, "scale_ptr": scale, "K": K}


def _loop_sum(inputs: Inputs, first: int = 0, last: int | None = None) -> torch.Tensor:
    q = torch.round(_ratio(inputs))[:, first:last]
    return (q @ tensor(inputs, "w_ptr").double()[first:last]).to(torch.int32)


def _rescale_inputs(generator: torch.Generator) -> Inputs:
    return {
        "acc_ptr": torch.randint(-(2**20), 2**20, (ROWS, COLUMNS), generator=generator).to(torch.int32),
        "input_scale_ptr": (torch.rand(ROWS, generator=generator) + 0.5) / 64,
        "weight_scale_ptr": (torch.rand(COLUMNS, generator=generator) + 0.5) / 64,
    }


def _rescaled(inputs: Inputs, *, by_input: bool = True, by_weight: bool = True) -> torch.Tensor:
    y = tensor(inputs, "acc_ptr").double()
    if by_input:
        y = y * tensor(inputs, "input_scale_ptr").double()[:, None]
    if by_weight:
        y = y * tensor(inputs, "weight_scale_ptr").double()[None, :]
    return y.to(torch.float16)


def _mask_inputs(generator: torch.Generator) -> Inputs:
    x = _tile(generator)[: ROWS - 3, : DEPTH - 11]
    return {"x_ptr": x, "M": ROWS - 3, "K": DEPTH - 11, "stride_xm": x.stride(0), "stride_xk": x.stride(1)}


def _padded(inputs: Inputs) -> torch.Tensor:
    x = tensor(inputs, "x_ptr")
    padded = torch.zeros(ROWS, DEPTH, dtype=torch.float16)
    padded[: x.shape[0], : x.shape[1]] = x
    return padded


OFFSETS = f"""
    rows, columns, depth = tl.arange(0, {ROWS}), tl.arange(0, {COLUMNS}), tl.arange(0, {DEPTH})
"""

STEPS = (
    Step(
        name="load",
        function="load_tile",
        result="tile",
        right="Rows go down, columns go across, and each axis has its own stride: that is all of Triton's addressing.",
        look="element (i, j) lies at pointer + rows[i] * stride_row + columns[j] * stride_column; "
        "`[:, None]` and `[None, :]` spread the two",
        harness=f"""
@triton.jit
def harness(x_ptr, stride_xm, stride_xk, out_ptr):{OFFSETS}
    tile = load_tile(x_ptr, rows, depth, stride_xm, stride_xk)
    tl.static_assert(tile.dtype == tl.float16, "load_tile must return the fp16 values it loaded")
    tl.store(out_ptr + rows[:, None] * {DEPTH} + depth[None, :], tile)
""",
        inputs=_load_inputs,
        expected=lambda inputs: tensor(inputs, "x_ptr").contiguous(),
    ),
    Step(
        name="quantise",
        function="quantise_tile",
        result="q",
        right="Rounded to nearest and kept within int8, a scale for each row.",
        look="divide each row by its own scale, round to nearest, clamp to -128..127, then convert to tl.int8",
        harness=f"""
@triton.jit
def harness(x_ptr, scale_ptr, out_ptr):{OFFSETS}
    at = rows[:, None] * {DEPTH} + depth[None, :]
    q = quantise_tile(tl.load(x_ptr + at), tl.load(scale_ptr + rows))
    tl.static_assert(q.dtype == tl.int8, "quantise_tile must return int8; end it with .to(tl.int8)")
    tl.store(out_ptr + at, q)
""",
        inputs=_quantise_inputs,
        expected=lambda inputs: _int8(torch.round(_ratio(inputs))),
        slips=(
            Slip("cut off, not rounded: -2.75 became -2", lambda inputs: _int8(torch.trunc(_ratio(inputs)))),
            Slip(
                "rounded down instead of to nearest: 2.75 became 2", lambda inputs: _int8(torch.floor(_ratio(inputs)))
            ),
            Slip(
                "half a level too high below zero: adding 0.5 and cutting off rounds only positive values",
                lambda inputs: _int8(torch.trunc(_ratio(inputs) + 0.5)),
            ),
            Slip(
                "not clamped: a value beyond 127 comes round at the other end of int8",
                lambda inputs: torch.round(_ratio(inputs)).to(torch.int64).to(torch.int8),
            ),
            Slip(
                "clamped to -127, and int8 reaches -128",
                lambda inputs: torch.round(_ratio(inputs)).clamp(-127, 127).to(torch.int8),
            ),
        ),
    ),
    Step(
        name="dot",
        function="multiply_tiles",
        result="acc",
        right="One instruction for a whole tile, exact in int32.",
        look="tl.dot(q, w, acc, out_dtype=tl.int32) adds the product to acc; no conversion is needed",
        harness=f"""
@triton.jit
def harness(q_ptr, w_ptr, acc_ptr, out_ptr):{OFFSETS}
    at = rows[:, None] * {COLUMNS} + columns[None, :]
    q = tl.load(q_ptr + rows[:, None] * {DEPTH} + depth[None, :])
    w = tl.load(w_ptr + depth[:, None] * {COLUMNS} + columns[None, :])
    acc = multiply_tiles(q, w, tl.load(acc_ptr + at))
    tl.static_assert(acc.dtype == tl.int32, "multiply_tiles must return int32: give tl.dot out_dtype=tl.int32")
    tl.store(out_ptr + at, acc)
""",
        inputs=_dot_inputs,
        expected=lambda inputs: tensor(inputs, "acc_ptr") + _product(inputs),
        slips=(Slip("the product alone; acc was not added", _product),),
    ),
    Step(
        name="loop",
        function="accumulate",
        result="acc",
        right="The heart of the kernel: every tile along K was quantised, multiplied and added.",
        look="start from tl.zeros(..., dtype=tl.int32); for each k: columns k to k + BLOCK_K - 1 of x, the same rows of w",
        harness=f"""
@triton.jit
def harness(x_ptr, w_ptr, scale_ptr, K, out_ptr):{OFFSETS}
    acc = accumulate(x_ptr, w_ptr, tl.load(scale_ptr + rows), rows, columns, K, K, 1, 1, K,
                     {ROWS}, {COLUMNS}, {DEPTH})
    tl.static_assert(acc.dtype == tl.int32, "accumulate must return int32: tl.zeros(..., dtype=tl.int32)")
    tl.store(out_ptr + rows[:, None] * {COLUMNS} + columns[None, :], acc)
""",
        inputs=_loop_inputs,
        expected=_loop_sum,
        slips=(
            Slip(
                "the first tile along K alone; does the loop return too early?",
                lambda inputs: _loop_sum(inputs, 0, DEPTH),
            ),
            Slip("without the last tile along K; where does range end?", lambda inputs: _loop_sum(inputs, 0, -DEPTH)),
            Slip(
                "the last tile along K alone; is acc added to, or replaced?", lambda inputs: _loop_sum(inputs, -DEPTH)
            ),
            Slip(
                "the first tile, three times; advance both tiles along K",
                lambda inputs: 3 * _loop_sum(inputs, 0, DEPTH),
            ),
        ),
    ),
    Step(
        name="epilogue",
        function="rescale",
        result="y",
        right="Both scales left the sum, so they are applied once an element and not once a product.",
        look="convert acc to fp32 first, multiply by input_scale down the rows and weight_scale across, end in fp16",
        harness=f"""
@triton.jit
def harness(acc_ptr, input_scale_ptr, weight_scale_ptr, out_ptr):{OFFSETS}
    at = rows[:, None] * {COLUMNS} + columns[None, :]
    y = rescale(tl.load(acc_ptr + at), tl.load(input_scale_ptr + rows), tl.load(weight_scale_ptr + columns))
    tl.static_assert(y.dtype == tl.float16, "rescale must return fp16; end it with .to(tl.float16)")
    tl.store(out_ptr + at, y)
""",
        inputs=_rescale_inputs,
        expected=_rescaled,
        tolerance=lambda inputs: _rescaled(inputs).double().abs() * 2.0**-9,
        slips=(
            Slip("without the scales of the rows", lambda inputs: _rescaled(inputs, by_input=False)),
            Slip("without the scales of the columns", lambda inputs: _rescaled(inputs, by_weight=False)),
        ),
    ),
    Step(
        name="masks",
        function="load_masked",
        result="tile",
        right="Nothing outside was read, and the zeros in its place add nothing to a sum.",
        look="mask=(rows < M)[:, None] & (columns < K)[None, :], and other=0.0 for what is left out",
        harness=f"""
@triton.jit
def harness(x_ptr, M, K, stride_xm, stride_xk, out_ptr):{OFFSETS}
    tile = load_masked(x_ptr, rows, depth, M, K, stride_xm, stride_xk)
    tl.store(out_ptr + rows[:, None] * {DEPTH} + depth[None, :], tile)
""",
        inputs=_mask_inputs,
        expected=_padded,
    ),
)
