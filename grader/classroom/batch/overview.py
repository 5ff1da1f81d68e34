"""What is to be seen of a whole class: a page with every name for the instructor, and one without any for everybody.

The page for everybody is made of `Numbers` alone, and no word of these comes from a student.
"""

from __future__ import annotations

import hmac
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.batch.accounts import Accounted, tally
from grader.classroom.batch.marks import NOTHING
from grader.classroom.batch.similarity import WORTH_TELLING, Comparison
from grader.classroom.batch.standing import Standing
from grader.compile_errors import headline
from grader.diagnosis.catalogue import title
from grader.model import LabReport
from grader.reporting import page as html

HERE = Path(html.__file__).parent
LEADERS = 20
BROKEN = ("rejected", "crash", "timeout")
"""What a student's own page says enough about; it is folded on the class's."""

UNTITLED = "another mistake, named on the student's page"


@dataclass(frozen=True)
class Leader:
    """A place on the leaderboard: the geometric mean of one lab's speed ratios."""

    who: str
    ratio: float
    points: float


@dataclass(frozen=True)
class Histogram:
    """How many values are in each of the equal parts between `low` and `high`."""

    title: str
    unit: str
    low: float
    high: float
    median: float
    counts: tuple[int, ...]


@dataclass(frozen=True)
class LabSummary:
    """One lab over the whole class; leaders under pseudonyms."""

    lab_id: str
    statuses: tuple[tuple[str, int], ...]
    median: float
    leaders: tuple[Leader, ...]
    histograms: tuple[Histogram, ...]


@dataclass(frozen=True)
class Numbers:
    """A class without its names. mistakes: lab, title and how many made it; graded_on: what graded how many hand-ins."""

    students: int
    absent: int
    median: float
    most: float
    graded_on: tuple[tuple[str, int], ...]
    labs: tuple[LabSummary, ...]
    points: Histogram | None
    mistakes: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True)
class Row:
    """A student's line: the standing, where the page of feedback is, and by which filters the line is found."""

    standing: Standing
    page: str
    tags: tuple[str, ...]

    @property
    def review(self) -> list[str]:
        """Why a human should look; what of that the student's own page explains, of a kernel that could be read, is in `broken`."""
        read = self.standing.graded.files
        listed = {f"{lab_id}: {report.message}" for lab_id, report in self.broken if lab_id in read}
        return [reason for reason in self.standing.review if reason not in listed]

    @property
    def broken(self) -> list[tuple[str, LabReport]]:
        return [(lab_id, report) for lab_id, report in self.standing.labs.items() if report.status in BROKEN]


