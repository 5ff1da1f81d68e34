"""Mistakes that any tiled matrix product can hold in its addresses: strides, tile offsets, masks of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import torch

from grader.labs.contract import cdiv
from grader.labs.imitation import Imitation, Mistake, grid_of, product, reread, scattered, tiles
from grader.labs.tiling_mistakes import Operands, sizes
from grader.model import Config, Problem

Address = Callable[[Mapping[str, int], torch.Tensor, torch.Tensor], torch.Tensor]
"""From the kernel's integers, row numbers [R, 1] and column numbers [1, C] to flat offsets [R, C]."""


def stride_mistakes(operands: Operands) -> tuple[Mistake, ...]:
    """X or Y addressed by other strides than theirs."""

    def x_at(address: Address) -> Callable[[Problem, Config], Iterator[Imitation]]:
        def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
            M, _, K = sizes(problem)
            m, k = grid_of(M, K)
            index = address(problem.scalars, m, k)
            if torch.equal(index, m * problem.scalars["stride_xm"] + k * problem.scalars["stride_xk"]):
                return
            for imitation in operands.from_x(problem, reread(problem.tensors["x_ptr"], index).double()):
                yield replace(imitation, reads="x_ptr")

        return imitate

    def y_at(address: Address) -> Callable[[Problem, Config], Iterator[Imitation]]:
        def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
            M, N, _ = sizes(problem)
            m, n = grid_of(M, N)
            index = address(problem.scalars, m, n)
            if not torch.equal(index, m * problem.scalars["stride_ym"] + n * problem.scalars["stride_yn"]):
                right = operands.right(problem)
                y, overrun = scattered(problem, right.y, index)
                yield Imitation(y, scattered(problem, right.bound, index)[0].nan_to_num(0.0), overrun)

        return imitate

    def first_rows(problem: Problem, config: Config) -> Iterator[Imitation]:
        M, _, _ = sizes(problem)
        for tile in tiles(config, "M"):
            if tile < M:
                yield from operands.from_x(problem, problem.tensors["x_ptr"].double()[torch.arange(M) % tile])

    def first_columns(problem: Problem, config: Config) -> Iterator[Imitation]:
        _, N, _ = sizes(problem)
        a, slack, w = operands.both(problem)
        for tile in tiles(config, "N"):
            if tile < N:
                yield product(a, w[torch.arange(N) % tile], slack=slack, rounded=operands.rounded)

    own = "which rows of X and which columns of W does the second tile load?"
    return (
        Mistake("first_rows_everywhere", "the first rows of X used for every row tile of Y", own, first_rows),
        Mistake("first_columns_everywhere", "the first columns of W used for every column tile of Y", own, first_columns),
        Mistake(
            "ignores_stride_xm", "X read as if its rows followed each other without a gap",
            "compare how far apart the rows of X are with what the kernel is told about it",
            x_at(lambda s, m, k: m * s["K"] + k * s["stride_xk"]),
        ),
        Mistake(
            "ignores_stride_xk", "X read as if the elements of a row were neighbours in memory",
            "is a step along K always one element of memory?", x_at(lambda s, m, k: m * s["stride_xm"] + k),
        ),
        Mistake(
            "ignores_strides_x", "X read as a contiguous [M, K] matrix",
            "X may be a view into a larger matrix; which arguments say so?", x_at(lambda s, m, k: m * s["K"] + k),
        ),
        Mistake(
            "row_length_n", "rows of X taken to be N elements long",
            "how many elements does a row of X have?", x_at(lambda s, m, k: m * s["N"] + k * s["stride_xk"]),
        ),
        Mistake(
            "x_transposed", "X read as if it were stored transposed", "which index of X does each stride belong to?",
            x_at(lambda s, m, k: m * s["stride_xk"] + k * s["stride_xm"]),
        ),
        Mistake(
            "ignores_stride_ym", "Y stored as if its rows followed each other without a gap",
            "compare how far apart the rows of Y are with what the kernel is told about it",
            y_at(lambda s, m, n: m * s["N"] + n * s["stride_yn"]),
        ),
        Mistake(
            "y_column_major", "Y stored transposed, column after column", "which index of Y does each stride belong to?",
            y_at(lambda s, m, n: m + n * s["M"]),
        ),
        Mistake(
            "y_strides_swapped", "Y stored with its two strides exchanged",
            "which index of Y does each stride belong to?",
            y_at(lambda s, m, n: m * s["stride_yn"] + n * s["stride_ym"]),
        ),
    )  # fmt: skip


