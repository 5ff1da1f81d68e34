"""What is observed of a wrong kernel is measured, in the order of the flow; of a right one nothing deviates."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import numpy as np
import pytest

from grader.diagnosis.compare import compare, followed_programs
from grader.diagnosis.definition import behind
from grader.diagnosis.fit import fit
from grader.diagnosis.observation import COLUMNS, Number, Observation, first_of_each, place_in
from grader.diagnosis.provenance import Provenance
from grader.diagnosis.statements import line_of_constant
from grader.diagnosis.tape import CalledLine, parse
from grader.labs import get_lab
from grader.labs.edits import kernel_text
from tests.relations import observed, recorded
from tests.submissions import TESTS, corpus, failed_cases, graded_as_read, style_file, styles

pytestmark = pytest.mark.slow

RIGHT = sorted(
    path
    for paths in (styles(), *((TESTS.parent / folder).iterdir() for folder in ("solutions", "solutions/ladder")))
    for path in paths
    if path.suffix == ".py"
)
SMALL = {
    "w8a8": ("all_tails", "transposed_x"),
    "w4a16": ("all_tails", "strided_y"),
    "dds": ("odd_m", "transposed_x"),
    "w8a16": ("all_tails", "strided_weight"),
    "gptq": ("groups_of_32", "strided_scales"),
}
PLAIN = {lab: (TESTS / "styles" / f"{lab}_plain.py").read_text(encoding="utf-8") for lab in SMALL}


def changed(lab, find, put):
    assert PLAIN[lab].count(find) == 1, find
    return PLAIN[lab].replace(find, put)


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_of_a_right_kernel_nothing_deviates_though_every_element_is_asked(path):
    lab = path.stem.split("_")[0]
    for case in SMALL[lab][: 1 if path.stem == "w4a16_row_loop" else None]:  # 4112 columns of `strided_y`, one by one, take minutes
        assert observed(path.read_text(encoding="utf-8"), lab, case, forced=True) == []


@pytest.mark.parametrize(
    ("lab", "find", "put", "key", "words"),
    [
        ("w8a8", "w_ptrs += BLOCK_K * stride_wk", "w_ptrs += 0 * stride_wk", ("k", "right step"), "k of W advances by 0 from"),
        ("w8a8", "x_ptrs += BLOCK_K * stride_xk", "x_ptrs += 2 * BLOCK_K * stride_xk", ("k", "left step"), "advances by 64"),
        ("w8a8", "        x = tl.floor(x + 0.5)\n", "", ("value", "left"), "is multiplied as"),
        ("w8a8", "range(0, tl.cdiv(K, BLOCK_K))", "range(0, K // BLOCK_K)", ("count", "missing"), "k = 192:208 is never multiplied"),
        ("w8a8", "acc += tl.dot(", "acc = tl.dot(", ("sum", "lost"), "6 of the 7 tile products never reach Y"),
        ("w8a8", " * w_scale[None, :]", "", ("scale", "powers 1 0"), "= input_scale[0]"),
        ("w8a8", " * w_scale[None, :]", " * w_scale.to(tl.float16)[None, :]", ("precision", "rounding"), "expected fp32 up to the result"),
        ("w8a8", "acc.to(tl.float32) * x_scale[:, None]", "(acc.to(tl.float32) * x_scale[:, None]).to(tl.float16)",
         ("precision", "rounding"), "as fp16 is"),
        ("w4a16", "nibble - 16, nibble)", "nibble - 8, nibble)", ("value", "right"), "- 8 = "),
        ("w4a16", "acc += tl.dot(", "acc = tl.dot(", ("sum", "lost"), "never reach Y, only the last does, expected the sum of all"),
        ("dds", "offs_k = col * BLOCK + offs_b", "offs_k = col + offs_b", ("index", "use"), "with col_indices["),
        ("dds", "tl.dot(x, tl.trans(w))", "tl.dot(x, w)", ("rows", "right place"), "values[0, 1, 0] = W[1, "),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isidentifier() else "",
)
def test_one_deviation_of_each_kind_is_measured(lab, find, put, key, words):
    found = observed(changed(lab, find, put), lab, "rectangular" if lab == "dds" else "all_tails")
    assert found[0].key == key
    assert words in found[0].text("here")


def test_what_both_masks_leave_out_is_not_multiplied():
    text = changed("w8a8", "(offs_k[None, :] < k_left), other=0.0)", "(offs_k[None, :] < k_left), other=1.0)")
    assert observed(text, "w8a8", "all_tails") == [], "the other side is 0"
    (one,) = observed(text.replace("(offs_n[None, :] < N), other=0)", "(offs_n[None, :] < N), other=1)"), "w8a8", "all_tails")
    assert one.key == ("mask", "W counts")
    assert "holds 1 and is multiplied by" in one.found


def test_two_deviations_are_told_in_the_order_of_the_flow():
    text = changed("w8a8", "w_ptrs += BLOCK_K * stride_wk", "w_ptrs += stride_wk").replace("-128.0", "-127.0")
    assert [one.column for one in observed(text, "w8a8", "all_tails")] == ["k", "value"]


def style(name, *edits):
    text = style_file(name).read_text(encoding="utf-8")
    for find, put in edits:
        assert text.count(find) == 1, find
        text = text.replace(find, put)
    return text


def test_of_a_tile_that_a_program_did_not_finish_nothing_is_said():
    beyond = ("tl.load(crow_indices_ptr + row + 1)", "tl.load(crow_indices_ptr + row + 1) + row * 100")
    text = style("dds_persistent", ('min(tiles, sm_count() * meta["WAVES"])', "2"), beyond)
    *_, run = recorded(text, "dds", "rectangular")
    assert list(followed_programs(run)), "the first tile was stored before the program stopped"
    assert run.cut_off == 0
    assert compare(run) == []
    assert compare(replace(run, cut_off=None)) != []


def test_where_not_every_store_was_kept_nobody_says_that_an_element_is_not_stored():
    """A store for each element of Y; a program whose numbers are NaN, as what is read outside is, is among those that were not kept."""
    text = style("w4a16_row_loop", ("tl.load(scales_ptr + n))", "tl.load(scales_ptr + n) * tl.where(m == M - 1, float('nan'), 1.0))"))
    *_, run = recorded(text, "w4a16", "n_tail")
    assert not run.tape.all_stores
    assert np.isnan(run.y[-1]).all()
    assert [one for one in compare(run) if one.column in ("programs", "store")] == []
    assert compare(replace(run, tape=replace(run.tape, all_stores=True)))[0].key == ("programs", "missing")


def test_columns_beyond_the_last_are_no_rows():
    text = style("dds_plain", ("offs_n[None, :] * stride_yn", "(row * BLOCK_M + offs_b)[None, :] * stride_yn"))
    found = observed(text, "dds", "rectangular", config=2)
    assert [one.key for one in found] == [("programs", "missing")], "the rows that are met tell where the tiles belong, which was tried"
    assert "columns 32:64" in found[0].found
    assert not found[0].hedged


def test_stores_are_not_astray_where_programs_that_store_nothing_leave_elements_out():
    other = "crow_indices_ptr + (N // BLOCK - 1 - row)"
    text = style(
        "dds_plain",
        ("crow_indices_ptr + row)", f"{other})"),
        ("crow_indices_ptr + row + 1)", f"{other} + 1)"),
        ("    acc = tl.zeros", "    if row % 2 == 1:\n        return\n    acc = tl.zeros"),
    )
    assert [one.column for one in observed(text, "dds", "rectangular")] == ["programs", "rows"]


def test_a_scale_of_its_own_row_is_right_though_x_is_of_another():
    text = changed("w8a8", "x_ptrs += BLOCK_K * stride_xk", "x_ptrs += BLOCK_K * stride_xm")
    assert [one.key for one in observed(text, "w8a8", "transposed_x")] == [("rows", "left step")]
    text = changed("w8a8", "input_scale_ptr + offs_m,", "input_scale_ptr + offs_m - pid_m * BLOCK_M,")
    assert [one.key for one in observed(text, "w8a8", "all_tails")][:1] == [("scale", "input_scale_ptr in X")]


def test_what_holds_in_one_tile_is_not_said_of_all():
    text = changed("w8a8", "weight_scale_ptr + offs_n,", "weight_scale_ptr + tl.arange(0, BLOCK_N),")
    (one,) = observed(text, "w8a8", "all_tails")
    assert re.fullmatch(r"Y\[\d+, \d+\] is multiplied by weight_scale\[\d+\]", one.found), one.found


def located(text, lab, case, **how):
    """What is observed of a kernel, and what its lines are called."""
    source, bundle, _, run = recorded(text, lab, case, **how)
    with np.errstate(all="ignore"):
        return compare(run), lambda line: source.locate(bundle.made.origin(line))


@pytest.mark.parametrize("config", [3, 6])  # of four slices, and of one
def test_of_slices_that_take_turns_a_step_is_all_their_tiles(config):
    """The step that is expected is the other operand's, and not the depth of one slice's tile."""
    text, advance = (TESTS.parent / "solutions" / "w4a16.py").read_text(encoding="utf-8"), "w_ptrs += word_step"
    assert text.count(f"{advance} * stride_wk") == 1
    *_, run = recorded(text.replace(f"{advance} * stride_wk", advance), "w4a16", "contiguous_token", config=config)
    due = run.config.constants["BLOCK_K"] * run.config.split_k // 8
    (first, *_) = compare(run)
    assert first.aspect == "right step", first
    assert [number.value for number in first.numbers] == [due, due]


def written_blind(name, case, **how):
    """The same of a kernel of one of the classes written blind, which the letter in its name tells."""
    lab, number = name.split("_")
    (file,) = (TESTS / "corpus").glob(f"blind_*{number[0]}.toml")
    return located(kernel_text(f"tests/corpus/{file.name}:{name}", TESTS.parent), lab, case, **how)


ELSEWHERE = {
    "w8a8_block_ptr all_tails": ("w_block = tl.advance(w_block, (BLOCK_K, 0))", "w_block = tl.advance(w_block, (0, BLOCK_K))"),
    "w8a8_block_ptr n_tail": ("n0 = (pid // num_m) * BLOCK_N", "n0 = (pid // (num_m + 1)) * BLOCK_N"),
    "w8a8_prefetched all_tails": ("f = x.to(tl.float32)", "f = x_next.to(tl.float32)"),
    "w8a8_prefetched n_tail": ("wp += BLOCK_K * stride_wk", "wp += stride_wk"),
    "dds_plain rectangular": ("range(start, end)", "range(start + 1, end)"),
    "dds_plain long_row": ("        acc += tl.dot(x", "        if col > 0:\n            acc += tl.dot(x"),
    "dds_value_pointers rectangular": ("v_ptrs += BLOCK * BLOCK", "v_ptrs += BLOCK"),
    "dds_value_pointers long_row": ("offs_k = col * BLOCK + offs_b", "offs_k = col + offs_b"),
    "w4a16_split_k long_k": ("offs_k += BLOCK_K * SPLIT_K", "offs_k += BLOCK_K"),
    "w4a16_plain all_tails": ("mask=offs_n < N, other=0.0", "mask=offs_n < M, other=1.0"),
    "w4a16_transposed all_tails": ("(acc * scale).to", "tl.reshape(tl.trans(acc * scale), (BLOCK_N, BLOCK_T)).to"),
    "w4a16_interleave all_tails": ("even = tl.interleave(n04, n26)", "even = tl.interleave(n26, n04)"),
    "gptq_plain strided_scales": ("g = offs_k[:, None] // group_size", "g = offs_k[:, None] * 0 + k // group_size"),
    "gptq_groups_outside groups_of_32": ("range(K // group_size)", "range(K // group_size - 1)"),
    "gptq_groups_outside groups_of_32 1": ("k_ok = inside < group_size", "k_ok = kk < K"),
    "w8a8_persistent all_tails": ("acc += tl.dot(q, w)", "acc = tl.dot(q, w)"),
    "dds_grid_lambda transposed_x": ("x_base + k * stride_xk", "x_base + k"),
    "dds_while rectangular": ("p_col += 1", "p_col += 2"),
    "dds_while long_row": ("stop = tl.load(crow_indices_ptr + i_n + 1)", "stop = tl.load(crow_indices_ptr + i_n + 1) - 1"),
}
"""Right kernels, each with a case and maybe a config, and an edit whose effect shows in another line."""


@pytest.mark.parametrize("name", ELSEWHERE)
def test_the_line_is_that_of_the_edit(name):
    style, case, *config = name.split()
    (find, put), right = ELSEWHERE[name], style_file(style).read_text(encoding="utf-8")
    assert right.count(find) == 1
    edit = right[: right.index(find)].count("\n") + 1
    (first, *_), place = located(right.replace(find, put), style.split("_")[0], case, config=int(*config))
    assert f"line {edit}" in place(first.line), first


def test_a_scale_is_followed_by_the_way_that_the_number_came():
    """The solution clamps at numbers made of the scale: what is not clamped has its scale from the division alone."""
    right = (TESTS.parent / "solutions" / "w8a8.py").read_text(encoding="utf-8")
    text = right.replace("inverse_scale = 1.0 / input_scale", "inverse_scale = 1.01 / input_scale")
    (first, *_), place = located(text, "w8a8", "all_tails")
    line = text[: text.index("1.01 /")].count("\n") + 1
    assert f"line {line}" in place(first.line), first
    assert "input_scale[0] becomes 39.7" in first.found


@pytest.mark.parametrize(
    ("name", "case", "line", "words"),
    [
        ("w4a16_g06", "all_tails", 38, "2 of the 6 tile products never reach Y"),  # of this tile, whatever the next one loses
        ("w4a16_g07", "all_tails", 29, "still has X[0, 32] * W[0, 32] in it"),  # in `odd`; `even` is zeroed
        ("w4a16_g01", "all_tails", 32, "W[0, 8] is multiplied as -48"),  # for which the sum overflows
        ("w8a8_g08", "all_tails", 18, "becomes 0.02 (maximum 0.02)"),  # which Y is multiplied by as well
        ("w8a8_g10", "all_tails", 28, "the shape given for W leaves out k = 80:208"),
        ("w8a8_g11", "all_tails", 36, "k of W advances by {0} from one iteration to the next (0:64, then 1:65)"),
        ("w8a16_g01", "strided_rows", 33, "for Y[16, 0], W[1, 0] is multiplied"),  # K further, which is a row
        ("w8a16_g03", "all_tails", 24, "the products of k = 16:32, 48:64, 80:96, 112:128, ... do not reach Y[0, 0]"),
        ("dds_g03", "rectangular", 30, "values[0, 1, 0] = W[1, 0] is multiplied"),
        ("dds_g12", "rectangular", 20, "still has X[0, 0] * W[0, 0] in it"),
        ("dds_l01", "odd_m", 29, "still has X[0, 64] * W[0, 64] in it"),  # in a tile without products of its own, too
        ("w8a8_l05", "all_tails", 58, "in another tile of the program"),  # where the two sums meet
        ("w8a8_l10", "all_tails", 54, "are made after Y[0, 0] is stored"),  # what decides when a tile is stored
        ("w4a16_l07", "all_tails", 53, "are multiplied by 1"),  # a condition that only one program meets
        ("w8a8_f06", "all_tails", 63, "elements of X past K = 208 (k = 208) are multiplied"),  # the comparison is wrong, not its end
        ("gptq_m03", "groups_of_32", 38, "scales[0, 0] is used"),  # of a weight in two parts, each of which meets every k
        ("w8a16_m01", "all_tails", 30, "k = 0:64 is never multiplied"),  # by a loop that goes back, tile by tile
        ("w8a8_r02", "all_tails", 68, "k = 192:208 is never multiplied"),  # the condition of the multiplication that is never made
        ("gptq_q02", "groups_of_32", 60, "X[0, 0] is multiplied by -8.6833 in total"),  # what is taken off is wrong, not q
        ("gptq_r02", "all_tails", 48, "X[0, 0] is multiplied by the word of W[0, 64:72]"),  # W's slices are whole, so its step is right
        ("w8a8_s04", "transposed_x", 66, "the addresses of X move by {0} from one iteration to the next"),  # of two products alike
        ("dds_s21", "rectangular", 42, "values[7, 0, 0] = W[32, 0] is multiplied"),  # the mask: its iteration is needed
        ("dds_u01", "rectangular", 60, "is that of Y[0, 0]"),  # stored twice, and no sum that was left as it was
        ("gptq_u02", "groups_of_32", 49, "zeros[0, 0] becomes 7"),  # not the distance, by which the words are shifted rightly
        ("w4a16_t03", "all_tails", 47, "is multiplied by the word of W[0, 8:16]"),  # each word once: X need not take every eighth k
        ("w4a16_t02", "all_tails", 56, "are multiplied by 1"),  # the condition that kept the scale away, not what is converted after it
        ("w8a16_t03", "all_tails", 33, "for Y[32, 0], X[1, 0] is multiplied"),  # of a block pointer's arguments the one that is wrong
        ("w8a16_t04", "all_tails", 39, "the shape given for W leaves out"),
        ("gptq_t05", "groups_of_32", 22, "scales[1, 0] is used"),  # loaded as they should be, and laid otherwise
        ("w4a16_x03", "all_tails", 60, "the word of W[1, 0:8] is multiplied"),  # where rows and k came to lie along one axis
        ("dds_x09", "rectangular", 51, "X[1, 0] is multiplied"),  # the same, of three axes
        ("dds_x07", "rectangular", 44, "128:256, 288:320 is never multiplied for Y[0, 0]"),  # of the first tile, not of what follows
        ("w4a16_x10", "all_tails", 71, "columns 64:88 of Y"),  # by more than there are programs, and not where the tile's columns are made
        ("w8a8_w04", "rounding", 23, "columns 192:528 of Y"),  # for programs have tiles beyond Y, and their loop is long enough
        ("dds_B02", "odd_m", 51, "the mask of a load leaves out col_indices[0]"),  # and 0 stands in its place
        ("w8a16_B01", "all_tails", 54, "2 of the 6 tile products never reach Y"),  # by the second of two calls
        ("w4a16_D18", "all_tails", 58, "k = 0:128 is never multiplied"),  # where the loop ends, around an unrolled one
        ("w8a16_C36", "strided_y", 67, "are stored {0} apart"),  # and not `offs_n`: in Y, no two of its rows share a column
    ],
)
def test_of_one_mistake_one_thing_is_said_and_its_line(name, case, line, words):
    (only,), place = written_blind(name, case)
    assert words in only.found
    assert f"line {line}" in place(only.line)


@pytest.mark.parametrize(
    ("name", "case", "line", "words"),
    [
        ("w8a8_B02", "zero_rows", 43, "never reads tl.program_id(1)"),  # of an axis that the grid has
        ("w4a16_B03", "every_nibble", 52, "the word of W[0, 256:264]"),  # X goes through K, and W does not
        ("w4a16_D19", "every_nibble", 66, "k = 0:128 are multiplied twice"),  # slices take turns, and the loop moves on by one
    ],
)
def test_of_a_mistake_in_slices_one_thing_is_said_and_its_line(name, case, line, words):
    (only,), place = written_blind(name, case, config=1)
    assert words in only.found
    assert f"line {line}" in place(only.line)


def test_of_what_programs_add_to_one_tile_nobody_says_that_they_store_it():
    """Stream-K: whole tiles are stored, and those that several programs make are added."""
    text = (TESTS / "corpus" / "w8a8_stream_k.py").read_text(encoding="utf-8")
    found, _ = located(text, "w8a8", "strided_y")
    assert not any("all store" in one.found for one in found)


@pytest.mark.parametrize("axis", ["1", "axis=SPLIT_K"])
def test_of_an_axis_that_some_line_asks_for_nobody_says_that_none_does(axis):
    text = kernel_text("tests/corpus/blind_2026_11_29B.toml:w8a8_B02", TESTS.parent)
    asks = f"    if M < 0:\n        pid = tl.program_id({axis})\n    slice_k = pid"
    found, _ = located(text.replace("    slice_k = pid", asks), "w8a8", "zero_rows", config=1)
    assert found
    assert not any("never reads" in one.found for one in found)


def test_of_a_helper_that_is_called_twice_the_call_is_known():
    (only,), place = written_blind("gptq_q03", "groups_of_32")
    assert "zeros[1, 0] becomes 15" in only.found
    assert ("line 14" in place(only.line), "line 59" in place(only.line.caller)) == (True, True)


def test_each_call_of_a_helper_multiplies_for_itself():
    """Two calls in a loop and one behind it are one line: no number of iterations is read off it."""
    found, _ = written_blind("w8a16_s30", "all_tails")
    assert not any("the loop runs" in one.found for one in found)


def test_a_grid_is_not_too_small_where_a_program_has_a_tile_beyond_y():
    found, _ = written_blind("dds_r03", "long_row")
    assert not any("would, by what the others store" in one.found for one in found)


@pytest.mark.parametrize("name", ["w4a16_r06", "w4a16_r07"])
def test_what_a_sum_of_x_makes_up_for_is_measured_where_the_numbers_of_w_are_wrong(name):
    """Nibbles that are raised by 8, which sums of X take off again, and are wrong besides: the sums are not to blame."""
    found, _ = written_blind(name, "all_tails")
    assert found[0].expected == "2"
    assert not any("computed from x alone" in one.found for one in found)


def test_a_k_that_is_met_twice_has_one_wrong_scale_for_that_reason(tmp_path):
    """In a tile that reaches into the next group."""
    path = tmp_path / "gptq.py"
    path.write_text(kernel_text("tests/corpus/blind_2026_11_27q.toml:gptq_q04", TESTS.parent), encoding="utf-8")
    tests = graded_as_read(path, get_lab("gptq"), seed=1)["labs"]["gptq"]["tests"]
    said = "\n".join(test["diagnosis"] for test in tests if test.get("diagnosis"))
    assert "are multiplied twice" in said
    assert "scales[" not in said


@pytest.mark.parametrize(
    ("name", "case", "line", "words"),
    [
        ("w8a8_h06", "all_tails", 28, "only the last does"),  # where the sum is zeroed
        ("w8a8_h14", "all_tails", 37, "and k of W by 64, expected the same for both"),  # not BLOCK_N, which is 64 by chance
        ("w8a8_h15", "single_token", 44, "is multiplied as"),  # and nothing of a factor that was made up to explain it
        ("w8a8_h16", "saturating_scale", 11, "tl.where takes 127"),
        ("w8a8_h18", "all_tails", 28, "W[0, 0] is multiplied"),  # what the scales have for that reason is not said again
        ("w8a8_h19", "all_tails", 30, "past K = 208"),  # where what is left of K was made
        ("w4a16_h03", "all_tails", 41, "reaches no store"),  # what nothing takes
        ("w4a16_h05", "all_tails", 44, "is multiplied by scales[0]"),  # not `offs_k`, which X takes as well
        ("w4a16_h08", "all_tails", 40, "neighbouring rows of the product are stored 1 apart"),  # and no mask
        ("w4a16_h12", "all_tails", 27, "X[0, 1] is multiplied by the word of W[0, 8:16]"),  # not `offs_w`, which W takes as well
        ("w4a16_h16", "all_tails", 36, "past K = 168"),
        ("w4a16_h19", "all_tails", 44, "the store writes columns"),  # where the store's mask was made
        ("gptq_h04", "groups_of_32", 33, "leaves out k = 32:224"),
        ("dds_h07", "rectangular", 23, "= W[32, 0] is multiplied"),  # the condition, not its bound
    ],
)
def test_the_line_is_none_that_something_right_is_made_of(name, case, line, words):
    found, place = written_blind(name, case)
    assert words in found[0].text("")
    assert f"line {line}" in place(found[0].line)
    assert not any(one.aspect.endswith(" made") or one.aspect == "factor" for one in found), found
    assert len(found) < (4 if name in ("w8a8_h22", "w4a16_h19", "gptq_h04") else 2), found  # as many as there are mistakes


@pytest.mark.parametrize(
    ("name", "case", "line", "words"),
    [
        ("w8a8_i05", "all_tails", 19, "are never stored"),  # not `cols`: the tiles of columns are all there, one of rows is beyond Y
        ("w8a8_i07", "all_tails", 31, "is converted with input_scale[1]"),  # where they are laid along k, not where they were loaded
        ("w8a8_i08", "all_tails", 36, "leaves out weight_scale[1]"),  # not `in_m`, by which the rows of X are masked
        ("w4a16_i02", "all_tails", 45, "k of X advances on this line"),  # and no word of `a_ptrs`
        ("w4a16_i05", "all_tails", 23, "are multiplied twice"),  # not `part`, which is given
        ("dds_i05", "rectangular", 22, "are 1 apart"),  # where the block pointer was made, not where it is advanced
        ("dds_i08", "rectangular", 27, "W advances on this line"),
        ("dds_j10", "rectangular", 28, "values[8, 0, 0]"),  # not `b`, by which the right element of the index is found
        ("dds_j12", "rectangular", 33, "no program stores"),  # not `stripe`, which is the tile's own number
        ("w4a16_j01", "all_tails", 25, "is multiplied as 0"),  # every nibble is that of another place: the distances of the shift
        ("w4a16_j06", "all_tails", 9, "4 << 1 = 8"),  # a number that is computed from itself twice
        ("w4a16_j07", "all_tails", 48, "the word of W[1, 0:8]"),  # what lies turned, no order of its elements
        ("w4a16_g05", "all_tails", 12, "12 - 0 = 12"),  # what should have changed the bits
        ("w4a16_k07", "every_nibble", 9, "W[0, 1] is multiplied as 8"),  # and did not, by tl.where
        ("w8a8_i12", "all_tails", 17, "are multiplied twice"),  # where two slices' numbers became one, not `k_begin`
        ("w4a16_l10", "single_token", 33, "outside X is multiplied"),  # where the stride is missing, not `x_row`, which could not mend it
        ("w8a8_f01", "all_tails", 32, "is converted with input_scale[0]"),  # the rows, not what is loaded by them
        ("w4a16_t06", "all_tails", 35, "is never multiplied"),  # not `total_steps`, which are all that K takes
        ("dds_k12", "rectangular", 35, "values[0, 7, 0] = W[7, 0]"),  # a block in its order, which begins elsewhere: not `square`
    ],
)
def test_what_is_right_elsewhere_is_not_to_blame(name, case, line, words):
    (first, *others), place = written_blind(name, case)
    assert words in first.text("")
    assert f"line {line}" in place(first.line)
    assert {one.line for one in others} <= {first.line} or name in ("dds_k12", "w4a16_t06", "dds_t05"), others  # two mistakes
    assert "`" not in replace(first, variable="right").text("") if first.hedged else "advances on this line" not in words


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("w8a8_j02", "w8a8.py line 26 (look here first), `tm`, in `all_tails`: no program stores rows 32, columns 0:80 of Y"),  # some twice
    ],
)
def test_what_is_missing_is_not_always_the_grids(name, place, tmp_path):
    lab = name.split("_")[0]
    text = kernel_text(f"tests/corpus/blind_2026_11_26{name.split('_')[1][0]}.toml:{name}", TESTS.parent)
    assert said_of(text, lab, place, tmp_path).startswith(place)


@pytest.mark.parametrize(
    ("name", "along", "place"),
    [
        ("w8a8_grid2d", "BLOCK_N", "w8a8.py line 22 (look here first), in `all_tails`: no program stores rows 0:33, columns 64:80 of Y: "
         "going by the others, program (0, 1) would"),
        ("w8a8_bf16_dot", "BN", "w8a8.py line 31 (look here first), in `all_tails`: no program stores rows 0:33, columns 64:80 of Y: "
         "going by the others, program (0, 2) would"),
    ],
)
def test_what_programs_beyond_the_grid_would_store_is_the_grids(name, along, place, tmp_path):
    text = style(name, (f'triton.cdiv(N, meta["{along}"])', f'max(1, N // meta["{along}"])'))
    assert said_of(text, "w8a8", place, tmp_path).startswith(place)


def said_of(text, lab, place, folder):
    """The one diagnosis that a student gets for a kernel, of those of the cases that `place` names."""
    path = folder / f"{lab}.py"
    path.write_text(text, encoding="utf-8")
    alone = replace(get_lab(lab), cases=tuple(map(get_lab(lab).case, re.findall(r"in `(\w+)`", place))))
    tests = graded_as_read(path, alone, seed=1)["labs"][lab]["tests"]
    (said,) = {test["diagnosis"] for test in tests if test.get("diagnosis")}
    return said


def test_where_stores_do_not_follow_ys_strides_nothing_else_goes_by_their_places(tmp_path):
    text = kernel_text("tests/corpus/blind_2026_11_27u.toml:w8a16_u05", TESTS.parent)
    said = said_of(text, "w8a16", "in `all_tails`, in `n_tail`, in `strided_y`", tmp_path)
    assert "128 apart, expected stride_ym = 208" in said
    assert said.count("look here first") == 1


def test_a_sum_that_is_reset_by_a_product_with_zero_is_reset():
    """What is wrong is that each part is rounded to fp16."""
    loop = "    for i in range(start, end):\n"
    text = changed("dds", loop, f"    total = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)\n{loop}")
    (dot,) = re.findall(r"        acc \+= tl\.dot\(.*\n", text)
    part = "acc.to(tl.float16).to(tl.float32)"
    text = text.replace(dot, f"{dot}        if (i - start) % 8 == 7:\n            total += {part}\n            acc = acc * 0.0\n")
    text = text.replace("acc.to(tl.float16), mask", f"(total + {part}).to(tl.float16), mask")
    found = observed(text, "dds", "long_row", forced=True)
    assert [one.found for one in found if one.aspect == "again"] == []


def test_a_slice_that_begins_beyond_k_is_in_no_later_row(tmp_path):
    """Of both operands' rows, so far behind K, and of nothing else than a mask that lets it through."""
    text = kernel_text("tests/corpus/blind_2026_11_29C.toml:w8a16_C36", TESTS.parent)
    said = said_of(text, "w8a16", "in `strided_y`, in `zero_rows`", tmp_path)
    assert re.findall(r"line (\d+) \(look here first\)", said) == ["67", "56"]
    assert "elements of X past K = 16 (k = 192:208) are multiplied" in said


