"""Every layout that platforms hand out is understood, and a bad entry costs its owner alone."""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from grader.classroom.batch import archives, begun, folders
from grader.classroom.batch.accounts import Claims
from grader.classroom.batch.archives import unpack
from grader.classroom.batch.folders import ROOT
from grader.classroom.batch.intake import collect as take_in
from grader.plain_files import UnreadableFile, opened_plain
from grader.unusable import Unusable
from tests.deliveries import delivered

KERNEL = "x = 1\n"


def collect(path, workspace, **options):
    return take_in(path, workspace, **options).hand_ins


def by_student(path, tmp_path, **options):
    found = collect(path, tmp_path / "workspace", **options)
    return {hand_in.student: hand_in for hand_in in found}


def write(root, *names, text=KERNEL):
    return delivered(root, dict.fromkeys(names, text))


def zipped(path, entries):
    return delivered(path.parent, {path.name: entries}) / path.name


def test_nbgrader_folders_with_timestamps(tmp_path):
    root = write(tmp_path / "submitted", "ann/lab1/w8a8.ipynb", "ann/lab2/dds.ipynb", "ben/lab1/w8a8.ipynb")
    (root / "ann" / "lab1" / "timestamp.txt").write_text("2026-11-20 23:58:00.123456 UTC")
    (root / "ann" / "lab2" / "timestamp.txt").write_text("2026-11-27 23:58:00 UTC")
    (root / "ben" / "lab1" / "timestamp.txt").write_text("yesterday")
    found = {(one.student, one.assignment): one for one in collect(root, tmp_path / "w")}
    assert set(found) == {("ann", "lab1"), ("ann", "lab2"), ("ben", "lab1")}
    assert found["ann", "lab1"].submitted == datetime(2026, 11, 20, 23, 58, 0, 123456, tzinfo=UTC)
    assert found["ben", "lab1"].submitted is None
    assert "holds no time" in found["ben", "lab1"].notes[0]
    chosen = collect(root, tmp_path / "w", assignment="lab1")
    assert {one.student for one in chosen} == {"ann", "ben"}
    with pytest.raises(Unusable, match="no assignment 'lab9'; it has lab1, lab2"):
        collect(root, tmp_path / "w", assignment="lab9")


@pytest.mark.parametrize("of_eve", [None, "w8a8.py", "work.rar", "kernels/notes.txt", "lab.zip"])
@pytest.mark.parametrize("chosen", [None, "kernels"])
def test_who_has_no_folder_for_the_only_assignment_is_no_reason_for_another_one(tmp_path, of_eve, chosen):
    """It would be a column of its own in the gradebook, and stop a class with corrections for single students."""
    root = write(tmp_path / "submitted", "ann/kernels/w8a8.py", "ben/kernels/w8a8.py")
    (root / "eve").mkdir()
    if of_eve:
        write(root / "eve", of_eve)
    found = by_student(root, tmp_path, assignment=chosen)
    assert {name: one.assignment for name, one in found.items()} == dict.fromkeys(("ann", "ben", "eve"), "kernels")


def test_of_several_assignments_nobody_in_no_folder_is_lost(tmp_path):
    """No kernel is nothing for each of them; a kernel beside their folders is graded all the same, and its page says for what."""
    root = write(tmp_path / "submitted", "ann/kernels/w8a8.py", "ben/other/w8a8.py", "fay/w8a8.py")
    write(tmp_path, "gradebook.db")
    (root / "eve").mkdir()
    found = collect(root, tmp_path / "w")
    assert [(one.assignment, one.taken) for one in found if one.student == "eve"] == [("kernels", frozenset()), ("other", frozenset())]
    (fay,) = [one for one in found if one.student == "fay"]
    assert (fay.assignment, len(fay.taken), fay.refused) == ("", 1, "")
    assert fay.notes == ("in no assignment's folder, so graded by itself; if it is for one of them, move it into kernels or other",)
    chosen = {one.student: len(one.taken) for one in collect(root, tmp_path / "w2", assignment="other")}
    assert chosen == {"ben": 1, "eve": 0, "fay": 1}


