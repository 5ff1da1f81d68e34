"""Each stage of the grader on fixed submissions: a right kernel and a wrong one of each lab. Nothing here runs on a GPU.

Runs are kept in build/benchmarks/ and compared with the last one; the same seed gives the same inputs.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader import building
from grader.classroom.batch.journal import Journal, verdict_key
from grader.classroom.hidden_cases import Secrets
from grader.diagnosis.explaining import Failure, explain
from grader.gpu.devices import choose
from grader.judging.checking import check
from grader.labs import all_labs, get_lab
from grader.labs.problems import make_problem
from grader.model import KernelBundle, KernelSource, Outcome, Problem
from grader.pipeline.grading import GradeOptions, grade, launch_pairs
from grader.reading import read
from grader.reporting.page import page
from grader.running.cpu import InterpretOptions, interpret
from grader.sandbox import prewarm
from tests.submissions import mistakes

SOLUTIONS = Path(__file__).parents[2] / "solutions"
SEED = 1
WRONG = {"w8a8": "truncation", "w4a16": "unsigned", "dds": "block_not_transposed"}
OPTIONS = building.BuildOptions((90,), "check", 1)
CASES = 3


class Prepared:
    """One submission of a lab, brought as far as each stage needs it."""

    def __init__(self, lab_id: str, path: Path) -> None:
        self.lab, self.path = get_lab(lab_id), path
        source = read(path, [self.lab], all_labs=True).labs[lab_id]
        assert isinstance(source, KernelSource)
        self.source = source
        described = building.describe(self.lab, source, OPTIONS)
        assert isinstance(described, KernelBundle)
        self.described = described
        built = building.compile_described(self.lab, source, described, OPTIONS)
        assert isinstance(built, KernelBundle)
        self.built = built
        self.pairs = launch_pairs(self.lab, built)[:CASES]
        self.problems: dict[str, Problem] = {name: make_problem(self.lab, self.lab.case(name), SEED) for name, _ in self.pairs}
        self.outcomes: list[Outcome] = self.interpret()

    def interpret(self, sharing: bool = True) -> list[Outcome]:
        how = replace(InterpretOptions(1), sharing=sharing)
        return interpret(self.lab, self.source, self.built, self.problems, self.pairs, how)

    def check(self) -> list[Any]:
        return [check(self.lab, self.problems[one.case], one, self.built) for one in self.outcomes]


@pytest.fixture(scope="module", params=[*all_labs()])
def right(request) -> Prepared:
    prewarm()
    return Prepared(request.param, SOLUTIONS / f"{request.param}.py")


@pytest.fixture(scope="module", params=[*WRONG])
def wrong(request, tmp_path_factory) -> Prepared:
    mistake = next(one for one in mistakes() if (one.lab, one.name) == (request.param, WRONG[request.param]))
    path = tmp_path_factory.mktemp("wrong") / f"{mistake.lab}.py"
    path.write_text(mistake.source, encoding="utf-8")
    return Prepared(mistake.lab, path)


def test_read(benchmark, right):
    benchmark(read, right.path, [right.lab], all_labs=True)


def test_describe_and_make(benchmark, right):
    benchmark.pedantic(building.describe, (right.lab, right.source, OPTIONS), rounds=5)


@pytest.mark.parametrize("scope", ["check", "verdict", "all"])
def test_compile(benchmark, right, scope):
    """As a student's own grading without a GPU, a class's without one, and one for a GPU."""
    options = replace(OPTIONS, scope=scope, capabilities=(90,) if scope == "all" else (80, 90))
    benchmark.pedantic(building.compile_described, (right.lab, right.source, right.described, options), rounds=1)


def test_compile_from_the_cache(benchmark, right, tmp_path):
    options = replace(OPTIONS, capabilities=(80, 90), cache=building.BinaryCache(tmp_path))
    arguments = right.lab, right.source, right.described, options
    building.compile_described(*arguments)
    benchmark.pedantic(building.compile_described, arguments, rounds=5)


@pytest.mark.parametrize("sharing", [True, False], ids=["shared", "alone"])
def test_interpret(benchmark, right, sharing):
    benchmark.pedantic(right.interpret, (sharing,), rounds=3)


def test_problems(benchmark, right):
    benchmark.pedantic(lambda: [make_problem(right.lab, case, SEED) for case in right.lab.cases], rounds=3)


def test_check(benchmark, right):
    findings = benchmark.pedantic(right.check, rounds=5)
    assert all(finding.ok for finding in findings)


def test_diagnose(benchmark, wrong):
    findings = wrong.check()
    assert not all(finding.ok for finding in findings)
    how = InterpretOptions(1)
    failure = Failure(wrong.lab, wrong.source, wrong.built, wrong.problems, wrong.outcomes, findings, wrong.outcomes, how)
    benchmark.pedantic(explain, (failure,), rounds=3)


def test_grade(benchmark, wrong):
    options = GradeOptions(choose("cpu")[0], seed=SEED, jobs=1, capabilities=(90,))
    benchmark.pedantic(grade, (wrong.path, [wrong.lab], options), rounds=1)


def test_first_line(benchmark, right):
    """From the start of Python until it is said what is read; torch is imported after that."""

    def first_line() -> None:
        command = [sys.executable, "-m", "grader", "grade", str(right.path), "--device", "cpu"]
        with subprocess.Popen(command, cwd=SOLUTIONS.parent, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr.readline().startswith("reading ")
            process.kill()

    benchmark.pedantic(first_line, rounds=5)


def test_page(benchmark, wrong):
    report = grade(wrong.path, [wrong.lab], GradeOptions(choose("cpu")[0], seed=SEED, jobs=1, capabilities=(90,)))
    benchmark.pedantic(page, (report,), rounds=3)


def test_journal(benchmark, right, tmp_path):
    device = choose("cpu")[0]
    report = grade(right.path, [right.lab], GradeOptions(device, seed=SEED, jobs=1, capabilities=(90,))).labs[right.lab.id]
    keys = iter(range(10**6))
    with Journal(tmp_path / "journal.sqlite") as journal:
        key = verdict_key(right.source, device, Secrets(SEED))
        benchmark.pedantic(lambda: journal.put(f"{key}{next(keys)}", report), rounds=20)
