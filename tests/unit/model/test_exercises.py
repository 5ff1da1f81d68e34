"""The notebook's exercises accept what is right in other words, and refuse the usual slips."""

from __future__ import annotations

import pytest
import torch

from grader.authoring.notebooks import SOURCE, instructor_notebook
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


@pytest.mark.parametrize("slip", WRONG)
def test_what_is_wrong_is_refused(slip, capsys):
    assert not check_outputs(*WRONG[slip])
    assert capsys.readouterr().out.startswith("✗")


@pytest.mark.parametrize("name", EXERCISES)
def test_a_usual_mistake_is_told(name, capsys):
    for slip in EXERCISES[name].slips:
        assert not check_outputs(name, slip.function)
        assert capsys.readouterr().out.endswith(f"\n  {slip.told}\n")


def test_an_unknown_exercise_is_refused():
    with pytest.raises(KeyError, match="the exercises are groups, smooth, decompose"):
        check_outputs("none", groups)
    assert list(EXERCISES) == ["groups", "smooth", "decompose"]
