"""Right kernels get full correctness on the CPU, whatever their style; the solutions do so in time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.labs import get_lab
from tests.submissions import LABS, TESTS, graded, graded_as_read, styles

pytestmark = pytest.mark.slow

SOLUTIONS = TESTS.parent / "solutions"
STYLES = styles()


DEAR = {"w4a16_many_programs": ("several_tiles", "odd_m", "k_tail", "channel_scales"), "w8a8_scalar_mask": ("strided_rows",)}
"""Cases of thousands of programs that run one after the other; tests/unit/running/test_memory_check.py has their rule."""
SHARE = 3
"""Of the cases that one config runs, a style gets one in so many, and the next style the next; `tests.verdicts` gives each all of them."""
ROW_BY_ROW = "_gemv"
"""Styles whose programs make one row each: the first to take too long on a case that is too large, so they get all of them."""


def assert_all_right(report, lab):
    verdict = report["labs"][lab]
    failures = [(test["name"], test["message"]) for test in verdict["tests"] if test["status"] in ("failed", "error")]
    assert failures == []
    assert verdict["status"] == "graded", verdict["message"]
    assert verdict["correctness"] == {"points": 60, "max_points": 60}
    assert verdict["speed"]["status"] == "skipped"
    assert verdict["gradable_points"] == 60


@pytest.mark.parametrize("lab", LABS)
def test_solution_is_right(lab):
    path, without = SOLUTIONS / f"{lab}.py", ()
    if get_lab(lab).bonus:  # of whose many binaries, which take a minute, those of the first case are made here
        assert_all_right(graded_as_read(path, get_lab(lab)), lab)
        without = tuple(case.name for case in get_lab(lab).cases[1:])
    report = graded(path, labs=(lab,), jobs=1, capabilities=(80, 90), without=without)
    builds = [test for test in report["labs"][lab]["tests"] if test["kind"] == "build"]
    assert_all_right(report, lab)
    assert {test["name"] for test in builds} == {"build_sm80", "build_sm90"}
    assert report["labs"][lab]["build"]


@pytest.mark.parametrize(("at", "path"), list(enumerate(STYLES)), ids=[path.name for path in STYLES])
def test_other_styles_are_right(at, path):
    lab = get_lab(path.name.split("_")[0])
    dear = DEAR.get(path.stem, ())
    share = 1 if path.stem.endswith(ROW_BY_ROW) else SHARE
    mine = [case for number, case in enumerate(lab.cases) if case.configs != "one" or (at + number) % share == 0]
    lab = replace(lab, cases=tuple(case for case in mine if case.name not in dear))
    assert_all_right(graded_as_read(path, lab), lab.id)
