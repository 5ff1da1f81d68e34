"""Modules that no student's kernel is: run in a sandbox as its first statements, they tell what they could do."""

from __future__ import annotations

import ast
import textwrap
from typing import Any

from grader.sandbox import Answer, Sandbox

KERNEL = "X_MM"
END = f"\ndef {KERNEL}():\n    pass\n"


def load(box: Sandbox, code: str, timeout: float = 20.0) -> Answer:
    """The answer to a request that brings `code` into the sandbox."""
    module = textwrap.dedent(code) + END
    request = {"op": "load", "module": module, "kernel": KERNEL, "grid": None, "capability": 90}
    return box.ask(request, timeout=timeout)


def told(box: Sandbox, code: str, timeout: float = 20.0) -> Any:
    """What `code` leaves in `answer`, a literal."""
    header = load(box, textwrap.dedent(code) + "\nraise ValueError('told ' + repr(answer))\n", timeout).header
    message = header.get("message", "")
    assert message.startswith("told "), header
    return ast.literal_eval(message.removeprefix("told "))


def outcome(box: Sandbox, statement: str, before: str = "") -> str:
    """The kind of exception that a statement raises there, with errno's name for an OSError; 'done' for none."""
    code = f"""
import errno
{textwrap.dedent(before)}
try:
    {statement}
    answer = "done"
except OSError as error:
    answer = errno.errorcode.get(error.errno, "?")
except BaseException as error:
    answer = type(error).__name__
"""
    found: str = told(box, code)
    return found
