"""Tier tables: which one counts, what a ratio earns by it, and what calibration writes."""

from __future__ import annotations

import math
import tomllib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.judging.checking import Finding
from grader.judging.judged import Judged
from grader.judging.points import speed_points
from grader.judging.rubric import HERE, Tier, Tiers, check_names, load_rubric, load_tiers, tier_reached
from grader.judging.scoring import score
from grader.labs import all_labs, get_lab
from grader.model import Device, GeneratedModule, KernelBundle, Outcome, SpeedSample
from grader.pipeline.calibration import (
    APART,
    FIRST,
    ROOM,
    SOLUTION,
    Calibration,
    CaseRatios,
    rungs_with_tiers,
    table_names,
    tier_table,
    tiers_of,
)
from grader.unusable import Unusable

GPU = Device("cuda", "NVIDIA H200", 90, "580.1", "2.11.0", "3.6.0", "bubblewrap")
FALLBACK = "default = [{ratio = 0.5, share = 0.25}, {ratio = 1.0, share = 1.0}]\n"


def calibration(value=1.5):
    rungs = {"obvious": CaseRatios(((value / 3,),), 62.5), SOLUTION: CaseRatios(((value, value * 0.99, value * 1.03),), 12.5)}
    labs = {lab.id: {case.name: rungs for case in lab.speed_cases} for lab in all_labs().values()}
    return Calibration(GPU, "2026-11-21", labs, {lab_id: list(rungs) for lab_id in labs})


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "uncalibrated.toml").write_text(FALLBACK, encoding="utf-8")
    return tmp_path


def test_a_calibration_becomes_a_table_that_is_read_back(folder):
    for name in table_names(GPU, fallback=False):
        (folder / name).write_text(tier_table(calibration()), encoding="utf-8")
    tiers = load_tiers("NVIDIA H200", 90, folder)
    assert tiers.calibrated
    assert tiers.source == "nvidia_h200.toml"
    for lab in all_labs().values():
        for case in lab.speed_cases:
            assert tiers.boundaries(lab.id, case.name) == (0.42, 1.38)
        assert tiers.rungs(lab.id)[SOLUTION] == dict.fromkeys((case.name for case in lab.speed_cases), 1.5)


def test_the_table_says_where_it_comes_from():
    text = tier_table(calibration())
    tomllib.loads(text)
    for words in ("NVIDIA H200", "driver 580.1", "torch 2.11.0", "triton 3.6.0", "2026-11-21", "3 runs"):
        assert words in text
    assert '{ ratio = 1.38, share = 1, rung = "solution", measured = 1.500 },  # 1.485 to 1.545, 12.5 us' in text


def test_of_several_gpus_the_slowest_counts():
    made = calibration()
    rungs = {"obvious": CaseRatios(((0.5,), (0.4,)), 62.5), SOLUTION: CaseRatios(((1.5, 1.6, 1.4), (1.2, 1.3, 1.1)), 12.5)}
    text = tier_table(replace(made, labs={lab: dict.fromkeys(cases, rungs) for lab, cases in made.labs.items()}))
    assert "3 runs in separate GPU processes each on 2 GPUs, of the slowest GPU;" in text
    assert '{ ratio = 1.10, share = 1, rung = "solution", measured = 1.200 },  # 1.100 to 1.600, 12.5 us' in text
    assert 'rung = "obvious", measured = 0.400 }' in text


def test_another_gpu_of_the_same_capability_falls_back_and_says_so(folder):
    for name in table_names(GPU, fallback=True):
        (folder / name).write_text(tier_table(calibration()), encoding="utf-8")
    tiers = load_tiers("NVIDIA H100 PCIe", 90, folder)
    assert (tiers.source, tiers.calibrated) == ("sm_90.toml", False)
    assert tiers.boundaries("w8a8", get_lab("w8a8").speed_cases[0].name) == (0.42, 1.38)
    other = load_tiers("NVIDIA A100-SXM4-80GB", 80, folder)
    assert (other.source, other.calibrated) == ("uncalibrated.toml", False)
    assert other.boundaries("w8a8", "anything") == (0.5, 1.0)


