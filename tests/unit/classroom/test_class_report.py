"""What an instructor gets of a class: which hand-in counts, tables for other programs, pages, similar kernels."""

from __future__ import annotations

import csv
import io
import itertools
import json
import random
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer
from markupsafe import escape

from grader.classroom.batch.exports import (
    Column,
    Titles,
    canvas_csv,
    grades_csv,
    grades_jsonl,
    moodle_csv,
    rehearse,
    write_exports,
)
from grader.classroom.batch.hand_in import HandIn
from grader.classroom.batch.journal import Journal
from grader.classroom.batch.marks import Rules
from grader.classroom.batch.overview import in_numbers, numbers_of, pages
from grader.classroom.batch.pages import Pages, page_address, page_name, statement
from grader.classroom.batch.similarity import Comparison, Group, Link, similar_kernels
from grader.classroom.batch.standing import UNANSWERED, Graded, standings
from grader.classroom.batch.tasks import Setup
from grader.classroom.batch.workers import WorkerPool
from grader.classroom.hidden_cases import Secrets
from grader.classroom.roster import Person, Roster
from grader.cli.class_commands import _titles
from grader.diagnosis.catalogue import title
from grader.labs import all_labs, get_lab
from grader.labs.question import posed, questions_of
from grader.model import Device, KernelSource, LabReport, Report, SourceLine, TestResult
from grader.reading.answers import Answers
from grader.reporting import page as html
from grader.reporting.junit import junit
from grader.unusable import Unusable
from tests.integration.test_browser import CHROMIUM, browser  # noqa: F401  (a fixture)
from tests.submissions import TESTS, style_file

DUE = datetime(2026, 11, 20, 12, tzinfo=UTC)
DEVICE = Device("cuda", "NVIDIA H200", 90, "580.1", "2.11.0", "3.6.0", "bubblewrap")
SETUP = Setup(DEVICE, Secrets(1))
KERNEL = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")


def hand_in(student="ann", hours=0.0, **fields):
    return HandIn(student, "", fields.pop("place", student), Path("x"), DUE + timedelta(hours=hours), **fields)


def lab_report(points=60.0, speed=20.0, ratio=1.5, mistake=None, module=KERNEL):
    measured = {
        "ratio": ratio, "ratio_low": ratio, "ratio_high": ratio, "tiers": [1.0], "tier": 1, "rounds": 45, "control": 1.0,
        "student_us": 8.0, "baseline_us": 12.0, "floor_us": 4.0, "bytes_moved": 10**7, "operations": 10**9, "config": 0, "note": "",
        "config_us": {}, "calibrated": True,
    }
    tests = [
        TestResult(
            "one_tile", "correctness", "failed" if mistake else "passed", 0.0, 3.0, "no", None, {"mistake": mistake}
        ),
        TestResult("speed_m16", "speed", "passed", speed, 40.0, "fast", None, measured),
    ]
    source = KernelSource("w8a8", "W8A8_MM", None, module, (SourceLine("w8a8.py", 1),), Path("w8a8.py"))
    return LabReport(
        "w8a8", "W8A8", "graded", "", tuple(tests), points, 60.0, "graded", speed, 40.0, 100.0, source=source
    )


def graded(one, *, review=(), **fields):
    return Graded(one, Report(one.place, DEVICE, None, {"w8a8": lab_report(**fields)}), review)


def points_of(one, part):
    return one.parts[part].points if part in one.parts else None


@pytest.mark.parametrize(("attempts", "points"), [("last", 50.0), ("best", 80.0)])
def test_which_attempt_counts(attempts, points):
    first, second = graded(hand_in(place="a")), graded(hand_in(hours=1, place="b"), points=40.0, speed=10.0)
    standing = standings([first, second], Rules(attempts))[0]
    assert standing.points == points
    assert len(standing.others) == 1


