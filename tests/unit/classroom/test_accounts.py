"""Whatever comes in, every file of it has one fate, the sum comes out, and a file is called graded only where it is."""

from __future__ import annotations

import csv
import os
import shutil
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader.classroom.batch.accounts import FATES, account, everything_below, tally, with_ungraded_named
from grader.classroom.batch.coordinating import without_verdict
from grader.classroom.batch.folders import may_be_work
from grader.classroom.batch.intake import TWICE_SPELLED, collect
from grader.classroom.batch.marks import Rules
from grader.classroom.batch.standing import Graded, standings
from grader.labs import get_lab
from grader.model import Refusal, Report
from grader.reading import read
from grader.reading.files import is_source
from grader.unusable import Unusable
from tests.deliveries import archive, delivered
from tests.stub_class import DEVICE, grade_class
from tests.submissions import TESTS, style_file
from tests.unit.classroom.test_intake import write, zipped

LAYOUTS = ("nbgrader", "folders", "canvas", "moodle", "gradescope")
WORTH_A_LOOK = {"not graded", "unreadable", "left out", "not recognised"}
EXAMPLES = int(os.environ.get("ACCOUNT_EXAMPLES", "60"))

names = st.sampled_from(
    ["w8a8.py", "dds.ipynb", "W4A16.PY", "notes.pdf", "timestamp.txt", ".DS_Store", ".hidden.py", "__MACOSX/._w8a8.py", "a_1_2_w8a8.py",
     "sub/w8a8.py", "sub/deep/dds.py", "lab1/w8a8.py", "lab2/w8a8.py", ".ipynb_checkpoints/w8a8-checkpoint.ipynb", "work.zip", "sub/x.zip",
     "broken.zip", "smith_bob_w8a8.py", "\u202eten.py", "submission_metadata.yml", "grader/model.py", "assignment/w8a8.py"]
)
students = st.sampled_from(["ann", "ben", "Ann Lovelace", "李雷", "team_1", "a_1_2", "anon"])
numbers = st.integers(1, 4)


@st.composite
def placed(draw, layout: str) -> str:
    """Where a file of somebody lies in a layout, or where nobody's does."""
    student, number, name = draw(students), draw(numbers), draw(names)
    if draw(st.integers(0, 5)) == 0:
        return name
    if layout == "canvas":
        flat, late = name.replace("/", "_"), draw(st.sampled_from(["", "LATE_"]))
        who = draw(st.sampled_from([f"{late}anon_Xy{number}", f"{student.replace(' ', '').lower()}_{late}{90000 + number}"]))
        return draw(st.sampled_from([f"{who}_{draw(st.integers(1, 99))}_{flat}", f"{who}_text.html"]))
    if layout == "moodle":
        one = f"{student}_{500 + number}_assignsubmission_{draw(st.sampled_from(['file', 'onlinetext']))}"
        return draw(st.sampled_from([f"{one}_/{name}", f"{one}/{name}", f"{one}_{name.replace('/', '_')}"]))
    if layout == "gradescope":
        return f"submission_{number}/{name}"
    if layout == "nbgrader":
        return f"{student}/{draw(st.sampled_from(['lab1', 'lab2']))}/{name}"
    return draw(st.sampled_from([f"{student}/{name}", f"{student}.py", f"{student}.zip"]))


def content(place: str, number: int) -> bytes:
    """Text that is found again wherever it is copied or unpacked to; in an archive, inside it."""
    text = f"# marker {number}.\nx = 1\n".encode()
    if place.endswith("broken.zip"):
        return b"PK\x03\x04" + text
    return archive({"inner/w8a8.py": text}) if place.endswith(".zip") else text


METADATA = """submission_1:
  :submitters:
  - :name: Ann Lovelace
    :sid: s1
  - :name: Ben
  :created_at: 2026-11-20 22:00:00 Z
submission_2:
  :submitters:
  - :email: cat@example.org
submission_9:
  :submitters: []
"""


@st.composite
def trees(draw) -> tuple[bool, dict[str, bytes]]:
    """Whether it comes as an archive, and the files of one of the layouts."""
    layout = draw(st.sampled_from(LAYOUTS))
    places = draw(st.lists(placed(layout), max_size=14, unique=True))
    if layout == "gradescope":
        places = [place for place in places if place != "submission_metadata.yml"]
    files = {place: content(place, number) for number, place in enumerate(places)}
    if layout == "gradescope":
        files["submission_metadata.yml"] = METADATA.encode()
    top = draw(st.sampled_from(["", "download/", "submitted/"]))
    return draw(st.booleans()), {f"{top}{place}": data for place, data in files.items()}


