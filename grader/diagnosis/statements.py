"""What the text alone tells of a line: the name it assigns, the loops and conditions around it, and where what it uses was made.

The tape does not lead through Python's own numbers, such as a loop's bounds, nor to a condition that was not met.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from grader.parsing import parse

Around = ast.For | ast.While | ast.If
Assigns = ast.Assign | ast.AugAssign | ast.AnnAssign


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
    found = [node for node in ast.walk(_tree(text)) if isinstance(node, Around) and node.lineno < line <= _last(node)]
    return sorted(found, key=lambda node: -node.lineno)


def loop_around(text: str, line: int) -> ast.For | ast.While | None:
    """The innermost loop around a line, one that runs a written number of times only where there is no other."""
    loops = loops_around(text, line)
    counting = (
        loop
        for loop in loops
        if isinstance(loop, ast.While) or any(map(_uses, getattr(loop.iter, "args", [loop.iter])))
    )
    return next(counting, loops[0] if loops else None)


def loops_around(text: str, line: int) -> list[ast.For | ast.While]:
    """All loops around a line, the innermost first."""
    return [node for node in around(text, line) if isinstance(node, ast.For | ast.While)]


def in_one_loop(text: str, line: int, called: int | None, stored: int | None) -> bool:
    """Whether a line, or the line that called its function, runs once an iteration of one loop: of the loops that do not hold the
    store there is one, and not one of a written number of rounds. Then the line's n-th run is that loop's n-th iteration."""
    outside = {loop.lineno for loop in loops_around(text, stored or 0)}
    loops = {loop.lineno: loop for at in (line, called) if at for loop in loops_around(text, at)}
    inside = [loop for number, loop in loops.items() if number not in outside]
    return len(inside) == 1 and not (isinstance(inside[0], ast.For) and _unrolled(inside[0]))


def _unrolled(loop: ast.For) -> bool:
    """Whether a loop's number of rounds is written down: tl.static_range, or a range of numbers alone."""
    call = loop.iter
    return ast.unparse(getattr(call, "func", call)).endswith("static_range") or not any(
        map(_uses, getattr(call, "args", [call]))
    )


def last_loop(text: str, line: int) -> ast.For | ast.While | None:
    """The last loop that ends above a line."""
    loops = [node for node in ast.walk(_tree(text)) if isinstance(node, ast.For | ast.While) and _last(node) < line]
    return max(loops, key=lambda node: node.lineno, default=None)


def line_of_walk(text: str, line: int) -> int | None:
    """Where a program goes on to its next tile: what moves on the condition of the outermost loop around a line, else that loop."""
    for loop in loops_around(text, line)[-1:]:
        names = _uses(loop.test) if isinstance(loop, ast.While) else set()
        made = [one.lineno for one in _made(text) if loop.lineno < one.lineno <= _last(loop) and _targets(one) & names]
        return made[0] if made else loop.lineno
    return None


def made_before(text: str, names: set[str], line: int) -> int | None:
    """Where one of these names was assigned last, above a line of the same function."""
    return max((one.lineno for one in _before(text, line) if names & _targets(one)), default=None)


def line_of_bound(text: str, inside: int, which: str) -> int | None:
    """The line that made the "start" or the "stop" of the loop around a line, the loop's own where that says it itself; or what of its
    start depends on the "program"."""
    loop = loop_around(text, inside)
    if isinstance(loop, ast.While):
        own = (
            set()
            if which == "start"
            else {name for one in _made(text) if loop.lineno < one.lineno <= _last(loop) for name in _targets(one)}
        )
        plain = isinstance(loop.test, ast.Compare) and all(
            isinstance(one, ast.Name) for one in (loop.test.left, *loop.test.comparators)
        )
        return (made_before(text, _uses(loop.test) - own, loop.lineno) if plain else None) or loop.lineno
    if loop is None or not isinstance(loop.iter, ast.Call) or not loop.iter.args:
        return None if loop is None else loop.lineno
    arguments = loop.iter.args
    if len(arguments) == 3 and isinstance(arguments[2], ast.UnaryOp):  # downwards
        which = "stop" if which == "start" else "start"
    if which == "start" and len(arguments) == 1:  # what begins at 0 is the loop's own number, so its first use decides
        return line_of_use(text, inside) or loop.lineno
    bound = arguments[min(1, len(arguments) - 1)] if which == "stop" else arguments[0]
    if which == "program":
        made = [one for one in _before(text, loop.lineno) if _targets(one) & _uses(bound)]
        return max((one.lineno for one in made if _of_program(text, one)), default=loop.lineno)
    return (made_before(text, _uses(bound), loop.lineno) if isinstance(bound, ast.Name) else None) or loop.lineno


def _of_program(text: str, one: Assigns) -> bool:
    """Whether what an assignment makes depends on the program's number."""
    if any(isinstance(node, ast.Attribute) and node.attr == "program_id" for node in ast.walk(one)):
        return True
    before = [other for other in _before(text, one.lineno) if _targets(other) & _uses(one.value)]
    return any(_of_program(text, other) for other in before)


