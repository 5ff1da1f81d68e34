"""The records of whole models as drawings: SVG text from a record and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from bench.figures import OKABE_ITO, SETTINGS, panels, svg_text
from grader.reporting.whole_models import DECODER_LAYERS, LECTURE, ModelRecord, Which

NAMES: dict[Which, tuple[str, str]] = {
    "encoder": ("encoder.svg", "Time and peak memory of the encoder"),
    "decoder": ("decoder.svg", "A decoder layer: tokens a second over bytes"),
}
"""File and caption of each drawing."""


def draw_models(models: Mapping[Which, ModelRecord]) -> dict[str, str]:
    """SVG by file name, of the records that there are and in which something was timed."""
    drawings: dict[Which, Callable[[ModelRecord], Figure]] = {"encoder": _encoder, "decoder": _decoder}
    chosen = {which: draw for which, draw in drawings.items() if which in models and models[which].timed}
    with matplotlib.rc_context(SETTINGS):
        return {NAMES[which][0]: svg_text(draw(models[which])) for which, draw in chosen.items()}


def _where(record: ModelRecord) -> str:
    return f"{record.gpu}, {record.date.split()[0]}"


def _encoder(record: ModelRecord) -> Figure:
    """Bars of time and of peak memory; the lecture's below, in another colour."""
    figure, axes = panels(2, 5.2, 4.4, f"ViT-H encoder, batch {record.timed[0].batch} ({_where(record)})")
    names = [entry.contestant for entry in record.timed] + [f"lecture: {name}" for name, _, _ in LECTURE]
    values = (
        ([entry.time_us / 1e3 for entry in record.timed] + [time for _, time, _ in LECTURE], "milliseconds a pass"),
        ([(entry.peak_bytes or 0) / 1e9 for entry in record.timed] + [peak for _, _, peak in LECTURE], "peak memory, 10^9 bytes"),
    )
    colours = [OKABE_ITO[0]] * len(record.timed) + [OKABE_ITO[1]] * len(LECTURE)
    for axis, (widths, label) in zip(axes, values, strict=True):
        axis.barh(range(len(names)), widths, color=colours)
        axis.invert_yaxis()
        axis.set_xlabel(label)
    _spread(axes[0], record)
    axes[0].set_yticks(range(len(names)), names, fontsize=7)
    axes[1].set_yticks(range(len(names)), [])
    return figure


def _spread(axis: Any, record: ModelRecord) -> None:
    for place, entry in enumerate(record.timed):
        axis.plot([entry.fastest_us / 1e3, entry.slowest_us / 1e3], [place, place], color="black", linewidth=1.2)


def _decoder(record: ModelRecord) -> Figure:
    batches = list(dict.fromkeys(entry.batch for entry in record.timed))
    figure, axes = panels(len(batches), 4.4, 3.8, f"Decoder layer of 7 B ({_where(record)})")
    for axis, batch in zip(axes, batches, strict=True):
        entries = [entry for entry in record.timed if entry.batch == batch]
        places = [((entry.weight_bytes or 0) / 1e6, 1e6 * batch / (DECODER_LAYERS * entry.time_us)) for entry in entries]
        for number, (entry, place) in enumerate(zip(entries, places, strict=True)):
            axis.scatter(*place, color=OKABE_ITO[number % len(OKABE_ITO)])
            crowded = any(math.dist(place, other) < 0.06 * max(place) for other in places[:number])
            side = {"xytext": (-6, -3), "ha": "right"} if crowded else {"xytext": (6, -3)}
            axis.annotate(entry.contestant, place, textcoords="offset points", fontsize=8, **side)
        axis.set(xlabel="MB of weights a layer", title=f"batch {batch}")
        axis.set_xlim(0, 1.15 * axis.get_xlim()[1])
        axis.set_ylim(0, 1.05 * axis.get_ylim()[1])
    axes[0].set_ylabel(f"tokens a second, {DECODER_LAYERS} layers")
    return figure
