"""The grader's commands in this process, without the second that the imports of `python -m grader` take; other programs in their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from grader.cli.main import app

ROOT = Path(__file__).parents[1]


def invoked(*arguments: Any) -> Result:
    """What a command answered: exit status, standard output, standard error. An exception that is none of its ends is raised."""
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def python(*arguments: Any, seconds: float = 300, **environment: str) -> str:
    """What a program prints that Python runs in a process of its own, in the repository's root; it has to end well."""
    command, told = [sys.executable, *map(str, arguments)], {**os.environ, **environment}
    done = subprocess.run(command, cwd=ROOT, env=told, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout
