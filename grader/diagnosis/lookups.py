"""Column index: of an operand whose places another tensor names, is the element of that tensor the one that belongs to its partner?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from grader.diagnosis.definition import (
    address_nodes,
    changing_axis,
    line_of_base,
    line_of_exchange,
    line_of_lanes,
    line_of_step,
    line_to_blame,
    numbers_behind,
    pointers_of,
)
from grader.diagnosis.observation import Observation
from grader.diagnosis.provenance import NONE, Array, Untraceable, offsets_of
from grader.diagnosis.relation import Products, Run, Side, element, first_of, load_of
from grader.diagnosis.tape import Node


def check_index(run: Run, products: Products) -> list[Observation]:
    """Whether places come from the right element of the index, and are made of it as they should be."""
    side, other = products.left, products.right
    if side.operand.index_of is None:
        return []
    indices, wanted = index_elements(run, side), side.operand.index_of(run.problem, other.offset)
    short, letter = side.operand.index.removesuffix("_ptr"), side.operand.letter
    another = products.live & (indices >= 0) & (indices != wanted)
    if another.any():
        e, p = first_of(products, another)
        line, beside = _line_of_element(run, products, e, p)
        text = f"{short}[{indices[e, p]}] says which columns of {letter} meet {element(run, other, e, p)}"
        text += f", and {other.operand.letter} moves on here" if beside else ""
        return [products.seen("index", "element", line, text, f"{short}[{wanted[e, p]}]", p=p, beside=beside)]
    otherwise = products.live & (side.k != other.k) & (indices == wanted)
    if otherwise.any():
        e, p = first_of(products, otherwise)
        access = load_of(run, side, p)
        alike = np.flatnonzero(products.live[e] & (side.k[e] == other.k[e]) & (indices[e] == indices[e, p]))
        right = load_of(run, side, int(alike[0])) if len(alike) else None
        begin = int(other.k[e, products.live[e] & (products.term == products.term[p])].min())
        line = _line_of_use(run, access, side, right, begin) if access else None
        value = int(run.problem.tensors[side.operand.index].reshape(-1)[int(indices[e, p])])
        text = f"with {short}[{indices[e, p]}] = {value}, {element(run, side, e, p)} meets {element(run, other, e, p)}"
        expected = f"{letter}[{products.m[e]}, {other.k[e, p]}]"
        return [products.seen("index", "use", line, text, expected, p=p)]
    return []


def _line_of_element(run: Run, products: Products, e: int, p: int) -> tuple[int | None, bool]:
    """Where another element of the index was taken than the partner's, or another partner than the element's: the one that did not
    move on, or where the index's pointer was made; and whether only the other one moves on there."""
    side, before = products.left, np.flatnonzero(products.iteration == products.iteration[p] - 1)
    access, partner = load_of(run, side, p), load_of(run, products.right, p)
    if access is None or partner is None:
        return None, False
    if (exchanged := line_of_exchange(run, products, side, p, access)) is not None:
        return exchanged, False
    loads = list(filter(_of_index(side), address_nodes(run, access)))
    if not loads:
        return access.line, False
    if len(before):
        previous, earlier = load_of(run, side, int(before[0])), load_of(run, products.right, int(before[0]))
        if earlier is not None and np.array_equal(earlier.offsets, partner.offsets):
            return line_of_step(run, earlier, partner) or partner.line, False
        indices = list(filter(_of_index(side), address_nodes(run, previous))) if previous else []
        if earlier is not None and indices[-1:] == loads[-1:]:  # loaded once
            return line_of_step(run, earlier, partner) or access.line, True
        return (line_of_step(run, indices[-1], loads[-1]) if indices else None) or loads[-1].line, False
    return line_to_blame(pointers_of(run, loads[-1]), loads[-1]), False


def _line_of_use(run: Run, access: Node, side: Side, right: Node | None, begin: int) -> int | None:
    """Where places were made of an element of the index: where the lanes got their order, or where it was multiplied and added; only
    here where those of another access, which are right, are made of it too, or where the k is right that they begin with."""
    axis = changing_axis(side.operand.place(run.problem, access.offsets)[1])
    known = numbers_behind(run, *([right] if right and right is not access else []))
    single = (
        node
        for node in address_nodes(run, access)
        if begin and node.size == 1 and node.inputs and "ptr" not in node.type
    )
    known |= {
        node.number
        for node in single
        if "pointer" not in node.type and run.provenance.values(node.number).item() == begin
    }
    uneven = None if axis is None else line_of_lanes(run, access, axis, 0)
    return uneven or line_of_base(run, access, axis, _of_index(side), known)


def _of_index(side: Side) -> Callable[[Node], bool]:
    """Tells the loads of an operand's index."""
    return lambda node: node.op == "load" and node.tensor == side.operand.index


def index_elements(run: Run, side: Side) -> Array:
    """[E, P]: the element of the operand's index that each address comes from, -1 where it comes from none or from several."""
    found = np.full(side.offset.shape, NONE, dtype=np.int64)
    for number in dict.fromkeys(side.node.tolist()) if side.operand.index else ():
        here = side.node == number
        found[:, here] = _elements_of_index(run, int(number), side, side.offset[:, here])
    return found


def _elements_of_index(run: Run, number: int, side: Side, offsets: Array) -> Array:
    """Of which elements of the index the load behind a node made these offsets."""
    none = np.full(offsets.shape, NONE, dtype=np.int64)
    load = run.load_of(number, side.operand.tensor)
    if load is None:
        return none
    try:
        origin = run.provenance.origin(load.inputs[0], side.operand.index, masked=False)
    except Untraceable:
        return none
    if origin is None:
        return none
    asked, elements = load.offsets.reshape(-1), offsets_of(np.broadcast_to(origin, load.shape)).reshape(-1)
    places, which = np.unique(asked, return_inverse=True)
    lowest, highest = np.full(len(places), np.iinfo(np.int64).max), np.full(len(places), np.iinfo(np.int64).min)
    np.minimum.at(lowest, which, elements)
    np.maximum.at(highest, which, elements)
    each = np.where(lowest == highest, lowest, NONE)
    at = np.clip(np.searchsorted(places, offsets), 0, len(places) - 1)
    return np.where(places[at] == offsets, each[at], NONE)
