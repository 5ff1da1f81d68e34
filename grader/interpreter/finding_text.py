"""What the watchers found in a launch, in one sentence each: where, what was accessed, what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

VERBS = {"load": "loads", "store": "stores", "atomic": "updates"}
OVER = {"store": "overwrites", "atomic": "updates"}
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


OUTSIDE = "{verb} {element}, outside its shape {shape}{lanes}"
NO_ORDER = "programs run in no fixed order"
ACCESSES = {
    "wild": ("{verb} at an address outside every tensor", "check the pointer arithmetic"),
    "beyond": (OUTSIDE, "the tile runs past the end of dimension {dimension}: mask it"),
    "past": (OUTSIDE, "the whole tile begins outside: check its offsets"),
    "outside": (OUTSIDE, "the address is wrong: check strides and offsets"),
    "gap": ("{verb} between the elements of {tensor}, a strided view of shape {shape}{lanes}", "check its strides"),
    "race load": ("loads {element}, to which {writer} stores later", NO_ORDER),
    "race": ("{over} {element}, which {others} stored", f"{NO_ORDER}, {{same}}"),
    "mixed": ("stores {element}, to which {others} add", f"{NO_ORDER}: initialise the tensor before the launch"),
    "lanes": (
        "stores different values to {element} in one tile",
        "which one stays is undefined: mask all lanes but one",
    ),
    "thread": (
        "{verb} {element}, which another thread of the same program accessed before",
        "put tl.debug_barrier() between the two",
    ),
    "unwritten": ("{verb} {element}, to which nothing has been stored yet", "initialise it before the launch"),
}
"""By fault, what is wrong with an access, and what to do next."""


def _access(finding: Mapping[str, Any], shapes: Mapping[str, Sequence[int]]) -> tuple[str, str]:
    kind, name, programs = finding["kind"], finding.get("tensor", ""), finding.get("programs")
    words = {
        **finding,
        "verb": VERBS[kind],
        "over": OVER.get(kind),
        "element": f"{name}[{', '.join(map(str, finding.get('index', ())))}]",
        "shape": list(shapes.get(name, ())),
        "lanes": f" ({finding['lanes']} lanes)" if finding["lanes"] > 1 else "",
        "others": f"program {programs[0]}" if programs else "other programs",
        "writer": f"program {programs[-1]}" if programs else "another program",
        "same": "so only one may store it" if finding.get("differs") else "but here both store the same value",
    }
    fact, step = ACCESSES["race load" if (finding["fault"], kind) == ("race", "load") else finding["fault"]]
    return fact.format(**words), step.format(**words)
