"""`python -m grader batch` and `secrets`: a class on the command line."""

from __future__ import annotations

import contextlib
import time
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from secrets import randbits, token_hex
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from grader.cli.arguments import INTERRUPTED, cores, errors, labs_named, note, refuse, stopped
from grader.cli.class_summary import say_what_became_of, some, summary
from grader.cli.command_options import Accelerator, Address, ClassDevice, DeviceChoice, EngineChoice, EngineOption, Labs
from grader.late_torch import stand_in
from grader.unusable import Unusable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console

    from grader.classroom.batch.accounts import Accounted
    from grader.classroom.batch.coordinating import BatchProgress
    from grader.classroom.batch.engine import Starter
    from grader.classroom.batch.exports import Titles
    from grader.classroom.batch.journal import Journal
    from grader.classroom.batch.marks import Part
    from grader.classroom.batch.pages import Pages
    from grader.classroom.batch.standing import Graded, Standing
    from grader.classroom.batch.tasks import Setup
    from grader.classroom.batch.workers import WorkerPool
    from grader.classroom.hidden_cases import Secrets
    from grader.classroom.server.store import Store
    from grader.labs import Lab
    from grader.model import Device


DEADLINES = [
    f"%Y-%m-%d{between}{time}" for between in (" ", "T") for time in ("%H:%M", "%H:%M:%S", "%H:%M%z", "%H:%M:%S%z")
]
"""How a deadline is written: with a time, since a date alone would be its first second to us and its last to a class."""
TIMES = [*DEADLINES, "%Y-%m-%d"]

LOG_SECONDS = 30.0
"""Between two lines of progress in a log file."""


