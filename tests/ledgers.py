"""Kernels whose recorded flow the tests walk: one launch each, on the ledger's own values."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from grader.building import BuildOptions, describe
from grader.diagnosis.ledger.explaining import run_of, walks_of
from grader.diagnosis.ledger.pairs import Run
from grader.diagnosis.ledger.walk import walk
from grader.labs import get_lab
from grader.labs.divergence import Divergence
from grader.labs.problems import generator_for, make_problem
from grader.labs.stages import stages_of
from grader.labs.wrong_kernels import WrongKernel
from grader.model import KernelBundle, KernelSource, Outcome
from grader.reading import read
from grader.running.interpreter import InterpretOptions, interpret
from tests.submissions import corpus

RECORDED = 24


@cache
def several() -> tuple[WrongKernel, ...]:
    """The wrong kernels of which one launch shows all that must be named."""
    return tuple(kernel for kernel in corpus() if kernel.case)


def recorded(
    text: str, lab_id: str, case_name: str, *, config: int = 0, seed: int = 1
) -> tuple[KernelSource, KernelBundle, Outcome, Run]:
    """One launch of a kernel with the recorder on. In the run, an element of Y is wrong where the reference says so."""
    lab, stages = get_lab(lab_id), stages_of(lab_id)
    assert stages is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{lab_id}.py"
        path.write_text(text, encoding="utf-8")
        source = read(path, [lab], all_labs=True).labs[lab_id]
    assert isinstance(source, KernelSource)
    bundle = describe(lab, source, BuildOptions((90,), "check", 1, None))
    assert isinstance(bundle, KernelBundle)
    case = lab.case(case_name)
    problem = stages.inputs(make_problem(lab, case, seed), generator_for(seed, lab_id, case_name, "ledger"))
    options = InterpretOptions(1, case_seconds=120, record=lambda count: range(min(count, RECORDED)))
    (outcome,) = interpret(lab, source, bundle, {case_name: problem}, [(case_name, config)], options)
    assert outcome.flow, outcome.message
    run = run_of(lab, stages, bundle.configs[config], bundle.launches[case_name, config], problem, outcome, walks_of(bundle.made.text))
    return source, bundle, outcome, run


def walked(text: str, lab_id: str, case_name: str, *, config: int = 0, forced: bool = False) -> list[Divergence]:
    """The findings of one launch. forced: as if every element of Y were wrong."""
    *_, run = recorded(text, lab_id, case_name, config=config)
    if forced:
        run.wrong[:] = True
    with np.errstate(all="ignore"):
        return walk(run)
