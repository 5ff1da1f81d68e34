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

FAULTS = ("gap", "outside", "past", "beyond")
GAP, OUTSIDE, PAST, BEYOND = range(len(FAULTS))
"""And from BEYOND on, one number for each dimension of the tensor."""


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
    """Adds what is found in the rows of [programs, ...], each kind of fault once, as the earliest program has it.

    mask: active lanes; bad: those in no element, one at least in each row; moments: of the programs, as `Findings.moment`; misled: as
    `MemoryCheck.misled`.
    """
    offsets, here = (pointers - np.uint64(area.base)).view(np.int64) // area.width, found.here()
    flat, inside = offsets.reshape(len(offsets), -1), mask.reshape(len(mask), -1)
    first, lanes = bad.reshape(len(bad), -1).argmax(axis=1), bad.reshape(len(bad), -1).sum(axis=1)
    forms: dict[bytes, list[int]] = defaultdict(list)
    for row, apart in enumerate(flat - flat[:, :1]):
        forms[apart.tobytes()].append(row)
    for form in forms.values():
        rows = np.array(form)
        offset, meant = flat[rows, first[rows]], along_axes(offsets[rows], area)
        each = [at.reshape(len(rows), -1) for at in meant or ()]
        index = [at[range(len(rows)), first[rows]] for at in each] or index_at(offset, area)
        element = offset + area.offset
        faults = np.where((element >= area.hull.start) & (element < area.hull.stop), GAP, OUTSIDE)
        if meant:
            beside = np.array([(at < 0) | (at >= size) for at, size in zip(index, area.shape, strict=True)])
            low = [np.where(inside[rows], at, 0).min(axis=1) < 0 for at in each]
            begins = [at[:, 0] >= size for at, size in zip(each, area.shape, strict=True)]
            past = np.where(np.any([*low, *begins], axis=0), PAST, BEYOND + beside.argmax(axis=0))
            faults = np.where(beside.any(axis=0), past, faults)
        for fault in dict.fromkeys(faults.tolist()):
            alike = np.flatnonzero(faults == fault).tolist()
            earliest = min(alike, key=lambda one: moments[form[one]])
            name, dimension = FAULTS[min(fault, BEYOND)], fault - BEYOND if fault >= BEYOND else None
            place = {
                "index": [int(at[earliest]) for at in index],
                "dimension": dimension,
                "offset": int(offset[earliest]),
            }
            extent = {"lanes": int(lanes[rows[alike]].sum()), "steps": steps_of(offsets[form[0]])}
            finding = {"kind": kind, "fault": name, "tensor": area.name, **place, **extent, "misled": misled}
            found.moment = moments[form[earliest]]
            found.add((name, kind, area.name, dimension), finding, here)
