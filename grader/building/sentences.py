"""What a sandbox raised, as a sentence with the student's own place in it."""

from __future__ import annotations

from grader.model import KernelSource, MadeModule
from grader.sandbox import Answer


def describe_error(source: KernelSource, answer: Answer, made: MadeModule | None = None) -> str:
    """A sandbox's error as a sentence. `made`: the module whose lines the error counts in; None for the submission's."""
    header = answer.header
    kind, message, line = str(header.get("error")), str(header.get("message", "")), header.get("line")
    message = " ".join(message.split())[:400]
    if made is not None and isinstance(line, int):
        line = made.origin(line)
    place = f"{source.locate(line)}: " if isinstance(line, int) else ""
    if kind == "ContractError":
        return message
    if kind in ("Unsupported", "LaunchEnded"):
        return place + message
    return f"{place}{kind}: {message}" if message and message != kind else f"{place}{kind}"
