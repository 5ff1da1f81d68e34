"""Which line to change: backwards from a load or store to where the component that deviates came in."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import numpy as np

from grader.diagnosis.provenance import Array, Untraceable
from grader.diagnosis.relation import FAR, Products, Run, Side, load_of
from grader.diagnosis.statements import (
    last_loop,
    line_of_bound,
    line_of_condition,
    line_of_named_mask,
    line_of_pointer,
    line_of_update,
    loop_around,
)
from grader.diagnosis.tape import MOVES, Node

ORDERS = ("reshape", "trans", "join", "cat", "gather", "split")
"""Operations that put a tile's elements into another order."""


def address_nodes(run: Run, access: Node) -> list[Node]:
    """The nodes that a load's or store's addresses were computed with, in the order in which they were made."""
    pointer = access.inputs[0] if access.op == "load" else access.inputs[1]
    return behind(run, pointer, stop=lambda node: node.op in ("load", "dot"))


def behind(run: Run, number: int, stop: Callable[[Node], bool] = lambda node: False) -> list[Node]:
    """A node and all that it was computed from, in the order in which they were made."""
    waiting, seen = [number], {number}
    while waiting:
        node = run.tape.nodes[waiting.pop()]
        if stop(node):
            continue
        for i in node.inputs:
            if i not in seen:
                seen.add(i)
                waiting.append(i)
    return [run.tape.nodes[i] for i in sorted(seen)]


def axis_along(access: Node, step: int, *, last: bool) -> int | None:
    """The axis of a load's tile along which its addresses move by `step`."""
    offsets = access.offsets
    if offsets is None:
        return None
    found = [
        axis
        for axis in range(offsets.ndim)
        if offsets.shape[axis] > 1 and int(np.diff(offsets, axis=axis).reshape(-1)[0]) == step
    ]
    return found[-1 if last else 0] if found else None


def line_along(run: Run, access: Node, step: int, *, last: bool) -> int | None:
    """The line where the offsets along the rows, or along k, of a load's tile were made."""
    axis = axis_along(access, step, last=last)
    return access.line if axis is None else line_of_axis(run, access, axis)


def line_of_axis(run: Run, access: Node, axis: int) -> int | None:
    """Where what varies along one axis of an access's tile was last computed by itself, before it met the other axes."""
    found = None
    for node in address_nodes(run, access):
        if node.line is not None and _varies_along(run, node, access.shape) == {axis}:
            found = node.line
    return found or access.line


def _varies_along(run: Run, node: Node, shape: tuple[int, ...]) -> set[int]:
    """The axes of a tile of `shape` along which an integer node varies; none for a pointer or a scalar."""
    if node.size == 1 or "ptr" in node.type or "pointer" in node.type:
        return set()
    try:
        values = run.provenance.values(node.number)
    except Untraceable:
        return set()
    if values.ndim != len(shape):
        return set()
    return {
        axis
        for axis in range(values.ndim)
        if values.shape[axis] > 1 and (np.diff(values.astype(np.int64), axis=axis) != 0).any()
    }


def line_of_step(run: Run, first: Node, second: Node) -> int | None:
    """Where an address moves on from one iteration to the next: the first of what the second access was computed with, and the first
    access was not, that goes on with something older, else by the text. None where it does not move on, or all of it is made in
    the access's own line."""
    before = {node.number for node in address_nodes(run, first)}
    fresh = [node for node in address_nodes(run, second) if node.number not in before and node.line is not None]
    carried = [node.line for node in fresh if node.line != second.line and not before.isdisjoint(node.inputs)]
    return carried[0] if carried else line_of_update(run.text, second.line or 0)


def is_program_id(node: Node) -> bool:
    """What tells programs apart."""
    return node.op == "get_program_id"


def line_of_base(
    run: Run,
    access: Node,
    axis: int | None = None,
    given: Callable[[Node], bool] = is_program_id,
    right: Node | None = None,
) -> int | None:
    """Where what a tile begins with along one axis was made of something given, such as a program id; None: along any axis.

    Of `pid_m * BLOCK_M + tl.arange(0, BLOCK_M)` that is the line that made pid_m, or this one where pid_m is a program id itself, or
    the addresses of another access that are right are made of it too. Where nothing depends on what is given, the line where the
    lanes begin.
    """
    shared = {node.number for node in address_nodes(run, right)} if right else set()
    nodes = address_nodes(run, access)
    if axis is not None:
        along = [node for node in nodes if _is_along(run, node, access.shape, axis)]
        nodes = [run.tape.nodes[i] for i in sorted({one.number for node in along for one in behind(run, node.number)})]
    dependent: set[int] = set()
    scalars: list[Node] = []
    merged = None
    for node in nodes:
        if given(node) or not dependent.isdisjoint(node.inputs):
            dependent.add(node.number)
            if node.size == 1 and node.line is not None and "addptr" not in node.op:
                scalars.append(node)
            elif node.size > 1 and merged is None and node.line is not None:
                merged = node.line
    if not scalars:
        lanes = [node.line for node in nodes if node.op == "make_range" and node.line is not None]
        return lanes[0] if lanes else access.line
    earlier = [node.line for node in scalars if node.line != merged and not given(node) and node.number not in shared]
    return earlier[-1] if earlier else merged or scalars[-1].line


