"""`python -m bench race`, `encoder`, `decoder` and `figures`: kernels against cuBLAS fp16, whole models, as data and as drawings;
`students`, `stages`, `waiting` and `serving`: the grader's own speed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from grader.cli.arguments import application, cores, errors, graphics_card, refuse
from grader.cli.command_options import DeviceOption
from grader.model import Device
from grader.reporting.atomic import write_whole
from grader.reporting.benchmarks import SHOWN
from grader.reporting.whole_models import ModelRecord
from grader.reporting.whole_models import to_json as model_to_json

app = application(__doc__ or "")


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
    from grader.reporting.benchmarks import to_json

    device = graphics_card("the benchmark")
    out = json_file or Path("bench") / "results" / f"{slug(device.name)}.json"
    if not out.resolve().parent.is_dir():
        raise refuse(f"the folder of {out} does not exist; create it, or say where to with --json")
    record = measure(solutions, device, cores(), lambda text: errors.print(text))
    write_whole(out, to_json(record))
    typer.echo(terminal_table(record))
    typer.echo(f"wrote {out} after {record.seconds:.0f} s; `make figures` draws it")


@app.command()
def encoder(
    relative_positions: Annotated[
        bool, typer.Option("--relative-positions", help="Add relative positions to attention's scores.")
    ] = False,
    compiling: Annotated[
        bool, typer.Option("--compile/--no-compile", help="Whether to time torch.compile too.")
    ] = True,
    seconds: Annotated[float, typer.Option(help="What is not compiled by then is left out.")] = 300.0,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Where to write the record; default: bench/results/encoder_<gpu>.json."),
    ] = None,
) -> None:
    """Time a ViT-H encoder in fp16, bf16 and int8, in three steps and fused, on this GPU."""
    from bench.whole.encoder import encoder as measure
    from bench.whole.vit import EncoderSizes

    device = graphics_card("timing the encoder")
    out = _model_file(json_file, "encoder_positions" if relative_positions else "encoder", device)
    sizes = EncoderSizes(relative_positions=relative_positions)
    _write_model(
        measure(sizes, device, compiling=compiling, seconds=seconds, listen=lambda text: errors.print(text)), out
    )


@app.command()
def decoder(
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Where to write the record; default: bench/results/decoder_<gpu>.json."),
    ] = None,
) -> None:
    """Time a decoder layer of a model of 7 B in fp16 and with every lab's layer on this GPU."""
    from bench.whole.decoder import decoder as measure
    from bench.whole.llama import DecoderSizes

    device = graphics_card("timing the decoder layer")
    out = _model_file(json_file, "decoder", device)
    _write_model(measure(DecoderSizes(), device, lambda text: errors.print(text)), out)


def _model_file(wanted: Path | None, which: str, device: Device) -> Path:
    from grader.judging.rubric import slug

    out = wanted or Path("bench") / "results" / f"{which}_{slug(device.name)}.json"
    if not out.resolve().parent.is_dir():
        raise refuse(f"the folder of {out} does not exist; create it, or say where to with --json")
    return out


def _write_model(record: ModelRecord, out: Path) -> None:
    from grader.reporting.whole_models import markdown

    write_whole(out, model_to_json(record))
    typer.echo(markdown(record))
    typer.echo(f"wrote {out} after {record.seconds:.0f} s; `make figures` draws it")


@app.command()
def students(
    wanted: Annotated[
        str, typer.Option("--cores", help="Numbers of cores, with commas between; 16:2 is 16 cores and two GPUs.")
    ] = "",
    count: Annotated[int | None, typer.Option("--students", min=1, help="How many; default: as many as cores.")] = None,
    equal: Annotated[float, typer.Option(min=0, max=1, help="The share that hands in the same kernels.")] = 0.0,
    device: DeviceOption = "auto",
    engine: Annotated[str, typer.Option(help="local, or ray.")] = "local",
    add: Annotated[bool, typer.Option("--add", help="Keep the runs that the record has.")] = False,
) -> None:
    """Grade classes with so many cores each; writes bench/results/students_<device>.json and the table of docs/instructor.md."""
    from bench.students import BEGIN, END, RESULTS, loaded, measure, table, to_json
    from grader.gpu.devices import choose, visible_gpus
    from grader.judging.rubric import slug

    try:
        chosen, _ = choose(device)
        pairs = [one.partition(":") for one in wanted.split(",")] if wanted else []
        numbers = [(int(count), int(gpus or 1)) for count, _, gpus in pairs] or [(cores(), 1)]
    except ValueError as problem:
        raise refuse(str(problem)) from None
    most = visible_gpus() if chosen.kind == "cuda" else 1
    if not all(0 < number <= cores() and 0 < gpus <= most for number, gpus in numbers):
        raise refuse(f"--cores {wanted}: this process may use {cores()} cores and {most} GPUs")
    record = measure(chosen, numbers, count, equal, engine, lambda text: errors.print(text))
    path = RESULTS / f"students_{slug(record.device)}.json"
    earlier = next((old.runs for old in loaded() if old.device == record.device), ()) if add else ()
    record = replace(record, runs=(*earlier, *record.runs))
    write_whole(path, to_json(record))
    _write_between(Path("docs") / "instructor.md", BEGIN, END, table(loaded()))
    typer.echo(table([record]))


