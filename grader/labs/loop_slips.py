"""What goes wrong with a loop over the tiles of K, whatever the tiles hold."""

from __future__ import annotations

from typing import Protocol

import torch

from grader.labs.notebook_step import Inputs, Slip


class Part(Protocol):
    """The sum over k in first..last - 1; over all of K without them."""

    def __call__(self, inputs: Inputs, first: int = 0, last: int | None = None) -> torch.Tensor: ...


def loop_slips(part: Part, depth: int) -> tuple[Slip, ...]:
    """For a step that calls `multiply_tiles` for three tiles of K, each `depth` deep, the last of them partly outside."""
    return (
        Slip(
            "zero everywhere; does acc keep what multiply_tiles returns?",
            lambda inputs: torch.zeros_like(part(inputs)),
            r"multiply_tiles\(",
        ),
        Slip(
            "the first tile along K alone; does range end or the loop return too early, or k count elements already?",
            lambda inputs: part(inputs, 0, depth),
            r"\brange\(",
        ),
        Slip(
            "without the last tile along K, of which only a part lies inside; where does range end?",
            lambda inputs: part(inputs, 0, 2 * depth),
            r"\brange\(",
        ),
        Slip("without the first tile along K; where does range begin?", lambda inputs: part(inputs, depth), r"\brange\("),
        Slip("the last tile along K alone; is acc added to, or replaced?", lambda inputs: part(inputs, 2 * depth)),
        Slip(
            "the sum with acc counted again in every turn; multiply_tiles adds it already, so write acc = and not acc +=",
            lambda inputs: 2 * part(inputs, 0, depth) + part(inputs, 0, 2 * depth) + part(inputs),
            r"multiply_tiles\(",
        ),
    )
