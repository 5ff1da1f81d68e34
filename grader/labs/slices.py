"""How many slices of K a launch may add in fp16: what SPLIT_K widens the tolerance by, and whether Y arrives zeroed.

A config's SPLIT_K counts for no more slices than the launch was seen to add; if nobody saw that, for no more than were launched
(programs per tile of Y, if the config's tile sizes are known). It never counts for more than 16 slices, nor for slices of fewer than 16
elements of K. In a lab without split-K, SPLIT_K has no meaning.
"""

from __future__ import annotations

import math

from grader.labs.contract import Lab, Launchable, cdiv, tile_of
from grader.model import Config, Launch

MOST_SLICES = 16
SHORTEST_SLICE = 16


def arrives_zeroed(kernel: Launchable, config: Config) -> bool:
    """Whether Y is zeroed before the launch, for slices to add to; otherwise it is filled with NaN."""
    return kernel.split_k and config.split_k > 1


def slices(lab: Lab, config: Config, launch: Launch | None, M: int, N: int, K: int, *, measured: bool = False) -> int:
    """The slices of K that may be added in fp16 to an element of Y: 1 to 16; 1 without a launch, whatever the config says.

    measured: the slices that the launch adds are measured elsewhere, so its programs need not be counted (one may compute several tiles).
    """
    if launch is None or not arrives_zeroed(lab, config):
        return 1
    launched = MOST_SLICES if measured else math.prod(launch.grid) // _tiles(config, M, N)
    return max(1, min(config.split_k, launched, most_slices(K)))


def most_slices(K: int) -> int:
    """So many slices of K count at most."""
    return max(1, min(MOST_SLICES, K // SHORTEST_SLICE))


def _tiles(config: Config, M: int, N: int) -> int:
    """Tiles of Y that the config makes; a side whose tile size has no usual name counts as one tile."""
    return cdiv(M, tile_of(config, "M") or M) * cdiv(N, tile_of(config, "N") or N)
