"""An error of the grader's own code costs a student nothing, and every report says whose it is and what to send."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from tests.submissions import TESTS

ROOT = TESTS.parent
WORDS = ("not gradable here: the grader itself failed", "KeyError: 'planted'", "send this sentence and your file to the instructor")


@pytest.mark.slow
def test_a_fault_in_our_shims_is_told_as_ours(tmp_path):
    shutil.copytree(ROOT / "grader", tmp_path / "grader", ignore=shutil.ignore_patterns("__pycache__"))
    shim = tmp_path / "grader" / "sandboxed" / "host_builder.py"
    text = shim.read_text(encoding="utf-8")
    head = next(line for line in text.split("\n") if line.strip().startswith("def create_dot("))
    shim.write_text(text.replace(head, f"{head}\n{' ' * (len(head) - len(head.lstrip()))}    raise KeyError('planted')"))
    told = subprocess.run(
        [sys.executable, "-m", "grader", "grade", str(TESTS / "styles" / "dds_while.py"), "--lab", "dds", "--device", "cpu",
         "--json", "report.json", "--html", "report.html"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    verdict = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["labs"]["dds"]
    failed = [test["name"] for test in verdict["tests"] if test["status"] in ("failed", "error")]
    skipped = [test for test in verdict["tests"] if test["kind"] == "correctness" and test["status"] == "skipped"]
    assert failed == []
    assert skipped
    line = (TESTS / "styles" / "dds_while.py").read_text(encoding="utf-8").split("\n")
    number = next(at for at, part in enumerate(line, 1) if "tl.dot" in part)
    page = " ".join((tmp_path / "report.html").read_text(encoding="utf-8").replace("&#39;", "'").split())
    for words in (f"dds_while.py line {number}: ", *WORDS):
        assert all(words in test["message"] for test in skipped)
        assert words in " ".join(told.stdout.split())
        assert words in page
    assert "correct this line" not in told.stdout
