"""The warm-ups about numbers with fewer bits: the scales of rows, packing int4 into words, and opening the words again."""

from __future__ import annotations

import torch

from grader.exercises.opening.matrices import BLOCK, BLOCK_K, K_LONG, M_TALL, strided_matrix, with_strides
from grader.labs.inputs import pack_int4, unpack_int4
from grader.labs.notebook_step import Inputs, Slip, Step, stored, tensor

WORDS = 16
PACKED, OPENED = f"int32 [{WORDS}]", f"int32 [{WORDS}, 8]"


def _scales_inputs(generator: torch.Generator) -> Inputs:
    """The largest of a row is negative in every other row and lies in another tile from row to row; every seventh row is zero."""
    x = strided_matrix(generator, M_TALL, K_LONG)
    row = torch.arange(M_TALL)
    x[row, (31 * row) % K_LONG] = (5.0 + row % 4).to(torch.float16) * torch.where(row % 2 == 0, -1, 1)
    x[::7] = 0
    return {**with_strides(x), "M": M_TALL, "K": K_LONG}


def _scales(inputs: Inputs, *, first: int = 0, last: int | None = None, signed: bool = False, zero: float = 1.0) -> torch.Tensor:
    """fp32 [M]: largest magnitude over part of K, by 127; `zero` for a row of zeros."""
    x = tensor(inputs, "x_ptr").float()[:, first:last]
    scale = (x if signed else x.abs()).amax(dim=1) / 127
    return torch.where((x == 0).all(dim=1), torch.full_like(scale, zero), scale)


def _shared(inputs: Inputs, by: int, zero: float = 1.0) -> torch.Tensor:
    """fp32 [M]: the largest magnitude by another number than 127; `zero` for a row of zeros."""
    scale = tensor(inputs, "x_ptr").float().abs().amax(dim=1) / by
    return torch.where(scale == 0, torch.full_like(scale, zero), scale)


def _added_maxima(inputs: Inputs) -> torch.Tensor:
    """fp32 [M]: the maxima of the tiles along K, added up."""
    parts = tensor(inputs, "x_ptr").float().abs().split(BLOCK_K, dim=1)
    scale = sum((part.amax(dim=1) for part in parts), torch.zeros(M_TALL)) / 127
    return torch.where(scale == 0, torch.ones_like(scale), scale)


def _of_tiles(inputs: Inputs) -> torch.Tensor:
    """fp32 [M]: one scale for all rows of a program."""
    peaks = [rows.abs().amax().float().expand(len(rows)) for rows in tensor(inputs, "x_ptr").split(BLOCK)]
    return torch.cat(peaks) / 127


def _nibbles(generator: torch.Generator) -> torch.Tensor:
    """int32 [WORDS, 8] of -8 to 7; the first word holds each of the lower half, the second of the upper."""
    q = torch.randint(-8, 8, (WORDS, 8), generator=generator)
    q[0], q[1] = torch.arange(-8, 0), torch.arange(0, 8)
    return q.to(torch.int32)


def _packed(q: torch.Tensor) -> torch.Tensor:
    return pack_int4(q.reshape(-1, 1)).view(WORDS)


def _joined(parts: torch.Tensor, width: int) -> torch.Tensor:
    """int32 [WORDS]: int32 [WORDS, 8], each shifted by so many bits more than the one before it, and added up as int32 does."""
    total = (parts.long() << (width * torch.arange(8))).sum(dim=1) % 2**32
    return torch.where(total >= 2**31, total - 2**32, total).to(torch.int32)


def _shifted_first(inputs: Inputs) -> torch.Tensor:
    """int32 [WORDS]: q & (0xF << 4 * i), as Python reads it without brackets."""
    masked = tensor(inputs, "q_ptr").long() & (0xF << 4 * torch.arange(8))
    return masked.sum(dim=1).to(torch.int32)


def _unpacked(inputs: Inputs) -> torch.Tensor:
    return unpack_int4(tensor(inputs, "words_ptr")[:, None]).view(WORDS, 8)


