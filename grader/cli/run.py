"""`python -m grader run`: one launch of any Triton kernel, on the interpreter, with every access watched. No lab is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import typer


def run(context: typer.Context) -> None:
    """Run a Triton kernel of your own on the interpreter; print accesses out of bounds, races and broken promises.

    `python -m grader run --help` names its arguments.
    """
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "grader.interpreter", *context.args]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, check=False)
    raise typer.Exit(done.returncode)
