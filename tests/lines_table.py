"""The tree of the grader with the lines of each package beside its budget, as docs/architecture.md shows it.

    python -m tests.lines_table        writes it there

Lines are those of Python files, with docstrings and blank ones. The formatter lays out those of grader/ alone, not of tests/, bench/ and
model/. A test wants what is shown to be no further than 0.1 thousand from today.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- lines: python -m tests.lines_table -->\n", "<!-- end of lines -->\n"


@dataclass(frozen=True)
class Part:
    """Packages that share a budget, in thousand lines; `why`: what makes it more."""

    names: tuple[str, ...]
    budget: float
    what: str
    why: str = ""


PARTS = (
    Part(
        ("model.py", "late_torch.py", "parsing.py", "plain_files.py", "unusable.py"), 0.6, "what travels",
        "model.py alone is 0.7: one dataclass for each thing that travels, with every field's meaning and unit",
    ),
    Part(
        ("reading",), 1.3, "path -> KernelSource",
        "which file and which cell a line came from 0.44, the statements that a kernel needs 0.38, what may be built 0.26, files and "
        "notebooks 0.26, the answers to questions 0.22, executed cells and other folders 0.13",
    ),
    Part(("sandbox",), 2.0, "the walls: confined processes, warm pool, limits, wire format"),
    Part(
        ("interpreter",), 3.6, "Triton's interpreter made to agree with the compiler, and its watchers",
        "corrections 1.7, watchers 1.4, records 0.6, anybody's kernels (command, fixture) 0.7, and for speed: lockstep 0.4 (without it the "
        "five solutions take 2.5 times the CPU time on the interpreter), plans 0.21 (1.5 times where programs run one after the other, as "
        "most wrong kernels' do; 1.05 to 1.3 else), types 0.05 (1.2 times)",
    ),
    Part(
        ("building",), 2.6, "KernelSource -> KernelBundle; sandboxed/ is what of it runs in a sandbox",
        "sandboxed/ also reads PTX and turns Triton's errors into data: 0.5 that were counted in sandbox/",
    ),
    Part(("compile_errors",), 2.0, "what Triton's errors mean"),
    Part(
        ("running", "timing", "gpu"), 2.4, "launches, the clock, devices",
        "compute-sanitizer for kernels that the interpreter cannot watch 0.3, profiles by ncu or Proton 0.3, "
        "a process for hidden cases, launches that share a sandbox",
    ),
    Part(
        ("judging",), 1.3, "right or wrong, rubric, score",
        "with `judge`, which was the pipeline's; what slices add; sentences of the memory check are a quarter",
    ),
    Part(
        ("diagnosis",), 3.2, "the relation, the fit, the catalogue, the sentences",
        "the engine (tape, provenance, flow) is 0.9, the line (definition, mending, looping) 0.9; the rest: nine columns",
    ),
    Part(
        ("labs",), 5.5,
        "contract and recipes 1.84; each lab's folder at most 0.65, but gptq 0.85 (zero points are one more packed tensor with a recipe, a "
        "step and a relation of its own, and cases with groups of several sizes), w8a8 0.74 (rounding, the int32 sum and the rescaling are "
        "steps of their own: 6, and 6 steps towards speed) and dds 0.68 (recipes of block patterns, and inputs by block row for 5 steps)",
    ),
    Part(
        ("notebook", "exercises", "client"), 1.9, "check, steps, predictions, pictures in cells; the course server's client",
        "steps towards speed (speed_path, speeding) are 0.4, the exercises 0.3, the client 0.2",
    ),
    Part(
        ("traffic", "reporting"), 3.4, "what a launch does to memory; how a report looks",
        "pictures are 1.1: one function draws one picture and its text for those who cannot see it",
    ),
    Part(
        ("pipeline", "cli", "authoring"), 2.5, "the stages in order; commands; how students' files are made",
        "commands with a sentence for each option are 1.5, the server's and `lab` among them; slips and catalogue computed by running 0.4",
    ),
    Part(
        ("classroom",), 5.4, "batch, roster, exports, nbgrader, Gradescope; the course server",
        "taking in what Canvas, Moodle, Gradescope and nbgrader deliver 1.2, the account of every file 0.2, nbgrader 0.6, pages of the "
        "class 0.6, Ray 0.3, the roster 0.2, hidden cases and secrets 0.2",
    ),
)


WHOLE = (
    "what the rows name; on 2026-11-30 all of it was read for machinery that the same behaviour does without, and 1.8 went, 1 to 8 in a "
    "hundred of each package; what is left is sentences that are read, cases that tests assert, and walls; 1.0 came since: a hand-in for "
    "each lab, the compiler's own failures, what has no value when compiled, numbers of tiles; "
    "0.5 went on 2026-12-01, rules of the diagnosis and copies in the interpreter"
)


def lines(name: str) -> int:
    """Of a package, or of a module beside the packages."""
    place = ROOT / "grader" / name
    files = [place] if place.is_file() else place.rglob("*.py")
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def everything(folder: str) -> int:
    """Of all of grader/, what has no budget of its own among it; or of another folder."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / folder).rglob("*.py"))


def rows() -> list[tuple[str, float, float, str, str]]:
    """Packages, budget, thousand lines today, what they are, and why they are more."""
    found = []
    for part in PARTS:
        today = sum(map(lines, part.names)) / 1000
        names = ", ".join(f"`{name}`" if name.endswith(".py") else f"`{name}/`" for name in part.names)
        found.append((names, part.budget, today, part.what, part.why if today >= part.budget + 0.05 else ""))
    handed_in = everything("tests/styles") / 1000
    found.append(("all of `grader/`", 38.0, everything("grader") / 1000, "", WHOLE))
    data = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "tests").rglob("*.toml")) / 1000
    shares = {name: everything(f"tests/{name}") / 1000 for name in ("unit", "language", "integration", "gpu", "kernels")}
    why = (
        f"{shares['unit']:.1f} are unit tests, {handed_in:.1f} right kernels, {shares['language']:.1f} the table of the language, "
        f"{shares['integration']:.1f} integration, {shares['gpu']:.1f} on a GPU, {shares['kernels']:.1f} kernels, the rest helpers, "
        f"tables and faults; of 286 tests whose lines another one executes too, 246 assert something of their own; {data:.1f} of TOML, "
        "which does not count, are kernels and rows of tests"
    )
    return [*found, ("`tests/`", 22.0, everything("tests") / 1000, "kernels and rows are data", why)]


def table() -> str:
    """As Markdown."""
    head = "| thousand lines | budget | today | what | why more |\n|---|---|---|---|---|\n"
    return head + "".join(f"| {names} | {budget:.1f} | {today:.1f} | {what} | {why} |\n" for names, budget, today, what, why in rows())


def shown() -> dict[str, float]:
    """What the page says, by packages."""
    text = PAGE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0]
    return {names: float(today) for names, today in re.findall(r"^\| ([^|]+) \| [\d.]+ \| ([\d.]+) \|", text, re.MULTILINE)}


def main() -> None:
    """Writes the page."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{table()}{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