def store_mistakes(
    operands: Operands, column_tiles: Callable[[Config], tuple[int, ...]] | None = None
) -> tuple[Mistake, ...]:
    """Masks of the store, and tiles that land in the wrong place or nowhere. column_tiles: sizes along N, if fixed."""
    across = column_tiles or (lambda config: tiles(config, "N"))

    def without_m_mask(problem: Problem, config: Config) -> Iterator[Imitation]:
        if any(problem.scalars["M"] % tile for tile in tiles(config, "M")):
            right = operands.right(problem)
            yield Imitation(right.y, right.bound, overrun=True)

    def without_n_mask(problem: Problem, config: Config) -> Iterator[Imitation]:
        _, N, _ = sizes(problem)
        for tile in across(config):
            pad = -N % tile
            if not pad:
                continue
            right = operands.right(problem)
            y, bound = right.y.clone(), right.bound.clone()
            if problem.scalars["stride_ym"] < N + pad:
                y[1:, :pad] /= 2
                bound[1:, :pad] += y[1:, :pad].abs()
            yield Imitation(y, bound, overrun=True)

    def only(region: Callable[[int, int], tuple[slice, slice]]) -> Callable[[Problem, Config], Iterator[Imitation]]:
        def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
            right = operands.right(problem)
            for tile_m in tiles(config, "M"):
                for tile_n in across(config):
                    y = torch.full_like(right.y, torch.nan)
                    rows, columns = region(tile_m, tile_n)
                    y[rows, columns] = right.y[rows, columns]
                    if bool(y.isnan().any()):
                        yield Imitation(y, right.bound)

        return imitate

    def last_in_first_columns(problem: Problem, config: Config) -> Iterator[Imitation]:
        right = operands.right(problem)
        N = right.y.shape[1]
        for tile in across(config):
            if tile < N and N % tile == 0:
                y = torch.full_like(right.y, torch.nan)
                y[:, :tile] = right.y[:, N - tile :]
                yield Imitation(y, torch.roll(right.bound, tile, 1))

    def ids_swapped(problem: Problem, config: Config) -> Iterator[Imitation]:
        M, N, _ = sizes(problem)
        right = operands.right(problem)
        for tile_m in tiles(config, "M"):
            for tile_n in across(config):
                down, along = cdiv(M, tile_m), cdiv(N, tile_n)
                y = right.y.clone()
                y[along * tile_m :] = torch.nan
                y[:, down * tile_n :] = torch.nan
                if bool(y.isnan().any()):
                    yield Imitation(y, right.bound)

    def tile_transposed(problem: Problem, config: Config) -> Iterator[Imitation]:
        M, N, _ = sizes(problem)
        right = operands.right(problem)
        for tile in tiles(config, "M"):
            if tile in across(config) and M % tile == 0 and N % tile == 0:

                def turned(matrix: torch.Tensor, tile: int = tile) -> torch.Tensor:
                    return matrix.view(M // tile, tile, N // tile, tile).transpose(1, 3).reshape(M, N)

                yield Imitation(turned(right.y), turned(right.bound))

    offset = "by how many rows and columns do the tiles of two neighbouring programs lie apart?"
    return (
        Mistake(
            "store_without_m_mask", "a right Y with whole tiles stored beyond its last row",
            "what does the store of the last row tile do when M ends inside the tile?", without_m_mask,
        ),
        Mistake(
            "store_without_n_mask", "whole tiles stored beyond the last column, into the next row",
            "what does the store of the last column tile do when N ends inside the tile?", without_n_mask,
        ),
        Mistake(
            "tile_offset_forgotten", "a Y of which only the first tile was ever written", offset,
            only(lambda m, n: (slice(m), slice(n))),
        ),
        Mistake(
            "row_tile_offset_forgotten", "a Y of which only the first row of tiles was ever written", offset,
            only(lambda m, n: (slice(m), slice(None))),
        ),
        Mistake(
            "column_tile_offset_forgotten", "a Y of which only the first column of tiles was ever written", offset,
            only(lambda m, n: (slice(None), slice(n))),
        ),
        Mistake(
            "column_tile_offset_forgotten", "a Y whose column tiles were all stored into the first one", offset,
            last_in_first_columns,
        ),
        Mistake(
            "program_ids_swapped", "a Y with the tile numbers along M and N taken from each other's part of the program id",
            "take a grid with few row tiles and many column tiles: which tile does its last program write?", ids_swapped,
        ),
        Mistake(
            "tile_transposed", "every tile of Y stored transposed", "which index runs along the rows of the stored tile?",
            tile_transposed,
        ),
    )  # fmt: skip
