"""A known mistake in one config: the wrong kernels of tests/mistakes/ with tiles of every kind, run on the all-configs cases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from grader.building import BuildOptions, describe
from grader.checking import check
from grader.labs import get_lab
from grader.model import KernelSource, Refusal
from grader.problems import make_problem
from grader.reading import read
from grader.running.cpu import InterpretOptions, interpret
from tests.submissions import TESTS, Mistake

CONFIGS = {
    "w8a8": {
        "small tiles": '{"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=4',
        "BLOCK_K=256": '{"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 256}, num_warps=4',
        "BLOCK_K=512": '{"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 512}, num_warps=4',
        "BLOCK_M=128": '{"BLOCK_M": 128, "BLOCK_N": 32, "BLOCK_K": 64}, num_warps=4',
        "BLOCK_N=128": '{"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 64}, num_warps=4',
        "num_warps=8": '{"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=8',
        "SPLIT_K=8": '{"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 8}, num_warps=4',
    },
    "dds": {
        "BLOCK_M=16": '{"BLOCK_M": 16}, num_warps=2',
        "BLOCK_M=64": '{"BLOCK_M": 64}, num_warps=4',
        "BLOCK_M=128": '{"BLOCK_M": 128}, num_warps=4',
        "BLOCK_M=256": '{"BLOCK_M": 256}, num_warps=4',
        "num_warps=8": '{"BLOCK_M": 32}, num_warps=8',
    },
}
CONFIGS["w4a16"] = CONFIGS["w8a8"]
"""What a mistake is planted behind, by lab."""

SLICED = {
    "w8a8": "qweight_ptr += first * stride_wk",
    "w4a16": "qweight_ptr += first // 8 * stride_wk",
}


@dataclass(frozen=True)
class Planted:
    """One mistake behind one config."""

    mistake: Mistake
    config: str

    def __str__(self) -> str:
        return f"{self.mistake.lab}-{self.mistake.name}-{self.config}"

    @property
    def source(self) -> str:
        """The wrong kernel with this config alone; with SPLIT_K each program sums a slice of K of its own."""
        lab, text = self.mistake.lab, self.mistake.source
        start, stop = text.index("    configs=["), text.index("    key=")
        text = f"{text[:start]}    configs=[triton.Config({CONFIGS[lab][self.config]})],\n{text[stop:]}"
        if "SPLIT_K" not in self.config:
            return text
        head, body = text.split("BLOCK_K: tl.constexpr,\n):\n")
        prologue = f"""
    size = tl.cdiv(tl.cdiv(K, SPLIT_K), 16) * 16
    first = tl.program_id(1) * size
    x_ptr += first * stride_xk
    {SLICED[lab]}
    K = tl.minimum(K - first, size)
"""
        body = body.replace("tl.store(y_ptrs,", "tl.atomic_add(y_ptrs,")
        return f"{head}BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,\n):\n{prologue}{body}"


def survives(planted: Planted, folder: Path, seed: int = 3) -> str:
    """"" when an all-configs case fails; else why it does not."""
    lab = get_lab(planted.mistake.lab)
    lab = replace(lab, cases=tuple(case for case in lab.cases if case.configs == "all"), speed_cases=())
    path = folder / f"{lab.id}.py"
    path.write_text(planted.source, encoding="utf-8")
    source = read(path, [lab]).labs[lab.id]
    assert isinstance(source, KernelSource), source
    bundle = describe(lab, source, BuildOptions((90,), "check", 1))
    if isinstance(bundle, Refusal):
        return bundle.message
    problems = {case.name: make_problem(lab, case, seed) for case in lab.cases}
    outcomes = interpret(lab, source, bundle, problems, [(name, 0) for name in problems], InterpretOptions(1))
    findings = [check(lab, problems[outcome.case], outcome, bundle) for outcome in outcomes]
    if any(not finding.ok for finding in findings):
        return ""
    scores = ", ".join(f"{outcome.case} {finding.worst:.2f}" for outcome, finding in zip(outcomes, findings, strict=True))
    return f"passes: {scores}"


def base(lab: str) -> Mistake:
    """The right kernel that the lab's mistakes are edits of."""
    text = (TESTS / "mistakes" / f"student_{lab}.py").read_text(encoding="utf-8")
    return Mistake(lab, "none", "is right", text, ())
