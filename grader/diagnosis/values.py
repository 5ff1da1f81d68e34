"""Column value: do the operands hold the numbers that belong to the elements they were loaded from?"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from grader.diagnosis.history import HistoryStep, line_computed, parting, told, way
from grader.diagnosis.observation import Observation, plain
from grader.diagnosis.provenance import Array
from grader.diagnosis.relation import FAR, Products, Run, Side, beside, held_elements, holder
from grader.diagnosis.scales import element_words, taken_elements
from grader.labs.relation import Held, elements

LOOSE = 2e-3
"""How far rounding to fp16 may take a number off, relative to it."""
POWERS = (1, 0, -1, 2)
"""Of a scale that an operand was made with, in the order in which they are tried."""


def check_values(run: Run, products: Products) -> tuple[list[Observation], Array]:
    """What is wrong with the operands' numbers, and the scales that they hold beside them: [E, P]."""
    found: list[Observation] = []
    held = np.ones(products.left.value.shape)
    for name in ("right", "left"):
        side = products.side(name)
        use, row, k = _elements(run, products, side)
        if not use.any():
            continue
        elements_used = held_elements(run, side)
        needs = side.operand.needs
        used = {}
        if needs:
            taken = elements_used.get(needs, np.full(use.shape, -1))[use]
            own = elements(run.problem, needs, row)
            used[needs] = np.where(taken >= 0, elements(run.problem, needs, taken), own)
            found += _needs_another(run, products, name, use, taken, row)
        expected = side.operand.held(run.problem, row, k, used)
        factor, wrong = _best_factor(run, side, use, elements_used, expected.value, expected.permitted)
        held[use] *= factor
        if wrong.any():
            e, p = (int(i) for i in np.argwhere(use)[int(np.flatnonzero(wrong)[0])])
            exact = float(used[needs][int(np.flatnonzero(wrong)[0])]) if needs else 0.0
            changed = _changed(run, products, name, e, p, exact) if needs else None
            found.append(changed or _observed(run, products, name, use, wrong, expected, factor))
    return found, held


