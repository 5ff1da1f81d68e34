"""Submissions that the tests grade: wrong kernels (grader/labs/ID/mistakes.toml), styles, exploits; and how they are graded."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import tempfile
import tomllib
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from grader.building import BinaryCache, BuildOptions, describe, own_folder, read_by_triton
from grader.diagnosis.explaining import Failure
from grader.gpu.devices import choose
from grader.judging.judged import Reasons
from grader.labs import Lab, all_labs, get_lab
from grader.labs.edits import edited, kernel_text, read_edits
from grader.labs.wrong_kernels import WrongKernel, catalogue, wrong_kernels
from grader.model import KernelSource, Refusal, Report
from grader.pipeline.grading import GradeOptions, built_or_refused, grade, judge_on_cpu
from grader.reading import read
from grader.reading.files import is_source
from grader.reporting.document import document
from tests.rotation import everything

TESTS = Path(__file__).parent
LABS = tuple(all_labs())
CORES = len(os.sched_getaffinity(0))


def with_data(folder: str) -> tuple[str, ...]:
    """The labs that have a file of kernels in tests/<folder>/; `check-lab` names the others."""
    return tuple(lab for lab in LABS if (TESTS / folder / f"{lab}.toml").is_file())


def with_mistakes() -> tuple[str, ...]:
    """The labs whose wrong kernels are listed; `check-lab` names the others."""
    return tuple(lab for lab in LABS if catalogue(lab).is_file())


def plain(lab: str) -> str:
    """The text of the right kernel that most of a lab's wrong ones are edits of."""
    return (TESTS / "styles" / f"{lab}_plain.py").read_text(encoding="utf-8")


@cache
def corpus() -> tuple[WrongKernel, ...]:
    """Every wrong kernel of every lab, with one mistake or with several."""
    return tuple(kernel for lab in all_labs().values() for kernel in wrong_kernels(lab))


@cache
def all_mistakes() -> tuple[WrongKernel, ...]:
    """Those that are graded: they say which cases must fail."""
    return tuple(kernel for kernel in corpus() if kernel.fails)


@cache
def mistakes() -> tuple[WrongKernel, ...]:
    """Of bonus labs, whose mistakes are kin to those of the others, every third, or all with EVERY=all."""
    if everything():
        return all_mistakes()
    by_lab = {lab: [one for one in all_mistakes() if one.lab == lab] for lab in with_mistakes()}
    return tuple(one for lab, found in by_lab.items() for one in found[:: 3 if get_lab(lab).bonus else 1])


def source_of(lab: Lab, text: str) -> KernelSource | None:
    """The kernel's source; None for what reading refuses, which is the same on every device."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{lab.id}.py"
        path.write_text(text, encoding="utf-8")
        found = read(path, [lab], all_labs=True).labs[lab.id]
    return found if isinstance(found, KernelSource) else None


@dataclass(frozen=True)
class Exploit:
    """One hostile submission and what must come of it, as tests/exploits/exploits.toml says."""

    number: int
    name: str
    lab: str
    source: str
    expect: str
    fails: tuple[str, ...] = ()
    message: str = ""


IMPORTS = "import triton\nimport triton.language as tl\n"


@cache
def exploits() -> tuple[Exploit, ...]:
    """Every entry of tests/exploits/exploits.toml, its edits applied to its lab's right kernel."""
    data = tomllib.loads((TESTS / "exploits" / "exploits.toml").read_text(encoding="utf-8"))
    found = []
    for entry in data["exploit"]:
        lab = entry.get("lab", "w8a8")
        source = kernel_text(entry.get("base", data["base"]).format(lab=lab), TESTS.parent)
        source = edited(source, read_edits(entry.get("edits", ())), entry["name"])
        assert source.count(IMPORTS) == 1 or "top" not in entry
        source = source.replace(IMPORTS, IMPORTS + entry.get("top", "")) + entry.get("bottom", "")
        for word, times in entry.get("repeat", {}).items():
            source = source.replace(word, times * "f")
        fails, message = tuple(entry.get("fails", ())), entry.get("message", "")
        found.append(Exploit(entry["number"], entry["name"], lab, source, entry["expect"], fails, message))
    return tuple(found)


@cache
def _styles() -> dict[str, Path]:
    """The right kernels of tests/styles/ by name; those of LAB.toml are written to a folder of this process."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    for path in (TESTS / "styles").glob("*.toml"):
        for kernel in tomllib.loads(path.read_text(encoding="utf-8"))["kernel"]:
            (folder / f"{kernel['name']}.py").write_text(kernel["text"], encoding="utf-8")
    found = [path for path in (*(TESTS / "styles").iterdir(), *folder.iterdir()) if is_source(path)]
    return {path.stem: path for path in sorted(found, key=lambda path: path.name)}


def style_file(name: str) -> Path:
    """The file of a right kernel, `LAB_style`."""
    return _styles()[name]


def styles() -> tuple[Path, ...]:
    """The right kernels that this Triton can build: 3.9 has no `tl.advance` any more."""
    import triton.language as tl

    everyone = _styles().values()
    return tuple(path for path in everyone if hasattr(tl, "advance") or "tl.advance(" not in path.read_text(encoding="utf-8"))


def graded(
    path: Path, *, jobs: int | None = None, seed: int | None = None, labs: tuple[str, ...] = (),
    capabilities: tuple[int, ...] = (90,), without: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The JSON document of one submission, graded on the CPU; compiled for one GPU only, unless more are asked for, to a verdict
    and not to every config's binary.

    without: names of cases that are left out.
    """
    chosen = [
        replace(lab, cases=tuple(case for case in lab.cases if case.name not in without))
        for lab in all_labs().values()
        if not labs or lab.id in labs
    ]
    options = GradeOptions(choose("cpu")[0], seed=seed, jobs=jobs, capabilities=capabilities, cache=BinaryCache(own_folder()), facts=False)
    return document(grade(path, chosen, options, all_labs=bool(labs)))


def graded_as_read(path: Path, lab: Lab, *, jobs: int = 1, seed: int | None = None, brief: bool = False) -> dict[str, Any]:
    """The JSON document of one lab, its kernel read by Triton's front end and not compiled further, which takes less time.

    brief: nor even read by it, and no failure is explained, which takes half of the rest.
    """
    submission = read(path, [lab], all_labs=True)
    source = submission.labs[lab.id]
    options = GradeOptions(choose("cpu")[0], jobs=jobs, capabilities=(90,))
    build = describe if brief else read_by_triton
    built = source if isinstance(source, Refusal) else build(lab, source, BuildOptions((90,), "check", jobs))
    seed = secrets.randbits(48) if seed is None else seed
    with patch("grader.diagnosis.reasons.reasons", _unexplained) if brief else nullcontext():
        report = judge_on_cpu(built_or_refused(lab, source, built, seed, gpu=False), options)
    return document(Report(submission.name, options.device, seed, {lab.id: report}, submission.notes))


def _unexplained(failure: Failure) -> Reasons:
    return Reasons([None] * len(failure.outcomes))


def failed_tests(document: dict[str, Any], lab: str) -> list[dict[str, Any]]:
    """The correctness cases that failed, as the document has them."""
    tests = document["labs"][lab]["tests"]
    return [test for test in tests if test["kind"] == "correctness" and test["status"] == "failed"]


def failed_cases(document: dict[str, Any], lab: str) -> set[str]:
    """Names of the correctness cases that failed."""
    return {test["name"] for test in failed_tests(document, lab)}
