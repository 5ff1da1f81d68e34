"""The GPU path: right kernels, wrong ones, and kernels that take the GPU's context with them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.gpu.devices import choose
from grader.labs import all_labs, get_lab
from grader.pipeline.grading import GradeOptions, grade
from grader.reporting.document import document
from grader.running import cuda
from tests.submissions import LABS, TESTS, failed_cases

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.xdist_group("gpu")]
BASE = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
ODD = get_lab("w8a8").case("odd_m")
STORE = "    tl.store(y_ptrs, y.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))"


def on_gpu(path, labs):
    return document(grade(path, labs, GradeOptions(choose("cuda")[0])))


def without_speed(lab_id, cases=None):
    lab = get_lab(lab_id)
    chosen = tuple(case for case in lab.cases if cases is None or case.name in cases)
    return replace(lab, cases=chosen, speed_cases=())


def text_on_gpu(tmp_path, text, cases=None):
    path = tmp_path / "w8a8.py"
    path.write_text(text, encoding="utf-8")
    return on_gpu(path, [without_speed("w8a8", cases)])


def test_solutions_correct_and_timed():
    report = on_gpu(TESTS.parent / "solutions", list(all_labs().values()))
    for lab in LABS:
        verdict = report["labs"][lab]
        assert verdict["correctness"]["points"] == 60, [t for t in verdict["tests"] if t["status"] == "failed"]
        assert verdict["speed"]["status"] == "graded"
        for test in verdict["tests"]:
            if test["kind"] == "speed":
                assert test["metrics"]["ratio_low"] <= test["metrics"]["ratio"] <= test["metrics"]["ratio_high"]
                assert test["metrics"]["control"] == pytest.approx(1.0, abs=0.005)
                assert test["metrics"]["student_us"] > test["metrics"]["floor_us"]
    assert report["gradable_points"] == 100 * sum(not lab.bonus for lab in all_labs().values())
    assert report["seconds"] < 8 * len(LABS)


def test_an_endless_kernel_costs_itself_only(tmp_path, monkeypatch):
    monkeypatch.setattr(cuda, "LAUNCH_SECONDS", 4.0)
    loop = f"    while (M == {ODD.M}) & (K == {ODD.K}) & (tl.load(input_scale_ptr) > 0):\n        tl.atomic_add(y_ptr, 0.0)\n"
    endless = BASE.replace(STORE, loop + STORE)
    report = text_on_gpu(tmp_path, endless, ("one_tile", "odd_m", "all_tails", "every_config"))
    assert failed_cases(report, "w8a8") == {"odd_m"}
    assert "did not finish" in next(t["message"] for t in report["labs"]["w8a8"]["tests"] if t["name"] == "odd_m")


def test_an_illegal_address_costs_itself_only(tmp_path):
    wild = BASE.replace(STORE, STORE.replace("y_ptrs,", f"y_ptrs + (M == {ODD.M}).to(tl.int64) * 100000000000000,"))
    report = text_on_gpu(tmp_path, wild, ("one_tile", "odd_m", "all_tails", "every_config"))
    assert failed_cases(report, "w8a8") == {"odd_m"}
    assert "illegal address" in next(t["message"] for t in report["labs"]["w8a8"]["tests"] if t["name"] == "odd_m")


def test_a_trap_is_told(tmp_path):
    trap = BASE.replace(
        "    # dequantise\n",
        '    offs_n = tl.inline_asm_elementwise("{ trap; mov.b32 $0, $1; }", "=r,r", [offs_n], dtype=tl.int32, '
        "is_pure=False, pack=1)\n",
    )
    report = text_on_gpu(tmp_path, trap, ("one_tile", "every_config"))
    assert report["labs"]["w8a8"]["status"] == "crash"
    assert report["points"] == 0


def test_a_store_past_the_end_is_seen_by_the_guard(tmp_path):
    over = BASE.replace(STORE, STORE.replace("(offs_m[:, None] < M)", "(offs_m[:, None] < M + 1)"))
    report = text_on_gpu(tmp_path, over, ("one_tile", "odd_m", "every_config"))
    assert "odd_m" in failed_cases(report, "w8a8")
    assert "wrote outside y_ptr" in next(t["message"] for t in report["labs"]["w8a8"]["tests"] if t["name"] == "odd_m")


def test_a_changed_input_is_seen(tmp_path):
    changing = BASE.replace(
        "        x_ptrs += BLOCK_K * stride_xk",
        "        tl.store(x_ptrs, tl.zeros((BLOCK_M, BLOCK_K), tl.float16), mask=offs_k[None, :] < k_left)\n"
        "        x_ptrs += BLOCK_K * stride_xk",
    )
    report = text_on_gpu(tmp_path, changing, ("one_tile", "every_config"))
    assert "one_tile" in failed_cases(report, "w8a8")


def test_a_kernel_wrong_on_the_timed_shape_gets_no_speed(tmp_path):
    path = tmp_path / "w8a8.py"
    path.write_text(
        BASE.replace("y = acc.to(tl.float32)", "y = (1 + (N == 4096)) * acc.to(tl.float32)"), encoding="utf-8"
    )
    lab = get_lab("w8a8")
    report = on_gpu(path, [replace(lab, speed_cases=lab.speed_cases[:1])])
    verdict = report["labs"]["w8a8"]
    assert verdict["correctness"]["points"] == 60
    assert verdict["speed"]["points"] == 0
    assert "elements of Y are wrong" in next(t["message"] for t in verdict["tests"] if t["kind"] == "speed")
