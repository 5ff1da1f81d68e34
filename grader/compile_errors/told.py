"""What is told of an error: where, what stood there, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from grader.compile_errors.setting import Setting


@dataclass(frozen=True)
class Told:
    """What is wrong, where, what stood there, and what to do. `quiet`: the operands' types say nothing here."""

    setting: Setting
    cause: str
    next_step: str
    quiet: bool = False