def test_canvas_numbers_each_file_and_one_user_has_one_submission(tmp_path):
    archive = zipped(
        tmp_path / "submissions.zip",
        {
            "doejane_LATE_1234_55501_w8a8.ipynb": "first",
            "doejane_LATE_1234_55502_dds.ipynb": "second",
            "doejane_LATE_1234_99_dds.ipynb": "before",
        },
    )
    (only,) = collect(archive, tmp_path / "workspace")
    assert {path.name: path.read_text() for path in only.path.iterdir()} == {"w8a8.ipynb": "first", "dds.ipynb": "second"}
    assert only.notes == ("dds.ipynb was handed in more than once; doejane_LATE_1234_99_dds.ipynb was left out",)
    assert only.late
    assert only.submitted is None, "the times in Canvas's archive are those of its packing"


def test_an_archive_keeps_its_times(tmp_path):
    entry, broken = zipfile.ZipInfo("ann.py", (2026, 11, 20, 23, 58, 0)), zipfile.ZipInfo("ben.py", (2026, 2, 30, 0, 0, 0))
    path = tmp_path / "class.zip"
    with zipfile.ZipFile(path, "w") as bundle:
        for info in (entry, broken):
            bundle.writestr(info, KERNEL)
    unpack(path, tmp_path / "there")
    assert datetime.fromtimestamp((tmp_path / "there" / "ann.py").stat().st_mtime, UTC) == datetime(2026, 11, 20, 23, 58, tzinfo=UTC)
    assert (tmp_path / "there" / "ben.py").read_text() == KERNEL


@pytest.mark.parametrize(
    ("encoding", "students"),
    [
        ("utf-8", {"zo\u00eb_9", "\u9648_7"}),  # Canvas, and Info-ZIP on Linux
        ("gbk", {"\u5f20\u4e09_9", "\u9673\u5586_7"}),  # Windows in China; the last name has letters that GB2312 lacks
        ("cp437", {"zo\u00eb_9", "j\u00fcrgen_7"}),  # the format's own
    ],
)
def test_names_without_the_bit_that_says_how_they_are_written(tmp_path, monkeypatch, encoding, students):
    monkeypatch.setattr(zipfile.ZipInfo, "_encodeFilenameFlags", lambda entry: (entry.filename.encode(encoding), 0))
    path = zipped(tmp_path / "class.zip", {f"{student}_{at}_w8a8.py": KERNEL for at, student in enumerate(sorted(students))})
    assert set(by_student(path, tmp_path)) == students


def test_gradescope_export(tmp_path):
    metadata = """
submission_101:
  :submitters:
  - :name: Jane Doe
    :sid: jd1
    :email: jane@example.org
  :created_at: 2026-11-20 22:00:00.000000000 Z
submission_102:
  :submitters:
  - :name: Nobody
  :created_at: 2026-11-21 09:00:00.000000000 Z
"""
    archive = zipped(
        tmp_path / "export.zip",
        {"assignment_7_export/submission_metadata.yml": metadata, "assignment_7_export/submission_101/w8a8.py": "a"},
    )
    found = by_student(archive, tmp_path)
    assert set(found) == {"jd1", "Nobody"}
    assert found["jd1"].submitted == datetime(2026, 11, 20, 22, tzinfo=UTC)
    assert "folder is missing" in found["Nobody"].failed
    assert (found["jd1"].name, found["jd1"].email) == ("Jane Doe", "jane@example.org")


@pytest.mark.parametrize(
    "people",
    [
        [("", "", "Wei Zhang"), ("", "", "Wei Zhang")], [("0", "wz1@u.edu", "Wei Zhang"), ("0", "wz2@u.edu", "Wei Zhang")],
        [("n/a", "", "Ann"), ("n/a", "", "Ben")], [("", "a@u.edu", "Ann"), ("", "", "Ann")], [("7", "", "Ann"), ("7", "b@u.edu", "Ann")],
    ],
)
def test_each_submission_that_gradescope_lists_is_somebodys_own(tmp_path, people):
    """Of namesakes, and of people with one number in common, the later one's work replaced the other's."""
    metadata = "".join(
        f"submission_{place}:\n  :submitters:\n  - :sid: '{sid}'\n    :email: '{email}'\n    :name: {full}\n"
        for place, (sid, email, full) in enumerate(people)
    )
    files = {f"submission_{place}/w8a8.py": str(place) for place in range(len(people))}
    archive = zipped(tmp_path / "export.zip", {"submission_metadata.yml": metadata, **files})
    found = collect(archive, tmp_path / "w")
    assert len({one.student for one in found}) == len(people)


