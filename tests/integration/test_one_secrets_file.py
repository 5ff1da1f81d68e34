"""A repository with its secrets file, a hand-in, and the same points in a batch, in nbgrader and on Gradescope."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from tests.submissions import TESTS, mistakes

pytest.importorskip("nbgrader", reason="nbgrader is not installed: pip install -e .[test]")

ROOT = TESTS.parent
FILES = ("Makefile", "course.mk", "pyproject.toml", "constraints.txt", "README.md", "LICENSE")
PARTS = ("grader", "solutions", "notebooks/source", "bench/results", *FILES)
WRONG = next(mistake.source for mistake in mistakes() if (mistake.lab, mistake.name) == ("w8a8", "no_clamp"))
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "GRADER_SECRETS"}
SENTENCE = "hidden cases: 3 per lab, from "

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("nbgrader")]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A copy with secrets of its own, as the documents say: `make secrets` and nothing else."""
    root = tmp_path_factory.mktemp("repository")
    for part in PARTS:
        (root / part).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, root / part)
    written = run(root, "make", "secrets", "VENV=", f"PYTHON={sys.executable}")
    assert f"{SENTENCE}secrets.toml" in written
    return root


def run(folder: Path, *command: object, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, env={**ENVIRONMENT, **environment}, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def batch(repository: Path, handed_in: Path, out: Path, **environment: str) -> tuple[float, str]:
    """The points of w8a8, and what the command said, run from another folder than the repository's."""
    said = run(out.parent, sys.executable, "-m", "grader", "batch", handed_in, "--lab", "w8a8", "--device", "cpu", "--out", out,
               PYTHONPATH=str(repository), **environment)
    (line,) = (out / "grades.jsonl").read_text().splitlines()
    return json.loads(line)["report"]["labs"]["w8a8"]["points"], said


def nbgrader(repository: Path, course: Path) -> tuple[float, str]:
    """Made by `make course`, a folder elsewhere; autograded in it."""
    made = run(repository, sys.executable, "-m", "grader", "course", course)
    assert f"{SENTENCE}secrets.toml" in made
    notebook = nbformat.read(course / "release" / "kernels" / "w8a8.ipynb", as_version=4)
    cell = next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == "w8a8_kernel")
    cell.source = WRONG
    place = course / "submitted" / "ann" / "kernels"
    place.mkdir(parents=True)
    nbformat.write(notebook, place / "w8a8.ipynb")
    said = run(course, sys.executable, "-m", "nbgrader", "autograde", "kernels")
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        grades = book.find_submission_notebook("w8a8", "kernels", "ann").grades
        return sum(grade.auto_score for grade in grades if grade.name in ("w8a8_correctness", "w8a8_speed")), said


def gradescope(repository: Path, home: Path) -> tuple[float, str]:
    """The archive, unpacked and run as in Gradescope's container."""
    made = run(repository, "make", "gradescope", "LAB=w8a8", "VENV=", f"PYTHON={sys.executable}")
    assert f"{SENTENCE}secrets.toml" in made
    (home / "submission").mkdir(parents=True)
    with zipfile.ZipFile(repository / "build" / "autograder.zip") as archive:
        archive.extractall(home / "source")
    (home / "submission" / "w8a8.py").write_text(WRONG, encoding="utf-8")
    said = run(home, "bash", home / "source" / "run_autograder", AUTOGRADER_ROOT=str(home), AUTOGRADER_PYTHON=sys.executable)
    return json.loads((home / "results" / "results.json").read_text())["score"], said


def test_the_same_hand_in_gets_the_same_points_everywhere(repository, tmp_path):
    (tmp_path / "class" / "ann").mkdir(parents=True)
    (tmp_path / "class" / "ann" / "w8a8.py").write_text(WRONG, encoding="utf-8")
    found = {
        "batch": batch(repository, tmp_path / "class", tmp_path / "report"),
        "nbgrader": nbgrader(repository, tmp_path / "course"),
        "gradescope": gradescope(repository, tmp_path / "autograder"),
    }
    without, said = batch(repository, tmp_path / "class", tmp_path / "without", GRADER_SECRETS="")
    assert "hidden cases: none" in said
    points, said = found["batch"]
    assert 0 < points < 60
    assert points != without, "else nobody would notice hidden cases that are left out"
    assert {way: pytest.approx(points, abs=1e-4) for way in found} == {way: points for way, (points, _) in found.items()}
    home = {"batch": repository, "nbgrader": repository, "gradescope": tmp_path / "autograder" / "source"}
    for way, (_, said) in found.items():
        assert any(f"{SENTENCE}{place}" in said for place in (home[way] / "secrets.toml", "secrets.toml")), (way, said)
