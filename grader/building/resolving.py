"""Where does every name in a jit function end? In Triton, in the submission's own text, or nowhere.

Triton's code generator calls plain Python functions that it meets, and follows attributes of modules; on the
interpreter a kernel is ordinary Python. So the text of a jit function is resolved, not matched: a dotted name is followed
through Triton's modules and must end in a Triton builtin, a jit function, a dtype or a constant; attributes of values must
be those of tensors, dtypes and descriptors; what builds or reaches other Python objects is refused.
"""

from __future__ import annotations

import ast
import builtins
import enum
import importlib
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any

from grader.compile_errors import names
from grader.compile_errors.table import construct, instead
from grader.parsing import nodes

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

UNSPOKEN = frozenset({"list", "isinstance", "getattr", "hasattr"})
"""Python's functions that Triton's code generator also takes a name for; no kernel may name them."""

CONSTEXPR_BUILTINS = BUILTINS - {"print"} | {"abs", "bool", "sum", "round", "divmod", "tuple"}
FOREIGN = frozenset({"extern_elementwise", "builtin", "extern", "call", "must_use_result"})
"""Parts of triton.language that link files or wrap Python functions."""

VALUE_ATTRIBUTES = frozenset(
    "T dtype shape type element_ty scalar numel value name primitive_bitwidth itemsize fp_mantissa_width int_bitwidth "
    "int_signedness load store gather scatter block_shape block_type strides base".split()
)


class Refused(Exception):
    """Part of a function holds what it may not: what was found, and the next step."""

    def __init__(self, node: ast.AST, cause: str, next_step: str) -> None:
        super().__init__(cause)
        self.node, self.cause, self.next_step = node, cause, next_step


@cache
def language() -> Any:
    """triton.language, whatever TRITON_INTERPRET says, with the modules that a jit function may name through it: which of them Triton has
    imported by itself depends on what ran in this process before."""
    for name in MODULES:
        permitted_module(name)
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
    classes = (tl.constexpr, tl.range, tl.static_range, tl.pointer_type, tl.tuple, tl.condition)
    if isinstance(thing, type) and thing in classes:
        return True
    if isinstance(thing, enum.Enum) or type(thing) is tl.PropagateNan:
        return True
    if getattr(thing, "__triton_builtin__", False):
        return not home.startswith("triton.language.extra") or home in LIBDEVICE
    if type(thing).__name__ in ("JITFunction", "InterpretedFunction", "ConstexprFunction"):
        return _home(thing).split(".")[0] == "triton"  # triton.cdiv and triton.next_power_of_2 live in `triton` itself
    if home in LIBDEVICE:
        return callable(thing) and not isinstance(thing, type)
    if home == "math":
        return callable(thing)
    return home.startswith("triton") and name in ("cdiv", "next_power_of_2")


def _computes(thing: Any) -> bool:
    """Whether this is one of the modules whose permitted functions take and give plain numbers: math.log2, triton.cdiv."""
    return isinstance(thing, ModuleType) and thing.__name__ in ("math", "triton")


def _home(thing: Any) -> str:
    return str(getattr(getattr(thing, "fn", thing), "__module__", "") or "")


def _leads_on(thing: Any) -> bool:
    """Whether this is a module or an enumeration: no value in a kernel, but what is named behind it may be."""
    return isinstance(thing, ModuleType) or thing is language().PropagateNan


