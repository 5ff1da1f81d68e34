"""What a student reads of a step that is not right: the line, what came back, what was expected, and the usual mistake."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

import torch

from grader.building import Complaint
from grader.exercises import slips_of
from grader.judging import remarks
from grader.labs.guarded import POISON_BYTE
from grader.labs.notebook_step import Inputs, Step
from grader.model import KernelSource, Problem
from grader.parsing import parse
from grader.reading import CHECK

RETURN = r"^\s*return\b"


def named(step: Step, text: str) -> str:
    """A sentence on an access, without the case's name; a function that stores knows the output by the step's word for it."""
    text = text.removesuffix(f" (in `{step.name}`)").removesuffix(", or add with tl.atomic_add")
    return text if step.returns else re.sub(r"\bout(?=[\[, ']|$)", step.result, text)


def complained(step: Step, source: KernelSource, complaint: Complaint) -> str:
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
    found = f"{_place(source, step.function, RETURN)}: {step.function} returns {got}, expected {step.returns}; "
    if got.startswith("pointer"):
        return f"{found}these are the addresses: return tl.load of them."
    if shape == size and (got.split(" ")[0], wanted) == ("fp16", "fp32"):
        if _rounded_at_the_end(functions(source)[step.function]):
            return f"{found}leave the .to(tl.float16) out: what was rounded to fp16 stays rounded."
        return f"{found}what was rounded to fp16 stays rounded: make the operands fp32 before they are multiplied or added."
    if (
        shape == size
        and (got[:3], wanted) == ("int", "fp32")
        and re.search(r"tl\.dot\(|\.to\(tl\.int", ast.unparse(functions(source)[step.function]))
    ):
        return f"{found}integers were multiplied: convert the operands first, not their product."
    if shape == size:
        return f"{found}end it with .to(tl.{wanted.replace('fp', 'float')})."
    if shape[::-1] == size and len(size) == 2:
        return (
            f"{found}its axes are swapped: what goes down the rows takes [:, None], what goes across takes [None, :]."
        )
    if len(shape) != len(size):
        return f"{found}it has {len(shape)} {'axis' if len(shape) == 1 else 'axes'}, and should have {len(size)}."
    return f"{found}check where each axis comes from: offsets, the axis of a sum, the sizes of a reshape."


def _rounded_at_the_end(function: ast.FunctionDef) -> bool:
    """Whether a function's last step is a conversion to fp16, of what it returns or gives to the name that it returns."""
    values = [part.value for part in ast.walk(function) if isinstance(part, ast.Return)]
    if len(values) == 1 and isinstance(name := values[0], ast.Name):
        assigned = [
            part for part in function.body if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == name.id
        ]
        values = [part.value for part in assigned[-1:]]
    return bool(values) and all(
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr == "to"
        and "tl.float16" in [ast.unparse(argument) for argument in value.args]
        for value in values
    )


def _type(text: str) -> tuple[str, list[int]]:
    """ "fp16 [16, 32]" as a dtype and sizes."""
    dtype, _, shape = text.partition(" [")
    return dtype, [int(size) for size in re.findall(r"\d+", shape)]


def _received(source: KernelSource, function: str) -> str:
    """The variable of the harness that holds what the function gave back."""
    found = re.search(rf"^ +(\w+) = {function}\(", source.module, re.MULTILINE)
    return found[1] if found else ""


def functions(source: KernelSource) -> dict[str, ast.FunctionDef]:
    """The functions of a step's module by name: the student's, what it calls, and the harness."""
    return {node.name: node for node in parse(source.module).body if isinstance(node, ast.FunctionDef)}


def _place(source: KernelSource, function: str, at: str = "") -> str:
    """The student's place of a function: its one line that `at` describes, or its only statement; where there is neither, its name.

    What a docstring says is no statement.
    """
    node = functions(source)[function]
    lines = source.module.split("\n")
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    if not body:
        return source.locate(node.lineno)
    fitting = [n for n in range(body[0].lineno, (node.end_lineno or 0) + 1) if at and re.search(at, lines[n - 1])]
    alone = len(body) == 1 and not isinstance(body[0], ast.For | ast.While | ast.If)
    if len(fitting) == 1 or alone:
        return source.locate(fitting[0] if len(fitting) == 1 else body[0].lineno)
    return source.lines[node.lineno - 1].holder


