"""A kernel probed by itself: described, run on some cases, and asked as if nothing else had a name for it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from grader.building import BuildOptions, describe
from grader.diagnosis.probing import Probed, probe
from grader.judging.checking import check
from grader.labs import get_lab
from grader.labs.problems import make_problem
from grader.model import KernelBundle, KernelSource
from grader.reading import read
from grader.running.interpreter import InterpretOptions, interpret

OPTIONS = InterpretOptions(1, case_seconds=120)


def described(text: str, lab_id: str) -> tuple[KernelSource, KernelBundle]:
    """Source and launches of a kernel, nothing compiled."""
    lab = get_lab(lab_id)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{lab_id}.py"
        path.write_text(text, encoding="utf-8")
        source = read(path, [lab], all_labs=True).labs[lab_id]
    assert isinstance(source, KernelSource), source
    bundle = describe(lab, source, BuildOptions((90,), "check", 1, None))
    assert isinstance(bundle, KernelBundle), bundle
    return source, bundle


def probed(text: str, lab_id: str, cases: Sequence[str], *, config: int = 0, forced: bool = False, seed: int = 1) -> Probed | None:
    """What a probe reads off the failing ones of some cases. forced: as if all of them had failed."""
    lab = get_lab(lab_id)
    source, bundle = described(text, lab_id)
    problems = {name: make_problem(lab, lab.case(name), seed) for name in cases}
    outcomes = interpret(lab, source, bundle, problems, [(name, config) for name in cases], OPTIONS)
    wrong = [one for one in outcomes if one.status == "ran" and (forced or not check(lab, problems[one.case], one, bundle).ok)]
    return probe(lab, source, bundle, problems, wrong, seed, OPTIONS) if wrong else None
