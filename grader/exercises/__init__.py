"""The steps of each notebook, found by looking: a package here for a notebook without a lab, else the lab's `steps.py`; and their slips."""

from __future__ import annotations

import importlib
from pathlib import Path
from pkgutil import iter_modules

from grader.exercises.slips import Slip, slips_in
from grader.labs import all_labs, steps_of_lab
from grader.labs.notebook_step import Step

__all__ = ["Slip", "exercises", "slips_of", "steps_of"]

HERE = Path(__file__).parent


def exercises() -> tuple[str, ...]:
    """The notebooks that have steps: those of this package, then those of labs in the labs' order."""
    return (*_own(), *(lab_id for lab_id in all_labs() if _of_lab(lab_id).exists()))


def steps_of(notebook: str) -> dict[str, Step]:
    """The steps of a notebook by name, in order; none for a notebook that has no package here and no lab with `steps.py`."""
    if notebook not in _own():
        return steps_of_lab(notebook)
    return {step.name: step for step in importlib.import_module(f"grader.exercises.{notebook}").STEPS}


def slips_of(notebook: str, step: str) -> tuple[Slip, ...]:
    """The slips of one step of a notebook."""
    return slips_in(HERE / notebook if notebook in _own() else _of_lab(notebook).parent, step)


def _own() -> list[str]:
    return sorted(module.name for module in iter_modules([str(HERE)]) if module.ispkg)


def _of_lab(lab_id: str) -> Path:
    return HERE.parent / "labs" / lab_id / "steps.py"