def line_of_use(text: str, line: int) -> int | None:
    """The first statement, before a line inside a loop that counts, that makes something of the loop's number and that the line uses."""
    loop = loop_around(text, line)
    if not isinstance(loop, ast.For):
        return None
    counted = _names(loop.target)
    used = min(
        (one for one in _behind(text, line, loop) if counted & _uses(one.value)),
        key=lambda one: one.lineno,
        default=None,
    )
    return None if used is None else made_before(text, _uses(used.value) - counted, loop.lineno) or used.lineno


def line_of_update(text: str, line: int) -> int | None:
    """Where what a line uses moves on from one iteration of the loop around it to the next."""
    for loop in loops_around(text, line):
        counted = _names(loop.target) if isinstance(loop, ast.For) else set()
        behind = list(_behind(text, line, loop))
        moved = [one for one in behind if isinstance(one, ast.AugAssign) or _targets(one) & _uses(one.value)]
        for one in moved or [one for one in behind if counted & _uses(one.value)]:
            return one.lineno
    return None


def line_of_condition(text: str, line: int, beside: int, *, leaving: bool) -> int | None:
    """What decides whether a line runs, and not the line beside: the condition, or where that was made if it is a name alone.

    leaving: only a condition under which the function returns.
    """
    for node in around(text, line):
        returns = any(isinstance(one, ast.Return) for one in node.body)
        if (
            isinstance(node, ast.If | ast.While)
            and (returns or not leaving)
            and not node.lineno < beside <= _last(node)
        ):
            own = {name for one in _made(text) if node.lineno < one.lineno <= _last(node) for name in _targets(one)}
            names = _uses(node.test) - own
            decided_here = isinstance(node, ast.If) and not isinstance(node.test, ast.Name)
            return node.lineno if decided_here else made_before(text, names, node.lineno) or node.lineno
    return None


def line_of_choice(text: str, line: int) -> int | None:
    """The condition inside its loop that decides whether a line runs."""
    inside = around(text, line)
    return inside[0].lineno if len(inside) > 1 and isinstance(inside[0], ast.If) else None


def line_of_idle(text: str, stored: int | None) -> int | None:
    """The condition that may keep a program from a store, of any line where none is given: around it, or one to return above it."""
    calls = [
        node
        for node in ast.walk(_tree(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("store", "atomic_add"))
    ]
    line = stored or max((call.lineno for call in calls), default=0)
    start = max(
        (node.lineno for node in ast.walk(_tree(text)) if isinstance(node, ast.FunctionDef) and node.lineno < line),
        default=0,
    )
    above = [node for node in ast.walk(_tree(text)) if isinstance(node, ast.If) and start < node.lineno < line]
    found = [
        node
        for node in above
        if (line <= _last(node) and not node.orelse) or any(isinstance(one, ast.Return) for one in node.body)
    ]
    return found[0].lineno if found else None


def line_of_named_mask(text: str, line: int) -> int | None:
    """Where the mask of a load or store was made that is a name alone."""
    masks = (keyword.value for call in _calls(text, line) for keyword in call.keywords if keyword.arg == "mask")
    return next((made_before(text, {mask.id}, line) for mask in masks if isinstance(mask, ast.Name)), None)


def line_of_pointer(text: str, line: int) -> int | None:
    """Where the pointer of a load was made that is a name alone."""
    pointers = (call.args[0] for call in _calls(text, line) if call.args and ast.unparse(call.func).endswith("load"))
    return next((made_before(text, {one.id}, line) for one in pointers if isinstance(one, ast.Name)), None)


def line_of_value(text: str, line: int) -> int | None:
    """Where what a store stores was assigned last."""
    values = (
        call.args[1]
        for call in _calls(text, line)
        if len(call.args) > 1 and ast.unparse(call.func).endswith(("store", "atomic_add"))
    )
    return next((made_before(text, _uses(value), line) for value in values), None)


def _calls(text: str, line: int) -> list[ast.Call]:
    """The calls that stand at a line."""
    return [node for node in ast.walk(_tree(text)) if isinstance(node, ast.Call) and node.lineno <= line <= _last(node)]


def _behind(text: str, line: int, loop: ast.For | ast.While) -> Iterator[Assigns]:
    """The assignments of a loop that the statement at a line depends on, the nearest first."""
    inside = [one for one in _made(text) if loop.lineno < one.lineno <= _last(loop)]
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
    starts = (node.lineno for node in ast.walk(_tree(text)) if isinstance(node, ast.FunctionDef))
    first = max((start for start in starts if start < line), default=0)
    return [one for one in _made(text) if first < one.lineno < line]


@lru_cache(16)
def _tree(text: str) -> ast.Module:
    return parse(text)


@lru_cache(16)
def _made(text: str) -> list[Assigns]:
    """Every assignment of a module, from its first line to its last."""
    return sorted((node for node in ast.walk(_tree(text)) if isinstance(node, Assigns)), key=lambda node: node.lineno)


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
