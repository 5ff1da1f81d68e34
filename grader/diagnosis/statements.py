"""Which statements stand in which, and what they call things, as a module's text has it."""

from __future__ import annotations

import ast
import math
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import product
from typing import Any

from grader.diagnosis.tape import CalledLine
from grader.parsing import parse

Loop = ast.For | ast.While
Around = Loop | ast.If
Assigns = ast.Assign | ast.AugAssign | ast.AnnAssign
OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
"""What constants are made with."""
MAX_DEPTH = 16
"""Of the expression that gives one."""


@lru_cache(16)
def variables_of(text: str) -> dict[int, str]:
    """For each line of a module's text: the name that is assigned by the statement that stands there, "" for several."""
    found: dict[int, str] = {}
    for one in sorted(all_of(text, Assigns), key=lambda node: node.lineno):
        targets = one.targets if isinstance(one, ast.Assign) else [one.target]
        name = targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""
        found.update(dict.fromkeys(range(one.lineno, last_line(one) + 1), name))
    return found


def line_in_block_pointer(text: str, line: CalledLine, name: str, place: int) -> int:
    """Where an argument, by its name and place, of a block pointer or descriptor stands that is made in a line; that line where none is."""
    for call in all_of(text, ast.Call):
        if call.lineno == line and ast.unparse(call.func).endswith(("make_block_ptr", "make_tensor_descriptor")):
            given = [one.value for one in call.keywords if one.arg == name] or call.args[place : place + 1]
            found = CalledLine(given[0].lineno if given else line)
            found.caller = line.caller
            return found
    return line


def line_of_constant(text: str, line: CalledLine, number: float, known: Mapping[str, object]) -> CalledLine | None:
    """Where the one name in a line, and in no other, that stands for this number is given it, and that once, in the line's function or the
    module; None where none is. known: numbers of names that are given from outside."""
    inside = next((one for one in all_of(text, ast.FunctionDef) if one.lineno <= line <= last_line(one)), None)
    given, scope = _given_once(text), inside.name if inside else ""

    def place(name: str) -> tuple[int, ast.expr] | None:
        return given[scope, name] if (scope, name) in given else given.get(("", name))

    def value(of: ast.expr, deep: int = MAX_DEPTH) -> float:
        match of:
            case ast.Constant(value=int() | float() as written):
                return written
            case ast.Name(id=name) if deep and (at := place(name)):
                return value(at[1], deep - 1)
            case ast.Name(id=name) if isinstance(given_outside := known.get(name), int | float):
                return given_outside
            case ast.UnaryOp(op=ast.USub(), operand=one) if deep:
                return -value(one, deep - 1)
            case ast.BinOp(left=one, op=op, right=other) if deep and type(op) in OPERATORS:
                return OPERATORS[type(op)](value(one, deep - 1), value(other, deep - 1))
            case ast.Call(func=func, args=[one]) if deep and ast.unparse(func).endswith("constexpr"):
                return value(one, deep - 1)
        return math.nan

    places = (at for at in map(place, _used_once(text).get(line, ())) if at and at[0] != line)
    found = {at for at, what in places if value(what) == number}
    local = inside is not None and all(at >= inside.lineno for at in found)
    return CalledLine.of(found.pop(), line.caller if local else None) if len(found) == 1 else None


@lru_cache(16)
def _used_once(text: str) -> dict[int, set[str]]:
    """For each line, the names that are used there and in no other."""
    lines, found = defaultdict[str, set[int]](set), defaultdict[int, set[str]](set)
    for one in all_of(text, ast.Name):
        if isinstance(one.ctx, ast.Load):
            lines[one.id].add(one.lineno)
    for name, used in lines.items():
        if len(used) == 1:
            found[next(iter(used))].add(name)
    return found


@lru_cache(16)
def _given_once(text: str) -> dict[tuple[str, str], tuple[int, ast.expr] | None]:
    """By a function's name, "" for the module, and a name that it is given or assigns: where, and what, if that is once."""
    often, found = Counter[tuple[str, str]](), dict[tuple[str, str], tuple[int, ast.expr]]()
    for part in parse(text).body:
        scope = part.name if isinstance(part, ast.FunctionDef) else ""
        for node in ast.walk(part):
            if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)):
                often[scope, node.arg if isinstance(node, ast.arg) else node.id] += 1
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                for name, what in zip(*(getattr(one, "elts", [one]) for one in (target, node.value)), strict=False):
                    found[scope, getattr(name, "id", "")] = name.lineno, what
    return {key: found.get(key) if times == 1 else None for key, times in often.items()}