def test_a_student_of_several_assignments_is_counted_once():
    handed_in = [replace(hand_in(name), assignment=which) for name, which in (("ann", "a"), ("ann", "b"), ("ben", "a"))]
    found = standings([graded(one) for one in handed_in], Rules())
    assert len(found) == 3
    numbers = numbers_of(found, lambda standing: "somebody")
    assert (numbers.students, numbers.absent) == (2, 0)


def test_an_unreadable_last_attempt_does_not_replace_a_readable_one():
    broken = graded(hand_in(hours=1, place="b", refused="no zip"), points=0.0, speed=0.0)
    assert standings([broken, graded(hand_in(place="a"))], Rules("last"))[0].points == 80.0


@pytest.mark.parametrize(
    ("hours", "free", "days", "points"),
    [(-1, 0, 0, 80.0), (0, 0, 0, 80.0), (0.1, 0, 1, 72.0), (25, 0, 2, 64.0), (25, 1, 2, 72.0), (24 * 30, 0, 30, 0.0)],
)
def test_lateness(hours, free, days, points):
    standing = standings([graded(hand_in(hours=hours))], Rules("last", DUE, 10.0, free))[0]
    assert standing.mark.days_late == days
    assert standing.points == pytest.approx(points)


def test_a_late_best_attempt_must_still_be_better():
    early, late = graded(hand_in(place="a"), points=50.0), graded(hand_in(hours=30, place="b"), points=60.0)
    assert standings([early, late], Rules("best", DUE, 10.0))[0].graded is early


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_tables_for_other_programs(tmp_path):
    named = hand_in("doejane_1234", platform="canvas", number="1234")
    found = standings([graded(named), graded(hand_in('=HYPERLINK("x")'), points=30.0)], Rules())
    assert {row["student"]: row["points"] for row in rows_of(grades_csv(found))} == {
        "doejane_1234": "80.0", "'=HYPERLINK(\"x\")": "50.0",
    }
    canvas = {row["ID"]: row for row in rows_of(canvas_csv(found))}
    assert canvas["1234"]["Triton kernels"] == "80.0"
    assert rows_of(canvas_csv(found))[0]["Triton kernels"] == "100.0"
    assert {row["username"]: row["Triton kernels"] for row in rows_of(moodle_csv(found))}["doejane_1234"] == "80.0"
    lines = [json.loads(line) for line in grades_jsonl(found).splitlines()]
    assert [line["report"]["points"] for line in lines] == [50.0, 80.0]
    write_exports(tmp_path, found)
    suites = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert {suite.get("name") for suite in suites} == {"doejane_1234/w8a8", '=HYPERLINK("x")/w8a8'}
    assert ElementTree.fromstring(junit(found[0].graded.report))[0].get("name") == "w8a8"


def test_cases_that_were_not_graded_are_for_a_human():
    skipped = TestResult("one_tile", "correctness", "skipped", 0.0, 50.0, "inline assembly runs on a GPU only")
    one = graded(hand_in("ann"))
    one = replace(one, report=replace(one.report, labs={"w8a8": replace(one.report.labs["w8a8"], tests=(skipped,))}))
    (found,) = standings([one], Rules())
    assert found.review == ("w8a8: cases that could not be graded here count as 0",)


def test_columns_are_the_instructors():
    titles = Titles({"kernels": "Lab 1 (12345)", "bonus": "Extra"})
    one = graded(hand_in("ann"))
    cpu = replace(one, report=replace(one.report, labs={"w8a8": replace(one.report.labs["w8a8"], gradable_points=60.0)}))
    found = standings([with_bonus(cpu, 40.0)], Rules(out_of="gradable"))
    possible, ann = rows_of(canvas_csv(found, titles))
    assert (possible["Lab 1 (12345)"], ann["Lab 1 (12345)"], ann["Extra"]) == ("60.0", "80.0", "40.0")
    assert "Lab 1 (12345)" in moodle_csv(found, titles)
    assert [most for _, _, most, _ in in_numbers(found)] == [60.0, 100.0], "what can be earned here, as the marks are out of"
    assert Titles({"kernels": "Lab 1 (12345)"}).of(Column("x", "questions")) == "Lab 1 (questions)"


