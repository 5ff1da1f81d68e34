"""What happened inside an interpreted kernel: every operation of a few programs, with its line, inputs and values.

A `Recorder` puts itself between triton.language and the interpreter's builder while a launch runs. What it brings back is one block of
bytes, which `grader.diagnosis.tape` reads: uint32 length of a JSON document, the document, and as its "sizes" say

    int32 [nodes, 11]     op, line (-1: none), type, shape, attribute, inputs, then values, offsets and active lanes among the arrays
                          (-1: none), tensor (-1: none or several), the line that called the line's function (0: none, it is the kernel)
    int32 [inputs]        of all nodes, one node's after another's
    int64 [arrays, 3]     where it begins among the bytes, dtype, shape
    bytes                 of the arrays

Ops, types, shapes, attributes and dtypes are numbers in lists of the document. Operations that only move elements about (reshape,
broadcast, ...) carry no values: the reader can move them itself.
"""

from __future__ import annotations

import gc
import json
import struct
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

from grader.interpreter import reductions
from grader.interpreter.areas import Area, area_of
from grader.interpreter.control_flow import LaunchEvents, plain
from grader.interpreter.native_memory import line_in, lines_in
from grader.interpreter.program_loop import replaced

MAX_BYTES = 96 << 20
MAX_NODES = 60_000
MAX_STORES = 4096
WIDTH = 11
MOVES = {"reshape", "trans", "expand_dims", "broadcast", "splat", "unsplat", "cat", "join", "split", "gather", "stack"}
"""Operations whose results hold elements of their inputs in other places."""
NAMES = {"_sum_combine": "sum", "_elementwise_max": "max", "_elementwise_min": "min", "_prod_combine": "prod"}
COMBINES = {getattr(tl.standard, name, None): kind for name, kind in NAMES.items()}
"""Functions of Triton's for reductions and scans, and what a record calls them."""


