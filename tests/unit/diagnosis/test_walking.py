"""A walk shows what a program multiplied in each iteration, and its sum ends where the program's Y is."""

from __future__ import annotations

import re

import pytest

from grader.diagnosis.walking import walk
from tests.relations import recorded
from tests.submissions import TESTS


def walked(lab, find, put, case="all_tails", program=None):
    text = (TESTS / "styles" / f"{lab}_plain.py").read_text(encoding="utf-8")
    assert text.count(find) == 1, find
    *_, run = recorded(text.replace(find, put), lab, case)
    found = walk(case, run, program)
    assert found is not None
    return run, found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lab", "find", "put", "case"),
    [
        ("w8a8", "        x = tl.floor(x + 0.5)\n", "", "all_tails"),
        ("w4a16", "nibble - 16, nibble)", "nibble - 8, nibble)", "all_tails"),
        ("dds", "offs_k = col * BLOCK + offs_b", "offs_k = col + offs_b", "rectangular"),
    ],
    ids=["w8a8", "w4a16", "dds"],
)
def test_the_sum_ends_at_the_element_that_is_followed(lab, find, put, case):
    run, found = walked(lab, find, put, case)
    last = float(re.search(r"so far (.+)\.$", found.steps[-1].text)[1].replace(" ", ""))
    assert last == pytest.approx(float(run.y[found.at]), rel=2e-3, abs=2e-3)
    assert run.wrong[found.at]
    tile = next(one for one in found.tiles if one.program == found.program)
    (top, end), (left, right) = tile.rows, tile.columns
    assert tile.wrong.startswith(f"{run.wrong[top:end, left:right].sum()} wrong, first Y[")
    assert sum((t.rows[1] - t.rows[0]) * (t.columns[1] - t.columns[0]) for t in found.tiles) == run.y.size


@pytest.mark.slow
def test_rows_k_and_words_are_those_that_were_loaded():
    _, found = walked("w4a16", "nibble - 16, nibble)", "nibble - 8, nibble)", program=1)
    assert found.program == "1"
    assert [step.left[1] for step in found.steps] == [((k, min(k + 32, 168)),) for k in range(0, 168, 32)]
    assert found.steps[1].right == (((32, 64),), ((32, 64),))
    assert "meets W[32:64, 32:64] (words 4:8)" in found.steps[1].text
    _, stuck = walked("w8a8", "w_ptrs += BLOCK_K * stride_wk", "w_ptrs += 0 * stride_wk")
    assert stuck.steps[2].left[1] == ((64, 96),)
    assert stuck.steps[2].right[1] == ((0, 32),), "W stands still"


def test_what_reaches_no_store_adds_nothing():
    _, found = walked("w8a8", "acc += tl.dot(", "acc = tl.dot(")
    *lost, last = found.steps
    assert all("it adds nothing: " in step.text for step in lost)
    assert "so far" in last.text