def test_an_assignment_of_bonus_labs_has_no_column_of_nothing():
    """Who handed in bonus work had an extra 0 of 180 in the gradebook."""
    one = graded(replace(hand_in("ann"), assignment="kernels_bonus"))
    bonus = {"extra": replace(lab_report(40.0, 0.0), lab_id="extra", bonus=True)}
    kernels = graded(replace(hand_in("ann"), assignment="kernels"))
    found = standings([kernels, replace(one, report=replace(one.report, labs=bonus))], Rules())
    assert list(rows_of(canvas_csv(found))[1])[5:] == ["kernels", "kernels_bonus (bonus)"]
    assert [part for part, _ in statement(found[1]).marks] == ["bonus"]


def test_of_two_hand_ins_without_a_time_a_human_decides():
    first, second = (graded(replace(hand_in("alice", place=place), submitted=None)) for place in ("Alice", "alice"))
    assert "several hand-ins" in standings([first, second], Rules())[0].review[-1]
    assert not standings([first, second], Rules("best"))[0].review
    guesses = [attempt(place, {}, {"dds": right}) for place, right in (("a", 2), ("b", 0))]
    (found,) = standings([replace(one, hand_in=replace(one.hand_in, submitted=None)) for one in guesses], Rules("best"))
    assert "keep one" in found.review[-1]
    assert points_of(found, "questions") == 0.0, "of answers whose order is not known, points choose none"
    assert not standings([graded(hand_in(place="a")), graded(hand_in(hours=1, place="b"))], Rules())[0].review


@pytest.mark.parametrize("columns", [["foo=bar"], [""], ["questions="], ["Lab 1", "kernels=Lab 2"]])
def test_a_column_without_a_title_is_refused(columns):
    with pytest.raises(typer.Exit) as refused:
        _titles(columns)
    assert refused.value.exit_code == 2
    assert dict(_titles(["Lab 1 = int8 (12345)", "bonus=a=b"]).given) == {"kernels": "Lab 1 = int8 (12345)", "bonus": "a=b"}


def test_an_error_of_several_lines_is_one_in_the_table():
    found = standings([replace(graded(hand_in("ann")), review=("w8a8: line 3: no comma\n    x y\n     ^",))], Rules())
    assert rows_of(grades_csv(found))[0]["review"] == "w8a8: line 3: no comma"


def test_a_platforms_number_is_nobodys_guess():
    """A folder called ann_2 is no Canvas user 2, and Moodle's download knows no user names."""
    found = standings([graded(hand_in("ann_2")), graded(hand_in("Jane Doe", platform="moodle", number="501"))], Rules())
    jane, ann = sorted(rows_of(canvas_csv(found))[1:], key=lambda row: row["Student"])
    assert [(row["Student"], row["ID"], row["SIS Login ID"]) for row in (jane, ann)] == [
        ("Jane Doe", "", "Jane Doe"), ("ann_2", "", "ann_2"),
    ]
    assert {(row["Identifier"], row["Full name"]) for row in rows_of(moodle_csv(found))} == {("", "ann_2"), ("Participant 501", "Jane Doe")}


def with_bonus(one, points):
    labs = {**one.report.labs, "extra": replace(lab_report(points, 0.0), lab_id="extra", bonus=True)}
    return replace(one, report=replace(one.report, labs=labs))


