"""The weights in the repository: small enough, as good as their record says, and on text that comes again."""

from __future__ import annotations

import pytest

from model.corpus import held_out_text
from model.perplexity import measure
from model.store import LARGEST_BYTES, WEIGHTS, load, load_origin
from model.table import SAMPLE_BYTES
from model.table import load as load_results

CLOSE = 0.005
"""Bits per byte by which machines may differ on the same text: sums in another order, nothing else."""


def test_the_weights_are_small_enough_and_have_the_sizes_of_their_record():
    assert WEIGHTS.stat().st_size < LARGEST_BYTES
    model, origin = load(), load_origin()
    assert sum(parameter.numel() for parameter in model.parameters()) == origin.parameters
    assert origin.course.steps > 1000


@pytest.mark.slow
def test_perplexity_comes_again():
    """On the table's sample; where this Python's held-out files are others, only roughly."""
    held_out = held_out_text()
    model, said = load(), load_results().of("fp16")
    found = measure(model, held_out.text[: SAMPLE_BYTES + 1], model.sizes.context)
    assert found.predicted == load_results().sample_bytes
    assert found.bits_per_byte == pytest.approx(said.bits_per_byte, abs=0.3 if held_out.differing else CLOSE)
    assert found.bits_per_byte == pytest.approx(load_origin().quality.bits_per_byte, abs=0.3)
    assert found.bits_per_byte < 3.0
