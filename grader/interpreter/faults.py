"""What an exception during an interpreted launch says of whom: the machine's limits, the kernel's memory, or the grader itself.

Unsupported    the kernel uses what runs on a GPU only                    not gradable here
LaunchEnded    the launch was ended, for its memory, time or size, or
               because what it does next is undefined once compiled       the kernel's
GraderDefect   our code, NumPy or Triton's interpreter raised             not gradable here, to be reported
else           what Triton's language says of the kernel's own line       the kernel's
"""

from __future__ import annotations

import os
import re
import traceback
from typing import Any

from grader.interpreter.control_flow import BlockCondition

HERE = os.path.dirname(os.path.abspath(__file__))
LANGUAGE = os.path.join("triton", "language")
MAX_CALLERS = 4

LOOP_VARIABLE = (
    "`{0}` is a loop variable, and its loop has ended: compiled, it then has no value, even if it had one before the loop; copy it to "
    "another variable: `last = 0` before the loop, and `last = {0}` inside it"
)
"""Of an unbound variable: the compiler has refused each other one that has no value on some way to where it is read."""

SENTENCES = {
    "inline_asm": "inline assembly runs on a GPU only; the interpreter cannot run it",
    "extern": "`{}` of libdevice runs on a GPU only; the interpreter cannot run it",
    "dot_scaled": "tl.dot_scaled runs on a GPU only; the interpreter cannot run it",
    "clock": "clocks and the number of the multiprocessor exist on a GPU only; the interpreter cannot read them",
    "fp8e4b15": "tl.float8e4b15 runs on a GPU only; the interpreter cannot run it",
    "builder": "`{}` of Triton {} runs on a GPU only; the interpreter cannot run it",
}
"""What compiles for a GPU and cannot run on the interpreter, each with the sentence that a student reads."""


class Unsupported(Exception):
    """The kernel uses something that works on a GPU but not on the interpreter; the message is a sentence. No verdict on the kernel: it is
    right or wrong, and this machine cannot tell."""


def unsupported(construct: str, *names: object) -> Unsupported:
    """The exception for one of SENTENCES."""
    return Unsupported(SENTENCES[construct].format(*names))


class LaunchEnded(Exception):
    """A launch that was given up: `reason` is "memory", "time", "size" or "undefined" (what it does next has no meaning once it is
    compiled), the message a sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def describe(error: BaseException, path: str, ended: LaunchEnded | None = None) -> dict[str, Any]:
    """The error as data: {"error", "message", "line"}, and "reason" and "callers" of a launch that was ended.

    path: the file of the student's module; "line" is the innermost of its lines that was running, "callers" are those that led there,
    outermost first. ended: what the clock raised.
    It raises wherever Python happens to be, inside a function of NumPy's too, and those may make a TypeError of anything.
    """
    frames = traceback.extract_tb(error.__traceback__)
    running = [frame.lineno for frame in frames if frame.filename == path]
    error, line = ended or error, running[-1] if running else None
    answer = {"error": type(error).__name__, "message": str(error).strip()[:600] or type(error).__name__, "line": line}
    if isinstance(error, LaunchEnded):
        return {**answer, "reason": error.reason, "callers": running[:-1][-MAX_CALLERS:]}
    if isinstance(error, Unsupported):
        return answer
    if isinstance(error, UnboundLocalError) and (name := re.search(r"'(\w+)'", str(error))):
        return {**answer, "error": "LaunchEnded", "message": LOOP_VARIABLE.format(name[1]), "reason": "undefined"}
    if isinstance(error, BlockCondition):
        return {**answer, "error": "ValueError", "message": "a condition of several elements; use tl.where"}
    ours = [frame for frame in frames if os.path.dirname(os.path.abspath(frame.filename)) == HERE]
    if frames and frames[-1].filename != path and (LANGUAGE not in frames[-1].filename or "create_" in str(error)):
        place = ours[-1] if ours else frames[-1]
        where = f"{os.path.basename(place.filename)}:{place.lineno}"
        return {**answer, "error": "GraderDefect", "message": f"{where}: {type(error).__name__}: {error}"[:600]}
    return answer
