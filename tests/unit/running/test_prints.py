"""What a kernel prints reaches no report and no log, least of all when it looks like a score."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from grader.gpu.devices import choose
from grader.labs import get_lab
from grader.pipeline.grading import GradeOptions, grade
from tests.commands import ran
from tests.submissions import TESTS

RIGHT = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
SCORE = "FORGED 100 of 100 points"
MUTED = """
import ctypes, os, sys
from grader.gpu.muting import mute_kernels
mute_kernels()
c = ctypes.CDLL(None)
c.printf(b"FORGED by printf\\n")
c.fflush(None)
os.write(1, b"FORGED by write\\n")
os.write(2, b"FORGED on standard error\\n")
print("FORGED by print")
sys.stderr.write("a traceback of ours\\n")
raise SystemExit(3)
"""


def test_a_muted_process_prints_what_python_says_on_standard_error_only():
    done = ran(sys.executable, "-c", MUTED)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr == "a traceback of ours\n"


@pytest.mark.slow
def test_prints_of_a_kernel_are_in_no_output(tmp_path):
    """On the interpreter, while it compiles, while configs are read: by print, device_print and static_print."""
    body = f"    tl.device_print('{SCORE}', 1)\n    tl.static_print('{SCORE}')\n    pid = "
    text = RIGHT.replace("    pid = ", body, 1).replace(
        "@triton.autotune", f"LINE = print('{SCORE}')\n@triton.autotune", 1
    )
    (tmp_path / "w8a8.py").write_text(text, encoding="utf-8")
    files = [tmp_path / name for name in ("report.json", "report.xml")]
    command = ["grade", tmp_path / "w8a8.py", "--device", "cpu", "--json", files[0], "--junit", files[1]]
    done = ran(sys.executable, "-m", "grader", *command)
    assert done.returncode == 0, done.stderr
    for shown in (done.stdout, done.stderr, *(file.read_text() for file in files)):
        assert "FORGED" not in shown
    assert "60 of 100 points" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("line", ["print(acc.shape)", "tl.device_print('acc', acc)", "tl.device_print(f'acc {acc}', acc)"])
def test_a_print_left_in_a_right_kernel_costs_nothing(tmp_path, line):
    """Prints are left out of what is compiled (docs/security.md), also those that Triton would refuse."""
    text = RIGHT.replace("    # dequantise\n", f"    {line}\n", 1)
    assert text != RIGHT
    (tmp_path / "w8a8.py").write_text(text, encoding="utf-8")
    lab = get_lab("w8a8")
    small = replace(lab, cases=(replace(lab.case("all_tails"), configs="all"),))
    (verdict,) = grade(tmp_path / "w8a8.py", [small], GradeOptions(choose("cpu")[0], jobs=1, capabilities=(90,), facts=False)).labs.values()
    assert (verdict.status, verdict.correctness_points) == ("graded", 60)
