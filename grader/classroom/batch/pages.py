"""The class report: index.html for the instructor, and a page of feedback for each student."""

from __future__ import annotations

import base64
import hashlib
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import escape

from grader.classroom.batch.similarity import WORTH_TELLING, Alike, Comparison, similar_kernels
from grader.classroom.batch.standing import Graded, Standing
from grader.classroom.batch.tasks import Setup
from grader.classroom.batch.workers import FIRST, LAST, SHORT_SECONDS, WorkerPool, WorkFailed
from grader.labs import all_labs, get_lab
from grader.model import LabReport
from grader.reporting import page as html
from grader.reporting.atomic import write_whole
from grader.reporting.terminal import number
from grader.reporting.text import page_value, prose

HERE = Path(html.__file__).parent
LEADERS = 20
MAX_NAME_BYTES = 80


@dataclass(frozen=True)
class Row:
    """A student's line: the standing, the address of the feedback page, and points by lab."""

    standing: Standing
    page: str


@dataclass(frozen=True)
class MistakeCount:
    """One class of mistake and who made it."""

    lab_id: str
    name: str
    title: str
    students: tuple[str, ...]


@dataclass(frozen=True)
class Leader:
    """A place on the leaderboard: the geometric mean of one lab's speed ratios."""

    who: str
    ratio: float
    points: float


@dataclass(frozen=True)
class LabSummary:
    """One lab over the whole class."""

    lab_id: str
    title: str
    statuses: tuple[tuple[str, int], ...]
    median: float
    leaders: tuple[Leader, ...]
    images: tuple[html.Image, ...]


class Pages:
    """The pages of feedback, drawn by a batch's workers while kernels still wait for a GPU: pictures take their time."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._drawn: dict[str, Future[str]] = {}

    def draw(self, graded: Graded) -> None:
        """Begins the page of one hand-in."""
        self._drawn[graded.hand_in.key] = self._pool.submit(LAST, html.page, graded.report, seconds=SHORT_SECONDS)

    def write(self, out: Path, standings: Sequence[Standing], setup: Setup, *, names: bool) -> None:
        """Writes index.html and feedback/<student>.html; pages of students who are gone stay as they are."""
        folder = out / "feedback"
        folder.mkdir(exist_ok=True)
        rows = [Row(standing, f"feedback/{page_name(standing)}") for standing in standings]
        comparisons = [
            self._pool.submit(FIRST, similar_kernels, *lab, seconds=SHORT_SECONDS)
            for lab in _modules(standings).items()
        ]
        for row in rows:
            if not row.standing.absent:
                write_whole(out / row.page, self._text(row.standing.graded))
        overview = summaries(standings, names=names)
        alike: list[Alike] = []
        uncompared: list[str] = []
        for comparison in comparisons:
            try:
                found = comparison.result()
            except WorkFailed as failure:
                uncompared.append(f"The kernels of a lab could not be compared: {failure}.")
            else:
                alike += found.found
                uncompared += found.left_out
        write_whole(out / "index.html", class_page(rows, overview, Comparison(alike, uncompared), setup, names=names))

    def _text(self, graded: Graded) -> str:
        try:
            return self._drawn[graded.hand_in.key].result()
        except WorkFailed as failure:
            place = prose(graded.report.submission)
            sentence = f"The page of {place} could not be drawn: {failure}. grades.jsonl has every verdict."
            return f"<!doctype html><meta charset=utf-8><title>Feedback</title><p>{escape(sentence)}</p>"


def page_name(standing: Standing) -> str:
    """A file name for a student's page that no name can escape from and no two share."""
    label = f"{standing.student} {standing.assignment}".strip()
    safe = re.sub(r"[^\w.@-]+", "_", label).encode()[:MAX_NAME_BYTES].decode(errors="ignore").lstrip(".") or "student"
    if safe != label:
        safe += f"-{_digest(f'{standing.student}/{standing.assignment}')[:8]}"
    return f"{safe}.html"


# ---------------------------------------------------------------- the class


