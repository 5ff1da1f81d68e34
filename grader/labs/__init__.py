"""The labs, found by looking: every folder here with a `lab.py` that defines `LAB`."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from typing import Any

from grader.labs.contract import Lab, Launchable
from grader.labs.notebook_step import Step
from grader.labs.speed_step import SpeedStep
from grader.labs.validation import validate_lab
from grader.unusable import Unusable

__all__ = ["Lab", "Launchable", "all_labs", "get_lab", "optional", "speed_steps_of", "steps_of_lab"]


@cache
def all_labs() -> dict[str, Lab]:
    """Every lab by id, in the order of their `order` field. Raises Unusable for one whose definition lacks something."""
    folders = sorted(path.parent.name for path in Path(__file__).parent.glob("*/lab.py"))
    labs = [_sound(folder) for folder in folders]
    return {lab.id: lab for lab in sorted(labs, key=lambda lab: lab.order)}


def _sound(folder: str) -> Lab:
    lab: Lab = importlib.import_module(f"grader.labs.{folder}.lab").LAB
    if fault := next(validate_lab(lab, folder), None):
        raise Unusable(f"grader/labs/{folder}/lab.py: {fault}")
    return lab


def get_lab(lab_id: str) -> Lab:
    """The lab with this id; KeyError names the ones there are."""
    labs = all_labs()
    if lab_id not in labs:
        raise KeyError(f"no lab {lab_id!r}; the labs are {', '.join(labs)}")
    return labs[lab_id]


def optional(lab_id: str, module: str) -> Any:
    """What a module of the lab defines by the module's name in capitals, such as STEPS in `steps.py`; None for a lab without it."""
    if not (Path(__file__).parent / lab_id / f"{module}.py").exists():
        return None
    return getattr(importlib.import_module(f"grader.labs.{lab_id}.{module}"), module.upper())


def steps_of_lab(lab_id: str) -> dict[str, Step]:
    """The steps of the lab's notebook by name, in order; none for a lab without `steps.py`."""
    return {step.name: step for step in optional(lab_id, "steps") or ()}


def speed_steps_of(lab_id: str) -> dict[str, SpeedStep]:
    """The lab's steps towards speed by name, in order; none for a lab without `speed_steps.py`."""
    return {step.name: step for step in optional(lab_id, "speed_steps") or ()}
