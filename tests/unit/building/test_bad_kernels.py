"""Kernels that read well but cannot be launched, never end, or go astray: a sentence and the right status each."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from grader.gpu.devices import choose
from grader.labs import get_lab
from grader.pipeline.grading import GradeOptions, grade
from grader.reporting.document import document
from tests.submissions import TESTS

pytestmark = pytest.mark.slow

BASE = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
CONFIGS = BASE[BASE.index("    configs=[") : BASE.index("    key=")]


def verdict(tmp_path, text, cases=("one_tile", "every_config"), seconds=30.0):
    path = tmp_path / "w8a8.py"
    path.write_text(text, encoding="utf-8")
    lab = get_lab("w8a8")
    lab = replace(lab, cases=tuple(case for case in lab.cases if case.name in cases))
    options = GradeOptions(choose("cpu")[0], jobs=1, capabilities=(90,), facts=False, case_seconds=seconds)
    return document(grade(path, [lab], options))["labs"]["w8a8"]


def with_configs(count):
    one = 'triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=2)'
    return BASE.replace(CONFIGS, f"    configs=[{one}] * {count},\n")


def with_grid(expression):
    return BASE + f"\n\ndef W8A8_MM_grid(M, N, K, meta):\n    return {expression}\n"


def test_a_config_that_can_be_launched_nowhere_is_told_at_its_line(tmp_path):
    one = 'triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=2)'
    text = BASE.replace(CONFIGS, f"    configs=[\n        {one},\n        {one.replace('16', repr('16'))},\n    ],\n")
    (build,) = (test for test in verdict(tmp_path, text)["tests"] if test["kind"] == "build")
    assert build["status"] == "failed"
    assert build["message"].startswith("1 of 2 configs compile; config 1 ")
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "'16'" in line)
    assert f"w8a8.py line {line}: " in build["message"]
    assert "BLOCK_M is '16', expected a positive int" in build["message"]


@pytest.mark.parametrize(
    ("status", "text", "words"),
    [
        ("build_error", with_grid("(0,)"), "at least one program ... which rounds up"),
        ("build_error", with_grid("(-1, 1)"), "at least one program"),
        ("build_error", with_grid("(2**40,)"), "at most"),
        ("build_error", with_grid("(1, 70000)"), "65535"),
        ("build_error", with_grid("(M / 16, 1)"), "whole numbers ... use triton.cdiv(a, b) or a // b instead of a / b"),
        ("build_error", with_grid("(1, 1, 1, 1)"), "a tuple of one to three ints"),
        ("build_error", with_grid("()"), "one to three ints"),
        ("build_error", with_grid("None"), "one to three ints"),
        ("build_error", with_grid("(True,)"), "whole numbers ... write an int for each dimension"),
        ("build_error", with_grid("meta['BLOCK_X']"), "meta has no 'BLOCK_X'"),
        ("build_error", BASE.replace("BLOCK_N", "TILE_N"), "'BLOCK_N' ... W8A8_MM_grid"),
        ("rejected", with_configs(0), "no configs"),
        ("rejected", with_configs(17), "17 configs"),
        ("rejected", BASE.replace('"BLOCK_K": 32}', '"BLOCK_Q": 32}'), "BLOCK_Q"),
        ("rejected", BASE.replace(', "BLOCK_K": 32}', "}"), "BLOCK_K"),
        ("rejected", BASE.replace("num_warps=2", "num_warps=3"), "power of two"),
        ("rejected", BASE.replace("num_warps=2", "num_warps=64"), "1 to 32"),
        ("rejected", BASE.replace("num_warps=2", "num_ctas=2"), "num_ctas"),
        ("rejected", BASE.replace('"BLOCK_M": 16', '"M": 16'), "the lab passes"),
        ("rejected", BASE.replace('"BLOCK_M": 16', '"BLOCK_M": [16]'), "list"),
        ("rejected", BASE.replace("num_stages=2", "num_stages=1 // 0", 1), "line 8: ZeroDivisionError"),
    ],
    ids=lambda value: "" if "\n" in value else value,
)
def test_configs_and_grids_that_are_none(tmp_path, status, text, words):
    result = verdict(tmp_path, text)
    assert (result["status"], result["points"]) == (status, 0)
    assert re.search(".*".join(map(re.escape, words.split(" ... "))), result["message"], re.DOTALL)


def test_one_config_that_does_not_compile_is_named_and_the_others_go_on(tmp_path):
    result = verdict(tmp_path, BASE.replace('"BLOCK_M": 16', '"BLOCK_M": 17'))
    build = next(test for test in result["tests"] if test["kind"] == "build")
    assert build["status"] == "failed"
    assert "2 of 3 configs compile" in build["message"]
    assert "BLOCK_M=17" in build["message"]
    assert result["correctness"]["points"] == 60


def test_too_much_shared_memory_is_a_sentence(tmp_path):
    huge = BASE.replace('"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=2, num_stages=2',
                        '"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 256}, num_warps=8, num_stages=4')
    build = next(test for test in verdict(tmp_path, huge)["tests"] if test["kind"] == "build")
    assert "KB of shared memory" in build["message"]


def test_a_kernel_that_never_ends(tmp_path):
    endless = BASE.replace(
        "        acc += tl.dot(x.to(tl.int8), w)\n", "        acc += tl.dot(x.to(tl.int8), w)\n"
    ).replace("for k in range(0, tl.cdiv(K, BLOCK_K)):", "k = 0\n    while k < K:")
    result = verdict(tmp_path, endless, seconds=2.0)
    assert result["status"] == "timeout"
    assert result["points"] == 0
    assert "did not finish within 2 s" in result["message"]
    assert "`while k < K` never ends: nothing in its body changes k or K" in result["message"]


def test_inline_assembly_is_skipped_not_failed(tmp_path):
    text = BASE.replace(
        "        x = tl.floor(x + 0.5)\n",
        '        x = tl.inline_asm_elementwise("cvt.rni.f32.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)\n',
    )
    result = verdict(tmp_path, text)
    assert {test["status"] for test in result["tests"] if test["kind"] == "correctness"} == {"skipped"}
    assert "inline assembly" in next(test["message"] for test in result["tests"] if test["kind"] == "correctness")
    assert (result["points"], result["gradable_points"]) == (0, 60)
