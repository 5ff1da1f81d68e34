"""libdevice functions for the interpreter, which has none: the rounding and elementary ones that students use."""

from __future__ import annotations

from typing import Any

import numpy as np


def _half_away(x: np.ndarray) -> np.ndarray:
    return np.trunc(x + np.copysign(np.asarray(0.5, x.dtype), x))


FLOAT = {
    "rint": np.rint, "nearbyint": np.rint, "round": _half_away, "trunc": np.trunc, "floor": np.floor, "ceil": np.ceil,
    "abs": np.abs, "fabs": np.abs, "sqrt": np.sqrt, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2,
    "pow": np.power, "fmin": np.fmin, "fmax": np.fmax, "min": np.minimum, "max": np.maximum, "copysign": np.copysign,
    "tanh": np.tanh, "rsqrt": lambda x: (1 / np.sqrt(x)).astype(x.dtype), "fma": lambda a, b, c: a * b + c,
    "div_rn": np.divide, "mul_rn": np.multiply, "add_rn": np.add, "sub_rn": np.subtract, "fdiv_rn": np.divide,
    "saturatef": lambda x: np.clip(x, 0, 1).astype(x.dtype),
    "fast_dividef": np.divide, "rcp_rn": lambda x: (1 / x).astype(x.dtype),
}  # fmt: skip
INTEGER = {
    "float2int_rn": (np.rint, np.int32), "float2int_rz": (np.trunc, np.int32), "float2int_rd": (np.floor, np.int32),
    "float2int_ru": (np.ceil, np.int32), "llrint": (np.rint, np.int64), "llround": (_half_away, np.int64),
    "int2float_rn": (lambda x: x, np.float32),
}  # fmt: skip


def install() -> None:
    """Puts the functions above in the place of their namesakes in triton.language.extra, wherever they are found."""
    import triton.language as tl
    from triton.language.extra import libdevice
    from triton.language.extra.cuda import libdevice as cuda_libdevice

    if getattr(libdevice, "_on_host", False):
        return
    for owner in (libdevice, cuda_libdevice):
        for name, function in FLOAT.items():
            setattr(owner, name, _elementwise(tl, function, None))
        for name, (function, result) in INTEGER.items():
            setattr(owner, name, _elementwise(tl, function, result))
    libdevice._on_host = True  # type: ignore[attr-defined]


def _elementwise(tl: Any, function: Any, result: Any) -> Any:
    """`function` of arrays as a function of interpreter tensors, in the type of its first argument or in `result`."""
    from triton.runtime.interpreter import TensorHandle

    types = {np.int32: tl.int32, np.int64: tl.int64, np.float32: tl.float32}

    def call(first: Any, *others: Any, **_: Any) -> Any:
        arrays = [np.asarray(getattr(getattr(value, "handle", None), "data", value)) for value in (first, *others)]
        dtype = types[result] if result else first.dtype
        data = np.asarray(function(*arrays)).astype(result or arrays[0].dtype)
        shaped = tl.block_type(dtype, list(data.shape)) if getattr(first, "shape", None) else dtype
        return tl.core.tensor(TensorHandle(data, dtype), shaped)

    return call
