"""The steps of the GPTQ notebook: open words, find zero points, make weights, loop over K."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from grader.labs.gptq.packing import pack_weight, pack_zeros, spread, unpack_weight, unpack_zeros
from grader.labs.notebook_step import Inputs, Slip, Step, apart, integer, stored, tensor

ROWS, COLUMNS, DEPTH, GROUP = 16, 32, 64, 32
WORDS = DEPTH // 8
ROWS_INSIDE, COLUMNS_INSIDE = ROWS - 3, COLUMNS - 8
FIRST_K, ZERO_ROWS = 64, 7
"""The tile of the step `zeros` begins behind four groups of 16, inside one of 128, and ends beyond the seven groups that there are."""

ZERO_DEPTH = ZERO_ROWS * GROUP // 2 - FIRST_K
"""So many of its k lie below K."""


def _integers(generator: torch.Generator, low: int, high: int, *shape: int) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=generator)


def _unpack_inputs(generator: torch.Generator) -> Inputs:
    return {"words_ptr": pack_weight(_integers(generator, 0, 16, DEPTH, COLUMNS))}


def _opened(inputs: Inputs) -> torch.Tensor:
    return unpack_weight(tensor(inputs, "words_ptr"))


_SHIFTS = (4 * torch.arange(8, dtype=torch.int32))[None, :, None]


def _by_word(q: torch.Tensor) -> torch.Tensor:
    """[K, N] -> [K / 8, 8, N]: the eight elements of each word."""
    return q.view(-1, 8, q.shape[1])


def _zeros_inputs(generator: torch.Generator) -> Inputs:
    """Seven groups, in a matrix twice as wide; each stored zero from 0 to 15 is among them."""
    rows = torch.arange(ZERO_ROWS)[:, None]
    zeros = (rows * 7 + torch.arange(COLUMNS_INSIDE) + _integers(generator, 0, 2, len(rows), COLUMNS_INSIDE)) % 16 + 1
    packed = pack_zeros(zeros)
    wide = torch.zeros(len(rows), 2 * packed.shape[1] + 3, dtype=torch.int32)
    view = wide[:, 2 : 2 + 2 * packed.shape[1] : 2]
    view.copy_(packed)
    return {
        "zeros_ptr": view, "first_k": FIRST_K, "group_size": GROUP // 2, "K": len(rows) * GROUP // 2, "N": COLUMNS_INSIDE,
        "stride_zg": view.stride(0), "stride_zn": view.stride(1),
    }  # fmt: skip


def _found_zeros(inputs: Inputs, first_k: int = FIRST_K, group_size: int = GROUP // 2) -> torch.Tensor:
    """int32 [DEPTH, COLUMNS], 1 where there is nothing to find. first_k, group_size: what a group is computed from."""
    rows = ((first_k + torch.arange(DEPTH)) // group_size)[:ZERO_DEPTH]
    return _where_counted(unpack_zeros(tensor(inputs, "zeros_ptr"))[rows])


def _where_counted(zeros: torch.Tensor) -> torch.Tensor:
    """int32 [DEPTH, COLUMNS], with 1 beyond K and N."""
    found = torch.ones(DEPTH, COLUMNS, dtype=torch.int32)
    found[: zeros.shape[0], : zeros.shape[1]] = zeros
    return found


def _shifted_zeros(inputs: Inputs, shifts: torch.Tensor) -> torch.Tensor:
    """What load_zeros finds when it shifts the words of the right groups by other numbers of bits, [ZERO_DEPTH or 1, columns or 1]."""
    groups = (FIRST_K + torch.arange(ZERO_DEPTH)) // (GROUP // 2)
    words = tensor(inputs, "zeros_ptr")[groups][:, torch.arange(COLUMNS_INSIDE) // 8]
    return _where_counted(((words >> shifts) & 0xF) + 1)


def _only_inside(inputs: Inputs) -> torch.Tensor:
    """No columns beyond N and no k beyond K count."""
    allowed = torch.full((DEPTH, COLUMNS), float("inf"), dtype=torch.float64)
    allowed[:ZERO_DEPTH, :COLUMNS_INSIDE] = 0
    return allowed


def _weight_inputs(generator: torch.Generator) -> Inputs:
    return {
        "q_ptr": _integers(generator, 0, 16, DEPTH, COLUMNS).to(torch.int32),
        "zeros_ptr": _integers(generator, 1, 17, DEPTH, COLUMNS).to(torch.int32),
        "scales_ptr": (0.02 + 0.1 * torch.rand(DEPTH, COLUMNS, generator=generator)).to(torch.float16),
    }


def _weights(inputs: Inputs) -> torch.Tensor:
    q, zeros, scales = (tensor(inputs, name).double() for name in ("q_ptr", "zeros_ptr", "scales_ptr"))
    return ((q - zeros) * scales).to(torch.float16)


def _shifted(inputs: Inputs, zeros: int, more: int) -> torch.Tensor:
    """fp16 [DEPTH, COLUMNS]: (q + zeros * zero points + more) s."""
    q = tensor(inputs, "q_ptr") + zeros * tensor(inputs, "zeros_ptr") + more
    return (q.double() * tensor(inputs, "scales_ptr").double()).to(torch.float16)


def _around_eight(inputs: Inputs) -> torch.Tensor:
    return _shifted(inputs, 0, -8)


def _over_scales(inputs: Inputs) -> torch.Tensor:
    return ((tensor(inputs, "q_ptr") - tensor(inputs, "zeros_ptr")).double() / tensor(inputs, "scales_ptr").double()).to(torch.float16)


def _weight_tolerance(inputs: Inputs) -> torch.Tensor:
    """(q - zero) s rounded once or, as q s - zero s, three times."""
    q, zeros, scales = (tensor(inputs, name).double() for name in ("q_ptr", "zeros_ptr", "scales_ptr"))
    return (q + zeros) * scales * 2.0**-10


def _in_wider_rows(values: torch.Tensor) -> torch.Tensor:
    """The same values, with room behind each row: no stride is the number of columns."""
    return torch.nn.functional.pad(values, (0, 8))[:, : values.shape[1]]


def _loop_inputs(generator: torch.Generator) -> Inputs:
    """Five groups of 32: K ends in the middle of the third tile, M and N inside theirs; rows of every tensor stand apart."""
    M, N, K = ROWS_INSIDE, COLUMNS_INSIDE, 5 * GROUP
    x = apart(torch.randn(M, K, generator=generator).to(torch.float16))
    words = _in_wider_rows(pack_weight(_integers(generator, 0, 16, K, N)))
    scales = _in_wider_rows((0.5 + torch.rand(5, N, generator=generator)).to(torch.float16))
    zeros = _in_wider_rows(pack_zeros(_integers(generator, 1, 17, 5, N)))
    return {
        "x_ptr": x, "qweight_ptr": words, "scales_ptr": scales, "zeros_ptr": zeros, "M": M, "N": N, "K": K, "group_size": GROUP,
        "stride_xm": x.stride(0), "stride_xk": x.stride(1), "stride_wk": words.stride(0),
        "stride_sg": scales.stride(0), "stride_zg": zeros.stride(0),
    }  # fmt: skip


def _loop_weight(inputs: Inputs, zeros_of: torch.Tensor | None = None, scales_of: torch.Tensor | None = None) -> torch.Tensor:
    """float64 [K, N]; zeros_of, scales_of: the group that is looked up for each k; a scale beyond the last group is 0."""
    groups = torch.arange(integer(inputs, "K")) // GROUP
    zeros, scales = unpack_zeros(tensor(inputs, "zeros_ptr")), tensor(inputs, "scales_ptr").double()
    scales = torch.nn.functional.pad(scales, (0, 0, 0, integer(inputs, "K")))
    difference = unpack_weight(tensor(inputs, "qweight_ptr")).double() - zeros[groups if zeros_of is None else zeros_of]
    return difference * scales[groups if scales_of is None else scales_of]


def _loop_sum(
    inputs: Inputs, first: int = 0, last: int | None = None, *,
    zeros_of: torch.Tensor | None = None, scales_of: torch.Tensor | None = None,
) -> torch.Tensor:  # fmt: skip
    """fp32 [ROWS, COLUMNS]: the sum over part of K; zeros beyond M and N."""
    w = _loop_weight(inputs, zeros_of, scales_of)
    y = tensor(inputs, "x_ptr").double()[:, first:last] @ w[first:last]
    tile = torch.zeros(ROWS, COLUMNS)
    tile[: y.shape[0], : y.shape[1]] = y.float()
    return tile


def _loop_turns(inputs: Inputs, turns: Iterable[tuple[int, int, int]]) -> torch.Tensor:
    """fp32 [ROWS, COLUMNS]: the sum when a turn's tile of x, its words and its groups begin at three k, not always the same one."""
    far = 10 * DEPTH * 8
    x = torch.nn.functional.pad(tensor(inputs, "x_ptr").double(), (0, far))
    q = torch.nn.functional.pad(unpack_weight(tensor(inputs, "qweight_ptr")), (0, 0, 0, far))
    zeros = torch.nn.functional.pad(spread(unpack_zeros(tensor(inputs, "zeros_ptr")), GROUP), (0, 0, 0, far), value=1)
    scales = torch.nn.functional.pad(spread(tensor(inputs, "scales_ptr"), GROUP).double(), (0, 0, 0, far))
    y = torch.zeros(ROWS_INSIDE, COLUMNS_INSIDE, dtype=torch.float64)
    for at_x, at_q, at_group in turns:
        w = (q[at_q : at_q + DEPTH] - zeros[at_group : at_group + DEPTH]) * scales[at_group : at_group + DEPTH]
        y += x[:, at_x : at_x + DEPTH] @ w.half().double()
    tile = torch.zeros(ROWS, COLUMNS)
    tile[:ROWS_INSIDE, :COLUMNS_INSIDE] = y.float()
    return tile


