"""mending: of all that an access's addresses are made of, what could put them right by being another number?

How far each lane is from the element that it should touch is followed backwards, through sums, products, shifts and moves. A node can
mend the access where a number for each of its own elements, whole and one only, makes up for all lanes at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Container, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from grader.diagnosis.definition import (
    GIVEN,
    address_nodes,
    behind,
    is_brought,
    is_cut,
    made_with,
    mask_nodes,
    numbers_behind,
)
from grader.diagnosis.provenance import FAR, IDENTITIES, Array, Provenance, Untraceable, lanes_before, spread
from grader.diagnosis.relation import Products, Run, Side, index_elements, load_of, loads_of, needed_of
from grader.diagnosis.reordering import line_of_exchange, line_of_mixing
from grader.diagnosis.statements import line_in_block_pointer
from grader.diagnosis.stores import places_in_output, stores_to_output
from grader.diagnosis.tape import MOVES, Node

ENDS = ("LT", "LE", "GT", "GE")
"""Of a comparison's name: what it lets through up to an end."""
UNKNOWN = np.iinfo(np.int64).min


@dataclass(frozen=True, eq=False)
class Apart:
    """Some lanes of a node, each once, how much larger each should be, and which of the lanes that were asked about it is."""

    node: Node
    lanes: Array
    lacking: Array
    which: Array


def mending(provenance: Provenance, number: int, lanes: Array, lacking: Array) -> list[Apart]:
    """The nodes behind this one, itself among them, that could alone give these lanes what they lack, in the order in which they were
    made."""
    found: dict[int, Apart] = {}
    waiting = [(number, lanes, lacking, np.arange(len(lanes)))]
    while waiting:
        number, lanes, lacking, which = waiting.pop()
        own, first, of = np.unique(lanes, return_index=True, return_inverse=True)
        node = provenance.tape.nodes[number]
        if number in found or not len(own) or (lacking[first][of] != lacking).any():
            continue
        if node.op == "make_range" and np.ptp(lacking):
            continue
        one = found[number] = Apart(node, own, lacking[first], which[first])
        with contextlib.suppress(Untraceable):
            before = list(_before(provenance, node, own, one.lacking))
            waiting += [
                (i, at[here], lack[here], one.which[here])
                for i, at, lack, here in before
                if not one.lacking[~here].any()
            ]
    return [found[number] for number in sorted(found)]


