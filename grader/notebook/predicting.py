"""A prediction before the numbers: it is locked with a digest, revealing needs it, and what is changed afterwards is noted.

What was predicted is kept in predictions.json beside the notebook, so that it outlives the kernel. Each entry's digest
covers the entry before it: an entry that was changed by hand no longer fits. This keeps a student honest with themselves;
it is no proof against one who writes the whole file anew.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TypeGuard

from grader.notebook.cells import NotYet, display
from grader.reporting.atomic import write_whole
from grader.reporting.compact import Remark

FILE = "predictions.json"
PLACE = "GRADER_PREDICTIONS"
"""Environment variable that names another file."""


@dataclass(frozen=True)
class Noted:
    """One line of the file: a prediction, or (with `value` None) that a claim was revealed.

    found, seen: of a step towards speed, the number that its check found then, and with what.
    """

    claim: str
    value: float | None
    unit: str
    when: str
    digest: str
    found: float | None = None
    seen: str = ""


@dataclass(frozen=True)
class Prediction:
    """What was predicted before the reveal."""

    value: float
    unit: str

    def against(self, found: float, *, within: float = 1.25) -> None:
        """Shows how far the prediction was from what was found; a factor of `within` is near."""
        text = f"You predicted {self.value:.3g} {self.unit}; it is {found:.3g}: "
        factor = max(self.value, found) / min(self.value, found) if min(self.value, found) > 0 else math.inf
        near = factor <= within
        if near:
            text += "well predicted."
        elif math.isinf(factor):
            text += "no factor leads from one to the other."
        else:
            text += f"off by a factor of {factor:.3g}. What did you leave out?"
        display([Remark(text, "green" if near else "yellow")])


def lock(claim: str, value: object, unit: str) -> None:
    """Locks a prediction, a number of `unit`. Raises NotYet as long as there is none."""
    number = _number(value, unit)
    entries = _read()
    before, revealed, afterwards = _history(entries, claim)
    if before is None or not revealed:
        if before is None or before.value != number:
            before = _note(entries, claim, number, unit)
        said = Remark(f"Locked: {number:g} {unit} [{before.digest}].", "green")
    elif number == before.value:
        said = Remark(f"Locked before the numbers were shown: {number:g} {unit} [{before.digest}].", "dim")
    else:
        if number not in afterwards:
            _note(entries, claim, number, unit)
        text = f"The numbers have been shown. {before.value:g} {unit} stays your prediction; {number:g} is noted as a later one."
        said = Remark(text, "yellow")
    display([said])


def reveal(claim: str) -> Prediction:
    """The prediction of a claim; from now on it counts. Raises NotYet when there is none."""
    entries = _read()
    before, revealed, afterwards = _history(entries, claim)
    if before is None or before.value is None:
        raise NotYet(
            "Predict first: write a number into the cell above this one and run it. Then the numbers are shown."
        )
    if not revealed:
        _note(entries, claim, None, before.unit)
    written = ", ".join(f"{value:g}" for value in afterwards)
    later = f" After the numbers were shown you wrote {written}." if written else ""
    display([Remark(f"Your prediction: {before.value:g} {before.unit} [{before.digest}].{later}", "cyan")])
    return Prediction(before.value, before.unit)


def after(claim: str) -> None:
    """For a cell that goes on with the numbers of a claim: raises NotYet as long as they have not been shown, and says nothing else."""
    if not _history(_read(), claim)[1]:
        raise NotYet(
            "Predict first: write your number above, run that cell and the one that shows the numbers, then this one."
        )


@dataclass(frozen=True)
class Story:
    """What the file says of a step towards speed: the prediction that counts, what was found, and what was predicted after that."""

    prediction: Noted
    found: tuple[Noted, ...] = ()
    later: tuple[float, ...] = ()


def stories() -> dict[str, Story]:
    """By claim what was predicted, in the order in which that began."""
    entries = _read()
    known = {}
    for claim in dict.fromkeys(entry.claim for entry in entries):
        before, _, afterwards = _history(entries, claim)
        if before is not None:
            found = tuple(one for one in entries if one.claim == claim and one.found is not None)
            known[claim] = Story(before, found, tuple(afterwards))
    return known


def expect(claim: str, value: float) -> Story:
    """Notes a prediction, any number, and returns what there is of its claim; after something was found it is a later one."""
    known = stories().get(claim)
    if known is None or value not in (
        (*known.later, known.prediction.value) if known.found else (known.prediction.value,)
    ):
        _note(_read(), claim, value, "")
    return stories()[claim]


def record_found(claim: str, found: float, seen: str) -> None:
    """Notes what a check found of a claim, and with what, unless that is what it found last."""
    before = stories()[claim].found
    if not before or (before[-1].found, before[-1].seen) != (found, seen):
        _note(_read(), claim, None, "", found, seen)


def _number(value: object, unit: str) -> float:
    if value is None or value is ...:
        raise NotYet(f"Your prediction is missing: write a number ({unit}), run this cell, then the next one.")
    value = plain(value)
    if not is_number(value):
        raise NotYet(f"{value!r} is not a number; write your prediction as one ({unit}), such as 1.5.")
    percent = unit.startswith("%")
    if value < 0 or (value > 100 if percent else value == 0):
        raise NotYet(f"{value!r} {unit} is not possible; predict a number {'from 0 to 100' if percent else 'above 0'}.")
    return float(value)


def plain(value: object) -> object:
    """A number of NumPy's or torch's as Python's own, which is written as a person writes it; anything else as it is."""
    try:
        return value.item()  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return value


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is one finite number of Python's own."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _history(entries: list[Noted], claim: str) -> tuple[Noted | None, bool, list[float]]:
    """The prediction that counts, whether the numbers were shown, and the predictions after that."""
    mine = [entry for entry in entries if entry.claim == claim]
    shown = next((at for at, entry in enumerate(mine) if entry.value is None), len(mine))
    afterwards = [entry.value for entry in mine[shown:] if entry.value is not None]
    return mine[shown - 1] if shown else None, shown < len(mine), afterwards


