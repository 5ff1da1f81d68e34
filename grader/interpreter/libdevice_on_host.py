"""libdevice functions for the interpreter, which has none: the rounding and elementary ones that students use."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.runtime import interpreter

from grader.interpreter.control_flow import plain
from grader.interpreter.faults import unsupported
from grader.interpreter.host_builder import method
from grader.interpreter.number_formats import flushed, fused, is_power_of_two, is_whole, to_integer
from grader.interpreter.orders import approximated, coarse


def _half_away(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    return np.copysign(np.abs(whole) + (np.abs(x - whole) >= 0.5), x).astype(x.dtype)


def _saturated(x: np.ndarray) -> np.ndarray:
    return np.fmin(np.fmax(flushed(x), 0), 1) + x.dtype.type(0)


def _divided_fast(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """By more than 2^126 it gives 0."""
    return flushed(
        np.where(np.abs(y) > 2.0**126, np.where(np.isfinite(x), x * 0, np.nan), flushed(x) / flushed(y)).astype(x.dtype)
    )


def _byte_perm(low: np.ndarray, high: np.ndarray, selector: np.ndarray) -> np.ndarray:
    """Four bytes of eight: each nibble of the selector, less its highest bit, says which."""
    both = high.astype(np.int64) << 32 | low.astype(np.int64) & 0xFFFFFFFF
    picked = np.zeros_like(both)
    for at in range(0, 32, 8):
        picked |= (both >> 8 * (selector.astype(np.int64) >> at // 2 & 7) & 0xFF) << at
    return picked.astype(np.int32)


def _bits(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32).view(np.int32)


def _number(x: np.ndarray) -> np.ndarray:
    return x.astype(np.int32).view(np.float32)


_power = approximated(lambda exponent, base: np.power(base, exponent))  # exact where the base is a power of two

FLOAT: dict[str, Callable[..., Any]] = {
    "rint": np.rint, "nearbyint": np.rint, "round": _half_away, "trunc": np.trunc, "floor": np.floor,
    "ceil": lambda x: np.ceil(flushed(x)),
    "abs": np.abs, "fabs": np.abs, "sqrt": np.sqrt, "exp": coarse(np.exp), "exp2": coarse(np.exp2, exact=is_whole),
    "log": coarse(np.log), "log2": coarse(np.log2, exact=is_power_of_two),
    "pow": lambda x, y: _power(y, x), "fmin": np.fmin, "fmax": np.fmax, "min": np.minimum, "max": np.maximum, "copysign": np.copysign,
    "log10": coarse(np.log10), "log1p": coarse(np.log1p), "expm1": coarse(np.expm1), "sin": coarse(np.sin), "cos": coarse(np.cos),
    "tan": coarse(np.tan),
    "cbrt": approximated(np.cbrt), "hypot": approximated(np.hypot), "fast_expf": approximated(np.exp), "fast_logf": approximated(np.log),
    "fmod": np.fmod, "sqrt_rn": np.sqrt,
    "tanh": coarse(np.tanh), "rsqrt": approximated(lambda x: (1 / np.sqrt(x)).astype(x.dtype)), "fma": fused, "fma_rn": fused,
    "div_rn": np.divide, "mul_rn": np.multiply, "add_rn": np.add, "sub_rn": np.subtract, "fdiv_rn": np.divide,
    "saturatef": _saturated,
    "fast_dividef": approximated(_divided_fast), "rcp_rn": lambda x: (1 / x).astype(x.dtype),
}  # fmt: skip
INTEGER: dict[str, tuple[Callable[..., Any], Any]] = {
    "float2int_rn": (np.rint, np.int32), "float2int_rz": (np.trunc, np.int32), "float2int_rd": (np.floor, np.int32),
    "float2int_ru": (np.ceil, np.int32), "llrint": (np.rint, np.int64), "llround": (_half_away, np.int64),
    "float2ll_rn": (np.rint, np.int64), "float2ll_rz": (np.trunc, np.int64), "float2ll_rd": (np.floor, np.int64),
    "float2ll_ru": (np.ceil, np.int64), "int2float_rn": (lambda x: x, np.float32),
    "float_as_int": (_bits, np.int32), "float_as_uint": (_bits, np.int32),
    "int_as_float": (_number, np.float32), "uint_as_float": (_number, np.float32), "byte_perm": (_byte_perm, np.int32),
}  # fmt: skip


def install(patched: dict[int, tuple[Any, Any]]) -> None:
    """Puts the functions above in the place of their namesakes in triton.language.extra, and records both in `patched`."""
    for owner in (libdevice, cuda_libdevice):
        for name, original in list(vars(owner).items()):
            if inspect.isfunction(original) and not name.startswith("_"):
                stand_in = _elementwise(name) if name in FLOAT or name in INTEGER else _absent(name)
                setattr(owner, name, stand_in)
                patched[id(original)] = (original, stand_in)


def _absent(name: str) -> Any:
    def call(*_: Any, **__: Any) -> Any:
        raise unsupported("extern", name)

    return call


@method
def create_libdevice(self: Any, name: str, dtype: Any, *handles: Any) -> Any:
    """As a method of the builder: one of the functions above, of blocks that are broadcast, in the type `dtype` unless it has its own."""
    function, result = (FLOAT[name], None) if name in FLOAT else INTEGER[name]
    dtype = {None: dtype, np.int32: tl.int32, np.int64: tl.int64, np.float32: tl.float32}[result]
    values, form = function(*(handle.data for handle in handles)), interpreter._get_np_dtype(dtype)
    whole = form.kind == "i" and values.dtype.kind == "f"
    return interpreter.TensorHandle(to_integer(values, form) if whole else values.astype(form), dtype)


def _elementwise(name: str) -> Any:
    """The function of that name on tensors. Numbers beside them take the type of the first."""

    def call(*arguments: Any, **_: Any) -> Any:
        semantic = interpreter.interpreter_semantic
        tensors = [value for value in arguments if isinstance(value, tl.core.tensor)]
        known = tensors[0].dtype if tensors else tl.float32
        given = [
            value if isinstance(value, tl.core.tensor) else semantic.scalar_constant(plain(value), known)
            for value in arguments
        ]
        handle = semantic.builder.create_libdevice(name, known, *(value.handle for value in given))
        blocks = any(tensor.type.is_block() for tensor in tensors)
        kind = tl.block_type(handle.dtype, list(handle.data.shape)) if blocks else handle.dtype
        return tl.core.tensor(handle, kind)

    return call