def _elements(run: Run, products: Products, side: Side) -> tuple[Array, Array, Array]:
    """Where a side holds elements that the lab knows, bool [E, P]; and their rows and k, of words the k of the other side."""
    M, N, K = run.sizes
    other = products.right if side is products.left else products.left
    unit, rows = side.operand.unit, M if side is products.left else N
    k = side.k if unit == 1 else other.k
    use = side.live & products.alive & (side.row >= 0) & (side.row < rows) & (k >= 0) & (k < K)
    if unit > 1:
        use &= other.live & (other.k // unit == side.k // unit)
    if side.operand.strides:  # what lies between two elements is neither
        along_row, along_k = (run.problem.scalars[name] for name in side.operand.strides)
        use &= side.offset == side.row * along_row + side.k // unit * along_k
    return use, side.row[use], k[use]


def _best_factor(
    run: Run, side: Side, use: Array, elements_used: Mapping[str, Array], value: Array, permitted: Array | float
) -> tuple[Array, Array]:
    """Which power of each scale in an operand explains most of its numbers: the factor, and where numbers are still wrong."""
    inside = [
        scale.tensor
        for scale in run.expected.scales
        if scale.tensor in elements_used and scale.tensor != side.operand.needs
    ]
    best = None
    for powers in itertools.product(POWERS, repeat=len(inside)):
        factor = np.ones_like(value)
        for tensor, power in zip(inside, powers, strict=True):
            taken = elements_used[tensor][use]
            factor = factor * np.where(taken >= 0, elements(run.problem, tensor, taken), 1.0) ** power
        room = LOOSE * np.abs(value * factor) + permitted * np.abs(factor)
        wrong = ~(np.abs(side.value[use] - value * factor) <= room + 1e-12)
        if best is None or wrong.sum() < best[1].sum():
            best = (factor, wrong)
    assert best is not None
    return best


def _needs_another(run: Run, products: Products, name: str, use: Array, taken: Array, row: Array) -> list[Observation]:
    """An operand that was made with another element of what it needs than that of its row."""
    side = products.side(name)
    wrong = (taken >= 0) & (taken != row)
    if not wrong.any():
        return []
    at = int(np.flatnonzero(wrong)[0])
    e, p = (int(i) for i in np.argwhere(use)[at])
    short = side.operand.needs.removesuffix("_ptr")
    load = run.load_of(int(side.node[p]), side.operand.needs)
    text = f"{side.operand.letter}[{row[at]}, {side.k[e, p]}] is converted with {short}[{taken[at]}]"
    return [
        products.seen(
            "scale",
            f"{side.operand.needs} in {side.operand.letter}",
            load.line if load else None,
            text,
            f"{short}[{row[at]}]",
            p=p,
        )
    ]


def _observed(
    run: Run, products: Products, name: str, use: Array, wrong: Array, expected: Held, factor: Array
) -> Observation:
    """The first wrong number of an operand, and how it came about. expected, factor: of the elements in use."""
    side, places = products.side(name), np.argwhere(use)
    at = int(np.flatnonzero(wrong)[0])
    e, p = (int(i) for i in places[at])
    other = products.right if name == "left" else products.left
    columns = (side.k if side.operand.unit == 1 else other.k)[use]
    links = way(run, int(side.node[p]), int(side.lanes[e, p]), side.operand.tensor)
    steps, right = told(links), float(expected.value[at] * factor[at])
    text = f"{side.operand.letter}[{side.row[use][at]}, {columns[at]}] is multiplied as {plain(side.value[e, p])}"
    text += f" ({steps})" if steps else ""
    bare = side.value[use] / factor
    values = np.column_stack([side.row[use], columns, bare])
    before = None if expected.before is None else float(expected.before[at])
    bits = None if expected.bits is None else int(expected.bits[at])
    line = _line_of_order(run, products, side, use, expected.value * factor, e, p) if bits is not None else None
    line = line or line_of_change(run, links, right, before, bits)
    return products.seen(
        "value", name, line or products.flow.terms[int(products.term[p])].line, text, plain(right), values=values, p=p
    )


def _line_of_order(run: Run, products: Products, side: Side, use: Array, right: Array, e: int, p: int) -> int | None:
    """Where the elements of a word got another order, if in every word the right one is at another place. right: of those in use."""
    unit, k, wanted = side.operand.unit, np.zeros(use.shape, dtype=np.int64), np.full(use.shape, np.nan)
    k[use] = (products.right if side is products.left else products.left).k[use]
    wanted[use] = right
    mine = use & (k % unit == k[e, p] % unit)
    word = side.row * FAR + k // unit
    known, first = np.unique(word[mine], return_index=True)
    alike = (products.term == products.term[p]) & (side.node == side.node[p]) & (k[e] // unit == k[e, p] // unit)
    for q in np.flatnonzero(use[e] & alike & (k[e] != k[e, p])):
        there = use & (k % unit == k[e, q] % unit)
        at = np.minimum(np.searchsorted(known, word[there]), len(known) - 1)
        of_word = np.where(known[at] == word[there], wanted[mine][first][at], np.nan)
        if len(of_word) > unit and (np.abs(side.value[there] - of_word) <= LOOSE * np.abs(of_word)).all():
            return parting(run, int(side.node[p]), (int(side.lanes[e, p]), int(side.lanes[e, q])), side.operand.tensor)
    return None


SHIFTS = ("ashr", "lshr", "shl")


def line_of_change(
    run: Run, links: list[HistoryStep], right: float, before: float | None = None, bits: int | None = None
) -> int | None:
    """Where an element stopped being the right number, if it ever was.

    Right is what it should become, and `before`, the number that this is a rounding of; a shift whose lowest four bits are masked
    out next should have brought `bits` there. Where it was neither, but near `before`,
    the line that came near; else the first line that changed it where it should have been converted, the last one where not.
    """
    if not links:
        return None
    for at, (shift, masked) in enumerate(itertools.pairwise(links) if bits is not None else ()):
        if shift.op in SHIFTS and masked.op == "and" and masked.done.endswith(f"& 15 = {masked.value:.7g}"):
            if masked.value != bits:
                return line_computed(run, run.tape.nodes[shift.node].inputs[1])
            table = next((link for link in links[at + 2 :] if link.op == "gather"), None)
            if table is not None:
                return line_computed(run, run.tape.nodes[table.node].inputs[0])
    cut = [link for link in links if link.op in SHIFTS]
    if bits is not None and cut and not -16 < cut[-1].value < 16 and not any(link.op == "and" for link in links):
        return cut[-1].line
    known = {right} if before is None else {right, before, float(np.round(before))}
    was = [
        number
        for number, link in enumerate(links[:-1])
        if any(abs(link.value - one) <= 1e-6 * max(1.0, abs(one)) for one in known)
    ]
    if was:
        return next((link.line for link in links[was[-1] + 1 :] if link.value != links[was[-1]].value), links[-1].line)
    changed = [later for earlier, later in itertools.pairwise(links) if later.value != earlier.value]
    if before is not None:
        near = [link for link in links if abs(link.value - before) <= 1e-2 * max(1.0, abs(before))]
        return near[0].line if near else changed[0].line if changed else links[-1].line
    return changed[-1].line if changed else links[-1].line


def check_weight(run: Run, products: Products) -> list[Observation] | None:
    """Of labs that know only what X is multiplied by all in all: where that is wrong; None where the lab knows the parts."""
    if run.expected.weight is None:
        return None
    _, N, K = run.sizes
    left, right = products.left, products.right
    extra, extra_used = beside(run, products)
    use = products.live & (left.k < K) & (left.k >= 0) & (right.row >= 0) & (right.row < N)
    use &= left.k // right.operand.unit == right.k // right.operand.unit
    if not use.any():
        return []
    e, p = np.nonzero(use)
    n, k = right.row[use], left.k[use]
    weight = run.expected.weight(run.problem)
    total = right.value[use] * products.factor[use] + extra[e, k]
    room = np.broadcast_to(weight.permitted, weight.value.shape)[n, k]
    wrong = ~(np.abs(total - weight.value[n, k]) <= room + 1e-12)
    if not wrong.any():
        return []
    elements_wrong = _elements_wrong(run, products, use, wrong, extra_used)
    if elements_wrong:
        return elements_wrong
    at = int(np.flatnonzero(wrong)[0])
    subtracted = _subtracted(run, products, int(e[at]), int(p[at]), int(n[at]), int(k[at]))
    if subtracted is not None:
        return [subtracted]
    links = way(run, int(right.node[p[at]]), int(right.lanes[e[at], p[at]]), right.operand.tensor)
    steps = told(links)
    text = f"X[{left.row[e[at], p[at]]}, {k[at]}] is multiplied by {plain(total[at])} in all"
    text += f"; the operand holds {plain(right.value[e[at], p[at]])}" + (f" ({steps})" if steps else "")
    words = run.expected.weight_words
    expected = f"W[{n[at]}, {k[at]}] = {plain(weight.value[n[at], k[at]])}"
    expected += f" = {words(run.problem, int(n[at]), int(k[at]))}" if words else ""
    values = np.column_stack([n, k, total])
    bits = right.operand.held(run.problem, n[at : at + 1], k[at : at + 1], {}).bits
    own = [link for link in links if run.provenance.sources(link.node) <= {right.operand.tensor}]
    kept = bits is None or (
        own and own[-1].value in (bits[0], bits[0] + 1024)
    )  # then what it was put together with is wrong
    line = line_of_change(run, links if kept else own, float("nan"), bits=None if bits is None else int(bits[0]))
    line = line or products.flow.terms[int(products.term[p[at]])].line
    return [products.seen("value", "weight", line, text, expected, values=values, p=p[at])]


def own_way(run: Run, products: Products, e: int, p: int, tensor: str, side: Side) -> list[HistoryStep]:
    """The way of an element of another tensor in one product, up to where it meets others: in a side of it, else beside it."""
    held = holder(run, products, side, e, p, tensor)
    links = way(run, *held, tensor) if held else []
    return [link for link in links if run.provenance.sources(link.node) <= {tensor}]


def _subtracted(run: Run, products: Products, e: int, p: int, n: int, k: int) -> Observation | None:
    """What is made of the element that is subtracted from a weight, where that is none of the numbers it may be."""
    for scale in run.expected.subtracted:
        links = own_way(run, products, e, p, scale.tensor, products.right)
        if scale.numbers is None or not links:
            continue
        may = scale.numbers(run.problem, n, k)
        if links[-1].value in may:
            continue
        short = scale.tensor.removesuffix("_ptr")
        steps = told(links)
        text = f"of {short}, {plain(links[-1].value)} is made for W[{n}, {k}]" + (f" ({steps})" if steps else "")
        line = line_of_change(run, links, may[0], bits=int(may[1]))
        return products.seen("value", short, line, text, f"one of {', '.join(map(plain, may))}", p=p)
    return None


def _changed(run: Run, products: Products, name: str, e: int, p: int, exact: float) -> Observation | None:
    """A scale that an operand is made with, where it is neither the element nor its reciprocal any more."""
    side = products.side(name)
    within = side.operand.needs in run.provenance.sources(int(side.node[p]))
    links = own_way(run, products, e, p, side.operand.needs, side) if within else []
    if not links or not exact or any(abs(links[-1].value / one - 1) < 1e-6 for one in (exact, 1 / exact)):
        return None
    short, changed = (
        side.operand.needs.removesuffix("_ptr"),
        [b for a, b in itertools.pairwise(links) if a.value != b.value],
    )
    if not changed:
        return None
    text = f"{short} is {plain(exact)} and becomes {links[-1].value:.7g} ({told(links)}) before it meets {side.operand.letter}"
    return products.seen("value", f"{name} {short}", changed[0].line, text, f"{exact:.7g} or its reciprocal", p=p)


def _elements_wrong(
    run: Run, products: Products, use: Array, wrong: Array, extra_used: Mapping[str, Array]
) -> list[Observation]:
    """Scales, and what is subtracted, that were taken from other elements than those that belong to a weight."""
    found = []
    e, p = np.nonzero(use)
    right, k = products.right, products.left.k[use]
    for scale in (*run.expected.scales, *run.expected.subtracted):
        taken = taken_elements(run, products, scale.tensor)
        chosen = taken[use] if taken is not None else np.full(len(e), -1)
        if scale.tensor in extra_used:
            chosen = np.where(chosen >= 0, chosen, extra_used[scale.tensor][e, k])
        own = scale.at(run.problem, products.m[e], right.row[use], k)
        amiss = wrong & (chosen >= 0) & (chosen != own)
        if not amiss.any():
            continue
        at = int(np.flatnonzero(amiss)[0])
        held = holder(run, products, right, int(e[at]), int(p[at]), scale.tensor)
        load = run.load_of(held[0], scale.tensor) if held else None
        text = f"for W[{right.row[use][at]}, {k[at]}], {element_words(run, scale, int(chosen[at]))} is used"
        found.append(
            products.seen("scale", scale.tensor, load.line if load else None, text, element_words(run, scale, int(own[at])), p=p[at])
        )  # fmt: skip
    return found