def test_bonus_labs_stand_apart_in_every_table():
    found = standings([with_bonus(graded(hand_in("ann_1", hours=1)), 40.0), graded(hand_in("ben_2"))], Rules("last", DUE, 10.0))
    assert [(one.points, one.parts.get("bonus")) for one in found] == [(72.0, (36.0, 100.0)), (80.0, None)]
    rows = {row["student"]: row for row in rows_of(grades_csv(found))}
    assert (rows["ann_1"]["points"], rows["ann_1"]["max_points"], rows["ann_1"]["bonus_points"]) == ("72.0", "100.0", "36.0")
    assert (rows["ann_1"]["extra_correctness"], rows["ben_2"]["extra_correctness"]) == ("40.0", "")
    possible, ann, ben = rows_of(canvas_csv(found))
    assert (possible["Triton kernels"], possible["Triton kernels (bonus)"]) == ("100.0", "0")
    assert (ann["Triton kernels"], ann["Triton kernels (bonus)"], ben["Triton kernels (bonus)"]) == ("72.0", "36.0", "")
    assert [row["Triton kernels (bonus)"] for row in rows_of(moodle_csv(found))] == ["36.0", "-"]
    assert "bonus" not in canvas_csv(found[1:]) + moodle_csv(found[1:])
    text = page_of(found)
    assert "extra (bonus)</th>" in text


def test_answers_to_questions_are_points_of_their_own():
    names = questions_of("w8a8")
    right = {f"w8a8_{name}": posed("w8a8", question, "Ann").answer for name, question in names.items()}
    ann, ben = graded(hand_in("ann_1", hours=1)), graded(hand_in("ben_2"))
    ann, ben = replace(ann, answers={"w8a8": Answers("Ann", right)}), replace(ben, answers={"w8a8": Answers("", right)})
    cat = with_bonus(graded(hand_in("cat_3")), 40.0)
    cat = replace(cat, answers={"extra": Answers("Cat", {})})
    found = standings([ann, ben, cat], Rules("last", DUE, 10.0))
    most = sum(question.points for question in names.values())
    assert [points_of(one, "questions") for one in found] == [pytest.approx(0.9 * most), 0.0, None]
    assert [one.points for one in found] == [72.0, 80.0, 80.0]
    assert [row["question_points"] for row in rows_of(grades_csv(found))] == [f"{0.9 * most:.1f}", "0.0", ""]
    possible, *rows = rows_of(canvas_csv(found))
    assert float(possible["Triton kernels (questions)"]) == most
    assert [row["Triton kernels (questions)"] for row in rows] == [f"{0.9 * most:.1f}", "0.0", ""]
    assert [row["Triton kernels (questions)"] for row in rows_of(moodle_csv(found))] == [f"{0.9 * most:.1f}", "0.0", "-"]
    told = json.loads(grades_jsonl(found[1:2]))["questions"]["w8a8"]
    assert all((one["points"], one["sentence"][:7]) == (0, "No name") for one in told.values())


def test_one_title_over_two_assignments_is_refused(tmp_path):
    ann, ben = (graded(replace(hand_in(name), assignment=lab)) for name, lab in (("ann_1", "lab1"), ("ben_2", "lab2")))
    found = standings([ann, ben], Rules())
    write_exports(tmp_path, found, Titles({"bonus": "Extra"}))
    with pytest.raises(Unusable, match=r"names a column of several assignments 'Lab 1', .*--assignment"):
        write_exports(tmp_path, found, Titles({"kernels": "Lab 1"}))
    assert "Lab 1" not in (tmp_path / "canvas.csv").read_text(encoding="utf-8")


def test_questions_are_out_of_the_same_number_for_everybody():
    """Also for somebody who handed in the notebook of one lab only."""
    both = {lab_id: Answers("Ann", {}) for lab_id in ("w8a8", "dds")}
    ann, ben, cat = (
        replace(one, answers=given, report=replace(one.report, labs={**one.report.labs, "dds": one.report.labs["w8a8"]}))
        for name, given in (("ann_1", both), ("ben_2", {"dds": both["dds"]}), ("cat_3", {})) for one in [graded(hand_in(name))]
    )
    found = standings([ann, ben, cat], Rules("last", DUE, 10.0))
    assert [one.review for one in found] == [(), (), (UNANSWERED,)]
    most = sum(question.points for lab_id in both for question in questions_of(lab_id).values())
    assert [row["question_max_points"] for row in rows_of(grades_csv(found))] == [str(most), str(most), ""]
    assert float(rows_of(canvas_csv(found))[0]["Triton kernels (questions)"]) == most
    text = page_of(found)
    assert ">questions</th>" in text


