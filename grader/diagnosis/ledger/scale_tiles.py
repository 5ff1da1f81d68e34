"""Of which tile are the elements of a scale that were taken instead of those of the tile of Y?"""

from __future__ import annotations

from grader.diagnosis.ledger.pairs import Pairs, Run, places_in_output
from grader.diagnosis.ledger.provenance import Array
from grader.diagnosis.ledger.tile_map import store_tile


def beside(run: Run, pairs: Pairs, tensor: str, axis: str, own: Array, used: Array) -> tuple[str, str]:
    """The mistake's name and the words. own, used: the right elements of the scale and those that were taken, for each wrong one.

    axis: "m" for a scale of the rows of Y, "n" for one of its columns. In the first row of tiles a number of the row tile is like none.
    """
    m, n, _ = places_in_output(run, pairs.store)
    begin, noun = int((m if axis == "m" else n)[0]), "row" if axis == "m" else "column"
    short, name = tensor.removesuffix("_ptr"), "wrong_token_scale" if tensor == "input_scale_ptr" else "scale_without_tile_offset"
    other = _at_number_of_other_tile(run, pairs, axis)
    without = bool((used - own == -begin).all())
    by_other = other is not None and bool((used == (own - begin + other) % run.problem.tensors[tensor].numel()).all())
    crossed = f"the {'column' if axis == 'm' else 'row'} tile"
    if by_other and other:
        return "scale_by_other_tile", f"{short} is loaded at the number of {crossed}, not at that of the {noun} tile"
    if without and by_other:
        return (f"{name} or scale_by_other_tile",
                f"{short} is loaded without the offset of the {noun} tile, or at the number of {crossed}")  # fmt: skip
    if without:
        return name, f"{short} is loaded without the offset of the tile"
    apart = used - own
    if (apart == apart[0]).all():
        by, where = abs(int(apart[0])), "behind" if apart[0] > 0 else "before"
        return name, f"{short} is loaded {by} element{'s' if by > 1 else ''} {where} the one that belongs to the {noun}, in the whole tile"
    return name, f"the elements of {short} are not those of the {noun}s of the tile"


def _at_number_of_other_tile(run: Run, pairs: Pairs, axis: str) -> int | None:
    """Where a tile begins along an axis if its number is that along the other axis; None where tiles have no certain numbers."""
    tile, (m, n, _) = store_tile(run, pairs.store), places_in_output(run, pairs.store)
    if tile is None or int(m[0]) % tile[0] or int(n[0]) % tile[1]:
        return None
    row, column = int(m[0]) // tile[0], int(n[0]) // tile[1]
    return column * tile[0] if axis == "m" else row * tile[1]
