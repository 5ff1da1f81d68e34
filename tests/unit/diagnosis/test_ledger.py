"""The ledger names what a kernel does wrong, in the order of its flow, and says nothing of kernels that are right."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from grader.diagnosis.ledger.explaining import _unwritten
from grader.diagnosis.ledger.pairs import lasting, pairs_of, sample, stores_to_output
from grader.diagnosis.ledger.provenance import Provenance, Untraceable
from grader.diagnosis.ledger.settling import borne_out, consistent
from grader.diagnosis.ledger.tape import parse
from grader.diagnosis.ledger.telling import comes_first
from grader.diagnosis.ledger.walk import walk
from grader.gpu.devices import choose
from grader.labs import get_lab
from grader.labs.divergence import LOAD, PAIR, Divergence
from grader.labs.stages import stages_of
from grader.model import Outcome
from grader.pipeline.grading import GradeOptions, grade
from grader.reporting.document import document
from grader.reporting.terminal import next_step
from tests.ledgers import recorded, several, walked
from tests.submissions import TESTS, mistakes, styles

RIGHT = sorted(
    path
    for paths in (styles(), *((TESTS / folder).resolve().iterdir() for folder in ("../solutions", "../solutions/ladder")))
    for path in paths
    if path.suffix == ".py"
)
SMALL = {
    "w8a8": ("all_tails", "transposed_x"), "w4a16": ("all_tails", "strided_y"), "dds": ("odd_m", "transposed_x"),
    "w8a16": ("all_tails", "strided_weight"), "gptq": ("groups_of_32", "strided_scales"),
}  # fmt: skip
PLAIN = {lab: (TESTS / "styles" / f"{lab}_plain.py").read_text(encoding="utf-8") for lab in SMALL}


def lab_of(path):
    return path.stem.split("_")[0]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", several(), ids=lambda kernel: f"{kernel.lab}-{kernel.name}")
def test_all_mistakes_are_named_and_the_first_one_first(kernel):
    found = walked(kernel.source, kernel.lab, kernel.case, config=kernel.config)
    names = [set(finding.name.split(" or ")) for finding in found]
    assert names
    assert set(kernel.names[0].split(" or ")) & names[0]
    assert kernel.reason in found[0].reason
    for name in kernel.names:
        assert any(set(name.split(" or ")) & group for group in names), (name, names)
    assert all(group & kernel.expected for group in names), names


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("group_mask_to_the_end", "a turn takes 64: it goes on into what the next slice takes"),
        ("never_reset_and_too_few_turns", "it is set to zero once, not for each tile"),
    ],
)
def test_what_a_later_sentence_says(name, words):
    kernel = next(kernel for kernel in several() if kernel.name == name)
    assert any(words in finding.reason for finding in walked(kernel.source, kernel.lab, kernel.case, config=kernel.config))


def test_blocks_of_the_first_row_in_one_case_are_explained_by_the_rows_of_another_one():
    """In a case of one tile of tokens, blocks that follow the tokens lie as if they were counted by columns."""
    of_tokens = Divergence("block_row_of_tokens", LOAD, 3, "a block of row 1", "of row 0", "the block row follows the tile of tokens")
    by_column = Divergence("values_by_column", PAIR, 9, "block 0", "block 4", "the values are indexed by block column")
    assert consistent([by_column, of_tokens]) == [of_tokens]
    assert consistent([by_column]) == [by_column]


ONE_OF_EACH_STAGE = ("truncation", "no_clamp", "accumulator_overwritten", "no_rescale", "weight_pointer_not_advanced",
                     "fp16_before_scaling", "ignores_stride_ym", "tile_offset_forgotten", "scale_without_tile_offset")  # fmt: skip


@pytest.mark.parametrize("name", ONE_OF_EACH_STAGE)
def test_one_mistake_of_each_stage(name):
    mistake = next(mistake for mistake in mistakes() if (mistake.lab, mistake.name) == ("w8a8", name))
    case = "strided_y" if name == "ignores_stride_ym" else "all_tails"
    (finding,) = walked(mistake.source, "w8a8", case)
    assert mistake.expected & set(finding.name.split(" or "))
    assert finding.line is not None
    assert finding.found
    assert finding.reason


def test_the_line_is_the_one_where_the_number_changed():
    mistake = next(mistake for mistake in mistakes() if (mistake.lab, mistake.name) == ("w8a8", "truncation"))
    source, bundle, _, run = recorded(mistake.source, "w8a8", "all_tails")
    (finding,) = walk(run)
    line = bundle.made.origin(finding.line)
    assert "tl.int8" in source.module.split("\n")[line - 1]
    assert "became" in finding.found
    assert "line" in finding.text(source.locate(line))


def test_the_line_of_words_in_a_wrong_order_is_that_of_the_reshape():
    """The load takes every word once, in order, so it is not to be changed."""
    text = (TESTS / "styles" / "w4a16_descriptor.py").read_text(encoding="utf-8")
    text = text.replace("words[:, None, :] >> shifts[None, :, None]", "words[None, :, :] >> shifts[:, None, None]")
    source, bundle, _, run = recorded(text, "w4a16", "all_tails")
    (finding,) = walk(run)
    assert "reshape" in source.module.split("\n")[bundle.made.origin(finding.line) - 1]


def test_an_axis_of_the_grid_that_nobody_reads_is_named():
    """Tiles counted along one axis, under the default grid of the lab, which has two."""
    flat = PLAIN["dds"].replace("    pid_m = tl.program_id(0)\n", "    pid = tl.program_id(0)\n    pid_m = pid // (N // BLOCK)\n")
    flat = flat.replace("    row = tl.program_id(1)", "    row = pid % (N // BLOCK)")
    (finding,) = walked(flat, "dds", "odd_m")
    assert "tl.program_id(1) is never read" in finding.reason


def test_pointers_that_leave_their_rows_ask_for_no_k_that_there_is_not():
    text = (TESTS / "styles" / "w8a16_block_ptr.py").read_text(encoding="utf-8")
    text = text.replace("tl.advance(x_block, (0, BLOCK_K))", "tl.advance(x_block, (BLOCK_K, 0))")
    (finding,) = walked(text, "w8a16", "all_tails")
    assert finding.found == "the left operand asks for k = 0:32 of row 32 of X"
    assert finding.expected == "k = 32:64 of row 0"
    assert "move on by 32 rows a turn" in finding.reason


def test_a_step_that_is_a_size_by_chance_is_no_stride():
    """In a case where K is one block, columns that are BLOCK apart are K apart; another case of the same layout shows that they are not."""
    plain, other = ("contiguous", "contiguous"), ("transposed", "contiguous")
    chance = Divergence("ignores_stride_xk", LOAD, 5, "columns are 32 (= K) apart", "stride_xk = 1", "stride_xk is not used", strides=True)
    astray = Divergence("k_orders_differ", PAIR, 6, "k = 2 of X meets k = 64", "the same k", "other columns")
    assert borne_out([[chance], [astray]], [plain, plain]) == [[], [astray]]
    assert borne_out([[chance], [astray]], [plain, other]) == [[chance], [astray]]
    assert borne_out([[chance], [chance]], [plain, plain]) == [[chance], [chance]]
    assert borne_out([[chance], []], [plain, plain]) == [[chance], []]


def test_the_first_sentence_comes_before_memory_that_a_later_one_explains():
    """Two programs store to the same elements because of the columns of the store, which has a sentence of its own."""
    column = Divergence("col_as_element", LOAD, 38, "X[0, 1]", "X[0, 32]", "the block column is taken for the index of an element")
    stored = Divergence("columns_displaced", 11, 44, "columns 32:64 at 1", "column 32", "the columns begin at the number of the tile")
    assert comes_first([column, stored], frozenset(), frozenset({44}))
    assert not comes_first([column, stored], frozenset(), frozenset({44, 50}))
    assert not comes_first([column], frozenset(), frozenset({44}))
    assert not comes_first([column], frozenset(), frozenset())


UNREAD = {
    "w8a16_words": "a lane loads four elements of the weight as one word, so it comes from no single one",
}
"""Right styles whose flow the ledger cannot follow: it says nothing of their like, and others explain a wrong one."""


@pytest.mark.slow
@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_a_right_flow_is_read_without_a_gap_and_diverges_nowhere(path):
    """Asked as if all of Y were wrong, in every style, the ledger has nothing to say."""
    lab, text = lab_of(path), path.read_text(encoding="utf-8")
    *_, run = recorded(text, lab, SMALL[lab][0])
    run.wrong[:] = True
    if path.stem in UNREAD:
        assert_not_followed(run)
    else:
        assert_read(run)
    with np.errstate(all="ignore"):
        assert [finding.text("") for finding in walk(run)] == []
    if text.count("Config(") > 2:
        assert [finding.text("") for finding in walked(text, lab, SMALL[lab][1], config=0 if lab == "dds" else 2, forced=True)] == []


def assert_not_followed(run):
    program, stores = next((program, found) for program in run.tape.programs if (found := stores_to_output(run, program)))
    with pytest.raises(Untraceable):
        pairs_of(run, program, stores[0], sample(run, stores[0]))


def assert_read(run):
    """What the flow adds up to is what was stored: products, factors and sums are all understood."""
    stored = {program: stores for program in run.tape.programs if (stores := stores_to_output(run, program))}
    assert stored
    for program, stores in list(stored.items())[:4]:
        for store in lasting(stores):
            lanes = sample(run, store)
            if len(lanes):
                flow = pairs_of(run, program, store, lanes).flow
                assert flow.terms or not np.any(flow.stored)
                assert abs(flow.predicted - flow.stored).max() <= 2e-3 * abs(flow.stored).max() + 1e-6


@pytest.mark.slow
def test_parts_that_are_right_only_together_are_not_judged_apart():
    """1024 in every nibble and in every zero point cancels: no accusation, and none of another part when one is wrong too."""
    text = (TESTS / "styles/gptq_zero_sums.py").read_text(encoding="utf-8")
    for find, put in (("& 15\n            products", "& 15 | 1024\n            products"), ("(zero + 1)[None", "(zero + 1025)[None")):
        assert text.count(find) == 1
        text = text.replace(find, put)
    assert walked(text, "gptq", "groups_of_32", forced=True) == []
    assert walked(text.replace("zero + 1025", "zero + 1024"), "gptq", "groups_of_32") == []


def test_a_failure_of_the_ledger_costs_nothing_and_does_not_vanish(monkeypatch, tmp_path):
    """The reason then comes from elsewhere, points stay, and the report tells who runs the grader."""
    mistake = next(mistake for mistake in mistakes() if (mistake.lab, mistake.name) == ("dds", "block_not_transposed"))
    path = tmp_path / "dds.py"
    path.write_text(mistake.source, encoding="utf-8")
    lab = get_lab("dds")
    lab = replace(lab, cases=tuple(case for case in lab.cases if case.name in ("one_block", "every_config")))
    options = GradeOptions(choose("cpu")[0], jobs=1, capabilities=(90,), facts=False)
    sound = document(grade(path, [lab], options))["labs"]["dds"]

    def walk(run):
        raise IndexError("index 7 is out of bounds")

    monkeypatch.setattr("grader.diagnosis.ledger.explaining.walk", walk)
    broken = document(grade(path, [lab], options))["labs"]["dds"]
    assert sound["defects"] == []
    assert all(text.startswith("a defect of the grader: the ledger stopped in ") for text in broken["defects"])
    assert any("IndexError" in text and "test_ledger.py" in text for text in broken["defects"])
    assert broken["points"] == sound["points"]
    assert [test["metrics"].get("mistake") for test in broken["tests"] if test["status"] == "failed" and test["kind"] == "correctness"]


def test_tiles_that_are_exchanged_in_a_row_of_tiles_are_so_for_certain():
    """All stored tiles lie in one column there, which need not mean that the columns do not depend on the program."""
    text = (TESTS / "styles" / "w8a8_grouped.py").read_text(encoding="utf-8")
    rows, columns = "first_m + (pid % in_group) % group_size", "(pid % in_group) // group_size"
    places = f"pid_m = {rows}\n    pid_n = {columns}"
    assert text.count(places) == 1
    (finding,) = walked(text.replace(places, f"pid_n = {rows}\n    pid_m = {columns}"), "w8a8", "n_tail", config=1)
    assert finding.reason == "the number of the row tile and that of the column tile are exchanged"
    (finding,) = walked(text.replace(places, "pid_m = pid\n    pid_n = 0"), "w8a8", "n_tail", config=1)
    assert "the columns that are stored do not depend on the program" in finding.reason


def test_columns_of_x_are_shown_where_they_leave_the_block():
    """A block that is not transposed either shows other pairs, in which X is in the block's columns."""
    text = PLAIN["dds"]
    for find, put in (("col * BLOCK", "col"), ("tl.trans(w)", "w")):
        assert text.count(find) == 1
        text = text.replace(find, put)
    found = [finding.found for finding in walked(text, "dds", "long_row") if finding.name == "col_as_element"]
    left, right = (int(part.split(", ")[-1].split("]")[0]) for part in found[0].split(": ")[-1].split(", X[")[-1].split(" meets "))
    assert left // 32 != right // 32


