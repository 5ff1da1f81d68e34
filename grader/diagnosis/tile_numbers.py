"""Which number, were it another one, would let the programs of a launch store each tile of Y once.

What a store's address was made of in one program is computed again for all of them, with another value for one node at a time. Of a node
that is the same in several programs the other value has to do for all of these: the height of a group of tiles, say, and not each of the
numbers that are made with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from grader.diagnosis.definition import GIVEN, address_nodes
from grader.diagnosis.provenance import IDENTITIES, Array, Untraceable, lanes_before, spread
from grader.diagnosis.tape import MOVES, Node

if TYPE_CHECKING:
    from grader.diagnosis.relation import Run

MOST_VALUES, MOST_ASKED = 1 << 10, 1 << 18
"""Other values that are tried, and with how many programs at once."""
FEWEST, MOST_NODES = 3, 256
"""Programs, of which fewer tell nothing; and nodes behind an address, of which more are a loop's."""


def _quotient(a: Array, b: Array) -> Array:
    """As a GPU has it, towards zero."""
    by = np.where(b == 0, 1, b)
    found: Array = np.sign(a) * np.sign(by) * (np.abs(a) // np.abs(by))
    return found


COMPUTED: Mapping[str, Callable[[Array, Array], Array]] = {
    **dict.fromkeys(("add", "addptr"), np.add), "sub": np.subtract, "mul": np.multiply, "shl": np.left_shift,
    **dict.fromkeys(("ashr", "lshr"), np.right_shift), "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    **dict.fromkeys(("minsi", "minui"), np.minimum), **dict.fromkeys(("maxsi", "maxui"), np.maximum),
    **dict.fromkeys(("idiv", "sdiv", "udiv"), _quotient), **dict.fromkeys(("srem", "urem"), lambda a, b: a - _quotient(a, b) * b),
    "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal, "EQ": np.equal, "NE": np.not_equal,
}  # fmt: skip


def line_of_tile(run: Run, store: Node, size: tuple[int, int], count: tuple[int, int]) -> int | None:
    """The line of that number, of several the one that fewest values of have to be others; None where there is none, or more than address
    arithmetic is behind the store. size, count: of Y's tiles."""
    programs, need = int(np.prod(run.grid)), run.config.split_k
    if not FEWEST <= programs <= MOST_ASKED // FEWEST or len(address_nodes(run, store)) > MOST_NODES:
        return None
    try:
        replay = _Replay(run, store)
        tiles = _tiles(run, replay.offsets(), size, count)[0]
        owns = {node: np.broadcast_to(replay.of(node.number, 0), (1, programs))[0] for node in replay.numbers}
    except Untraceable:
        return None
    if {program: {tile} for program, tile in enumerate(tiles.tolist()) if tile >= 0} != _stored(run, size, count):
        return None
    often = np.bincount(tiles[tiles >= 0], minlength=count[0] * count[1])
    bad = (tiles < 0) | (often[tiles] > need)
    values = np.arange(min(MOST_VALUES, MOST_ASKED // programs, 2 + max(programs, len(often))))[:, None]
    fewest, line = programs, None
    for node, own in owns.items():
        changed = np.unique(own[bad])
        tiles_along = "div" in node.op and (own == own[0]).all() and own[0] in count  # which is right
        if len(changed) < fewest and not tiles_along:
            tried = _tiles(run, replay.offsets({node.number: values}), size, count)
            right = tiles[~np.isin(own, changed)]
            rest = np.bincount(right[right >= 0], minlength=len(often))
            if _cover([tried[:, own == one] for one in changed], rest, need):
                fewest, line = len(changed), node.line
    return line


def _cover(groups: Sequence[Array], often: Array, need: int) -> bool:
    """Whether a value can be chosen for each group of programs so that every tile is stored as often as needed. groups: their tiles,
    [values, programs] each; often: how often the other programs store each tile."""
    for tried in groups:
        whole = (np.bincount(tiles, minlength=len(often)) for tiles in tried if (tiles >= 0).all())
        more = next((more for more in whole if (often + more <= need).all()), None)
        if more is None:
            return False
        often = often + more
    return bool((often == need).all())


def _tiles(run: Run, offsets: Array, size: tuple[int, int], count: tuple[int, int]) -> Array:
    """[values, programs]: the number of the tile that begins at an element of Y; -1 for none."""
    (m, inside), (n, aligned) = np.divmod(offsets, run.strides[0]), np.divmod(offsets % run.strides[0], run.strides[1])
    (i, row), (j, column) = np.divmod(m, size[0]), np.divmod(n, size[1])
    whole = (row == 0) & (column == 0) & (aligned == 0) & (inside >= 0) & (i >= 0) & (i < count[0]) & (j < count[1])
    found: Array = np.where(whole, i * count[1] + j, -1)
    return found.reshape(-1, offsets.shape[-1])


def _stored(run: Run, size: tuple[int, int], count: tuple[int, int]) -> dict[int, set[int]]:
    """The tiles that each program stored."""
    found: dict[int, set[int]] = defaultdict(set)
    tiles = _tiles(run, np.array([one.lowest for one in run.stores]), size, count)[0]
    for one, tile in zip(run.stores, tiles.tolist(), strict=True):
        found[one.program].add(tile)
    return found


class _Replay:
    """The address of a store's first lane, for all programs. numbers: the nodes that it is made of and that the kernel computes."""

    def __init__(self, run: Run, store: Node) -> None:
        self.run, self.store, programs = run, store, np.arange(int(np.prod(run.grid)))
        self.ids = np.array(np.unravel_index(programs, run.grid))
        made = (node for node in address_nodes(run, store) if node.inputs and node.op not in (*GIVEN, *MOVES))
        self.numbers = [node for node in made if node.size == 1 and node.line and node.type.startswith("int")]
        self._known: dict[tuple[int, int], Array] = {}

    def offsets(self, replaced: Mapping[int, Array] | None = None) -> Array:
        """[values, programs]: elements from Y's first. replaced: other values of nodes, [values, 1]. Raises Untraceable."""
        self._known = {(number, 0): values for number, values in (replaced or {}).items()}
        return self.of(self.store.inputs[1], 0) + np.zeros((1, self.ids.shape[1]), dtype=np.int64)

    def of(self, number: int, lane: int) -> Array:
        """A lane of a node, [values or 1, programs or 1]."""
        if (number, lane) not in self._known:
            self._known[number, lane] = self._compute(self.run.tape.nodes[number], lane)
        return self._known[number, lane]

    def _compute(self, node: Node, lane: int) -> Array:
        name, at = node.op.removeprefix("icmp")[-2:] if node.op.startswith("icmp") else node.op, np.array([lane])
        if node.op == "get_program_id":
            ids: Array = self.ids[node.attribute][None]
            return ids
        if node.op == "argument" and node.data is None:  # a pointer: from its own first element
            return np.zeros((1, 1), dtype=np.int64)
        if node.op in MOVES:
            before = ((i, int(own[0])) for i, own, here in lanes_before(self.run.provenance, node, at) if here[0])
            return self.of(*next(before, (node.inputs[0], 0)))
        if not node.inputs:
            given: Array = self.run.provenance.values(node.number).reshape(-1)[at].astype(np.int64)[None]
            return given
        inputs = [self.of(i, int(spread(self.run.tape.nodes[i], node.shape, at)[0])) for i in node.inputs]
        if node.op in IDENTITIES:
            return inputs[0]
        if name not in COMPUTED:
            raise Untraceable(node.op, node.line)
        with np.errstate(all="ignore"):
            return COMPUTED[name](*inputs).astype(np.int64)
