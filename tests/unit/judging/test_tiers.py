"""Tier tables: which one counts, what a ratio earns by it, and what calibration writes."""

from __future__ import annotations

import math
import tomllib
from dataclasses import replace

import pytest

from grader.judging.checking import Finding
from grader.judging.judged import Judged
from grader.judging.rubric import BadRubric, Tiers, load_rubric, load_tiers
from grader.judging.scoring import score
from grader.labs import all_labs, get_lab
from grader.model import Device, KernelBundle, MadeModule, Outcome, SpeedSample
from grader.pipeline.calibration import SHARES, Calibration, CaseRatios, table_names, tier_table

GPU = Device("cuda", "NVIDIA H200", 90, "580.1", "2.11.0", "3.6.0", "bubblewrap")
FALLBACK = "default = [0.25, 0.5, 0.75, 1.0]\n"


def calibration(value=1.5):
    labs = {
        lab.id: {case.name: CaseRatios((value, value * 0.99, value * 1.03), 12.5) for case in lab.speed_cases}
        for lab in all_labs().values()
    }
    return Calibration(GPU, "2026-11-21", labs)


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
            assert tiers.boundaries(lab.id, case.name) == tuple(round(share * 1.5, 2) for share in SHARES)


def test_the_table_says_where_it_comes_from():
    text = tier_table(calibration())
    tomllib.loads(text)
    for words in ("NVIDIA H200", "driver 580.1", "torch 2.11.0", "triton 3.6.0", "2026-11-21", "0.4, 0.6, 0.8, 0.92"):
        assert words in text
    assert "solution 1.500 (1.485 to 1.545), 12.5 us" in text


def test_another_gpu_of_the_same_capability_falls_back_and_says_so(folder):
    for name in table_names(GPU, fallback=True):
        (folder / name).write_text(tier_table(calibration()), encoding="utf-8")
    tiers = load_tiers("NVIDIA H100 PCIe", 90, folder)
    assert (tiers.source, tiers.calibrated) == ("sm_90.toml", False)
    assert tiers.boundaries("w8a8", get_lab("w8a8").speed_cases[0].name)[0] == 0.6
    other = load_tiers("NVIDIA A100-SXM4-80GB", 80, folder)
    assert (other.source, other.calibrated) == ("uncalibrated.toml", False)
    assert other.boundaries("w8a8", "anything") == (0.25, 0.5, 0.75, 1.0)


@pytest.mark.parametrize("numbers", ["[1.0, 0.5]", "[]", "[0.0, 1.0]", '["fast"]', "2"])
def test_a_table_of_no_use_is_named(folder, numbers):
    (folder / "nvidia_h200.toml").write_text(f"[tiers.w8a8]\nspeed_m16 = {numbers}\n", encoding="utf-8")
    with pytest.raises(BadRubric, match=r"nvidia_h200\.toml has .*correct it"):
        load_tiers("NVIDIA H200", 90, folder)


def test_a_broken_table_is_named(folder):
    (folder / "nvidia_h200.toml").write_text("[tiers", encoding="utf-8")
    with pytest.raises(BadRubric, match=r"nvidia_h200\.toml cannot be used"):
        load_tiers("NVIDIA H200", 90, folder)


def test_shipped_tables_can_be_read():
    for gpu, capability in (("NVIDIA H200", 90), ("no such GPU", 80)):
        assert load_tiers(gpu, capability).boundaries("dds", "speed_m1024_s90")


TIERS = Tiers("nvidia_h200.toml", True, {}, (0.6, 0.9, 1.2, 1.42))


def speed_test(value, tiers=TIERS, note=""):
    """The speed test of one case whose rounds all have this ratio."""
    whole = get_lab("w8a8")
    lab = replace(whole, cases=whole.cases[:1], speed_cases=whole.speed_cases[:1])
    sample = SpeedSample(
        lab.speed_cases[0].name, 0, "timed", (math.log(value),) * 45, (0.0,) * 15, 10.0, 10.0 * value, message=note
    )
    bundle = KernelBundle("w8a8", (), {}, {}, MadeModule("", "W8A8_MM", ()))
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
    assert test.points == pytest.approx(test.max_points * (0.0, *load_rubric().tier_shares)[tier])
    assert ("top tier" in test.message) == (tier == 4)
    assert "uncalibrated" not in test.message


def test_an_uncalibrated_table_and_a_note_show():
    test = speed_test(1.0, replace(TIERS, source="sm_90.toml", calibrated=False), "another process used this GPU")
    assert "(uncalibrated)" in test.message
    assert "another process used this GPU" in test.message
    assert test.metrics["calibrated"] is False
    assert test.metrics["tier_table"] == "sm_90.toml"
