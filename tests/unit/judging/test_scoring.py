"""What a lab's report says of findings that are given: status, build, facts, error maps."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from grader.judging.checking import Finding
from grader.judging.judged import Judged
from grader.judging.rubric import load_rubric, load_tiers
from grader.judging.scoring import MAX_ERROR_MAPS, refused, score
from grader.labs import get_lab
from grader.model import (
    Binary,
    BuildFacts,
    BuildFailure,
    Config,
    ErrorMap,
    GeneratedModule,
    KernelBundle,
    LabReport,
    Launch,
    Outcome,
    Refusal,
    SpeedSample,
)

WHOLE = get_lab("w8a8")
HIDDEN = replace(WHOLE.cases[0], name="hidden_1", hidden=True)
LAB = replace(WHOLE, cases=(*WHOLE.cases, HIDDEN))
NAMES = [case.name for case in WHOLE.cases]
CONFIGS = tuple(Config(index, {}, 4, 3) for index in range(3))
ALIGNED, ODD = (Launch((1, 1, 1), (("x", kind),), (), ()) for kind in ("*fp16", "i32"))


def facts(registers: int) -> BuildFacts:
    return BuildFacts(registers, 0, 0, "wgmma", True, 16, 1, 4)


def binary(config: int, capability: int, registers: int) -> Binary:
    return Binary(config, capability, b"", "k", 4, 0, 0, (), facts(registers))


def report(
    statuses: dict[str, str], bundle: KernelBundle | None = None, samples=None, findings=None, capabilities=(80, 90)
) -> LabReport:
    """Of outcomes with these statuses, by case; right where they ran."""
    outcomes = [Outcome(name, 0, status, message=f"{status} of {name}") for name, status in statuses.items()]
    findings = findings or [
        Finding(outcome.status == "ran", outcome.message, skipped=outcome.status == "unsupported") for outcome in outcomes
    ]
    bundle = bundle or KernelBundle("w8a8", CONFIGS, {}, {}, GeneratedModule("", "W8A8_MM", ()))
    watched = [outcome for outcome in outcomes if outcome.status == "ran"]
    judged = Judged(bundle, capabilities, outcomes, findings, samples, watched=watched)
    return score(LAB, judged, load_rubric(), load_tiers("NVIDIA H200", 90))


@pytest.mark.parametrize("gpu", [True, False])
def test_of_a_kernel_that_never_ran_the_points_that_could_be_had_are_told(gpu):
    found = refused(LAB, Refusal("build_error", "no"), gpu=gpu)
    assert (found.status, found.message, found.points) == ("build_error", "no", 0.0)
    assert found.gradable_points == (100.0 if gpu else 60.0)


@pytest.mark.parametrize(
    ("statuses", "status", "message"),
    [
        ({NAMES[0]: "ran", NAMES[1]: "timeout"}, "graded", ""),
        ({NAMES[0]: "unsupported", NAMES[1]: "crash"}, "graded", ""),
        ({NAMES[0]: "timeout", NAMES[1]: "crash"}, "timeout", f"timeout of {NAMES[0]}"),
        ({NAMES[0]: "crash", NAMES[1]: "crash"}, "crash", f"crash of {NAMES[0]}"),
        ({NAMES[0]: "refused"}, "graded", f"refused of {NAMES[0]}"),
        ({NAMES[0]: "crash", HIDDEN.name: "ran"}, "crash", f"crash of {NAMES[0]}"),
        ({NAMES[0]: "ran", HIDDEN.name: "timeout"}, "graded", ""),
        ({NAMES[0]: "ran", NAMES[1]: "lost"}, "not_graded", f"lost of {NAMES[1]}"),
        ({HIDDEN.name: "crash"}, "graded", ""),
    ],
)
def test_a_lab_has_the_status_of_its_public_cases(statuses, status, message):
    found = report(statuses)
    assert found.status == status
    assert found.message.startswith(message) if message else found.message == ""


def test_what_compiles_is_told_for_each_capability():
    failure = BuildFailure(1, 80, "config 1: out of shared memory")
    launches = {(NAMES[0], 0): ALIGNED, (NAMES[0], 1): ALIGNED, (HIDDEN.name, 2): ALIGNED}
    bundle = KernelBundle(
        "w8a8", CONFIGS, launches, {(NAMES[0], 2): "config 2: its grid is 0", (HIDDEN.name, 1): "hidden"},
        GeneratedModule("", "W8A8_MM", ()), failures=(failure,),
    )
    old, new = (test for test in report({NAMES[0]: "ran"}, bundle).tests if test.kind == "build")
    assert (old.name, old.status, old.metrics) == ("build_sm80", "failed", {"configs": 3, "failed": 2})
    assert old.message == "1 of 3 configs compile; config 1: out of shared memory"
    assert (new.name, new.status, new.metrics) == ("build_sm90", "failed", {"configs": 3, "failed": 1})
    assert new.message == "2 of 3 configs compile; config 2: its grid is 0"
    fine = KernelBundle("w8a8", CONFIGS[:1], {(NAMES[0], 0): ALIGNED}, {}, GeneratedModule("", "W8A8_MM", ()))
    assert [test.status for test in report({NAMES[0]: "ran"}, fine).tests if test.kind == "build"] == ["passed"] * 2
    hidden = replace(fine, refused={(HIDDEN.name, 0): "hidden"})
    assert [test.status for test in report({NAMES[0]: "ran"}, hidden).tests if test.kind == "build"] == ["passed"] * 2


def test_facts_are_those_of_the_newest_capability_and_of_what_is_timed():
    binaries = {
        (80, 0, ALIGNED.key): binary(0, 80, 1), (90, 0, ALIGNED.key): binary(0, 90, 2), (90, 1, ODD.key): binary(1, 90, 3),
        (90, 2, ODD.key): binary(2, 90, 4),
    }
    launches = {(LAB.timed, 0): ALIGNED, (HIDDEN.name, 1): ODD, (NAMES[1], 2): ODD}
    bundle = KernelBundle("w8a8", CONFIGS, launches, {}, GeneratedModule("", "W8A8_MM", ()), binaries)
    assert {config: one.registers for config, one in report({NAMES[0]: "ran"}, bundle).facts.items()} == {0: 2}
    assert report({NAMES[0]: "ran"}, bundle, capabilities=()).facts == {}


def test_error_maps_are_the_first_of_each_public_case_and_not_too_many():
    def wrong(case: str, config: int, count: int = 1) -> Finding:
        return Finding(False, "wrong", errors=ErrorMap(case, config, 4, 4, (1, 1), np.zeros((4, 4), np.uint8), (16 - count, count, 0, 0)))

    cases = [*NAMES, *NAMES[:1], HIDDEN.name]
    findings = [wrong(NAMES[0], 7, count=0), *(wrong(case, number) for number, case in enumerate(cases))]
    found = report(dict.fromkeys(NAMES, "ran"), findings=findings[: len(NAMES)]).error_maps
    assert [one.case for one in found] == NAMES[: len(NAMES) - 1][:MAX_ERROR_MAPS]
    judged = Judged(
        KernelBundle("w8a8", CONFIGS, {}, {}, GeneratedModule("", "W8A8_MM", ())), (90,),
        [Outcome(one.errors.case, one.errors.config, "ran") for one in findings], findings, None,
    )
    maps = score(LAB, judged, load_rubric(), None).error_maps
    assert [(one.case, one.config) for one in maps] == [(case, number) for number, case in enumerate(NAMES)][:MAX_ERROR_MAPS]


def test_speed_is_graded_skipped_or_failed():
    names = [case.name for case in LAB.speed_cases]
    timed = [SpeedSample(name, 0, "timed", (math.log(2.0),) * 45, (0.0,) * 15, 10.0, 20.0) for name in names]
    late = [SpeedSample(name, 0, "failed", message="wrong") for name in names]
    right = dict.fromkeys([*NAMES, HIDDEN.name], "ran")
    assert report(right).speed_status == "skipped"
    assert report(right, samples=timed).speed_status == "graded"
    assert report(right, samples=[*late[:-1], timed[-1]]).speed_status == "graded"
    assert report(right, samples=late).speed_status == "failed"
    assert report(right).speed_points == 0.0
    assert report(right, samples=timed).speed_points == pytest.approx(40.0)
