"""What a notebook grades on, and what has to be said of it once."""

from __future__ import annotations

from functools import cache

from grader.gpu.devices import choose
from grader.model import Device
from grader.reporting.compact import Remark


@cache
def chosen_device() -> tuple[Device, str | None]:
    """The device that kernels are graded on, and what is to be said of the choice."""
    return choose("auto")


@cache
def _notes_once() -> list[Remark]:
    chosen, note = chosen_device()
    said = [Remark(note, "dim")] if note else []
    if chosen.sandbox == "none":
        said.append(Remark("bubblewrap does not work here, so your kernel runs without a sandbox.", "dim"))
    return said


def notes() -> list[Remark]:
    """What has to be said of this machine, the first time somebody is told anything."""
    said = list(_notes_once())
    _notes_once().clear()
    return said
