"""One hand-in costs itself alone: whatever it is, the other two have their results, and every file is written."""

from __future__ import annotations

import bz2
import io
import json
import os
import re
import shutil
import socket
import stat
import struct
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader.classroom.batch.intake import collect
from grader.model import Config
from tests.stub_class import Answering, about, check_files, grade_class
from tests.submissions import TESTS

pytestmark = pytest.mark.usefixtures("without_pictures")
RIGHT = {lab: (TESTS / "styles" / f"{lab}_plain.py").read_text(encoding="utf-8") for lab in ("w8a8", "dds")}
HOSTILE = RIGHT["w8a8"].replace("    pid = ", "    HOSTILE = 0\n    pid = ", 1)
assert "HOSTILE" in HOSTILE
EXAMPLES = int(os.environ.get("HOSTILE_EXAMPLES", "15"))

quick = settings(
    max_examples=EXAMPLES, deadline=None, derandomize="HOSTILE_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


def neighbours(root: Path) -> Path:
    for student, lab in (("ann", "w8a8"), ("zoe", "dds")):
        (root / student).mkdir(parents=True)
        (root / student / f"{lab}.py").write_text(RIGHT[lab], encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> dict[str, list[object]]:
    """What the two neighbours get when nobody else is there."""
    place = tmp_path_factory.mktemp("alone")
    found = grade_class(neighbours(place / "class"), place / "out")
    assert {one.points for one in found} - {0.0}
    return {student: about(found, student) for student in ("ann", "zoe")}


def thrown_at(alone, hand_in, engine=None) -> list[Any]:
    """Grades a class with what `hand_in(folder of the class)` puts there; returns its standings."""
    place = Path(tempfile.mkdtemp(prefix="hostile-"))
    try:
        root = neighbours(place / "class")
        hand_in(root)
        found = grade_class(root, place / "out", engine)
        for student, expected in alone.items():
            assert about(found, student) == expected, student
        check_files(place / "out", found)
        again = grade_class(root, place / "out", engine)
        assert [(one.student, one.points) for one in again] == [(one.student, one.points) for one in found]
        return [one for one in found if one.student not in alone]
    finally:
        for path in place.rglob("*"):
            if path.is_dir() and not path.is_symlink():
                with suppress(OSError):
                    path.chmod(0o700)
        shutil.rmtree(os.fsencode(place), ignore_errors=True)


# ---------------------------------------------------------------- what there may be

names = st.one_of(
    st.binary(min_size=1, max_size=40),
    st.text(min_size=1, max_size=30).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from([
        b"=HYPERLINK(\"http://x\")", " ＝1+1".encode(), "李雷".encode("gbk"), b"\x1b[2J\x1b]0;x\x07", "\u202eten".encode(),
        b"a;=1+1", b"-", b"..hidden", b"x" * 255, "𝔸".encode() * 60, b"<script>alert(1)</script>", b"%s%n", b"w8a8.py",
        b"a_1_2_w8a8.py", b"Jane_1_assignsubmission_file_", b"w8a8.zip", b"submission_metadata.yml", b"timestamp.txt",
    ]),
)


def safe(name: bytes) -> bytes | None:
    """As a file's name here, which is neither a neighbour's nor longer than names may be."""
    name = name.replace(b"/", b"_").replace(b"\0", b"_")[:255]
    return None if name in (b".", b"..", b"ann", b"zoe", b"") else name


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from(["\ud800", HOSTILE, "%x\n" * 500, "code", "1e400", "x" * 5000]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["cells", "cell_type", "source", "metadata", "outputs", "nbformat", "worksheets", "input", "id"]),
        inner, max_size=4),
    max_leaves=12,
)
cells = st.fixed_dictionaries(
    {"cell_type": st.just("code") | json_values, "source": st.just(HOSTILE) | st.text(max_size=60) | json_values},
    optional={"metadata": json_values, "outputs": json_values, "id": json_values},
)
notebooks = st.one_of(
    json_values.map(json.dumps),
    st.builds(lambda found, form: json.dumps({"nbformat": form, "metadata": {}, "cells": found}),
              st.lists(cells | json_values, max_size=4), st.just(4) | json_values),
    st.integers(1, 50_000).map(lambda depth: "[" * depth),
    st.builds(lambda text, at: text[:at], st.just(json.dumps({"cells": [{"cell_type": "code", "source": HOSTILE}]})),
              st.integers(0, 300)),
).map(lambda text: text.encode("utf-8", "replace"))
sources = st.one_of(
    st.text(max_size=200).map(lambda text: (HOSTILE + text).encode("utf-8", "replace")),
    st.sampled_from([
        HOSTILE.encode("utf-16"), b"\0" + HOSTILE.encode(), HOSTILE.encode() + b"\nx = " + b"(" * 3000,
        HOSTILE.encode() + b"\nx = 0x" + b"f" * 50_000, HOSTILE.encode() + b"\n" + b";".join([b"a = b"] * 3000),
        HOSTILE.encode() + b"\n\xff", b"", HOSTILE.encode() + b"\nY = '\\ud800'\n",
    ]),
    st.binary(max_size=300),
)
files = st.one_of(
    st.tuples(st.just(b"w8a8.py"), sources), st.tuples(st.just(b"dds.ipynb"), notebooks),
    st.tuples(names, sources | notebooks | st.binary(max_size=100)),
    st.tuples(st.just(b"timestamp.txt"), st.binary(max_size=60)),
)