def line_of_count(run: Run, access: Node, counts: tuple[int, int]) -> int | None:
    """Where M or N, behind an access's addresses, was divided to a number of tiles that is not this one; None where none was."""
    sizes: dict[int, set[int]] = {}
    last: dict[int | None, Node] = {}
    divided: dict[int | None, int] = {}
    for node in address_nodes(run, access):
        of = set().union(*(sizes.get(i, {-1} if is_program_id(run.tape.nodes[i]) else set()) for i in node.inputs))
        if node.op == "argument" and node.data is not None and node.size == 1:
            of = {axis for axis in (0, 1) if int(node.data.reshape(-1)[0]) == run.sizes[axis]}
        if is_program_id(node) or -1 in of:
            of = {-1}
        sizes[node.number] = of
        if node.size == 1 and of in ({0}, {1}) and node.data is not None:
            last[node.line] = node
            divided.update({node.line: max(of)} if "div" in node.op else {})
    wrong = [
        line
        for line, axis in divided.items()
        if int(run.provenance.values(last[line].number).reshape(-1)[0]) != counts[axis]
    ]
    return wrong[0] if wrong else None


def _is_along(run: Run, node: Node, shape: tuple[int, ...], axis: int | None) -> bool:
    """Whether a node varies along this axis of a tile alone, by its numbers, or has as many lanes as this axis has, and no other."""
    lanes = len(node.shape) == 1 and node.size > 1 and len(shape) > 1 and shape.count(node.size) == 1
    return axis is not None and (_varies_along(run, node, shape) == {axis} or (lanes and node.size == shape[axis]))


def start_of_sum(run: Run, number: int) -> int | None:
    """The line where what a multiplication adds to began: backwards through sums to what holds no product yet."""
    node = run.tape.nodes[number]
    while True:
        carried = [i for i in node.inputs if run.provenance.carries(i)]
        others = [i for i in node.inputs if i not in carried and run.tape.nodes[i].size == node.size]
        if node.op == "dot" and len(node.inputs) > 2:
            carried, others = (
                ([node.inputs[2]], []) if run.provenance.carries(node.inputs[2]) else ([], [node.inputs[2]])
            )
        elif node.op == "dot":
            return node.line
        following = [i for i in carried if run.tape.nodes[i].op in ("dot", "fadd", "add", "fma")] or carried
        begins = others and all(run.provenance.is_product(run.tape.nodes[i]) for i in carried)
        if not following or begins:
            return run.tape.nodes[others[-1]].line if others else node.line
        node = run.tape.nodes[following[0]]


def line_of_loop(run: Run, products: Products, which: str) -> int | None:
    """What decides which products reach a tile: the "start" or the "stop" of the loop that makes them; the condition of its store where
    that is all that comes between them, or instead of them."""
    terms = [term.line for term in products.flow.terms]
    made = terms or [node.line for node in run.provenance.products(range(len(run.tape.nodes)))]
    stored = products.store.line or 0
    above = last_loop(run.text, stored)
    inside = next((line for line in made if line), 0 if above is None else above.lineno + 1)
    loop = loop_around(run.text, inside)
    between = loop is not None and loop.lineno < stored <= (loop.end_lineno or 0)
    deciding = line_of_condition(run.text, stored, inside, leaving=not between) if between or not terms else None
    return deciding or line_of_bound(run.text, inside, which if terms else "stop")


def line_of_place(run: Run, products: Products, side: Side, e: int, p: int, column: str) -> int | None:
    """Where an operand came to another place than its own, "rows" or "k", in the first product that shows it.

    Where the right element was loaded into something else, the wrong one of two is used. Else what first goes wrong decides: a later
    iteration by what moves on, the lanes of a tile by where they got their order, a whole tile by where its beginning was made.
    """
    access = load_of(run, side, p)
    if access is None or access.offsets is None:
        return None
    if (exchanged := line_of_exchange(run, products, side, p, access)) is not None:
        return exchanged
    before = products.iteration == products.iteration[p] - 1
    if before.any():
        previous = load_of(run, side, int(np.flatnonzero(before)[0]))
        return (line_of_step(run, previous, access) if previous else None) or access.line
    along = side.operand.place(run.problem, access.offsets)[column == "k"]
    axes = [axis for axis in range(along.ndim) if (np.diff(along, axis=axis) != 0).any()]
    sliced = run.config.split_k > 1 and column == "k"
    strides = [run.problem.scalars[name] for name in side.operand.strides] or [1, 1]
    made = line_of_bound(run.text, access.line or 0, "start") if sliced else None
    if axes and not sliced:
        made = line_of_lanes(run, access, axes[0], strides[column == "k"])
    return (
        (line_of_order(run, access, axes[0]) if axes else None)
        or made
        or line_of_pointer(run.text, access.line or 0)
        or access.line
    )


