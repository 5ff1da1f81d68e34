"""X that a kernel multiplies as it was loaded: what the weight-only labs demand of the left operand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from grader.labs.divergence import CONVERT
from grader.labs.stages import Array, Judgement, Values, exact
from grader.model import Problem


def judge_fp16_activations(problem: Problem, values: Values) -> tuple[Sequence[Judgement], Array]:
    """X as it was loaded, or these times a scale (which the walk finds out)."""
    x = exact(problem, "x_ptr").astype(np.float64)[values.row, values.k]
    ones = np.ones_like(x)
    wrong = np.abs(values.value - x) > 1e-3 * np.abs(x)
    if not wrong.any():
        return (), ones

    def describe(at: tuple[int, ...]) -> tuple[str, str]:
        return f"the left operand holds {values.value[at]:.5g} for X[{values.row[at]}, {values.k[at]}]", f"{x[at]:.5g}"

    reason = "X is multiplied as it is"
    if any((values.value == whole).all() for q in (np.trunc(x), np.round(x)) for whole in (q, (q + 128) % 256 - 128)):
        reason = "X is fp16 and stays so: it lost its fraction on the way"
    return (Judgement("x_converted", reason, wrong, describe, x, CONVERT),), ones
