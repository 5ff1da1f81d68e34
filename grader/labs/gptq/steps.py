"""The steps of the GPTQ notebook: unpack words, find zero points, make weights, loop over K."""

from __future__ import annotations

import torch

from grader.labs.gptq.packing import pack_zeros, spread, unpack_weight, unpack_zeros
from grader.labs.inputs import pack_int4
from grader.labs.notebook_step import Inputs, Step, apart, normal, padded, stored, tensor

ROWS, COLUMNS, DEPTH, GROUP = 16, 32, 64, 32
WORDS = DEPTH // 8
ROWS_INSIDE, COLUMNS_INSIDE = ROWS - 3, COLUMNS - 8
FIRST_K, ZERO_ROWS = 64, 7
"""The tile of the step `zeros` begins after four groups of 16, inside one of 128, and ends beyond the seven groups that there are."""

ZERO_DEPTH = ZERO_ROWS * GROUP // 2 - FIRST_K
"""So many of its k lie below K."""


def _integers(generator: torch.Generator, low: int, high: int, *shape: int) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=generator)


def _zeros_inputs(generator: torch.Generator) -> Inputs:
    """Seven groups, in a matrix twice as wide; each stored zero from 0 to 15 is among them."""
    rows = torch.arange(ZERO_ROWS)[:, None]
    zeros = (rows * 7 + torch.arange(COLUMNS_INSIDE) + _integers(generator, 0, 2, len(rows), COLUMNS_INSIDE)) % 16 + 1
    packed = pack_zeros(zeros)
    wide = torch.zeros(len(rows), 2 * packed.shape[1] + 3, dtype=torch.int32)
    view = wide[:, 2 : 2 + 2 * packed.shape[1] : 2]
    view.copy_(packed)
    sizes = {"group_size": GROUP // 2, "K": len(rows) * GROUP // 2, "N": COLUMNS_INSIDE}
    strides = {"stride_zg": view.stride(0), "stride_zn": view.stride(1)}
    return {"zeros_ptr": view, "first_k": FIRST_K, **sizes, **strides}


def _found_zeros(inputs: Inputs) -> torch.Tensor:
    """int32 [DEPTH, COLUMNS], 1 where there is nothing to find."""
    groups = (FIRST_K + torch.arange(ZERO_DEPTH)) // (GROUP // 2)
    return padded(unpack_zeros(tensor(inputs, "zeros_ptr"))[groups], DEPTH, COLUMNS, beyond=1)


def _only_inside(inputs: Inputs) -> torch.Tensor:
    """No columns beyond N and no k beyond K count."""
    return padded(torch.zeros(ZERO_DEPTH, COLUMNS_INSIDE, dtype=torch.float64), DEPTH, COLUMNS, beyond=float("inf"))


def _weight_inputs(generator: torch.Generator) -> Inputs:
    return {
        "q_ptr": _integers(generator, 0, 16, DEPTH, COLUMNS).to(torch.int32),
        "zeros_ptr": _integers(generator, 1, 17, DEPTH, COLUMNS).to(torch.int32),
        "scales_ptr": (0.02 + 0.1 * torch.rand(DEPTH, COLUMNS, generator=generator)).to(torch.float16),
    }


def _weights(inputs: Inputs) -> torch.Tensor:
    q, zeros, scales = (tensor(inputs, name).double() for name in ("q_ptr", "zeros_ptr", "scales_ptr"))
    return ((q - zeros) * scales).to(torch.float16)


def _weight_tolerance(inputs: Inputs) -> torch.Tensor:
    """(q - zero) s rounded once or, as q s - zero s, three times."""
    q, zeros, scales = (tensor(inputs, name).double() for name in ("q_ptr", "zeros_ptr", "scales_ptr"))
    return (q + zeros) * scales * 2.0**-10


def _in_wider_rows(values: torch.Tensor) -> torch.Tensor:
    """The same values, with room after each row: no stride is the number of columns."""
    return torch.nn.functional.pad(values, (0, 8))[:, : values.shape[1]]


def _loop_inputs(generator: torch.Generator) -> Inputs:
    """Five groups of 32: K ends in the middle of the third tile, M and N inside theirs; rows of every tensor stand apart."""
    M, N, K = ROWS_INSIDE, COLUMNS_INSIDE, 5 * GROUP
    x = apart(normal(generator, M, K).to(torch.float16))
    words = _in_wider_rows(pack_int4(_integers(generator, 0, 16, K, N)))
    scales = _in_wider_rows((0.5 + torch.rand(5, N, generator=generator)).to(torch.float16))
    zeros = _in_wider_rows(pack_zeros(_integers(generator, 1, 17, 5, N)))
    tensors = {"x_ptr": x, "qweight_ptr": words, "scales_ptr": scales, "zeros_ptr": zeros}
    sizes = {"M": M, "N": N, "K": K, "group_size": GROUP}
    x_strides = {"stride_xm": x.stride(0), "stride_xk": x.stride(1)}
    row_strides = {"stride_wk": words.stride(0), "stride_sg": scales.stride(0), "stride_zg": zeros.stride(0)}
    return {**tensors, **sizes, **x_strides, **row_strides}


def _loop_weight(inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q, zero points and scales of every weight: float64 [K, N]."""
    zeros, scales = (
        spread(part, GROUP).double()
        for part in (unpack_zeros(tensor(inputs, "zeros_ptr")), tensor(inputs, "scales_ptr"))
    )
    return unpack_weight(tensor(inputs, "qweight_ptr")).double(), zeros, scales


def _loop_sum(inputs: Inputs) -> torch.Tensor:
    """fp32 [ROWS, COLUMNS]: zeros beyond M and N."""
    q, zeros, scales = _loop_weight(inputs)
    return padded((tensor(inputs, "x_ptr").double() @ ((q - zeros) * scales)).float(), ROWS, COLUMNS)


def _loop_tolerance(inputs: Inputs) -> torch.Tensor:
    """Weights in fp16. What a tile holds beyond M and N is never stored."""
    q, zeros, scales = _loop_weight(inputs)
    allowed = 1e-4 + 2.0**-10 * (tensor(inputs, "x_ptr").double().abs() @ ((q + zeros) * scales))
    return padded(allowed, ROWS, COLUMNS, beyond=float("inf"))


OFFSETS = f"""
    rows, columns = tl.arange(0, {ROWS}), tl.arange(0, {COLUMNS})
    depth, words = tl.arange(0, {DEPTH}), tl.arange(0, {WORDS})
    tile = depth[:, None] * {COLUMNS} + columns[None, :]
"""

Q, W, ACC = f"int32 [{DEPTH}, {COLUMNS}]", f"fp16 [{DEPTH}, {COLUMNS}]", f"fp32 [{ROWS}, {COLUMNS}]"

STEPS = (
    Step(
        name="unpack",
        function="unpack_words",
        result="q",
        returns=Q,
        right="Eight unsigned values per word, in the order of K.",
        hint="shift each nibble to the lowest four bits and mask off the others: nothing is signed here. Then [words, 8, "
        "columns] becomes [8 * words, columns]",
        code="(words[:, None, :] >> (4 * tl.arange(0, 8))[None, :, None]) & 0xF, then tl.reshape to (8 * words.shape[0], words.shape[1])",
        harness=f"""
@triton.jit
def harness(words_ptr, out_ptr):{OFFSETS}
    q = unpack_words(tl.load(words_ptr + words[:, None] * {COLUMNS} + columns[None, :]))
{stored("q", Q)}""",
        inputs=lambda generator: {"words_ptr": pack_int4(_integers(generator, 0, 16, DEPTH, COLUMNS))},
        expected=lambda inputs: unpack_weight(tensor(inputs, "words_ptr")),
    ),
    Step(
        name="zeros",
        function="load_zeros",
        result="zeros",
        returns=Q,
        right="Packed along N, stored minus one, one row per group: you got all three right.",
        hint="a row of zeros for each group of k, a word for each eight columns, four bits for each column; and what is stored is one less",
        code="the group of k is k // group_size; column n lies in word n // 8 of its row, at bits 4 * (n % 8). Then add one",
        harness=f"""
@triton.jit
def harness(zeros_ptr, first_k, group_size, K, N, stride_zg, stride_zn, out_ptr):{OFFSETS}
    zeros = load_zeros(zeros_ptr, first_k + depth, columns, group_size, K, N, stride_zg, stride_zn)
{stored("zeros", Q)}""",
        inputs=_zeros_inputs,
        sizes={"zeros_ptr": ("K // group_size", "N // 8")},
        expected=_found_zeros,
        tolerance=_only_inside,
    ),
    Step(
        name="weight",
        function="make_weights",
        result="w",
        returns=W,
        right="Every weight is right up to its rounding. Subtracting integers and then scaling rounds once; scaling both first rounds "
        "three times.",
        hint="the zero point is in the units of q: subtract while both are integers, then convert, then multiply",
        code="(q - zeros).to(tl.float16) * scales",
        harness=f"""
@triton.jit
def harness(q_ptr, zeros_ptr, scales_ptr, out_ptr):{OFFSETS}
    w = make_weights(tl.load(q_ptr + tile), tl.load(zeros_ptr + tile), tl.load(scales_ptr + tile))
{stored("w", W)}""",
        inputs=_weight_inputs,
        expected=_weights,
        tolerance=_weight_tolerance,
    ),
    Step(
        name="loop",
        function="accumulate",
        result="acc",
        returns=ACC,
        right="Every tile along K was unpacked with the scales and zero points of its own groups.",
        hint="in each iteration the same k are columns of x and rows of the weight, and each k has the scales and zeros of its own group",
        code="for k in range(0, K, BLOCK_K): a tile of x, the words of those rows, and for each row the scales and zeros of its group",
        harness=f"""
@triton.jit
def harness(
    x_ptr, qweight_ptr, scales_ptr, zeros_ptr, M, N, K, group_size, stride_xm, stride_xk, stride_wk, stride_sg, stride_zg, out_ptr
):{OFFSETS}
    acc = accumulate(
        x_ptr, qweight_ptr, scales_ptr, zeros_ptr, rows, columns, M, N, K, group_size,
        stride_xm, stride_xk, stride_wk, 1, stride_sg, 1, stride_zg, 1, {ROWS}, {COLUMNS}, {DEPTH},
    )
{stored("acc", ACC)}""",
        inputs=_loop_inputs,
        expected=_loop_sum,
        tolerance=_loop_tolerance,
    ),
)
