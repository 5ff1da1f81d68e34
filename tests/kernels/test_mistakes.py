"""Wrong kernels, as students write them, must fail the cases that were made for them."""

from __future__ import annotations

import pytest

from tests.submissions import failed_cases, graded_mistake, mistakes, with_mistakes

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mistake", mistakes(), ids=lambda mistake: f"{mistake.lab}-{mistake.name}")
def test_mistake_fails_its_cases(mistake):
    report = graded_mistake(mistake.lab, mistake.name)
    lab = report["labs"][mistake.lab]
    assert lab["status"] in ("graded", "crash"), lab["message"]
    assert lab["correctness"]["points"] < lab["correctness"]["max_points"]
    assert set(mistake.fails) <= failed_cases(report, mistake.lab)


@pytest.mark.parametrize("mistake", mistakes(), ids=lambda mistake: f"{mistake.lab}-{mistake.name}")
def test_every_failure_has_a_reason(mistake):
    report = graded_mistake(mistake.lab, mistake.name)
    for test in report["labs"][mistake.lab]["tests"]:
        if test["status"] == "failed":
            assert len(test["message"]) > 20
            assert "Traceback" not in test["message"]


def test_every_lab_has_mistakes_enough():
    for lab in with_mistakes():
        assert sum(mistake.lab == lab for mistake in mistakes()) >= 8
