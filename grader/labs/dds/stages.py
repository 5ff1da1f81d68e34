"""DDS, stage by stage: the blocks of a block row, each with the columns of X that its column index names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from grader.labs.dds.turns import by_turn, least_of_turn
from grader.labs.divergence import CONVERT
from grader.labs.inputs import normal
from grader.labs.stages import (
    UNKNOWN_ELEMENT,
    Array,
    Blocks,
    Judgement,
    Operand,
    Rule,
    RuleMatches,
    Stages,
    Values,
    by_strides,
    exact,
    refilled,
)
from grader.model import Problem

BLOCK = 32
TOKEN_TILES = (16, 32, 64, 128, 256)


def _rows_of_blocks(problem: Problem) -> Array:
    crow = exact(problem, "crow_indices_ptr").astype(np.int64)
    return np.repeat(np.arange(len(crow) - 1), np.diff(crow))


def place(problem: Problem, offsets: Array) -> tuple[Array, Array]:
    """n and k of the element of W at an offset into the values; past the last block, numbers past N and K."""
    block, rest = np.divmod(offsets, BLOCK * BLOCK)
    rows, cols = _rows_of_blocks(problem), exact(problem, "col_indices_ptr").astype(np.int64)
    inside = (block >= 0) & (block < len(cols))
    if not len(cols):
        return np.full(offsets.shape, 1 << 30), np.full(offsets.shape, 1 << 30)
    at = np.where(inside, block, 0)
    n, k = rows[at] * BLOCK + rest // BLOCK, cols[at] * BLOCK + rest % BLOCK
    return np.where(inside, n, 1 << 30), np.where(inside, k, 1 << 30)


def needed(problem: Problem) -> Array:
    """bool [N, K]: the elements that lie in a block."""
    N, K = problem.scalars["N"], problem.scalars["K"]
    present = np.zeros((N // BLOCK, K // BLOCK), dtype=bool)
    present[_rows_of_blocks(problem), exact(problem, "col_indices_ptr")] = True
    found: Array = present.repeat(BLOCK, axis=0).repeat(BLOCK, axis=1)
    return found


def judge_left(problem: Problem, values: Values) -> tuple[Sequence[Judgement], Array]:
    """X as it was loaded."""
    return _as_loaded(exact(problem, "x_ptr").astype(np.float64)[values.row, values.k], "X", "left", values)


def judge_right(problem: Problem, values: Values) -> tuple[Sequence[Judgement], Array]:
    """The stored values."""
    block = _numbers(problem)[values.row // BLOCK, values.k // BLOCK]
    stored = exact(problem, "values_ptr").astype(np.float64)[block, values.row % BLOCK, values.k % BLOCK]
    return _as_loaded(stored, "W", "right", values)


def _as_loaded(stored: Array, letter: str, side: str, values: Values) -> tuple[Sequence[Judgement], Array]:
    wrong = np.abs(values.value - stored) > 1e-3 * np.abs(stored)
    if not wrong.any():
        return (), np.ones_like(stored)

    def describe(at: tuple[int, ...]) -> tuple[str, str]:
        return (f"the {side} operand holds {values.value[at]:.5g} for {letter}[{values.row[at]}, {values.k[at]}]",
                f"{stored[at]:.5g}")  # fmt: skip

    return (Judgement(f"{letter.lower()}_converted", f"{letter} is multiplied as it is", wrong, describe, stored, CONVERT),
            ), np.ones_like(stored)  # fmt: skip


@dataclass(frozen=True)
class _Met:
    """What a kernel's products took of the blocks; arrays with an entry for each pair of elements, but for `cols`.

    row: the block row of the output; start: the number of its first block. block: the number of the block that was taken;
    own: its block row; inside: the column in it; from_start: its number, counted from `start`. number: that of the block of
    W at `row` and the columns of X, -1 where there is none. cols: col_indices. turned: the block is read as [k, n].
    """

    blocks: Blocks
    row: Array
    block: Array
    own: Array
    inside: Array
    from_start: Array
    number: Array
    start: Array
    end: Array
    cols: Array
    turned: bool

    @property
    def mixed(self) -> bool:
        """Whether blocks of other block rows were taken."""
        return bool((self.own != self.row).any())

    @property
    def meets(self) -> bool:
        """Whether each block met the columns of X that are its own."""
        return self.columns_are(self.cols[self.block] * BLOCK)

    @property
    def place_in_turn(self) -> Array:
        """The number of each block among those of its turn."""
        return self.block - least_of_turn(self.block, self.row, self.blocks.turn)

    @property
    def one_of_several_looked_up(self) -> bool:
        """Whether blocks come in lots, of each of which the column index of one block is looked up."""
        looked_up, of_block = self.blocks.looked_up, np.full(len(self.cols), -1)
        if not ((looked_up >= 0) & (looked_up < len(self.cols))).all() or (looked_up == self.block).all():
            return False
        of_block[self.block] = looked_up
        return bool((of_block[looked_up] == looked_up).all())

    @property
    def beside_own(self) -> bool:
        """Whether blocks of other block rows are taken in turns alone that take blocks of their own row too."""
        foreign = self.own != self.row
        own_turns = set(zip(self.row[~foreign].tolist(), self.blocks.turn[~foreign].tolist(), strict=True))
        return set(zip(self.row[foreign].tolist(), self.blocks.turn[foreign].tolist(), strict=True)) <= own_turns

    @property
    def counted_from_start(self) -> bool:
        """Whether each block is the one whose number is that of the right one, counted from the start of its row."""
        return bool(((self.number >= 0) & (self.block == self.number - self.start)).all())

    @property
    def stays_at_first(self) -> bool:
        """Whether each block met the columns of X that belong to the first of its row, and not each one is the first."""
        first = self.cols[np.minimum(self.start, len(self.cols) - 1)]
        return self.columns_are(first * BLOCK) and bool((self.block != self.start).any())

    def moved_on_by(self, step: int) -> bool:
        """Whether a row begins with its first block, and each later one is looked for `step` elements behind the one before."""
        turns = self.number - self.start
        n, k = self.blocks.n % BLOCK, self.blocks.left_k % BLOCK
        inside = self.blocks.offset - self.start * BLOCK * BLOCK - turns * step
        right = (self.number >= 0) & ((inside == n * BLOCK + k) | (inside == k * BLOCK + n))
        return bool(right.all() and (turns > 0).any())

    def first_looked_for(self, step: int) -> bool:
        """Whether a row's first block is looked for `step` elements further on for each block before it, and later ones from there."""
        inside = self.blocks.offset - self.start * step - (self.number - self.start) * BLOCK * BLOCK
        n, k = self.blocks.n % BLOCK, self.blocks.left_k % BLOCK
        return bool(((self.number >= 0) & ((inside == n * BLOCK + k) | (inside == k * BLOCK + n))).all())

    @property
    def parts_displaced(self) -> bool:
        """Whether each block and its rows are the right ones, and other columns of it than those of X are taken."""
        right = bool((self.block == self.number).all()) and bool((self.blocks.offset // BLOCK % BLOCK == self.blocks.n % BLOCK).all())
        same = bool((self.blocks.k // BLOCK == self.blocks.left_k // BLOCK).all())
        return right and same and bool((self.blocks.k != self.blocks.left_k).any())

    def columns_of_neighbour(self, step: int) -> bool | None:
        """Whether each block met the columns of X of the block `step` further on in its row; None where a row is too short to tell."""
        neighbour = self.block + step
        there = (neighbour >= self.start) & (neighbour < self.end)
        first = self.cols[np.clip(neighbour, 0, len(self.cols) - 1)] * BLOCK
        return not (self.blocks.left_k - first - self.inside)[there].any() if there.any() else None

    def looked_up_at(self, number: Array) -> bool:
        """Whether the columns of X are those of the column index that has this number, and the address says so wherever it is known."""
        looked_up, known = self.blocks.looked_up, self.blocks.looked_up != UNKNOWN_ELEMENT
        if not known.any() or not ((looked_up[known] >= 0) & (looked_up[known] < len(self.cols))).all():
            return False
        first = self.cols[np.where(known, looked_up, 0)] * BLOCK
        return bool((looked_up == number)[known].all()) and not (self.blocks.left_k - first - self.inside)[known].any()

    @property
    def looked_up_before_row(self) -> bool:
        """Whether column indices of earlier block rows are looked up: then they are counted from elsewhere, and not the values alone."""
        return bool(((self.blocks.looked_up != UNKNOWN_ELEMENT) & (self.blocks.looked_up < self.start)).any())

    @property
    def columns_up_to(self) -> Array:
        """The sum of the block columns of a row up to each block."""
        sums = np.cumsum(self.cols)
        before: Array = (sums - self.cols)[np.minimum(self.start, len(sums) - 1)]
        return sums[self.block] - before

    def columns_are(self, first: Array) -> bool:
        """Whether each block met the columns of X from `first` on."""
        return not (self.blocks.left_k - first - self.inside).any()


def explain_block(problem: Problem, blocks: Blocks) -> RuleMatches:
    """The rules about block rows and columns that pairs with others than their own follow, most telling first."""
    cols = exact(problem, "col_indices_ptr").astype(np.int64)
    crow = exact(problem, "crow_indices_ptr").astype(np.int64)
    block, rest = np.divmod(blocks.offset, BLOCK * BLOCK)
    if not len(cols) or not ((block >= 0) & (block < len(cols))).all():
        return RuleMatches(frozenset(), ())
    row, x_block = blocks.n // BLOCK, blocks.left_k // BLOCK
    r, c = rest // BLOCK, rest % BLOCK
    over_rows = bool((blocks.left_k % BLOCK == blocks.n % BLOCK).all())
    turned = bool((c == blocks.n % BLOCK).all()) and not bool((r == blocks.n % BLOCK).all()) and not over_rows
    met = _Met(
        blocks, row, block, own=_rows_of_blocks(problem)[block], inside=r if turned else c,
        from_start=np.clip(block - crow[row], 0, len(cols) - 1),
        number=_numbers(problem)[row, np.clip(x_block, 0, problem.scalars["K"] // BLOCK - 1)],
        start=crow[row], end=crow[row + 1], cols=cols, turned=turned,
    )  # fmt: skip
    asked = {
        "inside": bool((r != blocks.n % BLOCK).any()), "part": met.parts_displaced, "columns": met.mixed or not met.meets, "row": met.mixed,
    }  # fmt: skip
    found = (
        *_inside_rules(met), *_part_rules(met), *_row_rules(met, crow), *_column_rules(met), *_stride_rules(met, problem), *_lot_rules(met),
        *_value_rules(met), *_advance_rules(met), *_foreign_row_rules(met),
    )  # fmt: skip
    if over_rows and asked["inside"]:
        sentence = "the sum goes over the rows of a block, which are outputs; it has to go over its columns, the k that X has"
        found = (*found, Rule("inside", "summed_over_outputs", sentence))
    neighbours = _neighbour_rules(met)
    told = any(rule.aspect in ("row", "columns") for rule in found) or any(rule.telling for rule in neighbours)
    turns = () if told else by_turn(blocks, crow, cols, over_rows=over_rows)
    aspects = {*(aspect for aspect, wrong in asked.items() if wrong), *(rule.aspect for rule in turns)}
    return RuleMatches(frozenset(aspects), (*found, *neighbours, *turns))


def _holding(aspect: str, looked_up: str, *rules: tuple[bool | np.bool_, str, str]) -> list[Rule]:
    return [Rule(aspect, name, reason, looked_up) for holds, name, reason in rules if holds]


def _inside_rules(met: _Met) -> list[Rule]:
    sentence = "the stored block is multiplied, not its transpose: it lies as [n, k]"
    return _holding("inside", "", (met.turned, "block_not_transposed", sentence))


def _part_rules(met: _Met) -> list[Rule]:
    """Of blocks that are multiplied in parts: whether one side takes the same part again."""
    if not met.parts_displaced:
        return []
    of_block, of_x = (len(np.unique(k % BLOCK)) for k in (met.blocks.k, met.blocks.left_k))
    whose = "the block" if of_block < of_x else "X"
    again = "" if of_block == of_x else f": the same columns of {whose} are taken for different parts of it"
    name = "x_part_displaced" if of_x < of_block else "block_part_displaced"
    return [Rule("part", name, f"the block is the right one, and X meets other columns of it than its own{again}", later=True)]


def _row_rules(met: _Met, crow: Array) -> list[Rule]:
    """Which bounds a row takes. Block row 1 may have the columns of row 0: values counted from a row's start look like its bounds."""
    found = _holding(
        "row", "crow_indices_ptr",
        (met.meets and (met.own == met.row - 1).all(), "crow_without_leading_zero",
         "the bounds of the block row before are used: crow_indices begins with a zero"),
        (met.meets and (met.own == met.row + 1).all(), "crow_one_ahead",
         "the bounds of the next block row are used: row r begins at crow_indices[r]"),
    )  # fmt: skip
    past = met.start + met.blocks.turn >= crow[met.row + 1]
    if met.meets and past.any() and (met.own == met.row + past).all() and not past.all():
        sentence = "the loop goes on through the blocks of the next block row: row r ends at crow_indices[r + 1]"
        found.append(Rule("row", "crow_end_ahead", sentence, "crow_indices_ptr", last=True))
    found = [replace(rule, telling=not met.counted_from_start) for rule in found]
    if met.meets and (met.block == met.start + met.blocks.turn + 1).all():
        sentence = ("each turn takes the block behind its own: the number of the block goes up before the block is used, so that the first "
                    "block of a row is never multiplied, and the last turn takes one that is not of the row")  # fmt: skip
        several = bool((met.end - met.start > 1).any())  # the only block of a row does not tell how the others would be counted
        found.insert(0, Rule("row", "blocks_one_ahead", sentence, "col_indices_ptr", telling=several))
    return found


def _column_rules(met: _Met) -> list[Rule]:
    """Where the columns of X come from, when the blocks are those of the row."""
    if met.mixed or met.meets:
        return []
    sentence = ("every block of a row meets the columns of X that belong to its first one: the column index does not move on "
                "from block to block")  # fmt: skip
    stays = _holding("columns", "col_indices_ptr", (met.stays_at_first, "col_not_advanced", sentence))
    return stays + _holding(
        "columns", "",
        (met.columns_are(met.columns_up_to * BLOCK), "col_added_up",
         "the column index of each block is added to those of the blocks before it: it counts from the left edge of W, not from the "
         "last block"),
        (met.looked_up_at(met.row), "col_of_block_row",
         "col_indices is read at the number of the block row: block b has its column in col_indices[b]"),
        (met.columns_are(met.cols[met.block]), "col_as_element",
         "the block column is taken for the index of an element: it counts blocks of BLOCK columns"),
        *((met.columns_are((met.cols[met.block] + step) * BLOCK), f"col_one_{words}",
           f"the columns of X are those of the block column {words} the one that col_indices[b] names")
          for step, words in ((1, "behind"), (-1, "before"))),
        *((met.columns_are(met.cols[met.block] * tile), f"col_times_{tile}",
           f"the block column is multiplied by {tile}; a block is BLOCK = {BLOCK} columns wide, however tall a tile of X is")
          for tile in TOKEN_TILES if tile != BLOCK),
        (not (met.blocks.left_k - met.cols[met.block] - met.inside * BLOCK).any(), "col_and_place_exchanged",
         "the place in the block is multiplied by BLOCK, and the block column is added as it is: k is block column * BLOCK + place"),
        (not met.blocks.any_looked_up and met.columns_are(met.row * BLOCK), "x_by_block_row",
         "the columns of X are taken from the block row of W, not from the block's column index"),
        (met.columns_are(met.cols[met.from_start] * BLOCK), "col_from_row_start",
         "column indices are counted from the start of the block row, so that every row gets those of the first"),
        (not met.blocks.any_looked_up and met.columns_are(met.from_start * BLOCK), "x_by_position",
         "the columns of X follow the number of the block in its row, not its column index"),
        (not met.blocks.any_looked_up and met.columns_are(met.block * BLOCK) and bool((met.block != met.from_start).any()), "x_by_number",
         "the columns of X follow the number of the block in values, not its column index"),
    )  # fmt: skip


def _stride_rules(met: _Met, problem: Problem) -> list[Rule]:
    """Columns inside a block by X's stride, and blocks BLOCK elements apart."""
    along_m, along_k = problem.scalars["stride_xm"], problem.scalars["stride_xk"]
    if met.mixed or along_k == 1:
        return []
    blocks = met.blocks
    inside = blocks.left_offset == blocks.m * along_m + met.inside * along_k + met.cols[met.block] * BLOCK
    sentence = ("the columns inside a block are stride_xk apart, but block columns only BLOCK elements: the column index is not "
                "multiplied by stride_xk")  # fmt: skip
    return _holding("columns", "", (inside.all(), "x_by_block_without_stride", sentence))


def _lot_rules(met: _Met) -> list[Rule]:
    """Columns of X in kernels that take several blocks at a time, of whose column indices they look up one."""
    if met.mixed or met.meets:
        return []
    looked_up = met.blocks.looked_up
    first = met.cols[np.clip(looked_up, 0, len(met.cols) - 1)]
    return _holding(
        "columns", "",
        (bool(met.place_in_turn.any()) and met.columns_are((met.cols[met.block] + met.place_in_turn) * BLOCK),
         "col_and_place_in_turn",
         "the column index is right, and the place in the whole tile of X is added to it: within a block it is place % BLOCK"),
        (met.one_of_several_looked_up and met.columns_are((first + met.block - looked_up) * BLOCK), "col_counted_on",
         "one column index is looked up for several blocks, and those of the others are counted on from it: blocks of a row need not be "
         "neighbours, and block b has its column in col_indices[b]"),
        (met.one_of_several_looked_up and met.columns_are(first * BLOCK), "col_of_first_in_turn",
         "one column index is looked up for several blocks, and used for all of them: block b has its column in col_indices[b]"),
    )  # fmt: skip


def _neighbour_rules(met: _Met) -> list[Rule]:
    """Whether each block meets the columns of X of the next one, or of the one before. A row of one block does not tell."""
    if met.mixed or met.meets:
        return []
    return [
        Rule("columns", f"col_of_block_{which}",
             f"each block meets the columns of X that belong to the block {which} it: block b has its column in col_indices[b]",
             telling=met.columns_of_neighbour(step) is not None)
        for step, which in ((1, "behind"), (-1, "before")) if met.columns_of_neighbour(step) is not False
    ]  # fmt: skip


def _value_rules(met: _Met) -> list[Rule]:
    """Where the values come from."""
    number, beyond = met.number, met.blocks.offset - met.number * BLOCK
    known = met.blocks.any_looked_up and not met.turned and not met.looked_up_before_row
    by_column = known and (met.block == met.blocks.left_k // BLOCK).all()
    return _holding(
        "columns", "",
        (by_column and (met.block != number).any(), "values_by_column",
         "the values are indexed by block column instead of by the number of the block"),
        (met.mixed and met.counted_from_start and not met.looked_up_before_row, "values_from_row_start",
         "the values are counted from the start of the block row, so that every row gets those of the first"),
        ((met.start > 0).any() and met.first_looked_for(1), "values_start_by_one",
         "the first block of a row is looked for crow_indices[r] elements behind the first value; it lies BLOCK * BLOCK times as far"),
        ((met.start > 0).any() and met.first_looked_for(BLOCK), "values_start_by_block",
         "the first block of a row is looked for crow_indices[r] * BLOCK elements behind the first value; it lies BLOCK times as far"),
        (((number >= 0) & (beyond >= 0) & (beyond < BLOCK * BLOCK)).all() and (number > 0).any(), "values_block_stride",
         "blocks of the values are taken to be BLOCK elements apart, not BLOCK * BLOCK"),
    )  # fmt: skip


def _advance_rules(met: _Met) -> list[Rule]:
    """How the values move on from block to block."""
    return [
        Rule("columns", "values_advanced_wrongly", f"each further block of the values is looked for {words} behind the one before; "
             "it lies BLOCK * BLOCK elements behind it", later=True)
        for step, words in ((1, "one element"), (BLOCK, "BLOCK elements")) if met.moved_on_by(step)
    ]  # fmt: skip


def _foreign_row_rules(met: _Met) -> list[Rule]:
    """Whose blocks a row takes that takes foreign ones. An empty block row shows nothing else, so not all of them are telling."""
    own, row, found = met.own, met.row, []
    if met.meets and met.mixed:
        found += [
            Rule("row", name, reason, "crow_indices_ptr", telling=bool((own == row).any()), last=name == "row_end_ignored")
            for holds, name, reason in (
                ((own <= row).all() and met.block.min() == 0, "row_start_ignored",
                 "the loop begins with the first block of all, not with the first of its block row"),
                ((own >= row).all() and not met.beside_own, "row_end_ignored",
                 "the loop does not end with the last block of its block row"),
            ) if holds
        ]  # fmt: skip
    if met.meets and met.mixed and (own >= row).all() and met.beside_own:
        sentence = ("a turn takes several blocks, and those behind the last one of the block row are not left out: a row ends before block "
                    "crow_indices[r + 1]")  # fmt: skip
        found.append(Rule("row", "row_end_ignored", sentence))
    if not met.meets and (met.block == row).all():
        found.append(Rule("columns", "values_by_block_row", "the values are indexed by block row instead of by the number of the block",
                          telling=not (own == row).all()))  # fmt: skip
    if met.meets and met.mixed:
        found += [
            Rule("row", "block_row_of_tokens", "the block row follows the tile of tokens, not the tile of outputs",
                 "crow_indices_ptr", tile, bool(own.max() > 0))
            for tile in TOKEN_TILES if (own == met.blocks.m // tile).all()
        ]  # fmt: skip
    return found


def _numbers(problem: Problem) -> Array:
    """int [N/32, K/32]: the number of each block, -1 where there is none."""
    found = np.full((problem.scalars["N"] // BLOCK, problem.scalars["K"] // BLOCK), -1, dtype=np.int64)
    cols = exact(problem, "col_indices_ptr").astype(np.int64)
    found[_rows_of_blocks(problem), cols] = np.arange(len(cols))
    return found


def inputs(problem: Problem, generator: torch.Generator) -> Problem:
    """Random values everywhere; the pattern of blocks stays."""
    M, K = problem.scalars["M"], problem.scalars["K"]
    x = normal(generator, M, K, device=torch.device("cpu")).to(torch.float16)
    shape = problem.tensors["values_ptr"].shape
    values = normal(generator, *shape, device=torch.device("cpu")).to(torch.float16)
    return refilled(problem, {"x_ptr": x, "values_ptr": values})


STAGES = Stages(
    left=Operand("x_ptr", "X", by_strides("x_ptr", "stride_xm", "stride_xk"), ("stride_xm", "stride_xk"), index="col_indices_ptr"),
    right=Operand("values_ptr", "W", place),
    judge_left=judge_left,
    judge_right=judge_right,
    inputs=inputs,
    needed=needed,
    explain_block=explain_block,
)
