"""Which numbers of a store are others than those that are there, and which of them by no more than rounding explains."""

from __future__ import annotations

import numpy as np

from grader.interpreter.areas import Area
from grader.interpreter.memory_access import MemoryAccess

SAME = 2.0**-8
"""How far two programs' numbers for an element may be apart, relative to it, when each has summed up in an order of its own."""


def brings_another(access: MemoryAccess) -> np.ndarray:
    """Which elements a store, which may be several elements wide, gives another number than they hold."""
    width, brought = access.area.width, np.ascontiguousarray(access.of_lanes).reshape(-1)
    if access.width < width:
        return np.ones(access.elements.shape, dtype=bool)
    if access.width > width:
        brought = brought.view(f"u{width}")
    others, apart = changes(access.area, access.elements, brought[access.within])
    return others | (apart > 0)


def changes(area: Area, elements: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which elements a store changes, and by how much where rounding may explain it."""
    whole = area.buffer[: len(area.valid) * area.width]
    if values.dtype.kind != "f":
        bits = f"u{area.width}"
        return differ(whole.view(bits)[elements], np.ascontiguousarray(values).view(bits))
    return differ(whole.view(values.dtype)[elements], values)


def differ(there: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which numbers are others; and by how much those are apart of which only what the whole row comes to can tell: sums in another
    order, where large terms leave little."""
    if values.dtype.kind != "f":
        return there != values, np.zeros(values.shape)
    there, values = there.astype(np.float64), values.astype(np.float64)
    with np.errstate(all="ignore"):
        apart = np.abs(there - values)
        same = (apart <= SAME * np.abs(values)) | (there == values) | (np.isnan(there) & np.isnan(values))
    known = ~np.isfinite(apart)
    return known & ~same, np.where(same | known, 0.0, apart)