def test_of_two_steps_that_which_leaves_elements_out_is_to_blame(tmp_path):
    text = kernel_text("tests/corpus/blind_2026_11_28v.toml:w8a8_v01", TESTS.parent)
    said = said_of(text, "w8a8", "in `long_k`", tmp_path)
    assert "line 80 (look here first), `x_ptrs`" in said
    assert "256 from one iteration to the next (0:128, then 256:384), and k of W by 128, expected the same for both" in said


def test_a_mistake_that_only_a_large_case_has_is_looked_into(tmp_path):
    text = kernel_text("tests/corpus/blind_2026_11_28x.toml:dds_x06", TESTS.parent)
    said = said_of(text, "dds", "in `uneven_rows`", tmp_path)
    assert "line 42 (look here first), `c`" in said
    assert "outside X is multiplied" in said


@pytest.mark.parametrize(
    ("kernel", "case", "said"),
    [
        # the number of a block row, which a block pointer multiplies by BLOCK
        # a mask whose elements are put in another order before they are multiplied
        ("w4a16_y03", "all_tails", "line 56 (look here first), `word_ok`"),
        # what a mask leaves out beyond K is another row's, where it lies in memory
        # blocks laid side by side in another order than the columns of X, which ascend
        # an argument of a descriptor, which has a line of its own
        ("w8a8_z03", "all_tails", "line 48 (look here first), `weight`"),
        # two halves that are joined in the wrong order
        ("w8a8_z12", "all_tails", "line 30 (look here first), called in w8a8.py line 65"),
        # what lies between the elements of X is none of them
        ("w4a16_z12", "transposed_x", "line 47 (look here first), in `transposed_x`, program 0: from one product to the next"),
        # a mask that goes by the loop's end, which is right: the iteration is needed
        ("dds_z09", "rectangular", "line 15 (look here first), called in dds.py line 53"),
        # a loop that stops before what was loaded as its end
        ("dds_z07", "rectangular", "line 35 (look here first), in `rectangular`, program 0: k = 0:32 is never multiplied"),
        # a mask of a helper, which another call of it has right
        ("w8a16_A02", "all_tails", "line 55 (look here first), `w_next`"),
        # a mask that goes by the end of the loop, which is right
        ("w4a16_A06", "all_tails", "line 40 (look here first), `mask_j`"),
        # a call behind the loop, of the function that the loop calls
        # M and N, given to a helper as N and M
        ("w8a8_A11", "all_tails", "line 41 (look here first), in `all_tails`: no program stores"),
        # the height of a band of tiles, its width, and a number of tiles: with another one every tile would be stored
        ("w8a8_E03", "rounding", "line 27 (look here first), called in w8a8.py line 59, `height`"),
        ("w8a8_D02", "n_tail", "line 22 (look here first), called in w8a8.py line 48, `"),
        ("w4a16_D14", "whole_tiles_k_tail", "line 28 (look here first), called in w4a16.py line 45, `"),
        ("w4a16_C17", "all_tails", "line 47 (look here first), `"),
        # a constant with a name of its own, used in one line
        ("w8a8_z08", "all_tails", "line 5 (look here first), `MAGIC`"),
        ("w8a8_C11", "strided_y", "line 30 (look here first), `Q_MIN`"),
        # the end of a slice, which is not held back to K and lets the loop make as many iterations
        ("w8a8_v04", "all_tails", "line 66 (look here first), `k_end`"),
        # a share of the tiles that is none: where it became 0
        ("w8a8_r08", "all_tails", "line 30 (look here first), in `all_tails`: no program stores anything"),
        # the sum of X that is taken off, and not the number that it is multiplied by
        ("w4a16_r01", "all_tails", "line 54 (look here first), `total`"),
        # where a slice begins that a descriptor is loaded at
        ("w8a8_C10", "all_tails", "line 38 (look here first), `k0`"),
    ],
)
def test_of_a_class_written_blind(tmp_path, kernel, case, said):
    lab = kernel.partition("_")[0]
    (file,) = (TESTS / "corpus").glob(f"blind_*{kernel[-3]}.toml")
    text = kernel_text(f"tests/corpus/{file.name}:{kernel}", TESTS.parent)
    assert said in said_of(text, lab, f"in `{case}`", tmp_path)


