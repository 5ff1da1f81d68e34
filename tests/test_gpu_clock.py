"""The clock against kernels that know that they are timed: nothing they can do earns points."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from grader.building import BuildOptions, build
from grader.devices import choose
from grader.labs import Lab, get_lab
from grader.model import KernelBundle, KernelSource
from grader.reading import read
from grader.running import cuda
from grader.statistics import ratio
from tests.submissions import TESTS

pytestmark = [pytest.mark.gpu, pytest.mark.slow]
BASE = (TESTS / "mistakes" / "student_w8a8.py").read_text(encoding="utf-8")
STORE = "    tl.store(y_ptrs, y.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))"
LOOP = "    for k in range(0, tl.cdiv(K, BLOCK_K)):"
READ_TIMER = "{ .reg .u64 t; mov.u64 t, %globaltimer; add.u64 $0, t, $1; }"
NANOSECONDS = (
    "    zero = tl.full((1,), 0, tl.int64)\n"
    f'    now = tl.inline_asm_elementwise("{READ_TIMER}", "=l,l", [zero], dtype=tl.int64, is_pure=False, pack=1)\n'
    "    now = tl.max(now, axis=0)\n"
)


@dataclass(frozen=True)
class Built:
    lab: Lab
    bundle: KernelBundle


def built(folder, name, text):
    """A W8A8 kernel built for its 512-token speed case alone."""
    assert text.count("tl.store(") == 1, "the edit must leave the kernel's one store"
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    whole = get_lab("w8a8")
    lab = replace(
        whole,
        cases=tuple(case for case in whole.cases if case.configs == "all"),
        speed_cases=tuple(case for case in whole.speed_cases if case.M == 512),
    )
    source = read(path, [lab]).labs["w8a8"]
    assert isinstance(source, KernelSource), source
    bundle = build(lab, source, BuildOptions((choose("cuda")[0].capability,), "all", 2))
    assert isinstance(bundle, KernelBundle), bundle
    return Built(lab, bundle)


def timed(one):
    """The sample of one kernel, in a GPU process of its own."""
    with cuda.CudaRunner() as runner:
        return runner.speed(one.lab, one.bundle, boundaries={})[0]


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    sample = timed(built(tmp_path_factory.mktemp("honest"), "honest", BASE))
    assert sample.status == "timed", sample.message
    return sample


def test_the_same_kernel_in_other_words_is_as_fast(honest, tmp_path):
    other = timed(built(tmp_path, "renamed", BASE.replace("offs_m", "rows_of_x").replace("offs_n", "columns_of_y")))
    assert other.status == "timed", other.message
    assert ratio(other.log_ratios).value == pytest.approx(ratio(honest.log_ratios).value, rel=0.01)


def test_the_control_is_one(honest):
    assert ratio(honest.control_log_ratios).value == pytest.approx(1.0, abs=0.005)


def test_skipping_work_when_y_looks_right_gains_nothing(honest, tmp_path):
    """Y is poisoned before every replay, so there is never an earlier result to be left standing."""
    looks = (
        "    there = tl.load(y_ptr + tl.min(offs_m, axis=0) * stride_ym + tl.min(offs_n, axis=0) * stride_yn)\n"
        "    steps = tl.where(there == there, 0, tl.cdiv(K, BLOCK_K))\n"
    )
    text = BASE.replace(LOOP, looks + "    for k in range(0, steps):")
    text = text.replace("& (offs_n[None, :] < N))", "& (offs_n[None, :] < N) & (steps > 0))")
    sample = timed(built(tmp_path, "skips", text))
    assert sample.status == "timed", sample.message
    assert sample.student_us > 0.97 * honest.student_us


def test_doing_less_at_times_is_wrong_at_times(tmp_path):
    """A kernel has no memory of earlier launches, but it can read a clock: half the time it stops half-way."""
    text = BASE.replace(
        LOOP, NANOSECONDS + LOOP.replace("tl.cdiv(K, BLOCK_K)", "tl.cdiv(K, BLOCK_K) >> ((now >> 21) & 1).to(tl.int32)")
    )
    sample = timed(built(tmp_path, "lazy", text))
    assert sample.status == "failed", sample
    assert "wrote another result" in sample.message or "elements of Y are wrong" in sample.message


def test_sleeping_at_times_only_costs(honest, tmp_path):
    """One period in eight it works five times over: the median does not fall, and the result stays right."""
    text = BASE.replace(
        LOOP,
        NANOSECONDS
        + "    extra = tl.where(((now >> 21) & 7) == 0, 4 * tl.cdiv(K, BLOCK_K), 0)\n"
        + "    for k in range(0, extra):\n        acc += tl.dot(tl.zeros((BLOCK_M, BLOCK_K), tl.int8), "
        "tl.zeros((BLOCK_K, BLOCK_N), tl.int8))\n" + LOOP,
    )
    sample = timed(built(tmp_path, "sleeps", text))
    assert sample.status == "timed", sample.message
    assert sample.student_us > 0.97 * honest.student_us


def test_right_for_some_launches_only_is_wrong(tmp_path):
    """Each launch has buffers of its own; a kernel that is right for some addresses only is found out."""
    text = BASE.replace(STORE, "    y = tl.where((((y_ptr.to(tl.int64) >> 22) & 3) == 0), y, 0.5 * y)\n" + STORE)
    sample = timed(built(tmp_path, "some", text))
    assert sample.status == "failed", sample


def test_no_result_is_left_to_copy_before_a_replay(tmp_path):
    """Neither the kernel's, nor the baseline's, nor what the hashing made of them."""
    from grader.running import clock

    one = built(tmp_path, "honest", BASE)
    case = one.lab.speed_cases[0]
    sets, dense = clock._make_sets(one.lab, case, 2)
    capability = choose("cuda")[0].capability
    contest = clock._Race(one.lab, case, one.bundle, capability, one.bundle.configs[0], sets, dense)
    for graph in (contest.baseline, contest.student, contest.hashing, contest.before):
        graph.replay()
    contest.kernel.unload()
    assert contest.outputs.isnan().all()
    assert contest.dense.isnan().all()
    assert contest.wide.isnan().all()
