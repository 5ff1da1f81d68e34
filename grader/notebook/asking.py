"""In a notebook: ask(LAB, NAME) shows a question with the student's own numbers, check_answer(LAB, NAME) marks the answer.

Both read what the notebook has run so far, as text: `student = "..."` draws the numbers, and the answer to the question `bytes`
of w8a8 is what was assigned to `w8a8_bytes`. nbgrader's autograding reads the same from the saved file.
"""

from __future__ import annotations

from grader.judging.answer_marks import mark, wanted
from grader.labs import all_labs
from grader.labs.question import Question, posed, questions_of
from grader.notebook.cells import NotYet, display, grading_by_nbgrader, inputs
from grader.reading.answers import Answers, Unclear, answers_executed
from grader.reporting.compact import Remark
from grader.reporting.terminal import number

UNNAMED = 'Write your name into `student = ""` at the top of the questions and run that cell: it draws your numbers.'


def ask(lab_id: str, name: str) -> None:
    """Shows a question with the student's numbers, or how to get them."""
    question, given = _question(lab_id, name), _answers()
    if not given.student:
        display([Remark(UNNAMED, "yellow")])
        return
    found = posed(lab_id, question, given.student)
    display([Remark(f"For {given.student}: {found.text}", "cyan"), Remark(f"Asked for: {wanted(found)}.", "dim")])


def check_answer(lab_id: str, name: str) -> float | None:
    """Marks an answer: shows what it is worth, and raises NotYet when it is missing or not right.

    Returns None, except while nbgrader grades: then the points.
    """
    question, given = _question(lab_id, name), _answers()
    variable = f"{lab_id}_{name}"
    answer = given.numbers.get(variable)
    if not given.student:
        raise NotYet(UNNAMED)
    if answer is None:
        raise NotYet(f"There is no answer yet: assign a number to {variable}, run that cell, then this one.")
    if isinstance(answer, Unclear):
        raise NotYet(f"{answer.sentence}.")
    found = mark(posed(lab_id, question, given.student), answer)
    points = found.share * question.points
    colour = {0.0: "red", 1.0: "green"}.get(found.share, "yellow")
    display([Remark(f"{number(points)} of {number(question.points)} points. {found.sentence}", colour)])
    if grading_by_nbgrader():
        return points
    if found.share < 1:
        raise NotYet(f"Change {variable}, run its cell, then run this one again.")
    return None


def _question(lab_id: str, name: str) -> Question:
    questions = questions_of(lab_id) if lab_id in all_labs() else {}
    if name not in questions:
        raise NotYet(f"{lab_id} has no question {name!r}; its questions are {', '.join(questions) or 'none'}.")
    return questions[name]


def _answers() -> Answers:
    return answers_executed(inputs("Questions are asked and marked in a notebook."))
