"""Types of tiles, made once each.

Triton's interpreter makes the type and the shape of every value anew, and measures its data, which takes longer than its arithmetic.
"""

from __future__ import annotations

from typing import Any

import triton.language as tl
from triton.runtime import interpreter

_states: dict[tuple[Any, ...], dict[str, Any]] = {}
"""By element type and sizes, the attributes of every block_type that is like that."""


def install() -> None:
    """Replaces what makes types and tensors, once a process. The results are the same."""
    block_type, tensor, constexpr, handle = (
        tl.core.block_type,
        tl.core.tensor,
        tl.core.constexpr,
        interpreter.TensorHandle,
    )
    make_type, make_tensor, make_handle = block_type.__init__, tensor.__init__, handle.__init__

    def new_type(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = tuple([size.value if isinstance(size, constexpr) else size for size in shape])
        if True in sizes:  # the compiler's number 1 is no size to NumPy
            sizes = tuple([1 if size is True else size for size in sizes])
        key = element_ty.name, sizes
        state = _states.get(key)
        if state is None:
            make_type(self, element_ty, list(sizes))
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

    block_type.__init__, tensor.__init__, handle.__init__ = new_type, new_tensor, new_handle