def class_page(
    rows: Sequence[Row], overview: Sequence[LabSummary], compared: Comparison, setup: Setup, *, names: bool
) -> str:
    """The instructor's page, one file with nothing to fetch."""
    standings = [row.standing for row in rows]
    known = [standing.points for standing in standings if standing.points is not None]
    style = (HERE / "page.css").read_text(encoding="utf-8") + (HERE / "class.css").read_text(encoding="utf-8")
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        finalize=page_value,
    )  # fmt: skip
    environment.filters["number"] = number
    return environment.get_template("class.html.j2").render(
        rows=sorted(rows, key=lambda row: row.standing.student.lower()),
        labs=[summary.lab_id for summary in overview],
        bonus={lab_id for one in standings for lab_id, lab in one.labs.items() if lab.bonus},
        asked=any(one.questions is not None for one in standings),
        summaries=overview,
        mistakes=_mistakes(standings),
        look=[row for row in rows if row.standing.look],
        absent=[row for row in rows if row.standing.absent],
        alike=compared.found,
        uncompared=compared.left_out,
        device=setup.device,
        median=statistics.median(known) if known else 0.0,
        most=max(standing.graded.report.max_points for standing in standings),
        score_image=_histogram(known, "points", "Points of the whole class"),
        style=style,
        style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        names=names,
        threshold=round(100 * WORTH_TELLING),
    )


def pseudonym(standing: Standing) -> str:
    """The same for a student in every run, and a name to nobody else."""
    return f"kernel-{_digest(standing.student)[:6]}"


def _digest(text: str) -> str:
    """Of any name, one that is no UTF-8 too."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _reports(lab_id: str, standings: Sequence[Standing]) -> list[tuple[Standing, LabReport]]:
    return [(standing, standing.labs[lab_id]) for standing in standings if lab_id in standing.labs]


def summaries(standings: Sequence[Standing], *, names: bool) -> list[LabSummary]:
    """Every lab that was handed in, drawn."""
    labs = dict.fromkeys(lab_id for standing in standings for lab_id in standing.labs)
    return [_summary(lab_id, standings, names) for lab_id in labs]


def _summary(lab_id: str, standings: Sequence[Standing], names: bool) -> LabSummary:
    reports = _reports(lab_id, standings)
    known = [report.points for _, report in reports if report.status != "not_graded"]
    statuses = Counter(report.status for _, report in reports)
    leaders = []
    for standing, report in reports:
        ratios = [test.metrics["ratio"] for test in report.tests if test.kind == "speed" and "ratio" in test.metrics]
        if ratios and report.speed_points > 0:
            who = standing.student if names else pseudonym(standing)
            leaders.append(Leader(who, statistics.geometric_mean(ratios), report.points))
    leaders.sort(key=lambda leader: -leader.ratio)
    images = [_histogram(known, "points", f"Points in {lab_id}")]
    if leaders:
        ratio = [leader.ratio for leader in leaders]
        images.append(_histogram(ratio, "cuBLAS fp16 time / kernel time, geometric mean", f"Speed in {lab_id}"))
    return LabSummary(
        lab_id,
        get_lab(lab_id).title if lab_id in all_labs() else lab_id,
        tuple(statuses.most_common()),
        statistics.median(known) if known else 0.0,
        tuple(leaders[:LEADERS]),
        tuple(image for image in images if image),
    )


def _mistakes(standings: Sequence[Standing]) -> list[MistakeCount]:
    """Every class of mistake that the diagnosis named, the most frequent first."""
    made: dict[tuple[str, str], list[str]] = {}
    for standing in standings:
        for lab_id, report in standing.labs.items():
            for name in {test.metrics["mistake"] for test in report.tests if test.metrics.get("mistake")}:
                made.setdefault((lab_id, name), []).append(standing.student)
    counts = [MistakeCount(lab_id, name, _title(lab_id, name), tuple(who)) for (lab_id, name), who in made.items()]
    return sorted(counts, key=lambda count: (-len(count.students), count.lab_id, count.name))


def _title(lab_id: str, name: str) -> str:
    lab = all_labs().get(lab_id)
    return next((mistake.what for mistake in lab.mistakes if mistake.name == name), name) if lab else name


def _modules(standings: Sequence[Standing]) -> dict[str, dict[str, str]]:
    """The source of every kernel, by lab and student."""
    modules: dict[str, dict[str, str]] = {}
    for standing in standings:
        for lab_id, report in standing.labs.items():
            if report.source is not None:
                modules.setdefault(lab_id, {})[standing.student] = report.source.module
    return modules


def _histogram(values: Sequence[float], unit: str, title: str) -> html.Image | None:
    return html.image(lambda drawn: drawn.histogram(values, unit, title)) if values else None
