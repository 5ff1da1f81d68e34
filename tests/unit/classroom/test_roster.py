"""A roster is read strictly, finds whoever handed in, and what it corrects is in every mark."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.classroom.batch.exports import canvas_csv, grades_csv, moodle_csv
from grader.classroom.batch.hand_in import HandIn
from grader.classroom.batch.intake import collect
from grader.classroom.batch.marks import Rules
from grader.classroom.batch.standing import standings, times_of_files, unknown_times
from grader.classroom.roster import COLUMNS, Person, Roster, load_roster, on_roster
from grader.labs.question import posed, questions_of
from grader.reading.answers import Answers
from grader.unusable import Unusable
from tests.unit.classroom.test_class_report import DUE, graded, hand_in, rows_of

CLASS = """login,name,email,canvas_id,moodle_id,github,section,extension_days,handed_in,override,reason
ann,Ann Lovelace,ann@example.org,90000,501,AnnL,A,2,,,
ben,"Bénet, Ben",ben@example.org,90001,,ben-b,A,,2026-11-21 10:00,,
cat,Cat Wei,,90002,503,,B,,,54.5,oral exam
dan,Wei Zhang,,,504,,B,,,,
eve,Wei Zhang,,,505,,B,,,,
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "roster.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def roster(tmp_path) -> Roster:
    return load_roster(written(tmp_path, CLASS))


def test_a_roster_is_read(roster, tmp_path):
    ann, ben, cat, *_ = roster.people
    assert (ann.extension_days, ann.canvas_id, ann.section, ann.override) == (2.0, "90000", "A", None)
    assert (ben.name, ben.handed_in) == ("Bénet, Ben", datetime(2026, 11, 21, 10, tzinfo=UTC))
    assert (cat.override, cat.reason) == (54.5, "oral exam")
    semicolons = "\ufeff" + CLASS.replace('"Bénet, Ben"', "Ben Bénet").replace(",", ";").replace("54.5", "54,5").replace("\n", "\r\n")
    again = load_roster(written(tmp_path, semicolons))
    assert [replace(one, name="") for one in again.people] == [replace(one, name="") for one in roster.people]


def test_the_columns_of_canvass_export_are_known(tmp_path):
    text = 'Student,ID,SIS User ID,SIS Login ID,Section,extension_days\n"Doe, Jane",90000,S1,jdoe,GPU 1,2\n'
    (jane,) = load_roster(written(tmp_path, text)).people
    assert jane == Person("jdoe", "Doe, Jane", canvas_id="90000", sis_id="S1", section="GPU 1", extension_days=2.0)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no column 'login'"),
        ("name\nAnn", "no column 'login'; expected login and any of name"),
        ("login,extention\nann,2", "a column 'extention'; expected"),
        ("login,login\nann,ann", "two columns 'login'"),
        ("login\n", "no row below its header"),
        ("login,name\n,Ann", "line 2 has no login"),
        ("login,extension_days\nann,two", "line 2 has extension_days 'two', expected a number of days from 0"),
        ("login,extension_days\nann,-1", "extension_days '-1'"),
        ("login,extension_days\nann,nan", "extension_days 'nan'"),
        ("login,handed_in\nann,2026-11-20", "line 2 has handed_in '2026-11-20', expected a date and a time"),
        ("login,handed_in\nann,20.11.2026 10:00", "expected a date and a time"),
        ("login,override\nann,54", "line 2 has the override '54' but no reason"),
        ("login,reason\nann,ill", "line 2 has the reason 'ill' but no override"),
        ("login,canvas_id\nann,9e4", "canvas_id '9e4', expected the number in the column ID"),
        ("login\nann\nANN", "line 3 has the login 'ANN' of line 2"),
        ("login,canvas_id\nann,7\nben,7", "line 3 has the canvas_id '7' of line 2"),
        ("login,name\nann,Lovelace, Ann", "line 2 has 3 cells, expected 2; put quotes around"),
    ],
)
def test_what_cannot_be_read_is_told_by_its_line(tmp_path, text, sentence):
    with pytest.raises(Unusable, match=re.escape(sentence)):
        load_roster(written(tmp_path, text))


