"""Which numbers did the student write as answers? Reads them from the text of cells, and runs nothing.

An answer is an assignment at the top level of a cell: a number, or arithmetic of numbers and of names that were assigned
such. The last one counts, as in Python.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.labs.question import questions_of
from grader.plain_files import UnreadableFile
from grader.reading.files import Allowance, Cell, executed_cells, is_source, read_cells

STUDENT = "student"
"""The name whose text draws a student's numbers."""

MAX_DEPTH = 60
LARGEST = 1e40
MAX_NAME = 200
MOST_FILES = 50
"""So many files of a hand-in are looked at, those named after a lab first."""


@dataclass(frozen=True)
class Unclear:
    """What is assigned is no number that can be read; the sentence says why."""

    sentence: str


@dataclass(frozen=True)
class Answers:
    """student: the text assigned to `student`, "" without one. numbers: every name that was assigned a number, or why not."""

    student: str
    numbers: Mapping[str, float | Unclear | None]

    def given(self, lab_id: str) -> bool:
        """Whether a question of a lab has an answer."""
        return any(self.numbers.get(f"{lab_id}_{name}") is not None for name in questions_of(lab_id))


NO_ANSWERS = Answers("", {})


def answers_in(path: Path, allowance: Allowance | None = None) -> Answers:
    """The answers in a notebook or .py; none in a file that cannot be read, or not within the allowance of its hand-in."""
    try:
        return _answers(read_cells(path, allowance))
    except UnreadableFile:
        return NO_ANSWERS


def answers_for(path: Path, lab_ids: Iterable[str]) -> dict[str, Answers]:
    """The answers to each lab's questions in a hand-in: of the files that answer one of them from the lab's own, else from the first, and
    what that one leaves open from the others.

    A lab is left out where no file names an answer to it, such as w8a8_bytes, or only another lab's file does, and none that is a number:
    a hand-in of kernels alone was not asked.
    """
    lab_ids = tuple(lab_ids)
    children = [path] if path.is_file() else filter(is_source, path.iterdir())
    paths = sorted(children, key=lambda child: (child.stem not in lab_ids, child))[:MOST_FILES]
    allowance = Allowance()
    found = [(file.stem, answers_in(file, allowance)) for file in paths]
    chosen = {}
    for lab_id in lab_ids:
        names = {f"{lab_id}_{name}" for name in questions_of(lab_id)}
        holders = [(stem, answers) for stem, answers in found if names & answers.numbers.keys()]
        begun = [
            one for one in holders if any(one[1].numbers[name] is not None for name in names & one[1].numbers.keys())
        ]
        # one that was not begun, such as the notebook beside a copy of it, hides none that was; elsewhere than in the lab's it asks nothing
        if begun or any(stem == lab_id for stem, _ in holders):
            of_stem = (answers for stem, answers in begun or holders if stem == lab_id)
            first = next(of_stem, (begun or holders)[0][1])
            chosen[lab_id] = _with_open_ones(first, [answers for _, answers in begun], names)
    return chosen


def _with_open_ones(first: Answers, others: Iterable[Answers], names: Iterable[str]) -> Answers:
    """With the answers to these questions that other files of the same student have and it has not."""
    for other in others:
        if other.student and first.student and other.student != first.student:
            continue  # whose numbers are drawn otherwise
        open_ones = {
            name: other.numbers[name] for name in names if name in other.numbers and first.numbers.get(name) is None
        }
        first = Answers(first.student or other.student, {**first.numbers, **open_ones})
    return first


def answers_executed(inputs: Sequence[str]) -> Answers:
    """The answers in the cells that a notebook has run so far."""
    return _answers(executed_cells(inputs))


def _answers(cells: Sequence[Cell]) -> Answers:
    student = ""
    numbers: dict[str, float | Unclear | None] = {}
    for cell in cells:
        for given in _assigned(cell):
            if (text := given.pop(STUDENT, None)) is not None:
                held = text.value if isinstance(text, ast.Constant) else ""
                student = held.strip()[:MAX_NAME] if isinstance(held, str) else ""
            found = {
                value: _read(value, numbers) for value in set(given.values())
            }  # once, whatever the number of its names
            numbers.update({name: _named(name, found[value]) for name, value in given.items()})
    return Answers(student, numbers)