class _Names(dict[str, int]):
    """Numbers for what is met, in the order in which it is."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return self[name]


class Recorder:
    """Records the programs whose linear numbers are in `programs`; `path` is the file whose lines count.

    enough: so many nodes, after which no further program is recorded. stores: of all programs, [program, op, line, tensor, lowest
    element, highest, lanes] each, where they are known already.
    """

    def __init__(
        self,
        areas: Sequence[Area],
        path: str,
        programs: Sequence[int],
        enough: int | None = None,
        stores: Sequence[list[Any]] | None = None,
    ) -> None:
        self.areas, self.path, self.programs, self.enough = list(areas), path, set(programs), enough or MAX_NODES
        self.nodes, self.inputs = array("i"), array("i")
        self.arrays: list[np.ndarray] = []
        self.spans: list[list[int]] = []
        self.knows_stores = bool(stores)
        self.stores: list[list[Any]] = sorted(stores or (), key=lambda one: int(one[0]))[:MAX_STORES]
        self.names = {kind: _Names() for kind in ("ops", "types", "shapes", "attributes", "dtypes")}
        self.bytes = 0
        self.recording = self.full = self.quiet = False
        self.program = -1

    @property
    def count(self) -> int:
        """Of nodes."""
        return len(self.nodes) // WIDTH

    @contextmanager
    def active(self) -> Iterator[None]:
        """Hooks into the builder and the reductions."""
        builder = interpreter.interpreter_builder
        names = [name for name in dir(builder) if name.startswith(("create_", "get_")) and not name.endswith("_ty")]
        with ExitStack() as stack:
            for name in names:
                if callable(getattr(builder, name)):
                    hooked = self._hooked(name.split("_", 1)[1], getattr(builder, name))
                    stack.enter_context(replaced(builder, name, hooked))
            for name, op in (("reduced", "reduce"), ("scanned", "scan")):
                stack.enter_context(replaced(reductions, name, self._hooked_reduction(op, getattr(reductions, name))))
            stack.enter_context(replaced(LaunchEvents, "steers", self._steers))
            gc.disable()  # it would look through all that is recorded, again and again
            try:
                yield
            finally:
                gc.enable()
                self._end()

    def answer(self) -> bytes:
        """The record."""
        self._end()
        places, place = array("q"), 0
        for one in self.arrays:
            places.extend((place, self.names["dtypes"][one.dtype.str], self._shape(one.shape)))
            place += one.nbytes
        document = {
            "tensors": [area.name for area in self.areas],
            "programs": sorted(self.spans),
            "stores": self.stores,
            "all_stores": len(self.stores) < MAX_STORES,
            "sizes": [self.count, len(self.inputs), len(self.arrays)],
            **{kind: list(names) for kind, names in self.names.items()},
        }
        text = json.dumps(document).encode()
        parts = (self.nodes.tobytes(), self.inputs.tobytes(), places.tobytes())
        return b"".join([struct.pack("<I", len(text)), text, *parts, *(one.tobytes() for one in self.arrays)])

    # ---- one program after the other

    def wants(self, program: int) -> bool:
        """Whether a program is to be recorded."""
        return program in self.programs and not self.full and self.count < self.enough

    def begin(self, program: int) -> None:
        """A program begins."""
        self._end()
        self.program = program
        if self.wants(program):
            self.recording, self.mark = True, (self.count, len(self.inputs), len(self.arrays))
            self.epoch = object()

    def _end(self) -> None:
        if not self.recording:
            return
        self.recording = False
        if self.full:
            del self.nodes[WIDTH * self.mark[0] :], self.inputs[self.mark[1] :], self.arrays[self.mark[2] :]
        else:
            self.spans.append([self.program, self.mark[0], self.count])

    # ---- nodes

    @property
    def _notes(self) -> bool:
        """Whether operations are recorded just now: not those of a combining function."""
        return self.recording and not self.full and not self.quiet

    def _add(
        self,
        op: str,
        inputs: Sequence[int],
        handle: Any,
        attribute: Any = None,
        *,
        value: bool = True,
        shape: Sequence[int] = (0,),
        extra: Sequence[int] = (-1, -1, -1),
    ) -> int:
        """shape: of what is no value. extra: arrays of offsets and of active lanes, and the tensor."""
        at, kind, number, names = -1, "void", self.count, self.names
        if handle is not None:
            data = np.asarray(handle.data)
            kind, shape = str(handle.dtype.scalar), data.shape
            handle._node = (self.epoch, number)
            if value and data.dtype != object:
                at = self._keep(data)
        line, caller, *_ = *(lines_in(self.path) or [-1]), 0
        described = names["types"][kind], self._shape(shape), names["attributes"][json.dumps(attribute)]
        self.nodes.extend((names["ops"][op], line, *described, len(inputs), at, *extra, caller))
        self.inputs.extend(inputs)
        if number >= MAX_NODES or self.bytes > MAX_BYTES:
            self.full = True
        return number

    def _shape(self, shape: Sequence[int]) -> int:
        return self.names["shapes"][",".join(map(str, shape))]

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
        if tile := getattr(handle, "_tile", None):
            base, _, offsets, strides = tile
            axes = [
                self._number(offset) if self._is_axis(offset) else self._along(tile, axis, (offset, strides[axis]))
                for axis, offset in enumerate(offsets)
            ]
            return self._add("addptr", [self._number(base), *axes], handle, value=False)
        op = "argument" if getattr(handle, "_argument", False) else "lost"
        pointer = "ptr" in str(type(handle.dtype)) or "pointer" in str(handle.dtype)
        return self._add(op, (), handle, value=not pointer)

    def _place(self, block: Any, *given: Sequence[Any]) -> None:
        """Notes, in the line that makes or moves a block pointer, where its tile lies. given: for each axis, what this is made of."""
        tile = (block.base, block.block_shape, block.offsets, block.strides)
        for axis, (offset, made_of) in enumerate(zip(block.offsets, zip(*given, strict=True), strict=True)):
            offset._node = (self.epoch, self._along(tile, axis, made_of))

    def _along(self, tile: Any, axis: int, made_of: Sequence[Any]) -> int:
        """Where the elements of a tile lie along one of its axes, in elements from its tensor's first."""
        _, shape, offsets, strides = tile
        first, stride = (int(one[axis].data.reshape(-1)[0]) for one in (offsets, strides))
        places = ((first + np.arange(shape[axis])) * stride).reshape(
            [-1 if dim == axis else 1 for dim in range(len(shape))]
        )
        return self._add("tile", [self._number(one) for one in made_of], TensorHandle(places, tl.int64))

    def _is_axis(self, offset: Any) -> bool:
        return self._known(offset) and self.nodes[WIDTH * offset._node[1]] == self.names["ops"]["tile"]

    def _known(self, handle: Any) -> bool:
        return getattr(handle, "_node", (None, -1))[0] is self.epoch

    # ---- hooks

    def _hooked(self, op: str, original: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if op in ("masked_store", "atomic_rmw") and not self.quiet:
                self._store(op, args)
            if not self._notes:
                return original(*args, **kwargs)
            before = self.count
            result = original(*args, **kwargs)
            if op == "make_tensor_descriptor":
                result.base = TensorHandle(result.base.data, result.base.dtype)
                self._add("tile", [self._number(args[0])], result.base, value=False)
                return result
            if op == "masked_load":
                self._load(args, result)
                return result
            if op in ("make_block_ptr", "advance"):
                self._place(result, *((args[3], args[2]) if op == "make_block_ptr" else (args[0].offsets, args[1])))
                return result
            handles = [value for value in (*args, *kwargs.values()) if isinstance(value, TensorHandle)]
            for part, one in enumerate(result if isinstance(result, tuple) else (result,)):
                if isinstance(one, TensorHandle) and not self._known(one):
                    self._made(op, args, handles, one, part, before)
            return result

        return call

    def _steers(self, op: str, given: Sequence[Any], made: Any = None) -> None:
        if self._notes:
            self._add(op, [self._number(handle) for handle in given], made)

    def _made(self, op: str, args: Sequence[Any], handles: Sequence[Any], one: Any, part: int, before: int) -> None:
        """Notes what an operation made. part: which of its results; before: how many nodes there were before it."""
        attribute: Any = None
        name = op
        if op == "trans":
            attribute = [int(plain(axis)) for axis in args[-1]]
        elif op in ("expand_dims", "gather"):
            attribute = int(plain(args[-1]))
        elif op == "split":
            attribute = part
        elif op == "libdevice":
            name = f"libdevice {args[0]}"
        elif op == "get_program_id":
            attribute = int(args[-1])
        inputs = [self._number(handle) for handle in handles]
        if op == "descriptor_gather":
            name = "stack"
            load = self.names["ops"]["load"]
            inputs = [n for n in range(before, self.count) if self.nodes[n * WIDTH] == load]
        self._add(name, inputs, one, attribute, value=name not in MOVES and "pointer" not in str(one.dtype))

    def _reached(self, pointers: Any, mask: Any) -> tuple[np.ndarray, np.ndarray, int]:
        """Of an access: offsets, in elements from the tensor's first; active lanes; the tensor's number, -1 for several tensors."""
        addresses = np.asarray(pointers.data)
        active = np.broadcast_to(np.asarray(mask.data, dtype=bool), addresses.shape)
        seen = addresses[active] if active.any() else addresses.reshape(-1)
        area, _ = area_of(seen, self.areas) if seen.size else (None, False)
        if area is None:
            return np.zeros(addresses.shape, dtype=np.int64), active, -1
        return (addresses - np.uint64(area.base)).view(np.int64) // area.width, active, area.number

    def _load(self, args: Sequence[Any], result: Any) -> None:
        offsets, active, tensor = self._reached(args[0], args[1])
        if tensor >= 0 and np.asarray(result.data).itemsize > self.areas[tensor].width:
            tensor = -1  # several elements in one: whose they are cannot be said of a lane
        inputs = [self._number(one) for one in args[:3] if isinstance(one, TensorHandle)]
        self._add("load", inputs, result, extra=(self._keep(offsets), self._keep(active), tensor))

    def _store(self, op: str, args: Sequence[Any]) -> None:
        pointers, value, mask = args[:3] if op == "masked_store" else args[1:4]
        offsets, active, tensor = self._reached(pointers, mask)
        name = "store" if op == "masked_store" else f"atomic {getattr(args[0], 'name', args[0])}".lower()
        if not self.knows_stores and len(self.stores) < MAX_STORES and active.any():
            seen = offsets[active]
            self.stores.append(
                [self.program, name, line_in(self.path), tensor, int(seen.min()), int(seen.max()), int(seen.size)]
            )
        if self.recording and not self.full:
            inputs = [self._number(one) for one in (value, pointers, mask) if isinstance(one, TensorHandle)]
            extra = (self._keep(offsets), self._keep(active), tensor)
            self._add(name, inputs, None, shape=offsets.shape, extra=extra)

    def _hooked_reduction(self, op: str, original: Any) -> Any:
        def call(inputs: Any, axis: Any, combine_fn: Any, *rest: Any) -> Any:
            if not self._notes:
                return original(inputs, axis, combine_fn, *rest)
            numbers = [self._number(tensor.handle) for tensor in inputs]
            self.quiet = True
            try:
                results = original(inputs, axis, combine_fn, *rest)
            finally:
                self.quiet = False
            along = None if axis is None else int(axis) % len(inputs[0].shape)
            for one in results:
                self._add(op, numbers, one.handle, [COMBINES.get(combine_fn, "other"), along])
            return results

        return call
