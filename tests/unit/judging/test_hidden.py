"""Hidden stays hidden: a kernel that tries to tell what it sees of a hidden case tells one bit, its verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader.building import BinaryCache, BuildOptions, describing, own_folder
from grader.building.compiler import Compiler
from grader.gpu.devices import choose
from grader.labs import get_lab
from grader.model import Case, Config, GeneratedModule, KernelBundle, KernelSource, Launch
from grader.pipeline.grading import GradeOptions, grade
from grader.reporting.document import document
from tests.submissions import TESTS
from tests.tables import table

BASE = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
SIZES = ((40, 96, 128), (72, 144, 208))
"""Two hidden cases that no public case equals; each kernel below treats every size that it does not know alike, or tells."""

PUBLIC = ("one_tile", "all_tails")
GRID = """
def W8A8_MM_grid(M, N, K, meta):
    {told}
    return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)
"""
BODY = "    # which tile of Y does this program compute?\n"
TELLERS = table(__file__)["tellers"]


def told(teller: dict[str, Any], sizes: tuple[int, int, int], folder) -> dict[str, object]:
    """What the student reads when the hidden case has these sizes."""
    source = BASE
    if "grid" in teller:
        source += GRID.format(told=teller["grid"])
    if "body" in teller:
        assert source.count(BODY) == 1
        source = source.replace(BODY, BODY + "".join(f"    {line}\n" for line in teller["body"].splitlines()))
    if "heuristic" in teller:
        given = f"@triton.heuristics({{'SIZE': lambda args: {teller['heuristic']}}})\n@triton.jit\n"
        source = source.replace("@triton.jit\n", given, 1)
        source = source.replace("BLOCK_M: tl.constexpr,", "SIZE: tl.constexpr, BLOCK_M: tl.constexpr,", 1)
    if "edit" in teller:
        assert source.count(teller["edit"][0]) == 1
        source = source.replace(*teller["edit"])
    path = folder / "w8a8.py"
    path.write_text(source, encoding="utf-8")
    lab = get_lab("w8a8")
    M, N, K = sizes
    hidden = Case("hidden_1", "hidden", M, N, K, hidden=True)
    cases = tuple(replace(lab.case(name), configs="all" if name == PUBLIC[0] else "one") for name in PUBLIC)
    cache = BinaryCache(own_folder())  # the second time the same text is graded it need not be compiled again
    options = GradeOptions(choose("cpu")[0], seed=3, jobs=2, capabilities=(90,), case_seconds=1.5, cache=cache, facts=False)
    report = document(grade(path, [replace(lab, cases=(*cases, hidden))], options))
    for test in report["labs"]["w8a8"]["tests"]:  # public cases may tell how long they took
        test["metrics"].pop("seconds", None)
    return report


@pytest.mark.slow
@pytest.mark.parametrize("name", TELLERS)
def test_nothing_but_the_verdict_of_a_hidden_case_is_told(name, tmp_path, monkeypatch):
    monkeypatch.setattr(describing, "DESCRIBE_SECONDS", 4.0)
    reports = [told(TELLERS[name], sizes, tmp_path) for sizes in SIZES]
    texts = [json.dumps(report, sort_keys=True) for report in reports]
    verdicts = [
        next(test["status"] for test in report["labs"]["w8a8"]["tests"] if test["name"] == "hidden_1") for report in reports
    ]
    assert verdicts == ["failed", "failed"]
    assert texts[0] == texts[1]
    for number in ("72", "144", "208"):
        assert f" {number}" not in json.dumps([t for t in reports[1]["labs"]["w8a8"]["tests"] if t["name"] == "hidden_1"])
    public = {test["name"]: test["status"] for test in reports[0]["labs"]["w8a8"]["tests"] if test["kind"] == "correctness"}
    assert all(public[case] == "passed" for case in PUBLIC)


TRUNCATED = ("x = tl.floor(x + 0.5)", "x = tl.where(x < 0, tl.ceil(x), tl.floor(x))")
SHIFTED = ("w_scale = tl.load(weight_scale_ptr + offs_n,", "w_scale = 1.5 + 0.1 * tl.load(weight_scale_ptr + offs_n,")
BESIDE_A_MISTAKE = {
    "stores into an input": "if M == 40:\n    tl.store(input_scale_ptr + offs, 1.0)\n",
    "a known mistake in it alone": "if M == 40:\n    M = 0\n",
    "an endless loop": "if M == 72:\n    for i in range(0, 100000000):\n        tl.store(y_ptr, 0.0)\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [TRUNCATED, SHIFTED], ids=["known", "unknown"])
@pytest.mark.parametrize("name", BESIDE_A_MISTAKE)
def test_what_is_said_of_a_wrong_kernel_does_not_depend_on_a_hidden_case(name, mistake, tmp_path):
    body = "offs = tl.arange(0, 16)\n" + BESIDE_A_MISTAKE[name]
    reports = [told({"body": body, "edit": mistake}, sizes, tmp_path) for sizes in SIZES]
    for report in reports:
        tests = report["labs"]["w8a8"]["tests"]
        assert any(test["status"] == "failed" and test["name"] in PUBLIC for test in tests)
        report["labs"]["w8a8"]["tests"] = [test for test in tests if test["name"] != "hidden_1"]
    assert json.dumps(reports[0], sort_keys=True) == json.dumps(reports[1], sort_keys=True)


def test_what_only_hidden_cases_launch_is_compiled_last():
    """The time for building is one: what a hidden case takes of it is missing to no public one."""
    lab = get_lab("w8a8")
    public = [lab.case(name) for name in PUBLIC]
    lab = replace(lab, cases=(Case("hidden_1", "hidden", 40, 96, 128, hidden=True), *public), speed_cases=())
    config = Config(0, {}, 4, 2)
    launches = {(case.name, 0): Launch((1, 1, 1), (), (), (("WORK", number),)) for number, case in enumerate(lab.cases)}
    bundle = KernelBundle(lab.id, (config,), launches, {}, GeneratedModule("", lab.kernel, ()))
    compiler = Compiler(lab, KernelSource(lab.id, lab.kernel, None, "", (), Path("w8a8.py")), BuildOptions((90,), "all", 1))
    jobs = compiler._jobs(bundle, [(90, config, case.name) for case in lab.cases])
    assert [job.public for job in jobs] == [True, True, False]
    for ours in (False, True):  # a defect makes the lab not graded, and is told; a heuristic's value may stand in it
        assert all("40" in str(job.failure("M is 40", ours=ours)) for job in jobs[:2])
        assert "40" not in str(jobs[2].failure("M is 40", ours=ours))
        assert bool(jobs[2].failure("M is 40", ours=ours).ours) == ours


def test_a_right_kernel_passes_hidden_cases(tmp_path):
    report = told({}, SIZES[0], tmp_path)
    assert report["labs"]["w8a8"]["points"] == 60
    assert report["seconds"] is None