@pytest.mark.parametrize(
    ("names", "students"),
    [
        (("submissions/doejane_12_55_w8a8.py", "submissions/roe_LATE_9_56_dds.py", "submissions/what.txt"), {"doejane_12", "roe_9"}),
        (("down/Jane Doe_501_assignsubmission_file_/dds.py", "down/Al Roe_9_assignsubmission_file_/dds.py"), {"Jane Doe", "Al Roe"}),
        (("export/submission_metadata.yml", "export/submission_1/dds.py", "export/submission_2/dds.py"), {"ann", "ben"}),
        (("course/submitted/ann/lab1/dds.py", "course/submitted/ben/lab1/dds.py"), {"ann", "ben"}),
        (("ann/dds_1_2_final.py", "ann/dds.py"), {"ann"}),
    ],
    ids=["canvas", "moodle", "gradescope", "nbgrader", "a student"],
)
@pytest.mark.parametrize("packed", ["", "given", "alone in a folder"])
def test_a_folder_around_a_class_is_no_student(tmp_path, names, students, packed):
    root = write(tmp_path / "given", *names, ".DS_Store")
    for list_of_gradescope in root.rglob("submission_metadata.yml"):
        list_of_gradescope.write_text("".join(f"submission_{n}:\n  :submitters:\n  - :sid: {who}\n" for n, who in ((1, "ann"), (2, "ben"))))
    if packed:
        root = Path(shutil.make_archive(str(tmp_path / "of" / "download"), "zip", root))
    if packed == "alone in a folder":
        root, students = root.parent, students if len(students) > 1 else {"download"}
    assert set(by_student(root, tmp_path)) == students


@pytest.mark.parametrize("name", ["jane.zip", "roejane_12_55_lab.zip"])
@pytest.mark.parametrize("inside", [("w8a8/w8a8.py", "dds/dds.py"), ("roejane_12_55_w8a8.py", "w8a8.py"), ("w8a8.py",), ()])
def test_a_students_archive_alone_in_a_folder_is_one_hand_in(tmp_path, name, inside):
    """Nobody hands in for others, whoever is first."""
    archive = zipped(tmp_path / "of" / name, dict.fromkeys(inside, "a"))
    if not inside:
        archive.write_bytes(b"no archive")
    (tmp_path / "of" / "ben").mkdir()
    (tmp_path / "of" / "ben" / "dds.py").write_text("b")
    beside = by_student(tmp_path / "of", tmp_path / "first")
    shutil.rmtree(tmp_path / "of" / "ben")
    if not inside:
        with pytest.raises(Unusable):
            by_student(tmp_path / "of", tmp_path / "second")
        return
    (alone,) = by_student(tmp_path / "of", tmp_path / "second")
    assert {alone, "ben"} == set(beside)


def test_hostile_archives_lose_entries_not_neighbours(tmp_path, monkeypatch):
    path = tmp_path / "evil.zip"
    link = zipfile.ZipInfo("link.py")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("../../outside.py", "x")
        bundle.writestr("/absolute.py", "x")
        bundle.writestr("C:/drive.py", "x")
        bundle.writestr("a\\..\\..\\windows.py", "x")
        bundle.writestr(link, "/etc/passwd")
        bundle.writestr("bomb.py", b"0" * (8 << 20))
        bundle.writestr("good.py", KERNEL)
        with pytest.warns(UserWarning, match="Duplicate"):
            bundle.writestr("good.py", "again")
        bundle.writestr("good.py/below.py", "x")
    refused = {entry.name: entry.reason for entry in unpack(path, tmp_path / "out")}
    assert set(refused) == {
        "../../outside.py", "/absolute.py", "C:/drive.py", "a\\..\\..\\windows.py", "link.py", "bomb.py", "good.py",
        "good.py/below.py",
    }
    assert refused["link.py"].startswith("is a link")
    assert "bomb" in refused["bomb.py"]
    assert [child.name for child in (tmp_path / "out").rglob("*")] == ["good.py"]
    assert (tmp_path / "out" / "good.py").read_text() == KERNEL
    assert not (tmp_path / "outside.py").exists()
    monkeypatch.setattr(archives, "MAX_FILES", 1)
    many = zipped(tmp_path / "many.zip", {"a.py": "a", "b.py": "b"})
    assert "only the first 1" in unpack(many, tmp_path / "first")[0].reason


