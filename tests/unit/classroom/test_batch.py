"""A class in one run, with real processes, comes to the verdicts of grading one by one; kills are in tests/faults/."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from grader.classroom.batch.tasks import Setup, grade_on_cpu
from grader.classroom.hidden_cases import ABOUT, Secrets
from grader.gpu.devices import choose
from grader.labs import get_lab
from grader.model import Case, Report
from grader.pipeline.grading import GradeOptions, grade
from grader.reading import read
from grader.reporting.document import document
from grader.reporting.page import page
from grader.running.cpu import CASE_SECONDS
from tests import batch_driver
from tests.deliveries import delivered
from tests.processes import children, command_line, descendants
from tests.submissions import TESTS, mistakes

ROOT = TESTS.parent
RIGHT = {lab: (TESTS / "styles" / f"{lab}_plain.py").read_text(encoding="utf-8") for lab in ("w8a8", "dds")}
DEADLINE = 240.0


def variant(lab: str, number: int) -> str:
    """The right kernel of a lab as somebody else would hand it in: other names, the same results."""
    return RIGHT[lab].replace("tl.program_id(0)", f"tl.program_id({number} - {number})")


def wrong(lab: str, name: str) -> str:
    return next(mistake.source for mistake in mistakes() if (mistake.lab, mistake.name) == (lab, name))


def endless(source: str) -> str:
    first = "    pid = tl.program_id(0)\n"
    assert first in source
    return source.replace(first, first + "    while pid >= 0:\n        pid = pid + 0\n")


FEW = {
    "ann/w8a8.py": variant("w8a8", 1),
    "ben/w8a8.py": wrong("w8a8", "truncation"),
    "cat/dds.py": variant("dds", 2),
    "dan/dds.py": wrong("dds", "block_not_transposed"),
    "fay/w8a8.ipynb": "{",
}
MORE = {
    "mia/w8a8.py": wrong("w8a8", "zeros"),
    "mia/dds.py": variant("dds", 2),
    "eve/w8a8.py": variant("w8a8", 1),
    "gus/w8a8.py": RIGHT["w8a8"].replace("tl.program_id(0)", "open('/etc/passwd')"),
    "hal/w8a8.py": (ROOT / "assignment" / "w8a8.py").read_text(encoding="utf-8"),
    "ida/first/dds.py": wrong("dds", "zeros"),
    "ida/second/dds.py": variant("dds", 3),
    "jon/readme.txt": "I was ill.",
    "kim/w8a8.py": RIGHT["w8a8"].replace("tl.zeros((BLOCK_M, BLOCK_N)", "tl.zeros((1 << 20, 1 << 14)"),
    "lea/w8a8.py": endless(RIGHT["w8a8"]),
}


@pytest.fixture(scope="module")
def submissions(tmp_path_factory) -> Path:
    """Right, wrong, hostile, broken, too large, endless, missing, copied, handed in twice."""
    return delivered(tmp_path_factory.mktemp("class") / "submitted", FEW | MORE)


@pytest.fixture(scope="module")
def few(tmp_path_factory) -> Path:
    """A smaller class, for the runs that are killed."""
    return delivered(tmp_path_factory.mktemp("few"), FEW)


def start(folder: Path, place: Path, engine: str = "local") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.batch_driver", str(folder), str(place / "journal.sqlite"),
               str(place / "table.json"), engine]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finished(folder: Path, place: Path, engine: str = "local") -> dict[str, object]:
    """The table of a run that nobody disturbs."""
    process = start(folder, place, engine)
    output, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, output
    return json.loads((place / "table.json").read_text())


def verdict_times(place: Path) -> list[float]:
    """When each verdict of a journal was graded, in the order of their keys."""
    try:
        database = sqlite3.connect(f"file:{place / 'journal.sqlite'}?mode=ro", uri=True)
        try:
            return [row[0] for row in database.execute("SELECT graded_at FROM verdict ORDER BY key")]
        finally:
            database.close()
    except sqlite3.Error:
        return []


def verdicts_in(place: Path) -> int:
    return len(verdict_times(place))


def workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The grader's own worker processes: forked by the server that imported what they share."""
    servers = [child for child in children(process.pid) if "forkserver" in command_line(child)]
    return [worker for server in servers for worker in children(server)]


@dataclass(frozen=True)
class Run:
    """A run that nobody disturbed: its table, and how many verdicts its journal keeps."""

    table: dict[str, object]
    kept: int


def undisturbed_run(folder: Path, place: Path, engine: str = "local") -> Run:
    return Run(finished(folder, place, engine), verdicts_in(place))


@pytest.fixture(scope="module")
def undisturbed(submissions, tmp_path_factory):
    return undisturbed_run(submissions, tmp_path_factory.mktemp("undisturbed"))


pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("batch")]


def test_verdicts_are_those_of_grading_one_by_one(submissions, undisturbed, tmp_path):
    table = undisturbed.table
    setup = Setup(choose("cpu")[0], Secrets(batch_driver.SEED), cases=batch_driver.CASES)
    labs = [setup.lab(lab_id) for lab_id in ("w8a8", "dds")]
    options = GradeOptions(choose("cpu")[0], seed=batch_driver.SEED, capabilities=(80,), facts=False)
    for name in ("ben", "dan"):
        report = grade(submissions / name, labs, options)
        key = next(key for key in table if key.startswith(f"{name}/"))
        for lab_id, lab in report.labs.items():
            assert table[key][lab_id] == batch_driver.row(lab)


