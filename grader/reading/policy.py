"""May this source be built? An allow-list over the selected statements: what a Triton kernel needs, and no more.

A courtesy, not a wall: it answers a mistaken import or call with a sentence before anything runs. The sandbox keeps the
machine safe, and grader.building.resolving keeps the answer honest: only what it lets pass is compiled or interpreted.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import importlib
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cache

from grader.compile_errors import source_message
from grader.compile_errors.names import attribute
from grader.parsing import nodes
from grader.reading.selection import PLAIN_MODULES, Statement

MODULES = ("triton", "torch", "__future__", *PLAIN_MODULES)
BUILTINS = frozenset(
    "abs all any bool dict divmod enumerate filter hasattr float frozenset int isinstance issubclass len list map max min "
    "pow range reversed round set sorted str sum tuple zip print slice "
    "property staticmethod classmethod True False None Exception ImportError ModuleNotFoundError AttributeError AssertionError "
    "NotImplementedError RuntimeError TypeError ValueError KeyError SystemExit".split()
)
FORBIDDEN = frozenset(dir(builtins)) - BUILTINS
TORCH = frozenset(
    "float16 float32 float64 bfloat16 half float double int8 int16 int32 int64 uint8 bool short int long dtype "
    "Tensor device finfo iinfo cuda version hip is_available get_device_capability get_device_name max min "
    "get_device_properties multi_processor_count current_device major minor name".split()
)
TRITON = frozenset(
    "jit autotune heuristics Config cdiv next_power_of_2 language runtime driver active get_current_target "
    "backend arch constexpr_function JITFunction".split()
)
LANGUAGE_MODULES = frozenset("math extra cuda libdevice core standard random".split())
PLAIN_ATTRIBUTES = frozenset(
    "join format split strip lower upper replace startswith endswith zero_ kwargs num_warps num_stages num_ctas "
    "maxnreg value shape dtype T type element_ty primitive_bitwidth load store gather scatter bit_length __version__ "
    "Any Optional Union List Dict Tuple Callable Literal Sequence Mapping Iterable NamedTuple _asdict _replace _fields".split()
) | {name for kind in (list, dict, set, deque) for name in dir(kind) if not name.startswith("_")}
STATEMENTS = (
    ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Import, ast.ImportFrom, ast.If, ast.For,
    ast.While, ast.Try, ast.Expr, ast.Delete, ast.Assert, ast.Match,
)  # fmt: skip


@cache
def _language_attributes() -> frozenset[str]:
    """What `triton.language`, its tensors and libdevice offer, less the doors to plain Python."""
    import triton.language as tl
    from triton.language.extra import libdevice

    names = {name for name in dir(tl) if not name.startswith("_")}
    names |= set(tl.math.__dict__) | set(tl.standard.__dict__) | set(libdevice.__dict__)
    for kind in (tl.tensor, tl.dtype, tl.block_type, tl.pointer_type, tl.constexpr, tl.core.tensor_descriptor_base):
        names |= set(dir(kind))
    from triton.language.extra.cuda import libdevice as cuda_libdevice

    names |= set(cuda_libdevice.__dict__) | set(tl.PropagateNan.__members__)
    doors = {"handle", "builtins", "inspect", "warn", "os", "sys", "importlib", "knobs", "semantic", "T_", "to_ir"}
    return frozenset(name for name in names - doors if not name.startswith("_"))


def own_attributes(selected: Sequence[Statement]) -> frozenset[str]:
    """What classes and named tuples of a submission's own hold."""
    return frozenset(
        name for statement in selected for name in _class_attributes(statement.node) | _tuple_fields(statement.node)
    )


def violation(selected: list[Statement], own: frozenset[str] | None = None) -> str | None:
    """The first thing that a submission may not hold, as a sentence; None when there is nothing. own: if not `own_attributes` of these."""
    own = own_attributes(selected) if own is None else own
    imported = {name for statement in selected if isinstance(statement.node, ast.Import) for name in statement.binds}
    for statement in selected:
        if message := _foreign_call(statement, imported):
            return message
    attributes = _allowed_attributes() | own
    for statement in selected:
        if message := _statement_violation(statement, attributes):
            return _plain_call(statement, selected) or message
    for statement in selected:
        if is_jitted(statement.node) and (message := _not_triton(statement)):
            return message
    return None


def is_jitted(node: ast.AST) -> bool:
    """Whether a function is under @triton.jit (or `@jit`, with or without arguments)."""
    if not isinstance(node, ast.FunctionDef):
        return False
    return any(_last_name(decorator) == "jit" for decorator in node.decorator_list)


def may_be_autotuned(node: ast.FunctionDef) -> bool:
    """Whether a function is under @triton.autotune(...), or under a decorator whose name does not tell what it is (`@tune`)."""
    return any(_last_name(decorator) not in ("jit", "heuristics") for decorator in node.decorator_list)


def _last_name(decorator: ast.expr) -> str:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else ""


