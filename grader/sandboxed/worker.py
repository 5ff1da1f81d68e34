"""The loop inside the sandbox: takes requests on standard input, answers on the descriptor it was given.

    python worker.py RESPONSE_FD

The request `load` brings the student's module; `describe`, `compile` and `interpret` work on it. Before it may come
`prepare`, which imports the named modules beside this one, so that the work begins at once when there is some.
What the student's code prints goes to nowhere: standard output is not part of any answer.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, BinaryIO

import wire
from explaining import explain


def exact_reader(stream: BinaryIO) -> Any:
    """A function that reads exactly n bytes of `stream` or raises EOFError."""

    def read(count: int) -> bytes:
        parts = []
        while count:
            part = stream.read(min(count, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    return read


def serve(requests: BinaryIO, responses: BinaryIO) -> None:
    """Answers requests until there are no more."""
    read = exact_reader(requests)
    module = None
    path = os.path.join(os.getcwd(), "kernel_module.py")
    while True:
        try:
            header, blobs = wire.decode(read)
        except EOFError:
            return
        answer: dict[str, Any]
        out: list[bytes] = []
        try:
            if header["op"] == "load":
                import student

                with open(path, "w", encoding="utf-8") as file:
                    file.write(header["module"])
                module = student.load(path, header["kernel"], header["grid"], header["capability"])
                answer = {}
            elif header["op"] == "prepare":
                for name in header["modules"]:
                    importlib.import_module(name)
                answer = {}
            elif header["op"] == "describe":
                answer = module.describe(header["contract"], header["problems"])
            elif header["op"] == "compile":
                import compiling

                answer, out = compiling.compile_one(module, header)
            elif header["op"] == "interpret":
                import interpreting

                answer, out = interpreting.interpret_one(module, header, blobs)
            else:
                raise ValueError(f"unknown request {header['op']!r}")
        except MemoryError:
            answer = {"error": "MemoryError", "message": "out of memory", "line": None}
        except BaseException as error:
            answer = explain(error, path)
        for buffer in wire.encode(answer, out):
            responses.write(buffer)
        responses.flush()


if __name__ == "__main__":
    with os.fdopen(int(sys.argv[1]), "wb") as responses, os.fdopen(os.dup(0), "rb") as requests:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        serve(requests, responses)
