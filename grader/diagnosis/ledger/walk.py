"""The walk along the flow of one recorded launch: every divergence, in the order in which to put them right.

Each stage is compared with what it should make of the inputs that it really had, so that one mistake does not hide
or imitate the next. Only elements of Y that are wrong are asked about, and a program whose stored values the reading
of its flow does not reproduce says nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from grader.diagnosis.ledger import (
    addresses,
    blocks,
    casts,
    destinations,
    elsewhere,
    kept,
    leftover,
    operands,
    slices,
    sums,
    tiles,
)
from grader.diagnosis.ledger.pairs import Pairs, Run, in_parts, lasting, pairs_of, read_back, sample, stores_to_output
from grader.diagnosis.ledger.provenance import Untraceable
from grader.diagnosis.ledger.settling import of_one_launch, ordered
from grader.diagnosis.ledger.tape import Node
from grader.labs.divergence import FACTOR, SCALE, TILE, Divergence
from grader.labs.stages import Rule

MAX_PROGRAMS = 12
MISSING = ("no_scale", "no_rescale", "input_scale_forgotten", "weight_scale_forgotten")
"""What it is called that a scale is missing altogether."""


Followed = tuple[int, list[Node], Pairs]
"""A program, its stores to Y, and the products behind a sample of what a store leaves."""


def walk(run: Run) -> list[Divergence]:
    """All divergences of a launch, first ones of the flow first, each name once."""
    findings, followed, guessed = _put_right(run, list(_followed(run)))
    whole = [_with_lost(run, *one) for one in followed]
    rules = blocks.followed(run, [pairs for _, pairs in whole])
    for (program, stores, pairs), (lost, everything) in zip(followed, whole, strict=True):
        with contextlib.suppress(Untraceable):
            findings += _look(run, program, stores, pairs, lost, everything, rules)
    findings = [_of_one_slice(run, finding, findings, followed) for finding in findings]
    placed = not any(finding.begins for finding in findings)  # else the slices of one tile are not told from those of another
    if run.ended and placed and (run.config.split_k > 1 or any(in_parts(stores) for _, stores, _ in followed)):
        with contextlib.suppress(Untraceable):
            findings += slices.look(run, [pairs for _, pairs in whole])
    if not findings and (absent := kept.without_operand(run)):
        findings = [absent]
    return ordered(of_one_launch(findings, guessed=guessed))


def _of_one_slice(run: Run, finding: Divergence, findings: list[Divergence], followed: list[Followed]) -> Divergence:
    """A scale that is missing in this program, while another slice of K has it."""
    if run.config.split_k == 1 or finding.name not in MISSING:
        return finding
    amiss = {one.program for one in findings if one.rank == FACTOR}
    scales = {scale.tensor for scale in run.stages.scales if scale.at is None}
    if not any(scales & factor.sources for program, _, pairs in followed if program not in amiss
               for term in pairs.flow.terms for factor in term.factors):  # fmt: skip
        return finding
    reason = f"{finding.reason} in this slice of K, and other slices have it: a factor belongs to the share of each of them"
    return replace(finding, reason=reason)


def _put_right(run: Run, followed: list[Followed]) -> tuple[list[Divergence], list[Followed], bool]:
    """What is wrong with where Y is stored, and the products as they would be without; whether the rows were guessed for that.

    Of a program that multiplies nothing it is not known then which place was meant, so it is left out.
    """
    pairs_of_all = [pairs for _, _, pairs in followed]
    multiplying = [one for one in followed if one[2].turn.size]
    if stored := destinations.misplaced(run, pairs_of_all):  # where things lie in Y then says nothing of tiles and masks
        finding, used = stored
        return [finding], [(program, stores, destinations.restored(run, pairs, used)) for program, stores, pairs in multiplying], False
    if beside := destinations.beside(run, pairs_of_all):
        finding, axes = beside
        return [finding], [(program, stores, destinations.moved_back(run, pairs, axes)) for program, stores, pairs in multiplying], True
    if not run.ended:
        return [], followed, False
    shared_out = tiles.look(run)
    amiss = any(finding.rank == TILE for finding in shared_out)
    if moved := elsewhere.look(run, pairs_of_all, amiss=amiss):
        return [moved], [(program, stores, elsewhere.moved_back(run, pairs)) for program, stores, pairs in multiplying], True
    return [*shared_out, *tiles.past_the_ends(run)], multiplying if amiss else followed, False


def readable(run: Run) -> bool:
    """Whether the flow of any program can be followed."""
    return any(True for _ in _followed(run))


def _followed(run: Run) -> Iterator[Followed]:
    count = 0
    for program in _spread(list(run.tape.programs)):
        if count >= MAX_PROGRAMS:
            return
        stores = stores_to_output(run, program)
        if read_back(run, program, stores):
            continue
        for store in lasting(stores):
            lanes = sample(run, store)
            if len(lanes):
                with contextlib.suppress(Untraceable):
                    yield program, stores, pairs_of(run, program, store, lanes)
                    count += 1


def _spread(programs: list[int]) -> list[int]:
    """The first eight, which may be slices of one tile, then some of all others, so that all kinds of tiles are met."""
    rest = programs[8:]
    step = max(1, len(rest) // 4)
    some = rest[::-step]
    return [*programs[:8], *some, *(program for program in rest if program not in some)]


def _with_lost(run: Run, program: int, stores: list[Node], pairs: Pairs) -> tuple[Divergence | None, Pairs]:
    """What is wrong with products that reach no store, and the pairs with theirs."""
    lost = kept.not_kept(run, pairs, program, stores)
    if lost is None:
        return None, pairs
    with contextlib.suppress(Untraceable):
        more = pairs_of(run, program, pairs.store, pairs.flow.lanes, lost=kept.dropped(run, program, stores))
        pairs = replace(more, m=pairs.m, n=pairs.n)
    return lost, pairs


def _look(
    run: Run, program: int, stores: list[Node], pairs: Pairs, lost: Divergence | None, everything: Pairs, rules: frozenset[Rule]
) -> list[Divergence]:  # fmt: skip
    """lost, everything: as _with_lost has them."""
    left_over = destinations.left_over(run, pairs, stores)
    if left_over:  # nothing else of this tile is certain before
        return [left_over]
    whole = run.config.split_k == 1 and not in_parts(stores)
    kept_on = kept.kept_on(run, pairs)
    if kept_on:  # whose factors are those of several turns
        return [*addresses.look(run, pairs, rules, whole=whole), kept_on]
    values, held = operands.look(run, pairs)
    summed, explained = sums.look(run, pairs, held)
    if not explained:
        return []
    if any(finding.name == "scaled_every_turn" for finding in summed):  # whose scale a product met is then that of several groups
        values = [finding for finding in values if finding.rank != SCALE]
    if not all(finding.reason for finding in values):  # what such an operand holds besides is unknown
        summed = [finding for finding in summed if finding.rank != FACTOR]
    if lost and lost.name == "zeros":  # what is stored is then no sum of products
        summed = []
    if lost and not run.stages.subtracted:  # sums of X that belong to lost products are lost as well
        values, _ = operands.look(run, everything)
    places = addresses.look(run, everything, rules, whole=whole)
    if places:  # values that no known conversion explains may be those of other elements
        values = [finding for finding in values if finding.reason]
    return [*places, *values, *([lost] if lost else []), *summed] or leftover.look(run, pairs) or casts.too_coarse(run, pairs)