def to_review(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Each reason for a review, and whom it is about; what is about few comes first."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        for reason in row.review:
            found.setdefault(reason, []).append(row)
    return sorted(found.items(), key=lambda entry: len(entry[1]))


def pseudonym_of(student: str, secret: str) -> str:
    """The same for a login in every run, and on the course server's board; without the secret it leads to no name."""
    return f"kernel-{hmac.digest(secret.encode(), student.encode('utf-8', 'surrogatepass'), 'sha256').hex()[:8]}"


# ---------------------------------------------------------------- without names


def numbers_of(standings: Sequence[Standing], who: Callable[[Standing], str]) -> Numbers:
    """The class in numbers. who: the pseudonym of a student."""
    present = [standing for standing in standings if not standing.absent]
    known = [standing.points for standing in present if standing.points is not None]
    devices = Counter(
        f"{one.name}{' (no GPU: speed is not graded)' if one.kind == 'cpu' else ''}; torch {one.torch}, triton {one.triton}"
        f"{f', driver {one.driver}' if one.driver else ''}"
        for one in (standing.graded.report.device for standing in present)
    )
    labs = []
    for lab_id, median, _, statuses in in_numbers(present):
        board = leaders(lab_id, present, who)
        graded = [one.labs[lab_id] for one in present if lab_id in one.labs]
        points = [report.points for report in graded if report.status != "not_graded"]
        ratios = [leader.ratio for leader in board]
        drawn = (
            histogram(points, "points", f"Points in {lab_id}"),
            histogram(ratios, "cuBLAS fp16 time / kernel time, geometric mean", f"Speed in {lab_id}"),
        )
        labs.append(LabSummary(lab_id, statuses, median, board[:LEADERS], tuple(filter(None, drawn))))
    # each once, of several assignments too
    students, came = ({one.student for one in some} for some in (standings, present))
    return Numbers(
        len(students),
        len(students - came),
        statistics.median(known) if known else 0.0,
        max((one.parts.get("kernels", NOTHING).possible for one in standings), default=0.0),
        tuple(devices.most_common()),
        tuple(labs),
        histogram(known, "points", "Points of the whole class"),
        tuple((*mistake, len(students)) for mistake, students in mistakes(present)),
    )


Statuses = tuple[tuple[str, int], ...]


def in_numbers(standings: Sequence[Standing]) -> Iterator[tuple[str, float, float, Statuses]]:
    """Of each lab that was handed in: id, median points, the most that are possible, and what became of how many."""
    for lab_id in dict.fromkeys(lab_id for standing in standings for lab_id in standing.labs):
        handed_in = [(standing.mark.out_of, standing.labs[lab_id]) for standing in standings if lab_id in standing.labs]
        reports = [report for _, report in handed_in]
        known = [report.points for report in reports if report.status != "not_graded"]
        statuses = Counter(report.status.replace("_", " ") for report in reports)
        most = max(
            report.gradable_points if out_of == "gradable" else report.max_points for out_of, report in handed_in
        )
        yield lab_id, statistics.median(known) if known else 0.0, most, tuple(statuses.most_common())


def leaders(lab_id: str, standings: Sequence[Standing], who: Callable[[Standing], str]) -> tuple[Leader, ...]:
    """Everybody with points for a lab's speed, the fastest first."""
    found = []
    for standing in standings:
        report = standing.labs.get(lab_id)
        ratios = [test.metrics["ratio"] for test in report.tests if "ratio" in test.metrics] if report else []
        if report and ratios and report.speed_points > 0:
            found.append(Leader(who(standing), statistics.geometric_mean(ratios), report.points))
    return tuple(sorted(found, key=lambda leader: -leader.ratio))


def mistakes(standings: Sequence[Standing]) -> list[tuple[tuple[str, str], list[Standing]]]:
    """Every class of mistake that the diagnosis named, by lab and title, and who made it; the most frequent first.

    A title is a catalogued mistake's, or says which column of the relation deviates; what has none is one class, however it is called.
    """
    made: dict[tuple[str, str], list[Standing]] = {}
    for standing in standings:
        for lab_id, report in standing.labs.items():
            named = {str(test.metrics["mistake"]) for test in report.tests if test.metrics.get("mistake")}
            titles = {name: title(lab_id, name) for name in named}
            for words in {words if words != name else UNTITLED for name, words in titles.items()}:
                made.setdefault((lab_id, words), []).append(standing)
    return sorted(made.items(), key=lambda found: (-len(found[1]), found[0]))


def histogram(values: Sequence[float], unit: str, title: str) -> Histogram | None:
    """How many of the values are where, in 5 to 20 bars from 0, or the least one, to the greatest; None without values."""
    if not values:
        return None
    low, high = min(0.0, *values), max(values) if max(values) > 0 else 10.0
    counts = [0] * min(20, max(5, len(values) // 3))
    for value in values:
        counts[min(len(counts) - 1, int(len(counts) * (value - low) / (high - low)))] += 1
    return Histogram(title, unit, low, high, statistics.median(values), tuple(counts))


# ---------------------------------------------------------------- with names


def pages(
    standings: Sequence[Standing],
    compared: Comparison,
    secret: str,
    address: Callable[[Standing], str],
    files: Sequence[Accounted] = (),
) -> dict[str, str]:
    """The class's pages by file name; each is one file with nothing to fetch.

    files: what became of each that came in; those that are nobody's need a look, on the instructor's page.
    """
    numbers = numbers_of(standings, lambda standing: pseudonym_of(standing.student, secret))
    names = _names(standings)
    rows = [Row(standing, address(standing), _tags(standing)) for standing in standings]
    fast = [lab.lab_id for lab in numbers.labs if lab.leaders]
    rows.sort(key=lambda row: (row.standing.name.lower(), row.standing.student, row.standing.assignment))
    index = _rendered(
        "class.html.j2",
        (HERE / "class.js").read_text(encoding="utf-8"),
        numbers=numbers,
        rows=rows,
        to_review=to_review(rows),
        labs=[summary.lab_id for summary in numbers.labs],
        bonus={lab_id for one in standings for lab_id, lab in one.labs.items() if lab.bonus},
        asked=any("questions" in one.parts for one in standings),
        boards=[(lab, leaders(lab, standings, lambda one: names[one.student])[:LEADERS]) for lab in fast],
        mistakes=[(*mistake, [names[one.student] for one in students]) for mistake, students in mistakes(standings)],
        tags=sorted({tag for row in rows for tag in row.tags}),
        alike=compared.found,
        identical=[(group.lab_id, same) for group in compared.found for same in group.identical],
        uncompared=compared.left_out,
        tally=tally(files) if files else "",
        nobodys=[file for file in files if file.reason and not file.student],
        names=names,
        threshold=round(100 * WORTH_TELLING),
    )
    return {"index.html": index, "projected.html": _rendered("projected.html.j2", "", numbers=numbers)}


def _names(standings: Sequence[Standing]) -> dict[str, str]:
    """What each student is called: by name, and where two have one name by their id, too."""
    shared = Counter({one.student: one.name for one in standings}.values())
    return {one.student: one.name if shared[one.name] == 1 else f"{one.name} ({one.student})" for one in standings}


def modules(standings: Sequence[Standing]) -> dict[str, dict[str, str]]:
    """The source of every kernel, by lab and student."""
    found: dict[str, dict[str, str]] = {}
    for standing in standings:
        for lab_id, report in standing.labs.items():
            if report.source is not None:
                found.setdefault(lab_id, {})[standing.student] = report.source.module
    return found


def _tags(standing: Standing) -> tuple[str, ...]:
    """By what a line of the table can be found."""
    mark, labs = standing.mark, standing.labs.values()
    tags = {
        "needs a look": bool(standing.review),
        "handed in nothing": standing.absent,
        "not graded": any(part.points is None for part in standing.parts.values()),
        "late": bool(standing.mark.days_late),
        "set by hand": mark.override is not None,
        "with an extension": bool(mark.extension_days),
        "several hand-ins": standing.attempts > 1,
        "a kernel that does not run": any(report.status in BROKEN for report in labs),
        "a lab not begun": any(report.status == "not_attempted" for report in labs),
    }
    section = standing.person.section if standing.person else ""
    return (*(tag for tag, holds in tags.items() if holds), *([f"section {section}"] if section else []))


def _rendered(template: str, script: str, **values: object) -> str:
    style = (HERE / "page.css").read_text(encoding="utf-8") + (HERE / "class.css").read_text(encoding="utf-8")
    hashes = {"style_hash": html.security_digest(style), "script_hash": html.security_digest(script)}
    return (
        html.templates(HERE, headline=headline)
        .get_template(template)
        .render(style=style, script=script, **hashes, **values)
    )
