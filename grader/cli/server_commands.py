"""`python -m grader serve` and `tokens`: the course server and who may use it."""

from __future__ import annotations

import csv
import io
import os
import sys
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from grader.cli.arguments import cores, errors, labs_named, note, refuse, stopped
from grader.cli.class_commands import (
    DEADLINES,
    class_device,
    class_secrets,
    engine_starter,
    require_packages,
    utc,
    worker_count,
)
from grader.cli.command_options import Accelerator, Address, ClassDevice, EngineOption, Labs
from grader.client import LOOPBACK

DEFAULT = Path("course.sqlite")
MOST_JOBS = 8
MOST_CONNECTIONS = 2000

Database = Annotated[Path, typer.Argument(help="The course's database; created if missing.")]


def serve(
    database: Database = DEFAULT,
    host: Annotated[
        str, typer.Option(help="Address to listen on; other machines connect through a proxy with TLS.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8400,
    lab: Labs = None,
    device: ClassDevice = "auto",
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Sandboxes of one kernel at a time (default: a quarter of the cores).")
    ] = None,
    due: Annotated[datetime | None, typer.Option(formats=DEADLINES, help="Deadline (UTC): the board freezes.")] = None,
    per_hour: Annotated[int, typer.Option(min=1, help="Submissions that a student may make per hour.")] = 30,
    secrets_file: Annotated[
        Path | None, typer.Option("--secrets", help="Seed and hidden cases, as in a batch.")
    ] = None,
    engine: EngineOption = "local",
    address: Address = None,
    accelerator: Accelerator = None,
) -> None:
    """Serve a course: submissions, a fair queue, reports, a board. Exit status: 2 invalid arguments, 3 the server failed."""
    require_packages()
    missing = [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]
    if missing:
        raise refuse(f"{missing[0]} is not installed; run `pip install triton-kernel-lab[server]`")
    import uvicorn

    from grader.classroom.batch.journal import Journal, JournalFull
    from grader.classroom.batch.tasks import Setup
    from grader.classroom.batch.workers import FIRST, WorkerPool
    from grader.classroom.server.api import application
    from grader.classroom.server.dispatching import Dispatcher
    from grader.classroom.server.service import Service
    from grader.classroom.server.store import DUE, Store
    from grader.classroom.server.throttling import TimedProtocol
    from grader.gpu.devices import gpus, visible_gpus
    from grader.judging.rubric import load_rubric

    labs = labs_named(lab)
    chosen = class_device(device, engine, address, accelerator)
    each = jobs or max(1, min(MOST_JOBS, cores() // 4))
    count = visible_gpus() if chosen.kind == "cuda" else 0
    try:
        load_rubric()
        store = Store(database)
        if due is not None:
            store.set(DUE, utc(due).isoformat())  # type: ignore[union-attr]
        if not any(fine for _, fine in store.members()):
            note(f"nobody has a token yet; run `python -m grader tokens {database} --roster FILE`")
        with WorkerPool(worker_count(engine, chosen, None)) as pool, Journal(database) as journal:
            pool.submit(FIRST, os.getpid)  # from the main thread, which has to begin what workers are forked from
            setup = Setup(chosen, class_secrets(secrets_file, labs, journal), jobs=each)
            names = tuple(gpu.name for gpu in gpus())[:count]
            starter = engine_starter(engine, accelerator, setup, pool)
            slots = max(2, cores() // each) + 2 * count
            dispatcher = Dispatcher(store, journal, pool, starter, setup, slots)
            service = Service(dispatcher, tuple(one.id for one in labs), per_hour=per_hour, gpus=names)
            dispatcher.start()
            errors.print(
                f"serving {escape(str(database))} on http://{host}:{port}; Ctrl-C stops it and loses nothing",
                soft_wrap=True,
            )
            if host not in LOOPBACK:
                note("tokens travel unencrypted unless a proxy with TLS is in front; see docs/server.md")
            uvicorn.run(
                application(service),
                host=host,
                port=port,
                http=TimedProtocol,
                ws="none",
                lifespan="off",
                access_log=False,
                log_level="warning",
                server_header=False,
                limit_concurrency=MOST_CONNECTIONS,
                timeout_keep_alive=10,
                timeout_graceful_shutdown=3,
                proxy_headers=True,
                forwarded_allow_ips="127.0.0.1",
            )
            dispatcher.stop()
    except JournalFull as problem:
        raise stopped(str(problem)) from None


def tokens(
    database: Database = DEFAULT,
    roster: Annotated[
        Path | None, typer.Option(help="Makes a token for everybody on it who has none (CSV, as in a batch).")
    ] = None,
    instructor: Annotated[
        list[str] | None, typer.Option(help="Makes an instructor's token for this login; can be repeated.")
    ] = None,
    renew: Annotated[
        list[str] | None, typer.Option(help="Replaces this login's token with a new one; can be repeated.")
    ] = None,
    revoke: Annotated[list[str] | None, typer.Option(help="Revokes this login's token; can be repeated.")] = None,
    days: Annotated[float, typer.Option(min=0.01, max=1000, help="Days that new tokens are valid.")] = 200.0,
    out: Annotated[Path | None, typer.Option("--out", help="File for new tokens (CSV; default: the terminal).")] = None,
) -> None:
    """Make and revoke tokens of a course; without an option, list who has one. The file with new tokens is the only copy.

    \f
    Not split: five independent options, a line or two each.
    """
    from grader.classroom.roster import Person, load_roster
    from grader.classroom.server.store import Store
    from grader.reporting.atomic import write_whole
    from grader.reporting.text import cell, name

    people = list(load_roster(roster).people) if roster else []
    store = Store(database)
    for login in revoke or ():
        if not store.revoke(login):
            raise refuse(f"{database} has no member {login!r}; `python -m grader tokens {database}` lists them")
    known = {member.login: member for member, _ in store.members()}
    for login in renew or ():
        if login not in known:
            raise refuse(f"{database} has no member {login!r}; give --roster or --instructor first")
    made = store.admit(people, "student", days)
    made |= store.admit([Person(login) for login in instructor or ()], "instructor", days)
    for member in (known[login] for login in renew or ()):
        made |= store.admit([Person(member.login, member.name)], member.role, days, renew=True)
    if not (people or instructor or renew or revoke):
        for member, fine in store.members():
            until = f"until {datetime.fromtimestamp(member.expires_at):%Y-%m-%d}" if fine else "no token in force"
            typer.echo(f"{name(member.login)}  {member.role}  {until}")
        return
    emails = {person.login: person.email for person in people}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["login", "email", "token"])
    writer.writerows([cell(login), cell(emails.get(login, "")), token] for login, token in made.items())
    if out and made:
        write_whole(out, text.getvalue(), 0o600)
    elif made:
        sys.stdout.write(text.getvalue())
    typer.echo(
        f"{len(made)} new token{'' if len(made) == 1 else 's'}{f' in {out}' if out and made else ''}, {len(revoke or ())} revoked",
        err=True,
    )