def laid_out(root: Path, files: dict[str, bytes]) -> int:
    """Writes those of the files that a file system can hold together; returns how many."""
    count = 0
    for place, data in files.items():
        with suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
            (root / place).parent.mkdir(parents=True, exist_ok=True)
            (root / place).write_bytes(data)
            count += 1
    return count


def accounted(path: Path, work: Path):
    """What became of everything in `path`, by name; and the texts that are graded."""
    intake = collect(path, work)
    found = standings([Graded(one, Report(one.place, DEVICE, None, {})) for one in intake.hand_ins], Rules())
    graded = [one.graded.hand_in for one in found if not (one.graded.hand_in.refused or one.graded.hand_in.failed)]
    texts = b""
    for hand_in in graded:
        inside = [hand_in.path] if hand_in.path.is_file() else list(filter(is_source, hand_in.path.iterdir()))
        texts += b"".join(child.read_bytes() for child in inside if child.is_file() and not child.name.startswith("."))
    return account(intake.came, intake.hand_ins, found), texts, {one.name: one.path for one in intake.came}


@settings(
    max_examples=EXAMPLES, deadline=None, derandomize="ACCOUNT_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(trees())
def test_the_sum_comes_out_and_graded_means_graded(tree):
    packed, files = tree
    place = Path(tempfile.mkdtemp())
    try:
        if packed:
            path, count = zipped(place / "class.zip", files), len(files)
        else:
            path = place / "class"
            path.mkdir()
            count = laid_out(path, files)
        try:
            found, texts, paths = accounted(path, place / "work")
        except Unusable as problem:
            said = str(problem)
            found, texts, paths = [], b"", {}
        if not found:
            assert f"of its {count} files" in said or "submission_metadata.yml cannot be read" in said
            return
        assert sum(Counter(one.fate for one in found).values()) == len(found) == count, tally(found)
        assert tally(found).startswith((f"{count} files: ", "1 file: "))
        for one in found:
            assert one.fate in FATES
            assert one.reason or one.fate not in WORTH_A_LOOK
            assert may_be_work(Path(one.file)) or one.fate != "unreadable", one
            data = files[one.file]
            is_text = is_source(Path(one.file)) and paths[one.file] is not None
            marker = data[: data.index(b"\n")] if data.startswith(b"# marker") else None
            if one.fate == "graded" and is_text:
                assert marker in texts, one
            if marker and marker in texts:
                assert one.fate == "graded", one
    finally:
        shutil.rmtree(place, ignore_errors=True)


def fates(path, tmp_path):
    return {one.file: one.fate for one in accounted(path, tmp_path / "work")[0]}


def test_what_vanished_once(tmp_path):
    """Three names in one Canvas archive: anonymous ones are students, and what is nobody's is listed."""
    names = ["lovelaceada_90000_500100_w8a8.py", "anon_Xy1zQ_500900_w8a8.py", "LATE_anon_Qq_500901_dds.py", "smith_bob_w8a8.py"]
    packed = zipped(tmp_path / "submissions.zip", dict.fromkeys(names, "x"))
    intake = collect(packed, tmp_path / "w")
    assert [(one.student, one.late) for one in intake.hand_ins] == [("anon_Qq", True), ("anon_Xy1zQ", False), ("lovelaceada_90000", False)]
    found = accounted(packed, tmp_path / "work")[0]
    assert tally(found) == "4 files: 3 graded, 1 not recognised"
    (lost,) = [one for one in found if one.fate == "not recognised"]
    assert (lost.file, "belongs to no student" in lost.reason) == ("smith_bob_w8a8.py", True)


def test_what_gradescope_does_not_list_is_told_so(tmp_path):
    metadata = "submission_1:\n  :submitters:\n  - :name: Ann\n"
    files = {"x/submission_metadata.yml": metadata, "x/submission_1/w8a8.py": "a", "x/submission_2/w8a8.py": "b"}
    found = accounted(zipped(tmp_path / "export.zip", files), tmp_path / "work")[0]
    (lost,) = [one for one in found if one.fate == "not recognised"]
    assert (lost.file, lost.reason) == ("x/submission_2/w8a8.py", "belongs to no student: submission_metadata.yml does not list it")


def test_a_file_of_a_group_is_everybodys(tmp_path):
    files = {"x/submission_metadata.yml": METADATA, "x/submission_1/w8a8.py": "a", "x/submission_2/w8a8.py": "b"}
    found = {one.file: one for one in accounted(zipped(tmp_path / "export.zip", files), tmp_path / "work")[0]}
    both, alone = (found[f"x/submission_{number}/w8a8.py"].student for number in (1, 2))
    assert (len(both.split(", ")), len(alone.split(", "))) == (2, 1)


def test_a_damaged_archive_of_a_class_is_no_student(tmp_path):
    path = zipped(tmp_path / "class.zip", {f"ann_{n}_1_w8a8.py": "x" * 2000 for n in range(9)})
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(Unusable, match="not a readable zip archive"):
        collect(path, tmp_path / "w")


@pytest.mark.parametrize("files", [{"notes.pdf": "x"}, {"a.docx": "x", "b/c.txt": "y"}, {}])
def test_nothing_recognised_is_no_class(tmp_path, files):
    with pytest.raises(Unusable, match=f"of its {len(files)} files"):
        collect(zipped(tmp_path / "class.zip", files), tmp_path / "w")


def test_folders_of_a_student_name_no_column(tmp_path):
    """Sixty folders of one student were fifty columns of a hundred points; only below nbgrader's submitted/ do folders name assignments."""
    root = write(tmp_path / "class", *(f"mal/Triton kernels (bonus) {n}/w8a8.py" for n in range(60)), "zoe/lab1/w8a8.py")
    write(root / "zoe" / "lab1", "timestamp.txt", text="2020-01-01 00:00 UTC")
    intake = collect(root, tmp_path / "w")
    assert {(one.student, one.assignment, one.submitted) for one in intake.hand_ins} == {("mal", "", None), ("zoe", "", None)}
    found = fates(root, tmp_path)
    assert Counter(found.values())["graded"] == 2
    assert found["zoe/lab1/timestamp.txt"] == "left out"
    shutil.move(root, tmp_path / "submitted")
    assert {one.assignment for one in collect(tmp_path / "submitted", tmp_path / "w").hand_ins} == {""}
    write(tmp_path, "gradebook.db")
    assert ("zoe", "lab1") in {(one.student, one.assignment) for one in collect(tmp_path / "submitted", tmp_path / "w").hand_ins}
    assert fates(tmp_path / "submitted", tmp_path)["zoe/lab1/timestamp.txt"] == "read for names and times"


def test_superseded_deeper_doubled_and_links(tmp_path):
    root = write(tmp_path / "class", "ann/w8a8.py", "ann/more/dds.py", "ben.py", "ben/w8a8.py", "stray.xlsx")
    write(root, "cat/a/w8a8.py", "cat/b/w8a8.py")
    (root / "dan").symlink_to(root / "ann")
    (root / "ann" / "link.py").symlink_to("/etc/passwd")
    assert fates(root, tmp_path) == {
        "ann/w8a8.py": "graded", "ann/link.py": "left out", "ann/more/dds.py": "left out", "ben.py": "graded", "ben/w8a8.py": "superseded",
        "cat/a/w8a8.py": "graded", "cat/b/w8a8.py": "left out", "stray.xlsx": "not recognised", "dan": "not recognised",
    }


def test_a_file_whose_kernel_is_taken_from_another_is_superseded(tmp_path):
    root = write(tmp_path / "class", "ann/notes.py")
    for name, style in {"w8a8.py": "w8a8_plain", "first_try.py": "w8a8_descriptor", "dds.py": "dds_plain"}.items():
        shutil.copy(style_file(style), root / "ann" / name)
    intake = collect(root, tmp_path / "w")
    read_in = read(intake.hand_ins[0].path, [get_lab("w8a8"), get_lab("dds")])
    refused = {lab: without_verdict(lab, Refusal("not_graded", "no"), gpu=False) for lab in read_in.labs}
    labs = {lab: replace(report, status="graded") for lab, report in refused.items()}
    files = {lab: source.path for lab, source in read_in.labs.items()}
    graded = [Graded(intake.hand_ins[0], Report("ann", DEVICE, None, labs), files=files)]
    came = with_ungraded_named(intake.came, graded, read_in.labs)
    other = [replace(graded[0], files={})]
    told = account(with_ungraded_named(intake.came, other, ["w4a16"]), intake.hand_ins, standings(other, Rules()))
    assert {one.file: one.fate for one in told}["ann/dds.py"] == "not asked for"
    fates_and_reasons = {one.file: (one.fate, one.reason) for one in account(came, intake.hand_ins, standings(graded, Rules()))}
    assert fates_and_reasons == {
        "ann/w8a8.py": ("graded", ""), "ann/dds.py": ("graded", ""), "ann/notes.py": ("graded", ""),
        "ann/first_try.py": ("superseded", "its kernel is taken from w8a8.py"),
    }


@pytest.mark.usefixtures("without_pictures")
def test_beside_a_kernel_that_is_refused_another_file_with_one_is_not_graded(tmp_path):
    """It was listed as graded, beside a page that says that the other one counts."""
    texts = {"ann/w8a8.py": '@triton.autotune(configs=[], key=["M"])\ndef W8A8_MM(x_ptr):\n    y = 1\n', "ben/dds.py": "def f(: x\n"}
    texts["ann/better.py"] = texts["ben/a_copy.py"] = (TESTS / "styles" / "w8a8_plain.py").read_text()
    found = grade_class(delivered(tmp_path / "class", texts), tmp_path / "out")
    assert [one.labs["w8a8"].status for one in found] == ["rejected", "graded"]
    rows = csv.DictReader((tmp_path / "out" / "files.csv").open(encoding="utf-8-sig"))
    told = {row["file"]: (row["fate"], row["reason"]) for row in rows}
    why = "dds.py has no readable DDS_MM: dds.py line 1: Python cannot read this line (invalid syntax)"
    assert told == {
        "ann/w8a8.py": ("graded", ""), "ann/better.py": ("superseded", "its kernel is taken from w8a8.py"),
        "ben/a_copy.py": ("graded", ""), "ben/dds.py": ("not graded", why),
    }


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize(
    "name", ["poe_90003_5_dds.ipynb", "Poe_9_assignsubmission_file_/dds.ipynb", "poe/dds.ipynb", "poe_90003_5_work.zip"]
)
def test_a_file_of_which_nothing_could_be_read_is_not_called_graded(tmp_path, name):
    cut = '{"cells": [{"cell_type": "co'
    files = {name: {"dds.ipynb": cut} if name.endswith("zip") else cut}
    grade_class(delivered(tmp_path / "class", files), tmp_path / "out")
    (row,) = csv.DictReader((tmp_path / "out" / "files.csv").open(encoding="utf-8-sig"))
    assert row["fate"] == "not graded"
    assert "is not a Jupyter notebook" in row["reason"]
    assert "is not a Jupyter notebook" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "Nobody: everything could be read" not in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "names",
    [("doe_90000_500_w8a8.py", "roe_9_5_w8a8.py", "roe_9_4_mine.py"), ("ann/w8a8.py", "ben/a/w8a8.py", "ben/b/w8a8.py", "ben/b/mine.py")],
    ids=["canvas", "folders"],
)
def test_files_that_were_copied_to_be_read_are_accounted_for_when_the_copies_are_gone(tmp_path, names, packed):
    """A class whose files had been copied was graded whole, and then the run ended without a table."""
    texts = {name: style_file(f"w8a8_{'plain' if 'mine' in name else 'descriptor'}").read_text() for name in names}
    root = zipped(tmp_path / "class.zip", texts) if packed else delivered(tmp_path / "class", texts)
    assert len(grade_class(root, tmp_path / "out")) == 2
    rows = csv.DictReader((tmp_path / "out" / "files.csv").open(encoding="utf-8-sig"))
    told = {row["file"]: (row["fate"], row["reason"]) for row in rows}
    assert {told[name][0] for name in names if "/b/w8" not in name and "mine" not in name} == {"graded"}
    assert [told[name] for name in names if "mine" in name] == [("superseded", "its kernel is taken from w8a8.py")]


