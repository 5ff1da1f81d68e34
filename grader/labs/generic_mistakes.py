"""The mistakes that any tiled product can hold, for a lab that names its operands: strides, loop, tails, stores, accumulator."""

from __future__ import annotations

from collections.abc import Callable

from grader.labs.address_mistakes import store_mistakes, stride_mistakes
from grader.labs.imitation import Mistake
from grader.labs.tiling_mistakes import Operands, accumulator_mistakes, last_resorts, loop_mistakes, tail_mistakes
from grader.model import Config


def generic_mistakes(
    operands: Operands, column_tiles: Callable[[Config], tuple[int, ...]] | None = None
) -> tuple[Mistake, ...]:
    """More telling ones first. column_tiles: sizes of tiles along N where no config says them."""
    return (
        *stride_mistakes(operands),
        *loop_mistakes(operands),
        *tail_mistakes(operands),
        *store_mistakes(operands, column_tiles),
        *accumulator_mistakes(operands),
        *last_resorts(operands),
    )
