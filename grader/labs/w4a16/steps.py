"""The steps of the W4A16 notebook: load words with masks, open them, multiply, loop over K, scale."""

from __future__ import annotations

import torch

from grader.labs.inputs import pack_int4, unpack_int4
from grader.labs.loop_slips import loop_slips
from grader.labs.notebook_step import Inputs, Slip, Step, apart, integer, stored, tensor

ROWS, COLUMNS, DEPTH = 16, 32, 64
WORDS = DEPTH // 8


def _nibbles(generator: torch.Generator, K: int) -> torch.Tensor:
    """int32 [K, COLUMNS] in -8..7, packed into int32 [K / 8, COLUMNS]."""
    return pack_int4(torch.randint(-8, 8, (K, COLUMNS), generator=generator).to(torch.int32))


ROWS_INSIDE, COLUMNS_INSIDE = ROWS - 3, COLUMNS - 5


def _load_inputs(generator: torch.Generator) -> Inputs:
    """Words 8 to 12 lie inside, words 13 to 15 of the tile and its last columns do not; every other column of a wider matrix."""
    K = 2 * DEPTH - 24
    wide = pack_int4(torch.randint(-8, 8, (K, 3 * COLUMNS), generator=generator).to(torch.int32))
    words = wide[:, 4 : 4 + 2 * COLUMNS_INSIDE : 2]
    return {
        "qweight_ptr": words, "first_k": DEPTH, "K": K, "N": COLUMNS_INSIDE,
        "stride_wk": words.stride(0), "stride_wn": words.stride(1),
    }  # fmt: skip


def _loaded(inputs: Inputs, first_word: int = WORDS) -> torch.Tensor:
    words = tensor(inputs, "qweight_ptr")[first_word : first_word + WORDS]
    padded = torch.zeros(WORDS, COLUMNS, dtype=torch.int32)
    padded[: words.shape[0], : words.shape[1]] = words
    return padded


def _unpack_inputs(generator: torch.Generator) -> Inputs:
    return {"words_ptr": _nibbles(generator, DEPTH)}


def _opened(inputs: Inputs) -> torch.Tensor:
    return unpack_int4(tensor(inputs, "words_ptr")).to(torch.float16)


_SHIFTS = (4 * torch.arange(8, dtype=torch.int32))[None, :, None]


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
    """K ends in the middle of the third tile, M and N inside theirs; elements of X and rows of words stand apart."""
    M, N, K = ROWS_INSIDE, COLUMNS_INSIDE, 5 * DEPTH // 2
    x = apart(torch.randn(M, K, generator=generator).to(torch.float16))
    words = pack_int4(torch.randint(-8, 8, (K, N + 8), generator=generator).to(torch.int32))[:, :N]
    strides = {"stride_xm": x.stride(0), "stride_xk": x.stride(1), "stride_wk": N + 8}
    return {"x_ptr": x, "qweight_ptr": words, "M": M, "N": N, "K": K, **strides}


def _loop_sum(inputs: Inputs, first: int = 0, last: int | None = None) -> torch.Tensor:
    """fp32 [ROWS, COLUMNS]: the sum over part of K; zeros beyond M and N."""
    q = unpack_int4(tensor(inputs, "qweight_ptr")).double()
    return _in_tile(tensor(inputs, "x_ptr").double()[:, first:last] @ q[first:last])


def _loop_astray(inputs: Inputs, *, x_moves: bool, w_moves: bool, w_share: int = 1) -> torch.Tensor:
    """The sum when X or the weight stays at its first tile along K, or the weight moves by a share of a tile only."""
    x, q = tensor(inputs, "x_ptr").double(), unpack_int4(tensor(inputs, "qweight_ptr")).double()
    beyond = 3 * DEPTH - integer(inputs, "K")
    x, q = torch.nn.functional.pad(x, (0, beyond)), torch.nn.functional.pad(q, (0, 0, 0, beyond))
    parts = []
    for k in range(0, 3 * DEPTH, DEPTH):
        left, right = k if x_moves else 0, k // w_share if w_moves else 0
        parts.append(x[:, left : left + DEPTH] @ q[right : right + DEPTH])
    return _in_tile(sum(parts, torch.zeros_like(parts[0])))


