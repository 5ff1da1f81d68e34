"""Column precision: is there a type on the way to Y that cannot hold what it is given?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from grader.diagnosis.flow import Passed
from grader.diagnosis.history import digits
from grader.diagnosis.observation import Observation, plain
from grader.diagnosis.provenance import IDENTITIES, Array
from grader.diagnosis.relation import Products, Run
from grader.diagnosis.tape import Node
from grader.labs.tolerance import U_FP16, U_FP32, additions

FLOAT_SUMS = ("fadd", "dot", "fma")
HALF = ("fp16", "bf16")
LOOSE = 6.0
"""A flow is understood when what was read off it lies within so many bounds of what was stored: casts round too."""


def adds_up(products: Products) -> tuple[bool, bool]:
    """Whether products, factors and addends give what was stored; and whether they nearly do, so that the flow is understood."""
    flow = products.flow
    with np.errstate(all="ignore"):
        predicted = flow.predicted
        bound = U_FP16 * np.abs(predicted) + 2 * additions(max(1, products.term.size)) * U_FP32 * flow.size + 1e-6
        apart = np.abs(predicted - flow.stored)
    same = np.isnan(predicted) & ~np.isfinite(flow.stored)
    near, roughly = same | (apart <= 1.2 * bound), same | (apart <= LOOSE * bound)
    return bool(near.all()), bool(float(roughly.mean()) >= 0.98) if len(roughly) else True


def check_precision(run: Run, products: Products) -> list[Observation]:
    """The first value on the way that its type could not hold: beyond its end, without its fraction, or with too few digits."""
    return [*_multiplied(run, products), *_passed(run, products)][:1]


def _multiplied(run: Run, products: Products) -> Iterator[Observation]:
    """Multiplications whose own result is of a type that is too narrow."""
    for number in dict.fromkeys(term.node for term in products.flow.terms):
        node = run.tape.nodes[number]
        values = run.provenance.values(number)
        if node.op == "mul" and node.type.startswith(("int", "uint")):
            first, second = (
                np.broadcast_to(run.provenance.values(i), node.shape).astype(np.int64) for i in node.inputs[:2]
            )
            at = np.flatnonzero((first * second != values).reshape(-1))
            if len(at):
                a, b = (int(one.reshape(-1)[at[0]]) for one in (first, second))
                text = f"{a} * {b} = {a * b} as {node.type} is {int(values.reshape(-1)[at[0]])}"
                yield products.seen("precision", "product", node.line, text, "a product in int32")
        if node.op in ("dot", "fmul") and node.type in HALF:
            peak = _peak(values.astype(np.float64))
            inf = ": it is inf" if np.isinf(values.astype(np.float64)).any() else ""
            text = f"the product is {node.type}; near {plain(peak)} its values are {_spacing(peak, node.type):g} apart{inf}"
            yield products.seen("precision", "product", node.line, text, "a product in fp32")


def _passed(run: Run, products: Products) -> Iterator[Observation]:
    """Conversions and sums between the products and Y, in their order."""
    for step in products.flow.passed:
        node = run.tape.nodes[step.node]
        before = run.provenance.values(step.source).reshape(-1)[step.source_lanes].astype(np.float64)
        after = run.provenance.values(step.node).reshape(-1)[step.lanes].astype(np.float64)
        if before.shape != after.shape:
            continue
        observed = _narrowed(run, products, step, node, before, after)
        if observed is not None:
            yield observed


def _narrowed(
    run: Run, products: Products, step: Passed, node: Node, before: Array, after: Array
) -> Observation | None:
    """What an operation on the way loses of its value, from `before` to `after`; None: nothing that accounts for it.

    Not split: a branch for each way in which a value loses digits.
    """

    def observation(aspect: str, text: str, expected: str) -> Observation:
        return products.seen("precision", aspect, node.line, text, expected)

    multiplied = {run.tape.nodes[i].type for term in products.flow.terms for i in run.tape.nodes[term.node].inputs[:2]}
    wide = "a sum in int32" if all(kind.startswith("int") for kind in multiplied) else "a sum in fp32"
    alive = np.broadcast_to(step.alive, before.shape) & np.isfinite(before)
    more = any(run.tape.nodes[one.node].op in FLOAT_SUMS and one.node > step.node for one in products.flow.passed)
    if node.op in IDENTITIES:
        off = np.where(alive, np.abs(after - before), 0.0)
        if node.op in ("fp_to_si", "fp_to_ui") and off.max(initial=0.0) > 0:
            at = np.unravel_index(int(off.argmax()), off.shape)
            return observation(
                "fraction",
                f"{plain(before[at])} as {node.type} is {plain(after[at])}",
                "a result that keeps its fraction",
            )
        over = alive & np.isinf(after)
        if over.any():
            scaled = any(factor.at > step.node for term in products.flow.terms for factor in term.factors)
            last = "the scales first, then fp16" if scaled else f"a sum that {node.type} can hold"
            expected = wide if more else last
            return observation(
                "overflow" if scaled else "too large",
                f"{plain(before[over][0])} as {node.type} is {plain(after[over][0])}",
                expected,
            )
        if node.type == "bf16" and off.max(initial=0.0) > 0:
            at = np.unravel_index(int(off.argmax()), off.shape)
            return observation(
                "bf16", f"{digits(before[at])} as bf16 is {digits(after[at])}", "a result rounded to fp16 alone"
            )
        if node.type in HALF and more:
            return observation("sum", _coarse(node, _peak(before)), wide)
    if node.op in FLOAT_SUMS and node.type in HALF:
        return observation("sum", _coarse(node, _peak(after)), wide)
    if (exact := _exact(run, node)) is not None:
        held = run.provenance.values(node.number)
        wrong = np.flatnonzero((exact != held).reshape(-1))
        if len(wrong):
            value, converted = (int(np.asarray(one).reshape(-1)[wrong[0]]) for one in (exact, held))
            return observation("integer", f"{plain(value)} as {node.type} is {plain(converted)}", wide)
    return None


def check_roundings(run: Run, products: Products) -> list[Observation]:
    """Where all else is right: the conversion before that of the result that loses most, if such roundings account for what is wrong."""
    flow, nodes = products.flow, run.tape.nodes
    last = max((factor.at for term in flow.terms for factor in term.factors), default=-1)
    before = {step.node for step in flow.passed if step.node < last}
    waiting = [factor.node for term in flow.terms for factor in term.factors]
    while waiting:
        number = waiting.pop()
        if number not in before:
            before.add(number)
            waiting += nodes[number].inputs
    lossy = [
        nodes[number] for number in sorted(before) if nodes[number].op in IDENTITIES and nodes[number].type in HALF
    ]
    losses = [(*_loss(run, node), node) for node in lossy]
    losses = [one for one in losses if one[0] > 0]
    right = run.right[products.m, products.n]
    with np.errstate(all="ignore"):
        apart = np.abs(flow.stored - right) / np.abs(right)
    room = 1.05 * (U_FP16 + sum(loss for loss, *_ in losses))
    if not losses or not (apart <= room)[right != 0].all():
        return []
    _, given, made, node = max(losses, key=lambda one: one[0])
    text = f"{digits(given)} as {node.type} is {digits(made)}"
    return [products.seen("precision", "rounding", node.line, text, "fp32 up to the result")]


def _loss(run: Run, node: Node) -> tuple[float, float, float]:
    """The largest relative error of a conversion, and the number that has it before and after."""
    after = run.provenance.values(node.number).astype(np.float64).reshape(-1)
    before = run.provenance.values(node.inputs[0]).astype(np.float64).reshape(-1)
    with np.errstate(all="ignore"):
        lost = np.where(np.isfinite(before) & (before != 0), np.abs(after / before - 1), 0.0)
    at = int(lost.argmax())
    return float(lost[at]), float(before[at]), float(after[at])


def _exact(run: Run, node: Node) -> Array | None:
    """What a sum or conversion of integers should give; None for anything else."""
    if not node.type.startswith("int") or node.op not in (*IDENTITIES, "add"):
        return None
    if not all(run.tape.nodes[i].type.startswith("int") for i in node.inputs):
        return None
    total: Array = np.asarray(
        sum(np.broadcast_to(run.provenance.values(i), node.shape).astype(np.int64) for i in node.inputs)
    )
    return total


def _coarse(node: Node, peak: float) -> str:
    return f"the sum is {node.type}; near {plain(peak)} its values are {_spacing(peak, node.type):g} apart, and more is added"


def _peak(values: Array) -> float:
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _spacing(value: float, kind: str) -> float:
    """The distance of neighbours at a value."""
    if not value:
        return 0.0
    return (
        float(np.spacing(np.float16(min(value, 65000.0)))) if kind == "fp16" else 2.0 ** (np.floor(np.log2(value)) - 7)
    )
