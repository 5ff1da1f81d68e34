"""The steps of each notebook, found by looking: a module here for a notebook without a lab, else the `steps.py` of the lab."""

from __future__ import annotations

import importlib
from pathlib import Path

from grader.labs import all_labs
from grader.labs.notebook_step import Step

__all__ = ["exercises", "steps_of"]

HERE = Path(__file__).parent


def exercises() -> tuple[str, ...]:
    """The notebooks that have steps: those of this package, then those of labs in the labs' order."""
    own = sorted(path.stem for path in HERE.glob("*.py") if path.stem != "__init__")
    return (*own, *(lab_id for lab_id in all_labs() if _of_lab(lab_id).exists()))


def steps_of(notebook: str) -> dict[str, Step]:
    """The steps of a notebook by name, in order; none for a notebook that has no module here and no lab with `steps.py`."""
    if (HERE / f"{notebook}.py").exists():
        module = f"grader.exercises.{notebook}"
    elif _of_lab(notebook).exists():
        module = f"grader.labs.{notebook}.steps"
    else:
        return {}
    return {step.name: step for step in importlib.import_module(module).STEPS}


def _of_lab(lab_id: str) -> Path:
    return HERE.parent / "labs" / lab_id / "steps.py"