def _loop_counted(inputs: Inputs) -> torch.Tensor:
    """The sum when k counts tiles: X goes on by an element a turn, and the words, by k // 8, not at all."""
    x, q = tensor(inputs, "x_ptr").double(), unpack_int4(tensor(inputs, "qweight_ptr")).double()
    parts = [x[:, k : k + DEPTH] @ q[:DEPTH] for k in range(3)]
    return _in_tile(sum(parts, torch.zeros_like(parts[0])))


def _in_tile(y: torch.Tensor) -> torch.Tensor:
    tile = torch.zeros(ROWS, COLUMNS)
    tile[: y.shape[0], : y.shape[1]] = y.float()
    return tile


def _loop_tolerance(inputs: Inputs) -> torch.Tensor:
    """What a tile holds beyond M and N is never stored."""
    allowed = torch.full((ROWS, COLUMNS), float("inf"), dtype=torch.float64)
    allowed[:ROWS_INSIDE, :COLUMNS_INSIDE] = _sum_tolerance(_loop_sum(inputs))[:ROWS_INSIDE, :COLUMNS_INSIDE]
    return allowed


def _scale_inputs(generator: torch.Generator) -> Inputs:
    """Every fourth column has sums beyond fp16's range, and a scale that brings them back into it."""
    acc = 50 * torch.randn(ROWS, COLUMNS, generator=generator)
    scales = (torch.rand(COLUMNS, generator=generator) + 0.5) / 16
    acc[:, ::4] *= 2**14
    scales[::4] /= 2**8
    return {"acc_ptr": acc, "scales_ptr": scales.to(torch.float16)}


def _scaled(inputs: Inputs, power: int = 1, *, early: bool = False) -> torch.Tensor:
    """fp16 [ROWS, COLUMNS]. early: the sum is made fp16 before it is scaled."""
    acc, scales = tensor(inputs, "acc_ptr"), tensor(inputs, "scales_ptr").double()[None, :]
    return ((acc.to(torch.float16) if early else acc).double() * scales**power).to(torch.float16)


def _sum_tolerance(expected: torch.Tensor) -> torch.Tensor:
    """An fp32 sum in any order."""
    return 1e-4 + 1e-5 * expected.double().abs()


OFFSETS = f"""
    rows, columns = tl.arange(0, {ROWS}), tl.arange(0, {COLUMNS})
    depth, words = tl.arange(0, {DEPTH}), tl.arange(0, {WORDS})
"""

LOADED, Q = f"int32 [{WORDS}, {COLUMNS}]", f"fp16 [{DEPTH}, {COLUMNS}]"
ACC, Y = f"fp32 [{ROWS}, {COLUMNS}]", f"fp16 [{ROWS}, {COLUMNS}]"

