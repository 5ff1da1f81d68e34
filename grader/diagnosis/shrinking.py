"""The smallest sizes at which a kernel still fails: a case that no known mistake explains, made smaller and run again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from grader.building import BuildOptions, describe
from grader.judging.checking import check
from grader.labs import Lab
from grader.labs.problems import make_problem
from grader.model import Case, KernelBundle, KernelSource, Problem, Refusal
from grader.running.cpu import InterpretOptions, interpret

CASE_SECONDS = 3.0
MAX_LAUNCHES = 10
TAIL = 32
"""Sizes shrink to 32 (K to 64) and keep what they had beyond a multiple of it."""


def smaller(case: Case) -> Iterator[Case]:
    """The case with smaller M, N and K, the smallest first."""
    rows = sorted({1, min(case.M, 16), case.M})
    columns = sorted({min(case.N, TAIL + case.N % TAIL), case.N})
    depths = sorted({min(case.K, 2 * TAIL + case.K % TAIL), case.K})
    sizes = sorted(itertools.product(rows, columns, depths), key=lambda size: size[0] * size[1] * size[2])
    for M, N, K in sizes:
        if (M, N, K) != (case.M, case.N, case.K):
            yield replace(case, name=f"{case.name}_{M}_{N}_{K}", M=M, N=N, K=K, configs="one")


def smallest_failing(
    lab: Lab, source: KernelSource, bundle: KernelBundle, case: Case, config: int, options: BuildOptions, seed: int = 7
) -> Case | None:
    """The smallest of at most ten variants of `case` that fails with `config` on the interpreter, or None."""
    problems: dict[str, Problem] = {}
    cases: list[Case] = []
    for variant in itertools.islice(smaller(case), MAX_LAUNCHES):
        try:
            problems[variant.name] = make_problem(lab, variant, seed)
        except (ValueError, RuntimeError, IndexError, ZeroDivisionError):
            continue
        cases.append(variant)
    if not cases:
        return None
    described = describe(replace(lab, cases=tuple(cases), speed_cases=()), source, options)
    if isinstance(described, Refusal):
        return None
    pairs = [(variant.name, config) for variant in cases]
    how = InterpretOptions(1, options.confined, CASE_SECONDS)
    for outcome in interpret(lab, source, described, problems, pairs, how):
        finding = check(lab, problems[outcome.case], outcome, described)
        if not finding.ok and not finding.skipped and outcome.status == "ran":
            return next(variant for variant in cases if variant.name == outcome.case)
    return None
