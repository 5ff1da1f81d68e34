"""What right kernels in other styles earned for speed, from the record."""

from __future__ import annotations

import itertools

import pytest

from bench.styles import RESULTS, ROOT, load, reaches, table
from grader.judging.rubric import load_tiers
from tests.submissions import styles

RECORDS = sorted(RESULTS.glob("styles_*.json"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_speed_points_are_in_the_order_of_the_ratios(path):
    record, tiers = load(path), load_tiers(load(path).gpu)
    assert all(one.correctness == 60 for one in record.styles)
    for one, other in itertools.permutations(record.styles, 2):
        if one.lab == other.lab and one.mean and reaches(one, other.ratios):
            assert one.points(tiers) >= other.points(tiers), (one.name, other.name)
    assert all(one.points(tiers) > 0 for one in record.styles if reaches(one, record.obvious(one.lab)))


def test_the_page_shows_the_record():
    text = (ROOT / "docs" / "timing.md").read_text(encoding="utf-8")
    assert all(table(load(path)) in text for path in RECORDS)
    names = {path.stem for path in styles()}
    assert {one.name for path in RECORDS for one in load(path).styles} <= names