def test_what_another_program_should_have_multiplied_has_its_place():
    text = kernel_text("tests/corpus/blind_2026_11_29z.toml:w4a16_z03", TESTS.parent)
    (only,), place = located(text, "w4a16", "n_tail", config=1)
    assert "X[0, 128] is multiplied by the word of W[0, 1024:1032], which W's mask excludes" in only.found
    assert "line 41" in place(only.line)


def test_what_is_left_of_an_earlier_tile_is_not_met_twice():
    text = kernel_text("tests/corpus/blind_2026_11_29z.toml:w8a8_z05", TESTS.parent)
    (only,), _ = located(text, "w8a8", "n_tail", config=1)
    assert only.found.startswith("the sum for Y[32, 0] still has")


def test_a_product_that_the_other_tile_has_is_made_again(tmp_path):
    text = kernel_text("tests/corpus/blind_2026_11_29z.toml:dds_z08", TESTS.parent)
    assert "in another tile" not in said_of(text, "dds", "in `odd_m`", tmp_path)


def test_slices_none_of_which_multiplies_anything_are_not_listed():
    text = kernel_text("tests/corpus/blind_2026_12_01H.toml:w8a8_steps_rounded_down", TESTS.parent)
    (only,), _ = located(text, "w8a8", "one_tile")
    assert only.found == "k = 0:96 is never multiplied for Y[0, 0]"


