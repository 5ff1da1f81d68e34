"""`python -m grader doctor`, `calibrate` and `run`: what this machine can grade, the tier table of its GPU, a launch of any kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from grader.cli.arguments import cores, errors, graphics_card, refuse
from grader.reporting.atomic import write_whole
from grader.reporting.text import Terminal


def calibrate(
    path: Annotated[
        Path, typer.Argument(help="Folder with a solution for every lab, and their ladder/ where there is one.")
    ] = Path("solutions"),
    repeats: Annotated[int, typer.Option(min=1, help="Runs in separate GPU processes; the median counts.")] = 3,
    out: Annotated[Path | None, typer.Option(help="Folder for the table (default: the grader's own).")] = None,
    fallback: Annotated[
        bool, typer.Option("--fallback", help="Also write sm_<cc>.toml, for other GPUs of this compute capability.")
    ] = False,
) -> None:
    """Time the solutions and their ladder on every visible GPU and write the tier table (for instructors)."""
    from grader.gpu.devices import visible_gpus
    from grader.judging.rubric import HERE
    from grader.labs import all_labs
    from grader.pipeline.calibration import calibrate as measure
    from grader.pipeline.calibration import table_names, tier_table

    device = graphics_card("calibration")
    folder = out or HERE / "tiers"
    if not folder.is_dir():
        raise refuse(f"the folder {folder} does not exist; create it or choose another with --out")
    measured = measure(
        path,
        list(all_labs().values()),
        device,
        repeats,
        cores(),
        lambda lab, text: errors.print(f"{lab}: {text}"),
        visible_gpus(),
    )
    table = tier_table(measured)
    for name in table_names(device, fallback):
        write_whole(folder / name, table)
        typer.echo(f"wrote {folder / name}")
    typer.echo(table)


def doctor() -> None:
    """Show what this machine can grade, what is missing, and how to get it."""
    from grader.cli.doctor import examine, verdict

    console = Terminal(highlight=False)
    lines = examine()
    marks = {"ok": "[green]✓[/]", "limited": "[yellow]–[/]", "broken": "[red]✗[/]"}
    width = max(len(line.thing) for line in lines)
    for line in lines:
        console.print(f"{marks[line.state]} {line.thing:<{width}}  {escape(line.found)}", soft_wrap=True)
        if line.advice:
            console.print(f"  {'':<{width}}  [dim]{escape(line.advice)}[/]", soft_wrap=True)
    console.print(verdict(lines))
    raise typer.Exit(1 if any(line.state == "broken" for line in lines) else 0)


def run(context: typer.Context) -> None:
    """Run a Triton kernel of your own on the interpreter; print accesses out of bounds, races and broken promises.

    `python -m grader run --help` names its arguments.
    """
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "grader.interpreter", *context.args]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, check=False)
    raise typer.Exit(done.returncode)