def test_many_archives_of_one_student_unpack_to_what_one_may(tmp_path):
    """Hundreds of them would fill the disk that the others' are unpacked to, and be graded one after the other."""
    folder = tmp_path / "class" / "mal"
    rooms, unpacked = [], []

    def unpacking(archive, target, max_bytes):
        rooms.append(max_bytes)
        unpacked.append(archive.stem)
        return unpack(archive, target, max_bytes=max_bytes)

    for number in range(archives.MAX_ARCHIVES + 3):
        path = zipped(folder / f"{number:03}.zip", {"w8a8.py": f"# of {number}\n{KERNEL}"})
        os.utime(path, (1e9 + number, 1e9 + number))
    write(tmp_path / "class", "ben/w8a8.py")
    _, found = collect(tmp_path / "class", tmp_path / "work", unpack=unpacking)
    assert unpacked == [f"{number:03}" for number in (10, 9, 8, 7, 6, 5, 4, 3)]
    assert (found.path / "w8a8.py").read_text(encoding="utf-8").startswith("# of 10\n")
    assert "11 archives were handed in, only the newest 8" in found.notes[0]
    assert sum(rooms) <= archives.MAX_STUDENT_BYTES
    rooms.clear()
    for number in range(archives.MAX_ARCHIVES + 3):
        zipped(tmp_path / "canvas" / f"doemal_7_1_{number}.zip", {f"{number}.py": KERNEL})
    collect(tmp_path / "canvas", tmp_path / "again", unpack=unpacking)
    assert len(rooms) == archives.MAX_ARCHIVES
    assert sum(rooms) <= archives.MAX_STUDENT_BYTES


def test_of_many_bad_entries_the_first_are_named(tmp_path):
    entries = {f"../{number}.py": KERNEL for number in range(100)}
    zipped(tmp_path / "class" / "mal.zip", {**entries, "w8a8.py": KERNEL})
    (found,) = collect(tmp_path / "class", tmp_path / "work")
    assert len(found.notes) == archives.MAX_NOTES + 1
    assert found.notes[-1] == "mal.zip: 90 more entries were left out"


def test_damaged_entries_and_no_archive_at_all(tmp_path):
    path = zipped(tmp_path / "damaged.zip", {"first.py": "a" * 5000, "second.py": KERNEL})
    data = bytearray(path.read_bytes())
    data[40:44] = b"\xff\xff\xff\xff"
    path.write_bytes(bytes(data))
    refused = unpack(path, tmp_path / "out")
    assert [entry.name for entry in refused] == ["first.py"]
    assert (tmp_path / "out" / "second.py").exists()
    assert not (tmp_path / "out" / "first.py").exists()
    (tmp_path / "text.zip").write_text("not a zip")
    with pytest.raises(UnreadableFile, match="not a readable zip"):
        unpack(tmp_path / "text.zip", tmp_path / "nowhere")


CLASSES = {
    "canvas": ("doejane_90001_11_w8a8.py", "doejane_90001_12_dds.py", "roe_LATE_90002_13_w8a8.py"),
    "moodle": ("Jane Doe_501_assignsubmission_file_/w8a8.py", "Ben Roe_502_assignsubmission_file_/w8a8.py"),
    "flat moodle": ("Jane Doe_501_assignsubmission_file_w8a8.py", "Ben Roe_502_assignsubmission_file_w8a8.py"),
    "folders": ("jane/w8a8.py", "jane/dds.py", "ben/w8a8.py"), "files": ("jane.py", "ben.py"),
}


