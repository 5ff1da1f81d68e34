"""What the sentence of a wrong case says: how much is wrong, where, one element, and whatever else was seen of the launch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from grader.judging.checking import (
    BROKEN_PROMISE,
    LEFT_OPEN,
    ORDER_OF_LANES,
    ORDER_OF_PROGRAMS,
    ORDER_OF_THREADS,
    Finding,
    check,
    compare,
    describe_case,
    order_left_open,
    reject_undefined,
)
from grader.judging.slice_sums import Added
from grader.labs import get_lab
from grader.labs.problems import make_problem
from grader.model import Case, Config, GeneratedModule, KernelBundle, Launch, MemoryFinding, Outcome, Reference
from tests.reports import kernel_source

LAB = get_lab("w8a8")
CASE = Case("one", "one tile", 16, 32, 64)
PROBLEM = make_problem(LAB, CASE, 1)
SPLIT = Config(0, {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 16, "SPLIT_K": 4}, 4, 2)
CONFIGS = (SPLIT, Config(1, {"BLOCK_M": 16}, 4, 2), Config(2, {**SPLIT.constants, "SPLIT_K": 2}, 4, 2), Config(3, SPLIT.constants, 4, 2))
LAUNCHES = {("one", number): Launch((1, slices, 1), (), (), ()) for number, slices in enumerate((4, 1, 2, 1))}
BUNDLE = KernelBundle("w8a8", CONFIGS, LAUNCHES, {}, GeneratedModule("", "", ()))
TRUTH = LAB.reference(PROBLEM, 1).y.half()
NAN = torch.nan
ROWS, COLUMNS = slice(None), slice(None)


def reference(y=None, frobenius=1e-3):
    y = torch.arange(1.0, 25.0).view(4, 6).double() if y is None else y
    return Reference(y, torch.full_like(y, 0.25), frobenius)


def compared(value, *places):
    """The finding of a Y that is this much too large in these places."""
    right = reference(frobenius=1.0)
    y = right.y.clone()
    for place in places:
        y[place] += value
    return compare(y.half(), right)


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ([(2, 3)], "1 of 24 elements of Y are wrong (4.17 %); Y[2, 3] is 17, expected 16 to within 0.25"),
        ([(1, COLUMNS)], "6 of 24 elements of Y are wrong (25 %), all in row 1; Y[1, 0] is 8, expected 7 to within 0.25"),
        ([(slice(1, 3), COLUMNS)], "12 of 24 elements of Y are wrong (50 %), all in rows 1 to 2; Y"),
        ([(slice(0, 3), COLUMNS)], "18 of 24 elements of Y are wrong (75 %), all in rows 0 to 2; Y"),
        ([(ROWS, COLUMNS)], "24 of 24 elements of Y are wrong (100 %); Y"),
        ([([0, 3], COLUMNS)], "12 of 24 elements of Y are wrong (50 %), all in 2 of 4 rows (the first is 0); Y"),
        ([([0, 1, 3], COLUMNS)], "18 of 24 elements of Y are wrong (75 %); Y"),
        ([(ROWS, [1, 4])], "8 of 24 elements of Y are wrong (33.3 %), all in 2 of 6 columns (the first is 1); Y"),
        ([(0, 0), (3, 5)], "2 of 24 elements of Y are wrong (8.33 %), all in 2 of 4 rows (the first is 0) and 2 of 6"),
    ],
)
def test_a_wrong_y_says_how_much_where_and_one_element(places, words):
    finding = compared(1.0, *places)
    assert not finding.ok
    assert finding.message.startswith(words)
    assert finding.worst == 4.0


def test_the_element_that_is_shown_is_the_farthest_beyond_its_bound():
    right = reference(frobenius=1.0)
    y = right.y.clone()
    y[0, 1], y[3, 2], y[2, 2] = NAN, right.y[3, 2] - 3.0, right.y[2, 2] + 2.0
    finding = compare(y.half(), right)
    assert "3 of 24" in finding.message
    assert "; Y[3, 2] is 18, expected 21 to within 0.25" in finding.message
    assert finding.worst == float("inf")


@pytest.mark.parametrize(
    ("places", "everywhere", "outside", "words"),
    [
        ([(ROWS, COLUMNS)], False, "", "no element of Y was written, or all are NaN"),
        ([(ROWS, COLUMNS)], True, "", "all of Y is NaN, although every element was written: check the values it is computed from"),
        ([(ROWS, COLUMNS)], True, "x_ptr", "all of Y is NaN, although every element was written: reads outside x give NaN here"),
        ([(slice(4, 16), COLUMNS)], False, "", "384 of 512 elements of Y were never written, or are NaN, all in rows 4 to 15"),
        ([(3, COLUMNS)], True, "", "32 of 512 elements of Y are NaN, all in row 3, and were stored: check"),
        ([(3, COLUMNS)], True, "qweight_ptr", "32 of 512 elements of Y are NaN, all in row 3, and were stored: check"),
    ],
)
def test_nan_is_what_nobody_wrote_unless_it_was_stored(places, everywhere, outside, words):
    """outside: a tensor that is read outside its elements; where it holds integers, no NaN comes from there."""
    y = TRUTH.clone()
    for place in places:
        y[place] = NAN
    read = (MemoryFinding("load", "outside", 3, outside), MemoryFinding("store", "beyond", 3, "x_ptr")) if outside else ()
    finding = check(LAB, PROBLEM, Outcome("one", 1, "ran", y=y, memory=read, written=everywhere), BUNDLE)
    assert not finding.ok
    assert finding.message.startswith(words)
    assert finding.errors is not None


def test_zeros_are_called_zeros():
    assert compare(torch.zeros(4, 6).half(), reference()).message == "Y is all zeros; 24 of 24 elements of Y are wrong (100 %)"


def test_a_bound_itself_is_still_right():
    right = Reference(torch.tensor([[4.0]]).double(), torch.tensor([[0.25]]).double(), 0.0625)
    assert compare(torch.tensor([[4.25]]).half(), right).ok
    assert not compare(torch.tensor([[4.2539]]).half(), right).ok
    assert not compare(torch.tensor([[4.25]]).half(), replace(right, frobenius=0.0624)).ok


def test_elements_within_their_bounds_may_be_too_far_off_together():
    right = reference()
    finding = compare((right.y + 0.125).half(), right)
    off = 0.125 * 24**0.5 / float(right.y.norm())
    assert f"relative error {off:.1e}, allowed 1.0e-03" in finding.message
    assert (finding.ok, finding.worst, finding.frobenius) == (False, 0.5, pytest.approx(off))
    assert compare((right.y + 0.125).half(), replace(right, frobenius=off * 1.01)).ok
    none = reference(torch.zeros(4, 6).double(), frobenius=0.5)
    assert compare(torch.full((4, 6), 0.1).half(), none).ok, "of nothing the error itself counts: 0.49"
    assert not compare(torch.full((4, 6), 0.11).half(), none).ok, "0.54"


STORED, LOADED, ASTRAY = (
    MemoryFinding("store", "beyond", 3, "y_ptr"),
    MemoryFinding("load", "outside", 3, "x_ptr"),
    MemoryFinding("store", "outside", 4, "y_ptr"),
)


OVERRUN = "the kernel wrote outside y_ptr, x_ptr"


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        *(({"status": status, "message": "why"}, "why") for status in ("unsupported", "lost", "timeout", "crash", "refused")),
        *(({"overrun": ("y_ptr", "x_ptr"), "memory": memory}, OVERRUN + words) for memory, words in (
            (None, "; grade with DEVICE=cpu to see where"),
            ((STORED, LOADED), "; mask its stores (the line `memory` says where)"),
            ((STORED, ASTRAY), "; the address of its store is wrong (the line `memory` says where)"),
            ((LOADED, MemoryFinding("store", "race", 3, "y_ptr")), ""),
            ((), ""))),
        ({"changed": ("x_ptr",)}, "the kernel changed its input x_ptr; only y_ptr may be written"),
    ],
)
def test_a_launch_that_did_not_end_or_wrote_elsewhere_says_why_and_what_to_do(seen, message):
    finding = check(LAB, PROBLEM, Outcome("one", 0, **{"status": "ran", "y": TRUTH, **seen}), BUNDLE)
    assert finding == Finding(False, message, skipped=seen.get("status") in ("unsupported", "lost"))


@pytest.mark.parametrize(
    ("config", "seen", "rounded", "slices"),
    [
        (1, None, None, 1), (0, None, None, 4), (0, Added(3), None, 3), (0, Added(9), None, 4), (0, Added(0), None, 1),
        (1, Added(3), None, 1), (0, None, 0.0, 1), (0, None, 100.0, 4), (3, None, None, 1), (3, None, 100.0, 4), (3, Added(3), None, 3),
    ],
)
def test_the_tolerance_is_that_of_the_slices_that_were_added(config, seen, rounded, slices):
    known = {}
    finding = check(LAB, PROBLEM, Outcome("one", config, "ran", y=TRUTH, rounded=rounded), BUNDLE, known, seen)
    assert (finding.ok, finding.slices, list(known)) == (True, slices, [("one", slices)])
    known["one", slices] = replace(known["one", slices], y=known["one", slices].y + 100)
    assert not check(LAB, PROBLEM, Outcome("one", config, "ran", y=TRUTH, rounded=rounded), BUNDLE, known, seen).ok, "what is known counts"


@pytest.mark.parametrize("config", [0, 2])
def test_on_the_interpreter_slices_count_by_what_they_were_seen_to_add(config):
    """Here their additions were counted, and nobody could follow them."""
    assert check(LAB, PROBLEM, Outcome("one", config, "ran", y=TRUTH, additions=3), BUNDLE).slices == 1


def test_of_a_y_that_no_tolerance_of_slices_permits_their_fault_is_not_said():
    wrong = Outcome("one", 0, "ran", y=TRUTH + 100)
    alone, too = check(LAB, PROBLEM, wrong, BUNDLE, None, Added(1)), check(LAB, PROBLEM, wrong, BUNDLE, None, Added(1, "a fault"))
    assert (too.message, too.explained) == (alone.message, False)
    assert too.errors.wrong == 512


UNORDERED = [
    (MemoryFinding("store", "lanes", 3), ORDER_OF_LANES),
    (MemoryFinding("load", "thread", 3), ORDER_OF_THREADS),
    (MemoryFinding("store", "mixed", 3), ORDER_OF_PROGRAMS),
    (MemoryFinding("promise", "assumed", 3), BROKEN_PROMISE),
    (MemoryFinding("store", "race", 3), ""),
    (MemoryFinding("load", "outside", 3), ""),
]


@pytest.mark.parametrize(("found", "words"), UNORDERED, ids=[found.fault for found, _ in UNORDERED])
def test_a_right_y_that_depends_on_an_order_or_a_broken_promise_is_wrong(found, words):
    watched = Outcome("one", 0, "ran", memory=(MemoryFinding("load", "outside", 2), found))
    finding = reject_undefined(Finding(True, ""), watched)
    assert (finding.ok, finding.message, finding.unordered) == (not words, words, bool(words))
    wrong = Finding(False, "wrong")
    assert reject_undefined(wrong, watched) == wrong


def test_two_kinds_of_order_are_that_of_programs():
    watched = Outcome("one", 0, "ran", memory=(UNORDERED[0][0], UNORDERED[1][0]))
    assert reject_undefined(Finding(True, ""), watched).message == ORDER_OF_PROGRAMS
    assert reject_undefined(Finding(True, ""), Outcome("one", 0, "ran")).ok


def test_an_order_left_open_is_said_with_its_first_lines():
    found = [("packs", 2), ("bits", 9), ("packs", 2), ("packs", None), ("packs", 3), ("packs", 4), ("packs", 5)]
    source = kernel_source()
    lines = ", ".join(source.locate(line) for line in (2, 3, 4))
    assert order_left_open(source, found) == f"{LEFT_OPEN['packs']} ({lines})"
    assert order_left_open(source, [("bits", None)]) == LEFT_OPEN["bits"]


def test_of_a_hidden_case_its_sizes_are_not_said():
    assert describe_case(CASE) == "M=16 N=32 K=64: one tile"
    assert describe_case(replace(CASE, hidden=True)) == "one tile"
