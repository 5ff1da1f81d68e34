"""The steps of the W4A16 notebook: load words, open them, multiply, loop over K, scale, mask."""

from __future__ import annotations

import torch

from grader.labs.inputs import pack_int4, unpack_int4
from grader.labs.notebook_step import Inputs, Slip, Step, tensor

ROWS, COLUMNS, DEPTH = 16, 32, 64
WORDS = DEPTH // 8


def _nibbles(generator: torch.Generator, K: int) -> torch.Tensor:
    """int32 [K, COLUMNS] in -8..7, packed into int32 [K / 8, COLUMNS]."""
    return pack_int4(torch.randint(-8, 8, (K, COLUMNS), generator=generator).to(torch.int32))


def _load_inputs(generator: torch.Generator) -> Inputs:
    wide = torch.cat([_nibbles(generator, 4 * DEPTH), _nibbles(generator, 4 * DEPTH)], dim=1)
    words = wide[:, COLUMNS // 2 : COLUMNS // 2 + COLUMNS]
    return {"qweight_ptr": words, "first_k": 2 * DEPTH, "stride_wk": words.stride(0), "stride_wn": words.stride(1)}


def _loaded(inputs: Inputs, first_word: int = 2 * WORDS) -> torch.Tensor:
    return tensor(inputs, "qweight_ptr")[first_word : first_word + WORDS].contiguous()


def _unpack_inputs(generator: torch.Generator) -> Inputs:
    return {"words_ptr": _nibbles(generator, DEPTH)}


def _opened(inputs: Inputs) -> torch.Tensor:
    return unpack_int4(tensor(inputs, "words_ptr")).to(torch.float16)


def _by_word(q: torch.Tensor) -> torch.Tensor:
    """[K, N] -> [K / 8, 8, N]: the eight elements of each word."""
    return q.view(-1, 8, q.shape[1])


def _dot_inputs(generator: torch.Generator) -> Inputs:
    return {
        "x_ptr": torch.randn(ROWS, DEPTH, generator=generator).to(torch.float16),
        "q_ptr": torch.randint(-8, 8, (DEPTH, COLUMNS), generator=generator).to(torch.float16),
        "acc_ptr": torch.randn(ROWS, COLUMNS, generator=generator),
    }


def _dot(inputs: Inputs) -> torch.Tensor:
    return (tensor(inputs, "x_ptr").double() @ tensor(inputs, "q_ptr").double()).float()


def _loop_inputs(generator: torch.Generator) -> Inputs:
    K = 3 * DEPTH
    x = torch.randn(ROWS, K, generator=generator).to(torch.float16)
    return {"x_ptr": x, "qweight_ptr": _nibbles(generator, K), "K": K}


def _loop_sum(inputs: Inputs, first: int = 0, last: int | None = None) -> torch.Tensor:
    q = unpack_int4(tensor(inputs, "qweight_ptr")).double()
    return (tensor(inputs, "x_ptr").double()[:, first:last] @ q[first:last]).float()


def _scale_inputs(generator: torch.Generator) -> Inputs:
    return {
        "acc_ptr": 50 * torch.randn(ROWS, COLUMNS, generator=generator),
        "scales_ptr": ((torch.rand(COLUMNS, generator=generator) + 0.5) / 16).to(torch.float16),
    }


def _scaled(inputs: Inputs, power: int = 1) -> torch.Tensor:
    scales = tensor(inputs, "scales_ptr").double()[None, :] ** power
    return (tensor(inputs, "acc_ptr").double() * scales).to(torch.float16)


def _mask_inputs(generator: torch.Generator) -> Inputs:
    words = _nibbles(generator, DEPTH)[: WORDS - 3, : COLUMNS - 5]
    return {"qweight_ptr": words.contiguous(), "K": DEPTH - 24, "N": COLUMNS - 5}


def _padded(inputs: Inputs) -> torch.Tensor:
    words = tensor(inputs, "qweight_ptr")
    padded = torch.zeros(WORDS, COLUMNS, dtype=torch.int32)
    padded[: words.shape[0], : words.shape[1]] = words
    return padded


def _sum_tolerance(expected: torch.Tensor) -> torch.Tensor:
    """An fp32 sum in any order."""
    return 1e-4 + 1e-5 * expected.double().abs()


OFFSETS = f"""
    rows, columns = tl.arange(0, {ROWS}), tl.arange(0, {COLUMNS})
    depth, words = tl.arange(0, {DEPTH}), tl.arange(0, {WORDS})
"""

STEPS = (
    Step(
        name="load",
        function="load_words",
        result="words",
        right="An eighth of the rows: each word that is loaded holds eight weights of its column.",
        look="element k lies in word k // 8, so BLOCK_K elements from first_k on are BLOCK_K // 8 words from first_k // 8 on",
        harness=f"""
@triton.jit
def harness(qweight_ptr, first_k, stride_wk, stride_wn, out_ptr):{OFFSETS}
    loaded = load_words(qweight_ptr, first_k, columns, stride_wk, stride_wn, {DEPTH})
    tl.static_assert(loaded.dtype == tl.int32, "load_words must return the int32 words it loaded")
    tl.store(out_ptr + words[:, None] * {COLUMNS} + columns[None, :], loaded)
""",
        inputs=_load_inputs,
        expected=_loaded,
        slips=(Slip("the first words of each column; begin at word first_k // 8", lambda inputs: _loaded(inputs, 0)),),
    ),
    Step(
        name="unpack",
        function="unpack_words",
        result="q",
        right="Eight signed values a word, in the order of K, each of them exact in fp16.",
        look="move a nibble to the top of the word and shift it down again: >> copies the sign. "
        "Then [words, 8, columns] becomes [8 * words, columns]",
        harness=f"""
@triton.jit
def harness(words_ptr, out_ptr):{OFFSETS}
    q = unpack_words(tl.load(words_ptr + words[:, None] * {COLUMNS} + columns[None, :]))
    tl.static_assert(q.dtype == tl.float16, "unpack_words must return fp16; end it with .to(tl.float16)")
    tl.store(out_ptr + depth[:, None] * {COLUMNS} + columns[None, :], q)
""",
        inputs=_unpack_inputs,
        expected=_opened,
        slips=(
            Slip("unsigned: -1 became 15; `& 0xF` alone drops the sign", lambda inputs: _opened(inputs) % 16),
            Slip(
                "in reverse order within each word; element 0 is in the lowest four bits",
                lambda inputs: _by_word(_opened(inputs)).flip(1).reshape(DEPTH, COLUMNS),
            ),
            Slip(
                "right in value and wrong in order: the eight elements of a word must be neighbours along K",
                lambda inputs: _by_word(_opened(inputs)).transpose(0, 1).reshape(DEPTH, COLUMNS),
            ),
        ),
    ),
    Step(
        name="dot",
        function="multiply_tiles",
        result="acc",
        right="fp16 times fp16 into fp32, on the tensor cores.",
        look="tl.dot(x, q, acc) adds the product to acc, which is fp32",
        harness=f"""
@triton.jit
def harness(x_ptr, q_ptr, acc_ptr, out_ptr):{OFFSETS}
    at = rows[:, None] * {COLUMNS} + columns[None, :]
    x = tl.load(x_ptr + rows[:, None] * {DEPTH} + depth[None, :])
    q = tl.load(q_ptr + depth[:, None] * {COLUMNS} + columns[None, :])
    acc = multiply_tiles(x, q, tl.load(acc_ptr + at))
    tl.static_assert(acc.dtype == tl.float32, "multiply_tiles must return fp32, so that small terms are not lost")
    tl.store(out_ptr + at, acc)
""",
        inputs=_dot_inputs,
        expected=lambda inputs: tensor(inputs, "acc_ptr") + _dot(inputs),
        tolerance=lambda inputs: _sum_tolerance(_dot(inputs)),
        slips=(Slip("the product alone; acc was not added", _dot),),
    ),
    Step(
        name="loop",
        function="accumulate",
        result="acc",
        right="The heart of the kernel: every tile along K was opened, multiplied and added.",
        look="start from tl.zeros(..., dtype=tl.float32); for each k: columns k to k + BLOCK_K - 1 of x, "
        "and the words of those rows of W",
        harness=f"""
@triton.jit
def harness(x_ptr, qweight_ptr, K, out_ptr):{OFFSETS}
    acc = accumulate(x_ptr, qweight_ptr, rows, columns, K, K, 1, {COLUMNS}, 1, {ROWS}, {COLUMNS}, {DEPTH})
    tl.static_assert(acc.dtype == tl.float32, "accumulate must return fp32: tl.zeros(..., dtype=tl.float32)")
    tl.store(out_ptr + rows[:, None] * {COLUMNS} + columns[None, :], acc)
""",
        inputs=_loop_inputs,
        expected=_loop_sum,
        tolerance=lambda inputs: _sum_tolerance(_loop_sum(inputs)),
        slips=(
            Slip(
                "the first tile along K alone; does the loop return too early?",
                lambda inputs: _loop_sum(inputs, 0, DEPTH),
            ),
            Slip("without the last tile along K; where does range end?", lambda inputs: _loop_sum(inputs, 0, -DEPTH)),
            Slip(
                "the last tile along K alone; is acc added to, or replaced?", lambda inputs: _loop_sum(inputs, -DEPTH)
            ),
        ),
    ),
    Step(
        name="epilogue",
        function="apply_scales",
        result="y",
        right="One multiplication an element of Y, none in the loop, and no product was rounded before the sum.",
        look="turn the scales to fp32, spread them across the columns, multiply once, end in fp16",
        harness=f"""
@triton.jit
def harness(acc_ptr, scales_ptr, out_ptr):{OFFSETS}
    at = rows[:, None] * {COLUMNS} + columns[None, :]
    y = apply_scales(tl.load(acc_ptr + at), tl.load(scales_ptr + columns))
    tl.static_assert(y.dtype == tl.float16, "apply_scales must return fp16; end it with .to(tl.float16)")
    tl.store(out_ptr + at, y)
""",
        inputs=_scale_inputs,
        expected=_scaled,
        tolerance=lambda inputs: _scaled(inputs).double().abs() * 2.0**-9,
        slips=(
            Slip("not scaled at all", lambda inputs: _scaled(inputs, 0)),
            Slip("scaled twice", lambda inputs: _scaled(inputs, 2)),
            Slip("divided by the scales instead of multiplied", lambda inputs: _scaled(inputs, -1)),
        ),
    ),
    Step(
        name="masks",
        function="load_words_masked",
        result="words",
        right="Nothing outside was read. A word of zeros opens to eight zeros, which add nothing to a sum.",
        look="word j holds rows 8 * j to 8 * j + 7, and K is a multiple of 8: mask words with j < K // 8, columns with n < N",
        harness=f"""
@triton.jit
def harness(qweight_ptr, K, N, out_ptr):{OFFSETS}
    loaded = load_words_masked(qweight_ptr, 0, columns, K, N, N, 1, {DEPTH})
    tl.store(out_ptr + words[:, None] * {COLUMNS} + columns[None, :], loaded)
""",
        inputs=_mask_inputs,
        expected=_padded,
    ),
)
