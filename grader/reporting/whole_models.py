"""What timing a whole model leaves behind: one JSON file for a model and a GPU, and the table that pages and the notebook show of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from grader.reporting.benchmarks import rounded
from grader.unusable import Unusable

ROOT = Path(__file__).parents[2]
SCHEMA_VERSION = 1
DIGITS = 4
DECODER_LAYERS = 32
"""Layers of a model of 7 B: what tokens a second are reckoned for."""

Which = Literal["encoder", "encoder_positions", "decoder"]
COMMANDS: dict[Which, str] = {
    "encoder": "python -m bench encoder",
    "encoder_positions": "python -m bench encoder --relative-positions",
    "decoder": "python -m bench decoder",
}
SHOWN_MODELS = {which: Path("bench") / "results" / f"{which}_nvidia_h200.json" for which in COMMANDS}
"""The records that docs/benchmarks.md and the notebook show, once they are there."""

LECTURE = (
    ("not quantised", 785.313, 15.279),
    ("dynamic int8", 731.649, 18.631),
    ("dynamic int8, fused", 695.115, 14.941),
)
"""Milliseconds and gigabytes that the lecture gives for Segment Anything, vit_h, batch 16 (GPU MODE lecture 7)."""


@dataclass(frozen=True)
class ModelEntry:
    """One way of running the model.

    time_us: a forward pass (of one layer for a decoder), the median of all; fastest_us, slowest_us: their range. ratio: time of the first
    contestant, fp16, by this one's in the same rounds, with its 99 % interval. peak_bytes: the most device memory during a pass, weights
    and inputs included. weight_bytes: parameters and buffers as they lie in memory (of one layer for a decoder). error: relative
    distance of the outputs from those in fp32 for an encoder, from those with `naive` in the kernel's place for a decoder.
    """

    contestant: str
    about: str
    batch: int
    status: Literal["timed", "skipped", "failed"]
    message: str = ""
    time_us: float = 0.0
    fastest_us: float = 0.0
    slowest_us: float = 0.0
    ratio: float = 0.0
    ratio_low: float = 0.0
    ratio_high: float = 0.0
    rounds: int = 0
    peak_bytes: int | None = None
    weight_bytes: int | None = None
    error: float | None = None


@dataclass(frozen=True)
class ModelRecord:
    """One run on one GPU. sizes: those of the model, by name."""

    which: Which
    gpu: str
    capability: int
    driver: str
    versions: Mapping[str, str]
    date: str
    seconds: float
    sizes: Mapping[str, Any]
    entries: tuple[ModelEntry, ...]

    @property
    def timed(self) -> list[ModelEntry]:
        """The entries that have a time."""
        return [entry for entry in self.entries if entry.status == "timed"]


def to_json(record: ModelRecord) -> str:
    """The record as JSON, numbers rounded to what was measured."""
    data = asdict(record)
    data["entries"] = [rounded(entry, DIGITS) for entry in data["entries"]]
    return json.dumps({"schema_version": SCHEMA_VERSION, **data}, indent=1, allow_nan=False) + "\n"


def from_json(text: str, name: str = "the record") -> ModelRecord:
    """Reads what `to_json` wrote. Raises Unusable."""
    try:
        data = json.loads(text)
        version, which = data.pop("schema_version"), data["which"]
        record = ModelRecord(**{**data, "entries": tuple(ModelEntry(**entry) for entry in data["entries"])})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unusable(f"{name} is not a record of a whole model ({error}); measure again") from None
    if version != SCHEMA_VERSION or which not in SHOWN_MODELS:
        known = ", ".join(SHOWN_MODELS)
        raise Unusable(
            f"{name} is of {which!r}, version {version}, expected one of {known}, {SCHEMA_VERSION}; measure again"
        )
    return record


def load_model_record(which: Which, root: Path = ROOT) -> ModelRecord | None:
    """The record that is shown; None as long as nobody measured. Raises Unusable."""
    path = root / SHOWN_MODELS[which]
    return from_json(path.read_text(encoding="utf-8"), str(path)) if path.is_file() else None


def not_measured(which: Which) -> str:
    """What is said in place of a table."""
    path = SHOWN_MODELS[which]
    return f"Not measured yet: `{COMMANDS[which]}` on a GPU writes `{path.name}` into `{path.parent.as_posix()}/`.\n"


def shown(which: Which, root: Path = ROOT) -> str:
    """The table of a record in Markdown with a line on the machine, or the sentence that there is none. Raises Unusable."""
    record = load_model_record(which, root)
    return not_measured(which) if record is None else markdown(record)


def markdown(record: ModelRecord) -> str:
    """A line on the machine, the table, and why what is not in it is not."""
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    sizes = ", ".join(f"{name.replace('_', ' ')} {_plain(value)}" for name, value in record.sizes.items())
    head = f"{record.gpu}, driver {record.driver}, {versions}; {record.date}. {sizes[0].upper()}{sizes[1:]}.\n"
    table = _decoder_table(record) if record.which == "decoder" else _encoder_table(record)
    once = {entry.contestant: entry.about for entry in record.timed if entry.about}
    remarks = [f"- {contestant}: {about}." for contestant, about in once.items()]
    untimed = [entry for entry in record.entries if entry.status != "timed"]
    remarks += [f"- Not timed, because {message}: {who}." for message, who in _by_message(untimed)]
    remarks += [
        f"- {message[0].upper()}{message[1:]}: {'all rows' if who == _named(record.timed) else who}."
        for message, who in _by_message(record.timed)
    ]
    return "\n".join([head, table, "\n".join(remarks) + "\n"])


def _by_message(entries: Sequence[ModelEntry]) -> Iterator[tuple[str, str]]:
    """Each message once, and whose it is."""
    for message in dict.fromkeys(entry.message for entry in entries if entry.message):
        yield message, _named([entry for entry in entries if entry.message == message])


def _named(entries: Sequence[ModelEntry]) -> str:
    return "; ".join(f"{entry.contestant}, batch {entry.batch}" for entry in entries)


def _encoder_table(record: ModelRecord) -> str:
    rows = [
        [entry.contestant, *_times(entry, 1e3), _giga(entry.peak_bytes), _giga(entry.weight_bytes), _error(entry)]
        for entry in record.timed
    ]
    base = LECTURE[0][1]
    rows += [
        [f"*the lecture: {name}*", f"{time:.1f}", f"{base / time:.2f}", f"{peak:.2f}", "", ""]
        for name, time, peak in LECTURE
    ]
    return _table(["", "ms (fastest to slowest)", "ratio", "peak GB", "GB of weights", "distance from fp32"], rows)


def _decoder_table(record: ModelRecord) -> str:
    rows = [
        [
            entry.contestant,
            str(entry.batch),
            *_times(entry, 1.0),
            f"{1e6 * entry.batch / (DECODER_LAYERS * entry.time_us):,.0f}",
            f"{(entry.weight_bytes or 0) / 1e6:.1f}",
            _error(entry),
        ]
        for entry in record.timed
    ]
    head = [
        "",
        "batch",
        "us a layer (fastest to slowest)",
        "ratio",
        f"tokens a second, {DECODER_LAYERS} layers",
        "MB of weights a layer",
        "distance from `naive`",
    ]
    return _table(head, rows)


def _times(entry: ModelEntry, unit: float) -> tuple[str, str]:
    spread = f"{entry.time_us / unit:.1f} ({entry.fastest_us / unit:.1f} to {entry.slowest_us / unit:.1f})"
    return spread, f"{entry.ratio:.3f} ({entry.ratio_low:.3f} to {entry.ratio_high:.3f})"


def _giga(count: int | None) -> str:
    return "–" if count is None else f"{count / 1e9:.2f}"


def _error(entry: ModelEntry) -> str:
    return "–" if entry.error is None else f"{entry.error:.2g}"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