def test_a_stray_file_beside_a_class_swallows_nobody(tmp_path):
    packed = zipped(tmp_path / "class.zip", dict.fromkeys(["stray.py", "ann/w8a8.py", "ben/w8a8.py"], "x"))
    assert {one.student for one in collect(packed, tmp_path / "w").hand_ins} == {"stray", "ann", "ben"}
    one = zipped(tmp_path / "ann.zip", dict.fromkeys(["w8a8.py", "helpers/dds.py"], "x"))
    assert [one.student for one in collect(one, tmp_path / "w").hand_ins] == ["ann"]


def test_two_of_one_name_are_two(tmp_path):
    names = [f"Wei Zhang_{number}_assignsubmission_file_/w8a8.py" for number in (501, 502)]
    intake = collect(write(tmp_path / "class", *names), tmp_path / "w")
    assert [(one.student, one.name) for one in intake.hand_ins] == [("Wei Zhang (501)", "Wei Zhang"), ("Wei Zhang (502)", "Wei Zhang")]


def test_a_name_in_composed_and_in_separate_letters_is_one_student(tmp_path):
    root = write(tmp_path / "class", "m\u00fcller/w8a8.py", "mu\u0308ller/w8a8.py", "ann/w8a8.py")
    found = [(one.student, TWICE_SPELLED in one.notes) for one in collect(root, tmp_path / "w").hand_ins]
    assert found == [("ann", False), ("m\u00fcller", True), ("m\u00fcller", True)]
    assert sorted(fates(root, tmp_path).values()) == ["graded", "graded", "superseded"]