def test_one_row_of_scales_taken_by_the_place_in_the_tile_may_be_taken_along_the_other_index():
    text = PLAIN["w8a8"].replace("* x_scale[:, None] * w_scale[None, :]", "* x_scale[None, :] * w_scale[:, None]")
    names = [finding.name for finding in walked(text, "w8a8", "single_token", config=1)]
    assert names
    assert all(name.startswith(("weight_scale_by_row", "input_scale_by_column", "scales_swapped")) for name in names), names


def test_a_loop_that_goes_on_behind_its_row_comes_before_the_indices_that_it_reads_there():
    behind = Divergence("row_end_ignored", LOAD, 33, "X[0, 160] meets W[64, 160]", "W[32, 160]", "the loop does not end with its block row")
    assert comes_first([behind], frozenset({39, 40}), frozenset({39, 40}))


def test_a_case_with_elements_that_nobody_wrote_is_asked_too():
    lab = get_lab("dds")
    nothing, half = torch.full((2, 2), torch.nan), torch.tensor([1.0, torch.nan])
    wrong, unwritten = Outcome("one_block", 0, "ran", written=True), Outcome("empty_rows", 0, "ran", half, written=False)
    empty = Outcome("all_empty", 0, "ran", nothing, written=False)
    assert _unwritten(lab, [wrong, empty, unwritten], [wrong, empty]) == [unwritten]
    assert _unwritten(lab, [wrong, unwritten], [unwritten]) == []
    assert _unwritten(lab, [wrong], [wrong]) == []


