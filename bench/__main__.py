"""`python -m bench race` and `figures`: solutions, ladders and peers against cuBLAS fp16, as data and as drawings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grader.cli.arguments import cores, errors, graphics_card, refuse
from grader.reporting.atomic import write_whole
from grader.reporting.benchmarks import SHOWN

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.command()
def race(
    solutions: Annotated[Path, typer.Argument(help="Folder with the solutions and their ladder/.")] = Path("solutions"),
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Where to write the record; default: bench/results/<gpu>.json.")
    ] = None,
) -> None:
    """Race solutions, ladder steps and installed peers against cuBLAS fp16 on this GPU."""
    from bench.running import bench as measure
    from bench.tables import terminal_table
    from grader.judging.rubric import slug
    from grader.reading import UnusablePath
    from grader.reporting.benchmarks import to_json

    device = graphics_card("the benchmark")
    out = json_file or Path("bench") / "results" / f"{slug(device.name)}.json"
    if not out.resolve().parent.is_dir():
        raise refuse(f"the folder of {out} does not exist; create it, or say where to with --json")
    try:
        record = measure(solutions, device, cores(), lambda text: errors.print(text))
    except UnusablePath as problem:
        raise refuse(str(problem)) from None
    write_whole(out, to_json(record))
    typer.echo(terminal_table(record))
    typer.echo(f"wrote {out} after {record.seconds:.0f} s; `make figures` draws it")


@app.command()
def figures(
    json_file: Annotated[Path, typer.Option("--json", help="A record of `race`.")] = SHOWN,
    folder: Annotated[Path, typer.Option(help="Where the drawings go.")] = Path("bench/figures"),
    document: Annotated[Path, typer.Option(help="The page to write.")] = Path("docs/benchmarks.md"),
) -> None:
    """Draw a benchmark record and write docs/benchmarks.md from it."""
    from bench.figures import draw
    from bench.tables import page
    from grader.reporting.benchmarks import UnusableRecord, load

    try:
        record = load(json_file)
    except UnusableRecord as problem:
        raise refuse(str(problem)) from None
    if not document.resolve().parent.is_dir():
        raise refuse(f"the folder of {document} does not exist; run this in the repository's root")
    folder.mkdir(parents=True, exist_ok=True)
    for name, svg in draw(record).items():
        write_whole(folder / name, svg)
        typer.echo(f"wrote {folder / name}")
    write_whole(document, page(record))
    typer.echo(f"wrote {document}")


if __name__ == "__main__":
    app(prog_name="python -m bench")
