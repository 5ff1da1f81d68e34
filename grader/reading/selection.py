"""Which statements does the kernel need? Its definition, its grid, every top-level name they reach, and what may change their values."""

from __future__ import annotations

import ast
import builtins
import importlib
import symtable
import warnings
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from grader.model import SourceLine
from grader.parsing import nodes
from grader.reading.files import Cell, defined

MAX_DEPTH = 150
"""Levels of syntax in one statement; the deepest anybody wrote for these labs has a tenth of them."""
PLAIN_MODULES = ("math", "itertools", "functools", "typing", "operator", "collections", "dataclasses", "enum")
"""Of Python's own: what tables of configs and their grids are written with."""
STARRED = frozenset(("triton", "triton.language", "triton.language.extra.libdevice", *PLAIN_MODULES))
"""Modules whose `from module import *` is read as what it binds."""
MAX_STARRED = 8
"""How many of these in one file; each is some two hundred statements."""
CONSTANT = (ast.Constant, ast.Tuple, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.expr_context)
MOST_ROUNDS, MOST_LEFT_OUT = 8, 100
"""How often statements are gone through for what mentions a list; and how many that do may be left out before no more are looked at."""


@dataclass(frozen=True)
class Statement:
    """A top-level statement: the names it binds, and the module-level names it needs."""

    cell: Cell
    node: ast.stmt
    binds: frozenset[str]
    needs: frozenset[str]
    text: str = ""
    """What is taken of it, where that is not its own lines: one name of an import of several."""

    @property
    def first_line(self) -> int:
        decorators = getattr(self.node, "decorator_list", [])
        return int(min([self.node.lineno, *(decorator.lineno for decorator in decorators)]))

    @property
    def place(self) -> str:
        return str(self.cell.called(self.first_line, defined(self.node)))


def statements(cells: Iterable[Cell]) -> list[Statement]:
    """Every top-level statement of the cells that parse, in order; an import of several names is one for each."""
    found: list[Statement] = []
    starred = 0
    for cell in cells:
        for node in cell.tree.body if cell.tree is not None else ():
            starred += _is_starred(node)
            if _is_starred(node) and starred <= MAX_STARRED:
                found += _starred(cell, node)
                continue
            for part in _single_imports(node):
                text = "" if part is node else ast.unparse(part)
                found.append(Statement(cell, part, frozenset(_binds(part)), frozenset(needs(part)), text))
    return found


def _single_imports(node: ast.stmt) -> list[ast.stmt]:
    """`import os, triton` as two imports, so that a kernel which needs triton does not bring os along."""
    if not isinstance(node, ast.Import | ast.ImportFrom) or len(node.names) == 1:
        return [node]
    return [
        ast.copy_location(
            ast.Import([alias]) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, [alias], node.level),
            alias,
        )
        for alias in node.names
    ]


