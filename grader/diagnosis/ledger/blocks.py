"""Does every element of X meet the block that belongs to it? By the lab's own rules for pairs that should not meet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from grader.diagnosis.ledger.pairs import Pairs, Run, Side
from grader.diagnosis.ledger.provenance import Array, Untraceable, offsets_of
from grader.diagnosis.ledger.rows import reshaped
from grader.labs.divergence import LOAD, PAIR, Divergence
from grader.labs.stages import NO_ELEMENT, UNKNOWN_ELEMENT, Blocks, Rule, RuleMatches


def followed(run: Run, programs: Sequence[Pairs]) -> frozenset[Rule]:
    """The lab's rules that all programs follow whose pairs are wrong in the rule's aspect, one of them tellingly.

    A rule that a program follows by chance is not followed by those of other rows and columns of tiles.
    """
    found = [bad[1] for pairs in programs if (bad := _bad_blocks(run, pairs))]
    every: set[Rule] = set()
    for rule in {replace(rule, telling=True) for rules in found for rule in rules.holding}:
        asked = [rules for rules in found if rule.aspect in rules.asked]
        alike = [[other for other in rules.holding if replace(other, telling=True) == rule] for rules in asked]
        if all(alike) and any(other.telling for others in alike for other in others):
            every.add(rule)
    return frozenset(every)


def _bad_blocks(run: Run, pairs: Pairs) -> tuple[Array, RuleMatches] | None:
    """The pairs that should not meet, bool [E, P], and the rules that all pairs follow; None where all are as they should be."""
    if run.stages.explain_block is None:
        return None
    right, unit = pairs.right, pairs.right.operand.unit
    live = pairs.left.live & right.live & pairs.alive
    first = None
    for left_k, astray in _places_of_left(run, pairs, live):
        bad = live & ((right.row != pairs.n[:, None]) | (right.k // unit != left_k // unit) | astray)
        if bad.any():
            found = bad, run.stages.explain_block(run.problem, _blocks(pairs, live, left_k, looked_up_by(run, pairs.left)))
            if found[1].holding:
                return found
            first = first or found
    return first


def _places_of_left(run: Run, pairs: Pairs, live: Array) -> Iterator[tuple[Array, Array]]:
    """k of the left elements, and whether they are in foreign rows: as they would be in their own rows, then as memory has them.

    Where an index leads behind the end of a row, the next one lies there.
    """
    left = pairs.left
    astray = live & (left.row != pairs.m[:, None])
    if left.operand.index and left.operand.strides and astray.any():
        along_row, along_k = (run.problem.scalars[name] for name in left.operand.strides)
        k, rest = np.divmod(left.offset - pairs.m[:, None] * along_row, along_k)
        if not rest[live].any():
            yield k, astray
    yield left.k, np.zeros(live.shape, dtype=bool)


def _blocks(pairs: Pairs, live: Array, left_k: Array, looked_up: Array) -> Blocks:
    """A pair whose k happens to agree follows the mistaken rule too, so all pairs are asked, not the bad ones only."""
    left, right = pairs.left, pairs.right
    m, n, turn = (np.broadcast_to(some, live.shape)[live] for some in (pairs.m[:, None], pairs.n[:, None], pairs.turn))
    return Blocks(m, n, left_k[live], left.offset[live], right.offset[live], right.row[live], right.k[live], turn, looked_up[live])


def looked_up_by(run: Run, side: Side) -> Array:
    """[E, P]: the element of the operand's index that each address comes from, UNKNOWN_ELEMENT where these are several."""
    found = np.full(side.offset.shape, NO_ELEMENT, dtype=np.int64)
    for number in dict.fromkeys(side.node.tolist()) if side.operand.index else ():
        here = side.node == number
        found[:, here] = _elements_looked_up(run, int(number), side, side.offset[:, here])
    return found


def _elements_looked_up(run: Run, number: int, side: Side, offsets: Array) -> Array:
    """Of which elements of the index the load behind a node made these offsets."""
    load = next((node for node in run.way_to_load(number, side.operand.tensor) if node.op == "load"), None)
    if load is None or load.offsets is None:
        return np.full(offsets.shape, UNKNOWN_ELEMENT, dtype=np.int64)
    try:
        origin = run.provenance.origin(load.inputs[0], side.operand.index, masked=False)
    except Untraceable:
        return np.full(offsets.shape, UNKNOWN_ELEMENT, dtype=np.int64)
    if origin is None:
        return np.full(offsets.shape, NO_ELEMENT, dtype=np.int64)
    asked, elements = load.offsets.reshape(-1), offsets_of(np.broadcast_to(origin, load.shape)).reshape(-1)
    places, which = np.unique(asked, return_inverse=True)
    lowest, highest = np.full(len(places), np.iinfo(np.int64).max), np.full(len(places), np.iinfo(np.int64).min)
    np.minimum.at(lowest, which, elements)
    np.maximum.at(highest, which, elements)
    each = np.where(lowest == highest, lowest, UNKNOWN_ELEMENT)
    at = np.clip(np.searchsorted(places, offsets), 0, len(places) - 1)
    return np.where(places[at] == offsets, each[at], UNKNOWN_ELEMENT)


