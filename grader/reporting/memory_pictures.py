"""What a kernel does to memory, as pictures: drawn from what `grader.traffic` counted, for reports and notebooks alike.

Each function takes a Traffic and returns a Picture, as in `grader.reporting.pictures`; None where there is nothing to
show. Numbers in a picture are counted on the interpreter, except those of L2 and of threads, which are a model's and an
assumption's: their titles say so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import cycle, product
from typing import TYPE_CHECKING, Any

import numpy as np

from grader.model import Runs
from grader.reporting.pictures import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    PAPER,
    PURPLE,
    SILVER,
    SKY,
    VERMILLION,
    Picture,
    box,
    composed,
    lettered,
    named_rows,
    one_line,
)
from grader.reporting.traffic_words import counted, mega, shape_of, short
from grader.traffic import (
    OFF,
    ORDERS,
    Access,
    Cache,
    Coalescing,
    Order,
    ProgramTraffic,
    Region,
    TensorTraffic,
    Traffic,
    in_order,
)
from grader.traffic.counting import ElementNumbers, TensorLayout, region, runs_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NUMBERS = 100
"""Tiles that are numbered one by one."""
MOST_RECTANGLES = 256
MOST_SIDE = 96
"""Cells along a side of a heat map."""
SECTORS_A_ROW, MOST_SECTORS = 8, 64
BOX = 0.86
"""How wide a sector is drawn, of the place that it has."""
LIGHT, DARK = "#ffffff", "#000000"
"""Text on a coloured tile; not INK and PAPER, which change places in the dark."""


# ---------------------------------------------------------------- who owns what


def programs(traffic: Traffic) -> Picture | None:
    """Y in tiles, each with the number of the program that stores it; None when no program stores anything."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    owners = [program for program in traffic.programs if program.tile is not None]
    if not owners:
        return None
    shape = traffic.layouts[traffic.output].shape
    slices = max(program.slices for program in owners)
    first = [program for program in owners if program.slice == 0]
    colours = colormaps["cividis"]
    last = max(1, max(program.number for program in first))
    title = f"{len(traffic.programs)} programs, grid {_grid(traffic)}, in the order of launch"
    if slices > 1:
        title += f";\n{slices} share a tile, each has a slice of K: the first is shown"

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for program in first:
            colour = colours(0.04 + 0.94 * program.number / last)
            _tile(axes, program, colour)
            if len(first) <= MOST_NUMBERS:
                _number(axes, program, colour, shape)
        if len(first) > MOST_NUMBERS:
            bar = figure.colorbar(
                ScalarMappable(Normalize(0, last), colours), ax=axes, location="bottom", fraction=0.06, aspect=34
            )
            bar.set_label("program, in the order of launch")
        _frame(axes, shape, "column n of Y", "row m of Y")
        axes.set_title(title)
        _ticks(axes, shape, first)

    words = ", ".join(f"program {program.number} owns {_box(program)}" for program in first[:3])
    height = float(np.clip(1.15 + 3.6 * shape[0] / shape[1], 2.05, 4.65))
    return composed(height, draw, f"{one_line(title)}. Tiles of Y [{shape[0]}, {shape[1]}]: {words}.")


def one_program(traffic: Traffic, number: int) -> Picture:
    """What one program reads of X and W and stores of Y, the three laid out as they are multiplied.

    Raises IndexError for a number that no program has.
    """
    program = traffic.programs[number]
    weight, x, y = _weight(traffic), _activations(traffic), traffic.output
    places = ((weight, "reads of", (0, 1), ORANGE), (x, "reads of", (1, 0), SKY), (y, "stores to", (1, 1), GREEN))
    shown = [(name, verb, at, colour) for name, verb, at, colour in places if name]
    parts = {**program.reads, y: program.tile}
    clauses = []
    for name in [name for name in (x, weight, y) if name]:
        part, whole = parts.get(name), math.prod(traffic.layouts[name].shape)
        found = "nothing" if part is None else f"{part.elements} of {whole} elements"
        clauses.append(f"{'stores' if name == y else 'reads'} {found} of {short(name)}")
    sliced = f", slice {program.slice} of {program.slices}" if program.slices > 1 else ""
    title = f"program {number}, program_id {program.place}{sliced}"

    def draw(figure: Figure) -> None:
        from matplotlib.patches import Patch

        matrix = weight is not None and len(traffic.layouts[weight].shape) == 2
        (rows, columns), depth = traffic.layouts[y].shape, traffic.layouts[x].shape[1]
        sides = [min(1.5, max(0.7, side)) for side in (depth / columns, rows / columns)]
        grid = figure.add_gridspec(2, 2, width_ratios=(sides[0], 1), height_ratios=(1.0 if matrix else 0.3, sides[1]))
        loads = [one for one in traffic.accesses if one.program == number and one.kind == "load"]
        for name, _, at, colour in shown:
            axes = figure.add_subplot(grid[at])
            first = next((load for load in loads if load.tensor == name), None)
            _regions(axes, traffic.layouts[name], parts.get(name), colour, first)
        note = figure.add_subplot(grid[0, 0])
        note.set_axis_off()
        handles = [
            Patch(facecolor=colour, edgecolor=INK, label=f"{verb} {short(name)}") for name, verb, _, colour in shown
        ]
        handles.append(Patch(facecolor="none", edgecolor=VERMILLION, hatch="////", label="its first load"))
        note.legend(handles=handles, loc="center left", bbox_to_anchor=(-0.1, 0.5))
        figure.suptitle(title, x=0.02, ha="left", size=9.5)

    return composed(3.9, draw, f"{title[0].upper()}{title[1:]}: it {', '.join(clauses)}.")


