"""Which scale, and which word of zeros, belongs to a weight; and by which mistaken rule another one was taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from grader.labs.divergence import SCALE
from grader.labs.stages import Array, Judgement
from grader.model import Problem

SCALES, ZEROS = "scales_ptr", "zeros_ptr"
STRIDES = {SCALES: ("stride_sg", "stride_sn"), ZEROS: ("stride_zg", "stride_zn")}
FAR = 1 << 40
"""No row is as far: what is not clamped."""
TILES = (8, 16, 32, 64, 128, 256, 512, 1024)


def own_scale(problem: Problem, n: Array, k: Array) -> Array:
    """Offset of the scale of element k of column n."""
    return offset(problem, SCALES, k // problem.scalars["group_size"], n)


def own_zero(problem: Problem, n: Array, k: Array) -> Array:
    """Offset of the word that its zero point is in."""
    return offset(problem, ZEROS, k // problem.scalars["group_size"], n // 8)


OWN = {SCALES: own_scale, ZEROS: own_zero}


def offset(problem: Problem, tensor: str, row: Array, column: Array) -> Array:
    """Offset of an element by its row and column."""
    along_row, along_column = (problem.scalars[name] for name in STRIDES[tensor])
    found: Array = row * along_row + column * along_column
    return found


def place(problem: Problem, tensor: str, offsets: Array) -> tuple[Array, Array]:
    """Row and column of elements by their offsets. The rows of a transposed matrix of one row are one element apart."""
    along_row, along_column = (problem.scalars[name] for name in STRIDES[tensor])
    if along_row > along_column:
        row, rest = np.divmod(offsets, along_row)
        return row, rest // along_column
    column, rest = np.divmod(offsets, along_column)
    return rest // along_row, column


@dataclass(frozen=True)
class GroupElements:
    """Elements of scales and zeros that were taken for weights, all arrays of one shape.

    used: offsets by tensor, below 0 where none, or several, were. n, k: of the weights; wrong: where one came out wrong.
    """

    used: Mapping[str, Array]
    n: Array
    k: Array
    wrong: Array


def elements_taken(problem: Problem, taken: GroupElements) -> list[Judgement]:
    """What is wrong with the places that scales and zero points were taken from; of both at once where it is one mistake."""
    found = {}
    for tensor, used in taken.used.items():
        wrong = taken.wrong & (used >= 0) & (used != OWN[tensor](problem, taken.n, taken.k))
        if wrong.any():
            found[tensor] = (wrong, list(dict.fromkeys(_rules(problem, tensor, taken))))
    shared = [rule for rule in found[SCALES][1] if rule in found[ZEROS][1]] if len(found) == 2 else []
    if shared:
        return [_judgement(problem, SCALES, taken, found[SCALES][0], shared, both=True)]
    return [_judgement(problem, tensor, taken, wrong, rules) for tensor, (wrong, rules) in found.items()]


def masked_out(problem: Problem, masked: Mapping[str, Array], n: Array, k: Array) -> list[Judgement]:
    """Elements of scales and zeros that the tensor has and a load's mask leaves out. masked: bool, by tensor; n, k: of the weights."""
    found = []
    for tensor, wrong in masked.items():
        row, column = place(problem, tensor, OWN[tensor](problem, n, k))
        short, what = tensor.removesuffix("_ptr"), "the scale" if tensor == SCALES else "the zero point"

        def describe(
            at: tuple[int, ...], what: str = what, short: str = short, row: Array = row, column: Array = column
        ) -> tuple[str, str]:
            return f"{what} of W[{n[at]}, {k[at]}] comes from a place that a mask leaves out", f"{short}[{row[at]}, {column[at]}]"

        reason = (f"{short} has an element for it: the rows, columns or mask of its load are counted wrongly, or what it brings is moved "
                  "to another place")  # fmt: skip
        if wrong.any():
            found.append(Judgement(f"{short}_masked_out", reason, wrong, describe, rank=SCALE, tensor=tensor))
    return found


NAMES = {
    "one_group_for_all": ("one_scale_for_all_groups", "one_zero_for_all_groups"),
    "next_group": ("scale_of_next_group", "zero_of_next_group"),
    "group_before": ("scale_of_group_before", "zero_of_group_before"),
}
"""What a rule is called when only the scales follow it, and only the zeros; others keep their names."""


