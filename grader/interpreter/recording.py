"""What happened inside an interpreted kernel: every operation of a few programs, with its line, inputs and values.

A `Recorder` puts itself between triton.language and the interpreter's builder while a launch runs. What it brings back
is one block of bytes, a JSON table and the arrays it points into; `grader.diagnosis.tape` reads it. Operations that only
move elements about (reshape, broadcast, ...) carry no values: the reader can move them itself.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from grader.interpreter.areas import Area, area_of
from grader.interpreter.native_memory import lines_in

MAX_BYTES = 96 << 20
MAX_NODES = 60_000
MAX_STORES = 4096
MOVES = {"reshape", "trans", "expand_dims", "broadcast", "splat", "unsplat", "cat", "join", "split", "gather", "stack"}
"""Operations whose results hold elements of their inputs in other places."""


class Recorder:
    """Records the programs whose linear numbers are in `programs`; `path` is the file whose lines count."""

    def __init__(self, areas: Sequence[Area], path: str, programs: Sequence[int]) -> None:
        self.areas, self.path, self.programs = list(areas), path, set(programs)
        self.nodes: list[list[Any]] = []
        self.arrays: list[np.ndarray] = []
        self.spans: list[list[int]] = []
        self.stores: list[list[Any]] = []
        self.calls: dict[int, set[int]] = {}
        self.bytes = 0
        self.quiet = 0
        self.recording = self.full = False
        self.program = -1
        self.lifetime: list[Any] = []
        self.replaced: list[tuple[Any, str, Any]] = []

    @contextmanager
    def active(self) -> Iterator[None]:
        """Hooks into the builder and the reductions."""
        from triton.runtime import interpreter

        builder = interpreter.interpreter_builder
        names = [name for name in dir(builder) if name.startswith(("create_", "get_")) and not name.endswith("_ty")]
        for name in names:
            if callable(getattr(builder, name)):
                self._put(builder, name, self._hooked(name.split("_", 1)[1], getattr(builder, name)))
        moved_on = builder.set_grid_idx

        def set_grid_idx(x: int, y: int, z: int) -> None:
            moved_on(x, y, z)
            _, height, depth = builder.grid_dim
            self._begin((x * height + y) * depth + z)

        self._put(builder, "set_grid_idx", set_grid_idx)
        convert = interpreter._implicit_cvt

        def convert_argument(argument: Any) -> Any:
            converted = convert(argument)
            handle = getattr(converted, "handle", None)
            if handle is not None:
                handle._argument = True
                self.lifetime.append(handle)
            return converted

        self._put(interpreter, "_implicit_cvt", convert_argument)
        self._hook_reductions()
        try:
            yield
        finally:
            self._end()
            for owner, name, original in reversed(self.replaced):
                setattr(owner, name, original)

    def _put(self, owner: Any, name: str, function: Any) -> None:
        self.replaced.append((owner, name, getattr(owner, name)))
        setattr(owner, name, function)

    def answer(self) -> bytes:
        """The record: uint32 length of the table, the table as JSON, then the arrays."""
        self._end()
        table, place, blobs = [], 0, []
        for array in self.arrays:
            raw = np.ascontiguousarray(array).tobytes()
            table.append([place, array.dtype.str, list(array.shape)])
            blobs.append(raw)
            place += len(raw)
        names = [area.name for area in self.areas]
        calls = [[line, sorted(callers)] for line, callers in self.calls.items()]
        document = {
            "tensors": names,
            "nodes": self.nodes,
            "arrays": table,
            "programs": self.spans,
            "stores": self.stores,
            "calls": calls,
        }
        text = json.dumps(document).encode()
        return b"".join([struct.pack("<I", len(text)), text, *blobs])

    # ---- one program after the other

    def _begin(self, program: int) -> None:
        self._end()
        self.program = program
        if program in self.programs and not self.full:
            self.recording, self.mark = True, (len(self.nodes), len(self.arrays))
            self.epoch = object()

    def _end(self) -> None:
        if not self.recording:
            return
        self.recording = False
        if self.full:
            del self.nodes[self.mark[0] :], self.arrays[self.mark[1] :]
        else:
            self.spans.append([self.program, self.mark[0], len(self.nodes)])

    # ---- nodes: [op, line, inputs, type, shape, attribute, array, array of offsets, array of active lanes, tensor]

    def _add(
        self,
        op: str,
        inputs: Sequence[int],
        handle: Any,
        attribute: Any = None,
        *,
        value: bool = True,
        extra: Sequence[Any] = (-1, -1, -1),
    ) -> int:
        data = np.asarray(handle.data) if handle is not None else np.zeros(0)
        at = -1
        if value and handle is not None and data.dtype != object:
            at = self._keep(data)
        kind = str(handle.dtype.scalar) if handle is not None else "void"
        self.nodes.append([op, self._line(), list(inputs), kind, list(data.shape), attribute, at, *extra])
        if len(self.nodes) > MAX_NODES or self.bytes > MAX_BYTES:
            self.full = True
        number = len(self.nodes) - 1
        if handle is not None:
            handle._node = (self.epoch, number)
            self.lifetime.append(handle)
        return number

    def _keep(self, array: np.ndarray) -> int:
        array = np.array(array)
        self.bytes += array.nbytes
        self.arrays.append(array)
        return len(self.arrays) - 1

    def _number(self, handle: Any) -> int:
        """The node of a handle; one that nothing recorded made is an argument, or lost."""
        epoch, number = getattr(handle, "_node", (None, -1))
        if epoch is self.epoch:
            return int(number)
        op = "argument" if getattr(handle, "_argument", False) else "lost"
        pointer = "ptr" in str(type(handle.dtype)) or "pointer" in str(handle.dtype)
        return self._add(op, (), handle, value=not pointer)

    def _known(self, handle: Any) -> bool:
        return getattr(handle, "_node", (None, -1))[0] is self.epoch

    def _line(self) -> int | None:
        """The line that is running. Which line called its function is noted, 0 for the kernel's own."""
        line, *callers = lines_in(self.path) or [None]
        if line is not None:
            self.calls.setdefault(line, set()).add(callers[0] if callers else 0)
        return line

    # ---- hooks

    def _hooked(self, op: str, original: Any) -> Any:
        from triton.runtime.interpreter import TensorHandle

        def call(*args: Any, **kwargs: Any) -> Any:
            if op in ("masked_store", "atomic_rmw", "atomic_cas") and not self.quiet:
                self._store(op, args)
            if not self.recording or self.full or self.quiet:
                return original(*args, **kwargs)
            before = len(self.nodes)
            result = original(*args, **kwargs)
            if op == "masked_load":
                self._load(args, result)
                return result
            results = result if isinstance(result, tuple) else (result,)
            for part, one in enumerate(results):
                if not isinstance(one, TensorHandle) or self._known(one):
                    continue
                handles = [value for value in (*args, *kwargs.values()) if isinstance(value, TensorHandle)]
                attribute: Any = None
                name = op
                if op in ("trans", "expand_dims", "gather"):
                    attribute = _plain(args[-1])
                elif op == "split":
                    attribute = part
                elif op == "libdevice":
                    name = f"libdevice {args[0]}"
                elif op == "get_program_id":
                    attribute = int(args[-1])
                inputs = [self._number(handle) for handle in handles]
                if op == "descriptor_gather":
                    name = "stack"
                    inputs = [n for n in range(before, len(self.nodes)) if self.nodes[n][0] == "load"]
                pointer = "pointer" in str(one.dtype)
                self._add(name, inputs, one, attribute, value=name not in MOVES and not pointer)
            return result

        return call

    def _elements(self, pointers: Any, active: np.ndarray) -> tuple[np.ndarray, int]:
        """Offsets, in elements from the tensor's first, and the tensor's number; -1 for lanes of several tensors."""
        addresses = np.asarray(pointers)
        seen = addresses[np.broadcast_to(active, addresses.shape)] if active.any() else addresses.reshape(-1)
        area, _ = area_of(seen, self.areas) if seen.size else (None, False)
        if area is None:
            return np.zeros(addresses.shape, dtype=np.int64), -1
        return (addresses - np.uint64(area.base)).view(np.int64) // area.width, area.number

    def _load(self, args: Sequence[Any], result: Any) -> None:
        pointers, mask, other = args[0], args[1], args[2]
        addresses = np.asarray(pointers.data)
        active = np.broadcast_to(np.asarray(mask.data, dtype=bool), addresses.shape)
        offsets, tensor = self._elements(addresses, active)
        if tensor >= 0 and np.asarray(result.data).itemsize > self.areas[tensor].width:
            tensor = -1  # several elements in one: whose they are cannot be said of a lane
        inputs = [
            self._number(handle)
            for handle in (pointers, mask, other)
            if hasattr(handle, "dtype") and hasattr(handle, "attr")
        ]
        extra = (self._keep(offsets), self._keep(active), tensor)
        self._add("load", inputs, result, extra=extra)

    def _store(self, op: str, args: Sequence[Any]) -> None:
        pointers, value = (args[0], args[1]) if op == "masked_store" else (args[1], args[2])
        mask = args[2] if op == "masked_store" else args[3]
        if op == "atomic_cas":
            return
        addresses = np.asarray(pointers.data)
        active = np.broadcast_to(np.asarray(mask.data, dtype=bool), addresses.shape)
        offsets, tensor = self._elements(addresses, active)
        name = "store" if op == "masked_store" else f"atomic {getattr(args[0], 'name', args[0])}".lower()
        if len(self.stores) < MAX_STORES and active.any():
            seen = offsets[active]
            self.stores.append(
                [self.program, name, self._line(), tensor, int(seen.min()), int(seen.max()), int(seen.size)]
            )
        if self.recording and not self.full and hasattr(value, "dtype"):
            data = [self._number(value), self._number(pointers)]
            extra = (self._keep(offsets), self._keep(active), tensor)
            self._add(name, data, None, extra=extra)
            self.nodes[-1][4] = list(addresses.shape)

    def _hook_reductions(self) -> None:
        import triton.language as tl

        from grader.interpreter import reductions

        names = {
            id(getattr(tl.standard, name, None)): kind
            for name, kind in (
                ("_sum_combine", "sum"),
                ("_elementwise_max", "max"),
                ("_elementwise_min", "min"),
                ("_prod_combine", "prod"),
            )
        }
        for name, op in (("reduced", "reduce"), ("scanned", "scan")):
            original = getattr(reductions, name)

            def call(
                inputs: Any, axis: Any, combine_fn: Any, *rest: Any, original: Any = original, op: str = op
            ) -> Any:
                if not self.recording or self.full or self.quiet:
                    return original(inputs, axis, combine_fn, *rest)
                numbers = [self._number(tensor.handle) for tensor in inputs]
                self.quiet += 1
                try:
                    results = original(inputs, axis, combine_fn, *rest)
                finally:
                    self.quiet -= 1
                along = None if axis is None else int(axis) % len(inputs[0].shape)
                for one in results:
                    self._add(op, numbers, one.handle, [names.get(id(combine_fn), "other"), along])
                return results

            self._put(reductions, name, call)


def _plain(value: Any) -> Any:
    """A permutation or an axis as JSON."""
    if isinstance(value, list | tuple):
        return [int(getattr(item, "value", item)) for item in value]
    return int(getattr(value, "value", value))
