"""`python -m grader release`, `new-lab` and `check-lab`: what students get, and where it comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grader.cli.arguments import labs_named, refuse


def release(
    secrets_file: Annotated[
        Path | None,
        typer.Option(
            "--secrets", help="Secrets that must not get into the archive (default: the repository's secrets.toml)."
        ),
    ] = None,
    bundle: Annotated[Path, typer.Option(help="The archive to write for students.")] = Path("build/student.zip"),
) -> None:
    """Regenerate assignment/, notebooks/*.ipynb and the results of slips, and pack the students' archive (for instructors)."""
    from grader.authoring.bundle import write_bundle
    from grader.authoring.hosted import repository_url, unset
    from grader.authoring.release import release as write
    from grader.classroom.secrets_file import secrets_in_force

    root = _repository()
    secrets = secrets_in_force(secrets_file, near=root).path
    changed = write(root)
    for path in changed:
        typer.echo(f"wrote {path.relative_to(root)}" if path.exists() else f"removed {path.relative_to(root)}")
    typer.echo("assignment/, notebooks/ and the results of slips match their sources")
    if unset(repository_url(root)):
        typer.echo("the badges lead nowhere yet: write your repository's address into [project.urls] of pyproject.toml")
    count = write_bundle(root, bundle, secrets)
    proven = f" and nothing of {secrets} among them" if secrets else " among them; there is no secrets.toml to look for"
    typer.echo(f"{bundle} holds the {count} files that students get, no solution{proven}")


def new_lab(
    lab_id: Annotated[str, typer.Argument(metavar="ID", help="Lower-case letters and digits, such as w8a16.")],
) -> None:
    """Write the skeleton of a new lab; its tests pass as it is (docs/new-lab.md says how to continue)."""
    from grader.authoring.new_lab import make_lab

    root = _repository()
    files = make_lab(lab_id, root)
    for path in files:
        typer.echo(f"wrote {path.relative_to(root)}")
    typer.echo(
        f"next: make release && python -m grader grade solutions --lab {lab_id} && python -m grader check-lab {lab_id}"
    )


def check_lab(lab_id: Annotated[str, typer.Argument(metavar="ID", help="The lab to check.")]) -> None:
    """Check that a lab is complete. Exit status: 0 complete, 1 something is missing."""
    from grader.authoring.new_lab import missing

    root = _repository()
    labs_named([lab_id])
    found = list(missing(lab_id, root))
    for must, sentence in found:
        typer.echo(f"{'missing' if must else 'could have'}: {sentence}")
    if not found:
        typer.echo(f"{lab_id} has everything that the other labs have")
    elif not any(must for must, _ in found):
        typer.echo(f"nothing is missing that {lab_id} must have")
    raise typer.Exit(any(must for must, _ in found))


def _repository() -> Path:
    root = Path.cwd()
    if not (root / "solutions").is_dir():
        raise refuse(f"{root} has no folder solutions/; run this in the repository's root")
    return root
