"""What the watchers found in a launch, in one sentence each: where, what was accessed, what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

VERBS = {"load": "loads", "store": "stores", "atomic": "updates"}
OVER = {"store": "overwrites", "atomic": "updates"}
NO_ORDER = {True: "so only one may store it", False: "but here both store the same value"}
PROMISES = {"assumed": "assume", "multiple": "multiple_of", "contiguous": "max_contiguous", "constant": "max_constancy"}


def is_harmless(finding: Mapping[str, Any]) -> bool:
    """Whether nothing comes of it: several programs store one value to an element."""
    return finding["fault"] == "race" and not finding["differs"]


def sentence(finding: Mapping[str, Any], shapes: Mapping[str, Sequence[int]], file: str) -> str:
    """finding: one of `MemoryCheck.findings`. shapes: of the tensors, by name. file: the kernel's, as it is to be shown."""
    place = f"{file}:{finding['line']}" if finding["line"] else file
    called = f" (called in line {finding['callers'][0]})" if finding["callers"] else ""
    if finding["kind"] == "promise":
        fact = promise(finding["fault"], finding["offset"], finding["index"])
        step = "the compiler relies on it: promise only what always holds"
    else:
        fact, step = _access(finding, shapes)
    return f"{place}: {fact}{called}; {step}"


def promise(fault: str, promised: int, seen: Sequence[int], condition: str = "") -> str:
    """What the compiler was promised, and what is so instead. condition: what tl.assume was given, where it is known."""
    name = f"tl.{PROMISES[fault]}"
    if fault == "assumed" or not seen:
        return f"{name} assumes {f'`{condition}`, which' if condition else 'a condition that'} is false"
    if fault == "multiple":
        return f"{name} promises multiples of {promised}, found {seen[0]}"
    kind = "consecutive" if fault == "contiguous" else "equal"
    return f"{name} promises {promised} {kind} values, found {seen[0]} beside {seen[-1]}"


def _access(finding: Mapping[str, Any], shapes: Mapping[str, Sequence[int]]) -> tuple[str, str]:
    verb, fault = VERBS[finding["kind"]], finding["fault"]
    if fault == "wild":
        return f"{verb} at an address outside every tensor", "check the pointer arithmetic"
    name, index = finding["tensor"], ", ".join(map(str, finding["index"]))
    shape, element = list(shapes[name]), f"{name}[{index}]"
    lanes = f" ({finding['lanes']} lanes)" if finding["lanes"] > 1 else ""
    outside = f"{verb} {element}, outside its shape {shape}{lanes}"
    if fault == "beyond":
        return outside, f"the tile runs past the end of dimension {finding['dimension']}: mask it"
    if fault == "past":
        return outside, "the whole tile begins outside: check its offsets"
    if fault == "outside":
        return outside, "the address is wrong: check strides and offsets"
    if fault == "gap":
        return f"{verb} between the elements of {name}, a strided view of shape {shape}{lanes}", "check its strides"
    programs = finding["programs"]
    others = f"program {programs[0]}" if programs else "other programs"
    if fault == "race" and finding["kind"] == "load":
        writer = f"program {programs[-1]}" if programs else "another program"
        return f"loads {element}, to which {writer} stores later", "programs run in no fixed order"
    if fault == "race":
        return (
            f"{OVER[finding['kind']]} {element}, which {others} stored",
            f"programs run in no fixed order, {NO_ORDER[bool(finding['differs'])]}",
        )
    if fault == "mixed":
        return (
            f"stores {element}, to which {others} add",
            "programs run in no fixed order: initialise the tensor before the launch",
        )
    if fault == "lanes":
        return (
            f"stores different values to {element} in one tile",
            "which one stays is undefined: mask all lanes but one",
        )
    if fault == "thread":
        return (
            f"{verb} {element}, which another thread of the same program accessed before",
            "put tl.debug_barrier() between the two",
        )
    return f"{verb} {element}, to which nothing has been stored yet", "initialise it before the launch"
