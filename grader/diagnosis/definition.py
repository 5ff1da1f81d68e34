"""What is made of what, and where to look first where no number is known that would put it right (`mending` asks where one is).

`line_to_blame`: of all that the deviating thing is made of, what something right is made of too is not at fault. Of what is left the last
is, the nearest to the use; where nothing is left the use itself is, the load, store or product.

The tape leads back from a load or a store along what its addresses, its mask and its values were made of, and from a loop or a
condition along what it goes by. Which statement stands inside which is told by `statements`.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from grader.diagnosis.provenance import IDENTITIES, Array, Untraceable
from grader.diagnosis.statements import Loop, all_of, around, last_line, last_loop, loops_around
from grader.diagnosis.tape import CalledLine, Node

if TYPE_CHECKING:
    from grader.diagnosis.relation import Products, Run

Asked = Callable[[Node], bool]
STEERS = ("range", "condition")
"""What Python goes by: of a loop start, stop and step, of an `if` or a `while` its test."""
GIVEN = ("argument", "lost", "get_program_id", "loop_variable")
"""What a kernel does not make itself."""


def address_nodes(run: Run, access: Node) -> list[Node]:
    """The nodes that a load's or store's addresses were made of, in the order in which they were made."""
    return behind(run, access.inputs[0 if access.op == "load" else 1], stop=is_brought)


def mask_nodes(run: Run, access: Node) -> list[Node]:
    """The same of its mask; none without one."""
    which = 1 if access.op == "load" else 2
    return [node for number in access.inputs[which : which + 1] for node in behind(run, number, stop=is_brought)]


def is_brought(node: Node) -> bool:
    """What ends the way back from an address: a number that was loaded, or multiplied as a matrix."""
    return node.op in ("load", "dot")


def is_program_id(node: Node) -> bool:
    """What tells programs apart."""
    return node.op == "get_program_id"


def behind(run: Run, number: int, stop: Asked = lambda node: False) -> list[Node]:
    """A node and all that it was made of, in the order in which they were made."""
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


def numbers_behind(run: Run, *right: Node) -> set[int]:
    """The nodes that the addresses and masks of some accesses were made of, whatever was loaded for them included. Where these are right,
    so are they."""
    begins = (i for access in right for i in access.inputs[slice(2) if access.op == "load" else slice(1, 3)])
    return {node.number for i in begins for node in behind(run, i)}


def line_to_blame(made: Iterable[Node], use: Node, right: Container[int] = ()) -> int | None:
    """The line of the last of the nodes that something is made of, without those that something right is made of too; that of the use where
    none is left."""
    left = [
        node.line for node in made if node.inputs and node.line not in (None, use.line) and node.number not in right
    ]
    return left[-1] if left else use.line


def nodes_along(run: Run, access: Node, axis: int) -> list[Node]:
    """Those of the nodes of an access's addresses that vary along one axis of its tile alone, by their numbers or by their shape, and
    vectors that become such."""
    found: dict[int, Node] = {}
    vectors: set[int] = set()
    for node in reversed(address_nodes(run, access)):
        long = [one for one, length in enumerate(node.shape) if length > 1]
        shaped = len(node.shape) == len(access.shape) > 1 and long == [axis] and "ptr" not in node.type
        if shaped or node.number in vectors or varies_along(run, node, access.shape) == {axis}:
            found[node.number] = node
            sources = map(run.tape.nodes.__getitem__, node.inputs)
            vectors |= {one.number for one in sources if len(one.shape) == 1 and one.size == node.size > 1}
    return list(found.values())[::-1]


def nodes_behind_axis(run: Run, access: Node, axis: int | None) -> list[Node]:
    """What an access's addresses were made of, of one axis alone if there is one."""
    if axis is None:
        return address_nodes(run, access)
    along = [node.number for node in nodes_along(run, access, axis)]
    return [run.tape.nodes[i] for i in sorted({one.number for number in along for one in behind(run, number)})]


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