def test_a_folder_that_cannot_be_read_is_an_entry(tmp_path):
    root = write(tmp_path / "class", "ann/w8a8.py")
    (root / "ben").mkdir(mode=0)
    if os.access(root / "ben", os.R_OK):
        assert len(everything_below(root)) == 1, "root reads everything"
    else:
        assert fates(root, tmp_path) == {"ann/w8a8.py": "graded", "ben/": "unreadable"}


def test_of_two_archives_in_one_file_the_first_is_not_forgotten(tmp_path):
    """zipfile reads the last one, and not a word was said of the first."""
    first = zipped(tmp_path / "first.zip", {"ann_1_1_w8a8.py": "a"}).read_bytes()
    joined = zipped(tmp_path / "class.zip", {"ben_2_2_w8a8.py": "b"})
    joined.write_bytes(first + joined.read_bytes())
    found = accounted(joined, tmp_path / "work")[0]
    assert {one.file: one.fate for one in found} == {"class.zip": "unreadable", "ben_2_2_w8a8.py": "graded"}
    assert f"begins with {len(first)} bytes that are no part of it" in next(one.reason for one in found if one.file == "class.zip")


A_KERNEL = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
A_STUB = "def W8A8_MM(x_ptr):\n    pass\n"
HELD = {"right": A_KERNEL, "begun": "def W8A8_MM(: x\n", "cut": "x = (\n", "stub": A_STUB, "renamed": A_KERNEL.replace("W8A8_MM", "MY_MM")}