@pytest.mark.parametrize("student", ["\ud800", "\x00\x1b[31m", "=1+1", "𝔄" * 200])
def test_a_student_of_any_name_has_marked_answers_and_stops_no_class(student):
    one = replace(graded(hand_in()), answers={"w8a8": Answers(student, dict.fromkeys(("w8a8_bytes", "w8a8_exact"), 1e40))})
    rehearse(one)
    found = standings([one], Rules())
    assert len(json.loads(grades_jsonl(found))["questions"]["w8a8"]) == len(questions_of("w8a8"))
    grades_csv(found).encode()
    grades_jsonl(found).encode()


def test_a_bonus_lab_without_a_verdict_leaves_the_points_alone():
    one = with_bonus(graded(hand_in()), 0.0)
    labs = {**one.report.labs, "extra": replace(one.report.labs["extra"], status="not_graded")}
    standing = standings([replace(one, report=replace(one.report, labs=labs))], Rules())[0]
    assert (standing.points, standing.parts["bonus"].points) == (80.0, None)
    assert rows_of(canvas_csv([standing]))[1]["Triton kernels (bonus)"] == ""


LABS_OF_COURSE = ("w8a8", "w4a16", "dds")


@pytest.mark.parametrize("which", ["last", "best"])
@pytest.mark.parametrize("seed", range(20))
def test_nobody_finds_an_answer_by_guessing(seed, which):
    """However often somebody hands in, and whichever hand-in counts, the questions have no more than the last answers to them."""
    chance = random.Random(seed)
    sheets = [{lab_id: chance.randint(0, 2) for lab_id in LABS_OF_COURSE} for _ in range(chance.randint(1, 8))]
    (found,) = standings([attempt(n, {}, sheet, hours=n - 4.0) for n, sheet in enumerate(sheets)], Rules(which, DUE, 10.0))
    (alone,) = standings([attempt("x", {}, sheets[-1], hours=-4.0)], Rules(which, DUE, 10.0))
    assert points_of(found, "questions") <= points_of(alone, "questions")
    (again,) = standings([attempt(n, {}, sheets[-1], hours=9.0 * n - 1) for n in range(4)], Rules("best", DUE, 10.0))
    assert points_of(again, "questions") == points_of(alone, "questions"), "the same answers again are no later ones"


def test_what_bonus_labs_ask_counts_with_them():
    """As in nbgrader, where their questions are cells of their assignment."""
    bonus = next(lab_id for lab_id in all_labs() if get_lab(lab_id).bonus and questions_of(lab_id))
    right = {f"{bonus}_{name}": posed(bonus, one, "Ann").answer for name, one in questions_of(bonus).items()}
    most = sum(one.points for one in questions_of(bonus).values())
    one = replace(graded(hand_in(hours=20)), answers={bonus: Answers("Ann", right)})
    (found,) = standings([one], Rules("last", DUE, 10.0))
    assert found.parts["bonus"] == (pytest.approx(0.9 * most), most)
    assert "questions" not in found.parts
    row, (_, canvas) = rows_of(grades_csv([found]))[0], rows_of(canvas_csv([found]))
    assert float(row["bonus_points"]) == float(canvas["Triton kernels (bonus)"]) == pytest.approx(0.9 * most, abs=0.01)
    assert [part for part, _ in statement(found).marks] == ["kernels", "bonus"]


