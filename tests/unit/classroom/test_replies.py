"""Feedback goes back under names by which Canvas and Moodle find the student, as their own code reads them."""

from __future__ import annotations

import os
import re
import shutil
import zipfile

import pytest

from grader.classroom.roster import Person, Roster
from grader.unusable import Unusable
from tests.stub_class import grade_class
from tests.submissions import TESTS
from tests.unit.classroom.test_intake import zipped

pytestmark = pytest.mark.usefixtures("without_pictures")
KERNEL = TESTS.parent / "solutions" / "w8a8.py"


def canvas_reads(name: str) -> tuple[str, str]:
    """User and attachment, as Canvas's infer_comment_context_from_filename takes them."""
    user, attachment = [part for part in name.split("_") if re.fullmatch(r"\d+", part)][:2]
    return user, attachment


def moodle_reads(name: str) -> tuple[str, str, str] | None:
    """Participant, plugin and file, as Moodle's is_valid_filename_for_import takes them."""
    parts = name.split("/")
    while parts:
        info = parts.pop(0).split("_", 4)
        if len(info) >= 4 and info[1].isdigit():
            return info[1], f"{info[2]}_{info[3]}", "/".join([info[4] if len(info) > 4 else "", *parts])
    return None


def returned(tmp_path, names, platform):
    """What goes back of a download with these files, by its name."""
    text = KERNEL.read_text(encoding="utf-8")
    found = grade_class(zipped(tmp_path / "class.zip", dict.fromkeys(names, text)), tmp_path / "out")
    archive = zipfile.ZipFile(tmp_path / "out" / f"feedback_{platform}.zip")
    assert all(archive.read(name).startswith(b"<!doctype html>") for name in archive.namelist())
    return found, archive.namelist()


def test_canvas(tmp_path):
    names = ["doejane_90000_500100_w8a8.py", "doejane_90000_500105_dds.py", "team_1x_LATE_90001_500200_w8a8.py", "anon_Xy_7_w8a8.py",
             "typed_90002_text.html"]
    found, back = returned(tmp_path, names, "canvas")
    assert len(found) == 4
    assert sorted(back) == ["anon_Xy_7_feedback.html", "doejane_90000_500105_feedback.html", "team_1x_LATE_90001_500200_feedback.html"]
    assert [canvas_reads(name) for name in back[1:]] == [("90000", "500105"), ("90001", "500200")]


def test_moodle(tmp_path):
    names = ["Jane Doe_501_assignsubmission_file_/w8a8.py", "Wei Zhang_502_assignsubmission_file/w8a8.py"]
    names += ["Bo_503_assignsubmission_file_x.py"]
    _, back = returned(tmp_path, names, "moodle")
    assert sorted(map(moodle_reads, back)) == [
        ("501", "assignsubmission_file", "/feedback.html"),
        ("502", "assignsubmission_file", "/feedback.html"),
        ("503", "assignsubmission_file", "feedback.html"),
    ]


def test_an_archive_that_is_unpacked_again_draws_no_page_again(tmp_path):
    names = ["doejane_90000_500100_w8a8.py", "roerichard_90001_500200_w8a8.py"]
    archive = zipped(tmp_path / "class.zip", dict.fromkeys(names, KERNEL.read_text(encoding="utf-8")))
    drawn = []
    for _ in range(2):
        grade_class(archive, tmp_path / "out")
        drawn.append([page.stat().st_mtime_ns for page in sorted((tmp_path / "out" / "feedback").iterdir())])
    assert len(drawn[0]) == 2
    assert drawn[0] == drawn[1]


def test_folders_have_no_way_back(tmp_path):
    grade_class(zipped(tmp_path / "class.zip", {"ann/w8a8.py": "x = 1\n"}), tmp_path / "out")
    assert not list((tmp_path / "out").glob("feedback_*.zip"))
    with pytest.raises(Unusable):
        grade_class(zipped(tmp_path / "none.zip", {"a.pdf": "x"}), tmp_path / "out")


def test_a_name_of_another_encoding_has_its_number_still(tmp_path):
    """As Windows unpacks what a Mac packed."""
    name = os.fsdecode(b"m\xfcller_901_assignsubmission_file_/w8a8.py")
    place = tmp_path / "class" / name
    place.parent.mkdir(parents=True)
    shutil.copy(KERNEL, place)
    grade_class(tmp_path / "class", tmp_path / "out")
    (back,) = zipfile.ZipFile(tmp_path / "out" / "feedback_moodle.zip").namelist()
    assert moodle_reads(back)[0] == "901"


def test_a_page_goes_with_the_name_it_had(tmp_path):
    """Two papers of one student would disagree after the next correction."""
    for name in ("ann", "ben"):
        (tmp_path / "class" / name).mkdir(parents=True)
        shutil.copy(KERNEL, tmp_path / "class" / name)
    grade_class(tmp_path / "class", tmp_path / "out")
    grade_class(tmp_path / "class", tmp_path / "out", roster=Roster((Person("alo", sis_id="ann"), Person("ben"))))
    assert sorted(page.name for page in (tmp_path / "out" / "feedback").iterdir()) == ["alo.html", "ben.html"]
