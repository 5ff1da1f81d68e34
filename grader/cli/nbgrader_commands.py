"""`python -m grader course`: the nbgrader course on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from grader.classroom.gradebook import ASSIGNMENT, BONUS
from grader.cli.arguments import refuse


def course(
    folder: Annotated[Path, typer.Argument(help="Folder of the course; created if missing.")] = Path("course"),
    assignment: Annotated[str, typer.Option(help="Name of the assignment.")] = ASSIGNMENT,
    language: Annotated[Literal["en", "zh"], typer.Option(help="Language of the notebooks.")] = "en",
) -> None:
    """Make an nbgrader course from the notebooks, in which `nbgrader autograde` and formgrader run this grader."""
    from grader.classroom.gradebook.course import make_course
    from grader.classroom.secrets_file import secrets_in_force
    from grader.labs import all_labs

    try:
        hidden = secrets_in_force(near=folder).sentence(all_labs().values())
        written = make_course(Path.cwd(), folder, assignment, language)
    except OSError as problem:
        raise refuse(
            f"{problem.filename or folder} cannot be written ({problem.strerror}); choose another folder"
        ) from None
    for path in written:
        typer.echo(f"wrote {path}")
    typer.echo(hidden)
    typer.echo(
        f"Hand out {folder}/release/{assignment}, put what comes back into {folder}/submitted/STUDENT/{assignment}, then "
        f"run `nbgrader autograde {assignment}` in {folder}"
    )
    if (folder / "release" / (assignment + BONUS)) in written:
        typer.echo(f"The bonus labs are the assignment {assignment}{BONUS}; do the same with it")
