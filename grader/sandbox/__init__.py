"""A process that may run a student's Python: bubblewrap, no network, no GPU, no home, bounded memory and time.

`Sandbox` is forked from a warm parent, which has done its imports, in some tens of milliseconds; `prewarm` starts the
parents ahead. Without bubblewrap the same process runs unconfined; grading your own work allows that with a warning,
grading others' never does, except in a container that is thrown away: there root names another user in
GRADER_WORKER_USER, to whom neither the grader's files nor its results belong.
"""

from grader.sandbox.at_once import at_once
from grader.sandbox.confinement import bubblewrap
from grader.sandbox.failures import LOST, MemoryCorrupted, SandboxDied, SandboxLost, SandboxTimeout
from grader.sandbox.pool import prewarm
from grader.sandbox.process import Answer, Sandbox, Session

__all__ = [
    "LOST",
    "Answer",
    "MemoryCorrupted",
    "Sandbox",
    "SandboxDied",
    "SandboxLost",
    "SandboxTimeout",
    "Session",
    "at_once",
    "bubblewrap",
    "prewarm",
]