def _uncut(inputs: Inputs) -> torch.Tensor:
    """int32 [WORDS, 8]: each word shifted down to element i."""
    return tensor(inputs, "words_ptr")[:, None] >> (4 * torch.arange(8, dtype=torch.int32))[None, :]


def _lifted(inputs: Inputs) -> torch.Tensor:
    """int32 [WORDS, 8]: each word shifted up until element i is at its top."""
    return tensor(inputs, "words_ptr")[:, None] << (28 - 4 * torch.arange(8, dtype=torch.int32))[None, :]


STEPS = (
    Step(
        name="scales",
        function="row_scales",
        result="scale",
        right="This is the kernel that computes input_scale for W8A8: one number a row, by which X is divided.",
        look="keep a vector of BLOCK_M maxima that begins with zeros; for each tile along K take "
        "tl.maximum of it and tl.max(tl.abs(tile), axis=1); at the end divide by 127, and let tl.where put 1 where the maximum is 0",
        harness=f"""
@triton.jit
def harness(x_ptr, stride_row, stride_column, M, K, out_ptr):
    row_scales(x_ptr, out_ptr, M, K, stride_row, stride_column, {BLOCK}, {BLOCK_K})
""",
        grid=(2, 1, 1),
        inputs=_scales_inputs,
        expected=_scales,
        tolerance=lambda inputs: _scales(inputs).double() * 1e-6,
        slips=(
            Slip("the largest value, not the largest magnitude; take tl.abs first", lambda inputs: _scales(inputs, signed=True),
                 r"tl\.max\("),
            Slip("0 for a row of zeros, by which nobody can divide; make it 1", lambda inputs: _scales(inputs, zero=0.0), r"127"),
            Slip("that of the last tile along K alone; keep the larger of it and what was there",
                 lambda inputs: _scales(inputs, first=2 * BLOCK_K), r"tl\.max\("),
            Slip("that of the first tile along K alone; does the loop go on, and do its columns begin at k?",
                 lambda inputs: _scales(inputs, last=BLOCK_K), r"load_tile\("),
            Slip("without the last tile along K, of which only a part lies inside; where does range end?",
                 lambda inputs: _scales(inputs, last=2 * BLOCK_K), r"\brange\("),
            Slip("that of all rows of the tile; tl.max takes axis=1 to give each row its own", _of_tiles, r"tl\.max\("),
            Slip("1 for all rows but those of zeros; tl.where(condition, a, b) gives a where the condition holds",
                 lambda inputs: 1 - (tensor(inputs, "x_ptr") == 0).all(dim=1).float(), r"tl\.where"),
            Slip("divided by 128; the largest value becomes 127", lambda inputs: _shared(inputs, 128), r"128"),
            Slip("1 / 127 for a row of zeros; divide by 127 first, and let tl.where choose after that",
                 lambda inputs: _scales(inputs, zero=1 / 127), r"tl\.where"),
            Slip("at least 1; only a row of zeros gets the scale 1, with tl.where(condition, a, b)",
                 lambda inputs: _scales(inputs).clamp(min=1.0), r"tl\.maximum"),
            Slip("the sum of the tiles' maxima; take tl.maximum of the two, not +", _added_maxima, r"\+"),
            Slip("that of the first columns only, one further each turn: range counts tiles here, so k wants BLOCK_K as its step",
                 lambda inputs: _scales(inputs, last=BLOCK_K + -(-K_LONG // BLOCK_K) - 1), r"\brange\("),
            Slip("127 / maximum, upside down; it is maximum / 127",
                 lambda inputs: torch.full((M_TALL,), 127.0).div(_shared(inputs, 1, zero=0.0)), r"127"),
            Slip("the maximum itself; divide it by 127", lambda inputs: _shared(inputs, 1, zero=0.0), r"tl\.store"),
            Slip("the maximum itself, and 1 for a row of zeros; divide it by 127", lambda inputs: _shared(inputs, 1), r"tl\.store"),
        ),
    ),
    Step(
        name="pack",
        function="pack",
        result="words",
        returns=PACKED,
        right="Eight numbers, one word. The bits do not overlap, so that a sum is as good as an OR.",
        look="q & 0xF keeps the lowest four bits, << 4 * i moves those of element i to their place, tl.sum(..., axis=1) joins them",
        harness=f"""
@triton.jit
def harness(q_ptr, out_ptr):
    words = pack(tl.load(q_ptr + tl.arange(0, {WORDS})[:, None] * 8 + tl.arange(0, 8)[None, :]))
{stored("words", PACKED)}""",
        inputs=lambda generator: {"q_ptr": _nibbles(generator)},
        expected=lambda inputs: _packed(tensor(inputs, "q_ptr")),
        slips=(
            Slip("the eight numbers in reverse order; element 0 is in the lowest four bits",
                 lambda inputs: _packed(tensor(inputs, "q_ptr").flip(1)), r"tl\.arange"),
            Slip(
                "spoilt by the bits that make a number negative; keep four bits of each with & 0xF",
                lambda inputs: (tensor(inputs, "q_ptr") << (4 * torch.arange(8, dtype=torch.int32))).sum(dim=1).to(torch.int32),
                r"<<",
            ),
            Slip("shifted down, out of the word; element i moves up to bit 4 * i with <<",
                 lambda inputs: ((tensor(inputs, "q_ptr") & 0xF) >> (4 * torch.arange(8, dtype=torch.int32))).sum(dim=1).to(torch.int32),
                 r">>"),
            Slip("made with bits that overlap: element i takes four bits, so shift it by 4 * i",
                 lambda inputs: _joined(tensor(inputs, "q_ptr") & 0xF, 1), r"tl\.arange"),
            Slip("made with three bits of each; four bits are 0xF",
                 lambda inputs: _joined(tensor(inputs, "q_ptr") & 0x7, 4), r"&"),
            Slip("made with more than four bits of each; four bits are 0xF",
                 lambda inputs: _joined(tensor(inputs, "q_ptr") & 0xFF, 4), r"&"),
            Slip("made of q + 8; a negative number keeps its own four bits, & 0xF, and nothing is added",
                 lambda inputs: _joined(tensor(inputs, "q_ptr") + 8, 4), r"\+"),
            Slip("q & (0xF << ...), since << binds more tightly than &; put q & 0xF in brackets", _shifted_first, r"<<"),
        ),
    ),
    Step(
        name="unpack",
        function="unpack",
        result="q",
        returns=OPENED,
        right="And back, signs included. W4A16 is this and a product.",
        look="words[:, None] << 28 - 4 * i puts element i at the top of the word, and >> 28 brings it down with its sign",
        harness=f"""
@triton.jit
def harness(words_ptr, out_ptr):
    q = unpack(tl.load(words_ptr + tl.arange(0, {WORDS})))
{stored("q", OPENED)}""",
        inputs=lambda generator: {"words_ptr": _packed(_nibbles(generator))},
        expected=_unpacked,
        slips=(
            Slip("8 too small where it should be positive, and 8 too large where negative; a pattern above 7 means minus 16",
                 lambda inputs: _unpacked(inputs) % 16 - 8, r"- ?8"),
            Slip("right but for -8, which became 8: a pattern above 7 is negative, and 8 is above 7",
                 lambda inputs: torch.where(_unpacked(inputs) == -8, 8, _unpacked(inputs)), r"8"),
            Slip("shifted down and not cut off: the elements above it are still there", _uncut, r">>"),
            Slip("shifted up and not down far enough: four bits of 32 are left after >> 28", lambda inputs: _lifted(inputs) >> 4, r">> ?4"),
            Slip("those of a neighbour: element i moves up by 28 - 4 * i, so that the last one stays",
                 lambda inputs: torch.cat([torch.zeros(WORDS, 1, dtype=torch.int32), _unpacked(inputs)[:, :-1]], dim=1), r"32"),
            Slip("unsigned: -1 became 15; & 0xF alone drops the sign", lambda inputs: _unpacked(inputs) % 16, r"0xF|\b15\b"),
            Slip("in reverse order; element 0 is in the lowest four bits", lambda inputs: _unpacked(inputs).flip(1), r"tl\.arange"),
        ),
    ),
)  # fmt: skip
