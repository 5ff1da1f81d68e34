"""What happened, as pictures: for reports and notebooks alike.

Each function takes plain data and returns a Picture: a matplotlib figure and the sentence that says what it shows.
Colours are Okabe and Ito's, which the colour-blind can tell apart, and no picture says anything by colour alone.
In SVG the ink and the paper follow the reader's light or dark setting; PNG is always dark on light.
matplotlib is imported when the first picture is drawn, or by `prepare`.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import cycle, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from grader.model import NEAR_BOUNDS, ErrorMap, TestResult, Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE = "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7"
BLACK, SILVER = "#000000", "#bdbdc2"
RED = "#e5383b"
"""Of what is wrong, and called red where it is spoken of; black text on it has a contrast of 4.9."""
INK, PAPER, FAINT = "#1c1c21", "#fdfdfe", "#8b8b95"
FOLLOWING = {INK: ("--ink", "#e6e6ea"), PAPER: ("--paper", "#1d1d22"), FAINT: ("--faint", "#8b8b95")}
"""The colours that follow the reader's setting: what they are called in SVG, and what they become in the dark."""

STYLE: Any = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.facecolor": PAPER,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "legend.columnspacing": 1.0,
    "legend.handlelength": 1.5,
    "hatch.linewidth": 0.6,
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "grader",
}
WIDTH = 4.4
"""Inches. 4.4 inches are 422 CSS pixels; in the 300 that a phone leaves, the text is still 8 pixels high."""
LETTER = 0.08
"""Inches that a letter or digit of a picture takes, on average."""


@dataclass(frozen=True)
class Picture:
    """A figure and what it shows in words, for those who cannot see it."""

    figure: Figure
    alt: str

    def svg(self) -> str:
        """An SVG document whose ink and paper follow prefers-color-scheme."""
        import matplotlib
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        out = io.StringIO()
        with matplotlib.rc_context(STYLE):  # by the canvas itself: Figure.savefig draws everything once more before
            FigureCanvasSVG(self.figure).print_svg(out, metadata={"Date": None, "Creator": None})
        text = out.getvalue()
        text = text[text.index("<svg") :]
        for colour, (variable, _) in FOLLOWING.items():
            text = text.replace(colour, f"var({variable}, {colour})")
        light = "".join(f"{variable}:{colour};" for colour, (variable, _) in FOLLOWING.items())
        dark = "".join(f"{variable}:{colour};" for variable, colour in FOLLOWING.values())
        style = f"<style>svg{{{light}}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}</style>"
        return re.sub(r"(<svg[^>]*>)", lambda match: match[1] + style, text, count=1)

    def png(self) -> bytes:
        """A PNG, dark on light."""
        import matplotlib

        out = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            self.figure.savefig(out, format="png", dpi=144, metadata={"Software": None})
        return out.getvalue()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a notebook shows: the PNG at its size in CSS pixels, and the words where pictures are not shown."""
        width = round(96 * self.figure.get_size_inches()[0])
        return {"image/png": self.png(), "text/plain": self.alt}, {"image/png": {"width": width}}


SLIDE = (
    "const box = this.closest('div'); box.querySelector('output').value = this.dataset.at.split('|')[this.value]; "
    "box.querySelectorAll('img').forEach((one, at) => one.style.display = at == this.value ? 'block' : 'none')"
)


@dataclass(frozen=True)
class Slider:
    """Pictures of the same size, one at a time, by the value of `name` that each is for. first: which is shown before anything is moved.

    Without scripts that one stays, and the range moves nothing.
    """

    name: str
    pictures: Mapping[str, Picture]
    first: int = 0

    def html(self) -> str:
        """A range over the pictures, with nothing that is loaded from elsewhere."""
        values = list(self.pictures)
        images = "".join(self._image(one, shown=at == self.first) for at, one in enumerate(self.pictures.values()))
        return (
            f'<div><label>{escape(self.name)}: <input type="range" min="0" max="{len(values) - 1}" value="{self.first}" '
            f'data-at="{escape("|".join(values))}" oninput="{escape(SLIDE)}" style="width:16em;vertical-align:middle"> '
            f"<output>{escape(values[self.first])}</output></label>{images}</div>"
        )

    @staticmethod
    def _image(one: Picture, *, shown: bool) -> str:
        data = base64.b64encode(one.png()).decode()
        width, display = round(96 * one.figure.get_size_inches()[0]), "block" if shown else "none"
        return f'<img src="data:image/png;base64,{data}" alt="{escape(one.alt)}" width="{width}" style="max-width:100%;display:{display}">'

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """What a notebook shows: the range and its pictures, and the words of all where HTML is not shown."""
        words = "\n".join(f"{self.name} {value}: {one.alt}" for value, one in self.pictures.items())
        return {"text/html": self.html(), "text/plain": words}


def prepare() -> None:
    """Imports what draws pictures, for a caller that has to wait for something else."""
    import matplotlib.backends.backend_svg
    import matplotlib.figure  # noqa: F401


def _draw(height: float, draw: Callable[[Axes], None], alt: str, width: float = WIDTH) -> Picture:
    """A figure of one set of axes."""
    return composed(height, lambda figure: draw(figure.add_subplot()), alt, width)


def composed(height: float, draw: Callable[[Figure], None], alt: str, width: float = WIDTH) -> Picture:
    """A figure of so many inches, without pyplot's global state; `draw` fills it."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        _plain_logarithms(figure)
        engine = figure.get_layout_engine()
        assert engine is not None
        engine.execute(figure)
        figure.set_layout_engine("none")  # laid out once, so that drawing it again gives the same picture
    return Picture(figure, alt)


