"""Where did it happen? The fault's place in the kernel's syntax tree, the words for it, and the paragraph about it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from grader.compile_errors.excerpt import Span, paragraph
from grader.compile_errors.fault import Fault
from grader.compile_errors.names import parameters_of
from grader.model import KernelSource
from grader.parsing import function_named, parse

OPERATORS = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**", "LShift": "<<",
    "RShift": ">>", "BitAnd": "&", "BitOr": "|", "BitXor": "^", "MatMult": "@", "Lt": "<", "LtE": "<=", "Gt": ">",
    "GtE": ">=", "Eq": "==", "NotEq": "!=",
}  # fmt: skip
MAX_TEXT = 60
MAX_TYPES = 3
SILENT = ("module", "function", "JITFunction", "tuple", "type", "builtin_function_or_method", "None")


@dataclass(frozen=True)
class Setting:
    """A fault with its source. `node` is the innermost syntax at the place, `function` the function around it."""

    fault: Fault
    source: KernelSource

    @cached_property
    def tree(self) -> ast.Module:
        try:
            return parse(self.source.module)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ast.Module([], [])

    @cached_property
    def node(self) -> ast.AST | None:
        """The syntax that spans the place exactly, else the statement in that line."""
        fault = self.fault
        if fault.line is None:
            return None
        wanted = (fault.line, fault.column, fault.end_line, fault.end_column)
        exact = [part for part in ast.walk(self.tree) if span(part) == wanted]
        if exact:
            return exact[0].value if isinstance(exact[0], ast.Expr) else exact[0]
        begun = [part for part in ast.walk(self.tree) if (span(part) or (0, 0))[:2] == wanted[:2]]
        if begun:
            return begun[-1]
        return next(
            (part for part in ast.walk(self.tree) if isinstance(part, ast.stmt) and part.lineno == fault.line), None
        )

    @cached_property
    def text(self) -> str:
        """The syntax at the place, as Python writes it."""
        return unparsed(self.node)

    @cached_property
    def function(self) -> ast.FunctionDef | None:
        """The innermost function of the module that holds the place."""
        line = self.fault.line or 0
        holders = [
            part
            for part in ast.walk(self.tree)
            if isinstance(part, ast.FunctionDef) and part.lineno <= line <= (part.end_lineno or part.lineno)
        ]
        return max(holders, key=lambda part: part.lineno, default=None)

    def at(self, node: ast.AST | None) -> Setting:
        """The same fault at another place; unchanged for None."""
        place = span(node) if node is not None else None
        if place is None:
            return self
        line, column, end_line, end_column = place
        moved = replace(self.fault, line=line, column=column, end_line=end_line, end_column=end_column)
        return Setting(moved, self.source)

    def message(self, cause: str, next_step: str, *, quiet: bool = False) -> str:
        """The paragraph that a student reads: place, line and caret, cause, types, next step. quiet: the types say nothing here."""
        fault, source = self.fault, self.source
        caller = f"; called in {source.locate(fault.callers[-1])}" if fault.callers and not quiet else ""
        found = "" if quiet else self._types()
        where = (fault.line or 0, fault.column, fault.end_line, fault.end_column)
        place = source.locate(where[0])
        return paragraph(place, cause + caller, next_step, source=source.module, span=where, found=found)

    def _types(self) -> str:
        """What the operands are: "x is fp32 [16, 32]; w is int8 [32, 64]"."""
        chosen = {unparsed(part) for part in self.operands()}
        values = sorted(self.fault.values, key=lambda pair: pair[0] not in chosen)
        useful = [(text, kind) for text, kind in values if _informative(text, kind)]
        known = [pair for pair in useful if pair[0] in chosen] or useful
        return "; ".join(f"{shortened(text)} is {kind}" for text, kind in known[:MAX_TYPES])

    def type_of(self, node: ast.AST | str) -> str:
        """What the fault says of an expression's type: "int8 [32, 64]", or nothing."""
        text = node if isinstance(node, str) else unparsed(node)
        return dict(self.fault.values).get(text, "")

    def operands(self) -> list[ast.expr]:
        """Both sides of an operator or comparison, or the arguments of a call."""
        node = self.node
        if isinstance(node, ast.AugAssign):
            return [node.target, node.value]
        if isinstance(node, ast.BinOp):
            return [node.left, node.right]
        if isinstance(node, ast.Compare):
            return [node.left, node.comparators[0]]
        if isinstance(node, ast.Call):
            return [*node.args, *(word.value for word in node.keywords)]
        return []

    @cached_property
    def words(self) -> dict[str, str]:
        """The braces of a message that describe the place."""
        node, operands = self.node, self.operands()
        pair = [*operands[:2], None, None][:2]
        called = unparsed(node.func) if isinstance(node, ast.Call) else self.text
        parameters = parameters_of(called) if isinstance(node, ast.Call) else []
        return {
            "call": called or "this",
            "signature": f": {called}({', '.join(parameters)})" if parameters else self._own_signature(called),
            "text": shortened(self.text),
            "left": shortened(unparsed(pair[0])),
            "right": shortened(unparsed(pair[1])),
            "left_type": self.type_of(unparsed(pair[0])),
            "right_type": self.type_of(unparsed(pair[1])),
            "count": str(len(operands)),
            "operator": _operator(node),
            "iterated": shortened(unparsed(node.iter)) if isinstance(node, ast.For) else "",
            "subscripted": shortened(unparsed(node.value)) if isinstance(node, ast.Subscript) else "",
            "subscripted_type": self.type_of(node.value) if isinstance(node, ast.Subscript) else "",
            "index": unparsed(node.slice) if isinstance(node, ast.Subscript) else "",
        }

    def _own_signature(self, called: str) -> str:
        function = function_named(self.tree, called)
        return f": {called}({', '.join(argument.arg for argument in function.args.args)})" if function else ""


