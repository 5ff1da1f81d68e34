"""Ways of writing the same right kernel that students bring along: each is read, built and graded in full."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

from grader.gpu.devices import choose
from grader.labs import get_lab
from grader.labs.edits import kernel_text
from grader.pipeline.grading import GradeOptions, grade
from tests.submissions import TESTS
from tests.versions import triton_before

IDIOMS = TESTS / "kernels" / "idioms.toml"


@pytest.mark.slow
@pytest.mark.parametrize("name", [kernel["name"] for kernel in tomllib.loads(IDIOMS.read_text(encoding="utf-8"))["kernel"]])
def test_idiom_is_graded_in_full(name, tmp_path):
    if name == "constants_of_helpers" and triton_before("3.7"):
        pytest.skip("before Triton 3.7 what a helper returns is no constant, and -7 // 2 is -3")
    path = tmp_path / "w8a8.py"
    path.write_text(kernel_text(f"tests/kernels/idioms.toml:{name}", TESTS.parent), encoding="utf-8")
    lab = get_lab("w8a8")
    lab = replace(lab, cases=tuple(case for case in lab.cases if case.name in ("odd_m", "every_config")))
    report = grade(path, [lab], GradeOptions(choose("cpu")[0], jobs=1, capabilities=(90,), facts=False)).labs["w8a8"]
    assert report.status == "graded", report.message
    assert report.correctness_points == report.correctness_max