def open_loads(source: KernelSource) -> list[int]:
    """The lines of the student's loads that have a mask and no `other`."""
    return [line for line in remarks.open_loads(source) if source.lines[line - 1].place != CHECK]


@dataclass(frozen=True)
class Deviation:
    """A result beside what it should be, and where it is wrong, all of one shape.

    left: still the poison that it arrived as, which is wrong; allowed: how far off an element may be.
    """

    y: torch.Tensor
    expected: torch.Tensor
    left: torch.Tensor
    wrong: torch.Tensor
    allowed: torch.Tensor

    def equals(self, result: torch.Tensor) -> bool:
        """Whether another run gave this very result: what is right as well as what is wrong, and what was never written."""
        near = (self.y.double() - result.double()).abs() <= torch.where(self.wrong, self.allowed, 2 * self.allowed)
        same = near | (self.y == result) | (self.y.isnan() & result.isnan())
        return bool(torch.where(self.left, _poison(result), same).all())


def deviation(step: Step, problem: Problem, y: torch.Tensor, expected: torch.Tensor, *, written: bool) -> Deviation:
    """How a result of a step differs. written: the run is known to have written every element."""
    inputs: Inputs = {**problem.tensors, **problem.scalars}
    left = torch.zeros_like(y, dtype=torch.bool) if written else _poison(y)
    allowed = step.tolerance(inputs) if step.tolerance else torch.zeros_like(expected, dtype=torch.float64)
    wrong = left | ~(((y.double() - expected.double()).abs() <= allowed) | (y == expected))
    return Deviation(y, expected, left, wrong, allowed)


def differing(step: Step, source: KernelSource, found: Deviation) -> tuple[bool, list[str]]:
    """How much is wrong or still the poison that it arrived as, one element of it, and the slip that gives exactly this.

    The first value tells whether a slip does.
    """
    y, left, wrong = found.y, found.left, found.wrong
    if not bool(wrong.any()):
        return False, []
    slip = next((slip for slip in slips_of(source.lab_id, step.name) if found.equals(slip.result)), None)
    place = _place(source, step.function, slip.at if slip else "")
    at = tuple(int(i) for i in (left if bool(left.any()) else wrong).nonzero()[0])
    element = f"{step.result}{'' if step.result.isidentifier() else ' at '}[{', '.join(str(i) for i in at)}]"
    if bool(left.all()) and (unstored := _unstored(step, source)):
        return False, [unstored]
    if bool(left.any()):
        said = f"{place}: {int(left.sum())} of {left.numel()} elements of {step.result} were never written, {element} first."
    else:
        said = (
            f"{place}: {int(wrong.sum())} of {wrong.numel()} elements are wrong: {element} is {_number(y[at])}, "
            f"expected {_number(found.expected[at])}."
        )
    known = [f"The result is {slip.what}{'' if slip.what.endswith('?') else '.'}"] if slip else []
    return slip is not None, [said, *known]


def _unstored(step: Step, source: KernelSource) -> str:
    """That nothing which the student wrote stores anything; "" where something does."""
    own = (node for name, node in functions(source).items() if name != "harness")
    calls = {ast.unparse(part.func) for node in own for part in ast.walk(node) if isinstance(part, ast.Call)}
    if step.returns or any("store" in call or "atomic" in call for call in calls):
        return ""
    node = functions(source)[step.function]
    given = next((part for part in ast.walk(node) if isinstance(part, ast.Return) and part.value is not None), None)
    nobody = ", and what it returns is not used" if given is not None else ""
    return (
        f"{source.locate(given.lineno if given is not None else node.lineno)}: {step.function} has no tl.store, so {step.result} "
        f"was never written{nobody}; end it with tl.store(pointers, value)."
    )


def _poison(y: torch.Tensor) -> torch.Tensor:
    """Which elements are still the poison that the output arrived as."""
    return (y.contiguous().view(-1, 1).view(torch.uint8) == POISON_BYTE).all(dim=1).view(y.shape)


def _number(element: torch.Tensor) -> str:
    return f"{element.item():.6g}" if element.is_floating_point() else str(int(element))
