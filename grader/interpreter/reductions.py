"""tl.reduce, tl.associative_scan and tl.map_elementwise on the interpreter, in the types of the compiled ones.

Triton's interpreter walks a custom reduction element by element and sums fp16 in fp32. Here whole slices are combined:
neighbours in pairs for a reduction, as a tree of lanes does, and from the first to the last for a scan. A GPU does it in an order of its
own, which only a function that is associative, and in a reduction commutative, does not care about: `tl.standard`'s are known to be, with
another one the order is left open (orders.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

from grader.interpreter.control_flow import BlockCondition, listed, plain
from grader.interpreter.number_formats import is_packed
from grader.interpreter.orders import COMBINING, PACKS, another, left_open
from grader.interpreter.per_program import anywhere


def _tensor(data: Any, dtype: Any) -> Any:
    if not data.shape:
        return tl.core.tensor(TensorHandle(data.reshape(1), dtype), dtype)
    return tl.core.tensor(TensorHandle(data, dtype), tl.block_type(dtype, list(data.shape)))


def _as_given(value: Any, results: Sequence[Any]) -> Any:
    """What came of the tensors of `value`: several, or one."""
    return tuple(results) if isinstance(value, (tuple, list, tl.tuple)) else results[0]


def _applied(function: Any, arrays: Sequence[np.ndarray], dtypes: Sequence[Any]) -> list[tuple[np.ndarray, Any]]:
    """What a function makes of tensors of one shape, with the type of each, None for a constant; element by element where it branches on
    its values."""
    try:
        values = listed(function(*map(_tensor, arrays, dtypes)))
    except BlockCondition:
        shape = arrays[0].shape
        each = [_applied(function, [one[at].reshape(()) for one in arrays], dtypes) for at in np.ndindex(*shape)]
        return [
            (np.stack([data.reshape(-1)[0] for data, _ in column]).reshape(shape), column[0][1])
            for column in zip(*each, strict=True)
        ]
    return [
        (one.handle.data, one.dtype) if isinstance(one, tl.core.tensor) else (np.asarray(plain(one)), None)
        for one in values
    ]


def _combined(
    combine: Any, left: Sequence[np.ndarray], right: Sequence[np.ndarray], dtypes: Sequence[Any]
) -> list[np.ndarray]:
    """What a combining function makes of slices, in the types and the shape that it must have."""
    shape, made = left[0].shape, _applied(combine, (*left, *right), (*dtypes, *dtypes))
    typed = [
        one.astype(interpreter._get_np_dtype(dtype), copy=False) for (one, _), dtype in zip(made, dtypes, strict=True)
    ]
    ones = (1,) * len(shape)
    return [np.broadcast_to(one.reshape(shape if one.size == math.prod(shape) else ones), shape) for one in typed]


def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **_: Any) -> Any:
    """As tl.reduce."""
    return _as_given(input, reduced(listed(input), plain(axis), combine_fn, plain(keep_dims)))


def reduced(inputs: list[Any], axis: int | None, combine_fn: Any, keep_dims: bool) -> tuple[Any, ...]:
    """The reduction of tensors of one shape; axis None: over all of them."""
    arrays = [tensor.handle.data for tensor in inputs]
    dtypes = [tensor.dtype for tensor in inputs]
    dimensions = len(inputs[0].shape)
    if axis is None:
        arrays, along = [array.reshape(-1) for array in arrays], 0
    else:
        along = axis % dimensions
    known = _known_reduction(combine_fn, arrays, dtypes, along)
    results = known if known is not None else _tree(combine_fn, arrays, dtypes, along)
    if keep_dims:
        results = [np.expand_dims(r, along) if axis is not None else r.reshape((1,) * dimensions) for r in results]
    return tuple(_tensor(result, dtype) for result, dtype in zip(results, dtypes, strict=True))


EXTREMES: dict[Any, Callable[..., Any]] = {
    tl.standard._elementwise_max: np.max, tl.standard._argmax_combine_tie_break_left: np.argmax,
    tl.standard._elementwise_min: np.min, tl.standard._argmin_combine_tie_break_left: np.argmin,
}  # fmt: skip
SUMS: dict[Any, Callable[..., Any]] = {tl.standard._sum_combine: np.cumsum, tl.standard._prod_combine: np.cumprod}
"""In a scan."""


def _known_reduction(combine: Any, arrays: list[np.ndarray], dtypes: list[Any], axis: int) -> list[np.ndarray] | None:
    """Sums, extremes and their places by NumPy, where NumPy does the same."""
    array, find = arrays[0], EXTREMES.get(combine)
    if is_packed(dtypes[0]):
        return None
    if combine is tl.standard._sum_combine and array.dtype != np.float16 and array.dtype != np.bool_:
        return [np.sum(array, axis=axis, dtype=array.dtype)]
    floats = array.dtype.kind == "f"
    if find is None or (floats and anywhere(np.isnan(array))):  # which are left out of extremes
        return None
    found = find(array, axis=axis)
    if len(arrays) == 2:
        places = np.expand_dims(found, axis)
        return [np.take_along_axis(part, places, axis).squeeze(axis) for part in arrays]
    return None if floats and anywhere(found == 0) else [found]  # of zeros NumPy takes any, whatever its sign


ANY_ORDER = frozenset(
    function
    for name in (
        *("_sum_combine", "_prod_combine", "_xor_combine", "_or_combine", "_elementwise_max", "_elementwise_min"),
        *("_argmax_combine_tie_break_left", "_argmin_combine_tie_break_left"),
    )
    if (function := getattr(tl.standard, name, None)) is not None
)
"""Functions of Triton's that are associative and commutative, up to the rounding of floats, and those with a place where no NaN is."""


