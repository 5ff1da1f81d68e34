"""What an operation of the language asks of the builder: found out once for each kind of operands, then asked directly.

Triton's interpreter goes the whole way of its front end for every operation of every program: types are promoted, shapes compared,
numbers made tensors. All of that follows from the operands' types and from constants, never from their values. So the calls that
reach the builder are written down the first time, and for other operands of the same types they are made again, with those operands.

What is written down has to be all there is to it. An operation that read a tensor's value, or that made a value without the
builder, is not planned and always goes the whole way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import triton.language as tl
from triton.runtime import interpreter

HANDLES = tuple(
    vars(interpreter)[name] for name in ("TensorHandle", "BlockPointerHandle") if hasattr(interpreter, name)
)
"""What the builder's values are; Triton 3.9 has no block pointers."""
PLAIN = (int, bool, str, type(None))
MAX_PLANS = 4096
"""Plans kept of one operation. A kernel has a few of each; a loop over constants, unrolled, has one for each of its iterations."""

Plan = Callable[..., Any]
"""A function of an operation's tensors, in the order of its arguments."""


class _Unplannable(Exception):
    """Arguments or a result that no plan can be made for."""


class _Tracing:
    """Stands in for the builder while an operation goes the whole way, and writes down what is asked of the real one: a line for each call,
    since Python runs a function faster than it walks a list. Its text has names of our own only."""

    current: _Tracing | None = None

    def __init__(self, builder: Any, operands: list[Any]) -> None:
        self._builder, self._operands = builder, operands
        self._values = [tensor.handle for tensor in operands]
        self._names = {id(value): f"t{number}.handle" for number, value in enumerate(self._values)}
        self._scope: dict[str, Any] = {"tensor": tl.core.tensor, "builder": builder}
        self._lines: list[str] = []
        self.sees_values = False

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._builder, name)
        if not name.startswith(("create_", "get_")) or name.endswith("_ty"):
            return real

        def call(*arguments: Any, **options: Any) -> Any:
            given = [*map(self._text, arguments), *(f"{key}={self._text(one)}" for key, one in options.items())]
            made = real(*arguments, **options)
            values = made if isinstance(made, (tuple, list)) else [made]
            if made is None or all(isinstance(one, HANDLES) for one in values):
                names = [f"v{len(self._values) + part}" for part in range(len(values))]
                self._values += values
                self._names.update(zip(map(id, values), names, strict=True))
                self._lines.append(f"{', '.join(names)} = builder.{name}({', '.join(given)})")
            else:
                self.sees_values = True  # what it made would be a constant of the plan
            return made

        return call

    def _text(self, value: Any) -> str:
        """A value by its name, lists of values too; anything else is a constant of the plan."""
        if isinstance(value, HANDLES):
            return self._name(value)
        if isinstance(value, (list, tuple)) and any(isinstance(one, HANDLES) for one in value):
            return f"[{', '.join(map(self._text, value))}]"
        name = f"c{len(self._scope)}"
        self._scope[name] = value
        return name

    def _name(self, handle: Any) -> str:
        self.sees_values |= id(handle) not in self._names  # made without the builder
        return self._names.get(id(handle), "")

    def plan(self, result: Any) -> Plan:
        """The plan by which `result` was made. Raises _Unplannable."""
        several = type(result) in (tuple, tl.tuple)
        made = f"({''.join(self._made(one) + ', ' for one in result)})" if several else self._made(result)
        if self.sees_values:
            raise _Unplannable
        tensors = ", ".join(f"t{number}" for number in range(len(self._operands)))
        exec("\n    ".join([f"def plan({tensors}):", *self._lines, f"return {made}"]), self._scope)
        return self._scope["plan"]  # type: ignore[no-any-return]

    def _made(self, result: Any) -> str:
        """An operand that is passed on, or a tensor of what the calls made, None where that is nothing. Raises _Unplannable."""
        if type(result) is not tl.core.tensor:
            raise _Unplannable
        for number, operand in enumerate(self._operands):
            if result is operand:
                return f"t{number}"
        handle = "None" if result.handle is None else self._name(result.handle)
        return f"tensor({handle}, {self._text(result.type)})"


def planned(function: Callable[..., Any], semantic: Any) -> Callable[..., Any]:
    """`function`, a builtin of the language, with `semantic`, by plans where there can be one."""
    plans: dict[Any, Plan | None] = {}

    def first(key: Any, operands: list[Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Goes the whole way, and keeps the plan, None where there can be none."""
        builder = semantic.builder
        semantic.builder = _Tracing.current = tracing = _Tracing(builder, operands)
        try:
            result = function(*arguments, **options, _semantic=semantic)
        finally:
            semantic.builder, _Tracing.current = builder, None
        # one value twice: which is meant then, cannot be seen
        one_value_twice = len({id(tensor.handle) for tensor in operands}) < len(operands)
        if len(plans) < MAX_PLANS and not one_value_twice:
            plans[key] = None
            with contextlib.suppress(_Unplannable):
                plans[key] = tracing.plan(result)
        return result

    def call(*arguments: Any, **options: Any) -> Any:
        options.pop("_semantic", None)
        plan: Plan | None = None
        if _Tracing.current is None:
            operands: list[Any] = []
            try:
                key: Any = tuple([_key(one, operands) for one in arguments])
                if options:
                    key = key, tuple([(name, _key(one, operands)) for name, one in options.items()])
                plan = plans[key]
            except _Unplannable:
                pass
            except KeyError:
                return first(key, operands, arguments, options)
        return plan(*operands) if plan else function(*arguments, **options, _semantic=semantic)

    return call


def _key(argument: Any, operands: list[Any]) -> Any:
    """What of an argument decides what is done; tensors are added to `operands`. Raises _Unplannable."""
    kind = type(argument)
    if kind is tl.core.tensor:
        operands.append(argument)
        return argument.type.name
    if kind is tl.core.constexpr:
        return kind, _key(argument.value, operands)
    if kind in PLAIN:
        return kind, argument
    if kind is float:
        return kind, argument.hex()
    if kind is slice:
        return kind, _key((argument.start, argument.stop, argument.step), operands)
    if kind in (tuple, list, tl.tuple):
        return kind, *[_key(one, operands) for one in argument]
    if isinstance(argument, tl.core.dtype):
        return kind, argument.name
    raise _Unplannable


def install() -> None:
    """Notices when an operation reads a tensor's value on its way."""
    for name in ("__bool__", "__index__"):
        setattr(tl.core.tensor, name, _noticed(getattr(tl.core.tensor, name)))


def _noticed(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def reading(tensor: Any) -> Any:
        if _Tracing.current is not None:
            _Tracing.current.sees_values = True
        return original(tensor)

    return reading
