"""The pages of a class: of feedback, one a student, and those of the whole class (overview.py). What did not change is not drawn again.

Those of feedback go back as archives through the platform that the hand-ins came from. Canvas's and Moodle's re-upload find the student by
what the downloaded file's name began with. Canvas wants the number of an attachment there, so what was typed into Canvas has no way back;
Moodle takes a file in the folder that it had packed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar, cast

from markupsafe import escape

from grader.authoring.archive import write_archive
from grader.classroom.batch import overview
from grader.classroom.batch.accounts import Accounted
from grader.classroom.batch.journal import Journal, code_digest, digest_of
from grader.classroom.batch.marks import lateness
from grader.classroom.batch.similarity import Comparison, similar_kernels, stub_of
from grader.classroom.batch.standing import Standing
from grader.classroom.batch.verdicts import to_json, unstructured
from grader.classroom.batch.workers import FIRST, LAST, SHORT_SECONDS, WorkerPool, WorkFailed
from grader.model import ErrorMap, LabReport, Report
from grader.reporting import page as html
from grader.reporting.atomic import write_whole
from grader.reporting.page import DrawnMap, MarkStatement
from grader.reporting.terminal import number
from grader.reporting.text import prose

MAX_NAME_BYTES = 80
HEAD_BYTES, TAIL = 2000, b"</html>"
DRAWN_BY = ("jinja2", "markupsafe", "matplotlib", "pygments")
Result = TypeVar("Result")


class Pages:
    """Writes the pages below `out`, by a batch's workers; error maps, which take nearly all of the time, while kernels wait for a GPU.

    secret: what pseudonyms are made with, so that a name leads to one and one leads to no name. journal: keeps the error maps, and
    whose kernels are alike.
    """

    def __init__(self, pool: WorkerPool, out: Path, secret: str, journal: Journal) -> None:
        self._pool, self._folder, self._secret, self._journal = pool, out, secret, journal
        self._pages: dict[str, tuple[str, Callable[[], Future[str]] | None]] = {}
        self._begun: dict[str, Future[Any]] = {}

    def draw(self, standing: Standing) -> None:
        """Begins the page of a student who handed in something, unless the file there is made of the same."""
        fast = any(lab.speed_points for lab in standing.labs.values())
        board = overview.pseudonym_of(standing.student, self._secret) if fast else ""
        report, stated = standing.graded.report, statement(standing, board)
        made_of = digest(report, stated)
        if self._pages.get(standing.key, ("", None))[0] == made_of:
            return
        if _is_made_of(self._folder / page_address(standing), made_of):
            self._pages[standing.key] = made_of, None
            return
        maps = {lab_id: self._error_maps(lab.error_maps) for lab_id, lab in report.labs.items() if lab.error_maps}

        def page() -> Future[str]:
            drawn = {lab_id: drawing() for lab_id, drawing in maps.items()}
            return self._pool.submit(LAST, _page, report, stated, made_of, drawn, seconds=SHORT_SECONDS, light=True)

        self._pages[standing.key] = made_of, page

    def write(self, standings: Sequence[Standing], files: Sequence[Accounted] = ()) -> int:
        """Writes index.html, projected.html and feedback/<student>.html, and says how many of the latter were drawn.

        No page stays of whom this run knows nothing: it would state another mark than the gradebook.
        """
        (self._folder / "feedback").mkdir(exist_ok=True)
        comparisons = [self._comparison(*lab) for lab in overview.modules(standings).items()]
        present = [standing for standing in standings if not standing.absent]
        for standing in present:
            self.draw(standing)
        drawings = [(standing, page()) for standing in present if (page := self._pages[standing.key][1])]
        for standing, drawing in drawings:
            write_whole(self._folder / page_address(standing), _text(drawing, standing))
        pages = set(map(page_name, present))
        for former in (self._folder / "feedback").glob("*.html"):
            if former.name not in pages and _is_made_of(former, ""):
                former.unlink()
        found = [comparison() for comparison in comparisons]
        compared = Comparison(
            [group for one in found for group in one.found], [sentence for one in found for sentence in one.left_out]
        )
        for name, text in overview.pages(standings, compared, self._secret, page_address, files).items():
            write_whole(self._folder / name, text)
        return len(drawings)

    def _comparison(self, lab_id: str, modules: Mapping[str, str]) -> Callable[[], Comparison]:
        """The kernels of a lab, compared."""
        parts = stub_of(lab_id), lab_id, sorted(modules.items())
        task = partial(self._pool.submit, FIRST, similar_kernels, lab_id, modules, seconds=SHORT_SECONDS)

        def failed(why: WorkFailed) -> Comparison:
            return Comparison((), (f"The kernels of a lab could not be compared: {why}.",))

        return self._once(parts, Comparison, task, failed)

    def _error_maps(self, errors: Sequence[ErrorMap]) -> Callable[[], list[DrawnMap]]:
        """Error maps, drawn; none where they cannot be."""
        parts = [unstructured(one, ErrorMap) for one in errors]
        task = partial(self._pool.submit, LAST, html.error_maps, errors, seconds=SHORT_SECONDS, light=True)
        return self._once(parts, list[DrawnMap], task, lambda why: [])

    def _once(
        self, parts: object, kind: Any, task: Callable[[], Future[Result]], instead: Callable[[WorkFailed], Result]
    ) -> Callable[[], Result]:
        """Begins a task, unless it was done before, in this run or another; what it returns waits for the answer.

        parts: all that it depends on, beside the grader's code. kind: of what comes of it. instead: what does where it fails.
        """
        key = digest_of(json.dumps([str(kind), _drawn_by(), parts]))
        known = self._journal.recall(key, kind)
        if known is not None:
            return lambda: cast(Result, known)
        begun = self._begun[key] = self._begun.get(key) or task()

        def answer() -> Result:
            try:
                found = begun.result()
            except WorkFailed as failure:
                return instead(failure)
            if self._begun.pop(key, None):
                self._journal.remember(key, found, kind)
            return cast(Result, found)

        return answer


def statement(standing: Standing, board: str = "") -> MarkStatement:
    """What the gradebook says of a student: the numbers of its columns, as a page states them."""
    mark, questions = standing.mark, standing.graded.questions
    rows = [
        (part, _of(points, most, "not graded yet" if part == "bonus" else "no mark yet"))
        for part, (points, most) in standing.parts.items()
    ]
    steps = list(_counted(standing))
    answers = [
        (f"{lab_id}, {name}", _of(one.points, one.max_points), one.sentence)
        for lab_id, asked in questions.items()
        for name, one in asked.items()
    ]
    who = standing.name if standing.name == standing.student else f"{standing.name} ({standing.student})"
    return MarkStatement(who, standing.assignment, tuple(rows), (*steps, *mark.steps), tuple(answers), board)


def _counted(standing: Standing) -> Iterator[str]:
    """Which hand-ins count, and for what; when each was handed in, and how late."""
    mark, counting = standing.mark, standing.counting
    if standing.attempts > 1 and standing.graded.questions:
        yield "Of several hand-ins, the questions of a lab count from the last that answers one of them."
    if len(counting) > 1:
        for one, late in zip(counting, mark.late, strict=True):
            at = (standing.person.handed_in if standing.person else None) or one.hand_in.submitted
            parts = [f"{one.hand_in.place} counts for {one.begun}", _when(at) if at else "", lateness(*late)]
            yield ", ".join(filter(None, parts)) + "."
        return
    if standing.others:
        yield f"Of {standing.attempts} hand-ins {counting[0].hand_in.place} counts."
    if mark.handed_in:
        yield f"H{_when(mark.handed_in)[1:]}."
    if mark.days_late is None:
        yield "How late it was is not known, and nothing is taken off."


def _when(moment: datetime) -> str:
    return f"handed in on {moment:%Y-%m-%d %H:%M %Z}"


def _of(points: float | None, most: float, unknown: str = "") -> str:
    return unknown if points is None else f"{number(round(points, 2))} of {number(most)} points"


def page_name(standing: Standing) -> str:
    """A file name for a student's page that no name can escape from and no two share."""
    label = f"{standing.student} {standing.assignment}".strip()
    safe = re.sub(r"[^\w.@-]+", "_", label).encode()[:MAX_NAME_BYTES].decode(errors="ignore").lstrip(".") or "student"
    if safe != label or safe != safe.casefold():  # to some file systems Ann and ann are one
        safe += f"-{digest_of(standing.key)[:8]}"
    return f"{safe}.html"


