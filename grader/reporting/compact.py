"""An answer in a few lines: the points, why not more, what the compiler says; and watching, which prints them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader.compile_errors.named_line import as_diagnostic
from grader.model import KernelSource, LabReport, Report, TestStatus
from grader.reporting.advice import builds
from grader.reporting.causes import causes
from grader.reporting.terminal import MARKS, number

MAX_FAILURES = 4


@dataclass(frozen=True)
class Remark:
    """One line of an answer. `style` is Rich's: green, yellow, red, cyan, dim or nothing. folded: what stands there until it is opened,
    which a reader does, or `opened` from the start."""

    text: str
    style: str = ""
    folded: str = ""
    opened: bool = False


def marked(status: TestStatus, text: str) -> Remark:
    """What a case or a step came to, behind its mark and in its colour."""
    mark, colour = MARKS[status]
    return Remark(f"{mark} {text}", colour)


def remarks_on(report: LabReport) -> list[Remark]:
    """The points, why not more, and what the compiler says."""
    return [verdict(report), *explanations(report), *build_remarks(report)]


def verdict(report: LabReport) -> Remark:
    """How many cases pass and what that is worth, or why nothing was graded."""
    if report.status != "graded":
        colour = "yellow" if report.status in ("not_attempted", "not_graded") else "red"
        return Remark(f"{report.status.replace('_', ' ')}: {report.message}", colour)
    tests = [test for test in report.tests if test.kind == "correctness"]
    passed = sum(test.status == "passed" for test in tests)
    speed = f", speed {number(report.speed_points)}/{number(report.speed_max)}"
    text = (
        f"{passed} of {len(tests)} cases pass, correctness {number(report.correctness_points)}/"
        f"{number(report.correctness_max)} points{speed if report.speed_status == 'graded' else ''}"
    )
    return Remark(text, "green" if report.correctness_points == report.correctness_max else "")


def explanations(report: LabReport) -> list[Remark]:
    """Each cause once, with its lines and where it shows."""
    remarks = []
    for cause in causes(report.tests, report.source)[:MAX_FAILURES]:
        if cause.test.startswith("build"):
            continue  # build_remarks has them
        said = cause.with_excerpts(report.source)
        remarks.append(
            Remark("\n".join([*said, *([cause.where] if cause.where else [])]), "red" if cause.test else "cyan")
        )
    return remarks


def diagnostics(report: LabReport, folder: Path) -> list[str]:
    """What is wrong in a line of a file, as editors read it."""
    said = [
        sentence for cause in causes(report.tests, report.source) for sentence in cause.with_excerpts(report.source)
    ]
    if report.status not in ("not_attempted", "not_graded"):
        said.append(report.message)
    return list(dict.fromkeys(filter(None, (as_diagnostic(message, folder) for message in said))))


def build_remarks(report: LabReport) -> list[Remark]:
    """Which configs do not compile; where nothing is wrong, that all do, and advice from what the compiler made of them."""
    tests, found = [test for test in report.tests if test.kind == "build"], causes(report.tests, report.source)
    failed = [cause for cause in found if cause.test.startswith("build")]
    remarks = [marked("failed", "\n".join(filter(None, (*cause.sentences, cause.where)))) for cause in failed]
    if found:
        return remarks
    if tests:
        names = " and ".join(test.name.removeprefix("build_") for test in tests)
        remarks.append(Remark(f"{tests[0].message}, for {names}", "dim"))
    sentences: dict[str, list[int]] = {}
    for built in builds(report):
        for sentence in built.advice:
            sentences.setdefault(sentence, []).append(built.config.index)
    for sentence, configs in sentences.items():
        several = "configs" if len(configs) > 1 else "config"
        remarks.append(Remark(f"{several} {', '.join(map(str, configs))}: {sentence}", "dim"))
    return remarks


class Lines:
    """Prints for `grader.pipeline.watching`. `publish` gets every whole report, to write it as a page, and returns where that is.

    folder: where the files are. Editors clear their marks at each answer (.vscode/tasks.json), so it repeats those of the other labs.
    """

    def __init__(self, console: Console, publish: Callable[[Report], Path | None], folder: Path) -> None:
        self._console, self._publish, self._folder = console, publish, folder
        self._seen: dict[str, set[str]] = {}
        self._first: dict[str, tuple[str, list[str]]] = {}
        self._marks: dict[str, list[str]] = {}
        self._announced = self._page_announced = False
        self._lock = threading.Lock()

    def _say(self, lab_id: str, text: str, style: str = "") -> None:
        line = Text.assemble((time.strftime("%H:%M:%S "), "dim"), (f"{lab_id:<6}", "bold"), (text, style))
        self._console.print(line, soft_wrap=True)

    def ready(self, labs: Sequence[str]) -> None:
        if not self._announced:
            self._announced = True
            self._say("", "watching; save a file to grade it again, Ctrl-C stops", "dim")

    def unusable(self, message: str) -> None:
        self._say("", f"! {message}", "yellow")

    def unchanged(self) -> None:
        self._say("", "saved; no kernel changed", "dim")

    def began(self, lab_id: str, source: KernelSource) -> None:
        with self._lock:
            self._seen[lab_id] = set()
            self._first.pop(lab_id, None)
        self._say(lab_id, f"{source.path.name}: running its cases on the interpreter", "dim")

    def failure(self, lab_id: str, case: str, message: str) -> None:
        with self._lock:
            seen = self._seen.setdefault(lab_id, set())
            known = case in seen
            seen.add(case)
            if known or len(seen) > MAX_FAILURES:
                return
        said = marked("failed", f"{case}: {message}")
        self._say(lab_id, said.text, said.style)

    def so_far(self, lab_id: str, right: int, done: int, total: int) -> None:
        self._say(lab_id, f"{right} of {done} launches right so far, {total - done} to go", "dim")

    def answer(self, report: LabReport, seconds: float, *, final: bool) -> None:
        remarks = []
        line, marks, before = verdict(report), diagnostics(report, self._folder), any(self._marks.values())
        if self._first.get(report.lab_id) != (line.text, marks):
            self._first[report.lab_id] = line.text, marks
            self._marks[report.lab_id] = marks
            remarks = [replace(line, text=f"{line.text} ({seconds:.1f} s)"), *explanations(report)]
            everything = [mark for marks in self._marks.values() for mark in marks]
            if everything or before:
                self._say(report.lab_id, f"errors with a line: {len(everything)}", "dim")
            for mark in everything:
                self._console.print(Text(mark), soft_wrap=True)
        if final:
            remarks += build_remarks(report)
        for remark in remarks:
            self._say(report.lab_id, remark.text, remark.style)

    def whole(self, report: Report) -> None:
        """Publishes a report, and says where the page is, once."""
        path = self._publish(report)
        if path and not self._page_announced:
            self._page_announced = True
            self._say("", f"report with pictures: {path} (it reloads itself)", "dim")