def attempt(number, begun, answered, *, hours=0.0, refused=""):
    """A hand-in with some kernels, by points (None: not begun), and with answers to the questions of some labs, so many of them right."""
    labs = {}
    for lab_id in LABS_OF_COURSE:
        points = None if refused else begun.get(lab_id)
        status = "rejected" if refused else "graded" if points is not None else "not_attempted"
        labs[lab_id] = replace(lab_report(points or 0.0, 0.0), lab_id=lab_id, status=status)
    answers = {}
    for lab_id, right in answered.items():
        given = [posed(lab_id, question, "Ann").answer for question in questions_of(lab_id).values()]
        numbers = [value if at < right else 2e9 for at, value in enumerate(given)] if right is not None else [None] * len(given)
        answers[lab_id] = Answers("Ann", dict(zip((f"{lab_id}_{name}" for name in questions_of(lab_id)), numbers, strict=True)))
    one = hand_in(hours=hours, place=f"hand-in {number}", refused=refused)
    return Graded(one, Report(one.place, DEVICE, None, labs), answers={} if refused else answers, files=dict.fromkeys(begun, Path("x")))


def some_attempts(chance):
    """Of each, what was begun with which points, what was answered, and when it came."""
    for number in range(chance.randint(1, 4)):
        begun = {lab_id: float(chance.choice([0, 20, 40, 60])) for lab_id in LABS_OF_COURSE if chance.random() < 0.5}
        answered = {lab_id: chance.choice([None, 0, 1, 2]) for lab_id in LABS_OF_COURSE if chance.random() < 0.5}
        hours = 30.0 * chance.randint(-1, 2) + number
        yield attempt(number, begun, answered, hours=hours, refused="no archive" if chance.random() < 0.15 else "")


@pytest.mark.parametrize("which", ["last", "best"])
@pytest.mark.parametrize("seed", range(40))
def test_each_lab_and_each_question_sheet_counts_from_one_attempt(which, seed, tmp_path):
    """With its own lateness; and whatever else comes later, a sheet that was answered keeps its points."""
    attempts, rules = list(some_attempts(random.Random(seed))), Rules(which, DUE, 10.0)
    (found,) = standings(attempts, rules)
    assert {one.hand_in.key for one in (*found.counting, *found.others)} == {one.hand_in.key for one in attempts}
    assert len({piece for one in found.counting for piece in one.pieces}) == sum(len(one.pieces) for one in found.counting)

    def expected(piece):
        begun = [one for one in attempts if piece in one.pieces and one.pieces[piece][0] == 2 and not one.hand_in.refused]
        worth = [(one.pieces[piece][1] * rules.share(rules.days_late(one.hand_in)), one.hand_in.submitted) for one in begun]
        if not worth:
            return 0.0
        if piece[1] == "questions" and which == "best":  # the last answers, at the time when nothing changed in them any more
            by_time = sorted(begun, key=lambda one: one.hand_in.submitted, reverse=True)
            same = list(itertools.takewhile(lambda one: one.questions[piece[0]] == by_time[0].questions[piece[0]], by_time))
            return same[-1].pieces[piece][1] * rules.share(rules.days_late(same[-1].hand_in))
        return max(worth)[0] if which == "best" else max(worth, key=lambda one: one[1])[0]

    assert found.points == pytest.approx(sum(expected((lab_id, "kernel")) for lab_id in LABS_OF_COURSE))
    sheets = {lab_id for one in attempts for lab_id in one.answers}
    marks = sum(expected((lab_id, "questions")) for lab_id in sheets)
    assert (points_of(found, "questions") or 0.0) == pytest.approx(marks)
    assert (points_of(found, "questions") is None) == (not sheets)
    kernels, sheet = attempt("z", {"dds": 10.0}, {}, hours=200), attempt("z", {}, {"dds": None}, hours=200)
    broken = attempt("z", {}, {}, refused="rar")
    for later in (kernels, sheet, broken):
        (after,) = standings([*attempts, later], rules)
        assert (points_of(after, "questions") or 0.0) == pytest.approx(marks)
        assert after.points == pytest.approx(found.points) or later is kernels
    page = html.page(found.graded.report, {}, statement(found))
    for one in found.counting if len(found.counting) > 1 else ():
        assert f"{one.hand_in.place} counts for {one.begun}" in page
    row, (_, canvas), line = rows_of(grades_csv([found]))[0], rows_of(canvas_csv([found])), json.loads(grades_jsonl([found]))
    assert float(row["points"]) == float(canvas["Triton kernels"]) == line["points"] == pytest.approx(found.points, abs=0.01)
    assert row["question_points"] == canvas.get("Triton kernels (questions)", "")
    assert (line["attempts"], set(line["counting"])) == (len(attempts), {one.hand_in.place for one in found.counting})