@st.composite
def archives(draw) -> bytes:
    """A zip with any compression, names, modes and sizes; whole, cut off, or with bytes changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as bundle:
        for name, data in draw(st.lists(files, min_size=1, max_size=4)):
            entry = zipfile.ZipInfo(os.fsdecode(name).encode("utf-8", "replace").decode() or "x")
            entry.external_attr = draw(st.sampled_from([0o644, stat.S_IFLNK | 0o777, stat.S_IFIFO, 0])) << 16
            kind = draw(
                st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
            )
            entry.compress_type = kind
            bundle.writestr(entry, data * draw(st.sampled_from([1, 1, 3000])))
    data = bytearray(out.getvalue())
    if draw(st.booleans()):
        del data[draw(st.integers(0, len(data))) :]
    for at, value in draw(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=6)):
        if data:
            data[at % len(data)] = value
    return bytes(data)


def put(folder: bytes, name: bytes, data: bytes) -> None:
    name = safe(name) or b"w8a8.py"
    with suppress(OSError), open(os.path.join(folder, name), "xb") as file:
        file.write(data)


@pytest.mark.slow
@quick
@given(name=names, found=st.lists(files, max_size=4))
def test_a_folder_of_anything(alone, name, found):
    def hand_in(root: Path) -> None:
        folder = os.path.join(os.fsencode(root), safe(name) or b"mal")
        with suppress(FileExistsError):
            os.mkdir(folder)
        for file, data in found:
            put(folder, file, data)

    thrown_at(alone, hand_in)


@pytest.mark.slow
@quick
@given(name=names, data=archives())
def test_an_archive_of_anything(alone, name, data):
    thrown_at(alone, lambda root: put(os.fsencode(root), (safe(name) or b"mal")[:200] + b".zip", data))


constants = st.one_of(
    st.floats(),
    st.integers(),
    st.text(max_size=10),
    st.sampled_from(["\ud800", 10**6000, -(10**6000), "\x1b[2J", None]),
)


@pytest.mark.slow
@quick
@given(values=st.dictionaries(st.sampled_from(["BLOCK_M", "\ud800", "=1", "x"]), constants, max_size=3),
       message=st.text(st.characters(exclude_categories=()), max_size=40))
def test_a_config_and_a_message_of_anything(alone, values, message):
    def hand_in(root: Path) -> None:
        (root / "mal").mkdir()
        put(os.fsencode(root / "mal"), b"w8a8.py", HOSTILE.encode())

    found = thrown_at(alone, hand_in, Answering((Config(0, values, 4, 1),), message))
    assert found[0].labs["w8a8"].points == 60.0


# ---------------------------------------------------------------- what was seen to end a class


def damaged(kind: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", kind) as bundle:
        bundle.writestr("w8a8.py", HOSTILE * 20)
    data = bytearray(out.getvalue())
    middle = len(data) // 3
    data[middle : middle + 12] = bytes(12)
    return bytes(data)


def renamed(name: bytes, flag: int = 0x800) -> bytes:
    """An archive whose headers name its one file so, whatever the flag says of the encoding."""
    stands = b"\x07" * max(1, len(name))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as bundle:
        bundle.writestr(stands.decode(), HOSTILE)
    data = bytearray(out.getvalue().replace(stands, name or b"x"))
    for signature, flags, length in ((b"PK\x03\x04", 6, 26), (b"PK\x01\x02", 8, 28)):
        place = data.index(signature)
        data[place + flags : place + flags + 2] = struct.pack("<H", flag)
        if not name:  # what was its name is an extra field
            data[place + length : place + length + 4] = struct.pack("<HH", 0, 1)
    return bytes(data)


def with_long_directory() -> bytes:
    data = bytearray(renamed(b"w8a8.py"))
    place = data.index(b"PK\x05\x06")
    data[place + 12 : place + 16] = struct.pack("<I", 1 << 31)
    return bytes(data)


ARCHIVES = {
    "bad deflate": damaged(zipfile.ZIP_DEFLATED), "bad bz2": damaged(zipfile.ZIP_BZIP2),
    "bad lzma": damaged(zipfile.ZIP_LZMA), "no UTF-8": renamed(b"\xff\xfe.py"), "no name": renamed(b""),
    "long directory": with_long_directory(), "empty": b"", "bz2 alone": bz2.compress(b"x"),
    "a bomb": b"".join([damaged(zipfile.ZIP_DEFLATED)[:30], bytes(3_000_000)]), "encrypted": renamed(b"w8a8.py", 1),
    "GBK": renamed("作业.py".encode("gbk"), 0), "directory only": renamed(b"w8a8.p/"),
}


def test_archives_that_ended_a_class(alone):
    def hand_in(root: Path) -> None:
        for kind, data in ARCHIVES.items():
            (root / f"{kind}.zip").write_bytes(data)

    found = {one.student: one for one in thrown_at(alone, hand_in)}
    assert found.keys() == ARCHIVES.keys()
    assert [kind for kind, one in found.items() if not one.graded.review and one.labs["w8a8"].status != "graded"] == []


def test_one_bad_name_in_the_archive_of_a_class_costs_nobody_else(tmp_path):
    """A bulk download whose headers call a name UTF-8 that is none."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as bundle:
        for student, marker in (("ann", "é"), ("mal", "\x07\x07"), ("zoe", "雷")):
            bundle.writestr(f"class/{student}/{marker}.py", HOSTILE)
    data = bytearray(out.getvalue().replace(b"\x07\x07", b"\xff\xfe"))
    for signature, flags, name in ((b"PK\x03\x04", 6, 30), (b"PK\x01\x02", 8, 46)):
        for header in re.finditer(re.escape(signature), bytes(data)):
            if data.startswith(b"class/mal", header.start() + name):
                data[header.start() + flags : header.start() + flags + 2] = struct.pack("<H", 0x800)
    (tmp_path / "class.zip").write_bytes(data)
    with pytest.raises(UnicodeDecodeError):
        zipfile.ZipFile(tmp_path / "class.zip")
    found = grade_class(tmp_path / "class.zip", tmp_path / "out")
    assert [(one.student, one.labs["w8a8"].status) for one in found] == [(s, "graded") for s in ("ann", "mal", "zoe")]


