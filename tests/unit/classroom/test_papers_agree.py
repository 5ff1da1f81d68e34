"""Every paper of a class states the same marks: tables, JSON, pages and archives of feedback, for any layout, and again after a rerun."""

from __future__ import annotations

import csv
import html
import json
import random
import re
import unicodedata

import pytest

from grader.classroom.batch.pages import page_name
from grader.classroom.roster import Person, Roster
from grader.reporting.text import cell
from tests.deliveries import archive, delivered
from tests.stub_class import LABS, check_files, grade_class
from tests.submissions import TESTS

pytestmark = pytest.mark.usefixtures("without_pictures")
RIGHT = {lab: (TESTS / "styles" / f"{lab}_plain.py").read_text(encoding="utf-8") for lab in LABS}
STUB = {lab: (TESTS.parent / "assignment" / f"{lab}.py").read_text(encoding="utf-8") for lab in LABS}
NAMES = [
    "Ann Lee", "ann lee", "Zoë, Ünal", unicodedata.normalize("NFD", "Chloë"), "李雷", "O'Brien \"Pat\"", "=cmd|' /C calc'!A0", "José\nNew",
    "-minus", "x_1",
]
TABLES = ("grades.csv", "canvas.csv", "moodle.csv", "files.csv")
PLACES = {
    "canvas": lambda name, at: f"{''.join(filter(str.isalpha, name.lower()))}_9{at:04}_70{at:02}_",
    "moodle": lambda name, at: f"{name}_{500 + at}_assignsubmission_file_/",
    "nbgrader": lambda name, at: f"submitted/{name}/kernels/",
    "folders": lambda name, at: f"{name}/",
}


def own_files(chance, lab):
    """A right kernel among what students and their computers leave beside it."""
    text, stub = RIGHT[lab], STUB[lab]
    return chance.choice([
        {f"{lab}.py": text}, {f"{lab}.py": text.replace("\n", "\r\n")}, {f"{lab}.py": f"\ufeff{text}"}, {f"{lab}.PY": text},
        {f"{lab}.zip": {f"in/{lab}.py": text, f"__MACOSX/in/._{lab}.py": "\0"}}, {f"{lab}.py": text, "old.zip": b"", "empty.py": ""},
        {f"{lab}, =1+1'.py": text}, {f"{lab}.zip": {f"{lab}.py": text, f"/etc/{lab}.py": stub, f"../{lab}.py": stub}},
        {f"{lab}.py": text, f"{lab.upper()}.py": stub},
        {unicodedata.normalize("NFC", f"é{lab}.py"): stub, unicodedata.normalize("NFD", f"é{lab}.py"): text},
    ])


@pytest.mark.parametrize("layout", PLACES)
@pytest.mark.parametrize("seed", range(3))
def test_every_paper_states_the_same_marks(tmp_path, layout, seed):
    chance = random.Random(f"{layout}{seed}")
    files, expected = {}, []
    for at, name in enumerate(chance.sample(NAMES, 5)):
        labs = chance.sample(LABS, chance.randint(at == 0, 2))
        mine = {file: text for lab in labs for file, text in own_files(chance, lab).items()} or {"sorry.pdf": ""}
        files |= {PLACES[layout](name, at) + file: text for file, text in mine.items()}
        expected.append(60.0 * len(labs))
    folder = delivered(tmp_path / "class", files if chance.random() < 0.5 else {"class.zip": archive(files)})
    roster = Roster((Person("nobody", "Nobody"),), "r.csv") if chance.random() < 0.3 else Roster()
    found = grade_class(folder, tmp_path / "out", roster=roster)
    check_files(tmp_path / "out", found)
    papers = {name: (tmp_path / "out" / name).read_text(encoding="utf-8") for name in TABLES}
    rows = list(csv.DictReader(papers["grades.csv"].splitlines(keepends=True)))
    marks = [row["points"] for row in rows]
    assert sorted(float(points) for points in marks if points) == sorted(expected)
    assert sorted(row[5] for row in list(csv.reader(papers["canvas.csv"].splitlines(keepends=True)))[2:]) == sorted(marks)
    columns = list(csv.DictReader(papers["moodle.csv"].splitlines(keepends=True)))
    named = [one.person or not (roster and one.graded.hand_in.number) for one in found]
    known = [points for points, has_row in zip(marks, named, strict=True) if has_row]
    assert [list(row.values())[-1].strip("-") for row in columns] == known, "whom only a platform names has no row beside a roster"
    lines = [json.loads(line) for line in (tmp_path / "out" / "grades.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [str(line["points"]) for line in lines if line["points"] is not None] == list(filter(None, marks))
    for one, points in zip(found, marks, strict=True):
        if points:
            page = (tmp_path / "out" / "feedback" / page_name(one)).read_text(encoding="utf-8")
            stated = f"{float(points):g} of {one.parts['kernels'].possible:g} points"
            assert re.search(rf"kernels\D*{stated}", html.unescape(re.sub(r"<[^>]+>|\s+", " ", page)))
    came = [row["file"] for row in csv.DictReader(papers["files.csv"].splitlines(keepends=True))]
    assert sorted(came) == sorted(map(cell, files))
    grade_class(folder, tmp_path / "out", roster=roster)
    assert papers == {name: (tmp_path / "out" / name).read_text(encoding="utf-8") for name in papers}
