"""Grades a student's checkout for Classroom 50 and writes result.json; with the standard library alone, and the grader that lies beside it.

Classroom 50's runner starts it in the checkout, in the student's own GitHub Actions. Nothing of the checkout is run or trusted but the
notebooks and files that are graded. Its result has whole points; the part of a file that Classroom 50 knows itself it writes over.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RESULT = "result.json"
SCHEMA = "classroom50/result/v1"
PLACES = ("notebooks", "notebooks/zh", "assignment")
"""Where work lies in the template repository; of each lab the one with the most points counts."""

PIP_OPTIONS = "--extra-index-url https://download.pytorch.org/whl/cpu"
ALLOW_SANDBOX = ["sudo", "-n", "sysctl", "-w", "kernel.apparmor_restrict_unprivileged_userns=0"]
"""Ubuntu 24.04 lets no unprivileged program create the user namespaces that the sandbox needs."""


def install(bundle: Path, place: Path) -> Path:
    """A Python with the bundle's grader in a virtual environment."""
    subprocess.run(ALLOW_SANDBOX, check=False, capture_output=True)
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    python = place / "bin" / "python"
    options = os.environ.get("PIP_OPTIONS", PIP_OPTIONS).split()
    constraints = ["-c", str(bundle / "constraints.txt")]
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *options, *constraints, str(bundle)], check=True)
    return python


def graded(python: Path, bundle: Path, work: Path, labs: list[str]) -> dict[str, Any] | None:
    """The report on a folder; None where nothing there can be read. Raises RuntimeError where there is no sandbox."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.json"
        chosen = [argument for lab in labs for argument in ("--lab", lab)]
        command = [str(python), "-m", "grader", "grade", str(work), "--device", "cpu", "--json", str(report), *chosen]
        done = subprocess.run(command, cwd=bundle, check=False)
        if done.returncode == 2:
            return None
        done.check_returncode()
        found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    if found["device"]["sandbox"] == "none":
        raise RuntimeError("the sandbox does not work on this runner, and others' work is graded only in one")
    return found


def best(reports: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of each lab the report with the most points."""
    labs: dict[str, dict[str, Any]] = {}
    for report in reports:
        for lab_id, lab in report["labs"].items():
            if lab_id not in labs or lab["points"] > labs[lab_id]["points"]:
                labs[lab_id] = lab
    return labs


def result(labs: Mapping[str, Mapping[str, Any]], environment: Mapping[str, str]) -> dict[str, Any]:
    """What Classroom 50 reads: a test for each lab, out of the points that can be earned without a GPU, in whole points."""
    tests = [
        {
            "test-name": lab_id,
            "passed": lab["points"] >= lab["gradable_points"] > 0,
            "score": min(round(lab["points"]), round(lab["gradable_points"])),
            "max-score": round(lab["gradable_points"]),
            "status": lab["status"],
        }
        for lab_id, lab in labs.items()
    ]
    return {
        "schema": SCHEMA,
        "classroom": environment["CLASSROOM"],
        "assignment": environment["ASSIGNMENT"],
        "assignment_type": environment.get("ASSIGNMENT_TYPE", "individual"),
        "owner": environment.get("OWNER") or environment["USERNAME"],
        "submission": environment["SUBMISSION_TAG"],
        "commit": environment["COMMIT_URL"],
        "release": environment["RELEASE_URL"],
        "review": environment.get("REVIEW_URL") or environment["COMMIT_URL"],
        "datetime": "1970-01-01T00:00:00Z",  # the runner writes the commit's over it
        "score": sum(test["score"] for test in tests),
        "max-score": sum(test["max-score"] for test in tests),
        "tests": tests,
    }


def main(bundle: Path, checkout: Path) -> None:
    labs = tomllib.loads((bundle / "settings.toml").read_text(encoding="utf-8"))["labs"]
    with tempfile.TemporaryDirectory() as place:
        python = install(bundle, Path(place))
        reports = [
            graded(python, bundle, work, labs)
            for name in PLACES
            if (work := checkout / name).is_dir() and not work.is_symlink()
        ]
    found = best([report for report in reports if report is not None])
    (checkout / RESULT).unlink(missing_ok=True)
    (checkout / RESULT).write_text(json.dumps(result(found, os.environ), indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(Path(__file__).resolve().parent, Path.cwd())
