"""Triton's interpreter, corrected: what compiles means on the CPU what it means on a GPU. `install()` once a process, before a launch.

The corrections by place: control_flow (statements, numbers and tensors), host_builder (arithmetic, conversions, products), tile_access
(block pointers, descriptors, atomics), reductions, libdevice_on_host, promises (hints to the compiler). What cannot be run at all is in
faults.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from types import SimpleNamespace
from typing import Any

import triton.language as tl
from triton.backends.nvidia.compiler import CUDAOptions
from triton.runtime import interpreter

from grader.interpreter import (
    control_flow,
    host_builder,
    libdevice_on_host,
    plans,
    printing,
    promises,
    reductions,
    tile_access,
    type_cache,
)
from grader.interpreter.faults import unsupported

_patched: dict[int, tuple[Any, Any]] = {}
"""By id, a function of the language that is kept alive here, and what stands for it."""


def install() -> None:
    """Replaces what differs from the compiler. The process can then only interpret."""
    if _patched:
        return
    host_builder.install()
    tile_access.install()
    libdevice_on_host.install(_patched)
    type_cache.install()
    _patch_language()
    builder = interpreter.interpreter_builder
    # Triton repeats every integer operation in int64 for an assertion that is never made without its debug option, and knows fewer
    # precisions of a product than the compiler.
    precisions = CUDAOptions.allowed_dot_input_precisions
    builder.options = dataclasses.replace(
        builder.options, sanitize_overflow=False, allowed_dot_input_precisions=precisions
    )
    by_type: dict[str, Any] = {}
    numpy_type = interpreter._get_np_dtype

    def cached_type(dtype: Any) -> Any:
        scalar = dtype.scalar
        if scalar.name not in by_type:
            by_type[scalar.name] = numpy_type(scalar)
        return by_type[scalar.name]

    # Triton builds a table of all types for each look into it.
    interpreter._get_np_dtype = cached_type
    interpreter.FunctionRewriter.rewrite_ast = lambda self: control_flow.rewrite(self.fn, _patched)
    interpreter.InterpretedFunction.__call__ = lambda self, *args, **kwargs: self.rewrite()(*args, **kwargs)


def _patch_language() -> None:
    """Gives every function of triton.language the interpreter's semantics, whatever name a module knows it by."""
    owners = (tl, tl.core, tl.math)
    loops = tl.range, tl.static_range
    before = [(owner, name, member) for owner in owners for name, member in vars(owner).items()]
    interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    _call_directly(interpreter.interpreter_semantic, (*owners, tl.core.tensor))
    for owner in (tl, tl.core):
        owner.range, owner.static_range = loops
        owner.static_print, owner.device_print = control_flow.silent, printing.shown
        owner.static_assert = control_flow.stated
        owner.reduce, owner.associative_scan = reductions.reduce, reductions.associative_scan
        owner.map_elementwise, owner.dot_scaled = reductions.map_elementwise, _dot_scaled
        for name, kind in promises.PROMISES.items():
            setattr(owner, name, promises.checked(kind))
    for name in ("reduce", "associative_scan"):
        setattr(tl.core.tensor, name, getattr(reductions, name))
    _give_semantics(tl.core.tensor)
    _give_semantics(tl.core.tensor_descriptor_base)
    for owner, name, member in before:
        if getattr(owner, name) is not member:
            _patched[id(member)] = (member, getattr(owner, name))
    tl.core.tensor.T = property(_transposed)
    # Triton 3.6 converts one-element arrays with int(), which NumPy 2.4 refuses.
    tl.core.tensor.__index__ = lambda tensor: int(tensor.handle.data.item())
    plans.install()


def _call_directly(semantic: Any, owners: Any) -> None:
    """Takes two calls out of each call of a builtin, Triton's patch and its check that a semantic was passed on, and makes it by plan."""
    for owner in owners:
        for name, patched in list(vars(owner).items()):
            member = (getattr(patched, "__kwdefaults__", None) or {}).get("member")
            if tl.core.is_builtin(member) and hasattr(member, "__wrapped__"):
                setattr(owner, name, plans.planned(member.__wrapped__, semantic))


def _give_semantics(owner: Any) -> None:
    """The methods that take the compiler's semantics and that Triton's own patching passes over."""
    for name, member in list(vars(owner).items()):
        if inspect.isfunction(member) and "_semantic" in inspect.signature(member).parameters:
            setattr(owner, name, functools.partialmethod(member, _semantic=interpreter.interpreter_semantic))


def _transposed(tensor: Any) -> Any:
    """`.T`, by the builder as every other operation."""
    *outer, rows, columns = range(len(tensor.shape))
    order = [*outer, columns, rows]
    handle = interpreter.interpreter_builder.create_trans(tensor.handle, order)
    return tl.core.tensor(handle, tl.core.block_type(tensor.dtype, [tensor.type.shape[axis] for axis in order]))


def _dot_scaled(*_: Any, **__: Any) -> Any:
    raise unsupported("dot_scaled")
