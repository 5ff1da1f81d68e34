"""The error bound: every right product passes it, an fp16 accumulator and a zero do not."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.judging.checking import compare
from grader.labs import all_labs
from grader.labs.inputs import laid_out, layout_strides, pack_int4, quantise_rows, unpack_int4
from grader.labs.problems import make_problem
from grader.labs.tolerance import additions, matmul_reference

LABS = list(all_labs().values())
SIZES = st.integers(1, 40)


@settings(max_examples=60, deadline=None)
@given(M=SIZES, N=SIZES, K=st.integers(1, 300), seed=st.integers(0, 2**31), scale=st.floats(1e-3, 30))
def test_an_fp32_product_passes(M, N, K, seed, scale):
    generator = torch.Generator().manual_seed(seed)
    a = (torch.randn(M, K, generator=generator) * scale).half()
    w = torch.randn(N, K, generator=generator).half()
    y = (a.float() @ w.float().t()).half()
    assert compare(y, matmul_reference(a.double(), w.double())).ok


@settings(max_examples=100, deadline=None)
@given(M=SIZES, N=SIZES, K=st.integers(1, 80), seed=st.integers(0, 2**31), ties=st.integers(1, 3), outlier=st.sampled_from((1.0, 100.0)))
def test_what_is_permitted_passes_rounded_like_everything_else(M, N, K, seed, ties, outlier):
    """One tie in a row of outliers, decided the other way, moves a whole row of Y, and then that row is rounded to fp16."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.randint(-127, 128, (M, K), generator=generator).double()
    scale = torch.rand(M, 1, generator=generator).double() / 64
    scale[0] *= outlier
    w = torch.randint(-127, 128, (N, K), generator=generator).double() / 512
    moved = torch.zeros_like(a)
    for _ in range(ties):
        moved[0, int(torch.randint(0, K, (1,), generator=generator))] = 1.0
    reference = matmul_reference(a * scale, w, permitted=(moved * scale) @ w.abs().t())
    for way in (1, -1):
        assert compare((((a + way * moved) * scale) @ w.t()).half(), reference).ok


@settings(max_examples=40, deadline=None)
@given(M=SIZES, N=SIZES, K=st.integers(1, 200), seed=st.integers(0, 2**31), where=st.integers(0, 10**6))
def test_one_element_off_by_two_roundings_fails(M, N, K, seed, where):
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(M, K, generator=generator).half()
    w = torch.randn(N, K, generator=generator).half()
    reference = matmul_reference(a.double(), w.double())
    y = reference.y.half()
    y.view(-1)[where % y.numel()] += torch.tensor(4.0) * reference.bound.view(-1)[where % y.numel()].float() + 1e-3
    assert not compare(y, reference).ok


@pytest.mark.parametrize(("K", "expected"), [(1, 1), (64, 64), (100, 92.5), (1024, 384), (4096, 1024)])
def test_the_accumulator_may_lose_what_its_additions_can(K, expected):
    assert additions(K) == pytest.approx(expected)


@settings(max_examples=40, deadline=None)
@given(slices=st.integers(1, 16), more=st.integers(1, 16))
def test_the_frobenius_bound_grows_with_the_root_of_the_roundings(slices, more):
    generator = torch.Generator().manual_seed(slices)
    a, w = torch.randn(8, 256, generator=generator).double(), torch.randn(8, 256, generator=generator).double()
    few, many = (matmul_reference(a, w, roundings=r).frobenius for r in (slices, slices + more))
    assert few < many <= few * ((slices + more) / slices) ** 0.5 * 1.01


def test_a_zero_result_must_be_zero():
    reference = matmul_reference(torch.zeros(4, 8).double(), torch.randn(4, 8).double())
    assert compare(torch.zeros(4, 4).half(), reference).ok
    assert not compare(torch.full((4, 4), 1e-4).half(), reference).ok


