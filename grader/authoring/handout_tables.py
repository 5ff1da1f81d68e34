"""The tables of points for speed in the students' handouts: a lab's rungs, their ratios on the GPU of the record, and what they earn.

They lie between two markers of notebooks/HANDOUT.md and of its translation, and come from the tiers of that GPU, so that they say what
a grading there does. What a rung does stands in its docstring; in Chinese in the notebook's `@ladder`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from grader.authoring.record_tables import LADDER, LADDER_WORDS, Language, idea_of
from grader.judging.points import speed_points
from grader.judging.rubric import SOLUTION, load_rubric, load_tiers, rung_of
from grader.labs import all_labs
from grader.labs.contract import Lab
from grader.model import Case
from grader.reporting.benchmarks import SHOWN, load

HANDOUTS: dict[Language, str] = {"en": "HANDOUT.md", "zh": "HANDOUT.zh.md"}
OPENED, CLOSED = "<!-- rungs: `make release` writes these tables -->", "<!-- end of the rungs -->"
BETWEEN = re.compile(f"{re.escape(OPENED)}.*?{re.escape(CLOSED)}", re.DOTALL)
WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "rung": "{lab}, step by step",
        "row": "`{rung}`: {idea}",
        "legend": "What the kernel of each step that makes it faster reached on an {gpu}: how many times as fast as cuBLAS fp16 it is "
        "at each size that is timed, and the points that it earns there. On another GPU the ratios differ.",
    },
    "zh": {
        "rung": "{lab}，逐步",
        "row": "`{rung}`：{idea}",
        "legend": "每个能加速的步骤自己的 kernel 在 {gpu} 上做到了多少：在每种计时规模下是 cuBLAS fp16 的几倍速，能得多少速度分。"
        "换一种 GPU，倍数会不同。",
    },
}


def handout_files(root: Path) -> dict[str, str]:
    """Name and text of every handout below notebooks/ that has the markers, its tables as the tiers have them now. Raises Unusable."""
    found = {}
    for language, name in HANDOUTS.items():
        path = root / "notebooks" / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        place = BETWEEN.search(text)
        if place is not None:
            tables = f"{OPENED}\n\n{speed_tables(root, language)}\n\n{CLOSED}"
            found[name] = text[: place.start()] + tables + text[place.end() :]
    return found


def speed_tables(root: Path, language: Language = "en") -> str:
    """A table a lab whose ladder was measured on the record's GPU, and above them what they show. Raises Unusable."""
    gpu = load(root / SHOWN).gpu
    tables = [table for lab in all_labs().values() if (table := _table(root, lab, gpu, language))]
    return "\n\n".join([WORDS[language]["legend"].format(gpu=gpu), *tables])


def _table(root: Path, lab: Lab, gpu: str, language: Language) -> str:
    """The table of one lab, in Markdown; "" where nothing was measured."""
    measured, points = load_tiers(gpu).rungs(lab.id), speed_points(gpu, lab.id)
    if not measured:
        return ""
    ladder = sorted((root / "solutions" / "ladder").glob(f"{lab.id}_*.py"))
    ideas = _ideas(root, lab.id, ladder, language)
    ideas[SOLUTION] = LADDER_WORDS[language]["last"]
    cases = [case for case in lab.speed_cases if any(case.name in ratios for ratios in measured.values())]
    head = [
        WORDS[language]["rung"].format(lab=lab.id.upper()),
        *(_size(case, language) for case in cases),
        LADDER_WORDS[language]["points"].format(load_rubric().speed),
    ]
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(cases) + 1)}"]
    for rung, own in measured.items():
        ratios = [f"{own[case.name]:.2f}" if case.name in own else "-" for case in cases]
        name = WORDS[language]["row"].format(rung=rung, idea=ideas[rung])
        lines.append(f"| {name} | {' | '.join(ratios)} | {points[rung]:.0f} |")
    return "\n".join(lines)


def _ideas(root: Path, lab_id: str, ladder: Sequence[Path], language: Language) -> dict[str, str]:
    """What each rung of the ladder does, by name: where there is no translation, in English."""
    said = [idea_of(path) for path in ladder]
    source = root / "notebooks" / "source" / f"{lab_id}.py"
    if language != "en" and source.exists():
        text = re.sub(r"^# ?", "", source.read_text(encoding="utf-8"), flags=re.MULTILINE)
        translated = [
            [line.removeprefix("| ") for line in match["ideas"].splitlines() if line] for match in LADDER.finditer(text)
        ]
        said = next((ideas for ideas in translated if len(ideas) == len(ladder)), said)
    return {rung_of(path): idea for path, idea in zip(ladder, said, strict=True)}


def _size(case: Case, language: Language) -> str:
    words = LADDER_WORDS[language]
    text = words["token" if case.M == 1 else "tokens"].format(case.M)
    return words["sparsity"].format(text, case.w.removeprefix("sparsity_")) if case.w.startswith("sparsity_") else text
