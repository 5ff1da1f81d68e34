"""Mistakes, styles and exploits on a GPU: as right or wrong as they are, and as on the interpreter, where that can tell."""

from __future__ import annotations

import pytest

from grader.gpu.devices import choose
from tests.submissions import CORES, mistakes, styles
from tests.verdicts import compare_all

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.xdist_group("gpu")]
STYLES = [path for path in styles() if path.suffix == ".py"]


@pytest.fixture(scope="module")
def verdicts():
    """By name, of every submission that builds."""
    return {verdict.name: verdict for verdict in compare_all(choose("cuda")[0], max(1, CORES - 2))}


def test_every_mistake_style_and_exploit_has_one_verdict(verdicts):
    assert len(verdicts) > 100
    assert [verdict for verdict in verdicts.values() if not verdict.agree] == []


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.name)
def test_other_styles_are_right(path, verdicts):
    assert verdicts[f"styles/{path.stem}"].failed == ()


def test_every_step_of_the_ladder_is_right_and_builds_for_every_case(verdicts):
    ladder = {name: one.gpu_points for name, one in verdicts.items() if name.startswith(("ladder/", "solutions/"))}
    assert len(ladder) > 20
    assert set(ladder.values()) == {60.0}


@pytest.mark.parametrize("mistake", mistakes(), ids=lambda mistake: f"{mistake.lab}-{mistake.name}")
def test_mistakes_fail(mistake, verdicts):
    assert set(mistake.fails) <= set(verdicts[f"mistakes/{mistake.lab}/{mistake.name}"].failed)
