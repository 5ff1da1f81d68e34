"""An error of the grader's own code costs a student nothing, and every report says whose it is and what to send."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.commands import python
from tests.submissions import TESTS, style_file

ROOT = TESTS.parent
WORDS = ("not gradable here: the grader itself failed", "KeyError: 'planted'", "send this sentence and your file to the instructor")


IN_DOT = ("interpreter/host_builder.py", "def create_dot(", "raise KeyError('planted')")
ONLY_INTERPRETING = "if __import__('os').environ.get('TRITON_INTERPRET'): raise KeyError('planted')"
IN_LOADING = ("interpreter/generated_module.py", "def load(", ONLY_INTERPRETING)


def planted(folder, file, head, fault):
    """A copy of the grader in which the first statement of a function of ours raises."""
    shutil.copytree(ROOT / "grader", folder / "grader", ignore=shutil.ignore_patterns("__pycache__"))
    shim = folder / "grader" / file
    lines = shim.read_text(encoding="utf-8").split("\n")
    at = next(number for number, line in enumerate(lines) if line.strip().startswith(head))
    indent = " " * (len(lines[at]) - len(lines[at].lstrip()) + 4)
    lines.insert(at + 1, indent + fault)
    shim.write_text("\n".join(lines), encoding="utf-8")
    return folder


def graded(folder):
    command = ["grade", style_file("dds_while"), "--lab", "dds", "--device", "cpu", "--json", "report.json", "--html", "report.html"]
    printed = python("-m", "grader", *command, cwd=folder)
    verdict = json.loads((folder / "report.json").read_text(encoding="utf-8"))["labs"]["dds"]
    assert [test["name"] for test in verdict["tests"] if test["status"] in ("failed", "error")] == []
    skipped = [test for test in verdict["tests"] if test["kind"] == "correctness" and test["status"] == "skipped"]
    assert skipped
    return printed, skipped


@pytest.mark.slow
def test_a_fault_in_our_shims_is_told_as_ours(tmp_path):
    printed, skipped = graded(planted(tmp_path, *IN_DOT))
    lines = style_file("dds_while").read_text(encoding="utf-8").split("\n")
    number = next(at for at, part in enumerate(lines, 1) if "tl.dot" in part)
    page = " ".join((tmp_path / "report.html").read_text(encoding="utf-8").replace("&#39;", "'").split())
    for words in (f"dds_while.py line {number}: ", *WORDS):
        assert all(words in test["message"] for test in skipped)
        assert words in " ".join(printed.split())
        assert words in page
    assert "correct this line" not in printed


@pytest.mark.slow
def test_a_fault_in_loading_what_the_compiler_has_read_is_ours_too(tmp_path):
    _, skipped = graded(planted(tmp_path, *IN_LOADING))
    for words in WORDS:
        assert all(words in test["message"] for test in skipped)
