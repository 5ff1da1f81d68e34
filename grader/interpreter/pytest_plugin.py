"""The fixture `watched`: a test launches a kernel under the watchers, and fails with a sentence for each thing that is wrong.

    pytest_plugins = ["grader.interpreter.pytest_plugin"]        # in conftest.py, or: pytest -p grader.interpreter.pytest_plugin

    def test_add(watched):
        x, y, out = torch.randn(1000), torch.randn(1000), torch.empty(1000)
        watched(add_kernel, (4,), x, y, out, 1000, BLOCK=256, empty=["out_ptr"])
        torch.testing.assert_close(out, x + y)

The launch is made in a process of its own (`child_process`), so the test's own may compile kernels and have a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from grader.interpreter.child_process import launch
from grader.interpreter.watched_launch import Grid, WatchedLaunch


@pytest.fixture
def watched() -> Callable[..., WatchedLaunch]:
    """`launch`, which fails the test when anything is found."""

    def launched(kernel: Any, grid: Grid, *values: Any, **options: Any) -> WatchedLaunch:
        result = launch(kernel, grid, *values, **options)
        if result.sentences:
            pytest.fail("\n".join(result.sentences), pytrace=False)
        return result

    return launched
