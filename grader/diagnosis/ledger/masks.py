"""What does the mask of a load say of k, where one is given?"""

from __future__ import annotations

import numpy as np

from grader.diagnosis.ledger.pairs import Run, Side
from grader.diagnosis.ledger.provenance import Array
from grader.diagnosis.ledger.tape import Node


def lets_through(run: Run, side: Side, p: int, behind: Array) -> str:
    """That the mask of the load behind a product lets k through that lie behind the end of K; "" where no mask says anything of k.

    behind: those k.
    """
    load = _load(run, side, p)
    if load is None or not _cuts_along_k(run, side, load):
        return ""
    few = "one k too many" if len(np.unique(behind)) == 1 and behind[0] == run.sizes[2] else "what lies behind the end of K"
    return f"the mask of the load lets {few} through"


def compared(run: Run, side: Side, p: int) -> str:
    """As a clause: with which number the mask of the load behind a product compares, and what is left of K; "" where that is not known."""
    load = _load(run, side, p)
    limit = None if load is None else _limit(run, side, load)
    if load is None or limit is None or load.offsets is None or side.operand.unit > 1:
        return ""
    first, bound = limit
    k = int(side.operand.place(run.problem, load.offsets.reshape(-1)[:1])[1][0])
    right = first + run.sizes[2] - k
    if bound == right or k >= run.sizes[2]:
        return ""
    return f"; the tile begins with k = {k}, so that {run.sizes[2] - k} are left, and its mask is true for {max(0, bound - first)}"


def _limit(run: Run, side: Side, load: Node) -> tuple[int, int] | None:
    """The first number that a load's mask compares along k, and the one from which on it is false."""
    axes, nodes = _axes(run, side, load), run.tape.nodes
    if axes is None or len(load.inputs) < 2:
        return None
    along = tuple(length if axis == axes[1] else 1 for axis, length in enumerate(load.shape))
    waiting, parts = [load.inputs[1]], []
    while waiting:
        node = nodes[waiting.pop()]
        if node.shape == along:
            parts.append(node)
        elif node.op in ("and", "broadcast"):
            waiting += node.inputs
    if len(parts) != 1:
        return None
    node = parts[0]
    while node.op in ("expand_dims", "reshape"):
        node = nodes[node.inputs[0]]
    if node.op not in ("icmpSLT", "icmpSLE") or len(node.inputs) != 2:
        return None
    numbers, bound = (run.provenance.values(i).reshape(-1).astype(np.int64) for i in node.inputs)
    if len(np.unique(bound)) != 1 or (np.diff(numbers) != 1).any():
        return None
    return int(numbers[0]), int(bound[0]) + (node.op == "icmpSLE")


def turned(run: Run, side: Side, p: int) -> bool:
    """Whether the mask of the load behind a product is that of the tile with its rows and columns exchanged."""
    load = _load(run, side, p)
    axes = None if load is None else _axes(run, side, load)
    if load is None or axes is None or load.active is None or load.offsets is None or load.shape[0] != load.shape[1]:
        return False
    rows, columns = (run.sizes[0] if side.operand is run.stages.left else run.sizes[1]), run.sizes[2]
    row, k = (int(at[0]) for at in side.operand.place(run.problem, load.offsets.reshape(-1)[:1]))
    places = np.indices(load.shape)
    inside = (row + places[axes[0]] < rows) & (k + places[axes[1]] * side.operand.unit < columns)
    return bool((load.active == inside.T).all() and (inside != inside.T).any())


def _load(run: Run, side: Side, p: int) -> Node | None:
    """The load behind a side of a product."""
    return next((node for node in run.way_to_load(int(side.node[p]), side.operand.tensor) if node.op == "load"), None)


def _cuts_along_k(run: Run, side: Side, load: Node) -> bool:
    """Whether a load has a mask that may differ from k to k."""
    mask = run.tape.nodes[load.inputs[1]] if len(load.inputs) > 1 else None
    if mask is None or mask.op == "lost":  # none was given, or by a block pointer
        return False
    axes = _axes(run, side, load)
    if axes is None or mask.op != "broadcast":
        return axes is not None
    return run.tape.nodes[mask.inputs[0]].shape[axes[1]] > 1


def _axes(run: Run, side: Side, load: Node) -> tuple[int, int] | None:
    """The axes of a load of two along which rows and k run, by the strides of its tensor; rows behind the last may be led back inside."""
    if len(side.operand.strides) != 2 or load.offsets is None or len(load.shape) != 2 or min(load.shape) < 2:
        return None
    own = [run.problem.scalars[name] for name in side.operand.strides]
    steps = [int(load.offsets[1, 0] - load.offsets[0, 0]), int(load.offsets[0, 1] - load.offsets[0, 0])]
    if steps == own or steps[::-1] == own:
        return (0, 1) if steps == own else (1, 0)
    along_k = [axis for axis in (0, 1) if steps[axis] == own[1]]
    return (1 - along_k[0], along_k[0]) if len(along_k) == 1 else None
