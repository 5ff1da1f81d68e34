"""What the memory checker found, in words: where in the student's source, which tensor, which index; a missing mask or a wrong address."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch

from grader.labs import Launchable
from grader.model import KernelSource, MemoryFinding, Outcome, Problem

VERBS = {"load": "reads", "store": "writes", "atomic": "updates"}
CALL = re.compile(r"\b(tl\.(?:load|store|atomic_\w+|\w*descriptor\w*)|\w+\.(?:load|store|gather|scatter))\s*\(")
NOUNS = {1: ("element",), 2: ("row", "column"), 3: ("block", "block row", "block column")}
MAX_SENTENCES = 6
WORST_FIRST = ("wild", "outside", "past", "gap", "beyond", "race", "mixed", "unwritten")


def sentences(
    kernel: Launchable, source: KernelSource, problems: Mapping[str, Problem], outcomes: Sequence[Outcome]
) -> tuple[str, ...]:
    """One sentence for each line and fault over all outcomes, races first, at most MAX_SENTENCES.

    Hidden cases have no say: the memory test is about the others, which have every kind of end in them.
    """
    first: dict[tuple[object, ...], tuple[MemoryFinding, list[str]]] = {}
    for outcome in outcomes:
        if kernel.hides(outcome.case):
            continue
        for finding in outcome.memory or ():
            key = (finding.line, finding.kind, finding.fault, finding.tensor, finding.dimension)
            first.setdefault(key, (finding, []))[1].append(outcome.case)
    ordered = sorted(_causes(first).values(), key=_order)
    texts = []
    for finding, cases in ordered[:MAX_SENTENCES]:
        count = len(set(cases))
        where = f"in `{cases[0]}`" + (f" and {count - 1} more" if count > 1 else "")
        texts.append(f"{_sentence(kernel, source, problems[cases[0]], finding)} ({where})")
    return tuple(texts)


Said = dict[tuple[object, ...], tuple[MemoryFinding, list[str]]]


def _causes(found: Said) -> Said:
    """Without what another finding of the same access explains.

    A tile that begins outside says more than one whose end lies there, an address outside more than one between rows; and
    what is stored beside its tile meets other programs' elements.
    """
    faults: dict[tuple[object, ...], set[str]] = {}
    for finding, _ in found.values():
        faults.setdefault((finding.line, finding.kind, finding.tensor), set()).add(finding.fault)
    elsewhere = {"outside", "past", "gap", "beyond"}
    explained = {"beyond": {"past"}, "gap": {"outside"}, "race": elsewhere, "mixed": elsewhere}
    return {
        key: (finding, cases) for key, (finding, cases) in found.items()
        if not explained.get(finding.fault, set()) & faults[finding.line, finding.kind, finding.tensor]
    }  # fmt: skip


def _order(entry: tuple[MemoryFinding, list[str]]) -> tuple[bool, int, bool, int]:
    finding = entry[0]
    return finding.fault not in ("race", "mixed"), WORST_FIRST.index(finding.fault), finding.kind == "load", finding.line or 0


def _sentence(kernel: Launchable, source: KernelSource, problem: Problem, finding: MemoryFinding) -> str:
    call, verb = _call(source, finding), VERBS[finding.kind]
    place = source.locate(finding.line) if finding.line is not None else source.path.name
    name = finding.tensor.removesuffix("_ptr")
    if finding.fault == "wild" or len(finding.index) != _dimensions(problem, finding):
        return f"{place}: {call} {verb} an address near no tensor; look at its pointer arithmetic"
    tensor = problem.tensors[finding.tensor]
    at = ", ".join(str(i) for i in finding.index)
    element = f"{name}[{at}]"
    if finding.out_of_bounds and _is_index(kernel, finding):
        last = f"0 to {tensor.numel() - 1}" if tensor.numel() else "none"
        return (
            f"{place}: {call} {verb} element {finding.index[0]} of {name}, which has {tensor.numel()} ({last}): a number from "
            "outside is no index, and whatever it leads to is wrong; look at how it is indexed and where the loop ends"
        )
    if finding.fault == "beyond" and finding.dimension in range(tensor.dim()):
        return f"{place}: {call} {verb} {_unmasked(kernel, tensor, name, finding)}"
    if finding.fault in ("past", "gap", "outside", "beyond"):
        return f"{place}: {call} {verb} {_misplaced(tensor, name, finding)}"
    if finding.fault == "race":
        pair = f" (programs {finding.programs[0]} and {finding.programs[1]})" if len(finding.programs) == 2 else ""
        if finding.kind == "load":
            return f"{place}: {call} reads {element}, which another program writes{pair}; their order is not defined"
        return (
            f"{place}: {call} {verb} {element}, which another program writes too{pair}; give each program its own tile, "
            "or add with tl.atomic_add"
        )
    if finding.fault == "mixed":
        return f"{place}: {call} {verb} {element}, to which other programs add; their order is not defined"
    return f"{place}: {call} {verb} {element}, which holds nothing yet: Y arrives uninitialised unless SPLIT_K > 1"


def _is_index(kernel: Launchable, finding: MemoryFinding) -> bool:
    """Whether the tensor holds numbers that say where to go on."""
    return any(p.name == finding.tensor and p.type == "*i32" and len(p.sizes) == 1 for p in kernel.parameters)


def _unmasked(kernel: Launchable, tensor: torch.Tensor, name: str, finding: MemoryFinding) -> str:
    """The tile is in its place and its end is not cut off."""
    d = finding.dimension or 0
    noun, size = NOUNS.get(tensor.dim(), ("index",) * tensor.dim())[d], tensor.shape[d]
    sizes = next((p.sizes for p in kernel.parameters if p.name == finding.tensor), ())
    limit = sizes[d] if d < len(sizes) else str(size)
    have = "none" if size == 0 else f"{size} {noun}{'s' if size != 1 else ''}"
    return f"{noun} {finding.index[d]} of {name}, which has {have}; mask it to {noun}s below {limit}"


def _misplaced(tensor: torch.Tensor, name: str, finding: MemoryFinding) -> str:
    """The address is wrong: what was found, what the tensor's elements are, and by which strides the tile moves."""
    own = tuple(tensor.stride())
    offset = finding.offset if finding.offset is not None else sum(i * s for i, s in zip(finding.index, own, strict=True))
    shape, strides = " x ".join(map(str, tensor.shape)), " and ".join(map(str, own))
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, own, strict=True)) if tensor.numel() else -1
    of = f"{name} ({shape})" if tensor.dim() > 1 else name
    elements = f"the last is {last}" if last >= 0 else "there is none"
    if finding.fault == "past":
        side = "before the first" if offset < 0 else "past the last"
        return (
            f"{side} element of {of}: the tile begins outside, element {offset} is asked for and {elements}; "
            "look at the tile's offset, the end of the loop and the grid"
        )
    between = f", which lies between two rows (its strides are {strides})" if finding.fault == "gap" else f", of which {elements}"
    steps = [abs(step) for step in finding.steps]
    if steps and len(steps) == tensor.dim() and sorted(steps) != sorted(own):
        moves = f"its tile moves by {' and '.join(map(str, steps))}, {name}'s strides are {strides}"
        return f"element {offset} of {of}{between}; the address is wrong: {moves}"
    return f"element {offset} of {of}{between}; the address is wrong: look at its strides and offsets"


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
