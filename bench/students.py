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
from grader.running.prestart import visible

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
BEGIN, END = "<!-- students: begin -->", "<!-- students: end -->"


@dataclass(frozen=True)
class ClassRun:
    """One class on so many cores. seconds: of the whole command, from the start of Python to its end; memory_gb: by how much the
    memory in use grew at most, all processes together; distinct: how many different kernels of each lab; cpu_seconds: of all processes,
    None where no control group can be made that counts them. gpu_idle_seconds: how long each GPU ran no kernel, as NVML samples it;
    points: the fewest and the most that a student got; control: the ratio of cuBLAS to itself that is farthest from 1; top_tier: how
    many of the timed cases are in the highest tier, of how many."""

    cores: int
    students: int
    distinct: int
    seconds: float
    memory_gb: float
    cpu_seconds: float | None
    engine: str = "local"
    gpu_idle_seconds: tuple[float, ...] = ()
    points: tuple[float, float] = (0.0, 0.0)
    control: float | None = None
    top_tier: tuple[int, int] = (0, 0)

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
                (place / f"{lab.id}.py").write_text(own_text(lab.id, own), encoding="utf-8")
    return distinct


def own_text(lab: str, number: int) -> str:
    """The lab's solution with names that no other number has."""
    return renamed((ROOT / "solutions" / f"{lab}.py").read_text(encoding="utf-8"), number)


def renamed(text: str, number: int) -> str:
    """A kernel with names that no other number has."""
    changed = re.sub(r"\b(acc|pid)\b", rf"\1_{number}", text)
    assert changed != text
    return changed


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


class Watched:
    """What the machine uses while a command runs, looked at twice a second, by a thread."""

    def __init__(self, gpus: Sequence[str]) -> None:
        """gpus: their indices, as NVML has them."""
        self.memory, self.idle = 0, [0.0] * len(gpus)
        self._gpus, self._ended = [int(gpu) for gpu in gpus], threading.Event()
        self._before = psutil.virtual_memory().used
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        if self._gpus:
            import pynvml

            pynvml.nvmlInit()
            handles = [pynvml.nvmlDeviceGetHandleByIndex(gpu) for gpu in self._gpus]
        last = time.monotonic()
        while not self._ended.wait(0.5):
            self.memory = max(self.memory, psutil.virtual_memory().used - self._before)
            now = time.monotonic()
            for place in range(len(self._gpus)):
                self.idle[place] += (now - last) * (1 - pynvml.nvmlDeviceGetUtilizationRates(handles[place]).gpu / 100)
            last = now

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def timed(cores: Sequence[int], students: int, equal: float, device: str, gpus: Sequence[str], engine: str) -> ClassRun:
    """Grades a class on these cores and GPUs. Raises CalledProcessError where the command fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        distinct = hand_in(folder / "submitted", students, equal)
        command = [sys.executable, "-m", "grader", "batch", "submitted", "--out", "report", "--device", device]
        command += ["--engine", engine]
        paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": paths, "XDG_CACHE_HOME": str(folder / "cache")}
        if gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        counted, watched = Counted(), Watched(gpus)
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
            watched.end()
        seconds, cpu_seconds = time.monotonic() - started, counted.end()
        lines = (folder / "report" / "grades.jsonl").read_text(encoding="utf-8").splitlines()
    graded = [json.loads(line) for line in lines]
    assert len(graded) == students
    points = [entry["points"] for entry in graded]
    tests = [test for entry in graded for lab in entry["report"]["labs"].values() for test in lab["tests"]]
    speed = [test["metrics"] for test in tests if "ratio" in test["metrics"]]
    return ClassRun(
        len(cores),
        students,
        distinct,
        round(seconds, 1),
        round(watched.memory / 1e9, 1),
        None if cpu_seconds is None else round(cpu_seconds, 1),
        engine,
        tuple(round(seconds, 1) for seconds in watched.idle),
        (min(points), max(points)),
        max((one["control"] for one in speed), key=lambda control: abs(control - 1), default=None),
        (sum(one["tier"] == len(one["tiers"]) for one in speed), len(speed)),
    )


def measure(
    device: Device,
    wanted: Sequence[tuple[int, int]],
    students: int | None,
    equal: float,
    engine: str,
    listen: Callable[[str], None],
) -> ClassRecord:
    """A class for each number of cores and GPUs; students: how many, by default as many as cores, so that each takes about as long."""
    import torch
    import triton

    mine = sorted(os.sched_getaffinity(0))
    runs = []
    for count, gpus in wanted:
        names = [visible(gpu) for gpu in range(gpus if device.kind == "cuda" else 0)]
        run = timed(mine[:count], students or max(2, count), equal, device.kind, names, engine)
        listen(
            f"{count} cores, {len(names)} GPUs: {run.students} students in {run.seconds:.0f} s, {run.a_minute:.1f} a minute"
        )
        runs.append(run)
    versions = {"python": platform.python_version(), "torch": torch.__version__, "triton": triton.__version__}
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return ClassRecord(device.name if device.kind == "cuda" else "no GPU", date, versions, tuple(runs))


def to_json(record: ClassRecord) -> str:
    return json.dumps(asdict(record), indent=1) + "\n"


def loaded() -> list[ClassRecord]:
    """The records of bench/results/."""
    from pydantic import TypeAdapter

    return [TypeAdapter(ClassRecord).validate_json(path.read_bytes()) for path in sorted(RESULTS.glob("students_*.json"))]


def table(records: Sequence[ClassRecord]) -> str:
    """The records as Markdown."""
    usage = "seconds", "students a minute", "CPU s a student", "memory", "idle s of each GPU"
    head = "machine", "engine", "GPUs", "cores", "students", "distinct", *usage, "points", "A/A farthest from 1", "in the top tier"
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for record in records:
        for run in record.runs:
            idle = ", ".join(f"{seconds:.0f}" for seconds in run.gpu_idle_seconds)
            least, most = run.points
            cells = (
                record.device,
                run.engine,
                len(run.gpu_idle_seconds),
                run.cores,
                run.students,
                run.distinct,
                f"{run.seconds:.0f}",
                f"{run.a_minute:.1f}",
                "" if run.cpu_seconds is None else f"{run.cpu_seconds / run.students:.0f}",
                f"{run.memory_gb:.1f} GB",
                idle,
                f"{least:g}" if least == most else f"{least:g} to {most:g}",
                "" if run.control is None else f"{run.control:.4f}",
                f"{run.top_tier[0]} of {run.top_tier[1]}" if run.top_tier[1] else "",
            )
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"
