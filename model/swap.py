"""Puts the labs' layers in the place of a model's Linear layers: `swap(model, "w8a8")`.

The layers are those of `solutions/` (in a student's copy `assignment/`), found by the lab's name, so that a lab that is added
works here without a word. On a GPU they run a kernel: the file's own, or the one of a submission. On a CPU they run the file's
`naive`, which computes the same in plain PyTorch; a kernel under Triton's interpreter would take hours for a whole model.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import itertools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import torch
from torch import nn

from grader.labs import Lab, get_lab
from grader.model import KernelSource
from grader.reading import read
from model.layers import Choose, every, replace
from model.transformer import linear_layers

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("solutions", "assignment")
Runs = Literal["auto", "naive", "kernel"]
_counter = itertools.count()


class CannotSwap(ValueError):
    """No layer of this lab can be put into the model; the message is one sentence."""


class Swapped(nn.Module):
    """A lab's layer, which takes and gives fp16, within a model of any dtype."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., K] -> [..., N] in the dtype of x."""
        return self.layer(x.to(torch.float16)).to(x.dtype)  # type: ignore[no-any-return]


def swap(
    model: nn.Module, lab_id: str, *, choose: Choose = every, runs: Runs = "auto", submission: Path | None = None, **options: Any
) -> list[str]:
    """Replaces the chosen Linear layers by the lab's, in place, and returns their names.

    runs: "kernel", "naive" (what the kernel should compute, in plain PyTorch), or "auto": the kernel on a GPU, else naive.
    submission: a .py, an .ipynb or a folder whose kernel is to run. options: what the layer's `from_linear` takes besides
    (`sparsity=` for dds, half where nothing is said; `group_size=` for gptq, a whole row where nothing is said). Move a model to its
    device before, and do not call .half() after.
    Raises CannotSwap when the lab, its file or the submission's kernel is missing, or no layer is chosen.
    """
    try:
        lab = get_lab(lab_id)
    except KeyError as problem:
        raise CannotSwap(str(problem.args[0])) from None
    chosen = {name: layer for name, layer in linear_layers(model).items() if choose(name)}
    if not chosen:
        raise CannotSwap(f"found no Linear layer to replace by {lab.layer}, expected at least one; look at the names that `choose` gets")
    on_gpu = next(iter(chosen.values())).weight.device.type == "cuda"
    use_kernel = runs == "kernel" or (runs == "auto" and on_gpu)
    module = _module(layers_file(lab))
    if use_kernel and submission is not None:
        _take_kernel(module, lab, submission)
    elif not use_kernel:
        _run_naive(module, lab)
    made = getattr(module, lab.layer)
    for name, linear in chosen.items():
        replace(model, name, Swapped(made.from_linear(linear, **_defaults(made, options))))
    return list(chosen)


def layers_file(lab: Lab) -> Path:
    """Where the lab's layer is. Raises CannotSwap."""
    for folder in FOLDERS:
        if (path := ROOT / folder / f"{lab.id}.py").is_file():
            return path
    raise CannotSwap(f"found no {lab.id}.py in {' or '.join(FOLDERS)} below {ROOT}, expected the file with {lab.layer}")


def options_of(lab_id: str) -> tuple[str, ...]:
    """What `swap` can be told for this lab: the names of its layer's options. Raises CannotSwap."""
    lab = get_lab(lab_id)
    made = getattr(_module(layers_file(lab)), lab.layer)
    return tuple(name for name in inspect.signature(made.from_linear).parameters if name != "linear")


def _module(path: Path) -> ModuleType:
    """A file as a module of its own, so that what is changed in it reaches nobody else."""
    spec = importlib.util.spec_from_file_location(f"swapped_{path.stem}_{next(_counter)}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # torch.compile looks for a layer's module there
    spec.loader.exec_module(module)
    return module


def _take_kernel(module: ModuleType, lab: Lab, submission: Path) -> None:
    """Gives a lab's module the kernel, configs and grid of a submission. They run here: it is the reader's own work."""
    source = read(submission, [lab]).labs[lab.id]
    if not isinstance(source, KernelSource):
        raise CannotSwap(f"{lab.kernel} of {submission} cannot be used: {source.message}")
    folder = tempfile.TemporaryDirectory()
    vars(module)["__folder__"] = folder  # Triton may read a kernel's text when it first runs: the file lives as long as the module
    path = Path(folder.name) / f"{lab.id}.py"
    path.write_text(source.module, encoding="utf-8")
    own = _module(path)
    for name in (lab.kernel, lab.grid, "CONFIGS"):
        if hasattr(own, name):
            setattr(module, name, getattr(own, name))


def _run_naive(module: ModuleType, lab: Lab) -> None:
    """Lets the module's `launch` store what `naive` computes; parameters are told apart by their names."""
    if not hasattr(module, "naive"):
        raise CannotSwap(f"found no naive in {lab.id}.py, expected one to run without a GPU; use a GPU")
    named, taken = inspect.signature(module.launch), inspect.signature(module.naive).parameters
    naive: Callable[..., torch.Tensor] = module.naive

    @functools.wraps(module.launch)
    def launch(*arguments: Any, **keywords: Any) -> None:
        given = named.bind(*arguments, **keywords).arguments
        given["y"].copy_(naive(**{name: value for name, value in given.items() if name in taken}))

    vars(module)["launch"] = launch


def _defaults(made: Any, options: dict[str, Any]) -> dict[str, Any]:
    """`options`, and a sparsity for a layer that must be told one."""
    accepted = inspect.signature(made.from_linear).parameters
    if "sparsity" in accepted and "sparsity" not in options and "mask" not in options:
        return {**options, "sparsity": 0.5}
    return options
