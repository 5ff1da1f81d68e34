"""Is every product in the sum once, in a type that holds it, and is the sum multiplied by what belongs to it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from grader.diagnosis.ledger.flow import Passed
from grader.diagnosis.ledger.pairs import Pairs, Run, scales_passed, scales_used
from grader.diagnosis.ledger.provenance import IDENTITIES, Array, offsets_of
from grader.diagnosis.ledger.tape import Node
from grader.labs.bound import U_FP16, U_FP32, additions
from grader.labs.divergence import CAST, FACTOR, SUM, Divergence
from grader.labs.stages import elements

LOOSE = 6.0
"""A flow is understood when what was read off it lies within so many bounds of what was stored: casts round too."""
HALF = ("fp16", "bf16")
FLOAT_SUMS = ("fadd", "dot", "fma")
SUMMED = ("fadd", "add", "dot")


def dropped(run: Run, program: int, stores: list[Node]) -> list[Node]:
    """Products of the program that reach none of its stores; none where a value of unknown origin does."""
    waiting = [store.inputs[0] for store in stores]
    seen = set(waiting)
    while waiting:
        for i in run.tape.nodes[waiting.pop()].inputs:
            if i not in seen:
                seen.add(i)
                waiting.append(i)
    if any("?" in run.provenance.sources(store.inputs[0]) for store in stores):
        return []
    return [node for node in run.provenance.products(run.tape.programs[program]) if node.number not in seen]


def not_kept(run: Run, pairs: Pairs | None, program: int, stores: list[Node]) -> Divergence | None:
    """Products that are computed and lost."""
    lost = dropped(run, program, stores)
    if not lost or not stores:
        return None
    line = lost[0].line
    kept = 0 if pairs is None else len({term.node for term in pairs.flow.terms})
    if not kept:
        return Divergence("zeros", SUM, line, "the result of the multiplication reaches no store", "a sum that keeps it",
                       "tl.dot returns the sum, it does not change its argument", program)  # fmt: skip
    if pairs is not None and min(term.node for term in pairs.flow.terms) > lost[-1].number:
        return Divergence(
            "accumulator_overwritten", SUM, line,
            f"the products of {len(lost)} earlier turn{'s' if len(lost) != 1 else ''} are not in the sum, the last one is",
            "the sum of all turns", "each turn replaces the accumulator instead of adding to it", program,
        )  # fmt: skip
    return None


def kept_on(run: Run, pairs: Pairs) -> Divergence | None:
    """A partial sum that was scaled and added, and goes on growing: its products arrive in Y several times."""
    if not pairs.flow.again:
        return None
    node = min(pairs.flow.again)
    return Divergence(
        "sum_not_reset", SUM, run.tape.nodes[node].line,
        "what is summed up here first is multiplied and added to the result, stays in the sum, and is added once more with what comes next",
        "each product once", "a partial sum that was added to the result goes on growing: it is not set to zero again", pairs.program,
    )  # fmt: skip


def look(run: Run, pairs: Pairs, held: Array) -> tuple[list[Divergence], bool]:
    """Findings on accumulation, casts and factors; and whether the flow explains what was stored.

    held: [E, P], factors that the operands have in them already.
    """
    flow = pairs.flow
    findings: list[Divergence] = []
    for addend in flow.addends:
        if run.lab.output in addend.sources:
            findings.append(Divergence("unwritten_or_stale", SUM, addend.line, "the result is added to what Y held before",
                                    "the result alone", "Y arrives uninitialised", pairs.program))  # fmt: skip
        else:
            return [], False
    with np.errstate(all="ignore"):
        predicted = flow.predicted
        bound = U_FP16 * np.abs(predicted) + 2 * additions(max(1, pairs.turn.size)) * U_FP32 * flow.size + 1e-6
        apart = np.abs(predicted - flow.stored)
    same = np.isnan(predicted) & ~np.isfinite(flow.stored)
    if not findings and not bool((same | (apart <= 1.2 * bound)).all()):
        cast = _coarse_product(run, pairs) or _wrapped(run, pairs) or _cast(run, pairs, ~(same | (apart <= 1.2 * bound)))
        if cast is None and float((same | (apart <= LOOSE * bound)).mean()) < 0.98:
            return [], False
        findings += [cast] if cast else []
    along_k = _along_k(run, pairs)
    totals = _totals(pairs, held / np.prod(list(along_k.values()), axis=0) if along_k else held)
    repeated = _repeated(run, pairs, totals)
    if repeated:  # what it multiplies overflows for that reason
        findings = [finding for finding in findings if finding.rank != CAST]
    findings += repeated
    if not any(finding.rank == SUM and finding.name != "unwritten_or_stale" for finding in findings):
        factors = _factors(run, pairs, totals, held, along_k)
        if factors:  # a sum that lacks its scale overflows for that reason
            findings = [finding for finding in findings if finding.name != "fp16_overflow"]
        findings += factors
    return findings, True


def _cast(run: Run, pairs: Pairs, far: Array) -> Divergence | None:
    """The first value on the way that a type could not hold: overflow to inf, or a sum kept in fp16."""
    nodes = run.tape.nodes
    coarse: tuple[Passed, Array] | None = None
    for step in pairs.flow.passed:
        node = nodes[step.node]
        after = run.provenance.values(step.node).reshape(-1)[step.lanes].astype(np.float64)
        before = run.provenance.values(step.source).reshape(-1)[step.source_lanes].astype(np.float64)
        if before.shape != after.shape:
            continue
        over = np.isinf(after) & np.isfinite(before) & step.alive
        if over.any() and node.op not in SUMMED:
            if any(nodes[other.node].type in HALF and nodes[other.node].op in SUMMED and other.node > step.node
                   for other in pairs.flow.passed):
                coarse = (step, before)
                break
            return _overflow(run, pairs, step, before[over][0])
        if node.type in HALF and far.any() and (node.op in FLOAT_SUMS or _goes_on(run, pairs, step)):
            coarse = max(coarse or (step, before), (step, before), key=lambda one: _peak(one[1]))
    if coarse is None:
        return None
    return _coarse_sum(run, pairs, *coarse)


def _overflow(run: Run, pairs: Pairs, step: Passed, value: float) -> Divergence:
    """value: one that the step's type could not hold."""
    node = run.tape.nodes[step.node]
    scaled = any(factor.at > step.node for term in pairs.flow.terms for factor in term.factors)
    name = "fp16_before_scaling" if scaled else "fp16_overflow"
    reason = "the sum is brought to fp16, which ends at 65504, before it is scaled" if scaled else "fp16 ends at 65504"
    return Divergence(name, CAST, node.line, f"{_grouped(value)} as {node.type} is inf",
                   "the scales first, then fp16" if scaled else "", reason, pairs.program)  # fmt: skip


