"""What fails while compiling ahead costs no run and is told once, whether a task raises, its process dies, or time runs out."""

from __future__ import annotations

import os
import time

import pytest

from bench.precompiling import Precompilation

LONG = 600.0
"""Seconds that no test waits for: processes are to end before."""


def work(task):
    if task == "raises":
        raise RuntimeError("no kernel image\nand more")
    if task == "dies":
        os._exit(3)
    if task == "hangs":
        time.sleep(LONG)


def failures(*shares, seconds=LONG):
    with Precompilation(work, shares, seconds) as precompilation:
        return precompilation.wait()


def test_what_is_compiled_needs_no_words():
    assert failures(["fine"], []) == ""


def test_all_that_fails_is_one_sentence():
    said = failures(["raises", "raises", "fine"], ["dies"])
    assert said.startswith("3 of what was compiled ahead failed, the first: ")
    assert "raises: RuntimeError: no kernel image;" in said or "exit status 3;" in said
    assert said.endswith("is compiled where it is timed")
    assert "\n" not in said


@pytest.mark.parametrize("task", ["raises", "dies"])
def test_the_reason_is_told(task):
    reason = {"raises": "raises: RuntimeError: no kernel image", "dies": "a process ended with exit status 3"}[task]
    assert reason in failures([task])


def test_what_takes_too_long_is_stopped_and_told():
    assert failures(["hangs"], seconds=0.1).startswith("compiling ahead was stopped after 0.1 s in 1 of its processes")


def test_nothing_is_left_running_when_the_run_breaks_off():
    with Precompilation(work, [["hangs"]], LONG) as precompilation:
        (process,) = precompilation.processes
        assert process.exitcode is None
    assert process.exitcode is not None
