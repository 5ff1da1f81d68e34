"""The command line: `python -m grader --help` lists the commands."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from grader.arguments import GRADER_FAILED, INTERRUPTED, DeviceChoice, errors, labs_named, refuse
from grader.batch.command import batch, secrets
from grader.bench.record import SHOWN
from grader.files import write_whole
from grader.gradebook.command import course
from grader.gradescope.command import gradescope
from grader.reporting.text import Terminal, json_text

if TYPE_CHECKING:
    from grader.labs import Lab
    from grader.model import Device, Report

app = typer.Typer(
    help="Grades Triton kernels: correctness anywhere, speed on an NVIDIA GPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(batch)
app.command()(secrets)
app.command()(course)
app.command()(gradescope)


@app.command()
def grade(
    path: Annotated[Path, typer.Argument(help="A .py, an .ipynb or a folder of them.")],
    lab: Annotated[list[str] | None, typer.Option("--lab", help="Only this lab; may be given several times.")] = None,
    device: Annotated[DeviceChoice, typer.Option(help="auto: a GPU where one is there.")] = DeviceChoice.auto,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the correctness inputs; default: a new one each time.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Sandboxes at once; default: one a core.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the report as JSON.")] = None,
    html_file: Annotated[Path | None, typer.Option("--html", help="Write the report as one HTML page.")] = None,
    junit_file: Annotated[Path | None, typer.Option("--junit", help="Write the report as JUnit XML.")] = None,
) -> None:
    """Grade one submission. Exit status: 0 graded, 2 unusable arguments, 3 the grader failed."""
    from grader.reading import UnusablePath
    from grader.reporting.document import document
    from grader.reporting.junit import junit
    from grader.reporting.terminal import show
    from grader.rubric import BadRubric

    labs = labs_named(lab)
    _check_folders(json_file, html_file, junit_file)
    chosen = _device(device)
    try:
        report = _grade(path, labs, chosen, seed, jobs, all_labs=bool(lab))
    except (UnusablePath, BadRubric) as problem:
        raise refuse(str(problem)) from None
    except KeyboardInterrupt:
        errors.print("stopped; nothing was written")
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        errors.print_exception()
        errors.print(
            f"[red]the grader itself failed[/] ({escape(type(error).__name__)}); this is not your kernel's fault: report it "
            "with the lines above",
            soft_wrap=True,
        )
        raise typer.Exit(GRADER_FAILED) from None
    show(report, Terminal(highlight=False))
    if json_file:
        write_whole(json_file, json_text(document(report), indent=2) + "\n")
    if junit_file:
        write_whole(junit_file, junit(report))
    if html_file and _write_page(html_file, report):
        Terminal(highlight=False).print(f"Report with pictures: {escape(str(html_file))}", soft_wrap=True)


@app.command()
def watch(
    path: Annotated[Path, typer.Argument(help="A .py, an .ipynb or a folder of them.")],
    lab: Annotated[list[str] | None, typer.Option("--lab", help="Only this lab; may be given several times.")] = None,
    device: Annotated[DeviceChoice, typer.Option(help="auto: a GPU where one is there.")] = DeviceChoice.auto,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the correctness inputs; default: a new one each session.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Sandboxes at once; default: one a core.")] = None,
    html_file: Annotated[Path | None, typer.Option("--html", help="Keep this page up to date.")] = None,
) -> None:
    """Grade a lab again whenever its kernel is saved, until Ctrl-C: first the interpreter's answer, then the rest."""
    from grader.grading import GradeOptions
    from grader.reading import UnusablePath
    from grader.reporting.compact import Lines
    from grader.rubric import BadRubric
    from grader.watching import Watch

    labs = labs_named(lab)
    _check_folders(html_file)
    options = GradeOptions(_device(device), seed=seed, jobs=jobs)

    def publish(report: Report) -> None:
        if html_file and _write_page(html_file, report):
            lines.page_written(html_file)

    lines = Lines(Terminal(highlight=False), publish)
    try:
        Watch(path, labs, options, lines, all_labs=bool(lab)).run()
    except (UnusablePath, BadRubric) as problem:
        raise refuse(str(problem)) from None
    except KeyboardInterrupt:
        errors.print("stopped watching")


def _check_folders(*files: Path | None) -> None:
    for file in files:
        if file and not file.resolve().parent.is_dir():
            raise refuse(f"the folder of {file} does not exist; create it or write the report elsewhere")


def _device(wanted: DeviceChoice) -> Device:
    """The device to grade on, with what has to be said of it."""
    from grader.devices import UnusableDevice, choose

    try:
        chosen, note = choose(wanted.value)
    except UnusableDevice as problem:
        raise refuse(str(problem)) from None
    if note:
        errors.print(f"[yellow]note:[/] {escape(note)}", soft_wrap=True)
    if chosen.sandbox == "none":
        errors.print(
            "[yellow]warning:[/] bubblewrap does not work here, so the kernel runs without a sandbox; "
            "grade only what you trust, and see `python -m grader doctor`",
            soft_wrap=True,
        )
    return chosen


def _grade(
    path: Path, labs: list[Lab], device: Device, seed: int | None, jobs: int | None, *, all_labs: bool
) -> Report:
    from grader.grading import GradeOptions, grade

    options = GradeOptions(device, seed=seed, jobs=jobs)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.fields[lab]:<6}"),
        TextColumn("{task.description}"),
        BarColumn(20, pulse_style="dim"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=errors, transient=True) as progress:
        tasks = {lab.id: progress.add_task("waiting", lab=lab.id, total=None) for lab in labs}

        def listen(lab_id: str, text: str) -> None:
            progress.update(tasks[lab_id], description=text)
            if text.endswith("points"):
                progress.update(tasks[lab_id], total=1, completed=1)

        return grade(path, labs, options, all_labs=all_labs, listen=listen)


