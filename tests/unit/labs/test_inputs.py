"""What the inputs of the cases have in them: lengths and numbers at which kernels with a mistake were right on all others."""

from __future__ import annotations

from tests import margins


def test_block_rows_have_the_lengths_of_chunks():
    """A loop over chunks of 16 or 32 blocks ends differently where a row fills its last one."""
    crow = margins.problem_of("dds", "uneven_rows").tensors["crow_indices_ptr"]
    assert {0, 1, 2, 16, 18, 19, 32, 129} == set(crow.diff().tolist())


def test_some_scales_are_subnormal_and_none_is_zero():
    """Where they are taken as 0, W4A16's checkpoints with small rows lose these."""
    scales = margins.problem_of("w4a16", "channel_scales").tensors["scales_ptr"].float()
    assert 0 < scales.min() < 2**-14 < scales.max()
    assert scales.max() / scales.min() > 1e5