def line_of_order(run: Run, access: Node, axis: int) -> int | None:
    """Where the lanes along one axis got the distances that they have in the end, up to a factor; None where they are even."""
    distances = [(node, np.diff(values)) for node, values in _along(run, access, axis)]
    return None if not distances or (distances[-1][1] == distances[-1][1][0]).all() else _first_alike(distances)


def line_of_lanes(run: Run, access: Node, axis: int, stride: int) -> int | None:
    """Where the lanes along one axis got the numbers that, times a stride, are in the addresses."""
    made = _along(run, access, axis)
    final = made[-1][1] if made else np.zeros(0)
    same = [
        node.line
        for node, one in made
        if node.line and node.op not in ("make_range", *MOVES) and (one * stride == final).all()
    ]
    return same[0] if same else None


def _first_alike(made: Sequence[tuple[Node, Array]]) -> int | None:
    """The line of the first node whose numbers are those of the last one, up to a factor."""
    final = made[-1][1] if made else np.zeros(0)
    alike = (
        node.line for node, one in made if node.line and (one * np.abs(final).max() == final * np.abs(one).max()).all()
    )
    return next(alike, None)


def _along(run: Run, access: Node, axis: int) -> list[tuple[Node, Array]]:
    """The nodes of an access's addresses that vary along one axis of its tile alone, in their order, and their numbers there."""
    found = []
    for node in address_nodes(run, access):
        if _is_along(run, node, access.shape, axis):
            with contextlib.suppress(Untraceable):
                values = run.provenance.values(node.number).astype(np.int64).reshape(-1)
                found += [(node, values)] if values.size == access.shape[axis] else []
    return found


def line_of_mask(run: Run, access: Node, along: Array) -> int | None:
    """Where an access's mask was made, by itself along the axis in which `along`, shaped as its tile, changes.

    A store's mask is not on the tape: where it has a name alone, the text tells.
    """
    if access.op != "load" or len(access.inputs) < 2:
        return line_of_named_mask(run.text, access.line or 0) or access.line
    axis = next((axis for axis in range(along.ndim) if (np.diff(along, axis=axis) != 0).any()), None)
    nodes = behind(run, access.inputs[1], lambda node: node.op in ("load", "dot"))
    alone = [
        node.line
        for node in nodes
        if node.type == "int1" and node.op not in MOVES and _is_along(run, node, access.shape, axis)
    ]
    return alone[-1] if alone else access.line


def line_of_exchange(run: Run, products: Products, side: Side, p: int, access: Node) -> int | None:
    """Where a load's elements go on to products whose own were loaded too, by another load of the same tile of Y, or lie elsewhere
    in this one; None where they were not."""
    term, here = products.flow.terms[int(products.term[p])], products.term == products.term[p]
    other = products.right if side is products.left else products.left
    alive = (other.live & products.alive)[:, here]
    k = other.k[:, here] // max(side.operand.unit, 1)
    wanted = (np.broadcast_to(products.rows(side)[:, None], k.shape) * FAR + k)[alive]
    if (side.row * FAR + side.k // max(side.operand.unit, 1))[:, here][alive].tolist() == wanted.tolist():
        return None
    mine = run.tape.accesses[products.program]
    stored = max((node.number for node in mine if node.op == "store" and node.number < term.node), default=-1)
    for load in reversed([node for node in mine if node.op == "load" and stored < node.number < term.node]):
        if load.tensor != side.operand.tensor or load.offsets is None or load.active is None:
            continue
        rows, columns = side.operand.place(run.problem, load.offsets[load.active])
        if len(wanted) and np.isin(wanted, rows * FAR + columns // max(side.operand.unit, 1)).all():
            way = behind(run, int(side.node[p]), stop=lambda node: node.number == access.number)
            if load.line == access.line and products.iteration[p]:  # which was right before
                return None
            if load is access:
                return next((node.line for node in way if node.op in ORDERS and access.number < node.number), None)
            return next((node.line for node in way if access.number in node.inputs and node.op not in MOVES), term.line)
    return None