def _before(
    provenance: Provenance, node: Node, lanes: Array, lacking: Array
) -> Iterator[tuple[int, Array, Array, Array]]:
    """For each input that could make up for it: its lanes, what they would lack, and which of them it can do something about.

    Not split: a branch for each operation that addresses are made with; all share where its inputs lie.
    """
    if node.op in MOVES:
        yield from ((i, own, lacking, here) for i, own, here in lanes_before(provenance, node, lanes))
        return

    def numbers(place: int) -> Array:
        return provenance.values(node.inputs[place]).reshape(-1)[at[place]].astype(np.int64)

    def times(place: int, factor: Array) -> Iterator[tuple[int, Array, Array, Array]]:
        some = np.where(factor == 0, 1, factor)
        if not (lacking % some).any():
            yield node.inputs[place], at[place], lacking // some, factor != 0

    at, every = [spread(provenance.tape.nodes[i], node.shape, lanes) for i in node.inputs], lanes >= 0
    if node.op == "loop_variable":
        yield node.inputs[0], at[0], lacking, every
        yield from times(1, (provenance.values(node.number).reshape(-1)[lanes] - numbers(0)) // numbers(1))
    elif node.op in ("add", "addptr"):
        yield from ((i, own, lacking, every) for i, own in zip(node.inputs, at, strict=True))
    elif node.op == "sub":
        yield from ((node.inputs[0], at[0], lacking, every), (node.inputs[1], at[1], -lacking, every))
    elif node.op == "mul":
        yield from (*times(0, numbers(1)), *times(1, numbers(0)))
    elif node.op == "shl":
        yield from times(0, 1 << numbers(1))
    elif node.op == "tile":
        # along one axis: made of where it begins and a stride, or of a tile before and how far it was moved
        places = provenance.values(node.number).reshape(-1)
        stride = np.full(len(lanes), places[1] - places[0] if len(places) > 1 else 1)
        if provenance.tape.nodes[node.inputs[0]].size > 1:
            yield from ((node.inputs[0], lanes, lacking, every), *times(1, stride))
        elif len(node.inputs) > 1:
            yield from (*times(0, stride), *times(1, places[lanes] // np.where(stride == 0, 1, stride)))
    elif node.op in ("idiv", "sdiv", "udiv", "ashr", "lshr"):
        by = numbers(1) if "div" in node.op else 1 << numbers(1)
        yield node.inputs[0], at[0], lacking * by, every
    elif node.op in ("srem", "urem"):  # which has no number beyond its divisor
        wanted = provenance.values(node.number).reshape(-1)[lanes] + lacking
        if ((wanted >= 0) & (wanted < numbers(1))).all():
            yield node.inputs[0], at[0], lacking, every
    elif node.op in ("and", "or") and node.type == "int1":
        for i, own, other in zip(node.inputs, at, (numbers(1), numbers(0)), strict=True):
            yield i, own, lacking, other == (node.op == "and")
    elif node.op.startswith("icmp") and node.op[-2:] in ENDS:
        less, most = (0, 1) if node.op[-2] == "L" else (1, 0)
        wanted, room = (provenance.values(node.number).reshape(-1)[lanes] + lacking) > 0, numbers(most) - numbers(less)
        fewest = int(node.op[-1] == "T")
        low, high = (fewest - room[wanted]).max(initial=-FAR), (fewest - 1 - room[~wanted]).min(initial=FAR)
        one_too_many = not fewest and high == -1  # then it is not the end that is wrong
        if low <= high and not low <= 0 <= high and not one_too_many:
            more = np.full(len(lanes), low if low > 0 else high)
            yield from ((node.inputs[most], at[most], more, every), (node.inputs[less], at[less], -more, every))
    elif node.op in IDENTITIES:
        yield node.inputs[0], at[0], lacking, every
    elif node.op in ("minsi", "minui", "maxsi", "maxui"):  # where the other one does not keep it from that
        wanted, below = provenance.values(node.number).reshape(-1)[lanes] + lacking, node.op.startswith("min")
        for i, own, other in zip(node.inputs, at, (numbers(1), numbers(0)), strict=True):
            if (other >= wanted if below else other <= wanted).all():
                held = provenance.values(i).reshape(-1)[own].astype(np.int64)
                yield i, own, np.where(lacking == 0, 0, wanted - held), every
    elif node.op == "select":
        taken = numbers(0) != 0
        yield from ((node.inputs[1], at[1], lacking, taken), (node.inputs[2], at[2], lacking, ~taken))


def lanes_in(provenance: Provenance, number: int, lanes: Array, load: Node) -> Array | None:
    """The lanes of a load that lanes of a node come from, one each; None where they come from several, or from elsewhere."""
    while number != load.number:
        node = provenance.tape.nodes[number]
        if node.op in MOVES:
            before = [(i, at) for i, at, here in lanes_before(provenance, node, lanes) if here.all()]
        else:
            inputs = node.inputs[1:] if node.op == "select" else node.inputs
            before = [(i, spread(provenance.tape.nodes[i], node.shape, lanes)) for i in inputs]
        found = next((one for one in before if load.tensor in provenance.sources(one[0])), None)
        if found is None or node.op in ("load", "dot", "reduce", "scan"):
            return None
        number, lanes = found
    return lanes


@lru_cache(4)
def right_numbers(run: Run, products: Products, blamed: Side | None = None) -> frozenset[int]:
    """The nodes that what is right of some products was made of: the store, loads whose elements all meet their partners, all those of the
    operand that is not blamed if it goes through its rows once, and what other stores of the program, which are all right, are made of."""
    found = numbers_behind(run, products.store)
    for store in stores_to_output(run, products.program):
        m, n, inside = places_in_output(run, store)
        if inside.any() and not run.wrong[m[inside], n[inside]].any():
            found |= {node.number for number in store.inputs for node in behind(run, number)}
    rows = [side.row == products.rows(side)[:, None] for side in (products.left, products.right)]
    meets, live = rows[0] & rows[1] & products.meets, products.live
    for side in (products.left, products.right):
        whole = side is not blamed and blamed is not None and goes_through(run, products, side)
        for load, its_own in loads_of(run, side):
            here = live & its_own
            if whole or (here.any() and meets[here].all()):
                found |= numbers_behind(run, load)
    return frozenset(found | _right_lookups(run, products))


def _right_lookups(run: Run, products: Products) -> set[int]:
    """What the loads from an index were made of whose elements are those that the other operand wants."""
    found: set[int] = set()
    left, index_of = products.left, products.left.operand.index_of
    if index_of is None:
        return found
    right = index_elements(run, left) == index_of(run.problem, products.right.offset)
    for load, its_own in loads_of(run, left):
        here = products.live & its_own
        if here.any() and right[here].all():
            lookups = [one for one in address_nodes(run, load) if one.tensor == left.operand.index]
            found |= {node.number for one in lookups for node in behind(run, one.number)}
    return found


def goes_through(run: Run, products: Products, side: Side) -> bool:
    """Whether an operand goes through its own rows, and every k that is needed once; of slices, whether all together do."""
    if not ((side.row == products.rows(side)[:, None]) | ~products.live).all():
        return False
    if run.config.split_k > 1:
        return _slices_go_through(run, products, side)
    for live, k, n in zip(products.live, side.k, products.n, strict=True):
        met, needed = k[live], np.flatnonzero(needed_of(run, int(n)))
        if side.operand.unit > 1:  # whose words are met once for each of their elements
            met, needed = np.unique(met // side.operand.unit), np.unique(needed // side.operand.unit)
        if not np.array_equal(np.sort(met), needed):
            return False
    return True


def _slices_go_through(run: Run, products: Products, side: Side) -> bool:
    """Whether the programs that add to one tile load each element of its rows of an operand, and one of them each."""
    lowest = int(products.store.offsets[products.store.active].min())
    adding = {one.program for one in run.stores if one.lowest == lowest}
    loads = [
        load.offsets[load.active]
        for program in adding & run.tape.programs.keys()
        for load in run.loads(program, side.operand.tensor)
    ]
    rows, k = side.operand.place(run.problem, np.concatenate(loads or [np.zeros(0, dtype=np.int64)]))
    words = -(-run.sizes[2] // side.operand.unit)
    loaded, times = np.unique(rows * words + k // side.operand.unit, return_counts=True)
    return bool((times == 1).all() and len(loaded) == words * len(np.unique(rows)))


def line_of_lack(
    run: Run,
    access: Node,
    lanes: Array,
    lacking: Array,
    right: Container[int],
    wanted: Sequence[Array] = (),
    words: Array | None = None,
) -> int | None:
    """Where the first number was made that could alone give some lanes of an access what their addresses lack, and that nothing right is
    made of; the access where there is none. Where all lanes lack the same, that is nothing that differs from lane to lane alone. wanted:
    numbers that belong there, and what holds them is right, unless it should be what is in words."""
    made = mending(run.provenance, access.inputs[0 if access.op == "load" else 1], lanes, lacking)
    begins = made_with(address_nodes(run, access), lambda node: node.op in GIVEN[2:] or is_brought(node))
    block = int((access.offsets.reshape(-1)[lanes] + lacking).min()) / access.size if len(lanes) else 0.0
    fine = {node.number for node in address_nodes(run, access) if node.op in GIVEN or node.number in right}
    for one in made:
        if _is_right(run, one, block, wanted, one.node in begins, words):
            fine |= {node.number for node in behind(run, one.node.number)}
    for node in (one.node for one in made):
        if node.op in (*MOVES, "addptr") and fine.issuperset(node.inputs):  # and so made of what is right alone
            fine.add(node.number)
        elif node.number not in fine and node.op not in ("splat", "broadcast", "load") and node.line:
            return _line_of_number(run, node, lacking, right)
    return line_unless_right(run, access, right)


def _line_of_number(run: Run, node: Node, lacking: Array, right: Container[int]) -> int | None:
    """A node's line; of a block pointer or descriptor that of the argument that would have to be another one; of a helper that does the
    same right in another call, that of its call."""
    line = line_unless_right(run, node, right)
    if line is None or line is not node.line:
        return line
    argument = ("strides", 2) if np.ptp(lacking) else ("offsets", 3)
    return line_in_block_pointer(run.text, node.line, *argument)


def line_of_mask(run: Run, access: Node, lanes: Array, wrong: Array, right: Container[int] = ()) -> int | None:
    """Where the first number was made that could alone let those of some lanes of an access through that it leaves out, or leave them out,
    and that neither its addresses, a loop's variable nor anything right is made of; else where the mask was. wrong: bool, as the lanes."""
    if is_cut(run, access):  # by the shape that was given
        tiles = (node.line for node in address_nodes(run, access) if node.op == "tile" and access.op == "load")
        return next((line_in_block_pointer(run.text, line, "shape", 1) for line in tiles if line), access.line)
    nodes = mask_nodes(run, access)
    if not nodes:
        return access.line
    fine = {node.number for node in address_nodes(run, access)}
    fine |= {one.number for node in nodes if node.op == "loop_variable" for one in behind(run, node.number)}
    held, mask = access.active.reshape(-1)[lanes], nodes[-1]
    wanted = np.where(wrong, 1 - 2 * held, 0)
    made = mending(run.provenance, mask.number, spread(mask, access.shape, lanes), wanted) if len(lanes) else []
    blamed = [one.node for one in made if one.node.number not in fine and one.node.number not in right]
    blamed.sort(key=lambda node: node.op == "load")  # which is what the tensor has
    blamed += _tests(nodes, right, compared=not len(lanes))
    at_fault = next((node for node in blamed if node.op not in (*GIVEN, *MOVES) and node.line), access)
    return line_unless_right(run, at_fault, right)


def line_unless_right(run: Run, node: Node, right: Container[int]) -> int | None:
    """A node's line; where it is a helper's that does the same right in another call, the line of its call."""
    line = node.line
    if line is None or line.caller is None:
        return line
    same = (one for one in run.tape.nodes if one.number in right and one.line == line and node.op in ("load", one.op))
    if all(one.called_line == node.called_line for one in same):
        return line
    return line.caller


def _tests(nodes: Sequence[Node], right: Container[int], *, compared: bool) -> list[Node]:
    """What a mask asks that nothing right asks too, the last question first; compared: what compares numbers before what joins answers."""
    tests = [node for node in reversed(nodes) if node.type == "int1" and node.number not in right]
    return sorted(tests, key=lambda node: compared and not node.op.startswith("icmp"))


def line_of_operands_mask(
    run: Run, products: Products, side: Side, p: int, wrong: Array, right: Collection[int] = ()
) -> int | None:
    """Where the mask was made of the load that a product's element comes from. wrong: bool [E, P], elements that it should leave out, or
    should not; right: numbers that are known to be."""
    access = load_of(run, side, p)
    use = side.asked & (side.node == side.node[p])
    lanes = None if access is None else lanes_in(run.provenance, int(side.node[p]), side.lanes[use], access)
    if access is None:
        return None
    loads: dict[Node, bool] = {}
    for each in (products.left, products.right):
        amiss = (wrong & (each.live == side.live)).any(axis=0)  # what the other operand's mask does too
        loads |= {load: bool(amiss[here].any()) for load, here in loads_of(run, each)}
    lines = {load.called_line for load, bad in loads.items() if bad}
    right = {*right, *numbers_behind(run, products.store, *(load for load in loads if load.called_line not in lines))}
    right |= {node.number for load in loads for node in address_nodes(run, load)}
    none = np.zeros(0, dtype=np.int64)  # where elements of words were put in an order that leads back to no lane
    return line_of_mask(run, access, none if lanes is None else lanes, none if lanes is None else wrong[use], right)


def _is_right(run: Run, one: Apart, block: float, wanted: Sequence[Array], begins: bool, words: Array | None) -> bool:
    """Whether numbers are those that are wanted, the lanes of a tile as such, or would all have to be the same number of times as large;
    of one number for all: whether it is the tile's own, by which tiles lie one after the other."""
    if "ptr" in one.node.type or "pointer" in one.node.type:
        return False
    with contextlib.suppress(Untraceable):
        held = run.provenance.values(one.node.number).reshape(-1)[one.lanes].astype(np.int64)
        some, multiplied = held != 0, one.node.op in ("mul", "shl", "tile")
        even = not np.ptp(one.lacking)  # else where they begin is not what is wrong
        # zeros may be anything's, tiles are addresses, and what is multiplied by one should have become another number
        anything = not some.any() or one.node.op == "tile" or _is_times_one(run, one.node)
        known = [] if anything or not one.node.inputs else [numbers[one.which] for numbers in wanted if len(numbers)]
        if any(
            _is_wanted(held, its, even) for its in known
        ):  # and is not meant to be another one of these, in words, say
            return words is None or not _is_wanted(held + one.lacking, words[one.which], even)
        if not np.ptp(held):
            return bool(not multiplied and some[0] and held[0] == block)
        alike = not one.lacking[~some].any() and len(np.unique(one.lacking[some] / held[some])) == 1
        return bool((even and not begins and not held.min()) or (alike and not multiplied))
    return False


def _is_wanted(held: Array, known: Array, even: bool) -> bool:
    """Whether these numbers are known to be right; unless `even`, up to where they begin."""
    return np.array_equal(held, known) if even else bool(np.ptp(known) and not np.ptp(held - known))


def _is_times_one(run: Run, node: Node) -> bool:
    """Whether a number is multiplied by a 1 that was given."""
    given = [i for i in node.inputs if not run.tape.nodes[i].inputs]
    return node.op == "mul" and any((run.provenance.values(i) == 1).all() for i in given)


def line_of_place(
    run: Run, products: Products, side: Side, p: int, right: AbstractSet[int] = frozenset()
) -> int | None:
    """Where an operand came to another place than its own, in the first product that shows it: where the wrong one of two is used, or where
    its elements' addresses were made."""
    access = load_of(run, side, p)
    if access is not None:
        moved = line_of_mixing(run, side, access, p) or line_of_exchange(run, products, side, p, access)
        if moved is not None:
            return moved
    return line_of_operand(run, products, side, p, _lacks(run, products, side), right)


def line_of_operand(
    run: Run, products: Products, side: Side, p: int, lacking: Array, right: AbstractSet[int]
) -> int | None:
    """Where the addresses were made of the load that brings an operand's elements of one product. lacking: [E, P], by how much they are too
    low."""
    access = load_of(run, side, p)
    use = side.asked & (side.node == side.node[p]) & (lacking != UNKNOWN)
    lanes = None if access is None else lanes_in(run.provenance, int(side.node[p]), side.lanes[use], access)
    if access is None or lanes is None or not len(lanes):
        return None if access is None else access.line
    other = products.other(side)
    row, k = np.broadcast_to(products.rows(side)[:, None], use.shape)[use], other.k[use]
    k = k if goes_through(run, products, other) or np.ptp(lacking[use]) else k[:0]
    strides = [run.problem.scalars[name] for name in side.operand.strides]  # else neither is in an address as it is
    words = k // side.operand.unit
    wanted = (row, row * strides[0], k, words * strides[1]) if strides else ()
    counted = words if strides and len(k) and side.operand.unit > 1 else None
    return line_of_lack(run, access, lanes, lacking[use], right_numbers(run, products, side) | right, wanted, counted)


def _lacks(run: Run, products: Products, side: Side) -> Array:
    """[E, P]: how far an operand's elements lie before those that belong to their products: in the row of Y's, and at the k of their
    partners where these are of their own rows; UNKNOWN for elements that the tensor does not have, and where only other partners are."""
    other = products.other(side)
    row = np.broadcast_to(products.rows(side)[:, None], side.row.shape)
    meets = other.live & (other.row == products.rows(other)[:, None])
    known = meets | ~meets.any()
    k = np.where(meets, other.k + side.k % other.operand.unit, side.k)
    wanted = side.operand.offsets(run.problem, row, k)
    return np.where(known & (k >= 0) & (k < run.sizes[2]) & (wanted >= 0), wanted - side.offset, UNKNOWN)
