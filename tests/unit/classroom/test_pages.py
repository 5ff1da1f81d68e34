"""The page that a student gets states what the gradebook states, and is drawn again only if something of it changed."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from datetime import timedelta
from functools import partial
from html import unescape
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader.classroom.batch.exports import canvas_csv, grades_csv, moodle_csv
from grader.classroom.batch.journal import Journal
from grader.classroom.batch.marks import Rules
from grader.classroom.batch.pages import Pages, page_address, statement
from grader.classroom.batch.standing import Graded, standings
from grader.classroom.roster import Person, Roster
from grader.labs.question import posed, questions_of
from grader.model import Report
from grader.reading.answers import Answers
from grader.reporting import page as html
from tests.reports import wrong_report
from tests.stub_class import DEVICE, PoolHere
from tests.unit.classroom.test_class_report import DUE, graded, hand_in, with_bonus

ASKED = questions_of("w8a8")
RIGHT = {f"w8a8_{name}": posed("w8a8", question, "Ann").answer for name, question in ASKED.items()}


def drawn(folder, found) -> int:
    pool: Any = PoolHere()
    with Journal(folder / "journal.sqlite") as journal:
        return Pages(pool, folder, "secret", journal).write(found)


def words(text: str) -> str:
    """A page as it is read."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<(style|script).*?</\1>|<[^>]+>", " ", text, flags=re.S)))


numbers = st.integers(0, 600).map(lambda tenths: tenths / 10)
persons = st.builds(
    Person,
    login=st.just("ann"),
    name=st.sampled_from(["", "Ann Lovelace"]),
    extension_days=st.sampled_from([0.0, 2.0]),
    override=st.none() | numbers,
    reason=st.just("oral exam & more"),
)


def test_a_page_without_a_mark_is_drawn(without_pictures, tmp_path):
    """Of bonus labs of which none was begun."""
    one = graded(replace(hand_in("ann"), assignment="kernels_bonus"))
    found = standings([replace(one, report=replace(one.report, labs={}))], Rules())
    drawn(tmp_path, found)
    (page,) = (tmp_path / "feedback").iterdir()
    assert "could not be drawn" not in page.read_text(encoding="utf-8")


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    points=numbers, hours=st.floats(-30, 80), percent=st.sampled_from([0.0, 7.5, 10.0]), person=st.none() | persons,
    bonus=st.none() | numbers, answered=st.booleans(), unknown=st.booleans(),
    out_of=st.sampled_from(["all", "gradable"]),
)
def test_the_page_and_every_table_state_the_same_mark(without_pictures, points, hours, percent, person, bonus, answered, unknown, out_of):
    one = graded(hand_in("ann"), points=points, speed=0.0)
    submitted = None if unknown else DUE + timedelta(hours=hours)
    one = replace(
        one,
        hand_in=replace(one.hand_in, submitted=submitted),
        answers={"w8a8": Answers("Ann", RIGHT)} if answered else {},
    )
    labs = {"w8a8": replace(one.report.labs["w8a8"], gradable_points=60.0)}
    one = replace(one, report=replace(one.report, labs=labs))
    one = one if bonus is None else with_bonus(one, bonus)
    (found,) = standings([one], Rules("last", DUE, percent, out_of=out_of), Roster((person,) if person else (), "roster.csv"))
    text = words(html.page(one.report, {}, statement(found), "digest"))
    most, canvas = csv.DictReader(io.StringIO(canvas_csv([found])))
    (moodle,) = csv.DictReader(io.StringIO(moodle_csv([found])))
    (grades,) = csv.DictReader(io.StringIO(grades_csv([found])))
    for title, part in (
        ("Triton kernels", "kernels"),
        ("Triton kernels (questions)", "questions"),
        ("Triton kernels (bonus)", "bonus"),
    ):
        said = re.search(rf"\b{part} ([\d.]+) of ([\d.]+) points", text)
        assert (said is not None) == (title in canvas)
        if said is not None:
            assert float(said[1]) == float(canvas[title]) == float(moodle[title])
            assert part == "bonus" or float(said[2]) == float(most[title]), "bonus points count on top of what is possible"
    assert float(grades["points"]) == float(re.search(r"\bkernels ([\d.]+) of", text)[1])
    assert (found.name if person else "ann") in text
    if grades["override"]:
        assert f"Set to {float(grades['override']):g} points by hand: oral exam & more." in text
    if grades["days_late"] not in ("", "0"):
        assert f"{grades['days_late']} day" in text
    assert ("How late it was is not known" in text) == (grades["days_late"] == "")
    if answered:
        assert all(f"w8a8, {name}" in text for name in ASKED)


