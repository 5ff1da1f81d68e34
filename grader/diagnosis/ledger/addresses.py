"""Do the operands hold the right elements? Strides, blocks and rows against those that are stored; then the summed index."""

from __future__ import annotations

import numpy as np

from grader.diagnosis.ledger import blocks, rows, strides, summed
from grader.diagnosis.ledger.looping import block_left_out
from grader.diagnosis.ledger.masks import lets_through
from grader.diagnosis.ledger.pairs import Pairs, Run, Side, expected_rows, hull, places_in_output, span
from grader.diagnosis.ledger.provenance import Array
from grader.diagnosis.ledger.tile_map import store_tile
from grader.labs.divergence import LOAD, LOOP, Divergence
from grader.labs.stages import Rule


def look(run: Run, pairs: Pairs, rules: frozenset[Rule], *, whole: bool) -> list[Divergence]:
    """What is wrong with the places that the operands' elements come from, in the order of the flow.

    rules: of the lab's, those that all programs follow (see `followed`). whole: this store holds the sum over all of
    K, not a slice of it.
    """
    if not pairs.turn.size:
        return _no_turn(run, pairs)
    overrun = _overrun(run, pairs)
    if overrun:
        return [overrun]
    if walked := [finding for side in (pairs.left, pairs.right) if (finding := strides.look(run, pairs, side))]:
        return walked
    met = blocks.look(run, pairs, rules)
    if met and all(rule.aspect == "inside" for rule in rules):  # the right blocks, so that their number can be looked at
        return [*met, *(one for one in summed.look(run, pairs, whole=whole) if one.rank == LOOP)]
    if met:
        return met
    if beside := [finding for side in (pairs.left, pairs.right) if (finding := rows.look(run, pairs, side))]:
        return beside
    return summed.look(run, pairs, whole=whole)


def _overrun(run: Run, pairs: Pairs) -> Divergence | None:
    """A slice of K that goes on behind K on both sides alike: in memory the next rows lie there."""
    if run.config.split_k == 1 or not (pairs.left.operand.strides and pairs.right.operand.strides):
        return None
    both = pairs.left.live & pairs.right.live & pairs.alive
    k, other = (_k_of_own_row(run, pairs, side) for side in (pairs.left, pairs.right))
    unit = pairs.right.operand.unit
    behind = both & (k >= run.sizes[2])
    if k.size == 0 or not behind.any() or not (k[both] // unit == other[both] // unit).all():
        return None
    p = int(np.flatnonzero(behind.any(axis=0))[0])
    amiss = lets_through(run, pairs.left, p, k[behind]) or "what a slice has behind the end of K is not masked"
    return Divergence(
        "slice_unmasked", LOAD, run.line_of_load(int(pairs.left.node[p]), pairs.left.operand.tensor),
        f"both operands hold k = {span(k[behind])}, which K = {run.sizes[2]} does not have", f"zeros from K = {run.sizes[2]} on",
        f"{amiss}, and memory holds other rows there", pairs.program, int(pairs.turn[p]),
    )  # fmt: skip


def _k_of_own_row(run: Run, pairs: Pairs, side: Side) -> Array:
    """k of the elements of a side if they are counted from the beginning of the row that belongs to them; -1 where they cannot be."""
    along_row, along_k = (run.problem.scalars[name] for name in side.operand.strides)
    k, rest = np.divmod(side.offset - expected_rows(pairs, side) * along_row, along_k)
    found: Array = np.where((rest == 0) & (k >= 0), k * side.operand.unit, -1)
    return found


def _no_turn(run: Run, pairs: Pairs) -> list[Divergence]:
    """Nothing is multiplied for elements of Y that have blocks."""
    tile, (_, n, _) = store_tile(run, pairs.store), places_in_output(run, pairs.store)
    if run.stages.needed is None or tile is None or n[0] % tile[1]:
        return []
    needed = run.stages.needed(run.problem)[np.clip(pairs.n, 0, run.sizes[1] - 1)].any(axis=1)
    if not needed.any():
        return []
    missing = np.flatnonzero(run.stages.needed(run.problem)[min(int(pairs.n[0]), run.sizes[1] - 1)])
    if len(missing) and (left_out := block_left_out(run, pairs, int(pairs.n[0]), missing, pairs.store.line)):
        return [left_out]
    names = "block_count_as_end or last_block_dropped or first_block_dropped or at_most_n_blocks or crow_without_leading_zero"
    return [Divergence(
        names, LOOP, pairs.store.line,
        f"nothing is multiplied for Y[..., {hull(pairs.n)}]", "every block of the row",
        "the loop makes no turn for a block row that has blocks", pairs.program,
    )]  # fmt: skip
