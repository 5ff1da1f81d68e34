"""Does a side move on along K from turn to turn as it should?"""

from __future__ import annotations

import numpy as np

from grader.diagnosis.ledger.masks import compared, turned
from grader.diagnosis.ledger.pairs import Pairs, Run, Side, expected_rows, side_words, span
from grader.diagnosis.ledger.turns import asked_by_turn, k_span
from grader.labs.divergence import ADVANCE, LOAD, Divergence


def drifting(run: Run, pairs: Pairs, e: int, turn: int, *, started: bool) -> Divergence | None:
    """The steps of both sides from turn to turn differ. started: they begin alike; if not, only that one of them stays is told."""
    unit = pairs.right.operand.unit
    moved = []
    for side in (pairs.left, pairs.right):
        asked = asked_by_turn(pairs, side, e)
        if not len(asked[0]) or len(asked[turn]) != len(asked[0]):
            return None
        steps = np.unique(asked[turn] - asked[0])
        if len(steps) != 1:
            return None
        moved.append(int(steps[0]) // turn)
    if 0 not in moved and (not started or run.stages.needed is not None):  # blocks are as far apart as they please
        return None
    if not started and run.stages.needed is not None:  # of blocks that begin wrongly their rules tell
        return None
    side = pairs.left if moved[0] == 0 else pairs.right
    name = "k_not_advanced" if 0 in moved else "words_advanced_too_far" if unit > 1 and moved[1] == unit * moved[0] else "advanced_wrongly"
    return Divergence(
        name, ADVANCE, run.line_of_load(int(side.node[0]), side.operand.tensor),
        f"from turn {turn - 1} to turn {turn} X moves on by {moved[0]} of k, and W by {moved[1]}", "the same step on both sides",
        f"the pointers of {side.operand.letter} do not advance" if 0 in moved else _steps_apart(run, pairs, e, moved), pairs.program, turn,
    )  # fmt: skip


def _steps_apart(run: Run, pairs: Pairs, e: int, moved: list[int]) -> str:
    """The words for sides that move on by different steps, X by moved[0] of k and W by moved[1]."""
    unit, split = pairs.right.operand.unit, run.config.split_k
    depth = len(np.unique(asked_by_turn(pairs, pairs.left, e)[0]))
    if unit > 1 and moved[1] == unit * moved[0]:
        return (f"the words of W move on by {moved[0]} a turn, as many as X moves on by of k; a word holds {unit} of k, so k has to be "
                f"divided by {unit} for the row of words")  # fmt: skip
    if split > 1 and sorted(moved) == [depth, depth * split]:
        behind, ahead = ("X", "W") if moved[0] == depth else ("W", "X")
        return (f"{ahead} moves on by a tile for each of the {split} slices, {depth} * {split}, and {behind} by one tile, {depth}: SPLIT_K "
                f"is in the step of {ahead} alone")  # fmt: skip
    return "the pointers of X and of W move on by different steps along K"


def advance(run: Run, pairs: Pairs, side: Side, e: int) -> Divergence | None:
    """How a side's k moves from turn to turn, against how it should."""
    asked = asked_by_turn(pairs, side, e)
    unit = side.operand.unit
    first = np.unique(asked[0])
    if not len(first):
        return None
    step = len(first) * unit
    letter, word = side.operand.letter, side_words(side, pairs)
    live = side.live[e] & pairs.alive[e]
    for turn, ks in enumerate(asked):
        wanted = first + turn * step
        here = np.unique(ks)
        line = run.line_of_load(int(side.node[np.flatnonzero(pairs.turn == turn)[0]]), side.operand.tensor)
        if np.array_equal(here, wanted):
            masked = ~live & (pairs.turn == turn) & (side.k[e] < run.sizes[2]) & side.asked[e]
            masked &= ~np.isin(side.k[e], side.k[e][live & (pairs.turn == turn)])
            if masked.any() and turned(run, side, int(np.flatnonzero(masked)[0])):
                return Divergence(
                    "mask_turned", LOAD, line,
                    f"for Y[{pairs.m[e]}, {pairs.n[e]}] the mask leaves out k = {span(side.k[e][masked])} of {letter}",
                    f"all k below K = {run.sizes[2]}",
                    "the mask has rows and columns exchanged: it is cut along one axis where the tile ends along the other",
                    pairs.program, turn,
                )  # fmt: skip
            if masked.any():
                return Divergence(
                    "k_mask_too_short", ADVANCE, line,
                    f"the mask leaves out k = {span(side.k[e][masked])} of {letter}"
                    f"{compared(run, side, int(np.flatnonzero(masked)[0]))}", f"all k below K = {run.sizes[2]}",
                    "the mask of the loads ends before K does", pairs.program, turn,
                )  # fmt: skip
            continue
        held = f"k = {k_span(here, unit)} of {letter}"
        wanted_words = f"k = {k_span(wanted[wanted < run.sizes[2]], unit)}"
        if turn == 0:
            return Divergence("k_starts_elsewhere", ADVANCE, line, f"the {word} operand holds {held}",
                           f"k = 0:{step}", "the first turn does not begin at k = 0", pairs.program, turn)  # fmt: skip
        if np.array_equal(here, first):
            return Divergence("k_not_advanced", ADVANCE, line, f"the {word} operand holds {held} again", wanted_words,
                           f"the pointers of {letter} do not advance", pairs.program, turn)  # fmt: skip
        if len(here) == len(first) and len(set((here - first).tolist())) == 1:
            moved = int(here[0] - first[0]) // turn
            if moved * turn == int(here[0] - first[0]):
                name = "advanced_by_one" if moved == 1 else "words_advanced_too_far" if unit > 1 and moved > step else "advanced_wrongly"
                reason = f"the pointers of {letter} move on by {moved} of k a turn, a tile is {step} deep"
                if unit > 1:
                    reason = f"the pointers of {letter} move on by {moved // unit} words a turn, a tile is {step // unit} words deep"
                    reason += f": that is a step of k, not divided by the {unit} that a word holds" if moved == step * unit else ""
                if unit == 1 and (unstrided := _without_stride(run, side, moved, step)):
                    return Divergence(
                        f"ignores_{unstrided}", ADVANCE, line, f"the {word} operand asks for {held}", wanted_words,
                        f"the pointers of {letter} move on by {step} elements a turn, {step} steps along K are "
                        f"{step * run.problem.scalars[unstrided]}: {unstrided} is not used", pairs.program, turn, strides=True,
                    )  # fmt: skip
                if (rows := _rows_moved(run, side, moved)) is not None:
                    noun, own = "row" if side.operand is run.stages.left else "channel", int(expected_rows(pairs, side)[e, 0])
                    reason = f"the pointers of {letter} move on by {rows} {noun}s a turn, and not along K"
                    held = f"k = {k_span(first, unit)} of {noun} {own + rows * turn} of {letter}"
                    wanted_words = f"{wanted_words} of {noun} {own}"
                return Divergence(name, ADVANCE, line, f"the {word} operand asks for {held}", wanted_words, reason,
                               pairs.program, turn)  # fmt: skip
        return Divergence("advanced_wrongly", ADVANCE, line, f"the {word} operand asks for {held}", wanted_words,
                       f"{letter} does not move on by one tile a turn", pairs.program, turn)  # fmt: skip
    return None


def _without_stride(run: Run, side: Side, moved: int, step: int) -> str:
    """The stride along K that a step lacks which is right but for it; "" where it is something else."""
    name = side.operand.strides[-1] if side.operand.strides else ""
    along_k = run.problem.scalars[name] if name else 1
    return name if along_k > 1 and moved * along_k == step else ""


def _rows_moved(run: Run, side: Side, moved: int) -> int | None:
    """By how many rows of X, or channels of W, pointers really move that seem to move by this much of k; None where along k."""
    if len(side.operand.strides) != 2:
        return None
    along_row, along_k = (run.problem.scalars[name] for name in side.operand.strides)
    elements = moved // side.operand.unit * along_k
    return None if along_row <= along_k or elements % along_row else elements // along_row
