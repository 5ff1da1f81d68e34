"""The pieces of work of a batch, as functions of plain data: each can run in any process on any machine.

A student's code runs in the sandboxes that these functions start, and nowhere else.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import psutil

from grader.classroom.batch.intake import of_one_student
from grader.classroom.batch.workspace import workspace
from grader.classroom.hidden_cases import Secrets
from grader.judging.scoring import refused
from grader.labs import Lab, get_lab
from grader.model import Device, KernelBundle, KernelSource, LabReport, Refusal, Submission
from grader.pipeline.grading import (
    CHECKED_CAPABILITIES,
    BuiltKernel,
    GpuRun,
    GradeOptions,
    build_lab,
    gpu_build_options,
    gpu_terms,
    grade_lab_on_cpu,
    judge_gpu_run,
    watch_memory,
)
from grader.reading import UnusablePath, read
from grader.reading.answers import Answers, answers_for
from grader.running.cpu import CASE_SECONDS
from grader.sandbox import bubblewrap

READ_BYTES = 4 << 30
"""By how much reading one hand-in may make a worker grow."""


Result = TypeVar("Result")

HUNG_SECONDS = 5.0
"""What the interpreter is given for a launch of a kernel that did not end on the GPU: it has lost its points already, and
would keep the class waiting."""


@dataclass(frozen=True)
class Setup:
    """What all work of one batch shares; `cases` None means all of a lab. jobs: sandboxes that a kernel may have at the same time."""

    device: Device
    secrets: Secrets
    case_seconds: float = CASE_SECONDS
    capabilities: tuple[int, ...] = CHECKED_CAPABILITIES
    cases: tuple[str, ...] | None = None
    jobs: int = 1

    def lab(self, lab_id: str) -> Lab:
        """The lab with the secrets' hidden cases; with `cases` given only those of its own cases."""
        lab = get_lab(lab_id)
        if self.cases is not None:
            lab = replace(lab, cases=tuple(case for case in lab.cases if case.name in self.cases))
        return self.secrets.lab(lab)

    def built(self, source: KernelSource, bundle: KernelBundle) -> BuiltKernel:
        """What is launched of a kernel."""
        return BuiltKernel(self.lab(source.lab_id), source, bundle, self.secrets.seed)


@dataclass(frozen=True)
class Content:
    """What a hand-in holds: its kernels, and its answers to the questions of each lab."""

    submission: Submission
    answers: Mapping[str, Answers]


def read_hand_in(path: Path, lab_ids: tuple[str, ...]) -> Content | Refusal:
    """What was handed in, or why it is none; `not_graded` where that is not the student's doing."""
    try:
        with _bounded_memory():
            submission = read(path, [get_lab(lab_id) for lab_id in lab_ids], all_labs=True)
            return Content(submission, answers_for(path, lab_ids))
    except UnusablePath as problem:
        return Refusal("rejected", str(problem))
    except PermissionError as error:
        return Refusal("not_graded", f"{path.name} cannot be read ({error.strerror}); check its permissions")
    except RecursionError:
        return Refusal(
            "rejected", f"{path.name} has an expression that is nested too deeply; compute it in several steps"
        )
    except MemoryError:
        size = f"more than {READ_BYTES >> 30} GB of memory"
        return Refusal("rejected", f"{path.name} takes {size} to read; clear its outputs, save it and hand it in again")


def read_folder(folder: Path, lab_ids: tuple[str, ...]) -> Content | Refusal:
    """What one student handed in, by itself, as a batch reads it from the folder of a class: work counts wherever it lies."""
    with workspace() as unpacked:
        hand_in = of_one_student(folder, unpacked)
        if why := hand_in.failed or hand_in.refused:
            return Refusal("not_graded" if hand_in.failed else "rejected", why)
        content = read_hand_in(hand_in.path, lab_ids)
    if isinstance(content, Refusal):
        return content
    submission = replace(content.submission, name=folder.name, notes=hand_in.notes + content.submission.notes)
    return replace(content, submission=submission)


@contextlib.contextmanager
def _bounded_memory() -> Iterator[None]:
    """Lets this process grow by READ_BYTES and no further: a crafted notebook costs itself, not the machine."""
    previous = resource.getrlimit(resource.RLIMIT_AS)
    now = psutil.Process().memory_info().vms
    most = now + READ_BYTES if previous[1] == resource.RLIM_INFINITY else min(now + READ_BYTES, previous[1])
    resource.setrlimit(resource.RLIMIT_AS, (most, previous[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, previous)


class Undecided(RuntimeError):
    """The grader's own processes were ended from outside: no verdict on the kernel."""


def grade_on_cpu(setup: Setup, source: KernelSource) -> LabReport:
    """One lab, by the interpreter. Raises Undecided."""
    _require_sandbox(setup)
    options = GradeOptions(
        setup.device,
        jobs=setup.jobs,
        confined=True,
        case_seconds=setup.case_seconds,
        capabilities=setup.capabilities,
        facts=False,
    )
    return _decided(grade_lab_on_cpu(setup.lab(source.lab_id), source, options, setup.secrets.seed))


def build_for_gpu(setup: Setup, source: KernelSource) -> KernelBundle | Refusal:
    """One lab's kernels as machine code for the device. Raises Undecided."""
    _require_sandbox(setup)
    lab, options = setup.lab(source.lab_id), gpu_build_options(setup.device, setup.jobs, True)
    return _decided(build_lab(lab, source, options))


def _decided(result: Result) -> Result:
    """The result; raises Undecided where the grader's own processes were ended from outside, which is no verdict."""
    if isinstance(result, Refusal | LabReport) and result.status == "not_graded":
        raise Undecided(result.message)
    return result


def _require_sandbox(setup: Setup) -> None:
    """Raises Undecided where the sandbox that the batch began with is gone: that is no kernel's doing.

    A process looks once whether bubblewrap works; when that look itself was killed, it looks again.
    """
    if setup.device.sandbox == "none" or bubblewrap():
        return
    bubblewrap.cache_clear()
    if not bubblewrap():
        bubblewrap.cache_clear()
        raise Undecided("bubblewrap worked when the batch began and does not work now; see `python -m grader doctor`")


def judge(setup: Setup, source: KernelSource, built: KernelBundle | Refusal, run: GpuRun | None) -> LabReport:
    """One lab's report from what the GPU showed, and from what the interpreter sees of memory, here."""
    if isinstance(built, Refusal):
        return refused(setup.lab(source.lab_id), built, source, gpu=True)
    assert run is not None
    hung = any(outcome.status == "timeout" for outcome in run.outcomes)
    seconds = min(setup.case_seconds, HUNG_SECONDS) if hung else setup.case_seconds
    options = GradeOptions(setup.device, jobs=setup.jobs, confined=True, case_seconds=seconds)
    terms, ready = gpu_terms(setup.device, setup.secrets.seed), setup.built(source, built)
    report = judge_gpu_run(ready, run, watch_memory(ready, options), terms, options.interpreting(setup.jobs))
    return _decided(report)
