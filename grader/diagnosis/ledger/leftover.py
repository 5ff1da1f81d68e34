"""Does what a mask leaves out add nothing?"""

from __future__ import annotations

import numpy as np

from grader.diagnosis.ledger.pairs import Pairs, Run, Side, side_words
from grader.diagnosis.ledger.provenance import Array
from grader.labs.divergence import WEIGHT, Divergence


def look(run: Run, pairs: Pairs) -> list[Divergence]:
    """Elements that a load leaves out, become something else than zero on the way, and meet elements that are there."""
    for side, other in ((pairs.right, pairs.left), (pairs.left, pairs.right)):
        counts = side.asked & ~side.live & other.live & pairs.alive & (side.value != 0) & (other.value != 0)
        if counts.any():
            return [_counted(run, pairs, side, other, counts)]
    return []


def _counted(run: Run, pairs: Pairs, side: Side, other: Side, counts: Array) -> Divergence:
    e, p = (int(i) for i in np.argwhere(counts)[0])
    what, there = side.operand.letter, other.operand.letter
    line = run.line_of_load(int(side.node[p]), side.operand.tensor)
    return Divergence(
        "masked_out_counts", WEIGHT, line,
        f"where its mask leaves {what} out, the {side_words(side, pairs)} operand holds {side.value[e, p]:.5g} and is multiplied with "
        f"{there}[{other.row[e, p]}, {other.k[e, p]}] = {other.value[e, p]:.5g}",
        "0 on one of the two sides",
        f"what a mask leaves out of {what} is converted like all others, and is no longer 0 then: mask {there} along K as well, or make it "
        "0 at the end, with tl.where", pairs.program, int(pairs.turn[p]),
    )  # fmt: skip
