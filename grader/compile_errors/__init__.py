"""What a student reads when a kernel does not build: place, line and caret, what was found and expected, a next step.

messages.toml is the table of what Triton's compiler says, what it means and what to do; `compile_message` finds the row of an error,
`matchers` and `shapes` look for causes in the kernel's text. `syntax` is about what Python cannot read, `names` about what
nothing defines, `endless` about loops that cannot end.
"""

from __future__ import annotations

from grader.compile_errors.compile_message import compile_message
from grader.compile_errors.endless import endless, first_endless
from grader.compile_errors.excerpt import Block, blocks, headline
from grader.compile_errors.fault import Fault, fault_of
from grader.compile_errors.launch_message import config_message, launch_message

__all__ = [
    "Block",
    "Fault",
    "blocks",
    "compile_message",
    "config_message",
    "endless",
    "fault_of",
    "first_endless",
    "headline",
    "launch_message",
]
