"""SIGKILL for the course server, its workers and the process of its GPU while students submit: nothing lost, nothing graded twice.

`python -m tests.course_evening kills` is the long run, and with `--ray` the one in which nodes of a cluster are killed.
"""

from __future__ import annotations

import pytest

from tests.course_evening import KINDS, kills

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("batch")]


def test_killed_everywhere_the_queue_is_worked_off(tmp_path):
    found = kills(tmp_path, len(KINDS), seed=1, submissions=16)
    assert found == {
        "killed": dict.fromkeys(KINDS, 1),
        "submitted": 16,
        "accepted": 16,
        "not answered": 0,
        "queued twice": 0,
        "graded or answered twice": 0,
        "kernels": 8,
        "verdicts": 8,
        "tokens or sources in the log": 0,
        "processes left": 0,
    }
