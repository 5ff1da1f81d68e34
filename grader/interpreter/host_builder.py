"""The operations of Triton's interpreter, corrected to what the compiled operations do.

Each function here stands in the place of the method of the same name of Triton's InterpreterBuilder. The causes: bfloat16 and fp8 are
bits to NumPy; conversions of numbers out of range are undefined in C and saturate on a GPU; comparisons kept the type of their operands;
NaN travels through minimum and clamp; several methods were missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
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
from grader.interpreter.number_formats import (
    as_tf32,
    decode,
    encode,
    flushed,
    fused,
    is_packed,
    is_power_of_two,
    is_whole,
    remainder,
    sum_in_14_bits,
    to_integer,
)
from grader.interpreter.orders import (
    BITS,
    ELEMENTS,
    FUSED,
    approximated,
    coarse,
    in_another,
    left_open,
    tried_in_another_way,
)
from grader.interpreter.per_program import PerProgram, anywhere

IS_KNOWN = attrgetter("known")
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


class Invalid:
    """Whether NumPy has made a NaN of numbers since this was last asked. A GPU's has other bits: not the sign of this machine's."""

    made = False

    @classmethod
    def note(cls, *_: Any) -> None:
        """NumPy calls it."""
        cls.made = True


def _gpu_nans(values: np.ndarray) -> np.ndarray:
    """The values with a GPU's NaN, all of whose bits but the sign are set."""
    Invalid.made = False
    if values.dtype not in (np.float16, np.float32):
        return values
    ones = np.array(-1, f"i{values.dtype.itemsize}").view(values.dtype)
    return np.where(np.isnan(values), -ones, values)


def _made(values: np.ndarray, dtype: Any, *handles: Any) -> Any:
    """A handle of `dtype` from values that were computed in fp32 (packed types) or in the type itself, out of `handles`."""
    dtype = dtype.scalar
    if Invalid.made:
        values = _gpu_nans(values)
    if is_packed(dtype):
        return _known_from(TensorHandle(encode(values, dtype), dtype), *handles)
    return _known_from(TensorHandle(values.astype(interpreter._get_np_dtype(dtype), copy=False), dtype), *handles)


def _known_from(made: Any, *handles: Any) -> Any:
    """The handle, known while compiling if what it was made from is: a number of the text's, or of such numbers."""
    made.known = bool(handles) and all(map(IS_KNOWN, handles))
    return made


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    def operation(self: Any, *handles: Any) -> Any:
        return _made(function(*map(_numbers, handles)), handles[-1].dtype, *handles)

    return operation


def _comparison(function: Callable[..., Any]) -> Callable[..., Any]:
    def operation(self: Any, left: Any, right: Any) -> Any:
        return TensorHandle(function(_numbers(left), _numbers(right)), tl.int1)

    return operation


@dataclass(frozen=True, slots=True)
class Rounded:
    """Of a product, or a sum with one: what the product was rounded to, and in fp64 what it is, which a GPU adds in its place.

    itself: whether the value is that product.
    """

    product: Any
    exact: Callable[[], Any]
    itself: bool = True

    def laid_out(self, change: Callable[[Any], Any]) -> Rounded:
        """Of the same elements in other places."""
        return Rounded(change(self.product), lambda: change(self.exact()), self.itself)

    def chosen(self, where: Any, other: Rounded) -> Rounded:
        """Of these elements where that holds, and of the other's elsewhere."""
        product = np.where(where, self.product, other.product)
        return Rounded(product, lambda: np.where(where, self.exact(), other.exact()), self.itself and other.itself)


def _product_of(handle: Any) -> Rounded:
    """What is known of a value as a product; what was none was not rounded."""
    values = _numbers(handle)
    return handle.rounded or Rounded(values, lambda: values.astype(np.float64))


def _multiplied(self: Any, left: Any, right: Any) -> Any:
    x, y = _numbers(left), _numbers(right)
    made = _made(x * y, right.dtype, left, right)
    made.rounded = Rounded(_numbers(made), lambda: x.astype(np.float64) * y.astype(np.float64))
    return made


