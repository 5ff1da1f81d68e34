"""Pictures say in words what they show."""

from __future__ import annotations

import torch

from model.drawings import curves, spreads


def test_spreads_name_the_largest():
    picture = spreads({"x": torch.tensor([-3.0, 0.0, 1.0]), "y": torch.zeros(5)}, "activation")
    assert "x standard deviation 2.08, largest 3" in picture.alt
    assert len(picture.figure.axes) == 2
    assert picture.png().startswith(b"\x89PNG")


def test_curves_give_their_points():
    picture = curves({"plain": {0.0: 4.0, 0.5: 20.0}, "trained": {0.0: 4.0, 0.5: 8.0}}, "sparsity", "perplexity", "Pruning")
    assert picture.alt == "Pruning, perplexity over sparsity: plain: 4 at 0, 20 at 0.5; trained: 4 at 0, 8 at 0.5."
    axes = picture.figure.axes[0]
    assert [line.get_marker() for line in axes.lines] == ["o", "s"]
    assert axes.get_yscale() == "log"


def test_logarithmic_ticks_are_plain_numbers():
    few = curves({"plain": {0.0: 4.0, 0.5: 20.0}}, "sparsity", "perplexity", "Pruning")
    many = spreads({"x": torch.randn(20_000)}, "weight")
    for picture, shown in ((few, "10"), (many, "1000")):
        axis = picture.figure.axes[0].yaxis
        labels = [label.get_text() for label in (*axis.get_ticklabels(), *axis.get_ticklabels(minor=True))]
        assert shown in labels
        assert not any("$" in label for label in labels)