def _judgement(
    problem: Problem, tensor: str, taken: GroupElements, wrong: Array, rules: list[tuple[str, str]], *, both: bool = False
) -> Judgement:
    names = [name if both else NAMES.get(name, (name, name))[tensor == ZEROS] for name, _ in rules]
    name = " or ".join(dict.fromkeys(names)) or "wrong_group"
    row, column = place(problem, tensor, taken.used[tensor])
    own_row, own_column = place(problem, tensor, OWN[tensor](problem, taken.n, taken.k))
    what = "the scale" if tensor == SCALES else "the zero point"
    short = tensor.removesuffix("_ptr")
    reason = rules[0][1] if rules else f"{what} is that of another {_differs(row, own_row, column, own_column, wrong)}"

    def describe(at: tuple[int, ...]) -> tuple[str, str]:
        also = " (and the zero point of that row)" if both else ""
        return (f"{what} of W[{taken.n[at]}, {taken.k[at]}] is taken from {short}[{row[at]}, {column[at]}]{also}",
                f"{short}[{own_row[at]}, {own_column[at]}]")  # fmt: skip

    return Judgement(name, reason, wrong, describe, rank=SCALE, tensor=tensor)


def _differs(row: Array, own_row: Array, column: Array, own_column: Array, wrong: Array) -> str:
    """In what the places of wrong elements are wrong, in a word or two."""
    names = {"group": row != own_row, "column": column != own_column}
    return " and ".join(name for name, differs in names.items() if (differs & wrong).any()) or "element"


COUNTED = ("groups_of_128", "groups_counted_in_tiles")
"""Rules by which a program that walks one tile of K keeps one row, which is not that it does not look for another one."""

Offsets = Callable[[Array, Array], Array]
Rule = tuple[str, str, Offsets]
"""A name, words, and from n and k to the row or to the offset that is taken."""


