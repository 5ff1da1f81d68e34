"""The benchmark as drawings: SVG text from a record and nothing else, the same bytes for the same record."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from bench.breakeven import curves, of
from grader.reporting.benchmarks import Entry, Record

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
"""Okabe and Ito, Color Universal Design: told apart with every common colour vision."""

MARKERS = "osD^vPX*"
SETTINGS = {
    "svg.hashsalt": "bench",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
}


def draw(record: Record) -> dict[str, str]:
    """SVG by file name; the ladders are drawn once there are any."""
    drawings: dict[str, Callable[[Record], Figure]] = {
        "speedup_tokens.svg": _tokens,
        "speedup_sparsity.svg": _sparsity,
        "roofline.svg": _roofline,
    }
    if record.timed(kind="ladder"):
        drawings["ladder.svg"] = _ladder
    with matplotlib.rc_context(SETTINGS):
        return {name: svg_text(one(record)) for name, one in drawings.items()}


def svg_text(figure: Figure) -> str:
    """A figure as SVG that is the same each time."""
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def panels(count: int, width: float, height: float, title: str, most: int = 4) -> tuple[Figure, list[Any]]:
    """A figure with `count` axes, one at least and `most` in a row, sizes in inches a panel."""
    count = max(1, count)
    columns = min(count, most)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    figure.suptitle(title)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in axes[count:]:
        unused.set_axis_off()
    return figure, axes[:count]


def _legend(axis: Any, *, below: bool = False) -> None:
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": 2} if below else {}
    if axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=7, **place)


def _style(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour and marker of each contestant; the solution is the first colour and thick."""
    return {
        name: {
            "color": OKABE_ITO[number % len(OKABE_ITO)],
            "marker": MARKERS[number % len(MARKERS)],
            "linewidth": 2.2 if name == "solution" else 1.2,
            "markersize": 4,
        }
        for number, name in enumerate(dict.fromkeys(("solution", *names)))
    }


def _labs(record: Record) -> list[str]:
    return list(dict.fromkeys(entry.lab for entry in record.entries))


def _where(record: Record) -> str:
    return f"{record.gpu}, {record.date.split()[0]}"


def _tokens(record: Record) -> Figure:
    labs = list(dict.fromkeys(e.lab for e in record.entries if e.sparsity is None))
    figure, axes = panels(len(labs), 5, 3.8, f"Speed-up over tokens, 4096 x 4096 weight ({_where(record)})", 2)
    for axis, lab in zip(axes, labs, strict=False):
        entries = [e for e in record.timed(lab) if e.kind != "ladder" and e.N == e.K == 4096]
        for name, style in _style([e.contestant for e in entries]).items():
            line = sorted((e.M, e.ratio) for e in entries if e.contestant == name)
            if line:
                axis.plot(*zip(*line, strict=True), label=name, **style)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_xscale("log", base=2)
        tokens = sorted({e.M for e in entries})
        axis.set_xticks(tokens, [str(M) for M in tokens])
        axis.minorticks_off()
        axis.set_xlabel("tokens M")
        axis.set_ylabel("time of cuBLAS fp16 / time of the kernel")
        axis.set_ylim(bottom=0)
        axis.set_title(lab)
        _legend(axis, below=True)
    return figure


def _sparsity(record: Record) -> Figure:
    found = curves(record)
    tokens = sorted({M for M, _ in found})
    figure, axes = panels(
        len(tokens), 3.4, 3.6, f"Speed-up over block sparsity, 1024 x 1024 weight ({_where(record)})"
    )
    styles = _style([name for _, name in found])
    for axis, M in zip(axes, tokens, strict=False):
        for (curve_tokens, name), entries in found.items():
            if curve_tokens != M:
                continue
            axis.plot([e.sparsity for e in entries], [e.ratio for e in entries], label=name, **styles[name])
            crossing = of(entries).sparsity
            if name == "solution" and crossing is not None:
                axis.axvline(crossing, color=styles[name]["color"], linestyle=":")
                axis.annotate(f"break-even\n{crossing:.2f} ", (crossing, 1.02), fontsize=8, ha="right", va="bottom")
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_title(f"M = {M}")
        axis.set_xlabel("share of blocks that are zero")
        axis.set_ylim(bottom=0)
    axes[0].set_ylabel("time of cuBLAS fp16 / time of the kernel")
    handles, labels = axes[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8)
    return figure


