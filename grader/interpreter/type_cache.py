"""Types of tiles, made once each, and operations between equals without asking twice what their type will be.

Triton's interpreter makes the type and the shape of every value anew, and measures its data, which takes longer than its arithmetic.
"""

from __future__ import annotations

from typing import Any

import triton.language as tl
from triton.runtime import interpreter

_states: dict[tuple[Any, ...], dict[str, Any]] = {}
"""By element type and sizes, the attributes of every block_type that is like that; "sizes" among them."""

_broadcasts: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int] | None] = {}
"""The sizes of two tiles together, None where they do not fit."""


def install() -> None:
    """Replaces what makes types and tensors, once a process. The results are the same."""
    block_type, tensor, constexpr, handle = (
        tl.core.block_type,
        tl.core.tensor,
        tl.core.constexpr,
        interpreter.TensorHandle,
    )
    make_type, make_tensor, make_handle = block_type.__init__, tensor.__init__, handle.__init__
    semantic = type(interpreter.interpreter_semantic)
    broadcast, same_type = semantic.broadcast_impl_value, semantic.binary_op_type_checking_impl

    def new_type(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = tuple([size.value if isinstance(size, constexpr) else size for size in shape])
        if True in sizes:  # the compiler's number 1 is no size to NumPy
            sizes = tuple([1 if size is True else size for size in sizes])
        key = element_ty.name, sizes
        state = _states.get(key)
        if state is None:
            make_type(self, element_ty, list(sizes))
            self.__dict__["sizes"] = sizes
            _states[key] = self.__dict__
        else:
            self.__dict__ = state

    def new_tensor(self: Any, handle: Any, type: Any) -> None:
        known = type.__dict__.get("shape_of_tensors")
        if known is None:
            make_tensor(self, handle, type)
            type.__dict__["shape_of_tensors"] = self.shape, self.numel
            return
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = known

    def new_handle(self: Any, data: Any, dtype: Any, attr: Any = None) -> None:
        widest = dtype.__dict__.get("widest")
        if widest is None or data.itemsize > widest:
            make_handle(self, data, dtype)  # which says what does not fit
            dtype.__dict__["widest"] = max(data.itemsize, getattr(dtype, "primitive_bitwidth", 64) // 8)
        self.data, self.dtype, self.attr = data, dtype, {} if attr is None else attr

    def new_broadcast(self: Any, lhs: Any, rhs: Any) -> Any:
        left, right = lhs.type.__dict__.get("sizes"), rhs.type.__dict__.get("sizes")
        if left is None or right is None or len(left) != len(right):
            return broadcast(self, lhs, rhs)
        if left == right:
            return lhs, rhs
        if (left, right) not in _broadcasts:
            fits = all(a == b or 1 in (a, b) for a, b in zip(left, right, strict=True))
            _broadcasts[left, right] = [max(a, b) for a, b in zip(left, right, strict=True)] if fits else None
        shape = _broadcasts[left, right]
        if shape is None:
            return broadcast(self, lhs, rhs)  # which says what does not fit
        return _spread(self, lhs, left, shape), _spread(self, rhs, right, shape)

    def _spread(self: Any, value: Any, sizes: tuple[int, ...], shape: list[int]) -> Any:
        if list(sizes) == shape:
            return value
        return tensor(self.builder.create_broadcast(value.handle, shape), block_type(value.dtype, shape))

    def new_same_type(
        self: Any,
        lhs: Any,
        rhs: Any,
        allow_lhs_ptr: bool = False,
        allow_rhs_ptr: bool = False,
        arithmetic_check: bool = True,
        div_or_mod: bool = False,
    ) -> Any:
        if (
            type(lhs) is tensor
            and type(rhs) is tensor
            and lhs.dtype is rhs.dtype
            and not div_or_mod
            and not lhs.dtype.is_ptr()
        ):
            return self.broadcast_impl_value(lhs, rhs)
        return same_type(self, lhs, rhs, allow_lhs_ptr, allow_rhs_ptr, arithmetic_check, div_or_mod)

    block_type.__init__, tensor.__init__, handle.__init__ = new_type, new_tensor, new_handle
    semantic.broadcast_impl_value, semantic.binary_op_type_checking_impl = new_broadcast, new_same_type
