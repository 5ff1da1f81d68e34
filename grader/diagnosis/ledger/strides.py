"""Is each tensor walked by its own strides?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from grader.diagnosis.ledger.pairs import Pairs, Run, Side, expected_rows
from grader.diagnosis.ledger.provenance import Array
from grader.diagnosis.ledger.rows import reshaped
from grader.labs.divergence import LOAD, Divergence


def _other(side: Side, pairs: Pairs) -> Side:
    return pairs.right if side is pairs.left else pairs.left


def look(run: Run, pairs: Pairs, side: Side) -> Divergence | None:
    """A tensor walked by other strides than its own: its offsets are linear in what they should be, with other factors.

    Of pointers that then move on by right steps only the first turn is linear in this sense.
    """
    if not side.operand.strides:
        return None
    found = _other_strides(run, pairs, side, pairs.turn >= 0)
    return found if found or reshaped(run, pairs, side) else _other_strides(run, pairs, side, pairs.turn == 0)


def _other_strides(run: Run, pairs: Pairs, side: Side, turns: Array) -> Divergence | None:
    """The strides that explain the addresses in some turns, where they are not the tensor's. turns: bool [P]."""
    walked = _walked(run, pairs, side, turns)
    if walked is None:
        return None
    own_strides = tuple(run.problem.scalars[name] for name in side.operand.strides)
    if told := _added(run, pairs, side, walked, own_strides) or _backwards(run, pairs, side, walked, own_strides):
        return told
    if walked[2] or min(walked[:2]) < 0:
        return None
    known = {1, *run.problem.scalars.values()}
    return _not_used(run, pairs, side, walked[:2], own_strides, known)


def _not_used(run: Run, pairs: Pairs, side: Side, walked: tuple[int, int], own: tuple[int, ...], known: set[int]) -> Divergence | None:
    """Another number than the stride, or the other stride. known: the numbers that a kernel is given."""
    if 0 in walked:
        return None  # elements that are all taken from one place are not walked by a stride
    if any(used > 0 and right != used and right % used == 0 and used not in known for used, right in zip(walked, own, strict=True)):
        return None  # a part of the stride: the same row lies in several places, as no other stride brings it there
    swapped = set(walked) == set(own)
    for name, used, right, letter in zip(side.operand.strides, walked, own, _neighbours(pairs, side), strict=True):
        if used != right:
            named = size_called(run, used, "K" if side is pairs.left else "N")
            elements = "1 element" if used == 1 else f"{used}{named} elements"
            reason = f"the two strides of {side.operand.letter} are exchanged" if swapped else f"{name} is not used"
            return Divergence(_stride_name(run, name, used, swapped), LOAD, run.line_of_load(int(side.node[0]), side.operand.tensor),
                           f"neighbouring {letter} are taken to be {elements} apart", f"{name} = {right}",
                           reason, pairs.program, strides=True)  # fmt: skip
    return None


def _added(run: Run, pairs: Pairs, side: Side, walked: tuple[int, int, int], own: tuple[int, ...]) -> Divergence | None:
    """A stride that is added where it has to multiply."""
    for axis, (name, letter) in enumerate(zip(side.operand.strides, _neighbours(pairs, side), strict=True)):
        if (walked[axis], walked[1 - axis], walked[2]) == (1, own[1 - axis], own[axis]) and own[axis] > 1:
            return Divergence(
                f"ignores_{name}", LOAD, run.line_of_load(int(side.node[0]), side.operand.tensor),
                f"neighbouring {letter} are taken to be 1 element apart, and {own[axis]} is added to the address of each",
                f"{name} = {own[axis]}", f"{name} is added to the address, and has to multiply the numbers of the {letter}",
                pairs.program, strides=True,
            )  # fmt: skip
    return None


def _backwards(run: Run, pairs: Pairs, side: Side, walked: tuple[int, int, int], own: tuple[int, ...]) -> Divergence | None:
    """Rows, or k, that are subtracted from the address and not added to it."""
    for axis, (name, letter) in enumerate(zip(side.operand.strides, _neighbours(pairs, side), strict=True)):
        if (walked[axis], walked[1 - axis], walked[2]) == (-own[axis], own[1 - axis], 0):
            return Divergence(
                f"{name}_subtracted", LOAD, run.line_of_load(int(side.node[0]), side.operand.tensor),
                f"neighbouring {letter} are taken to be {own[axis]} apart downwards", f"{name} = {own[axis]} upwards",
                f"the offsets of the {letter} are subtracted from the address, and have to be added", pairs.program, strides=True,
            )  # fmt: skip
    return None


