"""The steps of the W8A8 notebook: load a tile with masks, quantise it, multiply, loop over K, rescale, store with a mask."""

from __future__ import annotations

import torch

from grader.labs.loop_slips import loop_slips
from grader.labs.notebook_step import Inputs, Slip, Step, apart, stored, tensor

ROWS, COLUMNS, DEPTH = 16, 32, 64


ROWS_INSIDE, COLUMNS_INSIDE, DEPTH_INSIDE = ROWS - 3, COLUMNS - 5, DEPTH - 11


def _wide(generator: torch.Generator, rows: int, columns: int) -> torch.Tensor:
    """fp16 [rows, columns], every other column of a wider matrix, so that neither stride is what one would guess."""
    wide = torch.randn(rows, 2 * columns + 16, generator=generator).to(torch.float16)
    return wide[:, 8 : 8 + 2 * columns : 2]


def _load_inputs(generator: torch.Generator) -> Inputs:
    x = _wide(generator, ROWS_INSIDE, DEPTH_INSIDE)
    return {"x_ptr": x, "M": ROWS_INSIDE, "K": DEPTH_INSIDE, "stride_xm": x.stride(0), "stride_xk": x.stride(1)}


def _padded(inputs: Inputs) -> torch.Tensor:
    x = tensor(inputs, "x_ptr")
    padded = torch.zeros(ROWS, DEPTH, dtype=torch.float16)
    padded[: x.shape[0], : x.shape[1]] = x
    return padded


def _strides_exchanged(inputs: Inputs) -> torch.Tensor:
    """x read by the wrong stride along each axis; NaN where that leads out of it."""
    x, tile = tensor(inputs, "x_ptr"), torch.zeros(ROWS, DEPTH, dtype=torch.float16)
    tile[:ROWS_INSIDE, :DEPTH_INSIDE] = float("nan")
    tile[:ROWS_INSIDE, :ROWS_INSIDE] = x[:, :ROWS_INSIDE].t()
    return tile


def _ratios(generator: torch.Generator) -> torch.Tensor:
    """[ROWS, DEPTH] values of x / s that no rounding of the quotient can change: never near a tie, some beyond int8."""
    whole = torch.randint(-140, 141, (ROWS, DEPTH), generator=generator).double()
    return whole + torch.randint(-7, 8, (ROWS, DEPTH), generator=generator) / 16


def _quantise_inputs(generator: torch.Generator) -> Inputs:
    """Scales that fp16 does not hold: rounded to it, they carry some values across a tie."""
    scale = 2.0 ** torch.arange(-6, -6 + ROWS).clamp(max=0) * (1 + 0.45 * 2.0**-10)
    x = (_ratios(generator) * scale[:, None]).to(torch.float16)
    return {"x_ptr": x, "scale_ptr": scale.float()}


def _ratio(inputs: Inputs) -> torch.Tensor:
    return tensor(inputs, "x_ptr").double() / tensor(inputs, "scale_ptr").double()[:, None]


def _scale_in_fp16(inputs: Inputs) -> torch.Tensor:
    return tensor(inputs, "scale_ptr").to(torch.float16).double()[:, None]


def _int8(values: torch.Tensor) -> torch.Tensor:
    return values.clamp(-128, 127).to(torch.int8)


def _clamped(inputs: Inputs, low: int, high: int) -> torch.Tensor:
    """int8 of x / s rounded and kept within other bounds: what does not fit is wrapped round."""
    return torch.round(_ratio(inputs)).clamp(low, high).to(torch.int64).to(torch.int8)


def _peaks(inputs: Inputs) -> torch.Tensor:
    """[ROWS, 1]: the largest magnitude of each row."""
    return tensor(inputs, "x_ptr").double().abs().amax(dim=1, keepdim=True)


def _quantised(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, generator=generator).to(torch.int8)


def _dot_inputs(generator: torch.Generator) -> Inputs:
    """Sums that fp32 does not hold."""
    acc = torch.randint(-(2**28), 2**28, (ROWS, COLUMNS), generator=generator).to(torch.int32)
    return {
        "q_ptr": _quantised(generator, ROWS, DEPTH),
        "w_ptr": _quantised(generator, DEPTH, COLUMNS),
        "acc_ptr": acc,
    }


