"""Is a step right? Triton's front end reads its harness, the interpreter runs it once, and what came back is compared.

Of a wrong step the earlier ones that it calls are checked first: whoever built on sand is told where.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import torch

from grader.building import BuildOptions, Complaint, front_end, made_module
from grader.judging.memory import sentences
from grader.labs.guarded import POISON_BYTE
from grader.labs.notebook_step import Inputs, Slip, Step
from grader.model import Config, Constant, KernelBundle, KernelSource, Launch, Parameter, Problem, Refusal
from grader.reading import CHECK, read_step
from grader.running.interpreter import InterpretOptions, interpret

TYPES = {torch.float16: "*fp16", torch.float32: "*fp32", torch.int8: "*i8", torch.int32: "*i32"}
OUTPUT = "out_ptr"
SEED = 20
CAPABILITY = 90


@dataclass(frozen=True)
class StepAnswer:
    """Whether a step is right, and the sentences that say why not; the first is the one to read."""

    step: Step
    ok: bool
    sentences: tuple[str, ...]


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
    answer, source = _checked(step, cells, options, notebook)
    if isinstance(answer, Refusal):
        for earlier in steps.values():
            if earlier is not step and f"`{earlier.function}` is not defined" in answer.message:
                cause = answer.message.split("\nNext: ")[0]
                return replace(answer, message=f"{cause}\nNext: run the cell of the step `{earlier.name}`, then this one again")
    if source is None or (isinstance(answer, StepAnswer) and answer.ok):
        return answer
    called = _functions(source)
    before = [steps[other] for other in list(steps)[: list(steps).index(name)] if steps[other].function in called]
    with ThreadPoolExecutor(max_workers=max(1, len(before))) as workers:
        found = workers.map(lambda earlier: _checked(earlier, cells, options, notebook)[0], before)
        for earlier, first in zip(before, found, strict=True):
            if isinstance(first, Refusal) or not first.ok:
                return StepAnswer(step, False, _earlier(step, earlier, first))
    return answer


def _checked(
    step: Step, cells: Sequence[str], options: InterpretOptions, notebook: str
) -> tuple[StepAnswer | Refusal, KernelSource | None]:
    """The answer, and what was read for it."""
    found = read_step(cells, notebook, step)
    if isinstance(found, Refusal):
        return found, None
    return check_step(step, found, options), found


def _earlier(step: Step, earlier: Step, answer: StepAnswer | Refusal) -> tuple[str, ...]:
    """That an earlier step is to be mended first, and what is wrong there."""
    first = f"{step.function} calls {earlier.function}, and that is not right yet: mend the step `{earlier.name}` first."
    said = [answer.message] if isinstance(answer, Refusal) else answer.sentences
    return (first, *said)


def check_step(step: Step, source: KernelSource, options: InterpretOptions) -> StepAnswer:
    """Judges one step. `source`: the student's function and the step's harness, as `reading.read_step` gives them."""
    inputs = step.inputs(torch.Generator().manual_seed(SEED))
    expected = step.expected(inputs)
    tensors = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    scalars = {name: value for name, value in inputs.items() if isinstance(value, int)}
    problem = Problem({**tensors, OUTPUT: _laid_out_like(expected)}, scalars)
    types = {**{name: TYPES[tensor.dtype] for name, tensor in problem.tensors.items()}, **dict.fromkeys(scalars, "int")}
    look = f"Where to look: {step.look}."
    build = BuildOptions((CAPABILITY,), "check", 1, options.confined, options.start)
    made = made_module(source, build)
    if isinstance(made, Refusal):
        return StepAnswer(step, False, (made.message, look))
    signature = {name: "i32" if kind == "int" else kind for name, kind in types.items()}
    complaint = front_end(source, made, signature, build)
    if complaint is not None:
        return StepAnswer(step, False, (_complained(step, source, complaint), look))
    harness = _Harness(tuple(Parameter(name, kind) for name, kind in types.items()))
    bundle = KernelBundle("", (Config(0, {}, 4, 1),), {(step.name, 0): Launch(step.grid, (), (), ())}, {}, made)
    outcome = interpret(harness, source, bundle, {step.name: problem}, [(step.name, 0)], options)[0]
    located = [_named(step, text) for text in sentences(harness, source, {step.name: problem}, [outcome])]
    if outcome.status != "ran" or outcome.y is None:
        return StepAnswer(step, False, (*located, outcome.message, look))
    wrong = [] if outcome.written else _unwritten(step, source, outcome.y)
    wrong = wrong or _wrong(step, source, problem, outcome.y, expected)
    if not wrong and not located:
        return StepAnswer(step, True, (step.right,))
    return StepAnswer(step, False, (*located, *wrong, look))


def _named(step: Step, text: str) -> str:
    """A sentence on an access, without the case's name; a function that stores knows the output by the step's word for it."""
    text = text.removesuffix(f" (in `{step.name}`)")
    return text if step.returns else re.sub(r"\bout(?=[\[, ])", step.result, text)


def _laid_out_like(expected: torch.Tensor) -> torch.Tensor:
    """Zeros of the same shape and strides; a view where that is one."""
    last = sum((size - 1) * stride for size, stride in zip(expected.shape, expected.stride(), strict=True))
    return expected.new_zeros(last + 1).as_strided(expected.shape, expected.stride())


def _complained(step: Step, source: KernelSource, complaint: Complaint) -> str:
    """What Triton's front end says; of a fault in the harness, what the student's function gave back instead."""
    line = complaint.line
    if line is None or not 1 <= line <= len(source.lines) or source.lines[line - 1].place != CHECK:
        return re.sub(rf"; called in {CHECK} line \d+", "", complaint.sentence)
    got = dict(complaint.values).get(_received(source, step.function), "")
    if not step.returns or not got:
        call, cause = source.module.split("\n")[line - 1].strip(), complaint.sentence.split("\n")[0].partition(": ")[2]
        return f"{_place(source, step.function)}: {step.function} does not fit its call in the check, `{call}`: {cause}"
    _, shape = _type(got)
    wanted, size = _type(step.returns)
    found = f"{_place(source, step.function)}: {step.function} returns {got}, expected {step.returns}; "
    if shape == size:
        return f"{found}end it with .to(tl.{wanted.replace('fp', 'float')})."
    if shape[::-1] == size and len(size) == 2:
        return f"{found}its axes are swapped: what goes down the rows takes [:, None], what goes across takes [None, :]."
    return f"{found}look at the offsets of each axis."


def _type(text: str) -> tuple[str, list[int]]:
    """ "fp16 [16, 32]" as a dtype and sizes."""
    dtype, _, shape = text.partition(" [")
    return dtype, [int(size) for size in re.findall(r"\d+", shape)]


def _received(source: KernelSource, function: str) -> str:
    """The variable of the harness that holds what the function gave back."""
    found = re.search(rf"^ +(\w+) = {function}\(", source.module, re.MULTILINE)
    return found[1] if found else ""


def _functions(source: KernelSource) -> dict[str, ast.FunctionDef]:
    """The functions of a step's module by name: the student's, what it calls, and the harness."""
    return {node.name: node for node in ast.parse(source.module).body if isinstance(node, ast.FunctionDef)}


def _place(source: KernelSource, function: str, at: str = "") -> str:
    """The student's place of a function; of the one line in it that `at` describes, where there is exactly one."""
    node = _functions(source)[function]
    lines = source.module.split("\n")
    fitting = [n for n in range(node.body[0].lineno, (node.end_lineno or 0) + 1) if at and re.search(at, lines[n - 1])]
    return source.locate(fitting[0] if len(fitting) == 1 else node.lineno)


