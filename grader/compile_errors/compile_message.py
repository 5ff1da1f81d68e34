"""From a sandbox's error to the paragraph that a student reads."""

from __future__ import annotations

import re

from grader.compile_errors.fault import Fault
from grader.compile_errors.message import Message
from grader.compile_errors.setting import Setting, plain_types
from grader.compile_errors.table_lookup import from_table
from grader.model import KernelSource


def compile_message(fault: Fault, source: KernelSource) -> str:
    """Place, line and caret, what was found and expected, and a next step: at most six lines."""
    setting = Setting(fault, source)
    return (from_table(setting) or _unknown(setting)).text()


def _unknown(setting: Setting) -> Message:
    fault = setting.fault
    words = plain_types(fault.message).split(" at 0x")[0]
    words = re.split(r"(?<=[.!?])\s", words)[0][:200]
    if not fault.scope:  # Python ran this line: configs, the grid, or the kernel on the interpreter
        said = f"{fault.kind}: {words}" if words and words != fault.kind else fault.kind
        step = (
            "correct this line: Python stops at it"
            if fault.line
            else "run the file by itself to see where Python stops"
        )
        return Message(setting, said, step)
    said = f"Triton rejects this: {words}" if words else f"Triton stops here ({fault.kind})"
    step = (
        "check the types above against what this operation takes"
        if fault.values
        else "simplify this line until it compiles"
    )
    return Message(setting, said, step)