def test_what_stops_the_reading_has_its_line(tmp_path):
    text = kernel_text("tests/corpus/blind_2026_11_28v.toml:w8a8_v03", TESTS.parent)
    assert "(it ends at `bitcast`, w8a8.py line 83)" in said_of(text, "w8a8", "in `zero_rows`", tmp_path)


@pytest.mark.parametrize(("name", "line"), [("w8a8_m03", 29), ("w8a8_m05", 30), ("w8a16_m03", 15)])
def test_where_slices_begin_or_end_wrongly_one_looks_first(name, line):
    (first, *_), place = written_blind(name, "all_tails")
    assert f"line {line}" in place(first.line)


def test_a_mask_is_not_to_blame_where_the_addresses_beneath_it_are_wrong():
    found, _ = written_blind("w8a8_m02", "all_tails")
    assert not any("mask" in one.found or one.column == "scale" for one in found), found


@pytest.mark.parametrize(
    ("name", "case", "steers"),
    [
        ("dds_plain", "rectangular", "range"),
        ("dds_while", "long_row", "condition"),
    ],
)
def test_what_a_loop_goes_by_is_on_the_tape(name, case, steers):
    *_, run = recorded(style(name), "dds", case)
    nodes = run.tape.nodes
    seen = [node for node in nodes if node.op == steers]
    loads = [node for node in behind(run, seen[0].number) if node.tensor == "crow_indices_ptr"]
    assert len(loads) == 2, "a block row begins and ends where the index says"
    variables = [node for node in nodes if node.op == "loop_variable"]
    assert bool(variables) is (steers == "range")
    assert all(nodes[one.inputs[0]].tensor == "crow_indices_ptr" for one in variables)


