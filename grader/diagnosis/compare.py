"""compare: one recorded launch -> where its relation deviates from what the lab says, in the order of the flow.

Each column is compared with what belongs to what really stood in the columns before it, so that one mistake does not hide or
imitate the next. Only elements of Y that are wrong are asked about, and a program whose stored values the reading of its flow
does not reproduce says nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np

from grader.diagnosis.addresses import check_k, check_rows, check_steps
from grader.diagnosis.counts import check_counts, check_masks, meets_again
from grader.diagnosis.observation import Observation, first_of_each
from grader.diagnosis.precision import adds_up, check_precision, check_roundings
from grader.diagnosis.programs import check_programs, put_right
from grader.diagnosis.provenance import Untraceable
from grader.diagnosis.relation import Products, Run, products_of, sample
from grader.diagnosis.scales import check_scales
from grader.diagnosis.stores import lasting, places_in_output, read_back, store_axes, stores_to_output
from grader.diagnosis.sums import MIXED, check_left_over, check_reset, check_sums, dropped
from grader.diagnosis.tape import Node
from grader.diagnosis.values import check_values, check_weight, common_offset

MAX_PROGRAMS = 12
PLACES = ("rows", "k", "index", "count")
"""Columns that say which elements a tile's products are made of."""


def compare(run: Run) -> list[Observation]:
    """All that deviates in a launch, each column and aspect once."""
    found = check_programs(run)
    followed = list(followed_programs(run))
    placed, moved = put_right(run, [products for _, products in followed], found)
    strides = any(one.wrong_stride for one in placed)  # which explain what is missing
    found = placed if strides else [*found, *placed]
    if any(one.aspect == "order" for one in placed):  # nothing else of a tile is certain before
        return first_of_each(found)
    of_programs = _of_programs(run, [stores for stores, _ in followed], moved)
    if strides:  # of sums that are elsewhere for that reason, the scales of neither place tell anything
        of_programs = [one for one in of_programs if one.column != "scale"]
    mixing = {one.program for one in of_programs if one.aspect in MIXED}  # whose tiles lack what others have too much
    found += [one for one in of_programs if one.column == "sum" or one.program not in mixing]
    if run.ended and run.config.split_k > 1 and not any(one.column in ("rows", "k", "store") for one in found):
        found = _with_slices(
            run, found, [_with_lost(run, at, one) for (at, _), one in zip(followed, moved, strict=True)]
        )
    return first_of_each(_without_repeated(found))


def _of_programs(run: Run, stores: list[list[Node]], followed: list[Products]) -> list[Observation]:
    """What deviates in each tile; where one is astray, nothing is said of the places of the program's next ones, which may begin there."""
    found: list[Observation] = []
    stray: set[int] = set()
    for own, products in zip(stores, followed, strict=True):
        with contextlib.suppress(Untraceable):
            seen = _of_program(run, own, products)
            found += [one for one in seen if one.column not in PLACES or products.program not in stray]
            stray |= {products.program for one in seen if one.column in PLACES}
    return found


def _without_repeated(found: list[Observation]) -> list[Observation]:
    """What one program shows as a rounding another may show as what becomes of a scale: that alone is told of the line."""
    reported = {one.line for one in found if one.aspect != "rounding"}
    return [one for one in found if one.aspect != "rounding" or one.line not in reported]


def _with_slices(run: Run, found: list[Observation], followed: list[Products]) -> list[Observation]:
    """With what slices leave out or meet twice together."""
    counted = _of_slices(run, followed)
    if run.expected.right.unit > 1 and any(one.aspect == "twice" for one in counted):
        # which element of a word is meant, only its partner tells
        found = [one for one in found if one.side != ("value", "right")]
    return [*found, *counted]


def _of_program(run: Run, stores: list[Node], products: Products) -> list[Observation]:
    """What deviates in a program: the places of its products, what becomes of them, and their numbers as far as these are understood."""
    if left_over := check_left_over(run, products, stores):  # nothing else of this tile is certain before
        return left_over
    everything = _with_lost(run, stores, products)
    places, meant = _places(run, stores, everything)
    resets = check_reset(run, products, stores)
    exactly, roughly = adds_up(products)
    summed = [] if exactly else check_precision(run, products)
    if any(one.aspect == "again" for one in resets) or not (exactly or roughly or summed):
        return [*places, *resets]
    found = [*places, *resets, *_numbers(run, products, everything, [*places, *resets], summed)]
    sides = {one.side[1] for one in places if one.column == "rows"}
    if sides == {"left", "right"} or not meant:  # which row of Y is meant is not known either
        found = [one for one in found if one.column != "scale"]
    if not found and (run.config.split_k > 1 or _is_alone(run, products)):
        found = check_masks(run, products)
    if found or run.expected.weight is not None:
        return found
    return check_precision(run, products) or check_roundings(run, products)


def _places(run: Run, stores: list[Node], everything: Products) -> tuple[list[Observation], bool]:
    """The rows of the products, else their k, else how often each k is met; and whether it is certain which elements of Y are meant: where
    stores do not follow Y's strides, rows that seem wrong may be those of others."""
    placed = store_axes(everything.store, run.strides) is not None
    rows = check_rows(run, everything)
    certain = [one for one in rows if placed or not one.of_an_element]
    meant = len(certain) == len(rows)
    if found := certain or check_k(run, everything):
        return found, meant
    whole = everything.program != run.cut_off and (len(stores) == 1 or all(store.op == "store" for store in stores))
    whole = whole and run.config.split_k == 1 and _is_alone(run, everything)
    counted = check_counts(run, [everything]) if placed and whole else []
    return (check_steps(run, everything) or counted) if counted else [], meant


