"""The clock against kernels that know that they are timed: nothing they can do earns points."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest

from grader.building import BuildOptions, build
from grader.gpu.devices import choose
from grader.gpu.limits import SPEED_GPU_SECONDS
from grader.judging.ratios import ratio
from grader.labs import Lab, get_lab
from grader.model import KernelBundle, KernelSource, Refusal
from grader.reading import read
from grader.running import cuda
from tests.commands import ran
from tests.submissions import CORES, TESTS, style_file

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.xdist_group("gpu")]
BASES = {
    lab: (TESTS / "styles" / f"{lab}_plain.py").read_text(encoding="utf-8") for lab in ("w8a8", "w4a16", "dds")
}
DESCRIPTOR = style_file("w8a8_descriptor").read_text(encoding="utf-8")
TIMED = {"w8a8": "speed_m512", "w4a16": "speed_m16", "dds": "speed_m1024_s90"}

STORE = "    tl.store(y_ptrs, y.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))"
LOOP = "    for k in range(0, tl.cdiv(K, BLOCK_K)):"
READ_TIMER = "{ .reg .u64 t; mov.u64 t, %globaltimer; add.u64 $0, t, $1; }"
NANOSECONDS = (
    "    zero = tl.full((1,), 0, tl.int64)\n"
    f'    now = tl.inline_asm_elementwise("{READ_TIMER}", "=l,l", [zero], dtype=tl.int64, is_pure=False, pack=1)\n'
    "    now = tl.max(now, axis=0)\n"
)
GLOBAL = (
    "{ .global .align 4 .b32 kept[64]; .reg .u64 a; mov.u64 a, kept; ld.global.u32 $0, [a]; st.global.u32 [a], $1; }"
)
STRING = (
    "{ .global .align 1 .b8 left[11] = {95, 95, 67, 85, 68, 65, 95, 70, 84, 90, 0}; .reg .u64 a; .reg .u16 b; "
    "mov.u64 a, left; ld.global.u8 b, [a]; add.u16 b, b, 1; st.global.u8 [a], b; cvt.u32.u16 $0, b; "
    "mad.lo.u32 $0, $1, 0, $0; }"
)
SPIN = NANOSECONDS + (
    "    until = now + 400000000\n"
    "    while now < until:\n"
    f'        now = tl.max(tl.inline_asm_elementwise("{READ_TIMER}", "=l,l", [zero], dtype=tl.int64, is_pure=False, '
    "pack=1), axis=0)\n"
)


def edit(lab, find, into):
    """A lab's right kernel with one change."""
    assert BASES[lab].count(find) == 1, find
    return BASES[lab].replace(find, into)


def before_store(code):
    return edit("w8a8", STORE, code + STORE)


