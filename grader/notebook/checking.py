"""In a notebook: check(NOTEBOOK, step=STEP), check(LAB), check(LAB, speed=STEP) and check_speed(LAB) answer in the cell.

The code is what the notebook has run so far, read and graded by the same road as `make grade`. Importing this module
decides how Triton runs the notebook's own experiments: without a GPU, on the interpreter.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from grader.building import KeptBinaries, own_folder
from grader.exercises import exercises, steps_of
from grader.gpu.devices import choose
from grader.labs import Lab, all_labs, speed_steps_of
from grader.labs.speed_step import SpeedStep, shown
from grader.model import Refusal, Report, Submission, TestResult
from grader.notebook.harness import check_executed
from grader.notebook.speed_path import Guess, SpeedAnswer, SpeedPath
from grader.pipeline.grading import GradeOptions, grade_submission
from grader.pipeline.progress import Progress
from grader.reading import read_executed
from grader.reporting import drawings
from grader.reporting.compact import Remark, build_remarks, explanations, failures, verdict
from grader.reporting.inline import Inline
from grader.reporting.terminal import MARKS, number
from grader.running.interpreter import InterpretOptions
from grader.sandbox import prewarm

__all__ = ["NotYet", "check", "check_speed", "device", "predict"]


def usable_gpu() -> bool:
    """Whether the labs' kernels compile for the GPU here: int8 products need compute capability 8.0."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)


device = torch.device("cuda" if usable_gpu() else "cpu")
"""Where the notebook's own tensors go; not to a GPU that is too old for the labs."""
if device.type == "cpu" and "triton" not in sys.modules:
    os.environ["TRITON_INTERPRET"] = "1"
if "ipykernel" in sys.modules:  # while the first cells are read, so that the first check does not wait
    prewarm()

STEP_SECONDS = 20.0


class NotYet(Exception):
    """What a cell asks for is not there yet, or not right. A notebook shows the sentence and no stack trace."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def check(notebook: str, *, step: str | None = None, speed: str | None = None) -> float | None:
    """Checks a step of a notebook, or a step towards speed, or grades a lab's kernel. Raises NotYet for what is left to do.

    A step towards speed is worth no points: a kernel that is right and slow is told what to try, and nothing is raised.
    Returns None, except while nbgrader grades: then the points for correctness, so that part of the work counts.
    """
    if step is not None:
        _check_step(notebook, step)
        return None
    if speed is not None:
        if not _grading_by_nbgrader():
            _check_speed_step(_lab(notebook), speed)
        return None
    lab = _lab(notebook)
    output = _Output()
    report = _graded(lab, output)
    graded = report.labs[lab.id]
    points, most = graded.correctness_points, graded.correctness_max
    maps = [_error_map(errors) for errors in graded.error_maps[:2]]
    remarks = [verdict(graded), *failures(graded), *explanations(graded), *build_remarks(graded), *_notes()]
    output.show(Inline(remarks, maps))
    if _grading_by_nbgrader():
        return points
    failed = next((test.name for test in graded.tests if test.kind == "correctness" and test.status == "failed"), None)
    if failed is not None:
        raise NotYet(
            f"{number(points)} of {number(most)} points so far. Make `{failed}` pass first: fix the kernel, "
            "run its cell, then run this one again."
        )
    return None


def check_speed(lab_id: str) -> float | None:
    """Shows how fast the kernel is and what that is worth; on a machine without a GPU, that it is timed elsewhere.

    Raises NotYet when there is no kernel to time. Returns None, except while nbgrader grades: then the points.
    """
    lab = _lab(lab_id)
    output = _Output()
    report = _graded(lab, output)
    graded = report.labs[lab.id]
    timed = [test for test in graded.tests if test.kind == "speed"]
    if graded.speed_status == "skipped":
        text = f"{number(graded.speed_max)} points for speed are given on a GPU; this machine has none that can grade."
        remarks = [Remark(text, "yellow")]
    else:
        head = f"speed {number(graded.speed_points)}/{number(graded.speed_max)} points on {report.device.name}"
        remarks = [Remark(head, "green" if graded.speed_points else "red")]
        remarks += [
            Remark(f"{MARKS[test.status][0]} {test.name}: {test.message}", MARKS[test.status][1]) for test in timed
        ]
    found = (drawings.tiers(graded), drawings.roofline(report, graded))
    output.show(Inline([*remarks, *_notes()], [picture for picture in found if picture is not None]))
    return graded.speed_points if _grading_by_nbgrader() else None


def predict(lab_id: str, speed: str, number: object) -> None:
    """Notes what you expect of a step towards speed, before `check(lab_id, speed=...)` shows it.

    Raises NotYet for a step that there is not, and for what is no number.
    """
    step = _speed_step(_lab(lab_id), speed)
    if number is ...:
        raise NotYet(f"{step.question} Put your number in place of the dots.")
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise NotYet(f"a prediction is one number, such as 64; this is {str(number)[:40]!r}. {step.question}")
    before = _guesses.get((lab_id, speed))
    if before is not None and before.first is not None:
        kept = f"You have seen the answer, so your first prediction, {shown(before.value)}, stays."
        _display(Inline([Remark(kept, "dim")] if before.value != number else [Remark(f"Noted: {shown(number)}.", "dim")]))
        return
    _guesses[lab_id, speed] = Guess(number)
    _display(Inline([Remark(f"Noted: {shown(number)}.", "dim")]))


_guesses: dict[tuple[str, str], Guess] = {}
"""What was predicted of each lab's steps towards speed."""