def _note(
    entries: list[Noted], claim: str, value: float | None, unit: str, found: float | None = None, seen: str = ""
) -> Noted:
    """Adds an entry to the file. Raises NotYet where it cannot be written."""
    when = datetime.now().astimezone().isoformat(timespec="seconds")
    entry, path = Noted(claim, value, unit, when, "", found, seen), place()
    entry = replace(entry, digest=_digest(entries[-1].digest if entries else "", entry))
    try:
        write_whole(path, json.dumps([asdict(one) for one in (*entries, entry)], indent=1) + "\n")
    except OSError as error:
        raise NotYet(
            f"{path} cannot be written ({error.strerror}), and predictions are kept there; make the folder writable."
        ) from None
    return entry


def _digest(before: str, entry: Noted) -> str:
    covered = [before, entry.claim, entry.value, entry.unit, entry.when]
    covered += [] if entry.found is None else [entry.found, entry.seen]
    return hashlib.sha256(json.dumps(covered).encode()).hexdigest()[:8]


def place() -> Path:
    """Where the file is."""
    return Path(os.environ.get(PLACE) or Path.cwd() / FILE)


def _read() -> list[Noted]:
    """The entries as far as their digests fit. Raises NotYet for a file that holds something else."""
    path = place()
    if not path.exists():
        return []
    try:
        entries = [Noted(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
        before = ""
        for entry in entries:
            if entry.digest != _digest(before, entry):
                raise NotYet(
                    f"{path.name} was changed by hand: the entry on {entry.claim!r} of {entry.when} does not match its digest. Undo the "
                    "change, or remove the file and predict again."
                )
            before = entry.digest
    except (OSError, ValueError, TypeError):
        raise NotYet(f"{path.name} cannot be read as predictions; remove it and predict again.") from None
    return entries