def _is_starred(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and not node.level and node.module in STARRED and node.names[0].name == "*"


def _starred(cell: Cell, node: ast.stmt) -> list[Statement]:
    """`from triton.language import *` as an import for each name that it binds, so that a kernel brings along what it uses."""
    assert isinstance(node, ast.ImportFrom)
    assert node.module is not None
    found = []
    for name in _public(node.module):
        single = ast.ImportFrom(node.module, [ast.copy_location(ast.alias(name), node.names[0])], 0)
        text = f"from {node.module} import {name}"
        found.append(Statement(cell, ast.copy_location(single, node), frozenset((name,)), frozenset(), text))
    return found


@cache
def _public(module: str) -> tuple[str, ...]:
    """What `from module import *` binds."""
    found = importlib.import_module(module)
    return tuple(getattr(found, "__all__", None) or (name for name in dir(found) if not name.startswith("_")))


def _by_name(everything: Iterable[Statement]) -> dict[str, list[int]]:
    """Where each name is bound."""
    found: dict[str, list[int]] = {}
    for index, statement in enumerate(everything):
        for name in statement.binds:
            found.setdefault(name, []).append(index)
    return found


def closure(everything: Sequence[Statement], roots: Iterable[str]) -> list[Statement]:
    """The statements that bind the roots or any name they reach, in source order."""
    return [everything[index] for index in sorted(_reached(everything, _by_name(everything), roots, ()))]


def _reached(
    everything: Sequence[Statement], binders: Mapping[str, list[int]], roots: Iterable[str], known: Container[int]
) -> set[int]:
    """Which statements bind the roots or any name they reach, beside those that are known."""
    queue, seen, selected = [*roots], set[str](), set[int]()
    while queue:
        name = queue.pop()
        for index in () if name in seen else binders.get(name, ()):
            if index not in known and index not in selected:
                selected.add(index)
                queue.extend(everything[index].needs)
        seen.add(name)
    return selected


def with_changes(
    everything: Sequence[Statement],
    selected: Sequence[Statement],
    apart: Collection[str],
    fault: Callable[[list[Statement]], str],
) -> tuple[list[Statement], list[tuple[Statement, str]]]:
    """A selection with what else may change its lists, dicts and objects in place, which is whatever mentions one of them, or calls what
    does. What may not be there is left out, and returned with why.

    apart: names of kernels, which change none. fault: why statements may not be there, "" if they may.
    """
    binders, own = _by_name(everything), set(map(id, selected))
    taken = {index for index, statement in enumerate(everything) if id(statement) in own}
    names = {name for statement in selected if makes_values(statement.node) for name in statement.binds}
    asked, left_out = set(taken), list[tuple[Statement, str]]()
    for _ in range(MOST_ROUNDS):
        before = len(names)
        for index in _mentioning(everything, names, apart):
            if index in asked or len(left_out) == MOST_LEFT_OUT:
                continue
            asked.add(index)
            more = {index} | _reached(everything, binders, everything[index].needs, taken)
            if why := fault([everything[one] for one in sorted(more)]):
                left_out.append((everything[index], why))
                continue
            taken |= more
            names |= {name for one in more if makes_values(everything[one].node) for name in everything[one].binds}
        if len(names) == before:
            break
    return [everything[index] for index in sorted(taken)], left_out


def _mentioning(everything: Sequence[Statement], names: set[str], apart: Collection[str]) -> Iterator[int]:
    """The statements that mention one of some names; functions that do join the names, since they do something where they are called."""
    for index, statement in enumerate(everything):
        node = statement.node
        if names.isdisjoint(statement.needs) or not statement.binds.isdisjoint(apart) or _is_main(node):
            continue
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names |= statement.binds
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or _decorated_by(node, names):
            yield index


def makes_values(node: ast.stmt) -> bool:
    """Whether what a statement binds could be changed: no import, function, or constant."""
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        return not all(isinstance(part, CONSTANT) for part in ast.walk(node.value))
    return not isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef)


def _decorated_by(node: ast.FunctionDef | ast.ClassDef, names: Container[str]) -> bool:
    return any(part.id in names for decorator in node.decorator_list for part in nodes(decorator, ast.Name))


def _is_main(node: ast.stmt) -> bool:
    """`if __name__ == "__main__":`, which nobody runs who imports the file."""
    return isinstance(node, ast.If) and any(one.id == "__name__" for one in nodes(node.test, ast.Name))


def constexpr_names(everything: Iterable[Statement]) -> frozenset[str]:
    """What else the file calls tl.constexpr: `from triton.language import constexpr as ce`, `ce = tl.constexpr`."""
    found = set()
    for statement in everything:
        node = statement.node
        if isinstance(node, ast.ImportFrom):
            found |= {alias.asname for alias in node.names if alias.name == "constexpr" and alias.asname}
        elif isinstance(node, ast.Assign):
            value = node.value
            last = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
            found |= statement.binds if last == "constexpr" else set()
    return frozenset(found)


