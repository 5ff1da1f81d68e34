"""Are products multiplied by the scales that belong to them, each once?"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from grader.diagnosis.ledger import operands, scale_tiles
from grader.diagnosis.ledger.flow import Factor
from grader.diagnosis.ledger.history import Link, history
from grader.diagnosis.ledger.pairs import Pairs, Run, pairs_of, places_in_output, sample, scales_passed, scales_used
from grader.diagnosis.ledger.provenance import NONE, Array, Untraceable, offsets_of
from grader.labs.divergence import FACTOR, Divergence
from grader.labs.stages import elements

ROUNDED = (2.0**-10, 2.0**-3)
"""How far off a scale is, at most, that was rounded to bfloat16 or fp8. To fp16 it is half of the lower bound, and no mistake."""

CROSSED = {"scales_ptr": "scale_by_row", "input_scale_ptr": "input_scale_by_column", "weight_scale_ptr": "weight_scale_by_row"}
"""What it is called that a scale is taken along the other index of Y."""

SWAPPED = "each of the two scales is taken along the other's index: one belongs to the rows of Y, one to its columns"


def _carried(pairs: Pairs, axis: str) -> Array:
    """[E]: the row of X, or channel of W, that the products of each element of Y come from."""
    own, operand = (pairs.m, pairs.left) if axis == "m" else (pairs.n, pairs.right)
    live = operand.live & pairs.alive
    rows = operand.row[np.arange(len(own)), live.argmax(axis=1)]
    return np.where(live.any(axis=1), rows, own)


def along_k_of(run: Run, pairs: Pairs) -> Mapping[str, Array]:
    """[E, P] for each scale that changes along K: its elements, those that were taken where some were, else the right ones.

    That the right ones were taken is for the lab's judge to say.
    """
    _, N, K = run.sizes
    found = {}
    for scale in run.stages.scales:
        if scale.at is None or not pairs.flow.terms:
            continue
        index = np.broadcast_to(_carried(pairs, scale.axis)[:, None], pairs.right.k.shape)
        taken: Array = scale.at(run.problem, index, pairs.right.k)
        for used in (scales_passed(run, pairs), scales_used(run, pairs.right)):
            if scale.tensor in used:
                taken = np.where(used[scale.tensor] >= 0, used[scale.tensor], taken)
        inside = (pairs.right.row >= 0) & (pairs.right.row < N) & (pairs.right.k >= 0) & (pairs.right.k < K)
        found[scale.tensor] = np.where(inside, elements(run.problem, scale.tensor, taken), np.nan)
    return found


def _scale_values(run: Run, pairs: Pairs, *, carried: bool) -> list[Array]:
    """For each scale its [E] values, by the places in Y or by those that the products come from; 1 where it changes along K."""
    found = []
    for scale in run.stages.scales:
        if scale.at is not None:
            found.append(np.ones(len(pairs.m)))
            continue
        values = run.problem.tensors[scale.tensor].double().numpy()
        index = _carried(pairs, scale.axis) if carried else pairs.m if scale.axis == "m" else pairs.n
        found.append(values[np.clip(index, 0, len(values) - 1)])
    return found


def wanted_of(run: Run, pairs: Pairs, *, carried: bool = True) -> Array:
    """[E]: the product of the scales that belong to each element."""
    wanted: Array = np.prod([np.ones(len(pairs.m)), *_scale_values(run, pairs, carried=carried)], axis=0)
    return wanted


def totals_of(pairs: Pairs, held: Array) -> list[Array]:
    """For each term the factor [E] that its products had when they arrived in Y, NaN where none did.

    What belongs to it along K has been divided out of `held` already.
    """
    totals = []
    for number in range(len(pairs.flow.terms)):
        here = pairs.term == number
        live = pairs.live[:, here]
        totals.append(_median(np.where(live, pairs.factor[:, here] * held[:, here], np.nan)))
    return totals


def _median(values: Array) -> Array:
    """The median of each row without its NaNs, NaN for a row of nothing else. numpy.nanmedian takes ten times as long."""
    if not values.shape[1]:
        return np.full(len(values), np.nan)
    ordered = np.sort(values, axis=1)  # NaN comes last
    count = np.maximum((~np.isnan(values)).sum(axis=1), 1)
    rows = np.arange(len(values))
    median: Array = (ordered[rows, (count - 1) // 2] + ordered[rows, count // 2]) / 2
    return median


def look(run: Run, pairs: Pairs, totals: Sequence[Array], held: Array, along_k: Mapping[str, Array]) -> list[Divergence]:
    """The factor between products and Y: right scales, from the right places, once."""
    if not pairs.flow.terms:
        return []
    plain = [scale.tensor for scale in run.stages.scales if scale.at is None]
    findings = [finding for tensor in plain if (finding := _misplaced(run, pairs, tensor))]
    if [finding.name for finding in findings] == [CROSSED["input_scale_ptr"], CROSSED["weight_scale_ptr"]]:
        taken, wanted = (" and ".join(words) for words in zip(*((one.found, one.expected) for one in findings), strict=True))
        return [replace(findings[0], name="scales_swapped", found=taken, expected=wanted, reason=SWAPPED)]
    if findings:
        return findings
    for look_at in (_masked, _rounded):
        if told := next((found for tensor in plain if (found := look_at(run, pairs, tensor))), None):
            return [told]
    number = next((number for number, total in enumerate(totals) if np.isfinite(total).any()), None)
    return [] if number is None else _off_factor(run, pairs, totals[number], number, held, along_k)


def _off_factor(run: Run, pairs: Pairs, total: Array, number: int, held: Array, along_k: Mapping[str, Array]) -> list[Divergence]:
    """The factor of a term, where it is not the scales'. total: [E], of the term of this number."""
    known = np.isfinite(total)
    wanted, of_place = wanted_of(run, pairs), wanted_of(run, pairs, carried=False)
    if _alike(total[known], wanted[known]) or _alike(total[known], of_place[known]):
        return []
    if not along_k:
        exponents = _exponents(run, pairs, total, wanted, known, carried=True)
        if not exponents and (exponents := _exponents(run, pairs, total, of_place, known, carried=False)):
            wanted = of_place
        return [_factor_told(run, pairs, "the sum is", total, wanted, known, exponents)]
    place = _first(pairs, number)  # in a term of several groups products differ, so the first one of each element is asked
    first = {tensor: value[place] for tensor, value in along_k.items()}
    total, wanted = (pairs.factor * held)[place], wanted * np.prod(list(first.values()), axis=0)
    if _alike(total[known], wanted[known]):
        return []
    exponents = _exponents(run, pairs, total, wanted, known, carried=True, along_k=first)
    return [_factor_told(run, pairs, "the first product is", total, wanted, known, exponents)]


