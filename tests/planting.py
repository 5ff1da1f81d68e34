"""A known mistake in one config: the wrong kernels of the corpus with tiles of every kind, run on the all-configs cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from grader.building import BuildOptions, describe
from grader.judging.checking import check
from grader.labs import get_lab
from grader.labs.problems import make_problem
from grader.labs.wrong_kernels import WrongKernel
from grader.model import KernelBundle, KernelSource
from grader.reading import read
from grader.running.cpu import InterpretOptions, interpret
from tests.submissions import LABS, plain

TILED = {
    "small tiles": '{"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=4',
    "BLOCK_K=256": '{"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 256}, num_warps=4',
    "BLOCK_K=512": '{"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 512}, num_warps=4',
    "BLOCK_M=128": '{"BLOCK_M": 128, "BLOCK_N": 32, "BLOCK_K": 64}, num_warps=4',
    "BLOCK_N=128": '{"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 64}, num_warps=4',
    "num_warps=8": '{"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=8',
}
SPLIT = {"SPLIT_K=8": '{"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 8}, num_warps=4'}
OF_ROWS = {
    "BLOCK_M=16": '{"BLOCK_M": 16}, num_warps=2',
    "BLOCK_M=64": '{"BLOCK_M": 64}, num_warps=4',
    "BLOCK_M=128": '{"BLOCK_M": 128}, num_warps=4',
    "BLOCK_M=256": '{"BLOCK_M": 256}, num_warps=4',
    "num_warps=8": '{"BLOCK_M": 32}, num_warps=8',
}
SLICED = {
    "w8a8": "qweight_ptr += first * stride_wk",
    "w4a16": "qweight_ptr += first // 8 * stride_wk",
    "w8a16": "qweight_ptr += first * stride_wk",
    "gptq": "qweight_ptr += first // 8 * stride_wk; scales_ptr += first // group_size * stride_sg; "
            "zeros_ptr += first // group_size * stride_zg",
}
"""How a slice of K begins in the weight and what belongs to it."""

CONFIGS = {lab: OF_ROWS if lab == "dds" else TILED | SPLIT if lab in SLICED else TILED for lab in LABS}
"""What a mistake is planted behind, by lab; behind SPLIT_K where it is known how the lab's slices begin."""


def planted(mistake: WrongKernel, configs: Sequence[str]) -> str:
    """The wrong kernel with these configs alone. With SPLIT_K each program sums a slice of K of its own."""
    lab, text = mistake.lab, mistake.source
    start, stop = text.index("    configs=["), text.index("    key=")
    chosen = ", ".join(f"triton.Config({CONFIGS[lab][config]})" for config in configs)
    text = f"{text[:start]}    configs=[{chosen}],\n{text[stop:]}"
    if not any("SPLIT_K" in config for config in configs):
        return text
    head, body = text.split("BLOCK_K: tl.constexpr,\n):\n")
    prologue = f"""
    unit = {"group_size" if lab == "gptq" else 16}
    size = tl.cdiv(tl.cdiv(K, SPLIT_K), unit) * unit
    first = tl.program_id(1) * size
    x_ptr += first * stride_xk
    {SLICED[lab]}
    K = tl.minimum(K - first, size)
"""
    body = body.replace("tl.store(y_ptrs,", "tl.atomic_add(y_ptrs,")
    return f"{head}BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,\n):\n{prologue}{body}"


def survivors(mistake: WrongKernel, configs: Sequence[str], folder: Path, seed: int = 3) -> dict[str, str]:
    """The configs with which all-configs cases pass and touch no memory they may not, each with its scores.

    All of them share one source. A config that has failed a case is run on no other.
    """
    lab = get_lab(mistake.lab)
    lab = replace(lab, cases=tuple(case for case in lab.cases if case.configs == "all"), speed_cases=())
    path = folder / f"{lab.id}.py"
    path.write_text(planted(mistake, configs), encoding="utf-8")
    source = read(path, [lab]).labs[lab.id]
    assert isinstance(source, KernelSource), source
    bundle = describe(lab, source, BuildOptions((90,), "check", 1))
    assert isinstance(bundle, KernelBundle), bundle
    problems = {case.name: make_problem(lab, case, seed) for case in lab.cases}
    alive = dict.fromkeys(configs, "")
    for case, problem in problems.items():
        pairs = [(case, number) for number, config in enumerate(configs) if config in alive]
        for outcome in interpret(lab, source, bundle, problems, pairs, InterpretOptions(1)):
            config = configs[outcome.config]
            finding = check(lab, problem, outcome, bundle)
            if not finding.ok or outcome.memory:
                del alive[config]
            else:
                alive[config] += f"{outcome.case} {finding.worst:.2f} "
    return alive


def plans(mistake: WrongKernel) -> list[tuple[str, ...]]:
    """The configs of a mistake, those together that can share a source."""
    whole = tuple(config for config in CONFIGS[mistake.lab] if "SPLIT_K" not in config)
    sliced = tuple(config for config in CONFIGS[mistake.lab] if "SPLIT_K" in config)
    return [plan for plan in (whole, sliced) if plan]


def base(lab: str) -> WrongKernel:
    """The right kernel that the lab's mistakes are edits of."""
    text = plain(lab)
    return WrongKernel(lab, "none", "is right", text, text, (), ())
