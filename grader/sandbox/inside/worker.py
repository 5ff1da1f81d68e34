"""The loop inside the sandbox: takes requests on standard input, answers on the descriptor it was given.

    python entry.py worker RESPONSE_FD OPERATIONS

OPERATIONS names the module whose `Operations` knows what is asked here; this one knows how questions and answers travel.
What the student's code prints goes to nowhere: standard output is not part of any answer.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, BinaryIO

from grader.sandbox.inside import isolation, wire


def serve(requests: BinaryIO, responses: BinaryIO, operations: str) -> None:
    """Answers requests until there are no more."""
    asked = importlib.import_module(operations).Operations()

    def read(count: int) -> bytes:
        part = requests.read(count)
        if len(part) < count:
            raise EOFError
        return part

    while True:
        try:
            header, blobs = wire.decode(read)
        except EOFError:
            return
        for buffer in _frame(*asked.answer(header, blobs)):
            responses.write(buffer)
        responses.flush()


def _frame(answer: dict[str, Any], out: list[bytes]) -> list[bytes | memoryview]:
    """The answer as bytes; one that cannot travel, such as a NaN among a student's constants, says why instead."""
    try:
        return wire.encode(answer, out)
    except wire.WireError as error:
        return wire.encode({"error": "WireError", "message": str(error), "line": None})


def main(arguments: list[str]) -> None:
    """Serves, started cold."""
    with os.fdopen(int(arguments[0]), "wb") as responses, os.fdopen(os.dup(0), "rb") as requests:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        isolation.bounded()
        serve(requests, responses, arguments[1])
