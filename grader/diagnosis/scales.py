"""Column scale: are the products multiplied by the elements of the scales that belong to them, each once?"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from grader.diagnosis.definition import line_of_mask
from grader.diagnosis.fit import fit
from grader.diagnosis.history import way
from grader.diagnosis.observation import Observation, plain
from grader.diagnosis.provenance import PRODUCT, Array
from grader.diagnosis.relation import Products, Run, factor_elements, held_elements, holder
from grader.diagnosis.statements import line_of_value
from grader.labs.relation import Scale, elements

CLOSE = 4e-3
"""How near two factors are that differ by rounding to fp16 alone."""
MULTIPLIES = ("fmul", "mul", "fdiv", "precise_divf", "fma")
POWERS = (0, 1, 2, -1)


def check_scales(run: Run, products: Products, held: Array) -> list[Observation]:
    """held: the scales that the operands hold already, [E, P]."""
    live = products.live
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
        return [rounded] if (rounded := _rounded(run, products, own, int(e[0]), int(p[0]))) else []
    at = int(np.flatnonzero(wrong)[0])
    if masked := _masked(run, products, own, total[at], int(e[at]), int(p[at]), at):
        return [masked]
    found = []
    for scale in run.expected.scales:
        taken = taken_elements(run, products, scale.tensor)
        if taken is None:
            continue
        amiss = wrong & (taken[live] >= 0) & (taken[live] != own[scale.tensor])
        if amiss.any():
            found.append(_element_wrong(run, products, scale, taken[live], own[scale.tensor], amiss, (e, p)))
    if found:
        return found
    return [_factor_wrong(run, products, total, wanted, own, wrong, int(e[at]), int(p[at]), at)]


def _rounded(run: Run, products: Products, own: Mapping[str, Array], e: int, p: int) -> Observation | None:
    """A scale that lost digits on its way to the products."""
    for scale in run.expected.scales:
        held = holder(run, products, products.right, e, p, scale.tensor)
        links = way(run, *held, scale.tensor) if held else []
        alone = [link for link in links if run.provenance.sources(link.node) <= {scale.tensor}]
        exact = float(elements(run.problem, scale.tensor, own[scale.tensor][:1])[0])
        if len(alone) > 1 and exact and 1e-3 < abs(alone[-1].value / exact - 1) < CLOSE:
            changed = next((link for link in alone if abs(link.value / exact - 1) > 1e-3), alone[-1])
            text = f"{element_words(run, scale, int(own[scale.tensor][0]))} = {exact:.7g} becomes {changed.value:.7g} as {changed.type}"
            return products.seen("scale", f"{scale.tensor} rounded", changed.line, text, "the scale as it is")
    return None


def _masked(
    run: Run, products: Products, own: Mapping[str, Array], total: float, e: int, p: int, at: int
) -> Observation | None:
    """A scale that counts as 0 because the mask of its load leaves it out."""
    for scale in run.expected.scales if total == 0 else ():
        held = holder(run, products, products.right, e, p, scale.tensor)
        load = run.load_of(held[0], scale.tensor) if held else None
        if load is None or load.offsets is None or load.active is None:
            continue
        here = load.offsets == own[scale.tensor][at]
        if here.any() and not load.active[here].any():
            words = element_words(run, scale, int(own[scale.tensor][at]))
            text = f"the mask of a load leaves out {words}, which counts as 0 for Y[{products.m[e]}, {products.n[e]}]"
            exact = float(elements(run.problem, scale.tensor, own[scale.tensor][at : at + 1])[0])
            return products.seen(
                "scale", f"{scale.tensor} masked", line_of_mask(run, load, load.offsets), text, plain(exact)
            )
    return None


def _line_of_factor(run: Run, tensor: str) -> int | None:
    """Where some program multiplies or divides products by elements of a tensor."""
    for node in run.tape.nodes:
        sources = [run.provenance.sources(i) for i in node.inputs]
        if (
            node.op in MULTIPLIES
            and any(PRODUCT in one for one in sources)
            and any(tensor in one and PRODUCT not in one for one in sources)
        ):
            return node.line
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


def _element_wrong(
    run: Run, products: Products, scale: Scale, taken: Array, own: Array, amiss: Array, places: tuple[Array, Array]
) -> Observation:
    """A product that was multiplied by another element of a scale than its own; by which rule, where one fits."""
    e, p = (int(one[np.flatnonzero(amiss)[0]]) for one in places)
    at = int(np.flatnonzero(amiss)[0])
    m, n = products.m[places[0]], products.n[places[0]]
    text = f"Y[{m[at]}, {n[at]}] is multiplied by {element_words(run, scale, int(taken[at]))}"
    known = taken >= 0
    rule = fit(taken[known], {"m": m[known], "n": n[known]}) if scale.words is None else None
    if rule is not None:
        base = rule[""]
        parts = [name if rule[name] == 1 else f"{rule[name]} * {name}" for name in ("m", "n") if rule[name]]
        if parts or len(np.unique(own[known])) > 1:
            sum_of = " + ".join(parts) or "the same one for all"
            text += f" (its index is {sum_of}{f' - {-base}' if parts and base < 0 else f' + {base}' if parts and base else ''})"
    held = holder(run, products, products.right, e, p, scale.tensor)
    load = run.load_of(held[0], scale.tensor) if held else None
    line = load.line if load else None
    if (
        load is not None and load.offsets is not None and np.isin(own[amiss], load.offsets).all()
    ):  # loaded, and used for others
        factors = products.flow.terms[int(products.term[p])].factors
        line = next((factor.line for factor in factors if scale.tensor in factor.sources), line)
    return products.seen("scale", scale.tensor, line, text, element_words(run, scale, int(own[at])))


def _factor_wrong(
    run: Run,
    products: Products,
    total: Array,
    wanted: Array,
    own: Mapping[str, Array],
    wrong: Array,
    e: int,
    p: int,
    at: int,
) -> Observation:
    """A factor that is not the product of its scales: by which powers of them it can be had, else its number."""
    terms = products.flow.terms
    names = [element_words(run, scale, int(own[scale.tensor][at])) for scale in run.expected.scales]
    expected = " * ".join(names) or "1"
    powers = _powers(run, total[wrong], {tensor: offsets[wrong] for tensor, offsets in own.items()})
    made = f" = {_formula(names, powers)}" if powers is not None and any(powers) else ""
    ratio = total[wrong] / wanted[wrong]
    if not made and np.allclose(ratio, ratio[0], rtol=CLOSE):
        made = f", {plain(float(ratio[0]))} times what belongs to it"
    mine = wrong[np.nonzero(products.live)[0] == e]
    text = f"{'the' if mine.all() else 'some'} products of Y[{products.m[e]}, {products.n[e]}] are multiplied by {plain(total[at])}{made}"
    factors = terms[int(products.term[p])].factors
    lost = [scale.tensor for scale, power in zip(run.expected.scales, powers or (), strict=False) if power == 0]
    line = next((line for tensor in lost if (line := _line_of_factor(run, tensor))), None)
    line = line or (
        factors[0].line if factors else line_of_value(run.text, products.store.line or 0) or products.store.line
    )
    aspect = "powers " + " ".join(map(str, powers)) if powers is not None else "factor"
    return products.seen("scale", aspect, line, text, f"{expected} = {plain(wanted[at])}")


def _powers(run: Run, total: Array, own: Mapping[str, Array]) -> tuple[int, ...] | None:
    """The powers of the scales that give a factor everywhere."""
    values = [elements(run.problem, tensor, offsets) for tensor, offsets in own.items()]
    for powers in itertools.product(POWERS, repeat=len(values)):
        made = np.prod(
            [np.ones(len(total)), *(value**power for value, power in zip(values, powers, strict=True))], axis=0
        )
        if np.allclose(total, made, rtol=CLOSE, atol=0):
            return powers
    return None


def _formula(names: Sequence[str], powers: Sequence[int]) -> str:
    parts = [name if power == 1 else f"{name}**2" for name, power in zip(names, powers, strict=True) if power > 0]
    below = [name for name, power in zip(names, powers, strict=True) if power < 0]
    return (" * ".join(parts) or "1") + "".join(f" / {name}" for name in below)
