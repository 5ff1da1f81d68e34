"""What the memory checker found, in words: where in the student's source, which tensor, which index, which mask."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from grader.labs import Lab
from grader.model import KernelSource, MemoryFinding, Outcome, Problem

VERBS = {"load": "reads", "store": "writes", "atomic": "updates"}
CALL = re.compile(r"\b(tl\.(?:load|store|atomic_\w+|\w*descriptor\w*)|\w+\.(?:load|store|gather|scatter))\s*\(")
NOUNS = {1: ("element",), 2: ("row", "column"), 3: ("block", "block row", "block column")}
MAX_SENTENCES = 6
WORST_FIRST = ("wild", "outside", "beyond", "gap", "race", "unwritten")


def sentences(
    lab: Lab, source: KernelSource, problems: Mapping[str, Problem], outcomes: Sequence[Outcome]
) -> tuple[str, ...]:
    """One sentence for each line and fault over all outcomes, out-of-bounds accesses first, at most MAX_SENTENCES.

    Hidden cases have no say: the memory test is about the others, which have every kind of end in them.
    """
    first: dict[tuple[object, ...], tuple[MemoryFinding, list[str]]] = {}
    for outcome in outcomes:
        if lab.case(outcome.case).hidden:
            continue
        for finding in outcome.memory or ():
            key = (finding.line, finding.kind, finding.fault, finding.tensor, finding.dimension)
            first.setdefault(key, (finding, []))[1].append(outcome.case)
    ordered = sorted(first.values(), key=lambda e: (WORST_FIRST.index(e[0].fault), e[0].kind == "load", e[0].line or 0))
    texts = []
    for finding, cases in ordered[:MAX_SENTENCES]:
        count = len(set(cases))
        where = f"in `{cases[0]}`" + (f" and {count - 1} more" if count > 1 else "")
        texts.append(f"{_sentence(lab, source, problems[cases[0]], finding)} ({where})")
    return tuple(texts)


def _sentence(lab: Lab, source: KernelSource, problem: Problem, finding: MemoryFinding) -> str:
    call, verb = _call(source, finding), VERBS[finding.kind]
    place = source.locate(finding.line) if finding.line is not None else source.path.name
    name = finding.tensor.removesuffix("_ptr")
    if finding.fault == "wild" or len(finding.index) != _dimensions(problem, finding):
        return f"{place}: {call} {verb} an address near no tensor; look at its pointer arithmetic"
    tensor = problem.tensors[finding.tensor]
    nouns = NOUNS.get(tensor.dim(), ("index",) * tensor.dim())
    at = ", ".join(str(i) for i in finding.index)
    element = f"{name}[{at}]"
    if finding.fault == "beyond" and finding.dimension in range(len(nouns)):
        d = finding.dimension or 0
        noun, size = nouns[d], tensor.shape[d]
        sizes = next((p.sizes for p in lab.parameters if p.name == finding.tensor), ())
        limit = sizes[d] if d < len(sizes) else str(size)
        where = f"{noun} {finding.index[d]}"
        have = "none" if size == 0 else f"{size} {noun}{'s' if size != 1 else ''}"
        of = f"{name}, which has {have}"
        return f"{place}: {call} {verb} {where} of {of}; mask it to {noun}s below {limit}"
    if finding.fault == "gap":
        strides = ", ".join(str(s) for s in tensor.stride())
        detail = f" (shape {tuple(tensor.shape)}, strides {strides})"
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
    detail = f" (where index [{at}] would be; its shape is {tuple(tensor.shape)})"
    return f"{place}: {call} {verb} memory outside {name}{detail}; look at its strides, offsets and mask"


def _dimensions(problem: Problem, finding: MemoryFinding) -> int:
    return problem.tensors[finding.tensor].dim() if finding.tensor in problem.tensors else -1


def _call(source: KernelSource, finding: MemoryFinding) -> str:
    """The call as it is written in the source line, when it can be seen there."""
    lines = source.module.split("\n")
    if finding.line is not None and 1 <= finding.line <= len(lines):
        words = [match.group(1) for match in CALL.finditer(lines[finding.line - 1])]
        fitting = [word for word in words if finding.kind in word or len(words) == 1]
        if fitting:
            return fitting[0]
    return f"tl.{finding.kind}" if finding.kind != "atomic" else "an atomic"
