"""Which line to change: backwards from a load or store to where the component that deviates came in."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache

import numpy as np

from grader.diagnosis.provenance import Untraceable
from grader.diagnosis.relation import Run
from grader.diagnosis.tape import Node
from grader.parsing import parse


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
    access was not, that goes on with something older. The access's own line where it is all made there."""
    before = {node.number for node in address_nodes(run, first)}
    fresh = [node for node in address_nodes(run, second) if node.number not in before and node.line is not None]
    carried = [node.line for node in fresh if node.line != second.line and not before.isdisjoint(node.inputs)]
    return carried[0] if carried else second.line


def line_of_program(run: Run, access: Node, axis: int | None = None) -> int | None:
    """Where the number of a program's tile along one axis was computed, or what it is multiplied by; None: along any axis.

    Of `pid_m * BLOCK_M + tl.arange(0, BLOCK_M)` that is the line that made pid_m, or this one where pid_m is a program id itself.
    Where nothing depends on the program, the line where the lanes begin.
    """
    nodes = address_nodes(run, access)
    if axis is not None:
        along = [
            node
            for node in nodes
            if _varies_along(run, node, access.shape) == {axis} or _lanes_alone(run, node, access.shape, axis)
        ]
        nodes = [run.tape.nodes[i] for i in sorted({one.number for node in along for one in behind(run, node.number)})]
    dependent: set[int] = set()
    scalars: list[Node] = []
    merged = None
    for node in nodes:
        if node.op == "get_program_id" or not dependent.isdisjoint(node.inputs):
            dependent.add(node.number)
            if node.size == 1 and node.line is not None and "addptr" not in node.op:
                scalars.append(node)
            elif node.size > 1 and merged is None and node.line is not None:
                merged = node.line
    if not scalars:
        lanes = [node.line for node in nodes if node.op == "make_range" and node.line is not None]
        return lanes[0] if lanes else access.line
    earlier = [node.line for node in scalars if node.line != merged and node.op != "get_program_id"]
    return earlier[-1] if earlier else merged or scalars[-1].line


def _lanes_alone(run: Run, node: Node, shape: tuple[int, ...], axis: int) -> bool:
    """Whether a one-dimensional node has as many lanes as this axis, and no other axis has."""
    return (
        len(node.shape) == 1
        and node.size > 1
        and node.size == shape[axis]
        and shape.count(node.size) == 1
        and len(shape) > 1
    )


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
        if not following:
            return run.tape.nodes[others[-1]].line if others else node.line
        node = run.tape.nodes[following[0]]


@cache
def variables_of(text: str) -> dict[int, str]:
    """For each line of a module's text: the name that is assigned by the statement that stands there, "" for several."""
    found: dict[int, str] = {}
    for node in ast.walk(parse(text)):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            name = targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""
            found.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), name))
    return found


@cache
def loops_of(text: str) -> dict[int, int]:
    """For each line of a module inside a loop: where the innermost one begins."""
    found: dict[int, int] = {}
    for loop in _loops(text):
        found.update(dict.fromkeys(range(loop.lineno + 1, (loop.end_lineno or loop.lineno) + 1), loop.lineno))
    return found


def line_of_bound(text: str, inside: int, which: str) -> int | None:
    """The line that made the "start" or the "stop" of the loop around a line; the loop's own line where that says it itself."""
    header = loops_of(text).get(inside)
    loop = next((one for one in _loops(text) if one.lineno == header), None)
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call) or not loop.iter.args:
        return header
    arguments = loop.iter.args
    bound = arguments[0] if which == "start" and len(arguments) > 1 else arguments[min(1, len(arguments) - 1)]
    names = {node.id for node in ast.walk(bound) if isinstance(node, ast.Name)}
    made = [
        node.lineno
        for node in ast.walk(parse(text))
        if isinstance(node, ast.Assign) and node.lineno < loop.lineno
        for target in node.targets
        if names & {name.id for name in ast.walk(target) if isinstance(name, ast.Name)}
    ]
    return max(made, default=header)


def _loops(text: str) -> list[ast.For | ast.While]:
    return sorted(
        (node for node in ast.walk(parse(text)) if isinstance(node, ast.For | ast.While)), key=lambda node: node.lineno
    )