def test_a_damaged_record_is_refused_or_read_never_worse():
    """The record comes from a sandbox: whatever its bytes are, parsing ends in a tape or in ValueError."""
    _, _, outcome, _ = recorded(PLAIN["dds"], "dds", "one_block")
    assert parse(outcome.flow).nodes
    generator = random.Random(0)
    stages = stages_of("dds")
    for _ in range(200):
        flow = bytearray(outcome.flow)
        for _ in range(generator.randrange(1, 6)):
            flow[generator.randrange(4 if generator.random() < 0.5 else len(flow))] = generator.randrange(256)
        if generator.random() < 0.3:
            del flow[generator.randrange(len(flow)) :]
        try:
            tape = parse(bytes(flow))
        except ValueError:
            continue
        Provenance(tape, stages.left.tensor, stages.right.tensor)


def test_a_lab_without_stages_has_no_ledger():
    assert stages_of("no_such_lab") is None


@pytest.mark.slow
def test_a_wrong_map_of_tiles_comes_before_the_accesses_that_follow_from_it(tmp_path):
    kernel = next(one for one in several() if one.name == "first_try")
    path = tmp_path / "w8a8.py"
    path.write_text(kernel.source, encoding="utf-8")
    report = grade(path, [get_lab("w8a8")], GradeOptions(choose("cpu")[0], jobs=1, capabilities=(90,), facts=False))
    memory = next(test for test in report.labs["w8a8"].tests if test.kind == "memory")
    assert memory.status == "failed"
    assert "nobody stores tiles" in next_step(report)


