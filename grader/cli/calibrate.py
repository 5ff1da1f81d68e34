"""`python -m grader calibrate`: the tier table of this machine's GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grader.cli.arguments import cores, errors, graphics_card, refuse
from grader.reporting.atomic import write_whole


def calibrate(
    path: Annotated[Path, typer.Argument(help="Folder with a solution for every lab.")] = Path("solutions"),
    repeats: Annotated[int, typer.Option(min=1, help="Runs in separate GPU processes; the median counts.")] = 3,
    out: Annotated[Path | None, typer.Option(help="Folder for the table (default: the grader's own).")] = None,
    fallback: Annotated[
        bool, typer.Option("--fallback", help="Also write sm_<cc>.toml, for other GPUs of this compute capability.")
    ] = False,
) -> None:
    """Time the solutions on this GPU and write its tier table (for instructors)."""
    from grader.judging.rubric import HERE
    from grader.labs import all_labs
    from grader.pipeline.calibration import CannotCalibrate, table_names, tier_table
    from grader.pipeline.calibration import calibrate as measure
    from grader.reading import UnusablePath

    device = graphics_card("calibration")
    folder = out or HERE / "tiers"
    if not folder.is_dir():
        raise refuse(f"the folder {folder} does not exist; create it or choose another with --out")
    try:
        measured = measure(
            path, list(all_labs().values()), device, repeats, cores(), lambda lab, text: errors.print(f"{lab}: {text}")
        )
    except (UnusablePath, CannotCalibrate) as problem:
        raise refuse(str(problem)) from None
    table = tier_table(measured)
    for name in table_names(device, fallback):
        write_whole(folder / name, table)
        typer.echo(f"wrote {folder / name}")
    typer.echo(table)
