"""A launch's programs, one after the other, and their arguments as the compiled kernel takes them.

Triton's own loop over the grid copies tensors to the host and back and imports torch; here they are on the host already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter


def tell_grid(grid: Sequence[int]) -> tuple[int, int, int]:
    """The grid in three dimensions, which the builder is told."""
    width, height, depth = (*grid, *(1,) * (3 - len(grid)))
    interpreter.interpreter_builder.set_grid_dim(width, height, depth)
    return width, height, depth


@contextmanager
def replaced(owner: Any, name: str, function: Any) -> Iterator[None]:
    """`function` as an attribute of a module, a class or an object, for the time of a launch."""
    original, own = getattr(owner, name), name in vars(owner)
    setattr(owner, name, function)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, original)
        else:  # else what is put into its class later would not be seen
            delattr(owner, name)


def run(
    function: Any,
    grid: Sequence[int],
    programs: Iterable[int],
    arguments: Mapping[str, Any],
    begins: Callable[[int], None] | None = None,
) -> None:
    """Runs these programs of the grid in their order.

    function: a jit function as the interpreter runs it. arguments: by name, from `pointer` and `number`, and constants as they are.
    begins: is told of each program.
    """
    dims = tell_grid(grid)
    for program in programs:
        interpreter.interpreter_builder.set_grid_idx(*map(int, np.unravel_index(program, dims)))
        if begins is not None:
            begins(program)
        function(**arguments)


def pointer(kind: str, address: int) -> Any:
    """An argument that is a tensor. kind: Triton's name for the type of its elements."""
    return _argument(np.array([address], dtype=np.uint64), tl.pointer_type(tl.str_to_ty(kind, None)))


def number(value: bool | int | float) -> Any:
    """An argument that is a number, in the type in which the compiled kernel takes it."""
    dtype = number_type(value)
    return _argument(np.array([value]).astype(interpreter._get_np_dtype(dtype)), dtype)


def _argument(data: np.ndarray, dtype: Any) -> Any:
    handle = interpreter.TensorHandle(data, dtype)
    handle._argument = True  # for whoever asks where values come from
    return tl.tensor(handle, dtype)


def number_type(value: bool | int | float) -> Any:
    """What Triton takes a number for that no annotation gives a type; its own function for that imports torch. Raises OverflowError."""
    if isinstance(value, bool):
        return tl.int1
    if isinstance(value, float):
        return tl.float32
    if not -(2**63) <= value < 2**64:
        raise OverflowError("integer to be specialized too large to represent")
    return tl.int32 if -(2**31) <= value < 2**31 else tl.int64 if value < 2**63 else tl.uint64