def page_address(standing: Standing) -> str:
    """Where a student's page lies, seen from the class's."""
    return f"feedback/{page_name(standing)}"


def write_replies(out: Path, standings: Sequence[Standing]) -> dict[str, int]:
    """Writes feedback_canvas.zip and feedback_moodle.zip for hand-ins that came from there; returns how many pages each holds."""
    written = {}
    for platform in ("canvas", "moodle"):
        pages = {}
        for one in standings:
            reply = one.graded.hand_in.reply if one.graded.hand_in.platform == platform else ""
            if reply:  # what was unpacked with another encoding has the platform's number still
                name = os.fsencode(reply).decode("utf-8", "replace") + "feedback.html"
                pages[name] = (out / page_address(one)).read_bytes()
        name = f"feedback_{platform}.zip"
        if pages:
            write_archive(out / name, pages)
            written[name] = len(pages)
        else:
            (out / name).unlink(missing_ok=True)
    return written


def _page(report: Report, stated: MarkStatement, made_of: str, drawn: Mapping[str, list[DrawnMap]]) -> str:
    return html.page(report, statement=stated, made_of=made_of, drawn=drawn)


def _text(drawing: Future[str], standing: Standing) -> str:
    try:
        return drawing.result()
    except WorkFailed as failure:
        place = prose(standing.graded.report.submission)
        sentence = f"The page of {place} could not be drawn: {failure}. grades.jsonl has every verdict."
        return f"<!doctype html><meta charset=utf-8><title>Feedback</title><p>{escape(sentence)}</p>"


