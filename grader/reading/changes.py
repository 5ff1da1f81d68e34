"""Which lists, dicts and objects does a statement change in place, itself or by a function of the file's?

Found by names: what may be changed counts. `C.` stands for what is in C: `first = C[0]` makes a change of `first` one of `C.`, and after
`rows.append(C)` a change of `rows.` is one of `C.`, but one of `rows` is none. Students' files of any size are read here, so each search
ends after MOST names.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

METHODS = frozenset("append extend insert update setdefault add remove discard pop popitem clear sort reverse".split())
"""Of a list, dict or set: those that change it."""
SETTERS = ("setattr", "delattr")
MAKERS = frozenset("list tuple set frozenset dict sorted reversed zip enumerate map filter".split())
"""Of Python's own functions: those whose result is a new object, with what it was given in it."""
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
MOST = 32

Edges = Mapping[str, Iterable[str]]


@dataclass(frozen=True)
class _Code:
    """What a statement, or a function's body, does. changed: the names whose values it changes itself; calls: the functions that it
    mentions; given: each call of one, with the names handed over; parameters and local: a function's own names."""

    changed: frozenset[str]
    calls: frozenset[str]
    given: tuple[tuple[str, frozenset[str]], ...]
    parameters: frozenset[str] = frozenset()
    local: frozenset[str] = frozenset()

    def effect(self, changers: Container[str]) -> frozenset[str]:
        """The names outside it whose values it changes, or hands to a function that changes what it is given."""
        handed = {name for called, names in self.given if called in changers for name in names}
        return frozenset(name for name in self.changed | handed if name.rstrip(".") not in self.local)


@dataclass(frozen=True)
class Names:
    """What names at the top level of a file stand for. functions: by name, what each changes outside itself; calls: which others each
    mentions; changers: those that change what they are given; parts: of a name, those whose value, or a part of it, it may be, as `first`
    is of `CONFIGS` after `first = CONFIGS[0]`; apart: functions and modules, in which nothing is kept."""

    functions: Mapping[str, frozenset[str]]
    calls: Edges
    changers: frozenset[str]
    parts: Edges
    apart: frozenset[str]

    def changed(self, statement: ast.stmt) -> frozenset[str]:
        """The top-level names whose value a statement may change in place."""
        if isinstance(statement, SCOPES):
            return frozenset()
        code = _code([statement], self.functions)
        inner = (self.functions[name] for name in _reached(code.calls, self.calls))
        found = _reached(code.effect(self.changers).union(*inner), self.parts)
        return frozenset(name.rstrip(".") for name in found) - self.apart


def names(statements: Iterable[ast.stmt]) -> Names:
    """Of all of a file's top-level statements."""
    found: dict[str, ast.FunctionDef | ast.Lambda] = {}
    rest: list[ast.stmt] = []
    apart: set[str] = set()
    for statement in statements:
        match statement:
            case ast.FunctionDef(name=name):
                found[name] = statement
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda() as function):
                found[name] = function
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                apart |= {alias.asname or alias.name.split(".")[0] for alias in aliases}
            case _:
                rest.append(statement)
    codes = {name: _function(one, found) for name, one in found.items()}
    changers = _changers(codes)
    effects = {name: code.effect(changers) for name, code in codes.items()}
    calls = {name: code.calls for name, code in codes.items()}
    return Names(effects, calls, changers, _aliases(rest), frozenset(apart | set(found)))


def _changers(functions: Mapping[str, _Code]) -> frozenset[str]:
    """The functions that change a parameter of their own, or mention one that does."""
    callers: dict[str, list[str]] = {}
    for name, code in functions.items():
        for called in code.calls:
            callers.setdefault(called, []).append(name)
    waiting = [name for name, code in functions.items() if {one.rstrip(".") for one in code.changed} & code.parameters]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += callers.get(name, ())
    return frozenset(found)


