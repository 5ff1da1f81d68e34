"""The steps of each notebook, found by looking: `steps.py` in a folder here for a notebook without a lab, else the lab's; and their slips.

A slip's results are data that `make release` has computed from the folder's slips.toml. slips.json: by step a list of
{"what", "at", "result"}; slips.npz: by `result` the output of the step's run with this slip. The edits that they come from
are pieces of solutions, so slips.toml stays with the instructors.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from grader.labs import all_labs, steps_of_lab
from grader.labs.notebook_step import Step

HERE = Path(__file__).parent
LABS = HERE.parent / "labs"
SENTENCES, RESULTS = "slips.json", "slips.npz"


@dataclass(frozen=True)
class Slip:
    """A mistake that is easily made in a step.

    what: completes "the result is ...". at: a regular expression for the line of the student's function to look at; "" for no line
    in particular. result: the step's output with this mistake, poison where it stores nothing.
    """

    what: str
    at: str
    result: torch.Tensor


def exercises() -> tuple[str, ...]:
    """The notebooks that have steps: those of this package, then those of labs in the labs' order."""
    return (*_own(), *(lab_id for lab_id in all_labs() if (LABS / lab_id / "steps.py").exists()))


def steps_of(notebook: str) -> dict[str, Step]:
    """The steps of a notebook by name, in order; none for a notebook that has no `steps.py` here and no lab with one."""
    if notebook not in _own():
        return steps_of_lab(notebook)
    return {step.name: step for step in importlib.import_module(f"grader.exercises.{notebook}.steps").STEPS}


def slips_of(notebook: str, step: str) -> tuple[Slip, ...]:
    """The slips of one step of a notebook in the order of slips.toml; none where the notebook has none."""
    folder = (HERE if notebook in _own() else LABS) / notebook
    if not (folder / SENTENCES).exists():
        return ()
    listed = json.loads((folder / SENTENCES).read_text(encoding="utf-8")).get(step, [])
    with np.load(folder / RESULTS) as results:
        return tuple(Slip(slip["what"], slip["at"], torch.from_numpy(results[slip["result"]])) for slip in listed)


def _own() -> list[str]:
    return sorted(path.parent.name for path in HERE.glob("*/steps.py"))
