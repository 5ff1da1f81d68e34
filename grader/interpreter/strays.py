"""Lanes of an access that lie in no element of their tensor: where the first one points, and how its tile came to be there.

beyond: the tile begins inside and moves by the tensor's strides, so that exactly the lanes past an end are bad.
past: it moves so and begins outside. Else the address is wrong: gap, between the elements of a view, or outside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from grader.interpreter.areas import Area, along_axes, index_at, steps_of
from grader.interpreter.launch_findings import Findings


def report(
    found: Findings,
    kind: str,
    area: Area,
    pointers: np.ndarray,
    mask: np.ndarray,
    bad: np.ndarray,
    moments: Sequence[tuple[int, int]],
    misled: str | None,
) -> None:
    """Adds a finding for each row of [programs, ...]. mask: active lanes; bad: those in no element, one at least in each row; moments: of
    the programs, as `Findings.moment`; misled: as `MemoryCheck.misled`."""
    offsets, here = (pointers - np.uint64(area.base)).view(np.int64) // area.width, found.here()
    corners = offsets.reshape(len(offsets), -1)[:, 0]
    forms: dict[bytes, list[int]] = defaultdict(list)
    for row, corner in enumerate(corners):
        forms[(offsets[row] - corner).tobytes()].append(row)
    first, lanes = bad.reshape(len(bad), -1).argmax(axis=1), bad.reshape(len(bad), -1).sum(axis=1)
    for rows in forms.values():
        steps, shape = steps_of(offsets[rows[0]]), offsets.shape[1:]
        meant = along_axes(offsets[rows], area)
        inside = mask[rows].reshape(len(rows), -1)
        lowest = [np.where(inside, at.reshape(len(rows), -1), np.iinfo(np.int64).max).min(axis=1) for at in meant or ()]
        for place, row in enumerate(rows):
            lane = np.unravel_index(first[row], shape)
            offset = int(offsets[row][lane])
            index = [int(at[place][lane]) for at in meant] if meant else index_at(offset, area)
            fault, dimension = "gap" if offset + area.offset in area.hull else "outside", None
            outside = [d for d, i in enumerate(index) if not 0 <= i < area.shape[d]]
            if outside and meant:
                low = any(at[place] < 0 for at in lowest)
                begins = any(at[place].flat[0] >= size for at, size in zip(meant, area.shape, strict=True))
                fault, dimension = ("past", None) if low or begins else ("beyond", outside[0])
            finding = {
                "kind": kind,
                "fault": fault,
                "tensor": area.name,
                "index": index,
                "dimension": dimension,
                "lanes": int(lanes[row]),
                "offset": offset,
                "steps": steps,
                "misled": misled,
            }
            found.moment = moments[row]
            found.add((fault, kind, area.name, dimension), finding, here)