def _walked(run: Run, pairs: Pairs, side: Side, turns: Array) -> tuple[int, int, int] | None:
    """The strides along rows and along k of which the offsets of a side are sums, and what is added to each, where most of its
    elements are wrong ones."""
    other = pairs.right if side is pairs.left else pairs.left
    unit = side.operand.unit
    use = side.asked & side.live & other.live & pairs.alive & turns
    k, row = _k_by_place(pairs, other), np.broadcast_to(expected_rows(pairs, side), side.k.shape)
    right = (side.row == row) & (side.k // unit == k // unit)
    if not use.any() or right[use].mean() > 0.5:
        return None
    if (row[use] == row[use][0]).all():
        in_a_row = _walked_in_a_row(run, side, int(row[use][0]), k[use] // unit, side.offset[use])
        return None if in_a_row is None else (*in_a_row, 0)
    found = _whole_factors([row[use], k[use] // unit, np.ones(int(use.sum()))], side.offset[use])
    own = [run.problem.scalars[name] for name in side.operand.strides]
    return None if found is None or (found[2] and found[2] not in own) else (found[0], found[1], found[2])


def _walked_in_a_row(run: Run, side: Side, row: int, k: Array, offset: Array) -> tuple[int, int] | None:
    """The same for one row, as a program without tl.dot has it: the row's stride shows in its place alone, where that is a size."""
    along_row, own_k = (run.problem.scalars[name] for name in side.operand.strides)
    found = _whole_factors([k, np.ones(len(k))], offset - along_row * row)
    if found is None:
        return None
    along_k, start = found
    if start and row and not start % row:
        along_row, start = along_row + start // row, 0
        if (along_row, along_k) != (own_k, run.problem.scalars[side.operand.strides[0]]) and along_row not in run.sizes:
            return None
    return None if start or min(along_row, along_k) < 0 else (along_row, along_k)


def _whole_factors(columns: Sequence[Array], offset: Array) -> list[int] | None:
    """The whole numbers by which columns are multiplied to add up to the offsets; None where there are none, or several."""
    matrix = np.stack(columns, axis=1).astype(np.float64)
    if np.linalg.matrix_rank(matrix) < matrix.shape[1]:
        return None
    found, *_ = np.linalg.lstsq(matrix, offset.astype(np.float64), rcond=None)
    if np.abs(matrix @ np.round(found) - offset).max() > 1e-6:
        return None
    return [int(factor) for factor in found.round()]


def _neighbours(pairs: Pairs, side: Side) -> tuple[str, str]:
    """What the two strides of a side lie between."""
    return ("rows of X", "columns of X") if side is pairs.left else ("channels of W", "k of W")


def _k_by_place(pairs: Pairs, side: Side) -> Array:
    """k of a side; inside a word, which holds several, by their places in one product: of single nibbles that tells nothing."""
    if side.operand.unit == 1:
        return side.k
    starts = np.searchsorted(pairs.term, pairs.term)
    k: Array = side.k + (np.arange(len(pairs.term)) - starts) % side.operand.unit
    return k


def size_called(run: Run, value: int, first: str = "N") -> str:
    """The size or stride that a number is, where it is one; `first` where several are alike."""
    names = [name for name in (first, "M", "N", "K") if run.problem.scalars[name] == value]
    names += [name for name, own in run.problem.scalars.items() if own == value and name not in names and value > 1]
    return f" (= {names[0]})" if names and value > 1 else ""


def _stride_name(run: Run, name: str, used: int, swapped: bool) -> str:
    if swapped and name.startswith("stride_w"):
        return "weight_strides_swapped or weight_row_major"
    if name.startswith("stride_x"):
        N, K = run.problem.scalars["N"], run.problem.scalars["K"]
        return f"ignores_{name}" if used in (1, K) else "row_length_n" if used == N else f"ignores_{name}"
    if name == "stride_wn" and used == run.problem.scalars["K"] and run.problem.scalars["stride_wk"] == 1:
        return "ignores_stride_wn"
    if name.startswith("stride_w"):
        return "weight_row_major or words_row_major_in_n"
    return f"ignores_{name}"
