"""Reports to render in tests: one as a GPU gives it, one of a wrong kernel, one of a hostile submission."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from grader.judging.error_map import error_map
from grader.labs import get_lab
from grader.labs.problems import make_problem
from grader.model import (
    BuildFacts,
    Config,
    Device,
    KernelSource,
    LabReport,
    Report,
    SourceLine,
    TestResult,
    Walk,
    WalkStep,
    WalkTile,
)

CPU = Device("cpu", "Triton's interpreter on the CPU", None, None, "2.13.0", "3.7.1", "bubblewrap")
H200 = Device("cuda", "NVIDIA H200", 90, "580.159.04", "2.11.0", "3.6.0", "bubblewrap")
CONFIGS = (
    Config(0, {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64}, 4, 3),
    Config(1, {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64}, 4, 4),
    Config(2, {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 128}, 4, 4, maxnreg=64),
)
FACTS = {
    0: BuildFacts(56, 0, 2048, "mma.sync", True, 16, 18, 36),
    1: BuildFacts(255, 312, 196608, "wgmma", False, 16, 1, 4),
    2: BuildFacts(64, 0, 12288, "none", False, 2, 16, 64),
}
MODULE = """\
import triton.language as tl

@triton.jit
def W8A8_MM(x_ptr, K, BLOCK_K: tl.constexpr):
    # one tile
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        x = tl.load(x_ptrs)
    acc += tl.dot(x, w)
"""


WALK = Walk(
    "odd_m", "(0, 1)", (32, 64, 128), (0, 32),
    (WalkTile("(0, 0)", (0, 32), (0, 32), ""), WalkTile("(0, 1)", (0, 32), (32, 64), "2 wrong, first Y[0, 32] = 1, expected 2")),
    tuple(
        WalkStep((((0, 32),), ((k, k + 64),)), (((32, 64),), ((0, 8), (16, 24))), f"X[0:32, {k}:{k + 64}] meets W[32:64, 0:8].")
        for k in (0, 64)
    ),
)


def kernel_source(module: str = MODULE, place: str = "w8a8.ipynb cell 7", lab_id: str = "w8a8") -> KernelSource:
    """A source whose first line is one of another cell."""
    count = module.count("\n") + 1
    lines = (SourceLine("w8a8.ipynb cell 2", 1), *(SourceLine(place, number) for number in range(1, count)))
    return KernelSource(lab_id, "W8A8_MM", None, module, lines, Path("w8a8.ipynb"))


def wrong_report() -> Report:
    """w8a8 with a wrong row tile, a memory error that names a line, and a lab that nobody began."""
    lab = get_lab("w8a8")
    problem = make_problem(lab, replace(lab.case("odd_m"), M=77, N=128, K=128), 1)
    reference = lab.reference(problem, 1)
    y = reference.y.to(torch.float16)
    y[64:] = float("nan")
    y[:16, 32:64] += 1
    tests = (
        TestResult("build_sm90", "build", "passed", 0, 0, "3 of 3 configs compile"),
        TestResult("one_tile", "correctness", "passed", 3, 3, "M=64 N=64 K=128: one small, aligned tile"),
        TestResult(
            "odd_m", "correctness", "failed", 0, 3, "2176 of 9856 elements of Y are wrong",
            diagnosis="matches rows beyond the last whole tile left out; w8a8.ipynb cell 7 line 5: a mask is missing",
        ),
        TestResult("k_tail", "correctness", "failed", 0, 3, "w8a8.ipynb cell 7 line 5: tl.load reads row 130 of x"),
        TestResult("memory", "memory", "skipped", 0, 0, "no launch finished"),
    )
    graded = LabReport(
        "w8a8", lab.title, "graded", "", tests, 3.0, 60.0, "skipped", 0.0, 40.0, 60.0, CONFIGS, FACTS, 90,
        (error_map(lab, "odd_m", CONFIGS[0], y, reference),), kernel_source(), walk=WALK,
    )
    dds = get_lab("dds")
    stub = LabReport("dds", dds.title, "not_attempted", "DDS_MM is still the stub", (), 0, 60, "not_graded", 0, 40, 60)
    return Report("alice", CPU, 7, {"w8a8": graded, "dds": stub}, ("2 files were left out",), 12.3)


def gpu_report() -> Report:
    """w8a8 and dds with the times that an H200 gave."""
    return Report(
        "solutions", H200, 7, {
            "w8a8": _timed("w8a8", {"speed_m16": (8.83, 13.66), "speed_m512": (33.9, 25.2), "speed_m4096": (184.4, 180.5)}),
            "dds": _timed("dds", {"speed_m1024_s90": (5.59, 6.3), "speed_m1024_s80": (6.64, 6.32),
                                  "speed_m8192_s90": (17.25, 25.54), "speed_m8192_s80": (23.32, 25.59)}),
        }, (), 31.0,
    )


def _timed(lab_id: str, times: dict[str, tuple[float, float]]) -> LabReport:
    lab = get_lab(lab_id)
    tests = [
        TestResult(case.name, "correctness", "passed", 60 / len(lab.cases), 60 / len(lab.cases), case.about)
        for case in lab.cases
    ]
    tiers = (0.25, 0.5, 0.75, 1.0)
    for name, (student_us, baseline_us) in times.items():
        case, ratio = lab.case(name), baseline_us / student_us
        moved = 2 * case.M * (case.K + case.N) + case.N * case.K
        tier = sum(ratio >= boundary for boundary in tiers)
        metrics = {
            "ratio": ratio, "ratio_low": ratio * 0.995, "ratio_high": ratio * 1.004, "rounds": 45, "control": 1.002,
            "student_us": student_us, "baseline_us": baseline_us, "floor_us": moved / 4.8e6, "bytes_moved": moved,
            "operations": 2 * case.M * case.N * case.K, "tier": tier, "tiers": list(tiers), "config": 0,
            "config_us": {"0": student_us}, "note": "",
        }
        points = 10.0 * tier / 4
        message = f"{ratio:.2f}x of cuBLAS fp16 ({student_us} us against {baseline_us} us)"
        tests.append(TestResult(name, "speed", "passed", points, 10.0, message, metrics=metrics))
    earned = sum(test.points for test in tests if test.kind == "speed")
    return LabReport(
        lab_id, lab.title, "graded", "", tuple(tests), 60.0, 60.0, "graded", earned, 10.0 * len(times), 100.0,
        CONFIGS, FACTS, 90, (), kernel_source(lab_id=lab_id),
    )


ATTACK = "</code><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{7*7}}{%raw%}\x00\x1b[31m\u202e\ud800"


def hostile_report(module: str | None = None) -> Report:
    """Every text that a submission can reach is an attack on the page."""
    lab = get_lab("w8a8")
    body = module if module is not None else f'x = """{ATTACK}"""\n# {ATTACK}\n{ATTACK}\n'
    tests = (
        TestResult("odd_m", "correctness", "failed", 0, 3, f"{ATTACK} cell 7{ATTACK} line 1: bad", diagnosis=ATTACK),
        TestResult("speed_m16", "speed", "error", 0, 10, ATTACK),
    )
    configs = (Config(0, {ATTACK: ATTACK}, 4, 3),)
    report = LabReport(
        "w8a8", lab.title, "crash", ATTACK, tests, 0, 60, "failed", 0, 40, 60, configs, {0: FACTS[1]}, 90, (),
        kernel_source(body, f"cell 7{ATTACK}"),
    )
    return Report(ATTACK, CPU, 7, {"w8a8": report}, (ATTACK,), 1.0)