@pytest.mark.parametrize("names", [names for layout, names in CLASSES.items() if layout != "files"])
def test_what_cannot_be_unpacked_is_its_students_still(tmp_path, monkeypatch, names):
    """A file of 300 MB made a second student of its owner, and the owner one who handed in nothing."""
    def students(found):
        return {one.student: (one.platform, one.number, one.late, one.name, bool(one.reply)) for one in found.hand_ins}

    files = {name: f"# {name}\n{W8A8 if 'w8a8' in name else DDS}" for name in names}
    whole = take_in(zipped(tmp_path / "whole" / "class.zip", files), tmp_path / "work")
    monkeypatch.setattr(archives, "MAX_FILE_BYTES", 1000)
    for number, name in enumerate(names):
        path = zipped(tmp_path / str(number) / "class.zip", {**files, name: files[name] + "#" * 1000})
        found = take_in(path, tmp_path / f"work {number}")
        assert students(found) == students(whole)
        assert {one.name for one in found.came} == set(names)
        (lost,) = (one for one in found.came if one.reason)
        (owner,) = Claims(found.hand_ins).owners(lost.path)
        assert name.startswith((owner.student, owner.student.split("_")[0]))
        assert "at most" in f"{owner.refused}{owner.notes}"


@pytest.mark.parametrize("names", CLASSES.values(), ids=CLASSES)
def test_a_class_that_did_not_come_whole_is_nobodys_zero(tmp_path, names):
    path = zipped(tmp_path / "given" / "class.zip", {name: f"# {name}\n{W8A8 if 'w8a8' in name else DDS}" for name in names})
    with zipfile.ZipFile(path) as bundle:
        place = bundle.infolist()[-1].header_offset + 30 + len(names[-1])
    data = bytearray(path.read_bytes())
    data[place : place + 8] = b"\xff" * 8
    path.write_bytes(bytes(data))
    with pytest.raises(Unusable, match=r"class.zip did not come whole: .* is damaged .*; download it again"):
        collect(path, tmp_path / "work")
    if "assign" in names[0] or "_90001_" in names[0]:
        with pytest.raises(Unusable, match="did not come whole"):
            collect(path.parent, tmp_path / "again")


@pytest.mark.parametrize("packed", [False, True])
def test_folders_of_sections_are_no_students(tmp_path, packed):
    """Two students, called A and B, were graded, and five others were lost."""
    files = {f"{name}/w8a8.py": f"# {name}\n{W8A8}" for name in ("A/jane", "A/ben", "B/carl", "B/dora", "C/eve")}
    place = zipped(tmp_path / "all.zip", files) if packed else delivered(tmp_path / "all", files)
    with pytest.raises(Unusable, match="all holds folders of several students: A has ben and jane, B has carl and dora"):
        collect(place, tmp_path / "work")
    attempts = [f"{name}/{attempt}/w8a8.py" for name in ("ben", "jane") for attempt in ("first", "second")]
    assert set(by_student(write(tmp_path / "class", *attempts, text=W8A8), tmp_path)) == {"ben", "jane"}


@pytest.mark.parametrize(
    "name", ["Lab 1_bob_attempt_2026-11-21-10-00-00_w8a8.py", "12346-678901 - Bob O'Neil- Nov 20, 2026 1001 AM/w8a8.py",
             "bob+kernels+2026-11-20 10:00:00 UTC/w8a8.py"],
)
def test_names_of_platforms_that_are_not_read_are_told(tmp_path, name):
    (found,) = collect(write(tmp_path / "class", name), tmp_path / "work")
    assert "does not read whose it is" in found.notes[0]


W8A8, DDS = "def W8A8_MM(x_ptr):\n    x = 1\n", "def DDS_MM(x_ptr):\n    x = 1\n"


def test_a_second_file_of_a_name_is_called_after_its_folder_too(tmp_path):
    files = [write(tmp_path, f"{lab}/k.py", text=text) / lab / "k.py" for lab, text in (("dds", DDS), ("w8a8", W8A8))]
    (tmp_path / "w").mkdir()
    folders.copied([(file, file.name) for file in files], tmp_path / "w")
    assert sorted(file.name for file in (tmp_path / "w").iterdir()) == ["k.py", "w8a8_k.py"]


def test_many_files_of_one_name_are_read_once_each(tmp_path, monkeypatch):
    """However many there are, and whatever was taken before."""
    reads = []
    for module in (folders, begun):
        monkeypatch.setattr(module, "opened_plain", lambda path: reads.append(path) or opened_plain(path))
    files = write(tmp_path / "ann", *(f"{folder}/{number}.py" for folder in "abcd" for number in range(40)))
    (tmp_path / "w").mkdir()
    found = folders.copied([(file, file.name) for file in sorted(files.rglob("*.py"))], tmp_path / "w")
    assert (len(found.files), len(found.left)) == (40, 120)
    assert len(reads) <= 3 * 160


