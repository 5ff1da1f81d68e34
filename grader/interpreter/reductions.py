"""tl.reduce, tl.associative_scan and tl.map_elementwise on the interpreter, in the types of the compiled ones.

Triton's interpreter walks a custom reduction element by element and sums fp16 in fp32. Here whole slices are combined:
neighbours in pairs for a reduction, as a tree of lanes does, and from the first to the last for a scan. A GPU does it in an order of its
own, which only a function that is associative, and in a reduction commutative, does not care about: `tl.standard`'s are known to be, with
another one the order is left open (orders.py).
"""

from __future__ import annotations

import contextlib
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


def _array(value: Any, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """What a combining function returned, in the type and shape that it must have."""
    data = value.handle.data if isinstance(value, tl.core.tensor) else np.asarray(plain(value))
    data = data.astype(interpreter._get_np_dtype(dtype), copy=False)
    return np.broadcast_to(data.reshape(shape if data.size == math.prod(shape) else (1,) * len(shape)), shape)


def _combined(
    combine: Any, left: Sequence[np.ndarray], right: Sequence[np.ndarray], dtypes: Sequence[Any]
) -> list[np.ndarray]:
    """One call of the combining function on slices; element by element where it branches on its values."""
    shape = left[0].shape
    try:
        operands = [_tensor(data, dtype) for data, dtype in zip((*left, *right), (*dtypes, *dtypes), strict=True)]
        result = listed(combine(*operands))
    except BlockCondition:
        results = [np.empty(shape, dtype=data.dtype) for data in left]
        for at in np.ndindex(*shape):
            parts = _combined(combine, [d[at].reshape(()) for d in left], [d[at].reshape(()) for d in right], dtypes)
            for whole, part in zip(results, parts, strict=True):
                whole[at] = part.reshape(-1)[0]
        return results
    return [_array(value, dtype, shape) for value, dtype in zip(result, dtypes, strict=True)]


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


def _known_reduction(combine: Any, arrays: list[np.ndarray], dtypes: list[Any], axis: int) -> list[np.ndarray] | None:
    """Sums, extremes and their places by NumPy, where NumPy does the same."""
    array, dtype = arrays[0], dtypes[0]
    standard = tl.standard
    if is_packed(dtype):
        return None
    if combine is standard._sum_combine and array.dtype != np.float16 and array.dtype != np.bool_:
        return [np.sum(array, axis=axis, dtype=array.dtype)]
    if array.dtype.kind == "f" and np.isnan(array).any():  # which are left out of extremes
        return None
    for extreme, find in ((standard._elementwise_max, np.max), (standard._elementwise_min, np.min)):
        if combine is extreme:
            found = find(array, axis=axis)
            # of zeros NumPy takes any, whatever its sign
            zeros = (found == 0) if array.dtype.kind == "f" else np.False_
            return None if anywhere(zeros) else [found]
    if len(arrays) == 2 and combine in (
        standard._argmax_combine_tie_break_left,
        standard._argmin_combine_tie_break_left,
    ):
        find = np.argmax if combine is standard._argmax_combine_tie_break_left else np.argmin
        places = np.expand_dims(find(array, axis=axis), axis)
        return [np.take_along_axis(part, places, axis).squeeze(axis) for part in arrays]
    return None


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
    known = None if is_packed(dtypes[0]) else _known_scan(combine_fn, parts[0])
    results = [known] if known is not None else _walk(combine_fn, parts, dtypes)
    if reverse:
        results = [result[::-1] for result in results]
    return tuple(_tensor(np.moveaxis(r, 0, axis), dtype) for r, dtype in zip(results, dtypes, strict=True))


def _known_scan(combine: Any, part: np.ndarray) -> np.ndarray | None:
    functions: dict[Any, Callable[..., np.ndarray]] = {
        tl.standard._sum_combine: np.cumsum,
        tl.standard._prod_combine: np.cumprod,
    }
    function = functions.get(combine)
    plainly = part.dtype.kind in "iu" or part.dtype in (np.float32, np.float64)
    return function(part, axis=0, dtype=part.dtype) if function is not None and plainly else None


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
    lanes = [np.take(lane, order) for lane in lanes]
    calls = [np.arange(len(lanes[0])).reshape(-1, pack)]  # one on all elements; one by one where it branches on them
    with contextlib.suppress(BlockCondition):
        return _mapped(scalar_fn, lanes, dtypes, calls, np.argsort(order), shape)
    return _mapped(scalar_fn, lanes, dtypes, list(calls[0][:, None]), np.argsort(order), shape)


def _mapped(
    scalar_fn: Any, lanes: list[Any], dtypes: list[Any], calls: list[Any], back: np.ndarray, shape: tuple[int, ...]
) -> Any:
    """The function called for some packs of elements at a time, and what it returns at their places. calls: int [packs, elements of one]
    of each call."""
    parts = []
    for packs in calls:
        given = [(lane[at], dtype) for lane, dtype in zip(lanes, dtypes, strict=True) for at in packs.T]
        result = scalar_fn(*(_tensor(data[0] if len(data) == 1 else data, dtype) for data, dtype in given))
        parts.append(listed(result))
    results, pack = [], calls[0].shape[1]
    for first in range(0, len(parts[0]), pack):
        dtype = parts[0][first].dtype.scalar
        whole = [
            np.stack(
                [np.broadcast_to(one.handle.data.reshape(-1), len(packs)) for one in part[first : first + pack]], axis=1
            )
            for part, packs in zip(parts, calls, strict=True)
        ]
        together = np.concatenate(whole).reshape(-1)[back]
        results.append(_tensor(together.astype(interpreter._get_np_dtype(dtype)).reshape(shape), dtype))
    return _as_given(result, results)
