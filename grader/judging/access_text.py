"""What a kernel's text says of a memory access: how its call is written, whether it has a mask, and whether that follows the pointers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from grader.model import KernelSource, MemoryFinding
from grader.parsing import function_named, nodes, parse

CALL = re.compile(r"\b(tl\.(?:load|store|atomic_\w+|\w*descriptor\w*)|\w+\.(?:load|store|gather|scatter))\s*\(")
MASK_AT = {"load": 1, "store": 2, "atomic": 2}
"""The place of a mask among an access's arguments."""


def call_at(source: KernelSource, finding: MemoryFinding) -> str:
    """The call as it is written in the source line, when it can be seen there."""
    lines = source.module.split("\n")
    if finding.line is not None and 1 <= finding.line <= len(lines):
        words = [match.group(1) for match in CALL.finditer(lines[finding.line - 1])]
        fitting = [word for word in words if finding.kind in word or len(words) == 1]
        if fitting:
            return fitting[0]
    return f"tl.{finding.kind}" if finding.kind != "atomic" else "an atomic"


def has_mask(source: KernelSource, finding: MemoryFinding) -> bool:
    """Whether each load, store or atomic of the finding's kind in its line is given a mask."""
    calls = _calls_in(parse(source.module), finding.line)
    given = [is_masked(call) for call in calls if finding.kind in getattr(call.func, "attr", "")]
    return bool(given) and all(given)


def is_masked(call: ast.Call) -> bool:
    """Whether a call is given a mask by name, or is a load, store or atomic and given one by position."""
    kind, count = getattr(call.func, "attr", "").partition("_")[0], len(call.args)
    return count > MASK_AT.get(kind, count) or any(word.arg == "mask" for word in call.keywords)


def goes_by(source: KernelSource, finding: MemoryFinding) -> str:
    """What an access goes by that takes no mask: a "block pointer" or a "descriptor"; "" where it may take one."""
    tree = parse(source.module)
    calls = _calls_in(tree, finding.line)
    used = set().union(*(_names(one) for call in calls for one in (call.func, *call.args[:1])))
    for maker, kind in (("make_block_ptr", "block pointer"), ("make_tensor_descriptor", "descriptor")):
        made = (node for node in nodes(tree, ast.Assign) if maker in ast.unparse(node.value))
        if used & {target.id for node in made for target in node.targets if isinstance(target, ast.Name)}:
            return kind
    return "block pointer" if any(word.arg == "boundary_check" for call in calls for word in call.keywords) else ""


def mask_stands_still(source: KernelSource, finding: MemoryFinding, limit: str) -> bool:
    """Whether a load's mask compares k that a loop leaves as they are with the limit itself, while the loop moves its pointers on."""
    line = finding.line or 0
    if not limit.startswith("K"):
        return False
    tree = parse(source.module)
    loops = [loop for kind in (ast.For, ast.While) for loop in nodes(tree, kind)]
    around = [loop for loop in loops if loop.lineno < line <= (loop.end_lineno or 0)]
    return any(_stays(call, loop, limit) for loop in around for call in _calls_in(loop, line))


def _stays(call: ast.Call, loop: ast.AST, limit: str) -> bool:
    """Whether a call's mask compares what the loop leaves alone with the limit, while the loop moves the call's pointers on."""
    moved = {node.id for node in nodes(loop, ast.Name) if isinstance(node.ctx, ast.Store)}
    masks = [word.value for word in call.keywords if word.arg == "mask"]
    below = [_names(part.left) for mask in masks for part in nodes(mask, ast.Compare) if _is_below(part, limit)]
    still = any(names and not names & moved for names in below)
    return still and bool(call.args) and bool(_names(call.args[0]) & _carried_on(loop))


def _is_below(comparison: ast.Compare, limit: str) -> bool:
    return isinstance(comparison.ops[0], ast.Lt) and ast.unparse(comparison.comparators[0]) == limit


def _carried_on(loop: ast.AST) -> set[str]:
    """The names whose next value a loop makes of the last one."""
    further = {node.target.id for node in nodes(loop, ast.AugAssign) if isinstance(node.target, ast.Name)}
    assigned = ((target, node.value) for node in nodes(loop, ast.Assign) for target in node.targets)
    return further | {name.id for name, value in assigned if isinstance(name, ast.Name) and name.id in _names(value)}


def assumed(source: KernelSource, finding: MemoryFinding) -> str:
    """What stands in the call of tl.assume in the finding's line; "" where it is not found."""
    calls = (call for call in _calls_in(parse(source.module), finding.line) if call.args)
    return next((ast.unparse(call.args[0]) for call in calls if ast.unparse(call.func).endswith("assume")), "")


def through_helper(source: KernelSource, finding: MemoryFinding, function: str) -> tuple[int, str] | None:
    """The line of `function` whose call led to an access in another function, and the function called there."""
    if not function or finding.line is None:
        return None
    inner = finding.line
    for line in (inner, *finding.callers):
        if function_at(source, line) == function:
            return (line, function_at(source, inner)) if line != inner else None
        inner = line
    return None


def masks_anything(source: KernelSource, function: str) -> bool:
    """Whether any access in a function of the module has a mask."""
    calls = nodes(function_named(parse(source.module), function), ast.Call)
    return any(map(is_masked, calls))


def function_at(source: KernelSource, line: int) -> str:
    """The function of the module that a line belongs to."""
    functions = (node for node in parse(source.module).body if isinstance(node, ast.FunctionDef))
    return next((node.name for node in functions if node.lineno <= line <= (node.end_lineno or 0)), "")


def _calls_in(tree: ast.AST, line: int | None) -> Iterator[ast.Call]:
    """The calls that a line is part of."""
    return (call for call in nodes(tree, ast.Call) if call.lineno <= (line or 0) <= (call.end_lineno or 0))


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in nodes(node, ast.Name)}
