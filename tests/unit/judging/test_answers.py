"""Questions with numbers: drawn alike for the same student, right answers right, wrong ones named, the number never told."""

from __future__ import annotations

import itertools
from time import process_time

import pytest

from grader.judging.answer_marks import mark
from grader.labs import all_labs
from grader.labs.question import posed, questions_of
from grader.reading.answers import Unclear, answers_executed

QUESTIONS = [(lab_id, question) for lab_id in all_labs() for question in questions_of(lab_id).values()]
STUDENTS = [f"student {number}" for number in range(60)]


@pytest.mark.parametrize(("lab_id", "question"), QUESTIONS, ids=[f"{lab_id}-{question.name}" for lab_id, question in QUESTIONS])
def test_a_question_of_any_student(lab_id, question):
    answers, reached = set(), set()
    for student in STUDENTS:
        asked = posed(lab_id, question, student)
        answers.add(asked.answer)
        assert asked.text == posed(lab_id, question, f" {student.upper()}").text
        assert mark(asked, asked.answer).share == 1
        assert mark(asked, asked.answer * (1 + 0.9 * asked.tolerance)).share == 1
        wrong = [trap.answer for trap in asked.traps] + [asked.answer * factor + extra for factor, extra in ((3.7, 0), (1, 1e9))]
        for number, answer in enumerate(wrong):
            marked = mark(asked, answer)
            if marked.share < 1:
                reached.add(number)
                told = [word.strip(".,:()") for word in marked.sentence.split()]
                assert f"{asked.answer:.6g}" not in told, marked.sentence
        if asked.unit in ("MB", "kB"):
            size = 1e6 if asked.unit == "MB" else 1e3
            for factor in (1000, 1e-3, 8, 1024 / 1000, size / 2**10, size / 2**20, size / 2**30):
                marked = mark(asked, factor * asked.answer)
                assert (marked.share, "unit" in marked.sentence) == (0.5, True), (factor, marked)
    assert len(answers) >= 4, "students have numbers of their own"
    assert len(reached) >= len(asked.traps) + 2, "every trap is a wrong answer for somebody"


def test_signs_and_factors_of_two_are_named():
    asked = posed("w4a16", questions_of("w4a16")["nibble"], "somebody")
    assert mark(asked, -asked.answer).sentence == "Your number has the wrong sign."
    asked = posed("w8a8", questions_of("w8a8")["intensity"], "somebody")
    assert "multiply-add is two operations" in mark(asked, asked.answer / 2).sentence


def test_answers_are_read_as_text():
    cells = [
        "", 'student = " Ada Lovelace "', "a = 2 * 3 / 4", "b = a ** 2 + max(1, 2)\nc = None", "d = __import__('os').getpid()",
        "e = 10 ** 10 ** 10",
        "f = 1 / 0", "g = True", "def h():\n    a = 7", "i = undefined + 1", "a = -a",
        "l: float = 5 / 2\nm: int", f"j = {'(' * 90}1{'+1)' * 90}", "k = (",
    ]
    found = answers_executed(cells)
    assert found.student == "Ada Lovelace"
    read = {name: value for name, value in found.numbers.items() if not isinstance(value, Unclear)}
    assert read == {"a": -1.5, "b": 4.25, "c": None, "l": 2.5}
    assert {name for name, value in found.numbers.items() if isinstance(value, Unclear)} == {"d", "e", "f", "g", "i", "j"}
    assert "more than arithmetic" in found.numbers["d"].sentence
    found = answers_executed(["", "a = 1,234.5", "b = 2 ^ 10", "c = round(21.26, 1)"])
    assert "thousands without a comma" in found.numbers["a"].sentence
    assert "a power is written **" in found.numbers["b"].sentence
    assert found.numbers["c"] == 21.3
    found = answers_executed(["", "M, N = 16, 32\nM, N = N, M\na = b = M / N\nc, d = 1"])
    assert found.numbers == {"M": 32, "N": 16, "a": 2, "b": 2}


def test_each_question_has_another_draw():
    texts = [posed(lab_id, question, "somebody").text for lab_id, question in QUESTIONS]
    assert all(a != b for a, b in itertools.combinations(texts, 2))


def test_a_number_is_read_once_whatever_the_number_of_its_names():
    names, numbers = [f"a{at}" for at in range(5000)], "1, " * 5000
    began = process_time()
    found = answers_executed(["", f"{' = '.join(names)} = min({numbers}2)", f"{' = '.join(names)} = max({numbers}'3')"])
    assert process_time() - began < 10
    assert set(found.numbers) == set(names)
    assert all(f"{name} is not arithmetic" in found.numbers[name].sentence for name in names)