def _read(value: ast.expr, known: Mapping[str, float | Unclear | None]) -> float | Exception | None:
    """The number, None where there is none yet, or why it cannot be read."""
    if isinstance(value, ast.Constant) and value.value in (None, ...):
        return None
    try:
        return _number(value, known, 0)
    except (ArithmeticError, ValueError, RecursionError) as problem:
        return problem


def _named(name: str, found: float | Exception | None) -> float | Unclear | None:
    if not isinstance(found, Exception):
        return found
    return Unclear(
        f"{name} is not arithmetic that can be read ({found}); write a number, or +, -, *, /, // and ** of numbers"
    )


def _assigned(cell: Cell) -> Iterator[dict[str, ast.expr]]:
    """Of each assignment at the top level of a cell, the names and what they are given; M, N = 16, 32 has two."""
    for node in cell.tree.body if cell.tree is not None else ():
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        given: dict[str, ast.expr] = {}
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            names, values = [target], [node.value]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                names, values = target.elts, node.value.elts
            if len(names) == len(values):
                given |= {
                    name.id: value for name, value in zip(names, values, strict=True) if isinstance(name, ast.Name)
                }
        yield given


class _NotReadable(ValueError):
    """An expression that is more than arithmetic."""


OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
CALLS: dict[str, Callable[..., float]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "round": round,
    "int": int,
    "float": float,
}


def _number(node: ast.expr, known: Mapping[str, float | Unclear | None], depth: int) -> float:
    """The value of an arithmetic expression. Raises ValueError and ArithmeticError."""
    if depth > MAX_DEPTH:
        raise _NotReadable("it is nested too deeply")

    def inner(part: ast.expr) -> float:
        return _number(part, known, depth + 1)

    match node:
        case ast.Constant(value=bool() | str() | bytes() | complex()):
            raise _NotReadable(f"{ast.unparse(node)[:40]} is not a number")
        case ast.Constant(value=int() | float() as value):
            found: float = value
        case ast.Name(id=name):
            found = _known(name, known)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            found = -inner(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            found = inner(operand)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            found = _power(inner(left), inner(right))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
            found = OPERATIONS[type(op)](inner(left), inner(right))
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as arguments, keywords=[]) if name in CALLS:
            found = _called(name, [inner(argument) for argument in arguments])
        case _:
            raise _NotReadable(_more(node))
    if isinstance(found, complex) or not math.isfinite(found) or abs(found) > LARGEST:
        raise _NotReadable("it is too large, or no number")
    return found


def _more(node: ast.expr) -> str:
    """What a number was meant to be that Python reads as something else."""
    text = ast.unparse(node)[:40]
    if isinstance(node, ast.Tuple):
        return f"{text} is several numbers: write decimals with a point and thousands without a comma"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor):
        return f"{text}: a power is written **"
    return f"{text} is more than arithmetic"


def _known(name: str, known: Mapping[str, float | Unclear | None]) -> float:
    held = known.get(name)
    if held is None or isinstance(held, Unclear):
        raise _NotReadable(f"{name} is not a number that was assigned before")
    return held


def _power(base: float, power: float) -> float:
    """base ** power, in floating point where the integer would be long; complex for a root of a negative number."""
    if abs(power) > 200:
        raise _NotReadable("a power that large")
    found: float = float(base) ** power if abs(power) > 64 else base**power
    return found


def _called(name: str, values: list[float]) -> float:
    if len(values) == 1 and name in ("min", "max"):
        raise _NotReadable(f"{name} of one number")
    if name == "round" and len(values) == 2 and values[1] in range(-9, 10):
        return round(values[0], int(values[1]))
    if len(values) > 1 and name not in ("min", "max"):
        raise _NotReadable(f"{name} of several numbers")
    return CALLS[name](*values)