def _plain_logarithms(figure: Figure) -> None:
    """Ticks of logarithmic axes as plain numbers: matplotlib writes them as mathematics, which is not parsed here."""
    from matplotlib.ticker import LogFormatter, LogFormatterSciNotation

    class Plain(LogFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        if isinstance(axis.get_major_formatter(), LogFormatterSciNotation):
            axis.set_major_formatter(Plain())
        if isinstance(axis.get_minor_formatter(), LogFormatterSciNotation):
            axis.set_minor_formatter(Plain())


def one_line(title: str) -> str:
    """A title as part of a sentence."""
    return " ".join(title.split())


def box(axes: Axes, rows: tuple[float, float], columns: tuple[float, float], **style: Any) -> None:
    """A rectangle over these rows and columns."""
    from matplotlib.patches import Rectangle

    (top, bottom), (left, right) = rows, columns
    axes.add_patch(Rectangle((left, top), right - left, bottom - top, **style))


def _cells(
    axes: Axes, numbers: Any, colours: Sequence[str], extent: tuple[float, float, float, float], **style: Any
) -> None:
    """A matrix whose cells have the colours of their numbers. extent: left, right, bottom and top edge."""
    from matplotlib.colors import ListedColormap

    shades: dict[str, Any] = {"cmap": ListedColormap(colours), "vmin": 0, "vmax": len(colours) - 1}
    axes.imshow(numbers, interpolation="none", extent=extent, **shades, **style)


def lettered(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    """Text around a point."""
    axes.text(x, y, text, **{"ha": "center", "va": "center", **style})


def named_rows(axes: Axes, names: Sequence[str], above: float = 0.6) -> None:
    """A row for each name, from top to bottom."""
    axes.set_ylim(len(names) - 0.4, -above)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)


# ---------------------------------------------------------------- the output

VERDICTS = (
    (Verdict.RIGHT, "right", SILVER),
    (Verdict.NEAR, f"off by up to {NEAR_BOUNDS:.0f}x the bound", ORANGE),
    (Verdict.FAR, "off by more", RED),
    (Verdict.UNWRITTEN, "NaN or unwritten", BLACK),
)
MAX_TILE_LINES = 40


def error_map(errors: ErrorMap) -> Picture:
    """Y with each element's verdict and the lines between tiles; tiles that hold a wrong element are outlined."""
    from matplotlib.patches import Patch

    wrong, total = wrong_tiles(errors)
    title = f"{errors.case}, config {errors.config}: {errors.wrong} of {errors.M * errors.N} elements wrong"
    if errors.tile:
        title += f",\n{len(wrong)} of {total} tiles ({errors.tile[0]} x {errors.tile[1]})"
    counted = [(label, colour, errors.counts[verdict]) for verdict, label, colour in VERDICTS]
    height = float(np.clip(1.3 + WIDTH * 0.85 * errors.M / errors.N, 2.2, 4.6))

    def draw(axes: Axes) -> None:
        extent = (0, errors.cells.shape[1] * errors.step[1], errors.cells.shape[0] * errors.step[0], 0)
        flat = "auto" if errors.M < errors.N / 12 else "equal"
        _cells(axes, errors.cells, [colour for _, _, colour in VERDICTS], extent, aspect=flat)
        axes.set(xlim=(0, errors.N), ylim=(errors.M, 0), xlabel="column n of Y", ylabel="row m of Y")
        axes.spines[["top", "right"]].set_visible(True)
        if errors.tile:
            rows, columns = errors.tile
            for at, limit, line in ((rows, errors.M, axes.axhline), (columns, errors.N, axes.axvline)):
                if limit / at <= MAX_TILE_LINES:
                    for edge in range(at, limit, at):
                        line(edge, color=PAPER, linewidth=0.8)
            if len(wrong) < total <= MAX_TILE_LINES**2:
                for row, column in wrong:
                    wide, high = min(columns, errors.N - column), min(rows, errors.M - row)
                    inset = 0.004 * errors.N
                    down = inset if errors.M > errors.N / 12 else 0.0
                    inside = (row + down, row + high - down), (column + inset, column + wide - inset)
                    box(axes, *inside, fill=False, edgecolor=RED, linewidth=1.5, zorder=3)
            axes.set_xticks(_edges(columns, errors.N))
            axes.set_yticks(_edges(rows, errors.M))
        # Title and legend are the figure's: axes that keep Y's shape may be narrow, or end high above the lower edge.
        axes.figure.suptitle(title, x=0.01, ha="left", fontsize=STYLE["axes.titlesize"])
        handles = [
            Patch(facecolor=colour, edgecolor=FAINT, label=f"{label}: {count}") for label, colour, count in counted
        ]
        axes.figure.legend(handles=handles, loc="outside lower center", ncols=2)

    words = ", ".join(f"{count} {label}" for label, _, count in counted if count)
    alt = f"Error map of Y [{errors.M}, {errors.N}] in case {errors.case}: {words}."
    if errors.tile:
        alt += f" {len(wrong)} of {total} tiles of {errors.tile[0]} x {errors.tile[1]} are affected."
    return _draw(height + 0.4, draw, alt)


def values(
    name: str, got: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor, unset: torch.Tensor, at: tuple[int, int]
) -> Picture:
    """Some elements of a result and what they should be, wrong ones on red; a column stands beside the other, a tile above.

    All [rows, columns]. unset: where nothing was stored. at: row and column of the first.
    """
    rows, columns = got.shape
    right, texts = torch.zeros_like(wrong), [_texts(got, unset), _texts(expected, torch.zeros_like(unset))]
    halves = [(f"{name}: got", texts[0], wrong), ("expected", texts[1], right)]
    across, down = (columns + 0.5, 0.0) if columns == 1 else (0.0, rows + 1.0)

    def draw(axes: Axes) -> None:
        for number, (title, tile, bad) in enumerate(halves):
            left, top = number * across, number * down
            _cells(axes, bad.numpy(), [SILVER, RED], (left, left + columns, top + rows, top), aspect="auto")
            axes.text(left, top - 0.3, title, color=INK)
            for row, column in np.ndindex(rows, columns):
                lettered(axes, left + column + 0.5, top + row + 0.5, tile[row][column], color=BLACK)
        axes.set(xlim=(0, across + columns), ylim=(down + rows, -0.8), xticks=[], ylabel="row")
        lines = [(top + row + 0.5, str(at[0] + row)) for top in {0.0, down} for row in range(rows)]
        axes.set_yticks(*zip(*lines, strict=True))
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.tick_params(length=0)

    alt = f"{int(wrong.sum())} of {wrong.numel()} elements of {name} shown are wrong, from row {at[0]}, column {at[1]} on."
    longest = max(len(text) for tile in texts for row in tile for text in row)
    return _draw(0.7 + 0.28 * (down + rows), draw, alt, max(WIDTH, 0.5 + (across + columns) * (0.1 + LETTER * longest)))


def _texts(tile: torch.Tensor, unset: torch.Tensor) -> list[list[str]]:
    return [
        ["unset" if absent else f"{value:.4g}" for value, absent in zip(*row, strict=True)]
        for row in zip(tile.tolist(), unset.tolist(), strict=True)
    ]


MOST_PROGRAMS = 6


def footprints(programs: Sequence[Mapping[str, np.ndarray[Any, Any]]], result: str) -> Picture:
    """What each program loads and stores: a row a program, a column a tensor, in its shape; the last is stored to, and called `result`."""
    names = [*(name.removesuffix("_ptr") for name in list(programs[0])[:-1]), result]
    shown = programs[:MOST_PROGRAMS]
    colours = [SKY] * (len(names) - 1) + [GREEN]

    def draw(axes: Axes) -> None:
        for row, program in enumerate(shown):
            for column, part in enumerate(program.values()):
                flat = part.reshape(-1, part.shape[-1]) if part.ndim > 1 else part.reshape(1, -1)
                _cells(axes, flat, [PAPER, colours[column]], (column, column + 0.9, row + 0.85, row), aspect="auto")
                box(axes, (row, row + 0.85), (column, column + 0.9), fill=False, edgecolor=FAINT, linewidth=0.8)
        for column, name in enumerate(names):
            verb = "stores to" if column == len(names) - 1 else "loads"
            axes.text(column, -0.12, f"{verb}\n{name}", va="bottom")
        axes.set(xlim=(-0.02, len(names)), ylim=(len(shown), -0.9), xticks=[])
        axes.set_yticks([row + 0.42 for row in range(len(shown))], [f"program {row}" for row in range(len(shown))])
        axes.tick_params(length=0)
        axes.spines[["left", "bottom"]].set_visible(False)

    words = [
        f"program {number} touches "
        + ", ".join(
            f"{part.sum()} of {part.size} elements of {name}" for name, part in zip(names, one.values(), strict=True)
        )
        for number, one in enumerate(shown)
    ]
    width = 0.9 + len(names) * max(1.0, 0.1 + LETTER * max(map(len, names)))
    return _draw(0.52 + 0.42 * len(shown), draw, f"What each program touches: {'; '.join(words)}.", max(WIDTH, width))


def wrong_tiles(errors: ErrorMap) -> tuple[list[tuple[int, int]], int]:
    """(row, column) of the first element of each tile that holds a wrong one, and how many tiles there are."""
    if errors.tile is None:
        return [], 0
    rows, columns = errors.tile
    total = -(-errors.M // rows) * -(-errors.N // columns)
    cells = np.argwhere(errors.cells != Verdict.RIGHT)
    found = {(int(r) * errors.step[0] // rows * rows, int(c) * errors.step[1] // columns * columns) for r, c in cells}
    return sorted(found), total


def _edges(tile: int, size: int) -> list[int]:
    """Where to write numbers along a side: tile edges, at most about eight of them, and the end."""
    every = tile * max(1, -(-size // (8 * tile)))
    edges = list(range(0, size, every))
    return [edge for edge in edges if size - edge > 0.6 * every or edge == 0] + [size]


# ---------------------------------------------------------------- the formats


def quantisation(row: torch.Tensor, scale: float, *, bits: int = 8, name: str = "row") -> Picture:
    """The histogram of row / scale over the integer levels, what clamps, and the levels that nobody uses.

    row: floating [K]. scale: the row's scale. bits: 8 or 4, for levels -2^(bits-1) to 2^(bits-1) - 1.
    """
    from matplotlib.ticker import MaxNLocator

    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    ratio = row.detach().double().cpu().numpy().ravel() / scale
    rounded = np.round(ratio)
    q = np.clip(rounded, low, high).astype(int)
    counts = np.bincount(q - low, minlength=high - low + 1)
    clamped = int((rounded != q).sum())
    used = int((counts > 0).sum())
    spread = float(np.sqrt(np.mean(ratio**2))) or 1.0
    outliers = np.unique(q[np.abs(ratio) > 6 * spread])
    title = f"{name}: {len(q)} values on {used} of {high - low + 1} levels,\n{clamped} clamped"

    def draw(axes: Axes) -> None:
        levels = np.arange(low, high + 1)
        axes.bar(levels, counts, width=1.0 if bits == 8 else 0.85, color=BLUE)
        for edge in (low - 0.5, high + 0.5):
            axes.axvline(edge, color=FAINT, linewidth=0.8, linestyle=":")
        if clamped:
            ends = [level for level, beyond in ((low, rounded < low), (high, rounded > high)) if beyond.any()]
            axes.bar(
                ends,
                counts[np.array(ends) - low],
                width=max(1.0, 0.012 * (high - low)),
                color=VERMILLION,
                hatch="////",
                edgecolor=PAPER,
                label=f"clamped: {clamped} values",
            )
        if len(outliers):
            axes.plot(
                outliers,
                counts[outliers - low],
                "v",
                color=ORANGE,
                markeredgecolor=INK,
                markersize=7,
                label="outliers: beyond 6x the row's root mean square",
            )
        axes.set(xlabel=f"level q = round(x / s), s = {scale:.4g}", ylabel="values", title=title)
        axes.set_xlim(low * 1.04 - 1, high * 1.04 + 1)
        axes.set_ylim(0, counts.max() * 1.3)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        if clamped or len(outliers):
            axes.legend(loc="upper left")

    alt = f"Histogram of {one_line(title)}. Scale {scale:.4g}; {len(outliers)} levels hold outliers."
    return _draw(2.5, draw, alt)


def bsr_pattern(crow: torch.Tensor, col: torch.Tensor, K: int, *, block: int = 32) -> Picture:
    """Which blocks of W [N, K] are present, row pointers beside them. crow: int [N/block + 1]; col: int [nnz]."""
    pointers, columns = crow.tolist(), col.tolist()
    rows, width = len(pointers) - 1, K // block
    blocks = [end - start for start, end in pairwise(pointers)]
    present = np.zeros((rows, width))
    present[np.repeat(np.arange(rows), blocks), columns] = 1
    empty = 100 * (1 - len(columns) / max(1, rows * width))
    title = f"W [{rows * block}, {K}]: {len(columns)} of {rows * width} blocks,\n{block} x {block}, {empty:.0f} % empty"

    def draw(axes: Axes) -> None:
        _cells(axes, present, [PAPER, BLUE], (0, width, rows, 0))
        if max(rows, width) <= MAX_TILE_LINES:
            for limit, line in ((rows, axes.axhline), (width, axes.axvline)):
                for edge in range(1, limit):
                    line(edge, color=FAINT, linewidth=0.4)
        axes.spines[["top", "right"]].set_visible(True)
        named = range(0, rows, max(1, -(-rows // 16)))
        places = [row + 0.5 for row in named]
        axes.set_yticks(places, [str(row) for row in named])
        axes.set(xlabel=f"block column (k // {block})", ylabel=f"block row (n // {block})", title=title)
        beside = axes.secondary_yaxis("right")
        beside.set_yticks(places, [f"{pointers[row]} : {pointers[row + 1]}" for row in named])
        beside.set_ylabel("crow[row] : crow[row + 1]")
        beside.tick_params(length=0)
        beside.spines["right"].set_visible(False)

    alt = f"Block pattern of {one_line(title)}. Block rows hold {min(blocks, default=0)} to {max(blocks, default=0)} blocks."
    return _draw(float(np.clip(0.9 + 3.4 * rows / max(1, width), 1.6, 4.8)), draw, alt)


def int4_word(word: int, *, row: int = 0, column: int = 0) -> Picture:
    """One int32 word of packed weights: its 32 bits, the eight nibbles and the element each of them is."""
    pattern = int(word) & 0xFFFFFFFF
    nibbles = [(pattern >> 4 * i) & 0xF for i in range(8)]
    values = [nibble - 16 if nibble > 7 else nibble for nibble in nibbles]

    def draw(axes: Axes) -> None:
        for i, (nibble, value) in enumerate(zip(nibbles, values, strict=True)):
            left = 28 - 4 * i
            box(axes, (1.0, 2.0), (left, left + 4), facecolor=(SKY, PAPER)[i % 2], edgecolor=INK, linewidth=1.0)
            ink = BLACK if i % 2 == 0 else INK
            for bit in range(4):
                lettered(axes, left + 3.5 - bit, 1.5, str(nibble >> bit & 1), color=ink, family="monospace")
            axes.text(left + 2, 2.2, f"{4 * i + 3}-{4 * i}", ha="center", color=INK, size=8)
            lettered(axes, left + 2, 0.55, f"{value:+d}" if value else "0", weight="bold")
            lettered(axes, left + 2, 0.1, f"k={8 * row + i}", size=8)
        axes.text(-0.4, 2.2, "bits", ha="right")
        axes.text(-0.4, 0.55, "value", ha="right", va="center")
        axes.text(-0.4, 0.1, "element", ha="right", va="center")
        axes.set(xlim=(-4.6, 32.1), ylim=(-0.2, 2.6), title=f"qweight[{row}, {column}] = 0x{pattern:08X}")
        axes.set_axis_off()

    listed = ", ".join(str(value) for value in values)
    alt = f"int32 word 0x{pattern:08X}: elements {8 * row} to {8 * row + 7} are {listed}, lowest nibble first."
    return _draw(1.6, draw, alt)


SHADES = (SKY, ORANGE, SILVER, PURPLE, "#f0e442", GREEN)
PANELS = 2


def shared_scales(shares: Mapping[str, torch.Tensor]) -> Picture:
    """Matrices side by side, each element with the number of the scale that it shares. shares: int [rows, columns] by name."""
    counts = {name: int(numbers.max()) + 1 for name, numbers in shares.items()}
    lines = -(-len(shares) // PANELS)

    def draw(figure: Figure) -> None:
        grid = figure.subplots(lines, PANELS, squeeze=False).flat
        for axes, (name, numbers) in zip(grid, shares.items(), strict=False):
            rows, columns = numbers.shape
            _cells(axes, numbers.numpy() % len(SHADES), SHADES, (0, columns, rows, 0))
            for row, column in np.ndindex(rows, columns):
                box(axes, (row, row + 1), (column, column + 1), fill=False, edgecolor=PAPER, linewidth=0.8)
                lettered(axes, column + 0.5, row + 0.5, str(int(numbers[row, column])), color=BLACK, size=8)
            axes.set(xlim=(0, columns), ylim=(rows, 0), title=f"{name}: {counts[name]} scale{'s' * (counts[name] > 1)}")
        for axes in figure.axes:
            axes.set_axis_off()

    words = "; ".join(f"{name} has {count} scale{'s' * (count > 1)}" for name, count in counts.items())
    return composed(1.25 * lines, draw, f"Which elements share a scale, by its number: {words}.")


# ---------------------------------------------------------------- the speed


def speed_tiers(timed: Sequence[TestResult]) -> Picture:
    """A bar a speed case: its ratio to the baseline, the interval as a whisker, a tick at each ratio where a tier begins."""
    found = {
        test.name: [test.metrics[name] for name in ("ratio", "ratio_low", "ratio_high", "tiers")] for test in timed
    }

    def draw(axes: Axes) -> None:
        axes.axvline(1.0, color=FAINT, linewidth=1.0, linestyle="--")
        for row, (ratio, low, high, tiers) in enumerate(found.values()):
            axes.barh(row, ratio, height=0.5, color=BLUE)
            whisker = [[max(0.0, ratio - low)], [max(0.0, high - ratio)]]
            axes.errorbar(ratio, row, xerr=whisker, color=INK, capsize=3, linewidth=1.2)
            for number, boundary in enumerate(tiers, 1):
                reached = ratio >= boundary
                axes.plot([boundary] * 2, [row - 0.38, row + 0.38], color=ORANGE, linewidth=2.2 if reached else 1.4)
                axes.text(boundary, row - 0.41, str(number), ha="center", va="bottom", size=8)
            axes.annotate(
                f"{ratio:.2f}x",
                (max(ratio, high), row),
                xytext=(7, 0),
                textcoords="offset points",
                va="center",
                ha="left",
                weight="bold",
                bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.6},
            )
        right = max(max(high, *tiers, 1.0) for _, _, high, tiers in found.values())
        axes.set_xlim(0, right * 1.16)
        named_rows(axes, list(found), 0.75)
        axes.set_xlabel("times as fast as cuBLAS fp16; orange: tiers")

    words = "; ".join(
        f"{name} {ratio:.2f}x ({low:.2f} to {high:.2f}), tier {sum(ratio >= tier for tier in tiers)} of {len(tiers)}"
        for name, (ratio, low, high, tiers) in found.items()
    )
    return _draw(0.75 + 0.52 * len(found), draw, f"Speed as a ratio to cuBLAS fp16: {words}.")


WIDE_NAME = 24
"""Letters of a name beyond which a legend has one column."""


@dataclass(frozen=True)
class RooflinePoint:
    """One speed case on the roofline: its operations, bytes that must move, and times in microseconds."""

    name: str
    operations: float
    bytes_moved: float
    student_us: float
    baseline_us: float


def roofline(
    points: Sequence[RooflinePoint],
    gigabytes_per_s: float,
    roofs: Mapping[str, float],
    legend: str = "filled: your kernel, hollow: cuBLAS fp16",
    reach: Sequence[float] = (),
) -> Picture:
    """Rate over arithmetic intensity, the bandwidth's slope and flat roofs by name in tera-operations per second.

    They are shown in TFLOP/s, where the name begins with "int" in TOP/s. reach: intensities that fit in too, so that several pictures
    have the same axes.

    A filled mark is the student's kernel, the hollow one above or below it the baseline at the same useful work.
    """
    intensities = [point.operations / point.bytes_moved for point in points]
    rates = [[point.operations / time / 1e6 for time in (point.student_us, point.baseline_us)] for point in points]
    highest, lowest = max(roofs.values()), min(min(pair) for pair in rates)
    corner = 1e3 * highest / gigabytes_per_s
    # with room for the names of the roofs, right of all marks
    left, right = min([*intensities, *reach, corner]) / 3, max([*intensities, *reach, corner]) * 20
    wide = max(len(point.name) for point in points) > WIDE_NAME

    def draw(axes: Axes) -> None:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.plot([left, corner], [left * gigabytes_per_s / 1e3, highest], color=INK, linewidth=1.4, zorder=0.5)
        axes.text(
            left * 2.6, left * 2.0 * gigabytes_per_s / 1e3, f"{gigabytes_per_s:.0f} GB/s", size=9, ha="left", va="top"
        )
        for (name, roof), dashes in zip(roofs.items(), cycle(("-", "--")), strict=False):
            ridge = 1e3 * roof / gigabytes_per_s
            axes.plot([ridge, right], [roof, roof], color=INK, linewidth=1.4, linestyle=dashes)
            unit = "TOP/s" if name.startswith("int") else "TFLOP/s"
            axes.text(
                right,
                roof * 1.06,
                f"{name}: {roof:.0f} {unit}",
                ha="right",
                va="bottom",
                size=9,
                zorder=1,
                bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.4},
            )
        for point, x, (student, baseline), marker in zip(points, intensities, rates, cycle("osD^vP*X"), strict=False):
            axes.plot([x, x], [student, baseline], color=FAINT, linewidth=0.8)
            axes.plot(x, baseline, marker, markerfacecolor=PAPER, markeredgecolor=INK, markersize=6)
            mine: Any = {"color": VERMILLION, "markeredgecolor": INK, "markersize": 7, "label": point.name}
            axes.plot(x, student, marker, linestyle="none", **mine)
        axes.set(xlim=(left, right), ylim=(min(lowest, left * gigabytes_per_s / 1e3) / 2, highest * 2.2))
        axes.set_xlabel("operations per byte that must move")
        axes.set_ylabel("tera-operations per second of useful work")
        columns = 1 if wide else 2
        axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.22), ncols=columns, title=legend, title_fontsize=9)

    words = "; ".join(
        f"{point.name}: {x:.0f} operations per byte, {student:.1f} tera-operations per second"
        + (f" (baseline {baseline:.1f})" if baseline != student else "")
        for point, x, (student, baseline) in zip(points, intensities, rates, strict=True)
    )
    return _draw(3.7 + 0.2 * wide * len(points), draw, f"Roofline with a slope of {gigabytes_per_s:.0f} GB/s. {words}.")


# ---------------------------------------------------------------- what a benchmark measured


def bars(values: Mapping[str, float], unit: str, title: str) -> Picture:
    """A bar for each name, from top to bottom, with its value beside it."""
    most = max(values.values())

    def draw(axes: Axes) -> None:
        axes.barh(range(len(values)), list(values.values()), height=0.55, color=BLUE)
        for row, value in enumerate(values.values()):
            axes.text(value + most / 60, row, f"{value:.3g}", va="center", ha="left", weight="bold")
        axes.set(xlim=(0, most * 1.16), xlabel=unit, title=one_line(title))
        named_rows(axes, list(values))

    words = "; ".join(f"{name} {value:.3g}" for name, value in values.items())
    width = max(WIDTH, 3.0 + 0.07 * max(map(len, values)))  # inches a letter of a name, and room for the bars
    return _draw(0.85 + 0.34 * len(values), draw, f"{title}, in {unit}: {words}.", width)


def ratio_curves(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    xlabel: str,
    title: str,
    *,
    logarithmic: bool = False,
) -> Picture:
    """Ratios to cuBLAS fp16 as (x, ratio) points, a line a name; above the dashed line is faster. `logarithmic`: the x axis."""
    colours = (VERMILLION, BLUE, GREEN, PURPLE, ORANGE, SKY)

    def draw(axes: Axes) -> None:
        axes.axhline(1.0, color=FAINT, linewidth=1.0, linestyle="--")
        for (name, points), colour, marker in zip(curves.items(), cycle(colours), cycle("os^Dv*"), strict=False):
            xs, ys = zip(*points, strict=True)
            axes.plot(xs, ys, color=colour, marker=marker, markersize=5, label=name)
        if logarithmic:
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter("{x:g}")
        ticks = sorted({x for points in curves.values() for x, _ in points})
        axes.set_xticks(ticks)
        axes.minorticks_off()
        axes.set(xlabel=xlabel, ylabel="times as fast as\ncuBLAS fp16", title=one_line(title), ylim=(0, None))
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.24), ncols=2 if len(curves) > 1 else 1)

    words = "; ".join(
        f"{name} {', '.join(f'{ratio:.2f} at {x:g}' for x, ratio in points)}" for name, points in curves.items()
    )
    return _draw(2.7 + 0.13 * len(curves), draw, f"{title}, times as fast as cuBLAS fp16 over {xlabel}: {words}.")
