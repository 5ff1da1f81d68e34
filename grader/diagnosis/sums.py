"""Column sum: does every product that a program makes reach Y, once, with nothing else added?"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence

import numpy as np

from grader.diagnosis.definition import behind, line_of_condition, line_of_value, start_of_sum
from grader.diagnosis.mending import line_unless_right
from grader.diagnosis.observation import Observation, plain
from grader.diagnosis.provenance import Array, Untraceable
from grader.diagnosis.relation import Products, Run, products_of
from grader.diagnosis.statements import loops_around
from grader.diagnosis.stores import places_in_output
from grader.diagnosis.tape import Node
from grader.diagnosis.values import makes_up, sums_of_left

EARLY = "a tile that is stored after its last product"
MIXED = ("not reset", "stored early", "other tile")
"""Aspects of a sum that has products of another tile."""


def dropped(run: Run, products: Products, stores: Sequence[Node]) -> list[Node]:
    """Products that the program makes for a tile and that reach none of its stores; none where a value of unknown origin does, or a
    store was to come. Another tile's are made before a store that is older than the first product of this one, or behind its store."""
    mine = run.tape.programs[products.program]
    if products.program == run.cut_off or any("?" in run.provenance.sources(store.inputs[0]) for store in stores):
        return []
    first = min((term.node for term in products.flow.terms), default=products.store.number)
    begin = max((store.number for store in stores if store.number < first), default=mine.start)
    made = run.provenance.products(range(begin, mine.stop if products.store is stores[-1] else products.store.number))
    return [node for node in made if node.number not in run.reaching_output]


def check_reset(run: Run, products: Products, stores: Sequence[Node]) -> list[Observation]:
    """Products that are made and lost, and sums that are counted again.

    Not split: a branch for each way in which products are lost; each has a sentence or a line of its own.
    """
    found = []
    lost = dropped(run, products, stores)
    if lost and lost[0].number > products.store.number:
        made = len(lost) + len({term.node for term in products.flow.terms})
        text = f"{len(lost)} of {made} multiplications of X and W {'is' if len(lost) == 1 else 'are'} made after "
        text += f"{products.element(0)} is stored"
        line = _stored_at(run, products.store, lost[0].number)
        found.append(products.seen("sum", "stored early", line, text, EARLY))
    elif lost:
        reaching = [run.tape.nodes[term.node] for term in products.flow.terms]
        made = len(lost) + len(reaching)
        line = line_unless_right(run, lost[-1], {node.number for node in reaching})
        text = f"{len(lost)} of the {made} tile products never {'reaches' if len(lost) == 1 else 'reach'} Y"
        if reaching and reaching[0].number > lost[-1].number:
            text += ", only the last" + (f" {len(reaching)} do" if len(reaching) > 1 else " does")
            began, line = _began(run, products, reaching[0].number), reaching[0].line
            line = began if loops_around(run.text, began or 0)[:1] == loops_around(run.text, line or 0)[:1] else line
        elif products.flow.doubled:  # in place of what is lost
            twice = min(products.flow.doubled)
            line = next((node.line for node in run.tape.nodes if node.inputs.count(twice) > 1), line)
        elif not reaching:
            text = "the product of X and W reaches no store"
            taken = any(lost[-1].number in node.inputs for node in run.tape.nodes)
            line = line_of_value(run, stores[-1]) if taken else line
        found.append(
            products.seen("sum", "lost", line, text, f"the sum of all {made}" if reaching else "the sum of all of them")
        )
    again = products.flow.again
    if again:
        line = start_of_sum(run, min(again))
        text = "a partial sum is added to the result but not reset to zero, so the next addition counts it again"
        found.append(products.seen("sum", "again", line, text, "each product once", hedged=True))
    return found


def check_left_over(run: Run, products: Products, stores: Sequence[Node]) -> list[Observation]:
    """Products of another tile that the program stores, in the sum of this one."""
    left, right, N = products.left, products.right, run.sizes[1]
    foreign = products.live & ((left.row != products.m[:, None]) | (right.row != products.n[:, None]))
    foreign &= products.meets
    own = products.live & ~foreign
    for home in stores if foreign.any() else ():
        m, n, inside = places_in_output(run, home)
        at_home = foreign & (left.k == right.k) & np.isin(left.row * N + right.row, (m * N + n)[inside])
        if home is products.store or not at_home.any():
            continue
        beside = at_home & own.any(axis=1)[:, None]
        e, p = np.argwhere(beside if beside.any() else at_home)[0]
        whole = not (products.live & ~at_home)[:, products.term == products.term[p]].any()
        if found := _of_another(run, products, home, (int(e), int(p)), products.term[own[e]], whole=whole):
            return [found]
    return []


