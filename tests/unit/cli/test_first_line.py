"""What a student waits for: the first line and the build before torch is imported, the report before anything is drawn."""

from __future__ import annotations

import sys

import pytest

from tests.commands import python, ran
from tests.submissions import TESTS

pytestmark = pytest.mark.slow

NOTED = """
import sys
from grader.cli import grade as command
from grader.cli.main import app

def loaded(*more):
    return sorted({"torch._C", "matplotlib", "jinja2", *more} & set(sys.modules))

def graded(*given):
    from grader.pipeline import grading
    build = grading.build_lab

    def built(*given):
        bundle = build(*given)
        print("built", len(bundle.binaries) > 0, loaded(), flush=True)
        return bundle

    grading.build_lab = built
    report = grade(*given)
    print("graded", loaded(), flush=True)
    return report

def read():
    print("read", loaded(), flush=True)

def first():
    print("first line", loaded("numpy", "triton"), flush=True)
    prewarm()

prewarm, command.prewarm = command.prewarm, first
grade, command._grade, command.begin = command._grade, graded, read
app(sys.argv[1:], prog_name="python -m grader")
"""


def test_a_kernel_is_read_and_built_before_torch_is_imported_and_judged_before_anything_is_drawn(tmp_path):
    page = tmp_path / "index.html"
    command = ["grade", str(TESTS / "styles" / "dds_plain.py"), "--device", "cpu", "--html", str(page)]
    done = ran(sys.executable, "-c", NOTED, *command, seconds=300)
    assert done.returncode == 0, done.stderr
    said = [line.split(" of ")[0] for line in done.stderr.splitlines() if line]
    assert said[:2] == [f"reading {command[1]}", "grading dds"]
    assert done.stdout.splitlines()[:4] == ["first line []", "read []", "built True []", "graded ['torch._C']"]
    assert "60 of 100 points" in done.stdout
    assert page.stat().st_size > 10_000


TWICE = """
import sys, threading
from grader import late_torch
import torch.version
whole = sys.modules["torch"]
late_torch.stand_in()
assert sys.modules["torch"] is whole
"""
TOGETHER = """
import sys, threading
from grader import late_torch
late_torch.stand_in()
import torch
late = torch
late_torch.begin()
found = []
threads = [threading.Thread(target=lambda: found.append(torch.tensor([1.0]).sum().item())) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert found == [1.0] * 8
import torch, torch.nn
assert torch is sys.modules["torch"] is not late
assert late.Tensor is torch.Tensor
assert isinstance(torch.zeros(1), late.Tensor)
try:
    late.there_is_no_such_thing
except AttributeError as error:
    assert "there_is_no_such_thing" in str(error)
else:
    raise AssertionError
"""


def test_torch_is_imported_once_whoever_asks_first():
    for program in (TWICE, TOGETHER):
        python("-c", program)
