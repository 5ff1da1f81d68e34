"""Which sizes are drawn: so many tiles of a config, small enough to be counted access by access."""

from __future__ import annotations

import math
from dataclasses import replace

from grader.labs import Lab
from grader.labs.contract import tile_of
from grader.model import Case, Config

USUAL = {"M": 64, "N": 64, "K": 64}
"""Tile sizes of a kernel whose config does not name its own."""
MOST_LANES = 6 << 20
MOST_SIDE = 1 << 20
STEP = 64
"""Sizes are multiples of it along K, and along N: every format's blocks and words divide them."""


def sized_case(lab: Lab, sizes: tuple[int, int, int]) -> Case:
    """A case with these M, N and K, its inputs by the recipe of the lab's last timed case: its sparsity, or groups that divide K."""
    M, N, K = sizes
    timed = (lab.speed_cases or lab.cases)[-1]
    group = math.gcd(timed.group_size, K) if timed.group_size else 0
    sized = replace(timed, M=M, N=N, K=K, group_size=group, launches=0)
    return replace(sized, name=f"m{M}_n{N}_k{K}", about=f"M = {M}, N = {N}, K = {K}")


def tiled_case(lab: Lab, config: Config, tiles: tuple[int, int] = (4, 4), steps: int = 2) -> Case:
    """A case of `tiles` tiles of Y and so many steps along K, fewer where that would be too much to count."""
    high, wide, deep = (_tile(lab, config, axis) for axis in "MNK")
    rows, columns = tiles
    while True:
        M, N, K = rows * high, _up(columns * wide), _up(steps * deep * config.split_k)
        loads = rows * columns * steps * config.split_k * deep * (high + wide)
        stores = M * N * config.split_k
        if (loads + stores <= MOST_LANES and max(M * N, M * K, N * K) <= MOST_SIDE) or rows * columns * steps == 1:
            return sized_case(lab, (M, N, K))
        if steps > 1:
            steps //= 2
        elif columns >= rows:
            columns //= 2
        else:
            rows //= 2


def _up(size: int) -> int:
    return STEP * math.ceil(size / STEP)


def _tile(lab: Lab, config: Config, axis: str) -> int:
    """The config's tile along an axis, by the usual names; of a lab whose format has blocks, a block along N."""
    if size := tile_of(config, axis):
        return size
    blocks = lab.constants.get("BLOCK")
    if axis == "N" and isinstance(blocks, int):
        return blocks
    return 4 * blocks if axis == "K" and isinstance(blocks, int) else USUAL[axis]
