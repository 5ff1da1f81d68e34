"""What Triton leaves open: which orders there are in a launch, in how many bits sums are kept, and another choice than the interpreter's.

The compiler may lay a tile's elements out anew (`tl.view`), and a GPU combines those of a reduction or scan in an order of its own. The
interpreter takes one order; a right kernel does not care, so a launch that met an open one is interpreted again in another. A Hopper keeps
the sums of a product of fp8 values in some 14 bits; the interpreter keeps all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.interpreter.native_memory import line_in

ELEMENTS, COMBINING, PACKS, BITS = "elements", "combining", "packs", "bits"
"""What is open: where the elements of a tile are, in which order a function combines them, which ones it is given together, or in how
many bits fp8 products are summed."""


class Orders:
    """Of this launch. seed: from which the other orders are drawn; None: the interpreter's own."""

    seed: int | None = None
    path = ""
    met: dict[tuple[str, int], None]

    @classmethod
    def begin(cls, path: str, seed: int | None) -> None:
        """A launch of the module at `path`."""
        cls.path, cls.seed, cls.met = path, seed, {}


Orders.begin("", None)


def left_open(what: str) -> bool:
    """Notes that the kernel's line in hand leaves an order open. Whether another one than the interpreter's is wanted."""
    Orders.met[what, line_in(Orders.path) or 0] = None
    return Orders.seed is not None


def another(size: int) -> np.ndarray:
    """Another order of that many elements, in which none is at its place, the same for all tiles of that many."""
    order = np.random.default_rng([Orders.seed or 0, size]).permutation(size)
    moved = np.empty(size, dtype=np.int64)
    moved[order] = np.roll(order, 1)  # one cycle through all of them
    return moved


def in_another(data: Any) -> Any:
    """All elements of a tile in another order, as one row."""
    return np.take(data.reshape(-1), another(data.size))