def _added(function: Any) -> Callable[..., Any]:
    """A sum or difference of floats. Where a product cancels in it, or later, what is left is what rounding took from the product."""

    def operation(self: Any, left: Any, right: Any) -> Any:
        x, y = _numbers(left), _numbers(right)
        result = function(x, y)
        products = [one for one in (left.rounded, right.rounded) if one is not None]
        if not products or result.dtype == np.float64:
            return _made(result, right.dtype, left, right)
        rounded = next((one for one in products if one.itself), products[0])
        if rounded.itself and tried_in_another_way():
            exact = function(rounded.exact(), y) if rounded is left.rounded else function(x, rounded.exact())
            result = exact.astype(result.dtype)
        noise = np.abs(result) < np.abs(rounded.product) * np.finfo(result.dtype).eps * 4
        if anywhere(noise):
            noise = noise & (rounded.exact() != rounded.product)
            if anywhere(noise):
                left_open(FUSED)
        made = _made(result, right.dtype, left, right)
        made.rounded = replace(rounded, itself=False)
        return made

    return operation


def _laid_out(source: Any, change: Callable[[Any], Any]) -> Any:
    """The elements of `source` in other places, with what is known of them."""
    made = TensorHandle(change(source.data), source.dtype.scalar)
    made.known, made.rounded = source.known, source.rounded and source.rounded.laid_out(change)
    return made


def _wrapping(whole: Any, bits: Any) -> Callable[..., Any]:
    """An operation on integers whose one-bit form is `bits`, as it is modulo 2."""

    def operation(self: Any, left: Any, right: Any) -> Any:
        function = bits if left.data.dtype == np.bool_ else whole
        if whole is np.add and (left.is_product or right.is_product):
            function = _summed  # which the compiler makes one of
        return _known_from(TensorHandle(function(left.data, right.data), left.dtype.scalar), left, right)

    return operation