def _of_another(
    run: Run, products: Products, home: Node, at: tuple[int, int], own: Array, *, whole: bool
) -> Observation | None:
    """A product that belongs to the tile that `home` stores. own: the terms of the element's own; where there are none, or where not
    the whole multiplication belongs there, it may be looked up wrongly instead, unless it was stored where it belongs before."""
    row, column, k = products.left.row[at], products.right.row[at], products.left.k[at]
    node, mine = products.flow.terms[products.term[at[1]]].node, [products.flow.terms[number].node for number in own]
    there = {made.number for made in behind(run, home.inputs[0])}
    element, what = products.element(at[0]), f"X[{row}, {k}] * W[{column}, {products.right.k[at]}] in it, which"
    lost = [] if mine else dropped(run, products, [home, products.store])
    if node in there and lost:
        text = f"the sum for {element} is that of Y[{row}, {column}], and {len(lost)} "
        text += "multiplication reaches no store" if len(lost) == 1 else "multiplications reach no store"
        return products.seen("sum", "other sum", products.store.line, text, "each sum stored once")
    if node in there and all(home.number < made for made in mine):
        text = f"the sum for {element} still has {what} the program stored to Y[{row}, {column}] before"
        expected = "a sum that begins with zero for each tile"
        return products.seen("sum", "not reset", _began(run, products, node), text, expected)
    if not mine or not whole or (node not in there and _has(run, products.program, home, row, column, k)):
        return None
    text = f"the sum for {element} has {what} belongs to Y[{row}, {column}]"
    if node > home.number and run.wrong[row, column]:
        text += " and is made after that is stored"
        return products.seen("sum", "stored early", _stored_at(run, home, node), text, EARLY)
    text += ", in another tile of the program"
    line = _where_it_joins(run, node, products.store, there)
    return products.seen("sum", "other tile", line, text, "the products of one tile in one sum")


def _has(run: Run, program: int, store: Node, row: int, column: int, k: int) -> bool:
    """Whether an element that a program stores has its product of one k in its sum, and so lacks none that another has."""
    m, n, _ = places_in_output(run, store)
    with contextlib.suppress(Untraceable):
        stored = products_of(run, program, store, np.flatnonzero((m == row) & (n == column))[:1])
        left, right = stored.left, stored.right
        own = (left.row == row) & (right.row == column) & (left.k == k) & (right.k == k)
        return bool((stored.live & own).any())
    return False


def _where_it_joins(run: Run, product: int, store: Node, there: set[int]) -> int | None:
    """The first line on the way of a product to a store that is not on its way to the tile it belongs to, whose nodes are `there`."""
    carrying: set[int] = set()
    for made in behind(run, store.inputs[0]):
        if made.number == product or not carrying.isdisjoint(made.inputs):
            carrying.add(made.number)
            if made.number not in there:
                return made.line
    return None


def _stored_at(run: Run, store: Node, product: int) -> int | None:
    """What decides when a tile is stored: the condition that the store stands under and the product does not, else the store."""
    condition = line_of_condition(run, store.line or 0, run.tape.nodes[product].line or 0)
    return condition or store.line


def _began(run: Run, products: Products, term: int) -> int | None:
    """Where the sum that a multiplication is added to began."""
    added = (step.node for step in products.flow.passed if run.tape.nodes[step.node].op in ("fadd", "add"))
    dot, given = run.tape.nodes[term], run.tape.nodes[term].inputs[2:]
    adds = any(run.provenance.carries(i) or run.tape.nodes[i].line != dot.line for i in given)  # else the next sum does
    return start_of_sum(run, term if adds else min((node for node in added if node > term), default=term))


def check_sums(run: Run, products: Products, offset: float) -> list[Observation]:
    """What is added that is no product. offset: by how much the right operand is too large, which sums of the left one may make up for;
    NaN: not known."""
    found = []
    lacking = -offset * sums_of_left(products)
    for addend in products.flow.addends:
        of_left = offset and makes_up(run, products, addend)
        if of_left and math.isnan(offset):
            continue
        apart = np.abs(addend.values - (lacking if of_left else 0.0))
        e = int(apart.argmax())
        if of_left and apart[e] <= 1e-2 * abs(lacking[e]):
            continue
        names = sorted(tensor.removesuffix("_ptr") for tensor in addend.sources)
        what = "what Y held before" if run.lab.output in addend.sources else f"{plain(float(addend.values[e]))}"
        made_of = (
            f", computed from {' and '.join(names)} alone" if names and run.lab.output not in addend.sources else ""
        )
        text = f"{products.element(e)} includes {what}{made_of}"
        expected = "products of X and W alone"
        line = addend.line
        if of_left:
            times = offset * addend.values / lacking
            whole = np.allclose(times, np.rint(times[e]), atol=1e-2)  # so that the sum itself is right
            line = line if whole else _line_of_sum(run, addend.node) or line
            expected = f"{plain(float(lacking[e]))}, to cancel the {plain(offset)} by which each weight in the product is too large"
        found.append(products.seen("sum", "added", line, text, expected))
    return found[:1]


def _line_of_sum(run: Run, number: int) -> int | None:
    """Where what is added was last summed up."""
    sums = (node.line for node in reversed(behind(run, number)) if node.op in ("reduce", "fadd", "dot"))
    return next(sums, None)
