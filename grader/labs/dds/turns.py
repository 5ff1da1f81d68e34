"""Where does each turn of the loop take X and the values from, each by itself, whatever the other one does?

Turn t of block row r should take block crow[r] + t. The rules here compare the first column of X, and the first element of the
values, of each turn with what mistakes make of that number, so that two mistakes at once do not hide each other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from grader.labs.stages import Array, Blocks, Rule

SIDE = 32
BLOCK = SIDE * SIDE
Candidate = tuple[str, str, Array]


def by_turn(blocks: Blocks, crow: Array, cols: Array, *, over_rows: bool) -> tuple[Rule, ...]:
    """The mistakes that all turns follow; none where one side is neither right nor explained by one.

    over_rows: the sum goes over the rows of a block, so that an element of Y has one column of X and of each block.
    """
    row, turn = blocks.n // SIDE, blocks.turn
    number = crow[row] + turn
    if not len(cols) or (number >= crow[row + 1]).any():
        return ()
    first_column = least_of_turn(blocks.left_k, row, turn)
    inside = blocks.left_k - first_column
    begins = [blocks.offset - (blocks.n % SIDE) * SIDE - inside, blocks.offset - inside * SIDE - blocks.n % SIDE]
    if over_rows:
        first_column, begins = blocks.left_k // SIDE * SIDE, [blocks.offset // BLOCK * BLOCK]
    turned = next((which for which, begin in enumerate(begins) if (begin == least_of_turn(begin, row, turn)).all()), None)
    if turned is None:
        return ()
    of_x = _of_x(cols, crow[row], turn, row, looked_up=blocks.any_looked_up)
    x = _explained(first_column, cols[number] * SIDE, of_x, "columns")
    values = _explained(begins[turned], number * BLOCK, _of_values(begins[turned], cols, crow[row], turn, row), "values")
    if x is None or values is None or not (x or values):
        return ()
    sentence = "the stored block is multiplied, not its transpose: it lies as [n, k]"
    return (*([Rule("inside", "block_not_transposed", sentence)] if turned else []), *x, *values)


def least_of_turn(numbers: Array, row: Array, turn: Array) -> Array:
    """The smallest of the numbers in each turn of each block row, for all of them."""
    key = row * (int(turn.max()) + 1) + turn
    least = np.full(int(key.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, key, numbers)
    found: Array = least[key]
    return found


def _explained(found: Array, right: Array, candidates: Sequence[Candidate], aspect: str) -> list[Rule] | None:
    """All mistakes that explain it, of which other programs may leave one; []: it is right; None: none explains it."""
    if (found == right).all():
        return []
    return [
        Rule(aspect, name, reason, "col_indices_ptr" if name == "col_not_advanced" else "", later=True)
        for name, reason, made in candidates if (found == made).all()
    ] or None  # fmt: skip


def _of_x(cols: Array, start: Array, turn: Array, row: Array, *, looked_up: bool) -> list[Candidate]:
    """looked_up: whether the columns may come from col_indices."""
    numbers: list[Candidate] = [
        ("x_by_position", "the columns of X follow the number of the block in its row, not its column index", turn * SIDE),
        ("x_by_block_row", "the columns of X are taken from the block row of W, not from the block's column index", row * SIDE),
    ]
    read: list[Candidate] = [
        ("col_of_block_row", "col_indices is read at the number of the block row: block b has its column in col_indices[b]",
         cols[np.minimum(row, len(cols) - 1)] * SIDE),
    ]  # fmt: skip
    return [
        ("col_as_element", "the block column is taken for the index of an element: it counts blocks of BLOCK columns", cols[start + turn]),
        ("col_not_advanced", "every block of a row meets the columns of X that belong to its first one: the column index does not move on "
         "from block to block", cols[start] * SIDE),
        ("col_from_row_start", "column indices are counted from the start of the block row, so that every row gets those of the first",
         cols[turn] * SIDE),
        *(read if looked_up else numbers),
    ]  # fmt: skip


def _of_values(begin: Array, cols: Array, start: Array, turn: Array, row: Array) -> list[Candidate]:
    """begin: the first element that each turn takes."""
    own = [
        ("values_not_advanced", "every turn takes the values of the first block of the row", start * BLOCK),
        ("values_from_row_start", "the values are counted from the start of the block row, so that every row gets those of the first",
         turn * BLOCK),
        ("values_block_stride", "blocks of the values are taken to be BLOCK elements apart, not BLOCK * BLOCK", (start + turn) * SIDE),
        ("values_by_column", "the values are indexed by block column instead of by the number of the block", cols[start + turn] * BLOCK),
        ("values_by_block_row", "the values are indexed by block row instead of by the number of the block", row * BLOCK),
    ]  # fmt: skip
    if not turn.any():
        return own
    later = int(turn.argmax())
    step = int(begin[later] - start[later] * BLOCK) // int(turn[later])
    words = {1: "one element", SIDE: "BLOCK elements", 2 * BLOCK: "two blocks"}.get(step, f"{step} elements")
    sentence = f"each further block of the values is looked for {words} behind the one before; it lies BLOCK * BLOCK elements behind it"
    return [*own, ("values_advanced_wrongly", sentence, start * BLOCK + turn * step)]