@pytest.mark.parametrize("roster", [Roster(), Roster((Person("ann"), Person("ben")), "r")])
def test_of_bonus_labs_alone_no_paper_says_nothing_of_nothing(roster):
    one, extra = graded(hand_in()), replace(lab_report(40.0, 0.0), bonus=True)
    found = standings([replace(one, report=replace(one.report, labs={"extra": extra}))], Rules(), roster)
    assert list(rows_of(canvas_csv(found))[0])[5:] == list(rows_of(moodle_csv(found))[0])[1:] == ["Triton kernels (bonus)"]
    row = rows_of(grades_csv(found))[0]
    assert (row["points"], row["max_points"], row["bonus_points"]) == ("", "", "40.0")
    assert "of 0" not in page_of(found) + html.page(found[0].graded.report, {}, statement(found[0]))
    assert "not graded" not in page_of(found).split("<tbody>")[-1]


def test_page_names_stay_in_their_folder_and_apart():
    names = ["ann", "Ann", "ANN", "../../etc/passwd", "..", ".hidden", "a b", "a_b", "a/b", "x" * 300, "李雷", "<script>"]
    found = {page_name(standings([graded(hand_in(name))], Rules())[0]).casefold() for name in names}
    assert len(found) == len(names), "also where upper and lower case are one"
    assert not any("/" in name or name.startswith(".") or len(name) > 120 for name in found)


def page_of(found, compared=None):
    return pages(found, compared or Comparison([], []), "secret", page_address)["index.html"]


def test_the_class_page_tells_what_an_instructor_asks():
    found = standings(
        [
            graded(hand_in("ann"), ratio=1.5),
            graded(hand_in("ben"), points=20.0, speed=0.0, mistake="truncation"),
            graded(hand_in("cat"), points=30.0, speed=0.0, mistake="truncation", module="x = 1\n"),
            graded(hand_in("<script>alert(1)</script>"), review=("w8a8: broken",), module="y = 2\n"),
        ],
        Rules(),
    )
    link = Link(("ann", "ben"), ("cat",), 0.8, 0.91)
    compared = Comparison([Group("w8a8", ("ann", "ben", "cat"), (("ann", "ben"),), (link,))], ["w8a8 of eve was not compared."])
    text = page_of(found, compared)
    assert f'{escape(title("w8a8", "truncation"))}</th><td class="n">2</td><td>ben, cat' in text
    assert "<script>alert" not in text
    assert text.count("<script>") == 1
    assert "w8a8 of eve was not compared." in text
    assert "w8a8: broken" in text
    look = text[text.index("Needs a look</h2>") : text.index("Students</h2>")]
    assert "<th scope=\"row\">ann, ben</th><td>2 students handed in the same w8a8, to the letter." in look
    assert "ann, ben, cat" in text[text.index("Kernels that are alike</h2>") :]
    assert "1 link, 91 to 91 %" in text
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org", "")


def test_similar_kernels_are_told_and_honest_ones_are_not():
    renamed = KERNEL.replace("pid", "program").replace("acc", "total").replace("BLOCK_M", "TILE_ROWS")
    solution = (TESTS.parent / "solutions" / "w8a8.py").read_text(encoding="utf-8")
    other = style_file("w8a8_grid2d")
    honest = {"cat": solution, "dan": other.read_text(encoding="utf-8")}
    odd = {"fay": "x = 1\n" * 20_000, "gus": "\x00 = ?", "\udcce": ""}
    compared = similar_kernels("w8a8", {"ann": KERNEL, "ben": renamed, **honest, "eve": KERNEL, **odd})
    assert "w8a8 of fay was not compared" in compared.left_out[0]
    (group,) = compared.found
    assert group.students == ("ann", "ben", "eve")
    assert group.identical == (("ann", "eve"),)
    (renaming,) = group.links
    assert {renaming.first, renaming.second} == {("ann", "eve"), ("ben",)}
    assert renaming.share > 0.9


