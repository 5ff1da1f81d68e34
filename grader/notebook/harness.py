"""Is a step right? Runs its harness once on the interpreter, in the sandbox, and compares what came back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import torch

from grader.building import BuildOptions, made_module
from grader.judging.memory import sentences
from grader.labs import Lab
from grader.labs.notebook_step import Inputs, Step
from grader.model import Case, Config, KernelBundle, KernelSource, Launch, Parameter, Problem, Refusal
from grader.running.interpreter import InterpretOptions, interpret

TYPES = {torch.float16: "*fp16", torch.float32: "*fp32", torch.int8: "*i8", torch.int32: "*i32"}
OUTPUT = "out_ptr"
SEED = 20


@dataclass(frozen=True)
class StepAnswer:
    """Whether a step is right, and the sentences that say why not; the first is the one to read."""

    step: Step
    ok: bool
    sentences: tuple[str, ...]


def check_step(step: Step, source: KernelSource, options: InterpretOptions) -> StepAnswer:
    """Judges one step. `source`: the student's function and the step's harness, as `reading.read_step` gives them."""
    inputs = step.inputs(torch.Generator().manual_seed(SEED))
    expected = step.expected(inputs)
    tensors = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    scalars = {name: value for name, value in inputs.items() if isinstance(value, int)}
    problem = Problem({**tensors, OUTPUT: torch.zeros_like(expected)}, scalars)
    lab = _lab_of(step, problem)
    config = Config(0, {}, 4, 1)
    launch = Launch((1, 1, 1), (), (), ())
    made = made_module(source, BuildOptions((90,), "check", 1, options.confined, options.start))
    if isinstance(made, Refusal):
        return StepAnswer(step, False, (made.message, f"Where to look: {step.look}."))
    bundle = KernelBundle(lab.id, (config,), {(step.name, 0): launch}, {}, made)
    outcome = interpret(lab, source, bundle, {step.name: problem}, [(step.name, 0)], options)[0]
    located = sentences(lab, source, {step.name: problem}, [outcome])
    if outcome.status != "ran" or outcome.y is None:
        return StepAnswer(step, False, (*located, _shorter(outcome.message), f"Where to look: {step.look}."))
    wrong = _wrong(step, problem, outcome.y, expected)
    if not wrong and not located:
        return StepAnswer(step, True, (step.right,))
    return StepAnswer(step, False, (*located, *wrong, f"Where to look: {step.look}."))


def _shorter(message: str) -> str:
    """The message of a failed tl.static_assert in the harness is a sentence of its own."""
    for kind in ("AssertionError('", 'AssertionError("'):
        if kind in message:
            return message.split(kind, 1)[1].rstrip("')\"")
    return message


def _wrong(step: Step, problem: Problem, y: torch.Tensor, expected: torch.Tensor) -> list[str]:
    """How much is wrong, one element of it, and the slip that gives exactly this."""
    inputs: Inputs = {**problem.tensors, **problem.scalars}
    allowed = step.tolerance(inputs) if step.tolerance else torch.zeros_like(expected, dtype=torch.float64)
    wrong = ~((y.double() - expected.double()).abs() <= allowed)
    if not bool(wrong.any()):
        return []
    at = tuple(int(i) for i in wrong.nonzero()[0])
    where = ", ".join(str(i) for i in at)
    found = [
        f"{int(wrong.sum())} of {wrong.numel()} elements are wrong: {step.result}[{where}] is {y[at].item():.6g}, "
        f"expected {expected[at].item():.6g}."
    ]
    for slip in step.slips:
        same = (y.double() - slip.imitate(inputs).double()).abs() <= allowed
        if bool(same[wrong].all()):
            return [*found, f"It is {slip.what}."]
    return found


def _lab_of(step: Step, problem: Problem) -> Lab:
    """The step as the smallest lab: one kernel, one case, nothing to time."""

    def none(*arguments: object) -> NoReturn:
        raise NotImplementedError("a step is interpreted, and compared here")

    pointers = (Parameter(name, TYPES[tensor.dtype]) for name, tensor in problem.tensors.items())
    return Lab(
        id="step", order=0, title=step.name, kernel="harness", layer="",
        parameters=(*pointers, *(Parameter(name, "int") for name in problem.scalars)),
        cases=(Case(step.name, step.right, 0, 0, 0),), speed_cases=(),
        scalars=none, problem=none, reference=none, baseline_weight=none, timed_inputs=none, project=none,
        default_grid=none, default_grid_text="", bytes_moved=none, operations=none, output=OUTPUT,
    )  # fmt: skip
