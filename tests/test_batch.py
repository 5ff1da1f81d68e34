"""A class in one run, with real processes: killed anywhere, it goes on where it was and comes to the same verdicts."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from grader.batch.hidden import Secrets
from grader.batch.tasks import Setup
from grader.devices import choose
from grader.grading import GradeOptions, grade
from tests import batch_driver
from tests.submissions import TESTS, mistakes

ROOT = TESTS.parent
RIGHT = {lab: (TESTS / "mistakes" / f"student_{lab}.py").read_text(encoding="utf-8") for lab in ("w8a8", "dds")}
DEADLINE = 240.0


def variant(lab: str, number: int) -> str:
    """The right kernel of a lab as somebody else would hand it in: other names, the same results."""
    return RIGHT[lab].replace("tl.program_id(0)", f"tl.program_id({number} - {number})")


@pytest.fixture(scope="module")
def submissions(tmp_path_factory) -> Path:
    """Right, wrong, hostile, broken, unreadable, missing, copied, handed in twice."""
    root = tmp_path_factory.mktemp("class")
    wrong = {(mistake.lab, mistake.name): mistake.source for mistake in mistakes()}
    files = {
        "ann/w8a8.py": variant("w8a8", 1),
        "ben/w8a8.py": wrong["w8a8", "truncation"],
        "cat/dds.py": variant("dds", 2),
        "cat/w8a8.py": wrong["w8a8", "zeros"],
        "dan/dds.py": wrong["dds", "block_not_transposed"],
        "eve/w8a8.py": variant("w8a8", 1),
        "fay/w8a8.ipynb": "{",
        "gus/w8a8.py": RIGHT["w8a8"].replace("tl.program_id(0)", "open('/etc/passwd')"),
        "hal/w8a8.py": (ROOT / "assignment" / "w8a8.py").read_text(encoding="utf-8"),
        "ida/first/dds.py": wrong["dds", "zeros"],
        "ida/second/dds.py": variant("dds", 3),
        "jon/readme.txt": "I was ill.",
        "kim/w8a8.py": RIGHT["w8a8"].replace("tl.zeros((BLOCK_M, BLOCK_N)", "tl.zeros((1 << 20, 1 << 14)"),
        "lea/w8a8.py": RIGHT["w8a8"].replace(
            "    pid = tl.program_id(0)\n", "    pid = tl.program_id(0)\n    while pid >= 0:\n        pid = pid + 0\n"
        ),
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def start(folder: Path, place: Path, engine: str = "local") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.batch_driver", str(folder), str(place / "journal.sqlite"),
               str(place / "table.json"), engine]  # fmt: skip
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finished(folder: Path, place: Path) -> dict[str, object]:
    """The table of a run that nobody disturbs."""
    process = start(folder, place)
    output, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, output
    return json.loads((place / "table.json").read_text())


def verdicts_in(place: Path) -> int:
    import sqlite3

    try:
        database = sqlite3.connect(f"file:{place / 'journal.sqlite'}?mode=ro", uri=True)
        try:
            return database.execute("SELECT COUNT(*) FROM verdict").fetchone()[0]
        finally:
            database.close()
    except sqlite3.Error:
        return 0


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The grader's own worker processes: spawned children, not sandboxes."""
    children = psutil.Process(process.pid).children()
    return [child for child in children if any("spawn_main" in part for part in child.cmdline())]


@pytest.fixture(scope="module")
def undisturbed(submissions, tmp_path_factory):
    place = tmp_path_factory.mktemp("undisturbed")
    started = time.time()
    table = finished(submissions, place)
    return table, verdicts_in(place), time.time() - started


pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("batch")]


def test_verdicts_are_those_of_grading_one_by_one(submissions, undisturbed, tmp_path):
    table, _, _ = undisturbed
    setup = Setup(choose("cpu")[0], Secrets(batch_driver.SEED), cases=batch_driver.CASES)
    labs = [setup.lab(lab_id) for lab_id in ("w8a8", "dds")]
    options = GradeOptions(choose("cpu")[0], seed=batch_driver.SEED, capabilities=(80,))
    for name in ("ben", "dan"):
        report = grade(submissions / name, labs, options)
        key = next(key for key in table if key.startswith(f"{name}/"))
        for lab_id, lab in report.labs.items():
            expected = [lab.status, lab.points, lab.message, [[t.name, t.status, t.message] for t in lab.tests]]
            assert table[key][lab_id] == expected


