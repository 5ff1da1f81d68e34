"""The notebook's exercises accept what is right in other words, and refuse the usual slips."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from grader.authoring.notebooks import SOURCE, instructor_notebook
from model import exercises
from model.exercises import EXERCISES, check_outputs
from tests.submissions import TESTS


def groups(weight, bits, group):
    parts = weight.view(-1, group)
    s = parts.abs().max(dim=1, keepdim=True).values / (2 ** (bits - 1) - 1)
    return ((parts / s).round().clamp(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) * s).view(weight.shape)


def smooth(x, weight):
    return (x.abs().max(dim=0).values / weight.abs().max(dim=0).values) ** 0.5


def int8(rows):
    s = rows.abs().max(dim=1, keepdim=True).values / 127
    return (rows / s).round() * s


def decompose(x, weight, threshold):
    out = x.abs().max(dim=0).values >= threshold
    return x[:, out] @ weight[:, out].t() + int8(x[:, ~out]) @ int8(weight[:, ~out]).t()


@pytest.mark.parametrize("function", [groups, smooth, decompose], ids=lambda function: function.__name__)
def test_what_is_right_is_accepted(function, capsys):
    assert check_outputs(function.__name__, function)
    assert capsys.readouterr().out.startswith(f"✓ {function.__name__}: output error")


def test_the_model_answers_of_the_notebook_are_right():
    root = TESTS.parent
    cells = instructor_notebook(root / SOURCE / "model.py", root).cells
    written = {}
    for cell in cells:
        if cell.cell_type == "code" and dict(cell.metadata.get("nbgrader", {})).get("solution"):
            exec(cell.source, {"torch": torch}, written)
    assert [check_outputs(name, function) for name, function in zip(EXERCISES, written.values(), strict=True)] == [True] * 3


WRONG = {
    "one scale a row": ("groups", lambda weight, bits, group: groups(weight, bits, weight.shape[1])),
    "truncated": ("groups", lambda weight, bits, group: weight * 0.95),
    "upside down": ("smooth", lambda x, weight: 1 / smooth(x, weight)),
    "x alone": ("smooth", lambda x, weight: x.abs().amax(dim=0)),
    "nothing done": ("smooth", lambda x, weight: torch.ones(x.shape[1])),
    "no outliers": ("decompose", lambda x, weight, threshold: int8(x) @ int8(weight).t()),
    "outliers twice": ("decompose", lambda x, weight, threshold: decompose(x, weight, threshold) * 1.1),
    "nothing written": ("decompose", lambda x, weight, threshold: None),
    "another shape": ("decompose", lambda x, weight, threshold: x),
    "arguments ignored": ("groups", lambda weight, bits, group: groups(weight, 4, 32)),
    "threshold ignored": ("decompose", lambda x, weight, threshold: decompose(x, weight, 6.0)),
    "neighbours apart": ("groups", lambda weight, bits, group: groups(weight.t().reshape(weight.shape), bits, group)),
    "codes of 8 bits": ("groups", lambda weight, bits, group: groups(weight, bits, group).to(torch.int8)),
    "an error": ("groups", lambda weight, bits, group: weight.view(7, -1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXERCISES)
def test_a_usual_mistake_is_told(name, capsys):
    for slip in EXERCISES[name].slips:
        assert not check_outputs(name, slip.function)
        assert capsys.readouterr().out.endswith(f"\n  {slip.message}\n")


def test_an_error_is_told_with_its_line_and_no_traceback(capsys):
    """Whatever the error: a name that is not there, too."""
    def misspelt(x, weight):
        return X.abs() / weight  # noqa: F821

    line = misspelt.__code__.co_firstlineno + 1
    assert not check_outputs("smooth", misspelt)
    told = f"✗ smooth: line {line} of the cell stopped with NameError: name 'X' is not defined\n    return X.abs() / weight"
    assert capsys.readouterr().out.startswith(told)


TOLD = {
    "returns nothing": ("groups", lambda weight, bits, group: None, "returns nothing, expected a tensor; write the function's body"),
    "not a function": ("groups", torch.ones(3), "found Tensor, expected a function"),
    "the other axis": ("smooth", lambda x, weight: x.abs().amax(dim=1), "the shape [512], expected [256]: one number for each feature"),
    "a factor too many": ("smooth", lambda x, weight: x.abs() / weight.abs().amax(dim=0), "returns the shape [512, 256], expected [256]"),
    "no power": ("groups", lambda weight, bits, group: weight / (bits - bits), "inf or nan"),
    "zeros": ("groups", lambda weight, bits, group: 0 * weight, "All outputs are zero here"),
}


@pytest.mark.parametrize("slip", [*WRONG, *TOLD])
def test_what_is_wrong_is_refused_and_what_cannot_be_an_answer_is_told(slip, capsys):
    exercise, function, *said = {**WRONG, **TOLD}[slip]
    assert not check_outputs(exercise, function)
    out = capsys.readouterr().out
    assert out.startswith("✗")
    assert all(words in out for words in said)


def test_a_cell_that_python_cannot_read_is_told_and_not_the_one_before_it(monkeypatch, capsys):
    cells = ["", "def groups(weight, bits, group):\n    pass", "def groups(weight, bits, group):\n    return (weight"]
    shell = SimpleNamespace(history_manager=SimpleNamespace(input_hist_raw=cells))
    monkeypatch.setattr(exercises, "running_shell", lambda: shell)
    assert not check_outputs("groups", groups)
    out = capsys.readouterr().out
    assert out.startswith("✗ groups: `groups`, line 2: the bracket `(` is never closed")
    assert out.endswith("Then run that cell, and this one.\n")


def test_an_unknown_exercise_is_refused():
    with pytest.raises(KeyError, match="the exercises are groups, smooth, decompose"):
        check_outputs("none", groups)
    assert list(EXERCISES) == ["groups", "smooth", "decompose"]