@pytest.mark.slow
def test_a_line_in_a_helper_is_told_with_its_call(tmp_path):
    """The helper is right and what it is given is not, so its line alone would accuse the wrong one."""
    helper = (
        "@triton.jit\ndef put(y_ptrs, y, offs_m, offs_n, M, N):\n"
        "    tl.store(y_ptrs, y.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))\n\n\n"
    )
    store = "tl.store(y_ptrs, y.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))"
    assert PLAIN["w8a8"].count(store) == 1
    text = PLAIN["w8a8"].replace(store, "put(y_ptrs, y, offs_m, offs_n, N, M)").replace("@triton.autotune(", helper + "@triton.autotune(")
    path = tmp_path / "w8a8.py"
    path.write_text(text, encoding="utf-8")
    report = grade(path, [get_lab("w8a8")], GradeOptions(choose("cpu")[0], jobs=1, capabilities=(90,), facts=False))
    lines = text.split("\n")
    inner, call = (next(n for n, line in enumerate(lines, 1) if line.startswith(f"    {start}")) for start in ("tl.store(", "put("))
    reasons = "\n".join(test.diagnosis for test in report.labs["w8a8"].tests if test.diagnosis)
    assert f"w8a8.py line {inner}, called in w8a8.py line {call}, in `" in reasons