@pytest.mark.slow
@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
@pytest.mark.parametrize("seed", [1, 2])
def test_zeros_nan_and_halves_fail_in_every_case_and_the_truth_passes(lab, seed):
    for case in lab.cases:
        problem = make_problem(lab, case, seed)
        reference = lab.reference(problem, 1)
        truth = reference.y.half()
        assert compare(truth, reference).ok, case.name
        assert not compare(torch.full_like(truth, torch.nan), reference).ok
        if case.name not in lab.blind:
            assert not compare(torch.zeros_like(truth), reference).ok, case.name
            half = truth.clone()
            half[:, : half.shape[1] // 2 + 1] = torch.nan
            assert not compare(half, reference).ok, case.name
            assert not compare(truth * 1.01, reference).ok, case.name


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_scalars_and_problems_agree(lab):
    for case in lab.cases:
        problem = make_problem(lab, case, 3)
        assert dict(problem.scalars) == lab.scalars(case)
        x, y = problem.tensors["x_ptr"], problem.tensors[lab.output]
        assert (tuple(x.shape), x.dtype) == ((case.M, case.K), torch.float16)
        assert (tuple(y.shape), y.dtype) == ((case.M, case.N), torch.float16)
        assert (x.stride(), y.stride()) == (
            (problem.scalars["stride_xm"], problem.scalars["stride_xk"]),
            (problem.scalars["stride_ym"], problem.scalars["stride_yn"]),
        )
        assert [p.name for p in lab.parameters if p.type.startswith("*")] == list(problem.tensors)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_every_lab_has_twelve_cases_and_a_fresh_problem_each_seed(lab):
    assert len(lab.cases) >= 12
    assert len({case.name for case in lab.all_cases}) == len(lab.all_cases)
    first, again, other = (make_problem(lab, lab.cases[1], seed).tensors["x_ptr"] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
@pytest.mark.parametrize("size", ["M", "N", "K"])
def test_a_case_is_larger_in_each_size_than_all_that_are_timed(lab, size):
    """Else a kernel that stops where the timed sizes end would have every point."""
    assert max(getattr(case, size) for case in lab.cases) > max(getattr(case, size) for case in lab.speed_cases)


@settings(max_examples=50, deadline=None)
@given(words=st.integers(1, 20), N=st.integers(1, 20), seed=st.integers(0, 2**31))
def test_packing_is_undone_by_unpacking(words, N, seed):
    q = torch.randint(-8, 8, (8 * words, N), generator=torch.Generator().manual_seed(seed), dtype=torch.int32)
    packed = pack_int4(q)
    assert packed.shape == (words, N)
    assert torch.equal(unpack_int4(packed), q)
    k, n = seed % (8 * words), seed % N
    assert ((int(packed[k // 8, n]) >> (4 * (k % 8))) & 0xF) == int(q[k, n]) & 0xF


@settings(max_examples=50, deadline=None)
@given(R=st.integers(1, 10), C=st.integers(1, 50), largest=st.sampled_from([7, 127]), seed=st.integers(0, 2**31))
def test_quantisation_is_off_by_half_a_step_at_most(R, C, largest, seed):
    w = torch.randn(R, C, generator=torch.Generator().manual_seed(seed))
    w[0] = 0
    q, scale = quantise_rows(w, largest)
    assert int(q.abs().max()) <= largest
    assert float(scale[0]) == 1.0
    assert bool(((q * scale[:, None] - w).abs() <= 0.5001 * scale[:, None]).all())


@pytest.mark.parametrize("layout", ["contiguous", "column_slice", "transposed"])
def test_layouts_keep_the_values(layout):
    x = torch.arange(48.0).view(6, 8)
    placed = laid_out(x, layout)
    assert torch.equal(placed, x)
    assert placed.stride() == layout_strides(6, 8, layout)


@pytest.mark.parametrize("name", [case.name for case in all_labs()["dds"].cases])
def test_bsr_agrees_with_torch(name):
    lab = all_labs()["dds"]
    case = lab.case(name)
    tensors = make_problem(lab, case, 4).tensors
    if len(tensors["values_ptr"]) == 0:
        assert int(tensors["crow_indices_ptr"].abs().sum()) == 0
        return
    weight = torch.sparse_bsr_tensor(
        tensors["crow_indices_ptr"], tensors["col_indices_ptr"], tensors["values_ptr"].float(), (case.N, case.K)
    )
    assert torch.equal(weight.to_dense(), lab.baseline_weight(make_problem(lab, case, 4)).float())
