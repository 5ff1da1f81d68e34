"""`python -m grader grade` and `watch`: one submission, once or whenever it is saved."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from grader.cli.arguments import GRADER_FAILED, INTERRUPTED, errors, labs_named, note, refuse
from grader.cli.command_options import DeviceChoice, DeviceOption, Html, Jobs, Labs, Profile, Work, work
from grader.late_torch import begin, stand_in
from grader.reporting.atomic import write_whole
from grader.reporting.text import Terminal, json_text
from grader.running.prestart import prestart
from grader.sandbox import prewarm
from grader.unusable import Unusable

if TYPE_CHECKING:
    from grader.labs import Lab
    from grader.model import Device, KernelBundle, Report, Submission
    from grader.pipeline.grading import GradeOptions, Progress


RELOAD_SECONDS = 3
WATCH_SEED = 20
"""Of the inputs while one works, as in a notebook: the same kernel is told the same every time."""


def grade(
    path: Work = None,
    lab: Labs = None,
    device: DeviceOption = "auto",
    seed: Annotated[
        int | None, typer.Option(help="Seed of the correctness inputs (default: a new one each time).")
    ] = None,
    jobs: Jobs = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the report as JSON to this file.")] = None,
    html_file: Html = None,
    junit_file: Annotated[
        Path | None, typer.Option("--junit", help="Write the report as JUnit XML to this file.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Show each case, and what the compiler made of the configs.")
    ] = False,
    profile: Profile = False,
) -> None:
    """Grade one submission. Exit status: 0 graded, 2 invalid arguments, 3 the grader failed."""
    path = work(path)
    if os.path.exists(path):
        errors.print(f"reading {escape(str(path))}", style="dim", soft_wrap=True)
        prewarm()  # the parents of the sandboxes import what they need while this process does
        if device != "cpu":
            prestart()
    stand_in()
    labs = labs_named(lab)
    _check_folders(json_file, html_file, junit_file)
    with _reported_failures():
        submission = _read(path, labs, all_labs=bool(lab))
        from grader.building import BinaryCache, own_folder
        from grader.pipeline.grading import GradeOptions, with_facts
        from grader.reporting.causes import causes
        from grader.reporting.document import document
        from grader.reporting.junit import junit
        from grader.reporting.terminal import show

        begin()  # after the imports, which would wait for torch
        chosen = _device(device)
        if profile and chosen.kind != "cuda":
            raise refuse(
                "--profile needs a GPU, and the kernels are graded on the CPU here; leave it out, or submit with `lab submit --profile`"
            )
        cache = BinaryCache(own_folder())  # what is built first is what the verdict needs: no facts yet
        options = GradeOptions(chosen, seed=seed, jobs=jobs, cache=cache, facts=False, profile=profile)
        built: dict[str, KernelBundle] = {}
        report = _grade(submission, labs, options, built)
        report = replace(report, seconds=None if report.seconds is None else _since_start())
        show(report, Terminal(highlight=False), every=every)
        if json_file or html_file:
            right = [one for one in labs if one.id in report.labs and not causes(report.labs[one.id].tests)]
            asked = labs if json_file else right  # a page has no facts of a kernel that is wrong
            shown, report = report.all_notes, with_facts(report, submission, asked, options, built)
            for note in report.all_notes:
                if note not in shown:
                    Terminal(highlight=False).print(f"[yellow]note:[/] {escape(note)}")
        made: dict[Path, str] = {}
        if json_file:
            made[json_file] = json_text(document(report), indent=2) + "\n"
        if junit_file:
            made[junit_file] = junit(report)
        if html_file:
            from grader.pipeline.page_traffic import counted
            from grader.reporting.page import page

            made[html_file] = page(report, counted(report))
    for file, text in made.items():
        write_whole(file, text)
    if html_file:
        Terminal(highlight=False).print(f"Report with pictures: {escape(str(html_file))}", soft_wrap=True)


def watch(
    path: Work = None,
    lab: Labs = None,
    device: DeviceOption = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the correctness inputs (default: always the same).")] = WATCH_SEED,
    jobs: Jobs = None,
    html_file: Annotated[Path | None, typer.Option("--html", help="Keep this HTML page up to date.")] = None,
) -> None:
    """Grade a lab again each time its kernel is saved, until Ctrl-C. The interpreter's answer comes first."""
    path = work(path)
    errors.print("starting Triton ...", style="dim")
    if os.path.exists(path):
        prewarm()
    from grader.building import BinaryCache, own_folder
    from grader.pipeline.grading import GradeOptions
    from grader.pipeline.watching import Watch
    from grader.reporting.compact import Lines

    labs = labs_named(lab)
    _check_folders(html_file)
    options = GradeOptions(_device(device), seed=seed, jobs=jobs, cache=BinaryCache(own_folder()))

    def publish(report: Report) -> Path | None:
        if html_file:
            from grader.reporting.page import page  # it takes a second, and the first answer comes before

            write_whole(html_file, page(report, reload_seconds=RELOAD_SECONDS))
        return html_file

    try:
        lines = Lines(Terminal(highlight=False), publish, path if path.is_dir() else path.parent)
        Watch(path, labs, options, lines, all_labs=bool(lab)).run()
    except KeyboardInterrupt:
        errors.print("stopped watching")


@contextmanager
def _reported_failures() -> Iterator[None]:
    """Ends the command with a sentence where it is stopped, or where the grader fails and not what was handed in."""
    try:
        yield
    except (typer.Exit, Unusable, ModuleNotFoundError):
        raise
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


def _since_start() -> float:
    """How long this process runs, in seconds: what whoever typed the command has waited."""
    began = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began


def _check_folders(*files: Path | None) -> None:
    for file in files:
        if file and not file.resolve().parent.is_dir():
            raise refuse(f"the folder of {file} does not exist; create it or write the report elsewhere")


def _device(wanted: DeviceChoice) -> Device:
    """The device to grade on, with what has to be said of it."""
    from grader.gpu.devices import choose

    chosen, remark = choose(wanted)
    if remark:
        note(remark)
    if chosen.sandbox == "none":
        errors.print(
            "[yellow]warning:[/] bubblewrap does not work here, so the kernel runs without a sandbox; "
            "grade only what you trust, and see `python -m grader doctor`",
            soft_wrap=True,
        )
    return chosen


def _read(path: Path, labs: list[Lab], *, all_labs: bool) -> Submission:
    """What was handed in; says what of it is graded."""
    from grader.reading import read
    from grader.reading.other_folders import with_work_in_other_folders

    submission = with_work_in_other_folders(read(path, labs, all_labs=all_labs), labs)
    errors.print(f"grading {', '.join(submission.labs)} of {escape(str(path))}", soft_wrap=True)
    return submission


def _grade(submission: Submission, labs: list[Lab], options: GradeOptions, built: dict[str, KernelBundle]) -> Report:
    from grader.pipeline.grading import grade_submission

    columns = (
        SpinnerColumn(),
        TextColumn("{task.fields[lab]:<6}"),
        TextColumn("{task.description}"),
        BarColumn(20, pulse_style="dim"),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=errors, transient=True) as bars:
        tasks = {lab.id: bars.add_task("waiting", lab=lab.id, total=None) for lab in labs}

        def listen(news: Progress) -> None:
            scored = news.stage == "score"
            total, done = (1, 1) if scored else (news.total or None, news.done)
            bars.update(tasks[news.lab_id], description=str(news), total=total, completed=done)

        return grade_submission(submission, labs, options, listen, built)