def _product(inputs: Inputs) -> torch.Tensor:
    return (tensor(inputs, "q_ptr").double() @ tensor(inputs, "w_ptr").double()).to(torch.int32)


def _loop_inputs(generator: torch.Generator) -> Inputs:
    """K ends in the middle of the third tile, M and N inside theirs; elements of X and columns of the weight stand apart."""
    M, N, K = ROWS_INSIDE, COLUMNS_INSIDE, 5 * DEPTH // 2
    whole = torch.randint(-127, 128, (M, K), generator=generator).double()
    x = apart((whole * 2.0**-5).to(torch.float16))
    weight = _quantised(generator, N, K + 16)[:, :K].t()
    sizes = {"M": M, "N": N, "K": K, "stride_xm": x.stride(0), "stride_xk": x.stride(1), "stride_wn": K + 16}
    return {"x_ptr": x, "w_ptr": weight, "scale_ptr": torch.full((M,), 2.0**-5), **sizes}


def _loop_sum(inputs: Inputs, first: int = 0, last: int | None = None) -> torch.Tensor:
    """int32 [ROWS, COLUMNS]: the sum over part of K; zeros beyond M and N."""
    q, w = torch.round(_ratio(inputs)), tensor(inputs, "w_ptr").double()
    return _in_tile(q[:, first:last] @ w[first:last])


def _loop_overlapping(inputs: Inputs, turns: int) -> torch.Tensor:
    """The sum of so many tiles along K, each one element further than the one before."""
    parts = [_loop_sum(inputs, k, k + DEPTH) for k in range(turns)]
    return sum(parts, torch.zeros_like(parts[0]))


def _loop_cut(inputs: Inputs) -> torch.Tensor:
    return _loop_sum(inputs, 0, COLUMNS_INSIDE)


def _loop_astray(inputs: Inputs, *, x_moves: bool, w_moves: bool) -> torch.Tensor:
    """The sum when X or the weight stays at its first tile along K."""
    q, w = torch.round(_ratio(inputs)), tensor(inputs, "w_ptr").double()
    beyond = 3 * DEPTH - q.shape[1]
    q, w = torch.nn.functional.pad(q, (0, beyond)), torch.nn.functional.pad(w, (0, 0, 0, beyond))
    parts = []
    for k in range(0, 3 * DEPTH, DEPTH):
        left, right = k if x_moves else 0, k if w_moves else 0
        parts.append(q[:, left : left + DEPTH] @ w[right : right + DEPTH])
    return _in_tile(sum(parts, torch.zeros_like(parts[0])))


def _in_tile(y: torch.Tensor) -> torch.Tensor:
    tile = torch.zeros(ROWS, COLUMNS, dtype=torch.int32)
    tile[: y.shape[0], : y.shape[1]] = y.to(torch.int32)
    return tile


def _inside(inputs: Inputs) -> torch.Tensor:
    """Exact inside M and N; what a tile holds beyond them is never stored."""
    allowed = torch.full((ROWS, COLUMNS), float("inf"), dtype=torch.float64)
    allowed[:ROWS_INSIDE, :COLUMNS_INSIDE] = 0
    return allowed


def _rescale_inputs(generator: torch.Generator) -> Inputs:
    return {
        "acc_ptr": torch.randint(-(2**20), 2**20, (ROWS, COLUMNS), generator=generator).to(torch.int32),
        "input_scale_ptr": (torch.rand(ROWS, generator=generator) + 0.5) / 64,
        "weight_scale_ptr": (torch.rand(COLUMNS, generator=generator) + 0.5) / 64,
    }


def _rescaled(inputs: Inputs, *, by_input: bool = True, by_weight: bool = True, early: bool = False) -> torch.Tensor:
    """fp16 [ROWS, COLUMNS]. early: the sum is made fp16 before it is scaled."""
    acc = tensor(inputs, "acc_ptr")
    y = (acc.to(torch.float16) if early else acc).double()
    if by_input:
        y = y * tensor(inputs, "input_scale_ptr").double()[:, None]
    if by_weight:
        y = y * tensor(inputs, "weight_scale_ptr").double()[None, :]
    return y.to(torch.float16)