def _write_page(path: Path, report: Report) -> bool:
    """Writes the HTML page; without Jinja it says what is missing, and the grade stands."""
    try:
        from grader.reporting.html import page
    except ImportError as missing:
        errors.print(f"[yellow]note:[/] no HTML page was written: {escape(str(missing))}; run `pip install jinja2`")
        return False
    write_whole(path, page(report))
    return True


@app.command()
def doctor() -> None:
    """Say what this machine can grade, what is missing, and how to get it."""
    from grader.doctor import examine, verdict

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


@app.command()
def release(
    secrets_file: Annotated[
        Path, typer.Option("--secrets", help="The file that must not be among what students get.")
    ] = Path("secrets.toml"),
    bundle: Annotated[Path, typer.Option(help="The archive of what students get.")] = Path("build/student.zip"),
) -> None:
    """Regenerate assignment/ and notebooks/*.ipynb from their sources, and pack what students get (for instructors)."""
    from grader.notebook_release import BadSource, MissingJupytext
    from grader.release import BadMarkers
    from grader.release import release as write
    from grader.student_bundle import SecretTold, write_bundle

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


def _gpu(purpose: str) -> Device:
    """The device record of this machine's GPU; refuses with the reason where there is none."""
    from grader.devices import UnusableDevice, choose

    try:
        return choose("cuda")[0]
    except UnusableDevice as problem:
        raise refuse(f"{purpose} needs a GPU: {problem}") from None


@app.command()
def calibrate(
    path: Annotated[Path, typer.Argument(help="The solutions: a folder that solves every lab.")] = Path("solutions"),
    repeats: Annotated[int, typer.Option(min=1, help="Runs in separate GPU processes; the median counts.")] = 3,
    out: Annotated[Path | None, typer.Option(help="Folder of the tables; default: the grader's own.")] = None,
    fallback: Annotated[
        bool, typer.Option("--fallback", help="Also write sm_<cc>.toml, for other GPUs of this compute capability.")
    ] = False,
) -> None:
    """Time the solutions on this GPU and write its tier table (for instructors)."""
    from grader.calibration import CannotCalibrate, table_names, tier_table
    from grader.calibration import calibrate as measure
    from grader.labs import all_labs
    from grader.reading import UnusablePath
    from grader.rubric import HERE

    device = _gpu("calibration")
    folder = out or HERE / "tiers"
    if not folder.is_dir():
        raise refuse(f"the folder {folder} does not exist; create it or choose another with --out")
    try:
        measured = measure(
            path, list(all_labs().values()), device, repeats, _cores(), lambda lab, text: errors.print(f"{lab}: {text}")
        )
    except (UnusablePath, CannotCalibrate) as problem:
        raise refuse(str(problem)) from None
    table = tier_table(measured)
    for name in table_names(device, fallback):
        write_whole(folder / name, table)
        typer.echo(f"wrote {folder / name}")
    typer.echo(table)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


@app.command()
def bench(
    solutions: Annotated[Path, typer.Argument(help="Folder with the solutions and their ladder/.")] = Path("solutions"),
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Where to; default: bench/results/<gpu>.json.")
    ] = None,
) -> None:
    """Race solutions, ladder steps and installed peers against cuBLAS fp16 on this GPU."""
    from grader.bench.record import to_json
    from grader.bench.running import bench as measure
    from grader.bench.tables import terminal_table
    from grader.reading import UnusablePath
    from grader.rubric import slug

    device = _gpu("the benchmark")
    out = json_file or Path("bench") / "results" / f"{slug(device.name)}.json"
    if not out.resolve().parent.is_dir():
        raise refuse(f"the folder of {out} does not exist; create it, or say where to with --json")
    try:
        record = measure(solutions, device, _cores(), lambda text: errors.print(text))
    except UnusablePath as problem:
        raise refuse(str(problem)) from None
    write_whole(out, to_json(record))
    typer.echo(terminal_table(record))
    typer.echo(f"wrote {out} after {record.seconds:.0f} s; `make figures` draws it")


@app.command()
def figures(
    json_file: Annotated[Path, typer.Option("--json", help="A record of `bench`.")] = SHOWN,
    folder: Annotated[Path, typer.Option(help="Where the drawings go.")] = Path("bench/figures"),
    readme: Annotated[Path, typer.Option(help="The file whose table is written between its bench markers.")] = Path(
        "README.md"
    ),
) -> None:
    """Draw a benchmark record and write the README's performance table from it."""
    from grader.bench.figures import draw
    from grader.bench.record import UnusableRecord, load
    from grader.bench.tables import MissingMarkers, with_table

    try:
        record = load(json_file)
        text = with_table(readme.read_text(encoding="utf-8"), record)
    except (UnusableRecord, MissingMarkers) as problem:
        raise refuse(str(problem)) from None
    except OSError as problem:
        raise refuse(f"{readme} cannot be read ({problem.strerror}); run this in the repository's root") from None
    folder.mkdir(parents=True, exist_ok=True)
    for name, svg in draw(record).items():
        write_whole(folder / name, svg)
        typer.echo(f"wrote {folder / name}")
    write_whole(readme, text)
    typer.echo(f"wrote the table of {readme}")