@pytest.mark.parametrize(
    ("inside", "students"),
    [
        ({"ann/w8a8.py": W8A8, "ben/my.py": W8A8}, {"ann", "ben"}),
        ({"lab/ann/w8a8.py": W8A8, "lab/ben/deep/my.py": W8A8, "lab/cat/dds.py": DDS}, {"ann", "ben", "cat"}),
        ({"ann/k.py": W8A8, "ben/k.py": DDS, "cat/k.ipynb": json.dumps({"source": DDS})}, {"ann", "ben", "cat"}),
        ({"ann.py": W8A8, "ben/k.py": W8A8, "cat/k.py": DDS}, {"ann", "ben", "cat"}),
        ({"w8a8/k.py": W8A8, "dds/k.py": DDS}, {"alone"}),
        ({"notebooks/w8a8.ipynb": json.dumps({"source": W8A8}), "assignment/w8a8.py": W8A8}, {"alone"}),
        ({"w8a8.py": W8A8, "old/w8a8.py": W8A8}, {"alone"}),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_what_lies_alone_in_a_folder_is_a_class_where_several_wrote_the_same_kernel(tmp_path, inside, students, packed):
    root = delivered(tmp_path / "of", {"alone.zip": inside} if packed else {f"alone/{name}": text for name, text in inside.items()})
    assert set(by_student(root, tmp_path / "w")) == students


@pytest.mark.parametrize("packed", [False, True])
def test_a_clone_of_the_repository_is_one_hand_in(tmp_path, packed):
    """As from GitHub Classroom: only what is not as it was given out, and never the grader's own files."""
    root, given = tmp_path / "class", "notebooks/w8a8.ipynb"
    clone = write(root / "lab-ann", "grader/model.py", "model/swap.py", "notebooks/zh/dds.ipynb", "assignment/w8a8.py", "own_test.py")
    (clone / given).write_bytes((ROOT / given).read_bytes())
    if packed:
        files = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in clone.rglob("*.*") if path.is_file()}
        shutil.rmtree(clone)
        zipped(root / "lab-ann.zip", files)
    found = collect(root, tmp_path / "w")
    assert [(one.student, one.assignment, one.notes) for one in found] == [("lab-ann", "", ())]
    assert {path.name for path in found[0].path.iterdir()} == {"zh_dds.ipynb", "assignment_w8a8.py"}


def test_links_are_not_followed(tmp_path):
    root = write(tmp_path / "class", "ann/w8a8.py")
    (root / "bob").symlink_to(root / "ann")
    (root / "eve").mkdir()
    (root / "eve" / "w8a8.py").symlink_to("/etc/passwd")
    found = by_student(root, tmp_path)
    assert set(found) == {"ann", "eve"}


def test_a_clone_whose_folder_leads_elsewhere_is_not_entered(tmp_path):
    outside = write(tmp_path / "outside", "secret.py")
    clone = write(tmp_path / "class" / "ann", "grader/model.py", "assignment/w8a8.py")
    (clone / "notebooks").symlink_to(outside)
    found = by_student(tmp_path / "class", tmp_path)["ann"]
    assert {path.name for path in found.path.iterdir()} == {"assignment_w8a8.py"}


def test_nothing_there(tmp_path):
    with pytest.raises(Unusable, match="does not exist"):
        collect(tmp_path / "nowhere", tmp_path / "w")
    (tmp_path / "empty").mkdir()
    with pytest.raises(Unusable, match="holds no submissions"):
        collect(tmp_path / "empty", tmp_path / "w")


def kernel_of(name):
    return "@triton.jit\ndef W8A8_MM(x_ptr):\n    x = 1\n" + f"# {name}\n"


def test_a_zip_of_files_named_after_students_is_a_class(tmp_path):
    names = ("anna", "ben", "cleo")
    path = zipped(tmp_path / "all.zip", {f"{name}.py": kernel_of(name) for name in names})
    assert {one.student for one in collect(path, tmp_path / "w")} == set(names)
    own = zipped(tmp_path / "anna.zip", {name: kernel_of(name) for name in ("w8a8.py", "older.py")})
    assert [one.student for one in collect(own, tmp_path / "w2")] == ["anna"], "one file is named after its lab"


GIVEN = (ROOT / "assignment" / "w8a8.py").read_text(encoding="utf-8")
NOTEBOOK = json.loads((ROOT / "notebooks" / "w8a8.ipynb").read_text(encoding="utf-8"))


def saved_again(one_string):
    """The stub's notebook, run and saved by an editor; some of them write each cell as one string."""
    cells = [
        {**cell, "execution_count": 3, "source": "".join(cell["source"]) if one_string else cell["source"]}
        for cell in NOTEBOOK["cells"]
    ]
    return json.dumps({**NOTEBOOK, "cells": cells}, indent=None if one_string else 1)


STUBS = {
    "another comment": GIVEN.replace("# YOUR CODE HERE", "# what do I do here?"),
    "raise": GIVEN.replace("    pass\n", "    raise NotImplementedError  # later\n").replace("\n", "\r\n"),
    "dots": GIVEN.replace("    pass\n", "    ...\n\n    return\n").replace('"""Y =', '"""My notes. Y ='),
}


@pytest.mark.parametrize(
    "beside",
    [
        {"w8a8.py": GIVEN}, {"README.py": "x = 1\n"}, {"notes.py": "x = 1\n", "w8a8.py": GIVEN}, {"data.zip": {"table.csv": "1"}},
        {"w8a8.py": "def f(:\n"},
        {"first/w8a8.py": GIVEN, "first/notes.py": ""},
        *({"w8a8.py": text} for text in STUBS.values()),
        *({"w8a8.ipynb": saved_again(one_string)} for one_string in (False, True)),
    ],
    ids=lambda beside: " ".join(beside),
)
@pytest.mark.parametrize("place", ["work.zip", "work/w8a8.py", "a/b/w8a8.py", "a/work.zip", "mine.py"])
def test_nothing_hides_work(tmp_path, beside, place):
    """Whatever a student hands in beside it without a kernel of a lab, or as it was given out: the work is what is graded."""
    work = {"deeper/w8a8.py": kernel_of("ann")} if place.endswith(".zip") else kernel_of("ann")
    files = {"ben/w8a8.py": kernel_of("ben"), f"ann/{place}": work, **{f"ann/{name}": text for name, text in beside.items()}}
    ann = by_student(delivered(tmp_path / "class", files), tmp_path)["ann"]
    graded = [file.read_text(encoding="utf-8") for file in Path(ann.path).iterdir() if file.suffix == ".py"]
    assert kernel_of("ann") in graded
    claimed = {path.name for path in ann.taken} | {path.name for path in ann.left}
    assert {Path(name).name for name in (place, *beside)} <= claimed


@pytest.mark.parametrize(
    "text", ["(x_ptr):\n    x_ptr", "(x_ptr): return f()\n", "(\n    x_ptr,\n):\n    '''pass'''\n    f(x_ptr)\n", '():\n    """']
)
def test_whatever_is_no_stub_may_be_work(tmp_path, text):
    """Also where it ends inside its docstring, or is no Python."""
    text = f"import triton\ndef W8A8_MM{text}"
    for name, whole in {"w8a8.py": text, "w8a8.ipynb": json.dumps({"cells": [{"source": text}]})}.items():
        (tmp_path / name).write_text(whole, encoding="utf-8")
        assert begun.is_work(tmp_path / name)


@pytest.mark.slow
@pytest.mark.parametrize("begins", ["", "a):\n"])
@pytest.mark.parametrize("text", ["def W8A8_MM(", ")", '",', '",  ', ' """', "\n", ":", "\\"])
def test_long_files_are_searched_in_linear_time(tmp_path, begins, text):
    for name in ("w8a8.py", "w8a8.ipynb"):
        (tmp_path / name).write_text(f"def W8A8_MM({begins}" + text * (4_000_000 // len(text)), encoding="utf-8")
        started = time.process_time()
        begun.is_work(tmp_path / name)
        assert time.process_time() - started < 3
