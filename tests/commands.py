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


def ran(*command: Any, cwd: Path = ROOT, seconds: float = 600, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, with these variables beside those of the environment; it may fail."""
    variables = {**os.environ, **environment}
    return subprocess.run([*map(str, command)], cwd=cwd, env=variables, capture_output=True, text=True, timeout=seconds, check=False)


def python(*arguments: Any, cwd: Path = ROOT, seconds: float = 600, **environment: str) -> str:
    """What a program prints that Python runs in a process of its own; it has to end well."""
    done = ran(sys.executable, *arguments, cwd=cwd, seconds=seconds, **environment)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout
