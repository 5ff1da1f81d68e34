"""Classroom 50 gets a result that its own rules accept, graded by the bundle's grader and not by the student's."""

from __future__ import annotations

import json
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from grader.classroom.classroom50 import autograder
from grader.classroom.gradescope.package import write_classroom50
from grader.labs import all_labs
from tests.submissions import TESTS

ROOT = TESTS.parent
ENVIRONMENT = {
    "CLASSROOM": "gpu26", "ASSIGNMENT": "lab1", "USERNAME": "ann-l", "SUBMISSION_TAG": "submit/20261120T235800Z-0123abc",
    "COMMIT_URL": "https://example.org/commit/0", "RELEASE_URL": "https://example.org/releases/tag/0",
}


def lab(points: float, gradable: float = 60.0, status: str = "graded"):
    return {"points": points, "gradable_points": gradable, "status": status}


def check(result: dict) -> None:
    """The rules of classroom50/result/v1 that are no matter of identity."""
    assert result["schema"] == "classroom50/result/v1"
    assert result["submission"].startswith("submit/")
    for name in ("classroom", "assignment", "owner", "commit", "release", "review", "datetime"):
        assert isinstance(result[name], str)
        assert result[name]
    assert result["assignment_type"] in ("individual", "group", "team")
    for one in (result, *result["tests"]):
        assert type(one["score"]) is type(one["max-score"]) is int
        assert 0 <= one["score"] <= one["max-score"]
    for test in result["tests"]:
        assert type(test["passed"]) is bool
        assert test["test-name"]


@pytest.mark.parametrize("points", [0.0, 0.4, 29.5, 59.5, 59.999, 60.0])
def test_the_result_is_whole_points(points):
    result = autograder.result({"w8a8": lab(points), "dds": lab(0.0, 0.0, "not_graded")}, ENVIRONMENT)
    check(result)
    assert result["max-score"] == 60
    assert [test["passed"] for test in result["tests"]] == [points == 60.0, False]


def test_of_each_lab_the_best_place_counts():
    found = autograder.best([{"labs": {"w8a8": lab(0), "dds": lab(30)}}, {"labs": {"w8a8": lab(60), "dds": lab(0)}}])
    assert {lab_id: one["points"] for lab_id, one in found.items()} == {"w8a8": 60, "dds": 30}
    check(autograder.result({}, ENVIRONMENT))


def test_the_bundle_holds_no_secret_and_no_solution(tmp_path):
    names = write_classroom50(ROOT, tmp_path / "bundle.zip", list(all_labs()))
    assert {"autograder.py", "settings.toml", "constraints.txt", "grader/model.py"} <= set(names)
    assert not [name for name in names if name.startswith(("solutions", "notebooks")) or name.endswith("secrets.toml")]
    assert (tmp_path / "bundle.zip").stat().st_size < 10 << 20, "Classroom 50 fetches no more"


@pytest.mark.slow
def test_a_checkout_is_graded(tmp_path, monkeypatch):
    """By the bundle's grader, whatever the checkout's own says; a result that the student left there is replaced."""
    write_classroom50(ROOT, tmp_path / "bundle.zip", ["dds"])
    bundle, checkout = tmp_path / "bundle", tmp_path / "checkout"
    zipfile.ZipFile(tmp_path / "bundle.zip").extractall(bundle)
    for place in ("notebooks", "assignment", "grader"):
        (checkout / place).mkdir(parents=True)
    shutil.copy(ROOT / "notebooks" / "dds.ipynb", checkout / "notebooks")
    shutil.copy(ROOT / "solutions" / "dds.py", checkout / "assignment")
    (checkout / "grader" / "__init__.py").write_text("raise SystemExit('the student's grader')")
    (tmp_path / "victim").write_text("mine")
    (checkout / "result.json").symlink_to(tmp_path / "victim")
    monkeypatch.setattr(autograder, "install", lambda bundle, place: Path(sys.executable))
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    autograder.main(bundle, checkout)
    result = json.loads((checkout / "result.json").read_text())
    check(result)
    assert (result["score"], result["max-score"], result["tests"][0]["status"]) == (60, 60, "graded")
    assert (tmp_path / "victim").read_text() == "mine"
