"""Column scale: are the products multiplied by the elements of the scales that belong to them, each once?"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from grader.diagnosis.definition import line_of_value, numbers_behind
from grader.diagnosis.history import digits, line_of_change, sentence_of, way
from grader.diagnosis.mending import lanes_in, line_of_lack, line_of_mask, right_numbers
from grader.diagnosis.observation import Observation, plain
from grader.diagnosis.provenance import Array, offsets_of
from grader.diagnosis.relation import Products, Run, Side, factor_elements, held_elements, holder, load_of
from grader.diagnosis.reordering import line_of_laying
from grader.labs.expected import Scale, elements

CLOSE = 4e-3
"""How near two factors are that differ by rounding to fp16 alone."""
POWERS = (0, 1, 2, -1)
MANY = 64
"""So many products are asked about where a wrong element of a scale comes from."""


def check_scales(run: Run, products: Products, held: Array) -> list[Observation]:
    """held: the scales that the operands hold already, [E, P]."""
    live = products.live & np.isfinite(held)
    if not live.any():
        return []
    e, p = np.nonzero(live)
    m, n, k = products.m[e], products.n[e], products.right.k[live]
    total = products.factor[live] * held[live]
    own = {scale.tensor: scale.at(run.problem, m, n, k) for scale in run.expected.scales}
    wanted = np.prod([np.ones(len(e)), *(elements(run.problem, tensor, at) for tensor, at in own.items())], axis=0)
    with np.errstate(all="ignore"):
        wrong = ~(np.abs(total / wanted - 1) <= CLOSE)
    if not wrong.any():
        first, found = (int(e[0]), int(p[0])), []
        for scale in run.expected.scales:
            exact = float(elements(run.problem, scale.tensor, own[scale.tensor][:1])[0])
            found += made_otherwise(run, products, products.right, scale, first, (exact,), column="scale", room=1e-3)
        return found
    at = int(np.flatnonzero(wrong)[0])
    if masked := _masked(run, products, own, (int(e[at]), int(p[at])), at):
        return [masked]
    found, follows = [], False
    rows = products.left.row[live], products.right.row[live]  # whose scales are right as well, though others are wanted
    met = {scale.tensor: scale.at(run.problem, *rows, k) for scale in run.expected.scales}
    for scale in run.expected.scales:
        taken = taken_elements(run, products, scale.tensor)
        if taken is not None:
            use = "Y[{m}, {n}] is multiplied by {element}"
            chosen = np.where(wrong & (taken[live] != met[scale.tensor]), taken[live], -1)
            follows = follows or bool(
                (wrong & (taken[live] == met[scale.tensor]) & (taken[live] != own[scale.tensor])).any()
            )
            found += other_element(run, products, products.right, scale, (e, p), chosen, own[scale.tensor], use)
    if found or follows:
        return found
    return [_factor_wrong(run, products, (e, p), total, wanted, own, wrong)]


def _masked(
    run: Run, products: Products, own: Mapping[str, Array], place: tuple[int, int], at: int
) -> Observation | None:
    """A scale that the mask of its load leaves out, for 0 or another number."""
    for scale in run.expected.scales:
        held = holder(run, products, products.right, *place, scale.tensor)
        load = run.load_of(held[0], scale.tensor) if held else None
        if load is None or held is None:
            continue
        here, asked = load.offsets == own[scale.tensor][at], run.provenance.origin(held[0], scale.tensor, masked=False)
        its_own = offsets_of(asked).reshape(-1)[held[1]] == own[scale.tensor][at]
        if its_own and here.any() and not load.active[here].any():
            words = element_words(run, scale, int(own[scale.tensor][at]))
            instead = plain(float(run.provenance.values(load.number)[here].reshape(-1)[0]))
            text = f"the mask of a load leaves out {words} and puts {instead} in its place, for {products.element(place[0])}"
            exact = float(elements(run.problem, scale.tensor, own[scale.tensor][at : at + 1])[0])
            line = line_of_mask(run, load, np.arange(load.size), here.reshape(-1), _right(run, products, *place))
            return products.seen("scale", f"{scale.tensor} masked", line, text, plain(exact))
    return None


def taken_elements(run: Run, products: Products, tensor: str) -> Array | None:
    """[E, P]: the offsets of the elements of a scale that a product was multiplied with, wherever on its way; None: none at all."""
    found: Array | None = None
    needs = {side.operand.needs for side in (products.left, products.right)}
    uses: Sequence[Mapping[str, Array]] = (
        factor_elements(run, products),
        *(held_elements(run, side) for side in (products.right, products.left) if tensor not in needs),
    )
    for used in uses:
        if tensor in used:
            found = used[tensor] if found is None else np.where(found >= 0, found, used[tensor])
    return found


def element_words(run: Run, scale: Scale, offset: int) -> str:
    """An element of a scale in its own indices."""
    return scale.words(run.problem, offset) if scale.words else f"{scale.tensor.removesuffix('_ptr')}[{offset}]"


def other_element(
    run: Run, products: Products, side: Side, scale: Scale, at: tuple[Array, Array], taken: Array, own: Array, use: str
) -> list[Observation]:
    """The first product that has another element of a tensor beside the operands than its own.

    at: e and p of each product; taken, own: offsets, -1 where none is known. use: what it is used for, in words with {element}.
    """
    amiss = (taken >= 0) & (taken != own)
    if not amiss.any():
        return []
    first = int(amiss.argmax())
    e, p = (int(one[first]) for one in at)
    words = {"m": products.m[e], "n": products.n[e], "row": side.row[e, p], "k": products.left.k[e, p]}
    text = use.format(element=element_words(run, scale, int(taken[first])), **words)
    held = holder(run, products, side, e, p, scale.tensor)
    load = run.load_of(held[0], scale.tensor) if held else None
    line = _line_of_element(run, products, side, scale, [one[amiss] for one in (*at, own - taken)]) if load else None
    together = own[products.iteration[at[1]] == products.iteration[p]]  # those that one load has to bring
    # loaded, and used for others
    if load and held and np.isin(together, load.offsets).all() and load.offsets[load.active].max() <= together.max():
        factors = products.flow.terms[int(products.term[p])].factors
        used = next((factor.line for factor in factors if factor.node == held[0]), line)
        line = line_of_laying(run, load, held[0]) or used
    aspect = scale.tensor if side is products.right else f"{scale.tensor} in {side.operand.letter}"
    inside = scale.tensor in run.provenance.sources(int(side.node[p]))
    expected = element_words(run, scale, int(own[first]))
    return [products.seen("scale", aspect, line, text, expected, p=p if inside else -1)]


def _line_of_element(run: Run, products: Products, side: Side, scale: Scale, amiss: Sequence[Array]) -> int | None:
    """Where the addresses of a scale's load came to other elements than the products' own. amiss: e and p of these, and how far their
    elements lie before their own."""
    some = np.sort(np.random.default_rng(0).permutation(len(amiss[0]))[:MANY])  # evenly, they may all be of one column
    e, p, lacking = (one[some] for one in amiss)
    holders = [holder(run, products, side, *place, scale.tensor) for place in zip(e.tolist(), p.tolist(), strict=True)]
    here = np.array([one is not None and holders[0] is not None and one[0] == holders[0][0] for one in holders])
    load = run.load_of(holders[0][0], scale.tensor) if holders[0] else None
    if load is None or holders[0] is None:
        return None
    lanes = lanes_in(run.provenance, holders[0][0], np.array([one[1] if one else 0 for one in holders])[here], load)
    right, e, p = _right(run, products, int(e[0]), int(p[0])), e[here], p[here]
    m, n, k = products.m[e], products.n[e], products.right.k[e, p]
    own, none = scale.at(run.problem, m, n, k), np.zeros_like(k)
    parts = (own - scale.at(run.problem, m, none, k), own - scale.at(run.problem, m, n, none))
    wanted = (m, n, n // products.right.operand.unit, *parts)
    return load.line if lanes is None else line_of_lack(run, load, lanes, lacking[here], right, wanted)


def _right(run: Run, products: Products, e: int, p: int) -> frozenset[int]:
    """What is right where a scale is asked about: what is right of its products, and what the operands and other scales, of which each
    product has its own element, are made of."""
    loads = [load_of(run, side, p) for side in (products.left, products.right)]
    live = products.live
    places = products.m[np.nonzero(live)[0]], products.right.row[live], products.left.k[live]
    for scale in (*run.expected.scales, *run.expected.subtracted):
        taken, held = (
            taken_elements(run, products, scale.tensor),
            holder(run, products, products.right, e, p, scale.tensor),
        )
        if taken is not None and held and (taken[live] == scale.at(run.problem, *places)).all():
            loads.append(run.load_of(held[0], scale.tensor))
    return right_numbers(run, products) | numbers_behind(run, *filter(None, loads))


def made_otherwise(
    run: Run,
    products: Products,
    side: Side,
    scale: Scale,
    place: tuple[int, int],
    may: Sequence[float],
    *,
    column: str,
    room: float,
    bits: int | None = None,
) -> list[Observation]:
    """What is made of an element of a tensor for one product, before it meets others, where that is none of the numbers it may be.

    place: e and p. may: the first is the element itself, or what is to be made of it. room: relative to them.
    """
    held = holder(run, products, side, *place, scale.tensor)
    path = way(run, *held, scale.tensor) if held else []
    links = [link for link in path if run.provenance.sources(link.node) <= {scale.tensor}]
    known = bool(links and held and any(may)) and not np.isnan(may).any()
    if not known or not held or any(abs(links[-1].value - one) <= room * abs(one) for one in may):
        return []
    offset = int(offsets_of(run.provenance.origin(held[0], scale.tensor)).reshape(-1)[held[1]])
    element = element_words(run, scale, offset) if offset >= 0 else scale.tensor.removesuffix("_ptr")
    where = f"{side.operand.letter}[{side.row[place]}, {products.left.k[place]}]"
    text = f"for {where}, {element} becomes {digits(links[-1].value)} ({sentence_of(links)})"
    line = line_of_change(run, links, may, bits=bits)
    expected = ", ".join(f"{digits(one)}" for one in may[:-1]) + (" or " if len(may) > 1 else "") + f"{digits(may[-1])}"
    return [products.seen(column, f"{scale.tensor} made", line, text, expected, p=place[1])]


def _factor_wrong(
    run: Run,
    products: Products,
    places: tuple[Array, Array],
    total: Array,
    wanted: Array,
    own: Mapping[str, Array],
    wrong: Array,
) -> Observation:
    """A factor that is not the product of its scales: by which powers of them it can be had, else its number."""
    at = int(np.flatnonzero(wrong)[0])
    e, p = (int(one[at]) for one in places)
    names = [element_words(run, scale, int(own[scale.tensor][at])) for scale in run.expected.scales]
    expected = " * ".join(names) or "1"
    powers = _powers(run, total[wrong], {tensor: offsets[wrong] for tensor, offsets in own.items()})
    made = f" = {_formula(names, powers)}" if powers is not None and any(powers) else ""
    ratio = total[wrong] / wanted[wrong]
    times = max(2.0, float(np.rint(ratio[0])))
    if products.flow.doubled and np.isfinite(ratio).all() and np.allclose(ratio, times, rtol=CLOSE):
        added = run.tape.nodes[min(products.flow.doubled)]
        text = f"the products of {products.element(e)} are counted {plain(times)} times in its sum"
        return products.seen("sum", "doubled", added.line, text, "once")
    if not made and np.allclose(ratio, ratio[0], rtol=CLOSE):
        made = f", {plain(float(ratio[0]))} times the right value"
    mine = wrong[places[0] == e]
    text = f"{'the' if mine.all() else 'some'} products of {products.element(e)} are multiplied by {plain(total[at])}{made}"
    factors = products.flow.terms[int(products.term[p])].factors
    line = factors[0].line if factors else line_of_value(run, products.store)
    aspect = "powers " + " ".join(map(str, powers)) if powers is not None else "factor"
    return products.seen("scale", aspect, line, text, f"{expected} = {plain(wanted[at])}")


def _powers(run: Run, total: Array, own: Mapping[str, Array]) -> tuple[int, ...] | None:
    """The powers of the scales that give a factor everywhere."""
    values = [elements(run.problem, tensor, offsets) for tensor, offsets in own.items()]
    for powers in itertools.product(POWERS, repeat=len(values)):
        made = np.prod([np.ones(len(total)), *(v**power for v, power in zip(values, powers, strict=True))], axis=0)
        if np.allclose(total, made, rtol=CLOSE, atol=0):
            return powers
    return None


def _formula(names: Sequence[str], powers: Sequence[int]) -> str:
    parts = [name if power == 1 else f"{name}**2" for name, power in zip(names, powers, strict=True) if power > 0]
    below = [name for name, power in zip(names, powers, strict=True) if power < 0]
    return (" * ".join(parts) or "1") + "".join(f" / {name}" for name in below)
