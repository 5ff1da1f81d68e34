"""What a student sees of a wrong step: values, prints, and advice that comes later."""

from __future__ import annotations

import pytest

from grader.notebook import NotYet, check, language, show_values, step_values, tries

WRONG = """\
import triton
import triton.language as tl
@triton.jit
def add(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    print("at", at)
    tl.store(out_ptr + at, tl.load(x_ptr + at))
"""


@pytest.fixture(autouse=True)
def run_cells(monkeypatch):
    """The cell that the notebook ran."""
    monkeypatch.setattr(step_values, "inputs", lambda: ["", WRONG])
    monkeypatch.setattr(tries, "_failures", {})


def test_a_wrong_step_shows_values_and_prints_at_once_and_what_to_write_later(capsys):
    answers = []
    for before in (0, tries.BEFORE_CODE - 1):
        tries._failures["opening", "add"] = before
        with pytest.raises(NotYet, match="add is not right yet"):
            check("opening", step="add")
        answers.append(capsys.readouterr().out)
    assert answers[0].startswith("✗ add: `add`, line ")
    assert "The result is x alone.\n" in answers[0]
    assert "The result is x alone; y was not added.\n" in answers[-1]
    assert ["Try this: " in answer for answer in answers] == [False, True]
    assert "program 0 prints:\n  at int32 [" in answers[0]
    assert "elements of out shown are wrong, from row 0, column 0 on" in answers[0]
    assert "program 1 touches 16 of 48 elements of x, 0 of 48 elements of y, 16 of 48 elements of out;" in answers[0]


def test_a_footprint_is_what_each_program_touches_in_the_tensors_shape(monkeypatch):
    wrong = WRONG.replace("* BLOCK", "* 8")
    monkeypatch.setattr(step_values, "inputs", lambda: ["", wrong])
    touched = step_values.step_answer("opening", "add").touched
    assert [one["out_ptr"].nonzero()[0].tolist() for one in touched] == [list(range(8 * p, 8 * p + 16)) for p in range(3)]
    beyond = wrong.replace("x_ptr + at)", "x_ptr + at + 30)")
    monkeypatch.setattr(step_values, "inputs", lambda: ["", beyond])
    touched = step_values.step_answer("opening", "add").touched
    assert [one["x_ptr"].nonzero()[0].tolist() for one in touched] == [list(range(8 * p + 30, min(8 * p + 46, 48))) for p in range(3)]


def test_values_stand_side_by_side(capsys, monkeypatch):
    show_values("opening", step="add")
    head, titles, first, *_ = capsys.readouterr().out.split("\n")
    assert head.startswith("out, rows 0 to 7, columns 0 to 0")
    assert titles.split() == ["got", "expected", "difference"]
    got, expected, difference = map(float, first.split())
    assert difference == pytest.approx(got - expected, rel=1e-2)
    monkeypatch.setenv(language.PLACE, "zh")
    show_values("opening", step="add")
    assert capsys.readouterr().out.split("\n")[1].split() == ["得出", "应为", "差"]
    monkeypatch.delenv(language.PLACE)
    with pytest.raises(NotYet, match="no step 'sum'; its steps are add, "):
        show_values("opening", step="sum")
