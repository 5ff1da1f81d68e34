"""A traceback as long as the student's own lines: of an error in Triton, only the cells' frames are shown.

A kernel that a notebook launches itself fails somewhere inside Triton's interpreter or compiler, and forty to ninety lines of
their source say nothing about it. Errors that did not come through Triton are shown as ever.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

PACKAGE = "triton"


def install(shell: Any) -> None:
    """Shows errors of this IPython shell so; not when it already has a handler of the student's own."""
    if not shell.custom_exceptions:
        shell.set_custom_exc((Exception,), _show)


def _show(
    shell: Any,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
    tb_offset: int | None = None,
) -> None:
    short, frames = shortened(error, trace)
    if short is error and frames is trace:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
    else:
        short.__cause__, short.__suppress_context__ = None, True
        shell.showtraceback((type(short), short, frames), tb_offset=0)


def shortened(error: BaseException, trace: TracebackType | None) -> tuple[BaseException, TracebackType | None]:
    """The error to show and its frames; what was given, when Triton has no part in it or no cell has.

    The interpreter raises an error of its own from the one that a kernel's line met: that one is told, below the launch.
    """
    cause = error.__cause__ if type(error).__name__ == "InterpreterError" else None
    found = [*_frames(trace), *(_frames(cause.__traceback__) if cause is not None else ())]
    names = [one.tb_frame.f_globals.get("__name__", "") for one in found]
    # IPython gives a cell's functions the name of its module
    own = [one for one, name in zip(found, names, strict=True) if name == "__main__"]
    if not own or not any(name.split(".")[0] == PACKAGE for name in names):
        return error, trace
    chain: TracebackType | None = None
    for one in reversed(own):
        chain = TracebackType(chain, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return cause or error, chain


def _frames(trace: TracebackType | None) -> list[TracebackType]:
    frames = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    return frames
