"""Is a step right? Triton's front end reads its harness, the interpreter runs it once, and what came back is compared.

If a step is wrong, the earlier steps that it calls are checked too, and the first wrong one is reported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import torch

from grader.building import BuildOptions, front_end, made_module
from grader.compile_errors import first_endless
from grader.compile_errors.named_line import each_with_lines, with_lines
from grader.judging.memory_sentences import sentences
from grader.judging.remarks import undefined
from grader.labs.notebook_step import Step
from grader.model import (
    Config,
    Constant,
    GeneratedModule,
    KernelBundle,
    KernelSource,
    Launch,
    Outcome,
    Parameter,
    Problem,
    Refusal,
)
from grader.notebook import step_words
from grader.notebook.step_words import Deviation, deviation
from grader.reading import read_step
from grader.running.cpu import InterpretOptions, interpret
from grader.traffic import counting
from grader.traffic.accesses import parse
from grader.traffic.counting import Touched, layout_of

TYPES = {torch.float16: "*fp16", torch.float32: "*fp32", torch.int8: "*i8", torch.int32: "*i32"}
OUTPUT = "out_ptr"
SEED = 20
CAPABILITY = 90
BEYOND = 1 << 20
"""Bytes behind a tensor where an access still has a footprint: that of what lies inside."""


@dataclass(frozen=True)
class StepAnswer:
    """Whether a step is right, and the sentences that say why not; the first is the one to read.

    values: what came back beside what was expected, where it came to an end. touched: what each program of a wrong step loads and
    stores. printed: what its first program prints.
    """

    step: Step
    ok: bool
    sentences: tuple[str, ...]
    values: Deviation | None = None
    touched: Sequence[Touched] = ()
    printed: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Harness:
    """A harness as the kernel that is launched."""

    parameters: tuple[Parameter, ...]
    constants: Mapping[str, Constant] = field(default_factory=dict)
    output: str = OUTPUT
    split_k: bool = False

    def hides(self, case: str) -> bool:
        return False


def check_executed(
    steps: Mapping[str, Step], name: str, cells: Sequence[str], options: InterpretOptions, notebook: str
) -> StepAnswer | Refusal:
    """Checks one of a notebook's steps in the cells that it has run so far; a refusal where there is nothing to run.

    When it is wrong, the earlier steps that it calls are checked too, and the first wrong one is the answer.
    """
    step = steps[name]
    source = read_step(cells, notebook, step)
    if isinstance(source, Refusal):
        for earlier in steps.values():
            if earlier is not step and f"`{earlier.function}` is not defined" in source.message:
                cause = source.message.split("\nNext: ")[0]
                return replace(
                    source, message=f"{cause}\nNext: run the cell of the step `{earlier.name}`, then this one again"
                )
        return source
    answer = check_step(step, source, options)
    if answer.ok:
        return answer

    def wrong_with(earlier: Step) -> tuple[str, ...]:
        found = read_step(cells, notebook, earlier)
        if isinstance(found, Refusal):
            return (found.message,)
        checked = check_step(earlier, found, options)
        return () if checked.ok else checked.sentences

    called = step_words.functions(source)
    before = [steps[other] for other in list(steps)[: list(steps).index(name)] if steps[other].function in called]
    with ThreadPoolExecutor(max_workers=max(1, len(before))) as workers:
        for earlier, said in zip(before, workers.map(wrong_with, before), strict=True):
            if said:
                head = f"{step.function} calls {earlier.function}, which is not right yet: fix the step `{earlier.name}` first."
                return StepAnswer(step, False, (head, *said))
    return answer


def check_step(step: Step, source: KernelSource, options: InterpretOptions) -> StepAnswer:
    """Judges one step. `source`: the student's function and the step's harness, as `reading.read_step` gives them."""
    ready = _ready(step, source, options)
    if isinstance(ready, str):
        return StepAnswer(step, False, (with_lines(ready, source),))
    _, wrong, values = _judged(ready, options)
    if not wrong and step_words.open_loads(source):
        ended, differs, _ = _judged(ready, replace(options, poison_masked=True))
        if differs and ended:
            wrong = (undefined(source, step_words.open_loads(source), step.result),)
    touched = _touched(ready, options) if wrong and values is not None else ()
    said = tuple(each_with_lines(wrong, source)) or (step.right,)
    return StepAnswer(step, not wrong, said, values, touched, _printed(ready, options))


def _printed(ready: _Ready, options: InterpretOptions) -> tuple[str, ...]:
    """What the first program prints; the kernel that was judged has its prints left out."""
    if "print(" not in ready.source.module:
        return ()
    made = made_module(ready.source, _building(options), prints=True)
    return () if isinstance(made, Refusal) else _run(replace(ready, made=made), options).printed


def result_of(step: Step, source: KernelSource, options: InterpretOptions) -> Deviation | str:
    """What a step's run gives; a sentence where it does not compile or does not come to its end."""
    ready = _ready(step, source, options)
    if isinstance(ready, str):
        return ready
    outcome = _run(ready, options)
    return (
        _deviation(ready, outcome.y, outcome) if outcome.status == "ran" and outcome.y is not None else outcome.message
    )


