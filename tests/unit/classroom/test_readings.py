"""What was read of a hand-in is read once: the same bytes give the same, wherever they lie, and anything else is read anew."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from grader.classroom.batch.coordinating import Plan, run_batch
from grader.classroom.batch.journal import Journal
from grader.classroom.batch.marks import Rules
from grader.classroom.batch.pages import Pages
from grader.classroom.batch.readings import MAX_BYTES, reading_key, recall, remember
from grader.classroom.batch.standing import standings
from grader.classroom.batch.tasks import Content, read_hand_in
from grader.model import Refusal
from tests.deliveries import delivered
from tests.stub_class import SETUP, Answering, PoolHere
from tests.submissions import TESTS

LABS = ("w8a8", "dds")
KERNEL = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
REFUSED = KERNEL.replace("    pid = ", "    BAD = undefined_name\n    pid = ", 1)
NOTEBOOK = TESTS.parent / "notebooks" / "w8a8.ipynb"


@pytest.mark.parametrize(
    "files",
    [
        {"w8a8.py": KERNEL},
        {"w8a8.py": KERNEL, "deeper/dds.py": "x = ("},
        {"w8a8.ipynb": NOTEBOOK.read_text(encoding="utf-8") if NOTEBOOK.exists() else "{}"},
        {"answers.py": 'student = "Ann"\nw8a8_bytes = 3 * 7\nw8a8_operations = "many"\n', "w8a8.py": KERNEL},
        {"notes.txt": "nothing here"},
        {"w8a8.py": REFUSED},
    ],
    ids=["kernel", "syntax", "notebook", "answers", "nothing", "refused"],
)
def test_what_was_kept_is_what_is_read(tmp_path, files):
    first = delivered(tmp_path / "one" / "hand_in", files)
    elsewhere = Path(shutil.copytree(first, tmp_path / "another" / "hand_in"))
    key = reading_key(first, LABS)
    assert key is not None
    assert reading_key(elsewhere, LABS) == key
    with Journal(tmp_path / "journal.sqlite") as journal:
        assert recall(journal, key, first) is None
        remember(journal, key, first, read_hand_in(first, LABS))
        assert recall(journal, key, elsewhere) == read_hand_in(elsewhere, LABS)


def test_whatever_reading_depends_on_is_in_the_key(tmp_path):
    def key(files: dict[str, str], name: str = "hand_in", labs: tuple[str, ...] = LABS) -> str | None:
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        return reading_key(delivered(tmp_path / name, files), labs)

    keys = [
        key({"a.py": "x", "b.py": "y"}),
        key({"a.py": "xb.py", "y": ""}),
        key({"a.py": "y", "b.py": "x"}),
        key({"a.py": "x", "c.py": "y"}),
        key({"a.py": "x", "b/b.py": "y"}),
        key({"a.py": "x", "b.py": "y", "z": ""}),
        key({"a.py": "x", "b.py": "y"}, "other"),
        key({"a.py": "x", "b.py": "y"}, labs=("w8a8",)),
    ]
    assert None not in keys
    assert len(set(keys)) == len(keys)


def test_links_pipes_and_large_files_are_read_each_time(tmp_path):
    root = delivered(tmp_path / "hand_in", {"w8a8.py": KERNEL})
    assert reading_key(root / "w8a8.py", LABS) is not None
    os.mkfifo(root / "pipe")
    assert reading_key(root, LABS) is None
    (root / "pipe").unlink()
    for target in (root / "w8a8.py", tmp_path):
        (root / "link").symlink_to(target)
        assert reading_key(root, LABS) is None
        assert reading_key(root / "link", LABS) is None
        (root / "link").unlink()
    with (root / "large").open("wb") as file:
        file.truncate(MAX_BYTES)
    assert reading_key(root, LABS) is None


def test_a_class_that_did_not_change_asks_nothing_of_the_workers(tmp_path):
    root = delivered(tmp_path / "class", {"ann/w8a8.py": KERNEL, "ben/w8a8.py": KERNEL, "eve/w8a8.py": "x = ("})

    class Counting(PoolHere):
        asked: list[str]

        def submit(self, priority: int, function: Any, *arguments: Any, **options: Any) -> Any:
            self.asked.append(function.__name__)
            return super().submit(priority, function, *arguments, **options)

    def run() -> list[str]:
        pool: Any = Counting()
        pool.asked = []
        with Journal(tmp_path / "journal.sqlite") as journal:
            graded = run_batch(Plan(root, ("w8a8",), SETUP), journal, pool, lambda: contextlib.nullcontext(Answering())).graded
            (tmp_path / "report").mkdir(exist_ok=True)
            Pages(pool, tmp_path / "report", "secret", journal).write(standings(graded, Rules()))
        return pool.asked

    assert {"read_hand_in", "similar_kernels", "_page"} == set(run())
    before = (tmp_path / "report" / "index.html").read_bytes()
    assert run() == []
    assert (tmp_path / "report" / "index.html").read_bytes() == before
    (root / "ben" / "w8a8.py").write_text(KERNEL + "\n", encoding="utf-8")
    assert "read_hand_in" in run()


def test_what_failed_outside_of_it_is_read_again(tmp_path):
    root = delivered(tmp_path / "hand_in", {"w8a8.py": KERNEL})
    key = reading_key(root, LABS) or ""
    with Journal(tmp_path / "journal.sqlite") as journal:
        remember(journal, key, root, Refusal("not_graded", "no memory"))
        assert recall(journal, key, root) is None
        remember(journal, key, root, Refusal("rejected", "no kernel"))
        assert recall(journal, key, root) == Refusal("rejected", "no kernel")
        journal.remember(key, "{", str)
        assert recall(journal, key, root) is None
        assert isinstance(read_hand_in(root, LABS), Content)


def test_a_refused_kernel_in_an_archive_stops_no_later_run(tmp_path):
    """Each run unpacks to a place of its own, and what was read before must not name the earlier one."""
    files = {"doe_1_10_w8a8.py": KERNEL, "eve_2_11_w8a8.py": REFUSED}
    delivered(tmp_path / "submissions", files)
    packed = Path(shutil.make_archive(str(tmp_path / "class"), "zip", tmp_path / "submissions"))

    def run() -> list[tuple[str, str]]:
        pool: Any = PoolHere()
        with Journal(tmp_path / "journal.sqlite") as journal:
            outcome = run_batch(Plan(packed, ("w8a8",), SETUP), journal, pool, lambda: contextlib.nullcontext(Answering()))
        return sorted((one.hand_in.student, one.report.labs["w8a8"].status) for one in outcome.graded)

    first = run()
    assert [student for student, _ in first] == ["doe_1", "eve_2"]
    assert run() == first
