"""Kernels whose recorded flow the tests walk: one launch each, on the ledger's own values."""

from __future__ import annotations

import tempfile
import tomllib
from dataclasses import dataclass
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
from grader.model import KernelBundle, KernelSource, Outcome
from grader.reading import read
from grader.running.interpreter import InterpretOptions, interpret
from tests.submissions import TESTS

SEVERAL = TESTS / "several"
RECORDED = 24


@dataclass(frozen=True)
class Wrong:
    """A kernel of tests/several: what must be named, and first. reason: what the first sentence must say."""

    lab: str
    name: str
    source: str
    case: str
    first: str
    names: tuple[str, ...]
    config: int
    reason: str = ""
    base: str = ""


@cache
def several() -> tuple[Wrong, ...]:
    """Every entry of tests/several/*.toml."""
    found = []
    entries = [entry for path in sorted(SEVERAL.glob("*.toml")) for entry in tomllib.loads(path.read_text(encoding="utf-8"))["kernel"]]
    for entry in entries:
        base = ""
        if "file" in entry:
            source = (SEVERAL / entry["file"]).read_text(encoding="utf-8")
        else:
            source = base = (TESTS / entry["base"]).read_text(encoding="utf-8")
            for edit in entry["edits"]:
                assert source.count(edit["find"]) == 1, f"{entry['name']}: {edit['find']!r} is not there once"
                source = source.replace(edit["find"], edit["replace"])
        names = (entry["first"], *entry.get("names", ()))
        found.append(
            Wrong(
                entry["lab"], entry["name"], source, entry["case"], entry["first"], names,
                entry.get("config", 0), entry.get("reason", ""), base,
            )
        )  # fmt: skip
    return tuple(found)


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