KERNELS = {
    "honest": ("w8a8", BASES["w8a8"]),
    "renamed": ("w8a8", BASES["w8a8"].replace("offs_m", "rows_of_x").replace("offs_n", "columns_of_y")),
    # results that were never computed
    "zeros": ("w8a8", before_store("    y = y * (M != 512)\n")),
    "half the columns": (
        "w8a8",
        edit("w8a8", "y = acc.to(tl.float32)", "y = tl.where((offs_n < N // 2)[None, :], 1.0, 0.0) * acc.to(tl.float32)"),
    ),
    "no clamp": ("w8a8", edit("w8a8", "x = tl.minimum(tl.maximum(x, -128.0), 127.0)",
                              "x = tl.where(M == 512, x, tl.minimum(tl.maximum(x, -128.0), 127.0))\n"
                              "        x = x.to(tl.int32)")),
    "one step of K less": ("w8a8", edit("w8a8", LOOP, LOOP.replace("tl.cdiv(K, BLOCK_K)",
                                                                  "tl.cdiv(K, BLOCK_K) - (M == 512)"))),
    "no nibble of -8": ("w4a16", edit("w4a16", "tl.where(nibble > 7, nibble - 16, nibble)",
                                      "tl.where(nibble > 7, nibble - 16 + (nibble == 8) * (N == 4096), nibble)")),
    "no empty rows": ("dds", edit("dds", "    tl.store(y_ptrs, acc.to(tl.float16), mask=offs_m[:, None] < M)",
                                  "    tl.store(y_ptrs, acc.to(tl.float16), mask=(offs_m[:, None] < M) & (start < end))")),
    "short rows only": ("dds", edit("dds", "    end = tl.load(crow_indices_ptr + row + 1)\n",
                                    "    end = tl.minimum(tl.load(crow_indices_ptr + row + 1), start + 16)\n")),
    # some launches only
    "some addresses": ("w8a8", before_store(
        "    y = tl.where((((y_ptr.to(tl.int64) >> 22) & 3) == 0), y, 0.5 * y)\n")),
    "some times": ("w8a8", edit("w8a8", LOOP, NANOSECONDS + LOOP.replace(
        "tl.cdiv(K, BLOCK_K)", "tl.cdiv(K, BLOCK_K) >> ((now >> 21) & 1).to(tl.int32)"))),
    # memory
    "global array": ("w8a8", before_store(
        f'    offs_n += 0 * tl.inline_asm_elementwise("{GLOBAL}", "=r,r", [offs_n], dtype=tl.int32, is_pure=False, '
        "pack=1)\n")),
    "counts in a string": ("w8a8", edit("w8a8", LOOP, (
        f'    count = tl.inline_asm_elementwise("{STRING}", "=r,r", [offs_k], dtype=tl.int32, is_pure=False, pack=1)\n'
        "    steps = tl.where(tl.max(count, axis=0) > 100, 0, tl.cdiv(K, BLOCK_K))\n"
        + LOOP.replace("tl.cdiv(K, BLOCK_K)", "steps")))),
    "behind Y": ("w8a8", before_store("    tl.store(y_ptr + M * stride_ym + pid, 1.0)\n")),
    "before Y": ("w8a8", before_store("    tl.store(y_ptr - 8, 1.0)\n")),
    "counts in a guard": ("w8a8", edit("w8a8", LOOP, (
        "    count = tl.load(y_ptr - 64)\n    tl.store(y_ptr - 64, tl.where(count == count, count + 1, 1.0))\n"
        "    steps = tl.where(count > 2, 0, tl.cdiv(K, BLOCK_K))\n" + LOOP.replace("tl.cdiv(K, BLOCK_K)", "steps")))),
    "notes in an input": ("w8a8", before_store(
        "    first = tl.load(weight_scale_ptr)\n    tl.store(weight_scale_ptr, -first, mask=pid == 0)\n")),
    "descriptor": ("w8a8", DESCRIPTOR),
    # no gain
    "looks at Y first": ("w8a8", edit("w8a8", LOOP, (
        "    there = tl.load(y_ptr + tl.min(offs_m, axis=0) * stride_ym + tl.min(offs_n, axis=0) * stride_yn)\n"
        "    steps = tl.where(there == there, 0, tl.cdiv(K, BLOCK_K))\n"
        + LOOP.replace("tl.cdiv(K, BLOCK_K)", "steps"))).replace(
            "& (offs_n[None, :] < N))\n", "& (offs_n[None, :] < N) & (steps > 0))\n")),
    "sleeps at times": ("w8a8", edit("w8a8", LOOP, (
        NANOSECONDS + "    extra = tl.where(((now >> 21) & 7) == 0, 4 * tl.cdiv(K, BLOCK_K), 0)\n"
        "    for k in range(0, extra):\n        acc += tl.dot(tl.zeros((BLOCK_M, BLOCK_K), tl.int8), "
        "tl.zeros((BLOCK_K, BLOCK_N), tl.int8))\n" + LOOP))),
    "reads ahead": ("w8a8", before_store(
        "    ahead = tl.load(qweight_ptr + N.to(tl.int64) * K + 65536 + (pid % 256) * 64 + tl.arange(0, 64))\n"
        "    y += 0.0 * tl.max(ahead.to(tl.float32), axis=0)\n")),
    # seconds
    "slow": ("w8a8", before_store("    if M == 512:\n" + "".join(
        f"    {line}\n" for line in SPIN.splitlines()))),
    "endless": ("w8a8", before_store("    while (M == 512) & (tl.load(input_scale_ptr) > 0):\n"
                                     "        tl.atomic_add(y_ptr, 0.0)\n")),
}


@dataclass(frozen=True)
class Built:
    """A kernel built for one speed case of its lab."""

    lab: Lab
    bundle: KernelBundle | Refusal


