"""Is there a type on the way to Y that could not hold what it was given?"""

from __future__ import annotations

import numpy as np

from grader.diagnosis.ledger.flow import Passed
from grader.diagnosis.ledger.pairs import Pairs, Run
from grader.diagnosis.ledger.provenance import IDENTITIES, Array
from grader.labs.divergence import CAST, SUM, Divergence

HALF = ("fp16", "bf16")
FLOAT_SUMS = ("fadd", "dot", "fma")
SUMMED = ("fadd", "add", "dot")
TO_INTEGERS = ("fp_to_si", "fp_to_ui")


def cast(run: Run, pairs: Pairs, far: Array) -> Divergence | None:
    """The first value on the way that a type could not hold: overflow to inf, or a sum kept in fp16."""
    nodes = run.tape.nodes
    coarse: tuple[Passed, Array] | None = None
    for step in pairs.flow.passed:
        node = nodes[step.node]
        before, after = _through(run, step)
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


def coarse_product(run: Run, pairs: Pairs) -> Divergence | None:
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
    found = coarse_product(run, pairs) or cast(run, pairs, np.ones(len(pairs.m), dtype=bool))
    if found is not None and found.name in ("fp16_accumulator", "fp16_products"):
        return [found]
    rounded = _few_digits(run, pairs)
    return [rounded] if rounded else []


def _few_digits(run: Run, pairs: Pairs) -> Divergence | None:
    """A result that a type of fewer digits than fp16 rounds on its way to Y."""
    for step in pairs.flow.passed:
        node = run.tape.nodes[step.node]
        if node.op not in IDENTITIES or node.type != "bf16":
            continue
        before, after = _through(run, step)
        off = np.where(step.alive & np.isfinite(before), np.abs(after - before), 0.0)
        if off.any():
            at = np.unravel_index(int(off.argmax()), off.shape)
            return Divergence(
                "bf16_result", CAST, node.line, f"{before[at]:.7g} as bf16 is {after[at]:.7g}", "a result that is rounded to fp16 alone",
                "the result is rounded to bf16, which has three binary digits fewer than fp16", pairs.program,
            )  # fmt: skip
    return None


def fraction_lost(run: Run, pairs: Pairs) -> Divergence | None:
    """The first integer on the way that was made of a number with a fraction."""
    for step in pairs.flow.passed:
        node = run.tape.nodes[step.node]
        if node.op not in TO_INTEGERS:
            continue
        before, after = _through(run, step)
        off = np.where(step.alive & np.isfinite(before), np.abs(after - before), 0.0) if before.shape == after.shape else np.zeros(1)
        if off.max() > 0:
            at = np.unravel_index(int(off.argmax()), off.shape)
            return Divergence(
                "result_as_integer", CAST, node.line, f"{before[at]:.5g} as {node.type} is {after[at]:.5g}", "a result in fp16",
                f"the result becomes {node.type}, and loses its fraction" + (
                    ", and what the type does not hold" if np.abs(before[at] - after[at]) >= 1 else ""), pairs.program,
            )  # fmt: skip
    return None


def wrapped_product(run: Run, pairs: Pairs) -> Divergence | None:
    """Products of integers, made one by one, that their type cannot hold."""
    for number in dict.fromkeys(term.node for term in pairs.flow.terms):
        node = run.tape.nodes[number]
        if node.op != "mul" or not node.type.startswith(("int", "uint")):
            continue
        first, second = (np.broadcast_to(run.provenance.values(i), node.shape).astype(np.int64) for i in node.inputs[:2])
        exact, held = first * second, run.provenance.values(number)
        at = np.flatnonzero(np.asarray(exact != held))
        if len(at):
            a, b, value, kept = (int(np.asarray(one).reshape(-1)[at[0]]) for one in (first, second, exact, held))
            return Divergence(
                "integer_product_wraps", SUM, node.line, f"{a} * {b} = {_grouped(value)} as {node.type} is {_grouped(kept)}",
                "products in int32", f"X and W are multiplied in {node.type}, and a product that it cannot hold wraps around: convert both "
                "operands to int32 before they are multiplied", pairs.program,
            )  # fmt: skip
    return None


def wrapped(run: Run, pairs: Pairs) -> Divergence | None:
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


def _through(run: Run, step: Passed) -> tuple[Array, Array]:
    """float64 [E, R] each: the values that a step was given, and what it made of them."""
    before = run.provenance.values(step.source).reshape(-1)[step.source_lanes]
    after = run.provenance.values(step.node).reshape(-1)[step.lanes]
    return before.astype(np.float64), after.astype(np.float64)


def _peak(values: Array) -> float:
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _spacing(value: float) -> float:
    """The distance of neighbours in fp16 at a value."""
    return float(np.spacing(np.float16(min(value, 65000.0)))) if value else 0.0


def _grouped(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ") if abs(value) >= 1000 else f"{value:.4g}"
