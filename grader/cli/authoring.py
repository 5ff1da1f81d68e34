"""`python -m grader release`: what students get, made from its sources."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grader.cli.arguments import refuse


def release(
    secrets_file: Annotated[
        Path, typer.Option("--secrets", help="Secrets that must not get into the archive.")
    ] = Path("secrets.toml"),
    bundle: Annotated[Path, typer.Option(help="The archive to write for students.")] = Path("build/student.zip"),
) -> None:
    """Regenerate assignment/ and notebooks/*.ipynb from their sources, and pack what students get (for instructors)."""
    from grader.authoring.bundle import SecretTold, write_bundle
    from grader.authoring.notebooks import BadSource, MissingJupytext
    from grader.authoring.release import BadMarkers
    from grader.authoring.release import release as write

    root = Path.cwd()
    if not (root / "solutions").is_dir():
        raise refuse(f"{root} has no folder solutions/; run this in the repository's root")
    try:
        changed = write(root)
    except (BadMarkers, BadSource, MissingJupytext) as problem:
        raise refuse(str(problem)) from None
    for path in changed:
        typer.echo(f"wrote {path.relative_to(root)}" if path.exists() else f"removed {path.relative_to(root)}")
    typer.echo("assignment/ and notebooks/ match their sources")
    secrets_there = secrets_file if secrets_file.is_file() else None
    try:
        count = write_bundle(root, bundle, secrets_there)
    except SecretTold as problem:
        raise refuse(str(problem)) from None
    proven = f"nothing of {secrets_file}" if secrets_there else "no secrets were there to look for"
    typer.echo(f"{bundle} holds the {count} files that students get: no solution, {proven}")