def built(folder, name):
    lab_id, text = KERNELS[name]
    path = folder / name.replace(" ", "_") / f"{lab_id}.py"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    whole = get_lab(lab_id)
    lab = replace(
        whole,
        cases=tuple(case for case in whole.cases if case.configs == "all"),
        speed_cases=tuple(case for case in whole.speed_cases if case.name == TIMED[lab_id]),
    )
    source = read(path, [lab]).labs[lab_id]
    assert isinstance(source, KernelSource), source
    return Built(lab, build(lab, source, BuildOptions((choose("cuda")[0].capability,), "all", 2)))


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    with ThreadPoolExecutor(max_workers=max(1, CORES // 2)) as pool:
        return dict(zip(KERNELS, pool.map(lambda name: built(folder, name), KERNELS), strict=True))


@pytest.fixture(scope="module")
def runner():
    with cuda.CudaRunner() as one:
        yield one


@pytest.fixture(scope="module")
def timed(kernels, runner):
    """timed(name): the sample of one kernel."""

    def one(name):
        kernel = kernels[name]
        assert isinstance(kernel.bundle, KernelBundle), kernel.bundle
        return runner.speed(kernel.lab, kernel.bundle, boundaries={})[0]

    return one


@pytest.fixture(scope="module")
def honest(timed):
    sample = timed("honest")
    assert sample.status == "timed", sample.message
    return sample


def test_the_same_kernel_in_other_words_is_as_fast(honest, timed):
    other = timed("renamed")
    assert other.status == "timed", other.message
    assert ratio(other.log_ratios).value == pytest.approx(ratio(honest.log_ratios).value, rel=0.01)


def test_the_control_is_one(honest):
    assert ratio(honest.control_log_ratios).value == pytest.approx(1.0, abs=0.005)


@pytest.mark.parametrize(
    "name",
    ["zeros", "half the columns", "no clamp", "one step of K less", "no nibble of -8", "no empty rows",
     "short rows only", "some addresses", "some times"],
)
def test_truncated_work_on_the_timed_shape_is_wrong(name, timed):
    sample = timed(name)
    assert sample.status == "failed", sample
    assert "of Y" in sample.message


@pytest.mark.parametrize("name", ["behind Y", "before Y", "counts in a guard"])
def test_notes_beside_the_tensors_are_seen(name, timed):
    sample = timed(name)
    assert sample.status == "failed", sample
    assert "wrote outside" in sample.message


def test_notes_in_an_input_are_seen(timed):
    sample = timed("notes in an input")
    assert sample.status == "failed", sample
    assert "changed its input weight_scale_ptr" in sample.message


@pytest.mark.parametrize(("name", "says"), [("global array", "memory of its own")])
def test_a_cubin_with_memory_or_calls_is_refused(name, says, kernels, runner):
    kernel = kernels[name]
    if isinstance(kernel.bundle, Refusal):
        assert says in kernel.bundle.message
        return
    sample = runner.speed(kernel.lab, kernel.bundle, boundaries={})[0]
    assert sample.status == "failed"
    assert says in sample.message
    (case,) = kernel.lab.cases
    assert runner.correctness(kernel.lab, kernel.bundle, [(case.name, 0)], seed=1)[0].status == "refused"


def test_a_count_of_launches_is_worth_nothing(kernels, timed):
    """In the one string that may stay, or in one more beside it: refused, or found out by what it leaves."""
    bundle = kernels["counts in a string"].bundle
    if isinstance(bundle, Refusal):
        assert "memory of its own" in bundle.message
        return
    sample = timed("counts in a string")
    assert sample.status == "failed"
    assert "memory of its own" in sample.message or "of Y" in sample.message


@pytest.mark.parametrize("name", ["looks at Y first", "sleeps at times", "reads ahead"])
def test_what_a_kernel_can_do_within_the_rules_gains_nothing(name, honest, timed):
    sample = timed(name)
    assert sample.status == "timed", sample.message
    assert sample.student_us > 0.97 * honest.student_us


def test_a_slow_kernel_is_given_up_soon(timed):
    began = time.monotonic()
    sample = timed("slow")
    assert sample.status == "failed"
    assert "one launch took" in sample.message
    assert time.monotonic() - began < 30
    assert sample.gpu_seconds < SPEED_GPU_SECONDS


def test_an_endless_kernel_ends_with_its_process_and_the_next_is_timed(timed, monkeypatch):
    monkeypatch.setattr(cuda, "SPEED_SECONDS", 8.0)
    sample = timed("endless")
    assert sample.status == "failed"
    assert "did not finish" in sample.message
    monkeypatch.undo()
    assert timed("renamed").status == "timed"


MANY_POOLS = """
import torch
from grader.gpu.memory_pool import MemoryPool
others = [torch.cuda.MemPool() for _ in range(300)]
pool = MemoryPool(torch.device("cuda"))
with pool.use():
    tensor = torch.ones(1000, device="cuda")
for _ in range(300):
    pool.close()
    pool.wipe()
assert not tensor.any()
"""


def test_a_process_may_have_made_more_pools_than_there_are_small_numbers():
    """An id of 257 and more is an object that Python frees, and a process that times a class makes three hundred pools."""
    ended = ran(sys.executable, "-c", MANY_POOLS)
    assert ended.returncode == 0, ended.stderr


def test_the_pool_and_all_outputs_are_empty_before_a_replay(kernels):
    """What the judge computed with, whatever the kernel and the baseline left, and scratch memory of descriptors."""
    import torch

    from grader.gpu import driver
    from grader.labs.guarded import POISON_BYTE
    from grader.timing.contestants import Baseline, Candidate
    from grader.timing.replays import Stage

    one, device = kernels["descriptor"], torch.device("cuda")
    case = one.lab.speed_cases[0]
    stage = Stage(one.lab, case, device)
    baseline = Baseline(stage)
    binary = one.bundle.binary(case.name, 0, choose("cuda")[0].capability)
    with driver.load(binary) as kernel:
        candidate = Candidate(stage, baseline, one.bundle, one.bundle.configs[0], kernel)
        for _ in range(2):
            candidate.prepare()
            candidate.replay()
            baseline.prepare()
            baseline.replay()
            candidate.inspect()
        assert candidate.scratch.any()
        candidate.prepare()
        assert not candidate.scratch.any()
        made = [tensor for part in stage._parts.values() for tensor in part.make.result.values()]
        assert made
        for tensor in (stage.y, stage.signs, stage.numbers, *made):
            assert not tensor.any()
        assert baseline.outputs.isnan().all()
        for name in stage.inputs:
            stage.arena.poison(candidate.draw.places, name)
        assert (stage.arena.memory == POISON_BYTE).all()
