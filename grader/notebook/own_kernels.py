"""How a notebook's own kernels run: on a GPU that is new enough for the labs, else on Triton's interpreter.

Importing this decides nothing. `begin` does, once, for the process of a notebook; `grader.notebook` calls it when a notebook imports it.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

from grader.notebook import tracebacks
from grader.notebook.cells import display
from grader.reporting.compact import Remark
from grader.sandbox import prewarm


def usable_gpu() -> bool:
    """Whether the labs' kernels compile for the GPU here: int8 products need compute capability 8.0."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)


device = torch.device("cuda" if usable_gpu() else "cpu")
"""Where the notebook's own tensors go; not to a GPU that is too old for the labs."""


def show_device() -> None:
    """Says where the notebook's own kernels run, and of a GPU that is too old that it is not used."""
    said = [f"kernels run on {device}" + ("" if device.type == "cuda" else ", interpreted: slow, and exact")]
    if device.type == "cpu" and torch.cuda.is_available():
        gpu = torch.cuda.get_device_name()
        said.append(f"the {gpu} is not used: the labs need compute capability 8.0, see docs/student.md")
    display([Remark(text) for text in said])


def begin(shell: Any) -> None:
    """Sets up the process of the notebook that `shell` runs: interpreter or GPU, short tracebacks, warm sandboxes.

    Triton reads TRITON_INTERPRET when it is imported, so a notebook that imported Triton before stays with what it chose.
    """
    if device.type == "cpu" and "triton" not in sys.modules:
        os.environ["TRITON_INTERPRET"] = "1"
    if "ipykernel" in sys.modules:  # while the first cells are read, so that the first check does not wait
        prewarm()
    tracebacks.install(shell)
