"""From slips.toml to what a check compares with: each slip's edit of the step's solution, run once on the step's inputs.

slips.toml lies beside a notebook's steps: `[[slip]]` tables with `step`, `what`, `edits` of the lines between the step's solution
markers (or `body` in their place) and, where one line can be named, `at`. What it gives lies next to it and is for students:
slips.json holds the sentences, slips.npz the results, by a digest of the edited step and of its inputs. So only what has changed is
run again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from grader.authoring.notebooks import SOURCE, instructor_notebook
from grader.authoring.release import BEGIN, END
from grader.exercises import RESULTS, SENTENCES, steps_of
from grader.labs.edits import edited, read_edits
from grader.labs.notebook_step import Step
from grader.model import KernelSource, Refusal
from grader.notebook.harness import problem_of, result_of
from grader.notebook.step_words import Deviation, deviation
from grader.reading import read_step
from grader.running.cpu import InterpretOptions
from grader.unusable import Unusable

CATALOGUE = "slips.toml"
SECONDS = 60.0


@dataclass(frozen=True)
class WrongStep:
    """One slip: its sentence, the regular expression of its line, and the step with the mistake in it.

    digest: of all that its result depends on, the edited functions with the harness and the step's inputs.
    """

    name: str
    step: Step
    what: str
    at: str
    source: KernelSource
    digest: str


def catalogues(root: Path) -> list[Path]:
    """Every slips.toml of the repository."""
    return sorted(
        path for folder in ("exercises", "labs") for path in (root / "grader" / folder).glob(f"*/{CATALOGUE}")
    )


def entries(catalogue: Path, root: Path) -> list[WrongStep]:
    """The slips of a notebook, their edits applied. Raises Unusable, and what the notebook's source raises."""
    notebook = catalogue.parent.name
    written = instructor_notebook(root / SOURCE / f"{notebook}.py", root).cells
    cells = [cell for cell in written if cell.cell_type == "code" and "triton" in cell.source]
    ids = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in cells]
    steps = {name: step for name, step in steps_of(notebook).items() if f"{notebook}_step_{name}" in ids}
    inputs = {name: _inputs_digest(step) for name, step in steps.items()}
    file = catalogue.relative_to(root).as_posix()
    try:
        tables = tomllib.loads(catalogue.read_text(encoding="utf-8"))["slip"]
    except (tomllib.TOMLDecodeError, KeyError) as problem:
        raise Unusable(f"{file} holds no [[slip]] tables ({problem})") from None
    found = []
    for number, table in enumerate(tables, start=1):
        name = f"{file} entry {number} ({table.get('what', 'no `what`')})"
        try:
            step = steps[_sound(table, steps)]
            place = ids.index(f"{notebook}_step_{step.name}")
            wrong = _with_mistake(cells[place].source, table)
        except (ValueError, re.error) as problem:
            raise Unusable(f"{name}: {problem}") from None
        source = read_step(["", *(cell.source for cell in cells[:place]), wrong], notebook, step)
        if isinstance(source, Refusal):
            raise Unusable(f"{name}: {source.message}")
        digest = hashlib.sha256(source.module.encode() + inputs[step.name]).hexdigest()[:12]
        found.append(WrongStep(name, step, table["what"], table.get("at", ""), source, digest))
    return found


def _inputs_digest(step: Step) -> bytes:
    problem, _ = problem_of(step)
    tensors = (
        f"{name} {one.dtype} {one.stride()}".encode() + one.numpy().tobytes() for name, one in problem.tensors.items()
    )
    return hashlib.sha256(b"".join([str(problem.scalars).encode(), *tensors])).digest()


def _sound(table: Mapping[str, Any], steps: Mapping[str, Step]) -> str:
    """The step of a table that has what a slip must have. Raises ValueError."""
    unknown = table.keys() - {"step", "what", "at", "edits", "body"}
    if unknown or not table.get("what") or table.get("step") not in steps or ("edits" in table) == ("body" in table):
        raise ValueError(
            f"found {', '.join(f'{key} = {value!r}' for key, value in table.items())}; expected step (one of {', '.join(steps)}), what, "
            "either edits or body, and at where one line can be named"
        )
    return str(table["step"])