def slices_of_k(traffic: Traffic) -> Picture | None:
    """Which part of K each program of one tile takes; None where K is not split."""
    shared = [program for program in traffic.programs if program.slices > 1]
    x = _activations(traffic)
    if not shared or x not in shared[0].reads:
        return None
    tile = shared[0].tile
    mine = [program for program in shared if program.tile == tile and x in program.reads]
    depth = traffic.layouts[x].shape[1]
    colours = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION)
    title = f"split-K: {len(mine)} programs add to the tile {_box(mine[0])} of Y"

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for (row, program), colour in zip(enumerate(mine), cycle(colours), strict=False):
            style: Any = {"height": 0.7, "color": colour, "edgecolor": INK, "linewidth": 0.6}
            for low, high in program.reads[x].runs[1]:
                axes.barh(row, high - low, left=low, **style)
        named_rows(axes, [f"slice {row}: program {program.number}" for row, program in enumerate(mine)])
        axes.set(xlim=(0, depth), xlabel="k: columns of X that it reads", title=title.replace(" add to", "\nadd to"))

    words = "; ".join(
        f"slice {row} reads k = " + ", ".join(f"{low} to {high - 1}" for low, high in program.reads[x].runs[1][:4])
        for row, program in enumerate(mine[:8])
    )
    return composed(1.05 + 0.24 * len(mine), draw, f"{title}. {words}.")


# ---------------------------------------------------------------- how often


