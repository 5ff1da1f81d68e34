"""Which line to change: where the variable that carries what deviates was defined.

Two roads lead back. The tape leads from a load or a store along what its addresses, its mask and its values were computed with, by
their numbers. It does not lead through Python's own numbers, such as a loop's bounds, nor to a condition that was not met; there the
text tells, by the names that a line uses. The tape comes first here, and the text behind it.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Container, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from grader.diagnosis.provenance import FAR, Array, Untraceable
from grader.diagnosis.tape import MOVES, Node
from grader.parsing import parse

if TYPE_CHECKING:
    from grader.diagnosis.relation import Products, Run, Side

Loop = ast.For | ast.While
Around = Loop | ast.If
Assigns = ast.Assign | ast.AugAssign | ast.AnnAssign
Asked = Callable[[Node], bool]
ORDERS = ("reshape", "trans", "join", "cat", "gather", "split")
"""Operations that put a tile's elements into another order."""


def address_nodes(run: Run, access: Node) -> list[Node]:
    """The nodes that a load's or store's addresses were computed with, in the order in which they were made."""
    pointer = access.inputs[0] if access.op == "load" else access.inputs[1]
    return behind(run, pointer, stop=lambda node: node.op in ("load", "dot"))


def numbers_behind(run: Run, *right: Node) -> set[int]:
    """The nodes that the addresses of some accesses were computed with. Where these are right, so are they."""
    return {node.number for access in right for node in address_nodes(run, access)}


def behind(run: Run, number: int, stop: Asked = lambda node: False) -> list[Node]:
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
    found = [
        axis
        for axis in range(offsets.ndim)
        if offsets.shape[axis] > 1 and int(np.diff(offsets, axis=axis).reshape(-1)[0]) == step
    ]
    return found[-1 if last else 0] if found else None


def line_along(run: Run, access: Node, step: int, *, last: bool) -> int | None:
    """Where what moves an access's addresses by `step` along one axis was last computed by itself, before it met the other axes."""
    axis = axis_along(access, step, last=last)
    nodes = address_nodes(run, access) if axis is not None else []
    alone = [node.line for node in nodes if node.line is not None and varies_along(run, node, access.shape) == {axis}]
    return alone[-1] if alone else access.line


def varies_along(run: Run, node: Node, shape: tuple[int, ...]) -> set[int]:
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
    run: Run, access: Node, axis: int | None = None, given: Asked = is_program_id, shared: Container[int] = ()
) -> int | None:
    """Where what a tile begins with along one axis was made of something given, such as a program id; None: along any axis.

    Of `pid_m * BLOCK_M + tl.arange(0, BLOCK_M)` that is the line that made pid_m, or this one where pid_m is a program id itself, or
    something that is right is made of it too, which is in `shared`. Where nothing depends on what is given, the line where the
    lanes begin.
    """
    nodes = nodes_behind_axis(run, access, axis)
    made = [node for node in _computed_with(nodes, given) if node.line is not None]
    scalars = [node for node in made if node.size == 1 and "addptr" not in node.op]
    merged = next((node.line for node in made if node.size > 1), None)
    if not scalars:
        return next((node.line for node in nodes if node.op == "make_range" and node.line), access.line)
    earlier = [node.line for node in scalars if node.line != merged and not given(node) and node.number not in shared]
    return earlier[-1] if earlier else merged or scalars[-1].line


def _computed_with(nodes: Sequence[Node], given: Asked) -> list[Node]:
    """Those of some nodes, in their order, that are given or depend on one that is."""
    found: dict[int, Node] = {}
    for node in nodes:
        if given(node) or not found.keys().isdisjoint(node.inputs):
            found[node.number] = node
    return list(found.values())


def nodes_behind_axis(run: Run, access: Node, axis: int | None) -> list[Node]:
    """What an access's addresses were computed with, of one axis alone if there is one, in the order in which it was made."""
    nodes = address_nodes(run, access)
    if axis is None:
        return nodes
    along = [node.number for node in _nodes_along(run, nodes, access.shape, axis)]
    return [run.tape.nodes[i] for i in sorted({one.number for number in along for one in behind(run, number)})]


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
    made = {line: int(run.provenance.values(node.number).reshape(-1)[0]) for line, node in last.items()}
    return next((line for line, axis in divided.items() if made[line] != counts[axis]), None)


