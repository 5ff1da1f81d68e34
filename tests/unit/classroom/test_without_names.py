"""The page for everybody names nobody: not in its text, its titles, links and attributes, nor in the data of its pictures."""

from __future__ import annotations

import base64
import html as entities
import re
from dataclasses import replace
from urllib.parse import quote, unquote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader.classroom.batch.marks import Rules
from grader.classroom.batch.overview import numbers_of, pages, pseudonym_of
from grader.classroom.batch.pages import page_address
from grader.classroom.batch.similarity import Comparison, Group, Link
from grader.classroom.batch.standing import Graded, standings
from grader.classroom.roster import Person, Roster
from tests.unit.classroom.test_class_report import graded, hand_in

FIELDS = ("login", "name", "email", "canvas_id", "sis_id", "moodle_id", "github", "section")
words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=6, max_size=24).filter(
    lambda text: text.strip() == text
)
quick = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
people = st.lists(st.tuples(*[words] * len(FIELDS)), min_size=2, max_size=5, unique_by=lambda row: row[0].casefold())


def class_of(rows) -> tuple[list[Graded], Roster]:
    """A class in which everything that can name somebody does: files, reasons, messages, kernels, mistakes, answers, corrections."""
    roster = Roster(
        tuple(
            Person(**dict(zip(FIELDS, row, strict=True)), override=50.0, reason=f"oral exam of {row[1]}")
            for row in rows
        )
    )
    found = []
    for number, person in enumerate(roster.people):
        one = hand_in(
            person.login,
            hours=number,
            place=f"{person.login}_{person.canvas_id}.py",
            name=person.name,
            number=person.canvas_id,
        )
        mistake = f"of {person.name}" if number % 2 else "truncation"  # a name may be one of the catalogue
        known = graded(
            one,
            review=(f"{person.name} wrote to {person.email}",),
            ratio=1.5 + number,
            mistake=mistake,
            module=f"# {person.name}\n",
        )
        lab = known.report.labs["w8a8"]
        tests = tuple(replace(test, message=f"{person.login}.py line 1", diagnosis=person.name) for test in lab.tests)
        lab = replace(lab, tests=tests, message=person.login, title=person.name)
        found.append(replace(known, report=replace(known.report, labs={"w8a8": lab}, notes=(person.email,))))
    return found, roster


def projected(rows, secret="secret") -> str:
    found, roster = class_of(rows)
    names = [row[0] for row in rows]
    alike = Comparison(
        [Group("w8a8", tuple(names), (tuple(names[:2]),), (Link((names[0],), (names[1],), 0.9, 0.9),))],
        [f"{names[0]} was not compared"],
    )
    return pages(standings(found, Rules("last"), roster), alike, secret, page_address)["projected.html"]


def readings(text: str) -> list[str]:
    """The page as it stands, and as whoever reads it may decode it: entities, addresses, and what is in base64."""
    data = [base64.b64decode(part).decode("utf-8", "replace") for part in re.findall(r"base64,([A-Za-z0-9+/=]+)", text)]
    return [
        reading.casefold()
        for one in (text, *data)
        for reading in (one, entities.unescape(one), unquote(entities.unescape(one)))
    ]


@pytest.mark.slow
@quick
@given(rows=people)
def test_no_name_login_or_id_is_anywhere_on_the_page_for_everybody(without_pictures, rows):
    nobody = readings(projected([tuple(f"Zz{at}{field}zZ" for field in FIELDS) for at in range(len(rows))]))
    for reading, plain in zip(readings(projected(rows)), nobody, strict=True):
        for value in (value for row in rows for value in row):
            for written in {value.casefold(), entities.escape(value).casefold(), quote(value).casefold()}:
                assert reading.count(written) <= plain.count(written), value


@quick
@given(rows=people, others=people)
def test_the_page_for_everybody_is_the_same_whatever_the_names_are(without_pictures, rows, others):
    """Save for pseudonyms, which are made of names with a secret: here they are numbers."""
    count = min(len(rows), len(others))
    made = []
    for chosen in (rows[:count], others[:count]):
        found, roster = class_of(chosen)
        order = [row[0] for row in chosen]
        one = standings(found, Rules("last"), roster)
        made.append(numbers_of(one, lambda standing, order=order: str(order.index(standing.student))))
    assert made[0] == made[1]


def test_a_pseudonym_needs_the_secret():
    """Who knows every login cannot try them all; and a student keeps the pseudonym from run to run."""
    assert pseudonym_of("ann", "one") == pseudonym_of("ann", "one") != pseudonym_of("ann", "other")
