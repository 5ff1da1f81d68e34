"""Which findings of several programs and cases are told, and in which order? Those that none of the others explains, each once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.labs.divergence import ADVANCE, CONVERT, FACTOR, GRID, LOAD, LOOP, PAIR, SCALE, TILE, UNPACK, Divergence

Test = Callable[[Divergence], bool]
BESIDE_TILES = (
    "store_mask_too_short", "store_without_m_mask", "store_without_n_mask", "wrong_block",
    "first_rows_everywhere or row_tile_offset_forgotten", "first_columns_everywhere or column_tile_offset_forgotten",
)  # fmt: skip
"""What a tile that is a wrong one seems to be, too."""


def _named(*beginnings: str) -> Test:
    return lambda finding: finding.name.startswith(beginnings)


def _ranked(*ranks: int) -> Test:
    return lambda finding: finding.rank in ranks


def _explains_blocks(finding: Divergence) -> bool:
    return finding.rank in (LOAD, PAIR) and finding.name not in ("wrong_block", "block_not_transposed")


_swapped, _each_swapped = _named("scales_swapped"), _named("input_scale_by_column", "weight_scale_by_row")
_masked_out = _named("scales_masked_out", "zeros_masked_out")


def _counted_otherwise(finding: Divergence) -> bool:
    return finding.rank == SCALE and not _masked_out(finding)


_maps, _blocks = _ranked(GRID, TILE), _named("wrong_block")

IN_A_LAUNCH: tuple[tuple[Test, Test], ...] = (
    # slices that one side forgets, or that are not masked, seem to overlap
    (_named("slice_unmasked", "slice_of_one_side", "k_tail_unmasked"), _named("slices_", "slice_walks_all_of_k")),
    # zero points that are subtracted from the sum are not subtracted nowhere
    (_named("zero_added_to_sum"), _named("no_zero")),
    # places of another group or channel may lie where a mask leaves them out
    (_counted_otherwise, _masked_out),
    (_swapped, _each_swapped),
    # tiles that overlap reach into other groups
    (_named("k_met_twice"), _named("wrong_group")),
    # lanes of a wrong tile are beside the rows that they seem to be in
    (_maps, lambda finding: finding.name in BESIDE_TILES and not _maps(finding)),
)
"""Where a finding of the first kind is there, those of the second kind follow from it."""
IN_SEVERAL: tuple[tuple[Test, Test], ...] = (
    # where Y is stored by columns its tiles and masks look wrong, in a case of one row as if nothing else were
    (_named("y_strides_swapped", "y_column_major"), lambda finding: _maps(finding) or finding.name.startswith("store_")),
    # rows that are repeated in a wrong order bring masked ones to places that have a group
    (_named("rows_of_tile_repeated"), _masked_out),
    # places of another group or channel may lie where a mask leaves them out
    (_counted_otherwise, _masked_out),
    (_swapped, _each_swapped),
    # blocks are merely others than those of their row where no rule explains which ones they are
    (_explains_blocks, _blocks),
    # places in a block that are BLOCK apart are K apart where K is one block
    (_named("col_and_place_exchanged"), lambda finding: finding.strides),
    # where programs take the blocks of the first block row, they may lie as if they were counted otherwise
    (_named("block_row_of_tokens", "row_start_ignored"), _named("values_by_column", "values_from_row_start")),
    # tiles that begin between those of Y are not those of any program
    (lambda finding: finding.begins, lambda finding: _maps(finding) and not finding.begins),
    # a rule that all words followed would be followed in every case
    (_named("k_orders_differ"), _named("packed_", "word_of_k")),
)


def of_one_launch(findings: Sequence[Divergence], *, guessed: bool) -> list[Divergence]:
    """Findings of the programs of a launch without those that follow from another one. guessed: the rows of Y were guessed."""
    kept = _less(findings, IN_A_LAUNCH)
    if guessed and any(finding.name in ("wrong_block", "k_orders_differ") for finding in kept):  # which row was meant is not certain
        kept = [finding for finding in kept if finding.rank not in (ADVANCE, LOOP) and not _blocks(finding)]
    return kept


def consistent(findings: Sequence[Divergence]) -> list[Divergence]:
    """Findings of several cases without those that another case shows to be something else.

    One map of tiles shows itself in many ways, of which the first case with a reason tells that leaves the least open.
    """
    kept = _less(findings, IN_SEVERAL)
    maps = [finding for finding in kept if _maps(finding)]
    told = min(maps, key=lambda one: (not one.begins, one.name == "tile_map", len(_names(one))), default=None)
    return [one for one in kept if one is told or not _maps(one)]


def borne_out(found: Sequence[Sequence[Divergence]], layouts: Sequence[tuple[str, str]]) -> list[list[Divergence]]:
    """Findings of launches without strides that others in the same layout deny: there a step was like a stride by its size alone.

    A launch in which the same tensor is led astray in another way denies them. layouts: of X and of Y in each launch.
    """

    def denies(other: Sequence[Divergence]) -> bool:
        return not any(known.strides for known in other) and any(known.rank in (LOAD, ADVANCE, PAIR) for known in other)

    return [
        [one for one in findings if not one.strides
         or not any(layout == layouts[number] and denies(other) for other, layout in zip(found, layouts, strict=True))]
        for number, findings in enumerate(found)
    ]  # fmt: skip


def _less(findings: Sequence[Divergence], following: Sequence[tuple[Test, Test]]) -> list[Divergence]:
    kept = list(findings)
    for cause, consequence in following:
        if any(cause(finding) for finding in kept):
            kept = [finding for finding in kept if not consequence(finding)]
    return kept


def ordered(findings: Sequence[Divergence]) -> list[Divergence]:
    """By rank, the first of each name; where a later one leaves less open than the first, that one."""
    kept: list[Divergence] = []
    seen: set[str] = set()
    lines: set[tuple[int, int | None]] = set()
    for finding in sorted(_reasoned(_scaled_once(findings)), key=lambda finding: finding.rank):
        names, place = _names(finding), (finding.rank, finding.line)
        kept = [finding if names < _names(known) else known for known in kept]
        if not names & seen and (finding.rank in (CONVERT, UNPACK, PAIR) or place not in lines):
            kept.append(finding)
        seen |= names
        lines.add(place)
    return kept


def _names(finding: Divergence) -> set[str]:
    return set(finding.name.split(" or "))


def _scaled_once(findings: Sequence[Divergence]) -> list[Divergence]:
    """An element of a scale that one line loads wrongly is wrong for all that it is used for: told where it is used first."""
    loads = {finding.line for finding in findings if finding.rank == SCALE}
    return [finding for finding in findings if finding.rank != FACTOR or finding.line not in loads]


def _reasoned(findings: Sequence[Divergence]) -> list[Divergence]:
    """What has no reason is told only where nothing of its rank has one."""
    ranks = {finding.rank for finding in findings if finding.reason}
    return [finding for finding in findings if finding.reason or finding.rank not in ranks]