def axes_asked_for(text: str) -> set[int | None]:
    """The axes of tl.program_id in a module; None among them where one is no number as it stands."""
    calls = (call for call in all_of(text, ast.Call) if ast.unparse(call.func).endswith("program_id"))
    given = ([*call.args, *(one.value for one in call.keywords)][:1] for call in calls)
    return {getattr(one[0], "value", None) if one else None for one in given}


def has_crossed_arguments(text: str, line: int, caller: int) -> bool:
    """Whether the call in a line gives the function that another line is in a variable under the name of another one of its parameters,
    and that parameter something else."""
    inside = [one for one in all_of(text, ast.FunctionDef) if one.lineno <= line <= last_line(one)]
    for function, call in product(inside, all_of(text, ast.Call)):
        if call.lineno <= caller <= last_line(call) and ast.unparse(call.func) == function.name:
            names = [one.arg for one in function.args.args]
            given = dict(zip(names, map(ast.unparse, call.args), strict=False))
            given |= {one.arg: ast.unparse(one.value) for one in call.keywords if one.arg}
            return any(what != name and given.get(what, what) != what for name, what in given.items())
    return False


def line_of_result(text: str, name: str) -> int | None:
    """Where a function of this name says what it returns."""
    for node in all_of(text, (ast.FunctionDef, Assigns)):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return max((one.lineno for one in ast.walk(node) if isinstance(one, ast.Return)), default=node.lineno)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return node.lineno
    return None


@lru_cache(1024)
def around(text: str, line: int) -> list[Around]:
    """The loops and conditions that a line stands in, the innermost first."""
    return sorted(
        (one for one in all_of(text, Around) if one.lineno < line <= last_line(one)), key=lambda one: -one.lineno
    )


def loops_around(text: str, line: int) -> list[Loop]:
    """All loops around a line, the innermost first."""
    return [node for node in around(text, line) if isinstance(node, Loop)]


def loop_around(text: str, line: int) -> Loop | None:
    """The innermost loop around a line, one that runs a written number of times only where there is no other."""
    loops = loops_around(text, line)
    return next((loop for loop in loops if not _unrolled(loop)), next(iter(loops), None))


def in_one_loop(text: str, line: int, called: int | None, stored: int | None) -> bool:
    """Whether a line, or the line that called its function, runs once an iteration of one loop: of the loops that do not hold the
    store there is one, and not one of a written number of rounds. Then the line's n-th run is that loop's n-th iteration."""
    inside = _loops_inside(text, line, called, stored)
    return len(inside) == 1 and not _unrolled(inside[0])


def one_loop(text: str, line: int, called: int | None, stored: int | None) -> Loop | None:
    """Of the loops around them that do not hold the store, the one whose number of rounds is not written down, if there is one."""
    rolled = [loop for loop in _loops_inside(text, line, called, stored) if not _unrolled(loop)]
    return rolled[0] if len(rolled) == 1 else None


def _loops_inside(text: str, line: int, called: int | None, stored: int | None) -> list[Loop]:
    outside = {loop.lineno for loop in loops_around(text, stored or 0)}
    loops = {loop.lineno: loop for at in (line, called) if at for loop in loops_around(text, at)}
    return [loop for number, loop in loops.items() if number not in outside]


def _unrolled(loop: Loop) -> bool:
    """Whether a loop's number of rounds is written down: tl.static_range, or a range of numbers alone."""
    if isinstance(loop, ast.While):
        return False
    given = getattr(loop.iter, "args", [loop.iter])
    named = any(isinstance(one, ast.Name) for part in given for one in ast.walk(part))
    return not named or ast.unparse(getattr(loop.iter, "func", loop.iter)).endswith("static_range")


def last_loop(text: str, line: int) -> Loop | None:
    """The last loop that ends above a line."""
    return max(
        (node for node in all_of(text, Loop) if last_line(node) < line), key=lambda node: node.lineno, default=None
    )


@lru_cache(64)
def all_of(text: str, kind: Any) -> list[Any]:
    """Every node of a kind in a module."""
    return [node for node in ast.walk(parse(text)) if isinstance(node, kind)]


def last_line(node: ast.stmt | ast.expr) -> int:
    return node.end_lineno or node.lineno