def line_of_base(
    run: Run,
    access: Node,
    axis: int | None = None,
    right: Container[int] = (),
    begins: tuple[int, int] | None = None,
) -> int | None:
    """Where what a tile begins with along one axis was made of a program id; None: along any axis.

    Of `pid_m * BLOCK_M + tl.arange(0, BLOCK_M)` that is the line that made pid_m, or this one where pid_m is a program id itself, or
    something right is made of it too. Where nothing depends on one, the line where the lanes begin. begins: with which element
    the tile begins there, and how many it has: where no number that it is made of is that of this tile, it is not the numbers that
    are wrong, but what is made of them.

    Not split: it tries one place after another, the most certain first; each branch is a form of kernel that was met.
    """
    nodes = nodes_behind_axis(run, access, axis)
    made = made_with(nodes, is_program_id) or made_with(_along_none(run, access), is_program_id)
    if not made:
        return next((node.line for node in nodes if node.op == "make_range" and node.line), access.line)
    tiles = [node for node in made if node.size > 1 and node.line][:1]
    numbers = [
        node
        for node in made
        if node.size == 1 and node.op not in ("addptr", "loop_variable") and not is_program_id(node)
    ]
    if begins is not None and begins[0]:
        with contextlib.suppress(Untraceable):
            first, size = begins
            held = [int(run.provenance.values(node.number).reshape(-1)[0]) for node in numbers]
            if first not in [one * size for one in held]:
                numbers = [node for node, one in zip(numbers, held, strict=True) if one == first]
    if axis is not None:  # nor is it that a right number is counted in elements
        numbers = [node for node in numbers if not _multiplies_by(run, node, access.shape[axis])] or numbers
    lines = {one.line for one in tiles}
    return line_to_blame([*tiles, *(node for node in numbers if node.line not in lines)], access, right)


def _multiplies_by(run: Run, node: Node, size: int) -> bool:
    """Whether a number is another one times a size."""
    with contextlib.suppress(Untraceable):
        return node.op == "mul" and any(run.provenance.values(one).reshape(-1)[0] == size for one in node.inputs)
    return False


def _along_none(run: Run, access: Node) -> list[Node]:
    """What an access's addresses were made of that belongs to no axis of its tile alone, but to all of it."""
    of_axes = {node.number for axis in range(len(access.shape)) for node in nodes_behind_axis(run, access, axis)}
    return [node for node in address_nodes(run, access) if node.number not in of_axes]


def made_with(nodes: Sequence[Node], given: Asked) -> list[Node]:
    """Those of some nodes, in their order, that are given or made with one that is."""
    found: dict[int, Node] = {}
    for node in nodes:
        if given(node) or not found.keys().isdisjoint(node.inputs):
            found[node.number] = node
    return list(found.values())


def line_of_step(run: Run, first: Node, second: Node, right: Container[int] = ()) -> int | None:
    """Where an address moves on from one iteration to the next: the first of what the second access was made of, and the first access
    was not, that goes on with something older, else the first of all. None where it does not move on."""
    before = {node.number for node in address_nodes(run, first)}
    fresh = _fresh(address_nodes(run, first), address_nodes(run, second))
    left = [
        node
        for node in fresh
        if node.inputs and node.op != "loop_variable" and node.line != second.line and node.number not in right
    ]
    carried = [node for node in left if not before.isdisjoint(node.inputs)]
    line = (carried or left or [second])[0].line if fresh else None
    if line and first.line and first.line == second.line and line.caller not in (None, first.line.caller):
        return line.caller  # what a helper did right in its first call is not its mistake
    return line


def _fresh(before: Sequence[Node], after: Sequence[Node]) -> list[Node]:
    """What an address was made of that an earlier one was not: neither the nodes themselves, nor what a line made again of the same."""
    same: dict[int, int] = {}

    def made_of(node: Node) -> tuple[object, ...]:
        return node.op, node.line, tuple(same.get(i, i) for i in node.inputs)

    known = {made_of(node): node.number for node in before}
    for node in after:
        if node.inputs and node.op != "loop_variable" and made_of(node) in known:
            same[node.number] = known[made_of(node)]
    numbers = same.keys() | {node.number for node in before}
    return [node for node in after if node.number not in numbers and node.line is not None]


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


def changing_axis(along: Array) -> int | None:
    """The first axis of a tile along which these numbers change."""
    return next((axis for axis in range(along.ndim) if (np.diff(along, axis=axis) != 0).any()), None)


def is_cut(run: Run, access: Node) -> bool:
    """Whether what a load leaves out is what lies behind the shape of a block pointer or descriptor; no mask does it."""
    return any(node.op == "tile" for node in address_nodes(run, access))


# ---- what Python goes by: loops and conditions, whose bounds and tests the tape has too


def line_of_alias(text: str, loop: Loop, place: int) -> int | None:
    """Where a range's start, stop or step got its name, if it is another name of something given, which leaves no node on the tape."""
    names = [ast.unparse(one) for one in getattr(getattr(loop, "iter", loop), "args", [])]
    return _line_of_other_name(text, ([None, *names] if len(names) == 1 else [*names, None, None])[place])