def _write_between(document: Path, begin: str, end: str, text: str) -> None:
    """Puts a table between two markers of a page."""
    page = document.read_text(encoding="utf-8")
    before, after = page[: page.index(begin) + len(begin)], page[page.index(end) :]
    write_whole(document, f"{before}\n\n{text}\n{after}")


@app.command()
def stages() -> None:
    """Measure where the CPU seconds of one student go, with a GPU and without; writes bench/results/stages.json and the table of
    docs/instructor.md."""
    from bench.stages import BEGIN, END, RESULTS, measure, table, to_json

    record = measure()
    write_whole(RESULTS / "stages.json", to_json(record))
    _write_between(Path("docs") / "instructor.md", BEGIN, END, table(record))
    typer.echo(table(record))


@app.command()
def waiting(
    against: Annotated[str | None, typer.Option(help="Another commit, measured beside this one.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="How often each command is run.")] = 5,
    row: Annotated[list[str] | None, typer.Option(help="Only this row of the table; can be repeated.")] = None,
) -> None:
    """Time whole commands of a student's without a GPU; writes bench/results/waiting.json and the table of docs/instructor.md."""
    from bench.waiting import BEGIN, END, RESULTS, measure, rows, table, to_json

    if unknown := [one for one in row or () if one not in rows()]:
        raise refuse(f"there is no row {unknown[0]!r}; the rows are {', '.join(rows())}")
    record = measure(
        against, runs, row or list(rows()), lambda one: errors.print(f"{one.row}, {one.commit}: {one.wall_seconds:.1f} s")
    )
    write_whole(RESULTS / "waiting.json", to_json(record))
    _write_between(Path("docs") / "instructor.md", BEGIN, END, table(record))
    typer.echo(table(record))


@app.command()
def styles() -> None:
    """Grade the right kernels of tests/styles on this GPU; writes bench/results/styles_<gpu>.json and the table of docs/timing.md."""
    from bench.styles import BEGIN, END, RESULTS, measure, table, to_json
    from grader.judging.rubric import slug

    graphics_card("timing the styles")
    record = measure()
    path = RESULTS / f"styles_{slug(record.gpu)}.json"
    write_whole(path, to_json(record))
    _write_between(Path("docs") / "timing.md", BEGIN, END, table(record))
    typer.echo(table(record))


@app.command()
def serving(
    lab: Annotated[list[str] | None, typer.Option(help="Only this lab; can be repeated.")] = None,
    count: Annotated[int, typer.Option("--students", min=1, help="How many submit.")] = 20,
    submissions: Annotated[int, typer.Option(min=1, help="How many they submit at once, 5 each at most.")] = 60,
    idle: Annotated[int, typer.Option(min=0, help="How many are submitted one after the other, then.")] = 6,
    limit: Annotated[float, typer.Option(help="Seconds that the queue is waited for.")] = 150.0,
    jobs: Annotated[int | None, typer.Option(min=1, help="As `serve` has it.")] = None,
    device: DeviceOption = "auto",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Where to write the record; default: bench/results/serving_<gpu>.json.")
    ] = None,
) -> None:
    """Time a real course server on this machine: a full queue, then an idle one."""
    from bench.serving import Load, measure, to_json
    from bench.students import RESULTS
    from grader.gpu.devices import choose, visible_gpus
    from grader.judging.rubric import slug
    from grader.labs import all_labs

    chosen, _ = choose(device)
    labs = lab or [name for name, one in all_labs().items() if not one.bonus]
    arguments = [*(word for name in labs for word in ("--lab", name)), *(["--jobs", str(jobs)] if jobs else [])]
    gpus = visible_gpus() if chosen.kind == "cuda" else 0
    record = measure(chosen, gpus, Load(labs, count, submissions, idle, limit, arguments), errors.print)
    path = json_file or RESULTS / f"serving_{slug(record.device)}.json"
    write_whole(path, to_json(record))
    typer.echo(to_json(record))


@app.command()
def figures(
    json_file: Annotated[Path, typer.Option("--json", help="A record of `race`.")] = SHOWN,
    folder: Annotated[Path, typer.Option(help="Where the drawings go.")] = Path("bench/figures"),
    document: Annotated[Path, typer.Option(help="The page to write.")] = Path("docs/benchmarks.md"),
) -> None:
    """Draw the records of bench/results/ and write docs/benchmarks.md from them."""
    from bench.figures import draw
    from bench.tables import page
    from bench.whole.model_drawings import draw_models
    from bench.whole.pages import load_models
    from grader.reporting.benchmarks import load, others

    record, more = load(json_file), others()
    models = load_models()
    if not document.resolve().parent.is_dir():
        raise refuse(f"the folder of {document} does not exist; run this in the repository's root")
    folder.mkdir(parents=True, exist_ok=True)
    for name, svg in {**draw(record), **draw_models(models)}.items():
        write_whole(folder / name, svg)
        typer.echo(f"wrote {folder / name}")
    write_whole(document, page(record, more, models))
    typer.echo(f"wrote {document}")


if __name__ == "__main__":
    app(prog_name="python -m bench")
