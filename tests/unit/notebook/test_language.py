"""Chinese notebooks ask and answer in Chinese: every question, every step that is right, and the frame of what is wrong."""

from __future__ import annotations

import re

import pytest

from grader.exercises import exercises, steps_of
from grader.judging.answer_marks import wanted
from grader.labs import all_labs
from grader.labs.question import posed, questions_of
from grader.notebook import ask, asking, language
from grader.reading.answers import Answers

CHINESE = re.compile("[\u4e00-\u9fff]")


@pytest.fixture(autouse=True)
def notebook_in_chinese(monkeypatch):
    """As in notebooks/zh."""
    monkeypatch.setenv(language.PLACE, "zh")


@pytest.mark.parametrize("lab_id", all_labs())
def test_every_question_is_asked_in_chinese_with_its_numbers(lab_id):
    for question in questions_of(lab_id).values():
        for student in ("ann", "李雷", "zoe"):
            found = posed(lab_id, question, student)
            text = language.translated(f"For {student}: {found.text}")
            assert not re.search(r"\b(is|of|how|what|the)\b", text), text
            numbers = [sorted(re.findall(r"(?<![\w.])(?:0x)?[0-9A-F.]*\d", one)) for one in (found.text, text)]
            assert set(numbers[1]) >= {n for n in numbers[0] if len(n) > 1}, text
            assert CHINESE.search(language.translated(f"Asked: {wanted(found)}."))


def test_every_right_step_is_praised_in_chinese():
    for notebook in exercises():
        for step in steps_of(notebook).values():
            assert CHINESE.search(language.translated(f"✓ {step.name}: {step.right}")), step.right


def test_a_wrong_step_is_told_by_its_line():
    english = "✗ add: `add`, line 7: 48 of 48 elements are wrong: out[0] is 1, expected 2."
    assert language.translated(english) == "✗ add：`add`, line 7：48 个元素中有 48 个不对：out[0] 是 1，应为 2。"


def test_only_the_chinese_notebooks_are_answered_so(monkeypatch, capsys):
    monkeypatch.setattr(asking, "_answers", lambda: Answers("ann", {}))
    ask("w8a8", "bytes")
    assert capsys.readouterr().out.startswith("ann：启动一次 W8A8")
    monkeypatch.setenv(language.PLACE, "en")
    ask("w8a8", "bytes")
    assert capsys.readouterr().out.startswith("For ann: A launch of W8A8")
    assert language.translated("program 0 prints:") == "program 0 prints:"