def _rescaled_in_fp16(inputs: Inputs) -> torch.Tensor:
    """fp16 [ROWS, COLUMNS]: made fp16 after the first scale, and multiplied by the second in fp16."""
    scaled = tensor(inputs, "acc_ptr").double() * _scale_of(inputs, "input")[:, None]
    return scaled.to(torch.float16) * tensor(inputs, "weight_scale_ptr").to(torch.float16)[None, :]


def _rescaled_exactly(inputs: Inputs) -> torch.Tensor:
    return tensor(inputs, "acc_ptr").double() * _scale_of(inputs, "input")[:, None] * _scale_of(inputs, "weight")[None, :]


def _scale_of(inputs: Inputs, which: str) -> torch.Tensor:
    return tensor(inputs, f"{which}_scale_ptr").double()


def _rescaled_room(inputs: Inputs) -> torch.Tensor:
    """What the order of the products can change in fp32: nothing, but for a result halfway between two numbers of fp16."""
    exact = _rescaled_exactly(inputs)
    high, low = ((exact * (1 + off)).to(torch.float16).double() for off in (2.0**-20, -(2.0**-20)))
    return (high - low).abs()


def _divided(inputs: Inputs, *, by_input: bool) -> torch.Tensor:
    """fp16 [ROWS, COLUMNS]: by the scales of the columns; by_input: and by those of the rows, else multiplied by them."""
    s, t = _scale_of(inputs, "input")[:, None], _scale_of(inputs, "weight")[None, :]
    return (tensor(inputs, "acc_ptr").double() * (1 / s if by_input else s) / t).to(torch.float16)


def _by_their_sum(inputs: Inputs) -> torch.Tensor:
    scales = _scale_of(inputs, "input")[:, None] + _scale_of(inputs, "weight")[None, :]
    return (tensor(inputs, "acc_ptr").double() * scales).to(torch.float16)


