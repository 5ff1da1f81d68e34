"""Where a GPU ran a launch, the tolerance allows for no more slices than the interpreter saw added to Y."""

from __future__ import annotations

import pytest

from grader.judging.checking import Finding
from grader.labs import get_lab
from grader.model import KernelBundle, MadeModule, Outcome
from grader.pipeline import judging
from grader.pipeline.judging import Ran, with_fewer_slices

AGAIN = Finding(False, "judged again")


@pytest.mark.parametrize(
    ("additions", "slices", "again"), [(0, 16, True), (1, 16, True), (16, 16, False), (0, 1, False), (None, 16, False)]
)
def test_a_finding_is_judged_again_for_fewer_slices(monkeypatch, additions, slices, again):
    first = Finding(True, "", slices=slices)
    monkeypatch.setattr(judging, "check", lambda *given: AGAIN)
    bundle = KernelBundle("w4a16", (), {}, {}, MadeModule("", "", ()))
    ran = Ran([Outcome("one", 0, "ran")], [Outcome("one", 0, "ran", additions=additions)])
    problems = {"one": None}
    assert with_fewer_slices(get_lab("w4a16"), bundle, problems, ran, [first], {}) == [AGAIN if again else first]
