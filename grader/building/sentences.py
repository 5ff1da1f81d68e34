"""What a sandbox raised, told with the student's own place in it."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.metadata import version

from grader.compile_errors import Fault, compile_message, config_message, endless, fault_of
from grader.model import GeneratedModule, KernelSource
from grader.parsing import function_named, parse
from grader.sandbox import Answer

DEFECT = (
    "not gradable here: the grader itself failed{} ({}), which says nothing about your kernel; "
    "send this sentence and your file to the instructor, who can report it as a defect of the grader"
)

COMPILER_FAILURE = "CompilerFailure"
"""Triton's compiler failed behind its front end and named no line, or died: no statement about a kernel's text."""


def describe_error(source: KernelSource, answer: Answer, made: GeneratedModule | None = None) -> str:
    """A sandbox's error as a paragraph with the student's own place in it, or as the sentence that it is already.

    `made`: the module whose lines the error counts in; None for the submission's own.
    """
    fault = fault_in(source, answer, made)
    if fault.kind == "ContractError":
        index = re.match(r"config (\d+) of ", fault.message)
        return config_message(source, int(index[1]), fault.message) if index else fault.message
    if made is not None and fault.kind == COMPILER_FAILURE:
        return compiler_failure(source, made, fault.message)
    if made is not None and is_defect(answer):  # where a student's Python runs, any error may be called so
        where = f"{source.locate(fault.line)}: " if fault.line is not None else ""
        return where + defect(fault.message, " at this line" if where else "")
    if made is not None and fault.kind in ("Unsupported", "LaunchEnded"):
        late = answer.header.get("reason") == "time" and fault.line is not None
        loop = endless(source.module, (fault.line or 0, *reversed(fault.callers))) if late else None
        line, message = (loop[0], f"{fault.message}; {loop[1]}") if loop else (fault.line, fault.message)
        return f"{source.locate(line)}: {message}" if line is not None else message
    return compile_message(fault, source)


def compiler_failure(source: KernelSource, made: GeneratedModule, reason: str) -> str:
    """What a student reads of a failure of the compiler's own, at the kernel that it was compiling."""
    defined = function_named(parse(made.text), made.kernel)
    line = made.origin(defined.lineno) if defined else None
    return compile_message(Fault(COMPILER_FAILURE, f"{reason} (Triton {version('triton')})", line), source)


def is_defect(answer: Answer) -> bool:
    """Whether a sandbox's error is one of the grader's own."""
    return bool(answer.header["error"] == "GraderDefect")


def fault_in(source: KernelSource, answer: Answer, made: GeneratedModule | None) -> Fault:
    """A sandbox's error with its lines counted in the submission's module; with columns where the made line is that line as it stands
    there."""
    fault = fault_of(answer.header)
    if made is None:
        return fault
    origin = made.origin(fault.line) if fault.line is not None else None
    callers = tuple(line for line in map(made.origin, fault.callers) if line is not None)
    lines = source.module.split("\n")
    if origin is None or fault.line is None or lines[origin - 1] != made.text.split("\n")[fault.line - 1]:
        return replace(fault, line=origin, column=None, end_line=None, end_column=None, callers=callers)
    end = made.origin(fault.end_line) if fault.end_line is not None else None
    return replace(fault, line=origin, end_line=end, callers=callers)


def defect(message: str, where: str = "") -> str:
    """What a student reads of an error of the grader's own."""
    return DEFECT.format(where, message)
