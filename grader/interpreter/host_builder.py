"""The operations of Triton's interpreter, corrected to what the compiled operations do.

Each function here stands in the place of the method of the same name of Triton's InterpreterBuilder. The causes: bfloat16 and fp8 are
bits to NumPy; conversions of numbers out of range are undefined in C and saturate on a GPU; comparisons kept the type of their operands;
NaN travels through minimum and clamp; several methods were missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

from grader.interpreter import promises
from grader.interpreter.control_flow import LaunchEvents, silent
from grader.interpreter.faults import unsupported
from grader.interpreter.native_memory import poison
from grader.interpreter.number_formats import as_tf32, decode, encode, fused, is_packed, sum_in_14_bits, to_integer
from grader.interpreter.orders import BITS, ELEMENTS, approximated, in_another, left_open

METHODS: dict[str, Callable[..., Any]] = {}
DEPTH = 16
"""Products that one instruction of a tensor core adds to an fp16 accumulator."""
FP8_DEPTH = 32
"""Products that one instruction adds of fp8 operands."""
EXACT_IN_FP32 = 1024
"""Products of two int8 are at most 2^14, and whole numbers up to 2^24 are exact in fp32."""


def method(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` is to take the place of the builder's method of its name."""
    METHODS[function.__name__] = function
    return function


def _numbers(handle: Any) -> np.ndarray:
    return decode(handle.data, handle.dtype.scalar)


def _made(values: np.ndarray, dtype: Any) -> Any:
    """A handle of `dtype` from values that were computed in fp32 (packed types) or in the type itself."""
    dtype = dtype.scalar
    if is_packed(dtype):
        return TensorHandle(encode(values, dtype), dtype)
    expected = interpreter._get_np_dtype(dtype)
    return TensorHandle(values if values.dtype == expected else values.astype(expected), dtype)


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    def operation(self: Any, *handles: Any) -> Any:
        return _made(function(*(_numbers(handle) for handle in handles)), handles[-1].dtype)

    return operation


def _comparison(function: Callable[..., Any]) -> Callable[..., Any]:
    def operation(self: Any, left: Any, right: Any) -> Any:
        return TensorHandle(function(_numbers(left), _numbers(right)), tl.int1)

    return operation


def _known_from(made: Any, *handles: Any) -> Any:
    """The handle, known while compiling if what it was made from is: a whole number of the text's, or of such numbers."""
    made._known = all(getattr(handle, "_known", False) for handle in handles)
    return made


def _wrapping(whole: Any, bits: Any) -> Callable[..., Any]:
    """An operation on integers whose one-bit form is `bits`, as it is modulo 2."""

    def operation(self: Any, left: Any, right: Any) -> Any:
        function = bits if left.data.dtype == np.bool_ else whole
        return _known_from(TensorHandle(function(left.data, right.data), left.dtype.scalar), left, right)

    return operation


def _root_inverse(values: np.ndarray) -> np.ndarray:
    return (1 / np.sqrt(values)).astype(values.dtype)


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "fadd": np.add, "fsub": np.subtract, "fmul": np.multiply, "fdiv": approximated(np.divide), "frem": np.fmod,
    "precise_divf": np.divide, "minimumf": np.minimum, "maximumf": np.maximum, "minnumf": np.fmin, "maxnumf": np.fmax,
    "fneg": np.negative, "approx_divf": approximated(np.divide),
    "cos": np.cos, "sin": np.sin, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2,
    "floor": np.floor, "ceil": np.ceil, "sqrt": approximated(np.sqrt), "precise_sqrt": np.sqrt, "rsqrt": approximated(_root_inverse),
    "fma": fused,
    "minsi": np.minimum, "minui": np.minimum, "maxsi": np.maximum, "maxui": np.maximum,
}  # fmt: skip
for _name, _function in ELEMENTWISE.items():
    METHODS[f"create_{_name}"] = _elementwise(_function)
for _name, _function in {
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "EQ": np.equal,
    "NE": np.not_equal,
}.items():
    for _kind in ("fcmpO", "fcmpU", "icmpS", "icmpU", "icmp"):
        METHODS[f"create_{_kind}{_name}"] = _comparison(_function)
for _name, _function, _bits in (
    ("add", np.add, np.logical_xor),
    ("sub", np.subtract, np.logical_xor),
    ("mul", np.multiply, np.logical_and),
):
    METHODS[f"create_{_name}"] = _wrapping(_function, _bits)


