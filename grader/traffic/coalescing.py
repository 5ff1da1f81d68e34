"""Which thread loads which elements of a tile, if it is spread over threads as Triton does it by default.

Assumed, and all of it an assumption, since only the compiler knows: the layout is that of Triton's pass `coalesce` (a blocked
layout; each thread takes as many neighbours as addresses, mask and 16 bytes allow, and as the tile has for each thread; then
the 32 lanes of a warp fill the fastest axis first), the compiler knows of the addresses what they show, tensors begin at a
multiple of 256 bytes, and an atomic takes 4 bytes at a time. A test compares the layout with the compiler's. A kernel whose
loads feed a matrix instruction from registers, or go through a descriptor, is laid out in other ways.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.traffic.accesses import OFF, Access

LANES = 32
WIDEST = 16
"""Bytes of neighbours that the layout gives to a thread at most."""
INSTRUCTION = {"load": 16, "store": 16, "atomic": 4}
"""Bytes that one thread loads, stores or adds with one instruction at most."""


@dataclass(frozen=True)
class Blocked:
    """A blocked layout: elements, lanes and warps along each axis; order: axes, the fastest first."""

    each: tuple[int, ...]
    lanes: tuple[int, ...]
    warps: tuple[int, ...]
    order: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Coalescing(Access):
    """One access of one program, warp by warp.

    vector: bytes that a thread asks for at once.
    warp, request, lane: int32 in the tile's shape: who loads each element (a request is one instruction of its warp).
    """

    vector: int
    layout: Blocked
    warp: np.ndarray[Any, Any]
    request: np.ndarray[Any, Any]
    lane: np.ndarray[Any, Any]


def coalesce(access: Access, num_warps: int) -> Coalescing:
    """How one access reaches memory."""
    offsets = access.offsets.astype(np.int64)
    layout = blocked(offsets, access.width, num_warps)
    together = max(1, min(math.prod(layout.each), INSTRUCTION[access.kind] // access.width))
    warp, request, lane = _owners(offsets.shape, layout, together)
    vector = together * access.width
    return Coalescing(**vars(access), vector=vector, layout=layout, warp=warp, request=request, lane=lane)


def blocked(offsets: np.ndarray[Any, Any], width: int, num_warps: int) -> Blocked:
    """The layout for a tile of byte offsets (OFF: masked) whose lanes take `width` bytes each."""
    axes = range(offsets.ndim)
    runs = [_contiguous(offsets, width, axis, offsets.shape[axis], aligned=False) for axis in axes]
    order = tuple(sorted(axes, key=lambda axis: (-runs[axis], -axis)))
    fastest = order[0]
    most = max(1, min(WIDEST // width, offsets.size // (LANES * num_warps)))
    each = [1] * offsets.ndim
    each[fastest] = _contiguous(offsets, width, fastest, most, aligned=True)
    lanes, warps = [1] * offsets.ndim, [1] * offsets.ndim
    threads_left, lanes_left, warps_left = LANES * num_warps, LANES, num_warps
    for axis in order[:-1]:
        threads = min(max(offsets.shape[axis] // each[axis], 1), threads_left)
        lanes[axis] = min(threads, lanes_left)
        warps[axis] = min(max(threads // lanes[axis], 1), warps_left)
        threads_left = max(threads_left // threads, 1)
        lanes_left //= lanes[axis]
        warps_left //= warps[axis]
    lanes[order[-1]], warps[order[-1]] = lanes_left, warps_left
    return Blocked(tuple(each), tuple(lanes), tuple(warps), order)


def _contiguous(offsets: np.ndarray[Any, Any], width: int, axis: int, most: int, *, aligned: bool) -> int:
    """The largest power of two, at most `most`, whose groups along an axis are consecutive in memory.

    aligned: they also begin at a multiple of their size, and are masked as one.
    """
    lines = np.moveaxis(offsets, axis, -1)
    length, best = lines.shape[-1], 1
    while 2 * best <= min(most, length) and length % (2 * best) == 0:
        size = 2 * best
        groups = lines.reshape(-1, size)
        masked = groups == OFF
        if aligned and (masked.any(axis=1) != masked.all(axis=1)).any():
            break
        whole = groups[~masked.any(axis=1)]
        if not len(whole) or (np.diff(whole, axis=1) != width).any():
            break
        if aligned and (whole[:, 0] % (size * width)).any():
            break
        best = size
    return best


def _owners(shape: tuple[int, ...], layout: Blocked, together: int) -> tuple[np.ndarray[Any, Any], ...]:
    """Warp, request and lane of each element of a tile; `together`: elements of a thread that one instruction takes."""
    warp, request, lane = (np.zeros(shape, dtype=np.int32) for _ in range(3))
    strides = [1, 1, 1]
    for axis in layout.order:
        index = np.arange(shape[axis]).reshape([-1 if other == axis else 1 for other in range(len(shape))])
        each, lanes, warps = layout.each[axis], layout.lanes[axis], layout.warps[axis]
        lane += (index // each % lanes * strides[0]).astype(np.int32)
        warp += (index // (each * lanes) % warps * strides[1]).astype(np.int32)
        if axis == layout.order[0]:
            parts = each // together
            request += (index % each // together).astype(np.int32)
            strides[2] = parts
        request += (index // (each * lanes * warps) * strides[2]).astype(np.int32)
        strides = [strides[0] * lanes, strides[1] * warps, strides[2] * -(-shape[axis] // (each * lanes * warps))]
    return warp, request, lane
