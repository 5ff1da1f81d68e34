"""What Triton's compiler dies of or takes for something else, where it should say a sentence: refused as its front end refuses the like."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Any

TENSOR, ABSENT = object(), object()
FORGETS = (
    "was changed in an `if` or loop that is decided at run time, and Triton loses that change: only tensors keep theirs"
)
LEAVES = "is the variable of a comprehension above, and Triton keeps its last element; give that variable another name"


class FrontEndRefusal(ValueError):
    """What Triton's front end should have said of a kernel, and does not."""


def refuse() -> None:
    """Lets the front end refuse products of floats that are to be integers (building their accumulator is an assertion of MLIR's),
    and calls of constexpr functions with tensors: Python runs these while compiling, and takes any tensor for true."""
    import triton
    import triton.language as tl
    from triton.language.semantic import TritonSemantic
    from triton.runtime.jit import ConstexprFunction

    multiply, compute = TritonSemantic.dot, ConstexprFunction.__call__
    if getattr(multiply, "refuses", False):
        return

    def dot(self: Any, left: Any, right: Any, acc: Any, *how: Any) -> Any:
        *others, out_dtype = how
        wrong = isinstance(out_dtype, tl.dtype) and out_dtype.is_int()  # what is no dtype at all is Triton's to refuse
        if wrong and isinstance(left, tl.tensor) and left.dtype.is_floating():
            out_dtype = tl.bfloat16  # which Triton refuses with a sentence
        return multiply(self, left, right, acc, *others, out_dtype)

    def call(self: Any, *given: Any, **named: Any) -> Any:
        if any(_at_run_time(value) for value in (*given, *named.values())):
            own = next((name for name in ("cdiv", "next_power_of_2") if self is getattr(triton, name)), None)
            raise FrontEndRefusal(
                f"{f'triton.{own}' if own else 'constexpr_function'} got a value that is known only at run time"
            )
        return compute(self, *given, **named)

    dot.refuses = True  # type: ignore[attr-defined]
    TritonSemantic.dot, ConstexprFunction.__call__ = dot, call
    _refuse_namesakes()
    _refuse_left_over()
    _refuse_forgotten()
    _refuse_undecided()


def _refuse_namesakes() -> None:
    """Lets the front end refuse a call of a helper whose compiled function would have the name of another, and be that one."""
    from triton.compiler import code_generator

    mangle, translate, calls = code_generator.mangle_fn, code_generator.ast_to_ttir, {}  # type: ignore[var-annotated]

    def translated(*given: Any, **named: Any) -> Any:
        calls.clear()  # functions of another kernel have names of their own
        return translate(*given, **named)

    def named(name: str, arg_types: Any, *context: Any) -> Any:
        made = mangle(name, arg_types, *context)
        # Triton 3.6 has constants beside the types
        constants = context[0] if context and isinstance(context[0], dict) else {}
        values = {place: getattr(value, "value", value) for place, value in constants.items()}
        call = (
            name,
            [kind.mangle() for kind in arg_types],
            [(place, type(one), repr(one)) for place, one in values.items()],
        )
        if calls.setdefault(made, call) != call:
            helper = name.rpartition(".")[2]
            raise FrontEndRefusal(
                f"{helper} is called with two constants that Triton takes for one; let strings be of letters and digits only"
            )
        return made

    code_generator.mangle_fn, code_generator.ast_to_ttir = named, translated


def _refuse_left_over() -> None:
    """Lets the front end refuse to unpack more values than there are names: before 3.9 Triton takes the first ones, Python none."""
    from triton.compiler.code_generator import CodeGenerator

    assign = CodeGenerator.visit_Assign

    def visit_assign(self: Any, node: Any) -> Any:
        visit, target = self.visit, node.target if isinstance(node, ast.AnnAssign) else node.targets[0]

        def visited(part: Any) -> Any:
            value = visit(part)
            if part is node.value:
                _check_unpacked(target, value)
            return value

        self.visit = visited
        try:
            return assign(self, node)
        finally:
            self.visit = visit

    CodeGenerator.visit_Assign = visit_assign


