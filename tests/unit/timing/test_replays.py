"""What surrounds a timed replay, with Python functions in place of kernels: new inputs, and nothing that goes unseen."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from grader.gpu.arena import Arena, Layout
from grader.labs import all_labs, get_lab
from grader.labs.guarded import GUARD_BYTES, POISON_BYTE
from grader.model import Case
from grader.timing.replays import MISFIT, OTHERS, Stage

CPU = torch.device("cpu")
OWN = {"dds": Case("timed", "", 16, 256, 256, w="sparsity_0.8", launches=3)}
CASES = {
    lab.id: OWN.get(lab.id, replace(lab.speed_cases[0], M=16, N=64, K=128, launches=3)) for lab in all_labs().values()
}


def staged(lab_id="w8a8"):
    return Stage(get_lab(lab_id), CASES[lab_id], CPU)


def drawn(stage, seed, rare=False):
    """The inputs of all launches, by themselves."""
    generator = torch.Generator().manual_seed(seed)
    return stage.lab.timed_inputs(stage.case, generator, CPU, stage.case.launches, rare)


def right(stage, draw, launch):
    """The output of a right kernel, computed from what lies in the arena."""
    stack = {name: stage.arena.tensors(draw.places, name) for name in stage.inputs}
    problem = stage.lab.stacked_problem(stage.case, stack, launch)
    return stage.lab.reference(problem, 1).y.to(torch.float16)


def outputs(stage, draw):
    return stage.arena.tensors(draw.places, stage.lab.output)


def run(stage, draw, launches=None):
    """Does the work of some launches, of all by default."""
    for launch in range(stage.case.launches) if launches is None else launches:
        outputs(stage, draw)[launch] = right(stage, draw, launch)


def seen(stage, draw, ran=None):
    return stage.inspect(draw, range(stage.case.launches) if ran is None else ran, roundings=1)


@pytest.mark.parametrize("rare", [False, True])
@pytest.mark.parametrize("lab_id", CASES)
def test_right_work_fits_every_time(lab_id, rare):
    stage = staged(lab_id)
    for _ in range(3):
        draw = stage.renew(rare)
        run(stage, draw)
        evidence = seen(stage, draw)
        assert evidence.fault == ""
        assert evidence.share < 0.5
        assert evidence.mean_square < 0.3
        assert (stage.arena.memory == POISON_BYTE).all()


@pytest.mark.parametrize("lab_id", CASES)
def test_every_input_is_new_and_in_another_place(lab_id):
    stage = staged(lab_id)
    first, second = {}, {}
    places = set()
    for inputs in (first, second):
        draw = stage.renew()
        inputs.update({name: stage.arena.tensors(draw.places, name).clone() for name in stage.inputs})
        places.update((name, launch, stage.arena.address(draw.places, name, launch))
                      for name in stage.arena.layouts for launch in range(stage.case.launches))
        stage.arena.clear()
    for name, tensor in first.items():
        for one in tensor:
            for other in (*second[name], *(t for t in tensor if t is not one and t.data_ptr() != one.data_ptr())):
                assert not torch.equal(one, other), name
    assert len(places) > 0.8 * 2 * stage.case.launches * len(stage.arena.layouts)


def test_orders_differ_and_distances_cannot_be_foretold():
    arena = Arena({"a": Layout((8,), (1,), torch.float32), "b": Layout((8,), (1,), torch.int8)}, 16, CPU)
    draws = [arena.draw() for _ in range(50)]
    assert len({draw.order for draw in draws}) == 50
    assert len({draw.pitch["a"] for draw in draws}) > 30
    assert len({draw.first["b"] - draw.first["a"] for draw in draws}) > 38
    for draw in draws:
        spans = sorted(
            (arena.address(draw, name, launch), arena.layouts[name].bytes) for name in "ab" for launch in range(16)
        )
        assert all((start - arena.memory.data_ptr()) % 256 == 0 for start, _ in spans)
        for (start, size), (following, _) in pairwise(spans):
            assert following - start - size >= GUARD_BYTES - 256


def test_yesterdays_output_is_wrong_today():
    stage = staged()
    draw = stage.renew()
    run(stage, draw)
    old = outputs(stage, draw).clone()
    assert seen(stage, draw).fault == ""
    draw = stage.renew()
    outputs(stage, draw).copy_(old)
    evidence = seen(stage, draw)
    assert evidence.fault == MISFIT
    assert not stage.check(draw, evidence.launch, evidence.outputs[evidence.launch], 1).ok


@pytest.mark.parametrize("lab_id", CASES)
@pytest.mark.parametrize("wrong", ["zeros", "row", "tile", "another", "unwritten", "inf"])
def test_wrong_outputs_do_not_fit(lab_id, wrong):
    stage = staged(lab_id)
    draw = stage.renew()
    run(stage, draw)
    y = outputs(stage, draw)
    if wrong == "zeros":
        y[1] = 0
    elif wrong == "row":
        y[1, 5] = y[1, 5].roll(1)
    elif wrong == "tile":
        y[1, :16, 16:32] = y[1, :16, 32:48] + 1  # both may be of empty rows of blocks
    elif wrong == "another":
        y[1] = y[0]
    elif wrong == "unwritten":
        y.view(torch.int16)[1, 7, 3] = 0x7E7E
    else:
        y[1, 7, 3] = torch.inf
    evidence = seen(stage, draw)
    assert evidence.fault == MISFIT
    assert evidence.launch == 1


@pytest.mark.parametrize("name", ["x_ptr", "qweight_ptr", "input_scale_ptr", "weight_scale_ptr"])
def test_one_changed_bit_of_an_input_is_seen(name):
    stage = staged()
    draw = stage.renew()
    run(stage, draw)
    bits = stage.arena.bits(draw.places, name)
    place = (2, *(size - 1 for size in bits.shape[1:]))
    bits[place] ^= 1
    assert seen(stage, draw).fault == f"the kernel changed its input {name}"


@pytest.mark.parametrize("distance", [-1, -GUARD_BYTES, None])
def test_a_byte_beside_the_tensors_is_seen(distance):
    """Before Y, at the far end of its guard, where the tensor that was drawn before it may end, and behind it."""
    stage = staged()
    draw = stage.renew()
    run(stage, draw)
    at = draw.places.first["y_ptr"] + (stage.arena.layouts["y_ptr"].bytes if distance is None else distance)
    stage.arena.memory[at] = 0
    fault = seen(stage, draw).fault
    assert fault.startswith("the kernel wrote outside ")
    assert fault.endswith(" y_ptr; check its addresses and masks") or distance == -GUARD_BYTES
    draw = stage.renew()
    run(stage, draw)
    assert seen(stage, draw).fault == ""


def test_gaps_of_a_strided_tensor_are_looked_at():
    arena = Arena({"y": Layout((4, 8), (16, 1), torch.float16)}, 2, CPU)
    places = arena.draw()
    arena.tensors(places, "y").zero_()
    arena.poison(places, "y")
    assert not arena.strayed()
    arena.memory[places.first["y"] + places.pitch["y"] + 20] = 1
    assert arena.strayed()


def test_a_launch_that_does_the_work_of_the_next_is_seen():
    """Only the first launches of a draw run; what they leave in other outputs gives them away."""
    stage = staged()
    draw = stage.renew()
    first, second, _ = draw.places.order
    run(stage, draw, [first, second])
    assert seen(stage, draw, [first]).fault == OTHERS
    draw = stage.renew()
    run(stage, draw, draw.places.order[:2])
    assert seen(stage, draw, draw.places.order[:2]).fault == ""


def test_timed_inputs_hold_the_traps_of_the_cases():
    stage = staged("w8a8")
    x, weight, scale = (torch.cat([drawn(stage, seed)[f"{name}_ptr"].flatten(0, 1)
                                   for seed in range(8)]) for name in ("x", "qweight", "input_scale"))
    ratio = x.float() / scale[:, None]
    clamped = (ratio.abs() > 128).any(dim=1)
    assert 0.02 < clamped.float().mean() < 0.3
    assert (x.abs().amax(dim=1) > 20).float().mean() > 0.03
    assert set(range(-128, 128)) == set(weight.unique().tolist())
    words = drawn(staged("w4a16"), 1)["qweight_ptr"]
    for position in range(8):
        assert len(((words >> (4 * position)) & 0xF).unique()) == 16


@pytest.mark.parametrize(("rare", "longest"), [(False, False), (True, True)])
def test_sparse_draws_have_the_same_number_of_blocks(rare, longest):
    stage = staged("dds")
    for seed in range(5):
        stack = drawn(stage, seed, rare)
        crow, cols = stack["crow_indices_ptr"], stack["col_indices_ptr"]
        counts = crow.diff(dim=1)
        assert (crow[:, -1] == round(0.2 * 64)).all()
        assert (counts == 0).any(dim=1).all()
        assert (counts == 8).any(dim=1).all() == longest or not longest
        for launch in range(3):
            for row in range(8):
                inside = cols[launch, crow[launch, row] : crow[launch, row + 1]]
                assert (inside.diff() > 0).all()
