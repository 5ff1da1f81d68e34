"""An exception as data: its root cause, its place in the student's text, and the types of what stood there.

Triton wraps an error once for every jit function on the way to it, with the source of each function in its text.
What is told here is the innermost error, and the innermost place that is the student's own. Everything is bounded.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import traceback
from collections.abc import Iterator
from typing import Any

from grader.building.sandboxed.front_end import FrontEndRefusal

GRADER = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 2))
MAX_MESSAGE = 600
MAX_TEXT = 120
MAX_NAMES = 12
MAX_CAUSES = 24
AFTERWARDS = r"Failures have been detected|A signal was caught|Pipeline failed"
"""What MLIR prints behind an error, at the head of the kernel."""
NO_LINE = r"we only support tensor pointer usages inside a `scf::ForOp` or `scf::IfOp`"
"""Reasons that MLIR prints without a line."""
DIED_OF = r"LLVM ERROR: .*|Assertion .* failed.*"
IN_PASS = r"Pipeline failed while executing \[`(\w+)"


class StageFailed(Exception):
    """A stage of Triton's compiler failed, behind the front end; why is its cause."""


def explain(error: BaseException, path: str) -> dict[str, Any]:
    """The error as the wire carries it.

    error: kind of the root cause; message: its words; line, column, end_line, end_column: the innermost place in the
    module at `path`, lines from 1 and columns from 0, each None where it is not known; callers: lines of the calls
    that led there; values: [text, type] of operands and names at that place; scope: names that are defined there.

    A stage that fails and names no line says nothing of the kernel: the error is a CompilerFailure then, and the message is why.
    """
    chain = list(_causes(error))
    root = chain[-1]
    with open(path, encoding="utf-8") as file:
        module = file.read()
    places = [place for place in (_place(cause, module) for cause in chain) if place]
    node = places[-1][1] if places else None
    answer: dict[str, Any] = {
        "error": type(root).__name__[:MAX_TEXT],
        "message": _words(root)[:MAX_MESSAGE],
        "callers": [first + at.lineno - 1 for first, at in places[:-1]][-4:],
        **(_span(*places[-1]) if places else _frame(chain, path)),
    }
    in_a_stage = any(isinstance(cause, StageFailed) for cause in chain)
    if answer["line"] is None and (in_a_stage or isinstance(root, RuntimeError)):
        answer.update(_diagnostic(path, failed=f"{answer['error']}: {answer['message']}" if in_a_stage else None))
    # values of Triton answer getattr with errors of their own; the place is enough then
    with contextlib.suppress(Exception):
        generators = list(_generators(chain))
        if node is not None and generators:
            own = [generator for generator in generators if _source(generator) in module] or generators[:1]
            scope = sorted(str(name)[:MAX_TEXT] for name in _scope(own[-1]))[:200]
            answer.update(values=_values(node, own[-1], chain), scope=scope)
    return answer


def is_ours(error: BaseException) -> bool:
    """Whether no kernel's text can have caused the error: a broken environment, or one raised by a file of ours."""
    root = list(_causes(error))[-1]
    if isinstance(root, ImportError | OSError):
        return True
    if isinstance(root, FrontEndRefusal):
        return False
    frames = traceback.extract_tb(root.__traceback__)
    return bool(frames) and os.path.abspath(frames[-1].filename).startswith(f"{GRADER}{os.sep}")


def keep_places() -> None:
    """Lets Triton's errors keep where its code generator was, and what the names inside a loop or branch stood for.

    To be called before each compilation: what the compiler prints from then on belongs to it.
    """
    _listen()
    from triton.compiler import code_generator, compiler

    compiler.filter_traceback = lambda error: None
    leave = code_generator.enter_sub_region.__exit__
    if getattr(leave, "keeps_names", False):
        return

    def leaving(region: Any, kind: Any, error: Any, trace: Any) -> Any:
        generator = region.generator
        if error is not None and not hasattr(generator, "scope_of_error"):
            generator.scope_of_error = dict(generator.lscope)
        return leave(region, kind, error, trace)

    leaving.keeps_names = True  # type: ignore[attr-defined]
    code_generator.enter_sub_region.__exit__ = leaving