# ---------------------------------------------------------------- what a page is made of


def digest(report: Report, stated: MarkStatement) -> str:
    """Of all that a page of feedback shows, and of all that draws it."""
    found = hashlib.sha256(_drawn_by().encode())
    parts = [repr((report.submission, report.device, report.seed, report.seconds, report.notes, stated))]
    for lab in report.labs.values():
        # the source by its file's name: what was unpacked lies in another folder in every run
        source = lab.source and replace(lab.source, path=Path(lab.source.path.name))
        parts.append(f"{to_json(_without_seconds(lab))}{source!r}")
    for part in parts:
        found.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return found.hexdigest()


def _without_seconds(lab: LabReport) -> LabReport:
    """The report without how long a case took to grade, which no page shows and no two runs share."""
    rest = [{name: value for name, value in test.metrics.items() if name != "seconds"} for test in lab.tests]
    tests = tuple(replace(test, metrics=metrics) for test, metrics in zip(lab.tests, rest, strict=True))
    return replace(lab, tests=tests)


@cache
def _drawn_by() -> str:
    """The grader's own code and templates, and the packages that draw."""
    return digest_of("\0".join([code_digest(), *(f"{package} {metadata.version(package)}" for package in DRAWN_BY)]))


def _is_made_of(path: Path, made_of: str) -> bool:
    """Whether a page that was drawn earlier is whole and made of the same; of whatever, for ""."""
    mark = html.MADE_OF.format(made_of) if made_of else html.MADE_OF.partition("{}")[0]
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            file.seek(-len(TAIL), 2)
            return mark.encode() in head and file.read() == TAIL
    except OSError:
        return False