def _alike(factors: Array, wanted: Array) -> bool:
    return np.allclose(factors / wanted, 1.0, rtol=4e-3)


def _factor_told(
    run: Run, pairs: Pairs, what: str, total: Array, wanted: Array, known: Array, exponents: Sequence[int]
) -> Divergence:  # fmt: skip
    """exponents: the powers of the scales that the factor has too many; () where that is not known."""
    terms, e = pairs.flow.terms, int(np.flatnonzero(known)[0])
    line = terms[0].factors[0].line if terms[0].factors else pairs.store.line
    scales = " times ".join(scale.words for scale in run.stages.scales)
    at = f"for Y[{pairs.m[e]}, {pairs.n[e]}] {what} multiplied by {total[e]:.4g}"
    expected = f"{wanted[e]:.4g}" + (f", which is {scales}" if scales else "")
    if exponents:
        reason, name = _exponent_words(exponents, [scale.tensor.removesuffix("_ptr") for scale in run.stages.scales])
        return Divergence(name, FACTOR, line, at, expected, reason, pairs.program)
    ratio = total[known] / wanted[known]
    same = len(set(np.round(ratio / ratio[0], 3).tolist())) == 1
    return Divergence("factor", FACTOR, line, at, expected, _ratio_words(run, pairs, float(ratio[0])) if same else "", pairs.program)