def _any_order(combine: Any, arrays: Sequence[np.ndarray]) -> bool:
    """Whether these elements give the same in any order."""
    if combine not in ANY_ORDER or len(arrays) == 1 or arrays[0].dtype.kind != "f":
        return combine in ANY_ORDER
    return not anywhere(np.isnan(arrays[0]))


CHAIN = 4
"""So many elements a thread combines one by one in the other order, before threads meet in pairs: a tree that is not balanced."""


def _tree(combine: Any, arrays: list[np.ndarray], dtypes: list[Any], axis: int) -> list[np.ndarray]:
    parts = [np.moveaxis(array, axis, 0) for array in arrays]
    size = len(parts[0])
    if size > 1 and not _any_order(combine, parts) and left_open(COMBINING):
        order = another(size)
        parts = [np.take(part, order, axis=0) for part in parts]
        threads = max(1, size // CHAIN)
        chain = parts
        parts = [part[:threads] for part in chain]
        for first in range(threads, size, threads):
            parts = _combined(combine, parts, [part[first : first + threads] for part in chain], dtypes)
    while len(parts[0]) > 1:
        parts = _combined(combine, [part[0::2] for part in parts], [part[1::2] for part in parts], dtypes)
    return [part[0] for part in parts]


def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False, **_: Any) -> Any:
    """As tl.associative_scan."""
    return _as_given(input, scanned(listed(input), plain(axis), combine_fn, plain(reverse)))


def scanned(inputs: list[Any], axis: int, combine_fn: Any, reverse: bool) -> tuple[Any, ...]:
    """The scan of tensors of one shape."""
    axis, dtypes = axis % len(inputs[0].shape), [tensor.dtype for tensor in inputs]
    parts = [np.moveaxis(tensor.handle.data, axis, 0) for tensor in inputs]
    if reverse:
        parts = [part[::-1] for part in parts]
    kind, function = parts[0].dtype, SUMS.get(combine_fn)
    if function and not is_packed(dtypes[0]) and (kind.kind in "iu" or kind in (np.float32, np.float64)):
        results = [function(parts[0], axis=0, dtype=kind)]
    else:
        results = _walk(combine_fn, parts, dtypes)
    if reverse:
        results = [result[::-1] for result in results]
    return tuple(_tensor(np.moveaxis(r, 0, axis), dtype) for r, dtype in zip(results, dtypes, strict=True))


def _walk(combine: Any, parts: list[np.ndarray], dtypes: list[Any]) -> list[np.ndarray]:
    if combine not in ANY_ORDER and len(parts[0]) > 2 and left_open(COMBINING):
        return _by_halves(combine, parts, dtypes)
    rows = [[part[0] for part in parts]]
    for at in range(1, len(parts[0])):
        rows.append(_combined(combine, rows[-1], [part[at] for part in parts], dtypes))
    return [np.stack(column) for column in zip(*rows, strict=True)]


def _by_halves(combine: Any, parts: list[np.ndarray], dtypes: list[Any]) -> list[np.ndarray]:
    """As lanes do it that meet in pairs, pairs of pairs, ...: to each second half is added what the last of the first half has so far."""
    size, half = len(parts[0]), 1
    while half < size:
        blocks = [part.reshape(size // (2 * half), 2, half, *part.shape[1:]) for part in parts]
        before = [np.broadcast_to(block[:, 0, -1:], block[:, 0].shape) for block in blocks]
        reached = _combined(combine, before, [block[:, 1] for block in blocks], dtypes)
        both = [np.stack([block[:, 0], more], axis=1) for block, more in zip(blocks, reached, strict=True)]
        parts = [one.reshape(part.shape) for one, part in zip(both, parts, strict=True)]
        half *= 2
    return parts


def map_elementwise(scalar_fn: Any, *args: Any, pack: Any = 1, **_: Any) -> Any:
    """As tl.map_elementwise: the function sees scalars, `pack` of each argument at a time."""
    pack = plain(pack)
    arrays = np.broadcast_arrays(*(arg.handle.data for arg in args))
    dtypes, shape = [arg.dtype for arg in args], arrays[0].shape
    lanes = [array.reshape(-1) for array in arrays]
    order = another(len(lanes[0])) if pack > 1 and left_open(PACKS) else np.arange(len(lanes[0]))
    packs = len(order) // pack
    given = [np.take(lane, order).reshape(packs, pack)[:, at] for lane in lanes for at in range(pack)]
    if packs == 1:
        given = [one[0] for one in given]
    single: list[bool] = []

    def function(*scalars: Any) -> Any:
        result = scalar_fn(*scalars)
        single.append(isinstance(result, tl.core.tensor))
        return result

    made = _applied(function, given, [dtype for dtype in dtypes for _ in range(pack)])
    results, back = [], np.argsort(order)
    for first in range(0, len(made), pack):
        dtype = made[first][1].scalar
        columns = [np.broadcast_to(one.reshape(-1), packs) for one, _ in made[first : first + pack]]
        together = np.stack(columns, axis=1).reshape(-1)[back]
        results.append(_tensor(together.astype(interpreter._get_np_dtype(dtype)).reshape(shape), dtype))
    return results[0] if single[-1] else tuple(results)
