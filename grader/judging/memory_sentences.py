"""What the memory checker found, in words: where in the student's source, which tensor, which index; a missing mask, a wrong address or
a promise that is not kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grader.interpreter.finding_text import PROMISES, promise
from grader.judging import access_text as text
from grader.labs import Launchable
from grader.model import KernelSource, MemoryFinding, Outcome, Problem

VERBS = {"load": "reads", "store": "writes", "atomic": "updates"}
NOUNS = {1: ("element",), 2: ("row", "column"), 3: ("block", "row", "column")}
MAX_SENTENCES = 6
Said = dict[tuple[object, ...], tuple[MemoryFinding, list[str]]]
"""By line and fault, the finding that is told and the cases in which it was made."""
OUTSIDE = {"outside", "past", "gap", "beyond"}
EXPLAINED = {
    "beyond": {"past"},
    "gap": {"outside"},
    "race": OUTSIDE,
    "mixed": OUTSIDE,
    "lanes": {"race", "mixed", *OUTSIDE},
}
"""By fault, those that explain it."""
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
        said = _AccessSentence(kernel, source, problems[cases[0]], finding, why, right=right).sentence(function)
        texts.append(f"{said} ({where})")
    return tuple(texts)


def _causes(found: Said) -> Said:
    """Without what another finding of the same access explains.

    A tile that begins outside says more than one whose end lies there, an address outside more than one between rows; and
    what is stored beside its tile meets other programs' elements.
    """
    faults: dict[tuple[object, ...], set[str]] = {}
    for finding, _ in found.values():
        faults.setdefault((finding.line, finding.kind, finding.tensor), set()).add(finding.fault)
    return {
        key: (finding, cases)
        for key, (finding, cases) in found.items()
        if not EXPLAINED.get(finding.fault, set()) & faults[finding.line, finding.kind, finding.tensor]
    }


UNLIKE_INDEX = ": what is read there is not an index, so everything computed from it is wrong"
FAR = 1 << 28
"""Farther than any tensor of a case reaches: as many elements as the number that stands for an index from outside leads away, which
a multiplication in int32 may have made smaller."""
OTHERS = {
    "thread": (
        "which another thread of the same program also stores or loads, perhaps later",
        "put tl.debug_barrier() between, or store each element once",
    ),
    "thread load": (
        "which another thread of the same program stores, perhaps later",
        "put tl.debug_barrier() between the two, or use what was stored instead of loading it",
    ),
    "mixed": ("to which other programs add", "their order is undefined"),
    "unwritten": ("which is still uninitialised: Y is zeroed only where a config has SPLIT_K > 1", ""),
}
"""Of faults that are told in one way, what is wrong with the element, and what to do about it."""


def _order(kernel: Launchable, finding: MemoryFinding) -> tuple[bool, bool, int, bool, int]:
    """Races first; then indices read outside, which lead other accesses astray."""
    return (
        finding.fault not in ("race", "mixed", "lanes", "thread"),
        not _beside_index(kernel, finding),
        WORST_FIRST.index(finding.fault),
        finding.kind == "load",
        finding.line or 0,
    )


def _beside_index(kernel: Launchable, finding: MemoryFinding) -> bool:
    """Whether an access is outside a tensor whose numbers say where to go on."""
    return finding.out_of_bounds and finding.tensor in _indices(kernel)


def _indices(kernel: Launchable) -> list[str]:
    """The tensors that hold such numbers."""
    return [p.name for p in kernel.parameters if p.type == "*i32" and len(p.sizes) == 1]


class _AccessSentence:
    """A finding, and what its sentence is made of. problem: of the case in which it was made; stray, right: as for `sentences`.

    masked: whether the access has a mask, which lets through what is wrong. limit: the size of the tensor along the dimension whose end
    was passed, in the words of its contract; "" where there is none. across: that the tile lies across the tensor, which may be meant or
    be two strides exchanged. moves: by which strides the tile moves, where those are not the tensor's.
    Methods that give two texts give what was accessed that must not be, and what to do about it ("" where the first one says it).
    """

    def __init__(
        self,
        kernel: Launchable,
        source: KernelSource,
        problem: Problem,
        finding: MemoryFinding,
        stray: str,
        *,
        right: bool,
    ) -> None:
        self.kernel, self.source, self.problem, self.finding = kernel, source, problem, finding
        self.stray, self.right = stray, right
        self.masked = not finding.promise and text.has_mask(source, finding)
        self.name, tensor = finding.tensor.removesuffix("_ptr"), problem.tensors.get(finding.tensor)
        self.shape, self.strides = ((), ()) if tensor is None else (tuple(tensor.shape), tensor.stride())
        sizes = next((p.sizes for p in kernel.parameters if p.name == finding.tensor), ())
        at = finding.dimension
        self.limit = sizes[at] if at is not None and at < len(sizes) else ""
        steps, own, self.across, self.moves = tuple(map(abs, finding.steps)), self.strides, "", ""
        if len(own) == 2 and steps == own[::-1] != own:
            self.across = f" (the tile's rows run along {self.name}'s columns)"
        elif steps and len(steps) == len(own) and sorted(steps) != sorted(own):
            self.moves = f"its tile moves by {_listed(steps)}, but {self.name}'s strides are {_listed(own)}"

    def sentence(self, function: str) -> str:
        """function: the one that is being written, as for `sentences`."""
        source, finding = self.source, self.finding
        place = source.locate(finding.line or 0)
        if finding.promise:
            return f"{place}: {self._promise()}"
        (fact, step), verb = self._fact(), VERBS[finding.kind]
        if (through := text.through_helper(source, finding, function)) is not None:
            line, helper = through
            step = f"check what {helper} is passed" if text.masks_anything(source, helper) else f"{helper} has no mask"
            return f"{source.locate(line)}: {helper} {verb} {fact}; {step}"
        called = f"; called in {source.locate(finding.callers[0])}" if finding.callers and not function else ""
        if self.right and _beside_index(self.kernel, finding):
            fact = fact.removesuffix(UNLIKE_INDEX)
            step = f"Y is right without it: {'let the mask leave out' if self.masked else 'mask'} what lies outside"
        elif self.right and finding.kind == "load" and finding.fault == "past":
            mask = "its mask allows that, but" if self.masked else "there is no mask, and"
            step = f"{mask} Y is right without it: mask all that lies outside, or leave that load out"
        else:
            step = self._step(step)
        return f"{place}: {text.call_at(source, finding)} {verb} {'; '.join(filter(None, (fact, step)))}{called}"

    def _noun(self, d: int) -> str:
        """What sentences call an index along a dimension."""
        return NOUNS.get(len(self.shape), ("index",) * len(self.shape))[d]

    def _step(self, step: str) -> str:
        """What to do next; `step`: what the place outside suggests, which a mask, a block pointer or a wrong address may say better."""
        finding, limit = self.finding, self.limit
        if finding.fault == "beyond" and limit and text.mask_stands_still(self.source, finding, limit):
            step = (
                f"its mask compares the same numbers with {limit} in every iteration, although the pointers advance: "
                f"compare them with what is left of {limit} in this iteration"
            )
        step = f"{self.stray}: fix that first" if self.stray and step else step
        if "mask" in step and finding.fault in ("beyond", "past") and (kind := text.goes_by(self.source, finding)):
            axes = (
                ", and name in boundary_check every axis that may run past its end" if kind == "block pointer" else ""
            )
            return f"give the {kind} the tensor's own shape{axes}"
        return step

    def _promise(self) -> str:
        """What the compiler was told, and what is so instead."""
        finding, scalars = self.finding, self.problem.scalars
        sizes = ", ".join(f"{size} = {scalars[size]}" for size in ("M", "N", "K") if size in scalars)
        fact = promise(finding.fault, finding.offset or 0, finding.index, text.assumed(self.source, finding))
        return f"{fact} ({sizes}); the compiler relies on it: promise only what holds for every size"

    def _fact(self) -> tuple[str, str]:
        finding, name, fault = self.finding, self.name, self.finding.fault
        before = f"{finding.misled.removesuffix('_ptr')} was read out of bounds, and the address comes from that value: fix that read first"
        misled = finding.misled in _indices(self.kernel)
        tensor = self.problem.tensors.get(finding.tensor)
        if fault == "wild" or tensor is None or len(finding.index) != tensor.dim():
            return "an address outside every tensor", before if misled else "check its pointer arithmetic"
        if _beside_index(self.kernel, finding):
            last = f"0 to {tensor.numel() - 1}" if tensor.numel() else "none"
            return (
                f"element {finding.index[0]} of {name}, which has {tensor.numel()} ({last}){UNLIKE_INDEX}",
                f"check {'its mask, ' if self.masked else ''}how it is indexed and where the loop ends",
            )
        if fault == "beyond" and finding.dimension in range(tensor.dim()):
            return self._unmasked(finding.index)
        if fault in OUTSIDE:
            if misled and abs(finding.offset or 0) >= FAR:
                return f"far outside {name}", before
            return self._misplaced()
        element = f"{name}[{', '.join(map(str, finding.index))}]"
        if fault in ("race", "lanes"):
            return self._race(element)
        fact, step = OTHERS["thread load" if (fault, finding.kind) == ("thread", "load") else fault]
        return f"{element}, {fact}", step

    def _race(self, element: str) -> tuple[str, str]:
        """Two programs, or lanes of one store, at one element: by intent, by the wrong strides, or because a tile runs over the end of
        a row into the next."""
        finding, lanes = self.finding, self.finding.fault == "lanes"
        pair = f" (programs {finding.programs[0]} and {finding.programs[1]})" if len(finding.programs) == 2 else ""
        if finding.kind == "load":
            return f"{element}, which another program writes{pair}", "their order is undefined"
        runs_over = len(finding.meant) == len(self.shape) and finding.dimension in range(len(self.shape))
        if runs_over and not self.stray:  # a wrong place does not run over the end of a row
            fact, step = self._unmasked(finding.meant)
            who = "which another element of the same tile is stored to" if lanes else "which another program writes"
            return f"{fact}: it lands in {element}, {who}{pair}", step
        fact = f"{element}, which another program writes too{pair}"
        if lanes:
            fact = f"{element}, to which the same call writes another number; which of them remains is undefined"
        elif finding.kind == "atomic":
            only = 'add with tl.atomic_add alone, without scope="cta", and do not use what it returns'
            return f"{fact}; their order is undefined", only
        if self.moves:
            return fact, f"the address is wrong: {self.moves}"
        if lanes:
            return (
                fact,
                "store to each element once: mask the others, or reduce them to one value with tl.sum or tl.max",
            )
        if not finding.differs:
            return f"{fact}, with the same number", "give each program tiles of its own"
        adding = ", or add with tl.atomic_add" if self.kernel.split_k else ""
        return fact, f"give each program its own tile{adding}"

    def _unmasked(self, index: Sequence[int]) -> tuple[str, str]:
        """The tile is in its place and its end is not cut off. index: what it reaches."""
        d, name, across = self.finding.dimension or 0, self.name, self.across
        noun, size = self._noun(d), self.shape[d]
        limit = self.limit or str(size)
        if len(self.shape) == max(NOUNS):
            return self._beyond_blocks(index, d)
        have = f"{size} {noun}{'s' if size != 1 else ''}" if size else "none"
        fact = f"{noun} {index[d]} of {name}, which has {have}{across}"
        packed = " (8 elements share a word: element i is in word i // 8)" if limit.endswith(" // 8") else ""
        swap = "; if that is not intended, swap its strides" if across else ""
        if _indices(self.kernel) and limit == "K":  # whole blocks, which an index names
            return fact, (
                f"{limit} is whole blocks, so the {noun} itself is wrong, and a mask would only hide it: check the block's index that "
                f"it is made of{swap}"
            )
        if not self.masked:
            return fact, f"mask it to {noun}s below {limit}{packed}{swap}"
        if across:
            return (
                fact,
                f"swap its strides, or, if that is intended, make its mask false for {noun}s from {limit} on{packed}",
            )
        return fact, f"its mask allows that: make it false for {noun}s from {limit} on{packed}"

    def _beyond_blocks(self, index: Sequence[int], d: int) -> tuple[str, str]:
        """A tile that goes past the last block of a tensor of blocks, or past the end of the block in which it begins."""
        noun, size, of = self._noun(d), self.shape[d], f"a block of {self.name}" if d else self.name
        fact = f"{noun} {index[d]} of {of}, which has {size or 'no'} {noun}{'s' if size != 1 else ''}"
        if d:
            return fact, "check where in its block the tile begins, and how large it is"
        behind = "what lies beyond the last block of the block row"
        return fact, f"its mask allows that: make it false for {behind}" if self.masked else f"mask {behind}"

    def _misplaced(self) -> tuple[str, str]:
        """The address is wrong: what was found, what the tensor's elements are, and by which strides the tile moves."""
        finding, name, shape, strides = self.finding, self.name, self.shape, self.strides
        offset, fault = finding.offset or 0, finding.fault
        last = sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)) if all(shape) else -1
        of = f"{name} ({' x '.join(map(str, shape))})" if len(shape) > 1 else name
        elements = f"the last is {last}" if last >= 0 else "there is none"
        beside = next((d for d, (i, n) in enumerate(zip(finding.index, shape, strict=True)) if not 0 <= i < n), None)
        if fault == "past" and 0 <= offset <= last and beside is not None:  # the end of a row, not that of the tensor
            fact = f"{self._noun(beside)} {finding.index[beside]} of {of}: the tile begins outside"
            return fact, "check the tile's offset, the end of the loop and the grid"
        if fault == "past":
            side = "before the first" if offset < 0 else "past the last"
            return (
                f"{side} element of {of}: the tile begins outside, element {offset} is accessed and {elements}{self.across}",
                f"check {'its strides, ' if self.across else ''}the tile's offset, the end of the loop and the grid",
            )
        between = f", which is between two rows (its strides are {_listed(strides)})"
        fact = f"element {offset} of {of}{between if fault == 'gap' else f', of which {elements}'}"
        if self.moves:
            return f"{fact}; the address is wrong: {self.moves}", ""
        if not self.masked and fault != "gap":
            return fact, f"it has no mask: mask what lies outside {name}, or fix its offsets and strides"
        return fact, "check its mask, its offsets and its strides"


def _listed(numbers: Sequence[int]) -> str:
    return " and ".join(map(str, numbers))
