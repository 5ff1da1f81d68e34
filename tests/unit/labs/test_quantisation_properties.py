"""Do the layout functions of solutions/ keep their promises for any input? Packing, quantisation, BSR."""

from __future__ import annotations

import warnings
from types import ModuleType

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.test_layers import solution

SIZES = st.integers(1, 6)
SEEDS = st.integers(0, 2**32 - 1)

moderately = settings(max_examples=60, deadline=None)


w8a8, w4a16, dds = solution("w8a8"), solution("w4a16"), solution("dds")


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@st.composite
def weights(draw: st.DrawFn) -> torch.Tensor:
    """fp32 [R, K]: rows of any size that a Linear may hold, some of zeros, some with one large element."""
    rows, columns = draw(st.integers(1, 5)), draw(st.integers(1, 40))
    w = normal(draw(SEEDS), rows, columns)
    for row in range(rows):
        kind = draw(st.sampled_from(["plain", "zero", "tiny", "huge", "outlier"]))
        if kind == "outlier":
            w[row, draw(st.integers(0, columns - 1))] = draw(st.sampled_from([-1e3, 1e3]))
        else:
            w[row] *= {"plain": 1.0, "zero": 0.0, "tiny": 10.0 ** draw(st.integers(-10, -4)), "huge": 1e4}[kind]
    return w


@moderately
@given(SIZES, SIZES, SEEDS)
def test_unpack_is_the_inverse_of_pack(groups: int, columns: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    q = torch.randint(-8, 8, (8 * groups, columns), generator=generator, dtype=torch.int8)
    packed = w4a16.pack_int4(q)
    assert (packed.dtype, packed.shape) == (torch.int32, (groups, columns))
    assert torch.equal(w4a16.unpack_int4(packed), q)


@pytest.mark.parametrize("value", range(-8, 8))
@pytest.mark.parametrize("position", range(8))
def test_nibble_sits_at_its_bits(value: int, position: int) -> None:
    q = torch.zeros(8, 1, dtype=torch.int8)
    q[position] = value
    word = w4a16.pack_int4(q).item() & 0xFFFFFFFF
    assert word == (value & 0xF) << (4 * position)
    assert w4a16.unpack_int4(w4a16.pack_int4(q))[position].item() == value


def test_pack_refuses() -> None:
    with pytest.raises(TypeError, match=r"found torch.float32, expected an integer dtype"):
        w4a16.pack_int4(torch.zeros(8, 1))
    with pytest.raises(ValueError, match=r"found shape \(9, 1\), expected \[K, N\] with K a multiple of 8"):
        w4a16.pack_int4(torch.zeros(9, 1, dtype=torch.int8))
    with pytest.raises(ValueError, match="found values from -9 to 8, expected -8 to 7"):
        w4a16.pack_int4(torch.tensor([[-9, 8]] * 8))
    with pytest.raises(TypeError, match=r"found torch.int64, expected torch.int32"):
        w4a16.unpack_int4(torch.zeros(1, 1, dtype=torch.int64))


@moderately
@given(weights())
def test_an_error_is_at_most_half_a_step(w: torch.Tensor) -> None:
    for module, kind, least, most in ((w8a8, torch.float32, -128, 127), (w4a16, torch.float16, -8, 7)):
        q, scale = module.quantise(w)
        assert (q.dtype, scale.dtype) == (torch.int8, kind)
        assert torch.isfinite(scale).all()
        assert (scale > 0).all()
        assert least <= q.min() <= q.max() <= most
        error = (w.double() - q.double() * scale.double()[:, None]).abs()
        assert (error <= scale.double()[:, None] * (0.5 + 2.0**-16)).all()
        assert module is w4a16 or ((q.int().abs().amax(dim=1) == 127) | ~w.any(dim=1)).all()


@moderately
@given(weights())
def test_int4_scale_is_the_peak_over_seven(w: torch.Tensor) -> None:
    peak = w.abs().amax(dim=1)
    _, scale = w4a16.quantise(w)
    ordinary = peak > 1e-3
    assert torch.equal(scale[ordinary], (peak / 7).half()[ordinary])


@pytest.mark.parametrize("module", [w8a8, w4a16])
def test_zero_rows_have_scale_one(module: ModuleType) -> None:
    q, scale = module.quantise(torch.zeros(3, 16))
    assert not q.any()
    assert torch.equal(scale, torch.ones_like(scale))


@moderately
@given(st.integers(1, 5), SEEDS)
def test_token_scales_follow_their_rows(rows: int, seed: int) -> None:
    x = normal(seed, rows, 16).half()
    x[0] = 0
    scale = w8a8.row_scales(x)
    assert scale.dtype == torch.float32
    assert scale[0] == 1
    peak = x[1:].abs().amax(dim=1).float()
    assert ((scale[1:] * 127 - peak).abs() <= 2.0**-22 * peak).all()


NOT_FINITE = "found an infinite or NaN value, expected finite ones"


@pytest.mark.parametrize(
    ("module", "value", "words"),
    [*((module, value, NOT_FINITE) for module in (w8a8, w4a16) for value in (float("inf"), float("nan"))),
     (w4a16, 1e6, r"found a weight of size 1e\+06, expected at most")],
)
def test_quantise_refuses_what_is_not_finite_and_int4_a_scale_beyond_fp16(module: ModuleType, value: float, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        module.quantise(torch.tensor([[1.0, value]]))


@moderately
@given(SIZES, SIZES, SEEDS, st.floats(0, 1))
def test_bsr_is_what_torch_makes(block_rows: int, block_columns: int, seed: int, sparsity: float) -> None:
    weight = normal(seed, 32 * block_rows, 32 * block_columns).half()
    mask = dds.mask_by_norm(weight, sparsity)
    values, crow, col = dds.to_bsr(weight, mask)
    pruned = weight * mask.repeat_interleave(32, 0).repeat_interleave(32, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch: "sparse BSR support is in beta"
        expected = pruned.to_sparse_bsr((32, 32))
    assert (values.dtype, crow.dtype, col.dtype) == (torch.float16, torch.int32, torch.int32)
    assert torch.equal(crow.long(), expected.crow_indices().long())
    assert torch.equal(col.long(), expected.col_indices().long())
    assert torch.equal(values, expected.values())
    assert torch.equal(dds.to_dense(values, crow, col, 32 * block_columns), pruned)


@moderately
@given(SIZES, SIZES, SEEDS, st.floats(0, 1))
def test_pruning_drops_the_smallest_blocks(rows: int, columns: int, seed: int, sparsity: float) -> None:
    weight = normal(seed, 32 * rows, 32 * columns)
    mask, norms = dds.mask_by_norm(weight, sparsity), dds.block_norms(weight)
    assert (~mask).sum() == round(sparsity * rows * columns)
    assert not mask.any() or mask.all() or norms[mask].min() >= norms[~mask].max()


def test_bsr_refuses() -> None:
    with pytest.raises(ValueError, match=r"found a weight of shape \(32, 40\), expected \[N, K\] with multiples of 32"):
        dds.to_bsr(torch.zeros(32, 40), torch.ones(1, 1, dtype=torch.bool))
    with pytest.raises(ValueError, match="found a value that is not finite in fp16, expected at most 65504"):
        dds.to_bsr(torch.full((32, 32), 1e5), torch.ones(1, 1, dtype=torch.bool))
