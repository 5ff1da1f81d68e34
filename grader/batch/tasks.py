"""The pieces of work of a batch, as functions of plain data: each can run in any process on any machine.

A student's code runs in the sandboxes that these functions start, and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from grader.batch.hidden import Secrets
from grader.grading import (
    CHECKED_CAPABILITIES,
    GpuRun,
    GradeOptions,
    build_lab,
    gpu_build_options,
    grade_lab_on_cpu,
    judge_gpu_run,
    watch_memory,
)
from grader.labs import Lab, get_lab
from grader.model import Device, KernelBundle, KernelSource, LabReport, Refusal, Submission
from grader.reading import UnusablePath, read
from grader.rubric import load_rubric
from grader.running.cpu import CASE_SECONDS


@dataclass(frozen=True)
class Setup:
    """What all work of one batch shares; `cases` None means all of a lab."""

    device: Device
    secrets: Secrets
    case_seconds: float = CASE_SECONDS
    capabilities: tuple[int, ...] = CHECKED_CAPABILITIES
    cases: tuple[str, ...] | None = None

    def lab(self, lab_id: str) -> Lab:
        """The lab with the secrets' hidden cases; with `cases` given only those of its own cases."""
        lab = get_lab(lab_id)
        if self.cases is not None:
            lab = replace(lab, cases=tuple(case for case in lab.cases if case.name in self.cases))
        return self.secrets.lab(lab)


def read_hand_in(path: Path, lab_ids: tuple[str, ...]) -> Submission | str:
    """What was handed in, or the sentence why it is none."""
    try:
        return read(path, [get_lab(lab_id) for lab_id in lab_ids], all_labs=True)
    except UnusablePath as problem:
        return str(problem)
    except OSError as error:
        return f"{path.name} cannot be read ({error.strerror}); check its permissions"


def grade_on_cpu(setup: Setup, source: KernelSource) -> LabReport:
    """One lab, by the interpreter."""
    options = GradeOptions(
        setup.device, jobs=1, confined=True, case_seconds=setup.case_seconds, capabilities=setup.capabilities
    )
    lab = setup.lab(source.lab_id)
    return grade_lab_on_cpu(lab, source, options, setup.secrets.seed, load_rubric())


def build_for_gpu(setup: Setup, source: KernelSource) -> KernelBundle | Refusal:
    """One lab's kernels as machine code for the device."""
    return build_lab(setup.lab(source.lab_id), source, gpu_build_options(setup.device, 1, True))


def judge(setup: Setup, source: KernelSource, built: KernelBundle | Refusal, run: GpuRun | None) -> LabReport:
    """One lab's report from what the GPU showed, and from what the interpreter sees of memory, here."""
    lab, seed = setup.lab(source.lab_id), setup.secrets.seed
    options = GradeOptions(setup.device, jobs=1, confined=True, case_seconds=setup.case_seconds)
    watched = watch_memory(lab, source, built, seed, options)
    return judge_gpu_run(lab, source, built, run, watched, seed, setup.device, load_rubric())
