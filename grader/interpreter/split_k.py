"""What each program adds to Y, and of which k: the slices of split-K, as the judge compares them with the reference's.

A store to elements that nothing else is written to is an addition to their zeros; of whatever else is stored nobody knows what becomes of
the sums, and the launch is not followed. Each addition is a slice, or a part of one: its k are the columns of the factor (X [M, K]) that
its program has loaded since an addition before it, or, where it has loaded none since, those of that one. In which order the k were
loaded is kept, as a rank: a kernel that loads ahead, or a whole tile at the end of its slice, loads k that belong to another slice, and
does so last.
"""

from __future__ import annotations

import numpy as np

from grader.interpreter.areas import Area

MAX_RANKS = 1 << 24
"""Programs that load or add times K, and slices times K, for which ranks are kept."""
MAX_ADDITIONS = 1 << 23
LATEST = np.iinfo(np.uint16).max


class Contributions:
    """Follows one launch. `complete`: whether everything that was added could be followed.

    ranks: uint16 [rows, K], in which order a program loaded each k, from 1; 0: it did not. added: whether it has added since; its next load
    begins anew. A program has a row once it loads or adds. Lanes of one load are in the order of the tile. An access of several programs
    lists the lanes of one after those of another, the programs in any order.
    """

    def __init__(self, factor: Area, output: Area, programs: int) -> None:
        self.factor, self.output = factor, output
        self.complete = factor.shape[1] <= LATEST
        if not self.complete:
            return
        rows, columns = output.shape
        self.k_of = _laid_out(factor, np.broadcast_to(np.arange(factor.shape[1], dtype=np.int32), factor.shape))
        self.place_of = _laid_out(output, np.arange(rows * columns, dtype=np.int32).reshape(rows, columns))
        self.row_of = np.full(programs, -1, dtype=np.int32)
        self.rows = 0
        self.ranks = np.zeros((0, factor.shape[1]), dtype=np.uint16)
        self.lane_of = np.zeros((0, factor.shape[1]), dtype=np.int32)
        self.loaded = np.zeros(0, dtype=np.int64)
        self.added = np.zeros(0, dtype=bool)
        self.added_to, self.stored_to = np.zeros((2, rows * columns), dtype=bool)
        self.slices: list[np.ndarray] = []
        self.additions: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self.count = 0

    def begin(self, programs: np.ndarray) -> None:
        """These programs run from their beginning."""
        if self.complete:
            rows = self.row_of[programs]
            self._forget(rows[rows >= 0])

    def _forget(self, rows: np.ndarray) -> None:
        """What these rows' programs have loaded."""
        self.ranks[rows], self.loaded[rows], self.added[rows] = 0, 0, False

    def _rows(self, programs: np.ndarray) -> np.ndarray:
        """The programs' rows, which are made where they have none yet."""
        new = programs[self.row_of[programs] < 0]
        if not new.size:
            return self.row_of[programs]
        new = np.unique(new)
        self.row_of[new] = self.rows + np.arange(len(new))
        self.rows += len(new)
        missing = self.rows - len(self.ranks)
        if missing > 0:
            more = max(missing, len(self.ranks))
            self.ranks, self.lane_of, self.loaded, self.added = (
                np.concatenate([array, np.zeros((more, *array.shape[1:]), dtype=array.dtype)])
                for array in (self.ranks, self.lane_of, self.loaded, self.added)
            )
        return self.row_of[programs]

    def load(self, area: Area, elements: np.ndarray, programs: np.ndarray | int) -> None:
        """Elements of a buffer were loaded, each by its program, or all by one."""
        if not self.complete or area is not self.factor:
            return
        k = self.k_of[elements]
        rows = self._rows(np.broadcast_to(programs, k.shape))
        if self.added.any():
            self._forget(np.unique(rows[(k >= 0) & self.added[rows]]))
        fresh = (k >= 0) & (self.ranks[rows, k] == 0)
        k, rows = k[fresh], rows[fresh]
        lanes = np.arange(len(k), dtype=np.int32)
        self.lane_of[rows[::-1], k[::-1]] = lanes[::-1]  # of several lanes the first one stays
        first = self.lane_of[rows, k] == lanes
        order = np.argsort(rows[first], kind="stable")
        k, rows = k[first][order], rows[first][order]
        count = np.bincount(rows, minlength=len(self.loaded))
        start = np.cumsum(count) - count
        self.ranks[rows, k] = 1 + (self.loaded - start)[rows] + np.arange(len(k))
        self.loaded += count
        self.complete = self.rows * self.factor.shape[1] <= MAX_RANKS

    def load_by_all(self, area: Area, elements: np.ndarray, programs: np.ndarray) -> None:
        """The same elements were loaded by each of these programs."""
        if self.complete and area is self.factor:
            self.load(area, np.tile(elements, len(programs)), np.repeat(programs, len(elements)))

    def write(
        self, area: Area, elements: np.ndarray, values: np.ndarray, programs: np.ndarray | int, *, adds: bool
    ) -> None:
        """Values were stored to elements of a buffer, or changed them, each by its program, or all by one. adds: they were added."""
        if not self.complete or area is not self.output:
            return
        if values.dtype != np.float16 or values.shape != elements.shape:
            self.complete = False
            return
        programs = np.broadcast_to(programs, elements.shape)
        adds_here = np.zeros(len(self.row_of), dtype=bool)
        adds_here[programs] = True
        adding, which = np.flatnonzero(adds_here), (np.cumsum(adds_here) - 1)[programs]
        rows, places = self._rows(adding), self.place_of[elements]
        self.added[rows] = True
        # what lies between two rows of Y is none of its elements, and a share of K without any k adds zeros
        telling = np.bincount(which, values != 0, len(adding)) > 0
        inside = (places >= 0) & telling[which]
        own = places[places >= 0]
        if self.stored_to[own].any() or (not adds and self.added_to[own].any()):
            self.complete = False
            return
        (self.added_to if adds else self.stored_to)[places[inside]] = True
        slice_of = len(self.slices) - 1 + np.cumsum(telling)
        self.slices += list(self.ranks[rows[telling]])
        self.additions.append((slice_of[which[inside]].astype(np.int32), places[inside], values[inside]))
        self.count += int(inside.sum())
        self.complete = self.count <= MAX_ADDITIONS and len(self.slices) * self.factor.shape[1] <= MAX_RANKS

    def answer(self) -> bytes:
        """int64 (slices, additions, K), then uint16 ranks [slices, K], int32 slice and int32 place in Y of each addition, fp16 values."""
        slices = np.stack(self.slices) if self.slices else np.zeros((0, self.factor.shape[1]), dtype=np.uint16)
        parts = [np.concatenate(part) for part in zip(*self.additions, strict=True)] if self.additions else []
        sizes = np.array([len(slices), self.count, slices.shape[1]], dtype=np.int64)
        return b"".join(array.tobytes() for array in (sizes, slices, *parts))


def _laid_out(area: Area, numbers: np.ndarray) -> np.ndarray:
    """int32 for each element of an area's buffer: the tensor's numbers where it lies, -1 elsewhere."""
    found = np.full(len(area.valid), -1, dtype=np.int32)
    steps = tuple(step * found.itemsize for step in area.strides)
    np.lib.stride_tricks.as_strided(found[area.offset :], area.shape, steps)[...] = numbers
    return found
