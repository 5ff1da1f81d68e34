"""A verdict without every config's binary, as a batch without a GPU gives it, is the verdict with them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from grader.gpu.devices import choose
from grader.labs import get_lab
from grader.model import LabReport
from grader.pipeline.grading import GradeOptions, grade
from tests.commands import invoked
from tests.submissions import TESTS

pytestmark = pytest.mark.slow

BASE = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
WIDEST = '        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4, num_stages=3),\n'
TOO_LARGE = '        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 256}, num_warps=4, num_stages=8),\n'
SCALED = "    y = acc.to(tl.float32) * x_scale"
KERNELS = {
    "right": BASE,
    "no clamp": BASE.replace("x = tl.minimum(tl.maximum(x, -128.0), 127.0)", "x = x + 0.0"),
    "a config that is too large": BASE.replace(WIDEST, TOO_LARGE),
    "a table in one config": BASE.replace(SCALED, "    if BLOCK_N > 32:\n        x_scale += tl.sin(x_scale) * 0.0\n" + SCALED),
    "a table in every config": BASE.replace(SCALED, "    x_scale += tl.sin(x_scale) * 0.0\n" + SCALED),
    "dots that the compiler refuses": BASE.replace("tl.dot(x.to(tl.int8), w)", "tl.dot(x, w)"),
}


def _graded(path: Path, facts: bool) -> LabReport:
    lab = get_lab("w8a8")
    lab = replace(lab, cases=tuple(lab.case(name) for name in ("one_tile", "saturating_scale", "every_config")))
    return grade(path, [lab], GradeOptions(choose("cpu")[0], seed=3, jobs=2, facts=facts)).labs["w8a8"]


@pytest.mark.parametrize("name", KERNELS)
def test_the_verdict_needs_no_binaries(name, tmp_path):
    assert name == "right" or KERNELS[name] != BASE
    path = tmp_path / "w8a8.py"
    path.write_text(KERNELS[name], encoding="utf-8")
    whole, verdict = _graded(path, True), _graded(path, False)
    for one, other in zip(whole.tests, verdict.tests, strict=True):
        assert (one.name, one.status, one.points, one.message) == (other.name, other.status, other.points, other.message)
    assert (whole.status, whole.points, whole.message, whole.configs) == (verdict.status, verdict.points, verdict.message, verdict.configs)
    if whole.facts:
        assert len(verdict.facts) < len(whole.facts)
        assert all(whole.facts[config] == facts for config, facts in verdict.facts.items())


def test_a_right_kernel_is_told_its_place_on_the_ladder_where_the_facts_are_compiled(tmp_path):
    kernel = TESTS.parent / "solutions" / "ladder" / "w4a16_3_words.py"
    said = "The kernel is built like step 3 of the table in w4a16.ipynb."
    done = invoked("grade", kernel, "--lab", "w4a16", "--json", tmp_path / "r.json", "--html", tmp_path / "r.html")
    assert done.exit_code == 0
    assert said in " ".join(done.stdout.split())
    assert said in (tmp_path / "r.html").read_text(encoding="utf-8")
    (note,) = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["notes"]
    assert note.startswith(said)
    wrong = tmp_path / "w4a16.py"
    wrong.write_text(kernel.read_text(encoding="utf-8").replace("0x64086408", "0x64076407"), encoding="utf-8")
    assert wrong.read_text(encoding="utf-8") != kernel.read_text(encoding="utf-8")
    assert "The kernel is built like" not in invoked("grade", wrong, "--json", tmp_path / "w.json").stdout


def test_a_page_of_a_wrong_kernel_needs_no_binaries_and_json_does(tmp_path, monkeypatch):
    path, asked = tmp_path / "w8a8.py", []
    path.write_text(KERNELS["no clamp"], encoding="utf-8")
    monkeypatch.setattr("grader.pipeline.grading.with_binaries", lambda lab, source, bundle, options: asked.append(lab.id) or bundle)
    invoked("grade", path, "--device", "cpu", "--html", tmp_path / "r.html")
    assert asked == []
    invoked("grade", path, "--device", "cpu", "--json", tmp_path / "r.json")
    assert asked == ["w8a8"]