def test_everybody_has_the_verdict_they_deserve(undisturbed):
    table = undisturbed.table
    lab_of = {key.split("/")[0]: labs for key, labs in table.items() if not key.startswith("ida/")}
    most = 60.0
    assert lab_of["ann"]["w8a8"][:2] == ["graded", most]
    assert lab_of["ben"]["w8a8"][0] == "graded"
    assert lab_of["ben"]["w8a8"][1] < most
    assert lab_of["cat"]["dds"][1] == lab_of["mia"]["dds"][1] == most
    assert lab_of["mia"]["w8a8"][1] == 0
    assert lab_of["eve"]["w8a8"] == lab_of["ann"]["w8a8"]
    assert lab_of["fay"]["w8a8"][0] == lab_of["gus"]["w8a8"][0] == "rejected"
    assert lab_of["hal"]["w8a8"][0] == "not_attempted"
    assert lab_of["jon"]["w8a8"][0] == "not_attempted"
    assert lab_of["kim"]["w8a8"][0] in ("crash", "build_error")
    assert lab_of["lea"]["w8a8"][0] == "timeout"
    assert sum(key.startswith("ida/") for key in table) == 1, "in a plain class nobody names assignments"
    assert undisturbed.kept == 8, "ann's and eve's kernels are one piece of work, and so are cat's and mia's"


def test_a_hidden_case_tells_its_verdict_and_nothing_else(tmp_path):
    """Sizes that only the hidden case has are in no report of a right, a wrong, or an out-of-bounds kernel."""
    case = Case("hidden_1", ABOUT, 1187, 176, 112, hidden=True)
    setup = Setup(choose("cpu")[0], Secrets(5, (("w8a8", case),)), CASE_SECONDS, (80,), batch_driver.CASES)
    lab = get_lab("w8a8")
    unmasked = wrong("w8a8", "store_without_m_mask")
    for text, status in ((RIGHT["w8a8"], "passed"), (wrong("w8a8", "truncation"), "failed"), (unmasked, "failed")):
        (tmp_path / "w8a8.py").write_text(text)
        source = read(tmp_path / "w8a8.py", [lab]).labs["w8a8"]
        report = grade_on_cpu(setup, source)
        assert next(test.status for test in report.tests if test.name == "hidden_1") == status
        whole = Report("w8a8.py", setup.device, None, {"w8a8": report})
        for shown in (json.dumps(document(whole)["labs"]["w8a8"]["tests"]), page(whole)):
            assert not re.search(r"(?<![\d.])(1187|1186|1188|176|175)\b", re.sub(r"base64,[^\"]*", "", shown))


def test_ctrl_c_stops_the_command_cleanly(few, tmp_path):
    """The command stops with status 130, keeps what it has, and leaves no process behind."""
    command = [sys.executable, "-m", "grader", "batch", str(few), "--out", str(tmp_path / "report"), "--lab",
               "dds", "--device", "cpu", "--only", "cat", "--only", "dan"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.time() + 60
    while not ((tmp_path / "report" / "journal.sqlite").exists() and workers(process)) and time.time() < deadline:
        time.sleep(0.1)
    below = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130, complaint
    assert "rerun the same command to resume" in complaint
    assert "Traceback" not in complaint
    assert not psutil.wait_procs(below, timeout=15)[1]


def busy_in_ray() -> list[psutil.Process]:
    """The workers of Ray's nodes below this process that grade a kernel just now."""
    return [process for process in descendants() if "ray::grade_on_cpu" in command_line(process)]


def test_a_ray_worker_and_a_ray_node_that_die_cost_nobody_a_verdict(few, undisturbed, tmp_path, monkeypatch):
    """Two nodes on this machine: one worker is killed while it grades, then a node with all its workers."""
    cluster_utils = pytest.importorskip("ray.cluster_utils", reason="needs Ray: pip install -e .[ray]")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    try:
        head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 200 << 20}
        cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
    except Exception as error:  # Ray raises just that for a node that is late
        pytest.skip(f"no Ray node can be started here: {error}")
    try:
        doomed = cluster.add_node(num_cpus=1, object_store_memory=200 << 20)
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        process = start(few, tmp_path, "ray")
        deadline = time.time() + DEADLINE
        while not (busy := busy_in_ray()) and process.poll() is None and time.time() < deadline:
            time.sleep(0.1)
        busy[0].send_signal(signal.SIGKILL)
        while not verdicts_in(tmp_path) and process.poll() is None and time.time() < deadline:
            time.sleep(0.2)
        cluster.remove_node(doomed, allow_graceful=False)
        output, _ = process.communicate(timeout=DEADLINE)
        assert process.returncode == 0, output
    finally:
        cluster.shutdown()
    students = {name.split("/")[0] for name in FEW}
    assert json.loads((tmp_path / "table.json").read_text()) == {
        key: labs for key, labs in undisturbed.table.items() if key.split("/")[0] in students
    }
    assert verdicts_in(tmp_path) == 4, "fay's notebook is no piece of work"
