"""Is every product in the sum once, in a type that holds it, and is the sum multiplied by what belongs to it?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from grader.diagnosis.ledger import casts, factors
from grader.diagnosis.ledger.flow import Addend
from grader.diagnosis.ledger.pairs import Pairs, Run
from grader.diagnosis.ledger.provenance import Array
from grader.labs.bound import U_FP16, U_FP32, additions
from grader.labs.divergence import CAST, SUM, Divergence

LOOSE = 6.0
"""A flow is understood when what was read off it lies within so many bounds of what was stored: casts round too."""


def look(run: Run, pairs: Pairs, held: Array) -> tuple[list[Divergence], bool]:
    """Findings on accumulation, casts and factors; and whether the flow explains what was stored.

    held: [E, P], factors that the operands have in them already.
    """
    findings = _stale(run, pairs)
    if findings is None:
        return [], False
    if not findings:
        narrowed = _narrowed(run, pairs)
        if narrowed is None:
            return [], False
        findings = narrowed
    return _multiplied(run, pairs, held, findings), True


def _stale(run: Run, pairs: Pairs) -> list[Divergence] | None:
    """What Y held before, in the sum; None where something else is added that is no product."""
    others = [addend for addend in pairs.flow.addends if run.lab.output not in addend.sources]
    if others:
        return _scale_added(run, pairs, others)
    return [
        Divergence("unwritten_or_stale", SUM, addend.line, "the result is added to what Y held before", "the result alone",
                   "Y arrives uninitialised", pairs.program)
        for addend in pairs.flow.addends
    ]  # fmt: skip


def _scale_added(run: Run, pairs: Pairs, addends: Sequence[Addend]) -> list[Divergence] | None:
    """Scales that are added and multiply nothing; None where anything else is added too."""
    plain = {scale.tensor for scale in run.stages.scales if scale.at is None}
    used = {tensor for term in pairs.flow.terms for factor in term.factors for tensor in factor.sources}
    first, subtracted = addends[0], run.stages.subtracted
    if subtracted and all(addend.sources == {subtracted} for addend in addends):
        short, e = subtracted.removesuffix("_ptr"), int(np.abs(first.values).argmax())
        return [Divergence("zero_added_to_sum", SUM, first.line,
                           f"{first.values[e]:.4g}, which is of {short} alone, is added to the sum for Y[{pairs.m[e]}, {pairs.n[e]}]",
                           f"{short} multiplied by X and by the scale", "what is subtracted from the sum for the zero points has to be "
                           "multiplied by the elements of X and by the scale, as the weights are", pairs.program)]  # fmt: skip
    if not all(addend.sources and addend.sources <= plain - used for addend in addends):
        return None
    names = sorted(tensor.removesuffix("_ptr") for tensor in first.sources)
    e, those = int(np.abs(first.values).argmax()), " and ".join(names)
    added = f"{first.values[e]:.4g}"
    reason = f"{those} {'multiplies the sum and is' if len(names) == 1 else 'multiply the sum and are'} not added to it"
    return [Divergence("scale_added", SUM, first.line, f"Y[{pairs.m[e]}, {pairs.n[e]}] is the sum + {added}, which is of {those}",
                       f"the sum * {added}", reason, pairs.program)]  # fmt: skip


def _narrowed(run: Run, pairs: Pairs) -> list[Divergence] | None:
    """The type that could not hold a value, where the products do not add up to what was stored; None where nothing says why."""
    flow = pairs.flow
    with np.errstate(all="ignore"):
        predicted = flow.predicted
        bound = U_FP16 * np.abs(predicted) + 2 * additions(max(1, pairs.turn.size)) * U_FP32 * flow.size + 1e-6
        apart = np.abs(predicted - flow.stored)
    same = np.isnan(predicted) & ~np.isfinite(flow.stored)
    far = ~(same | (apart <= 1.2 * bound))
    if not far.any():
        return []
    narrow = casts.fraction_lost(run, pairs) or casts.wrapped_product(run, pairs)
    narrow = narrow or casts.coarse_product(run, pairs) or casts.wrapped(run, pairs) or casts.cast(run, pairs, far)
    if narrow:
        return [narrow]
    return [] if float((same | (apart <= LOOSE * bound)).mean()) >= 0.98 else None


def _multiplied(run: Run, pairs: Pairs, held: Array, findings: list[Divergence]) -> list[Divergence]:
    """The findings, less those that follow from a wrong factor, and what is wrong with the factors."""
    along_k = factors.along_k_of(run, pairs)
    belonging = np.prod(list(along_k.values()), axis=0) if along_k else np.ones_like(held)
    totals = factors.totals_of(pairs, held / belonging)
    repeated = _repeated(run, pairs, totals)
    if along_k and not repeated:  # `held` makes up for every factor there
        repeated = _repeated(run, pairs, factors.totals_of(pairs, 1 / belonging))
    if repeated:  # what it multiplies overflows for that reason
        return [*(finding for finding in findings if finding.rank != CAST), *repeated]
    if any(finding.rank == SUM and finding.name != "unwritten_or_stale" for finding in findings):
        return findings
    wrong = factors.look(run, pairs, totals, held, along_k)
    if wrong:  # a sum that lacks its scale overflows for that reason
        findings = [finding for finding in findings if finding.name != "fp16_overflow"]
    return [*findings, *wrong]


def _repeated(run: Run, pairs: Pairs, totals: Sequence[Array]) -> list[Divergence]:
    """Sums that the loop multiplies, or adds to themselves."""
    terms = pairs.flow.terms
    if len(terms) < 2:
        return []
    first, last = totals[0], totals[-1]
    known = np.isfinite(first) & np.isfinite(last) & (last != 0)
    turns = int(pairs.turn.max())
    if not known.any() or turns < 1:
        return []
    ratio = first[known] / last[known]
    if np.allclose(ratio, 1.0, rtol=1e-3):
        return []
    if pairs.flow.doubled and np.allclose(ratio, times := 2.0 ** np.round(np.log2(np.abs(ratio[0]))), rtol=1e-6):
        node = min(pairs.flow.doubled)
        into_dot = any(one.op == "dot" and one.inputs[2:] == (node,) for one in run.tape.nodes[node:])
        reason = "the accumulator is given to tl.dot and added to its result as well" if into_dot else "the accumulator is added to itself"
        return [Divergence("accumulated_twice", SUM, run.tape.nodes[node].line, f"the product of turn 0 is {times:.0f} times in the sum",
                        "once", reason, pairs.program)]  # fmt: skip
    per_turn = np.abs(ratio) ** (1.0 / turns)
    wanted = factors.wanted_of(run, pairs)[known]
    line = terms[0].factors[-1].line if terms[0].factors else terms[-1].line
    if terms[0].factors and len(terms[0].factors) > len(terms[-1].factors):
        along_k = frozenset(scale.tensor for scale in run.stages.scales if scale.at is not None)
        if along_k:
            scaled = "scales" if sum(bool(factor.sources & along_k) for factor in terms[0].factors) > 1 else "a factor"
        else:
            scaled = "the scales" if np.allclose(per_turn, wanted, rtol=1e-2) else "a factor"
        return [Divergence("scaled_every_turn", SUM, line,
                        f"the sum is multiplied by {scaled} in each turn: turn 0 has the factor {first[known][0]:.3g}, "
                        f"the last turn {last[known][0]:.3g}" + (", beside the scale of its own group" if along_k else ""),
                        "one factor for all turns", "the sum is scaled inside the loop, each turn again", pairs.program)]  # fmt: skip
    return []