def _nodes_along(run: Run, nodes: Sequence[Node], shape: tuple[int, ...], axis: int) -> list[Node]:
    """Those of some nodes that vary along this axis of a tile alone, by their numbers or by their shape, and vectors that become such."""
    found: dict[int, Node] = {}
    vectors: set[int] = set()
    for node in reversed(nodes):
        long = [one for one, length in enumerate(node.shape) if length > 1]
        shaped = len(node.shape) == len(shape) > 1 and long == [axis] and "ptr" not in node.type
        if shaped or node.number in vectors or varies_along(run, node, shape) == {axis}:
            found[node.number] = node
            sources = map(run.tape.nodes.__getitem__, node.inputs)
            vectors |= {one.number for one in sources if len(one.shape) == 1 and one.size == node.size > 1}
    return list(found.values())[::-1]


def start_of_sum(run: Run, number: int) -> int | None:
    """The line where what a multiplication adds to began: backwards through sums to what holds no product yet."""
    node = run.tape.nodes[number]
    while True:
        carried = [i for i in node.inputs if run.provenance.carries(i)]
        others = [i for i in node.inputs if i not in carried and run.tape.nodes[i].size == node.size]
        if node.op == "dot" and len(node.inputs) > 2:
            summed = run.provenance.carries(node.inputs[2])
            carried, others = ([node.inputs[2]], []) if summed else ([], [node.inputs[2]])
        elif node.op == "dot":
            return node.line
        following = [i for i in carried if run.tape.nodes[i].op in ("dot", "fadd", "add", "fma")] or carried
        begins = others and all(
            run.provenance.is_product(one) or one.op == "reduce" for one in map(run.tape.nodes.__getitem__, carried)
        )
        if not following or begins:
            return run.tape.nodes[others[-1]].line if others else node.line
        node = run.tape.nodes[following[0]]


def inside_loop(run: Run, products: Products) -> int:
    """A line inside the loop that makes the products, or that would make them: of a function, where it was called."""
    made = [term.line for term in products.flow.terms]
    made = made or [node.line for node in run.provenance.products(range(len(run.tape.nodes)))]
    above = last_loop(run.text, products.store.line or 0)
    inside = next((line for line in made if line), 0 if above is None else above.lineno + 1)
    return inside if loops_around(run.text, inside) else run.tape.caller(inside) or inside


def line_of_loop(run: Run, products: Products, which: str, inside: int | None = None) -> int | None:
    """What decides which products reach a tile: the "start" or the "stop" of the loop that makes them; the condition of its store where
    that is all that comes between them, or instead of them. inside: a line in that loop."""
    inside, stored, terms = inside or inside_loop(run, products), products.store.line or 0, products.flow.terms
    loop = loop_around(run.text, inside)
    between = loop is not None and loop.lineno < stored <= (loop.end_lineno or 0)
    deciding = line_of_condition(run.text, stored, inside, leaving=not between) if between or not terms else None
    return deciding or line_of_bound(run.text, inside, which if terms else "stop")


def rounds(run: Run, program: int, loop: int) -> int:
    """How often a program came to the loop of a line from elsewhere in the loop around it; 1 where it runs that one alone."""
    loops = (loop_around(run.text, line) for line in (loop + 1, loop))
    inner, outer = (range(one.lineno + 1, _last(one) + 1) for one in loops if one)
    within = [line in inner for node in run.tape.programs[program] if (line := run.tape.nodes[node].line) in outer]
    return sum(now and not before for before, now in zip([False, *within], within, strict=False)) or len(within[:1])