@dataclass(frozen=True)
class _Ready:
    """A step that compiles, with its inputs and what they should give."""

    step: Step
    source: KernelSource
    made: GeneratedModule
    problem: Problem
    expected: torch.Tensor
    harness: _Harness


def problem_of(step: Step) -> tuple[Problem, torch.Tensor]:
    """A step's inputs, drawn from the fixed seed, and what should end in its output."""
    inputs = step.inputs(torch.Generator().manual_seed(SEED))
    expected = step.expected(inputs)
    tensors = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    scalars = {name: value for name, value in inputs.items() if isinstance(value, int)}
    return Problem({**tensors, OUTPUT: _laid_out_like(expected)}, scalars), expected


def _ready(step: Step, source: KernelSource, options: InterpretOptions) -> _Ready | str:
    """What a run takes; a sentence where the step does not compile or has a loop that never ends."""
    problem, expected = problem_of(step)
    types = {name: TYPES[tensor.dtype] for name, tensor in problem.tensors.items()}
    types |= dict.fromkeys(problem.scalars, "int")
    build = _building(options)
    made = made_module(source, build)
    if isinstance(made, Refusal):
        return made.message
    signature = {name: "i32" if kind == "int" else kind for name, kind in types.items()}
    complaint = front_end(source, made, signature, build)
    if complaint is not None:
        return step_words.complained(step, source, complaint)
    if (loop := first_endless(source.module)) is not None:
        line, never = loop
        return f"{source.locate(line)}: {never}"
    return _Ready(step, source, made, problem, expected, _Harness(_parameters(step, problem, types)))


def _building(options: InterpretOptions) -> BuildOptions:
    return BuildOptions((CAPABILITY,), "check", 1, options.confined, options.start)


def _run(ready: _Ready, options: InterpretOptions) -> Outcome:
    name = ready.step.name
    bundle = KernelBundle("", (Config(0, {}, 4, 1),), {(name, 0): Launch(ready.step.grid, (), (), ())}, {}, ready.made)
    return interpret(ready.harness, ready.source, bundle, {name: ready.problem}, [(name, 0)], options)[0]


def _deviation(ready: _Ready, y: torch.Tensor, outcome: Outcome) -> Deviation:
    return deviation(ready.step, ready.problem, y, ready.expected, written=outcome.written is not False)


def _judged(ready: _Ready, options: InterpretOptions) -> tuple[bool, tuple[str, ...], Deviation | None]:
    """Whether a run of a step came to an end of its own, what is wrong with it (nothing when it is right), and what it gave."""
    step, source, outcome = ready.step, ready.source, _run(ready, options)
    accesses = sentences(ready.harness, source, {step.name: ready.problem}, [outcome], step.function)
    located = [step_words.named(step, text) for text in accesses]
    if outcome.status != "ran" or outcome.y is None:
        explained = any(finding.fault == "wild" for finding in outcome.memory or ())  # such an access has ended the run
        return outcome.status == "crash", tuple(located if explained else (*located, outcome.message)), None
    found = _deviation(ready, outcome.y, outcome)
    named, seen = step_words.differing(step, source, found)
    return True, (*seen, *located) if named else (*located, *seen), found


def _touched(ready: _Ready, options: InterpretOptions) -> Sequence[Touched]:
    """What each program loads and stores of its tensors; nothing where an access lies before one, or in several."""
    outcome = _run(ready, replace(options, accesses=True))
    if outcome.status != "ran":
        return ()
    layouts = {name: layout_of(name, (), tensor) for name, tensor in ready.problem.tensors.items()}
    try:
        accesses = parse(outcome.flow, [(name, BEYOND + one.extent) for name, one in layouts.items()], ready.step.grid)
    except ValueError:
        return ()
    return counting.touched(layouts, math.prod(ready.step.grid), accesses)


def _parameters(step: Step, problem: Problem, types: Mapping[str, str]) -> tuple[Parameter, ...]:
    """Of a vector of integers beside other tensors the size is told, too: its numbers say where in those to go on."""
    given = {name: tensor for name, tensor in problem.tensors.items() if name != OUTPUT}
    indices = [name for name, tensor in given.items() if tensor.dim() == 1 and tensor.dtype == torch.int32]
    sizes = {**step.sizes, **{name: (str(given[name].numel()),) for name in indices if len(given) > 1}}
    return tuple(Parameter(name, kind, sizes=sizes.get(name, ())) for name, kind in types.items())


def _laid_out_like(expected: torch.Tensor) -> torch.Tensor:
    """Zeros of the same shape and strides; a view where that is one."""
    last = sum((size - 1) * stride for size, stride in zip(expected.shape, expected.stride(), strict=True))
    return expected.new_zeros(last + 1).as_strided(expected.shape, expected.stride())
