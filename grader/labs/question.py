"""What a question with numbers is: drawn for each student, answered by a number, marked without a human.

A lab lists its questions in `questions.py`, in the order of its notebook. The numbers follow from lab, question and the
student's name, so that neighbours differ and a mark can be repeated. Free text is not asked here: humans grade it.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random


@dataclass(frozen=True)
class Trap:
    """A wrong answer that is easily given, and the sentence that says what went wrong without giving the right one."""

    answer: float
    sentence: str


@dataclass(frozen=True)
class Posed:
    """A question with one student's numbers in it.

    text: the question. answer: the right number, in `unit`. tolerance: how far off an answer may be, relative; 0 asks for the
    exact number. factor: in place of a tolerance, the factor that an order of magnitude may be off. hint: where to look when it
    is wrong.
    """

    text: str
    answer: float
    unit: str
    hint: str
    tolerance: float = 0.02
    factor: float | None = None
    traps: tuple[Trap, ...] = ()


@dataclass(frozen=True)
class Question:
    """One question of a lab. points: those of its cell in the notebook. pose(random): with a student's numbers."""

    name: str
    points: float
    pose: Callable[[Random], Posed]


def questions_of(lab_id: str) -> dict[str, Question]:
    """The questions of a lab's notebook by name, in order; none for a lab without `questions.py`."""
    if not (Path(__file__).parent / lab_id / "questions.py").exists():
        return {}
    return {
        question.name: question for question in importlib.import_module(f"grader.labs.{lab_id}.questions").QUESTIONS
    }


def drawn_from(student: str) -> str:
    """What of a name decides about the numbers: upper case and spaces make no difference."""
    return "".join(student.casefold().split())


def posed(lab_id: str, question: Question, student: str) -> Posed:
    """The question as this student gets it."""
    key = f"{lab_id}/{question.name}/{drawn_from(student)}"
    return question.pose(Random(int.from_bytes(hashlib.sha256(key.encode(errors="surrogatepass")).digest()[:8])))