@pytest.mark.parametrize(
    "numbers",
    [
        "[{ratio = 1.0, share = 0.5}, {ratio = 0.5, share = 1.0}]", "[{ratio = 0.5, share = 0.5}, {ratio = 1.0, share = 0.4}]", "[]",
        "[{ratio = 0.0, share = 1.0}]", "[{ratio = 0.5, share = 1.5}]", "[{ratio = 0.5}]", "[0.25, 0.5]", '["fast"]', "2",
        '[{ratio = "a", share = 1.0}]', "[{ratio = 0.5, share = 0.5, name = 1}]",
    ],
)
def test_a_table_of_no_use_is_named(folder, numbers):
    for text, words in ((f"[tiers.w8a8]\nspeed_m16 = {numbers}\n", "has .*correct it"), ("[tiers", "cannot be used")):
        (folder / "nvidia_h200.toml").write_text(text, encoding="utf-8")
        with pytest.raises(Unusable, match=rf"nvidia_h200\.toml {words}"):
            load_tiers("NVIDIA H200", 90, folder)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("correctness = 0.5", "correctness = 50", "share from 0 to 1"),
        ("correctness = 0.5", "correctness = nan", "share from 0 to 1"),
        ("speed = 40", "speed = nan", "infinite"), ("speed = 40", "speed = inf", "infinite"),
        ("long_row = 2", "long_row = nan", "infinite"),
        ("long_row = 2", "long_row = -1", "negative"),
    ],
)
def test_a_rubric_of_no_use_is_named(tmp_path, before, after, expected):
    text = (HERE / "rubric.toml").read_text(encoding="utf-8")
    assert before in text
    path = tmp_path / "rubric.toml"
    path.write_text(text.replace(before, after), encoding="utf-8")
    with pytest.raises(Unusable, match=rf"rubric\.toml .*{expected}"):
        load_rubric(path)


def test_a_number_for_a_case_that_there_is_none_of_is_named(folder):
    cases = {lab.id: [case.name for case in lab.all_cases] for lab in all_labs().values()}
    rubric, tier = load_rubric(), (Tier(1.0, 1.0),)
    for path in sorted((HERE / "tiers").glob("*.toml")):
        check_names(rubric, load_tiers(path.stem), cases)
    for weights in ({"dds": {"sparsity_9": 2.0}}, {"dd": {"sparsity_90": 2.0}}):
        with pytest.raises(Unusable, match=r"rubric\.toml has a number for .*, expected .*sparsity_90|expected a lab: one of w8a8"):
            check_names(replace(rubric, weights=weights), None, cases)
    with pytest.raises(Unusable, match=r"tiers/h200\.toml has a number for w8a8\.speed_16, expected one of .*speed_m16"):
        check_names(rubric, Tiers("h200.toml", True, {"w8a8": {"speed_m16": tier, "speed_16": tier}}, tier), cases)


