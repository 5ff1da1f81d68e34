"""Progress: what happens to a lab now, for whoever waits. A terminal, a notebook's cell and a log show it each their way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Stage = Literal["describe", "compile", "run", "time", "score"]


@dataclass(frozen=True)
class Progress:
    """A stage of one lab's grading, and how much of it is done; a stage that is not counted has 0 of 0.

    case: the one that was run or timed last. points: what the lab earned, once it is scored.
    """

    lab_id: str
    stage: Stage
    done: int = 0
    total: int = 0
    case: str = ""
    points: float | None = None

    def __str__(self) -> str:
        match self.stage:
            case "describe":
                return "reading configs and grid"
            case "compile":
                return f"compiled {self.done} of {self.total} binaries"
            case "run":
                return f"ran {self.done} of {self.total} launches ({self.case})"
            case "time":
                return f"timed {self.case}"
            case "score":
                return f"{self.points or 0:.1f} points"


Listener = Callable[[Progress], None]


def no_listener(progress: Progress) -> None:
    """Where nobody waits."""
