"""In a notebook: predict(LAB, STEP, NUMBER) notes what is expected of a step towards speed, check(LAB, speed=STEP) shows it."""

from __future__ import annotations

import os

from grader.labs import Lab, speed_steps_of
from grader.labs.speed_step import SpeedStep, shown
from grader.model import KernelSource, Refusal, Report
from grader.notebook import tries
from grader.notebook.cells import (
    NotYet,
    Output,
    chosen_device,
    display,
    executed_kernel,
    grading_by_nbgrader,
    lab_named,
    notes,
    sentence,
)
from grader.notebook.graded import graded_before, graded_kernel
from grader.notebook.predicting import Story, expect, is_number, plain, record_found, stories
from grader.notebook.speed_path import SpeedAnswer, SpeedPath, compared
from grader.reporting.compact import Remark, marked
from grader.reporting.inline import Inline
from grader.reporting.rung_text import standing_text


def predict(lab_id: str, speed: str, number: object) -> None:
    """Notes what you expect of a step towards speed in predictions.json, before `check(lab_id, speed=...)` shows it.

    A step that the kernel has taken already is not asked. Raises NotYet for a step that there is not, and for what is not a number.
    """
    lab = lab_named(lab_id)
    step = _speed_step(lab, speed)
    if number is ...:
        if _taken_already(lab, step):
            return
        raise NotYet(f"{step.question} Put your number in place of the dots.")
    number = plain(number)
    if not is_number(number):
        raise NotYet(f"a prediction is one number, such as 64; this is {str(number)[:40]!r}. {step.question}")
    if grading_by_nbgrader():
        return
    before = expect(claim_of(lab_id, speed), number).prediction.value
    assert before is not None
    notice = f"You have seen the answer, so what you predicted before, {shown(before)}, stays."
    display([Remark(notice if before != number else f"Noted: {shown(number)}.", "dim")])


def claim_of(lab_id: str, speed: str) -> str:
    """What a step towards speed is called among the predictions."""
    return f"{lab_id} {speed}"


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


def check_speed_step(lab: Lab, name: str) -> None:
    """Shows how a step towards speed stands; it is done only by a kernel with which check(LAB) finds nothing wrong.

    Raises NotYet without a prediction of a step that the kernel has not taken yet, and for a kernel that is not right.
    """
    step = _speed_step(lab, name)
    story = stories().get(claim_of(lab.id, step.name))
    if story is None:
        if _taken_already(lab, step):
            return
        raise NotYet(f'Predict first, with predict("{lab.id}", "{name}", your number): {step.question}')
    source = executed_kernel(lab)
    known = graded_before(lab.id, source)
    _require_right(lab, known)
    path, output = _path(lab, source), Output()
    output.show(Inline([Remark(f"looking at {name} ...", "dim")]))
    try:
        answer = path.check(step)
        if isinstance(answer, Refusal):
            raise NotYet(sentence(answer.message))
        if answer.ok:
            _require_right(lab, known := graded_kernel(lab, source, output))
    except BaseException:
        output.clear()
        raise
    times = {test.name: test.metrics.get("ratio") for test in known.labs[lab.id].tests} if known else {}
    ratio = times.get(step.case)
    clock = [_clock(lab, step, ratio)] if isinstance(ratio, float) else []
    standing = _standing(lab, path) if answer.ok else []
    output.show(Inline([*_remarks(lab, step, answer, story), *standing, *clock, *notes()]))
    if answer.found is not None and (story.found or _answers(step, answer)):
        by_clock = f", {ratio:.2f} times as fast as cuBLAS on {chosen_device()[0].name}" if clock else ""
        seen = f"{'✓ ' if answer.ok else ''}{step.case}, {answer.config}{by_clock}"
        record_found(claim_of(lab.id, name), answer.found, seen)
    if answer.wrong:
        raise NotYet(f'Correct first, then fast: {answer.wrong}. check("{lab.id}") says more.')


def _require_right(lab: Lab, known: Report | None) -> None:
    """Raises NotYet where check(LAB) finds something wrong: with a case, an access, or a config that does not build."""
    for test in known.labs[lab.id].tests if known else ():
        if test.kind != "speed" and test.status in ("failed", "error"):
            wrong = test.message.split("\n")[0]
            raise NotYet(f'Correct first, then fast: {test.name}: {wrong}. check("{lab.id}") says more.')


def _path(lab: Lab, source: KernelSource) -> SpeedPath:
    if lab.id not in _paths or _paths[lab.id].source != source:
        _paths[lab.id] = SpeedPath(lab, source, len(os.sched_getaffinity(0)))
    return _paths[lab.id]


def _taken_already(lab: Lab, step: SpeedStep) -> bool:
    """Whether the kernel, as its cells were run, has taken the step; it is said then."""
    try:
        source = executed_kernel(lab)
        answer = _path(lab, source).check(step)
        if isinstance(answer, Refusal) or not answer.ok:
            return False
        output = Output()
        report = graded_kernel(lab, source, output)
        output.clear()
        _require_right(lab, report)
    except NotYet:  # no notebook runs, or no kernel is there, or it is wrong
        return False
    display([marked("passed", f"{step.name}: already done, nothing to predict. {step.right} [{answer.config}]")])
    return True


def _answers(step: SpeedStep, answer: SpeedAnswer) -> bool:
    """Whether the kernel is the one that the step's question is about."""
    return answer.ok or step.about_now


def _remarks(lab: Lab, step: SpeedStep, answer: SpeedAnswer, story: Story) -> list[Remark]:
    """What is said of an answer; it counts as a try, so that what to write is said at the third."""
    head = f"{step.name}: {step.right if answer.ok else 'not yet'} [{answer.config}]"
    remarks = [marked("passed" if answer.ok else "failed", head)]
    predicted = story.prediction.value
    if answer.found is not None and predicted is not None:
        first = story.found[0].found if story.found else None
        held = compared(predicted, first, answer.found, answered=_answers(step, answer))
        remarks.append(Remark(f"{step.question} {held}", "cyan"))
    remarks += [marked("passed" if result.ok else "failed", result.text) for result in answer.results]
    if answer.ok:
        tries.right(lab.id, f"speed {step.name}")
    elif not answer.wrong:
        code = tries.wants_code(lab.id, f"speed {step.name}")
        remarks.append(tries.place_hint(step.hint, opened=code))
        if code and step.code:
            text = f"Try next: {step.code}. Then run the kernel's cell, and this one again."
            remarks.append(Remark(text, "yellow"))
    return remarks


def _standing(lab: Lab, path: SpeedPath) -> list[Remark]:
    """Like which step of the ladder the kernel is built, and what that took; nothing before the first, or where nobody timed it."""
    rung = path.standing(list(speed_steps_of(lab.id).values()))
    text = standing_text(lab.id, rung)
    return [Remark(text, "cyan")] if text else []


def _clock(lab: Lab, step: SpeedStep, ratio: float) -> Remark:
    """On a GPU, where this kernel was timed by check_speed: how fast it is, and how fast it was at first."""
    first = _first_ratios.setdefault((lab.id, step.name), ratio)
    return Remark(f"{step.case} by the clock: {ratio:.2f} times as fast as cuBLAS; {first:.2f} at first.", "cyan")