def test_a_group_is_told_once_however_many_pairs_it_has():
    """300 copies of a few texts, each with a word of its own: every student is in one group, and few lines tell it."""
    styles = [style_file(f"w8a8_{one}").read_text(encoding="utf-8") for one in ("annotated", "any_order", "bf16_dot")]
    many = {f"student{number}": styles[number % 3].replace("acc", f"acc{number}") for number in range(60)}
    compared = similar_kernels("w8a8", many)
    assert sorted(student for group in compared.found for student in group.students) == sorted(many)
    assert len(compared.found) <= 3
    assert sum(len(group.links) for group in compared.found) < 60
    assert compared.left_out == []


def test_copies_of_one_text_hide_no_other_copy():
    """However many hand in the same, it is one row, and compared once."""
    other = style_file("w8a8_grid2d").read_text(encoding="utf-8")
    many = {f"student{number}": KERNEL for number in range(60)}
    compared = similar_kernels("w8a8", {**many, "ann": other, "ben": other.replace("acc", "total")})
    assert [(len(one.students), len(one.identical), len(one.links)) for one in compared.found] == [(60, 1, 0), (2, 0, 1)]
    assert compared.left_out == []


@pytest.fixture(scope="module")
def class_pages(tmp_path_factory):
    """The folder of a class report of twelve who handed in the same, one of them with a long reason."""
    folder = tmp_path_factory.mktemp("pages")
    found = standings([graded(hand_in(f"student{n}"), points=10.0 + n, ratio=1 + n / 10) for n in range(12)], Rules())
    look = ("a very " + "long " * 60 + "reason",)
    found[0] = replace(found[0], review=look)
    with WorkerPool(1) as pool, Journal(folder / "journal.sqlite") as journal:
        pages = Pages(pool, folder, "secret", journal)
        for standing in found:
            pages.draw(standing)
        assert pages.write(found) == 12
    return folder


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.xdist_group("class_pages")
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here; install Debian's package chromium")
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (360, "dark")])
def test_pages_in_a_browser(browser, class_pages, width, scheme):  # noqa: F811
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    complaints, requests = [], []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("request", lambda request: requests.append(request.url))
    page.goto((class_pages / "index.html").as_uri())
    assert page.locator("h1").inner_text() == "Class report"
    lines = page.locator("section:has(#students) tbody tr")
    assert lines.count() == 12
    assert page.locator("section:has(#similar) tbody tr").count() == 1, "all twelve handed in the same"
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth + 1")
    student = page.locator("section:has(#students) thead button", has_text="student")
    points = page.locator("section:has(#students) thead button", has_text="points")
    points.click()
    assert lines.first.locator("strong").inner_text() == "30"
    points.click()
    assert lines.first.locator("strong").inner_text() == "41"
    page.locator("#find").fill("student1 student11")
    assert [line.locator("a").inner_text() for line in lines.all() if line.is_visible()] == ["student11"]
    assert page.locator("#shown").inner_text() == "1 of 12"
    page.locator("#find").fill("")
    page.locator("#only").select_option(label="needs a look")
    assert [line.locator("a").inner_text() for line in lines.all() if line.is_visible()] == ["student0"]
    page.locator("#only").select_option(label="everybody")
    student.click()
    assert [line.locator("a").inner_text() for line in lines.all()] == [f"student{number}" for number in range(12)]
    page.locator("section:has(#students) tbody a").first.click()
    assert "student0" in page.locator("h1").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth + 1")
    page.goto((class_pages / "projected.html").as_uri())
    assert page.locator("h2", has_text="Fastest").count() == 1
    assert "student0" not in page.content()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth + 1")
    assert not complaints
    assert all(url.startswith(("file:", "data:")) for url in requests)
    page.close()