def reads(traffic: Traffic) -> Picture | None:
    """How often each element of each matrix is loaded, as heat maps on one scale; None when nothing is."""
    from matplotlib import colormaps

    shown = [tensor for tensor in traffic.tensors.values() if tensor.loaded and len(tensor.shape) >= 2]
    if not shown:
        return None
    flat = [tensor.reads.reshape(-1, tensor.shape[-1]) for tensor in shown]
    highest = max(int(part.max()) for part in flat)
    facts = [_read_fact(tensor) for tensor in shown]

    def draw(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        panels = figure.subplots(1, len(shown), squeeze=False)[0]
        for axes, tensor, part, fact in zip(panels, shown, flat, facts, strict=True):
            axes.imshow(
                _coarse(part),
                cmap=colormaps["cividis"],
                vmin=0,
                vmax=max(1, highest),
                interpolation="none",
                extent=(0, part.shape[1], part.shape[0], 0),
                aspect="auto",
            )
            axes.spines[["top", "right"]].set_visible(True)
            axes.set_title(f"{short(tensor.name)} {shape_of(tensor.shape)}:\n{fact}")
            named = len(tensor.sizes) == len(tensor.shape) == 2
            axes.set(
                xlabel=_index(tensor.sizes[-1]) if named else "column",
                ylabel=_index(tensor.sizes[0]) if named else "row, all blocks",
            )
            axes.set_xticks(_marks(part.shape[1]))
            axes.set_yticks(_marks(part.shape[0]))
        bar = figure.colorbar(panels[0].images[0], ax=panels, location="bottom", fraction=0.08, aspect=34)
        bar.set_label("how often an element is loaded")
        bar.locator = MaxNLocator(6, integer=True)
        bar.update_ticks()

    words = "; ".join(f"{short(tensor.name)}: {fact}" for tensor, fact in zip(shown, facts, strict=True))
    return composed(3.1, draw, f"How often each element is loaded. {one_line(words)}.")


def _read_fact(tensor: TensorTraffic) -> str:
    times = sorted(tensor.histogram)
    if len(times) == 1:
        return f"each {times[0]} times" if times[0] != 1 else "each once"
    return f"{times[0]} to {times[-1]} times,\nmean {tensor.mean_reads:.3g}"


# ---------------------------------------------------------------- L2


def order_in_l2(traffic: Traffic, cache: Cache, repeats: int = 1, orders: Sequence[Order] = ORDERS) -> Picture | None:
    """The first wave of programs in the first and the last of some orders, and what misses in the model's L2 in each."""
    if not any(program.tile for program in traffic.programs):
        return None
    found = [traffic.missed(cache, order, repeats) for order in orders]
    shape = traffic.layouts[traffic.output].shape
    scale = 1e6 if max(missed.total for missed in found) >= 1e6 else 1e3
    unit = "MB" if scale == 1e6 else "KB"
    K = traffic.case.K * repeats

    def draw(figure: Figure) -> None:
        wide = shape[1] > 2 * shape[0]
        grid = figure.add_gridspec(3 if wide else 2, 1 if wide else 2, height_ratios=(1, 1, 2) if wide else (1.4, 1.6))
        for number, order in enumerate((orders[0], orders[-1])):
            place = grid[number, 0] if wide else grid[0, number]
            _first_wave(figure.add_subplot(place), traffic, order, cache.resident)
        axes = figure.add_subplot(grid[-1, :])
        for row, missed in enumerate(found):
            _stacked(axes, row, _by_tensor(traffic, missed.fetched), scale, unit)
        needed = found[0].distinct / scale
        axes.axvline(
            needed, color=VERMILLION, linewidth=1.4, linestyle="--", label=f"each byte once: {needed:.3g} {unit}"
        )
        named_rows(axes, [order.name for order in orders])
        most = max(missed.total for missed in found) / scale
        axes.set(xlim=(0, most * 1.22), xlabel=f"{unit} that L2 fetches from DRAM")
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
        title = (
            f"a model of {cache.name}: {cache.resident} programs at a time, {cache.size / 2**20:.3g} MB of L2;\n"
            f"M = {traffic.case.M}, N = {traffic.case.N}, K = {K}; blue: the programs that run first"
        )
        figure.suptitle(title, x=0.02, ha="left", size=9.5)

    words = ", ".join(f"{order.name} {mega(missed.total)}" for order, missed in zip(orders, found, strict=True))
    alt = (
        f"A model of L2 on {cache.name} with {cache.resident} programs at a time and K = {K}: bytes fetched from DRAM are {words}; "
        f"each byte once would be {mega(found[0].distinct)}."
    )
    return composed(4.3, draw, alt)


def _first_wave(axes: Axes, traffic: Traffic, order: Order, resident: int) -> None:
    """Y's tiles; blue those of the programs that run first."""
    for at, number in enumerate(in_order(traffic.programs, order)):
        program = traffic.programs[number]
        if program.tile is not None:
            _tile(axes, program, BLUE if at < resident else SILVER)
    _frame(axes, traffic.layouts[traffic.output].shape, "", "")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(f"Y {order.name}", size=9)


def _by_tensor(traffic: Traffic, fetched: Mapping[str, int]) -> list[tuple[str, int]]:
    """Bytes of X, of the weight and of all others."""
    named = [name for name in (_activations(traffic), _weight(traffic)) if name]
    rest = sum(fetched.get(name, 0) for name in traffic.tensors if name not in named)
    return [*((short(name), fetched.get(name, 0)) for name in named), ("others", rest)]


def _stacked(axes: Axes, row: int, parts: Sequence[tuple[str, int]], scale: float, unit: str) -> None:
    """One bar of bytes, tensor by tensor; the first row names those that are wide enough to be seen."""
    left, total = 0.0, sum(size for _, size in parts)
    for (name, size), colour, hatch in zip(parts, (SKY, ORANGE, SILVER), ("", "////", ""), strict=False):
        label = name if row == 0 and size > 0.005 * total else None
        style: Any = {"color": colour, "hatch": hatch, "label": label, "edgecolor": INK, "linewidth": 0.5}
        axes.barh(row, size / scale, left=left, height=0.6, **style)
        left += size / scale
    axes.text(left, row, f" {left:.3g} {unit}", va="center", size=9)


# ---------------------------------------------------------------- threads


def coalesced(traffic: Traffic, found: Coalescing) -> Picture:
    """One instruction of one warp: the 32-byte sectors that it touches, the bytes used in each, and by which threads."""
    warp, request = _some_request(found)
    mine = (found.warp == warp) & (found.request == request) & (found.offsets != OFF)
    starts, lanes = found.offsets[mine].astype(np.int64), found.lane[mine]
    width = found.width
    sectors = np.unique(np.concatenate((starts // 32, (starts + width - 1) // 32)))
    verb = {"load": "loads", "store": "stores", "atomic": "adds"}[found.kind]
    asked = len(starts) * width
    share = len(np.unique((starts[:, None] + np.arange(width)).reshape(-1))) / (32 * len(sectors))
    used = f"{100 * share:.0f} % of their bytes"
    where = traffic.lines.get(found.line, "your kernel")
    title = (
        f"{where}:\none warp's {found.kind} of {short(found.tensor)}, {counted(found.vector, 'byte')} a thread;\n"
        f"{counted(len(sectors), 'sector')} of 32 bytes touched, {used} used"
    )
    shown = sectors[:MOST_SECTORS]
    rows = -(-len(shown) // SECTORS_A_ROW)

    def draw(figure: Figure) -> None:
        from matplotlib.patches import Patch

        axes = figure.add_subplot()
        for place, sector in enumerate(shown.tolist()):
            row, column = divmod(place, SECTORS_A_ROW)
            high, left = (row + 0.12, row + 0.74), column + 0.1
            box(axes, high, (left, left + BOX), facecolor=PAPER, edgecolor=INK, linewidth=0.8)
            inside = (starts + width > 32 * sector) & (starts < 32 * sector + 32)
            for start in np.unique(starts[inside]).tolist():
                first, end = max(start - 32 * sector, 0), min(start + width - 32 * sector, 32)
                wide = (left + BOX * first / 32, left + BOX * max(end, first + 2) / 32)
                box(axes, high, wide, facecolor=SKY, edgecolor="none")
            lettered(axes, column + 0.53, row + 0.43, _lanes(lanes[inside]), size=7.5, color=DARK)
            if place == 0 or sector != shown[place - 1] + 1:
                axes.plot([column + 0.04, column + 0.04], [row + 0.06, row + 0.8], color=VERMILLION, linewidth=2)
        axes.set(xlim=(0, SECTORS_A_ROW), ylim=(rows, 0))
        axes.set_axis_off()
        axes.set_title(title)
        handles = [
            Patch(facecolor=SKY, label="bytes used, by threads"),
            Patch(facecolor=PAPER, edgecolor=INK, label="moved in vain"),
            Patch(facecolor=VERMILLION, label="after a gap"),
        ]
        axes.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(0, 0.02 if rows > 2 else -0.02),
            ncols=3,
            columnspacing=0.5,
        )

    alt = (
        f"One {found.kind} of {short(found.tensor)} by a warp, in Triton's default layout: {asked} bytes asked for, "
        f"{len(sectors)} sectors of 32 bytes touched, {used} used. It {verb} {counted(found.vector, 'byte')} a thread."
    )
    return composed(1.4 + 0.34 * rows, draw, alt)


def nibbles(traffic: Traffic) -> Picture | None:
    """Which thread holds which element of a packed word after the load; None where no tensor is packed."""
    found = _packed_load(traffic)
    if found is None:
        return None
    name, factor = found.tensor, _packing(traffic.layouts[found.tensor].sizes)
    holders = _holders(found, traffic.layouts[name])
    words = sorted({word for word, _ in holders})[:2]
    columns = sorted({column for _, column in holders})[:12]
    times = max(len(held) for held in holders.values())
    palette = (SKY, ORANGE, GREEN, SILVER, PURPLE, "#f0e442")
    title = f"{short(name)}: the thread that holds each element,\neach word loaded {'once' if times == 1 else f'{times} times in a tile'}"
    numbers = sorted({thread for place in product(words, columns) for thread in holders.get(place, [])})

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for (row, word), (across, column) in product(enumerate(words), enumerate(columns)):
            if not (held := holders.get((word, column))):
                continue
            wide = (across, across + 1)
            for nibble in range(factor):
                thread, at = held[nibble * len(held) // factor], factor * row + nibble
                colour = palette[numbers.index(thread) % len(palette)]
                box(axes, (at, at + 1), wide, facecolor=colour, edgecolor=PAPER, linewidth=0.8)
                lettered(axes, across + 0.5, at + 0.5, str(thread), size=7.5, color=DARK)
            box(axes, (factor * row, factor * row + factor), wide, fill=False, edgecolor=INK, linewidth=1.4)
        axes.set(xlim=(0, len(columns)), ylim=(factor * len(words), 0))
        axes.set_xticks([at + 0.5 for at in range(len(columns))], [str(column) for column in columns])
        elements = [str(factor * word + nibble) for word, nibble in product(words, range(factor))]
        axes.set_yticks([at + 0.5 for at in range(len(elements))], elements)
        axes.tick_params(length=0)
        axes.set(xlabel="column n; a black frame is one word", ylabel="element k", title=title)

    sample = holders[words[0], columns[0]]
    said = (
        f"thread {sample[0]} holds"
        if times == 1
        else f"threads {', '.join(str(thread) for thread in sample[:8])} hold elements of"
    )
    alt = f"{one_line(title)}, in Triton's default layout: {said} the first word."
    return composed(1.0 + 0.19 * factor * len(words), draw, alt)


# ---------------------------------------------------------------- parts


def _packed_load(traffic: Traffic) -> Coalescing | None:
    """The first load of the first matrix whose elements share words."""
    for name, layout in traffic.layouts.items():
        if len(layout.shape) == 2 and _packing(layout.sizes) > 1:
            return next((one for one in traffic.coalescing if one.kind == "load" and one.tensor == name), None)
    return None


def _holders(found: Coalescing, layout: TensorLayout) -> dict[tuple[int, int], list[int]]:
    """The threads that load each element of a matrix, by its row and column."""
    elements = ElementNumbers(layout)
    holders: dict[tuple[int, int], list[int]] = {}
    flat, threads = found.offsets.reshape(-1), (32 * found.warp + found.lane).reshape(-1)
    for at in np.flatnonzero(flat != OFF).tolist():
        number = elements.of_byte(int(flat[at]))
        holders.setdefault((number // layout.shape[1], number % layout.shape[1]), []).append(int(threads[at]))
    return holders


def _activations(traffic: Traffic) -> str:
    """X: the input whose rows are those of Y."""
    return next(
        (name for name, layout in traffic.layouts.items() if layout.sizes == ("M", "K")), next(iter(traffic.layouts))
    )


def _weight(traffic: Traffic) -> str | None:
    """The largest input besides X that is no vector; None where there is none."""
    known = (_activations(traffic), traffic.output)
    others = [name for name, layout in traffic.layouts.items() if name not in known and len(layout.shape) > 1]
    return max(others, key=lambda name: traffic.tensors[name].total_bytes, default=None)


def _packing(sizes: Sequence[str]) -> int:
    """How many elements a word holds, by a size such as "K // 8"; 1 where there is none."""
    for size in sizes:
        if match := re.fullmatch(r"[A-Z]+ // (\d+)", size):
            return int(match[1])
    return 1


def _tile(axes: Axes, program: ProgramTraffic, colour: Any) -> None:
    assert program.tile is not None
    for rows, columns in _rectangles(*program.tile.runs):
        box(axes, rows, columns, facecolor=colour, edgecolor=PAPER, linewidth=0.8)


def _rectangles(rows: Runs, columns: Runs) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where each run of rows meets each run of columns; of very many, what holds them all."""
    if len(rows) * len(columns) > MOST_RECTANGLES:
        rows, columns = ((rows[0][0], rows[-1][1]),), ((columns[0][0], columns[-1][1]),)
    return [(row, column) for row in rows for column in columns]


def _number(axes: Axes, program: ProgramTraffic, colour: tuple[float, ...], shape: tuple[int, ...]) -> None:
    """The program's number on its tile; where tiles are narrow, on some of them only."""
    assert program.tile is not None
    (top, bottom), (left, right) = program.tile.runs[0][0], program.tile.runs[1][0]
    share = (right - left) / shape[1]
    every = math.ceil(0.06 / share)
    if left // (right - left) % every:
        return
    ink = LIGHT if 0.3 * colour[0] + 0.59 * colour[1] + 0.11 * colour[2] < 0.52 else DARK
    size = 8 if share < 0.09 else 9
    lettered(axes, (left + right) / 2, (top + bottom) / 2, str(program.number), color=ink, size=size)


def _regions(axes: Axes, layout: TensorLayout, part: Region | None, colour: str, first: Access | None) -> None:
    """One matrix, and in it what a program touches; a tensor of blocks as a row of blocks."""
    blocks = len(layout.shape) > 2
    high, wide = (1, layout.shape[0]) if blocks else (layout.shape[0], layout.shape[1])
    box(axes, (0, high), (0, wide), facecolor=PAPER, edgecolor=FAINT, linewidth=0.8)
    if part is not None:
        for place in _rectangles(((0, 1),) if blocks else part.runs[0], part.runs[0 if blocks else 1]):
            box(axes, *place, facecolor=colour, edgecolor=INK, linewidth=0.7)
    if first is not None:
        tile = region(layout, [ElementNumbers(layout).elements(first)])
        place = ((0, 1), tile.box[0]) if blocks else (tile.box[0], tile.box[1])
        box(axes, *place, fill=False, edgecolor=VERMILLION, hatch="////", linewidth=1.4)
    axes.set(xlim=(0, wide), ylim=(high, 0), title=f"{short(layout.name)} {shape_of(layout.shape)}")
    axes.title.set_fontsize(8.5)
    axes.spines[["top", "right"]].set_visible(True)
    axes.set_xticks(_marks(wide))
    axes.set_yticks(_marks(high))
    sizes = layout.sizes or ("", "")
    axes.set_xlabel("block" if blocks else _index(sizes[-1]))
    axes.set_ylabel("" if blocks else _index(sizes[0]))
    if blocks:
        axes.set_yticks([])


def _marks(size: int) -> list[int]:
    """Four or so places along a side, as powers of two, and the end."""
    step = 2 ** max(0, math.ceil(math.log2(size / 4)))
    return [*(at for at in range(0, size, step) if at == 0 or size - at > step / 2), size]


def _index(size: str) -> str:
    """The index that runs over a size: k // 8 over "K // 8"."""
    return re.sub(r"\b[MNK]\b", lambda letter: letter[0].lower(), size)


def _frame(axes: Axes, shape: tuple[int, ...], across: str, down: str) -> None:
    axes.set(xlim=(0, shape[1]), ylim=(shape[0], 0), xlabel=across, ylabel=down)
    axes.set_aspect("auto" if not 1 / 3 < shape[0] / shape[1] < 1.2 else "equal")
    axes.spines[["top", "right"]].set_visible(True)


def _ticks(axes: Axes, shape: tuple[int, ...], owners: Sequence[ProgramTraffic]) -> None:
    for axis, set_ticks in ((0, axes.set_yticks), (1, axes.set_xticks)):
        edges = sorted({program.tile.box[axis][0] for program in owners if program.tile is not None} | {shape[axis]})
        most = 9 if axis else max(2, round(8 * min(1.0, shape[0] / shape[1])))
        every = max(1, math.ceil((len(edges) - 1) / most))
        set_ticks([*edges[:-1:every], edges[-1]] if (len(edges) - 1) % every == 0 else edges[:-1:every])


def _grid(traffic: Traffic) -> str:
    grid = list(traffic.grid)
    while len(grid) > 1 and grid[-1] == 1:
        grid.pop()
    return str(tuple(grid))


def _box(program: ProgramTraffic) -> str:
    if program.tile is None:
        return "nothing"
    (top, bottom), (left, right) = program.tile.box
    return f"[{top}:{bottom}, {left}:{right}]"


def _coarse(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """At most MOST_SIDE cells along a side, each the mean of its elements."""
    steps = [max(1, -(-size // MOST_SIDE)) for size in values.shape]
    padded = np.pad(
        values.astype(float), [(0, -size % step) for size, step in zip(values.shape, steps, strict=True)], mode="edge"
    )
    cells = padded.reshape(padded.shape[0] // steps[0], steps[0], padded.shape[1] // steps[1], steps[1])
    return np.asarray(cells.mean(axis=(1, 3)))


def _some_request(found: Coalescing) -> tuple[int, int]:
    """The first instruction of a warp with the most active lanes."""
    active = found.offsets != OFF
    pairs, counts = np.unique(np.stack([found.warp[active], found.request[active]]), axis=1, return_counts=True)
    at = int(np.argmax(counts))
    return int(pairs[0, at]), int(pairs[1, at])


def _lanes(lanes: np.ndarray[Any, Any]) -> str:
    """Thread numbers in few characters: 3, 0-3 or 0, 8, ... ."""
    runs = runs_of(np.isin(np.arange(32), lanes))
    said = [str(first) if end == first + 1 else f"{first}-{end - 1}" for first, end in runs]
    return f"{said[0]}, ..." if len(said) > 2 else ",\n".join(said)
