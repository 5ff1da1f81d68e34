"""Do the operands hold the right numbers? The lab's judges say, and the history of one element tells the line."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from grader.diagnosis.ledger.history import Link, history, told
from grader.diagnosis.ledger.pairs import Pairs, Run, Side, beside, holder, k_in_order, scales_passed, scales_used
from grader.diagnosis.ledger.provenance import Array, Untraceable
from grader.labs.divergence import CONVERT, FACTOR, SCALE, Divergence
from grader.labs.stages import Judgement, Values


def look(run: Run, pairs: Pairs) -> tuple[list[Divergence], Array]:
    """What is wrong with the operands' values, and the factors that they hold beside them: [E, P]."""
    findings: list[Divergence] = []
    held = np.ones(pairs.left.value.shape)
    M, N, K = run.sizes
    passed, others = scales_passed(run, pairs), beside(run, pairs)
    elements = np.arange(len(pairs.m))[:, None]
    for side, judge in ((pairs.left, run.stages.judge_left), (pairs.right, run.stages.judge_right)):
        other = pairs.right if side is pairs.left else pairs.left
        rows = M if side is pairs.left else N
        use = side.live & pairs.alive & (side.row >= 0) & (side.row < rows) & (side.k >= 0) & (side.k < K)
        if not use.any():
            continue
        used = {tensor: found[use] for tensor, found in scales_used(run, side).items()}
        same = other.live & (other.k // side.operand.unit == side.k // side.operand.unit)
        apart = side.operand.unit > 1 and bool((other.live & use & ~same).any())  # then other words agree by chance alone
        partner = np.where(same & (not apart), other.k, k_in_order(pairs, side))
        target = np.broadcast_to((pairs.m if side is pairs.left else pairs.n)[:, None], use.shape)
        at = (elements, np.clip(partner, 0, K - 1))
        values = Values(
            side.value[use], side.row[use], side.k[use], partner[use], same[use], target[use], used,
            pairs.factor[use], {tensor: found[use] for tensor, found in passed.items()},
            others.weight[at][use], {tensor: found[at][use] for tensor, found in others.used.items()},
        )  # fmt: skip
        verdicts, factor = judge(run.problem, values)
        held[use] *= factor
        places = np.argwhere(use)
        findings += [finding for verdict in verdicts if (finding := _finding(run, pairs, side, verdict, places))]
    return findings, held


def _finding(run: Run, pairs: Pairs, side: Side, verdict: Judgement, places: Array) -> Divergence | None:
    at = np.flatnonzero(verdict.wrong)
    if not len(at):
        return None
    first = int(at[0])
    e, p = (int(i) for i in places[first])
    found, expected = verdict.describe((first,))
    if not verdict.reason and (way := told(_way(run, int(side.node[p]), int(side.lanes[e, p]), side.operand.tensor))):
        found = f"{found} ({way})"
    before = None if verdict.before is None else float(verdict.before[first])
    line = _line_of(run, pairs, side, e, p, verdict) if verdict.tensor else _line(run, pairs, side, e, p, before, verdict.rank)
    return Divergence(verdict.name, verdict.rank, line, found, expected, verdict.reason, pairs.program, int(pairs.turn[p]))


def _line_of(run: Run, pairs: Pairs, side: Side, e: int, p: int, verdict: Judgement) -> int | None:
    """Where another tensor's element was loaded, or, for what became of it, the last line that changed it before it met others."""
    held = holder(run, pairs, side, e, p, verdict.tensor)
    if held is None:
        return pairs.flow.terms[int(pairs.term[p])].line
    if verdict.rank in (SCALE, FACTOR):
        return run.line_of_load(held[0], verdict.tensor)
    links = _way(run, *held, verdict.tensor)
    alone = [link for link in links if run.provenance.sources(link.node) <= {verdict.tensor}]
    return _last_change(alone) or run.line_of_load(held[0], verdict.tensor)


def _line(run: Run, pairs: Pairs, side: Side, e: int, p: int, before: float | None, rank: int) -> int | None:
    """Where the element stopped being `before`; without it, the last line that changed it, or that brought the scale."""
    links = _way(run, int(side.node[p]), int(side.lanes[e, p]), side.operand.tensor)
    if not links:
        return pairs.flow.terms[int(pairs.term[p])].line
    scales = {scale.tensor for scale in run.stages.scales}
    brought = next((link for link in links if rank == SCALE and scales & run.provenance.sources(link.node)), None)
    if brought:
        return brought.line
    left = None if before is None else _left(links, before)
    if left:
        return left.line
    if before is not None and rank == CONVERT and not any(_near(link.value, before) for link in links[:-1]):
        return links[-1].line
    return _last_change(links) or links[-1].line


def _way(run: Run, number: int, lane: int, tensor: str) -> list[Link]:
    """The way of one element from its load; nothing where it cannot be told."""
    try:
        return history(run.tape, run.provenance, number, lane, tensor)
    except (Untraceable, ValueError):
        return []


def _last_change(links: Sequence[Link]) -> int | None:
    changed = [later.line for earlier, later in itertools.pairwise(links) if later.value != earlier.value]
    return changed[-1] if changed else None


def _near(value: float, other: float) -> bool:
    return abs(value - other) <= 1e-2 * max(1.0, abs(other))


def _left(links: Sequence[Link], before: float) -> Link | None:
    """The first link that is no longer near `before`, and whose forerunner is."""
    far = 1e-2 * max(1.0, abs(before))
    both = itertools.pairwise(links)
    return next((later for earlier, later in both if _near(earlier.value, before) and abs(later.value - before) > far), None)