def _with_mistake(cell: str, table: Mapping[str, Any]) -> str:
    """A solution cell with the edits between its markers, or `body` in place of what is there."""
    before, _, rest = cell.partition(f"    {BEGIN}\n")
    solution, _, after = rest.partition(f"    {END}")
    wrong = (
        textwrap.indent(table["body"], "    ")
        if "body" in table
        else edited(solution, read_edits(table["edits"]), "the step's solution")
    )
    named = [line for line in wrong.splitlines() if "at" in table and re.search(table["at"], line)]
    if "at" in table and (len(named) != 1 or named[0] in solution.splitlines()):
        raise ValueError(
            f"`at` names {named or 'no line'} of the edited step, expected one line, and one that the edit changed"
        )
    return before + wrong + after


def computed(entry: WrongStep) -> Deviation:
    """What a step gives with a slip. Raises Unusable where it does not run, or where the result is right."""
    found = result_of(entry.step, entry.source, InterpretOptions(1, case_seconds=SECONDS))
    if isinstance(found, str):
        raise Unusable(f"{entry.name} gives no result: {found}")
    if not bool(found.wrong.any()):
        raise Unusable(f"{entry.name} gives the right result; expected a mistake that shows on the step's inputs")
    return found


def write_slips(root: Path) -> list[Path]:
    """Writes slips.json and slips.npz beside every slips.toml, and returns what changed. Raises Unusable."""
    return [path for catalogue in catalogues(root) for path in _write(catalogue, root)]


def _write(catalogue: Path, root: Path) -> list[Path]:
    found = entries(catalogue, root)
    known = stored_results(catalogue.parent)
    fresh = {entry.digest: entry for entry in found if entry.digest not in known}
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        ran = dict(zip(fresh, workers.map(lambda entry: computed(entry).y.numpy(), fresh.values()), strict=True))
    results = {entry.digest: {**known, **ran}[entry.digest] for entry in found}
    _distinct(found, results)
    sentences, changed = catalogue.parent / SENTENCES, []
    if results.keys() != known.keys():
        np.savez_compressed(catalogue.parent / RESULTS, **results)
        changed.append(catalogue.parent / RESULTS)
    if not sentences.exists() or sentences.read_text(encoding="utf-8") != as_json(found):
        sentences.write_text(as_json(found), encoding="utf-8")
        changed.append(sentences)
    return changed


def _distinct(found: Sequence[WrongStep], results: Mapping[str, Any]) -> None:
    """Raises Unusable where an earlier slip of the same step has the same result, and another sentence."""
    problems = {entry.step.name: problem_of(entry.step) for entry in found}
    for number, entry in enumerate(found):
        problem, expected = problems[entry.step.name]
        own = deviation(entry.step, problem, torch.from_numpy(results[entry.digest]), expected, written=False)
        for other in found[:number]:
            alike = other.step is entry.step and other.what != entry.what
            if alike and own.equals(torch.from_numpy(results[other.digest])):
                raise Unusable(f"{entry.name} gives the same result as {other.name}; expected one sentence for both")


def as_json(found: Sequence[WrongStep]) -> str:
    """The text of slips.json."""
    listed: dict[str, list[dict[str, str]]] = {}
    for entry in found:
        listed.setdefault(entry.step.name, []).append({"what": entry.what, "at": entry.at, "result": entry.digest})
    return json.dumps(listed, ensure_ascii=False, indent=1) + "\n"


def stored_results(folder: Path) -> dict[str, Any]:
    """The results that lie in a folder, by digest."""
    if not (folder / RESULTS).exists():
        return {}
    with np.load(folder / RESULTS) as stored:
        return dict(stored)
