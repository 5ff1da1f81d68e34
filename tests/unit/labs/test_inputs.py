"""What the inputs of the cases have in them: lengths and numbers at which kernels with a mistake were right on all others."""

from __future__ import annotations

import pytest

from grader.labs import all_labs
from tests import margins

FP16_MAX = 65504


def test_block_rows_have_the_lengths_of_chunks():
    """A loop over chunks of 16 or 32 blocks ends differently where a row fills its last one."""
    crow = margins.problem_of("dds", "uneven_rows").tensors["crow_indices_ptr"]
    assert {0, 1, 2, 16, 18, 19, 32, 129} == set(crow.diff().tolist())


def test_some_scales_are_subnormal_and_none_is_zero():
    """Where they are taken as 0, W4A16's checkpoints with small rows lose these."""
    scales = margins.problem_of("w4a16", "channel_scales").tensors["scales_ptr"].float()
    assert 0 < scales.min() < 2**-14 < scales.max()
    assert scales.max() / scales.min() > 1e5


@pytest.mark.parametrize("lab", all_labs().values(), ids=all_labs())
def test_large_numbers_are_met_by_every_config(lab):
    """What is multiplied by 8 in fp16, or added up there, is infinite; Y is not."""
    problem = margins.problem_of(lab.id, "every_config")
    x = problem.tensors["x_ptr"].float().abs()
    assert x.max() == 8192
    for case in lab.cases:
        assert lab.reference(margins.problem_of(lab.id, case.name), 1).y.abs().max() < FP16_MAX, case.name


def test_some_values_of_blocks_are_large():
    """They become infinite in fp16 if they are multiplied by 64."""
    assert margins.problem_of("dds", "block_orientation").tensors["values_ptr"].float().abs().max() > 1024
