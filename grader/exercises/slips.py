"""What do the slips of a notebook's steps give? Data that `make release` has computed from the folder's slips.toml.

slips.json: by step a list of {"what", "at", "result"}; slips.npz: by `result` the output of the step's run with this slip.
The edits that they come from are pieces of solutions, so slips.toml stays with the instructors.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

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


def slips_in(folder: Path, step: str) -> tuple[Slip, ...]:
    """The slips of a step in the order of slips.toml; none where its notebook has none."""
    if not (folder / SENTENCES).exists():
        return ()
    listed = json.loads((folder / SENTENCES).read_text(encoding="utf-8")).get(step, [])
    with np.load(folder / RESULTS) as results:
        return tuple(Slip(slip["what"], slip["at"], torch.from_numpy(results[slip["result"]])) for slip in listed)