def _unwritten(step: Step, source: KernelSource, y: torch.Tensor) -> list[str]:
    """How much of the output is still the poison that it arrived as."""
    left = (y.contiguous().view(-1, 1).view(torch.uint8) == POISON_BYTE).all(dim=1).view(y.shape)
    if not bool(left.any()):
        return []
    at = ", ".join(str(int(i)) for i in left.nonzero()[0])
    return [
        f"{_place(source, step.function)}: {int(left.sum())} of {left.numel()} elements of {step.result} were never written; "
        f"the first is {step.result}[{at}]."
    ]


def _wrong(step: Step, source: KernelSource, problem: Problem, y: torch.Tensor, expected: torch.Tensor) -> list[str]:
    """How much is wrong, one element of it, and the slip that gives exactly this."""
    inputs: Inputs = {**problem.tensors, **problem.scalars}
    allowed = step.tolerance(inputs) if step.tolerance else torch.zeros_like(expected, dtype=torch.float64)
    wrong = ~(((y.double() - expected.double()).abs() <= allowed) | (y == expected))
    if not bool(wrong.any()):
        return []
    at = tuple(int(i) for i in wrong.nonzero()[0])
    where = ", ".join(str(i) for i in at)
    slip = next((slip for slip in step.slips if _is(slip, inputs, y, wrong, allowed)), None)
    found = [
        f"{_place(source, step.function, slip.at if slip else '')}: {int(wrong.sum())} of {wrong.numel()} elements are wrong: "
        f"{step.result}[{where}] is {_number(y[at])}, expected {_number(expected[at])}."
    ]
    return [*found, f"It is {slip.what}{'' if slip.what.endswith('?') else '.'}"] if slip else found


def _number(element: torch.Tensor) -> str:
    return f"{element.item():.6g}" if element.is_floating_point() else str(int(element))


def _is(slip: Slip, inputs: Inputs, y: torch.Tensor, wrong: torch.Tensor, allowed: torch.Tensor) -> bool:
    imitated = slip.imitate(inputs)
    same = ((y.double() - imitated.double()).abs() <= allowed) | (y == imitated) | (y.isnan() & imitated.isnan())
    return bool(same[wrong].all())