def _coarse_sum(run: Run, pairs: Pairs, step: Passed, before: Array) -> Divergence:
    """before: the values that the step made fp16."""
    node, peak = run.tape.nodes[step.node], _peak(before)
    return Divergence(
        "fp16_accumulator", SUM, node.line,
        f"the sum is kept in {node.type}; at {_grouped(peak)} its steps are {_spacing(peak):g} wide, and it ends at 65504",
        "a sum in fp32 or int32", f"the accumulator is {node.type}", pairs.program,
    )  # fmt: skip


def _coarse_product(run: Run, pairs: Pairs) -> Divergence | None:
    """Products, or sums along K within one, that are fp16 already, whatever they are added to afterwards."""
    products = dict.fromkeys(term.node for term in pairs.flow.terms)
    found = [number for number in products if run.tape.nodes[number].type in HALF and run.tape.nodes[number].op in ("dot", "fmul")]
    if not found:
        return None
    node = run.tape.nodes[found[0]]
    values = np.concatenate([run.provenance.values(number).reshape(-1).astype(np.float64) for number in found])
    if np.isinf(values).any():
        said = f"the product itself is {node.type}, which ends at 65504: it is inf"
    else:
        said = f"the product itself is {node.type}; at {_grouped(_peak(values))} its steps are {_spacing(_peak(values)):g} wide"
    name, reason = "fp16_accumulator", f"tl.dot gives {node.type} before it is added up"
    if node.op == "fmul":
        name, reason = "fp16_products", f"X and W are multiplied in {node.type}, and each product is rounded before it is added up"
    return Divergence(name, SUM, node.line, said, "a product in fp32", reason, pairs.program)


def _goes_on(run: Run, pairs: Pairs, step: Passed) -> bool:
    """Whether it is the accumulator that is converted to fp16: a sum of sums, to which more is added later."""
    nodes = run.tape.nodes
    added = nodes[step.source].inputs[2:] if nodes[step.source].op in ("dot", "fma") else nodes[step.source].inputs
    sums = nodes[step.source].op in FLOAT_SUMS and bool(added) and all(run.provenance.carries(i) for i in added)
    later = (nodes[other.node] for other in pairs.flow.passed if other.node > step.node)
    return sums and nodes[step.node].op in IDENTITIES and any(node.op in FLOAT_SUMS for node in later)


