"""docs/security.md speaks of what there is: every class of cheats once, every test and module that it names."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
CLASSES = 65


def test_every_class_has_a_line():
    rows = re.findall(r"^\| ((?:\d+(?:-\d+)?(?:, )?)+) ", PAGE, re.MULTILINE)
    numbers = []
    for part in ", ".join(rows).split(", "):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    assert len(numbers) == len(set(numbers))
    assert set(range(1, CLASSES + 1)) <= set(numbers)


def test_every_file_that_it_names_is_there():
    named = set(re.findall(r"`((?:grader|tests|docs)/[\w./]+)`", PAGE))
    assert len(named) > 25
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
