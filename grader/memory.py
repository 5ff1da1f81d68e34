"""What the memory checker found, in words: where in the student's source, which tensor, which index, which mask."""

from __future__ import annotations

import re
from collections.abc import Sequence

from grader.labs import Lab
from grader.model import KernelSource, MemoryFinding, Problem

VERBS = {"load": "reads", "store": "writes", "atomic": "updates"}
CALL = re.compile(r"\b(tl\.(?:load|store|atomic_\w+|\w*descriptor\w*)|\w+\.(?:load|store|gather|scatter))\s*\(")
NOUNS = {1: ("element",), 2: ("row", "column"), 3: ("block", "block row", "block column")}
WORST_FIRST = ("wild", "outside", "beyond", "gap", "race", "unwritten")


def sentences(
    lab: Lab, source: KernelSource, problem: Problem, findings: Sequence[MemoryFinding], *, hidden: bool = False
) -> list[str]:
    """One sentence a finding, out-of-bounds accesses first. `hidden`: places and tensors only, no indices."""
    ordered = sorted(findings, key=lambda f: (WORST_FIRST.index(f.fault), f.kind == "load", f.line or 0))
    return [_sentence(lab, source, problem, finding, hidden) for finding in ordered]


def _sentence(lab: Lab, source: KernelSource, problem: Problem, finding: MemoryFinding, hidden: bool) -> str:
    call, verb = _call(source, finding), VERBS[finding.kind]
    place = source.locate(finding.line) if finding.line is not None else source.path.name
    name = finding.tensor.removesuffix("_ptr")
    if finding.fault == "wild" or finding.tensor not in problem.tensors:
        return f"{place}: {call} {verb} an address near no tensor; look at its pointer arithmetic"
    tensor = problem.tensors[finding.tensor]
    nouns = NOUNS.get(tensor.dim(), ("index",) * tensor.dim())
    at = ", ".join(str(i) for i in finding.index)
    element = f"an element of {name}" if hidden else f"{name}[{at}]"
    if finding.fault == "beyond" and finding.dimension is not None and finding.dimension < len(nouns):
        d = finding.dimension
        noun, size = nouns[d], tensor.shape[d]
        sizes = next((p.sizes for p in lab.parameters if p.name == finding.tensor), ())
        limit = sizes[d] if d < len(sizes) else str(size)
        where = f"a {noun}" if hidden else f"{noun} {finding.index[d]}"
        have = "none" if size == 0 else f"{size} {noun}{'s' if size != 1 else ''}"
        of = f"{name}, which has fewer" if hidden else f"{name}, which has {have}"
        return f"{place}: {call} {verb} {where} of {of}; it needs a mask that keeps the {noun} below {limit}"
    if finding.fault == "gap":
        strides = ", ".join(str(s) for s in tensor.stride())
        detail = "" if hidden else f" (shape {tuple(tensor.shape)}, strides {strides})"
        return f"{place}: {call} {verb} memory between the rows of {name}{detail}; use its strides, and mask its ends"
    if finding.fault == "race":
        pair = f" (programs {finding.programs[0]} and {finding.programs[1]})" if len(finding.programs) == 2 else ""
        if finding.kind == "load":
            return f"{place}: {call} reads {element}, which another program writes{pair}; their order is not defined"
        return (
            f"{place}: {call} {verb} {element}, which another program writes too{pair}; give each program its own tile, "
            "or add with tl.atomic_add"
        )
    if finding.fault == "unwritten":
        return f"{place}: {call} {verb} {element}, which holds nothing yet: Y arrives uninitialised unless SPLIT_K > 1"
    detail = "" if hidden else f" (where index [{at}] would be; its shape is {tuple(tensor.shape)})"
    return f"{place}: {call} {verb} memory outside {name}{detail}; look at its offsets and mask"


def _call(source: KernelSource, finding: MemoryFinding) -> str:
    """The call as it is written in the source line, when it can be seen there."""
    lines = source.module.split("\n")
    if finding.line is not None and 1 <= finding.line <= len(lines):
        words = [match.group(1) for match in CALL.finditer(lines[finding.line - 1])]
        fitting = [word for word in words if finding.kind in word or len(words) == 1]
        if fitting:
            return fitting[0]
    return f"tl.{finding.kind}" if finding.kind != "atomic" else "an atomic"
