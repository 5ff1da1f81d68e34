"""The process that owns a GPU, with another program in its place: every part of a job has one answer, whatever happens."""

from __future__ import annotations

import os
import time
from ast import literal_eval
from dataclasses import replace

import pytest

from grader.gpu.limits import ATTEMPTS, CORRECTNESS_SECONDS, MAX_LOST, SPEED_GPU_SECONDS, Budget, GivenUp, used_up
from grader.labs import get_lab
from grader.model import Config, Device, GeneratedModule, KernelBundle, Launch, Outcome, SpeedSample
from grader.pipeline.grading import BuiltKernel, launch_pairs, run_on_gpu
from grader.running import cuda
from grader.running.cuda import GpuProcess, ProcessLost, RunnerFailed
from tests.reports import kernel_source
from tests.unit.running.gpu_actors import acts, ends_at_once, jobs, vanishes

BUNDLE = KernelBundle("w8a8", (), {}, {}, GeneratedModule("", "W8A8_MM", ()))


def acting(target, kind=cuda.CudaRunner):
    """A process for the GPU that does this in place of its work."""
    return type("Acting", (kind,), {"target": staticmethod(target)})()


def answered(parts):
    with acting(acts, GpuProcess) as process:
        return list(process.answers(lambda done: parts[done:], len(parts), 1.5))


def test_a_process_that_is_killed_twice_costs_nothing(tmp_path):
    """A part that kills its process the first two times it runs, as the system does when memory is short."""
    folder = tmp_path / "deaths"
    folder.mkdir()
    part = f"twice {folder}"
    assert answered([part, "a"]) == [part, "a"]
    assert len(list(folder.iterdir())) == 2


def test_a_machine_that_kills_everything_is_not_asked_for_ever(tmp_path):
    """After MAX_LOST lost parts each further one is tried once."""
    folder = tmp_path / "starts"
    folder.mkdir()
    assert answered([f"dies {folder}"] * 3) == [ProcessLost.DIED] * 3
    assert len(list(folder.iterdir())) == ATTEMPTS * MAX_LOST + (3 - MAX_LOST)


@pytest.mark.slow
def test_every_part_is_answered_in_order(tmp_path):
    once = f"once {tmp_path / 'died'}"
    parts = ["a", "die", "b", "hang", "poison", once, "c"]
    assert answered(parts) == ["a", ProcessLost.DIED, "b", ProcessLost.LATE, "poison", once, "c"]


def test_whoever_leaves_a_job_leaves_no_answer_behind():
    with acting(acts, GpuProcess) as process:
        answers = process.answers(lambda done: ["a", "b", "c"][done:], 3, 5.0)
        assert next(answers) == "a"
        answers.close()
        assert process.ask(["d"], 5.0) == "d"


def test_a_process_that_does_not_start_is_told():
    with acting(ends_at_once, GpuProcess) as process, pytest.raises(RunnerFailed, match="doctor"):
        process.ask(["a"], 1.0)


def hangs_or_answers(connection, gpu):
    """Never answers config 1; any other launch fails at once, as a kernel with a bad address does."""
    for job in jobs(connection):
        for part in job.parts:
            if part.config == 1:
                time.sleep(60)
            connection.send(((Outcome(part.case.name, part.config, "crash", message="illegal"), None), True))
            return


@pytest.mark.slow
def test_a_kernel_that_keeps_ending_the_process_is_given_up(monkeypatch):
    monkeypatch.setattr(cuda, "LAUNCH_SECONDS", 0.5)
    lab = get_lab("w8a8")
    pairs = [("one_tile", 0), ("one_tile", 1), ("one_tile", 2), ("odd_m", 0)]
    with acting(hangs_or_answers) as runner:
        outcomes = runner.correctness(lab, BUNDLE, pairs, seed=1)
        samples = runner.speed(lab, BUNDLE, {}, cuda.deaths_in(outcomes))
    assert [outcome.status for outcome in outcomes] == ["crash", "timeout", "crash", "crash"]
    assert [outcome.message.startswith("not run") for outcome in outcomes] == [False, False, True, True]
    assert [(outcome.case, outcome.config) for outcome in outcomes] == pairs
    assert all(sample.status == "failed" and "not timed" in sample.message for sample in samples)


def test_a_process_that_vanishes_is_nobodys_fault():
    lab = get_lab("w8a8")
    with acting(vanishes) as runner:
        (outcome,) = runner.correctness(lab, BUNDLE, [("one_tile", 0)], seed=1)
        sample = runner.speed(replace(lab, speed_cases=lab.speed_cases[:1]), BUNDLE, {}, cuda.deaths_in([outcome]))[0]
    assert outcome.status == "lost"
    assert sample.status == "error"
    for message in (outcome.message, sample.message):
        assert "not graded" in message
        assert "not the kernel's doing" in message