def test_everybody_has_the_verdict_they_deserve(undisturbed):
    table, kept, _ = undisturbed
    lab_of = {key.split("/")[0]: labs for key, labs in table.items() if not key.startswith("ida/")}
    most = 60.0
    assert lab_of["ann"]["w8a8"][:2] == ["graded", most]
    assert lab_of["ben"]["w8a8"][0] == "graded"
    assert lab_of["ben"]["w8a8"][1] < most
    assert lab_of["cat"]["dds"][1] == most
    assert lab_of["cat"]["w8a8"][1] == 0
    assert lab_of["eve"]["w8a8"] == lab_of["ann"]["w8a8"]
    assert lab_of["fay"]["w8a8"][0] == lab_of["gus"]["w8a8"][0] == "rejected"
    assert lab_of["hal"]["w8a8"][0] == "not_attempted"
    assert lab_of["jon"]["w8a8"][0] == "rejected"
    assert lab_of["kim"]["w8a8"][0] in ("crash", "build_error")
    assert lab_of["lea"]["w8a8"][0] == "timeout"
    assert sum(key.startswith("ida/") for key in table) == 2
    assert kept == 9, "ann's and eve's kernels are one piece of work"


def test_killed_again_and_again_the_batch_comes_to_the_same_table(submissions, undisturbed, tmp_path):
    """SIGKILL of the coordinator at random moments; nothing is lost, nothing is left running, nothing is graded twice."""
    table, kept, seconds = undisturbed
    chance, before = random.Random(5), 0
    for _ in range(4):
        process = start(submissions, tmp_path)
        time.sleep(chance.uniform(0.15, 0.6) * seconds)
        if process.poll() is not None:
            break
        below = family(process)
        process.kill()
        process.communicate()
        _, alive = psutil.wait_procs(below, timeout=15)
        assert not alive, [one.cmdline() for one in alive if one.is_running()]
        now = verdicts_in(tmp_path)
        assert now >= before
        before = now
    assert finished(submissions, tmp_path) == table
    assert verdicts_in(tmp_path) == kept
    started = time.time()
    assert finished(submissions, tmp_path) == table
    assert time.time() - started < 0.7 * seconds, "a run that knows everything only reads"


def test_a_killed_worker_costs_nobody_a_verdict(submissions, undisturbed, tmp_path):
    table, kept, seconds = undisturbed
    process = start(submissions, tmp_path)
    killed, deadline = 0, time.time() + DEADLINE
    while process.poll() is None and killed < 2 and time.time() < deadline:
        time.sleep(max(1.5, seconds / 8))
        for worker in workers(process)[-1:]:
            try:
                worker.send_signal(signal.SIGKILL)
                killed += 1
            except psutil.NoSuchProcess:
                pass
    output, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, output
    assert killed == 2
    assert json.loads((tmp_path / "table.json").read_text()) == table
    assert verdicts_in(tmp_path) == kept


def test_ctrl_c_stops_the_command_cleanly(submissions, tmp_path):
    """The command stops with status 130, keeps what it has, and leaves no process behind."""
    command = [sys.executable, "-m", "grader", "batch", str(submissions), "--out", str(tmp_path / "report"), "--lab",
               "dds", "--device", "cpu", "--only", "cat", "--only", "dan"]  # fmt: skip
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.time() + 60
    while len(family(process)) < 3 and time.time() < deadline:
        time.sleep(0.1)
    below = family(process)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130, complaint
    assert "the same command goes on from there" in complaint
    assert "Traceback" not in complaint
    assert not psutil.wait_procs(below, timeout=15)[1]


def test_another_batch_on_the_same_journal_is_refused(submissions, tmp_path):
    first = start(submissions, tmp_path)
    deadline = time.time() + 60
    while not (tmp_path / "journal.sqlite").exists() and time.time() < deadline:
        time.sleep(0.05)
    second = start(submissions, tmp_path)
    output, _ = second.communicate(timeout=60)
    first.kill()
    first.communicate()
    assert second.returncode == 3
    assert "JournalBusy" in output
