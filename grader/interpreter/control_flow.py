"""Python around the tensors, read as Triton's compiler reads it.

The interpreter executes the text of a jit function as Python. The compiler does not: a loop variable is a tensor, `and` of tensors is
elementwise, `min` is `tl.minimum`, a number that is assigned becomes a tensor. `rewrite` turns the text into Python that
calls the functions below where the two differ; line numbers stay.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import triton.language as tl
from triton.compiler.code_generator import CodeGenerator
from triton.runtime import interpreter

from grader.interpreter.per_program import NeedsOneByOne, PerProgram
from grader.interpreter.printing import shown

RUNTIME = "__triton_runtime"
BUILTINS = ("min", "max", "print")
CONSTANTS_DECAY = not hasattr(CodeGenerator, "decide_return_type")
"""Before Triton 3.7 every returned constant became a tensor."""


class BlockCondition(Exception):
    """A tensor of several elements where one truth value is needed."""


def silent(*_: Any, **__: Any) -> None:
    """Of what nobody watches, and of what the compiler prints while it compiles."""


class LaunchEvents:
    """Called at each iteration of a loop, so that a launch can be ended between two; before a loop, with how many there will be; at
    each tl.debug_barrier; and for each promise to the compiler that is broken (promises.py): its kind, what was promised and what was
    seen. `steers` is told what Python goes by, a loop's bounds or a condition, and a loop's variable.
    """

    iteration: Callable[[], None] = silent
    before: Callable[[int], None] = silent
    barrier: Callable[[], None] = silent
    broken: Callable[[str, int, tuple[int, ...]], None] = silent
    steers: Callable[..., None] = silent


def is_tensor(value: Any) -> bool:
    """Whether the compiler would hold this value in a register rather than know it."""
    return isinstance(value, tl.core.tensor)


def plain(value: Any) -> Any:
    """The Python value in a constexpr."""
    return value.value if isinstance(value, tl.constexpr) else value


def listed(value: Any) -> list[Any]:
    """The parts of a tuple or list, or the one value that it is."""
    return list(value) if isinstance(value, (tuple, list, tl.tuple)) else [value]


def assigned(value: Any) -> Any:
    """What a variable holds after `name = value`: numbers become tensors, in tuples too."""
    value = plain(value)
    if isinstance(value, (tuple, list, tl.tuple)):
        parts = [assigned(part) for part in value]
        return tl.tuple(parts) if all(isinstance(part, tl.core.base_value) for part in parts) else tuple(parts)
    if isinstance(value, (bool, int, float)):
        return interpreter.interpreter_semantic.to_tensor(value)
    return value


def truth(value: Any, dynamic: list[bool] | None = None) -> bool:
    """A condition of `if` and `while`; `dynamic` is told when it is not known at compile time."""
    if isinstance(value, tl.condition):
        value = value.condition
    if not is_tensor(value):
        return bool(plain(value))
    if dynamic is not None:
        dynamic.append(True)
    if value.handle.data.size != 1:
        raise BlockCondition("a condition of several elements")
    LaunchEvents.steers("condition", [value.handle])
    return bool(value.handle.data.reshape(-1)[0])


def iterates(value: Any) -> bool:
    """The condition of `while`, once an iteration."""
    LaunchEvents.iteration()
    return truth(value)


def choose(condition: Any, first: Callable[[], Any], second: Callable[[], Any]) -> Any:
    """`first if condition else second`."""
    chosen = first if truth(condition) else second
    return interpreter.interpreter_semantic.to_tensor(chosen()) if is_tensor(condition) else chosen()


def every(*parts: Callable[[], Any]) -> Any:
    """`a and b and ...`: constants decide at once, tensors are joined elementwise."""
    return _joined("logical_and", False, parts)


def some(*parts: Callable[[], Any]) -> Any:
    """`a or b or ...`."""
    return _joined("logical_or", True, parts)


def _joined(method: str, decides: bool, parts: tuple[Callable[[], Any], ...]) -> Any:
    tensors = []
    value: Any = None
    for part in parts:
        value = part()
        if is_tensor(value):
            tensors.append(value)
        elif bool(plain(value)) is decides:
            return value
    while len(tensors) > 1:
        right = tensors.pop()
        tensors.append(getattr(tensors.pop(), method)(right))
    return tensors[0] if tensors else value


def negated(value: Any) -> Any:
    """`not value`."""
    return getattr(value, "__not__")() if is_tensor(value) else not plain(value)  # noqa: B009


def returned(value: Any, dynamic: list[bool]) -> Any:
    """What a call gives: constants become tensors where a condition chose between several of them."""
    return assigned(value) if CONSTANTS_DECAY or dynamic else value


def value_of(value: Any) -> Any:
    """`name.value` of a constexpr, which the interpreter holds as a plain number."""
    return value if isinstance(value, (bool, int, float, str, type(None))) else value.value


def twice(value: Callable[[], Any]) -> Any:
    """What is assigned under an annotation: the compiler reads it twice, with all that it does to memory."""
    value()
    return value()


def bound(kind: Any, value: Callable[[], Any]) -> Any:
    """The one bound of a loop over `range`, which the compiler reads twice."""
    return twice(value) if kind is range else value()


def keywords_first(function: Any, arguments: Callable[[], tuple[Any, ...]], /, **keywords: Any) -> Any:
    """A call: the compiler reads the arguments with a name before those without."""
    return function(*arguments(), **keywords)


def stated(passed: Any, message: Any = "") -> None:
    """What `static_assert` is here."""
    assert plain(passed), message


def first(function: Any, one: Any, other: Callable[[], Any], /) -> Any:
    """A call with two arguments: the compiler reads what a static_assert says only where it does not hold."""
    return function(one, "" if function is stated and plain(one) else other())


def loop(kind: Any, *arguments: Any, **options: Any) -> Iterator[Any]:
    """The iterations of `for`: numbers in static_range, else tensors of the bounds' common type."""
    if unrolled(kind):
        yield from range(*(int(plain(bound)) for bound in _bounds(*arguments, **options)))
        return
    start, end, step = _bounds(*arguments, **options)
    backwards = not is_tensor(step) and plain(step) < 0
    if backwards:  # the compiler reverses the loop, and its variable back
        start, end, step = end, start, -plain(step)
    semantic = interpreter.interpreter_semantic
    tensors = [semantic.to_tensor(bound) for bound in (start, end, step)]
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = semantic.integer_promote_impl(dtype, tensor.dtype)
    first, last, stride = (_as_compared(tensor, dtype) for tensor in tensors)
    numpy_type = interpreter._get_np_dtype(dtype)
    LaunchEvents.steers("range", [tensor.handle for tensor in tensors])
    for at in _iterations(first, last, stride):
        LaunchEvents.iteration()
        data = (first + last - at if backwards else at).astype(numpy_type)
        handle = interpreter.TensorHandle(data, dtype)
        LaunchEvents.steers("loop_variable", [tensors[int(backwards)].handle, tensors[2].handle], handle)
        yield tl.core.tensor(handle, dtype)


