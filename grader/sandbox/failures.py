"""How asking a sandbox can fail. Each message is a sentence."""

from __future__ import annotations


class SandboxTimeout(Exception):
    """The process did not answer in time and was killed."""


class SandboxDied(Exception):
    """The process ended, or was ended for a limit, before it answered; the message is a sentence."""


class MemoryCorrupted(SandboxDied):
    """The process died of a wild pointer: a segmentation fault, or a heap that was overwritten."""


LOST = (
    "the grader's process was ended from outside again and again, perhaps for lack of memory; grade it again, by itself"
)
"""Why there is no verdict."""


class SandboxLost(SandboxDied):
    """The grader's own process above it was ended from outside; what was asked can be asked of another."""
