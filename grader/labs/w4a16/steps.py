"""The steps of the W4A16 notebook: load words with masks, unpack them, multiply, loop over K, scale."""

from __future__ import annotations

import torch

from grader.labs.inputs import pack_int4, unpack_int4
from grader.labs.notebook_step import Inputs, Step, apart, column_scales, normal, padded, stored, sum_tolerance, tensor

ROWS, COLUMNS, DEPTH = 16, 32, 64
WORDS = DEPTH // 8
ROWS_INSIDE, COLUMNS_INSIDE = ROWS - 3, COLUMNS - 5


def _words(generator: torch.Generator, K: int, N: int) -> torch.Tensor:
    """int32 [K / 8, N]: words of any values in -8..7."""
    return pack_int4(torch.randint(-8, 8, (K, N), generator=generator).to(torch.int32))


def _load_inputs(generator: torch.Generator) -> Inputs:
    """Words 8 to 12 lie inside, words 13 to 15 of the tile and its last columns do not; every other column of a wider matrix."""
    K = 2 * DEPTH - 24
    words = _words(generator, K, 3 * COLUMNS)[:, 4 : 4 + 2 * COLUMNS_INSIDE : 2]
    strides = {"stride_wk": words.stride(0), "stride_wn": words.stride(1)}
    return {"qweight_ptr": words, "first_k": DEPTH, "K": K, "N": COLUMNS_INSIDE, **strides}


def _dot_inputs(generator: torch.Generator) -> Inputs:
    return {
        "x_ptr": normal(generator, ROWS, DEPTH).to(torch.float16),
        "q_ptr": torch.randint(-8, 8, (DEPTH, COLUMNS), generator=generator).to(torch.float16),
        "acc_ptr": normal(generator, ROWS, COLUMNS),
    }


def _dot(inputs: Inputs) -> torch.Tensor:
    return (tensor(inputs, "x_ptr").double() @ tensor(inputs, "q_ptr").double()).float()


def _loop_inputs(generator: torch.Generator) -> Inputs:
    """K ends in the middle of the third tile, M and N inside theirs; elements of X and rows of words stand apart."""
    M, N, K = ROWS_INSIDE, COLUMNS_INSIDE, 5 * DEPTH // 2
    x = apart(normal(generator, M, K).to(torch.float16))
    words = _words(generator, K, N + 8)[:, :N]
    strides = {"stride_xm": x.stride(0), "stride_xk": x.stride(1), "stride_wk": N + 8}
    return {"x_ptr": x, "qweight_ptr": words, "M": M, "N": N, "K": K, **strides}


def _product(inputs: Inputs) -> torch.Tensor:
    """fp32 [M, N]."""
    return (tensor(inputs, "x_ptr").double() @ unpack_int4(tensor(inputs, "qweight_ptr")).double()).float()


OFFSETS = f"""
    rows, columns = tl.arange(0, {ROWS}), tl.arange(0, {COLUMNS})
    depth, words = tl.arange(0, {DEPTH}), tl.arange(0, {WORDS})
"""

LOADED, Q = f"int32 [{WORDS}, {COLUMNS}]", f"fp16 [{DEPTH}, {COLUMNS}]"
ACC = f"fp32 [{ROWS}, {COLUMNS}]"

STEPS = (
    Step(
        name="load",
        function="load_words",
        result="words",
        returns=LOADED,
        right="One eighth of the rows: each word holds eight weights of its column. A word that is 0 holds eight zeros.",
        hint="eight elements share a word: where the tile begins, how many words it has and where they end are all counted in words",
        code="element k lies in word k // 8: the tile's words are first_k // 8 and the BLOCK_K // 8 - 1 after it; words below K "
        "// 8 and columns below N lie inside",
        harness=f"""
@triton.jit
def harness(qweight_ptr, first_k, K, N, stride_wk, stride_wn, out_ptr):{OFFSETS}
    loaded = load_words(qweight_ptr, first_k, columns, K, N, stride_wk, stride_wn, {DEPTH})
{stored("loaded", LOADED)}""",
        inputs=_load_inputs,
        sizes={"qweight_ptr": ("K // 8", "N")},
        expected=lambda inputs: padded(tensor(inputs, "qweight_ptr")[WORDS : 2 * WORDS], WORDS, COLUMNS),
    ),
    Step(
        name="unpack",
        function="unpack_words",
        result="q",
        returns=Q,
        right="Eight signed values per word, in the order of K, each exact in fp16.",
        hint="move a nibble to the top of the word and shift it down again: >> copies the sign. Then [words, 8, columns] becomes "
        "[8 * words, columns]",
        code="(words[:, None, :] << (28 - 4 * tl.arange(0, 8))[None, :, None]) >> 28, then tl.reshape to (8 * words.shape[0], "
        "words.shape[1])",
        harness=f"""
@triton.jit
def harness(words_ptr, out_ptr):{OFFSETS}
    q = unpack_words(tl.load(words_ptr + words[:, None] * {COLUMNS} + columns[None, :]))
{stored("q", Q)}""",
        inputs=lambda generator: {"words_ptr": _words(generator, DEPTH, COLUMNS)},
        expected=lambda inputs: unpack_int4(tensor(inputs, "words_ptr")).to(torch.float16),
    ),
    Step(
        name="dot",
        function="multiply_tiles",
        result="acc",
        returns=ACC,
        right="fp16 times fp16 into fp32, on the tensor cores.",
        hint="both operands are fp16 already; their product is added to acc, which is fp32",
        code="tl.dot(x, q, acc) adds the product to acc, which is fp32",
        harness=f"""
@triton.jit
def harness(x_ptr, q_ptr, acc_ptr, out_ptr):{OFFSETS}
    x = tl.load(x_ptr + rows[:, None] * {DEPTH} + depth[None, :])
    q = tl.load(q_ptr + depth[:, None] * {COLUMNS} + columns[None, :])
    acc = multiply_tiles(x, q, tl.load(acc_ptr + rows[:, None] * {COLUMNS} + columns[None, :]))
{stored("acc", ACC)}""",
        inputs=_dot_inputs,
        expected=lambda inputs: tensor(inputs, "acc_ptr") + _dot(inputs),
        tolerance=lambda inputs: sum_tolerance(_dot(inputs)),
    ),
    Step(
        name="loop",
        function="accumulate",
        result="acc",
        returns=ACC,
        right="The heart of the kernel: every tile along K was unpacked, multiplied and added, the last one masked.",
        hint="an fp32 sum that begins at zero; in each iteration the same k are columns of x and rows of W, whose words load_words finds",
        code="start from tl.zeros(..., dtype=tl.float32); for k in range(0, K, BLOCK_K): columns k to k + BLOCK_K - 1 of x, and "
        "the words of those rows of W",
        harness=f"""
@triton.jit
def harness(x_ptr, qweight_ptr, M, N, K, stride_xm, stride_xk, stride_wk, out_ptr):{OFFSETS}
    acc = accumulate(x_ptr, qweight_ptr, rows, columns, M, N, K, stride_xm, stride_xk, stride_wk, 1, {ROWS}, {COLUMNS}, {DEPTH})
{stored("acc", ACC)}""",
        inputs=_loop_inputs,
        expected=lambda inputs: padded(_product(inputs), ROWS, COLUMNS),
        tolerance=lambda inputs: padded(sum_tolerance(_product(inputs)), ROWS, COLUMNS, beyond=float("inf")),
    ),
    column_scales(OFFSETS, ROWS, COLUMNS, sums=50, divisor=16, raised=2**14, lowered=2**8),
)
