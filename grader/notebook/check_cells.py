"""In a notebook: check(NOTEBOOK, step=STEP), check(LAB), check(LAB, speed=STEP) and check_speed(LAB) answer in the cell.

The code is what the notebook has run so far, read and graded by the same road as `make grade`.
"""

from __future__ import annotations

from dataclasses import replace

from grader.building import BuildOptions, describe, made_module
from grader.compile_errors.excerpt import NEXT
from grader.exercises import steps_of
from grader.labs import Lab
from grader.model import KernelSource, Refusal
from grader.notebook import tries
from grader.notebook.cells import (
    NotYet,
    Output,
    display,
    executed_kernel,
    grading_by_nbgrader,
    inputs,
    lab_named,
    notes,
    sentence,
)
from grader.notebook.graded import SEED, graded_before, graded_kernel
from grader.notebook.harness import StepAnswer
from grader.notebook.speeding import check_speed_step
from grader.notebook.step_values import grids, printed, step_answer
from grader.pipeline.grading import BuiltKernel
from grader.reading import read_step
from grader.reporting import drawings, pictures
from grader.reporting.compact import Remark, marked, remarks_on
from grader.reporting.inline import Inline
from grader.reporting.terminal import number
from grader.running.cpu import InterpretOptions

OUTSIDE = (
    "The check above says where this kernel accesses memory that it may not. Launched here it could end this notebook's Python: "
    "fix it, run its cell and the check, then run this cell again."
)


def check(notebook: str, *, step: str | None = None, speed: str | None = None) -> float | None:
    """Checks a step of a notebook, or a step towards speed, or grades a lab's kernel. Raises NotYet for what is left to do.

    A step towards speed is worth no points: a kernel that is right and slow is told what to try, and nothing is raised.
    Returns None, except while nbgrader grades: then the points for correctness, so that part of the work counts.
    """
    if step is not None:
        _check_step(notebook, step)
        return None
    if speed is not None:
        if not grading_by_nbgrader():
            check_speed_step(lab_named(notebook), speed)
        return None
    lab = lab_named(notebook)
    output = Output()
    report = graded_kernel(lab, executed_kernel(lab), output)
    graded = report.labs[lab.id]
    points, most = graded.correctness_points, graded.correctness_max
    maps = [pictures.error_map(errors) for errors in graded.error_maps[:2]]
    output.show(Inline([*remarks_on(graded), *printed(_prints(lab, graded.source)), *notes()], maps))
    if grading_by_nbgrader():
        return points
    failed = next((test.name for test in graded.tests if test.kind == "correctness" and test.status == "failed"), None)
    if failed is not None:
        raise NotYet(
            f"{number(points)} of {number(most)} points so far. Make `{failed}` pass first: fix the kernel, "
            "run its cell, then run this one again."
        )
    return None


def needs(notebook: str, step: str | None = None, *, right: bool = True) -> None:
    """For a cell that uses what an earlier step asks for: raises NotYet where that is not right yet, and says nothing where it is.

    right=False: it is enough that it is written, right or wrong. Without a step it is for a cell that launches a lab's kernel, right or
    wrong: raises NotYet where there is none to launch, and where `check` has seen it access memory that it may not.
    """
    if step is None:
        known = graded_before(notebook, executed_kernel(lab_named(notebook)))
        if known and any(one.kind == "memory" and one.status == "failed" for one in known.labs[notebook].tests):
            raise NotYet(OUTSIDE)
        return
    wanted = steps_of(notebook)[step]
    head = f"This cell uses {wanted.function} of the step `{step}`, which is not right yet"
    answer = step_answer(notebook, step) if right else read_step(inputs(), notebook, wanted)
    if isinstance(answer, Refusal):
        raise NotYet(f"{head}: {sentence(answer.message)}")
    if isinstance(answer, StepAnswer) and not answer.ok:
        raise NotYet(f"{head}: {sentence(answer.sentences[0])}\nMake it right first, then run this cell again.")


def check_speed(lab_id: str) -> float | None:
    """Shows how fast the kernel is and what that is worth; on a machine without a GPU, that it is timed elsewhere.

    Raises NotYet when there is no kernel to time. Returns None, except while nbgrader grades: then the points.
    """
    lab = lab_named(lab_id)
    output = Output()
    report = graded_kernel(lab, executed_kernel(lab), output)
    graded = report.labs[lab.id]
    timed = [test for test in graded.tests if test.kind == "speed"]
    if graded.speed_status == "skipped":
        text = f"{number(graded.speed_max)} points for speed are given on a GPU; this machine has none that can grade."
        remarks = [Remark(text, "yellow")]
    else:
        head = f"speed {number(graded.speed_points)}/{number(graded.speed_max)} points on {report.device.name}"
        remarks = [Remark(head, "green" if graded.speed_points else "red")]
        remarks += [marked(test.status, f"{test.name}: {test.message}") for test in timed]
    found = (drawings.tiers(graded), drawings.roofline(report, graded))
    output.show(Inline([*remarks, *notes()], [picture for picture in found if picture is not None]))
    return graded.speed_points if grading_by_nbgrader() else None


def _check_step(notebook: str, name: str) -> None:
    answer = step_answer(notebook, name)
    if isinstance(answer, Refusal):
        raise NotYet(sentence(answer.message))
    if answer.ok:
        tries.right(notebook, name)
        display([marked("passed", f"{name}: {answer.sentences[0]}"), *printed(answer.printed), *notes()])
        return
    code = tries.wants_code(notebook, name)
    first, *rest = answer.sentences if code else map(_without_advice, answer.sentences)
    said = [marked("failed", f"{name}: {first}"), *(Remark(text, "cyan") for text in rest)]
    said.append(tries.place_hint(answer.step.hint, opened=code))
    if code:
        said.append(Remark(f"Try this: {answer.step.code}.", "yellow"))
    display([*said, *printed(answer.printed), *notes()], grids(answer))
    raise NotYet(f"{answer.step.function} is not right yet: fix it, run its cell, then run this one again.")


def _without_advice(text: str) -> str:
    """A sentence as far as it says what is wrong: what to do about it follows a semicolon, and stays for later. Errors of the compiler keep
    theirs, which stands below the line."""
    if NEXT in text:
        return text
    head, *lines = text.split("\n")
    fact, _, advice = head.partition("; ")
    return "\n".join([f"{fact}." if advice else head, *lines])


def _prints(lab: Lab, source: KernelSource | None) -> tuple[str, ...]:
    """What the first program of the first case prints, with the first config; the kernel that is graded has its prints left out."""
    if source is None or "print(" not in source.module:
        return ()
    build = BuildOptions((90,), "check", 1)
    bundle, made = describe(lab, source, build), made_module(source, build, prints=True)
    if isinstance(bundle, Refusal) or isinstance(made, Refusal):
        return ()
    built = BuiltKernel(lab, source, replace(bundle, made=made), SEED)
    (outcome,) = built.interpret([(lab.cases[0].name, 0)], InterpretOptions(1))
    return outcome.printed
