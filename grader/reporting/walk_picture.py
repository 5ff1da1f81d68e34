"""A program's walk as boxes: X, W and Y laid out as they are multiplied, the tiles of Y, and what each iteration reads."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from grader.model import Runs, Walk

SIDE, LEAST, GAP, LINE = 170, 64, 12, 20
"""CSS pixels: of the longest axis and of the shortest, between the matrices, and for a line of text. 390 wide, all has its own size."""
MOST_BOXES = 64


class Box(NamedTuple):
    """A rectangle of the picture, in CSS pixels. title: what one reads on it."""

    x: float
    y: float
    width: float
    height: float
    kind: str = "panel"
    title: str = ""


@dataclass(frozen=True)
class Drawn:
    """names: the matrices by where they stand. steps: the boxes of each iteration. alt: for those who do not see it. said: of the tile."""

    width: int
    height: int
    names: dict[str, Box]
    boxes: tuple[Box, ...]
    steps: tuple[tuple[Box, ...], ...]
    alt: str
    said: str


def drawn_walk(walk: Walk) -> Drawn:
    """The picture of a walk. X lies left of Y, W above it with its k downwards."""
    (M, N, K), (m, n) = walk.sizes, walk.at
    high, wide, deep = (max(LEAST, SIDE * size / max(walk.sizes)) for size in walk.sizes)
    right, below = deep + GAP, LINE + deep + LINE + 4
    x, w, y = Box(1, below, deep, high), Box(right, LINE, wide, deep), Box(right, below, wide, high)
    boxes, mine = [x, w, y], ""
    for tile in walk.tiles:
        span = ", ".join(f"{first}:{end}" for first, end in (tile.rows, tile.columns))
        title = f"program {tile.program} stores Y[{span}]: {tile.wrong or 'all right'}"
        boxes += _within(y, (M, N), (tile.rows,), (tile.columns,), "tile wrong" if tile.wrong else "tile", title)
        if tile.program == walk.program and not mine:
            boxes, mine = [*boxes, boxes[-1]._replace(kind="tile mine")], f"P{title[1:]}. "
    (at,) = _within(y, (M, N), ((m, m + 1),), ((n, n + 1),), "first", f"the element that is followed: Y[{m}, {n}]")
    wrong = sum(bool(tile.wrong) for tile in walk.tiles)
    return Drawn(
        round(right + wide + 1),
        round(below + high + 2),
        dict(zip((f"X [{M}, {K}]", f"Wᵀ [{K}, {N}]", f"Y [{M}, {N}]"), boxes, strict=False)),
        (*boxes, at._replace(width=max(at.width, 5), height=max(at.height, 5))),
        tuple(
            (*_within(x, (M, K), *step.left, "read"), *_within(w, (K, N), *step.right[::-1], "read"))
            for step in walk.steps
        ),
        f"X, W and Y of {walk.case}: {wrong} of {len(walk.tiles)} tiles hold wrong elements. {mine}".strip(),
        f"{mine}Red tiles hold wrong elements; point at one to read what is wrong there.",
    )


def _within(panel: Box, size: tuple[int, int], rows: Runs, columns: Runs, *kind: str) -> tuple[Box, ...]:
    """Where rows and columns of a matrix meet, in its panel; of very many, what holds them all. kind: and title."""
    if len(rows) * len(columns) > MOST_BOXES:
        rows, columns = (((runs[0][0], runs[-1][1]),) for runs in (rows, columns))
    across, down = panel.width / size[1], panel.height / size[0]
    places = (
        (panel.x + left * across, panel.y + top * down, (end - left) * across, (low - top) * down)
        for (top, low), (left, end) in product(rows, columns)
    )
    return tuple(Box(round(x, 1), round(y, 1), round(wide, 1), round(high, 1), *kind) for x, y, wide, high in places)
