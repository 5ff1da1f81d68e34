"""The steps of the W8A16 notebook: make fp16 of bytes, multiply, loop over K, scale; and one token without a matrix instruction."""

from __future__ import annotations

import torch

from grader.labs.notebook_step import Inputs, Step, apart, column_scales, normal, padded, stored, sum_tolerance, tensor

ROWS, COLUMNS, DEPTH = 16, 32, 64
ROWS_INSIDE, COLUMNS_INSIDE = ROWS - 3, COLUMNS - 5
LEAST = 1e-3
"""How far off a sum may always be: products of bytes are large."""


def _convert_inputs(generator: torch.Generator) -> Inputs:
    """Every value of int8 several times, in an order of its own."""
    values = (torch.arange(DEPTH * COLUMNS) % 256 - 128)[torch.randperm(DEPTH * COLUMNS, generator=generator)]
    return {"q_ptr": values.view(DEPTH, COLUMNS).to(torch.int8)}


def _dot_inputs(generator: torch.Generator) -> Inputs:
    return {
        "x_ptr": (3 * normal(generator, ROWS, DEPTH)).to(torch.float16),
        "q_ptr": torch.randint(-128, 128, (DEPTH, COLUMNS), generator=generator).to(torch.int8),
        "acc_ptr": 100 * normal(generator, ROWS, COLUMNS),
    }


def _product(inputs: Inputs, weight: str) -> torch.Tensor:
    """fp32: x times a weight."""
    return (tensor(inputs, "x_ptr").double() @ tensor(inputs, weight).double()).float()


def _loop_inputs(generator: torch.Generator) -> Inputs:
    """K ends in the middle of the third tile, M and N inside theirs; elements of X and columns of the weight stand apart."""
    M, N, K = ROWS_INSIDE, COLUMNS_INSIDE, 5 * DEPTH // 2
    x = apart(normal(generator, M, K).to(torch.float16))
    weight = torch.randint(-128, 128, (N, K + 16), generator=generator).to(torch.int8)[:, :K].t()
    strides = {"stride_xm": x.stride(0), "stride_xk": x.stride(1), "stride_wn": K + 16}
    return {"x_ptr": x, "qweight_ptr": weight, "M": M, "N": N, "K": K, **strides}


def _one_inputs(generator: torch.Generator) -> Inputs:
    """Positive entries among them, so that a sum in fp16 shows."""
    return {
        "x_ptr": (torch.rand(DEPTH, generator=generator) + 0.5).to(torch.float16),
        "q_ptr": torch.randint(-28, 128, (DEPTH, COLUMNS), generator=generator).to(torch.int8),
    }


OFFSETS = f"""
    rows, columns, depth = tl.arange(0, {ROWS}), tl.arange(0, {COLUMNS}), tl.arange(0, {DEPTH})
"""
TILE_OF_Q = f"tl.load(q_ptr + depth[:, None] * {COLUMNS} + columns[None, :])"

W, ACC = f"fp16 [{DEPTH}, {COLUMNS}]", f"fp32 [{ROWS}, {COLUMNS}]"
ONE = f"fp32 [{COLUMNS}]"

STEPS = (
    Step(
        name="convert",
        function="to_half",
        result="w",
        returns=W,
        right="All 256 integers, each exact: fp16 holds every whole number up to 2048.",
        hint="a conversion is enough; or put the number together from its bits, as the text above does",
        code="q.to(tl.float16) will do; or from the bits: (q.to(tl.int16) & 0xFF) ^ 0x6480 are those of 1152 + q, so subtract 1152",
        harness=f"""
@triton.jit
def harness(q_ptr, out_ptr):{OFFSETS}
    w = to_half({TILE_OF_Q})
{stored("w", W)}""",
        inputs=_convert_inputs,
        expected=lambda inputs: tensor(inputs, "q_ptr").to(torch.float16),
    ),
    Step(
        name="dot",
        function="multiply_tiles",
        result="acc",
        returns=ACC,
        right="There is no fp16 x int8 instruction, so q is converted first. As fp16 it is exact, and the tensor cores multiply "
        "fp16 by fp16 and accumulate in fp32; converting both to fp32 would also be right, but many times slower.",
        hint="the operands are fp16, so convert the weight first; the product is added to acc, which is fp32",
        code="tl.dot(x, to_half(q), acc) adds the product to acc, which is fp32",
        harness=f"""
@triton.jit
def harness(x_ptr, q_ptr, acc_ptr, out_ptr):{OFFSETS}
    x = tl.load(x_ptr + rows[:, None] * {DEPTH} + depth[None, :])
    acc = multiply_tiles(x, {TILE_OF_Q}, tl.load(acc_ptr + rows[:, None] * {COLUMNS} + columns[None, :]))
{stored("acc", ACC)}""",
        inputs=_dot_inputs,
        expected=lambda inputs: tensor(inputs, "acc_ptr") + _product(inputs, "q_ptr"),
        tolerance=lambda inputs: sum_tolerance(_product(inputs, "q_ptr"), LEAST),
    ),
    Step(
        name="loop",
        function="accumulate",
        result="acc",
        returns=ACC,
        right="The heart of the kernel: every tile along K was loaded, converted, multiplied and added, the last one masked.",
        hint="an fp32 sum that begins at zero; in each iteration the same k are columns of x and rows of qweight",
        code="start from tl.zeros(..., dtype=tl.float32); for k in range(0, K, BLOCK_K): depth = k + tl.arange(0, BLOCK_K); "
        "multiply columns `depth` of x by rows `depth` of qweight",
        harness=f"""
@triton.jit
def harness(x_ptr, qweight_ptr, M, N, K, stride_xm, stride_xk, stride_wn, out_ptr):{OFFSETS}
    acc = accumulate(x_ptr, qweight_ptr, rows, columns, M, N, K, stride_xm, stride_xk, 1, stride_wn, {ROWS}, {COLUMNS}, {DEPTH})
{stored("acc", ACC)}""",
        inputs=_loop_inputs,
        expected=lambda inputs: padded(_product(inputs, "qweight_ptr"), ROWS, COLUMNS),
        tolerance=lambda inputs: padded(
            sum_tolerance(_product(inputs, "qweight_ptr"), LEAST), ROWS, COLUMNS, beyond=float("inf")
        ),
    ),
    column_scales(OFFSETS, ROWS, COLUMNS, sums=500, divisor=64, raised=2**11, lowered=2**6),
    Step(
        name="one",
        function="multiply_one",
        result="sum",
        returns=ONE,
        right="No matrix instruction, and none of the 15 empty rows beside the one token.",
        hint="multiply element by element and sum along k, all in fp32",
        code="tl.sum(x[:, None] * q, axis=0), with both converted to fp32 first",
        harness=f"""
@triton.jit
def harness(x_ptr, q_ptr, out_ptr):{OFFSETS}
    total = multiply_one(tl.load(x_ptr + depth), {TILE_OF_Q})
{stored("total", ONE)}""",
        inputs=_one_inputs,
        expected=lambda inputs: _product(inputs, "q_ptr"),
        tolerance=lambda inputs: sum_tolerance(_product(inputs, "q_ptr"), LEAST),
    ),
)
