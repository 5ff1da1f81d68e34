"""Kernels whose relation the tests read: one recorded launch each, on the diagnosis' own values."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.building import BuildOptions, describe
from grader.diagnosis.compare import compare
from grader.diagnosis.explaining import run_of, telling
from grader.diagnosis.observation import Observation
from grader.diagnosis.relation import Run
from grader.labs import get_lab
from grader.labs.expected import relation_of
from grader.model import KernelBundle, KernelSource, Outcome
from grader.running.cpu import InterpretOptions, interpret
from tests.submissions import source_of

RECORDED = 24


def recorded(
    text: str, lab_id: str, case_name: str, *, config: int = 0, **how: Any
) -> tuple[KernelSource, KernelBundle, Outcome, Run]:
    """One launch of a kernel with the recorder on. In the run, an element of Y is wrong where the reference says so. how: options."""
    lab, expected = get_lab(lab_id), relation_of(lab_id)
    assert expected is not None
    source = source_of(lab, text)
    assert source is not None
    bundle = describe(lab, source, BuildOptions((90,), "check", 1, None))
    assert isinstance(bundle, KernelBundle)
    problem = telling(expected, lab, case_name)
    how = {"record": lambda count: range(min(count, RECORDED)), **how}
    options = InterpretOptions(1, case_seconds=120, **how)
    (outcome,) = interpret(lab, source, bundle, {case_name: problem}, [(case_name, config)], options)
    assert outcome.flow, outcome.message
    run = run_of(lab, bundle, case_name, config, problem, outcome)
    return source, bundle, outcome, run


def observed(text: str, lab_id: str, case_name: str, *, config: int = 0, forced: bool = False) -> list[Observation]:
    """What deviates in one launch. forced: as if every element of Y were wrong."""
    *_, run = recorded(text, lab_id, case_name, config=config)
    if forced:
        run.wrong[:] = True
    with np.errstate(all="ignore"):
        return compare(run)
