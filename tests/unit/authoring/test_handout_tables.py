"""The handouts' tables of points for speed: they are those of the tiers, in both languages, and nothing else of a handout is touched."""

from __future__ import annotations

import shutil

import pytest

from grader.authoring.handout_tables import CLOSED, HANDOUTS, OPENED, handout_files, speed_tables
from grader.judging.points import speed_points
from grader.judging.rubric import load_rubric, load_tiers
from grader.labs import all_labs
from grader.reporting.benchmarks import SHOWN, load
from tests.submissions import TESTS

ROOT = TESTS.parent


def test_the_handouts_have_the_tables_of_the_tiers():
    found = handout_files(ROOT)
    assert set(found) == set(HANDOUTS.values())
    for name, text in found.items():
        assert (ROOT / "notebooks" / name).read_text(encoding="utf-8") == text, f"run `make release`: {name} drifted"


@pytest.mark.parametrize("language", HANDOUTS)
def test_each_rung_has_its_ratios_and_its_points(language):
    gpu, tables = load(ROOT / SHOWN).gpu, speed_tables(ROOT, language)
    assert gpu in tables.splitlines()[0]
    for lab_id in all_labs():
        measured, points = load_tiers(gpu).rungs(lab_id), speed_points(gpu, lab_id)
        table = next(part for part in tables.split("\n\n") if part.startswith(f"| {lab_id.upper()}"))
        rows = {row.split("`")[1]: row.split(" | ") for row in table.splitlines()[2:]}
        assert list(rows) == list(measured)
        for rung, cells in rows.items():
            assert [cell.strip(" |") for cell in cells[-1 - len(measured[rung]) :]] == [
                *(f"{ratio:.2f}" for ratio in measured[rung].values()), f"{points[rung]:.0f}",
            ]
        assert rows["solution"][-1].strip(" |") == f"{load_rubric().speed:.0f}"


def test_what_is_around_the_tables_stays_and_a_handout_without_the_markers_is_left_alone(tmp_path):
    for folder in ("solutions/ladder", "bench/results", "notebooks/source"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "solutions" / "w8a8.py", tmp_path / "solutions")
    (tmp_path / "notebooks" / "HANDOUT.md").write_text(f"Before\n\n{OPENED}\na stale row\n{CLOSED}\n\nAfter\n", encoding="utf-8")
    (tmp_path / "notebooks" / "HANDOUT.zh.md").write_text("A page of an instructor's own\n", encoding="utf-8")
    found = handout_files(tmp_path)
    assert list(found) == ["HANDOUT.md"]
    assert found["HANDOUT.md"].startswith(f"Before\n\n{OPENED}\n\nWhat the kernel of each step")
    assert found["HANDOUT.md"].endswith(f"|\n\n{CLOSED}\n\nAfter\n")
    assert "a stale row" not in found["HANDOUT.md"]
