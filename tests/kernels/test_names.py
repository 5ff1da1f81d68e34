"""Taken together: nearly every failing case of a known mistake has its name. Runs after each mistake was graded by itself."""

from __future__ import annotations

import pytest

from tests.submissions import failed_tests, graded_mistake, mistakes


@pytest.mark.slow
def test_single_mistakes_are_named_in_nearly_every_case_they_fail():
    named = [
        test["metrics"].get("mistake") == mistake.names[0]
        for mistake in mistakes()
        if len(mistake.names) == 1
        for test in failed_tests(graded_mistake(mistake.lab, mistake.name), mistake.lab)
    ]
    assert sum(named) >= 0.95 * len(named)
