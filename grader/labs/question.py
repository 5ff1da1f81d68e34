"""What a question with numbers is: drawn for each student, answered by a number, marked without a human.

A lab lists its questions in `questions.py`, in the order of its notebook. The numbers follow from lab, question and the
student's name, so that neighbours differ and a mark can be repeated. Free text is not asked here: humans grade it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from grader.labs import optional


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


WIDTHS = (2048, 3072, 4096, 5120, 6144, 8192)
"""N and K that are drawn."""

GPUS = ((1, 120), (2, 300), (3, 900), (5, 1000))
"""TB/s and TFLOP/s in fp16 of the GPUs that are drawn; none of them is for sale."""


def most_to_gain(random: Random, kernel: str, weight_bytes: float, trap: str, tolerance: float) -> Posed:
    """How many times as fast as dense fp16 a kernel with smaller weights can be. trap: what is wrong about the ratio of their bytes."""
    M, N, K = random.choice((1, 8, 64, 96, 384, 1024)), *random.sample(WIDTHS, 2)
    terabytes, teraflops = random.choice(GPUS)
    compute = 2 * M * N * K / (teraflops * 1e6)
    dense, small = (
        (2 * M * K + weight * N * K + 2 * M * N) / (terabytes * 1e6) for weight in (2, weight_bytes)
    )  # microseconds
    answer = max(dense, compute) / max(small, compute)
    return Posed(
        f"M = {M}, N = {N}, K = {K}, on a GPU with {terabytes} TB/s and {teraflops} TFLOP/s in fp16; both kernels multiply in "
        f"fp16. How many times as fast as dense fp16 can {kernel} be at most? Ignore the scales.",
        answer,
        "times",
        "for each of the two kernels: the time of its bytes and the time of its operations; the longer one counts",
        tolerance=tolerance,
        traps=(
            Trap(dense / small, "That is the ratio of the bytes: check whether the products take longer."),
            Trap(2 / weight_bytes, trap),
            Trap(1 / answer, "That is the inverse of the ratio."),
        ),
    )


def questions_of(lab_id: str) -> dict[str, Question]:
    """The questions of a lab's notebook by name, in order; none for a lab without `questions.py`."""
    return {question.name: question for question in optional(lab_id, "questions") or ()}


def drawn_from(student: str) -> str:
    """What of a name decides about the numbers: upper case and spaces make no difference."""
    return "".join(student.casefold().split())


def posed(lab_id: str, question: Question, student: str) -> Posed:
    """The question as this student gets it."""
    key = f"{lab_id}/{question.name}/{drawn_from(student)}"
    return question.pose(Random(int.from_bytes(hashlib.sha256(key.encode(errors="surrogatepass")).digest()[:8])))
