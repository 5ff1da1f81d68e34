"""The requests that a sandbox answers, by their `op`; an exception is answered as data.

`load` brings the student's module, which only `describe` works on; `made` brings the module that the grader wrote from its text, for
`compile`, `lower`, `allocate`, `read` and `interpret`. No sandbox is asked for both.
"""

from __future__ import annotations

import errno
import os
from typing import Any

from grader.building.sandboxed.error_report import explain, is_ours
from grader.sandbox.inside import isolation

OUT_OF_MEMORY = (
    f"out of memory: one process may hold {isolation.MEMORY_BYTES >> 30} GB; "
    "look for arrays far larger than the tensors"
)
DISK_FULL = f"no space left: files may hold {isolation.FILE_BYTES >> 20} MB together; a kernel's module has no need to write files"


class Operations:
    """What one process is asked, one request after the other, about one module."""

    def __init__(self) -> None:
        self.module: Any = None
        self.path = os.path.join(os.getcwd(), "kernel_module.py")

    def answer(self, header: dict[str, Any], blobs: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        """One request's answer: its header and blobs."""
        try:
            return self._answer(header, blobs)
        except MemoryError:
            return {"error": "MemoryError", "message": OUT_OF_MEMORY, "line": None}, []
        except BaseException as error:
            return error_answer(error, self.path, header["op"]), []

    def _answer(self, header: dict[str, Any], blobs: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        operation = header["op"]
        if operation == "load":
            from grader.building.sandboxed import student_module

            _write(self.path, header["module"])
            self.module = student_module.load(self.path, header["kernel"], header["grid"], header["capability"])
            return {}, []
        if operation == "describe":
            answer = {} if header["contract"] is None else self.module.describe(header["contract"], header["problems"])
            return {**answer, "functions": self.module.report(header["names"])}, []
        if operation == "made":
            from grader.interpreter import generated_module

            _write(self.path, header["module"])
            self.module = generated_module.load(self.path, header["kernel"], header["capability"])
            return {}, []
        if operation == "interpret":
            from grader.interpreter import launching

            return launching.interpret_one(self.module, header, blobs)
        from grader.building.sandboxed import triton_stages

        if operation == "compile":
            return triton_stages.compile_one(self.module, header)
        stages = {
            "lower": triton_stages.lower_one,
            "allocate": triton_stages.allocate_one,
            "read": triton_stages.read_one,
        }
        if operation not in stages:
            raise ValueError(f"unknown request {operation!r}")
        return stages[operation](self.module, header), []


def error_answer(error: BaseException, path: str, operation: str) -> dict[str, Any]:
    """An exception as data; a full disk in words of its own.

    Where no student's Python runs, an error that no kernel's text can cause is the grader's. Where it does, a ContractError
    is the one of `student_module`, whatever a submission calls its own.
    """
    answer = explain(error, path)
    if answer["error"] == "ContractError" and not (operation == "describe" and _is_contract_error(error)):
        answer["error"] = "Exception"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG):
        answer["message"] = DISK_FULL
    elif operation not in ("load", "describe") and is_ours(error):
        answer.update(error="GraderDefect", message=f"{operation}: {answer['error']}: {answer['message']}", line=None)
    return answer


def _is_contract_error(error: BaseException) -> bool:
    from grader.building.sandboxed import student_module

    return type(error) is student_module.ContractError


def _write(path: str, text: str) -> None:
    """Line tables hold a file's time: with none, a cubin is the same for the same text."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.utime(path, (0, 0))
