"""Mistakes that any tiled matrix product can hold in its arithmetic: the loop over K and its tail, the accumulator.

They need only the lab's exact operands: A [M, K] and W [N, K], and A recomputed from another X.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from grader.labs.bound import FP16_UNDERFLOW, U_FP16
from grader.labs.contract import cdiv
from grader.labs.imitation import UNWRITTEN, Imitation, Mistake, grid_of, product, reread, tiles
from grader.model import Config, Problem

Reading = tuple[torch.Tensor, torch.Tensor | None]
"""A as float64 [M, K] with its slack [M, K]: how far an element may be off (None: exact)."""


@dataclass(frozen=True)
class Operands:
    """How a lab's problem becomes a product of two float64 matrices.

    a(problem, x): what A [M, K'] becomes when X [M, K'] is read as `x`, which may hold poison (NaN); the first
        reading is the one of sound values, others differ in what becomes of poison.
    w(problem, k): columns `k` (int64 [K']) of W, [N, K']; those past K are what memory holds there.
    unscaled(problem): the operands that the accumulator sees, [M, K] and [N, K], and the scale of the sum.
    rounded: W may be rounded to fp16 before the product.
    multiplied(problem): bool [N, K], the elements of W that a kernel multiplies with at all (None: every one).
    """

    a: Callable[[Problem, torch.Tensor], Sequence[Reading]]
    w: Callable[[Problem, torch.Tensor], torch.Tensor]
    unscaled: Callable[[Problem], tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
    rounded: bool = False
    multiplied: Callable[[Problem], torch.Tensor] | None = None

    def both(self, problem: Problem) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
        """A, its slack and W as a right kernel has them."""
        a, slack = self.a(problem, problem.tensors["x_ptr"].double())[0]
        return a, slack, self.w(problem, torch.arange(problem.scalars["K"]))

    def from_x(self, problem: Problem, x: torch.Tensor) -> Iterator[Imitation]:
        """The output when X is read as float64 `x` [M, K]; NaN spreads to whatever is multiplied with it."""
        w = self.w(problem, torch.arange(x.shape[1]))
        for a, slack in self.a(problem, x):
            if self.multiplied is None or not bool(a.isnan().any()):
                yield product(a, w, slack=slack, rounded=self.rounded)
                continue
            spread = a.isnan().double() @ self.multiplied(problem).double().t() > 0
            sound = product(a.nan_to_num(0.0), w, slack=slack, rounded=self.rounded)
            yield Imitation(torch.where(spread, torch.nan, sound.y), sound.bound)

    def meeting(self, problem: Problem, left: torch.Tensor, right: torch.Tensor) -> Imitation:
        """The output when element left[i] of A meets element right[i] of W; both int64 [K']."""
        a, slack, w = self.both(problem)
        part = None if slack is None else slack[:, left]
        return product(a[:, left], w[:, right], slack=part, rounded=self.rounded)

    def right(self, problem: Problem) -> Imitation:
        """What a right kernel stores."""
        a, slack, w = self.both(problem)
        return product(a, w, slack=slack, rounded=self.rounded)


def sizes(problem: Problem) -> tuple[int, int, int]:
    """M, N, K of a problem."""
    return problem.scalars["M"], problem.scalars["N"], problem.scalars["K"]


def loop_mistakes(operands: Operands) -> tuple[Mistake, ...]:
    """Mistakes in the loop over K, for kernels that walk it in tiles."""

    def kept(problem: Problem, keep: Callable[[torch.Tensor], torch.Tensor]) -> Imitation:
        a, slack, w = operands.both(problem)
        mask = keep(torch.arange(a.shape[1]))
        return product(a * mask, w, slack=None if slack is None else slack * mask, rounded=operands.rounded)

    def tail_dropped(problem: Problem, config: Config) -> Iterator[Imitation]:
        K = problem.scalars["K"]
        for last in {K // tile * tile for tile in tiles(config, "K") if K % tile}:
            yield kept(problem, lambda k, last=last: k < last)  # type: ignore[misc]

    def last_dropped(problem: Problem, config: Config) -> Iterator[Imitation]:
        K = problem.scalars["K"]
        for tile in tiles(config, "K"):
            if K % tile == 0 and tile < K:
                yield kept(problem, lambda k, tile=tile: k < K - tile)  # type: ignore[misc]

    def first_dropped(problem: Problem, config: Config) -> Iterator[Imitation]:
        for tile in tiles(config, "K"):
            if problem.scalars["K"] > tile:
                yield kept(problem, lambda k, tile=tile: k >= tile)  # type: ignore[misc]

    def one_tile(problem: Problem, config: Config) -> Iterator[Imitation]:
        for tile in tiles(config, "K"):
            if problem.scalars["K"] > tile:
                yield kept(problem, lambda k, tile=tile: k < tile)  # type: ignore[misc]

    def overwritten(problem: Problem, config: Config) -> Iterator[Imitation]:
        K = problem.scalars["K"]
        for first in {(cdiv(K, tile) - 1) * tile for tile in tiles(config, "K")}:
            if first:
                yield kept(problem, lambda k, first=first: k >= first)  # type: ignore[misc]

    def counted_with(name: str) -> Callable[[Problem, Config], Iterator[Imitation]]:
        def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
            count, K = problem.scalars[name], problem.scalars["K"]
            for end in {cdiv(count, tile) * tile for tile in tiles(config, "K")}:
                if end < K:
                    yield kept(problem, lambda k, end=end: k < end)  # type: ignore[misc]

        return imitate

    def not_advanced(problem: Problem, config: Config) -> Iterator[Imitation]:
        K = problem.scalars["K"]
        k = torch.arange(K)
        for tile in tiles(config, "K"):
            if tile < K:
                again = k % tile
                whole = (torch.arange(cdiv(K, tile) * tile) % tile).clamp(max=K - 1)
                for left, right in ((k, again), (again, k), (again, again), (whole, whole)):
                    yield operands.meeting(problem, left, right)

    def advanced_by_one(problem: Problem, config: Config) -> Iterator[Imitation]:
        K = problem.scalars["K"]
        k = torch.arange(K)
        for tile in tiles(config, "K"):
            if tile < K:
                near = k // tile + k % tile
                for left, right in ((near, near), (near, k), (k, near)):
                    yield operands.meeting(problem, left, right)

    return (
        Mistake(
            "last_k_block_dropped", "a sum over K without its last, partial tile",
            "count the turns of the K loop for a K that is no multiple of the tile", tail_dropped,
        ),
        Mistake(
            "accumulator_overwritten", "the product of the last K tile alone",
            "each turn of the K loop must keep what the turns before it summed up", overwritten,
        ),
        Mistake(
            "k_not_advanced", "operands read from the first K tile again in every turn of the loop",
            "look at what changes from one turn of the K loop to the next, for each operand", not_advanced,
        ),
        Mistake(
            "advanced_by_one", "operands that move on by one element of K a turn, instead of by a tile",
            "how far apart are the tiles of two neighbouring turns?", advanced_by_one,
        ),
        Mistake(
            "one_k_tile_only", "the product of the first K tile alone", "does the K loop make more than one turn?",
            one_tile,
        ),
        Mistake(
            "loop_over_n", "a K loop that makes as many turns as N needs",
            "which size does the bound of the K loop come from?", counted_with("N"),
        ),
        Mistake(
            "loop_over_m", "a K loop that makes as many turns as M needs",
            "which size does the bound of the K loop come from?", counted_with("M"),
        ),
        Mistake(
            "last_k_block_dropped", "a sum over K without its last tile",
            "count the turns of the K loop: is the last one made?", last_dropped,
        ),
        Mistake(
            "first_k_block_dropped", "a sum over K without its first tile", "where does the K loop begin?",
            first_dropped,
        ),
    )  # fmt: skip


def tail_mistakes(operands: Operands) -> tuple[Mistake, ...]:
    """A partial last K tile that reads on beyond K."""

    def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
        M, _, K = sizes(problem)
        for end in {cdiv(K, tile) * tile for tile in tiles(config, "K") if K % tile}:
            m, k = grid_of(M, end)
            x = reread(problem.tensors["x_ptr"], m * problem.scalars["stride_xm"] + k * problem.scalars["stride_xk"])
            w = operands.w(problem, torch.arange(end))
            masked = torch.where(torch.arange(end) < K, w, 0.0)
            for a, slack in operands.a(problem, x.double()):
                yield product(a, w, slack=slack, rounded=operands.rounded)
                yield product(a, masked, slack=slack, rounded=operands.rounded)

    return (
        Mistake(
            "k_tail_unmasked", "a partial last K tile filled up with what lies behind X and W in memory",
            "what do the loads of the last turn read when K ends inside the tile?", imitate,
        ),
    )  # fmt: skip


def accumulator_mistakes(operands: Operands) -> tuple[Mistake, ...]:
    """An accumulator of too few bits."""

    def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
        a, w, scale = operands.unscaled(problem)
        for tile in tiles(config, "K"):
            parts = [a[:, k : k + tile] @ w[:, k : k + tile].t() for k in range(0, a.shape[1], tile)]
            yield half_sum(parts, scale)

    return (
        Mistake(
            "fp16_accumulator", "a sum kept in fp16, which loses small terms and overflows at 65504",
            "in which type does the accumulator hold the sum while the loop runs?", imitate,
        ),
    )  # fmt: skip


def last_resorts(operands: Operands) -> tuple[Mistake, ...]:
    """Outputs that say little: errors of an fp16 accumulator's size, zeros, nothing at all."""

    def half_sized_errors(problem: Problem) -> Imitation:
        a, w, scale = operands.unscaled(problem)
        peak = torch.stack([part.abs() for part in (a[:, : k + 16] @ w[:, : k + 16].t()
                                                    for k in range(0, a.shape[1], max(16, a.shape[1] // 16)))])  # fmt: skip
        right = operands.right(problem)
        return Imitation(right.y, right.bound + a.shape[1] / 16 * U_FP16 * peak.amax(0) * scale, loose=True)

    def kept_in_half(problem: Problem, config: Config) -> Iterator[Imitation]:
        if not _adds_to_y(config):
            yield half_sized_errors(problem)

    def added_in_half(problem: Problem, config: Config) -> Iterator[Imitation]:
        if _adds_to_y(config):
            yield half_sized_errors(problem)

    def zeros(problem: Problem, config: Config) -> Iterator[Imitation]:
        M, N, _ = sizes(problem)
        yield Imitation(torch.zeros(M, N, dtype=torch.float64), torch.tensor(FP16_UNDERFLOW))

    def nothing(problem: Problem, config: Config) -> Iterator[Imitation]:
        M, N, _ = sizes(problem)
        yield Imitation(torch.full((M, N), torch.nan, dtype=torch.float64), torch.tensor(0.0))

    return (
        Mistake("zeros", "a Y of zeros", "is the result of tl.dot kept, and is it what is stored?", zeros),
        Mistake(
            UNWRITTEN, "a Y that was never written, or to which the result was added: it arrives uninitialised",
            "which program writes each tile of Y, and does anything read Y before?", nothing,
        ),
        Mistake(
            "fp16_accumulator", "the right product with errors of the size that a sum in fp16 makes",
            "in which type does the accumulator hold the sum while the loop runs?", kept_in_half,
        ),
        Mistake(
            "fp16_additions", "the right product with errors of the size that additions in fp16 make",
            "how many programs add to one element of Y, each time rounded to fp16? SPLIT_K of them are allowed for, and fewer where "
            "one program walks several tiles. And in which type does the accumulator hold the sum while the loop runs?", added_in_half,
        ),
    )  # fmt: skip


def _adds_to_y(config: Config) -> bool:
    """Whether the programs of a config meet in Y, which arrives zeroed for that."""
    slices = config.constants.get("SPLIT_K", 1)
    return isinstance(slices, int) and slices > 1


def half_sum(parts: Sequence[torch.Tensor], scale: torch.Tensor) -> Imitation:
    """The sum of float64 [M, N] parts, each rounded to fp16 and added in fp16, times `scale`."""
    total = torch.zeros_like(parts[0], dtype=torch.float16)
    for part in parts:
        total = (total + part.to(torch.float16)).to(torch.float16)
    y = total.double() * scale
    return Imitation(y, (4 * U_FP16 * y.abs()).nan_to_num(0.0, posinf=0.0) + FP16_UNDERFLOW)
