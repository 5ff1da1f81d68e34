"""How many submissions a minute: our batch and stock nbgrader on the same class, one after the other on this machine.

    python bench/against_nbgrader.py --students 6 --stock 2

Every student hands in the instructor's notebooks of all labs with a kernel source of their own. Stock nbgrader runs
all cells of each notebook, in which `check` and `check_speed` grade; the batch reads the kernels and grades them.
Writes bench/results/throughput_<device>.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import nbformat  # noqa: E402
import torch  # noqa: E402
import triton  # noqa: E402

from grader.classroom.gradebook import ASSIGNMENT  # noqa: E402
from grader.classroom.gradebook.course import CONFIG, make_course  # noqa: E402
from grader.gpu.devices import choose  # noqa: E402
from grader.judging.rubric import slug  # noqa: E402
from grader.labs import all_labs  # noqa: E402

STOCK = """
c = get_config()
c.CourseDirectory.course_id = "kernels"
c.ExecutePreprocessor.timeout = 600
"""
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
}


def hand_in(course: Path, student: int) -> None:
    """The instructor's notebooks, with names of this student's own in the kernels."""
    place = course / "submitted" / f"student{student:03d}" / ASSIGNMENT
    place.mkdir(parents=True)
    for lab in all_labs():
        notebook = nbformat.read(course / "source" / ASSIGNMENT / f"{lab}.ipynb", as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code" and "@triton.autotune" in cell.source:
                cell.source = re.sub(r"\b(acc|pid)\b", rf"\1_{student}", cell.source)
        nbformat.write(notebook, place / f"{lab}.ipynb")


def seconds_of(command: list[str], folder: Path) -> float:
    """How long a command takes; its output is shown when it fails."""
    started = time.monotonic()
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return time.monotonic() - started


def stock(course: Path, students: int) -> float:
    """Seconds of stock nbgrader for that many students, all in one command."""
    (course / CONFIG).write_text(STOCK, encoding="utf-8")
    chosen = "student00[0-9]" if students == 10 else f"student00[0-{students - 1}]"
    command = [sys.executable, "-m", "nbgrader", "autograde", ASSIGNMENT, f"--student={chosen}"]
    return seconds_of(command, course)


def batch(course: Path, device: str) -> float:
    """Seconds of our batch for all students."""
    out = course / "class"
    command = [
        sys.executable,
        "-m",
        "grader",
        "batch",
        str(course / "submitted"),
        "--out",
        str(out),
        "--device",
        device,
    ]
    return seconds_of(command, course)


def scores(course: Path) -> tuple[list[float], list[float]]:
    """Automatic points by student: stock nbgrader's, and ours, of the students that both graded."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        theirs = {one.student.id: one.score for one in book.assignment_submissions(ASSIGNMENT)}
    lines = (course / "class" / "grades.jsonl").read_text(encoding="utf-8").splitlines()
    ours = {entry["student"]: entry["points"] for entry in map(json.loads, lines)}
    return [theirs[student] for student in sorted(theirs)], [ours[student] for student in sorted(theirs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=6, help="how many the batch grades")
    parser.add_argument("--stock", type=int, default=2, help="how many of them stock nbgrader grades, 10 at most")
    parser.add_argument("--device", default="auto")
    wanted = parser.parse_args()
    device = choose(wanted.device)[0]
    with tempfile.TemporaryDirectory() as folder:
        course = Path(folder)
        make_course(ROOT, course)
        for student in range(wanted.students):
            hand_in(course, student)
        their_seconds = stock(course, wanted.stock)
        our_seconds = batch(course, device.kind)
        theirs, ours = scores(course)
    rate = {"stock nbgrader": 60 * wanted.stock / their_seconds, "batch": 60 * wanted.students / our_seconds}
    record = {
        "device": device.name,
        "driver": device.driver,
        "cores": len(os.sched_getaffinity(0)),
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "triton": triton.__version__},
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "labs": list(all_labs()),
        "stock nbgrader": {"students": wanted.stock, "seconds": round(their_seconds, 1), "points": theirs},
        "batch": {"students": wanted.students, "seconds": round(our_seconds, 1), "points": ours},
        "students_per_minute": {name: round(value, 2) for name, value in rate.items()},
        "ratio": round(rate["batch"] / rate["stock nbgrader"], 2),
    }
    name = slug(device.name) if device.kind == "cuda" else "cpu"
    path = ROOT / "bench" / "results" / f"throughput_{name}.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