def _ratio_words(run: Run, pairs: Pairs, ratio: float) -> str:
    """Which elements of the tile are `ratio` times what they should be: the wrong ones are, and the right ones are asked too."""
    everything = pairs_of(run, pairs.program, pairs.store, sample(run, pairs.store, wrong_only=False))
    met: Array = np.asarray(everything.live.any(axis=1))
    place = np.arange(len(everything.m)), everything.live.argmax(axis=1)
    wanted = wanted_of(run, everything)
    for value in along_k_of(run, everything).values():
        wanted = wanted * value[place]
    ratios = (everything.factor * operands.look(run, everything)[1])[place] / wanted
    changed, below = np.isclose(ratios, ratio, rtol=4e-3)[met], everything.flow.stored[met] < 0
    if changed.all():
        return f"Y is {ratio:.4g} times what it should be"
    side = "below" if (changed == below).all() else "above" if (changed != below).all() else ""
    if not side:
        return f"some elements of Y are {ratio:.4g} times what they should be, and others are not"
    return f"elements of Y {side} zero are {ratio:.4g} times what they should be, and others are not: the factor depends on the sum's sign"


def _first(pairs: Pairs, number: int) -> tuple[Array, Array]:
    """Where the first live pair of a term stands for each element of Y, in arrays [E, P]."""
    here = np.flatnonzero(pairs.term == number)
    return np.arange(len(pairs.m)), here[pairs.live[:, here].argmax(axis=1)]


def _exponents(
    run: Run, pairs: Pairs, total: Array, wanted: Array, known: Array, *, carried: bool, along_k: Mapping[str, Array] | None = None
) -> list[int]:  # fmt: skip
    """The powers of the scales, from -2 to 2, that a factor has too many, one of them in another's place; none where none fits."""
    values = [value[known] for value in _scale_values(run, pairs, carried=carried)]
    if along_k:
        values = [along_k[scale.tensor][known] if scale.at else value for scale, value in zip(run.stages.scales, values, strict=True)]
    for powers in np.ndindex(*(5,) * len(values)):
        exponents = [int(power) - 2 for power in powers]
        if not any(exponents) or (min(exponents) < 0 < max(exponents) and sorted(exponents) != [-1, 1]):
            continue
        if _alike(total[known], wanted[known] * np.prod([value**power for value, power in zip(values, exponents, strict=True)], axis=0)):
            return exponents
    return []


def _exponent_words(exponents: Sequence[int], names: list[str]) -> tuple[str, str]:
    parts, kinds = [], []
    for exponent, name in zip(exponents, names, strict=True):
        words = {-1: f"{name} is missing", 1: f"{name} is applied twice", -2: f"the sum is divided by {name} instead of multiplied",
                 2: f"{name} is applied three times", 0: ""}[exponent]  # fmt: skip
        if words:
            parts.append(words)
            kinds.append(f"{name}_{ {-1: 'forgotten', 1: 'twice', -2: 'divided', 2: 'twice'}[exponent]}")
    known = {"scales_forgotten": "no_scale", "scales_twice": "scale_twice", "scales_divided": "divided_by_scale"}
    name = " or ".join(known.get(kind, kind) for kind in kinds)
    if len(kinds) == 2 and all(exponent == -1 for exponent in exponents):
        name = "no_rescale"
    return ", and ".join(parts), name