def counts_seconds(connection, gpu):
    """Says of each launch that it took eight seconds, and dies after the second; tells what a job says was spent."""
    for job in jobs(connection):
        for part in job.parts:
            message = f"spent {job.spent_seconds:.0f}"
            connection.send(((Outcome(part.case.name, part.config, "ran", message=message, seconds=8.0), None), True))
            return


@pytest.mark.slow
def test_a_new_process_is_told_what_the_kernel_has_spent():
    with acting(counts_seconds) as runner:
        outcomes = runner.correctness(get_lab("w8a8"), BUNDLE, [("one_tile", 0), ("one_tile", 1)], seed=1)
    assert [outcome.message for outcome in outcomes] == ["spent 0", "spent 8"]


def answers_with_what_it_knows(connection, gpu):
    """Says of each part its process and every case that the job names."""
    for job in jobs(connection):
        cases = {case for case, _ in (*job.bundle.launches, *job.bundle.refused)} | {part.case.name for part in job.parts}
        keys = sorted(key for _, _, key in job.bundle.binaries)
        for part in job.parts:
            message = repr((os.getpid(), sorted(cases), keys, job.spent_seconds, job.processes))
            if part.case.launches:
                answer = SpeedSample(part.case.name, None, "failed", message=message)
            else:
                answer = Outcome(part.case.name, part.config, "ran", message=message, seconds=1.0), None
            connection.send((answer, False))


@pytest.mark.slow
@pytest.mark.parametrize("several", [1, 3])
def test_no_process_knows_a_hidden_case_and_another_one(several):
    """Neither as a part, nor by a launch, a refusal or a binary; and no hidden case is launched before the last time is taken."""
    lab = get_lab("w8a8")
    hidden = tuple(replace(lab.case("odd_m"), name=f"hidden_{number}", hidden=True) for number in range(3))
    lab = replace(lab, cases=(*hidden, *lab.cases[:4]))
    launches, binaries = {}, {}
    for number, case in enumerate(lab.all_cases):
        launch = Launch((1, 1, 1), (), (), (("OF", case.name),))
        if number % 2:
            launches[case.name, 0] = launch
        binaries[90, 0, launch.key] = None
    refused = {(case.name, 0): "why" for case in lab.all_cases if (case.name, 0) not in launches}
    config = Config(0, {}, 4, 1)
    bundle = replace(BUNDLE, configs=(config,), launches=launches, refused=refused, binaries=binaries)
    device = Device("cuda", "NVIDIA H200", 90, None, "", "", "")
    known = []
    with acting(answers_with_what_it_knows) as runner:
        for _ in range(several):
            run = run_on_gpu(runner, BuiltKernel(lab, kernel_source(), bundle, 1), device)
            assert [one.case for one in run.outcomes] == [case for case, _ in launch_pairs(lab, bundle)]
            known += [(one.case, *literal_eval(one.message)) for one in (*run.outcomes, *run.samples)]
    names = {case.name for case in hidden}
    for case, process, cases, keys, _, _ in known:
        of = {process for one, process, *_ in known if one in names}
        assert (process in of) == (case in names)
        assert set(cases) <= names if case in names else not set(cases) & names
        assert all(any(name in key for name in cases) for key in keys)
    assert len({process for _, process, *_ in known}) == 2
    assert next(spent for case, _, _, _, spent, _ in known if case in names) == 4.0  # of the launches before
    assert {count for case, *_, count in known if case.startswith("speed")} == ({1, 2} if several > 1 else {1})


def test_launches_that_were_not_run_ended_no_process():
    outcome = Outcome("one_tile", 0, "timeout", message=used_up(CORRECTNESS_SECONDS + 1))
    assert cuda.deaths_in([outcome]) == 0
    assert f"at most {CORRECTNESS_SECONDS:.0f} s" in outcome.message


def test_a_budget_of_gpu_seconds_is_kept():
    budget = Budget(SPEED_GPU_SECONDS)
    budget.one_launch("config 0", 900.0, 5.0)
    budget.spend(0.75 * SPEED_GPU_SECONDS)
    budget.expect(0.2 * SPEED_GPU_SECONDS, "config 0 on speed_m16")
    with pytest.raises(GivenUp, match="config 0 on speed_m16 would take"):
        budget.expect(0.3 * SPEED_GPU_SECONDS, "config 0 on speed_m16")
    with pytest.raises(GivenUp, match=r"more than 100 times the 0\.005 ms of cuBLAS"):
        budget.one_launch("config 0", 9e6, 5.0)
    assert budget.spent_here == 0.75 * SPEED_GPU_SECONDS
