"""Round to nearest against its formula, element by element in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from model.quantisers.rounding import Format, grid_of, rounded
from tests.unit.model.small import normal

FORMATS = [
    Format(8), Format(4), Format(3), Format(2), Format(8, "tensor"), Format(4, group=16), Format(8, zero_point=True),
    Format(4, group=8, zero_point=True), Format(4, "tensor", zero_point=True),
]


def shared_by(r: torch.Tensor, format: Format) -> list[list[float]]:
    """What shares a scale, as lists."""
    if format.share == "tensor":
        return [r.flatten().tolist()]
    group = format.group or r.shape[1]
    return [row[at : at + group] for row in r.tolist() for at in range(0, len(row), group)]


def nearest_on_grid(values: list[float], format: Format) -> list[float]:
    """By definition: of all numbers of the grid the nearest, for each value."""
    low, high = min(*values, 0.0), max(*values, 0.0)
    if format.zero_point:
        scale = Fraction(high - low) / (2**format.bits - 1)
        zero = round(-Fraction(low) / scale)
        codes = range(2**format.bits)
    else:
        scale, zero = Fraction(max(-low, high)) / (2 ** (format.bits - 1) - 1), 0
        codes = range(-(2 ** (format.bits - 1)), 2 ** (format.bits - 1))
    return [float(min((abs((q - zero) * scale - Fraction(v)), (q - zero) * scale) for q in codes)[1]) for v in values]


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_each_number_becomes_the_nearest_of_its_grid(format):
    r = normal(4, 32) + (0.5 if format.zero_point else 0.0)
    expected = torch.tensor([nearest_on_grid(values, format) for values in shared_by(r, format)]).reshape(r.shape)
    torch.testing.assert_close(rounded(r, format), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_codes_stay_in_range_and_zero_stays_zero(format):
    r = normal(4, 32, seed=1)
    r[0] = 0.0
    r[1, ::2] = 0.0
    grid = grid_of(r, Format(format.bits, zero_point=format.zero_point))
    codes = grid.codes(r)
    assert codes.min() >= format.smallest
    assert codes.max() <= format.largest
    assert len(codes.unique()) <= 2**format.bits
    assert (rounded(r, format)[r == 0] == 0).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"bits": 1}, "bits=1"), ({"bits": 4, "group": 0}, "group=0"), ({"bits": 4, "share": "tensor", "group": 8}, "share='tensor'")],
)
def test_a_bad_format_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        Format(**arguments)


def test_a_group_that_does_not_divide_is_refused():
    with pytest.raises(ValueError, match="group=24"):
        rounded(normal(2, 32), Format(4, group=24))


def test_scales_are_counted():
    assert Format(4).stored_bits(256) == 4 + 16 / 256
    assert Format(4, group=64).stored_bits(256) == 4.25
    assert Format(4, group=64, zero_point=True).stored_bits(256) == 4 + 20 / 64
    assert Format(8, "tensor").stored_bits(256) == 8.0