class Resolver(ast.NodeVisitor):
    """Walks one function of the generated module, up to the first part that it refuses.

    known: what each global name stands for: a module, an object of Triton's, or None for a constant or a function of the submission's own
    text.
    """

    def __init__(self, known: Mapping[str, Any], *, constexpr_function: bool = False) -> None:
        self.known, self.constexpr_function = known, constexpr_function
        self.local: frozenset[str] = frozenset()
        self.function: ast.FunctionDef | None = None

    def check(self, node: ast.FunctionDef) -> None:
        """Raises Refused for the first part of a function's body that may not be there."""
        self.function = node
        stored = {part.id for part in nodes(node, ast.Name) if not isinstance(part.ctx, ast.Load)}
        self.local = frozenset(stored | {argument.arg for argument in node.args.args})
        for name in sorted(self.local):
            if name.startswith("__") or name in UNSPOKEN:
                what = "is one of Python's functions" if name in UNSPOKEN else "begins with two underscores"
                raise Refused(node, f"the variable `{name}` of {node.name} {what}", "give it another name")
            if self.known.get(name) is not None:
                cause = f"`{name}` is a variable of {node.name} and also a module or function"
                raise Refused(node, cause, "give the variable another name")
        if not self.constexpr_function:
            _check_read_alike(node)
        for part in node.body:
            self.visit(part)

    def generic_visit(self, node: ast.AST) -> None:
        """Syntax that Triton has no use for ends here."""
        if not isinstance(node, _KNOWN):
            raise Refused(node, *construct(type(node).__name__))
        super().generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if not (node.value is None or isinstance(node.value, bool | int | float | str)):
            if node.value is ...:
                raise Refused(node, "a kernel has no `...`", "write x[:, None] or x[None, :] to add a dimension")
            raise Refused(node, f"`{node.value!r}` is not a number, bool, string or None", "write it as one of these")

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                if part.format_spec is not None:
                    raise Refused(node, "a string with a format specification", "remove what follows the colon")
                self.visit(part.value)

    def visit_Name(self, node: ast.Name) -> None:
        name = node.id
        if not isinstance(node.ctx, ast.Load) or name in self.local:
            return
        if name not in self.known:
            if name not in (CONSTEXPR_BUILTINS if self.constexpr_function else BUILTINS):
                raise Refused(node, *self._unknown(node))
        elif _leads_on(self.known[name]):
            step = f"name one of its functions, such as `{name}.load`"
            raise Refused(node, f"the module `{name}` is used as a value", step)

    def _unknown(self, node: ast.Name) -> tuple[str, str]:
        if node.id in dir(builtins) and node.id not in instead():
            return f"Python's `{node.id}` is not allowed in a kernel", "compute it with triton.language"
        assert self.function is not None
        tree = ast.Module([self.function], [])
        return names.undefined(node.id, tree, self.function, node.lineno, [*self.known, *self.local])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            raise Refused(node, "an attribute is assigned to", "assign to variables, and store results with tl.store")
        chain = _chain(node)
        root = self.known.get(chain[0]) if chain and chain[0] not in self.local else None
        if self.constexpr_function and not (len(chain) == 2 and _computes(root)):
            cause = f"a constexpr_function computes with plain numbers only, found `.{node.attr}`"
            raise Refused(node, cause, "write it with numbers")
        if _leads_on(root):
            return self._follow(node, chain, root)
        if node.attr not in _value_attributes():
            raise Refused(node, *names.attribute(ast.unparse(node.value), node.attr))
        self.visit(node.value)

    def _follow(self, node: ast.Attribute, chain: list[str], thing: Any) -> None:
        """A dotted name from a module on: through modules to what a jit function may use, then attributes of values."""
        path = chain[0]
        for number, name in enumerate(chain[1:], start=1):
            if name.startswith("_"):
                raise Refused(
                    node, f"`{path}.{name}` begins with an underscore: it is Triton's own", "use public functions"
                )
            if not _leads_on(thing):
                unknown = [attribute for attribute in chain[number:] if attribute not in _value_attributes()]
                if unknown:
                    raise Refused(node, *names.attribute(path, unknown[0]))
                break
            holder, path = thing, f"{path}.{name}"
            thing = getattr(holder, name, _MISSING)
            if isinstance(thing, ModuleType):
                if permitted_module(thing.__name__) is None:
                    raise Refused(node, f"`{path}` is not part of Triton's language", "remove it from the kernel")
            elif not _leads_on(thing) and not permitted(thing):
                known = {"triton.language": "tl", "triton": "triton", "math": "math"}
                owner = known.get(getattr(holder, "__name__", ""), ".".join(chain[:number]))
                raise Refused(node, *names.attribute(owner, name))
        if _leads_on(thing):
            raise Refused(node, f"`{path}` is used as a value", "name one of its functions or members")

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            raise Refused(
                node,
                "a kernel cannot assign to elements of a tensor or pointer",
                "store to memory with tl.store(ptr + offs, value, mask=...); choose within a tile with tl.where(condition, a, b)",
            )
        super().generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg is None:
            raise Refused(node.value, "a kernel cannot unpack with **", "name each argument")
        super().generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if not isinstance(node.func, ast.Name | ast.Attribute):
            if not isinstance(node.func, _KNOWN):
                raise Refused(node.func, *construct(type(node.func).__name__))
            raise Refused(node, "what is called here has no name", "call a function by its name")
        super().generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name):
            raise Refused(node, "an annotated target is not a variable", "annotate variables only")
        if not self._names_a_type(node.annotation):
            parts = ast.walk(node.annotation)
            if any(not isinstance(part, _NAMING) or getattr(part, "id", "") in self.local for part in parts):
                step = "annotate with a type's name, such as tl.constexpr"
                raise Refused(node.annotation, "an annotation is computed", step)
            self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)

    def _names_a_type(self, annotation: ast.expr) -> bool:
        """Whether an annotation is a class of triton.language (`tl.tensor`), which says something to readers only."""
        chain = _chain(annotation) if isinstance(annotation, ast.Attribute) else []
        root = self.known.get(chain[0]) if len(chain) == 2 else None
        return root is language() and isinstance(getattr(language(), chain[1], None), type)


