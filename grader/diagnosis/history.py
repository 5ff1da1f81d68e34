"""Which way did one element come, from its load to where it is used?"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from grader.diagnosis.definition import GIVEN
from grader.diagnosis.provenance import Provenance, Untraceable, lanes_before, spread
from grader.diagnosis.relation import Run
from grader.diagnosis.tape import MOVES, Node


@dataclass(frozen=True)
class HistoryStep:
    """One step of an element's way from a load to where it is used, a lane of a node. done: what was done there, in numbers; "" where that
    is not known."""

    node: int
    op: str
    line: int | None
    type: str
    value: float
    done: str = ""
    lane: int = 0


SYMBOLS = {
    "add": "+", "fadd": "+", "sub": "-", "fsub": "-", "mul": "*", "fmul": "*", "idiv": "//", "sdiv": "//", "udiv": "//", "srem": "%",
    "urem": "%", "fdiv": "/", "precise_divf": "/", "shl": "<<", "ashr": ">>", "lshr": ">>", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
NAMES = {"clampf": "clamp", "maxnumf": "maximum", "minnumf": "minimum", "maximumf": "maximum", "minimumf": "minimum"}
CASTS = ("int_cast", "fp_trunc", "fp_ext", "fp_to_fp", "fp_to_si", "fp_to_ui", "si_to_fp", "ui_to_fp", "bitcast")
EXTRACTS = ("ashr", "lshr", "shl", "mul", "idiv", "sdiv", "udiv")
"""Operations that bring one of a word's elements to where it is taken from."""
SHIFTS = ("ashr", "lshr", "shl")
MAX_STEPS = 8


