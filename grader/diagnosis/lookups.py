"""Column index: of an operand whose places another tensor names, is the element of that tensor the one that belongs to its partner?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from grader.diagnosis.definition import address_nodes, numbers_behind
from grader.diagnosis.mending import line_of_lack, line_of_mask, line_of_place
from grader.diagnosis.observation import Observation
from grader.diagnosis.relation import Products, Run, Side, element, first_of, index_elements, load_of
from grader.diagnosis.reordering import line_of_exchange
from grader.diagnosis.tape import Node

NO_LANES = np.zeros(0, dtype=np.int64)


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
        line, beside = _line_of_element(run, products, e, p, int(wanted[e, p] - indices[e, p]))
        text = f"{short}[{indices[e, p]}] selects the columns of {letter} that are multiplied by {element(run, other, e, p)}"
        text += f"; {other.operand.letter} advances on this line" if beside else ""
        return [products.seen("index", "element", line, text, f"{short}[{wanted[e, p]}]", p=p, hedged=True)]
    otherwise = products.live & (side.k != other.k) & (indices == wanted)
    if otherwise.any():
        e, p = first_of(products, otherwise)
        if masked := _left_out(run, side, p):
            text = f"the mask of a load leaves out {short}[{indices[e, p]}]"
            text += f", so {element(run, side, e, p)} is multiplied by {element(run, other, e, p)}"
            return [products.seen("index", "masked", line_of_mask(run, masked, NO_LANES, NO_LANES), text, p=p)]
        line = line_of_place(run, products, side, p)
        value = int(run.problem.tensors[side.operand.index].reshape(-1)[int(indices[e, p])])
        text = f"with {short}[{indices[e, p]}] = {value}, {element(run, side, e, p)} is multiplied by {element(run, other, e, p)}"
        expected = f"{letter}[{products.m[e]}, {other.k[e, p]}]"
        return [products.seen("index", "use", line, text, expected, p=p)]
    return []


def _line_of_element(run: Run, products: Products, e: int, p: int, lacks: int) -> tuple[int | None, bool]:
    """Where the number was made that could alone take the partner's element of the index, `lacks` elements further, or where the partner is
    the one that did not move on; and whether only the other operand moves on there."""
    side, before = products.left, np.flatnonzero(products.iteration == products.iteration[p] - 1)
    access, partner = load_of(run, side, p), load_of(run, products.right, p)
    if access is None or partner is None:
        return None, False
    if (exchanged := line_of_exchange(run, products, side, p, access)) is not None:
        return exchanged, False
    loads = list(filter(_of_index(side), address_nodes(run, access)))
    if not loads:
        return access.line, False
    earlier = [load for at in before[:1] for each in (side, products.right) if (load := load_of(run, each, int(at)))]
    if len(earlier) == 2 and np.array_equal(earlier[1].offsets, partner.offsets):
        return line_of_place(run, products, products.right, p, numbers_behind(run, earlier[1])), False
    known = [load for one in earlier[:1] for load in filter(_of_index(side), address_nodes(run, one))]
    if known[-1:] == loads[-1:]:  # loaded once
        return line_of_place(run, products, products.right, p, numbers_behind(run, earlier[1])), True
    lanes = np.flatnonzero(loads[-1].offsets.reshape(-1) == index_elements(run, side)[e, p])[:1]
    right = numbers_behind(run, *known[-1:], partner, products.store)
    return line_of_lack(run, loads[-1], lanes, np.full(len(lanes), lacks), right), False


def _left_out(run: Run, side: Side, p: int) -> Node | None:
    """The load of the index that a mask leaves out whole, in the place of whose number something else selects an operand's element."""
    access = load_of(run, side, p)
    loads = list(filter(_of_index(side), address_nodes(run, access))) if access else []
    return loads[-1] if loads and not loads[-1].active.any() else None


def _of_index(side: Side) -> Callable[[Node], bool]:
    """Tells the loads of an operand's index."""
    return lambda node: node.op == "load" and node.tensor == side.operand.index
