"""Where does every name in a jit function end? In Triton, in the submission's own text, or nowhere.

Triton's code generator calls plain Python functions that it meets, and follows attributes of modules; on the
interpreter a kernel is ordinary Python. So the text of a jit function is resolved, not matched: a dotted name is followed
through Triton's modules and must end in a Triton builtin, a jit function, a dtype or a constant; attributes of values must
be those of tensors, dtypes and descriptors; what builds or reaches other Python objects is refused.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import enum
import importlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

MODULES = (
    "triton",
    "triton.language",
    "triton.language.core",
    "triton.language.math",
    "triton.language.standard",
    "triton.language.random",
    "triton.language.target_info",
    "triton.language.extra",
    "triton.language.extra.libdevice",
    "triton.language.extra.cuda",
    "triton.language.extra.cuda.libdevice",
    "math",
)
"""Modules that a jit function may name. Of `triton` and `extra.cuda` only what leads on counts."""

LIBDEVICE = ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice")
BUILTINS = frozenset({"range", "min", "max", "len", "int", "float", "print"})
"""Python builtins that Triton's compiler implements and that can reach nothing else."""

CONSTEXPR_BUILTINS = BUILTINS - {"print"} | {"abs", "bool", "sum", "round", "divmod", "tuple"}
FOREIGN = frozenset({"extern_elementwise", "builtin", "extern", "call", "must_use_result"})
"""Parts of triton.language that link files or wrap Python functions."""