def _as_compared(bound: Any, dtype: Any) -> Any:
    """A bound of a loop whose variable is of type `dtype`, as a signed number, which is what the compiler's loop compares.

    What is narrower is made as wide by its highest bit if `dtype` is signed, whether the bound itself is or not: 200 as uint8 is -56.
    """
    data = bound.handle.data.reshape(-1)[:1]
    own, signed = bound.dtype.int_bitwidth, np.dtype(f"i{max(1, dtype.int_bitwidth // 8)}")
    if own == 1:
        data = data.astype(np.int8)
        return (-data if dtype.is_int_signed() else data).astype(signed)
    return data.astype(f"{'i' if dtype.is_int_signed() else 'u'}{own // 8}").astype(signed)


def _iterations(first: Any, last: Any, stride: Any) -> Iterator[Any]:
    """What the variable of `while first < last: first += stride` is in each iteration; beyond the largest number comes the smallest.

    Programs whose bounds differ and that take as many iterations go together; others part.
    """
    step, largest = int(stride[0]), int(np.iinfo(first.dtype).max)
    if not (isinstance(first, PerProgram) or isinstance(last, PerProgram)):
        at, end = int(first[0]), int(last[0])
        if step:
            LaunchEvents.before(max(0, (end - at) // step))
        while at < end:
            yield np.array([at], dtype=first.dtype)
            at = (at + step + largest + 1) % (2 * largest + 2) - largest - 1
        return
    begins, end = first.astype(np.int64), last.astype(np.int64)
    farthest = largest // 2
    if not 0 < step < farthest or ((abs(begins) > farthest) | (abs(end) > farthest)).any():
        raise NeedsOneByOne("a loop whose iterations are counted one program at a time")
    iterations = int(-(-np.maximum(end - begins, 0) // step))
    LaunchEvents.before(iterations)
    for iteration in range(iterations):
        yield (begins + iteration * step).astype(first.dtype)


def unrolled(kind: Any) -> bool:
    """Whether the iterations of `for` are written out one after the other, and its variable is a number like any other."""
    return kind is tl.static_range


def _bounds(arg1: Any, arg2: Any = None, step: Any = None, *_: Any, **__: Any) -> tuple[Any, Any, Any]:
    """Start, end and step as range, tl.range and tl.static_range take them; their other options change no value."""
    step = 1 if step is None else step
    return (0, arg1, step) if arg2 is None else (arg1, arg2, step)


def _extreme(known: Any, name: str) -> Any:
    """`min` or `max` in a jit function: Python's of what is known, else the function of that name, or Triton's before it had one."""

    def extreme(*values: Any, **options: Any) -> Any:
        if not any(map(is_tensor, values)):
            return known(*map(plain, values))
        function = getattr(tl.core, f"builtin_{name}", None) or getattr(tl, f"{name}imum")
        return plain(function(*values, **options))

    return extreme


FUNCTIONS = [assigned, plain, truth, iterates, choose, every, some, negated, returned, value_of, loop, unrolled]
FUNCTIONS += [twice, bound, keywords_first, first]
NAMESPACE = SimpleNamespace(**{function.__name__: function for function in FUNCTIONS})
NAMESPACE.min, NAMESPACE.max, NAMESPACE.print = _extreme(min, "min"), _extreme(max, "max"), shown


def _calls(node: ast.expr) -> bool:
    """Whether computing it may do something to memory."""
    return any(isinstance(part, ast.Call) for part in ast.walk(node))


class _Reading(ast.NodeTransformer):
    """One jit function: its statements, with calls of the functions above where Python and Triton differ."""

    def __init__(self, known: set[str]) -> None:
        self.known = known
        self.several_returns = False
        self.iterators: set[int] = set()

    @staticmethod
    def _own(name: str) -> ast.Attribute:
        return ast.Attribute(ast.Name(RUNTIME, ast.Load()), name, ast.Load())

    def _call(self, name: str, *arguments: ast.expr) -> ast.Call:
        """In the line of its first argument, whatever statement it stands in."""
        return ast.copy_location(ast.Call(self._own(name), list(arguments), []), arguments[0])

    @staticmethod
    def _later(body: ast.expr) -> ast.Lambda:
        return ast.Lambda(ast.arguments([], [], None, [], [], None, []), body)

    def visit(self, node: ast.AST) -> Any:
        made = super().visit(node)
        return ast.copy_location(made, node) if hasattr(node, "lineno") else made

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.decorator_list, node.returns = [], None
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            argument.annotation = None
            self.known.add(argument.arg)
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                self.known.add(part.id)
        self.several_returns = sum(isinstance(part, ast.Return) for part in ast.walk(node)) > 1
        node.body = [self.visit(statement) for statement in node.body]
        if self.several_returns:
            node.body.insert(0, ast.Assign([ast.Name("__dynamic", ast.Store())], ast.List([], ast.Load())))
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        node.value = self._call("assigned", self.visit(node.value))
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.Assign:
        assert isinstance(node.target, ast.Name)
        value = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, self.visit(node.value))
        return ast.Assign([node.target], self._call("assigned", value))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return node
        value = self.visit(node.value)
        if self._names_constexpr(node.annotation):
            return ast.Assign([node.target], self._call("plain", value))
        value = self._call("twice", self._later(value)) if _calls(node.value) else value
        return ast.Assign([node.target], self._call("assigned", value))

    constexpr_names: frozenset[str] = frozenset()

    def _names_constexpr(self, annotation: ast.expr) -> bool:
        """Whether the annotation of a variable is constexpr itself; in quotes it says nothing to the compiler."""
        if isinstance(annotation, ast.Attribute):
            return annotation.attr == "constexpr"
        return isinstance(annotation, ast.Name) and annotation.id in self.constexpr_names

    def visit_Return(self, node: ast.Return) -> ast.Return:
        if node.value is not None:
            value = self.visit(node.value)
            dynamic = ast.Name("__dynamic", ast.Load()) if self.several_returns else ast.List([], ast.Load())
            node.value = self._call("returned", value, dynamic)
        return node

    def visit_If(self, node: ast.If) -> ast.If:
        self.generic_visit(node)
        returns = self.several_returns and any(isinstance(part, ast.Return) for part in ast.walk(node))
        node.test = self._call("truth", node.test, *([ast.Name("__dynamic", ast.Load())] if returns else []))
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.Call:
        self.generic_visit(node)
        return self._call("choose", node.test, self._later(node.body), self._later(node.orelse))

    def visit_While(self, node: ast.While) -> ast.While:
        self.generic_visit(node)
        node.test = self._call("iterates", node.test)
        return node

    def visit_For(self, node: ast.For) -> ast.For:
        """A loop that is compiled as one leaves no variable behind, whatever that held before: the compiler has poison for it."""
        self.iterators.add(id(node.iter))
        self.generic_visit(node)
        if isinstance(node.iter, ast.Call):
            if isinstance(node.target, ast.Name):
                name = node.target.id
                bound = ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None))  # after no iteration, too
                gone = [bound, ast.Delete([ast.Name(name, ast.Del())])]
                node.orelse = [ast.If(ast.UnaryOp(ast.Not(), self._call("unrolled", node.iter.func)), gone, [])]
            arguments = [node.iter.func, *node.iter.args]
            if len(node.iter.args) == 1 and _calls(node.iter.args[0]):
                arguments[1] = self._call("bound", node.iter.func, self._later(node.iter.args[0]))
            node.iter = ast.Call(self._own("loop"), list(arguments), node.iter.keywords)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.Expr:
        """Nothing fails in a kernel that was compiled without TRITON_DEBUG, but what is asserted is computed."""
        parts = [node.test, *filter(None, [node.msg])]
        return ast.Expr(ast.Tuple([self.visit(part) for part in parts], ast.Load()))

    def visit_Call(self, node: ast.Call) -> ast.Call:
        late = node.args and id(node) not in self.iterators and any(map(_calls, node.args))
        named = any(_calls(keyword.value) for keyword in node.keywords)
        asserts = getattr(node.func, "attr", "static_assert") == "static_assert" and len(node.args) == 2
        asserts = asserts and not node.keywords and id(node) not in self.iterators and _calls(node.args[1])
        self.generic_visit(node)
        if asserts:
            return self._call("first", node.func, node.args[0], self._later(node.args[1]))
        if not (late and named):
            return node
        arguments = self._later(ast.Tuple(node.args, ast.Load()))
        return ast.Call(self._own("keywords_first"), [node.func, arguments], node.keywords)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.Call:
        self.generic_visit(node)
        return self._call("every" if isinstance(node.op, ast.And) else "some", *map(self._later, node.values))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return self._call("negated", node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        is_read = node.attr == "value" and isinstance(node.ctx, ast.Load)
        return self._call("value_of", node.value) if is_read else node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        replaced = node.id in BUILTINS and isinstance(node.ctx, ast.Load) and node.id not in self.known
        return self._own(node.id) if replaced else node


def rewrite(function: Any, patched: dict[int, tuple[Any, Any]]) -> Any:
    """`function` as Python that does what its compiled form does.

    patched: by id, a function of the language that the module may have imported by name, and what stands for it.
    """
    lines, start = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    (definition,) = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    scope = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    scope = {name: plain(patched.get(id(value), (value, value))[1]) for name, value in scope.items()}
    reading = _Reading(set(scope))
    reading.constexpr_names = frozenset(name for name, value in scope.items() if value is tl.constexpr)
    tree.body = [reading.visit(definition)]
    ast.fix_missing_locations(tree)
    ast.increment_lineno(tree, start - 1)
    scope[RUNTIME] = NAMESPACE
    exec(compile(tree, function.__code__.co_filename, "exec"), scope)
    return scope[function.__name__]
