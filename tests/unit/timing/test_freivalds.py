"""The projection's margins: what it must see, what it must let pass, and how often it errs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from grader.labs import all_labs, get_lab
from grader.labs.problems import generator_for
from grader.model import Case
from grader.timing.freivalds import COLUMNS, fit, random_signs, too_far_together
from grader.timing.rounds import FIRST_ROUNDS, ROUNDS

CPU = torch.device("cpu")
OWN = {"dds": Case("timed", "", 64, 1024, 1024, w="sparsity_0.9", launches=2)}
CASES = {
    lab.id: OWN.get(lab.id, replace(lab.speed_cases[0], M=4, N=256, K=1024, launches=4)) for lab in all_labs().values()
}
REPLAYS = 8


def made(lab_id, seed):
    lab, case = get_lab(lab_id), CASES[lab_id]
    stack = lab.timed_inputs(case, generator_for(seed, device=CPU), CPU, case.launches, False)
    y = torch.stack([
        lab.reference(lab.stacked_problem(case, stack, launch), 1).y for launch in range(case.launches)
    ])
    return lab, case, stack, y


def fits(lab, case, stack, y, seed, roundings=1):
    signs = random_signs(case.N, generator_for(seed, "signs"), CPU)
    return fit(y.to(torch.float16), lab.project(stack, signs), signs, case.K, torch.tensor([float(roundings)]))


def mean_square(found, case):
    return float(found.squares.mean()) / (case.M * COLUMNS)


@pytest.mark.slow
@pytest.mark.parametrize("lab_id", CASES)
def test_right_outputs_use_a_small_share_of_the_bound(lab_id):
    means = []
    for seed in range(REPLAYS):
        lab, case, stack, y = made(lab_id, seed)
        found = fits(lab, case, stack, y, seed)
        assert float(found.worst.max()) < 0.35
        means.append(mean_square(found, case))
    assert max(means) < 0.25
    assert not too_far_together(sum(means) / REPLAYS, 2 * ROUNDS)


@pytest.mark.parametrize("roundings", [2, 16])
def test_atomics_in_fp16_pass_in_every_order(roundings):
    lab, case, stack, _ = made("w4a16", 3)
    step = case.K // roundings
    parts = []
    for start in range(0, case.K, step):
        x = torch.zeros_like(stack["x_ptr"])
        x[:, :, start : start + step] = stack["x_ptr"][:, :, start : start + step]
        one = {**stack, "x_ptr": x}
        parts.append(torch.stack([
            lab.reference(lab.stacked_problem(case, one, launch), 1).y for launch in range(case.launches)
        ]))
    for order in range(20):
        y = torch.zeros_like(parts[0], dtype=torch.float16)
        for part in torch.randperm(roundings, generator=generator_for(order)).tolist():
            y = y + parts[part].to(torch.float16)
        found = fits(lab, case, stack, y, order, roundings)
        assert float(found.worst.max()) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("lab_id", CASES)
def test_one_slice_of_sixty_four_or_one_block_is_missed(lab_id):
    """Only in one launch of a replay; each of the replays must show it."""
    for seed in range(REPLAYS):
        lab, case, stack, y = made(lab_id, seed)
        if "values_ptr" in stack:
            values = stack["values_ptr"].clone()
            values[1, seed] = 0
            less = {**stack, "values_ptr": values}
        else:
            x = stack["x_ptr"].clone()
            x[1, :, 16 * seed : 16 * seed + 16] = 0
            less = {**stack, "x_ptr": x}
        y[1] = lab.reference(lab.stacked_problem(case, less, 1), 1).y
        assert float(fits(lab, case, stack, y, seed).worst[1]) > 3


@pytest.mark.parametrize("lab_id", ["w8a8", "w4a16", "dds"])
def test_no_clamp_no_rounding_no_empty_row_is_seen(lab_id):
    lab, case, stack, y = made(lab_id, 5)
    if lab_id == "w8a8":
        scale = stack["input_scale_ptr"].double()[:, :, None]
        ratio = torch.round(stack["x_ptr"].double() / scale)
        assert (ratio.abs() > 128).any()
        weight = stack["qweight_ptr"].double() * stack["weight_scale_ptr"].double()[:, None, :]
        y = torch.bmm(ratio * scale, weight)
    elif lab_id == "w4a16":
        words = stack["qweight_ptr"]
        unsigned = torch.stack([(words >> (4 * place)) & 0xF for place in range(8)], dim=2).flatten(1, 2).double()
        symmetric = torch.where(unsigned == 8, 0, torch.where(unsigned > 8, unsigned - 16, unsigned))
        y = torch.bmm(stack["x_ptr"].double(), symmetric * stack["scales_ptr"].double()[:, None, :])
    else:
        counts = stack["crow_indices_ptr"].diff(dim=1)
        empty = (counts == 0).repeat_interleave(32, dim=1)
        y = torch.where(empty[:, None, :], torch.nan, y)
    worst = fits(lab, case, stack, y, 5).worst
    assert bool((~(worst <= 1)).any())


def test_an_accumulator_in_fp16_is_seen_over_the_replays_of_a_race():
    lab = get_lab("w4a16")
    case = Case("timed", "", 1, 128, 4096, launches=4)
    means = []
    for seed in range(6):
        stack = lab.timed_inputs(case, generator_for(seed), CPU, case.launches, False)
        accumulator = torch.zeros(case.launches, case.M, case.N, dtype=torch.float16)
        weight = torch.stack([
            lab.baseline_weight(lab.stacked_problem(case, stack, launch)).t() for launch in range(case.launches)
        ]).double()
        for start in range(0, case.K, 16):
            part = torch.bmm(stack["x_ptr"][:, :, start : start + 16].double(), weight[:, start : start + 16])
            accumulator = (accumulator.double() + part).to(torch.float16)
        means.append(mean_square(fits(lab, case, stack, accumulator.double(), seed), case))
    assert too_far_together(sum(means) / len(means), 2 * FIRST_ROUNDS), means


@pytest.mark.slow
def test_a_wrong_row_is_seen_whatever_the_signs():
    lab, case, stack, y = made("w4a16", 9)
    y[2, 1] = y[2, 1].roll(1)
    worst = torch.tensor([float(fits(lab, case, stack, y, seed).worst[2]) for seed in range(200)])
    assert (worst > 1).all()