def _tiles(inputs: Inputs) -> range:
    """Where the tiles along K begin."""
    return range(0, integer(inputs, "K"), DEPTH)


def _loop_given(inputs: Inputs, *, ones: torch.Tensor) -> torch.Tensor:
    """The sum where load_zeros masks out what `ones`, bool [K, N], says: a zero point is 1 there."""
    zeros = torch.where(ones, 1, spread(unpack_zeros(tensor(inputs, "zeros_ptr")), GROUP))
    w = (unpack_weight(tensor(inputs, "qweight_ptr")) - zeros).double() * spread(tensor(inputs, "scales_ptr"), GROUP).double()
    return _of_weights(inputs, w)


def _of_weights(inputs: Inputs, w: torch.Tensor) -> torch.Tensor:
    """fp32 [ROWS, COLUMNS]: the sum with these weights, [K, N]."""
    tile = torch.zeros(ROWS, COLUMNS)
    tile[:ROWS_INSIDE, :COLUMNS_INSIDE] = (tensor(inputs, "x_ptr").double() @ w).float()
    return tile


def _scales_for_zeros(inputs: Inputs) -> torch.Tensor:
    """The weights of make_weights(q, scales, zeros): q less the scale, as integers or not, times the zero point."""
    q, zeros = unpack_weight(tensor(inputs, "qweight_ptr")), spread(unpack_zeros(tensor(inputs, "zeros_ptr")), GROUP)
    difference = (q.half() - spread(tensor(inputs, "scales_ptr"), GROUP)).half()
    return (difference.double() * zeros).half().double()