def line_of_place(run: Run, products: Products, side: Side, e: int, p: int, column: str, *right: Node) -> int | None:
    """Where an operand came to another place than its own, "rows" or "k", in the first product that shows it. right: accesses that did
    not.

    Where the right element was loaded into something else, the wrong one of two is used. Else what first goes wrong decides: a later
    iteration by what moves on, the lanes of a tile by where they got their order, a whole tile by where its beginning was made.
    """
    access = run.load_of(int(side.node[p]), side.operand.tensor)
    if access is None:
        return None
    if (exchanged := line_of_exchange(run, products, side, p, access)) is not None:
        return exchanged
    before = np.flatnonzero(products.iteration == products.iteration[p] - 1)
    if len(before):
        previous = run.load_of(int(side.node[before[0]]), side.operand.tensor)
        moved = line_of_step(run, previous, access) if previous else None
        inner, other = (loops_around(run.text, line or 0)[:1] for line in (access.line, moved))
        stays = previous is not None and np.array_equal(previous.offsets, access.offsets)
        return (
            access.line if stays and inner != other else moved or access.line
        )  # what moves on in a loop around is no step
    axis = changing_axis(side.operand.place(run.problem, access.offsets)[column == "k"])
    shared = numbers_behind(run, *right)
    made = None if axis is None else line_of_order(run, access, axis, shared)
    if made is None and run.config.split_k > 1 and column == "k":
        made = line_of_bound(run.text, access.line or 0, "start")
    elif made is None and axis is not None:
        strides = [run.problem.scalars[name] for name in side.operand.strides] or [1, 1]
        made = line_of_lanes(run, access, axis, strides[column == "k"], shared)
    return made or line_of_argument(run.text, access.line or 0, "pointer") or access.line


def line_of_element(run: Run, load: Node, taken: Array, own: Array, *right: Node) -> int | None:
    """Where a load's addresses came to other elements than their own; here where all that is made there is in accesses that are right,
    too. taken, own: offsets of some lanes.

    Apart along one axis of the tensor, where their number there was made; the same for all lanes, where these begin if no program id
    is in it. Else where the pointer was made.
    """
    pointer = line_of_argument(run.text, load.line or 0, "pointer") or load.line
    differ, rest = [], np.stack([own, taken])
    for stride in sorted(run.problem.tensors[load.tensor].stride(), reverse=True):
        numbers, rest = np.divmod(rest, max(1, stride))
        differ += [stride] if (numbers[0] != numbers[1]).any() else []
    strides = {name for name, size in run.problem.scalars.items() if name.startswith("stride") and [size] == differ}
    nodes = address_nodes(run, load)
    alike = (own - taken == own[0] - taken[0]).all() and not any(map(is_program_id, nodes))
    line = line_of_index(run.text, load.line or 0, strides) or (line_of_base(run, load) if alike else pointer)
    made, known = [node for node in nodes if node.line == line], numbers_behind(run, *right)
    return load.line if made and all(is_program_id(one) or one.number in known for one in made) else line


def changing_axis(along: Array) -> int | None:
    """The first axis of a tile along which these numbers change."""
    return next((axis for axis in range(along.ndim) if (np.diff(along, axis=axis) != 0).any()), None)


def line_of_order(run: Run, access: Node, axis: int, shared: Container[int] = ()) -> int | None:
    """Where the lanes along one axis got the distances that they have in the end, up to a factor; None where they are even."""
    made = [(node.line, np.diff(values)) for node, values in _along(run, access, axis, shared)]
    final = made[-1][1] if made else np.zeros(1)
    if (final == final[0]).all():
        return None
    alike = (line for line, one in made if line and (one * np.abs(final).max() == final * np.abs(one).max()).all())
    return next(alike, None)


def line_of_lanes(run: Run, access: Node, axis: int, stride: int, shared: Container[int] = ()) -> int | None:
    """Where the lanes along one axis got the numbers that, times a stride, are in the addresses."""
    made = _along(run, access, axis, shared)
    computed = ((node, values) for node, values in made if node.line and node.op not in ("make_range", *MOVES))
    return next((node.line for node, values in computed if (values * stride == made[-1][1]).all()), None)


def _along(run: Run, access: Node, axis: int, shared: Container[int] = ()) -> list[tuple[Node, Array]]:
    """The nodes of an access's addresses that vary along one axis of its tile alone, in their order, and their numbers there."""
    found = []
    for node in _nodes_along(run, address_nodes(run, access), access.shape, axis):
        with contextlib.suppress(Untraceable):
            values = run.provenance.values(node.number).astype(np.int64).reshape(-1)
            found += [(node, values)] if values.size == access.shape[axis] and node.number not in shared else []
    return found


def is_cut(run: Run, access: Node) -> bool:
    """Whether what a load leaves out is what lies behind the shape of a block pointer or descriptor; no mask does it."""
    return any(node.op == "tile" for node in address_nodes(run, access))


