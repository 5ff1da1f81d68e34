"""What the memory test says of launches that did not come to their end, and of those that nobody saw."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.judging.checking import Finding
from grader.judging.correctness_tests import memory_test
from grader.judging.judged import Judged
from grader.judging.rubric import load_rubric
from grader.judging.scoring import score
from grader.labs import get_lab
from grader.model import Config, GeneratedModule, KernelBundle, Outcome, SanitizerResult


def outcome(case, status, message=""):
    return Outcome(case, 0, status, message=message)


LATE = outcome("one_tile", "timeout", "did not finish within 24 s")
SKIPPED = [outcome(case, "timeout", "not run: one_tile did not finish in time") for case in ("odd_m", "n_tail")]


@pytest.mark.parametrize(
    ("watched", "said"),
    [
        ([LATE, outcome("k_tail", "ran")], "1 of 2 launches did not finish, the first in one_tile: what"),
        ([LATE, *SKIPPED], "1 of 1 launches did not finish, the first in one_tile, and 2 more launches were not made: what"),
        (SKIPPED[:1], "1 launch was not made: what"),
    ],
)
def test_launches_that_were_not_made_are_not_said_to_have_gone_on_for_too_long(watched, said):
    lab = get_lab("w8a8")
    bundle = KernelBundle(lab.id, (Config(0, {}, 4, 2),), {}, {}, GeneratedModule("", lab.kernel, ()))
    judged = Judged(bundle, (), watched, [], None, watched=watched)
    assert memory_test(lab, judged).message.startswith(said)


# ---------------------------------------------------------------- points need eyes

LAB = replace(get_lab("w8a8"), cases=tuple(case for case in get_lab("w8a8").cases if case.name in ("one_tile", "k_tail", "odd_m")))
NAMES = [case.name for case in LAB.cases]
WHY = "w8a8.py line 9: inline assembly runs on a GPU only; the interpreter cannot run it"


def points_of(watched, sanitized=()):
    """The memory test of a kernel that a GPU found right in three cases: status, points and message."""
    bundle = KernelBundle(LAB.id, (Config(0, {}, 4, 2),), {}, {}, GeneratedModule("", LAB.kernel, ()))
    outcomes = [outcome(name, "ran") for name in NAMES]
    judged = Judged(bundle, (90,), outcomes, [Finding(True, "")] * 3, [], watched=watched, sanitized=sanitized)
    rubric = load_rubric()
    report = score(LAB, judged, rubric, None)
    memory = next(test for test in report.tests if test.kind == "memory")
    return memory.status, memory.points / rubric.memory, memory.message, report.correctness_points / rubric.correctness


def unseen(name):
    return outcome(name, "unsupported", WHY)


def test_every_launch_that_was_watched_gives_all_points():
    status, share, message, whole = points_of([outcome(name, "ran") for name in NAMES])
    assert (status, share, whole) == ("passed", 1.0, 1.0)
    assert "not seen" not in message


@pytest.mark.parametrize(("late", "share_kept"), [("timeout", True), ("refused", True), ("crash", False), ("timeout", False)])
def test_a_launch_that_does_not_end_costs_its_own_share(late, share_kept):
    """It fails the test all the same; one that ended the interpreter, or of which nothing is known, may have written anywhere."""
    ended = replace(outcome(NAMES[0], late, "late"), memory=() if share_kept else None)
    status, share, message, whole = points_of([ended, *(outcome(name, "ran") for name in NAMES[1:])])
    assert status == "failed"
    assert (0 < share < 1) is share_kept
    assert whole < 1
    assert "what else they access is unknown" in message


def test_one_watched_launch_does_not_stand_for_the_others():
    status, share, message, whole = points_of([outcome(NAMES[0], "ran"), *map(unseen, NAMES[1:])])
    assert status == "passed"
    assert 0 < share < 0.6
    assert whole < 1
    assert f"not seen: {NAMES[1]}, {NAMES[2]} ({WHY}); guard regions and inputs are intact in 3 launches" in message


def test_nothing_seen_gives_nothing_and_says_so():
    status, share, message, _ = points_of([unseen(name) for name in NAMES])
    assert (status, share) == ("skipped", 0.0)
    assert message.startswith(f"not seen: {', '.join(NAMES)} (")
    status, share, message, _ = points_of([])
    assert (status, share) == ("skipped", 0.0)


def test_what_a_tool_saw_on_the_gpu_counts():
    watched = [unseen(name) for name in NAMES]
    status, share, message, whole = points_of(watched, [SanitizerResult(name, 0) for name in NAMES])
    assert (status, share, whole) == ("passed", 1.0, 1.0)
    assert "3 launches, as compute-sanitizer saw" in message
    status, share, message, _ = points_of(watched, [SanitizerResult(NAMES[0], 0)])
    assert status == "passed"
    assert 0 < share < 0.6
    assert f"not seen: {NAMES[1]}" in message
    faulty = SanitizerResult(NAMES[1], 0, "reads 4 bytes, 16 bytes after x")
    status, share, message, _ = points_of(watched, [SanitizerResult(NAMES[0], 0), faulty])
    assert (status, share) == ("failed", 0.0)
    assert message == f"the kernel reads 4 bytes, 16 bytes after x (in `{NAMES[1]}`, config 0)"
