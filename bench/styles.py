"""What right kernels in other styles earn for speed on a GPU: those of tests/styles, graded as a class."""

from __future__ import annotations

import datetime
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grader.judging.points import earned_by
from grader.judging.rubric import Tiers, load_tiers
from grader.labs import all_labs

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
BEGIN, END = "<!-- styles: begin -->", "<!-- styles: end -->"


@dataclass(frozen=True)
class Style:
    """One kernel. ratios: time of cuBLAS fp16 / its time, by speed case; a case that was not timed is left out."""

    name: str
    lab: str
    correctness: float
    ratios: Mapping[str, float]

    @property
    def mean(self) -> float:
        """The geometric mean of its ratios; 0 where a case was not timed."""
        return statistics.geometric_mean(self.ratios.values()) if len(self.ratios) == len(_cases(self.lab)) else 0.0

    def points(self, tiers: Tiers) -> float:
        """What its ratios earn by a table of tiers."""
        return earned_by(tiers, self.lab, self.ratios)


@dataclass(frozen=True)
class StyleRecord:
    """What was measured on one GPU."""

    gpu: str
    date: str
    versions: Mapping[str, str]
    styles: tuple[Style, ...]

    def obvious(self, lab: str) -> dict[str, float]:
        """The ratios of the ladder's first step on this GPU, by case."""
        tiers = load_tiers(self.gpu)
        return {case: tiers.of(lab, case)[0].measured for case in _cases(lab)}


def _cases(lab: str) -> list[str]:
    return [case.name for case in all_labs()[lab].speed_cases]


def measure() -> StyleRecord:
    """Grades every kernel of tests/styles on the GPUs of this machine. Raises CalledProcessError where the command fails."""
    from tests.submissions import styles

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in styles():
            place = folder / "submitted" / path.stem / f"{path.stem.split('_')[0]}{path.suffix}"
            place.parent.mkdir(parents=True)
            shutil.copy(path, place)
        labs = [word for lab in all_labs() for word in ("--lab", lab)]
        out = ["--device", "cuda", "--out", str(folder / "report")]
        subprocess.run(
            [sys.executable, "-m", "grader", "batch", str(folder / "submitted"), *out, *labs], cwd=ROOT, check=True
        )
        lines = (folder / "report" / "grades.jsonl").read_text(encoding="utf-8").splitlines()
    graded = [json.loads(line) for line in lines]
    device = graded[0]["report"]["device"]
    found = tuple(sorted((_style(entry) for entry in graded), key=lambda one: one.name))
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
    return StyleRecord(device["name"], date, {name: device[name] for name in ("torch", "triton", "driver")}, found)


def _style(entry: Mapping[str, Any]) -> Style:
    lab = entry["student"].split("_")[0]
    report = entry["report"]["labs"][lab]
    timed = {test["name"]: test["metrics"].get("ratio", 0.0) for test in report["tests"] if test["kind"] == "speed"}
    ratios = {name: round(ratio, 4) for name, ratio in timed.items() if ratio}
    return Style(entry["student"], lab, report["correctness"]["points"], ratios)


def to_json(record: StyleRecord) -> str:
    return json.dumps(asdict(record), indent=1) + "\n"


def load(path: Path) -> StyleRecord:
    from pydantic import TypeAdapter

    return TypeAdapter(StyleRecord).validate_json(path.read_bytes())


def table(record: StyleRecord) -> str:
    """What the styles earn, a row a lab, as Markdown."""
    tiers = load_tiers(record.gpu)
    head = (
        "lab",
        "timed in every case",
        "ratio (geometric mean)",
        "points",
        "at the first step's ratio or above",
        "fewest points of these",
    )
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for lab in all_labs():
        ours = [one for one in record.styles if one.lab == lab and one.mean]
        points = [one.points(tiers) for one in ours]
        able = [earned for one, earned in zip(ours, points, strict=True) if reaches(one, record.obvious(lab))]
        means = [one.mean for one in ours]
        cells = lab, len(ours), f"{min(means):.2f} to {max(means):.2f}", f"{min(points):.1f} to {max(points):.1f}"
        lines.append(f"| {' | '.join(map(str, (*cells, len(able), f'{min(able):.1f}' if able else '')))} |")
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    return "\n".join([*lines, "", f"*{record.gpu}, {versions}, {record.date}.*"]) + "\n"


def reaches(one: Style, ratios: Mapping[str, float]) -> bool:
    """Whether a kernel is at least as fast in every case."""
    return all(one.ratios.get(case, 0.0) >= ratio for case, ratio in ratios.items())
