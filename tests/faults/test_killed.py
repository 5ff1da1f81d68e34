"""SIGKILL for every kind of process that grading starts, on the CPU and on a GPU: the same table, nothing left, nobody loses a point.

`FAULT_KILLS=40 pytest tests/faults` is the long run; the number here keeps the suite short. `FAULT_SEED` chooses others.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from grader.sandbox.inside.places import GRADER
from tests.deliveries import delivered
from tests.faults.conftest import leftovers
from tests.processes import command_line, descendants
from tests.submissions import TESTS
from tests.unit.classroom.test_batch import variant, verdict_times, wrong

KILLS = int(os.environ.get("FAULT_KILLS", "5"))  # each kind once
SEED = int(os.environ.get("FAULT_SEED", "5"))
DEADLINE = 300.0
PATIENCE = 120.0
"""Seconds in which every kind of process is there at some moment of looking."""

CLASS = {
    "ann/w8a8.py": variant("w8a8", 1),
    "cat/dds.py": variant("dds", 2),
    "dan/dds.py": wrong("dds", "block_not_transposed"),
}
KINDS = ("worker", "sandbox", "inside a sandbox", "fork server", "command")
GPU_KINDS = ("GPU process", *KINDS)

pytestmark = [pytest.mark.slow]
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.xdist_group("batch")),
    pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.xdist_group("gpu")]),
]


def start(folder: Path, place: Path, device: str) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "tests.batch_driver",
        str(folder),
        str(place / "journal.sqlite"),
        str(place / "table.json"),
        "local",
        device,
    ]
    with (place / "log").open("ab") as log:
        return subprocess.Popen(command, cwd=TESTS.parent, stdout=log, stderr=log)


def finished(folder: Path, place: Path, device: str = "cpu") -> dict[str, Any]:
    process = start(folder, place, device)
    assert process.wait(timeout=DEADLINE) == 0, (place / "log").read_text()
    return json.loads((place / "table.json").read_text())


def kind_of(process: psutil.Process) -> str:
    """Which of the grader's processes this is."""
    words = command_line(process)
    try:
        if "multiprocessing.spawn" in words:
            return "GPU process"
        if "forkserver" in words:
            return "worker" if "forkserver" in command_line(process.parent()) else "fork server"
        if "bwrap" in words.split(" ", 1)[0]:
            return "sandbox"
        return "inside a sandbox" if f"{GRADER}/" in words else "other"
    except (psutil.Error, OSError, AttributeError):
        return "other"


@dataclass
class Killer:
    """Kills one process after the other at random moments, the kinds in turn."""

    folder: Path
    place: Path
    device: str = "cpu"
    killed: dict[str, int] = field(default_factory=dict)
    seen: set[psutil.Process] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    stored: int = 0

    def disturb(self, kills: int, chance: random.Random) -> None:
        """Starts the batch, again whenever it has ended or was killed, until so many processes were killed."""
        process = start(self.folder, self.place, self.device)
        kinds = KINDS if self.device == "cpu" else GPU_KINDS
        killed, since = 0, time.monotonic()
        try:
            while killed < kills:
                kind = kinds[killed % len(kinds)]
                assert time.monotonic() - since < PATIENCE, f"no {kind} in {PATIENCE:.0f} s; killed: {self.killed}, seen: {self.kinds}"
                time.sleep(chance.uniform(0.2, 3.0))
                if process.poll() is not None:
                    if process.returncode == 0:
                        (self.place / "journal.sqlite").unlink()  # graded to the end: from the beginning
                        self.stored = 0
                    process = start(self.folder, self.place, self.device)
                    continue
                if self._kill(process, kind, chance):
                    killed, since = killed + 1, time.monotonic()
        finally:
            process.kill()
            process.wait()

    def _kill(self, command: subprocess.Popen[bytes], kind: str, chance: random.Random) -> bool:
        below = descendants(command.pid)
        self.seen |= set(below)
        found = [(one, kind_of(one)) for one in below]
        self.kinds |= {name for _, name in found}
        chosen = [psutil.Process(command.pid)] if kind == "command" else [one for one, name in found if name == kind]
        if not chosen:
            return False
        try:
            chance.choice(chosen).send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            return False
        self.killed[kind] = self.killed.get(kind, 0) + 1
        if kind == "command":
            command.wait()
            assert psutil.wait_procs(below, timeout=15)[1] == [], "what the command had started outlives it"
        stored = len(verdict_times(self.place))
        assert stored >= self.stored, "a verdict was lost"
        self.stored = stored
        return True


@pytest.mark.parametrize("device", DEVICES)
def test_killed_everywhere_the_batch_comes_to_the_same_table(device, tmp_path_factory, tmp_path, temporary):
    folder = delivered(tmp_path_factory.mktemp("class"), CLASS)
    undisturbed = finished(folder, tmp_path_factory.mktemp("undisturbed"), device)
    points = {key.split("/")[0]: max(lab[1] for lab in labs.values()) for key, labs in undisturbed.items()}
    assert points["ann"] == points["cat"] == 60
    assert points["dan"] < 60
    killer = Killer(folder, tmp_path, device)
    killer.disturb(KILLS, random.Random(SEED))
    kinds = KINDS if device == "cpu" else GPU_KINDS
    assert set(killer.killed) == set(kinds[:KILLS])
    assert finished(folder, tmp_path, device) == undisturbed
    graded_at = verdict_times(tmp_path)
    assert len(graded_at) == len(CLASS)
    assert finished(folder, tmp_path, device) == undisturbed
    assert verdict_times(tmp_path) == graded_at, "a run that knows everything grades nothing"
    alive = psutil.wait_procs(killer.seen, timeout=15)[1]
    assert not [command_line(one) for one in alive]
    assert leftovers(temporary) == []
