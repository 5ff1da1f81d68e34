"""What LLVM computes while it compiles is what the interpreter computes: the turns of a loop, whatever the types and signs of its bounds,
and what has no value."""

from __future__ import annotations

import json

import pytest

from tests.commands import python
from tests.language.folded import KERNELS, UNDEFINED

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """By way, compiled or interpreted, what each kernel stores."""
    folder, found = tmp_path_factory.mktemp("folded"), {}
    for what in ("compile", "interpret"):
        python("-W", "ignore", "-m", "tests.language.folded", what, folder / what)
        found[what] = json.loads((folder / what).read_text(encoding="utf-8"))
    return found


def test_the_turns_of_a_loop_are_the_compilers(stored):
    compiled, interpreted = ({name: found[name] for name in KERNELS} for found in stored.values())
    assert all(len(numbers) == 1 and numbers[0] is not None for numbers in compiled.values()), compiled
    assert interpreted == compiled


@pytest.mark.parametrize("name", UNDEFINED)
def test_what_has_no_value_to_the_compiler_has_none_here(stored, name):
    """An instruction would have had an answer, which a kernel could be right by."""
    assert stored["compile"][name] == stored["interpret"][name] == [None]


def test_an_atomic_that_no_thread_makes_has_no_answer(stored):
    assert stored["interpret"]["left_over"] == [None]