_MISSING = object()

_NAMING = (ast.Name, ast.Attribute, ast.Constant, ast.Subscript, ast.Tuple, ast.BinOp, ast.BitOr, ast.expr_context)
"""Of what an annotation may be made: Triton's code generator runs it, the interpreter reads it."""


_KNOWN = (
    ast.arguments, ast.arg, ast.Return, ast.Assign, ast.AugAssign, ast.For, ast.While, ast.If, ast.Expr, ast.Pass,
    ast.Break, ast.Continue, ast.Assert, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Tuple, ast.List,
    ast.ListComp, ast.comprehension, ast.Slice, ast.Starred, ast.expr_context, ast.operator, ast.unaryop, ast.boolop,
    ast.cmpop, ast.FormattedValue,
)  # fmt: skip


def _check_read_alike(node: ast.FunctionDef) -> None:
    """Raises Refused for what Triton's code generator takes for something else than Python does, and compiles without a word."""
    for part in ast.walk(node):
        if isinstance(part, ast.For | ast.While) and part.orelse:
            raise Refused(part.orelse[0], "a loop has no else in a kernel", "put these lines after the loop")
        if isinstance(part, ast.Compare) and any(isinstance(one, ast.Is | ast.IsNot) for one in part.ops):
            constants = [side.value for side in (part.left, *part.comparators) if isinstance(side, ast.Constant)]
            if not any(value in (None, True, False) for value in constants):
                cause = "`is` asks whether two objects are one, which differs from compiler to compiler"
                raise Refused(part, cause, "compare with ==")
        if isinstance(part, ast.ListComp) and (conditions := [one for each in part.generators for one in each.ifs]):
            cause = "Triton takes every element, whatever the `if` of a comprehension says"
            raise Refused(conditions[0], cause, "choose the elements yourself")


def _chain(node: ast.Attribute) -> list[str]:
    """The names of `a.b.c`, or nothing when it does not begin with a name."""
    names: list[str] = []
    part: ast.expr = node
    while isinstance(part, ast.Attribute):
        names.append(part.attr)
        part = part.value
    return [part.id, *reversed(names)] if isinstance(part, ast.Name) else []
