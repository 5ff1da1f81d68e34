"""compute-sanitizer: every access of a launch, seen on the GPU itself, for kernels that the interpreter cannot run.

The launches are made by a process of their own (sanitized.py) under `compute-sanitizer --tool memcheck`, in which each tensor is an
allocation of exactly its bytes. It sees accesses outside the allocations, not those between the rows of a strided view, nor races.
It takes seconds, and the GPU, so it runs when nothing is timed. Its report and the process's own are read line by line, to a limit:
the kernel had the GPU while they were written.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader.labs import Lab
from grader.model import KernelBundle, SanitizerResult
from grader.running.tools import launches, run_tool

SECONDS = 120.0
"""All launches of a kernel together, the start of Python included; a right kernel takes ten."""
SUMMARY = "ERROR SUMMARY"
SIZE = re.compile(r"\bof size (\d{1,20})")
MAX_REPORT = 1 << 20
MAX_LINE = 400
MAX_ERRORS = 20
UNSEEN_BY_THE_INTERPRETER = ("inline_asm", "dot_scaled", "globaltimer", "smid")
"""Names in a kernel's text with which the interpreter is not tried in vain; what else it cannot run is not seen at all."""
WHEELS = ("*/compute-sanitizer/compute-sanitizer", "*/bin/compute-sanitizer")
"""Where the wheels of nvidia-cuda-sanitizer-api put it, below the package `nvidia`."""
TOOLKIT = "/usr/local/cuda/bin/compute-sanitizer"


@dataclass(frozen=True)
class SeenError:
    """One error of memcheck: what was done, in how many bytes, by which block, and how far from which allocation ("" and 0: not said)."""

    verb: str
    size: int
    block: str = ""
    distance: int = 0
    side: str = ""
    allocation: int = 0


def installed() -> str | None:
    """The tool's path, or None."""
    if found := shutil.which("compute-sanitizer"):
        return found
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or ())] if spec else []
    wheels = (str(path) for root in roots for pattern in WHEELS for path in sorted(root.glob(pattern)))
    return next((path for path in (*wheels, TOOLKIT) if os.access(path, os.X_OK)), None)


def needed(bundle: KernelBundle) -> bool:
    """Whether the interpreter will not run this kernel."""
    return any(name in bundle.made.text for name in UNSEEN_BY_THE_INTERPRETER)


def watch(
    lab: Lab, bundle: KernelBundle, pairs: Sequence[tuple[str, int]], seed: int, capability: int, gpu: str
) -> list[SanitizerResult]:
    """What memcheck saw of these launches, in order; those that it did not come to are missing. Nothing where it is not installed."""
    tool = installed()
    if tool is None:
        return []
    with tempfile.TemporaryDirectory(prefix="sanitized-") as folder:
        progress, report = Path(folder, "progress"), Path(folder, "report")
        memcheck = ("--tool", "memcheck", "--print-limit", str(MAX_ERRORS), "--log-file", str(report))
        launching = launches(Path(folder), lab, bundle, pairs, seed, capability)
        run_tool([tool, *memcheck, *launching], gpu, SECONDS)
        seen = _bounded(report)
        # without its summary the tool did not come to its end
        return watches(_bounded(progress), read_report(seen)) if SUMMARY in seen else []


def _bounded(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_REPORT).decode(errors="replace")
    except OSError:
        return ""


def lines(text: str) -> Iterator[str]:
    """The lines of a text within its limit, each cut to MAX_LINE."""
    return (line[:MAX_LINE] for line in text[:MAX_REPORT].split("\n"))


def read_report(text: str) -> list[SeenError]:
    """The first errors in a report of memcheck."""
    found: list[SeenError] = []
    for line in lines(text):
        words = line.lstrip("= ").replace(",", " ").split()
        if words[:1] == ["Invalid"] and len(words) > 2:
            if len(found) == MAX_ERRORS:
                break
            size = SIZE.search(line)
            found.append(SeenError(words[2], int(size[1]) if size else 0))
        elif found and words[:2] == ["by", "thread"] and "block" in words:
            found[-1] = replace(found[-1], block=" ".join(words[words.index("block") + 1 :][:3]))
        elif found and words[:2] == ["and", "is"] and "allocation" in words and len(words) > 4:
            at = words.index("allocation")
            address = words[at + 2] if len(words) > at + 2 else ""
            found[-1] = replace(found[-1], distance=_number(words[2]), side=words[4], allocation=_number(address))
    return found


def _number(word: str) -> int:
    """A decimal or hexadecimal number of at most 64 bits; 0 for anything else."""
    try:
        return int(word[:20], 0) if word.startswith("0x") else int(word[:20])
    except ValueError:
        return 0


def watches(progress: str, errors: Sequence[SeenError]) -> list[SanitizerResult]:
    """Of each launch that the process told of whether memcheck found an error in it. It ends with the first one that does.

    Errors that no launch ended with are those of any of them: then none is clean.
    """
    launches = []
    for line in lines(progress):
        try:
            entry = json.loads(line)
            launches.append((str(entry["case"]), int(entry["config"]), bool(entry["ended"]), dict(entry["tensors"])))
        except (ValueError, KeyError, TypeError):
            continue
    if errors and all(ended for _, _, ended, _ in launches):
        launches = [(case, config, False, tensors) for case, config, _, tensors in launches]
    return [
        SanitizerResult(case, config, "" if ended else _fault(errors, tensors))
        for case, config, ended, tensors in launches
    ]


def _fault(errors: Sequence[SeenError], tensors: dict[str, int]) -> str:
    """The first error in words. tensors: by name, where each was."""
    if not errors:
        return "ended with an error under compute-sanitizer"
    error = errors[0]
    verb = {"read": "reads", "write": "writes"}.get(error.verb, "uses")
    name = next((name for name, address in tensors.items() if address == error.allocation), "").removesuffix("_ptr")
    place = (
        f"{error.distance} bytes {error.side} {name}"
        if name and error.side in ("after", "before")
        else "outside its tensors"
    )
    block = f", in program {error.block}" if error.block else ""
    return f"{verb} {error.size} bytes, {place}{block}, as compute-sanitizer saw; mask it, or fix the address"
