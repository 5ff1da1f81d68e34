"""What the memory checker found, in words: where in the student's source, which tensor, which index; a missing mask, a wrong address or
a promise that is not kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from grader.interpreter.finding_text import PROMISES, promise
from grader.judging.access_text import (
    assumed,
    call_at,
    goes_by,
    has_mask,
    mask_stands_still,
    masks_anything,
    through_helper,
)
from grader.labs import Launchable
from grader.model import KernelSource, MemoryFinding, Outcome, Problem

VERBS = {"load": "reads", "store": "writes", "atomic": "updates"}
NOUNS = {1: ("element",), 2: ("row", "column"), 3: ("block", "row", "column")}
MAX_SENTENCES = 6
Said = dict[tuple[object, ...], tuple[MemoryFinding, list[str]]]
"""By line and fault, the finding that is told and the cases in which it was made."""
WORST_FIRST = ("wild", "outside", "past", "gap", "beyond", "race", "mixed", "lanes", "thread", "unwritten", *PROMISES)


def sentences(
    kernel: Launchable,
    source: KernelSource,
    problems: Mapping[str, Problem],
    outcomes: Sequence[Outcome],
    function: str = "",
    stray: Mapping[int, str] | None = None,
    right: bool = False,
    alike: bool = False,
) -> tuple[str, ...]:
    """One sentence for each line and fault over all outcomes, races first, at most MAX_SENTENCES.

    Hidden cases have no say: the memory test is about the others, which have every kind of end in them.
    function: the one that is being written, when what it calls is known to be right; then its line is told, not the helper's.
    stray: lines whose addresses are known to be wrong, and why: neither a mask nor another offset helps there.
    right: whether Y is right in every case, so that nothing of what is loaded from outside was needed. alike: whether to tell also of
    programs that store the same number to an element, which does no harm but is work done twice.
    """
    first: Said = {}
    for outcome in outcomes:
        if kernel.hides(outcome.case):
            continue
        for finding in outcome.memory or ():
            if finding.fault == "race" and not finding.unordered and not alike:
                continue
            key = (finding.line, finding.kind, finding.fault, finding.tensor, finding.dimension)
            known, cases = first.setdefault(key, (finding, []))
            cases.append(outcome.case)
            if finding.differs and not known.differs:
                first[key] = finding, [outcome.case, *cases]
    ordered = sorted(_causes(first).values(), key=lambda entry: _order(kernel, entry[0]))
    texts = []
    for finding, cases in ordered[:MAX_SENTENCES]:
        count = len(set(cases))
        where = f"in `{cases[0]}`" + (f" and {count - 1} more" if count > 1 else "")
        why = (stray or {}).get(finding.line or 0, "")
        texts.append(f"{_sentence(kernel, source, problems[cases[0]], finding, function, why, right=right)} ({where})")
    return tuple(texts)


def _causes(found: Said) -> Said:
    """Without what another finding of the same access explains.

    A tile that begins outside says more than one whose end lies there, an address outside more than one between rows; and
    what is stored beside its tile meets other programs' elements.
    """
    faults: dict[tuple[object, ...], set[str]] = {}
    for finding, _ in found.values():
        faults.setdefault((finding.line, finding.kind, finding.tensor), set()).add(finding.fault)
    outside = {"outside", "past", "gap", "beyond"}
    explained = {
        "beyond": {"past"},
        "gap": {"outside"},
        "race": outside,
        "mixed": outside,
        "lanes": {"race", "mixed", *outside},
    }
    return {
        key: (finding, cases)
        for key, (finding, cases) in found.items()
        if not explained.get(finding.fault, set()) & faults[finding.line, finding.kind, finding.tensor]
    }


def _order(kernel: Launchable, finding: MemoryFinding) -> tuple[bool, bool, int, bool, int]:
    """Races first; then indices read outside, which lead other accesses astray."""
    return (
        finding.fault not in ("race", "mixed", "lanes", "thread"),
        not _beside_index(kernel, finding),
        WORST_FIRST.index(finding.fault),
        finding.kind == "load",
        finding.line or 0,
    )


def _sentence(
    kernel: Launchable,
    source: KernelSource,
    problem: Problem,
    finding: MemoryFinding,
    function: str,
    stray: str,
    *,
    right: bool,
) -> str:
    place = source.locate(finding.line or 0)
    if finding.promise:
        return f"{place}: {_promise(source, problem, finding)}"
    verb, through = VERBS[finding.kind], through_helper(source, finding, function)
    if through is not None:
        line, helper = through
        fact, _ = _fact(kernel, problem, finding)
        step = f"check what {helper} is passed" if masks_anything(source, helper) else f"{helper} has no mask"
        return f"{source.locate(line)}: {helper} {verb} {fact}; {step}"
    called = f"; called in {source.locate(finding.callers[0])}" if finding.callers and not function else ""
    meant = replace(finding, meant=()) if stray else finding  # a wrong place does not run over the end of a row
    masked = has_mask(source, finding)
    fact, step = _fact(kernel, problem, meant, masked=masked)
    if right and _beside_index(kernel, finding):
        fact = fact.removesuffix(UNLIKE_INDEX)
        step = f"Y is right without it: {'let the mask leave out' if masked else 'mask'} what lies outside"
    elif right and finding.kind == "load" and finding.fault == "past":
        mask = "its mask allows that, but" if masked else "there is no mask, and"
        step = f"{mask} Y is right without it: mask all that lies outside, or leave that load out"
    else:
        step = _step(kernel, source, finding, step, stray)
    return f"{place}: {call_at(source, finding)} {verb} {'; '.join(filter(None, (fact, step)))}{called}"


def _step(kernel: Launchable, source: KernelSource, finding: MemoryFinding, step: str, stray: str) -> str:
    """What to do next; `step`: what the place outside suggests, which a mask, a block pointer or a wrong address may say better."""
    if finding.fault == "beyond" and (limit := _limit(kernel, finding)) and mask_stands_still(source, finding, limit):
        step = (
            f"its mask compares the same numbers with {limit} in every iteration, although the pointers advance: "
            f"compare them with what is left of {limit} in this iteration"
        )
    step = f"{stray}: fix that first" if stray and step else step
    if "mask" in step and finding.fault in ("beyond", "past") and (kind := goes_by(source, finding)):
        axes = ", and name in boundary_check every axis that may run past its end" if kind == "block pointer" else ""
        return f"give the {kind} the tensor's own shape{axes}"
    return step


def _limit(kernel: Launchable, finding: MemoryFinding) -> str:
    """The size of a tensor along the dimension whose end was passed, in the words of its contract; "" where there is none."""
    sizes = next((p.sizes for p in kernel.parameters if p.name == finding.tensor), ())
    return sizes[finding.dimension] if finding.dimension is not None and finding.dimension < len(sizes) else ""


def _promise(source: KernelSource, problem: Problem, finding: MemoryFinding) -> str:
    """What the compiler was told, and what is so instead."""
    sizes = ", ".join(f"{size} = {problem.scalars[size]}" for size in ("M", "N", "K") if size in problem.scalars)
    fact = promise(finding.fault, finding.offset or 0, finding.index, assumed(source, finding))
    return f"{fact} ({sizes}); the compiler relies on it: promise only what holds for every size"


def _fact(kernel: Launchable, problem: Problem, finding: MemoryFinding, *, masked: bool = False) -> tuple[str, str]:
    """What was accessed that must not be, and what to do about it ("" where the fact says it). masked: the access has a mask."""
    name = finding.tensor.removesuffix("_ptr")
    before = f"{finding.misled.removesuffix('_ptr')} was read out of bounds, and the address comes from that value: fix that read first"
    misled = finding.misled in _indices(kernel)
    tensor = problem.tensors.get(finding.tensor)
    if finding.fault == "wild" or tensor is None or len(finding.index) != tensor.dim():
        return "an address outside every tensor", before if misled else "check its pointer arithmetic"
    element = f"{name}[{', '.join(map(str, finding.index))}]"
    if _beside_index(kernel, finding):
        last = f"0 to {tensor.numel() - 1}" if tensor.numel() else "none"
        return (
            f"element {finding.index[0]} of {name}, which has {tensor.numel()} ({last}){UNLIKE_INDEX}",
            f"check {'its mask, ' if masked else ''}how it is indexed and where the loop ends",
        )
    if finding.fault == "beyond" and finding.dimension in range(tensor.dim()):
        return _unmasked(kernel, tensor, name, finding, finding.index, masked=masked)
    if finding.fault in ("past", "gap", "outside", "beyond"):
        if misled and abs(finding.offset or 0) >= FAR:
            return f"far outside {name}", before
        return _misplaced(tensor, name, finding, masked=masked)
    if finding.fault in ("race", "lanes"):
        return _race(kernel, tensor, name, finding, element, masked=masked)
    if finding.fault == "thread":
        does, step = (
            ("stores", "put tl.debug_barrier() between the two, or use what was stored instead of loading it")
            if finding.kind == "load"
            else ("also stores or loads", "put tl.debug_barrier() between, or store each element once")
        )
        return f"{element}, which another thread of the same program {does}, perhaps later", step
    if finding.fault == "mixed":
        return f"{element}, to which other programs add", "their order is undefined"
    return f"{element}, which is still uninitialised: Y is zeroed only where a config has SPLIT_K > 1", ""


UNLIKE_INDEX = ": what is read there is not an index, so everything computed from it is wrong"
FAR = 1 << 28
"""Farther than any tensor of a case reaches: as many elements as the number that stands for an index from outside leads away, which
a multiplication in int32 may have made smaller."""


def _race(
    kernel: Launchable, tensor: torch.Tensor, name: str, finding: MemoryFinding, element: str, *, masked: bool
) -> tuple[str, str]:
    """Two programs, or lanes of one store, at one element: by intent, by the wrong strides, or because a tile runs over the end of
    a row into the next."""
    pair = f" (programs {finding.programs[0]} and {finding.programs[1]})" if len(finding.programs) == 2 else ""
    lanes = finding.fault == "lanes"
    if finding.kind == "load":
        return f"{element}, which another program writes{pair}", "their order is undefined"
    if len(finding.meant) == tensor.dim() and finding.dimension in range(tensor.dim()):
        fact, step = _unmasked(kernel, tensor, name, finding, finding.meant, masked=masked)
        who = "which another element of the same tile is stored to" if lanes else "which another program writes"
        return f"{fact}: it lands in {element}, {who}{pair}", step
    fact = f"{element}, which another program writes too{pair}"
    if lanes:
        fact = f"{element}, to which the same call writes another number; which of them remains is undefined"
    elif finding.kind == "atomic":
        only = 'add with tl.atomic_add alone, without scope="cta", and do not use what it returns'
        return f"{fact}; their order is undefined", only
    if moves := _moves(tensor, name, finding):
        return fact, f"the address is wrong: {moves}"
    if lanes:
        return fact, "store to each element once: mask the others, or reduce them to one value with tl.sum or tl.max"
    if not finding.differs:
        return f"{fact}, with the same number", "give each program tiles of its own"
    adding = ", or add with tl.atomic_add" if kernel.split_k else ""
    return fact, f"give each program its own tile{adding}"


def _beside_index(kernel: Launchable, finding: MemoryFinding) -> bool:
    """Whether an access is outside a tensor whose numbers say where to go on."""
    return finding.out_of_bounds and finding.tensor in _indices(kernel)


def _indices(kernel: Launchable) -> list[str]:
    """The tensors that hold such numbers."""
    return [p.name for p in kernel.parameters if p.type == "*i32" and len(p.sizes) == 1]


def _unmasked(
    kernel: Launchable, tensor: torch.Tensor, name: str, finding: MemoryFinding, index: Sequence[int], *, masked: bool
) -> tuple[str, str]:
    """The tile is in its place and its end is not cut off. masked: there is a mask, which lets that through."""
    d = finding.dimension or 0
    if tensor.dim() == max(NOUNS):
        return _beyond_blocks(tensor, name, index, d, masked=masked)
    noun, size = _noun(tensor, d), tensor.shape[d]
    limit = _limit(kernel, finding) or str(size)
    packed = " (8 elements share a word: element i is in word i // 8)" if limit.endswith(" // 8") else ""
    have = "none" if size == 0 else f"{size} {noun}{'s' if size != 1 else ''}"
    exchanged_hint = _exchanged_hint(tensor, name, finding)
    exchanged = "; if that is not intended, swap its strides" if exchanged_hint else ""
    if _indices(kernel) and limit == "K":  # whole blocks, which an index names
        return (
            f"{noun} {index[d]} of {name}, which has {have}{exchanged_hint}",
            f"{limit} is whole blocks, so the {noun} itself is wrong, and a mask would only hide it: check the block's index that it is "
            f"made of{exchanged}",
        )
    end = (
        f"its mask allows that: make it false for {noun}s from {limit} on"
        if masked
        else f"mask it to {noun}s below {limit}"
    )
    if exchanged_hint and masked:
        end = f"swap its strides, or, if that is intended, make its mask false for {noun}s from {limit} on"
        exchanged = ""
    return f"{noun} {index[d]} of {name}, which has {have}{exchanged_hint}", f"{end}{packed}{exchanged}"


def _beyond_blocks(tensor: torch.Tensor, name: str, index: Sequence[int], d: int, *, masked: bool) -> tuple[str, str]:
    """A tile that goes past the last block of a tensor of blocks, or past the end of the block in which it begins."""
    noun, size = NOUNS[3][d], tensor.shape[d]
    have = f"{size or 'no'} {noun}{'s' if size != 1 else ''}"
    if d:
        return (
            f"{noun} {index[d]} of a block of {name}, which has {have}",
            "check where in its block the tile begins, and how large it is",
        )
    behind = "what lies beyond the last block of the block row"
    return f"{noun} {index[d]} of {name}, which has {have}", (
        f"its mask allows that: make it false for {behind}" if masked else f"mask {behind}"
    )


def _misplaced(tensor: torch.Tensor, name: str, finding: MemoryFinding, *, masked: bool) -> tuple[str, str]:
    """The address is wrong: what was found, what the tensor's elements are, and by which strides the tile moves."""
    own = tuple(tensor.stride())
    offset = finding.offset or 0
    shape, strides = " x ".join(map(str, tensor.shape)), " and ".join(map(str, own))
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, own, strict=True)) if tensor.numel() else -1
    of = f"{name} ({shape})" if tensor.dim() > 1 else name
    elements = f"the last is {last}" if last >= 0 else "there is none"
    beside = next((d for d, (i, n) in enumerate(zip(finding.index, tensor.shape, strict=True)) if not 0 <= i < n), None)
    if (
        finding.fault == "past" and 0 <= offset <= last and beside is not None
    ):  # the end of a row, not that of the tensor
        fact = f"{_noun(tensor, beside)} {finding.index[beside]} of {of}: the tile begins outside"
        return fact, "check the tile's offset, the end of the loop and the grid"
    if finding.fault == "past":
        side, exchanged_hint = (
            "before the first" if offset < 0 else "past the last",
            _exchanged_hint(tensor, name, finding),
        )
        return (
            f"{side} element of {of}: the tile begins outside, element {offset} is accessed and {elements}{exchanged_hint}",
            f"check {'its strides, ' if exchanged_hint else ''}the tile's offset, the end of the loop and the grid",
        )
    between = (
        f", which is between two rows (its strides are {strides})"
        if finding.fault == "gap"
        else f", of which {elements}"
    )
    moves = _moves(tensor, name, finding)
    if moves:
        return f"element {offset} of {of}{between}; the address is wrong: {moves}", ""
    if not masked and finding.fault != "gap":
        return (
            f"element {offset} of {of}{between}",
            f"it has no mask: mask what lies outside {name}, or fix its offsets and strides",
        )
    return f"element {offset} of {of}{between}", "check its mask, its offsets and its strides"


def _exchanged_hint(tensor: torch.Tensor, name: str, finding: MemoryFinding) -> str:
    """That a tile lies across the tensor, which may be meant or be two strides exchanged."""
    own, steps = list(tensor.stride()), [abs(step) for step in finding.steps]
    return f" (the tile's rows run along {name}'s columns)" if tensor.dim() == 2 and steps == own[::-1] != own else ""


def _moves(tensor: torch.Tensor, name: str, finding: MemoryFinding) -> str:
    """By which strides the tile moves, where those are not the tensor's."""
    own, steps = tensor.stride(), [abs(step) for step in finding.steps]
    if not steps or len(steps) != tensor.dim() or sorted(steps) == sorted(own):
        return ""
    return f"its tile moves by {' and '.join(map(str, steps))}, but {name}'s strides are {' and '.join(map(str, own))}"


def _noun(tensor: torch.Tensor, d: int) -> str:
    """What sentences call an index along a dimension."""
    return NOUNS.get(tensor.dim(), ("index",) * tensor.dim())[d]
