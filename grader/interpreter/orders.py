"""What Triton leaves open: which orders there are in a launch, how numbers are rounded, and another choice than the interpreter's.

The compiler may lay a tile's elements out anew (`tl.view`), and a GPU combines those of a reduction or scan in an order of its own. The
interpreter takes one order; a right kernel does not care, so a launch that met an open one is interpreted again in another. A Hopper keeps
the sums of a product of fp8 values in some 14 bits; the interpreter keeps all. A quotient, root or power in fp32 is off by up to two
units in the last place; the interpreter's is exact where whole numbers divide each other. Of a sine or logarithm a GPU knows fewer digits.
A GPU adds a product to a sum unrounded; the interpreter rounds it. Lanes past the end of a tensor need not keep a promise, and the
compiler goes by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grader.interpreter.native_memory import line_in
from grader.interpreter.per_program import anywhere

ELEMENTS, COMBINING, PACKS, BITS = "elements", "combining", "packs", "bits"
LAST_BIT, FUSED, PROMISED = "last bit", "fused", "promised"
"""What is open: where the elements of a tile are, in which order a function combines them, which ones it is given together, in how
many bits fp8 products are summed, the last bit of an fp32 quotient, root or power that may be a whole number, what is left where a product
cancels, or what lanes hold that were promised to be neighbours."""


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
    return tried_in_another_way()


def tried_in_another_way() -> bool:
    """Whether this launch is made to see if another order gives something else."""
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


def approximated(function: Callable[..., Any]) -> Callable[..., Any]:
    """A quotient, root or the like, which a GPU approximates: in fp32 it is not always the nearest number. The last bit decides what floor
    or a conversion makes of it where whole numbers are divided, or in all of a tile such of few bits, or whole ones come out; unless by a
    power of two, or 0: then it is left open."""

    def operation(*numbers: Any) -> Any:
        result = function(*numbers)
        if result.dtype != np.float32:
            return result
        divisor = numbers[-1].astype(np.float32, copy=False)
        rounded = (divisor.view(np.uint32) & np.uint32(0x7FFFFF) != 0) & (result != 0) & np.isfinite(result)
        nearest, ratio, few = np.rint(result), rounded, rounded
        whole = np.abs(result - nearest) <= np.abs(result) * np.float32(2**-22)
        for number in numbers:
            ratio = ratio & (number == np.rint(number))
            few = few & (number.astype(np.float32, copy=False).view(np.uint32) & np.uint32(0xFFFF) == 0)
        ratio = ratio | (rounded & (whole | few | (result == 0)).all())
        other = anywhere(ratio) and left_open(LAST_BIT)
        off = _off_in_the_last_bit(np.where(whole, nearest, result)) if other else result
        return np.where(ratio, off, np.where(rounded, _nearly(result), result))

    return operation


SPREAD = np.uint32(2654435761)
"""An odd number by which neighbours are multiplied that are to have nothing in common (Knuth, The Art of Computer Programming 3, 6.4)."""


def coarse(
    function: Callable[..., Any], near: float = 0.0, exact: Callable[[Any], Any] = lambda x: x == 0
) -> Callable[..., Any]:
    """A sine, logarithm or the like, of which a GPU knows fewer digits: in fp32 left open, but where `exact` says so of the operand.
    near: how far off it may be beside its own rounding."""

    def operation(x: Any) -> Any:
        result = function(x)
        if result.dtype != np.float32 or not anywhere(~exact(x)) or not left_open(LAST_BIT):
            return result
        lanes = np.arange(x.size, dtype=np.uint32).reshape(x.shape)
        mixed = (x.view(np.uint32) + lanes * SPREAD) * np.uint32((Orders.seed or 0) & 0xFFFFFFFF | 1) * SPREAD
        sign = np.where(mixed >> np.uint32(31) == 0, np.float32(1), np.float32(-1))
        return np.where(exact(x), result, result + sign * (np.float32(near) + np.abs(result) * np.float32(2**-22)))

    return operation


def _nearly(values: Any) -> Any:
    """fp32: a neighbour of every other number, as its own bits have it."""
    bits = values.view(np.uint32)
    return (bits ^ (bits >> np.uint32(3) & np.uint32(1))).view(np.float32)


def _off_in_the_last_bit(values: Any) -> Any:
    """fp32: beyond an even number the next one, else the next one nearer to 0. So what rounds down and what rounds up both meet numbers
    that show it, in every run alike: the second row of tiles is 1."""
    return np.nextafter(
        values, np.where(np.fmod(values, 2) == 0, np.copysign(np.float32(np.inf), values), np.float32(0))
    )