def _is_alone(run: Run, products: Products) -> bool:
    """Whether no other program stores there: what one leaves out another may bring."""
    own = {(one.lowest, one.highest) for one in run.stores if one.program == products.program}
    shared = any((one.lowest, one.highest) in own for one in run.stores if one.program != products.program)
    return run.tape.all_stores and not shared


def _numbers(
    run: Run, products: Products, everything: Products, before: list[Observation], summed: list[Observation]
) -> list[Observation]:
    """What is multiplied, added and scaled. before: what deviates already; summed: the types that cannot hold a sum.

    Not split: each check needs to know what the ones before it found.
    """
    weights = check_weight(run, everything)
    values, held = check_values(run, everything)
    stray = any(one.column != "sum" for one in before)
    if weights is not None or (stray and run.expected.right.unit > 1):
        # where the lab knows what X is multiplied by in all, the right operand alone may hold anything; which element of a word is
        # meant, only its partner tells
        values = [one for one in values if one.aspect == "left"]
    if weights is not None:
        return [*values, *check_sums(run, products, 0.0), *summed, *([] if stray else weights)]
    sums = check_sums(run, products, common_offset(run, everything))
    if any(one.aspect == "lost" for one in before):  # another one's sum in its place is counted twice for that reason
        sums = [one for one in sums if one.aspect != "doubled"]
    if sums or any(one.column == "sum" for one in before):  # sums are too large, or scaled otherwise, for that reason
        return [*values, *sums]
    scales = check_scales(run, everything, held)
    if scales:  # a sum that is scaled otherwise overflows for that reason
        summed = [one for one in summed if one.aspect not in ("overflow", "too large")]
    if values:  # so does one of other numbers that is scaled already, and what is made of a scale is a factor, too
        summed = [one for one in summed if one.aspect != "too large"]
        uncertain = (held != 1).any() or any(one.aspect.endswith(" made") for one in values)
        scales = [one for one in scales if not (uncertain and one.aspect == "factor")]
    return [*values, *summed, *scales]


def _of_slices(run: Run, followed: list[Products]) -> list[Observation]:
    """Whether the slices of a tile, all of which were recorded, meet every k once together."""
    tiles: dict[tuple[int, int], list[Products]] = {}
    for products in followed:
        tiles.setdefault((int(products.m[0]), int(products.n[0])), []).append(products)
    for parts in tiles.values() if run.tape.all_stores else ():
        programs = {products.program for products in parts}
        places = {(one.lowest, one.highest) for one in run.stores if one.program in programs}
        if programs == {one.program for one in run.stores if (one.lowest, one.highest) in places}:
            again = [one for one in parts if meets_again(run, one)]  # by itself, wherever the others begin
            return check_counts(run, again[:1])[:1] if again else check_counts(run, parts)
    return []


def followed_programs(run: Run) -> Iterator[tuple[list[Node], Products]]:
    """Programs whose flow into Y can be followed: their stores to Y, and the products behind a sample of the wrong elements of one."""
    count = 0
    programs = list(run.tape.programs)
    for program in map(programs.__getitem__, _spread(len(programs))):
        if count >= MAX_PROGRAMS:
            return
        stores = stores_to_output(run, program)
        if read_back(run, program, stores):
            continue
        last_stores = lasting(stores)
        for store in map(last_stores.__getitem__, _spread(len(last_stores))[:MAX_PROGRAMS]):
            lanes = sample(run, store)
            if len(lanes):
                with contextlib.suppress(Untraceable):
                    yield stores, products_of(run, program, store, lanes)
                    count += 1


def whole_products(run: Run) -> Iterator[Products]:
    """The products of a column and a row of each tile that the recorded programs store, right or wrong: all of both operands."""
    for program in run.tape.programs:
        for store in lasting(stores_to_output(run, program)):
            m, n, inside = places_in_output(run, store)
            if inside.any():
                edge = inside & ((m == m[inside].min()) | (n == n[inside].min()))
                with contextlib.suppress(Untraceable):
                    yield products_of(run, program, store, np.flatnonzero(edge))


def _spread(count: int) -> list[int]:
    """The first eight of so many, which may be slices of one tile, then some of all others, so that all kinds of tiles are met."""
    rest = list(range(8, count))
    some = rest[:: -max(1, len(rest) // 4)]
    return [*range(min(8, count)), *some, *(place for place in rest if place not in some)]


def _with_lost(run: Run, stores: list[Node], products: Products) -> Products:
    """The products with those that reach no store, whose operands can be looked at all the same."""
    lost = dropped(run, products, stores)
    if not lost:
        return products
    with contextlib.suppress(Untraceable):
        return products_of(run, products.program, products.store, products.flow.lanes, lost=lost)
    return products


def unreadable(run: Run, locate: Callable[[int], str]) -> str:
    """Why the flow of no program can be followed: the operation that stops it, and its line; "" where one can be. locate: a line of the
    module in the student's words."""
    for program in run.tape.programs:
        for store in lasting(stores_to_output(run, program)):
            lanes = sample(run, store)
            if not len(lanes):
                continue
            try:
                products_of(run, program, store, lanes)
            except Untraceable as error:
                return f"it ends at `{error}`" + (f", {locate(error.line)}" if error.line else "")
            return ""
    return "no program that was followed stores a wrong element of Y" if run.stores else "no program stores to Y"