HELPER = """@triton.jit
def places(ptr, rows, columns, stride_r, stride_c):
    return ptr + rows[:, None] * stride_r + columns[None, :] * stride_c


"""
X_PLACES = "x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk"
Y_PLACES = "y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("find", "put", "words"),
    [
        (X_PLACES, "places(x_ptr, offs_m, offs_k, stride_xk, stride_xm)", "the two strides of X are exchanged"),
        (Y_PLACES, "y_ptr + offs_m[:, None] * stride_yn + offs_n[None, :] * stride_ym", "the two strides of Y are exchanged"),
    ],
    ids=["X in the call of a helper", "Y in the store"],
)  # fmt: skip
def test_exchanged_strides_come_before_what_they_access_and_no_mask_is_advised(find, put, words, tmp_path):
    assert PLAIN["w8a8"].count(find) == 1
    path = tmp_path / "w8a8.py"
    path.write_text(PLAIN["w8a8"].replace(find, put).replace("@triton.autotune(", HELPER + "@triton.autotune("), encoding="utf-8")
    lab = get_lab("w8a8")
    few = ("one_tile", "single_token", "all_tails", "every_config_tall")
    lab = replace(lab, cases=tuple(case for case in lab.cases if case.name in few))
    report = grade(path, [lab], GradeOptions(choose("cpu")[0], jobs=1, capabilities=(90,), facts=False))
    memory = next(test for test in report.labs["w8a8"].tests if test.kind == "memory")
    assert memory.status == "failed"
    assert "its strides are not the tensor's: put that right first" in memory.message
    assert "mask it" not in memory.message
    assert words in next_step(report)