def test_every_bad_row_has_its_sentence(tmp_path):
    text = "login,extension_days,override\n" + "".join(f"s{n},x,1\n" for n in range(30))
    with pytest.raises(Unusable) as problem:
        load_roster(written(tmp_path, text))
    lines = str(problem.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "and 40 more"
    with pytest.raises(Unusable, match="save it as CSV in UTF-8"):
        load_roster(tmp_path)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200) | st.lists(st.sampled_from([*COLUMNS, ",", "\n", ";", '"', "1", "ann", "\0", "\r"]), max_size=60).map("".join))
def test_any_text_is_a_roster_or_a_sentence(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_text(text, encoding="utf-8", errors="replace", newline="")
    with suppress(Unusable):
        assert load_roster(path).people


@pytest.mark.parametrize(
    ("found", "login"),
    [
        (HandIn("lovelaceann_90000", "", "p", Path(), platform="canvas", number="90000"), "ann"),
        (HandIn("somebodyelse_90001", "", "p", Path(), platform="canvas", number="90001"), "ben"),
        (HandIn("Jane Doe", "", "p", Path(), platform="moodle", number="503"), "cat"),
        (HandIn("Ben Benet", "", "p", Path()), None),
        (HandIn("Ben Bénet", "", "p", Path(), platform="moodle", number="777"), "ben"),
        (HandIn("Wei Cat", "", "p", Path(), platform="moodle", number="777"), None),
        (HandIn("Wei Zhang", "", "p", Path(), platform="moodle", number="505"), "eve"),
        (HandIn("Wei Zhang", "", "p", Path()), None),
        (HandIn("weicat_7", "", "p", Path(), platform="canvas", number="7"), None),
        (HandIn("zhangwei_7", "", "p", Path(), platform="canvas", number="7"), None),
        (HandIn("bénetben_8", "", "p", Path()), None),
        (HandIn("CAT", "", "p", Path()), "cat"),
        (HandIn("ann@example.org", "", "p", Path()), "ann"),
        (HandIn("s1", "", "p", Path(), name="Ann Lovelace"), "ann"),
        (HandIn("s1", "", "p", Path(), email="BEN@example.org"), "ben"),
        (HandIn("lab-1-annl", "", "p", Path(), platform="clone"), "ann"),
        (HandIn("lab-1-ben-b", "", "p", Path(), platform="clone"), "ben"),
        (HandIn("Lovelace, Ann", "", "p", Path(), platform="clone"), "ann"),
        (HandIn("anna", "", "p", Path()), None),
    ],
)
def test_who_handed_in_is_found_on_the_roster_or_nobody_is(roster, found, login):
    """The platform's number decides; a name does only where one row has it and no number speaks against it."""
    (one,) = on_roster([found], roster)
    assert one.student == (login or found.student)
    assert one.label == (found.student if login else "")


def test_corrections_for_one_are_in_the_mark(roster):
    handed_in = [graded(hand_in("ann", hours=30)), graded(hand_in("ben", hours=90)), graded(hand_in("cat"))]
    found = standings(handed_in, Rules("last", DUE, 10.0), roster)
    ann, ben, cat, dan, _ = found
    assert (ann.mark.days_late, ann.points) == (0, 80.0)
    assert (ben.mark.days_late, ben.points) == (1, 72.0)
    assert (cat.points, cat.mark.earned, cat.mark.reason) == (54.5, 80.0, "oral exam")
    assert dan.absent
    assert dan.points is None
    assert ann.mark.steps == ("80 of 100 points for the kernels.", "Due 2 days later than for the others.")
    assert ben.mark.steps == ("80 of 100 points for the kernels.", "1 day late: 10 % are taken off.")
    assert cat.mark.steps[-1] == "Set to 54.5 points by hand: oral exam."


def test_tables_say_who_it_is(roster):
    canvas = hand_in("lovelaceann_90000", platform="canvas", number="90000")
    moodle = hand_in("Eli Guest", platform="moodle", number="501")
    found = standings([graded(one) for one in on_roster([canvas, hand_in("stranger"), moodle], roster)], Rules(), roster)
    rows = {row["Student"]: row for row in rows_of(canvas_csv(found))[1:]}
    ann = rows["Ann Lovelace"]
    assert (ann["ID"], ann["SIS Login ID"], ann["Section"], ann["Triton kernels"]) == ("90000", "ann", "A", "80.0")
    assert (rows["Cat Wei"]["ID"], rows["Cat Wei"]["Triton kernels"]) == ("90002", "54.5")
    assert rows["Bénet, Ben"]["Triton kernels"] == "", "nothing was handed in, and nothing decided"
    logins = [row["username"] for row in rows_of(moodle_csv(found))]
    assert logins == ["ann", "ben", "cat", "dan", "eve", "stranger"], "Moodle's user name of Eli Guest is not known"
    table = {row["student"]: row for row in rows_of(grades_csv(found))}
    assert (table["cat"]["override"], table["cat"]["reason"], table["dan"]["review"]) == ("54.5", "oral exam", "nothing was handed in")
    assert "not on roster.csv" in table["stranger"]["review"]
    assert table["ann"]["email"] == "ann@example.org"


def test_a_neighbours_name_in_the_questions_is_flagged(roster):
    def answering(student: str, name: str):
        return replace(graded(hand_in(student)), answers={"w8a8": Answers(name, {})})

    written = {"ann": "Ann Lovelace", "ben": "ann", "cat": "Kitty", "dan": "someone", "eve": "someone"}
    looks = {one.student: one.review for one in standings([answering(*pair) for pair in written.items()], Rules(), roster)}
    assert looks["ann"] == looks["cat"] == ()
    assert looks["ben"] == ('its questions have student = "ann", the name of ann',)
    assert looks["dan"] == looks["eve"] == ('its questions have student = "someone", a name that others wrote too',)
    ann, ben = (replace(one, hand_in=replace(one.hand_in, holds=(Path("both"),))) for one in map(answering, ("ann", "ben"), ("ann",) * 2))
    assert [one.review for one in standings([ann, ben], Rules(), roster)[:2]] == [(), ()], "they handed in together"
    written = {"ann": "Ann Lovelace", "ben": "annlovelace", "cat": "Kitty", "dan": "some one", "eve": "SomeOne"}
    question = next(iter(questions_of("w8a8").values()))
    assert repr(posed("w8a8", question, written["ben"])) == repr(posed("w8a8", question, written["ann"]))
    looks = {one.student: one.review for one in standings([answering(*pair) for pair in written.items()], Rules(), roster)}
    assert looks["ann"] == looks["cat"] == ()
    said = {who: looks[who][0].split(", ")[-1] for who in ("ben", "dan", "eve")}
    others = dict.fromkeys(("dan", "eve"), "a name that others wrote too")
    assert said == {"ben": "the name of ann", **others}, "the same numbers are drawn from it"
    alone = standings([answering(*pair) for pair in written.items()], Rules())
    assert [one.review for one in alone] == [()] * 5, "without a roster as before"


def test_unknown_lateness_is_said(roster):
    rules = Rules("last", DUE, 10.0)
    timeless = [graded(replace(hand_in(name), submitted=None)) for name in ("ann", "ben", "cat")]
    found = standings(timeless, rules, roster)
    assert unknown_times(found, rules) == "2 hand-ins have no known time: --due has no effect on them", "ben's is in the roster"
    assert [one.mark.days_late for one in found[:3]] == [None, 1, None]
    assert unknown_times(found, Rules()) == ""
    assert times_of_files(found) == ""
    by_disk = [graded(replace(hand_in(name), submitted=DUE + timedelta(days=3), by_disk=True)) for name in ("ann", "cat")]
    assert times_of_files(standings(by_disk, rules)).startswith("2 hand-ins are late by when the file was last changed")
    assert times_of_files(standings(by_disk, Rules())) == ""
    late = replace(hand_in("ann", platform="canvas", number="90000"), submitted=None, late=True)
    ann = standings([graded(late)], rules, roster)[0]
    assert ann.mark.days_late is None, "late by Canvas's word, within the extension or not"
    assert "handed_in" in ann.review[0]
    assert "only LATE in the file name counts" in unknown_times([ann], rules)


def test_corrections_belong_to_one_assignment(roster):
    two = [graded(replace(hand_in("ann"), assignment=name)) for name in ("lab1", "lab2")]
    with pytest.raises(Unusable, match="lab1, lab2"):
        standings(two, Rules(), roster)
    plain = Roster(tuple(Person(one.login) for one in roster.people))
    assert len(standings(two, Rules(), plain)) == 10


@settings(max_examples=100, deadline=None)
@given(hours=st.floats(-100, 1000), extension=st.floats(0, 30), percent=st.floats(0, 100), free=st.integers(0, 5))
def test_an_extension_never_costs_and_moves_the_deadline(hours, extension, percent, free):
    rules = Rules("last", DUE, percent, free)
    one = graded(hand_in(hours=hours))
    (plain,) = standings([one], rules)
    (extended,) = standings([one], rules, Roster((Person("ann", extension_days=extension),)))
    assert extended.points >= plain.points
    moved = replace(rules, due=DUE + timedelta(days=extension))
    assert extended.points == standings([one], moved)[0].points


NAMES = "login,name,github,email\nwz1,Wei Zhang,,wz@u.edu\nann,Ann,ann,\nmary,Mary,,\n"
TEAMS = "login,name,moodle_id\nzoe,Zoe Fox,17\nann,Ann Lo,901\n"
FIT, ACCOUNT = "several students fit the row", "is not the account of"
FEW, UNCLEAR = "few of Moodle's numbers are on the roster", "2001 is the login of one row of r.csv and an id of another"


def told_apart(platform, *students):
    """Hand-ins as a platform tells them apart. students: the name, the number and the address of each."""
    parts = [(*one, "", "")[:3] if isinstance(one, tuple) else (one, "", "") for one in students]
    named = {"gradescope": "Wei Zhang"}.get(platform, "")
    return [HandIn(who, "", who, Path(), platform=platform, number=number, email=email, name=named) for who, number, email in parts]


WEI, OTHER = ("zhangwei", "501"), ("zhangwei", "502")


@pytest.mark.parametrize(
    ("text", "hand_ins", "logins", "sentences"),
    [
        (NAMES, told_apart("canvas", WEI, OTHER), ["zhangwei", "zhangwei"], [FIT, FIT]),
        (NAMES, told_apart("canvas", WEI), ["wz1"], [""]),
        (NAMES, told_apart("canvas", WEI, ("zhangwei", "502", "wz@u.edu")), ["zhangwei", "wz1"], [FIT, ""]),
        (NAMES, told_apart("clone", "lab-ann", "lab-mary-ann"), ["ann", "lab-mary-ann"], ["", ACCOUNT]),
        (NAMES, told_apart("clone", "lab-mary-ann", "lab-mo"), ["lab-mary-ann", "lab-mo"], [ACCOUNT, ""]),
        (NAMES, told_apart("gradescope", ("wz@u.edu", "", "wz@u.edu"), ("x@y.z", "", "x@y.z")), ["wz1", "x@y.z"], ["", FIT]),
        (NAMES, told_apart("clone", "lab1-ann", "lab2-ann"), ["ann", "ann"], ["", ""]),
        (NAMES, told_apart("canvas", WEI, OTHER) + told_apart("", "Wei Zhang"), ["zhangwei", "zhangwei", "wz1"], [FIT, FIT, ""]),
        (TEAMS, told_apart("moodle", ("Team A", "17"), ("Team B", "18"), ("Team C", "19")), ["Team A", "Team B", "Team C"], [FEW, "", ""]),
        (TEAMS, told_apart("moodle", ("Teilnehmer/in", "17")), ["zoe"], [""]),
        ("login,name\nram,राम\n", told_apart("", "रमा", "राम"), ["रमा", "ram"], ["", ""]),
        ("login,sis_id\n1001,2001\n2001,3001\n", told_apart("", "2001", "3001"), ["2001 (unclear)", "2001"], [UNCLEAR, ""]),
    ],
    ids=["two of a name", "one", "an address", "clones", "an account that ends so", "two addresses", "labs of one", "a folder beside",
         "teams' numbers", "one participant's", "vowel signs", "a login and an id"],
)
def test_two_whom_a_platform_tells_apart_are_never_one_row(tmp_path, text, hand_ins, logins, sentences):
    (tmp_path / "r.csv").write_text(text, encoding="utf-8")
    found = on_roster(hand_ins, load_roster(tmp_path / "r.csv"))
    assert [one.student for one in found] == logins
    for one, sentence in zip(found, sentences, strict=True):
        assert len(one.notes) == bool(sentence)
        assert sentence in "".join(one.notes)


def test_a_number_that_stands_in_anothers_name_costs_nobody_the_row(tmp_path):
    """Canvas's user 4 chose a name that ends in _99, the number of another: both are known by their names."""
    (tmp_path / "class").mkdir()
    for name in ("zeve_99_4_59_w8a8.py", "bben_99_60_w8a8.py", "locy_5_61_w8a8.py"):
        (tmp_path / "class" / name).write_text(f"def W8A8_MM(a):\n    b = '{name}'\n", encoding="utf-8")
    (tmp_path / "r.csv").write_text("login,name,canvas_id\nben,Ben B,99\neve,Eve Z,4\ncy,Cy Lo,5\n", encoding="utf-8")
    found = on_roster(collect(tmp_path / "class", tmp_path / "w").hand_ins, load_roster(tmp_path / "r.csv"))
    assert {one.student: next(Path(one.path).iterdir()).read_text(encoding="utf-8").split("'")[1][:4] for one in found} == {
        "ben": "bben", "eve": "zeve", "cy": "locy"
    }
    assert len({one.key for one in found}) == 3


@pytest.mark.parametrize("end", ["\x0b", "\u2028", "\x85"])
def test_only_a_line_ends_a_row(tmp_path, end):
    (tmp_path / "r.csv").write_text(f"login,name\r\nann,Ann{end}Lo\r\nben,Ben\r\n", encoding="utf-8", newline="")
    assert [one.login for one in load_roster(tmp_path / "r.csv").people] == ["ann", "ben"]


@pytest.mark.parametrize(
    ("names", "logins"),
    [
        (("Team A-Ann Lovelace_901", "Team A-Cat Wei_902", "Team-2-Ben Bénet_903", "Team-2-Who Else_904"), ["ann", "cat", "ben", None]),
        (("Team A-Wei Zhang_504", "Default group-Wei Zhang_505"), ["dan", "eve"]),
        (("Anne-Cat Wei_901", "Ben Bénet_902", "Ann Lovelace_903"), [None, "ben", "ann"]),
        (("Eve-Ann Lovelace_901",), [None]),
        (("Eve-Ann Lovelace_901", "Mia-Ben Bénet_902", "Cat Wei_903"), [None, None, "cat"]),
    ],
    ids=["teams", "by number", "a name with a hyphen", "one", "two of three"],
)
def test_members_of_moodles_teams_are_found(roster, names, logins):
    """Where teams hand in, Moodle writes the team's name and a hyphen before each name."""
    parts = [name.rpartition("_") for name in names]
    found = on_roster([replace(hand_in(student, place=student), platform="moodle", number=number) for student, _, number in parts],
                      replace(roster, people=tuple(replace(one, moodle_id=one.moodle_id if one.login in ("dan", "eve") else "")
                                                   for one in roster.people)))
    assert [one.student if one.label else None for one in found] == logins