def too_coarse(run: Run, pairs: Pairs) -> list[Divergence]:
    """A sum in fp16, where nothing else is wrong and Y is: rounding it to fp16 once, at the end, would have been right."""
    found = _coarse_product(run, pairs) or _cast(run, pairs, np.ones(len(pairs.m), dtype=bool))
    return [found] if found is not None and found.name in ("fp16_accumulator", "fp16_products") else []


def _wrapped(run: Run, pairs: Pairs) -> Divergence | None:
    """The first integer on the way that its type could not hold."""
    nodes = run.tape.nodes
    for step in pairs.flow.passed:
        node = nodes[step.node]
        if not node.type.startswith("int") or not all(nodes[i].type.startswith("int") for i in node.inputs):
            continue
        if node.op not in (*IDENTITIES, "add"):
            continue
        exact = sum(np.broadcast_to(run.provenance.values(i), node.shape).astype(np.int64) for i in node.inputs)
        held = run.provenance.values(step.node)
        at = np.flatnonzero(np.asarray(exact != held))
        if len(at):
            value = int(np.asarray(exact).reshape(-1)[at[0]])
            return Divergence(
                "integer_overflow", SUM, node.line, f"{_grouped(value)} as {node.type} is {_grouped(int(held.reshape(-1)[at[0]]))}",
                "a sum in int32", f"the sum is kept in {node.type}, and wraps around beyond {_grouped(np.iinfo(held.dtype).max)}",
                pairs.program,
            )  # fmt: skip
    return None


def _peak(values: Array) -> float:
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _spacing(value: float) -> float:
    """The distance of neighbours in fp16 at a value."""
    return float(np.spacing(np.float16(min(value, 65000.0)))) if value else 0.0


