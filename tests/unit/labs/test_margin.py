"""The judge's margin: what must fail fails in every case under every permitted tolerance, what must pass passes."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest
import torch

from grader.judging.slice_sums import NOT_ITS_SHARE, UNKNOWN_SHARE, Added, added
from grader.labs import all_labs, get_lab, offsets
from grader.labs.slices import MOST_SLICES, arrives_zeroed, slices
from grader.model import Config, Launch
from tests import margins
from tests.margins import Judge, permitted_slices
from tests.rotation import share

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]
CASES = [(lab, case) for lab in all_labs().values() for case in lab.cases if case.name not in lab.blind]
every_case = pytest.mark.parametrize(("lab", "case"), CASES, ids=lambda one: getattr(one, "id", None) or one.name)
one_process = pytest.mark.xdist_group("margins")
"""For what takes its scores from `measured`, which computes those of a case once a process."""

ORDERS = 200
FAILS, PASSES, ANY_SEED = 1.2, 0.95, 0.85
"""Scores with room, so that no seed of the inputs changes a verdict. ANY_SEED: of elements that only some seeds have."""
UNDERFLOWS = ("scale_axes",)
"""Where elements of Y are so small that their bound is the sum of what each rounding may do, which right slices reach and never exceed."""


@one_process
@every_case
def test_what_is_wrong_fails_and_what_is_right_passes(lab, case):
    """Wrong under every tolerance, or rounded too early; fp32 sums in every order, and what the lab permits."""
    scores = margins.measured(lab.id, case.name)
    sums = ["fp16 sum"] if margins.STEPS[0] < case.K else []  # one iteration's products are summed by the tensor core
    wrong = (*margins.ALWAYS_WRONG, *sums, "bf16")
    assert {name: scores[name] for name in wrong if not scores[name] > FAILS} == {}
    assert {name: scores[name] for name in margins.RIGHT if scores[name] > 1} == {}


@every_case
def test_every_order_of_atomics_passes(lab, case):
    """With room for other inputs: partial sums that stray from their share of Y show at few slices, and only with some seeds."""
    permitted = permitted_slices(lab, case)[1:]
    counts = sorted({count for count in (2, 3, 4, 5, 6, 8, 16, *permitted[-1:]) if count in permitted})
    room = 1 if case.name in UNDERFLOWS else ANY_SEED
    seeds = 4 if case.M * case.N * case.K < 1 << 22 else 1
    for seed, count in enumerate(counts * seeds, margins.SEED):
        judge = Judge(lab, case, count, seed)
        score = judge.scorer()
        whole = max(2, min(ORDERS, 100_000 // (count * case.M * case.N)) // seeds)
        assert max(map(score, margins.atomics(judge, count, whole, together=True))) <= room
        assert max(map(score, margins.atomics(judge, count, 2, together=False))) <= room


@pytest.mark.parametrize("lab", ["w8a8", "w4a16", "w8a16"])
@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_two_hundred_orders_of_atomics_pass(lab, count):
    """All 200 on the case with the longest sums, whose roundings are the largest beside the bound."""
    lab = get_lab(lab)
    judge = Judge(lab, lab.case("long_k"), count)
    score = judge.scorer()
    assert max(map(score, margins.atomics(judge, count, ORDERS, together=True))) <= PASSES


@pytest.mark.parametrize("lab_id", ["w8a8", "w4a16"])
def test_few_slices_that_cancel_have_room(lab_id):
    """Millions of elements, so that the rare ones are among them whose slices are large and of opposite signs."""
    lab = get_lab(lab_id)
    case = lab.case("several_tiles")
    worst = 0.0
    for seed in range(24):
        problem = margins.problem_of(lab_id, case.name, seed)
        for count in (2, 3):
            reference = lab.reference(problem, count)
            a, w = reference.left, reference.right
            parts = torch.arange(case.K) // 32 % count
            y = torch.zeros(case.M, case.N, dtype=torch.float16)
            for part in range(count):
                own = parts == part
                y = (y.float() + (a[:, own] @ w[:, own].t()).to(torch.float16).float()).to(torch.float16)
            worst = max(worst, float(((y.double() - reference.y).abs() / reference.bound).max()))
    assert worst < 0.7


@every_case
def test_the_tolerance_grows_with_the_slices(lab, case):
    """So what fails under the widest tolerance fails under each of them."""
    problem = margins.problem_of(lab.id, case.name)
    ladder = [lab.reference(problem, count) for count in permitted_slices(lab, case)]
    for narrow, wide in itertools.pairwise(ladder):
        assert bool((narrow.bound <= wide.bound).all())
        assert narrow.frobenius <= wide.frobenius


@pytest.mark.parametrize("lab", all_labs().values(), ids=lambda lab: lab.id)
def test_a_blind_case_has_nothing_to_tell_and_no_other_is_excused(lab):
    for case in lab.cases:
        y = lab.reference(margins.problem_of(lab.id, case.name), 1).y
        assert bool((y == 0).all()) == (case.name in lab.blind), case.name
    assert set(lab.blind) <= {case.name for case in lab.cases}


@pytest.mark.parametrize("lab", all_labs().values(), ids=lambda lab: lab.id)
@pytest.mark.parametrize("seed", range(8))
def test_every_right_result_fits_fp16(lab, seed):
    for case in lab.cases:
        y = lab.reference(margins.problem_of(lab.id, case.name, seed), 1).y
        assert float(y.abs().max()) < 40_000, case.name


@pytest.mark.parametrize(
    ("lab", "case"),
    [("w8a8", "several_tiles"), ("w8a8", "long_k"), ("w8a8", "every_config"),
     ("w4a16", "large_sums"), ("w4a16", "every_config"), ("w8a16", "large_sums"), ("w8a16", "every_config")],
)
def test_a_sum_converted_before_it_is_scaled_overflows(lab, case):
    lab = get_lab(lab)
    judge = Judge(lab, lab.case(case), permitted_slices(lab, lab.case(case))[-1])
    (y,) = margins.converted_before_scaling(judge)
    assert bool(y.isinf().any())
    assert judge.scorer()(y) > 1


@pytest.mark.parametrize("lab", ["w8a8", "w4a16", "w8a16"])
def test_one_program_that_sums_long_k_in_fp16_fails_whatever_split_k_says(lab):
    """Steps of 16 to 64; sixteen additions, which is what sixteen slices make, are all that is forgiven."""
    lab = get_lab(lab)
    judge = Judge(lab, lab.case("long_k"), MOST_SLICES)
    score = judge.scorer()
    assert min(map(score, margins.fp16_accumulator(judge, steps=(16, 32, 64)))) > 1


# ---------------------------------------------------------------- what slices have to add

SPLIT = [(lab, case) for lab, case in CASES if lab.split_k and len(permitted_slices(lab, case)) > 1]
every_split_case = pytest.mark.parametrize(("lab", "case"), SPLIT, ids=lambda one: getattr(one, "id", None) or one.name)
UNTOLD = {"large_sums": range(2, 17)}
"""Cases in which Y is too large for a start that rounds by a share of it; other cases of the same config tell."""


def counts_of(lab, case):
    permitted = permitted_slices(lab, case)[1:]
    return sorted({count for count in (2, 5, permitted[-1]) if count in permitted})


@every_split_case
def test_slices_that_carry_their_share_count_however_k_is_split(lab, case):
    """The most slices in one way to split K, another one in each case of a lab: they take longest."""
    *few, most = counts_of(lab, case)
    one_way = [list(margins.partitions(case.K, most))[lab.cases.index(case) % 3]]
    for count, ways in [*((count, margins.partitions(case.K, count)) for count in few), (most, one_way)]:
        judge = Judge(lab, case, count)
        for masks in ways:
            honest = [one for one in margins.honest_slices(judge, masks) if bool(one.value.any())]
            outcome = margins.followed(judge, honest)
            assert added(lab, judge.problem, outcome) == Added(len(honest))
            assert judge.scorer()(outcome.y) <= 1


@every_split_case
def test_slices_whose_loads_do_not_tell_their_k_are_known_by_what_they_add(lab, case):
    """X may be kept for several tiles, or read as words: nothing is loaded for a slice then, or more than it has; here by turns."""
    judge, loaded = Judge(lab, case, counts_of(lab, case)[-1]), lab.cases.index(case) % 2
    for masks in margins.partitions(case.K, min(3, judge.slices)):
        honest = [one for one in margins.honest_slices(judge, masks) if bool(one.value.any())]
        blind = [replace(one, ranks=torch.full_like(one.ranks, loaded)) for one in honest]
        assert added(lab, judge.problem, margins.followed(judge, blind)) == Added(len(honest))


@every_split_case
def test_k_that_is_loaded_ahead_belongs_to_the_slice_that_loads_it_first(lab, case):
    judge = Judge(lab, case, 2)
    masks = next(margins.partitions(case.K, 2))
    fifth = torch.arange(case.K) % 5 == 0
    honest = margins.honest_slices(judge, masks)
    prefetched = [replace(one, ranks=one.ranks + 9 * (one.ranks == 0) * fifth) for one in honest]
    assert added(lab, judge.problem, margins.followed(judge, prefetched)) == Added(2)


@every_split_case
def test_slices_that_carry_nothing_widen_nothing(lab, case):
    """Whatever is added beside a sum in fp16, its tolerance is that of one slice, under which it fails."""
    count = permitted_slices(lab, case)[-1]
    judge = Judge(lab, case, 1)
    score, wrong = judge.scorer(), [y for y in margins.fp16_accumulator(judge, steps=(16, 64)) if bool(y.isfinite().all())]
    for y in wrong[:: max(1, len(wrong) - 1)]:
        assert score(y) > FAILS
        for name, those in margins.bought(judge, y, count):
            found = added(lab, judge.problem, margins.followed(judge, those))
            assert found in (Added(1, NOT_ITS_SHARE), Added(1, UNKNOWN_SHARE)), name


@every_split_case
def test_a_second_launch_tells_shares_from_crumbs(lab, case):
    """What only a GPU can run is told by Y alone: slices are counted in full, crumbs and pairs that cancel as one."""
    judge = Judge(lab, case, 1)
    whole = lab.reference(judge.problem, 1).y.half()
    for count in counts_of(lab, case):
        for masks in itertools.islice(margins.partitions(case.K, count), 2):
            honest = [one for one in margins.honest_slices(judge, masks) if bool(one.value.any())]
            found = margins.rounded_additions(honest, count)
            assert found is not None or count in UNTOLD.get(case.name, ())
            assert found is None or offsets.counted(found, count) >= len(honest)
        for name, those in margins.bought(judge, whole, count):
            if name in ("crumbs", "thousandths", "as large"):
                found = margins.rounded_additions(those, count)
                assert found is None or offsets.counted(found, count) == 1, name
        stored = offsets.additions(whole, whole, count)
        assert stored is None or offsets.counted(stored, count) == 1


@pytest.mark.parametrize("damage", [lambda data: data[:-2], lambda data: data[:8] + b"\xff" * 8 + data[16:], lambda data: b"few",
                                    lambda data: data[:-2] + b"1234", lambda data: data.replace(b"\0", b"\x01")])
def test_a_record_that_is_none_is_refused(damage):
    lab = get_lab("w4a16")
    judge = Judge(lab, lab.case("one_tile"), 2)
    outcome = margins.followed(judge, margins.honest_slices(judge, next(margins.partitions(judge.case.K, 2))))
    with pytest.raises(ValueError, match="record of additions"):
        added(lab, judge.problem, replace(outcome, contributions=damage(outcome.contributions)))


# ---------------------------------------------------------------- which slices count

TILED = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64}


def counting(lab, constants, grid, M=32, N=64, K=4096):
    config = Config(0, constants, 4, 2)
    return slices(get_lab(lab), config, Launch(grid, (), (), ()), M, N, K)


@pytest.mark.parametrize("lab", ["w8a8", "w4a16"])
@pytest.mark.parametrize(
    ("constants", "grid", "K", "expected"),
    [
        *(({**TILED, "SPLIT_K": split_k}, grid, K, expected) for split_k, grid, K, expected in (
            (8, (4, 8, 1), 4096, 8),
            (8, (32, 1, 1), 4096, 8),
            (60000, (1, 1, 1), 4096, 1),
            (60000, (4, 60000, 1), 4096, 16),
            (16, (4, 1, 1), 4096, 1),
            (16, (4, 3, 1), 4096, 3),
            (16, (7, 1, 1), 4096, 1),
            (8, (4, 8, 1), 64, 4),
            (8, (4, 8, 1), 16, 1),
            (8, (4, 8, 1), 8, 1),
            (1, (4, 8, 1), 4096, 1),
            *((no_number, (4, 16, 1), 4096, 1) for no_number in (True, 0, -3, 2.0, "8", None)))),
        ({"SPLIT_K": 12}, (1, 1, 1), 4096, 1),  # without tile sizes programs are counted
        ({"SPLIT_K": 12}, (3, 2, 1), 4096, 6),
    ],
)
def test_split_k_counts_for_the_slices_that_were_launched(lab, constants, grid, K, expected):
    assert counting(lab, constants, grid, K=K) == expected


@pytest.mark.parametrize("split_k", [2, 2049])
def test_dds_knows_no_split_k(split_k):
    config = Config(0, {"BLOCK_M": 16, "SPLIT_K": split_k}, 4, 2)
    assert counting("dds", config.constants, (2, 32, split_k)) == 1
    assert not arrives_zeroed(get_lab("dds"), config)
    assert arrives_zeroed(get_lab("w8a8"), config)
    assert not arrives_zeroed(get_lab("w8a8"), replace(config, constants={"SPLIT_K": 1}))


# ---------------------------------------------------------------- the document


@one_process
def test_the_document_has_the_margins_of_today():
    text = margins.DOCUMENT.read_text(encoding="utf-8")
    written = text[text.index(margins.BEGIN) + len(margins.BEGIN) : text.index(margins.END)]
    sections = dict(re.findall(r"### (\w+)\n(.*?)(?=\n### |\Z)", written, re.DOTALL))
    assert len(sections) >= 3
    for lab in share([lab for lab in all_labs().values() if lab.id in sections], 3):
        fresh = margins.table([lab]).partition(f"### {lab.id}\n")[2]
        for line, again in zip(sections[lab.id].strip().splitlines(), fresh.strip().splitlines(), strict=True):
            for shown, measured in zip(line.split("|"), again.split("|"), strict=True):
                assert shown == measured or _close(shown, measured), f"{line}\n{again}\nrun python -m tests.margins --write"


def _close(shown: str, measured: str) -> bool:
    try:
        return float(shown) == pytest.approx(float(measured), rel=0.1)
    except ValueError:
        return False
