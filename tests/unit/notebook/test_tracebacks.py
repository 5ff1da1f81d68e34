"""Errors of kernels that a notebook launches itself: the student's lines, and none of Triton's."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from grader.notebook.tracebacks import install, shortened

TRITON = """
class InterpreterError(Exception):
    pass

def run(kernel):
    try:
        kernel()
    except Exception as error:
        raise InterpreterError(repr(error)) from error

def refuse():
    raise TypeError("no grid")
"""
CELL = """
def kernel():
    return missing_name

def launch():
    run(kernel)

def wrong_launch():
    refuse()

def plain():
    raise ValueError("mine")
"""


@pytest.fixture
def cell() -> dict[str, Any]:
    """What a cell defines, beside a module that stands for Triton's interpreter."""
    triton: dict[str, Any] = {"__name__": "triton.runtime.interpreter"}
    exec(compile(TRITON, "interpreter.py", "exec"), triton)
    names: dict[str, Any] = {"__name__": "__main__", "run": triton["run"], "refuse": triton["refuse"]}
    exec(compile(CELL, "cell", "exec"), names)
    return names


def raised(call: Any) -> tuple[BaseException, Any]:
    """The error of a call, and its frames without those of this file."""
    try:
        call()
    except Exception as error:
        return error, error.__traceback__.tb_next
    raise AssertionError("nothing was raised")


def lines(trace: Any) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(trace)]


def test_a_wrong_launch_is_told_at_its_line(cell):
    told, trace = shortened(*raised(cell["wrong_launch"]))
    assert isinstance(told, TypeError)
    assert lines(trace) == ["wrong_launch"]


def test_other_errors_stay_as_they_are(cell):
    error, trace = raised(cell["plain"])
    assert shortened(error, trace) == (error, trace)


class Shell:
    """What `install` needs of IPython's shell."""

    def __init__(self, handlers: tuple[type, ...] = ()) -> None:
        self.custom_exceptions, self.handler, self.shown = handlers, None, None

    def set_custom_exc(self, kinds: tuple[type, ...], handler: Any) -> None:
        self.custom_exceptions, self.handler = kinds, handler

    def showtraceback(self, given: tuple[Any, ...], tb_offset: int | None = None) -> None:
        self.shown = given


def test_a_shell_shows_the_short_one(cell):
    shell = Shell()
    install(shell)
    error, trace = raised(cell["launch"])
    shell.handler(shell, type(error), error, trace)
    kind, told, shown = shell.shown
    assert kind is NameError
    assert lines(shown) == ["launch", "kernel"]
    assert told.__cause__ is None


def test_a_students_own_handler_stays():
    shell = Shell((KeyError,))
    install(shell)
    assert shell.handler is None

