"""Tests that go round: as many commits as a family has shares run all of them, and a name that no test has is noticed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import rotation

ROOT = Path(__file__).parents[2]
PREFIXES = [one for family in rotation.SHARES for one in ([family] if isinstance(family, str) else family)]
NAMES = [f"{prefix}[{lab}-{at}]" for prefix in PREFIXES for lab in ("w8a8", "gptq") for at in range(10)]
OTHERS = ["tests/unit/labs/test_tolerance.py::test_a", "tests/unit/labs/test_tolerance.py::test_a[gptq]"]


@pytest.fixture
def run_at(monkeypatch):
    def those(number):
        monkeypatch.setattr(rotation, "commit_number", lambda: number)
        return {*NAMES, *OTHERS} - rotation.left_out([*NAMES, *OTHERS], ["gptq"]).keys()

    monkeypatch.delenv("EVERY", raising=False)
    return those


def test_every_test_comes_round_and_each_time_another(run_at):
    for family, shares in rotation.SHARES.items():
        mine = [{name for name in run_at(number) if name.startswith(family)} for number in range(shares)]
        assert all(mine)
        assert sum(map(len, mine)) == len(set.union(*mine))
        left = {name for name in NAMES if name.startswith(family)} - set.union(*mine)
        assert all("gptq" in name and name.startswith(rotation.BONUS_TOO) for name in left)


def test_all_others_are_always_run_and_all_when_asked_for(run_at, monkeypatch):
    assert run_at(7) >= set(OTHERS)
    monkeypatch.setenv("EVERY", "all")
    assert run_at(7) == {*NAMES, *OTHERS}


def test_a_shallow_clone_has_its_turn_and_what_is_no_clone_the_first(monkeypatch):
    answers = {"--is-shallow-repository": "true", "HEAD": "0000000fe0"}
    monkeypatch.setattr(rotation, "_git", lambda *arguments: answers.get(arguments[-1], ""))
    assert rotation.commit_number.__wrapped__() == 15
    monkeypatch.setattr(rotation, "_git", lambda *arguments: "")
    assert rotation.commit_number.__wrapped__() == 0


@pytest.mark.parametrize("prefix", PREFIXES)
def test_each_family_is_of_tests_that_there_are(prefix):
    file, _, name = prefix.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert any(isinstance(one, ast.FunctionDef) and one.name.startswith(name) for one in tree.body)
