"""Where a tile's elements came into another order than they should, between a load and what they are used for."""

from __future__ import annotations

import numpy as np

from grader.diagnosis.definition import behind, changing_axis, made_with
from grader.diagnosis.provenance import FAR, Array, offsets_of
from grader.diagnosis.relation import Products, Run, Side
from grader.diagnosis.tape import MOVES, Node

ORDERS = ("reshape", "trans", "join", "cat", "gather", "split")
"""Operations that put a tile's elements into another order."""


def line_of_exchange(run: Run, products: Products, side: Side, p: int, access: Node) -> int | None:
    """Where a load's elements go on to products whose own were loaded too, by another load of the same tile of Y, or lie elsewhere
    in this one; of two loads that are joined, where they are; None where they were not.

    Not split: it tries one place after another, the most certain first; each branch is a form of kernel that was met.
    """
    wanted = _elements_missed(run, products, side, p, access)
    term, mine = products.flow.terms[int(products.term[p])], run.tape.accesses[products.program]
    stored = max((node.number for node in mine if node.op == "store" and node.number < term.node), default=-1)
    loads = (node for node in reversed(mine) if node.op == "load" and stored < node.number < term.node)
    right = next((load for load in loads if len(wanted) and _brings(run, side, load, wanted)), None)
    before = np.flatnonzero(products.iteration == products.iteration[p] - 1)
    stays = any(run.load_of(int(number), side.operand.tensor) is access for number in np.unique(side.node[before]))
    if right is None or (right.line == access.line and products.iteration[p] and not stays):  # which was right before
        return None
    if right.line == access.line and right.called_line != access.called_line:
        return None  # another call of a helper, whose tile is not there to be used
    way = behind(run, int(side.node[p]), stop=lambda node: node.number == access.number)
    orders = [node for node in way if node.op in ORDERS and access.number < node.number]
    if right is access and orders and _is_transposed(run, products, side, p):
        return next((node.line for node in reversed(orders) if node.op == "trans"), term.line)
    if right is access:
        return next((node.line for node in orders), None)
    joins = (node for node in orders if right.number in {one.number for one in behind(run, node.number)})
    if (joined := next(joins, None)) is not None:
        return joined.line
    return next((node.line for node in way if access.number in node.inputs and node.op not in MOVES), term.line)


def line_of_mixing(run: Run, side: Side, access: Node, p: int) -> int | None:
    """Where a tile got another order, so that rows and k change along one axis which did not before; None where they do not."""
    if not _mixes(run, side, int(side.node[p])):
        return None
    way = behind(run, int(side.node[p]), stop=lambda node: node is access)
    orders = (node for node in way if node.op in ORDERS and _mixes(run, side, node.number))
    return next((node.line for node in orders if not any(_mixes(run, side, i) for i in node.inputs)), None)


def _mixes(run: Run, side: Side, number: int) -> bool:
    """Whether both the rows and the k of an operand's elements change along one axis of a tile."""
    origin = run.provenance.origin(number, side.operand.tensor)
    along = side.operand.place(run.problem, offsets_of(origin))
    there = [(origin >= 0) & (np.roll(origin, -1, axis) >= 0) for axis in range(origin.ndim)]
    return any(
        all(((np.roll(one, -1, axis) != one) & there[axis]).any() for one in along) for axis in range(origin.ndim)
    )


def _is_transposed(run: Run, products: Products, side: Side, p: int) -> bool:
    """Whether the rows of an operand lie along the axis that its multiplication sums over, and k along the other one."""
    origin = run.provenance.origin(int(side.node[p]), side.operand.tensor, masked=False)
    if origin.ndim != 2 or (origin < 0).any():
        return False
    rows, k = side.operand.place(run.problem, offsets_of(origin))
    summed = 1 if side is products.left else 0
    return (
        changing_axis(rows) == summed and (np.diff(rows, axis=1 - summed) == 0).all() and changing_axis(k) == 1 - summed
    )


def line_of_laying(run: Run, load: Node, number: int) -> int | None:
    """Where what was loaded was laid along an axis of what it is used for, else where it is first used, on its way to a node; None where
    it comes there as it is."""
    way = made_with(behind(run, number), lambda node: node is load)[1:]
    laid = (node.line for node in way if node.op == "expand_dims")
    return next(laid, None) or next((node.line for node in way if node.op not in MOVES), None)


def line_of_moved(run: Run, store: Node) -> int | None:
    """Where the sums that a store takes were last brought into another order; None where they never were."""
    after = behind(run, store.inputs[0], stop=run.provenance.is_product)
    return next((node.line for node in after[::-1] if node.op in ORDERS and run.provenance.carries(node.number)), None)


def _elements_missed(run: Run, products: Products, side: Side, p: int, access: Node) -> Array:
    """The elements, as numbers of row and k, that an operand should have brought to a product's multiplication in place of a load's; none
    where that did."""
    here = products.term == products.term[p]
    other = products.other(side)
    alive, unit = (other.live & products.alive)[:, here], max(side.operand.unit, 1)
    wanted: Array = (products.rows(side)[:, None] * FAR + other.k[:, here] // unit)[alive]
    brought = (side.row * FAR + side.k // unit)[:, here][alive]
    rows, k = side.operand.place(run.problem, access.offsets[access.active])
    loaded = np.isin(brought, rows * FAR + k // unit)
    return wanted[:0] if np.array_equal(brought, wanted) else wanted[loaded]


def _brings(run: Run, side: Side, load: Node, wanted: Array) -> bool:
    """Whether a load has all of these elements of an operand."""
    if load.tensor != side.operand.tensor:
        return False
    rows, k = side.operand.place(run.problem, load.offsets[load.active])
    return bool(np.isin(wanted, rows * FAR + k // max(side.operand.unit, 1)).all())
