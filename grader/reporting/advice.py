"""A binary's facts in words, and what they mean for its author: sentences that name the number, what it costs and what to try."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from grader.building.sm_limits import sm_limits
from grader.labs import Lab, all_labs
from grader.model import BuildFacts, Config, KernelSource, LabReport
from grader.parsing import parse

FEW_WARPS = 8
"""An SM has four schedulers; with fewer than two warps each, one wait stalls them."""

NARROW_LOAD_BYTES = 4
WIDE_LOAD_BYTES = 16


@dataclass(frozen=True)
class Built:
    """One config's binary in words."""

    config: Config
    summary: str
    advice: tuple[str, ...]


def builds(report: LabReport) -> list[Built]:
    """The configs of a lab that have a binary."""
    lab, capability = all_labs().get(report.lab_id), report.facts_capability
    found = []
    for config in report.configs:
        if (facts := report.facts.get(config.index)) is not None:
            said = advice(facts, config, lab, report.source, capability) if lab and capability else ()
            found.append(Built(config, describe_facts(facts), said))
    return found


def describe_facts(facts: BuildFacts) -> str:
    """Build facts in words: registers, spills, shared memory, matrix instruction, load width, occupancy."""
    matrix = f"{facts.matrix_instruction}{' (int8)' if facts.int8_matrix else ''}"
    if facts.matrix_instruction == "none":
        matrix = "no tensor-core instruction"
    spills = f", spills {facts.spill_bytes} bytes per thread" if facts.spill_bytes else ", no spills"
    return (
        f"{facts.registers} registers{spills}, {facts.shared_bytes / 1024:.0f} KB shared, {matrix}, "
        f"widest load {facts.widest_load_bytes} bytes, {facts.programs_per_sm} program{'s' if facts.programs_per_sm != 1 else ''} per SM"
    )


def advice(
    facts: BuildFacts, config: Config, lab: Lab, source: KernelSource | None, capability: int
) -> tuple[str, ...]:
    """Sentences on one config's binary; none when nothing stands out."""
    parts = (
        _matrix(facts, lab, source),
        _spills(facts, config),
        _loads(facts),
        _occupancy(facts, config, capability),
        _joined(source),
    )
    return tuple(part for part in parts if part)


def _matrix(facts: BuildFacts, lab: Lab, source: KernelSource | None) -> str:
    if facts.matrix_instruction == "none":
        if source is not None and not re.search(r"\bdot\s*\(", source.module):
            return "no tensor-core instruction: there is no tl.dot, so products are summed on the ordinary cores"
        return (
            "no tensor-core instruction: this config has no tl.dot, or one with operands that the tensor cores do not support "
            f"(fp32 with input_precision='ieee', for instance); for tensor cores give it {lab.operand} tiles"
        )
    if lab.operand == "int8" and not facts.int8_matrix:
        return (
            f"{facts.matrix_instruction}, but not on the int8 tensor cores: tl.dot saw wider operands than int8, which "
            "at least halves the rate; give it the int8 tiles themselves and accumulate in int32"
        )
    return ""


def _spills(facts: BuildFacts, config: Config) -> str:
    if not facts.spill_bytes:
        return ""
    return (
        f"spills {facts.spill_bytes} bytes per thread: the tile does not fit into registers; "
        f"try a smaller tile or more than {config.num_warps} warps"
    )


def _loads(facts: BuildFacts) -> str:
    if not 0 < facts.widest_load_bytes <= NARROW_LOAD_BYTES:
        return ""
    return (
        f"widest load {facts.widest_load_bytes} bytes per thread, {WIDE_LOAD_BYTES} are possible: let the last dimension "
        "of a tile run along the stride of 1, so that one load fetches neighbouring elements"
    )


def _occupancy(facts: BuildFacts, config: Config, capability: int) -> str:
    if facts.warps_per_sm >= FEW_WARPS:
        return ""
    limits = sm_limits(capability)
    shared_limited = facts.programs_per_sm < limits.shared_bytes // max(1, facts.registers * 32 * config.num_warps)
    if facts.shared_bytes * (facts.programs_per_sm + 1) > limits.shared_bytes:
        reason, cure = f"{facts.shared_bytes / 1024:.0f} KB of shared memory", "a smaller BLOCK_K or fewer stages"
    elif shared_limited or facts.registers >= 128:
        reason, cure = f"{facts.registers} registers per thread", "a smaller tile"
    else:
        reason, cure = f"{config.num_warps} warps per program", "more warps"
    programs = "1 program" if facts.programs_per_sm == 1 else f"{facts.programs_per_sm} programs"
    return (
        f"low occupancy: {programs}, {facts.warps_per_sm} of {limits.warps} warps per SM, limited by "
        f"{reason}: too few warps to hide memory latency; try {cure}"
    )


def _joined(source: KernelSource | None) -> str:
    """`and` and `or` of blocks: right, in Triton 3.6 to 3.9, where they are compiled to what & and | are compiled to."""
    if source is None:
        return ""
    try:
        functions = [node for node in parse(source.module).body if isinstance(node, ast.FunctionDef)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    for function in functions:
        blocks = _blocks(function)
        for node in ast.walk(function):
            if isinstance(node, ast.BoolOp) and all(_is_block(part, blocks) for part in node.values):
                word, sign = ("and", "&") if isinstance(node.op, ast.And) else ("or", "|")
                return (
                    f"{source.locate(node.lineno)}: `{word}` between two tensors works, element by element as `{sign}` does, but Triton "
                    f"has deprecated it: write (a < b) {sign} (c < d), with each comparison in brackets"
                )
    return ""


def _blocks(function: ast.FunctionDef) -> set[str]:
    """Variables that surely hold blocks, by what the first lines that assign to them say."""
    found: set[str] = set()
    assigned = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
    for node in sorted(assigned, key=lambda node: node.lineno):
        if isinstance(node.targets[0], ast.Name) and _is_block(node.value, found):
            found.add(node.targets[0].id)
    return found


def _is_block(node: ast.expr, blocks: set[str]) -> bool:
    """Whether an expression surely is a block: an arange, what is computed of one, or what [:, None] is written behind."""
    if isinstance(node, ast.Name):
        return node.id in blocks
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).endswith("arange")
    if isinstance(node, ast.Subscript):
        return any(isinstance(part, ast.Constant) and part.value is None for part in ast.walk(node.slice))
    if isinstance(node, ast.BinOp | ast.Compare | ast.BoolOp | ast.UnaryOp):
        return any(_is_block(part, blocks) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
    return False