VALUE_ATTRIBUTES = frozenset(
    "T dtype shape type element_ty scalar numel value name primitive_bitwidth itemsize fp_mantissa_width int_bitwidth "
    "int_signedness load store gather scatter block_shape block_type strides base".split()
)
TEACH = {
    ast.Lambda: "a lambda; write a function of your own under @triton.jit",
    ast.Try: "try; a kernel raises and catches nothing",
    ast.Raise: "raise; use tl.device_assert or tl.static_assert",
    ast.Import: "an import; import at the top of the file",
    ast.ImportFrom: "an import; import at the top of the file",
    ast.FunctionDef: "a function inside a function; define it at top level under @triton.jit",
    ast.AsyncFunctionDef: "an async function; write it as a plain one",
    ast.ClassDef: "a class; write functions under @triton.jit",
    ast.With: "with; a kernel opens nothing",
    ast.Global: "global; return the value instead",
    ast.Nonlocal: "nonlocal; return the value instead",
    ast.Delete: "del; Triton needs none",
    ast.NamedExpr: "`:=`; assign on a line of its own",
    ast.GeneratorExp: "a generator; use tl.sum, tl.max or a loop over range",
    ast.DictComp: "a dict; pass values as parameters",
    ast.SetComp: "a set; pass values as parameters",
    ast.Dict: "a dict; pass values as parameters",
    ast.Set: "a set; pass values as parameters",
    ast.Yield: "yield; a jit function returns once",
    ast.YieldFrom: "yield; a jit function returns once",
    ast.Await: "await; a jit function returns once",
    ast.Match: "match; use if and elif",
}
INSTEAD = {
    "abs": "tl.abs", "sum": "tl.sum", "round": "tl.extra.libdevice.rint", "pow": "tl.exp2(y * tl.log2(x))",
    "enumerate": "range", "zip": "range", "list": "tl.arange", "isinstance": "a tl.constexpr parameter",
    "getattr": "the name itself", "hasattr": "a tl.constexpr parameter", "type": ".dtype", "bool": "a comparison",
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """A line of the module that holds what it may not, and the sentence without its place."""

    line: int
    sentence: str


@dataclass(frozen=True)
class Global:
    """What a global name of a jit function stands for: `thing` is a module, a Triton object, or None for a constant
    or a function of the submission's own text."""

    thing: Any = None


@cache
def language() -> Any:
    """triton.language, whatever TRITON_INTERPRET says."""
    return importlib.import_module("triton.language")


@cache
def _value_attributes() -> frozenset[str]:
    tl = language()
    names = set(VALUE_ATTRIBUTES)
    for kind in (tl.tensor, getattr(tl.core, "tensor_descriptor", tl.tensor)):
        names |= {name for name in dir(kind) if not name.startswith("_")}
    names |= {name for name in dir(tl.dtype) if name.startswith("is_")}
    return frozenset(names - {"handle"})


def permitted_module(name: str) -> ModuleType | None:
    """The module of this name where a jit function may name it, else None."""
    if name not in MODULES:
        return None
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def permitted(thing: Any) -> bool:
    """Whether a jit function may use this object of Triton's: a builtin, jit function, dtype, constant or loop."""
    tl = language()
    name = getattr(thing, "__name__", "")
    home = str(getattr(thing, "__module__", "") or "")
    if name in FOREIGN:
        return False
    if thing is None or isinstance(thing, bool | int | float | str | tl.dtype | tl.constexpr):
        return True
    if any(thing is kind for kind in (tl.constexpr, tl.range, tl.static_range)):
        return True
    if isinstance(thing, enum.Enum) or type(thing).__name__ == "PropagateNan":
        return True
    if getattr(thing, "__triton_builtin__", False):
        return not home.startswith("triton.language.extra") or home in LIBDEVICE
    if type(thing).__name__ in ("JITFunction", "InterpretedFunction", "ConstexprFunction"):
        return _home(thing).startswith("triton.")
    if home in LIBDEVICE:
        return callable(thing) and not isinstance(thing, type)
    if home == "math":
        return callable(thing)
    return home.startswith("triton") and name in ("cdiv", "next_power_of_2")


def _home(thing: Any) -> str:
    return str(getattr(getattr(thing, "fn", thing), "__module__", "") or "")


def _enumeration(thing: Any) -> bool:
    return isinstance(thing, type) and thing.__name__ == "PropagateNan"


class Resolver(ast.NodeVisitor):
    """Walks one function of the made module and keeps the first fault that it meets."""

    def __init__(self, known: Mapping[str, Global], *, constexpr_function: bool = False) -> None:
        self.known, self.constexpr_function = known, constexpr_function
        self.local: frozenset[str] = frozenset()
        self.fault: Fault | None = None

    def check(self, node: ast.FunctionDef) -> Fault | None:
        """The first fault of a function's body, or None."""
        self.local = frozenset(_assigned(node)) | {argument.arg for argument in node.args.args}
        for name in sorted(self.local):
            kept = self.known.get(name)
            if name.startswith("__") or (kept is not None and kept.thing is not None):
                what = "begins with two underscores" if name.startswith("__") else "also names a module or function"
                return Fault(node.lineno, f"the variable `{name}` of {node.name} {what}; give it another name")
        for part in node.body:
            self.visit(part)
            if self.fault:
                return self.fault
        return None

    def _refuse(self, node: ast.AST, sentence: str) -> None:
        if self.fault is None:
            self.fault = Fault(getattr(node, "lineno", 0), sentence)

    def generic_visit(self, node: ast.AST) -> None:
        """Node types that Triton has no use for end here."""
        if type(node) in TEACH:
            return self._refuse(node, f"found {TEACH[type(node)]}")
        if not isinstance(node, _KNOWN):
            return self._refuse(
                node, f"found {type(node).__name__}, which Triton does not compile; write it with triton.language"
            )
        super().generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if not (node.value is None or isinstance(node.value, bool | int | float | str)):
            self._refuse(node, f"found {node.value!r}; expected a number, bool, string or None; write it as one of these")

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                if part.format_spec is not None:
                    self._refuse(node, "found a format specification in a string; leave out what stands after the colon")
                self.visit(part.value)

    def visit_Name(self, node: ast.Name) -> None:
        name = node.id
        if not isinstance(node.ctx, ast.Load) or name in self.local:
            return
        found = self.known.get(name)
        if found is None:
            if name not in (CONSTEXPR_BUILTINS if self.constexpr_function else BUILTINS):
                self._refuse(node, self._unknown(name))
        elif isinstance(found.thing, ModuleType) or _enumeration(found.thing):
            self._refuse(node, f"found the module `{name}` as a value; expected one of its functions, such as `{name}.load`")

    def _unknown(self, name: str) -> str:
        if name in INSTEAD:
            return f"found `{name}`, which Triton does not compile; use {INSTEAD[name]}"
        if name in dir(builtins):
            return f"found `{name}`, which a kernel may not use; compute it with triton.language"
        candidates = [*self.known, *self.local, *BUILTINS]
        near = difflib.get_close_matches(name, candidates, 1, 0.75)
        if not near and permitted(getattr(language(), name, ast)):
            near = [f"tl.{name}"]
        hint = f"did you mean `{near[0]}`?" if near else "define it in this file, at top level, or import it"
        return f"found `{name}`, which nothing here defines; {hint}"

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            return self._refuse(node, "found an assignment to an attribute; a kernel changes variables and memory only")
        if self.constexpr_function:
            return self._refuse(node, f"found `.{node.attr}`; a constexpr_function computes with plain numbers only")
        chain = _chain(node)
        root = self.known.get(chain[0]) if chain and chain[0] not in self.local else None
        if root is not None and (isinstance(root.thing, ModuleType) or _enumeration(root.thing)):
            return self._follow(node, chain, root.thing)
        if node.attr not in _value_attributes():
            near = difflib.get_close_matches(node.attr, sorted(_value_attributes()), 1, 0.75)
            hint = f"did you mean `.{near[0]}`?" if near else "use functions of triton.language"
            return self._refuse(node, f"found `.{node.attr}`, which tensors and dtypes do not have; {hint}")
        self.visit(node.value)

    def _follow(self, node: ast.Attribute, chain: list[str], thing: Any) -> None:
        """A dotted name from a module on: through modules to what a jit function may use, then attributes of values."""
        path = chain[0]
        for number, name in enumerate(chain[1:], start=1):
            if name.startswith("_"):
                return self._refuse(node, f"found `{path}.{name}`; names that begin with an underscore are Triton's own")
            if not (isinstance(thing, ModuleType) or _enumeration(thing)):
                unknown = [attribute for attribute in chain[number:] if attribute not in _value_attributes()]
                if unknown:
                    return self._refuse(node, f"found `.{unknown[0]}` after `{path}`, which has no such attribute")
                break
            holder, path = thing, f"{path}.{name}"
            missing = ast
            thing = getattr(holder, name, missing)
            if thing is missing:
                offered = [n for n in dir(holder) if not n.startswith("_")]
                near = difflib.get_close_matches(name, offered, 1, 0.6)
                hint = f"did you mean `{'.'.join(chain[:number])}.{near[0]}`?" if near else "look it up in Triton's reference"
                return self._refuse(node, f"found `{path}`, which does not exist; {hint}")
            if isinstance(thing, ModuleType):
                if permitted_module(thing.__name__) is None:
                    return self._refuse(node, f"found `{path}`, a module that is no part of Triton's language; remove it")
            elif not _enumeration(thing) and not permitted(thing):
                return self._refuse(
                    node, f"found `{path}`, which a kernel may not use; expected functions and dtypes of triton.language"
                )
        if isinstance(thing, ModuleType) or _enumeration(thing):
            self._refuse(node, f"found `{path}` as a value; expected a function or dtype; name one of its members")

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            return self._refuse(node, "found an assignment to an element; build the tile with tl.where, or tl.store it")
        super().generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg is None:
            return self._refuse(node.value, "found `**`; name each argument")
        super().generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if not isinstance(node.func, ast.Name | ast.Attribute):
            return self._refuse(node, "found a call of something that has no name; call a function by its name")
        super().generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name):
            return self._refuse(node, "found an annotated target that is no variable; annotate a variable")
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)


_KNOWN = (
    ast.arguments, ast.arg, ast.Return, ast.Assign, ast.AugAssign, ast.For, ast.While, ast.If, ast.Expr, ast.Pass,
    ast.Break, ast.Continue, ast.Assert, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Tuple, ast.List,
    ast.ListComp, ast.comprehension, ast.Slice, ast.Starred, ast.expr_context, ast.operator, ast.unaryop, ast.boolop,
    ast.cmpop,
)  # fmt: skip


def _assigned(node: ast.FunctionDef) -> Iterable[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
            yield part.id


def _chain(node: ast.Attribute) -> list[str]:
    """The names of `a.b.c`, or nothing when it does not begin with a name."""
    names: list[str] = []
    part: ast.expr = node
    while isinstance(part, ast.Attribute):
        names.append(part.attr)
        part = part.value
    return [part.id, *reversed(names)] if isinstance(part, ast.Name) else []


def finite_or_infinite(text: str) -> float:
    """The float that describe wrote as text; ValueError for anything else."""
    value = float(text)
    if math.isnan(value):
        raise ValueError("a constant that is not a number")
    return value