def test_a_program_has_a_number_for_each_axis_of_its_grid():
    assert [place_in(grid, 5) for grid in ((8, 1, 1), (3, 2, 1), (1, 3, 2))] == ["5", "(2, 1)", "(0, 2, 1)"]


@pytest.mark.parametrize(
    ("corpus", "name", "words"),
    [
        ("corpus/blind_2026_11_26g", "w8a8_g10", "give the descriptor the tensor's own shape"),  # which has no mask
        ("corpus/blind_2026_11_26h", "w8a8_h09", "give the block pointer the tensor's own shape, and name in boundary_check"),
        ("corpus/blind_2026_11_26h", "w4a16_h02", "its addresses are wrong"),  # by what is made in another line; the mask is right
    ],
)
def test_the_memory_check_advises_what_helps(corpus, name, words, tmp_path):
    path, lab = tmp_path / f"{name.split('_')[0]}.py", name.split("_")[0]
    path.write_text(kernel_text(f"tests/{corpus}.toml:{name}", TESTS.parent), encoding="utf-8")
    tests = graded_as_read(path, get_lab(lab), seed=1)["labs"][lab]["tests"]
    memory = [test["message"] for test in tests if test["kind"] == "memory"]
    assert memory
    assert all(words in message for message in memory)


@pytest.mark.parametrize("kernel", random.Random(5).sample(corpus(), 12), ids=lambda kernel: f"{kernel.lab}-{kernel.name}")
def test_something_is_observed_of_a_wrong_kernel(kernel, tmp_path):
    path = tmp_path / f"{kernel.lab}.py"
    path.write_text(kernel.source, encoding="utf-8")
    report = graded_as_read(path, get_lab(kernel.lab), seed=1)
    tests = report["labs"][kernel.lab]["tests"]
    failed = [test for test in tests if test["status"] == "failed"]
    assert failed
    assert any(test.get("diagnosis") for test in failed) or any(test["kind"] == "memory" for test in failed)
    assert not report["labs"][kernel.lab].get("defects")