def line_of_pointer(text: str, load: Node) -> int | None:
    """The same of a pointer of which a load takes an element as it is."""
    calls = (
        one for one in all_of(text, ast.Call) if one.lineno == load.line and ast.unparse(one.func).endswith("load")
    )
    return next((_line_of_other_name(text, ast.unparse(one.args[0])) for one in calls if one.args), None)


def _line_of_other_name(text: str, name: str | None) -> int | None:
    found = [one for one in all_of(text, ast.Assign) if ast.unparse(one.targets[0]) == name]
    return found[0].lineno if len(found) == 1 and isinstance(found[0].value, ast.Name) else None


def line_of_idle(run: Run) -> int | None:
    """The condition, or the loop, that a program which stores nothing met last, of those that went otherwise where others store; where
    none does, a store in that loop."""
    storing = {one.program for one in run.stores}
    met = {program: _steered(run, program) for program in run.tape.programs}
    others = {one for program in storing & met.keys() for one in met[program].items()}
    idle = (list(mine.items()) for program, mine in met.items() if program not in storing)
    line = next((line for mine in idle for line, went in reversed(mine) if (line, went) not in others), None)
    calls = (
        one.lineno for one in all_of(run.text, ast.Call) if ast.unparse(one.func).endswith(("store", "atomic_add"))
    )
    inside = (one for one in calls if line in [loop.lineno for loop in loops_around(run.text, one)])
    return next(inside, line) if not storing else line


def _steered(run: Run, program: int) -> dict[int, bool]:
    """The lines of the conditions and loops that a program met, and whether it went on inside when it first did."""
    found: dict[int, bool] = {}
    for node in map(run.tape.nodes.__getitem__, run.tape.programs[program]):
        if node.op in STEERS and node.line:
            first, *rest = (int(run.provenance.values(i).reshape(-1)[0]) for i in node.inputs)
            found.setdefault(node.line, first < rest[0] if rest else bool(first))
    return found


def line_of_value(run: Run, store: Node) -> int | None:
    """Where what a store takes was made, if in no loop of its own; else a condition that kept the program from changing it after that, or
    the store itself."""
    way, here = [run.tape.nodes[store.inputs[0]]], around(run.text, store.line or 0)
    while (before := [i for i in way[-1].inputs if run.provenance.carries(i)]) and (
        way[-1].line == store.line or way[-1].op in IDENTITIES
    ):
        way.append(run.tape.nodes[before[0]])  # what is converted
    loops = [block for block in here if isinstance(block, Loop)]
    made = next((node.line for node in way if node.line != store.line), store.line)
    outside = loops_around(run.text, made or 0) == loops
    passed = set() if outside and way[-1].line == made else _conditions_passed(run, way[-1].number, store.number)
    passed -= {block.lineno for block in here}
    if len(passed) == 1:
        return passed.pop()
    return made if outside else store.line


def _conditions_passed(run: Run, begin: int, end: int) -> set[int | None]:
    """The lines of the conditions between two nodes that did not hold."""
    tests = (node for node in run.tape.nodes[begin:end] if node.op == "condition")
    return {node.line for node in tests if not run.provenance.values(node.inputs[0]).any()}


def line_of_condition(run: Run, line: int, beside: int) -> int | None:
    """Where the condition under which a line runs, and not the line beside, was made; its own line where its test was given."""
    for block in around(run.text, line):
        if not isinstance(block, ast.For) and not block.lineno < beside <= last_line(block):
            tests = (node for node in run.tape.nodes if node.op == "condition" and node.line == block.lineno)
            made = ((run.tape.nodes[test.inputs[0]], test) for test in tests)
            return next((test.line if one.op in GIVEN else one.line for one, test in made), block.lineno)
    return None


def line_of_skip(run: Run, line: int) -> int | None:
    """The same of a condition without an else that a line stands in by itself."""
    alone = isinstance(block := next(iter(around(run.text, line)), None), ast.If) and not block.orelse
    return line_of_condition(run, line, 0) if alone else None


def line_of_idle_product(run: Run, lines: Sequence[CalledLine | None]) -> int | None:
    """The condition of a multiplication like those of some lines that was never made. A helper's multiplication is each call of it."""
    ran = {at for node in run.tape.nodes if node.line is not None for at in (node.line, node.line.caller)}
    helpers = {
        block.name
        for block in all_of(run.text, ast.FunctionDef)
        if any(line and line.caller and block.lineno <= line <= last_line(block) for line in lines)
    }
    for call in all_of(run.text, ast.Call):
        name = getattr(call.func, "id", None) or getattr(call.func, "attr", None)
        if name in (helpers or {"dot"}) and call.lineno not in ran:
            return line_of_skip(run, call.lineno)
    return None