def _rules(problem: Problem, tensor: str, taken: GroupElements) -> Iterator[tuple[str, str]]:
    """Rules that all elements of a tensor follow that were taken."""
    use = taken.used[tensor] >= 0
    used, n, k = taken.used[tensor][use], taken.n[use], taken.k[use]
    row, column = place(problem, tensor, used)
    yield from _by_other_rows(problem, tensor, used - (n if tensor == SCALES else n // 8) * problem.scalars[STRIDES[tensor][1]], k)
    if (column == (n if tensor == SCALES else n // 8)).all():
        counted = [(name, reason) for name, reason, rule in _of_rows(problem) if name in COUNTED and (row == rule(n, k)).all()]
        if _stays(problem, row, k) and not counted:
            yield ("one_group_for_all", "the row of one group is used for all k of the program: it is loaded before the loop over the "
                   "groups, or its index does not change there")  # fmt: skip
            return
        yield from ((name, reason) for name, reason, rule in _of_rows(problem) if (row == rule(n, k)).all())
        return
    yield from ((name, reason) for name, reason, rule in _of_columns(problem, tensor) if (used == rule(n, k)).all())
    if tensor == SCALES and len(np.unique(column)) == 1 < len(np.unique(n)):
        yield "one_scale_for_all_channels", "one column's scale is used for the whole tile"


def _by_other_rows(problem: Problem, tensor: str, first: Array, k: Array) -> Iterator[tuple[str, str]]:
    """That the row stride of the other tensor of groups is used. first: offsets of the first elements of the rows that are taken."""
    other = ZEROS if tensor == SCALES else SCALES
    own, used = (problem.scalars[STRIDES[name][0]] for name in (tensor, other))
    rows = [k // problem.scalars["group_size"], *(rule(first, k) for name, _, rule in _of_rows(problem) if name == "group_of_tile")]
    if own != used and any(row.any() and (first == row * used).all() for row in rows):
        short = tensor.removesuffix("_ptr")
        yield f"{short}_by_other_stride", f"{STRIDES[other][0]} is used for the rows of {short}, which are {STRIDES[tensor][0]} apart"


def _stays(problem: Problem, row: Array, k: Array) -> bool:
    """Whether one row, neither the first nor the last, is taken for several groups, which do not lie in one tile that begins with it."""
    size, K = problem.scalars["group_size"], problem.scalars["K"]
    tiles = [tile for tile in TILES if size < tile < K and (row == k // tile * tile // size).all()]
    return len(np.unique(row)) == 1 < len(np.unique(k // size)) and row.flat[0] not in (0, K // size - 1) and not tiles


def _of_rows(problem: Problem) -> Iterator[Rule]:
    """Other rows: the column is right."""
    size, K = problem.scalars["group_size"], problem.scalars["K"]
    last = K // size - 1
    also = "; the number of a word, k // 8, or of a tile, divided by group_size would be 0 throughout, too" if 8 * size >= K else ""
    yield "one_group_for_all", f"the first group's row is used for all of K{also}", _always(0)
    yield "one_group_for_all", "the last group's row is used for all of K", _always(last)
    yield ("group_of_word", "the number of the word is divided by group_size; what counts is k, eight times as much",
           _counted(8 * size, FAR))  # fmt: skip
    for end in (last, FAR):
        yield "next_group", "the row of the next group is used", _counted(size, end, 1)
    yield "group_before", "the row of the group before is used", lambda n, k: np.maximum(k // size - 1, 0)
    for tile in TILES:
        yield ("group_of_tile", "the group in which a tile along K begins is used for all of the tile; it may hold several groups",
               _of_tile(tile, size))  # fmt: skip
    for tile in TILES:
        if tile < K:
            yield ("group_within_tile", "the group is counted from the beginning of the tile along K, not from that of K",
                   _within(tile, size))  # fmt: skip
    for end in (last, FAR):
        yield "groups_of_128", "the row is k // 128, whatever group_size says", _counted(128, end)
    for tile in TILES:
        for end in (last, FAR):
            yield ("groups_counted_in_tiles", f"the row is k // {tile}, as if groups were {tile} long; group_size says how long",
                   _counted(tile, end))  # fmt: skip
    for tile in TILES:
        if tile > 8:
            yield ("rows_of_tile_repeated", f"the rows for the {tile // 8} words of a tile are repeated as a whole; each belongs to "
                   "eight neighbouring k", _repeated(tile, size))  # fmt: skip
    yield "row_of_k", "row k is used; a row belongs to a group, k // group_size", _counted(1, FAR)


def _always(row: int) -> Offsets:
    return lambda n, k: 0 * k + row


def _counted(length: int, end: int, first: int = 0) -> Offsets:
    """k // length, counted from `first` on, and at most `end`."""
    return lambda n, k: np.minimum(k // length + first, end)


def _within(tile: int, size: int) -> Offsets:
    return lambda n, k: k % tile // size


def _repeated(tile: int, size: int) -> Offsets:
    """The rows of a tile's words one after the other, and again from the first."""
    return lambda n, k: (k // tile * tile + k % (tile // 8) * 8) // size


def _of_tile(tile: int, size: int) -> Offsets:
    return lambda n, k: k // tile * tile // size


def _of_columns(problem: Problem, tensor: str) -> Iterator[Rule]:
    """Other offsets, whose columns differ too."""
    size, N = problem.scalars["group_size"], problem.scalars["N"]
    short = tensor.removesuffix("_ptr")
    per_row, per_column = (problem.scalars[name] for name in STRIDES[tensor])
    unit = 1 if tensor == SCALES else 8
    yield (f"{short}_contiguous", f"{short} is read as a contiguous matrix: {' and '.join(STRIDES[tensor])} are not used",
           lambda n, k: k // size * (N // unit) + n // unit)  # fmt: skip
    yield (f"{short}_strides_swapped", f"the two strides of {short} are exchanged",
           lambda n, k: k // size * per_column + n // unit * per_row)  # fmt: skip
    for tile in TILES:
        name = "scale_without_tile_offset" if tensor == SCALES else "zeros_without_tile_offset"
        yield name, f"{short} is loaded without the offset of the column tile", _at(problem, tensor, size, unit, tile)
    if tensor == ZEROS:
        yield ("zero_word_by_place", "word n % 8 of a row of zeros is taken for column n; n % 8 is its place in the word, n // 8 the word",
               _at(problem, tensor, size, 1, 8))  # fmt: skip
        for columns in (N, N // 8):
            yield ("zero_word_of_column", "word n of a row of zeros is taken for column n; a word holds eight columns",
                   _at(problem, tensor, size, 1, columns))  # fmt: skip
            for held in (2, 4, 16, 32):
                yield ("zeros_packed_otherwise", f"word n // {held} of a row of zeros is taken for column n; a word holds eight columns",
                       _at(problem, tensor, size, held, columns))  # fmt: skip
            yield ("zeros_packed_along_groups", "eight groups are looked for in a word of zeros; it holds eight columns",
                   _at(problem, tensor, 8 * size, 1, columns))  # fmt: skip


def _at(problem: Problem, tensor: str, size: int, unit: int, columns: int) -> Offsets:
    """Row k // size, column n % columns // unit."""
    return lambda n, k: offset(problem, tensor, k // size, n % columns // unit)
