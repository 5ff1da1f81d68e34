"""watch: grades a lab again whenever its kernel's source changes on disk, quickly.

The first answer comes from Triton's interpreter in sandboxes forked from a warm parent, small cases first, each
failure as soon as it is seen. What takes longer, compiling every config or a GPU's verdict, follows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from grader.building import BuildOptions, compile_described, read_by_triton
from grader.judging.checking import Finding
from grader.judging.correctness_tests import HIDDEN
from grader.judging.scoring import refused
from grader.labs import Lab
from grader.model import KernelSource, LabReport, Outcome, Refusal, Report, Submission
from grader.pipeline.grading import BuiltKernel, GradeOptions, Heard, Ran, grade, launch_pairs, one_thread
from grader.reading import UnusablePath, read
from grader.reading.files import is_source
from grader.reporting.compact import Lines
from grader.running.cpu import InterpretOptions
from grader.sandbox import Session, prewarm

POLL_SECONDS = 0.2
SO_FAR_SECONDS = 2.5
"""Who waits longer than this for the cases hears how far they are."""

SETTLE_SECONDS = 0.1
"""A file counts as saved when its size and time stay the same for this long."""

Stamp = tuple[tuple[str, int, int], ...]


@dataclass
class Watch:
    """One session. `options` has a seed; its device "cuda": the GPU grades after the interpreter has given its answer.

    reports: the last final one of each lab.
    """

    path: Path
    labs: Sequence[Lab]
    options: GradeOptions
    listener: Lines
    all_labs: bool = False
    reports: dict[str, LabReport] = field(default_factory=dict)
    _seen: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Watches until KeyboardInterrupt. Raises UnusablePath when there is nothing at first."""
        read(self.path, self.labs, all_labs=self.all_labs)
        prewarm(confined=self.options.confined)
        session = Session()
        with one_thread():
            current: _Round | None = None
            stamp: Stamp | None = None
            try:
                while True:
                    now = stamp_of(self.path)
                    if now != stamp:
                        stamp = self._settled(now)
                        chosen, submission = self._changed(first=current is None)
                        if submission is not None and (chosen or current is None):
                            if current is not None:
                                current.cancel()
                            current = _Round(self, session, submission, chosen)
                            current.start()
                    time.sleep(POLL_SECONDS)
            finally:
                if current is not None:
                    current.cancel()

    def _settled(self, stamp: Stamp) -> Stamp:
        while True:
            time.sleep(SETTLE_SECONDS)
            now = stamp_of(self.path)
            if now == stamp:
                return now
            stamp = now

    def _changed(self, *, first: bool) -> tuple[list[Lab], Submission | None]:
        """The labs whose kernel is another than before, and the submission they are in."""
        try:
            submission = read(self.path, self.labs, all_labs=self.all_labs)
        except (UnusablePath, OSError) as problem:
            self.listener.unusable(str(problem))
            return [], None
        changed = []
        for lab in self.labs:
            result = submission.labs.get(lab.id)
            if result is None:
                continue
            text = result.module if isinstance(result, KernelSource) else f"{result.status}: {result.message}"
            if self._seen.get(lab.id) != text:
                self._seen[lab.id] = text
                changed.append(lab)
        if not changed and not first:
            self.listener.unchanged()
        return changed, submission


def stamp_of(path: Path) -> Stamp:
    """What changes when somebody saves: names, sizes and times of the file or of the folder's .py and .ipynb."""
    files = [path]
    if path.is_dir():
        files = sorted(filter(is_source, path.iterdir()))
    found = []
    for file in files:
        try:
            status = file.stat()
        except OSError:
            continue
        found.append((file.name, status.st_size, status.st_mtime_ns))
    return tuple(found)