def _in_its_tile(inputs: Inputs) -> torch.Tensor:
    """The group of each k, counted from its tile's beginning."""
    return torch.arange(integer(inputs, "K")) % DEPTH // GROUP


def _first_of_tile(inputs: Inputs) -> torch.Tensor:
    """The first group of each k's tile."""
    return torch.arange(integer(inputs, "K")) // DEPTH * DEPTH // GROUP


def _loop_tolerance(inputs: Inputs) -> torch.Tensor:
    """Weights in fp16. What a tile holds beyond M and N is never stored."""
    allowed = torch.full((ROWS, COLUMNS), float("inf"), dtype=torch.float64)
    q, zeros = unpack_weight(tensor(inputs, "qweight_ptr")).double(), spread(unpack_zeros(tensor(inputs, "zeros_ptr")), GROUP)
    size = (q + zeros) * spread(tensor(inputs, "scales_ptr"), GROUP).double()
    allowed[:ROWS_INSIDE, :COLUMNS_INSIDE] = 1e-4 + 2.0**-10 * (tensor(inputs, "x_ptr").double().abs() @ size)
    return allowed


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
        right="Eight unsigned values a word, in the order of K.",
        look="shift each nibble to the lowest four bits and mask the others away: nothing has a sign here. "
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
                "signed: 15 became -1; there is no sign in this format",
                lambda inputs: torch.where(_opened(inputs) > 7, _opened(inputs) - 16, _opened(inputs)),
                r">>",
            ),
            Slip(
                "in reverse order within each word; element 0 is in the lowest four bits",
                lambda inputs: _by_word(_opened(inputs)).flip(1).reshape(DEPTH, COLUMNS),
                r"tl\.arange",
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
            Slip("8 too small; zero points come later, so nothing is subtracted here", lambda inputs: _opened(inputs) - 8, r"8"),
            Slip(
                "shifted by 0 to 7 bits; element i begins at bit 4 * i",
                lambda inputs: ((tensor(inputs, "words_ptr")[:, None, :] >> _SHIFTS // 4) & 0xF).reshape(DEPTH, COLUMNS),
                r"tl\.arange",
            ),
            Slip(
                "not cut off: the elements above it are still there; & 0xF",
                lambda inputs: (tensor(inputs, "words_ptr")[:, None, :] >> _SHIFTS).reshape(DEPTH, COLUMNS),
                r">>",
            ),
            Slip("made of three bits; four bits are 0xF", lambda inputs: _opened(inputs) % 8, r"&"),
            Slip(
                "made of more than four bits; four bits are 0xF",
                lambda inputs: ((tensor(inputs, "words_ptr")[:, None, :] >> _SHIFTS) & 0xFF).reshape(DEPTH, COLUMNS),
                r"&",
            ),
        ),
    ),
    Step(
        name="zeros",
        function="load_zeros",
        result="zeros",
        returns=Q,
        right="Packed along N, stored less one, one row for each group: the three things to get wrong are right.",
        look="the group of k is k // group_size; column n lies in word n // 8 of its row, at bits 4 * (n % 8). Then add one",
        harness=f"""
@triton.jit
def harness(zeros_ptr, first_k, group_size, K, N, stride_zg, stride_zn, out_ptr):{OFFSETS}
    zeros = load_zeros(zeros_ptr, first_k + depth, columns, group_size, K, N, stride_zg, stride_zn)
{stored("zeros", Q)}""",
        inputs=_zeros_inputs,
        sizes={"zeros_ptr": ("K // group_size", "N // 8")},
        expected=_found_zeros,
        tolerance=_only_inside,
        slips=(
            Slip("one too small: a zero point is stored less one", lambda inputs: _found_zeros(inputs) - 1, r"0xF|\b15\b"),
            Slip("two too small: a zero point is stored less one, so add one", lambda inputs: _found_zeros(inputs) - 2, r"- ?1"),
            Slip(
                "right but for 16, which became 0: add one after the mask",
                lambda inputs: _found_zeros(inputs) % 16,
                r"0xF|\b15\b",
            ),
            Slip(
                f"those of the first groups, for k counted from 0; in this tile it begins at {FIRST_K}, as depth says",
                lambda inputs: _found_zeros(inputs, 0),
                r"//",
            ),
            Slip(
                f"those of groups of {GROUP}; group_size is {GROUP // 2} here, and a group is depth // group_size",
                lambda inputs: _found_zeros(inputs, group_size=GROUP),
                rf"\b{GROUP}\b",
            ),
            Slip(
                "those of group 0 throughout, as if groups had 128 or more; "
                f"group_size is {GROUP // 2} here, and a group is depth // group_size",
                lambda inputs: _found_zeros(inputs, group_size=128),
                r"//(?! ?8)",
            ),
            Slip(
                "in reverse order within each word; column 0 is in the lowest four bits",
                lambda inputs: _found_zeros(inputs).view(DEPTH, -1, 8).flip(2).reshape(DEPTH, COLUMNS),
                r"% 8",
            ),
            Slip(
                "shifted by 0 to 7 bits; the zero point of column n begins at bit 4 * (n % 8)",
                lambda inputs: _shifted_zeros(inputs, torch.arange(COLUMNS_INSIDE, dtype=torch.int32)[None, :] % 8),
                r"% 8",
            ),
            Slip(
                "of the nibble that depth names, as in qweight; zeros is packed along N, so columns says which nibble",
                lambda inputs: _shifted_zeros(inputs, 4 * ((FIRST_K + torch.arange(ZERO_DEPTH, dtype=torch.int32))[:, None] % 8)),
                r"% 8",
            ),
            Slip(
                "signed: a stored 15 became -1; there is no sign in this format",
                lambda inputs: torch.where(_found_zeros(inputs) > 8, _found_zeros(inputs) - 16, _found_zeros(inputs)),
                r">>",
            ),
        ),
    ),
    Step(
        name="weight",
        function="make_weights",
        result="w",
        returns=W,
        right="Every weight is right within its rounding. Subtracting integers and then scaling rounds once; scaling both first rounds "
        "three times.",
        look="w = (q - zeros) * scales: subtract while both are integers, then fp16, then multiply",
        harness=f"""
@triton.jit
def harness(q_ptr, zeros_ptr, scales_ptr, out_ptr):{OFFSETS}
    w = make_weights(tl.load(q_ptr + tile), tl.load(zeros_ptr + tile), tl.load(scales_ptr + tile))
{stored("w", W)}""",
        inputs=_weight_inputs,
        expected=_weights,
        tolerance=_weight_tolerance,
        slips=(
            Slip("without the zero points", lambda inputs: (tensor(inputs, "q_ptr") * tensor(inputs, "scales_ptr").double()).half()),
            Slip("not scaled", lambda inputs: (tensor(inputs, "q_ptr") - tensor(inputs, "zeros_ptr")).half()),
            Slip(
                "zero everywhere: scales are below 1, and 0 as integers; make the difference fp16, and leave the scales as they are",
                lambda inputs: torch.zeros_like(_weights(inputs)),
                r"scales\.to",
            ),
            Slip(
                "unsigned: q - zeros is below 0 for some; subtract while both are int32",
                lambda inputs: (
                    ((tensor(inputs, "q_ptr") - tensor(inputs, "zeros_ptr")) % 256).double() * tensor(inputs, "scales_ptr").double()
                ).half(),
                r"uint8",
            ),
            Slip("of q + zeros; the zero point is what is subtracted", lambda inputs: _shifted(inputs, 1, 0), r"\+"),
            Slip("of zero points one too large; load_zeros has added one already", lambda inputs: _shifted(inputs, -1, -1), r"- ?1"),
            Slip(
                "of zero points one too small; load_zeros has added one already, so subtract what it gives",
                lambda inputs: _shifted(inputs, -1, 1),
                r"\+ ?1",
            ),
            Slip("of a zero point of 8 everywhere; each weight has its own, in zeros", _around_eight, r"8"),
            Slip("divided by the scales instead of multiplied", _over_scales, r"/"),
            Slip("of the other sign: the zero point is what is subtracted", lambda inputs: -_weights(inputs), r"-"),
            Slip(
                "scaled in part: the zero point is in the units of q, so the scale multiplies the difference",
                lambda inputs: tensor(inputs, "q_ptr").half() * tensor(inputs, "scales_ptr") - tensor(inputs, "zeros_ptr").half(),
                r"\*",
            ),
            Slip(
                "scaled in part: the scale multiplies q, too; brackets around the difference, (q - zeros) * scales",
                lambda inputs: tensor(inputs, "q_ptr").half() - tensor(inputs, "zeros_ptr").half() * tensor(inputs, "scales_ptr"),
                r"\*",
            ),
        ),
    ),
    Step(
        name="loop",
        function="accumulate",
        result="acc",
        returns=ACC,
        right="Every tile along K was opened with the scales and zero points of its own groups.",
        look="for each k from 0 up to K: a tile of x, the words of those rows, and for each row the scales and zeros of its group",
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
        slips=(
            Slip("zero everywhere; is acc added to?", lambda inputs: torch.zeros_like(_loop_sum(inputs)), r"tl\.dot"),
            Slip(
                "the first tile along K alone; does range end or the loop return too early, or k count elements already?",
                lambda inputs: _loop_sum(inputs, 0, DEPTH),
                r"\breturn\b",
            ),
            Slip(
                "without the last tile along K, of which only a part lies inside; where does range end?",
                lambda inputs: _loop_sum(inputs, 0, 2 * DEPTH),
                r"\brange\(",
            ),
            Slip("the last tile along K alone; is acc added to, or replaced?", lambda inputs: _loop_sum(inputs, 2 * DEPTH)),
            Slip("the sum with acc counted again in every turn; tl.dot(x, w, acc) adds it already, so write acc = and not acc +=",
                 lambda inputs: 2 * _loop_sum(inputs, 0, DEPTH) + _loop_sum(inputs, 0, 2 * DEPTH) + _loop_sum(inputs), r"\+="),
            Slip(
                "made with the scales and zeros of the first groups in every turn; a group is counted from the beginning of K",
                lambda inputs: _loop_sum(inputs, zeros_of=_in_its_tile(inputs), scales_of=_in_its_tile(inputs)),
                r"//",
            ),
            Slip(
                "made with the scales and zeros of a tile's first group for all of the tile; a tile holds several groups",
                lambda inputs: _loop_sum(inputs, zeros_of=_first_of_tile(inputs), scales_of=_first_of_tile(inputs)),
                r"//",
            ),
            Slip(
                "made with the scales of the first groups in every turn; a group is counted from the beginning of K",
                lambda inputs: _loop_sum(inputs, scales_of=_in_its_tile(inputs)),
                r"scales_ptr,",
            ),
            Slip(
                "made with the scales of a tile's first group for all of the tile; a tile holds several groups",
                lambda inputs: _loop_sum(inputs, scales_of=_first_of_tile(inputs)),
                r"scales_ptr,",
            ),
            Slip(
                "made with a row of scales for each k, and zeros where there are no more; a row is a group's, depth // group_size",
                lambda inputs: _loop_sum(inputs, scales_of=torch.arange(integer(inputs, "K"))),
                r"scales_ptr,",
            ),
            Slip(
                "made with a row of scales for each k from its tile's first group on, and zeros where there are no more; "
                "a row is a group's, depth // group_size",
                lambda inputs: _loop_sum(inputs, scales_of=_first_of_tile(inputs) + torch.arange(integer(inputs, "K")) % DEPTH),
                r"scales_ptr,",
            ),
            Slip(
                "made with the zero points of the first group; load_zeros takes depth itself, and divides by group_size",
                lambda inputs: _loop_sum(inputs, zeros_of=torch.zeros(integer(inputs, "K"), dtype=torch.long)),
                r"load_zeros\(",
            ),
            Slip(
                "made with the zero points of the first groups in every turn; load_zeros takes depth, which begins at k",
                lambda inputs: _loop_sum(inputs, zeros_of=_in_its_tile(inputs)),
                r"load_zeros\(",
            ),
            Slip(
                "made with the zero points of a tile's first group for all of the tile; load_zeros takes depth, a number for each row",
                lambda inputs: _loop_sum(inputs, zeros_of=_first_of_tile(inputs)),
                r"load_zeros\(",
            ),
            Slip(
                "made with zero points of the first few k alone; load_zeros takes K itself, and divides by group_size",
                lambda inputs: _loop_given(inputs, ones=(torch.arange(integer(inputs, "K")) >= integer(inputs, "K") // GROUP)[:, None]),
                r"load_zeros\(",
            ),
            Slip(
                "made with zero points of the first few columns alone; load_zeros takes N itself, and divides by 8",
                lambda inputs: _loop_given(inputs, ones=(torch.arange(COLUMNS_INSIDE) >= COLUMNS_INSIDE // 8)[None, :]),
                r"load_zeros\(",
            ),
            Slip(
                "made with scales and zeros in each other's place; make_weights takes q, zeros, scales",
                lambda inputs: _of_weights(inputs, _scales_for_zeros(inputs)),
                r"make_weights\(",
            ),
            Slip(
                "the product with q alone; make_weights subtracts the zeros and scales",
                lambda inputs: _of_weights(inputs, unpack_weight(tensor(inputs, "qweight_ptr")).double()),
                r"tl\.dot",
            ),
            Slip(
                f"made of tiles along K that overlap: each is {DEPTH} = BLOCK_K long, and the next begins {GROUP} = group_size behind it; "
                "a tile may hold several groups",
                lambda inputs: _loop_turns(inputs, ((k, k, k) for k in range(0, integer(inputs, "K"), GROUP))),
                r"\brange\(",
            ),
            *(
                Slip(
                    f"made of tiles along K that overlap: the loop had {turns}, each begun one element behind the last; "
                    "k is 0, BLOCK_K, 2 * BLOCK_K and so on: range(0, K, BLOCK_K)",
                    lambda inputs, turns=turns: _loop_turns(inputs, ((k, k // 8 * 8, k) for k in range(turns))),  # type: ignore[misc]
                    r"\brange\(",
                )
                for turns in (5 * GROUP, -(-5 * GROUP // DEPTH), 5 * GROUP // DEPTH)
            ),
            Slip(
                "the first tile, three times; depth and the words begin at k",
                lambda inputs: _loop_turns(inputs, ((0, 0, 0) for _ in _tiles(inputs))),
            ),
            Slip(
                "made with the first tile of x and the first groups in every turn; depth begins at k",
                lambda inputs: _loop_turns(inputs, ((0, k, 0) for k in _tiles(inputs))),
                r"depth =",
            ),
            Slip(
                "the first tile of x with all of the weight; the columns of x begin at k too",
                lambda inputs: _loop_turns(inputs, ((0, k, k) for k in _tiles(inputs))),
                r"x_ptr,",
            ),
            Slip(
                "made with the first words in every turn; a turn's words begin at row k // 8 of qweight",
                lambda inputs: _loop_turns(inputs, ((k, 0, k) for k in _tiles(inputs))),
                r"qweight_ptr,",
            ),
            Slip(
                "made with words from row k of qweight on; a word is eight rows of K, so they begin at row k // 8",
                lambda inputs: _loop_turns(inputs, ((k, 8 * k, k) for k in _tiles(inputs))),
                r"qweight_ptr,",
            ),
        ),
    ),
)
