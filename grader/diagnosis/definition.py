"""What is made of what, and where to look first where no number is known that would put it right (`mending` asks where one is).

The tape leads back from a load or a store along what its addresses, its mask and its values were made of, and from a loop or a
condition along what it goes by. Which statement stands inside which is told by `statements`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from grader.diagnosis.provenance import IDENTITIES, Array, Untraceable
from grader.diagnosis.statements import all_of, around, last_line, last_loop, loops_around
from grader.diagnosis.tape import MOVES, CalledLine, Node

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


def made_with(nodes: Sequence[Node], given: Asked) -> list[Node]:
    """Those of some nodes, in their order, that are given or made with one that is."""
    found: dict[int, Node] = {}
    for node in nodes:
        if given(node) or not found.keys().isdisjoint(node.inputs):
            found[node.number] = node
    return list(found.values())


def start_of_sum(run: Run, number: int) -> int | None:
    """The line where what a multiplication adds to began, and held no product yet."""
    carries, nodes = run.provenance.carries, run.tape.nodes
    for node in (one for one in behind(run, number) if carries(one.number) and one.op in ("dot", "fadd", "add", "fma")):
        given = [nodes[i] for i in (node.inputs if "add" in node.op else node.inputs[2:]) if not carries(i)]
        if given and given[-1].line != node.line:  # which a product without a sum makes itself
            return given[-1].line
    return nodes[number].line


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


def line_of_idle(run: Run) -> int | None:
    """The last condition that a program which stores nothing met, or where the end of its last loop became 0; else what the first store of
    the module stands in, a condition or a loop, or the store."""
    for program in sorted(run.tape.programs.keys() - {one.program for one in run.stores}, reverse=True):
        steers = [node for node in map(run.tape.nodes.__getitem__, run.tape.programs[program]) if node.op in STEERS]
        if steers and steers[-1].op == "condition":
            return steers[-1].line
        if steers and (line := _line_of_zero(run, run.tape.nodes[steers[-1].inputs[1]])):
            return line
    calls = (one for one in all_of(run.text, ast.Call) if ast.unparse(one.func).endswith(("store", "atomic_add")))
    line = min((one.lineno for one in calls), default=None)
    blocks = around(run.text, line or 0)
    return blocks[0].lineno if blocks else line


def _line_of_zero(run: Run, node: Node) -> int | None:
    """Where a number became 0 that was made of others than 0; None where it is not 0."""
    if node.op in GIVEN or run.provenance.values(node.number).any():
        return None
    return next(filter(None, (_line_of_zero(run, run.tape.nodes[i]) for i in node.inputs)), node.line)


def line_of_value(run: Run, store: Node) -> int | None:
    """Where what a store takes was made last, whatever converted or moved it since; else the condition after that which did not hold."""
    node, here = run.tape.nodes[store.inputs[0]], {block.lineno for block in around(run.text, store.line or 0)}
    while (before := [i for i in node.inputs if run.provenance.carries(i)]) and node.op in (*IDENTITIES, *MOVES):
        node = run.tape.nodes[before[0]]
    tests = (
        one for one in run.tape.nodes[node.number : store.number] if one.op == "condition" and one.line not in here
    )
    passed = {one.line for one in tests if not run.provenance.values(one.inputs[0]).any()}
    return passed.pop() if len(passed) == 1 else node.line or store.line


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
