"""Block pointers, tensor descriptors and atomics of the interpreter, corrected to what the compiled ones do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

from grader.interpreter.faults import LaunchEnded
from grader.interpreter.host_builder import METHODS, method, undefined
from grader.interpreter.number_formats import decode, encode, is_packed

NO_POLICY = (None,) * (len(inspect.signature(interpreter.InterpreterBuilder.create_masked_store).parameters) - 4)
"""Cache modifier and eviction policy; from Triton 3.9 on one value for both."""
ROW_ALIGNMENT = 16
PACKED_OPERATIONS: dict[str, Callable[..., Any]] = {"FADD": np.add, "MAX": np.fmax, "MIN": np.fmin}


def _tile(block: Any, offsets: Sequence[Any], checked: Iterable[int]) -> tuple[Any, Any]:
    """Addresses of the tile of a block pointer or descriptor that begins there, which know what they were made of, and whether each lies
    inside along the dimensions that are checked."""
    base, tile, strides = block.base, block.block_shape, block.strides
    width, checked = max(1, base.get_element_ty().primitive_bitwidth // 8), {dim % len(tile) for dim in checked}
    addresses, inside = np.broadcast_to(base.data, tile), np.ones(tuple(tile), dtype=bool)
    for dim, size in enumerate(tile):
        axis = [1] * len(tile)
        axis[dim] = size
        index = (offsets[dim].data.reshape(-1)[0].astype(np.int64) + np.arange(size)).reshape(axis)
        stride = strides[dim].data.reshape(-1)[0].astype(np.int64)
        addresses = addresses + (width * index * stride).astype(np.uint64)
        if dim in checked:
            inside = inside & (index >= 0) & (index < block.shape[dim].data.reshape(-1)[0])
    handle = TensorHandle(addresses, base.dtype.scalar)
    handle._tile = (base, tile, offsets, strides)
    return handle, TensorHandle(inside, tl.int1)


def _descriptor_tile(desc: Any, offsets: Sequence[Any]) -> tuple[Any, Any]:
    return _tile(desc, offsets, range(len(desc.block_shape)))


def _refused(found: str) -> LaunchEnded:
    return LaunchEnded("undefined", f"a tensor descriptor {found}; load by pointers where that may be so")


def _check_descriptor(self: Any) -> None:
    """What Triton demands of a descriptor's place in memory, since a GPU's own unit for tiles does. Raises LaunchEnded."""
    width = max(1, self.base.dtype.element_ty.primitive_bitwidth // 8)
    beside = int(self.base.data.reshape(-1)[0]) % ROW_ALIGNMENT
    if beside:
        raise _refused(f"begins {beside} bytes past a multiple of {ROW_ALIGNMENT}")
    *outer, last = [int(stride.data.reshape(-1)[0]) for stride in self.strides]
    if last != 1:
        raise _refused(f"has {last} as its last stride, expected 1")
    for stride in outer:
        if stride * width % ROW_ALIGNMENT:
            found = f"a stride of {stride} elements, {stride * width} bytes"
            raise _refused(f"has {found}, expected a multiple of {ROW_ALIGNMENT} bytes")


@method
def create_make_block_ptr(self: Any, base: Any, shape: Any, strides: Any, offsets: Any, tile: Any, order: Any) -> Any:
    """A block pointer whose offsets are its own."""
    return interpreter.BlockPointerHandle(base, shape, strides, [offset.clone() for offset in offsets], tile, order)


@method
def create_advance(self: Any, pointer: Any, offsets: Sequence[Any]) -> Any:
    """The same block, further on."""
    moved = [
        TensorHandle((old.data.astype(np.int64) + step.data).astype(old.data.dtype), old.dtype)
        for old, step in zip(pointer.offsets, offsets, strict=True)
    ]
    return interpreter.BlockPointerHandle(
        pointer.base, pointer.shape, pointer.strides, moved, pointer.block_shape, pointer.order
    )


def _filler(element: Any, shape: tuple[int, ...], padding: Any) -> Any:
    value = np.zeros(1, dtype=interpreter._get_np_dtype(element))
    if padding == interpreter._ir.PADDING_OPTION.PAD_NAN:
        value = encode(np.array([np.nan], np.float32), element)
    handle = TensorHandle(np.full(shape, value[0]), element)
    handle._argument = True  # a constant, for whoever asks where values come from
    return handle


@method
def create_tensor_pointer_load(self: Any, pointer: Any, boundary_check: Any, padding: Any, *policy: Any) -> Any:
    """Loads a block; what lies outside is zero, or NaN when asked for."""
    addresses, inside = _tile(pointer, pointer.offsets, boundary_check)
    other = _filler(addresses.get_element_ty(), inside.data.shape, padding)
    return self.create_masked_load(addresses, inside, other, *policy)


@method
def create_tensor_pointer_store(self: Any, pointer: Any, value: Any, boundary_check: Any, *policy: Any) -> Any:
    """Stores the part of a block that lies inside."""
    addresses, inside = _tile(pointer, pointer.offsets, boundary_check)
    return self.create_masked_store(addresses, value, inside, *policy)


@method
def create_descriptor_load(self: Any, desc: Any, indices: Any, *policy: Any) -> Any:
    """Loads a tile through a descriptor; what lies outside is its padding."""
    addresses, inside = _descriptor_tile(desc, indices)
    other = _filler(addresses.get_element_ty(), inside.data.shape, desc.padding)
    return self.create_masked_load(addresses, inside, other, *policy, False)


@method
def create_descriptor_store(self: Any, desc: Any, value: Any, indices: Any) -> Any:
    """Stores the part of a tile that lies inside."""
    addresses, inside = _descriptor_tile(desc, indices)
    return self.create_masked_store(addresses, value, inside, *NO_POLICY)


@method
def create_descriptor_gather(self: Any, desc: Any, rows: Any, column: Any, *_: Any) -> Any:
    """One row for each entry of `rows`, from `column` on."""
    taken = [
        self.create_descriptor_load(desc, [TensorHandle(rows.data[i : i + 1], tl.int32), column], *NO_POLICY).data
        for i in range(len(rows.data))
    ]
    return TensorHandle(np.concatenate(taken), desc.base.dtype.element_ty)


@method
def create_descriptor_scatter(self: Any, desc: Any, value: Any, rows: Any, column: Any) -> None:
    """Stores one row for each entry of `rows`, from `column` on."""
    for i in range(len(rows.data)):
        row = TensorHandle(value.data[i : i + 1], value.dtype)
        self.create_descriptor_store(desc, row, [TensorHandle(rows.data[i : i + 1], tl.int32), column])


@method
def create_descriptor_reduce(self: Any, kind: Any, desc: Any, value: Any, indices: Any) -> None:
    """Adds a tile, or takes minimum, maximum or bits of it, into memory."""
    addresses, inside = _descriptor_tile(desc, indices)
    element = desc.base.dtype.element_ty
    name = str(kind).rpartition(".")[2].upper()
    if name == "ADD" and element.is_floating():
        name = "FADD"
    elif name in ("MIN", "MAX") and element.is_int_unsigned():
        name = "U" + name
    operation = getattr(interpreter._ir.ATOMIC_OP, name)
    self.create_atomic_rmw(operation, addresses, value, inside, interpreter._ir.MEM_SEMANTIC.RELAXED, None)


def _atomic(original: Callable[..., Any]) -> Callable[..., Any]:
    def create_atomic_rmw(
        self: Any, operation: Any, pointer: Any, value: Any, mask: Any, order: Any, scope: Any
    ) -> Any:
        """One after the other, in the order of the elements; bfloat16 through fp32."""
        mask = TensorHandle(np.broadcast_to(mask.data.astype(bool, copy=False), pointer.data.shape), tl.int1)
        element = value.dtype.scalar
        if not is_packed(element):
            made = original(self, operation, pointer, value, mask, order, scope)
            if isinstance(made.data, np.ndarray):
                made.data = undefined(made.data, ~mask.data)
            return made
        combine = PACKED_OPERATIONS[str(operation).rpartition(".")[2]]
        before = np.zeros_like(value.data)
        for lane in np.argwhere(mask.data):
            at = tuple(lane)
            place = TensorHandle(pointer.data[at].reshape(1), pointer.dtype)
            here = self.create_load(place, *NO_POLICY, False)
            before[at] = here.data[0]
            total = combine(decode(here.data, element), decode(value.data[at].reshape(1), element))
            self.create_store(place, TensorHandle(encode(total, element), element), *NO_POLICY)
        return TensorHandle(undefined(before, ~mask.data), element)

    return create_atomic_rmw


METHODS["create_atomic_rmw"] = _atomic(METHODS["create_atomic_rmw"])


def install() -> None:
    """Has the interpreter check descriptors, once a process; their methods of the builder are among host_builder's."""
    interpreter.TensorDescHandle.validate = _check_descriptor