def batch(
    path: Annotated[
        Path | None, typer.Argument(help="nbgrader's submitted/, a folder of folders, or a bulk download (zip).")
    ] = None,
    server: Annotated[
        Path | None, typer.Option(help="In place of PATH: the submissions in a course server's database.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for the class report.")] = Path("report"),
    journal_file: Annotated[
        Path | None, typer.Option("--journal", help="Where verdicts are kept (default: OUT/journal.sqlite).")
    ] = None,
    secrets_file: Annotated[
        Path | None,
        typer.Option(
            "--secrets",
            help="Seed and hidden cases (default: the repository's secrets.toml if it exists, else a random seed).",
        ),
    ] = None,
    roster_file: Annotated[
        Path | None, typer.Option("--roster", help="Who is in the class, extensions and corrections (CSV).")
    ] = None,
    lab: Labs = None,
    device: ClassDevice = "auto",
    jobs: Annotated[int | None, typer.Option(min=1, help="Worker processes (default: one per core).")] = None,
    assignment: Annotated[str | None, typer.Option(help="Only this nbgrader assignment.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this student; can be repeated.")] = None,
    since: Annotated[datetime | None, typer.Option(formats=TIMES, help="Only work submitted since then (UTC).")] = None,
    regrade: Annotated[bool, typer.Option("--regrade", help="Ignore the journal and grade everything again.")] = False,
    attempts: Annotated[
        Literal["last", "best"], typer.Option(help="Which of a student's submissions counts.")
    ] = "last",
    due: Annotated[
        datetime | None, typer.Option(formats=DEADLINES, help="Deadline (UTC), such as '2026-11-20 23:59'.")
    ] = None,
    late_percent: Annotated[
        float, typer.Option(min=0, max=100, help="Percent of the points that each day late costs.")
    ] = 0.0,
    free_days: Annotated[int, typer.Option(min=0, help="Days late that cost nothing.")] = 0,
    column: Annotated[
        list[str] | None,
        typer.Option(
            help='Title of the column in canvas.csv and moodle.csv, such as "Lab 1 (12345)"; also questions=TITLE, bonus=TITLE.'
        ),
    ] = None,
    out_of: Annotated[
        Literal["all", "gradable"],
        typer.Option(help="What marks are out of: all points, or those that can be earned on this machine."),
    ] = "all",
    gradebook: Annotated[
        str | None, typer.Option(help="Also write the scores to this nbgrader database, such as gradebook.db.")
    ] = None,
    engine: EngineOption = "local",
    address: Address = None,
    accelerator: Accelerator = None,
) -> None:
    """Grade a whole class. Exit status: 0 graded, 2 invalid arguments, 3 the grader failed, 130 stopped by Ctrl-C.

    Every verdict is saved at once: after an interruption, rerun the same command to resume.

    \f
    Not split: a line for each thing that a batch can be given or end with.
    """
    started = time.monotonic()
    require_packages()
    stand_in()  # a class whose verdicts are known needs no torch
    from grader.classroom.batch.class_folder import class_in
    from grader.classroom.batch.coordinating import Plan, run_batch, tiers_of
    from grader.classroom.batch.engine import EngineFailed
    from grader.classroom.batch.journal import Journal, JournalFull
    from grader.classroom.batch.marks import Rules
    from grader.classroom.batch.pages import Pages
    from grader.classroom.batch.standing import standing, standings, times_of_files, unknown_times
    from grader.classroom.batch.tasks import Setup
    from grader.classroom.batch.term_attempts import hand_ins
    from grader.classroom.batch.workers import WorkerPool, WorkFailed
    from grader.classroom.roster import Roster, load_roster
    from grader.judging.rubric import check_names, load_rubric
    from grader.labs import all_labs

    labs = labs_named(lab)
    if (path is None) == (server is None):
        raise refuse("expected either the submissions or --server with a course's database; give one of them")
    chosen = class_device(device, engine, address, accelerator)
    if path and path.is_dir() and class_in(path).resolve() in (out.resolve(), *out.resolve().parents):
        raise refuse(f"the report would be written to {out}, among the submissions; give another folder with --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refuse(f"{out} cannot be created ({error.strerror}); choose another folder with --out") from None
    titles = _titles(column or ())
    try:
        rubric, tiers = load_rubric(), tiers_of(chosen)
        store = _course_store(server) if server else None
        due = due or (store.due if store else None)
        rules = Rules(attempts, utc(due), late_percent, free_days, out_of)
        roster = load_roster(roster_file) if roster_file else Roster()
        with (
            WorkerPool(worker_count(engine, chosen, jobs)) as pool,
            Journal(journal_file or out / "journal.sqlite") as journal,
        ):
            for remark in journal.notes:
                note(remark)
            if server:
                journal.take_from(server)
            setup = Setup(chosen, class_secrets(secrets_file, labs, journal))
            cases = {one.id: [case.name for case in setup.secrets.lab(one).all_cases] for one in all_labs().values()}
            check_names(rubric, tiers, cases)
            lab_ids, what = tuple(lab.id for lab in labs), frozenset(only or ())
            collected = hand_ins(store, journal, rules, roster, chosen) if store else None
            plan = Plan(path or server or out, lab_ids, setup, assignment, what, utc(since), regrade, roster, collected)
            with _shown_progress(errors, on_gpu=chosen.kind == "cuda") as listen:
                pages = Pages(pool, out, journal.setting("pseudonyms", token_hex(16)), journal)
                start_engine = engine_starter(engine, accelerator, setup, pool)

                def known(attempts: Sequence[Graded]) -> None:
                    pages.draw(standing(attempts, rules, roster))

                outcome = run_batch(plan, journal, pool, start_engine, listen, known)
            found = standings(outcome.graded, rules, roster)
            files = outcome.accounts(found)
            drawn = _publish(out, found, pages, titles, files)
    except (JournalFull, EngineFailed, WorkFailed) as problem:
        raise stopped(str(problem)) from None
    except OSError as problem:
        advice = "every verdict so far is kept: free some space and rerun the same command to resume"
        raise stopped(f"{problem}; {advice}") from None
    except KeyboardInterrupt:
        errors.print("stopped; every verdict so far is kept: rerun the same command to resume")
        raise typer.Exit(INTERRUPTED) from None
    summary(found, frozenset(only or ()), out, drawn, time.monotonic() - started)
    say_what_became_of(files, out)
    for sentence in (unknown_times(found, rules), times_of_files(found)):
        if sentence:
            note(sentence)
    if gradebook:
        _write_gradebook(gradebook, found, assignment)


def secrets() -> None:
    """Write the repository's secrets.toml: a seed, and hidden cases for every lab. Keep it away from students."""
    from grader.classroom.secrets_file import secrets_in_force, write_secrets
    from grader.labs import all_labs

    labs = list(all_labs().values())
    try:
        path = write_secrets(labs)
    except OSError as problem:
        raise refuse(
            f"{problem.filename} cannot be written ({problem.strerror}); set GRADER_SECRETS to another path"
        ) from None
    typer.echo(f"wrote {path}; a batch, the nbgrader course and Gradescope use it")
    typer.echo(secrets_in_force().sentence(labs))


# ---------------------------------------------------------------- arguments


def _course_store(path: Path) -> Store:
    """A course server's database, which may be in use."""
    from grader.classroom.server.store import Store

    if not path.is_file():
        raise refuse(f"{path} does not exist; give the database of `python -m grader serve`")
    return Store(path)


def require_packages() -> None:
    missing = [name for name in ("torch", "triton", "cattrs", "copydetect", "yaml") if find_spec(name) is None]
    if missing:
        raise refuse(f"{missing[0]} is not installed; run `make grade-batch`, or `pip install -e .[batch]`")


def class_device(wanted: DeviceChoice, engine: EngineChoice, address: str | None, accelerator: str | None) -> Device:
    """The device record of the batch. Without a sandbox there is no grading of others' work."""
    from grader.gpu.devices import choose

    if engine != "ray" and (address or accelerator):
        raise refuse("--address and --accelerator belong to --engine ray; add that, or leave them out")
    if engine == "ray":
        from grader.classroom.batch.ray_engine import connect

        return connect(address, wanted)
    chosen, remark = choose(wanted)
    if chosen.sandbox == "none":
        raise refuse(
            "bubblewrap does not work here, and other people's work is graded only in a sandbox; see `python -m grader doctor`"
        )
    if remark:
        note(remark)
    return chosen


def class_secrets(named: Path | None, labs: Sequence[Lab], journal: Journal) -> Secrets:
    """The secrets in force, which it says; else a seed that the journal keeps, so that an interrupted run goes on with the same."""
    from grader.classroom.hidden_cases import Secrets
    from grader.classroom.secrets_file import secrets_in_force

    found = secrets_in_force(named, near=Path.cwd())
    errors.print(escape(found.sentence(labs)), soft_wrap=True)
    return found.secrets or Secrets(int(journal.setting("seed", str(randbits(48)))))


def utc(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment


def worker_count(choice: EngineChoice, device: Device, jobs: int | None) -> int:
    """How many processes work beside the GPUs': a GPU's process must not wait for a core while it times."""
    from grader.gpu.devices import visible_gpus

    count = jobs or cores()
    return max(1, count - visible_gpus()) if choice == "local" and device.kind == "cuda" else count


def engine_starter(choice: EngineChoice, accelerator: str | None, setup: Setup, pool: WorkerPool) -> Starter:
    """What starts the engine, called when the hand-ins are known."""
    from grader.classroom.batch.local import LocalEngine
    from grader.gpu.devices import visible_gpus

    if choice == "ray":
        from grader.classroom.batch.ray_engine import RayEngine

        return lambda: RayEngine(setup, accelerator=accelerator)
    return lambda: LocalEngine(setup, pool, gpu_count=visible_gpus() if setup.device.kind == "cuda" else 0)


# ---------------------------------------------------------------- what is shown and written


@contextlib.contextmanager
def _shown_progress(console: Console, *, on_gpu: bool) -> Iterator[Callable[[BatchProgress], None]]:
    """Shows what it is called with: on a terminal in one line that changes, in a log file as a line every LOG_SECONDS."""
    began = reported = time.monotonic()

    with (
        Live(console=console, refresh_per_second=4, transient=True)
        if console.is_terminal
        else contextlib.nullcontext() as live
    ):

        def listen(progress: BatchProgress) -> None:
            nonlocal reported
            now = time.monotonic()
            if live:
                live.update(_progress(progress, now - began, on_gpu))
            elif now - reported >= LOG_SECONDS:
                reported = now
                console.print(_progress(progress, now - began, on_gpu), soft_wrap=True)

        yield listen


def _progress(progress: BatchProgress, seconds: float, on_gpu: bool) -> Text:
    """One line: stages and what is left of the time."""
    new, done = progress.kernels - progress.known, progress.graded + progress.failed - progress.known
    parts = [
        f"read {progress.read} of {some(progress.hand_ins, 'hand-in')}",
        some(progress.kernels, "different kernel"),
    ]
    if progress.known:
        parts.append(f"{progress.known} known from the journal")
    if on_gpu:
        parts += [f"built {progress.built}", f"ran {progress.ran}"]
    parts.append(f"graded {done} of {new}")
    if progress.failed:
        parts.append(f"{progress.failed} for a human")
    if 2 <= done < new:
        parts.append(f"{timedelta(seconds=round(seconds / done * (new - done)))} left")
    return Text(f"{timedelta(seconds=round(seconds))}  " + ", ".join(parts))


def _publish(out: Path, found: Sequence[Standing], pages: Pages, titles: Titles, files: Sequence[Accounted]) -> int:
    """Writes the class's files and says how many pages of feedback were drawn."""
    from grader.classroom.batch.exports import write_exports
    from grader.classroom.batch.pages import write_replies

    try:
        write_exports(out, found, titles, files)
        drawn = pages.write(found, files)
        for archive, count in write_replies(out, found).items():
            errors.print(f"{escape(str(out / archive))}: {some(count, 'page')} of feedback to upload", soft_wrap=True)
        return drawn
    except OSError as error:
        advice = "the verdicts are safe: free some space and rerun the same command"
        raise stopped(f"the report could not be written to {out} ({error.strerror}); {advice}") from None


def _write_gradebook(database: str, found: Sequence[Standing], assignment: str | None) -> None:
    """The same points that nbgrader's own autograde gives; lateness is nbgrader's business."""
    from grader.classroom.gradebook.scores import write_scores

    handed_in = [standing for standing in found if not standing.absent]
    for standing in handed_in:
        name = standing.assignment or assignment
        if not name:
            raise refuse(
                f"{standing.graded.hand_in.place} does not say which assignment it is for; name it with --assignment"
            )
        try:
            write_scores(
                database,
                name,
                standing.student,
                standing.graded.report,
                answers=standing.answers,
                submitted=standing.graded.hand_in.submitted,
            )
        except Unusable as problem:
            raise refuse(f"{problem}; the verdicts and the report are safe") from None
    errors.print(f"wrote the scores of {len(handed_in)} hand-ins into {escape(database)}", soft_wrap=True)


def _titles(columns: Sequence[str]) -> Titles:
    """What the instructor calls the gradebook's columns: TITLE, or PART=TITLE."""
    from grader.classroom.batch.exports import PARTS, Column, Titles

    found: dict[Part, str] = {}
    for text in columns:
        before, equals, after = (word.strip() for word in text.partition("="))
        named = equals and before.isidentifier()
        part = next((one for one in PARTS if one == (before if named else "kernels")), None)
        title = after if named else text.strip()
        if part is None or part in found or not title:
            known = ", ".join(f"{one}=TITLE" for one in PARTS)
            raise refuse(
                f"--column {text!r} is no title; expected TITLE, or one of {known}, each part once and no title empty"
            )
        found[part] = title
    titles = Titles(found)
    if len({titles.of(Column("", part)) for part in PARTS}) < len(PARTS):
        raise refuse("--column gives two columns one title; give each of them its own")
    return titles