def _misplaced(run: Run, pairs: Pairs, tensor: str) -> Divergence | None:
    """A factor that took another element of a scale than the one that belongs to the element of Y."""
    scale = next(scale for scale in run.stages.scales if scale.tensor == tensor)
    own = pairs.m if scale.axis == "m" else pairs.n
    other = pairs.n if scale.axis == "m" else pairs.m
    for factor in pairs.flow.terms[0].factors:
        within = factor.within.get(tensor)
        if within is None:
            continue
        origin = within[:, 0]
        used = offsets_of(origin)
        carried = _carried(pairs, scale.axis)
        bad = (origin >= 0) & (used != own) & (used != carried)
        if not bad.any():
            continue
        e = int(np.flatnonzero(bad)[0])
        short = tensor.removesuffix("_ptr")
        index = "rows" if scale.axis == "m" else "columns"
        one = len(np.unique(used[origin >= 0])) == 1 and len(np.unique(own[origin >= 0])) > 1
        in_tile = _by_place_of_other(run, pairs, scale.axis, used[bad], bad)
        alone = one and len(np.unique(other)) == 1 and ((used[bad] == other[bad]).all() or in_tile)
        crossed = bool(np.isin(used[bad], other).all()) and len(np.unique(used)) > 1 and _follows(used, other)
        crossed |= in_tile and len(np.unique(used[bad])) > 1 and len(np.unique(used[bad] - own[bad])) > 1
        if crossed:
            name = CROSSED.get(tensor, "scale_by_row")
            reason = f"{short} belongs to the {index} of Y, and is taken along the other index"
        elif alone:
            name = f"{CROSSED.get(tensor, 'scale_by_row')} or {_one_name(tensor)}"
            reason = f"{short} belongs to the {index} of Y; it is taken along the other index, or one element of it for the whole tile"
        elif one:
            name, reason = _one_name(tensor), f"one element of {short} is used for the whole tile"
        else:
            name, reason = scale_tiles.beside(run, pairs, tensor, scale.axis, own[bad], used[bad])
        return Divergence(name, FACTOR, run.line_of_load(factor.node, tensor) or factor.line,
                       f"Y[{pairs.m[e]}, {pairs.n[e]}] is multiplied by {short}[{used[e]}]", f"{short}[{own[e]}]", reason,
                       pairs.program)  # fmt: skip
    return None


def _by_place_of_other(run: Run, pairs: Pairs, axis: str, used: Array, bad: Array) -> bool:
    """Whether the right tile's elements of a scale are taken by the place of the other axis in it. used: of the elements that are bad."""
    m, n, _ = places_in_output(run, pairs.store)
    begins, each = (int(m[0]), int(n[0])), (pairs.m[bad], pairs.n[bad])
    own, other = (0, 1) if axis == "m" else (1, 0)
    return bool((used - begins[own] == each[other] - begins[other]).all())


def _masked(run: Run, pairs: Pairs, tensor: str) -> Divergence | None:
    """A factor that a scale was loaded for, and that has what the load's mask put there: the scale is not missing."""
    scale = next(scale for scale in run.stages.scales if scale.tensor == tensor)
    own = pairs.m if scale.axis == "m" else pairs.n
    for factor in pairs.flow.terms[0].factors:
        within = factor.within.get(tensor)
        if within is None or tensor not in factor.sources:
            continue
        left_out = (within[:, 0] == NONE) & pairs.live.any(axis=1) & (own < run.problem.tensors[tensor].numel())
        if not left_out.any():
            continue
        e, short = int(np.flatnonzero(left_out)[0]), tensor.removesuffix("_ptr")
        if not _asked(run, factor, tensor)[left_out].all():
            return _not_chosen(run, pairs, factor, e, f"{short}[{own[e]}]")
        return Divergence(
            f"{short}_masked", FACTOR, run.line_of_load(factor.node, tensor) or factor.line,
            f"Y[{pairs.m[e]}, {pairs.n[e]}] is multiplied by {factor.values[e]:.4g}, which the mask of {short} puts there",
            f"{short}[{own[e]}]", f"the mask of the load of {short} leaves out an element that is needed, or the index is another one",
            pairs.program,
        )  # fmt: skip
    return None