def _check_unpacked(target: Any, value: Any) -> None:
    """Raises FrontEndRefusal where a target, or one within it, has fewer names than its value has values."""
    names, values = getattr(target, "elts", ()), getattr(value, "values", ())
    if 0 < len(names) < len(values):
        raise FrontEndRefusal(f"{len(values)} values are unpacked into {len(names)} names; give each a name")
    for name, part in zip(names, values, strict=False):
        _check_unpacked(name, part)


def _refuse_forgotten() -> None:
    """Lets the front end refuse to read what an `if` or loop of the run time changed and what is known while compiling (None, a dtype, the
    variable of a static_range): Triton has it as before, whatever was run. And to read behind a comprehension what is called as its
    variable: Triton has its last element there, Python what was there before. And to read a variable of the function that has no value
    there, as it does where nothing else has its name: where a constant of the file or a function of Python's has, Triton takes that one.

    forgotten: of what is not to be read the value that it still has, or has again, and why. variables: what the function gives a value.
    """
    from triton.compiler.code_generator import CodeGenerator

    branches, carries, set_value = (
        CodeGenerator.visit_then_else_blocks,
        CodeGenerator._find_carries,
        CodeGenerator.set_value,
    )
    lookup, comprehend = CodeGenerator._define_name_lookup, CodeGenerator.visit_ListComp

    def following(self: Any, blocks: Any, visit: Any, liveins: Any) -> Any:
        """What `visit` gives, which visits some of these blocks; afterwards it is noted what they changed."""
        compound, before = self.visit_compound_statement, dict(getattr(self, "forgotten", {}))
        after = dict(before)

        def followed(statements: Any) -> None:
            if not any(statements is block for block in blocks):
                return compound(statements)
            self.forgotten = dict(before)
            compound(statements)
            after.update(self.forgotten)
            after.update(
                (name, (old, FORGETS))
                for name, old in liveins.items()
                if not _same(_known(old), _known(self.lscope.get(name, old)))
            )

        self.visit_compound_statement = followed
        try:
            return visit()
        finally:
            self.visit_compound_statement, self.forgotten = compound, after

    def visit_then_else_blocks(self: Any, node: Any, liveins: Any, *others: Any) -> Any:
        return following(self, (node.body, node.orelse), lambda: branches(self, node, liveins, *others), liveins)

    def find_carries(self: Any, node: Any, liveins: Any, *others: Any, **named: Any) -> Any:
        return following(self, (node.body,), lambda: carries(self, node, liveins, *others, **named), liveins)

    def visit_comprehension(self: Any, node: Any) -> Any:
        name, scopes = getattr(node.generators[0].target, "id", ""), (self.lscope, self.local_defs)
        before = [scope.get(name, ABSENT) for scope in scopes]
        made = comprehend(self, node)
        for scope, value in zip(scopes, before, strict=True):
            scope[name] = value
            if value is ABSENT:
                del scope[name]
        self.forgotten = {**getattr(self, "forgotten", {}), name: (before[0], LEAVES)}
        return made

    def set_known(self: Any, name: str, value: Any) -> None:
        getattr(self, "forgotten", {}).pop(name, None)
        set_value(self, name, value)

    def define_name_lookup(self: Any) -> Any:
        find = lookup(self)

        def known(name: str) -> Any:
            value, why = getattr(self, "forgotten", {}).get(name, (self, ""))
            if _original(value) is _original(self.lscope.get(name, ABSENT)):
                raise FrontEndRefusal(f"`{name}` {why}")
            if name in getattr(self, "variables", ()) and name not in self.lscope:
                alone = copy.copy(self)
                alone.gscope = alone.builtin_namespace = {}
                return lookup(alone)(name)
            return find(name)

        return known

    _remember_copies()
    _remember_variables()
    CodeGenerator.visit_then_else_blocks, CodeGenerator._find_carries = visit_then_else_blocks, find_carries
    CodeGenerator.visit_ListComp = visit_comprehension
    CodeGenerator.set_value, CodeGenerator._define_name_lookup = set_known, define_name_lookup