_paths: dict[str, SpeedPath] = {}
"""What is known already of each lab's kernel on the way to speed; its source says whether it still holds."""

_first_ratios: dict[tuple[str, str], float] = {}
"""How fast the clock found the kernel when a step was first looked at."""


def _speed_step(lab: Lab, name: str) -> SpeedStep:
    steps = speed_steps_of(lab.id)
    if name not in steps:
        known = f"its steps are {', '.join(steps)}" if steps else "it has none"
        raise NotYet(f"{lab.id} has no step towards speed called {name!r}; {known}")
    return steps[name]


def _check_speed_step(lab: Lab, name: str) -> None:
    step = _speed_step(lab, name)
    guess = _guesses.get((lab.id, name))
    if guess is None:
        raise NotYet(f'Predict first, with predict("{lab.id}", "{name}", your number): {step.question}')
    source = read_executed(_inputs(), lab)
    if isinstance(source, Refusal):
        raise NotYet(_sentence(source.message))
    report = _reports.get(lab.id)
    graded = report.labs[lab.id] if report is not None and report.labs[lab.id].source == source else None
    if graded is not None and graded.correctness_points < graded.correctness_max:
        raise NotYet(f'Right comes before fast: make check("{lab.id}") pass first.')
    if lab.id not in _paths or _paths[lab.id].source != source:
        _paths[lab.id] = SpeedPath(lab, source, len(os.sched_getaffinity(0)))
    _paths[lab.id].right = graded is not None
    output = _Output()
    output.show(Inline([Remark(f"looking at {name} ...", "dim")]))
    try:
        answer = _paths[lab.id].look(step)
    except BaseException:
        output.clear()
        raise
    if isinstance(answer, Refusal):
        output.clear()
        raise NotYet(_sentence(answer.message))
    clock = [] if graded is None else _clock(lab, step, next((t for t in graded.tests if t.name == step.case), None))
    output.show(Inline([*_speed_remarks(step, answer, guess), *clock, *_notes()]))
    if answer.wrong:
        raise NotYet(f'Right comes before fast: {answer.wrong}. check("{lab.id}") says more.')


def _speed_remarks(step: SpeedStep, answer: SpeedAnswer, guess: Guess) -> list[Remark]:
    mark, colour = MARKS["passed" if answer.ok else "failed"]
    head = f"{mark} {step.name}: {step.right}" if answer.ok else f"{mark} {step.name}: not yet"
    remarks = [Remark(f"{head} [{answer.config}]", colour)]
    if answer.found is not None:
        remarks.append(Remark(f"{step.question} {guess.compared(answer.found, answered=answer.ok or step.about_now)}", "cyan"))
    for told in answer.told:
        mark, colour = MARKS["passed" if told.ok else "failed"]
        remarks.append(Remark(f"{mark} {told.text}", colour))
    if not answer.ok and not answer.wrong:
        remarks.append(Remark(f"Try next: {step.hint}. Then run the kernel's cell, and this one again.", "yellow"))
    return remarks


