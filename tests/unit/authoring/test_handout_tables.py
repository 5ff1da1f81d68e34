"""The handouts' tables of points for speed: they are those of the notebooks in both languages; nothing else of a handout is touched."""

from __future__ import annotations

import shutil

import pytest

from grader.authoring.handout_tables import CLOSED, HANDOUTS, OPENED, handout_files, speed_tables
from grader.judging.points import speed_points
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
def test_each_lab_has_its_steps_and_their_points(language):
    gpu, tables = load(ROOT / SHOWN).gpu, speed_tables(ROOT, language)
    assert tables.count("cuBLAS fp16") >= 1
    assert gpu in tables.split("\n\n")[-1]
    for lab_id in all_labs():
        table = tables[tables.index(f"**{lab_id.upper()}**") :].split("\n\n")[1]
        worth = [row.rstrip("| ").split(" | ")[-1] for row in table.splitlines()[2:-1]]
        steps = len(list((ROOT / "solutions" / "ladder").glob(f"{lab_id}_*.py"))) + 1
        assert len(worth) == steps
        assert [float(points) for points in worth if points != "–"] == [round(each) for each in speed_points(gpu, lab_id).values()]


def test_what_is_around_the_tables_stays_and_a_handout_without_the_markers_is_left_alone(tmp_path):
    for folder in ("solutions", "bench/results", "notebooks/source"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "notebooks" / "HANDOUT.md").write_text(f"Before\n\n{OPENED}\na stale row\n{CLOSED}\n\nAfter\n", encoding="utf-8")
    (tmp_path / "notebooks" / "HANDOUT.zh.md").write_text("A page of an instructor's own\n", encoding="utf-8")
    found = handout_files(tmp_path)
    assert list(found) == ["HANDOUT.md"]
    assert found["HANDOUT.md"].startswith(f"Before\n\n{OPENED}\n\n**W8A8**\n\n| |")
    assert found["HANDOUT.md"].endswith(f".*\n\n{CLOSED}\n\nAfter\n")
    assert "a stale row" not in found["HANDOUT.md"]
