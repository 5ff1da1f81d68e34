"""From a submission's text and what describe reported of it to the one module that is compiled and interpreted.

The generated module holds the text of the jit functions that the kernel reaches, under decorators, annotations and defaults of
the grader's, and the constants that describe reported, as literals. So machine code is what Triton made of text that a
human can read: describe, where a student's Python runs, can choose numbers and which of several definitions counts, and
no more.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from grader.building.reports import Constant, ConstexprReport, FunctionReport, Report, Symbol, TritonObject, TupleReport
from grader.building.resolving import BUILTINS, Refused, Resolver, language, permitted, permitted_module
from grader.compile_errors.excerpt import Span, paragraph
from grader.compile_errors.matchers import called
from grader.compile_errors.setting import span
from grader.model import GeneratedModule, KernelSource
from grader.parsing import nodes, parse
from grader.reading.selection import needs

HEADER = (
    "from triton import constexpr_function as __constexpr_function, jit as __jit",
    "from triton.language import constexpr",
)
CONSTEXPR = "constexpr"
"""Its one name in the generated module: Triton's interpreter knows constexpr parameters by how the annotation is written."""

MAX_FUNCTIONS = 64
MAX_CALLS = 1000
"""Calls of helpers, each counted as often as it is written out. Triton takes a second for a thousand and a minute for eight
thousand; the solutions have fewer than ten."""


class NotGenerated(Exception):
    """The text cannot be made into a module; the message is one sentence with the student's own place in it."""


_Line = tuple[str, int]
"""A line of the generated module, and the line of the submission's module that it came from (0: ours)."""


def referred_names(module: str) -> tuple[str, ...]:
    """Every name that a function of this module's text refers to outside itself, and the functions' own names."""
    functions = list(nodes(parse(module), ast.FunctionDef))
    names = {name for node in functions for name in needs(_bare(node))} | {node.name for node in functions}
    return tuple(sorted(name for name in names if not name.startswith("__")))


def generated_module(
    source: KernelSource, kernel: FunctionReport, reported: Mapping[str, Report], *, prints: bool = False
) -> GeneratedModule:
    """The module that is compiled and interpreted. prints: with the kernel's own prints, for the interpreter alone. Raises NotGenerated for
    text that may not be compiled."""
    return _Generator(source, kernel, reported, prints=prints).made()