def _function(function: ast.FunctionDef | ast.Lambda, functions: Container[str]) -> _Code:
    body = function.body if isinstance(function, ast.FunctionDef) else [function.body]
    own = function.args
    named = [*own.posonlyargs, *own.args, *own.kwonlyargs, *filter(None, (own.vararg, own.kwarg))]
    parameters = frozenset(one.arg for one in named)
    shared = {name for node in _own(body) if isinstance(node, ast.Global) for name in node.names}
    stored = {node.id for node in _own(body) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    code = _code(body, functions)
    return replace(code, parameters=parameters, local=(parameters | stored) - shared)


def _code(nodes: Sequence[ast.AST], functions: Container[str]) -> _Code:
    changed, calls = set[str](), set[str]()
    given: list[tuple[str, frozenset[str]]] = []
    aliases = _aliases(nodes)
    for node in _own(nodes):
        if isinstance(node, ast.Call) and (called := _named([node.func, *node.args], functions)):
            handed = _all([*node.args, *(keyword.value for keyword in node.keywords)])
            given += [(name, frozenset(_reached(handed, aliases))) for name in called]
        if isinstance(node, ast.Name) and node.id in functions:
            calls.add(node.id)
        changed |= {name for part in _changed(node) for name in _marks(part, inside=False)}
    return _Code(frozenset(_reached(changed, aliases)), frozenset(calls), tuple(given))


def _changed(node: ast.AST) -> list[ast.expr]:
    """What a node itself changes: `C` of C.append(2), C[0] = 2, C += [2], del C[0] and setattr(C, "a", 2)."""
    match node:
        case (
            ast.Attribute(value=part, ctx=ast.Store() | ast.Del())
            | ast.Subscript(value=part, ctx=ast.Store() | ast.Del())
            | ast.AugAssign(target=ast.Name() as part)
        ):
            return [part]
        case ast.Call(func=ast.Attribute(value=part, attr=attr)) if attr in METHODS:
            return [part]
        case ast.Call(func=ast.Name(id=name), args=[part, *_]) if name in SETTERS:
            return [part]
    return []


def _named(parts: Sequence[ast.expr], functions: Container[str]) -> list[str]:
    """The functions among what a call names: itself, and what it hands over, as map(add, sizes) does."""
    return [part.id for part in parts if isinstance(part, ast.Name) and part.id in functions][:MOST]


def _aliases(nodes: Sequence[ast.AST]) -> dict[str, set[str]]:
    """What a change of a name changes too, and one of what is in it."""
    found: dict[str, set[str]] = {}

    def add(names: Iterable[str], marks: set[str]) -> None:
        for name in names if marks else ():
            found.setdefault(name, set()).update(marks)

    for node in _own(nodes):
        match node:
            case ast.Assign(targets=targets, value=value):
                whole = isinstance(targets[0], ast.Name)
            case ast.NamedExpr(target=target, value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                targets, whole = [target], True
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                targets, whole = [target], False
            case _:
                held = [name.rstrip(".") for part in _changed(node) for name in _marks(part, inside=False)]
                values = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)] if held else []
                add((f"{name}." for name in held), _all(values) - set(held))
                continue
        within = _marks(value, inside=True)
        itself = _marks(value, inside=False) if whole else within
        for target in targets:
            bound = [part.id for part in ast.walk(target) if isinstance(part, ast.Name)]
            add(bound if isinstance(target, ast.Name | ast.Tuple | ast.List) else (), itself)
            add((f"{name}." for name in bound), within | itself)
    return found


def _all(values: Iterable[ast.expr]) -> set[str]:
    return {name for value in values for inside in (False, True) for name in _marks(value, inside=inside)}


def _marks(value: ast.expr, *, inside: bool) -> set[str]:
    """What a change of a value changes: `A` of A, `A.` of A[0].kwargs, A.get(2) and max(A), nothing of [A, 2], A + A and f(A). inside: what
    one of something in it does, which is `A` or `A.` for [A, 2], too."""
    found: set[str] = set()
    waiting = [(value, inside)]
    for _ in range(MOST * MOST):
        if not waiting:
            break
        part, within = waiting.pop()
        match part:
            case ast.Name(id=name):
                found.add(f"{name}." if within else name)
            case ast.Subscript(value=whole, slice=ast.Slice()):
                waiting += [(whole, True)] if within else []
            case ast.Attribute(value=whole) | ast.Subscript(value=whole) | ast.Call(func=ast.Attribute(value=whole)):
                waiting.append((whole, True))
                if isinstance(part, ast.Call) and isinstance(whole, ast.Name) and whole.id == "itertools":
                    waiting += [(one, True) for one in part.args]
            case ast.NamedExpr(value=whole) | ast.Starred(value=whole):
                waiting.append((whole, within))
            case ast.Call(func=ast.Name(id=name), args=args) if hasattr(builtins, name):
                waiting += [(one, True) for one in args] if within or name not in MAKERS else []
            case ast.ListComp(elt=whole, generators=loops) | ast.GeneratorExp(elt=whole, generators=loops) if within:
                waiting += [(one, True) for one in (whole, *(loop.iter for loop in loops))]
            case ast.IfExp() | ast.BoolOp():
                waiting += [(one, within) for one in ast.iter_child_nodes(part) if isinstance(one, ast.expr)]
            case ast.List() | ast.Tuple() | ast.Set() | ast.Dict() | ast.BinOp() if within:
                parts = [one for one in ast.iter_child_nodes(part) if isinstance(one, ast.expr)]
                waiting += [(one, deeper) for one in parts for deeper in (False, True)]
    return found


def _reached(names: Iterable[str], edges: Edges) -> set[str]:
    """Names, and those that their edges lead to."""
    found: set[str] = set()
    waiting = list(names)[:MOST]
    while waiting and len(found) < MOST:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += list(edges.get(name, ()))[:MOST]
    return found


def _own(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes of some code but those of functions and classes within it, which run when they are called."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, SCOPES):
            waiting += ast.iter_child_nodes(node)
