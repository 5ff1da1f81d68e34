"""What Triton's compiler dies of with its process, where it should say a sentence: refused as its front end refuses the like."""

from __future__ import annotations

from typing import Any


def refuse() -> None:
    """Lets the front end refuse products of floats that are to be integers; building their accumulator is an assertion of MLIR's."""
    import triton.language as tl
    from triton.language.semantic import TritonSemantic

    multiply = TritonSemantic.dot
    if getattr(multiply, "refuses", False):
        return

    def dot(self: Any, left: Any, right: Any, acc: Any, *how: Any) -> Any:
        *others, out_dtype = how
        if left.dtype.is_floating() and out_dtype.is_int():
            out_dtype = tl.bfloat16  # which Triton refuses with a sentence
        return multiply(self, left, right, acc, *others, out_dtype)

    dot.refuses = True  # type: ignore[attr-defined]
    TritonSemantic.dot = dot