class _Generator:
    def __init__(
        self, source: KernelSource, kernel: FunctionReport, reported: Mapping[str, Report], *, prints: bool
    ) -> None:
        self.source, self.prints = source, prints
        self.reported = {**reported, source.kernel: kernel}
        tree = parse(source.module)
        self.functions = {_first_line(node): node for node in nodes(tree, ast.FunctionDef)}
        self.written = _written_constants(tree)
        bound = (
            part for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) for part in nodes(node, ast.Name)
        )
        self.bound = {part.id: part.lineno for part in bound if isinstance(part.ctx, ast.Store)}

    def made(self) -> GeneratedModule:
        known: dict[str, Any] = {CONSTEXPR: language().constexpr}
        headers: list[_Line] = []
        bodies: list[_Line] = []
        waiting, seen = [self.source.kernel], set[str]()
        while waiting:
            name = waiting.pop()
            report = self.reported.get(name)
            if name in seen or report is None or name.startswith("__"):  # the header's own
                continue
            seen.add(name)
            if len(seen) > 16 * MAX_FUNCTIONS:
                raise NotGenerated(f"{self.source.kernel} refers to more than {16 * MAX_FUNCTIONS} names; use fewer")
            if isinstance(report, FunctionReport):
                node = self._function(name, report)
                bodies += _function_lines(self.source.module, name, node, report, prints=self.prints)
                known[name] = None
                waiting += sorted(needs(_bare(node)))
            else:
                line, known[name] = self._binding(name, report)
                headers.append((line, self.bound.get(name, 0)))
        used = set(re.findall(r"\b__(\w+)\b", "\n".join(line for line, _ in headers + bodies)))
        imported = sorted(used & set(dtypes().values()))
        ours = [*HEADER, *(f"from triton.language import {name} as __{name}" for name in imported)]
        written = [*((line, 0) for line in ours), *headers, *bodies]
        text = "".join(f"{line}\n" for line, _ in written)
        lines = tuple(origin for _, origin in written)
        assert len(lines) == text.count("\n")
        self._check(text, lines, known)
        return GeneratedModule(text, self.source.kernel, lines)

    def _function(self, name: str, report: FunctionReport) -> ast.FunctionDef:
        if name == CONSTEXPR:
            raise NotGenerated(
                f"{self.source.locate(report.line)}: a function is called `constexpr`, which is Triton's; give it another name"
            )
        node = self.functions.get(report.line)
        if node is None:
            raise NotGenerated(
                f"`{name}` was not made by a `def` of this file's text; expected a function written out under @triton.jit"
            )
        for inner in (inner for part in node.body for inner in ast.walk(part)):
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                cause = f"`{inner.name}` is a function inside a function; define it at top level, under @triton.jit"
                raise NotGenerated(f"{self.source.locate(inner.lineno)}: {cause}")
        arguments = node.args
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
            cause = f"{node.name} has *args, **kwargs or keyword-only parameters, which Triton does not compile"
            raise NotGenerated(self._paragraph(cause, "name each parameter, without *", _beginning(node)))
        return node

    def _binding(self, name: str, report: Report) -> tuple[str, Any]:
        """The line that binds a name which is no function of the text, and what the name stands for."""
        if name in self.written and not _agrees(self.written[name], report):
            both = f"{self.written[name]!r} where it is written and {shown(report)} once the file has run"
            raise self._fault(name, f"`{name}` is {both}; a constant keeps the value that it is written with")
        if name == CONSTEXPR:
            if report != TritonObject("triton.language.core", CONSTEXPR):
                raise self._fault(name, "`constexpr` is not Triton's here; restore the name")
            return f"from triton.language import {CONSTEXPR}", language().constexpr
        kind, symbol = (report.kind, report.name) if isinstance(report, Symbol) else ("", "")
        if kind == "module":
            module = permitted_module(symbol)
            if module is None:
                raise self._fault(name, f"found the module `{symbol}` in a kernel; use triton.language")
            return f"import {symbol} as {name}", module
        if isinstance(report, TritonObject):
            module = permitted_module(report.module)
            thing = getattr(module, report.name, ast) if module else ast
            if thing is ast or not permitted(thing):
                what = f"{report.module}.{report.name}".strip(".")
                raise self._fault(name, f"`{name}` is {what}, which a kernel may not use; use triton.language")
            return f"from {report.module} import {report.name} as {name}", thing
        if kind == "builtin" and symbol in BUILTINS:
            return f"{name} = {symbol}", symbol
        if report == Symbol("other", "function"):
            raise NotGenerated(self._plain_function(name))
        try:
            return f"{name} = {_literal(report)}", None
        except ValueError:
            expected = "expected a number, bool, string, dtype or function of triton.language"
            instead = _INSTEAD.get(symbol if kind == "other" else "", "write it as a constant")
            found = f"the kernel uses `{name}`, which is {shown(report)}"
            raise self._fault(name, f"{found}; {expected}; {instead}") from None

    def _fault(self, name: str, sentence: str) -> NotGenerated:
        """What is wrong with a name, where the first function that refers to it does so."""
        return NotGenerated(f"{self._use(name)}: {sentence}")

    def _check(self, text: str, lines: Sequence[int], known: Mapping[str, Any]) -> None:
        """What Triton's front end will read of each function is what the resolver walks, and it comes to an end."""
        functions = {node.name: node for node in parse(text).body if isinstance(node, ast.FunctionDef)}
        for node in functions.values():
            report = self.reported[node.name]
            assert isinstance(report, FunctionReport)
            block = _block(text, _first_line(node))
            if not _read_alike(block.rstrip("\n").split("\n")) or ast.dump(parse(block).body[0]) != ast.dump(node):
                raise NotGenerated(
                    f"{self.source.locate(report.line)}: {node.name} cannot be read line by line; format it plainly"
                )
            try:
                Resolver(known, constexpr_function=report.kind == "constexpr").check(node)
            except Refused as refused:
                raise NotGenerated(self._message(refused, text, lines, report.line)) from None
        if _call_count(self.source.kernel, functions) > MAX_CALLS:
            raise NotGenerated(
                f"the helpers of {self.source.kernel} make more than {MAX_CALLS} calls in all, and Triton inlines "
                "each of them; call them in a loop, or once on a larger tile"
            )

    def _message(self, refused: Refused, text: str, lines: Sequence[int], first_line: int) -> str:
        """A refusal at its place in the submission, with a caret where the line stands there as it was made."""
        at, column, end_line, end_column = span(refused.node) or (0, None, None, None)
        line = (lines[at - 1] if at else 0) or first_line
        where: Span = (line, None, None, None)
        if at and end_line and self.source.module.split("\n")[line - 1] == text.split("\n")[at - 1]:
            where = (line, column, line + end_line - at, end_column)
        return self._paragraph(refused.cause, refused.next_step, where)

    def _paragraph(self, cause: str, next_step: str, where: Span) -> str:
        return paragraph(self.source.locate(where[0]), cause, next_step, source=self.source.module, span=where)

    def _plain_function(self, name: str) -> str:
        decorator = "@triton.constexpr_function" if self._makes_constexpr(name) else "@triton.jit"
        cause = f"`{name}` is a plain Python function, which a kernel cannot call"
        node = next((node for node in self.functions.values() if node.name == name), None)
        if node is None:  # a lambda
            return paragraph(self._use(name), cause, f"write it as a function: {decorator} above def {name}(...):")
        return self._paragraph(cause, f"put {decorator} above `def {name}`", _beginning(node))

    def _makes_constexpr(self, name: str) -> bool:
        """Whether a function is called for a constexpr: `WORDS: tl.constexpr = words(BLOCK_K)`."""
        assigned = (part for node in self.functions.values() for part in nodes(node, ast.AnnAssign))
        made = (part.value for part in assigned if ast.unparse(part.annotation).endswith("constexpr"))
        calls = (part.func for value in made for part in nodes(value, ast.Call))
        return any(isinstance(one, ast.Name) and one.id == name for one in calls)

    def _use(self, name: str) -> str:
        """Where the first function that refers to a name does so."""
        uses = (part for node in self.functions.values() for part in nodes(node, ast.Name) if part.id == name)
        return self.source.locate(next((part.lineno for part in uses), 0))