def line_of_mask(
    run: Run, access: Node, along: Array, end: int | None = None, others: Container[int] = ()
) -> int | None:
    """Where an access's mask was made, by itself along the axis in which `along`, shaped as its tile, changes; of one that should let
    these numbers through up to an end, and compares with something else, where that was made. others: nodes of masks that are of
    another axis, so that it is wrong to use them here."""
    if is_cut(run, access):
        return (line_of_shape(run.text, access.line or 0) if access.op == "load" else None) or access.line
    axis, nodes = changing_axis(along), mask_nodes(run, access)
    asked = [node for node in nodes if node.type == "int1" and node.op not in MOVES and node.number not in others]
    along_axis = [] if axis is None else _nodes_along(run, nodes, access.shape, axis)
    alone = [node for node in asked if node in along_axis]
    if not alone or axis is None:
        return asked[-1].line if asked else line_of_argument(run.text, access.line or 0, "mask") or access.line
    numbers = np.moveaxis(along, axis, 0).reshape(along.shape[axis], -1)[:, 0]
    return (None if end is None else _line_of_limit(run, alone[0], numbers, end)) or alone[-1].line


def mask_nodes(run: Run, access: Node, axis: int | None = None) -> list[Node]:
    """The nodes that an access's mask was computed with, of one axis alone if there is one; none without a mask."""
    which = 1 if access.op == "load" else 2
    made = [behind(run, number, lambda node: node.op in ("load", "dot")) for number in access.inputs[which : which + 1]]
    nodes = made[0] if made else []
    return nodes if axis is None else _nodes_along(run, nodes, access.shape, axis)


def _line_of_limit(run: Run, compared: Node, along: Array, end: int) -> int | None:
    """Where what lanes are to be less than was made, if it is not what lets them through up to `end`."""
    order = {"LT": 1, "LE": 1, "GT": -1, "GE": -1}.get(compared.op[-2:], 0)
    if not order or len(compared.inputs) != 2:
        return None
    with contextlib.suppress(Untraceable):
        one, other = compared.inputs[::order]
        lanes, limit = (run.provenance.values(i).astype(np.int64).reshape(-1) for i in (one, other))
        apart = (along - lanes if lanes.size == along.size else along)[:2]  # later ones may lie in the next row
        if (limit == limit[0]).all() and (apart == apart[0]).all() and end - apart[0] - limit[0] not in (0, 1):
            made = run.tape.nodes[other]
            while made.op in MOVES and made.inputs:
                made = run.tape.nodes[made.inputs[0]]
            return made.line if made.inputs else _line_of_compared(run.text, compared.line or 0)
    return None


def line_of_exchange(run: Run, products: Products, side: Side, p: int, access: Node) -> int | None:
    """Where a load's elements go on to products whose own were loaded too, by another load of the same tile of Y, or lie elsewhere
    in this one; None where they were not."""
    wanted = _elements_missed(products, side, p)
    term, mine = products.flow.terms[int(products.term[p])], run.tape.accesses[products.program]
    stored = max((node.number for node in mine if node.op == "store" and node.number < term.node), default=-1)
    loads = (node for node in reversed(mine) if node.op == "load" and stored < node.number < term.node)
    right = next((load for load in loads if len(wanted) and _brings(run, side, load, wanted)), None)
    if right is None or (right.line == access.line and products.iteration[p]):  # which was right before
        return None
    way = behind(run, int(side.node[p]), stop=lambda node: node.number == access.number)
    if right is access:
        return next((node.line for node in way if node.op in ORDERS and access.number < node.number), None)
    return next((node.line for node in way if access.number in node.inputs and node.op not in MOVES), term.line)


def line_of_moved(run: Run, store: Node) -> int | None:
    """Where the sums that a store takes were last brought into another order; None where they never were."""
    after = behind(run, store.inputs[0], stop=run.provenance.is_product)
    return next((node.line for node in after[::-1] if node.op in ORDERS and run.provenance.carries(node.number)), None)