def _store_inputs(generator: torch.Generator) -> Inputs:
    y = torch.randn(ROWS, COLUMNS, generator=generator).to(torch.float16)
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
        look="element (i, j) lies at ptr + rows[i] * stride_row + columns[j] * stride_column; "
        "mask=(rows < row_count)[:, None] & (columns < column_count)[None, :], and other=0 for what is left out",
        harness=f"""
@triton.jit
def harness(x_ptr, M, K, stride_xm, stride_xk, out_ptr):{OFFSETS}
    tile = load_tile(x_ptr, rows, depth, M, K, stride_xm, stride_xk)
{stored("tile", TILE)}""",
        inputs=_load_inputs,
        expected=_padded,
        slips=(
            Slip("read by the strides of the other axis; rows take stride_row, columns take stride_column",
                 _strides_exchanged, r"stride_row"),
        ),
    ),
    Step(
        name="quantise",
        function="quantise_tile",
        result="q",
        returns=Q,
        right="Rounded to nearest and kept within int8, a scale for each row.",
        look="divide each row by its own scale, round to nearest, clamp to -128..127, then convert to tl.int8",
        harness=f"""
@triton.jit
def harness(x_ptr, scale_ptr, out_ptr):{OFFSETS}
    q = quantise_tile(tl.load(x_ptr + rows[:, None] * {DEPTH} + depth[None, :]), tl.load(scale_ptr + rows))
{stored("q", Q)}""",
        inputs=_quantise_inputs,
        expected=lambda inputs: _int8(torch.round(_ratio(inputs))),
        slips=(
            Slip(
                "cut off, not rounded: -2.75 became -2", lambda inputs: _int8(torch.trunc(_ratio(inputs))), r"tl\.int8"
            ),
            Slip(
                "rounded down instead of to nearest: 2.75 became 2",
                lambda inputs: _int8(torch.floor(_ratio(inputs))),
                r"floor",
            ),
            Slip(
                "half a level too high below zero: adding 0.5 and cutting off rounds only positive values",
                lambda inputs: _int8(torch.trunc(_ratio(inputs) + 0.5)),
                r"0\.5",
            ),
            Slip(
                "divided by the scale rounded to fp16, which moves some values across a half; leave the scale in fp32",
                lambda inputs: _int8(torch.floor(tensor(inputs, "x_ptr").double() / _scale_in_fp16(inputs) + 0.5)),
                r"float16",
            ),
            Slip(
                "not clamped: a value beyond 127 wraps around to the other end of int8",
                lambda inputs: torch.round(_ratio(inputs)).to(torch.int64).to(torch.int8),
                r"tl\.int8",
            ),
            Slip(
                "cut off and not clamped: round to nearest and keep to -128..127 before .to(tl.int8)",
                lambda inputs: torch.trunc(_ratio(inputs)).to(torch.int64).to(torch.int8),
                r"tl\.int8",
            ),
            Slip(
                "multiplied by the scale; x / scale is what is rounded",
                lambda inputs: _int8(torch.round(_ratio(inputs) * tensor(inputs, "scale_ptr").double()[:, None] ** 2)),
                r"scale\[",
            ),
            Slip("rounded up instead of to nearest: 2.25 became 3", lambda inputs: _int8(torch.ceil(_ratio(inputs))), r"ceil"),
            Slip("clamped at one end only: below -128 a value wraps around to the other end",
                 lambda inputs: _clamped(inputs, -(2**15), 127)),
            Slip("clamped to 128, which int8 does not hold: it becomes -128", lambda inputs: _clamped(inputs, -128, 128), r"128"),
            Slip(
                "quantised by the row's own largest value; the scale is an argument",
                lambda inputs: _int8(torch.round(tensor(inputs, "x_ptr").double() * 127 / _peaks(inputs))),
                r"tl\.max\(",
            ),
            Slip(
                "127 times too large before it was clamped: 127 is in the scale already",
                lambda inputs: _int8(torch.round(127 * _ratio(inputs))),
                r"127",
            ),
            Slip(
                "clamped to -127, and int8 reaches -128",
                lambda inputs: torch.round(_ratio(inputs)).clamp(-127, 127).to(torch.int8),
                r"127",
            ),
        ),
    ),
    Step(
        name="dot",
        function="multiply_tiles",
        result="acc",
        returns=ACC,
        right="One instruction for a whole tile, exact in int32.",
        look="tl.dot(q, w, acc, out_dtype=tl.int32) adds the product to acc; no conversion is needed",
        harness=f"""
@triton.jit
def harness(q_ptr, w_ptr, acc_ptr, out_ptr):{OFFSETS}
    q = tl.load(q_ptr + rows[:, None] * {DEPTH} + depth[None, :])
    w = tl.load(w_ptr + depth[:, None] * {COLUMNS} + columns[None, :])
    acc = multiply_tiles(q, w, tl.load(acc_ptr + rows[:, None] * {COLUMNS} + columns[None, :]))
{stored("acc", ACC)}""",
        inputs=_dot_inputs,
        expected=lambda inputs: tensor(inputs, "acc_ptr") + _product(inputs),
        slips=(
            Slip("the product alone; acc was not added", _product, r"tl\.dot"),
            Slip("a sum made in fp32, which holds every whole number up to 2 ** 24 and no further; leave q and w int8, and add in int32",
                 lambda inputs: (tensor(inputs, "acc_ptr").float() + _product(inputs).float()).to(torch.int32), r"tl\.dot"),
            Slip("acc as it was; return what tl.dot gives, or assign it to acc",
                 lambda inputs: tensor(inputs, "acc_ptr").clone(), r"tl\.dot"),
            Slip("the sum with acc counted twice; tl.dot with acc as an argument adds it already",
                 lambda inputs: 2 * tensor(inputs, "acc_ptr") + _product(inputs), r"tl\.dot"),
        ),
    ),
    Step(
        name="loop",
        function="accumulate",
        result="acc",
        returns=ACC,
        right="The heart of the kernel: every tile along K was quantised, multiplied and added, the last one in part.",
        look="start from tl.zeros(..., dtype=tl.int32); for each k from 0 up to K: columns k to k + BLOCK_K - 1 of x, the same "
        "rows of w; the columns of x end at K, and so do the rows of w",
        harness=f"""
@triton.jit
def harness(x_ptr, w_ptr, scale_ptr, M, N, K, stride_xm, stride_xk, stride_wn, out_ptr):{OFFSETS}
    input_scale = tl.load(scale_ptr + rows, mask=rows < M, other=1.0)
    acc = accumulate(x_ptr, w_ptr, input_scale, rows, columns, M, N, K, stride_xm, stride_xk, 1, stride_wn, {ROWS}, {COLUMNS}, {DEPTH})
{stored("acc", ACC)}""",
        inputs=_loop_inputs,
        expected=_loop_sum,
        tolerance=_inside,
        slips=(
            *loop_slips(_loop_sum, DEPTH),
            Slip(
                "made of tiles along K that overlap; k is 0, BLOCK_K, 2 * BLOCK_K and so on: range(0, K, BLOCK_K)",
                lambda inputs: _loop_overlapping(inputs, 3),
                r"\brange\(",
            ),
            Slip(
                "made of far too many tiles along K; k is 0, BLOCK_K, 2 * BLOCK_K and so on: range(0, K, BLOCK_K)",
                lambda inputs: _loop_overlapping(inputs, 5 * DEPTH // 2),
                r"\brange\(",
            ),
            Slip("without what lies beyond column N of x; its columns end at K", _loop_cut, r"x_ptr"),
            Slip(
                "the first tile, three times; advance both tiles along K",
                lambda inputs: _loop_astray(inputs, x_moves=False, w_moves=False),
            ),
            Slip(
                "every tile of x with the first of the weight; the weight's rows begin at k too",
                lambda inputs: _loop_astray(inputs, x_moves=True, w_moves=False),
            ),
            Slip(
                "the first tile of x with every one of the weight; the columns of x begin at k too",
                lambda inputs: _loop_astray(inputs, x_moves=False, w_moves=True),
            ),
        ),
    ),
    Step(
        name="epilogue",
        function="rescale",
        result="y",
        returns=Y,
        right="Both scales left the sum, so they are applied once an element and not once a product.",
        look="convert acc to fp32 first, multiply by input_scale down the rows and weight_scale across, end in fp16",
        harness=f"""
@triton.jit
def harness(acc_ptr, input_scale_ptr, weight_scale_ptr, out_ptr):{OFFSETS}
    acc = tl.load(acc_ptr + rows[:, None] * {COLUMNS} + columns[None, :])
    y = rescale(acc, tl.load(input_scale_ptr + rows), tl.load(weight_scale_ptr + columns))
{stored("y", Y)}""",
        inputs=_rescale_inputs,
        expected=_rescaled,
        tolerance=_rescaled_room,
        slips=(
            Slip("rounded to fp16 on the way; multiply by both scales in fp32, and convert once, at the end",
                 _rescaled_in_fp16, r"float16"),
            Slip("not scaled at all", lambda inputs: _rescaled(inputs, by_input=False, by_weight=False)),
            Slip("divided by the scales instead of multiplied", lambda inputs: _divided(inputs, by_input=True)),
            Slip("divided by the scales of the columns instead of multiplied", lambda inputs: _divided(inputs, by_input=False), r"/"),
            Slip("multiplied by the sum of the two scales; multiply by each", _by_their_sum, r"\+"),
            Slip(
                "127 times too small; 127 is in the scales already",
                lambda inputs: (_rescaled_exactly(inputs) / 127).to(torch.float16),
                r"127",
            ),
            Slip("without the scales of the rows", lambda inputs: _rescaled(inputs, by_input=False)),
            Slip("without the scales of the columns", lambda inputs: _rescaled(inputs, by_weight=False)),
            Slip(
                "fp16 before it is scaled: a sum beyond 65504 is inf in fp16, and stays inf",
                lambda inputs: _rescaled(inputs, early=True),
                r"float16",
            ),
        ),
    ),
    Step(
        name="store",
        function="store_tile",
        result="Y",
        right="Every element inside Y was written, and none outside: all the pieces of the kernel are there.",
        look="element (i, j) goes to y_ptr + rows[i] * stride_ym + columns[j] * stride_yn, where rows[i] < M and columns[j] < N",
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
