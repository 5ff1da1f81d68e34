"""How many slices of K a launch may add in fp16: what SPLIT_K widens the tolerance by, and whether Y arrives zeroed.

The tolerance belongs to the lab. SPLIT_K of a config counts for no more than the slices that a launch is seen to add; where nobody
saw it, for no more than were launched (programs over the tiles of Y, where the config's tile sizes are known). It never counts for more
than 16, nor for slices of fewer than 16 elements of K. A lab without split-K knows no SPLIT_K at all.
"""

from __future__ import annotations

import math

from grader.labs.contract import TILE_NAMES, Lab, Launchable, cdiv
from grader.model import Config, Launch

MOST_SLICES = 16
SHORTEST_SLICE = 16


def arrives_zeroed(kernel: Launchable, config: Config) -> bool:
    """Whether Y is zero before the launch, for slices to add to; else it holds NaN."""
    return kernel.split_k and config.split_k > 1


def slices(lab: Lab, config: Config, launch: Launch | None, M: int, N: int, K: int, *, measured: bool = False) -> int:
    """The slices of K that may be added in fp16 to an element of Y: 1 to 16. Without a launch the config is not believed.

    measured: what the launch adds is measured besides, so that its programs, each of which may make several tiles, need not be counted.
    """
    if launch is None or not arrives_zeroed(lab, config):
        return 1
    launched = MOST_SLICES if measured else math.prod(launch.grid) // _tiles(config, M, N)
    return max(1, min(config.split_k, launched, MOST_SLICES, K // SHORTEST_SLICE))


def _tiles(config: Config, M: int, N: int) -> int:
    """Tiles of Y that the config makes; a side whose tile size has no usual name counts as one tile."""
    return cdiv(M, _tile(config, "M", M)) * cdiv(N, _tile(config, "N", N))


def _tile(config: Config, axis: str, size: int) -> int:
    sizes = (config.constants.get(name) for name in TILE_NAMES[axis])
    return next((int(tile) for tile in sizes if isinstance(tile, int) and tile > 0), size)
