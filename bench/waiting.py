"""How long a student waits: whole commands, from the start of Python to the first line and to the end, beside those of another commit."""

from __future__ import annotations

import datetime
import io
import json
import os
import platform
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from bench.students import ROOT, Counted, own_text, renamed
from grader.labs import all_labs, get_lab
from grader.labs.wrong_kernels import wrong_kernels

RESULTS = Path(__file__).parent / "results"
BEGIN, END = "<!-- waiting: begin -->", "<!-- waiting: end -->"
ONE = "w8a8"
WRONG = "truncation"


@dataclass(frozen=True)
class Command:
    """One command. commit: of the grader that ran it. wall_seconds: from the start of Python to the end; first_seconds: to its first line.
    cpu_seconds: of all its processes, None where no control group counts them. load: how many processes wanted a core just before."""

    row: str
    commit: str
    wall_seconds: float
    first_seconds: float
    cpu_seconds: float | None
    load: float


@dataclass(frozen=True)
class WaitingRecord:
    """What was measured on one machine without a GPU; every run, in the order in which they were made."""

    date: str
    cores: int
    python: str
    commands: tuple[Command, ...]


def _built_before(folder: Path, labs: Sequence[str]) -> None:
    """Writes solutions whose binaries are there from the second time on."""
    for lab in labs:
        (folder / f"{lab}.py").write_text(own_text(lab, 0), encoding="utf-8")


def _new(folder: Path, labs: Sequence[str]) -> None:
    """Writes kernels that nobody has built."""
    for lab in labs:
        (folder / f"{lab}.py").write_text(own_text(lab, time.monotonic_ns()), encoding="utf-8")


def _wrong(folder: Path, labs: Sequence[str]) -> None:
    """Writes wrong kernels that nobody has built."""
    for lab in labs:
        source = next(one.source for one in wrong_kernels(get_lab(lab)) if one.name == WRONG)
        (folder / f"{lab}.py").write_text(renamed(source, time.monotonic_ns()), encoding="utf-8")


def rows() -> dict[str, tuple[Callable[[Path, Sequence[str]], None], Sequence[str]]]:
    """What is graded, by its name: how its files are written, and of which labs."""
    course = [lab.id for lab in all_labs().values() if not lab.bonus]
    return {
        "one lab, kept binaries": (_built_before, [ONE]),
        "three labs, kept binaries": (_built_before, course),
        "three labs, new kernels": (_new, course),
        "one wrong kernel, explained": (_wrong, [ONE]),
    }


def _command(root: Path, cache: Path, row: str, commit: str) -> Command:
    """Grades what the row says with the grader that lies in `root`. Raises CalledProcessError."""
    write, labs = rows()[row]
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), labs)
        command = [sys.executable, "-m", "grader", "grade", name, "--device", "cpu", *(f"--lab={lab}" for lab in labs)]
        environment = {**os.environ, "PYTHONPATH": str(root), "XDG_CACHE_HOME": str(cache)}
        counted, load, began = Counted(), os.getloadavg()[0], time.monotonic()
        with subprocess.Popen(
            command, cwd=root, env=environment, preexec_fn=counted.join, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            assert process.stdout
            process.stdout.readline()
            first = time.monotonic() - began
            process.stdout.read()
        wall = time.monotonic() - began
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        spent = counted.end()
        return Command(row, commit, round(wall, 2), round(first, 2), None if spent is None else round(spent, 2), round(load, 1))


def _checkouts(folder: Path, against: str | None) -> Iterator[tuple[str, Path]]:
    """Short names of commits and where each lies: this one as it is, and the other one's files as committed."""
    yield _git("describe", "--always", "--dirty").decode().strip(), ROOT
    if against:
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", against))) as archive:
            archive.extractall(folder / "other", filter="data")
        yield _git("rev-parse", "--short", against).decode().strip(), folder / "other"


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout


def measure(against: str | None, runs: int, wanted: Sequence[str], listen: Callable[[Command], None]) -> WaitingRecord:
    """Each row `runs` times, the commits taking turns, A B B A; a first run of each is not counted.

    against: the other commit, None for this one alone. wanted: the rows. Raises CalledProcessError where a command or git fails.
    """
    commands = []
    with tempfile.TemporaryDirectory() as name:
        checkouts = list(_checkouts(Path(name), against))
        for row in wanted:
            for number in range(runs + 1):
                for commit, root in checkouts if number % 2 else checkouts[::-1]:
                    command = _command(root, Path(name) / f"cache-{commit}", row, commit)
                    if number:
                        listen(command)
                        commands.append(command)
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return WaitingRecord(date, len(os.sched_getaffinity(0)), platform.python_version(), tuple(commands))


def to_json(record: WaitingRecord) -> str:
    return json.dumps(asdict(record), indent=1) + "\n"


def loaded() -> WaitingRecord:
    """The record of bench/results/."""
    from pydantic import TypeAdapter

    return TypeAdapter(WaitingRecord).validate_json((RESULTS / "waiting.json").read_bytes())


def table(record: WaitingRecord) -> str:
    """Medians and, of the whole command, the extremes as Markdown."""
    lines = ["| | commit | runs | whole command, s | first line, s | CPU s |", "|---|---|---|---|---|---|"]
    for (row, commit), group in groupby(sorted(record.commands, key=_key), key=_key):
        commands = list(group)
        wall = [one.wall_seconds for one in commands]
        first = statistics.median(one.first_seconds for one in commands)
        cpu = [one.cpu_seconds for one in commands if one.cpu_seconds is not None]
        cells = [
            *(row, commit, str(len(commands))), f"{statistics.median(wall):.1f} ({min(wall):.1f} to {max(wall):.1f})",
            f"{first:.2f}", f"{statistics.median(cpu):.1f}" if cpu else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    load = [one.load for one in record.commands]
    return "\n".join(lines) + f"\n\n*{record.cores} cores, load {min(load)} to {max(load)}, {record.date}.*\n"


def _key(command: Command) -> tuple[str, str]:
    return command.row, command.commit