def look(run: Run, pairs: Pairs, rules: frozenset[Rule]) -> list[Divergence]:
    """The lab's own rules for pairs that should not meet. Wrong rows explain wrong columns."""
    found = _bad_blocks(run, pairs)
    if found is None:
        return []
    bad, holding = found
    by_aspect: dict[str, list[Rule]] = {}
    for rule in holding.holding:
        if replace(rule, telling=True) in rules:
            by_aspect.setdefault(rule.aspect, []).append(rule)
    if "row" in by_aspect:
        by_aspect.pop("columns", None)
    return [divergence for alike in by_aspect.values() if (divergence := _met(run, pairs, bad, alike))]


def _met(run: Run, pairs: Pairs, bad: Array, alike: Sequence[Rule]) -> Divergence | None:
    """The first pair that shows rules of one aspect, of which the first is told; None where no pair does. bad: bool [E, P]."""
    rule, names = alike[0], " or ".join(dict.fromkeys(rule.name for rule in alike))
    left, right = pairs.left, pairs.right
    side = left if rule.name.startswith(("x_", "col_")) else right
    other_block = (right.row != pairs.n[:, None]) | (right.k != left.k)
    bad = _showing(run, pairs, bad) if side is left else bad & other_block
    if not bad.any():
        return None
    later = bad & (pairs.turn > 0)
    e, p = (int(i) for i in np.argwhere(later if rule.later and later.any() else bad)[0])
    expected = f"W[{pairs.n[e]}, {left.k[e, p]}]"
    if side is left and left.row[e, p] != pairs.m[e]:
        expected = f"X[{pairs.m[e]}, {right.k[e, p]}]"
    return Divergence(
        names, LOAD if rule.aspect == "row" or side is left else PAIR, _line(run, pairs, side, rule, p),
        f"for Y[{pairs.m[e]}, {pairs.n[e]}], X[{left.row[e, p]}, {left.k[e, p]}] meets {_element(run, right, e, p)}",
        expected, rule.reason, pairs.program, int(pairs.turn[p]),
    )  # fmt: skip


def _showing(run: Run, pairs: Pairs, bad: Array) -> Array:
    """Those of the bad pairs, bool [E, P], whose columns of X are not the block's, if any are: the others show a place in a block."""
    values = run.problem.tensors[pairs.right.operand.tensor]
    wide = int(values.shape[-1]) if values.dim() == 3 else 0
    apart = bad & (pairs.left.k // wide != pairs.right.k // wide) if wide else bad
    return apart if apart.any() else bad


def _line(run: Run, pairs: Pairs, side: Side, rule: Rule, p: int) -> int | None:
    if rule.aspect == "inside":
        return pairs.flow.terms[int(pairs.term[p])].line
    if rule.tensor:
        nodes = (run.tape.nodes[number] for number in run.tape.programs[pairs.program])
        lines = list(dict.fromkeys(node.line for node in nodes if node.op == "load" and node.tensor == rule.tensor))
        return lines[-1 if rule.last else 0] if lines else None
    if rule.aspect == "words" and (line := _reordered(run, pairs, side)):
        return line
    return run.line_of_load(int(side.node[p]), side.operand.tensor)


def _reordered(run: Run, pairs: Pairs, side: Side) -> int | None:
    """The line of a reshape behind a load that takes every word once: then it is not the load that puts them in a wrong order."""
    line = reshaped(run, pairs, side)
    load = next((node for node in run.way_to_load(int(side.node[0]), side.operand.tensor) if node.op == "load"), None)
    if line is None or load is None or load.offsets is None:
        return None
    asked = load.offsets[load.active].reshape(-1)
    return line if len(np.unique(asked)) == asked.size else None


def _element(run: Run, side: Side, e: int, p: int) -> str:
    if side.row[e, p] >= 1 << 29:
        return f"what lies {side.offset[e, p]} elements behind the first of {side.operand.tensor.removesuffix('_ptr')}"
    k, unit = int(side.k[e, p]), side.operand.unit
    if unit > 1:  # which element of it, the pair does not say
        return f"the word of {side.operand.letter}[{side.row[e, p]}, {k}:{k + unit}]"
    return f"{side.operand.letter}[{side.row[e, p]}, {k}]"
