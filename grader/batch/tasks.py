"""The pieces of work of a batch, as functions of plain data: each can run in any process on any machine.

A student's code runs in the sandboxes that these functions start, and nowhere else.
"""

from __future__ import annotations

import contextlib
import re
import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import psutil

from grader.batch.archives import RefusedMember, UnusableArchive, unpack
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
from grader.sandbox import bubblewrap

ATTEMPTS = 3
DEATH = re.compile(r"process died|\bit (was killed|crashed|ended with exit status|used more than)|answered something")
KILLED = re.compile(r"\bit was killed")
"""How grader.building and grader.running.cpu tell of a sandbox that ended before it answered."""

READ_BYTES = 4 << 30
"""By how much reading one hand-in may make a worker grow."""


Result = TypeVar("Result")


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


def read_hand_in(path: Path, lab_ids: tuple[str, ...]) -> Submission | Refusal:
    """What was handed in, or why it is none; `not_graded` where that is not the student's doing."""
    try:
        with _bounded_memory():
            return read(path, [get_lab(lab_id) for lab_id in lab_ids], all_labs=True)
    except UnusablePath as problem:
        return Refusal("rejected", str(problem))
    except PermissionError as error:
        return Refusal("not_graded", f"{path.name} cannot be read ({error.strerror}); check its permissions")
    except (MemoryError, RecursionError):
        size = f"more than {READ_BYTES >> 30} GB of memory"
        return Refusal("rejected", f"{path.name} takes {size} to read; clear its outputs, save it and hand it in again")


@contextlib.contextmanager
def _bounded_memory() -> Iterator[None]:
    """Lets this process grow by READ_BYTES and no further: a crafted notebook costs itself, not the machine."""
    kept = resource.getrlimit(resource.RLIMIT_AS)
    now = psutil.Process().memory_info().vms
    most = now + READ_BYTES if kept[1] == resource.RLIM_INFINITY else min(now + READ_BYTES, kept[1])
    resource.setrlimit(resource.RLIMIT_AS, (most, kept[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, kept)


def unpack_archive(archive: Path, target: Path, max_bytes: int) -> list[RefusedMember] | UnusableArchive:
    """Unpacks in a worker; an archive that cannot be read is an answer, not an error of the grader."""
    try:
        return unpack(archive, target, max_bytes=max_bytes)
    except UnusableArchive as problem:
        return problem


class Undecided(RuntimeError):
    """Sandboxes died on a kernel, perhaps of somebody else's doing: no verdict on the kernel."""


def grade_on_cpu(setup: Setup, source: KernelSource) -> LabReport:
    """One lab, by the interpreter. Raises Undecided."""
    _require_sandbox(setup)
    return _confirmed(lambda: _graded_on_cpu(setup, source), _words)


def build_for_gpu(setup: Setup, source: KernelSource) -> KernelBundle | Refusal:
    """One lab's kernels as machine code for the device. Raises Undecided."""
    _require_sandbox(setup)
    lab, options = setup.lab(source.lab_id), gpu_build_options(setup.device, 1, True)
    return _confirmed(
        lambda: build_lab(lab, source, options),
        lambda built: [built.message] if isinstance(built, Refusal) else [failed.message for failed in built.failures],
    )


def _words(report: LabReport) -> list[str]:
    return [report.message, *(f"{test.name} {test.status}: {test.message}" for test in report.tests)]


def _confirmed(attempt: Callable[[], Result], words: Callable[[Result], list[str]]) -> Result:
    """The result of an attempt that no sandbox died in, or of one whose deaths came out the same again.

    A kernel that kills its process does so every time. No death by SIGKILL counts: it comes from an administrator or
    the system's memory killer as well as from a limit. Raises Undecided when nothing counts.
    """
    found = attempt()
    for _ in range(ATTEMPTS - 1):
        if not _told(words(found), DEATH):
            return found
        again = attempt()
        if words(again) == words(found) and not _told(words(again), KILLED):
            return again
        found = again
    if _told(words(found), DEATH):
        raise Undecided(
            f"its sandboxes were ended {ATTEMPTS} times; look at what ends processes on this machine, such as a lack of memory"
        )
    return found


def _told(texts: list[str], words: re.Pattern[str]) -> bool:
    return any(words.search(text) for text in texts)


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


def _graded_on_cpu(setup: Setup, source: KernelSource) -> LabReport:
    options = GradeOptions(
        setup.device, jobs=1, confined=True, case_seconds=setup.case_seconds, capabilities=setup.capabilities
    )
    lab = setup.lab(source.lab_id)
    return grade_lab_on_cpu(lab, source, options, setup.secrets.seed, load_rubric())


def judge(setup: Setup, source: KernelSource, built: KernelBundle | Refusal, run: GpuRun | None) -> LabReport:
    """One lab's report from what the GPU showed, and from what the interpreter sees of memory, here."""
    lab, seed = setup.lab(source.lab_id), setup.secrets.seed
    options = GradeOptions(setup.device, jobs=1, confined=True, case_seconds=setup.case_seconds)
    watched = watch_memory(lab, source, built, seed, options)
    return judge_gpu_run(lab, source, built, run, watched, seed, setup.device, load_rubric())
