"""The process that owns a GPU, with another program in its place: every part of a job has one answer, whatever happens."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from grader.labs import get_lab
from grader.model import KernelBundle, Outcome
from grader.running import cuda
from grader.running.cuda import GpuProcess, Lost, RunnerFailed

BUNDLE = KernelBundle("w8a8", (), {}, {})


def acts(connection, gpu):
    """Does to each part what it says; a part "once PATH" kills the process the first time only."""
    connection.send("ready")
    while True:
        try:
            parts = connection.recv()
        except EOFError:
            return
        for part in parts:
            word, _, path = part.partition(" ")
            if word == "die" or (word == "once" and not Path(path).exists()):
                Path(path or os.devnull).touch()
                os._exit(1)
            if word == "hang":
                time.sleep(60)
            connection.send((part, word == "poison"))
            if word == "poison":
                return


def ends_at_once(connection, gpu):
    return


class Actor(GpuProcess):
    target = staticmethod(acts)


class Broken(GpuProcess):
    target = staticmethod(ends_at_once)


def told(parts):
    with Actor() as process:
        return list(process.answers(lambda done: parts[done:], len(parts), 1.5))


def test_every_part_is_answered_in_order(tmp_path):
    once = f"once {tmp_path / 'died'}"
    parts = ["a", "die", "b", "hang", "poison", once, "c"]
    assert told(parts) == ["a", Lost.DIED, "b", Lost.LATE, "poison", once, "c"]


def test_whoever_leaves_a_job_leaves_no_answer_behind():
    with Actor() as process:
        answers = process.answers(lambda done: ["a", "b", "c"][done:], 3, 5.0)
        assert next(answers) == "a"
        answers.close()
        assert process.ask(["d"], 5.0) == "d"


def test_a_process_that_does_not_start_is_told():
    with Broken() as process, pytest.raises(RunnerFailed, match="doctor"):
        process.ask(["a"], 1.0)


def hangs_or_answers(connection, gpu):
    """Never answers config 1; any other launch fails at once, as a kernel with a bad address does."""
    connection.send("ready")
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        for part in job.parts:
            if part.config == 1:
                time.sleep(60)
            connection.send(((Outcome(part.case.name, part.config, "crash", message="illegal"), None), True))
            return


class Runner(cuda.CudaRunner):
    target = staticmethod(hangs_or_answers)


def test_a_kernel_that_keeps_ending_the_process_is_given_up(monkeypatch):
    monkeypatch.setattr(cuda, "LAUNCH_SECONDS", 0.5)
    lab = get_lab("w8a8")
    pairs = [("one_tile", 0), ("one_tile", 1), ("one_tile", 2), ("one_tile", 3), ("odd_m", 0)]
    with Runner() as runner:
        outcomes = runner.correctness(lab, BUNDLE, pairs, seed=1)
        samples = runner.speed(lab, BUNDLE, {}, cuda.deaths_in(outcomes))
    assert [outcome.status for outcome in outcomes] == ["crash", "timeout", "crash", "crash", "crash"]
    assert [outcome.message.startswith("not run") for outcome in outcomes] == [False, False, False, True, True]
    assert [(outcome.case, outcome.config) for outcome in outcomes] == pairs
    assert all(sample.status == "failed" and "not timed" in sample.message for sample in samples)
