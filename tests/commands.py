"""The grader's commands in this process: the same code as `python -m grader`, without the second that its imports take."""

from __future__ import annotations

from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from grader.cli.main import app


def invoked(*arguments: Any) -> Result:
    """What a command answered: exit status, standard output, standard error. An exception that is none of its ends is raised."""
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