CONSTANTS = """
A = tl.constexpr(8)
B, C = 3, -4
D = 2 * 8 - 1
E = 5
E = 6
def f(x, B):
    G: tl.constexpr = H * 2
    J = 9
    x = x + A + B
    x = x + C
    x = x + D + E
    x = x + G
    return x * J
"""


@pytest.mark.parametrize(
    ("line", "number", "place"),
    [(10, 8, 2), (10, 3, None), (11, -4, 3), (11, 4, None), (12, 15, 4), (12, 6, None), (13, 64, 8), (14, 9, 9)],
)
def test_a_constant_has_a_line_where_one_place_gives_it_its_only_name(line, number, place):
    at = CalledLine.of(line, 40)
    found = line_of_constant(CONSTANTS, at, number, {"H": 32})
    assert found == place
    assert found is None or found.caller == (40 if place > 7 else None)


def test_a_fit_is_exact_or_none():
    m, lane, step = np.arange(5)[:, None, None], np.arange(7)[None, :, None], np.arange(3)[None, None, :]
    target = 40 * m + 3 * lane - 2 * step + 11
    variables = {"m": m, "lane": lane, "step": step}
    assert fit(target, variables) == {"m": 40, "lane": 3, "step": -2, "": 11}
    target[0, 0, 0] += 1
    assert fit(target, variables) is None
    assert fit(np.array([[5, 5]]), {"m": np.array([[1]]), "lane": np.array([[0, 0]])}) == {"m": 0, "lane": 0, "": 5}


