"""Known mistakes are named, in every case that they explain; right kernels and small rounding differences never are."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

from grader.diagnosis.likeness import describe_region, diagnose
from grader.judging.checking import check
from grader.labs import all_labs, get_lab
from grader.labs.problems import make_problem
from grader.model import Config, KernelBundle, MadeModule, MemoryFinding, Outcome
from tests.submissions import TESTS, failed_tests, graded_as_read, graded_mistake, mistakes

CONFIG = Config(0, {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}, 4, 2)
IDS = [f"{mistake.lab}-{mistake.name}" for mistake in mistakes()]


def run(lab, case_name, change, *, config=CONFIG):
    """The outcome and finding of one case whose fp16 output is `change(reference)`."""
    case = lab.case(case_name)
    problem = make_problem(lab, case, seed=3)
    y = change(lab.reference(problem, 1).y).to(torch.float16)
    outcome = Outcome(case.name, config.index, "ran", y=y)
    return problem, outcome, check(lab, problem, outcome, KernelBundle(lab.id, (config,), {}, {}, MadeModule("", lab.kernel, ())))


def diagnosed(lab, *changed, config=CONFIG):
    """Diagnoses of several (case, change) pairs of one lab."""
    runs = [run(lab, case, change, config=config) for case, change in changed]
    problems = {outcome.case: problem for problem, outcome, _ in runs}
    outcomes, findings = [outcome for _, outcome, _ in runs], [finding for _, _, finding in runs]
    return diagnose(lab, problems, [config], outcomes, findings)


def test_a_y_of_nan_beside_a_mistake_names_no_other():
    """A kernel with a known mistake that also reads past K: where that leaves NaN everywhere, other mistakes would too."""
    lab = get_lab("w4a16")
    mistake = next(known for known in lab.mistakes if known.name == "offset_binary")

    def mistaken(case):
        problem = make_problem(lab, lab.case(case), seed=3)
        return lambda y: next(iter(mistake.imitate(problem, CONFIG))).y

    cases = ("one_tile", "transposed_x", "strided_rows", "every_nibble")
    runs = [run(lab, case, mistaken(case)) for case in cases] + [run(lab, "every_config_tall", lambda y: torch.full_like(y, torch.nan))]
    outcomes = [replace(outcome, written=True) for _, outcome, _ in runs]
    problems = {outcome.case: problem for problem, outcome, _ in runs}
    diagnoses = diagnose(lab, problems, [CONFIG], outcomes, [finding for _, _, finding in runs])
    assert [diagnosis.mistake for diagnosis in diagnoses] == ["offset_binary"] * 4 + [""]


@pytest.mark.parametrize(
    ("slices", "named", "asked"), [(1, "fp16_accumulator", "accumulator"), (4, "fp16_additions", "how many programs add")]
)
def test_errors_of_fp16_sums_are_laid_to_what_sums_in_fp16(slices, named, asked):
    """Where programs meet in Y (split-K, stream-K) the sum in fp16 may be Y itself: no int32 accumulator is accused alone."""

    def added_up(y):
        parts = torch.randn(16, *y.shape, generator=torch.Generator().manual_seed(0)).double() * y.std() / 4
        parts[-1] = y - parts[:-1].sum(0)
        total = torch.zeros_like(y, dtype=torch.float16)
        for part in parts:
            total += part.to(torch.float16)
        return total

    lab = get_lab("w8a8")
    config = replace(CONFIG, constants={**CONFIG.constants, "SPLIT_K": slices})
    found = diagnosed(lab, ("several_tiles", added_up), ("k_tail", added_up), config=config)
    assert [diagnosis.mistake for diagnosis in found] == [named, named]
    assert asked in next(known.hint for known in lab.mistakes if known.name == named)


def test_errors_of_a_race_are_not_laid_to_roundings():
    """What one program adds and another one overwrites may be as small as a rounding in fp16."""
    lab = get_lab("w8a8")
    config = replace(CONFIG, constants={**CONFIG.constants, "SPLIT_K": 4})
    torch.manual_seed(0)
    problem, outcome, finding = run(lab, "several_tiles", lambda y: y * (1 + 2e-3 * torch.randn_like(y)), config=config)
    race = MemoryFinding("store", "race", 1, "y_ptr", (0, 0), programs=(0, 1), differs=True)
    for memory, named in (((), True), ((race,), False)):
        seen = replace(outcome, memory=memory)
        (diagnosis,) = diagnose(lab, {"several_tiles": problem}, [config], [seen], [finding])
        assert (diagnosis.mistake in ("fp16_additions", "fp16_accumulator")) == named
        assert ("programs race for elements of Y" in diagnosis.text(hidden=False)) != named


@pytest.mark.parametrize(
    ("written", "memory", "said"),
    [
        (None, None, "no element of Y was written, or all are NaN"),
        (False, (), "no element of Y was written, or all are NaN"),
        (True, (), "all of Y is NaN, though each element was stored: look at what it is computed from"),
        (True, (MemoryFinding("load", "beyond", 1, "x_ptr", (0, 64), 1),), "stored: what is read outside x is NaN here"),
        (True, (MemoryFinding("load", "beyond", 1, "qweight_ptr", (0, 64), 1),), "stored: look at what it is computed from"),
    ],
)  # fmt: skip
def test_nan_that_was_stored_is_told_from_what_was_not_written(written, memory, said):
    lab = get_lab("w8a8")
    problem, outcome, _ = run(lab, "one_tile", lambda y: torch.full_like(y, torch.nan))
    bundle = KernelBundle(lab.id, (CONFIG,), {}, {}, MadeModule("", lab.kernel, ()))
    assert said in check(lab, problem, replace(outcome, written=written, memory=memory), bundle).message


@pytest.mark.parametrize("lab", all_labs().values(), ids=lambda lab: lab.id)
def test_a_y_of_nan_that_was_stored_is_like_no_mistake_that_reads_outside(lab):
    """Where every access was looked at, and none was outside."""
    runs = [run(lab, case.name, lambda y: torch.full_like(y, torch.nan)) for case in lab.cases]
    outcomes = [replace(outcome, written=True, memory=()) for _, outcome, _ in runs]
    problems = {outcome.case: problem for problem, outcome, _ in runs}
    diagnoses = diagnose(lab, problems, [CONFIG], outcomes, [finding for _, _, finding in runs])
    assert {diagnosis.mistake for diagnosis in diagnoses if diagnosis} == {""}


@pytest.mark.parametrize(("tensor", "named"), [("zeros_ptr", ""), ("x_ptr", "x_transposed")])
def test_a_y_of_nan_is_like_a_mistake_only_if_it_reads_outside_the_tensor_that_was_left(tensor, named):
    """Whose groups are counted wrongly reads outside the zeros; X read by other strides would leave NaN everywhere too."""
    lab = get_lab("gptq")
    problem, outcome, finding = run(lab, "one_tile", lambda y: torch.full_like(y, torch.nan))
    outcome = replace(outcome, written=True, memory=(MemoryFinding("load", "past", 1, tensor),))
    (diagnosis,) = diagnose(lab, {"one_tile": problem}, [CONFIG], [outcome], [finding])
    assert diagnosis.mistake == named


@pytest.mark.slow
@pytest.mark.parametrize("mistake", mistakes(), ids=IDS)
def test_mistake_is_named(mistake):
    report = graded_mistake(mistake.lab, mistake.name)
    assert report["labs"][mistake.lab]["defects"] == []
    tests = failed_tests(report, mistake.lab)
    named = {test["metrics"]["mistake"] for test in tests if test["metrics"].get("mistake")}
    assert named
    assert named <= mistake.expected


IN_OTHER_STYLES = [
    ("tests/styles/w8a8_grid2d.py", "tl.floor(x.to(tl.float32) / sx + 0.5)", "x.to(tl.float32) / sx", "truncation"),
    ("tests/styles/w4a16_nibble_loop.py", "w = (w << left_shift[:, None]) >> 28",
     "w = ((w << left_shift[:, None]) >> 28) & 0xF", "unsigned"),
    ("tests/styles/w4a16_nibble_loop.py", "tl.cdiv(K, BLOCK_SIZE_K)", "K // BLOCK_SIZE_K", "last_k_block_dropped"),
    ("tests/styles/w4a16_magic.py", "bitcast=True) - 1032.0", "bitcast=True) - 1024.0", "eight_too_large"),
    ("solutions/w4a16.py", "tl.join(lower, upper) - 1032.0", "tl.join(lower, upper) - 1024.0", "eight_too_large"),
    ("tests/styles/dds_while.py", "while p < stop:", "while p < stop - 1:", "last_block_dropped"),
    ("tests/styles/dds_while.py", "b_y += tl.dot", "b_y = tl.dot", "accumulator_overwritten"),
    ("solutions/w8a8.py", "        x = tl.minimum(tl.maximum(x, lowest[:, None]), highest[:, None])\n", "", "no_clamp"),
    ("solutions/w8a8.py", "acc.to(tl.float32) * input_scale[:, None]", "acc.to(tl.float32)", "input_scale_forgotten"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("file", "find", "put", "expected"), IN_OTHER_STYLES)
def test_mistake_in_another_style_is_named(tmp_path, file, find, put, expected):
    source = (TESTS.parent / file).read_text(encoding="utf-8")
    assert source.count(find) == 1
    lab = get_lab(file.split("/")[-1].split("_")[0].removesuffix(".py"))
    path = tmp_path / f"{lab.id}.py"
    path.write_text(source.replace(find, put), encoding="utf-8")
    chosen = ("k_tail", "saturating_scale", "every_nibble", "block_orientation", "dense_blocks", "every_config")
    lab = replace(lab, cases=tuple(case for case in lab.cases if case.name in chosen))
    report = graded_as_read(path, lab)
    tests = failed_tests(report, lab.id)
    assert {test["metrics"]["mistake"] for test in tests} == {expected}


@pytest.mark.parametrize("lab", all_labs().values(), ids=lambda lab: lab.id)
def test_the_right_output_is_never_diagnosed(lab):
    cases = [(case.name, lambda y: y) for case in lab.cases if case.M * case.N <= 64 * 256]
    assert not any(diagnosed(lab, *cases))


@pytest.mark.parametrize("lab", all_labs().values(), ids=lambda lab: lab.id)
def test_noise_is_no_known_mistake(lab):
    """Wrong everywhere, but in no way that is known: tiles, rows and columns are described instead."""
    torch.manual_seed(0)
    case = lab.cases[0].name
    (diagnosis,) = diagnosed(lab, (case, lambda y: y + 5 * y.std() * torch.randn_like(y)))
    assert diagnosis.mistake == ""
    assert diagnosis.text(hidden=False).startswith("Wrong elements lie in ")
    assert "no known mistake fits" in diagnosis.text(hidden=False)
    assert diagnosis.text(hidden=True) == ""


def test_a_few_wrong_elements_are_no_known_mistake():
    def change(y):
        y = y.clone()
        y[5, 7] += 100
        return y

    (diagnosis,) = diagnosed(get_lab("w8a8"), ("one_tile", change))
    assert diagnosis.mistake == ""
    assert "1 of 4 tiles: (0, 0)" in diagnosis.evidence


def test_hidden_cases_give_the_class_without_data():
    (diagnosis,) = diagnosed(get_lab("w4a16"), ("one_tile", torch.zeros_like))
    assert diagnosis.mistake == "zeros"
    assert "100 %" in diagnosis.text(hidden=False)
    assert "%" not in diagnosis.text(hidden=True)
    assert diagnosis.hint in diagnosis.text(hidden=True)


def test_tile_sizes_are_guessed_when_the_config_does_not_name_them():
    lab = get_lab("w8a8")
    config = replace(CONFIG, constants={"ROWS": 32, "COLS": 64})

    def first_tile(y):
        only = torch.full_like(y, torch.nan)
        only[:32, :64] = y[:32, :64]
        return only

    answers = diagnosed(lab, ("several_tiles", first_tile), ("odd_m", first_tile), config=config)
    assert {answer.mistake for answer in answers} == {"tile_offset_forgotten"}


def test_the_witness_names_a_nibble():
    lab = get_lab("w4a16")
    unsigned = next(mistake for mistake in lab.mistakes if mistake.name == "unsigned")
    problem = make_problem(lab, lab.case("one_tile"), seed=3)
    wrong = next(iter(unsigned.imitate(problem, CONFIG))).y
    (diagnosis,) = diagnosed(lab, ("one_tile", lambda y: wrong))
    assert diagnosis.mistake == "unsigned"
    assert "element" in diagnosis.evidence
    assert "your kernel used" in diagnosis.evidence


def test_region_names_rows_and_columns_where_tiles_have_several_sizes():
    wrong = torch.zeros(64, 64, dtype=torch.bool)
    wrong[:, 8:24] = True
    text = describe_region(wrong, replace(CONFIG, constants={}))
    assert text == "Wrong elements lie in all rows and in columns 8 to 23; no known mistake fits"


def test_region_names_rows_inside_a_tile():
    wrong = torch.zeros(64, 64, dtype=torch.bool)
    wrong[32:40, :32] = True
    text = describe_region(wrong, CONFIG)
    assert "1 of 4 tiles: (1, 0)" in text
    assert "rows 0 to 7" in text
    assert text.endswith("no known mistake fits")
    assert "look at the offsets and the mask of the store" in describe_region(wrong, CONFIG, unwritten=True)


@pytest.mark.parametrize("lab", all_labs().values(), ids=lambda lab: lab.id)
def test_every_known_mistake_can_be_told_from_a_right_kernel(lab):
    """Each entry has a case in which it shows, and its words are for people."""
    shows, configs = set(), (CONFIG, replace(CONFIG, constants={**CONFIG.constants, "SPLIT_K": 4}))
    for case in lab.cases:
        problem = make_problem(lab, case, seed=3)
        reference = lab.reference(problem, 1)
        for mistake in lab.mistakes:
            if mistake.name in shows:
                continue
            for imitation in itertools.chain.from_iterable(mistake.imitate(problem, config) for config in configs):
                wrong = ~((imitation.y - reference.y).abs() <= reference.bound)
                if imitation.overrun or imitation.loose or bool(wrong.any()):
                    shows.add(mistake.name)
                    break
    assert {mistake.name for mistake in lab.mistakes} - shows <= {"store_without_n_mask", "x_transposed", "group_of_tile"}
    assert all(len(mistake.what) > 10 and len(mistake.hint) > 20 for mistake in lab.mistakes)