STEPS = (
    Step(
        name="load",
        function="load_words",
        result="words",
        returns=LOADED,
        right="An eighth of the rows: each word holds eight weights of its column. A word of zeros opens to eight zeros.",
        look="element k lies in word k // 8: the tile's words are first_k // 8 and the BLOCK_K // 8 - 1 after it; "
        "words below K // 8 and columns below N lie inside",
        harness=f"""
@triton.jit
def harness(qweight_ptr, first_k, K, N, stride_wk, stride_wn, out_ptr):{OFFSETS}
    loaded = load_words(qweight_ptr, first_k, columns, K, N, stride_wk, stride_wn, {DEPTH})
{stored("loaded", LOADED)}""",
        inputs=_load_inputs,
        sizes={"qweight_ptr": ("K // 8", "N")},
        expected=_loaded,
        slips=(
            Slip(
                "from word first_k on; eight elements share a word, so begin at word first_k // 8",
                lambda inputs: _loaded(inputs, integer(inputs, "first_k")),
                r"first_k",
            ),
            Slip(
                "the first words of each column; begin at word first_k // 8", lambda inputs: _loaded(inputs, 0), r"tl\.arange"
            ),
        ),
    ),
    Step(
        name="unpack",
        function="unpack_words",
        result="q",
        returns=Q,
        right="Eight signed values a word, in the order of K, each of them exact in fp16.",
        look="move a nibble to the top of the word and shift it down again: >> copies the sign. "
        "Then [words, 8, columns] becomes [8 * words, columns]",
        harness=f"""
@triton.jit
def harness(words_ptr, out_ptr):{OFFSETS}
    q = unpack_words(tl.load(words_ptr + words[:, None] * {COLUMNS} + columns[None, :]))
{stored("q", Q)}""",
        inputs=_unpack_inputs,
        expected=_opened,
        slips=(
            Slip(
                "unsigned: -1 became 15; `& 0xF` alone drops the sign",
                lambda inputs: _opened(inputs) % 16,
                r"0xF|\b15\b",
            ),
            Slip(
                "in reverse order within each word; element 0 is in the lowest four bits",
                lambda inputs: _by_word(_opened(inputs)).flip(1).reshape(DEPTH, COLUMNS),
                r"tl\.arange",
            ),
            Slip(
                "8 too small where it should be positive, and 8 too large where negative; a pattern above 7 means minus 16",
                lambda inputs: _opened(inputs) % 16 - 8,
                r"- ?8",
            ),
            Slip(
                "1 too large where it is negative; a pattern above 7 means minus 16",
                lambda inputs: _opened(inputs) + (_opened(inputs) < 0),
                r"15",
            ),
            Slip(
                "8 too large where it is negative; a pattern above 7 means minus 16",
                lambda inputs: _opened(inputs) + 8 * (_opened(inputs) < 0),
                r"8",
            ),
            Slip(
                "unsigned, and in reverse order within each word: move element i up by 28 - 4 * i, and >> 28 brings it down with its sign",
                lambda inputs: _by_word(_opened(inputs) % 16).flip(1).reshape(DEPTH, COLUMNS),
                r">>",
            ),
            Slip(
                "shifted up and not down far enough: four bits of 32 are left after >> 28",
                lambda inputs: ((tensor(inputs, "words_ptr")[:, None, :] << (28 - _SHIFTS)) >> 4).reshape(DEPTH, COLUMNS).to(torch.float16),
                r">> ?4",
            ),
            Slip(
                "shifted down and not cut off: the elements above it are still there",
                lambda inputs: (tensor(inputs, "words_ptr")[:, None, :] >> _SHIFTS).reshape(DEPTH, COLUMNS).to(torch.float16),
                r">>",
            ),
            Slip(
                "right in value and wrong in order: the eight elements of a word must be neighbours along K",
                lambda inputs: _by_word(_opened(inputs)).transpose(0, 1).reshape(DEPTH, COLUMNS),
                r"reshape",
            ),
            Slip(
                "right in value and wrong in order: the eight shifts go between words and columns, [None, :, None]",
                lambda inputs: _by_word(_opened(inputs)).transpose(1, 2).reshape(DEPTH, COLUMNS),
                r"None",
            ),
        ),
    ),
    Step(
        name="dot",
        function="multiply_tiles",
        result="acc",
        returns=ACC,
        right="fp16 times fp16 into fp32, on the tensor cores.",
        look="tl.dot(x, q, acc) adds the product to acc, which is fp32",
        harness=f"""
@triton.jit
def harness(x_ptr, q_ptr, acc_ptr, out_ptr):{OFFSETS}
    x = tl.load(x_ptr + rows[:, None] * {DEPTH} + depth[None, :])
    q = tl.load(q_ptr + depth[:, None] * {COLUMNS} + columns[None, :])
    acc = multiply_tiles(x, q, tl.load(acc_ptr + rows[:, None] * {COLUMNS} + columns[None, :]))
{stored("acc", ACC)}""",
        inputs=_dot_inputs,
        expected=lambda inputs: tensor(inputs, "acc_ptr") + _dot(inputs),
        tolerance=lambda inputs: _sum_tolerance(_dot(inputs)),
        slips=(
            Slip("the product alone; acc was not added", _dot, r"tl\.dot"),
            Slip("the sum with acc counted twice; tl.dot with acc as an argument adds it already",
                 lambda inputs: 2 * tensor(inputs, "acc_ptr") + _dot(inputs), r"tl\.dot"),
            Slip("acc as it was; return what tl.dot gives, or assign it to acc",
                 lambda inputs: tensor(inputs, "acc_ptr").clone(), r"tl\.dot"),
        ),
    ),
    Step(
        name="loop",
        function="accumulate",
        result="acc",
        returns=ACC,
        right="The heart of the kernel: every tile along K was opened, multiplied and added, the last one in part.",
        look="start from tl.zeros(..., dtype=tl.float32); for each k from 0 up to K: columns k to k + BLOCK_K - 1 of x, "
        "and the words of those rows of W",
        harness=f"""
@triton.jit
def harness(x_ptr, qweight_ptr, M, N, K, stride_xm, stride_xk, stride_wk, out_ptr):{OFFSETS}
    acc = accumulate(x_ptr, qweight_ptr, rows, columns, M, N, K, stride_xm, stride_xk, stride_wk, 1, {ROWS}, {COLUMNS}, {DEPTH})
{stored("acc", ACC)}""",
        inputs=_loop_inputs,
        expected=_loop_sum,
        tolerance=_loop_tolerance,
        slips=(
            *loop_slips(_loop_sum, DEPTH),
            Slip(
                "made of tiles along K that do not meet: k counts elements, for load_tile and load_words alike, so range(0, K, BLOCK_K)",
                lambda inputs: _loop_counted(inputs),
                r"\brange\(",
            ),
            Slip(
                "without what lies beyond column K // 8 of x; x is not packed, and its columns end at K",
                lambda inputs: _loop_sum(inputs, 0, integer(inputs, "K") // 8),
                r"load_tile\(",
            ),
            Slip(
                "the first tile, three times; advance both tiles along K",
                lambda inputs: _loop_astray(inputs, x_moves=False, w_moves=False),
            ),
            Slip(
                "every tile of x with the first words; give load_words the k of the turn",
                lambda inputs: _loop_astray(inputs, x_moves=True, w_moves=False),
                r"load_words",
            ),
            Slip(
                "every tile of x with words too near the first ones; load_words takes k itself, and divides by 8",
                lambda inputs: _loop_astray(inputs, x_moves=True, w_moves=True, w_share=8),
                r"load_words",
            ),
            Slip(
                "the first tile of x with all the words; the columns of x begin at k too",
                lambda inputs: _loop_astray(inputs, x_moves=False, w_moves=True),
            ),
            Slip(
                "without most of the words; load_words takes K itself, and divides by 8",
                lambda inputs: _loop_sum(inputs, 0, integer(inputs, "K") // 8 // 8 * 8),
                r"load_words",
            ),
        ),
    ),
    Step(
        name="epilogue",
        function="apply_scales",
        result="y",
        returns=Y,
        right="One multiplication an element of Y, none in the loop, and no product was rounded before the sum.",
        look="turn the scales to fp32, spread them across the columns, multiply once, end in fp16",
        harness=f"""
@triton.jit
def harness(acc_ptr, scales_ptr, out_ptr):{OFFSETS}
    acc = tl.load(acc_ptr + rows[:, None] * {COLUMNS} + columns[None, :])
    y = apply_scales(acc, tl.load(scales_ptr + columns))
{stored("y", Y)}""",
        inputs=_scale_inputs,
        expected=_scaled,
        tolerance=lambda inputs: _scaled(inputs).double().abs() * 2.0**-9,
        slips=(
            Slip(
                "fp16 before it is scaled: a sum beyond 65504 is inf in fp16, and stays inf",
                lambda inputs: _scaled(inputs, early=True),
                r"float16",
            ),
            Slip("not scaled at all", lambda inputs: _scaled(inputs, 0)),
            Slip("scaled twice", lambda inputs: _scaled(inputs, 2)),
            Slip("7 times too small; 7 is in the scales already",
                 lambda inputs: (tensor(inputs, "acc_ptr").double() * tensor(inputs, "scales_ptr").double() / 7).to(torch.float16), r"7"),
            Slip("divided by the scales instead of multiplied", lambda inputs: _scaled(inputs, -1)),
        ),
    ),
)