def _informative(text: str, kind: str) -> bool:
    return bool(kind and re.search(r"[^\W\d]", text)) and kind not in SILENT and not kind.startswith("dtype")


def span(node: ast.AST) -> Span | None:
    """(line, column, end line, end column) of a node that has them."""
    if not isinstance(getattr(node, "lineno", None), int):
        return None
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]


def unparsed(node: ast.AST | None) -> str:
    """The node's source as Python writes it; nothing for None."""
    if node is None:
        return ""
    try:
        return ast.unparse(node)
    except (ValueError, RecursionError, AttributeError):
        return ""


def shortened(text: str) -> str:
    """At most a part of a line."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 4]} ..."


def jitted(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """The jit functions at the top of the module."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any("jit" in unparsed(decorator) for decorator in node.decorator_list):
            yield node


def plain_types(message: str) -> str:
    """A message with Triton's types in a kernel's words: `<['16', '32'], fp16>` is `fp16 [16, 32]`."""
    message = message.replace("triton.language.", "")
    for long, short in (("float16", "fp16"), ("bfloat16", "bf16"), ("float32", "fp32"), ("float64", "fp64")):
        message = re.sub(rf"\b{long}\b", short, message)
    message = re.sub(r"constexpr\[(-?\w+)\]", r"\1", message)
    message = re.sub(r"(?<=[\[ ])'(\d+)'(?=[,\]])", r"\1", message)

    def block(match: re.Match[str]) -> str:
        shape = re.sub(r"['\s]", "", match["shape"]).replace(",", ", ")
        return _typed(match["element"], f"[{shape}]")

    message = re.sub(r"<\[(?P<shape>[^\]]*)\], (?P<element>pointer<[^<>]*>|[^<>]*)>", block, message)
    message = re.sub(r"(?P<element>pointer<\w+>|\b\w+\d)\[(?P<shape>[\d, ]*)\]", block, message)
    return re.sub(r"pointer<([^<>]*)>", r"pointer to \1", message)


def _typed(element: str, shape: str) -> str:
    if element.startswith("pointer<"):
        return f"pointers to {element[8:-1]} {shape}" if shape != "[]" else f"pointer to {element[8:-1]}"
    return f"{element} {shape}" if shape != "[]" else f"scalar {element}"


def _operator(node: ast.AST | None) -> str:
    if isinstance(node, ast.BinOp | ast.AugAssign):
        return OPERATORS.get(type(node.op).__name__, "")
    if isinstance(node, ast.Compare):
        return OPERATORS.get(type(node.ops[0]).__name__, "")
    return "this"


def last_store(node: ast.AST | None, name: str) -> ast.AST | None:
    """The last assignment to a name within a node."""
    stores = [
        part
        for part in ast.walk(node or ast.Module([], []))
        if isinstance(part, ast.Assign | ast.AugAssign | ast.AnnAssign)
        and any(isinstance(t, ast.Name) and t.id == name for target in targets(part) for t in ast.walk(target))
    ]
    return max(stores, key=lambda part: part.lineno, default=None)


def targets(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> list[ast.expr]:
    """What an assignment assigns to."""
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def sizes_of(kind: str) -> list[int]:
    """The sizes of a tile by its type, such as "int8 [32, 64]"; none for a number or a pointer."""
    found = re.search(r"\[([\d, ]+)\]$", kind)
    return [int(size) for size in found[1].split(",")] if found else []
