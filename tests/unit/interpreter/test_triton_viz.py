"""docs/triton-viz.md shows the launches that were recorded, and no difference without its reason."""

from __future__ import annotations

import json

from tests.triton_viz_table import PAGE, RECORD, difference, page

ROWS = json.loads(RECORD.read_text(encoding="utf-8"))


def test_the_page_is_the_records():
    assert PAGE.read_text(encoding="utf-8") == page(ROWS)


def test_every_difference_has_its_reason():
    launched = {name: row for name, row in ROWS.items() if not row["launch"]}
    assert [name for name, row in launched.items() if not difference(row, ROWS[f"{row['lab']}_plain"])] == []


def test_no_right_kernel_is_accused_and_wrong_ones_are_among_them():
    assert sum(not row["right"] for row in ROWS.values()) >= 10
    assert [name for name, row in ROWS.items() if row["right"] and row["watched"].get("lines") != {}] == []
