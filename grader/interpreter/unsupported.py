"""What compiles for a GPU and cannot run on the interpreter, each with the sentence that a student reads.

`Unsupported` is no verdict on the kernel: it is right or wrong, and this machine cannot tell.
"""

from __future__ import annotations

SENTENCES = {
    "inline_asm": "inline assembly runs on a GPU only; the interpreter cannot run it",
    "extern": "`{}` of libdevice runs on a GPU only; the interpreter cannot run it",
    "dot_scaled": "tl.dot_scaled runs on a GPU only; the interpreter cannot run it",
    "clock": "clocks and the number of the multiprocessor exist on a GPU only; the interpreter cannot read them",
    "fp8e4b15": "tl.float8e4b15 runs on a GPU only; the interpreter cannot run it",
    "builder": "`{}` of Triton {} runs on a GPU only; the interpreter cannot run it",
}


class Unsupported(Exception):
    """The kernel uses something that works on a GPU but not on the interpreter; the message is a sentence."""


def unsupported(construct: str, *names: object) -> Unsupported:
    """The exception for one of SENTENCES."""
    return Unsupported(SENTENCES[construct].format(*names))