def _asked(run: Run, factor: Factor, tensor: str) -> Array:
    """bool [E]: whether a factor is what a load of `tensor` brought, from its address or, where the mask left that out, instead of it."""
    origin = run.provenance.origin(factor.node, tensor, masked=False)
    return np.zeros(len(factor.lanes), dtype=bool) if origin is None else origin.reshape(-1)[factor.lanes[:, 0]] != NONE


def _not_chosen(run: Run, pairs: Pairs, factor: Factor, e: int, wanted: str) -> Divergence:
    """A factor that a condition chose in place of a scale, for element e of Y. wanted: the scale's element."""
    short, ids = wanted.split("[")[0], tuple(int(i) for i in np.unravel_index(pairs.program, run.grid))
    reason = f"a condition takes another number in place of {short}, which the sum has to be multiplied by"
    if run.config.split_k > 1:
        reason += " in every slice of K: unlike something that is added, a factor belongs to the share of each of them"
    return Divergence(
        f"{short}_not_chosen", FACTOR, factor.line,
        f"the sum for Y[{pairs.m[e]}, {pairs.n[e]}] is multiplied by {factor.values[e]:.4g} and not by {short}, where the program ids are "
        f"{ids}", wanted, reason, pairs.program,
    )  # fmt: skip


def _rounded(run: Run, pairs: Pairs, tensor: str) -> Divergence | None:
    """A factor that is a scale in a type of few digits."""
    scale = next(scale for scale in run.stages.scales if scale.tensor == tensor)
    own, values = pairs.m if scale.axis == "m" else pairs.n, run.problem.tensors[tensor].double().numpy()
    for factor in pairs.flow.terms[0].factors:
        if factor.sources != {tensor} or factor.divides:
            continue
        there = pairs.live.any(axis=1) & (own < len(values))
        expected = np.where(there, values[np.where(there, own, 0)], 1.0)
        off = np.abs(np.where(there, factor.values, 1.0) / expected - 1.0)
        if not off.max() > ROUNDED[0]:
            continue
        e, short = int(off.argmax()), tensor.removesuffix("_ptr")
        changed = _changed(run, factor, e, tensor)
        if off.max() >= ROUNDED[1]:
            if changed is None or not changed.type.startswith(("int", "uint")):
                continue
            return Divergence(
                f"{short}_as_integer", FACTOR, changed.line,
                f"Y[{pairs.m[e]}, {pairs.n[e]}] is multiplied by {factor.values[e]:.6g}", f"{short}[{own[e]}] = {expected[e]:.6g}",
                f"{short} becomes {changed.type}, and loses its fraction", pairs.program,
            )  # fmt: skip
        return Divergence(
            f"{short}_rounded", FACTOR, changed.line if changed else run.line_of_load(factor.node, tensor) or factor.line,
            f"Y[{pairs.m[e]}, {pairs.n[e]}] is multiplied by {factor.values[e]:.6g}", f"{short}[{own[e]}] = {expected[e]:.6g}",
            f"{short} was rounded to a type of fewer digits on the way", pairs.program,
        )  # fmt: skip
    return None


def _changed(run: Run, factor: Factor, e: int, tensor: str) -> Link | None:
    """The step that made another number of a scale, on its way to where it is a factor of element e."""
    try:
        links = history(run.tape, run.provenance, factor.node, int(factor.lanes[e, 0]), tensor)
    except (Untraceable, ValueError):
        return None
    return next((later for earlier, later in itertools.pairwise(links) if later.value != earlier.value), None)


def _follows(used: Array, index: Array) -> bool:
    """Whether `used` is a function of `index` that tells its values apart."""
    pairs = {(int(a), int(b)) for a, b in zip(index, used, strict=True)}
    return len(pairs) == len(set(index.tolist()))


def _one_name(tensor: str) -> str:
    return "one_scale_for_all_channels" if tensor == "scales_ptr" else "one_scale_for_all_tokens"
