"""What Triton's compiler dies of or takes for something else, where it should say a sentence: refused as its front end refuses the like."""

from __future__ import annotations

from typing import Any


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


def _at_run_time(value: Any) -> bool:
    import triton.language as tl

    if isinstance(value, (tuple, list, tl.tuple)):
        return any(_at_run_time(part) for part in value)
    return isinstance(value, tl.tensor)