def _clock(lab: Lab, step: SpeedStep, timed: TestResult | None) -> list[Remark]:
    """On a GPU, where this kernel was timed by check_speed: how fast it is, and how fast it was at first."""
    ratio = timed.metrics.get("ratio") if timed is not None else None
    if not isinstance(ratio, float):
        return []
    first = _first_ratios.setdefault((lab.id, step.name), ratio)
    return [Remark(f"{step.case} by the clock: {ratio:.2f} times as fast as cuBLAS; {first:.2f} when you first looked.", "cyan")]


def _check_step(notebook: str, name: str) -> None:
    steps = steps_of(notebook)
    if not steps:
        raise NotYet(f"{notebook!r} has no steps; those that have are {', '.join(exercises())}")
    if name not in steps:
        raise NotYet(f"{notebook} has no step {name!r}; its steps are {', '.join(steps)}")
    answer = check_executed(steps, name, _inputs(), InterpretOptions(1, case_seconds=STEP_SECONDS), notebook)
    if isinstance(answer, Refusal):
        raise NotYet(_sentence(answer.message))
    mark, colour = MARKS["passed" if answer.ok else "failed"]
    first, *rest = answer.sentences
    others = [Remark(text, "cyan") for text in rest]
    _display(Inline([Remark(f"{mark} {name}: {first}", colour), *others, *_notes()]))
    if not answer.ok:
        raise NotYet(f"{steps[name].function} is not right yet: fix it, run its cell, then run this one again.")


_reports: dict[str, Report] = {}
"""The last report of each lab; its source says whether it still holds."""


def _graded(lab: Lab, output: _Output) -> Report:
    """The lab's report, from before when the kernel has not changed since. Raises NotYet when there is no kernel."""
    source = read_executed(_inputs(), lab)
    if isinstance(source, Refusal):
        raise NotYet(_sentence(source.message))
    known = _reports.get(lab.id)
    if known is not None and known.labs[lab.id].source == source:
        return known
    kept = None if _grading_by_nbgrader() else KeptBinaries(own_folder())
    options = GradeOptions(_device()[0], kept=kept)
    submission = Submission(f"{lab.id} in this notebook", Path.cwd(), {lab.id: source})
    try:
        report = grade_submission(submission, [lab], options, output.progress)
    except BaseException:
        output.clear()
        raise
    if report.labs[lab.id].status != "graded":
        output.clear()
        raise NotYet(_sentence(report.labs[lab.id].message))
    _reports[lab.id] = report
    return report


def _lab(lab_id: str) -> Lab:
    labs = all_labs()
    if lab_id not in labs:
        raise NotYet(f"there is no lab {lab_id!r}; the labs are {', '.join(labs)}")
    return labs[lab_id]


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _error_map(errors: Any) -> Any:
    from grader.reporting import pictures

    return pictures.error_map(errors)


def _grading_by_nbgrader() -> bool:
    return os.environ.get("NBGRADER_EXECUTION") == "autograde"


# ---------------------------------------------------------------- the machine


@cache
def _device() -> tuple[Any, str | None]:
    return choose("auto")


@cache
def _notes_once() -> list[Remark]:
    chosen, note = _device()
    notes = [Remark(note, "dim")] if note else []
    if chosen.sandbox == "none":
        notes.append(Remark("bubblewrap does not work here, so your kernel runs without a sandbox.", "dim"))
    return notes


def _notes() -> list[Remark]:
    """What has to be said of this machine, the first time somebody is told anything."""
    notes = list(_notes_once())
    _notes_once().clear()
    return notes


# ---------------------------------------------------------------- the front end


def _shell() -> Any:
    """The running IPython. Raises NotYet elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None:
        raise NotYet("check works in a notebook; in a terminal, `python -m grader grade FILE` gives the same answer.")
    return shell


def _inputs() -> Sequence[str]:
    """Every cell that was run, by its number."""
    inputs: Sequence[str] = _shell().history_manager.input_hist_raw
    return inputs


def _display(answer: object, **arguments: Any) -> Any:
    from IPython.display import display

    return display(answer, **arguments)  # type: ignore[no-untyped-call]


class _Output:
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
        if self._handle is None:
            self._handle = _display(answer, display_id=True)
        else:
            self._handle.update(answer)

    def clear(self) -> None:
        """Leaves an empty line where progress was shown."""
        if self._handle is not None:
            self.show(Inline([]))