@pytest.mark.parametrize("path", sorted((HERE / "tiers").glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_tables_can_be_read(path):
    tiers = load_tiers(path.stem)
    for lab in all_labs().values():
        for case in lab.speed_cases:
            assert tiers.of(lab.id, case.name)[-1].share == 1
    assert path.stem == "uncalibrated" or set(tiers.table) == set(all_labs())


ladders = st.lists(st.floats(0.001, 4), max_size=6).flatmap(
    lambda rungs: st.tuples(st.just(rungs), st.floats(0.01, 4), st.sets(st.integers(0, 5)))
)


@given(ladders)
def test_every_rung_has_a_tier_and_the_solution_all_points(measured):
    """Whatever was measured, and of whichever rungs: a slow first kernel, a rung that is slower than the one before, one beyond the
    solution."""
    rungs, best, lost = measured
    ladder = [f"rung{number}" for number in range(len(rungs))] + [SOLUTION]
    ratios = {name: ratio for number, (name, ratio) in enumerate(zip(ladder, rungs, strict=False)) if number not in lost}
    tiers = tiers_of(ladder, {**ratios, SOLUTION: best})
    assert [tier.ratio for tier in tiers] == sorted(tier.ratio for tier in tiers)
    assert [tier.share for tier in tiers] == sorted({tier.share for tier in tiers})
    assert tiers[-1].share == 1
    assert tiers[-1].ratio == pytest.approx(max(0.01, ROOM * best), abs=0.006)
    if len(ladder) > 1:
        assert len(tiers) == len(ladder)
        assert tiers[0].share == FIRST


def test_rungs_that_a_case_tells_apart_earn_more_each_and_the_others_no_more_than_those_before():
    ladder = ["obvious", "epilogue", "words", "split", SOLUTION]
    measured = {"obvious": 0.214, "epilogue": 0.22, "words": 0.25, "split": 0.8, SOLUTION: 2.1}
    tiers = tiers_of(ladder, measured)
    assert {rung: tier_reached(tiers, ratio) for rung, ratio in measured.items()} == {
        "obvious": 1, "epilogue": 1, "words": 3, "split": 4, SOLUTION: 5,
    }
    assert [tier.named for tier in tiers] == ["obvious", "", "words", "split", SOLUTION]
    assert all(measured[rung] / 1.03 > tiers[number].ratio for number, rung in enumerate(ladder) if tiers[number].named)
    even = tiers_of(["obvious", "order", SOLUTION], {"obvious": 1.0, "order": 1.5, SOLUTION: 1.5 * APART - 0.01})
    assert tier_reached(even, 1.5) == 3, "as fast as the solution"
    assert 1.03 < even[1].ratio < even[2].ratio


def test_a_step_that_is_faster_in_no_case_has_no_tier():
    ladder = ["obvious", "epilogue", "words", "split", SOLUTION]
    cases = [
        {"obvious": 0.2, "epilogue": 0.21, "words": 0.3, "split": 0.3, SOLUTION: 2.1},
        {"obvious": 0.2, "epilogue": 0.19, "words": 0.21, "split": 0.4, SOLUTION: 0.39},
    ]
    assert rungs_with_tiers(ladder, cases) == ["obvious", "words", "split", SOLUTION]
    assert rungs_with_tiers([SOLUTION], [{SOLUTION: 2.0}]) == [SOLUTION]
    assert rungs_with_tiers(ladder, [{**one, "epilogue": 0.3} for one in cases])[:3] == ["obvious", "epilogue", "split"]


@pytest.mark.parametrize("table", ["NVIDIA H200", "NVIDIA H100 80GB HBM3"])
def test_every_step_with_a_tier_earns_more_than_the_last(table):
    for lab in all_labs().values():
        points = list(speed_points(table, lab.id).values())
        assert points == sorted(set(points))
        assert (points[0], points[-1]) == pytest.approx((4.0, 40.0))


TIERS = Tiers("nvidia_h200.toml", True, {}, (Tier(0.6, 0.1, "obvious", 0.7), Tier(0.9, 0.4), Tier(1.2, 0.7), Tier(1.42, 1.0)))


def speed_test(value, tiers=TIERS, note=""):
    """The speed test of one case whose rounds all have this ratio."""
    whole = get_lab("w8a8")
    lab = replace(whole, cases=whole.cases[:1], speed_cases=whole.speed_cases[:1])
    sample = SpeedSample(
        lab.speed_cases[0].name, 0, "timed", (math.log(value),) * 45, (0.0,) * 15, 10.0, 10.0 * value, message=note
    )
    bundle = KernelBundle("w8a8", (), {}, {}, GeneratedModule("", "W8A8_MM", ()))
    right = Outcome(lab.cases[0].name, 0, "ran")
    judged = Judged(bundle, (90,), [right], [Finding(True, "")], [sample], watched=[right])
    report = score(lab, judged, load_rubric(), tiers)
    return next(test for test in report.tests if test.kind == "speed")


@pytest.mark.parametrize(
    ("value", "tier"),
    [(0.59, 0), (0.61, 1), (0.89, 1), (0.91, 2), (1.19, 2), (1.21, 3), (1.41, 3), (1.43, 4), (9.0, 4)],
)
def test_a_ratio_earns_its_tier(value, tier):
    test = speed_test(value)
    assert test.metrics["tier"] == tier
    assert test.points == pytest.approx(test.max_points * (0.0, 0.1, 0.4, 0.7, 1.0)[tier])
    assert ("top tier" in test.message) == (tier == 4)
    assert "uncalibrated" not in test.message
    assert ("about as fast as the ladder's step `obvious`, next tier at" in test.message) == (0 < tier < 4)
    assert ("next tier at 0.60x (`obvious`)" in test.message) == (tier == 0)


def test_an_uncalibrated_table_and_a_note_show():
    test = speed_test(1.0, replace(TIERS, source="sm_90.toml", calibrated=False), "another process used this GPU")
    assert "(uncalibrated)" in test.message
    assert "another process used this GPU" in test.message
    assert test.metrics["calibrated"] is False
    assert test.metrics["tier_table"] == "sm_90.toml"
