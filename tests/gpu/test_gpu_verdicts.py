"""The verdict on a GPU is the verdict of the interpreter, save where the interpreter says that it cannot tell."""

from __future__ import annotations

import os

import pytest

from grader.gpu.devices import choose
from tests.verdicts import compare_all

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]


def test_every_mistake_style_and_exploit_has_one_verdict():
    verdicts = compare_all(choose("cuda")[0], max(1, len(os.sched_getaffinity(0)) - 2))
    assert len(verdicts) > 100
    assert [verdict for verdict in verdicts if not verdict.agree] == []
