"""How many students a minute a batch grades with so many cores: a class of distinct right kernels of the course's three labs."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from grader.labs import all_labs
from grader.model import Device

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
BEGIN, END = "<!-- students: begin -->", "<!-- students: end -->"


@dataclass(frozen=True)
class ClassRun:
    """One class on so many cores. seconds: of the whole command, from the start of Python to its end; memory_gb: by how much the
    memory in use grew at most, all processes together; distinct: how many different kernels of each lab; cpu_seconds: of all processes,
    None where no control group can be made that counts them."""

    cores: int
    students: int
    distinct: int
    seconds: float
    memory_gb: float
    cpu_seconds: float | None

    @property
    def a_minute(self) -> float:
        """Students a minute."""
        return 60 * self.students / self.seconds


@dataclass(frozen=True)
class ClassRecord:
    """What was measured on one machine."""

    device: str
    date: str
    versions: dict[str, str]
    runs: tuple[ClassRun, ...]


def hand_in(folder: Path, students: int, equal: float) -> int:
    """A class below `folder`, of which the given share hands in the first one's kernels. Returns how many are distinct."""
    distinct = students - int(equal * students)
    for student in range(students):
        place = folder / f"student{student:03d}"
        place.mkdir(parents=True)
        own = student if student < distinct else 0
        for lab in all_labs().values():
            if not lab.bonus:
                text = (ROOT / "solutions" / f"{lab.id}.py").read_text(encoding="utf-8")
                renamed = re.sub(r"\b(acc|pid)\b", rf"\1_{own}", text)
                assert renamed != text, lab.id
                (place / f"{lab.id}.py").write_text(renamed, encoding="utf-8")
    return distinct


class Counted:
    """A control group whose CPU time can be read; `path` is None where none can be made."""

    def __init__(self) -> None:
        self.path: Path | None = None
        for base, self.file in (("/sys/fs/cgroup/cpuacct", "cpuacct.usage"), ("/sys/fs/cgroup", "cpu.stat")):
            path = Path(base) / f"grader-bench-{os.getpid()}"
            with contextlib.suppress(OSError):
                path.mkdir()
                if (path / self.file).exists():
                    self.path = path
                    return
                path.rmdir()

    def join(self) -> None:
        """Puts this process there; to be called in the one that is counted."""
        if self.path:
            (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def end(self) -> float | None:
        """The seconds until now; its processes are over."""
        if not self.path:
            return None
        text = (self.path / self.file).read_text()
        with contextlib.suppress(OSError):
            self.path.rmdir()
        return int(text) / 1e9 if text.strip().isdigit() else int(text.split()[1]) / 1e6


def timed(cores: Sequence[int], students: int, equal: float, device: str) -> ClassRun:
    """Grades a class on these cores. Raises CalledProcessError where the command fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        distinct = hand_in(folder / "submitted", students, equal)
        command = [sys.executable, "-m", "grader", "batch", "submitted", "--out", "report", "--device", device]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache")}
        counted = Counted()
        before, most, ended = psutil.virtual_memory().used, 0, threading.Event()

        def watch() -> None:
            nonlocal most
            while not ended.wait(0.5):
                most = max(most, psutil.virtual_memory().used)

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        started = time.monotonic()
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores)  # what is started here inherits it
        try:
            subprocess.run(
                command,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=True,
                preexec_fn=counted.join,
            )
        finally:
            os.sched_setaffinity(0, allowed)
            ended.set()
        seconds, cpu_seconds = time.monotonic() - started, counted.end()
        watching.join()
        graded = [
            json.loads(line) for line in (folder / "report" / "grades.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        assert len(graded) == students
        assert len({entry["points"] for entry in graded if device == "cpu"}) <= 1
    used = None if cpu_seconds is None else round(cpu_seconds, 1)
    return ClassRun(len(cores), students, distinct, round(seconds, 1), round((most - before) / 1e9, 1), used)


def measure(
    device: Device, wanted: Sequence[int], students: int | None, equal: float, listen: Callable[[str], None]
) -> ClassRecord:
    """A class for each number of cores; students: how many, by default as many as cores, so that each takes about as long."""
    import torch
    import triton

    mine = sorted(os.sched_getaffinity(0))
    runs = []
    for count in wanted:
        run = timed(mine[:count], students or max(2, count), equal, device.kind)
        listen(f"{count} cores: {run.students} students in {run.seconds:.0f} s, {run.a_minute:.1f} a minute")
        runs.append(run)
    versions = {"python": platform.python_version(), "torch": torch.__version__, "triton": triton.__version__}
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return ClassRecord(device.name if device.kind == "cuda" else "no GPU", date, versions, tuple(runs))


def to_json(record: ClassRecord) -> str:
    return json.dumps(asdict(record), indent=1) + "\n"


def loaded() -> list[ClassRecord]:
    """The records of bench/results/."""
    found = []
    for path in sorted(RESULTS.glob("students_*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        found.append(ClassRecord(data["device"], data["date"], data["versions"], tuple(ClassRun(**run) for run in data["runs"])))
    return found


def table(records: Sequence[ClassRecord]) -> str:
    """The records as Markdown."""
    lines = [
        "| machine | cores | students | distinct | seconds | students a minute | CPU s a student | memory |",
        "|---" * 8 + "|",
    ]
    for record in records:
        for run in record.runs:
            used = "" if run.cpu_seconds is None else f"{run.cpu_seconds / run.students:.0f}"
            rates = f"{run.seconds:.0f}", f"{run.a_minute:.1f}", used, f"{run.memory_gb:.1f} GB"
            cells = record.device, run.cores, run.students, run.distinct, *rates
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"
