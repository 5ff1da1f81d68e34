"""The kernels of the table: wrong ones of the corpus and of classes written blind, and right ones of which nothing may be said."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.labs.edits import kernel_text
from tests.submissions import TESTS, corpus, exploits, styles

RIGHT = "right"


@dataclass(frozen=True)
class Kernel:
    """One kernel of the table. kind: single, several or right. expected: alternatives of a name are put `a or b`.

    edited: the lines that make it wrong; None where it is no edit of a right one. truth: what is wrong, where only a reader can
    compare it with what is said. of: the class that was written blind, "" for none.
    """

    lab: str
    name: str
    kind: str
    source: str
    expected: tuple[str, ...] = ()
    edited: tuple[int, ...] | None = None
    suffix: str = ".py"
    truth: tuple[str, ...] = ()
    of: str = ""


def wrong_kernels() -> Iterator[Kernel]:
    """Every entry of the corpus."""
    for one in corpus():
        lines = edited(one.base, one.source) if one.base is not None else one.lines or None
        yield Kernel(one.lab, one.name, "several" if len(one.names) > 1 else "single", one.source, one.names, lines)


def right_kernels() -> Iterator[Kernel]:
    """Kernels of which nothing may be said: styles, solutions, right ones of classes written blind, and those whose trick is never run."""
    solutions = TESTS.parent / "solutions"
    for path in (*styles(), *sorted(solutions.glob("*.py")), *sorted((solutions / "ladder").glob("*.py"))):
        lab = path.stem.split("_")[0]
        yield Kernel(lab, path.stem, RIGHT, path.read_text(encoding="utf-8"), suffix=path.suffix)
    for one in exploits():
        if one.expect == "inert":
            yield Kernel(one.lab, f"{one.number}-{one.name}", RIGHT, one.source)
    for path in sorted((TESTS / "corpus").glob("*.toml")):
        yield from (kernel for kernel in blind_kernels(path) if kernel.kind == RIGHT)


def edited(base: str, text: str) -> tuple[int, ...]:
    """The lines of a text that differ from its base; where lines are only missing, the two beside the gap."""
    lines: list[int] = []
    for tag, _, _, start, stop in difflib.SequenceMatcher(
        None, base.split("\n"), text.split("\n"), autojunk=False
    ).get_opcodes():
        if tag != "equal":
            lines += range(start + 1, stop + 1) if stop > start else (start, start + 1)
    return tuple(lines)


def blind_kernels(path: Path) -> Iterator[Kernel]:
    """Kernels that were written without a look at the grader, of a folder of files and a `truth.toml` that says where each is wrong, and in
    no name of ours, or of a file that holds texts and truth; a right one has no mistakes."""
    listed = path if path.suffix == ".toml" else path / "truth.toml"
    for entry in tomllib.loads(listed.read_text(encoding="utf-8"))["kernel"]:
        if "mistakes" not in entry:
            continue
        file = Path(entry.get("file", f"{entry.get('name')}.py"))
        where = path / file if "file" in entry else f"{path}:{entry['name']}"
        truth = entry["mistakes"]
        yield Kernel(
            entry["lab"],
            file.with_suffix("").as_posix(),
            "several" if len(truth) > 1 else "single" if truth else RIGHT,
            kernel_text(str(where), TESTS.parent),
            edited=tuple(line for mistake in truth for line in mistake["lines"]) or None,
            suffix=file.suffix,
            truth=tuple(mistake["says"] for mistake in truth),
            of=path.stem,
        )
