"""Bits per byte against values that are known without a model."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from model.perplexity import as_tokens, measure, windows

TEXT = bytes(range(256)) * 4


class Known(nn.Module):
    """Gives the byte that follows in TEXT the probability `p`, and all others the same share of the rest."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.tensor(p))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = torch.full((*tokens.shape, 256), math.log((1 - float(self.p)) / 255))
        return logits.scatter(-1, ((tokens + 1) % 256)[..., None], math.log(float(self.p)))


@pytest.mark.parametrize("p", [1 / 256, 0.25, 0.5])
def test_bits_are_minus_the_logarithm_of_the_probability(p):
    quality = measure(Known(p), TEXT, 100)
    assert quality.bits_per_byte == pytest.approx(-math.log2(p), rel=1e-5)
    assert quality.perplexity == pytest.approx(1 / p, rel=1e-4)
    assert quality.predicted == 1000


def test_each_byte_is_predicted_once_from_those_before_it():
    cut = windows(TEXT, 100)
    assert torch.equal(cut[:, 1:].flatten(), as_tokens(TEXT)[1:1001])
    assert torch.equal(cut[:, :-1].flatten(), as_tokens(TEXT)[:1000])


def test_a_text_shorter_than_a_window_is_refused():
    with pytest.raises(ValueError, match="found 100 bytes, expected more than the context of 100"):
        measure(Known(0.5), TEXT[:100], 100)
