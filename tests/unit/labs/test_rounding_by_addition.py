"""W8A8: a part of rounding by an addition that is missing or out of order makes one number of every value, and is named."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from grader.labs.stages import Values
from grader.labs.w8a8.stages import INPUT_SCALE, judge_left

from grader.model import Problem

M, K = 16, 64


def reasons(held: float) -> str:
    x = torch.randn(M, K, generator=torch.Generator().manual_seed(1)).half()
    problem = Problem({"x_ptr": x, INPUT_SCALE: x.abs().amax(dim=1).float() / 127}, {"M": M, "N": 32, "K": K})
    row, k = (index.reshape(-1) for index in np.indices((M, K)))
    values = Values(
        value=np.full(row.shape, held), row=row, k=k, partner=k, meets=np.ones_like(row, bool), target=row,
        used={INPUT_SCALE: row}, factor=np.ones(row.shape), passed={}, beside=np.ones(row.shape), beside_used={},
    )  # fmt: skip
    return " ".join(judgement.reason for judgement in judge_left(problem, values)[0])


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (-1.0, ".to(tl.int32, bitcast=True)"),
        (127.0, "is clamped after something large"),
        (0.0, "instead of divided, or clamped to -128..127 after 12582912.0"),
    ],
)
def test_one_number_for_every_value_is_named(held, words):
    assert words in reasons(held)


def test_another_number_is_not_taken_for_one_of_them():
    assert "every value becomes" not in reasons(5.0)
