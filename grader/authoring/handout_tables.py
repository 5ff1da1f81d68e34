"""The handouts' tables of points for speed: those of the notebooks' ladders, between two markers of HANDOUT.md and of its translation."""

from __future__ import annotations

import re
from pathlib import Path

from grader.authoring.record_tables import LADDER, Language, with_measurements
from grader.labs import all_labs

HANDOUTS: dict[Language, str] = {"en": "HANDOUT.md", "zh": "HANDOUT.zh.md"}
OPENED, CLOSED = "<!-- rungs: `make release` writes these tables -->", "<!-- end of the rungs -->"
BETWEEN = re.compile(f"{re.escape(OPENED)}.*?{re.escape(CLOSED)}", re.DOTALL)


def handout_files(root: Path) -> dict[str, str]:
    """Name and text of every handout below notebooks/ that has the markers, its tables as they are now. Raises Unusable."""
    found = {}
    for language, name in HANDOUTS.items():
        path = root / "notebooks" / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if place := BETWEEN.search(text):
            tables = f"{OPENED}\n\n{speed_tables(root, language)}\n\n{CLOSED}"
            found[name] = text[: place.start()] + tables + text[place.end() :]
    return found


def speed_tables(root: Path, language: Language = "en") -> str:
    """The table of each lab whose notebook has a ladder, in the words of its cell in this language; what they show is said once. Raises
    Unusable."""
    tables, legend = [], ""
    for lab_id in all_labs():
        source = root / "notebooks" / "source" / f"{lab_id}.py"
        text = re.sub(r"^# ?", "", source.read_text(encoding="utf-8") if source.exists() else "", flags=re.MULTILINE)
        for ladder in LADDER.finditer(text):
            if bool(ladder["ideas"]) == (language != "en"):
                table, _, legend = with_measurements(ladder[0], root, source.name, language).rpartition("\n\n")
                tables.append(f"**{lab_id.upper()}**\n\n{table}")
    return "\n\n".join([*tables, legend])
