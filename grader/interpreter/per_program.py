"""A value that differs between the programs of a launch: one array for each program, which to code looks like one program's array.

So an operation of the interpreter, written for one program, does the work of many in one call of NumPy. What gives another result
that way is not done: functions of NumPy that have no form here are called program by program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

MOST_ELEMENTS = 1 << 22
"""Of one stack: a sandbox has its limit of memory, and large tiles gain nothing."""


class NeedsOneByOne(Exception):
    """What these programs do cannot be done for all of them at once."""


class Diverged(Exception):
    """One number was needed where the programs have several. values: that of each program."""

    def __init__(self, values: np.ndarray) -> None:
        super().__init__("the programs part here")
        self.values = values


def _of_each(name: str) -> Callable[[PerProgram], PerProgram]:
    """The method of np.ndarray, of the array of each program."""
    return lambda values: PerProgram(getattr(values.stack.reshape(len(values.stack), -1), name)(axis=1))


class PerProgram(NDArrayOperatorsMixin):
    """`stack` [programs, ...]: each program's array. Shape and sizes are those of one program's. largest: elements of any so far."""

    __slots__ = ("stack",)
    largest = 0

    def __init__(self, stack: np.ndarray) -> None:
        if stack.size > PerProgram.largest:
            if stack.size > MOST_ELEMENTS:
                raise NeedsOneByOne("tiles too large to be kept for many programs")
            PerProgram.largest = stack.size
        self.stack = stack

    @property
    def shape(self) -> tuple[int, ...]:
        return self.stack.shape[1:]

    @property
    def ndim(self) -> int:
        return self.stack.ndim - 1

    @property
    def size(self) -> int:
        return int(np.prod(self.stack.shape[1:]))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.stack.dtype

    @property
    def itemsize(self) -> int:
        return self.stack.itemsize

    def __len__(self) -> int:
        return self.stack.shape[1]

    def __getitem__(self, key: Any) -> PerProgram:
        keys = key if isinstance(key, tuple) else (key,)
        if not all(one is None or one is Ellipsis or isinstance(one, (int, slice)) for one in keys):
            raise NeedsOneByOne(f"elements chosen by {type(key).__name__}")
        return PerProgram(self.stack[(slice(None), *keys)])

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, PerProgram) or key.stack.shape != self.stack.shape or np.ndim(value):
            raise NeedsOneByOne("elements set")
        self.stack[key.stack] = value

    def reshape(self, *shape: Any) -> PerProgram:
        """As np.ndarray.reshape."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return PerProgram(self.stack.reshape(len(self.stack), *sizes))

    def astype(self, dtype: Any, *, copy: bool = True) -> PerProgram:
        """As np.ndarray.astype."""
        return PerProgram(self.stack.astype(dtype, copy=copy))

    def view(self, dtype: Any) -> PerProgram:
        """As np.ndarray.view, for types of one width."""
        if np.dtype(dtype).itemsize != self.itemsize:
            raise NeedsOneByOne("bits in another width")
        return PerProgram(self.stack.view(dtype))

    def copy(self) -> PerProgram:
        """As np.ndarray.copy."""
        return PerProgram(self.stack.copy())

    any, all, min, max = map(_of_each, ("any", "all", "min", "max"))

    def item(self) -> Any:
        """The one number, if it is the same in every program. Raises Diverged."""
        numbers = self.stack.reshape(len(self.stack), self.size)
        if self.size != 1:
            raise NeedsOneByOne("one number of several")
        if (numbers != numbers[0]).any() and len(np.unique(numbers)) > 1:
            raise Diverged(numbers[:, 0])
        return numbers[0, 0].item()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    __index__ = __int__

    def __float__(self) -> float:
        return float(self.item())

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise NeedsOneByOne("a function that is no function of NumPy's")

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or "out" in options:
            raise NeedsOneByOne(f"{function.__name__}.{method}")
        made = function(*_aligned(inputs), **options)
        return tuple(map(PerProgram, made)) if isinstance(made, tuple) else PerProgram(made)

    def __array_function__(self, function: Any, types: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        form = FORMS.get(function) or _one_by_one(function)
        return form(*arguments, **options)


def programs_of(*values: Any) -> int | None:
    """For how many programs these values are; None where none of them differs between programs."""
    return next((len(value.stack) for value in values if isinstance(value, PerProgram)), None)


def anywhere(mask: Any) -> bool:
    """Whether a mask holds in any lane of any program, which does not part them."""
    return bool(getattr(mask, "stack", mask).any())


def stacked(value: Any, programs: int, shape: Sequence[int]) -> np.ndarray:
    """[programs, *shape] of what is one array for each program, or one for all of them."""
    if isinstance(value, PerProgram):
        (value,) = _aligned([value], len(shape))
    return np.broadcast_to(value, (programs, *shape))


def _aligned(values: Sequence[Any], rank: int = 0) -> list[Any]:
    """Stacks that broadcast against each other, and against the arrays that are the same for all, as the arrays of one program do."""
    rank = max(rank, *(np.ndim(value) for value in values))
    return [
        value.stack.reshape(len(value.stack), *(1,) * (rank - value.ndim), *value.shape)
        if isinstance(value, PerProgram)
        else value
        for value in values
    ]


def _one_by_one(function: Any) -> Callable[..., PerProgram]:
    def form(*arguments: Any, **options: Any) -> PerProgram:
        programs = programs_of(*_leaves((arguments, tuple(options.values()))))
        assert programs is not None
        made = [
            function(*_of_one(arguments, at), **{name: _of_one(value, at) for name, value in options.items()})
            for at in range(programs)
        ]
        if not all(isinstance(one, (np.ndarray, np.generic)) for one in made):
            raise NeedsOneByOne(f"{function.__name__} of programs together")
        return PerProgram(np.stack(made))

    return form


def _leaves(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in _leaves(part)] if isinstance(value, (tuple, list)) else [value]


def _of_one(value: Any, at: int) -> Any:
    """A value, or a sequence of such, as the program of that number has it."""
    if isinstance(value, (tuple, list)):
        return type(value)(_of_one(part, at) for part in value)
    return value.stack[at] if isinstance(value, PerProgram) else value


def _where(*parts: Any) -> PerProgram:
    return PerProgram(np.where(*_aligned(parts)))


def _broadcast_to(array: PerProgram, shape: Any) -> PerProgram:
    return PerProgram(stacked(array, len(array.stack), tuple(shape)))


def _transpose(array: PerProgram, order: Any = None) -> PerProgram:
    order = range(array.ndim)[::-1] if order is None else order
    return PerProgram(np.transpose(array.stack, (0, *(1 + axis % array.ndim for axis in order))))


def _moveaxis(array: PerProgram, source: int, target: int) -> PerProgram:
    return PerProgram(np.moveaxis(array.stack, 1 + source % array.ndim, 1 + target % array.ndim))


def _expand_dims(array: PerProgram, axis: int) -> PerProgram:
    return PerProgram(np.expand_dims(array.stack, axis if axis < 0 else axis + 1))


def _joined(function: Any) -> Callable[..., PerProgram]:
    def form(parts: Sequence[Any], axis: int = 0) -> PerProgram:
        programs = programs_of(*parts)
        assert programs is not None
        stacks = [stacked(part, programs, part.shape) for part in parts]
        return PerProgram(function(stacks, axis=axis if axis < 0 else axis + 1))

    return form


def _like(array: PerProgram, value: Any, dtype: Any = None) -> np.ndarray:
    return np.full(array.shape, value, dtype=dtype or array.dtype)


FORMS: dict[Any, Callable[..., Any]] = {
    np.where: _where, np.broadcast_to: _broadcast_to, np.transpose: _transpose, np.moveaxis: _moveaxis, np.expand_dims: _expand_dims,
    np.concatenate: _joined(np.concatenate), np.stack: _joined(np.stack),
    np.ndim: lambda array: array.ndim, np.shape: lambda array: array.shape,
    np.zeros_like: lambda array, dtype=None: _like(array, 0, dtype), np.ones_like: lambda array, dtype=None: _like(array, 1, dtype),
    np.full_like: _like,
}  # fmt: skip
"""Functions of NumPy that do the same for all programs at once."""