def _elements_missed(products: Products, side: Side, p: int) -> Array:
    """The elements, as numbers of row and k, that an operand should have brought to a product's multiplication; none where it did."""
    here = products.term == products.term[p]
    other = products.right if side is products.left else products.left
    alive, unit = (other.live & products.alive)[:, here], max(side.operand.unit, 1)
    wanted: Array = (products.rows(side)[:, None] * FAR + other.k[:, here] // unit)[alive]
    brought = (side.row * FAR + side.k // unit)[:, here][alive]
    return wanted[:0] if np.array_equal(brought, wanted) else wanted


def _brings(run: Run, side: Side, load: Node, wanted: Array) -> bool:
    """Whether a load has all of these elements of an operand."""
    if load.tensor != side.operand.tensor:
        return False
    rows, k = side.operand.place(run.problem, load.offsets[load.active])
    return bool(np.isin(wanted, rows * FAR + k // max(side.operand.unit, 1)).all())


# ---- by the text alone


@lru_cache(16)
def variables_of(text: str) -> dict[int, str]:
    """For each line of a module's text: the name that is assigned by the statement that stands there, "" for several."""
    found: dict[int, str] = {}
    for one in _made(text):
        targets = one.targets if isinstance(one, ast.Assign) else [one.target]
        name = targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""
        found.update(dict.fromkeys(range(one.lineno, _last(one) + 1), name))
    return found


def line_of_result(text: str, name: str) -> int | None:
    """Where a function of this name says what it returns."""
    for node in ast.walk(_tree(text)):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return max((one.lineno for one in ast.walk(node) if isinstance(one, ast.Return)), default=node.lineno)
        if isinstance(node, Assigns) and name in _targets(node):
            return node.lineno
    return None


@lru_cache(1024)
def around(text: str, line: int) -> list[Around]:
    """The loops and conditions that a line stands in, the innermost first."""
    return sorted((one for one in _all(text, Around) if one.lineno < line <= _last(one)), key=lambda one: -one.lineno)


def loop_around(text: str, line: int) -> Loop | None:
    """The innermost loop around a line, one that runs a written number of times only where there is no other."""
    loops = loops_around(text, line)
    counting = (loop for loop in loops if isinstance(loop, ast.While) or not _unrolled(loop))
    return next(counting, next(iter(loops), None))


def loops_around(text: str, line: int) -> list[Loop]:
    """All loops around a line, the innermost first."""
    return [node for node in around(text, line) if isinstance(node, Loop)]


def in_one_loop(text: str, line: int, called: int | None, stored: int | None) -> bool:
    """Whether a line, or the line that called its function, runs once an iteration of one loop: of the loops that do not hold the
    store there is one, and not one of a written number of rounds. Then the line's n-th run is that loop's n-th iteration."""
    outside = {loop.lineno for loop in loops_around(text, stored or 0)}
    loops = {loop.lineno: loop for at in (line, called) if at for loop in loops_around(text, at)}
    inside = [loop for number, loop in loops.items() if number not in outside]
    return len(inside) == 1 and not (isinstance(inside[0], ast.For) and _unrolled(inside[0]))


def _uses_of_range(loop: ast.For) -> set[str]:
    """The names in what a loop runs over; none where the number of its rounds is written down."""
    return set().union(*map(_uses, getattr(loop.iter, "args", [loop.iter])))


def _unrolled(loop: ast.For) -> bool:
    """Whether a loop's number of rounds is written down: tl.static_range, or a range of numbers alone."""
    return ast.unparse(getattr(loop.iter, "func", loop.iter)).endswith("static_range") or not _uses_of_range(loop)


def last_loop(text: str, line: int) -> Loop | None:
    """The last loop that ends above a line."""
    return max((node for node in _all(text, Loop) if _last(node) < line), key=lambda node: node.lineno, default=None)


def made_before(text: str, names: set[str], line: int) -> int | None:
    """Where one of these names was assigned last, above a line of the same function."""
    return max((one.lineno for one in _before(text, line) if names & _targets(one)), default=None)


def line_of_bound(text: str, inside: int, which: str) -> int | None:
    """The line that made the "start" or the "stop" of the loop around a line, the loop's own where that says it itself, or its "step"."""
    loop = loop_around(text, inside)
    if loop is None:
        return None
    if isinstance(loop, ast.While):
        return _line_of_test(text, loop, which) or loop.lineno
    if not isinstance(loop.iter, ast.Call) or not loop.iter.args:
        return loop.lineno
    arguments = loop.iter.args
    if which == "step":
        return loop.lineno
    if len(arguments) == 3 and isinstance(arguments[2], ast.UnaryOp):  # downwards
        which = "stop" if which == "start" else "start"
    if which == "start" and len(arguments) == 1:  # what begins at 0 is the loop's own number, so its first use decides
        return line_of_use(text, inside) or loop.lineno
    bound = arguments[min(1, len(arguments) - 1)] if which == "stop" else arguments[0]
    return (made_before(text, _uses(bound), loop.lineno) if isinstance(bound, ast.Name) else None) or loop.lineno


def has_step(text: str, inside: int) -> bool:
    """Whether the loop around a line says by how much it moves on."""
    loop = loop_around(text, inside)
    return isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) and len(loop.iter.args) == 3


def _line_of_test(text: str, loop: ast.While, which: str) -> int | None:
    """Where a bound of a loop was made whose condition compares names: its "stop", or the "start" of what moves on."""
    if not isinstance(loop.test, ast.Compare) or not {
        type(one) for one in (loop.test.left, *loop.test.comparators)
    } <= {ast.Name}:
        return None
    if isinstance(loop.test.ops[0], ast.LtE | ast.GtE):  # one more than up to its bound: the condition says so
        return None
    moving = set() if which == "start" else set().union(*map(_targets, _within(text, loop)))
    return made_before(text, _uses(loop.test) - moving, loop.lineno)


def _within(text: str, block: Around) -> list[Assigns]:
    """The assignments inside a loop or a condition."""
    return [one for one in _made(text) if block.lineno < one.lineno <= _last(block)]


def line_of_use(text: str, line: int) -> int | None:
    """The first statement, before a line inside a loop that counts, that makes something of the loop's number and that the line uses."""
    loop = loop_around(text, line)
    if not isinstance(loop, ast.For):
        return None
    counted = _names(loop.target)
    using = (one for one in _behind(text, line, loop) if counted & _uses(one.value))
    used = min(using, key=lambda one: one.lineno, default=None)
    return None if used is None else made_before(text, _uses(used.value) - counted, loop.lineno) or used.lineno


def line_of_update(text: str, line: int) -> int | None:
    """Where what a line uses moves on from one iteration of the loop around it to the next."""
    for loop in loops_around(text, line):
        counted = _names(loop.target) if isinstance(loop, ast.For) else set()
        behind = list(_behind(text, line, loop))
        moved = [one for one in behind if isinstance(one, ast.AugAssign) or _targets(one) & _uses(one.value)]
        loads = (call for call in _calls(text, line) if call.args and ast.unparse(call.func).endswith("load"))
        if not moved and any(counted & _uses(call.args[0]) for call in loads):
            return line
        for one in moved or [one for one in behind if counted & _uses(one.value)]:
            return one.lineno
    return None


def line_of_condition(text: str, line: int, beside: int, *, leaving: bool) -> int | None:
    """What decides whether a line runs, and not the line beside: the condition, or where that was made if it is a name alone.

    leaving: only a condition under which the function returns.
    """
    for node in around(text, line):
        returns = any(isinstance(one, ast.Return) for one in node.body)
        if not isinstance(node, ast.For) and (returns or not leaving) and not node.lineno < beside <= _last(node):
            names = _uses(node.test) - set().union(*map(_targets, _within(text, node)))
            decided_here = isinstance(node, ast.If) and not isinstance(node.test, ast.Name)
            return node.lineno if decided_here else made_before(text, names, node.lineno) or node.lineno
    return None


def line_of_skip(text: str, line: int) -> int | None:
    """The condition, one without an else, that a line stands in by itself, or where that was made."""
    alone = isinstance(block := next(iter(around(text, line)), None), ast.If) and not block.orelse
    return line_of_condition(text, line, 0, leaving=False) if alone else None


def line_of_idle(text: str, stored: int | None) -> int | None:
    """The condition that may keep a program from a store, of any line where none is given: around it, or one to return above it."""
    calls = (node for node in _all(text, ast.Call) if ast.unparse(node.func).endswith(("store", "atomic_add")))
    line = stored or max((call.lineno for call in calls), default=0)
    above = (node for node in _all(text, ast.If) if _start(text, line) < node.lineno < line)
    leaves = (
        node
        for node in above
        if any(isinstance(one, ast.Return) for one in node.body) or (line <= _last(node) and not node.orelse)
    )
    inside = line if line and stored is None and loops_around(text, line) else None  # and it may never be entered
    return next((int(node.lineno) for node in leaves), inside)


def line_of_argument(text: str, line: int, which: str) -> int | None:
    """Where the "pointer" of a load, or the "mask" of any access, was made that is a name alone at a line; or the "value" of a store."""
    for call in _calls(text, line):
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        kind = ast.unparse(call.func)
        if kind.endswith("load"):
            given |= dict(zip(("pointer",), call.args, strict=False))
        elif kind.endswith(("store", "atomic_add")):
            given |= dict(zip(("", "value"), call.args, strict=False))
        if which in given and (which == "value" or isinstance(given[which], ast.Name)):
            return made_before(text, _uses(given[which]), line)
    return None


def _line_of_compared(text: str, line: int) -> int | None:
    """Where the one variable was made that a line compares something with, in the loop around it if it moves on there."""
    asked = (one for one in _all(text, ast.Compare) if one.lineno <= line <= _last(one))
    names = {one.id for test in asked for one in test.comparators if isinstance(one, ast.Name)}
    known = {name: made for name in names if (made := made_before(text, {name}, line))}
    inside = (
        one.lineno for loop in loops_around(text, line) for one in _within(text, loop) if known.keys() & _targets(one)
    )
    return max(inside, default=next(iter(known.values()))) if len(known) == 1 else None


def line_of_shape(text: str, line: int) -> int | None:
    """Where the block pointer or descriptor was made whose name a load at a line uses."""
    names = set().union(*(_uses(one) for call in _calls(text, line) for one in (call.func, *call.args[:1])))
    made = (one for one in _before(text, line) if names & _targets(one) and "make_" in ast.unparse(one))
    return max((one.lineno for one in made), default=None)


def line_of_index(text: str, line: int, strides: set[str]) -> int | None:
    """Where the variable was made that is multiplied by one of these strides in the address of a load; what is no variable alone, there."""
    calls = _calls(text, line)
    names = set().union(*map(_uses, calls))
    addresses: list[ast.AST] = [*calls, *(one for one in _before(text, line) if names & _targets(one))]
    for product in (node for address in addresses for node in ast.walk(address) if isinstance(node, ast.BinOp)):
        sides = (product.left, product.right)
        for index, stride in (sides, sides[::-1]) if isinstance(product.op, ast.Mult) else ():
            if _uses(stride) & strides:
                variable = index.value if isinstance(index, ast.Subscript) else index
                return made_before(text, _uses(index), line) if isinstance(variable, ast.Name) else index.lineno
    return None


def _behind(text: str, line: int, loop: Loop) -> Iterator[Assigns]:
    """The assignments of a loop that the statement at a line depends on, the nearest first."""
    inside = _within(text, loop)
    statements = [node for node in ast.walk(loop) if isinstance(node, ast.stmt) and node.lineno <= line <= _last(node)]
    names = _uses(max(statements, key=lambda node: node.lineno)) if statements else set()
    seen: set[int] = set()
    while True:
        fresh = [one for one in inside if one.lineno not in seen and one.lineno != line and names & _targets(one)]
        if not fresh:
            return
        for one in fresh:
            seen.add(one.lineno)
            yield one
            names = names | _uses(one.value) if one.value is not None else names


def _before(text: str, line: int) -> list[Assigns]:
    """The assignments above a line of the same function."""
    return [one for one in _made(text) if _start(text, line) < one.lineno < line]


def _start(text: str, line: int) -> int:
    """Where the function around a line begins."""
    return max((node.lineno for node in _all(text, ast.FunctionDef) if node.lineno < line), default=0)


def _calls(text: str, line: int) -> list[ast.Call]:
    """The calls that a line is part of."""
    return [call for call in _all(text, ast.Call) if call.lineno <= line <= _last(call)]


def _all(text: str, kind: Any) -> list[Any]:
    """Every node of a kind in a module."""
    return [node for node in ast.walk(_tree(text)) if isinstance(node, kind)]


@lru_cache(16)
def _tree(text: str) -> ast.Module:
    return parse(text)


@lru_cache(16)
def _made(text: str) -> list[Assigns]:
    """Every assignment of a module, from its first line to its last."""
    return sorted(_all(text, Assigns), key=lambda node: node.lineno)


def _targets(one: Assigns) -> set[str]:
    return set().union(*map(_names, one.targets)) if isinstance(one, ast.Assign) else _names(one.target)


def _names(node: ast.AST) -> set[str]:
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}


def _uses(node: ast.AST | None) -> set[str]:
    """The names that an expression or a statement reads."""
    names = () if node is None else ast.walk(node)
    return {name.id for name in names if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)}


def _last(node: ast.stmt | ast.expr) -> int:
    return node.end_lineno or node.lineno
