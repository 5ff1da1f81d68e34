"""`python -m grader run`: one launch of any Triton kernel, on the interpreter, with every access watched. No lab is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer


def run(
    kernel: Annotated[
        str, typer.Argument(metavar="FILE:KERNEL", help="A function under @triton.jit, autotuned or not.")
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=VALUE]...", help="Numbers, or tensors such as x_ptr='fp16[128,64]'."),
    ] = None,
    grid: Annotated[str, typer.Option(help="Programs along each axis, as 4,8.")] = "",
    config: Annotated[int, typer.Option(min=0, help="Which of an autotuner's configs.")] = 0,
    seconds: Annotated[float, typer.Option(min=1, help="CPU time that the launch may take.")] = 60.0,
) -> None:
    """Run a Triton kernel of your own on the interpreter; print accesses out of bounds, races and broken promises.

    Without NAME=VALUE the function KERNEL_arguments() of the file is called: it returns a dict of arguments, and the grid.
    """
    command = [
        sys.executable,
        "-m",
        "grader.interpreter",
        f"--grid={grid}",
        f"--config={config}",
        f"--seconds={seconds}",
    ]
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths}
    raise typer.Exit(
        subprocess.run([*command, "--", kernel, *(arguments or ())], env=environment, check=False).returncode
    )
