"""`python -m grader course`, `gradescope` and `classroom50`: an nbgrader course, and what is uploaded to other platforms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from grader.classroom.gradebook import ASSIGNMENT, BONUS
from grader.cli.arguments import labs_named, refuse
from grader.cli.command_options import Labs


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


def gradescope(
    out: Annotated[Path, typer.Argument(help="The archive to write.")] = Path("autograder.zip"),
    lab: Labs = None,
    hidden: Annotated[
        Literal["after_published", "after_due_date", "hidden", "visible"],
        typer.Option(help="When students see the verdicts on hidden cases."),
    ] = "after_published",
    secrets_file: Annotated[
        Path | None,
        typer.Option(
            "--secrets",
            help="Seed and hidden cases for the archive (default: the repository's secrets.toml if it exists).",
        ),
    ] = None,
) -> None:
    """Write the autograder archive to upload to Gradescope."""
    from grader.classroom.gradescope.package import write_archive
    from grader.classroom.secrets_file import secrets_in_force

    wanted = labs_named(lab)
    labs = [lab.id for lab in wanted]
    try:
        found = secrets_in_force(secrets_file, near=Path.cwd())
        members = write_archive(Path.cwd(), out, labs, hidden, found.path)
    except OSError as problem:
        raise refuse(
            f"{problem.filename} cannot be used ({problem.strerror}); run this in the repository's root, and write to a "
            "folder that is there"
        ) from None
    typer.echo(f"wrote {out}: {len(members)} files, {out.stat().st_size / 1e3:.0f} kB, labs {', '.join(labs)}")
    typer.echo(found.sentence(wanted))


def classroom50(
    out: Annotated[Path, typer.Argument(help="The archive to write.")] = Path("classroom50.zip"),
    lab: Labs = None,
) -> None:
    """Write an assignment's bundle to unpack into the autograders of Classroom 50."""
    from grader.classroom.gradescope.package import write_classroom50

    try:
        members = write_classroom50(Path.cwd(), out, [lab.id for lab in labs_named(lab)])
    except OSError as problem:
        raise refuse(
            f"{problem.filename} cannot be used ({problem.strerror}); run this in the repository's root"
        ) from None
    typer.echo(
        f"wrote {out}: {len(members)} files, {out.stat().st_size / 1e3:.0f} kB, without secrets: anybody can fetch it"
    )
