"""A mistake in one config of many is seen: the all-configs cases fail each known mistake behind each kind of tile.

A config is judged by itself, so a mistake planted in one of eight is the wrong kernel with that config alone; one test
plants it for real.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from grader.labs import get_lab
from tests.planting import base, plans, survivors
from tests.submissions import failed_cases, graded_as_read, mistakes, plain, with_mistakes


def name(value):
    return f"{value.lab}-{value.name}" if hasattr(value, "lab") else "+".join(value)


AS_RIGHT = {("gptq", "fp16_accumulator", "SPLIT_K=8")}
"""Sums of scaled products in fp16 inside a slice of K are off by less than fp16 atomics in some order, which are permitted: they cannot be
told from those (docs/tolerance.md, "What arithmetic does not allow")."""

PLAIN = [mistake for mistake in mistakes() if mistake.base == plain(mistake.lab)]
EVERY = [(mistake, plan) for mistake in PLAIN for plan in plans(mistake)]
SAMPLE = [(mistake, plans(mistake)[number % len(plans(mistake))]) for number, mistake in enumerate(PLAIN)][::8]


@pytest.mark.slow
@pytest.mark.skipif("PLANTED" not in os.environ, reason="takes minutes; PLANTED=all runs it, a sample runs always")
@pytest.mark.parametrize(("mistake", "plan"), EVERY, ids=name)
def test_a_mistake_behind_any_tile_fails(mistake, plan, tmp_path):
    found = survivors(mistake, plan, tmp_path)
    as_right = {config for config in plan if (mistake.lab, mistake.name, config) in AS_RIGHT}
    assert set(found) == as_right, found
    assert all(float(score) < 0.5 for scores in found.values() for score in scores.split()[1::2]), found


@pytest.mark.slow
@pytest.mark.parametrize(("mistake", "plan"), SAMPLE, ids=name)
def test_some_mistakes_behind_any_tile_fail(mistake, plan, tmp_path):
    assert survivors(mistake, plan, tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("lab", with_mistakes())
def test_the_right_kernel_passes_behind_every_tile(lab, tmp_path):
    for plan in plans(base(lab)):
        assert set(survivors(base(lab), plan, tmp_path)) == set(plan)


PLANTED = {
    "k_mask_of_the_first_turn": ("w8a8", "k_left = K - k * BLOCK_K", "k_left = K - k * BLOCK_K * (1 - BUG)"),
    "k_tail_dropped": ("w8a8", "range(0, tl.cdiv(K, BLOCK_K))", "range(0, tl.cdiv(K, BLOCK_K) * (1 - BUG) + K // BLOCK_K * BUG)"),
    "stride_of_y": ("w8a8", "offs_m[:, None] * stride_ym", "offs_m[:, None] * (stride_ym * (1 - BUG) + N * BUG)"),
    "stride_of_x": ("w8a8", "offs_m[:, None] * stride_xm", "offs_m[:, None] * (stride_xm * (1 - BUG) + K * BUG)"),
    "n_tail": ("w4a16", "y.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N)",
               "y.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N - BUG * (N % BLOCK_N))"),
    "no_clamp": ("w8a8", "-128.0), 127.0)", "-128.0 - 1000 * BUG), 127.0 + 1000 * BUG)"),
    "converted_before_scaling": ("w4a16", "y = acc * scale", "if BUG:\n        acc = acc.to(tl.float16) + 0.0\n    y = acc * scale"),
    "empty_rows": ("dds", "mask=offs_m[:, None] < M)\n", "mask=(offs_m[:, None] < M) & ((end > start) | (BUG == 0)))\n"),
    "what_no_timed_row_has": ("dds", "range(start, end)", "range(start, tl.minimum(end, start + 32 + 99 * (1 - BUG)))"),
}
PLANTED |= {
    f"what_no_timed_k_has_{lab}": (lab, "tl.cdiv(K, BLOCK_K)", "tl.cdiv(tl.minimum(K, 4096 * (2 - BUG)), BLOCK_K)")
    for lab in ("w8a8", "w4a16", "w8a16", "gptq")
}
LOOPS = {"w8a8": "tl.cdiv(K, BLOCK_K)", "w4a16": "tl.cdiv(K, BLOCK_K)", "dds": "range(start, end)"}
PLANTED |= {
    f"{name}_{lab}": (lab, loop, loop.replace(last, f"tl.where((BUG == 1) & ({when}), 0, {last})"))
    for lab, loop in LOOPS.items()
    for last in ["end" if lab == "dds" else loop]
    for name, when in {"many_columns": "N > 1024", "many_tokens": "M > 300", "long_k_and_several_tokens": "(M > 16) & (K > 1024)"}.items()
}
PLANTED |= {
    f"no_mask_where_{divisor}_divides_k": ("w8a8", "k_left = K - k * BLOCK_K",
                                         f"k_left = tl.where((BUG == 1) & (K % {divisor} == 0), BLOCK_K, K - k * BLOCK_K)")
    for divisor in (16, 32, 64, 128)
}


def in_one_of_eight(lab, find, put, bad):
    """The right kernel with eight configs, of which the last has the mistake."""
    text = base(lab).source
    assert text.count(find) == 1 or find.startswith("mask=(offs_m"), find
    text = put.join(text.rsplit(find, 1))
    tiles = '"BLOCK_M": 32' if lab == "dds" else '"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 64'
    good = f"triton.Config({{{tiles}, 'BUG': 0}}, num_warps=4)"
    start, stop = text.index("    configs=["), text.index("    key=")
    text = f"{text[:start]}    configs=[{good}] * 7 + [triton.Config({{{bad}, 'BUG': 1}}, num_warps=4)],\n{text[stop:]}"
    last = "BLOCK_M: tl.constexpr,\n):" if lab == "dds" else "BLOCK_K: tl.constexpr,\n):"
    return text.replace(last, last.replace("\n):", " BUG: tl.constexpr,\n):"))


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED)
def test_one_wrong_config_of_eight_costs_points(planted, tmp_path):
    lab_id, find, put = PLANTED[planted]
    bad = '"BLOCK_M": 64' if lab_id == "dds" else '"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 256'
    path = tmp_path / f"{lab_id}.py"
    path.write_text(in_one_of_eight(lab_id, find, put, bad), encoding="utf-8")
    lab = get_lab(lab_id)
    lab = replace(lab, cases=tuple(case for case in lab.cases if case.configs in ("all", "most")), speed_cases=())
    report = graded_as_read(path, lab, brief=True)
    verdict = report["labs"][lab_id]
    assert verdict["status"] == "graded", verdict["message"]
    assert failed_cases(report, lab_id), verdict["tests"]
    failed = [test["message"] for test in verdict["tests"] if test["name"] in failed_cases(report, lab_id)]
    assert all("1 of 8 configs fail; the first is config 7" in message for message in failed)