class _Round(threading.Thread):
    """Grades the labs that changed, one after another, in a thread of its own; can be cancelled at any time."""

    def __init__(self, watch: Watch, session: Session, submission: Submission, labs: Sequence[Lab]) -> None:
        super().__init__(daemon=True, name="watch-round")
        self.watch, self.session, self.submission, self.labs = watch, session, submission, labs
        self.stopped = threading.Event()

    def cancel(self) -> None:
        """Ends what runs and waits for the thread; nothing of this round is reported afterwards."""
        self.stopped.set()
        self.session.end()
        self.join(timeout=10)

    def run(self) -> None:
        try:
            self._grade()
        except Exception as error:
            if not self.stopped.is_set():
                self.watch.listener.unusable(
                    f"the grader itself failed ({type(error).__name__}: {error}); still watching"
                )

    def _grade(self) -> None:
        described: list[tuple[BuiltKernel, Ran, float]] = []
        for lab in self.labs:
            started = time.monotonic()
            source = self.submission.labs[lab.id]
            if isinstance(source, Refusal):
                self._refuse(lab, source, started)
                continue
            self.watch.listener.began(lab.id, source)
            result = self._first_answer(lab, source, started)
            if result is not None:
                described.append((*result, started))
        for built, ran, started in described:
            if not self.stopped.is_set():
                self._final_answer(built, ran, started)
        if not self.stopped.is_set():
            self.watch.listener.ready([lab.id for lab in self.labs])

    def _publish(self, report: LabReport, started: float, *, final: bool) -> None:
        """Tells the listener of a lab's report, and of the whole when it is final."""
        if self.stopped.is_set():
            return
        watch, name, notes = self.watch, self.submission.name, self.submission.notes
        seconds = time.monotonic() - started
        watch.listener.answer(report, seconds, final=final)
        if final:
            watch.reports[report.lab_id] = report
            labs = {lab.id: watch.reports[lab.id] for lab in watch.labs if lab.id in watch.reports}
            watch.listener.whole(Report(name, watch.options.device, watch.options.seed, labs, notes, seconds))

    def _refuse(self, lab: Lab, refusal: Refusal, started: float, source: KernelSource | None = None) -> None:
        report = refused(lab, refusal, source, gpu=self.watch.options.device.kind == "cuda")
        self._publish(report, started, final=True)

    def _building(self) -> BuildOptions:
        return replace(self.watch.options.building, start=self.session.start, cancelled=self.stopped.is_set)

    def _interpreting(self, cores: int) -> InterpretOptions:
        how = self.watch.options.interpreting(cores)
        return replace(how, start=self.session.start, cancelled=self.stopped.is_set)

    def _first_answer(self, lab: Lab, source: KernelSource, started: float) -> tuple[BuiltKernel, Ran] | None:
        """The interpreter's verdict as if every config that Triton's front end reads compiled; None when none can be launched."""
        bundle, seed = read_by_triton(lab, source, self._building()), self.watch.options.seed
        if isinstance(bundle, Refusal):
            self._refuse(lab, bundle, started, source)
            return None
        assert seed is not None
        built = BuiltKernel(lab, source, bundle, seed)
        pairs, how = launch_pairs(lab, bundle, compiled=False), self._interpreting(self.watch.options.cores)
        ran = built.run(sorted(pairs, key=partial(_size, lab)), how, self._said_while_running(lab, len(pairs)))
        report = built.scored({pair: ran[pair] for pair in pairs}, (), self._interpreting(1))
        self._publish(report, started, final=False)
        return built, ran

    def _final_answer(self, read: BuiltKernel, ran: Ran, started: float) -> None:
        options, lab, source = self.watch.options, read.lab, read.source
        if options.device.kind == "cuda":
            report = grade(self.watch.path, [lab], options).labs[lab.id]
            self._publish(report, started, final=True)
            return
        bundle = compile_described(lab, source, replace(read.bundle, failures=()), self._building())
        if self.stopped.is_set():
            return
        if isinstance(bundle, Refusal):
            self._refuse(lab, bundle, started, source)
            return
        built, pairs = replace(read, bundle=bundle), launch_pairs(lab, bundle)
        missing = [pair for pair in pairs if pair not in ran]
        ran = ran | built.run(missing, self._interpreting(options.cores))
        report = built.scored({pair: ran[pair] for pair in pairs}, options.capabilities, self._interpreting(1))
        self._publish(report, started, final=True)

    def _said_while_running(self, lab: Lab, launches: int) -> Heard:
        """Says what is wrong as soon as it is seen and, to who has waited for long, how far the launches are."""
        listener, began, right, done, announced = self.watch.listener, time.monotonic(), 0, 0, False

        def heard(outcome: Outcome, finding: Finding) -> None:
            nonlocal right, done, announced
            right, done = right + finding.ok, done + 1
            if self.stopped.is_set():
                return
            if not finding.ok and not finding.skipped:
                hidden = lab.case(outcome.case).hidden
                listener.failure(lab.id, outcome.case, HIDDEN if hidden else finding.message)
            if not announced and time.monotonic() - began > SO_FAR_SECONDS and done < launches:
                announced = True
                listener.so_far(lab.id, right, done, launches)

        return heard


def _size(lab: Lab, pair: tuple[str, int]) -> int:
    case = lab.case(pair[0])
    return case.M * case.N * case.K