def _grouped(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ") if abs(value) >= 1000 else f"{value:.4g}"


def _carried(pairs: Pairs, axis: str) -> Array:
    """[E]: the row of X, or channel of W, that the products of each element of Y come from."""
    own, operand = (pairs.m, pairs.left) if axis == "m" else (pairs.n, pairs.right)
    live = operand.live & pairs.alive
    rows = operand.row[np.arange(len(own)), live.argmax(axis=1)]
    return np.where(live.any(axis=1), rows, own)


def _along_k(run: Run, pairs: Pairs) -> Mapping[str, Array]:
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


def _wanted(run: Run, pairs: Pairs, *, carried: bool = True) -> Array:
    """[E]: the product of the scales that belong to each element."""
    wanted: Array = np.prod([np.ones(len(pairs.m)), *_scale_values(run, pairs, carried=carried)], axis=0)
    return wanted


def _totals(pairs: Pairs, held: Array) -> list[Array]:
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
    if np.allclose(ratio, 2.0**turns, rtol=1e-6):
        return [Divergence("accumulated_twice", SUM, terms[-1].line, f"the product of turn 0 is {2**turns} times in the sum",
                        "once", "the accumulator is given to tl.dot and added to its result as well", pairs.program)]  # fmt: skip
    per_turn = np.abs(ratio) ** (1.0 / turns)
    wanted = _wanted(run, pairs)[known]
    line = terms[0].factors[-1].line if terms[0].factors else terms[-1].line
    if terms[0].factors and len(terms[0].factors) > len(terms[-1].factors):
        scaled = "the scales" if np.allclose(per_turn, wanted, rtol=1e-2) else "a factor"
        return [Divergence("scaled_every_turn", SUM, line,
                        f"the sum is multiplied by {scaled} in each turn: turn 0 has the factor {first[known][0]:.3g}, "
                        f"the last turn {last[known][0]:.3g}",
                        "one factor for all turns", "the sum is scaled inside the loop, each turn again", pairs.program)]  # fmt: skip
    return []


def _factors(run: Run, pairs: Pairs, totals: Sequence[Array], held: Array, along_k: Mapping[str, Array]) -> list[Divergence]:
    """The factor between products and Y: right scales, from the right places, once."""
    if not pairs.flow.terms:
        return []
    plain = [scale.tensor for scale in run.stages.scales if scale.at is None]
    findings = [finding for tensor in plain if (finding := _misplaced(run, pairs, tensor))]
    if findings:
        return findings
    number = next((number for number, total in enumerate(totals) if np.isfinite(total).any()), None)
    return [] if number is None else _off_factor(run, pairs, totals[number], number, held, along_k)


def _off_factor(run: Run, pairs: Pairs, total: Array, number: int, held: Array, along_k: Mapping[str, Array]) -> list[Divergence]:
    """The factor of a term, where it is not the scales'. total: [E], of the term of this number."""
    terms, known = pairs.flow.terms, np.isfinite(total)
    wanted = _wanted(run, pairs)
    ratio = total[known] / wanted[known]
    if np.allclose(ratio, 1.0, rtol=4e-3) or np.allclose(total[known] / _wanted(run, pairs, carried=False)[known], 1.0, rtol=4e-3):
        return []
    line = terms[0].factors[0].line if terms[0].factors else pairs.store.line
    e = int(np.flatnonzero(known)[0])
    scales = " times ".join(scale.words for scale in run.stages.scales)
    values, what = [value[known] for value in _scale_values(run, pairs, carried=True)], "the sum is"
    if along_k:  # in a term of several groups products differ, so the first one of each element is asked
        what, place = "the first product is", _first(pairs, number)
        total, wanted = (pairs.factor * held)[place], wanted * np.prod([value[place] for value in along_k.values()], axis=0)
        ratio = total[known] / wanted[known]
        if np.allclose(ratio, 1.0, rtol=4e-3):
            return []
        values = [along_k[scale.tensor][place][known] if scale.at else value
                  for scale, value in zip(run.stages.scales, values, strict=True)]  # fmt: skip
    at = f"for Y[{pairs.m[e]}, {pairs.n[e]}] {what} multiplied by {total[e]:.4g}"
    exponents = _exponents(ratio, values)
    if not exponents and not along_k:
        own, values = _wanted(run, pairs, carried=False), [value[known] for value in _scale_values(run, pairs, carried=False)]
        exponents = _exponents(total[known] / own[known], values)
        wanted = own if exponents else wanted
    expected = f"{wanted[e]:.4g}" + (f", which is {scales}" if scales else "")
    if exponents:
        short = [scale.tensor.removesuffix("_ptr") for scale in run.stages.scales]
        reason, name = _exponent_words(exponents, short)
        return [Divergence(name, FACTOR, line, at, expected, reason, pairs.program)]
    same = len(set(np.round(ratio / ratio[0], 3).tolist())) == 1
    return [Divergence("factor", FACTOR, line, at, expected, f"Y is {ratio[0]:.4g} times what it should be" if same else "", pairs.program)]


def _first(pairs: Pairs, number: int) -> tuple[Array, Array]:
    """Where the first live pair of a term stands for each element of Y, in arrays [E, P]."""
    here = np.flatnonzero(pairs.term == number)
    return np.arange(len(pairs.m)), here[pairs.live[:, here].argmax(axis=1)]


def _exponents(ratio: Array, values: Sequence[Array]) -> list[int]:
    """The powers of the scales, from -2 to 2, whose product the ratio is, one of them in another's place; none where none fits."""
    for powers in np.ndindex(*(5,) * len(values)):
        exponents = [int(power) - 2 for power in powers]
        if not any(exponents) or (min(exponents) < 0 < max(exponents) and sorted(exponents) != [-1, 1]):
            continue
        made = np.prod([value**exponent for value, exponent in zip(values, exponents, strict=True)], axis=0)
        if np.allclose(ratio, made, rtol=4e-3):
            return exponents
    return []


def _exponent_words(exponents: list[int], names: list[str]) -> tuple[str, str]:
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
        crossed = bool(np.isin(used[bad], other).all()) and len(np.unique(used)) > 1 and _follows(used, other)
        if crossed:
            name = _crossed_name(tensor)
            reason = f"{short} belongs to the {index} of Y, and is taken along the other index"
        elif one:
            name, reason = _one_name(tensor), f"one element of {short} is used for the whole tile"
        else:
            name, reason = _tile_name(tensor), f"{short} is loaded without the offset of the tile"
        return Divergence(name, FACTOR, run.line_of_load(factor.node, tensor) or factor.line,
                       f"Y[{pairs.m[e]}, {pairs.n[e]}] is multiplied by {short}[{used[e]}]", f"{short}[{own[e]}]", reason,
                       pairs.program)  # fmt: skip
    return None


def _follows(used: Array, index: Array) -> bool:
    """Whether `used` is a function of `index` that tells its values apart."""
    pairs = {(int(a), int(b)) for a, b in zip(index, used, strict=True)}
    return len(pairs) == len(set(index.tolist()))


def _crossed_name(tensor: str) -> str:
    if tensor == "scales_ptr":
        return "scale_by_row"
    return "scales_swapped or input_scale_by_column or weight_scale_by_row"


def _one_name(tensor: str) -> str:
    return "one_scale_for_all_channels" if tensor == "scales_ptr" else "one_scale_for_all_tokens"


def _tile_name(tensor: str) -> str:
    return "wrong_token_scale" if tensor == "input_scale_ptr" else "scale_without_tile_offset"