@pytest.mark.parametrize(
    ("line", "makes", "said"),
    [
        ("a += BLOCK_K * 2", "", "BLOCK_K = 32"),
        ("a += step", "step = BLOCK_M\na += step", "BLOCK_M = 32"),
        ("a += 32", "a += 32", "32"),  # two sizes that are equal here: nothing says that it is one of these
        ("a += 32", None, "32"),
    ],
)
def test_what_was_found_has_a_name_that_its_lines_have(line, makes, said):
    assert str(Number(32, frozenset({"BLOCK_K", "BLOCK_M", "K // 4"})).within(line, makes)) == said


def test_what_is_expected_may_have_a_name_that_is_missing():
    assert str(Number(64, frozenset({"BLOCK_M", "K // 4"})).within("a += 32", None)) == "BLOCK_M = 64"
    assert str(Number(64, frozenset({"BLOCK_M", "K // 4"})).within("a += 32", "a += 32")) == "64"



def test_a_name_is_kept_only_where_two_launches_agree():
    one = Observation("k", "left step", 3, "moves by {0}", numbers=(Number(32, frozenset({"BLOCK_K", "K // 4"})),))
    other = Observation("k", "left step", 3, "moves by {0}", numbers=(Number(32, frozenset({"BLOCK_K", "N // 3"})),))
    assert one.agreeing(other).text("line 1") == "line 1: moves by BLOCK_K = 32"
    assert one.agreeing(Observation("k", "left step", 3, "")).text("line 1") == "line 1: moves by 32"


