"""A loop on the interpreter has the turns that the compiler gives it, whatever the types and signs of its bounds."""

from __future__ import annotations

import json

import pytest

from tests.commands import python
from tests.language.folded import KERNELS

pytestmark = pytest.mark.slow


def stored(what, path):
    python("-W", "ignore", "-m", "tests.language.folded", what, path)
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_turns_of_a_loop_are_the_compilers(tmp_path):
    compiled = stored("compile", tmp_path / "compiled.json")
    assert all(len(numbers) == 1 and numbers[0] is not None for numbers in compiled.values()), compiled
    assert compiled.keys() == KERNELS.keys()
    assert stored("interpret", tmp_path / "interpreted.json") == compiled
