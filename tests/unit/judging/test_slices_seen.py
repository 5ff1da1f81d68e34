"""Where a GPU ran a launch, the tolerance allows for no more slices than were seen to add their share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.diagnosis import reasons
from grader.diagnosis.explaining import Explained, Failure
from grader.judging.checking import Finding, check
from grader.judging.judge import Launched, with_fewer_slices
from grader.judging.slice_sums import NOT_FOLLOWED, UNEVEN, Added, added
from grader.labs import get_lab
from grader.model import Config, GeneratedModule, KernelBundle, Launch, Outcome
from grader.running.cpu import InterpretOptions
from tests import margins
from tests.margins import Judge
from tests.reports import kernel_source

LAB = get_lab("w4a16")
CASE = LAB.case("large_sums")
SPLIT = Config(0, {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 16, "SPLIT_K": 8}, 4, 2)
LAUNCH = Launch((9 * 2, 8, 1), (), (), ())
BUNDLE = KernelBundle("w4a16", (SPLIT,), {(CASE.name, 0): LAUNCH}, {}, GeneratedModule("", "", ()))
JUDGE = Judge(LAB, CASE, 8)
SOURCE = kernel_source()
PROBLEMS = {CASE.name: JUDGE.problem}
HONEST = margins.honest_slices(JUDGE, next(margins.partitions(CASE.K, 8)))


def sixteenfold_rounded():
    """Right under eight slices, wrong under one."""
    return next(y for y in margins.fp16_accumulator(JUDGE, steps=(64,)) if JUDGE.scorer()(y) <= 1)


def just_within(judge, slices):
    """A Y that is right under so many slices, and wrong under half as many."""
    reference = LAB.reference(judge.problem, slices)
    y = reference.y.clone()
    y[0, 0] += 0.9 * reference.bound[0, 0]
    return y.half()


def judged(outcome, *watched, others=()):
    outcomes = [outcome, *others]
    findings = [check(LAB, JUDGE.problem, one, BUNDLE) for one in outcomes]
    launched = Launched(LAB, SOURCE, BUNDLE, PROBLEMS, outcomes, watched)
    return with_fewer_slices(launched, findings, {})[0]


def on_gpu(y, rounded=None):
    return Outcome(CASE.name, 0, "ran", y=y, rounded=rounded)


@pytest.fixture(scope="module")
def crumbs():
    y = sixteenfold_rounded()
    return y, margins.followed(JUDGE, next(slices for name, slices in margins.bought(JUDGE, y, 8) if name == "crumbs"))


def test_what_the_interpreter_follows_decides(crumbs):
    y, watched = crumbs
    assert judged(on_gpu(y)).ok, "nobody saw that nothing is added"
    finding = judged(on_gpu(y), watched)
    assert not finding.ok
    assert finding.explained
    assert "do not widen the tolerance" in finding.message
    right = margins.followed(JUDGE, HONEST)
    assert judged(on_gpu(right.y), right).slices == len(HONEST)
    assert not check(LAB, JUDGE.problem, watched, BUNDLE).ok, "on a CPU it is the outcome itself"


def test_slices_of_some_tiles_alone_widen_nothing_and_are_told():
    k, rows = torch.arange(CASE.K), torch.arange(CASE.M)[:, None]
    whole, *halves = margins.honest_slices(JUDGE, [k >= 0, k < CASE.K // 2, k >= CASE.K // 2])
    parts = [(whole, rows >= 16), *((half, rows < 16) for half in halves)]
    outcome = margins.followed(JUDGE, [replace(one, value=torch.where(here, one.value, 0)) for one, here in parts])
    assert added(LAB, JUDGE.problem, outcome) == Added(1, UNEVEN)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_what_is_no_number_in_one_tile_is_no_share_and_leaves_the_others_to_be_judged(value):
    ks, rows, all_k = torch.arange(CASE.K), torch.arange(CASE.M)[:, None], torch.ones(CASE.K, dtype=torch.long)
    halves = margins.honest_slices(JUDGE, [ks % 2 == 0, ks % 2 == 1])
    tiles = [torch.where(here, half.value, 0) for here in (rows < 16, rows >= 16) for half in halves]
    tiles[-1] = tiles[-1].masked_fill(tiles[-1] != 0, value)
    outcome = margins.followed(JUDGE, [margins.Slice(tile, all_k) for tile in tiles])
    found = added(LAB, JUDGE.problem, outcome)
    assert found is not None
    assert found.slices == 1
    assert found.fault


@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
@settings(max_examples=50, deadline=None)
def test_whatever_is_added_is_judged(seed, count):
    """Additions of any bits to some tiles and honest ones to others, by slices that loaded any k: none ends the judging."""
    chance = np.random.default_rng(seed)
    slices = []
    for rows in np.array_split(np.arange(CASE.M), chance.integers(1, 12)):
        here = torch.zeros(CASE.M, CASE.N, dtype=torch.bool)
        here[rows] = True
        for one in margins.honest_slices(JUDGE, list(torch.arange(CASE.K) % count == torch.arange(count)[:, None])):
            bits = torch.from_numpy(chance.integers(-(2**15), 2**15, here.shape).astype(np.int16)).view(torch.float16)
            value = one.value if chance.random() < 0.7 else bits
            ranks = torch.ones_like(one.ranks) if chance.random() < 0.7 else one.ranks * chance.integers(3)
            slices.append(margins.Slice(value.masked_fill(~here, 0), ranks))
    found = added(LAB, JUDGE.problem, margins.followed(JUDGE, slices))
    assert found is not None
    assert 0 <= found.slices <= count


def test_that_slices_are_shorter_than_sixteen_k_is_told():
    judge, ks = Judge(LAB, LAB.case("one_tile"), 1), torch.arange(96)
    outcome = margins.followed(judge, margins.honest_slices(judge, [ks // 8 == number for number in range(12)]))
    bundle = replace(BUNDLE, launches={("one_tile", 0): LAUNCH})
    off = just_within(judge, 12)
    wrong = check(LAB, judge.problem, replace(outcome, y=off), bundle)
    assert wrong.explained
    assert "with K = 96, SPLIT_K widens the tolerance by no more slices than 6" in wrong.message
    assert check(LAB, judge.problem, outcome, bundle).slices == 6


def test_that_a_config_says_fewer_slices_than_are_added_is_told():
    ks = torch.arange(CASE.K)
    outcome = margins.followed(JUDGE, margins.honest_slices(JUDGE, [ks * 8 // CASE.K == number for number in range(8)]))
    bundle = replace(BUNDLE, configs=(replace(BUNDLE.configs[0], constants={**BUNDLE.configs[0].constants, "SPLIT_K": 2}),))
    wrong = check(LAB, JUDGE.problem, replace(outcome, y=just_within(JUDGE, 8)), bundle)
    assert "it adds 8 slices of K, and SPLIT_K = 2 of the config widens the tolerance by no more than 2" in wrong.message


@pytest.mark.parametrize("spoil", [lambda y: 4 * y, lambda y: y + 1, torch.zeros_like, lambda y: y.roll(1, 0), torch.neg])
@pytest.mark.parametrize("name", ["too many", "not its share", "not followed"])
def test_slices_are_named_only_where_their_tolerance_would_do(name, spoil):
    judge = Judge(LAB, LAB.case("one_tile"), 1)
    ks = torch.arange(judge.case.K)
    outcome = margins.followed(judge, margins.honest_slices(judge, [ks // 8 == number for number in range(12)]))
    if name == "not its share":
        halves = margins.honest_slices(judge, [ks < 48, ks >= 48])
        outcome = margins.followed(judge, [replace(one, value=2 * one.value) for one in halves])
    if name == "not followed":
        outcome = replace(outcome, contributions=b"")
    wrong = check(LAB, judge.problem, replace(outcome, y=spoil(outcome.y)), replace(BUNDLE, launches={("one_tile", 0): LAUNCH}))
    assert not wrong.ok
    assert "slices" not in wrong.message
    assert not wrong.explained, "what is wrong is still to be found"


@pytest.mark.parametrize("additions", [{"additions": 0}, {}], ids=["none", "not followed"])
def test_where_no_addition_was_followed_nothing_is_widened(crumbs, additions):
    y, watched = crumbs
    assert not judged(on_gpu(y), replace(watched, contributions=b"", **additions)).ok
    found = added(LAB, JUDGE.problem, replace(watched, contributions=b"", **additions))
    assert found == (Added(1, NOT_FOLLOWED) if not additions else Added(0))


@pytest.mark.parametrize(("rounded", "ok"), [(1.0, False), (1.3, False), (7.5, True), (16.0, True)])
def test_a_second_launch_decides_where_nobody_watched(crumbs, rounded, ok):
    assert judged(on_gpu(crumbs[0], rounded)).ok == ok
    unseen = Outcome(CASE.name, 0, "unsupported")
    assert judged(on_gpu(crumbs[0], rounded), unseen).ok == ok


@pytest.mark.parametrize(("rounded", "ok"), [(1.1, False), (8.0, True)])
def test_where_y_tells_nothing_other_launches_of_the_config_do(crumbs, rounded, ok):
    other = on_gpu(torch.zeros_like(crumbs[0]), rounded)
    assert judged(on_gpu(crumbs[0]), others=[other]).ok == ok


@pytest.mark.parametrize("explained", [False, True])
def test_what_is_said_of_slices_is_enough(monkeypatch, explained):
    monkeypatch.setattr(reasons, "explain", lambda failure: Explained())
    findings = [replace(Finding(False, "1 of 9 elements of Y is wrong"), explained=explained)]
    failure = Failure(LAB, SOURCE, BUNDLE, PROBLEMS, [on_gpu(JUDGE.problem.tensors["y_ptr"])], findings, [], InterpretOptions(1))
    (said,) = reasons.reasons(failure).diagnoses
    assert (said is None) is explained
