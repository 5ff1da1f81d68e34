"""A kernel that never ends on the GPU keeps the class waiting no longer on the interpreter than it must."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.classroom.batch import tasks
from grader.classroom.batch.tasks import HUNG_SECONDS, Setup, build_for_gpu, judge
from grader.classroom.hidden_cases import Secrets
from grader.gpu.devices import choose
from grader.labs import get_lab
from grader.model import NOT_RUN, Case, KernelBundle, Outcome, SpeedSample
from grader.pipeline import grading
from grader.pipeline.grading import GpuRun, launch_pairs
from grader.reading import read
from grader.running.cpu import CASE_SECONDS
from tests.gpu.test_gpu_batch import ENDLESS
from tests.submissions import TESTS

pytestmark = pytest.mark.slow


def test_what_did_not_end_on_the_gpu_is_watched_briefly_and_explained_by_nothing_that_runs_it(tmp_path, monkeypatch):
    asked = []

    def watched(kernel, source, bundle, problems, pairs, options, progress=None):
        if pairs:
            asked.append(options.case_seconds)
        return []

    monkeypatch.setattr(grading, "interpret", watched)
    monkeypatch.setattr("grader.diagnosis.explaining.interpret", watched)
    setup = Setup(replace(choose("cpu")[0], kind="cuda", name="NVIDIA H200", capability=90, driver="580"), Secrets(3))
    path = tmp_path / "w8a8.py"
    path.write_text(ENDLESS)
    source = read(path, [get_lab("w8a8")]).labs["w8a8"]
    built = build_for_gpu(setup, source)
    assert isinstance(built, KernelBundle)
    lab = setup.lab("w8a8")
    hung, rest = launch_pairs(lab, built)[:3], launch_pairs(lab, built)[3:]
    outcomes = [Outcome(*pair, "timeout", message="the kernel did not finish", seconds=10.0) for pair in hung]
    outcomes += [Outcome(*pair, "crash", message=f"{NOT_RUN}3 launches before it ended the GPU process") for pair in rest]
    samples = tuple(SpeedSample(case.name, None, "failed", message="not timed") for case in lab.speed_cases)
    report = judge(setup, source, built, GpuRun(tuple(outcomes), samples))
    assert (report.status, report.correctness_points) == ("timeout", 0)
    assert asked == [HUNG_SECONDS]
    assert tasks.HUNG_SECONDS < CASE_SECONDS


def test_what_is_not_launched_any_more_is_graded_as_without_a_gpu(tmp_path):
    """Two launches died; the others have the verdict of a machine without a GPU, hidden cases too."""
    secrets = Secrets(3, (("w8a8", Case("hidden_m", "", 33, 48, 64, hidden=True)),))
    setup = Setup(replace(choose("cpu")[0], kind="cuda", name="NVIDIA H200", capability=90, driver="580"), secrets)
    lab = setup.lab("w8a8")
    source = read(TESTS / "styles" / "w8a8_plain.py", [lab]).labs["w8a8"]
    built = build_for_gpu(setup, source)
    assert isinstance(built, KernelBundle)
    pairs = launch_pairs(lab, built)
    outcomes = [Outcome(*pair, "crash", message="illegal address") for pair in pairs[:2]]
    outcomes += [Outcome(*pair, "crash", message=f"{NOT_RUN}2 launches before it ended the GPU process") for pair in pairs[2:]]
    samples = tuple(SpeedSample(case.name, None, "failed", message="not timed") for case in lab.speed_cases)
    report = judge(setup, source, built, GpuRun(tuple(outcomes), samples))
    tests = {test.name: test.status for test in report.tests if test.kind == "correctness"}
    died = {case for case, _ in pairs[:2]}
    assert tests["hidden_m"] == "passed"
    assert tests == {name: "failed" if name in died else "passed" for name in tests}