def _first_line(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _beginning(node: ast.FunctionDef) -> Span:
    """Where a caret points at a whole function: its `def`."""
    return node.lineno, node.col_offset, None, None


def _bare(node: ast.FunctionDef) -> ast.FunctionDef:
    """The function without decorators, annotations and defaults, which the grader writes itself."""
    names = [ast.arg(argument.arg) for argument in node.args.posonlyargs + node.args.args]
    arguments = ast.arguments(posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=[])
    bare = ast.FunctionDef(
        name=node.name,
        args=arguments,
        body=node.body,
        decorator_list=[],
        lineno=node.lineno,
        col_offset=node.col_offset,
    )
    return ast.fix_missing_locations(bare)


def _function_lines(
    module: str, name: str, node: ast.FunctionDef, report: FunctionReport, *, prints: bool
) -> list[_Line]:
    """A function under our own decorator and signature, its body as it is written."""
    decorator = "@__constexpr_function"
    if report.kind == "jit":
        decorator = "@__jit(noinline=True)" if report.noinline else "@__jit"
    signature = ", ".join(_parameter(argument, report) for argument in node.args.posonlyargs + node.args.args)
    head = [(decorator, _first_line(node)), (f"def {name}({signature}):", node.lineno)]
    statements = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    source = module.split("\n")
    if statements and not source[statements[0].lineno - 1][: statements[0].col_offset].strip():
        places = range(statements[0].lineno, (node.end_lineno or 0) + 1)
        written = source if prints else _without_prints(source, node)
        whole = [*head, *((written[line - 1], line) for line in places)]
        if _read_alike([line for line, _ in whole]):
            return whole
    unparsed = [(f"    {line}", part.lineno) for part in statements for line in ast.unparse(part).split("\n")]
    return [*head, *(unparsed or [("    pass", node.lineno)])]


def _without_prints(lines: Sequence[str], node: ast.FunctionDef) -> list[str]:
    """The lines with `pass` for each tl.device_print: what it prints goes nowhere, and a graded cubin calls nothing."""
    edited = list(lines)
    for part in nodes(node, ast.Expr):
        first, last = part.lineno - 1, (part.end_lineno or part.lineno) - 1
        indent = edited[first][: part.col_offset]
        alone = not indent.strip() and not edited[last].encode()[part.end_col_offset :].decode().split("#")[0].strip()
        if called(part.value) in ("device_print", "print") and alone:
            edited[first : last + 1] = [f"{indent}pass", *[""] * (last - first)]
    return edited


def _read_alike(lines: Sequence[str]) -> bool:
    """Whether a function's lines are the same function to Python, to Triton's compiler and to its interpreter.

    The compiler takes inspect's block from the first `def` on, the interpreter from the last line that begins with it.
    """
    text = "\n".join(lines) + "\n"
    if sum(line.strip().startswith(("def ", "async def ")) for line in lines) != 1:
        return False
    try:
        whole, block = parse(text), parse(_block(text, 1))
    except SyntaxError:
        return False
    return len(whole.body) == 1 and ast.dump(whole) == ast.dump(block)


def _parameter(argument: ast.arg, report: FunctionReport) -> str:
    written = ast.unparse(argument.annotation) if argument.annotation else ""
    constexpr = "constexpr" in written or argument.arg in report.constexprs
    text = f"{argument.arg}: constexpr" if constexpr else argument.arg
    default = report.defaults.get(argument.arg)
    if default is None:
        return text
    try:
        return f"{text} = {_literal(default)}"
    except ValueError:
        raise NotGenerated(
            f"the default of `{argument.arg}` is {shown(default)}; expected a number, bool or string"
        ) from None


def _literal(report: Report) -> str:
    """A reported constant as Python text, in which no name stands that a submission could bind."""
    if isinstance(report, Constant):
        value = report.value
        return _float(value) if isinstance(value, float) else repr(value)
    if isinstance(report, ConstexprReport):
        return f"constexpr({_literal(report.value)})"
    if isinstance(report, Symbol) and report.kind == "dtype" and report.name in dtypes():
        return f"__{dtypes()[report.name]}"
    if isinstance(report, TupleReport):
        parts = [_literal(part) for part in report.parts]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    raise ValueError("no literal")


def _float(value: float) -> str:
    """A float as Python text. Infinity and NaN have no literal: a number that is too large becomes the one, two of them the other."""
    return "(1e999 - 1e999)" if math.isnan(value) else repr(value).replace("inf", "1e999")


def shown(report: Report) -> str:
    """A report in words, for messages."""
    try:
        return _literal(report)
    except ValueError:
        kind = report.kind if isinstance(report, Symbol) else ""
        own = {"module": "a module", "builtin": "a Python builtin", "other": f"a {getattr(report, 'name', '')}"}
        return "a function of Triton's" if isinstance(report, TritonObject) else own.get(kind, "no constant")


@cache
def dtypes() -> Mapping[str, str]:
    """Names of triton.language's dtypes by what Triton calls them: fp16, int32 and so on."""
    tl = language()
    found = [(name, getattr(tl, name)) for name in sorted(dir(tl))]
    return {str(thing): name for name, thing in found if isinstance(thing, tl.dtype) and not thing.is_ptr()}


_INSTEAD = {
    "dict": "give each of its values a name: LOW = tl.constexpr(-128.0)",
    "partial": "write a function under @triton.jit that calls the other one",
    "type": "give each value of the class a name of its own, BITS = tl.constexpr(4), and return several values from a helper as a "
    "plain tuple",
    "EnumType": "give each of its values a name of its own: ROWS = tl.constexpr(0)",
}
"""What to write instead of a value that no kernel can use, by its type."""


def _written_constants(tree: ast.Module) -> dict[str, object]:
    """Values of names that the text binds once, at top level, to a literal or to constexpr(literal)."""
    bound: dict[str, list[ast.expr]] = {}
    rebound: set[str] = set()
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                bound.setdefault(name, []).append(value)
            case ast.Assign() | ast.AnnAssign():
                pass
            case _:
                rebound |= {part.id for part in nodes(node, ast.Name) if isinstance(part.ctx, ast.Store)}
    once = {name: values[0] for name, values in bound.items() if len(values) == 1 and name not in rebound}
    return dict(written for name, value in once.items() for written in _written(name, value))


def _written(name: str, value: ast.expr) -> Iterator[tuple[str, object]]:
    """The name and what is written for it, if that is a literal."""
    if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("constexpr") and len(value.args) == 1:
        value = value.args[0]
    try:
        written = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return
    if isinstance(written, bool | int | float | str | None):
        yield name, written


def _agrees(written: object, report: Report) -> bool:
    if isinstance(report, ConstexprReport):
        return _agrees(written, report.value)
    return isinstance(report, Constant) and type(report.value) is type(written) and report.value == written


def _block(text: str, first_line: int) -> str:
    """The lines that inspect, and so Triton, takes for the function that begins at a line."""
    return textwrap.dedent("".join(inspect.getblock([line + "\n" for line in text.split("\n")[first_line - 1 :]])))


def _call_count(kernel: str, functions: Mapping[str, ast.FunctionDef]) -> int:
    """The calls of these functions that `kernel` comes to, at most MAX_CALLS + 1. A call that leads back to its caller counts once.

    Triton writes a helper out at each of its calls, and so the helpers that this one calls: a chain of helpers of which each calls the one
    before it twice doubles with every link. Not by recursion: a chain may have more links than Python has frames.
    """
    counted: dict[str, int] = {}
    callees: dict[str, list[str]] = {}
    waiting = [kernel]
    while waiting:
        name = waiting[-1]
        if name not in callees:
            callees[name] = _called(functions[name], functions)
            waiting += [callee for callee in callees[name] if callee not in callees]
            continue
        waiting.pop()
        counted[name] = min(MAX_CALLS + 1, sum(1 + counted.get(callee, 0) for callee in callees[name]))
    return counted[kernel]


def _called(function: ast.FunctionDef, functions: Mapping[str, ast.FunctionDef]) -> list[str]:
    """The functions that one calls, as often as it does."""
    parts = (part.func for part in nodes(function, ast.Call))
    return [part.id for part in parts if isinstance(part, ast.Name) and part.id in functions]
