"""What only a GPU can run is watched there: accesses by compute-sanitizer, slices by a second launch onto another start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.gpu.devices import choose
from grader.labs import get_lab
from grader.pipeline.grading import GradeOptions, grade
from grader.running import sanitizer
from tests.submissions import TESTS, exploits, style_file

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.xdist_group("gpu")]
PLAIN = (TESTS / "styles" / "w4a16_plain.py").read_text(encoding="utf-8")
SPLIT = style_file("w4a16_split_k").read_text(encoding="utf-8")
OFFSETS = "    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)\n"
NO_OP = 'tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [offs_n], dtype=tl.int32, is_pure=True, pack=1)'
UNSEEN = OFFSETS + f"    offs_n = {NO_OP}\n"
BUYING = ("slices_of_crumbs", "slices_that_cancel", "slices_of_one_tile", "slices_that_load_and_leave")
SHORT_SLICES = "slices_of_one_tile"
"""In the small cases each of its slices has a tile or two: summed in fp16 these are off by less than the additions that a tolerance for
slices allows for. On a GPU alone, which counts additions and does not see what goes into each, these cases pass."""
with_tool = pytest.mark.skipif(sanitizer.installed() is None, reason="compute-sanitizer is not installed")


def verdict(tmp_path, source, *, timed=False):
    path = tmp_path / "w4a16.py"
    path.write_text(source, encoding="utf-8")
    lab = get_lab("w4a16")
    lab = lab if timed else replace(lab, speed_cases=())
    return grade(path, [lab], GradeOptions(choose("cuda")[0], seed=7)).labs["w4a16"]


def memory(report):
    return next(test for test in report.tests if test.kind == "memory")


def edited(source, find, into):
    assert source.count(find) == 1, find
    return source.replace(find, into)


@with_tool
def test_a_right_kernel_that_the_interpreter_cannot_run_has_all_points(tmp_path):
    report = verdict(tmp_path, edited(PLAIN, OFFSETS, UNSEEN))
    assert "as compute-sanitizer saw" in memory(report).message
    assert report.correctness_points == report.correctness_max, memory(report).message


@with_tool
@pytest.mark.parametrize(
    ("mask", "without"), [("mask=(offs_m[:, None] < M) & (offs_k[None, :] < K), other=0.0", "mask=offs_k[None, :] < K, other=0.0"),
                          ("mask=offs_n < N, other=0.0", "")],
)
def test_it_sees_what_is_read_outside(tmp_path, mask, without):
    found = memory(verdict(tmp_path, edited(edited(PLAIN, OFFSETS, UNSEEN), mask, without)))
    assert found.status == "failed", found.message
    assert "reads" in found.message


def test_without_the_tool_nothing_was_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(sanitizer, "installed", lambda: None)
    report = verdict(tmp_path, edited(PLAIN, OFFSETS, UNSEEN))
    assert memory(report).status == "skipped"
    assert memory(report).message.startswith("not seen: ")
    assert report.correctness_points == pytest.approx(report.correctness_max - memory(report).max_points)


@pytest.mark.parametrize("name", BUYING)
@pytest.mark.parametrize("hidden", [False, True], ids=["watched", "unseen"])
def test_tolerance_is_not_bought_with_slices(tmp_path, name, hidden):
    source = next(exploit.source for exploit in exploits() if exploit.name == name)
    report = verdict(tmp_path, edited(source, OFFSETS, UNSEEN) if hidden else source)
    right = [test.name for test in report.tests if test.kind == "correctness" and test.status == "passed"]
    most = 0.2 if not hidden else 0.55 if name == SHORT_SLICES else 0.35
    assert report.correctness_points < most * report.correctness_max, right
    assert "every_config" not in right


@pytest.mark.parametrize("name", ["slices_of_crumbs", "slices_that_cancel"])
def test_nor_while_it_is_timed(tmp_path, name):
    source = next(exploit.source for exploit in exploits() if exploit.name == name)
    report = verdict(tmp_path, source, timed=True)
    assert report.speed_points == 0


@pytest.mark.parametrize("hidden", [False, True], ids=["watched", "unseen"])
def test_honest_slices_have_their_room(tmp_path, hidden):
    columns = "    offs_n = (pid % num_n) * BLOCK_N + tl.arange(0, BLOCK_N)\n"
    source = edited(SPLIT, columns, columns + f"    offs_n = {NO_OP}\n") if hidden else SPLIT
    report = verdict(tmp_path, source, timed=True)
    wrong = [(test.name, test.message) for test in report.tests if test.kind in ("correctness", "speed") and "wrong" in test.message]
    assert wrong == []
    assert [test.message for test in report.tests if test.kind == "correctness" and test.status != "passed"] == []
