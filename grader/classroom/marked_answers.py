"""How many points do the answers to a lab's questions with numbers get? Marked from the text that was handed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grader.judging.answer_marks import mark
from grader.labs import all_labs
from grader.labs.question import Question, posed, questions_of
from grader.reading.answers import Answers, Unclear

DECIMALS = 6


@dataclass(frozen=True)
class MarkedAnswer:
    """One question's points, from 0 to `max_points`, and why."""

    points: float
    sentence: str
    max_points: float


def marked(answers: Mapping[str, Answers]) -> dict[str, dict[str, MarkedAnswer]]:
    """Every question of the labs that have answers, by lab and name."""
    return {
        lab_id: {
            name: MarkedAnswer(*answer_score(lab_id, question, given, question.points), question.points)
            for name, question in questions_of(lab_id).items()
        }
        for lab_id, given in answers.items()
    }


def asked(grade_id: str) -> tuple[str, Question] | None:
    """The lab and the question that a cell is worth points for; None for one that nobody can mark by itself."""
    lab_id, _, name = grade_id.partition("_question_")
    question = questions_of(lab_id).get(name) if lab_id in all_labs() else None
    return (lab_id, question) if question is not None else None


def answer_score(lab_id: str, question: Question, answers: Answers, max_score: float) -> tuple[float, str]:
    """Points of one question from what was submitted, from 0 to max_score, and why."""
    if not answers.student:
        return 0.0, 'No name was written into `student = ""`, so that no numbers were drawn.'
    answer = answers.numbers.get(f"{lab_id}_{question.name}")
    if answer is None:
        return 0.0, f"No number was assigned to {lab_id}_{question.name}."
    if isinstance(answer, Unclear):
        return 0.0, f"{answer.sentence}."
    found = mark(posed(lab_id, question, answers.student), answer)
    return round(found.share * max_score, DECIMALS), f"For {answers.student}: {found.sentence}"