def _divided(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Integer division toward zero; by zero all bits are set, as the GPU answers."""
    zero = right == 0
    if zero.any():
        quotient = _divided(left, np.where(zero, right.dtype.type(1), right))
        return np.where(zero, ~right.dtype.type(0), quotient)
    quotient = left // right
    if left.dtype.kind == "i":
        quotient = quotient + (((left % right) != 0) & ((left < 0) != (right < 0)))
    return quotient


def _remainder(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The remainder that goes with division toward zero: it has the sign of `left`."""
    return np.where(right == 0, left, np.fmod(left, np.where(right == 0, right.dtype.type(1), right)))


for _name, _function in (("sdiv", _divided), ("udiv", _divided), ("srem", _remainder), ("urem", _remainder)):
    METHODS[f"create_{_name}"] = _elementwise(_function)


def _width(handle: Any) -> int:
    return int(handle.data.dtype.itemsize * 8)


def _shift(function: Callable[..., Any]) -> Callable[..., Any]:
    """A shift by less than nothing, or by the type's width and more: an instruction has an answer to that, the compiler to such a number
    that it knows has none."""

    def shift(self: Any, left: Any, right: Any) -> Any:
        shifted = function(self, left, right)
        if getattr(right, "_known", False) and not (0 <= int(right.data.reshape(-1)[0]) < _width(left)):
            shifted.data = np.where(True, poison(shifted.data.dtype), shifted.data)
        return shifted

    METHODS[function.__name__] = shift
    return function


@_shift
def create_shl(self: Any, left: Any, right: Any) -> Any:
    """Bits shifted out are lost, all of them from the type's width on."""
    within = (right.data >= 0) & (right.data < _width(left))
    shifted = np.left_shift(left.data, np.where(within, right.data, right.data.dtype.type(0)))
    return _made(np.where(within, shifted, left.data.dtype.type(0)), left.dtype)


@_shift
def create_lshr(self: Any, left: Any, right: Any) -> Any:
    """A logical shift: zeros come in from the left whatever the sign."""
    unsigned = left.data.view(f"u{left.data.dtype.itemsize}") if left.data.dtype.kind == "i" else left.data
    amount = right.data.astype(unsigned.dtype)
    within = amount < _width(left)
    shifted = np.right_shift(unsigned, np.where(within, amount, amount.dtype.type(0)))
    shifted = np.where(within, shifted, shifted.dtype.type(0))
    return TensorHandle(shifted.view(left.data.dtype), left.dtype.scalar)


@_shift
def create_ashr(self: Any, left: Any, right: Any) -> Any:
    """An arithmetic shift: the sign comes in from the left, and is all that is left from the type's width on."""
    signed = left.data.view(f"i{left.data.dtype.itemsize}")
    amount = np.minimum(right.data.view(f"u{right.data.dtype.itemsize}"), _width(left) - 1).astype(signed.dtype)
    return TensorHandle(np.right_shift(signed, amount).view(left.data.dtype), left.dtype.scalar)


@method
def create_umulhi(self: Any, left: Any, right: Any) -> Any:
    """The upper half of the product of two unsigned numbers, which is what the bits are taken for."""
    bits = _width(left)
    x, y = (handle.data.view(f"u{bits // 8}") for handle in (left, right))
    if bits < 64:
        high = (x.astype(np.uint64) * y.astype(np.uint64)) >> np.uint64(bits)
    else:
        high = np.vectorize(lambda a, b: (int(a) * int(b)) >> 64, otypes=[np.uint64])(x, y)
    return TensorHandle(high.astype(x.dtype).view(left.data.dtype), left.dtype.scalar)


@method
def create_fabs(self: Any, arg: Any) -> Any:
    """The number without its sign bit."""
    bits = arg.data.view(f"u{arg.data.dtype.itemsize}")
    mask = bits.dtype.type((1 << (arg.dtype.scalar.primitive_bitwidth - 1)) - 1)
    return TensorHandle((bits & mask).view(arg.data.dtype), arg.dtype.scalar)


@method
def create_clampf(self: Any, arg: Any, low: Any, high: Any, propagate_nan: Any) -> Any:
    """min(max(x, low), high); a NaN becomes `low` unless it is to be kept."""
    x, bottom, top = _numbers(arg), _numbers(low), _numbers(high)
    clamped = np.fmin(np.fmax(x, bottom), top)
    if propagate_nan == tl.PropagateNan.ALL:
        clamped = np.where(np.isnan(x), x, clamped)
    return _made(clamped, arg.dtype)


@method
def create_select(self: Any, condition: Any, first: Any, second: Any) -> Any:
    """One of two values of one type, bits as they are."""
    return TensorHandle(np.where(condition.data.astype(bool, copy=False), first.data, second.data), second.dtype.scalar)


def _converted(self: Any, source: Any, target: Any, *_: Any) -> Any:
    """From any arithmetic type to any other, as the GPU's conversion does."""
    dtype = target.scalar
    if "fp8e4b15" in (dtype.name, source.dtype.scalar.name):
        raise unsupported("fp8e4b15")
    values = _numbers(source)
    if dtype.is_floating():
        if is_packed(dtype) and values.dtype.kind != "f":
            values = values.astype(np.float32 if values.dtype.itemsize < 4 else np.float64)
        return TensorHandle(encode(values, dtype), dtype)
    numpy_type = interpreter._get_np_dtype(dtype)
    if values.dtype.kind == "f":
        return TensorHandle(to_integer(values, numpy_type), dtype)
    return _known_from(TensorHandle(values.astype(numpy_type), dtype), source)


for _name in ("si_to_fp", "ui_to_fp", "fp_to_si", "fp_to_ui", "fp_ext", "fp_trunc", "int_cast"):
    METHODS[f"create_{_name}"] = _converted


@method
def create_fp_to_fp(self: Any, source: Any, target: Any, rounding: Any) -> Any:
    """Between floating types, toward zero where the kernel says so."""
    if "fp8e4b15" in (target.scalar.name, source.dtype.scalar.name):
        raise unsupported("fp8e4b15")
    toward_zero = rounding is not None and rounding != interpreter._ir.ROUNDING_MODE.RTNE
    return TensorHandle(encode(_numbers(source), target.scalar, toward_zero=toward_zero), target.scalar)


def _constant(name: str) -> Callable[..., Any]:
    dtype = tl.bfloat16 if name == "bf16" else getattr(tl, {"fp8e5": "float8e5", "fp8e4nv": "float8e4nv"}[name])
    return lambda self, value: TensorHandle(encode(np.array([value], dtype=np.float32), dtype), dtype)


for _name in ("bf16", "fp8e5", "fp8e4nv"):
    METHODS[f"get_{_name}"] = _constant(_name)


def _whole_constant(bits: int, kind: str) -> Callable[..., Any]:
    """A whole number as a constant of so many bits: what does not fit is cut off, as the compiler does."""
    dtype, numpy_type = getattr(tl, f"{kind}{bits}"), np.dtype(f"{kind}{bits}")

    def get(self: Any, value: Any) -> Any:
        number = int(value) & ((1 << bits) - 1)
        handle = TensorHandle(np.array([number], dtype=f"u{bits // 8}").view(numpy_type), dtype)
        handle._known = True
        return handle

    return get


for _bits in (8, 16, 32, 64):
    for _kind in ("int", "uint"):
        METHODS[f"get_{_kind}{_bits}"] = _whole_constant(_bits, _kind)


@method
def get_all_ones_value(self: Any, dtype: Any) -> Any:
    """All bits set."""
    numpy_type = interpreter._get_np_dtype(dtype)
    ones = np.ones(1, dtype=bool) if numpy_type == np.bool_ else ~np.zeros(1, dtype=numpy_type)
    return TensorHandle(ones, dtype.scalar)


@method
def create_splat(self: Any, target: Any, arg: Any) -> Any:
    """A scalar in every element of a block."""
    data = np.empty(target.shape, dtype=arg.data.dtype)
    data.fill(arg.data.item())
    return _known_from(TensorHandle(data, arg.dtype.scalar), arg)


def _whole(numbers: Any) -> tuple[int, ...]:
    """Sizes or axes as NumPy takes them: to the compiler True is the number 1."""
    return tuple(int(number) for number in numbers)


@method
def create_reshape(self: Any, arg: Any, shape: Any, allow_reorder: Any = False, *_: Any) -> Any:
    """The same elements in other sizes, in the same order unless the compiler may choose one: then even where the sizes stay, or only
    sizes of 1 come or go, it changes (seen on sm_90: from the layout of a product to that of a store)."""
    data = in_another(arg.data) if allow_reorder and left_open(ELEMENTS) else arg.data
    return TensorHandle(data.reshape(_whole(shape)), arg.dtype.scalar)


@method
def create_cat(self: Any, lhs: Any, rhs: Any) -> Any:
    """Two tiles one behind the other, in an order that the compiler may choose."""
    both = np.concatenate([lhs.data, rhs.data])
    return TensorHandle(in_another(both).reshape(both.shape) if left_open(ELEMENTS) else both, lhs.dtype.scalar)


@method
def create_trans(self: Any, arg: Any, order: Any) -> Any:
    """The axes in another order."""
    return TensorHandle(np.transpose(arg.data, _whole(order)), arg.dtype.scalar)


@method
def create_broadcast(self: Any, arg: Any, shape: Any) -> Any:
    """Repeated along axes of one element."""
    return TensorHandle(np.broadcast_to(arg.data, _whole(shape)), arg.dtype.scalar)


@method
def create_expand_dims(self: Any, arg: Any, axis: int) -> Any:
    """One more axis, of one element."""
    shape = arg.data.shape
    return TensorHandle(arg.data.reshape(*shape[:axis], 1, *shape[axis:]), arg.dtype.scalar)


@method
def create_dot(self: Any, a: Any, b: Any, d: Any, precision: Any, imprecise: Any) -> Any:
    """A product of tiles, exact for integers; in fp32 for floats, with what tf32 reads of fp32 operands.

    An fp16 accumulator is rounded after every instruction's worth of products, as tensor cores do.
    """
    if d.data.dtype == np.int32:
        deep = a.data.shape[-1] > EXACT_IN_FP32
        wide = np.float64 if deep else np.float32
        return TensorHandle(np.matmul(a.data.astype(wide), b.data.astype(wide)).astype(np.int32) + d.data, tl.int32)
    left, right = _numbers(a), _numbers(b)
    if left.dtype == np.float64:
        return _made(np.matmul(left, right) + d.data, d.dtype)
    if a.dtype.scalar == tl.float32 and precision == interpreter._ir.INPUT_PRECISION.TF32:
        left, right = as_tf32(left), as_tf32(right)
    left, right = left.astype(np.float32, copy=False), right.astype(np.float32, copy=False)
    if a.dtype.scalar.is_fp8() and left_open(BITS):
        total = _numbers(d).astype(np.float32)
        for start in range(0, left.shape[-1], FP8_DEPTH):
            end = start + FP8_DEPTH
            total = sum_in_14_bits(total, left[..., start:end], right[..., start:end, :])
        return _made(total, d.dtype)
    if d.dtype.scalar != tl.float16:
        return _made(np.matmul(left, right) + _numbers(d), d.dtype)
    total = _numbers(d).astype(np.float16)
    for start in range(0, left.shape[-1], DEPTH):
        part = np.matmul(left[..., start : start + DEPTH], right[..., start : start + DEPTH, :])
        total = (total.astype(np.float32) + part).astype(np.float16)
    return _made(total, d.dtype)


@method
def create_gather(self: Any, source: Any, indices: Any, axis: int) -> Any:
    """One element for each index; for an index outside the tile what no kernel can rely on, as it is on a GPU."""
    inside = (indices.data >= 0) & (indices.data < source.data.shape[axis])
    taken = np.take_along_axis(source.data, np.where(inside, indices.data, indices.data.dtype.type(0)), axis=axis)
    if not inside.all():
        taken[~inside] = poison(taken.dtype)
    return TensorHandle(taken, source.dtype.scalar)


@method
def create_histogram(self: Any, data: Any, bins: int, mask: Any = None) -> Any:
    """How many elements hold each of 0 .. bins - 1."""
    values = data.data.reshape(-1)
    counted = (values >= 0) & (values < bins)
    if mask is not None:
        counted &= np.broadcast_to(mask.data, data.data.shape).reshape(-1).astype(bool)
    counts = np.bincount(values[counted].astype(np.int64), minlength=bins)
    return TensorHandle(counts.astype(np.int32), tl.int32)


# as in a kernel that was compiled without TRITON_DEBUG; nobody reads the log
METHODS["create_print"] = METHODS["create_assert"] = silent


def _with_scope(atomic: Callable[..., Any]) -> Callable[..., Any]:
    def create(self: Any, *operands: Any) -> Any:
        self.scope = operands[-1]  # for whoever follows the accesses: Triton's interpreter leaves it out
        return atomic(self, *operands)

    return create


for _name in ("create_atomic_rmw", "create_atomic_cas"):
    METHODS[_name] = _with_scope(getattr(interpreter.InterpreterBuilder, _name))


@method
def create_barrier(self: Any) -> None:
    """Threads of a program wait for each other: here there is one, and whoever follows its accesses is told."""
    LaunchEvents.barrier()


@method
def create_assume(self: Any, condition: Any) -> None:
    """Nothing, but that a promise to the optimiser has to be kept."""
    promises.assumed(condition)


@method
def create_inline_asm(self: Any, *_: Any) -> None:
    """Inline assembly: not on this machine."""
    raise unsupported("inline_asm")


@method
def create_extern_elementwise(self: Any, library: Any, path: Any, symbol: str, *_: Any) -> None:
    """A libdevice function that libdevice_on_host does not know."""
    raise unsupported("extern", symbol)


def _missing(self: Any, name: str) -> Any:
    if not name.startswith(("create_", "get_")):
        raise AttributeError(name)
    if name in ("create_clock", "create_globaltimer", "create_smid"):
        raise unsupported("clock")
    raise unsupported("builder", name.removeprefix("create_"), triton.__version__)


def install() -> None:
    """Corrects the interpreter's builder, once a process."""
    builder = interpreter.InterpreterBuilder
    for name, function in METHODS.items():
        setattr(builder, name, function)
    builder.__getattr__ = _missing
    np.seterr(all="ignore")