@pytest.mark.usefixtures("without_pictures")
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.dictionaries(st.sampled_from(["w8a8", "dds", "mine", "w8a8_2"]), st.sampled_from(sorted(HELD)), min_size=1, max_size=3),
    st.sampled_from(["ann/{}.py", "ann_9_5_{}.py", "ann_9_{}_a.zip", "ann/{}.zip", "ann/all.zip"]),
)
def test_of_a_file_that_is_called_graded_a_kernel_was_read(files, form):
    """And of one that is not, none: whatever it is called, and whatever a sentence on another file names."""
    with tempfile.TemporaryDirectory() as place:
        texts: dict[str, Any] = {}
        for number, (name, held) in enumerate(files.items()):
            at = form.format(name if "_9_{}" not in form else number + 5)
            texts[at] = {**texts.get(at, {}), f"{name}.py": HELD[held]} if at.endswith("zip") else HELD[held]
        (one,) = grade_class(delivered(Path(place) / "class", {**texts, "ann_9_1_n.txt": "x"}), Path(place) / "out")
        hand_in = one.graded.hand_in
        kernels = {hand_in.sources[file.name].name for file in one.graded.files.values()}
        rows = csv.DictReader((Path(place) / "out" / "files.csv").open(encoding="utf-8-sig"))
        fates = {Path(row["file"]).name: row["fate"] for row in rows}
        assert kernels <= {name for name, fate in fates.items() if fate == "graded"}
        unread = {hand_in.sources[name].name for name in one.graded.unread} - kernels
        assert not [name for name in unread if fates[name] == "graded"]
