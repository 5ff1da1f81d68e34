"""Which kernels of a lab are wrong, and what is wrong with them? Edits of right ones, as grader/labs/ID/mistakes.toml lists them, and
grader/labs/mistakes.toml for all labs whose kernel they fit.

The files are not among those that students get: the edits show what is right, and their bases are solved kernels.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.labs import Lab, all_labs
from grader.labs.edits import BadEdit, Edit, edited, kernel_text, read_edits
from grader.unusable import Unusable

SHARED = "grader/labs/mistakes.toml"
ROOT = Path(__file__).parents[2]
TYPES: dict[str, type] = {
    "name": str,
    "says": str,
    "hint": str,
    "base": str,
    "edits": list,
    "file": str,
    "case": str,
    "fails": list,
    "names": list,
    "out_of_bounds": list,
    "lines": list,
}
REQUIRED = ("name", "says", "names")


@dataclass(frozen=True)
class WrongKernel:
    """One entry: a kernel with one mistake or with several.

    says: finishes the sentence "the kernel ...". source: the wrong kernel; base: the right one that `edits` change, None for a whole file,
    of which `lines` are wrong. names: what is to be named, in the order of the flow, alternatives as "a or b". fails: cases that fail with
    every config of the base; none for a mistake that is explained and not graded. out_of_bounds: how the lines begin that the memory check
    reports.
    """

    lab: str
    name: str
    says: str
    source: str
    base: str | None
    edits: tuple[Edit, ...]
    names: tuple[str, ...]
    hint: str = ""
    fails: tuple[str, ...] = ()
    out_of_bounds: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()


def alternatives(names: Iterable[str]) -> set[str]:
    """The single names in names such as "a or b"."""
    return {one for name in names for one in name.split(" or ")}


def catalogue(lab_id: str, root: Path = ROOT) -> Path:
    """Where a lab's mistakes are listed, whether it has any or not."""
    return root / "grader" / "labs" / lab_id / "mistakes.toml"


def wrong_kernels(lab: Lab, root: Path = ROOT) -> tuple[WrongKernel, ...]:
    """Every wrong kernel of a lab, its own first; none without its file. Raises Unusable.

    A lab's own entry takes the place of one for all labs that has its name.
    """
    path = catalogue(lab.id, root)
    if not path.is_file():
        return ()
    found: dict[str, WrongKernel] = {}
    sources: dict[str, str] = {}
    own = list(_own(lab, root))
    names = {kernel.name for kernel, _ in own}
    for kernel, where in (*own, *(one for one in _shared(lab, root) if one[0].name not in names)):
        if kernel.name in found:
            raise Unusable(f"{where}: the name is there twice, expected once; rename one of the two")
        if kernel.source in sources:
            raise Unusable(f"{where}: the same kernel as `{sources[kernel.source]}`, expected another; merge the two")
        found[kernel.name], sources[kernel.source] = kernel, kernel.name
    return tuple(found.values())


def _own(lab: Lab, root: Path) -> Iterator[tuple[WrongKernel, str]]:
    """The entries of a lab's own file, and where each stands."""
    for entry, base, where in _entries(catalogue(lab.id, root), root, {case.name for case in lab.cases}):
        yield _kernel(entry, lab.id, base, root, where), where


def _shared(lab: Lab, root: Path) -> Iterator[tuple[WrongKernel, str]]:
    """The entries for all labs whose every edit finds its place in the lab's kernel, with the cases that the lab has."""
    if not (root / SHARED).is_file():
        return
    known = {case.name for one in all_labs().values() for case in one.cases}
    for entry, pattern, where in _entries(root / SHARED, root, known):
        base = pattern.format(lab=lab.id)
        text = (root / base).read_text(encoding="utf-8") if (root / base).is_file() else ""
        cases = [case.name for case in lab.cases if case.name in entry.get("fails", ())]
        if cases and all(text.count(edit.find) == 1 for edit in read_edits(entry.get("edits", ()))):
            yield _kernel({**entry, "fails": cases}, lab.id, base, root, where), where


def _entries(path: Path, root: Path, cases: set[str]) -> Iterator[tuple[Mapping[str, Any], str, str]]:
    """The entries of a file, each with the file's base and where it stands. cases: those that there are. Raises Unusable."""
    place = path.relative_to(root)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise Unusable(f"{place}: {error}, expected TOML; correct that line") from None
    if unknown := set(data) - {"base", "mistake"}:
        raise Unusable(f"{place}: `{min(unknown)}` at the top, expected `base` and [[mistake]] entries; remove it")
    for number, entry in enumerate(data.get("mistake", []), 1):
        where = f"{place}, `{entry.get('name', f'entry {number}')}`"
        for fault in _faults(entry, cases):
            raise Unusable(f"{where}: {fault}")
        yield entry, str(data.get("base", "")), where


def _faults(entry: Mapping[str, Any], cases: set[str]) -> Iterator[str]:
    """What is wrong with the form of an entry. cases: those that there are."""
    for key, value in entry.items():
        if fault := _fault(key, value):
            yield fault
    for key in REQUIRED:
        if key not in entry:
            yield f"there is no `{key}`, expected {', '.join(REQUIRED)} in every entry; add it"
    if ("edits" in entry) == ("file" in entry):
        yield "expected either `edits` of a right kernel or a `file` that holds the wrong one; give one of the two"
    if "file" in entry and "base" in entry:
        yield "`base` beside `file`, which is a whole kernel; remove one of the two"
    if ("case" in entry) == ("fails" in entry):
        yield "expected either `fails`, the cases that must fail, or `case`, one that shows what is only explained; give one of the two"
    try:
        read_edits(entry.get("edits", ()))
    except BadEdit as problem:
        yield str(problem)
    for name in (*entry.get("fails", ()), *([entry["case"]] if "case" in entry else [])):
        if name not in cases:
            yield f"there is no case `{name}`; a lab's cases are in its lab.py"


def _fault(key: str, value: Any) -> str:
    """What is wrong with one field of an entry; "" for nothing."""
    listed = value if key in ("fails", "names", "out_of_bounds") and isinstance(value, list) else ()
    if key not in TYPES:
        return f"`{key}` is not known, expected one of {', '.join(TYPES)}; remove or rename it"
    if not isinstance(value, TYPES[key]):
        return f"`{key}` is {value!r}, expected a {TYPES[key].__name__}"
    if value == "" or (isinstance(value, list) and not value):
        return f"`{key}` is empty; fill it in or leave it out"
    if others := [one for one in listed if not isinstance(one, str)]:
        return f"`{key}` holds {others[0]!r}, expected text"
    return ""


def _kernel(entry: Mapping[str, Any], lab_id: str, default: str, root: Path, where: str) -> WrongKernel:
    edits = read_edits(entry.get("edits", ()))
    name = entry.get("file") or entry.get("base") or default
    try:
        text = kernel_text(name, root)
        source = edited(text, edits, name)
    except BadEdit as problem:
        raise Unusable(f"{where}: {problem}") from None
    said: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in entry.items()
        if key not in ("base", "edits", "file", "case")
    }
    return WrongKernel(lab=lab_id, source=source, base=text if edits else None, edits=edits, **said)