def _listen() -> None:
    """Gives what the compiler's C++ part prints an empty file of its own, the only place where it names lines."""
    try:
        file = os.open("printed", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        os.unlink("printed")
        os.dup2(file, 2)
        os.close(file)
    except OSError:
        return


def _diagnostic(path: str, *, failed: str | None) -> dict[str, Any]:
    """The first error that the compiler's C++ part printed with a line of the module; a reason without a line comes first.

    failed: what a stage raised, which is told where nothing was printed of a line; None: no stage did.
    """
    try:
        text = os.pread(2, 1 << 18, 0).decode(errors="replace")
    except OSError:
        text = ""
    if found := re.search(NO_LINE, text):
        return {"message": found[0][:MAX_MESSAGE]}
    pattern = rf'{re.escape(os.path.basename(path))}"?:(\d+):(\d+)\)?: error: (.*)'
    said = [entry for entry in re.findall(pattern, text) if not re.match(AFTERWARDS, entry[2])]
    if said:
        line, column, words = said[0]
        return {"line": int(line), "column": int(column), "message": words[:MAX_MESSAGE]}
    if failed is None:
        return {}
    died, where = re.search(DIED_OF, text), re.search(IN_PASS, text)
    reason = (died[0] if died else failed)[: MAX_MESSAGE // 2]
    return {"error": "CompilerFailure", "message": f"{reason}, in its pass {where[1]}" if where else reason}


def _scope(generator: Any) -> dict[str, Any]:
    return getattr(generator, "scope_of_error", generator.lscope)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what led to it. Triton hides the cause of a CompilationError (`from None`), not of others."""
    found: BaseException | None = error
    for _ in range(MAX_CAUSES):
        if found is None:
            return
        yield found
        found = found.__cause__ or (found.__context__ if _is_located(found) else None)


def _is_located(error: BaseException) -> bool:
    return hasattr(error, "node") and hasattr(error, "src")


def _words(root: BaseException) -> str:
    said = getattr(root, "error_message", None) if _is_located(root) else root
    try:
        return "" if said is None else str(said).strip()
    except Exception:  # a submission's own exception may refuse to speak
        return ""


def _place(error: BaseException, module: str) -> tuple[int, Any] | None:
    """(first line of the jit function in the module, the node of it) when the error is about a line of the module."""
    node, source = getattr(error, "node", None), getattr(error, "src", None)
    if not isinstance(source, str) or not isinstance(getattr(node, "lineno", None), int):
        return None
    at = module.find(source.strip())
    if at < 0:
        at = module.find(source.strip().split("\n")[0])
    return (module.count("\n", 0, at) + 1, node) if at >= 0 else None


def _span(first: int, node: Any) -> dict[str, Any]:
    end = getattr(node, "end_lineno", None)
    return {
        "line": first + node.lineno - 1,
        "column": getattr(node, "col_offset", None),
        "end_line": first + end - 1 if isinstance(end, int) else None,
        "end_column": getattr(node, "end_col_offset", None),
    }


def _frame(chain: list[BaseException], path: str) -> dict[str, Any]:
    """The innermost line of the module that was running, from the innermost error that has one."""
    frames = (frame for error in reversed(chain) for frame in reversed(traceback.extract_tb(error.__traceback__)))
    last = next((frame for frame in frames if frame.filename == path), None)
    return {
        "line": getattr(last, "lineno", None),
        "column": getattr(last, "colno", None),
        "end_line": getattr(last, "end_lineno", None),
        "end_column": getattr(last, "end_colno", None),
    }


def _generators(chain: list[BaseException]) -> Iterator[Any]:
    """Triton's code generators on the way to the error, outermost first."""
    seen: list[Any] = []
    for error in chain:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            owner = frame.f_locals.get("self")
            if hasattr(type(owner), "visit_Call") and not any(owner is one for one in seen):
                seen.append(owner)
                yield owner


def _source(generator: Any) -> str:
    return str(getattr(generator.jit_fn, "src", "")).strip()


def _values(node: Any, generator: Any, chain: list[BaseException]) -> list[list[str]]:
    """[text, type] for the operands of the node as the generator had evaluated them, then for the names in it."""
    found: dict[str, str] = {}
    scope = _scope(generator)
    for error in chain:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            values = frame.f_locals
            if values.get("self") is generator:
                for text, value in _operands(frame.f_code.co_name, values):
                    if values.get("node") is node:
                        found[text[:MAX_TEXT]] = describe(value)
    for part in ast.walk(_head(node)):
        if isinstance(part, ast.Name) and part.id in scope and len(found) < MAX_NAMES:
            found.setdefault(part.id, describe(scope[part.id]))
    return [[text, kind] for text, kind in list(found.items())[:MAX_NAMES]]


def _head(node: Any) -> ast.AST:
    """Of a loop or branch only what stands before its body."""
    if isinstance(node, ast.For):
        return node.iter
    if isinstance(node, ast.If | ast.While):
        return node.test
    if isinstance(node, ast.FunctionDef) or not isinstance(node, ast.AST):
        return ast.Pass()
    return node


def _operands(function: str, values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    node = values.get("node")
    try:
        if function in ("visit_BinOp", "_apply_binary_method", "visit_Compare") and "lhs" in values and "rhs" in values:
            left = node.left  # type: ignore[union-attr]
            right = node.right if isinstance(node, ast.BinOp) else node.comparators[0]  # type: ignore[union-attr]
            yield ast.unparse(left), values["lhs"]
            yield ast.unparse(right), values["rhs"]
        elif function == "call_Function" and isinstance(node, ast.Call):
            for text, value in zip(node.args, values["args"], strict=False):
                yield ast.unparse(text), value
            for keyword in node.keywords:
                if keyword.arg in values["kws"]:
                    yield ast.unparse(keyword.value), values["kws"][keyword.arg]
    except (AttributeError, KeyError, TypeError, ValueError):
        return


def describe(value: Any) -> str:
    """A value's type in the words of a kernel: "fp16 [16, 32]", "pointer to int8", "scalar int32", "constexpr 32"."""
    name = type(value).__name__
    kind = getattr(value, "type", None) if name == "tensor" else None
    if name == "constexpr":
        return f"constexpr {value.value!r}"[:MAX_TEXT]
    if name == "tensor" and kind is not None:
        scalar = getattr(kind, "scalar", kind)
        target = getattr(scalar, "element_ty", None)
        if kind.is_block():
            shape = f"[{', '.join(str(getattr(size, 'value', size)) for size in kind.shape)}]"
            return (f"pointers to {target} {shape}" if target is not None else f"{scalar} {shape}")[:MAX_TEXT]
        return (f"pointer to {target}" if target is not None else f"scalar {scalar}")[:MAX_TEXT]
    if value is None:
        return "None"
    if name == "dtype":
        return f"dtype {value}"[:MAX_TEXT]
    return name[:MAX_TEXT]