def test_a_name_in_gbk_keeps_its_points(alone):
    raw = "李雷".encode("gbk")

    def hand_in(root: Path) -> None:
        folder = os.path.join(os.fsencode(root), raw)
        os.mkdir(folder)
        put(folder, b"w8a8.py", HOSTILE.encode())

    found = thrown_at(alone, hand_in)
    assert os.fsencode(found[0].student) == raw
    assert found[0].labs["w8a8"].status == "graded"


def make_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's path may have a hundred characters
    try:
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(path.name)
    finally:
        os.chdir(here)


SPECIAL = {
    "FIFO": os.mkfifo,
    "socket": make_socket,
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to itself": lambda path: path.symlink_to(path),
    "folder": os.mkdir,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_file_where_one_is_expected(alone, kind):
    """Each in the place of another file, of another student."""
    places = ("one/w8a8.py", "two/timestamp.txt", "three/work.zip", "four.zip", "five.py", "six/w8a8.ipynb")

    def hand_in(root: Path) -> None:
        for place in places:
            (root / place).parent.mkdir(exist_ok=True)
            SPECIAL[kind](root / place)

    found = {one.student: one.labs["w8a8"].status for one in thrown_at(alone, hand_in)}
    assert "graded" not in found.values()
    assert set(found) >= {"one", "two", "three", "six"}
    assert kind == "folder" or set(found) >= {"four", "five"}


def test_a_folder_with_a_fifo_for_its_time_still_counts(alone):
    def hand_in(root: Path) -> None:
        (root / "mal").mkdir()
        (root / "mal" / "w8a8.py").write_text(HOSTILE)
        os.mkfifo(root / "mal" / "timestamp.txt")

    found = thrown_at(alone, hand_in)
    assert found[0].labs["w8a8"].status == "graded"
    assert found[0].mark.handed_in is None


CHAIN = "\n".join(["a0 = 1"] + [f"a{number} = a{number - 1}" for number in range(1, 9_000)])
STALLING = {
    "magics": json.dumps({"cells": [{"cell_type": "code", "source": "%x\n" * 200_000 + HOSTILE}]}),
    "chain": HOSTILE.replace("    pid = ", "    z = a8999\n    pid = ", 1) + CHAIN,
    "chain on a line": HOSTILE.replace("    pid = ", "    z = a8999\n    pid = ", 1) + CHAIN.replace("\n", ";"),
    "statements": HOSTILE + "a;" * 60_000,
    "deep sum": HOSTILE + "\nX = " + "1 + " * 100_000 + "1",
    "deep list": HOSTILE + "\nX = " + "[" * 190 + "]" * 190,
    "long number": HOSTILE + "\nX = 0x" + "f" * 900_000,
    "long number on a shared line": HOSTILE.replace("    pid = ", "    z = Z\n    pid = ", 1)
    + "\nY = 1; Z = 0x"
    + "f" * 9000,
    "blanks": HOSTILE + "\n" + ("x" + " " * 200_000 + "?\n") * 4,
    "brackets": json.dumps({"cells": [{"cell_type": "code", "source": ("(\n" * 100_000)}]}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", STALLING)
def test_what_was_read_in_quadratic_time(alone, kind, time_limit):
    suffix = "ipynb" if STALLING[kind].startswith("{") else "py"

    def hand_in(root: Path) -> None:
        (root / "mal").mkdir()
        (root / "mal" / f"w8a8.{suffix}").write_text(STALLING[kind])

    with time_limit(30):
        assert [one.student for one in thrown_at(alone, hand_in)] == ["mal"]


def test_an_error_of_the_grader_on_one_hand_in_is_no_verdict(alone, monkeypatch):
    """Whatever stage fails on one student, the verdict says so, no points are entered, and the next run tries again."""
    from grader.classroom.batch import coordinating

    original = coordinating.anonymous

    def failing(source):
        if "HOSTILE" in source.module:
            raise ZeroDivisionError("nobody thought of this")
        return original(source)

    def hand_in(root: Path) -> None:
        (root / "mal").mkdir()
        (root / "mal" / "w8a8.py").write_text(HOSTILE)

    monkeypatch.setattr(coordinating, "anonymous", failing)
    mal = thrown_at(alone, hand_in)[0]
    assert mal.points is None
    assert mal.labs["w8a8"].status == "not_graded"
    assert "ZeroDivisionError: nobody thought of this" in mal.graded.review[0]
    assert "not graded" in mal.graded.review[0]
    monkeypatch.setattr(coordinating, "anonymous", original)
    assert thrown_at(alone, hand_in)[0].labs["w8a8"].status == "graded"


def test_a_report_that_cannot_be_written_costs_its_student(alone):
    engine = Answering(metrics={"seconds": object()})
    found = thrown_at(alone, lambda root: (root / "mal.py").write_text(HOSTILE), engine)
    assert found[0].points is None
    assert any("not graded" in reason and "TypeError" in reason for reason in found[0].graded.review)


def test_intake_costs_one_student_what_goes_wrong(tmp_path):
    (tmp_path / "class" / "ann").mkdir(parents=True)
    (tmp_path / "class" / "ann" / "w8a8.py").write_text("x = 1\n")
    (tmp_path / "class" / "mal.zip").write_bytes(renamed(b"w8a8.py", 0))

    def failing(archive, target, max_bytes):
        raise RuntimeError("a new kind of archive")

    found = {one.student: one for one in collect(tmp_path / "class", tmp_path / "work", unpack=failing).hand_ins}
    assert not found["ann"].failed
    assert "RuntimeError: a new kind of archive" in found["mal"].failed


@pytest.fixture
def time_limit():
    """Raises in this process when the block takes longer."""
    import contextlib
    import signal

    @contextlib.contextmanager
    def limit(seconds: int):
        def late(number, frame):
            raise AssertionError(f"took more than {seconds} s")

        kept = signal.signal(signal.SIGALRM, late)
        signal.alarm(seconds)
        try:
            yield
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, kept)

    return limit