def test_observations_stand_in_the_order_of_the_columns_each_once():
    found = [Observation(column, "a", number, "") for number, column in enumerate(reversed(COLUMNS))]
    assert [one.column for one in first_of_each([*found, *found])] == list(COLUMNS)


def test_a_damaged_record_is_refused_or_read_never_worse():
    _, _, outcome, run = recorded(PLAIN["w8a8"].replace("-128.0", "-127.0"), "w8a8", "all_tails")
    draw = random.Random(3)
    for _ in range(200):
        record = bytearray(outcome.flow)
        for _ in range(draw.randrange(1, 9)):
            record[draw.randrange(min(len(record), 60_000))] = draw.randrange(256)
        try:
            tape = parse(bytes(record))
            Provenance(tape, run.expected.left.tensor, run.expected.right.tensor)
        except ValueError:
            continue


@pytest.mark.parametrize(("name", "case"), [("w8a8_plain", "all_tails"), ("w4a16_split_k", "all_tails"), ("dds_persistent", "odd_m")])
def test_programs_that_are_not_recorded_store_the_same_though_they_run_together(name, case):
    text, lab = style_file(name).read_text(encoding="utf-8"), name.split("_")[0]
    *_, few = recorded(text, lab, case, record=lambda count: (count - 1, 0))
    *_, whole = recorded(text, lab, case, record=range)
    last = max(whole.tape.programs)
    assert len(whole.tape.programs) == last + 1 > 4
    assert few.tape.stores == whole.tape.stores
    assert np.allclose(few.y, whole.y, rtol=2e-3)
    assert list(few.tape.programs) == [0, last]
    for program in few.tape.programs:
        one, other = (run.tape.nodes[run.tape.programs[program].start : run.tape.programs[program].stop] for run in (few, whole))
        assert [(node.op, node.line, node.shape) for node in one] == [(node.op, node.line, node.shape) for node in other]


def test_programs_run_alone_in_the_order_of_their_worth_till_there_are_enough_operations():
    *_, run = recorded(PLAIN["w8a8"], "w8a8", "k_tail", record=lambda count: (count - 1, 0, 1), alone=True)
    numbers = list(run.tape.programs)
    assert numbers[:2] == [0, 1]
    assert sorted({store.program for store in run.tape.stores}) == numbers
    assert np.isnan(run.y).any()
    *_, run = recorded(PLAIN["w8a8"], "w8a8", "k_tail", record=lambda count: (count - 1, 0, 1), alone=True, enough=10)
    assert list(run.tape.programs) == [numbers[-1]]


def test_a_failure_of_the_diagnosis_costs_nothing_and_does_not_vanish(monkeypatch, tmp_path):
    def broken(run):
        raise ZeroDivisionError

    monkeypatch.setattr("grader.diagnosis.explaining.compare", broken)
    path = tmp_path / "w8a8.py"
    path.write_text(PLAIN["w8a8"].replace("-128.0", "-127.0"), encoding="utf-8")
    report = graded_as_read(path, get_lab("w8a8"), seed=1)
    defects = report["labs"]["w8a8"]["defects"]
    assert any("a defect of the grader" in one and "ZeroDivisionError" in one for one in defects)
    assert failed_cases(report, "w8a8")
    assert str(tmp_path) not in " ".join(defects)


def test_a_launch_is_recorded_again_where_the_wrong_elements_are(tmp_path):
    """One column of many is wrong, of none of the programs that are recorded at first."""
    path = tmp_path / "w8a8.py"
    store = "    tl.store(y_ptrs, y.to(tl.float16)"
    path.write_text(changed("w8a8", store, "    y = tl.where(offs_n[None, :] == 700, y * 1.5, y)\n" + store), encoding="utf-8")
    said = [test["diagnosis"] for test in graded_as_read(path, get_lab("w8a8"), seed=1)["labs"]["w8a8"]["tests"] if test["diagnosis"]]
    assert said
    assert all("`y`" in one and "1.5 times the right value" in one for one in said)


def test_a_sample_has_the_wrong_elements_alone():
    *_, run = recorded(changed("w8a8", "tl.maximum(x, -128.0)", "tl.maximum(x, -127.0)"), "w8a8", "all_tails")
    for _, products in followed_programs(run):
        assert run.wrong[products.m, products.n].all()
