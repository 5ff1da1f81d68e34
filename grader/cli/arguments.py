"""What the commands share: exit statuses, and how bad arguments are refused."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from grader.reporting.text import Terminal
from grader.unusable import Unusable

if TYPE_CHECKING:
    from grader.labs import Lab
    from grader.model import Device

UNUSABLE_ARGUMENTS = 2
GRADER_FAILED = 3
INTERRUPTED = 130

errors = Terminal(stderr=True, highlight=False)


def note(sentence: str) -> None:
    """Says what has to be known of what is done all the same."""
    errors.print(f"[yellow]note:[/] {escape(sentence)}", soft_wrap=True)


def stopped(sentence: str) -> typer.Exit:
    """Says why the grader cannot go on; raise what it returns."""
    errors.print(f"[red]stopped:[/] {escape(sentence)}", soft_wrap=True)
    return typer.Exit(GRADER_FAILED)


def refuse(sentence: str) -> typer.Exit:
    """Says why the arguments cannot be used; raise what it returns."""
    errors.print(f"[red]error:[/] {escape(sentence)}", soft_wrap=True)
    return typer.Exit(UNUSABLE_ARGUMENTS)


class Commands(TyperGroup):
    """Commands that end with one sentence: with status 2 where what they were given, or this Python, cannot be used, 130 for Ctrl-C."""

    def invoke(self, ctx: Any) -> Any:
        if callable(signal.getsignal(signal.SIGINT)):  # until here it is that of grader/__main__.py
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return super().invoke(ctx)
        except Unusable as problem:
            raise refuse(str(problem)) from None
        except ModuleNotFoundError as missing:
            package = (missing.name or "grader").partition(".")[0]
            if package == "grader":
                raise
            raise refuse(
                f"{package} is not installed for {sys.executable}; run `make grade`, which sets up what is needed, or `pip install -e .`"
            ) from None
        except KeyboardInterrupt:
            errors.print("stopped")
            raise typer.Exit(INTERRUPTED) from None


def application(help_text: str) -> typer.Typer:
    """A program of such commands."""
    return typer.Typer(
        cls=Commands, help=help_text, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
    )


def labs_named(wanted: list[str] | None) -> list[Lab]:
    """The labs asked for, or all."""
    from grader.labs import all_labs

    known = all_labs()
    unknown = [name for name in wanted or [] if name not in known]
    if unknown:
        raise refuse(f"there is no lab {unknown[0]!r}; the labs are {', '.join(known)}")
    return [known[name] for name in known if not wanted or name in wanted]


def graphics_card(purpose: str) -> Device:
    """The device record of this machine's GPU; refuses with the reason where there is none."""
    from grader.gpu.devices import choose

    try:
        return choose("cuda")[0]
    except Unusable as problem:
        raise refuse(f"{purpose} needs a GPU: {problem}") from None


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))