def sentence_of(links: list[HistoryStep]) -> str:
    """What became of an element, step by step: every change, and of operations without a symbol their name and result."""
    pairs = itertools.pairwise(links)
    changes = [now for before, now in pairs if now.done and (now.value != before.value or now.op in SYMBOLS)]
    steps = [link.done for link in changes]
    if len(steps) > MAX_STEPS:
        steps = [*steps[: MAX_STEPS // 2], "...", *steps[-MAX_STEPS // 2 :]]
    return "; ".join(steps)


def way(run: Run, number: int, lane: int, tensor: str) -> list[HistoryStep]:
    """The way of one element from its load; nothing where it is not known."""
    try:
        return history(run.provenance, number, lane, tensor)
    except (Untraceable, ValueError):
        return []


def history(
    provenance: Provenance, number: int, lane: int, tensor: str, *, strictly: bool = False
) -> list[HistoryStep]:
    """The way of one element of a node from its load of `tensor`, the load first; moves are left out. strictly: not through a minimum or
    maximum that came out as another of its inputs.

    Not split: a branch for each kind of operation that an element can come from.
    """
    links: list[HistoryStep] = []
    while True:
        node = provenance.tape.nodes[number]
        if node.op in MOVES and not provenance.is_lookup(node):
            ((number, lanes, _),) = lanes_before(provenance, node, np.array([lane]))
            lane = int(lanes[0])
            continue
        try:
            value = float(provenance.values(number).reshape(-1)[lane])
        except (Untraceable, ValueError):
            value = float("nan")
        if node.type != "int1":  # which was asked, and is no number of the element
            done = _done(provenance, node, lane, value)
            links.append(HistoryStep(number, node.op, node.line, node.type, value, done, lane))
        if node.op == "load":
            if node.tensor == tensor:
                break
            return []
        inputs = node.inputs[1:] if node.op in ("select", "gather") else node.inputs
        if node.op == "select":
            condition = provenance.values(node.inputs[0])
            chosen = bool(np.broadcast_to(condition, node.shape).reshape(-1)[lane])
            inputs = inputs[:1] if chosen else inputs[1:]
            if tensor not in provenance.sources(inputs[0]):  # a constant, for what was asked about the element
                inputs = node.inputs[:1]
        following = [i for i in dict.fromkeys(inputs) if tensor in provenance.sources(i)]
        places = {i: int(spread(provenance.tape.nodes[i], node.shape, np.array([lane]))[0]) for i in following}
        if strictly and any(word in node.op for word in ("min", "max", "clamp")):
            following = [i for i in following if float(provenance.values(i).reshape(-1)[places[i]]) == value]
        if len(following) > 1:
            found = (history(provenance, i, places[i], tensor, strictly=True) for i in following)
            ways = list(filter(None, found))
            alone = all(provenance.sources(i) == {tensor} for i in following)  # so that both are parts of one number
            return [*ways[0], *links[::-1]] if len(ways) == 1 or (ways and alone) else []
        if not following or node.op in ("dot", "reduce", "scan"):
            return []
        number, lane = following[0], places[following[0]]
    return links[::-1]


def _done(provenance: Provenance, node: Node, lane: int, value: float) -> str:
    """An operation of one element in numbers, such as "-3 & 15 = 13"."""
    if node.op in CASTS:
        return f"as {node.type} {digits(value, node.type)}"
    if node.op == "gather":
        return ""
    if node.op == "select":
        return f"tl.where takes {digits(value, node.type)}"
    if node.op not in SYMBOLS or len(node.inputs) != 2:
        return f"{NAMES.get(node.op, node.op.removeprefix('libdevice '))} {digits(value, node.type)}"
    try:
        given = [np.broadcast_to(provenance.values(i), node.shape).reshape(-1)[lane] for i in node.inputs]
    except (Untraceable, ValueError):
        return ""
    first, second, result = (digits(float(one), node.type) for one in (*given, value))
    return f"{first} {SYMBOLS[node.op]} {second} = {result}"


def digits(value: float, kind: str = "fp32") -> str:
    """Words, which are large integers, as hexadecimal numbers; all else with seven digits, or with those that show its fraction."""
    whole = abs(value) < 1e10 and value == int(value)
    if whole and "int" in kind and 1 << 16 <= abs(value) < 1 << 32:
        return f"{int(value) & 0xFFFFFFFF:#010x}"
    short = f"{int(value)}" if whole else f"{value:.7g}"
    return short if whole or not short.lstrip("-").isdigit() else f"{value:.9g}"


def line_computed(run: Run, number: int) -> int | None:
    """Where a value was last computed, whatever moved or converted it since."""
    return _computed(run, number).line


def _computed(run: Run, number: int) -> Node:
    node = run.tape.nodes[number]
    while node.op in (*MOVES, *CASTS) and node.inputs:
        node = run.tape.nodes[node.inputs[0]]
    return node


def parting(run: Run, number: int, lanes: tuple[int, int], tensor: str) -> int | None:
    """Where two elements of a value that come from one element of a tensor parted; None where they never were."""
    at = np.array(lanes)
    while True:
        node = run.tape.nodes[number]
        if node.op in MOVES:
            before = lanes_before(run.provenance, node, at)
            if len(before) > 1:
                return node.line
            number, at, _ = before[0]
            continue
        inputs = [(i, spread(run.tape.nodes[i], node.shape, at)) for i in node.inputs]
        following = [(i, there) for i, there in inputs if tensor in run.provenance.sources(i)]
        if len(following) != 1 or node.op in ("load", "dot", "reduce", "scan"):
            return None
        for i, there in inputs:
            values = run.provenance.values(i).reshape(-1)[there]
            if node.op in EXTRACTS and i != following[0][0] and values[0] != values[1]:
                return line_computed(run, i)
        number, at = following[0]


def line_of_change(
    run: Run, links: list[HistoryStep], right: Sequence[float], before: float | None = None, bits: int | None = None
) -> int | None:
    """Where an element stopped being the right number, if it ever was.

    Right is what it may become, and `before`, the number that this is a rounding of; `bits`: the four of a word that it is made
    of. Where it was neither, but near `before`, the line that came near; else the first line that changed it where it should have
    been converted, the last one where not.

    Not split: one place after another, the most certain first.
    """
    if not links:
        return None
    if bits is not None and (line := _line_of_cut(run, links, bits)):
        return line
    if line := _line_of_choice(run, links, right):
        return line
    known = {*right} if before is None else {*right, before, float(np.round(before))}
    was = [i for i, link in enumerate(links[:-1]) if any(_near(link.value, one, 1e-6) for one in known)]
    if was:
        changed = (link for link in links[was[-1] + 1 :] if link.value != links[was[-1]].value)
        return _line_of_step(run, next(changed, links[-1]))
    every = [later for earlier, later in itertools.pairwise(links) if later.value != earlier.value] or links[-1:]
    if before is None:  # what changed last, or should have changed what was cut out rightly
        after = (link for link in links[links.index(every[-1]) + 1 :] if link.op not in CASTS)
        return _line_of_step(run, next(after, every[-1]) if every[-1].value == bits else every[-1])
    near = (link for link in links if _near(link.value, before, 1e-2))
    return _line_of_step(run, next(near, every[0]))


def _line_of_choice(run: Run, links: Sequence[HistoryStep], right: Sequence[float]) -> int | None:
    """Where it was decided to take another number than the right one, which was there."""
    for node, lane in ((run.tape.nodes[link.node], np.array([link.lane])) for link in links if link.op == "select"):
        given = [
            run.provenance.values(i).reshape(-1)[spread(run.tape.nodes[i], node.shape, lane)[0]] for i in node.inputs
        ]
        if any(_near(float(given[2 if given[0] else 1]), one, 1e-6) for one in right):
            return line_computed(run, node.inputs[0])
    return None


def _line_of_step(run: Run, link: HistoryStep) -> int | None:
    """A step's line; where a constant has a line of its own, and so a name, that line."""
    node = run.tape.nodes[link.node]
    constants = (one for one in (_computed(run, i) for i in node.inputs) if not one.inputs and one.size == 1)
    return next((one.line for one in constants if one.line and one.op not in GIVEN), node.line)


def _line_of_distance(run: Run, shift: Node) -> int | None:
    """Where the distance of a shift was computed; the shift's own line where words of another tensor are shifted by it as well."""
    data, distance = shift.inputs
    made, sources = _computed(run, distance), run.provenance.sources(data)
    others = (node for node in run.tape.nodes if node.op in SHIFTS and len(node.inputs) == 2)
    shared = any(
        _computed(run, other.inputs[1]) is made and not sources & run.provenance.sources(other.inputs[0])
        for other in others
        if run.provenance.sources(other.inputs[0])
    )
    return shift.line if shared and made.inputs else made.line


def _line_of_other_word(run: Run, links: list[HistoryStep], shift: HistoryStep, bits: int) -> int | None:
    """Where a word was changed, if the same shift would have brought the right bits of the one that was loaded."""
    node = run.tape.nodes[shift.node]
    at = spread(run.tape.nodes[node.inputs[1]], node.shape, np.array([shift.lane]))
    distance = int(run.provenance.values(node.inputs[1]).reshape(-1)[at][0])
    changed = next((link for link in links[: links.index(shift)] if link.value != links[0].value), None)
    word = int(links[0].value) if np.isfinite(links[0].value) else 0
    return (
        changed.line if changed and node.op != "shl" and 0 <= distance < 32 and word >> distance & 15 == bits else None
    )


def _near(value: float, right: float, room: float) -> bool:
    return abs(value - right) <= room * max(1.0, abs(right))


def _line_of_cut(run: Run, links: list[HistoryStep], bits: int) -> int | None:
    """Where four bits of a word were cut out wrongly: the distance of a shift whose lowest four are masked out next, if these are not
    `bits`, else the table that they are looked up in; or a shift that nothing masks."""
    for at, (shift, masked) in enumerate(itertools.pairwise(links)):
        if shift.op in SHIFTS and masked.op == "and" and masked.done.endswith(f"& 15 = {digits(masked.value)}"):
            if masked.value != bits:
                return _line_of_other_word(run, links, shift, bits) or _line_of_distance(
                    run, run.tape.nodes[shift.node]
                )
            table = next((link for link in links[at + 2 :] if link.op == "gather"), None)
            if table is not None:
                return line_computed(run, run.tape.nodes[table.node].inputs[0])
    cut = [link for link in links if link.op in SHIFTS]
    unmasked = cut and not -16 < cut[-1].value < 16 and not any(link.op == "and" for link in links)
    return cut[-1].line if unmasked else None