ARCHIVES = ("work.zip", "work.rar", "work.tar.gz", "work.tar", "work.7z")
BESIDE = {"nothing": {}, "work": {"w8a8.py": A_KERNEL}, "a stub": {"w8a8.py": A_STUB}}


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("layout", ["folder", "clone", "clone of the handout"])
def test_an_archive_that_cannot_be_opened_has_one_fate_wherever_it_lies(tmp_path, layout, beside):
    """Whatever its kind; and its reason is about itself."""
    texts = {f"ann/{name}": "no archive, def W8A8_MM(" for name in ARCHIVES} | {"ben/dds.py": A_KERNEL}
    texts |= {f"ann/{name}": text for name, text in BESIDE[beside].items()}
    if layout == "clone of the handout":
        texts |= {"ann/grader/x.txt": "", "ann/notebooks/w8a8.py": A_STUB}
    root = delivered(tmp_path / "class", texts)
    if layout != "folder":
        (root / "ann" / ".git").mkdir()
    intake = collect(root, tmp_path / "w")
    found = standings([Graded(one, Report(one.place, DEVICE, None, {})) for one in intake.hand_ins], Rules())
    rows = {Path(row.file).name: row for row in account(intake.came, intake.hand_ins, found)}
    assert {rows[name].fate for name in ARCHIVES} == {"unreadable"}
    assert "is not a readable zip archive" in rows["work.zip"].reason
    assert all("is an archive that is not opened: only .zip files are" in rows[name].reason for name in ARCHIVES[1:])
    assert not any("is not a .py" in rows[name].reason for name in ARCHIVES)


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize(
    "text", ['{"cells": [{"cell_type": "co', b"\xff = 1", "def f(: x", "x = 1\n" * 400_000], ids=["cut", "bytes", "syntax", "large"]
)
@pytest.mark.parametrize("name", ["ann/{}", "doe_90001_500_{}", "ann/below/{}"])
def test_a_file_that_could_not_be_read_is_not_graded_and_needs_a_look(tmp_path, name, text):
    """Also beside files that are graded, of which nothing is missing."""
    broken = name.format("mine.ipynb" if text[:1] == "{" else "mine.py")
    files = {name.format("w8a8.py").replace("500", "499"): A_KERNEL, broken: text}
    (one,) = grade_class(delivered(tmp_path / "class", files), tmp_path / "out")
    assert one.labs["w8a8"].status == "graded"
    rows = {row["file"]: row for row in csv.DictReader((tmp_path / "out" / "files.csv").open(encoding="utf-8-sig"))}
    assert rows[broken]["fate"] in ("not graded", "left out")
    assert "mine" in rows[broken]["reason"]
    assert rows[broken]["reason"] in "\n".join(one.review)
    (fine,) = rows.keys() - {broken}
    assert rows[fine]["fate"] == "graded"


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "held", [{"a.pdf": "x"}, {"work.zip": "junk", "k.rar": "x"}, {"w8a8.ipynb": "{"}, {"a.py": "def f(: x"}, {}, {"w8a8.py": A_STUB}]
)
def test_a_reason_is_said_once(tmp_path, layout, held):
    """In the export of Gradescope, a folder without a source was refused in two sentences that were one."""
    moodle = "ann_9_assignsubmission_file_/"
    at = dict(zip(LAYOUTS, ("ann/lab1/", "ann/", "ann_9_1_", moodle, "submission_1/"), strict=True))[layout]
    files = {f"{at}{name}": text for name, text in held.items()} | {f"{at.replace('ann', 'ben').replace('9', '8')}dds.py": A_STUB}
    if layout == "gradescope":
        files |= {"submission_metadata.yml": METADATA, "submission_2/w8a8.py": A_KERNEL}
    for one in grade_class(delivered(tmp_path / "class", files), tmp_path / "out"):
        reasons = [reason.split("\n")[0] for reason in one.review]
        assert not [reason for at, reason in enumerate(reasons) for other in reasons[:at] + reasons[at + 1 :] if reason in other]
