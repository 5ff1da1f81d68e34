"""What a benchmark leaves behind: one JSON file a GPU, with everything the figures and tables need."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from grader.unusable import Unusable

SCHEMA_VERSION, DIGITS = 1, 5
SHOWN = Path("bench") / "results" / "nvidia_h200.json"
"""The record that docs/benchmarks.md, the drawings and the notebooks' ladders show."""

Kind = Literal["solution", "ladder", "peer"]
Status = Literal["timed", "skipped", "failed"]


@dataclass(frozen=True)
class Entry:
    """One contestant on one shape.

    time_us: a launch; cublas_us: torch.mm in fp16 in the same rounds; ratio: median of the rounds' ratios cuBLAS /
    contestant, with its interval. error: relative Frobenius distance to fp64 (None where the output is not Y).
    extra_bytes: device memory allocated during a call, its output included. bytes_moved, operations: the fewest that
    the problem needs.
    """

    contestant: str
    kind: Kind
    lab: str
    shape: str
    M: int
    N: int
    K: int
    sparsity: float | None
    status: Status
    message: str = ""
    time_us: float = 0.0
    cublas_us: float = 0.0
    ratio: float = 0.0
    ratio_low: float = 0.0
    ratio_high: float = 0.0
    rounds: int = 0
    config: str = ""
    error: float | None = None
    extra_bytes: int | None = None
    bytes_moved: int = 0
    operations: int = 0


@dataclass(frozen=True)
class Record:
    """One run of the benchmark on one GPU. Peaks by the data of the driver: bytes and fp16 operations a second."""

    gpu: str
    capability: int
    driver: str
    versions: Mapping[str, str]
    date: str
    seconds: float
    bytes_per_second: float
    fp16_per_second: float
    entries: tuple[Entry, ...]
    about: Mapping[str, str] = field(default_factory=dict)

    def timed(self, lab: str | None = None, kind: Kind | None = None) -> list[Entry]:
        """Entries that have a time, of one lab and kind where given."""
        return [
            entry
            for entry in self.entries
            if entry.status == "timed" and lab in (None, entry.lab) and kind in (None, entry.kind)
        ]


def to_json(record: Record) -> str:
    """The record as JSON; entries one a line, so that a diff shows what changed."""
    data = asdict(record)
    entries = data.pop("entries")
    head = json.dumps({"schema_version": SCHEMA_VERSION, **data}, indent=1, allow_nan=False)
    lines = ",\n".join("  " + json.dumps(rounded(entry, DIGITS), allow_nan=False) for entry in entries)
    return head[:-2] + ',\n "entries": [\n' + lines + "\n ]\n}\n"


def rounded(entry: dict[str, Any], digits: int) -> dict[str, Any]:
    """An entry of a record with no more digits than were measured."""
    return {key: round(value, digits) if isinstance(value, float) else value for key, value in entry.items()}


def from_json(text: str, name: str = "the record") -> Record:
    """Reads what `to_json` wrote. Raises Unusable."""
    try:
        data = json.loads(text)
        version = data.pop("schema_version")
        entries = tuple(Entry(**entry) for entry in data.pop("entries"))
        record = Record(**data, entries=entries)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unusable(f"{name} is not a benchmark record ({error}); run `make bench` again") from None
    if version != SCHEMA_VERSION:
        raise Unusable(f"{name} has schema version {version}, expected {SCHEMA_VERSION}; run `make bench` again")
    return record


def others(root: Path = Path()) -> list[Record]:
    """The records of other GPUs beside the one that is shown. Raises Unusable."""
    shown = root / SHOWN
    return [load(path) for path in sorted(shown.parent.glob("nvidia_*.json")) if path != shown]


def load(path: Path) -> Record:
    """Reads a record from a file. Raises Unusable."""
    try:
        return from_json(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise Unusable(f"{path} cannot be read ({error.strerror}); run `make bench` on a GPU first") from None