def test_a_page_is_drawn_again_only_if_something_of_it_changed(tmp_path, without_pictures):
    def class_with(**fields):
        first = graded(hand_in("ann", hours=30), **fields)
        return standings([first, graded(hand_in("ben", hours=30))], Rules("last", DUE, 10.0))

    assert drawn(tmp_path, class_with()) == 2
    found = class_with()
    ann, ben = (tmp_path / page_address(one) for one in found)
    before = ann.stat().st_mtime_ns, ben.stat().st_mtime_ns
    assert drawn(tmp_path, found) == 0
    assert (ann.stat().st_mtime_ns, ben.stat().st_mtime_ns) == before
    assert drawn(tmp_path, class_with(points=31.0)) == 1
    assert "31 of 100" not in words(ben.read_text())
    assert drawn(tmp_path, class_with(points=31.0, mistake="truncation")) == 1, "the verdict of a case"
    assert drawn(tmp_path, class_with()) == 1
    assert drawn(tmp_path, standings([one.graded for one in found], Rules("last", DUE, 20.0))) == 2, (
        "lateness is on the page"
    )
    extended = Roster((Person("ann", name="Ann Lovelace"), Person("ben")), "roster.csv")
    assert drawn(tmp_path, standings([one.graded for one in found], Rules("last", DUE, 20.0), extended)) == 1
    assert "Ann Lovelace (ann)" in words(ann.read_text())


def test_a_new_weight_draws_no_error_map_again_and_a_regrade_that_says_the_same_no_page(tmp_path, monkeypatch):
    """Error maps are nearly all of a page's seconds; equal kernels share one."""
    maps = []
    shown = {"address": "a", "alt": "b", "width": 1, "height": 2}
    monkeypatch.setattr("grader.reporting.page.image", lambda draw: maps.append(draw) or shown if isinstance(draw, partial) else None)
    lab = wrong_report().labs["w8a8"]

    def class_with(points: float, seconds: float):
        tests = tuple(replace(test, metrics={**test.metrics, "seconds": seconds}) for test in lab.tests)
        whole = replace(lab, tests=tests, correctness_points=points)
        return standings([Graded(one, Report(one.place, DEVICE, None, {"w8a8": whole})) for one in map(hand_in, ("ann", "ben"))], Rules())

    assert (drawn(tmp_path, class_with(3.0, 1.0)), len(maps)) == (2, 1)
    assert (drawn(tmp_path, class_with(3.0, 2.0)), len(maps)) == (0, 1)
    assert (drawn(tmp_path, class_with(4.0, 2.0)), len(maps)) == (2, 1)
    (page, _) = (tmp_path / page_address(one) for one in class_with(4.0, 2.0))
    assert 'alt="b"' in page.read_text()


def test_no_page_stays_that_states_another_mark_than_the_gradebook(tmp_path, without_pictures):
    """Who is gone, is called otherwise now, or handed in nothing had a page with the mark of the run before."""
    drawn(tmp_path, standings([graded(hand_in(name)) for name in ("ann", "ben", "cat")], Rules()))
    notes = tmp_path / "feedback" / "notes.html"
    notes.write_text("the assistant's own")
    found = standings([graded(hand_in("ben")), graded(hand_in("dan"))], Rules(), Roster((Person("ann"), Person("ben")), "r.csv"))
    drawn(tmp_path, found)
    left = {path.name for path in (tmp_path / "feedback").iterdir()}
    assert left == {"notes.html", *(page_address(one).split("/")[1] for one in found if one.student in ("ben", "dan"))}


def test_a_page_that_is_not_whole_or_gone_is_drawn_again(tmp_path, without_pictures):
    found = standings([graded(hand_in(name)) for name in ("ann", "ben", "cat")], Rules())
    drawn(tmp_path, found)
    ann, ben, _ = (tmp_path / page_address(one) for one in found)
    ann.write_bytes(ann.read_bytes()[:3000])
    ben.unlink()
    assert drawn(tmp_path, found) == 2
    assert ann.read_text().endswith("</html>")


def test_other_code_draws_every_page_again(tmp_path, without_pictures, monkeypatch):
    from grader.classroom.batch import pages

    found = standings([graded(hand_in("ann"))], Rules())
    drawn(tmp_path, found)
    monkeypatch.setattr(pages, "_drawn_by", lambda: "another template")
    assert drawn(tmp_path, found) == 1
