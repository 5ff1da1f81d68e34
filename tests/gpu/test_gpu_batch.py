"""A class on a GPU: kernels that never end or poison the context, and a GPU process that is killed, cost nobody else."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from tests.deliveries import delivered
from tests.gpu.test_gpu_correctness import STORE
from tests.processes import gpu_processes
from tests.submissions import TESTS
from tests.unit.classroom.test_batch import RIGHT, variant, wrong

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.xdist_group("gpu")]

ENDLESS = RIGHT["w8a8"].replace(
    STORE, "    while tl.load(input_scale_ptr) > 0:\n        tl.atomic_add(y_ptr, 0.0)\n" + STORE
)
WILD = RIGHT["w8a8"].replace("tl.store(", "tl.store((1 << 40) + ", 1)
CLASS = {
    "ann/w8a8.py": variant("w8a8", 1),
    "ben/w8a8.py": wrong("w8a8", "truncation"),
    "eve/w8a8.py": ENDLESS,
    "fay/w8a8.py": WILD,
    "gus/w8a8.py": variant("w8a8", 2),
    "hal/w8a8.py": variant("w8a8", 3),
}


def started(folder, out):
    command = [sys.executable, "-m", "grader", "batch", str(folder), "--out", str(out), "--lab", "w8a8",
               "--device", "cuda"]
    return subprocess.Popen(command, cwd=TESTS.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def grades(out):
    entries = [json.loads(line) for line in (out / "grades.jsonl").read_text().splitlines()]
    return {entry["student"]: entry["report"]["labs"]["w8a8"] for entry in entries}


def test_bad_kernels_and_a_killed_gpu_process_cost_nobody_else(tmp_path):
    folder = delivered(tmp_path / "class", CLASS)
    process = started(folder, tmp_path / "report")
    deadline = time.time() + 120
    while not gpu_processes(process.pid) and process.poll() is None and time.time() < deadline:
        time.sleep(0.2)
    time.sleep(3)
    for one in gpu_processes(process.pid):
        one.kill()
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 0, output
    verdicts = grades(tmp_path / "report")
    assert verdicts["eve"]["status"] == "timeout"
    assert verdicts["fay"]["correctness"]["points"] == 0
    assert verdicts["ben"]["status"] == "graded"
    assert verdicts["ben"]["correctness"]["points"] < 60
    for student in ("ann", "gus", "hal"):
        assert verdicts[student]["correctness"]["points"] == 60
        assert verdicts[student]["speed"]["status"] == "graded"
