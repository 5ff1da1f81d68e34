"""Numbers as the GPU holds and converts them: bfloat16, fp8, tf32, saturating conversions, in NumPy.

NumPy has no bfloat16 and no fp8: the interpreter holds their bits in uint16 and uint8. `decode` gives the exact fp32 values of
such bits, `encode` rounds fp32 back, to nearest even unless told otherwise, as `cvt.rn` does.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import triton.language as tl

FP8 = {"fp8e5": (5, 2, True), "fp8e4nv": (4, 3, False)}
"""Name: exponent bits, mantissa bits, whether it has infinities (IEEE-like)."""


def is_packed(dtype: Any) -> bool:
    """Whether the interpreter holds this type as bits rather than as numbers."""
    return dtype.name == "bf16" or dtype.name in FP8


def decode(data: np.ndarray, dtype: Any) -> np.ndarray:
    """The values of `data`: exact fp32 for bfloat16 and fp8, else `data` itself."""
    if dtype.name == "bf16":
        return (data.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype.name in FP8:
        return _fp8_values(dtype.name)[data]
    return data


def encode(values: np.ndarray, dtype: Any, *, toward_zero: bool = False) -> np.ndarray:
    """`values` in the interpreter's form of a floating type, rounded once."""
    if dtype.name == "bf16":
        return _to_bf16(values, toward_zero)
    if dtype.name in FP8:
        if toward_zero:  # by way of fp16, of which e5m2 is the first half
            return (encode(values, tl.float16, toward_zero=True).view(np.uint16) >> np.uint16(8)).astype(np.uint8)
        return _to_fp8(np.asarray(values, dtype=np.float32), dtype.name)
    target = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}[dtype.name]
    rounded = values.astype(target)
    if toward_zero:
        beyond = np.abs(rounded.astype(np.float64)) > np.abs(values.astype(np.float64))
        rounded = np.where(beyond, np.nextafter(rounded, target(0)), rounded)
    return rounded


def _to_bf16(values: np.ndarray, toward_zero: bool) -> np.ndarray:
    if values.dtype == np.float64:
        values = _to_odd_fp32(values)
    bits = values.astype(np.float32, copy=False).view(np.uint32)
    raised = bits if toward_zero else bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    packed = (raised >> np.uint32(16)).astype(np.uint16)
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    if nan.any():
        packed[nan] = 0x7FFF
    return packed


def _to_odd_fp32(values: np.ndarray) -> np.ndarray:
    """fp64 to fp32 rounded to odd, so that rounding once more to a shorter format is exact."""
    rounded = values.astype(np.float32)
    exact = rounded.astype(np.float64) == values
    down = np.where(np.abs(rounded.astype(np.float64)) > np.abs(values), np.nextafter(rounded, np.float32(0)), rounded)
    odd = (down.astype(np.float32, copy=False).view(np.uint32) | np.uint32(1)).view(np.float32)
    return np.where(exact | ~np.isfinite(values), rounded, odd)


@cache
def _fp8_values(name: str) -> np.ndarray:
    exponent_bits, mantissa_bits, infinities = FP8[name]
    codes = np.arange(256)
    exponent, mantissa = (codes >> mantissa_bits) & (2**exponent_bits - 1), codes & (2**mantissa_bits - 1)
    bias = 2 ** (exponent_bits - 1) - 1
    normal = np.ldexp(1 + mantissa / 2**mantissa_bits, exponent - bias)
    value = np.where(exponent == 0, np.ldexp(mantissa / 2**mantissa_bits, 1 - bias), normal)
    if infinities:
        value = np.where(exponent == 2**exponent_bits - 1, np.where(mantissa == 0, np.inf, np.nan), value)
    else:
        value = np.where((codes & 0x7F) == 0x7F, np.nan, value)
    return np.where(codes & 0x80, -value, value).astype(np.float32)


