"""Pictures of the model's notebook: how numbers are spread, and how one thing depends on another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from grader.reporting.pictures import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, Picture, composed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (BLUE, ORANGE, GREEN, VERMILLION, SKY, PURPLE)
MARKERS = "os^Dvx"
BINS = 80
MOST_VALUES = 200_000


def spreads(values: Mapping[str, torch.Tensor], title: str) -> Picture:
    """A histogram of each tensor, one below the other on one axis; counts are drawn on a logarithmic scale, so that tails show."""
    flat = {name: tensor.detach().float().flatten().cpu()[:MOST_VALUES] for name, tensor in values.items()}
    largest = max(float(tensor.abs().max()) for tensor in flat.values())

    def draw(figure: Figure) -> None:
        all_axes = figure.subplots(len(flat), 1, sharex=True, squeeze=False)[:, 0]
        for axes, colour, (name, tensor) in zip(all_axes, COLOURS * len(flat), flat.items(), strict=False):
            axes.hist(tensor.numpy(), bins=BINS, range=(-largest, largest), color=colour, log=True)
            axes.set_ylabel("count")
            axes.set_title(name)
        all_axes[-1].set_xlabel(title)

    words = "; ".join(
        f"{name} standard deviation {float(tensor.std()):.3g}, largest {float(tensor.abs().max()):.3g}" for name, tensor in flat.items()
    )
    return composed(0.5 + 1.25 * len(flat), draw, f"{title}: {words}.")


def curves(series: Mapping[str, Mapping[float, float]], x: str, y: str, title: str) -> Picture:
    """A line for each name through its points; y is logarithmic. Lines differ in marker as well as in colour."""

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for colour, marker, (name, points) in zip(COLOURS, MARKERS, series.items(), strict=False):
            axes.plot(list(points), list(points.values()), color=colour, marker=marker, label=name)
        axes.set(xlabel=x, ylabel=y, title=title, yscale="log")
        axes.legend(loc="upper left")

    words = "; ".join(f"{name}: {', '.join(f'{v:.3g} at {k:g}' for k, v in points.items())}" for name, points in series.items())
    return composed(2.8, draw, f"{title}, {y} over {x}: {words}.")