def _extreme(extreme: Any, of_zeros: Any) -> Callable[..., Any]:
    """The larger or smaller number; of_zeros: of 0 and -0, which is smaller."""

    def operation(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        result, same = extreme(x, y), x == y
        return np.where(same & (result == 0), of_zeros(x, y), result) if anywhere(same) else result

    return operation


def undefined(values: Any, where: Any) -> Any:
    """The values, and poison where no kernel can rely on one: an instruction has an answer, but LLVM does what it likes once it sees that
    this is so, also through a mask or a product with 0."""
    return np.where(where, poison(values.dtype), values) if anywhere(where) else values


def _partial(function: Callable[..., Any], has_none: Callable[..., Any]) -> Callable[..., Any]:
    """The function of two whole numbers, undefined where `has_none` says so."""

    def operation(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        none = has_none(x, y)
        if anywhere(none):
            return undefined(function(x, np.where(none, y.dtype.type(1), y)), none)  # type: ignore[no-any-return]
        return function(x, y)  # type: ignore[no-any-return]

    return operation


def _by_zero(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return y == 0


def _quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Toward zero, as the remainder that goes with it has the sign of `x`."""
    quotient, apart = x // y, (x < 0) != (y < 0)
    return quotient + (((x % y) != 0) & apart) if anywhere(apart) else quotient


def _shift(shifted: Callable[..., Any], signedness: str) -> Callable[..., Any]:
    """A shift of bits that are taken for numbers of that kind, undefined from the type's width on."""

    def shift(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        kind = f"{signedness}{x.itemsize}"
        return shifted(x.view(kind), y.astype(kind)).view(x.dtype)  # type: ignore[no-any-return]

    return _partial(shift, lambda x, y: y.view(f"u{y.itemsize}") >= 8 * x.itemsize)


def _upper_half(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of the product of two unsigned numbers, which is what the bits are taken for."""
    bits = 8 * x.itemsize
    a, b = (one.view(f"u{one.itemsize}") for one in (x, y))
    if bits < 64:
        high = (a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(bits)
    else:
        high = np.vectorize(lambda one, other: (int(one) * int(other)) >> 64, otypes=[np.uint64])(a, b)
    return high.astype(a.dtype).view(x.dtype)


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "fdiv": approximated(np.divide), "frem": remainder,
    "precise_divf": np.divide, "maximumf": _extreme(np.maximum, np.add), "maxnumf": _extreme(np.fmax, np.add),
    "minimumf": _extreme(np.minimum, lambda x, y: -(-x - y)), "minnumf": _extreme(np.fmin, lambda x, y: -(-x - y)),
    "fneg": np.negative, "approx_divf": approximated(np.divide),
    "cos": coarse(np.cos, 2.0**-20), "sin": coarse(np.sin, 2.0**-20), "exp": approximated(np.exp),
    "exp2": coarse(lambda x: flushed(np.exp2(x)), exact=is_whole), "log": approximated(np.log),
    "log2": coarse(np.log2, 2.0**-22, is_power_of_two), "floor": np.floor, "ceil": np.ceil, "precise_sqrt": np.sqrt,
    "sqrt": approximated(lambda x: np.sqrt(flushed(x))), "fma": fused,
    "rsqrt": approximated(lambda x: (1 / np.sqrt(flushed(x))).astype(x.dtype)),
    "minsi": np.minimum, "minui": np.minimum, "maxsi": np.maximum, "maxui": np.maximum,
    "sdiv": _partial(_quotient, _by_zero), "udiv": _partial(_quotient, _by_zero),
    "srem": _partial(np.fmod, _by_zero), "urem": _partial(np.fmod, _by_zero), "umulhi": _upper_half,
    "shl": _shift(np.left_shift, "u"), "lshr": _shift(np.right_shift, "u"), "ashr": _shift(np.right_shift, "i"),
}  # fmt: skip
COMPARISONS = {
    "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal, "EQ": np.equal, "NE": np.not_equal,
}  # fmt: skip
for _name, _function in ELEMENTWISE.items():
    METHODS[f"create_{_name}"] = _elementwise(_function)
METHODS["create_fmul"] = _multiplied
METHODS |= {"create_fadd": _added(np.add), "create_fsub": _added(np.subtract)}
METHODS |= {"create_add": _wrapping(np.add, np.logical_xor), "create_sub": _wrapping(np.subtract, np.logical_xor)}
METHODS["create_mul"] = _wrapping(np.multiply, np.logical_and)
for _name, _function in COMPARISONS.items():
    for _kind in ("fcmpO", "fcmpU", "icmpS", "icmpU", "icmp"):
        METHODS[f"create_{_kind}{_name}"] = _comparison(_function)


@method
def create_fabs(self: Any, arg: Any) -> Any:
    """The number without its sign bit."""
    bits = arg.data.view(f"u{arg.data.dtype.itemsize}")
    mask = bits.dtype.type((1 << (arg.dtype.scalar.primitive_bitwidth - 1)) - 1)
    return TensorHandle((bits & mask).view(arg.data.dtype), arg.dtype.scalar)


@method
def create_clampf(self: Any, arg: Any, low: Any, high: Any, propagate_nan: Any) -> Any:
    """min(max(x, low), high) of bounds in this order; a NaN becomes `low` unless it is to be kept."""
    x, bottom, top = _numbers(arg), _numbers(low), _numbers(high)
    clamped = np.fmin(np.fmax(x, bottom), top)
    if propagate_nan == tl.PropagateNan.ALL:
        clamped = np.where(np.isnan(x), x, clamped)
    else:  # of bounds c and -c the compiler takes the sign from x
        clamped = undefined(clamped, np.isnan(x) & (bottom == -top))
    return _made(undefined(clamped, bottom > top), arg.dtype)


@method
def create_select(self: Any, condition: Any, first: Any, second: Any) -> Any:
    """One of two values of one width, bits as they are."""
    other, chosen = second.data.view(first.data.dtype), condition.data.astype(bool, copy=False)
    made = TensorHandle(np.where(chosen, first.data, other), second.dtype.scalar)
    if first.rounded or second.rounded:
        made.rounded = _product_of(first).chosen(chosen, _product_of(second))
    return _known_from(made, first, second)


def _converted(self: Any, source: Any, target: Any, rounding: Any = None) -> Any:
    """From any arithmetic type to any other, as the GPU's conversion does: toward zero where the kernel says so."""
    dtype = target.scalar
    if "fp8e4b15" in (dtype.name, source.dtype.scalar.name):
        raise unsupported("fp8e4b15")
    values = _numbers(source)
    if dtype.is_floating():
        if is_packed(dtype) and values.dtype.kind != "f":
            values = values.astype(np.float32 if values.dtype.itemsize < 4 else np.float64)
        toward_zero = rounding not in (None, interpreter._ir.ROUNDING_MODE.RTNE)
        return _known_from(TensorHandle(encode(values, dtype, toward_zero=toward_zero), dtype), source)
    numpy_type = interpreter._get_np_dtype(dtype)
    if values.dtype.kind != "f":
        return _known_from(TensorHandle(values.astype(numpy_type), dtype), source)
    made = to_integer(values, numpy_type)
    if source.known:  # an instruction has an answer where it does not fit, the compiler has none
        made = undefined(made, made.astype(values.dtype) != np.trunc(values))
    return TensorHandle(made, dtype)


for _name in ("si_to_fp", "ui_to_fp", "fp_to_si", "fp_to_ui", "fp_ext", "fp_trunc", "fp_to_fp", "int_cast"):
    METHODS[f"create_{_name}"] = _converted


def _constant(dtype: Any) -> Callable[..., Any]:
    """A number of the kernel's text: of a whole one what does not fit is cut off, as the compiler does."""
    bits, numpy_type = dtype.primitive_bitwidth, interpreter._get_np_dtype(dtype)

    def get(self: Any, value: Any) -> Any:
        if dtype.is_floating():
            data = encode(np.array([value], np.float32 if is_packed(dtype) else np.float64), dtype)
        else:
            data = np.array([int(value) & ((1 << bits) - 1)], dtype=f"u{bits // 8}").view(numpy_type)
        handle = TensorHandle(data, dtype)
        handle.known = True
        return handle

    return get


for _dtype in (
    *(tl.float16, tl.float32, tl.float64, tl.bfloat16, tl.float8e5, tl.float8e4nv),
    *(tl.int8, tl.int16, tl.int32, tl.int64, tl.uint8, tl.uint16, tl.uint32, tl.uint64),
):
    METHODS[f"get_{_dtype.name}"] = _constant(_dtype)


@method
def get_all_ones_value(self: Any, dtype: Any) -> Any:
    """All bits set."""
    return TensorHandle(np.array([-1]).astype(interpreter._get_np_dtype(dtype)), dtype.scalar)


@method
def create_splat(self: Any, target: Any, arg: Any) -> Any:
    """A scalar in every element of a block."""
    sizes = _whole(target.shape)

    def whole(scalar: Any) -> Any:
        if isinstance(scalar, PerProgram):
            return np.broadcast_to(scalar.reshape((1,) * len(sizes)), sizes)
        return np.full(sizes, scalar.item(), scalar.dtype)

    return _laid_out(arg, whole)


def _whole(numbers: Any) -> tuple[int, ...]:
    """Sizes or axes as NumPy takes them: to the compiler True is the number 1."""
    return tuple(int(number) for number in numbers)


@method
def create_reshape(self: Any, arg: Any, shape: Any, allow_reorder: Any = False, *_: Any) -> Any:
    """The same elements in other sizes, in the same order unless the compiler may choose one: then even where the sizes stay, or only
    sizes of 1 come or go, it changes (seen on sm_90: from the layout of a product to that of a store)."""
    reordered, sizes = allow_reorder and left_open(ELEMENTS), _whole(shape)
    return _laid_out(arg, lambda tile: (in_another(tile) if reordered else tile).reshape(sizes))


@method
def create_cat(self: Any, lhs: Any, rhs: Any) -> Any:
    """Two tiles one behind the other, in an order that the compiler may choose."""
    both = np.concatenate([lhs.data, rhs.data])
    return TensorHandle(in_another(both).reshape(both.shape) if left_open(ELEMENTS) else both, lhs.dtype.scalar)


def _moving(change: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The elements of a tile in other places, by the one argument that says where."""
    return lambda self, arg, where: _laid_out(arg, lambda tile: change(tile, where))


METHODS["create_trans"] = _moving(lambda tile, order: np.transpose(tile, _whole(order)))
METHODS["create_broadcast"] = _moving(lambda tile, shape: np.broadcast_to(tile, _whole(shape)))
METHODS["create_expand_dims"] = _moving(lambda tile, at: tile.reshape((*tile.shape[:at], 1, *tile.shape[at:])))


def _unrepeated(values: np.ndarray, first: int = 0) -> np.ndarray:
    """Without what a broadcast repeats along an axis from `first` on."""
    return values[tuple(slice(None if step or axis < first else 1) for axis, step in enumerate(values.strides))]


@method
def create_addptr(self: Any, pointer: Any, offset: Any) -> Any:
    """Pointers moved by so many elements. Offsets are mostly broadcast along one axis or the other, and reckoned before that."""
    width = np.uint64(max(1, pointer.get_element_ty().primitive_bitwidth // 8))
    data = offset.data
    few = PerProgram(_unrepeated(data.stack, 1)) if isinstance(data, PerProgram) else _unrepeated(data)
    return TensorHandle(pointer.data + few.astype(np.uint64) * width, pointer.dtype)


def _summed(product: np.ndarray, other: np.ndarray) -> np.ndarray:
    """A product of int8 tiles and what is added to it: beyond int32 one GPU's instruction saturates, another's wraps."""
    total = product + other
    return undefined(total, ((product ^ total) & (other ^ total)) < 0)


@method
def create_dot(self: Any, a: Any, b: Any, d: Any, precision: Any, imprecise: Any) -> Any:
    """A product of tiles, exact for integers; in fp32 for floats, with what tf32 reads of fp32 operands.

    An fp16 accumulator is rounded after every instruction's worth of products, as tensor cores do.
    """
    if d.data.dtype == np.int32:
        deep = a.data.shape[-1] > EXACT_IN_FP32
        wide = np.float64 if deep else np.float32
        product = np.matmul(a.data.astype(wide), b.data.astype(wide)).astype(np.int32)
        made = TensorHandle(_summed(product, d.data), tl.int32)
        made.is_product = True
        return made
    left, right = _numbers(a), _numbers(b)
    if left.dtype == np.float64:
        return _made(np.matmul(left, right) + d.data, d.dtype)
    if a.dtype.scalar == tl.float32 and precision == interpreter._ir.INPUT_PRECISION.TF32:
        left, right = as_tf32(left), as_tf32(right)
    left, right = left.astype(np.float32, copy=False), right.astype(np.float32, copy=False)
    total = _numbers(d)
    if a.dtype.scalar.is_fp8() and left_open(BITS):
        total, add, depth = total.astype(np.float32), sum_in_14_bits, FP8_DEPTH
    elif d.dtype.scalar == tl.float16:
        add, depth = _added_in_fp16, DEPTH
    else:
        return _made(np.matmul(left, right) + total, d.dtype)
    for start in range(0, left.shape[-1], depth):
        end = start + depth
        total = add(total, left[..., start:end], right[..., start:end, :])
    return _made(total, d.dtype)


def _added_in_fp16(total: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return (total.astype(np.float32) + np.matmul(left, right)).astype(np.float16)  # type: ignore[no-any-return]


@method
def create_gather(self: Any, source: Any, indices: Any, axis: int) -> Any:
    """One element for each index; for an index outside the tile what no kernel can rely on, as it is on a GPU."""
    inside = (indices.data >= 0) & (indices.data < source.data.shape[axis])
    taken = np.take_along_axis(source.data, np.where(inside, indices.data, indices.data.dtype.type(0)), axis=axis)
    return TensorHandle(undefined(taken, ~inside), source.dtype.scalar)


@method
def create_histogram(self: Any, data: Any, bins: int, mask: Any = None) -> Any:
    """How many elements hold each of 0 .. bins - 1; another number is counted where its lowest bits are, which no kernel can rely on."""
    values = data.data.reshape(-1)
    if mask is not None:
        values = values[np.broadcast_to(mask.data, data.data.shape).reshape(-1).astype(bool)]
    beyond = (values < 0) | (values >= bins)
    counts = np.bincount(values[~beyond].astype(np.int64), minlength=bins).astype(np.int32)
    return TensorHandle(undefined(counts, beyond.any()), tl.int32)


# as in a kernel that was compiled without TRITON_DEBUG; nobody reads the log
METHODS["create_print"] = METHODS["create_assert"] = silent
# here a program is one thread, and no optimiser goes by a promise: whoever watches is told
METHODS["create_barrier"] = lambda self: LaunchEvents.barrier()
METHODS["create_assume"] = lambda self, condition: promises.assumed(condition)


def _with_scope(atomic: Callable[..., Any]) -> Callable[..., Any]:
    def create(self: Any, *operands: Any) -> Any:
        self.scope = operands[-1]  # for whoever follows the accesses: Triton's interpreter leaves it out
        # its native functions take some arrays as they lie in memory
        whole = [TensorHandle(one.data.copy(), one.dtype) if isinstance(one, TensorHandle) else one for one in operands]
        return atomic(self, *whole)

    return create


for _name in ("create_atomic_rmw", "create_atomic_cas"):
    METHODS[_name] = _with_scope(getattr(interpreter.InterpreterBuilder, _name))


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
    TensorHandle.known, TensorHandle.rounded, TensorHandle.is_product = False, None, False
    for name, function in METHODS.items():
        setattr(builder, name, function)
    builder.__getattr__ = _missing
    np.seterrcall(Invalid.note)
    np.seterr(all="ignore", invalid="call")