def too_deep(selected: Iterable[Statement]) -> Statement | None:
    """The first statement nested more deeply than what reads it later, some functions a level, can follow."""
    for statement in selected:
        level: list[ast.AST] = [statement.node]
        for _ in range(MAX_DEPTH):
            level = [child for node in level for child in ast.iter_child_nodes(node)]
        if level:
            return statement
    return None


def unbound(selected: Sequence[Statement]) -> dict[str, Statement]:
    """Names that the selection needs and nothing binds, with the statement that needs them."""
    bound = {name for statement in selected for name in statement.binds} | set(dir(builtins))
    return {name: statement for statement in selected for name in sorted(statement.needs) if name not in bound}


def module_text(selected: list[Statement]) -> tuple[str, tuple[SourceLine, ...]]:
    """The selection as one module, with the student's place for each of its lines."""
    lines: list[str] = []
    places: list[SourceLine] = []
    sources: dict[str, list[bytes]] = {}
    for statement in selected:
        cell = statement.cell
        if cell.place not in sources:
            sources[cell.place] = cell.source.encode().split(b"\n")
        text = [statement.text] if statement.text else _text(statement, sources[cell.place])
        lines += text
        first = cell.called(statement.first_line, defined(statement.node))
        places += [replace(first, line=first.line + offset) for offset in range(len(text))]
    return "\n".join(lines) + "\n", tuple(places)


def _text(statement: Statement, source: list[bytes]) -> list[str]:
    """The statement's own lines; of a line that it shares with others, its part. Columns count bytes, as ast's do."""
    node, first = statement.node, statement.first_line
    last = node.end_lineno or node.lineno
    lines = source[first - 1 : last]
    if node.col_offset > 0 or lines[-1][node.end_col_offset :].split(b"#")[0].strip():
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
    return [line.decode() for line in lines]


def _binds(node: ast.stmt) -> set[str]:
    """Names that a top-level statement binds, whatever it is: in loops, handlers, patterns, and by := in comprehensions too, but not what
    functions and comprehensions call their own."""
    found: set[str | None] = set()
    waiting: list[ast.AST] = [] if isinstance(node, ast.Delete) else [node]
    while waiting:
        part = waiting.pop()
        match part:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
                waiting += [
                    inner for inner in ast.iter_child_nodes(part) if not isinstance(inner, ast.stmt | ast.arguments)
                ]
                waiting += getattr(getattr(part, "args", None), "defaults", [])
                continue
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                waiting += nodes(part, ast.NamedExpr)
                continue
            case ast.Import(names=aliases):
                found |= {alias.asname or alias.name.split(".")[0] for alias in aliases}
            case ast.ImportFrom(names=aliases):
                found |= {alias.asname or alias.name for alias in aliases}
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case (
                ast.ExceptHandler(name=name)
                | ast.MatchAs(name=name)
                | ast.MatchStar(name=name)
                | ast.MatchMapping(rest=name)
            ):
                found.add(name)
        waiting += [] if isinstance(part, ast.Lambda) else ast.iter_child_nodes(part)
    return {name for name in found if name}


def needs(node: ast.stmt) -> set[str]:
    """Module-level names that a statement refers to, by Python's own scoping rules."""
    try:
        text = ast.unparse(ast.Module(body=[node], type_ignores=[]))
        with warnings.catch_warnings(action="ignore"):
            top = symtable.symtable(text, "<cell>", "exec")
    except (ValueError, RecursionError, MemoryError, SyntaxError):  # too deep, or a number too long to be written
        return {name.id for name in nodes(node, ast.Name) if isinstance(name.ctx, ast.Load)}
    # Python 3.12 on inlines comprehensions, whose variables then look like the module's own
    comprehended = {name.id for loop in nodes(node, ast.comprehension) for name in nodes(loop.target, ast.Name)}
    needed = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()} - comprehended
    pending = list(top.get_children())
    while pending:
        table = pending.pop()
        used = (one for one in table.get_symbols() if one.is_global() and (one.is_referenced() or one.is_assigned()))
        needed |= {symbol.get_name() for symbol in used}
        pending += table.get_children()
    return needed
