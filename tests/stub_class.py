"""A class graded without a kernel run: real intake, reading, journal, standings and files; an engine that only answers.

For tests that hand in thousands of odd things. What the engine says of a kernel depends on its text alone.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self
from xml.etree import ElementTree

from grader.classroom.batch.coordinating import Plan, run_batch
from grader.classroom.batch.engine import Done, Event
from grader.classroom.batch.exports import write_exports
from grader.classroom.batch.journal import Journal
from grader.classroom.batch.marks import Rules
from grader.classroom.batch.pages import Pages, page_name, write_replies
from grader.classroom.batch.standing import Graded, Standing, standing, standings
from grader.classroom.batch.tasks import Setup
from grader.classroom.batch.workers import WorkFailed
from grader.classroom.hidden_cases import Secrets
from grader.classroom.roster import Roster
from grader.labs import get_lab
from grader.model import Config, Device, KernelSource, LabReport, TestResult

DEVICE = Device("cpu", "Triton's interpreter on the CPU", None, None, "2.11.0", "3.6.0", "bubblewrap")
SETUP = Setup(DEVICE, Secrets(7))
LABS = ("w8a8", "dds")


class PoolHere:
    """The worker pool's promises without its processes: a result, or WorkFailed."""

    def submit(
        self, priority: int, function: Callable[..., Any], *arguments: Any, seconds: float = 0.0, light: bool = False
    ) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(WorkFailed(f"the grader failed on it ({type(error).__name__}: {error})"))
        return future


class Entered:
    """An engine that has nothing to open or to close."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return


class Answering(Entered):
    """An engine that answers at once. What it is given it says of kernels that hold the word HOSTILE."""

    def __init__(self, configs: tuple[Config, ...] = (), message: str = "", metrics: Any = None) -> None:
        self._configs, self._message, self._metrics = configs, message, metrics or {}
        self._events: list[Event] = []

    def submit(self, key: str, source: KernelSource) -> None:
        self._events.append(Done(key, self._report(source)))

    def cancel(self, key: str) -> None:
        """Everything was answered at once."""

    def next_event(self, seconds: float) -> Event | None:
        return self._events.pop(0) if self._events else None

    def _report(self, source: KernelSource) -> LabReport:
        hostile = "HOSTILE" in source.module
        message = self._message if hostile else "right"
        tests = (
            TestResult("one_tile", "correctness", "passed", 0.0, 0.0, message, None, self._metrics if hostile else {}),
        )
        return LabReport(
            source.lab_id, get_lab(source.lab_id).title, "graded", message, tests, 0.0, 60.0, "skipped", 0.0, 40.0, 60.0,
            configs=self._configs if hostile else (), source=source,
        )


def grade_class(folder: Path, out: Path, engine: Answering | None = None, roster: Roster = Roster()) -> list[Standing]:  # noqa: B008
    """Grades the folder into `out`, every file of the class report."""
    out.mkdir(parents=True, exist_ok=True)
    pool: Any = PoolHere()
    with Journal(out / "journal.sqlite") as journal:
        pages = Pages(pool, out, "secret", journal)

        def receive(attempts: Sequence[Graded]) -> None:
            pages.draw(standing(attempts, Rules(), roster))

        outcome = run_batch(Plan(folder, LABS, SETUP, roster=roster), journal, pool, lambda: engine or Answering(), receive=receive)
        found = standings(outcome.graded, Rules(), roster)
        files = outcome.accounts(found)
        write_exports(out, found, files=files)
        pages.write(found, files)
    write_replies(out, found)
    return found


def about(found: list[Standing], student: str) -> list[object]:
    """All that a class report says of a student."""
    return [
        (one.assignment, one.points, one.graded.review, one.graded.report.notes,
         [(lab.status, lab.message, lab.tests) for lab in one.labs.values()])
        for one in found if one.student == student
    ]


def check_files(out: Path, found: list[Standing]) -> None:
    """Every file of the report is there, whole, and as its format wants it."""
    for table in ("grades.csv", "canvas.csv", "moodle.csv", "files.csv"):
        rows = list(csv.reader(io.StringIO((out / table).read_bytes().decode("utf-8"))))
        assert len({len(row) for row in rows}) == 1, table
        assert not [cell for row in rows for cell in row if cell[:1] in set("=+@\t\r＝＋＠")], table
    lines = (out / "grades.jsonl").read_bytes().decode("utf-8").splitlines()
    assert len(lines) == len(found)
    for line in lines:
        json.loads(line, parse_constant=_no_constant)["report"]["points"].as_integer_ratio()
    ElementTree.fromstring((out / "junit.xml").read_bytes())
    for name in ("index.html", "projected.html"):
        page = (out / name).read_bytes().decode("utf-8")
        assert page.rstrip().endswith("</html>")
        assert "\x1b" not in page
    for one in (one for one in found if not one.absent):
        assert (out / "feedback" / page_name(one)).read_bytes().decode("utf-8").startswith("<!doctype html>")


def _no_constant(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")