def _roofline(record: Record) -> Figure:
    figure, (axis,) = panels(1, 7, 4.5, f"Roofline ({_where(record)})")
    entries = [e for e in record.timed() if e.bytes_moved and e.operations]
    intensities = [e.operations / e.bytes_moved for e in entries] or [1.0]
    left, right = min(intensities) / 2, max(intensities) * 2
    ceilings = (("fp16", record.fp16_per_second), ("int8", 2 * record.fp16_per_second))
    for name, peak in ceilings:
        if peak and record.bytes_per_second:
            knee = peak / record.bytes_per_second
            xs = sorted({left, min(max(left, knee), right), right})
            axis.plot(xs, [min(peak, x * record.bytes_per_second) / 1e12 for x in xs], color="black", linewidth=0.9)
            axis.annotate(f"{name} peak", (right, peak / 1e12), fontsize=7, ha="right", va="bottom")
    kinds = (("solution", "o", 34), ("ladder", "x", 16), ("peer", "^", 14))
    for number, lab in enumerate(_labs(record)):
        for kind, marker, size in kinds:
            chosen = [e for e in entries if e.lab == lab and e.kind == kind]
            if chosen:
                axis.scatter(
                    [e.operations / e.bytes_moved for e in chosen],
                    [e.operations / e.time_us / 1e6 for e in chosen],
                    color=OKABE_ITO[number], marker=marker, s=size, linewidths=0.9, label=f"{lab} {kind}",
                )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("operations a byte that must move")
    axis.set_ylabel("tera-operations a second")
    axis.legend(fontsize=7, ncols=2)
    return figure


def _ladder(record: Record) -> Figure:
    """One panel a lab: a bar for each step and shape, the solution last."""
    labs = _labs(record)
    figure, axes = panels(len(labs), 4.4, 3.8, f"The ladders, each step's ratio to cuBLAS fp16 ({_where(record)})", 3)
    for axis, lab in zip(axes, labs, strict=False):
        steps = record.timed(lab, "ladder")
        shapes = list(dict.fromkeys(e.shape for e in steps))
        finals = [e for e in record.timed(lab, "solution") if e.shape in shapes]
        names = list(dict.fromkeys(e.contestant for e in [*steps, *finals]))
        width = 0.8 / max(1, len(shapes))
        for number, shape in enumerate(shapes):
            bars = {e.contestant: e for e in [*steps, *finals] if e.shape == shape}
            places = [index + number * width for index, name in enumerate(names) if name in bars]
            heights = [bars[name].ratio for name in names if name in bars]
            axis.bar(places, heights, width, color=OKABE_ITO[number], label=_shape_label(bars))
        axis.axhline(1, color="black", linewidth=0.8)
        middle = width * (len(shapes) - 1) / 2
        labels = [name.removeprefix("ladder/").removeprefix(f"{lab}_") for name in names]
        axis.set_xticks([index + middle for index in range(len(names))], labels, rotation=35, ha="right", fontsize=7)
        axis.set_title(lab)
        axis.set_ylabel("time of cuBLAS fp16 / time of the kernel")
        _legend(axis)
    return figure


def _shape_label(bars: dict[str, Entry]) -> str:
    entry = next(iter(bars.values()))
    sparsity = f", sparsity {entry.sparsity:g}" if entry.sparsity is not None else ""
    return f"M = {entry.M}{sparsity}"