def _refuse_undecided() -> None:
    """Lets the front end refuse what a function returns where the interpreter takes it for a constant and Triton does not, or the other way
    round. From 3.7 on Triton makes numbers of constants that differ, dead returns behind an `if` of constants included; the interpreter
    does so where an `if` of the run time chose.

    chosen: whether one did.
    """
    from triton.compiler.code_generator import CodeGenerator

    decide, branch = getattr(CodeGenerator, "decide_return_type", None), CodeGenerator.visit_if_top_level
    if decide is None:
        return

    def visit_if_top_level(self: Any, cond: Any, node: Any) -> Any:
        self.chosen = True
        return branch(self, cond, node)

    def decide_return_type(self: Any) -> Any:
        kind, chosen = decide(self), getattr(self, "chosen", False)
        several = len(self.return_vals) > 1
        for value in self.return_vals if several else ():
            for found in _constants(value, kind):
                if found[1] == chosen:
                    continue
                name = self.function_name.rpartition(".")[2].partition("__")[0]
                raise FrontEndRefusal(
                    f"{name} returns {found[0]!r} from every branch, which Triton takes for a constant; return it once, after the `if`"
                    if chosen
                    else f"{name} returns {found[0]!r} and something else, since Triton also compiles what follows an `if` that returns; "
                    "put that under an else"
                )
        return kind

    CodeGenerator.visit_if_top_level, CodeGenerator.decide_return_type = visit_if_top_level, decide_return_type


def _constants(value: Any, kind: Any) -> Iterator[tuple[Any, bool]]:
    """The numbers that are known in what a function returns, each with whether it stays so in the type that all returns have together."""
    import triton.language as tl

    if isinstance(value, tl.tuple):
        for one, of in zip(value.values, kind.types, strict=True):
            yield from _constants(one, of)
    elif isinstance(value, tl.constexpr) and isinstance(value.value, bool | int | float):
        yield value.value, not isinstance(kind, tl.core.constexpr_type)


def _known(value: Any) -> Any:
    """What of a variable is known while compiling: TENSOR stands for what Triton carries out of an `if`."""
    import triton.language as tl
    from triton.compiler.code_generator import flatten_values_to_ir

    if isinstance(value, tl.tuple):
        return tuple(map(_known, value.values))
    if isinstance(value, tl.core.base_value) and flatten_values_to_ir([value]):
        return TENSOR
    return value.value if isinstance(value, tl.constexpr) else value


def _remember_variables() -> None:
    """Lets the code generator know to what its function gives a value, a comprehension's own variables left out."""
    from triton.compiler.code_generator import CodeGenerator

    define = CodeGenerator.visit_FunctionDef

    def visit_function(self: Any, node: Any) -> Any:
        parts = list(ast.walk(node))
        inside = {id(part) for made in parts if isinstance(made, ast.comprehension) for part in ast.walk(made)}
        names = (part for part in parts if isinstance(part, ast.Name) and id(part) not in inside)
        self.variables = {part.id for part in names if isinstance(part.ctx, ast.Store)}
        return define(self, node)

    CodeGenerator.visit_FunctionDef = visit_function


def _remember_copies() -> None:
    """Lets a value that Triton 3.6 copies for each block know what it is a copy of; later versions copy none."""
    from triton.compiler import code_generator

    copy_scope = getattr(code_generator, "_clone_scope", None)
    if copy_scope is None:
        return

    def scope_copied(scope: Any) -> Any:
        made = copy_scope(scope)
        for name, value in made.items():
            if value is not scope[name]:
                value.__dict__["copied"] = _original(scope[name])
        return made

    code_generator._clone_scope = scope_copied


def _original(value: Any) -> Any:
    """What a value is a copy of, or the value itself."""
    return getattr(value, "__dict__", {}).get("copied", value)


def _same(before: Any, after: Any) -> bool:
    if isinstance(before, tuple) and isinstance(after, tuple):
        return len(before) == len(after) and all(map(_same, before, after))
    return before is after or (type(before) is type(after) and bool(before == after))


def _at_run_time(value: Any) -> bool:
    import triton.language as tl

    if isinstance(value, (tuple, list, tl.tuple)):
        return any(_at_run_time(part) for part in value)
    return isinstance(value, tl.tensor)
