"""One launch under Triton's interpreter: tensors in, the same guarded buffers out. Nothing is judged here."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import libdevice_on_host
import memory_check
import numpy as np
import torch
from student import StudentModule

torch.set_num_threads(1)
DTYPES = {"fp16": torch.float16, "fp32": torch.float32, "i8": torch.int8, "i32": torch.int32}


class Unsupported(Exception):
    """Something that works on a GPU but not on the interpreter, such as inline assembly."""


def interpret_one(
    module: StudentModule, request: dict[str, Any], blobs: list[bytes]
) -> tuple[dict[str, Any], list[bytes]]:
    """Launches the kernel once over the request's grid.

    request["tensors"]: {"name", "type", "shape", "strides", "offset"} in the order of `blobs`; a blob is the tensor's
    whole guarded buffer and `offset` the element at which the tensor begins. The buffers come back in that order.
    request["record"], when there, lists the programs to record; the record is then one more blob behind the buffers.
    request["unwritten"] names the tensor that holds poison. The answer's "memory" lists what memory_check found,
    "strayed" the tensors far beside which something was stored, "written" tells whether no poison can be left.
    """
    libdevice_on_host.install()
    _patch_once()
    buffers, arguments, areas = [], dict(request["scalars"]), {}
    for tensor, blob in zip(request["tensors"], blobs, strict=True):
        dtype = DTYPES[tensor["type"]]
        buffer = torch.from_numpy(np.frombuffer(blob, dtype=np.uint8).copy())
        buffers.append(buffer)
        name, shape, strides, offset = (tensor[key] for key in ("name", "shape", "strides", "offset"))
        arguments[name] = torch.as_strided(buffer.view(dtype), shape, strides, offset)
        areas[name] = memory_check.Area(
            name, buffer.numpy(), dtype.itemsize, shape, strides, offset, name == request.get("unwritten")
        )
    arguments.update(request["constants"])
    names = [parameter.name for parameter in module.parameters]
    check = memory_check.MemoryCheck(
        [areas[name] for name in names if name in areas], module.jit.fn.__code__.co_filename
    )
    recorder = None
    if "record" in request:
        import recording

        recorder = recording.Recorder(check.areas, check.path, request["record"])
    started = time.perf_counter()
    try:
        with check.active(), recorder.active() if recorder else contextlib.nullcontext():
            module.jit[tuple(request["grid"])](*[arguments[name] for name in names])
    except Exception as error:
        if "inline_asm not supported" in _chain(error):
            raise Unsupported("inline assembly runs on a GPU only; the interpreter has no meaning for it") from None
        raise
    answer = {
        "seconds": time.perf_counter() - started,
        "memory": check.findings(),
        "strayed": check.strayed(),
        "written": check.written(),
    }
    out = [buffer.numpy().tobytes() for buffer in buffers]
    return answer, [*out, recorder.answer()] if recorder else out


def _chain(error: BaseException | None) -> str:
    text = ""
    while error is not None:
        text += str(error)
        error = error.__cause__ or error.__context__
    return text


_patched: dict[int, Any] = {}


def _patch_once() -> None:
    """Leaves out work of the interpreter that changes no result, and takes much of its time.

    Triton patches triton.language anew on every call of a jit helper; once a module is enough. It repeats every
    integer operation in int64 for an assertion on overflow that without its debug option is never made.
    """
    import triton.language as tl
    from triton.runtime import interpreter

    if _patched:
        return
    original = interpreter._patch_lang

    class Kept:
        def restore(self) -> None:
            """The patches stay: this process only ever interprets."""

    kept = Kept()
    builder = interpreter.interpreter_builder
    builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)

    def patch_lang(fn: Any) -> Kept:
        key = id(fn.__globals__)
        if key not in _patched:
            _patched[key] = original(fn)
            # Triton 3.6 converts one-element arrays with int(), which NumPy 2.4 refuses.
            tl.core.tensor.__index__ = lambda tensor: int(tensor.handle.data.item())
        return kept

    interpreter._patch_lang = patch_lang
    _patched[0] = None
