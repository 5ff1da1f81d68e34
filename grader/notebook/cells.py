"""The running notebook: what its cells hold, and how an answer is shown below one. Elsewhere an answer is plain lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from grader.gpu.devices import choose
from grader.labs import Lab, all_labs
from grader.model import Device, KernelSource, Refusal
from grader.notebook.language import translated
from grader.reading import read_executed
from grader.reporting.compact import Remark
from grader.reporting.inline import Inline

if TYPE_CHECKING:
    from grader.pipeline.grading import Progress
    from grader.reporting.pictures import Picture

OUTSIDE_NOTEBOOK = "check works in a notebook; in a terminal, `python -m grader grade FILE` gives the same answer."


class NotYet(Exception):
    """What a cell asks for is not there yet, or not right. A notebook shows the sentence and no stack trace."""

    def _render_traceback_(self) -> list[str]:
        return [translated(str(self))]


def inputs(outside: str = OUTSIDE_NOTEBOOK) -> Sequence[str]:
    """Every cell that was run, by its number. Raises NotYet with this sentence where no notebook runs."""
    shell = running_shell()
    if shell is None:
        raise NotYet(outside)
    found: Sequence[str] = shell.history_manager.input_hist_raw
    return found


def executed_kernel(lab: Lab, outside: str = OUTSIDE_NOTEBOOK) -> KernelSource:
    """The lab's kernel as the cells were run. Raises NotYet where there is none."""
    source = read_executed(inputs(outside), lab)
    if isinstance(source, Refusal):
        raise NotYet(sentence(source.message))
    return source


def running_shell() -> Any:
    """The running IPython, if there is one."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def display(remarks: Sequence[Remark], pictures: Sequence[Picture] = ()) -> None:
    """Shows an answer: in a notebook below the cell, elsewhere as plain lines."""
    answer = in_language(Inline(remarks, pictures))
    if running_shell() is None:
        print(answer)
    else:
        _front_end_display()(answer)


def in_language(answer: Inline) -> Inline:
    """The answer in the notebook's language; of pictures what stands for those who cannot see them."""
    remarks = [replace(one, text=translated(one.text), folded=translated(one.folded)) for one in answer.remarks]
    return replace(answer, remarks=remarks, pictures=[replace(one, alt=translated(one.alt)) for one in answer.pictures])


def _front_end_display() -> Any:
    from IPython.display import display

    return display


def lab_named(lab_id: str) -> Lab:
    """The lab that a cell names. Raises NotYet for one that there is not."""
    labs = all_labs()
    if lab_id not in labs:
        raise NotYet(f"there is no lab {lab_id!r}; the labs are {', '.join(labs)}")
    return labs[lab_id]


def sentence(text: str) -> str:
    """The text with its full stop."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


@cache
def chosen_device() -> tuple[Device, str | None]:
    """The device that kernels are graded on, and what is to be said of the choice."""
    return choose("auto")


@cache
def _notes_once() -> list[Remark]:
    chosen, note = chosen_device()
    said = [Remark(note, "dim")] if note else []
    if chosen.sandbox == "none":
        said.append(Remark("bubblewrap does not work here, so your kernel runs without a sandbox.", "dim"))
    return said


def notes() -> list[Remark]:
    """What has to be said of this machine, the first time somebody is told anything."""
    said = list(_notes_once())
    _notes_once().clear()
    return said


def grading_by_nbgrader() -> bool:
    """Whether nbgrader runs the notebook to grade it: then a cell's value is its points."""
    return os.environ.get("NBGRADER_EXECUTION") == "autograde"


class Output:
    """The cell's answer; while it is being found, a line that says how far grading is."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._last = ""

    def progress(self, news: Progress) -> None:
        """A grading listener."""
        text = str(news)
        if text != self._last:
            self._last = text
            self.show(Inline([Remark(f"{text} ...", "dim")]))

    def show(self, answer: Inline) -> None:
        """Puts the answer in place of what is there."""
        answer = in_language(answer)
        if self._handle is None:
            self._handle = _front_end_display()(answer, display_id=True)
        else:
            self._handle.update(answer)

    def clear(self) -> None:
        """Leaves an empty line where progress was shown."""
        if self._handle is not None:
            self.show(Inline([]))
