"""Which kernels of a lab are wrong, and what is wrong with them? Edits of right ones, as grader/labs/ID/mistakes.toml lists them.

The files are not among those that students get: the edits show what is right, and their bases are solved kernels.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.labs.contract import Lab
from grader.labs.edits import BadEdit, Edit, edited, read_edits

ROOT = Path(__file__).parents[2]
TYPES: dict[str, type] = {
    "name": str,
    "says": str,
    "hint": str,
    "base": str,
    "edits": list,
    "file": str,
    "case": str,
    "config": int,
    "fails": list,
    "names": list,
    "reason": str,
    "out_of_bounds": list,
}
REQUIRED = ("name", "says", "names")


class BadMistake(ValueError):
    """A mistakes.toml that cannot be used; the message says where, what was expected and what to do."""


@dataclass(frozen=True)
class WrongKernel:
    """One entry: a kernel with one mistake or with several.

    says: finishes the sentence "the kernel ...". source: the wrong kernel; base: the right one that `edits` change, None for a whole
    file. names: what is to be named, in the order of the flow, alternatives as "a or b". fails: cases that fail with every config of
    the base. case, config: the launch that shows all of `names`. reason: words of the first sentence. out_of_bounds: how the lines
    begin that the memory check reports.
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
    case: str | None = None
    config: int = 0
    reason: str = ""
    out_of_bounds: tuple[str, ...] = ()

    @property
    def expected(self) -> set[str]:
        """Every name that may be given to it."""
        return alternatives(self.names)


def alternatives(names: Iterable[str]) -> set[str]:
    """The single names in names such as "a or b"."""
    return {one for name in names for one in name.split(" or ")}


def catalogue(lab_id: str, root: Path = ROOT) -> Path:
    """Where a lab's mistakes are listed, whether it has any or not."""
    return root / "grader" / "labs" / lab_id / "mistakes.toml"


def wrong_kernels(lab: Lab, root: Path = ROOT) -> tuple[WrongKernel, ...]:
    """Every wrong kernel of a lab; none without its file. Raises BadMistake."""
    path = catalogue(lab.id, root)
    if not path.is_file():
        return ()
    place = path.relative_to(root)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise BadMistake(f"{place}: {error}, expected TOML; correct that line") from None
    if unknown := set(data) - {"base", "mistake"}:
        raise BadMistake(f"{place}: `{min(unknown)}` at the top, expected `base` and [[mistake]] entries; remove it")
    found: dict[str, WrongKernel] = {}
    sources: dict[str, str] = {}
    for number, entry in enumerate(data.get("mistake", []), 1):
        where = f"{place}, `{entry.get('name', f'entry {number}')}`"
        for fault in _faults(entry, lab):
            raise BadMistake(f"{where}: {fault}")
        kernel = _kernel(entry, lab.id, data.get("base", ""), root, where)
        if kernel.name in found:
            raise BadMistake(f"{where}: the name is there twice, expected once; rename one of the two")
        if kernel.source in sources:
            raise BadMistake(f"{where}: the same kernel as `{sources[kernel.source]}`, expected another; merge the two")
        found[kernel.name], sources[kernel.source] = kernel, kernel.name
    return tuple(found.values())


def _faults(entry: Mapping[str, Any], lab: Lab) -> Iterator[str]:
    """What is wrong with the form of an entry."""
    for key, value in entry.items():
        if key not in TYPES:
            yield f"`{key}` is not known, expected one of {', '.join(TYPES)}; remove or rename it"
        elif not isinstance(value, TYPES[key]) or isinstance(value, bool):
            yield f"`{key}` is {value!r}, expected a {TYPES[key].__name__}"
        elif value == "" or (isinstance(value, list) and not value):
            yield f"`{key}` is empty; fill it in or leave it out"
    for key in REQUIRED:
        if key not in entry:
            yield f"there is no `{key}`, expected {', '.join(REQUIRED)} in every entry; add it"
    if ("edits" in entry) == ("file" in entry):
        yield "expected either `edits` of a right kernel or a `file` that holds the wrong one; give one of the two"
    if "file" in entry and "base" in entry:
        yield "`base` beside `file`, which is a whole kernel; remove one of the two"
    if "case" not in entry and "fails" not in entry:
        yield "there is neither `fails` nor `case`, so nothing shows it; name the cases that must fail"
    try:
        read_edits(entry.get("edits", ()))
    except BadEdit as problem:
        yield str(problem)
    for key in ("fails", "names", "out_of_bounds"):
        for one in entry.get(key, ()):
            if not isinstance(one, str):
                yield f"`{key}` holds {one!r}, expected text"
    cases = {case.name for case in lab.cases}
    for name in (*entry.get("fails", ()), *([entry["case"]] if "case" in entry else [])):
        if name not in cases:
            yield f"{lab.id} has no case `{name}`; its cases are in grader/labs/{lab.id}/lab.py"


def _kernel(entry: Mapping[str, Any], lab_id: str, default: str, root: Path, where: str) -> WrongKernel:
    edits = read_edits(entry.get("edits", ()))
    name = entry.get("file") or entry.get("base") or default
    path = root / name
    if not path.is_file():
        raise BadMistake(f"{where}: there is no file {name!r}, expected a kernel by its path in this repository; correct `base` or `file`")
    text = path.read_text(encoding="utf-8")
    try:
        source = edited(text, edits, name)
    except BadEdit as problem:
        raise BadMistake(f"{where}: {problem}") from None
    return WrongKernel(
        lab_id, entry["name"], entry["says"], source, text if edits else None, edits, tuple(entry["names"]),
        entry.get("hint", ""), tuple(entry.get("fails", ())), entry.get("case"), entry.get("config", 0), entry.get("reason", ""),
        tuple(entry.get("out_of_bounds", ())),
    )  # fmt: skip
