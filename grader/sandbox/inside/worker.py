"""The loop inside the sandbox: takes requests on standard input, answers on the descriptor it was given.

    python entry.py worker RESPONSE_FD

The request `load` brings the student's module, which only `describe` works on; `made` brings the module that the grader
wrote from its text, for `compile`, `lower`, `read` and `interpret`. No sandbox is asked for both. Before them may come
`prepare`, which imports the named modules, so that the work begins at once when there is some.
What the student's code prints goes to nowhere: standard output is not part of any answer.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from typing import Any, BinaryIO

from grader.sandbox.inside import isolation, wire
from grader.sandbox.inside.explaining import explain, is_ours

OUT_OF_MEMORY = (
    f"out of memory: one process may hold {isolation.MEMORY_BYTES >> 30} GB; "
    "look for arrays far larger than the tensors"
)
DISK_FULL = (
    f"no space left: files may hold {isolation.FILE_BYTES >> 20} MB together; a kernel's module needs to write none"
)


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


def told(error: BaseException, path: str, operation: str) -> dict[str, Any]:
    """An exception as data; a full disk in words of its own.

    Where no student's Python runs, an error that no kernel's text can cause is the grader's. Where it does, a ContractError
    is the one of `student`, whatever a submission calls its own.
    """
    answer = explain(error, path)
    if answer["error"] == "ContractError" and not (operation == "describe" and _is_contract_error(error)):
        answer["error"] = "Exception"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG):
        answer["message"] = DISK_FULL
    elif operation not in ("load", "describe") and is_ours(error):
        answer.update(error="GraderDefect", message=f"{operation}: {answer['error']}: {answer['message']}", line=None)
    return answer


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
                from grader.sandbox.inside import student

                _write(path, header["module"])
                module = student.load(path, header["kernel"], header["grid"], header["capability"])
                answer = {}
            elif header["op"] == "prepare":
                for name in header["modules"]:
                    importlib.import_module(name)
                answer = {}
            elif header["op"] == "describe":
                answer = {} if header["contract"] is None else module.describe(header["contract"], header["problems"])
                answer["functions"] = module.report(header["names"])
            elif header["op"] == "made":
                from grader.sandbox.inside import made

                _write(path, header["module"])
                module = made.load(path, header["kernel"], header["capability"])
                answer = {}
            elif header["op"] == "compile":
                from grader.sandbox.inside import compiling

                answer, out = compiling.compile_one(module, header)
            elif header["op"] == "lower":
                from grader.sandbox.inside import compiling

                answer = compiling.lower_one(module, header)
            elif header["op"] == "allocate":
                from grader.sandbox.inside import compiling

                answer = compiling.allocate_one(module, header)
            elif header["op"] == "read":
                from grader.sandbox.inside import compiling

                answer = compiling.read_one(module, header)
            elif header["op"] == "interpret":
                from grader.sandbox.inside import interpreting

                answer, out = interpreting.interpret_one(module, header, blobs)
            else:
                raise ValueError(f"unknown request {header['op']!r}")
        except MemoryError:
            answer = {"error": "MemoryError", "message": OUT_OF_MEMORY, "line": None}
        except BaseException as error:
            answer = told(error, path, header["op"])
        for buffer in _frame(answer, out):
            responses.write(buffer)
        responses.flush()


def _is_contract_error(error: BaseException) -> bool:
    from grader.sandbox.inside import student

    return type(error) is student.ContractError


def _write(path: str, text: str) -> None:
    """Line tables hold a file's time: with none, a cubin is the same for the same text."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.utime(path, (0, 0))


def _frame(answer: dict[str, Any], out: list[bytes]) -> list[bytes | memoryview]:
    """The answer as bytes; one that cannot be told, such as a NaN among a student's constants, says why instead."""
    try:
        return wire.encode(answer, out)
    except wire.WireError as error:
        return wire.encode({"error": "WireError", "message": str(error), "line": None})


def main(arguments: list[str]) -> None:
    """Serves, started cold."""
    with os.fdopen(int(arguments[0]), "wb") as responses, os.fdopen(os.dup(0), "rb") as requests:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        isolation.bounded()
        serve(requests, responses)