def _class_attributes(node: ast.stmt) -> set[str]:
    """What a class of a submission's own holds: `BM` of `class Tiles: BM = 64`."""
    if not isinstance(node, ast.ClassDef):
        return set()
    names = {part.id for part in nodes(node, ast.Name) if isinstance(part.ctx, ast.Store)}
    names |= {part.attr for part in nodes(node, ast.Attribute) if isinstance(part.ctx, ast.Store)}
    names |= {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
    return {name for name in names if not name.startswith("_")}


def _tuple_fields(node: ast.stmt) -> set[str]:
    """The fields of `Tile = namedtuple("Tile", "m n k")`, or of a list of their names."""
    calls = [call for call in nodes(node, ast.Call) if _last_name(call) == "namedtuple"]
    texts = [part.value for call in calls for part in nodes(call, ast.Constant) if isinstance(part.value, str)]
    names = {name for text in texts for name in text.replace(",", " ").split()}
    return {name for name in names if name.isidentifier() and not name.startswith("_")}


def _statement_violation(statement: Statement, attributes: frozenset[str]) -> str | None:
    if not isinstance(statement.node, STATEMENTS):
        kind = type(statement.node).__name__
        return (
            f"{statement.place}: the kernel needs `{', '.join(sorted(statement.binds))}`, which is a {kind}; "
            "expected functions and plain constants; write it as one of these"
        )
    for name in sorted(statement.needs - statement.binds):
        if name in FORBIDDEN or (name.startswith("__") and name.endswith("__")):
            return (
                f"{statement.place}: found `{name}`, which a kernel, its grid and its configs may not use; "
                "write the value out or compute it with triton.language"
            )
    for node in ast.walk(statement.node):
        if isinstance(node, ast.Import | ast.ImportFrom):
            foreign = _foreign_import(node)
            if foreign is not None:
                return _import_sentence(statement, node, foreign)
        elif isinstance(node, ast.Attribute):
            if node.attr not in attributes:
                return source_message.unknown_attribute(statement.cell, node, statement.node)
        elif isinstance(node, ast.ClassDef) and node is statement.node:
            continue
        elif isinstance(node, ast.ClassDef | ast.AsyncFunctionDef | ast.Await) or (
            isinstance(node, ast.Delete | ast.Global | ast.Nonlocal) and is_jitted(statement.node)
        ):
            return source_message.not_compiled(statement.cell, node)
    return None


def _foreign_import(node: ast.Import | ast.ImportFrom) -> str | None:
    """The first name that may not be imported, in full."""
    if isinstance(node, ast.Import):
        return next((alias.name for alias in node.names if not _module_allowed(alias.name)), None)
    module = node.module or "."
    if node.level or not _module_allowed(module):
        return "." * node.level + (node.module or "")
    if module.split(".")[0] not in ("triton", "torch"):
        return None
    known = _allowed_attributes()
    return next((f"{module}.{alias.name}" for alias in node.names if alias.name not in known), None)


def _foreign_call(statement: Statement, imported: set[str]) -> str | None:
    """A sentence where a jit function calls NumPy: at the call, which is what has to change, not at the import."""
    if not is_jitted(statement.node):
        return None
    numpy = imported & {"np", "numpy"}
    for node in _within(statement.node) if numpy else ():
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in numpy:
            return source_message.pointed(statement.cell, node, *attribute("np", node.attr))
    return None


def _within(function: ast.AST) -> Iterator[ast.AST]:
    """What a function's body holds: its decorators are Python that runs before."""
    assert isinstance(function, ast.FunctionDef)
    for part in function.body:
        yield from ast.walk(part)


def _plain_call(callee: Statement, selected: list[Statement]) -> str | None:
    """That a kernel calls ordinary Python, this function or one that calls it: what it may not hold is beside the point then."""
    plain = {
        other.node.name
        for other in selected
        if isinstance(other.node, ast.FunctionDef) and not other.node.decorator_list
    }
    if not callee.binds & plain:
        return None
    for statement in selected:
        for call in _within(statement.node) if is_jitted(statement.node) else ():
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in plain:
                cause = f"the kernel calls `{call.func.id}`, which has no @triton.jit"
                step = "write out what it does with triton.language (tl.) operations on tiles"
                return source_message.pointed(statement.cell, call, cause, step)
    return None


def _module_allowed(module: str) -> bool:
    head, *rest = module.split(".")
    if head not in MODULES:
        return False
    if head == "torch":
        return not rest
    return head != "triton" or all(part in LANGUAGE_MODULES | {"language"} for part in rest)


_OWN = f"{', '.join(PLAIN_MODULES[:-1])} and {PLAIN_MODULES[-1]}"


def _import_sentence(statement: Statement, node: ast.AST, module: str) -> str:
    cause = f"found an import of `{module}`; a kernel may use only triton, triton.language, torch dtypes, {_OWN}"
    near = difflib.get_close_matches(module, ("triton.language", "triton"), 1, 0.8)
    step = f"did you mean `{near[0]}`?" if near else "remove what needs it from the kernel, its grid and its configs"
    if public := _public_home(node):
        step = f"write from {public} import {', '.join(alias.name for alias in node.names)}"  # type: ignore[attr-defined]
    return source_message.pointed(statement.cell, node, cause, step)


def _public_home(node: ast.AST) -> str:
    """Where what is imported from a module inside Triton may be had: `Config` of triton.runtime.autotuner is `triton.Config`."""
    if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("triton."):
        return ""
    known = _allowed_attributes()
    for name in ("triton", "triton.language"):
        home = importlib.import_module(name)
        if name != node.module and all(one.name in known and hasattr(home, one.name) for one in node.names):
            return name
    return ""


@cache
def _allowed_attributes() -> frozenset[str]:
    modules = [importlib.import_module(name) for name in PLAIN_MODULES if name != "typing"]
    plain = {name for module in modules for name in getattr(module, "__all__", dir(module)) if not name.startswith("_")}
    return TORCH | TRITON | LANGUAGE_MODULES | PLAIN_ATTRIBUTES | _language_attributes() | plain


def _not_triton(statement: Statement) -> str | None:
    """A sentence when the body of a jit function mentions torch, which a Triton kernel cannot call, or holds what it cannot."""
    for node in _within(statement.node):
        if isinstance(node, ast.Name) and node.id == "torch":
            return source_message.torch_in_kernel(statement.cell, node, statement.node)
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Try | ast.Lambda):
            return source_message.not_compiled(statement.cell, node)
    return None