def _to_fp8(values: np.ndarray, name: str) -> np.ndarray:
    """`cvt.rn.satfinite`: to nearest even, the largest finite number beyond the range."""
    positive = _fp8_values(name)[:128]
    finite = positive[np.isfinite(positive)].astype(np.float64)
    middles = (finite[1:] + finite[:-1]) / 2
    size = np.abs(values).astype(np.float64)
    code = np.searchsorted(middles, size, side="left")
    tie = (code < len(middles)) & (middles[np.minimum(code, len(middles) - 1)] == size)
    code = np.where(tie & (code % 2 == 1), code + 1, code)
    code = np.where(np.isnan(values), 0x7F, code | np.where(np.signbit(values), 0x80, 0))
    return code.astype(np.uint8)


def to_integer(values: np.ndarray, target: np.dtype[Any]) -> np.ndarray:
    """Truncated as `cvt.rzi` does: saturated at the limits, NaN to zero; 8-bit types keep the low byte of a 16-bit result."""
    limits = np.iinfo(target)
    if values.size and values.min() >= limits.min and values.max() <= limits.max and limits.bits < 64:
        return values.astype(target)
    if limits.bits == 64:
        return _to_integer64(values, limits, target)
    wide = np.iinfo(np.int16 if target.kind == "i" else np.uint16) if limits.bits == 8 else limits
    clipped = np.clip(np.where(np.isnan(values), 0, np.trunc(values.astype(np.float64))), wide.min, wide.max)
    return clipped.astype(np.int64).astype(target)


def _to_integer64(values: np.ndarray, limits: Any, target: np.dtype[Any]) -> np.ndarray:
    whole = np.trunc(values.astype(np.float64))
    low, high = whole <= float(limits.min), whole >= float(limits.max)
    inside = np.where(low | high | np.isnan(whole), 0, whole).astype(target)
    inside = np.where(low, limits.min, np.where(high, limits.max, inside))
    return np.where(np.isnan(values), target.type(2**63) if target.kind == "u" else limits.min, inside).astype(target)


def as_tf32(values: np.ndarray) -> np.ndarray:
    """fp32 as the tensor cores read it for tf32: the last 13 bits of the mantissa are ignored."""
    return (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def sum_in_14_bits(total: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """`total` and the products of rows and columns, all fp32, as a Hopper's tensor cores add those of fp8: of each addend only what lies
    within fourteen bits of the largest."""
    products = left[..., :, :, None] * right[..., None, :, :]
    largest = np.maximum(np.abs(total), np.max(np.abs(products), axis=-2))
    unit = (largest.view(np.uint32) & np.uint32(0x7F800000)).view(np.float32) * np.float32(2**-13)
    unit = np.where(unit > 0, unit, np.float32(1))
    cut = np.trunc(products / unit[..., :, None, :])
    return (np.trunc(total / unit) + np.sum(cut, axis=-2)) * unit


def fused(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x y + z rounded once, in the type of `z`."""
    if z.dtype == np.float64:
        return x * y + z
    wide = x.astype(np.float64) * y.astype(np.float64)
    total = wide + z.astype(np.float64)
    back = total - wide
    lost = (wide - (total - back)) + (z.astype(np.float64) - back)
    bits = total.view(np.int64)
    inexact = (lost != 0) & np.isfinite(total) & ((bits & 1) == 0)
    outward = np.where((lost > 0) == (total > 0), 1, -1)
    return np.where(inexact, bits + outward, bits).view(np.float64).astype(z.dtype)


def flushed(x: np.ndarray) -> np.ndarray:
    """fp32 as many an instruction reads or writes it: what is too small for a normal number is zero."""
    if x.dtype != np.float32:
        return x
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(x.dtype.type(0), x), x)


def is_whole(x: np.ndarray) -> np.ndarray:
    """Which numbers are whole."""
    return x == np.rint(x)


def is_power_of_two(x: np.ndarray) -> np.ndarray:
    """Which fp32 numbers are powers of two, or none that has a logarithm."""
    return (x.astype(np.float32, copy=False).view(np.uint32) & np.uint32(0x7FFFFF) == 0) | (x <= 0)


def remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x % y of floats as it is compiled, with the quotient as it is rounded: of many times y only some digits are left."""
    x, y = (one.astype(np.float32) if one.dtype == np.float16 else one for one in (x, y))
    return np.where(np.isinf(y), x, fused(-np.trunc(x / y), y, x))
