"""How a run becomes a record: machine, versions and date beside the entries."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bench.whole.measuring import Spans
from grader.model import Device
from grader.reporting.whole_models import ModelEntry, ModelRecord, Which


def record_of(which: Which, device: Device, sizes: Mapping[str, Any], entries: Sequence[ModelEntry], seconds: float) -> ModelRecord:
    """The record of a run that just ended on the GPU of `device`."""
    assert device.capability is not None
    versions = {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in ("torch", "triton")}}
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return ModelRecord(
        which, device.name, device.capability, device.driver or "", versions, date, round(seconds, 1), dict(sizes), tuple(entries)
    )


def with_spans(entry: ModelEntry, spans: Spans, baseline: Spans, passes: int, note: str = "") -> ModelEntry:
    """The entry with the times of a replay of `passes` passes."""
    ratio, all_us = spans.faster_than(baseline), [1e3 * span / passes for span in spans.all_ms]
    return replace(
        entry, status="timed", message=note, time_us=1e3 * spans.median_ms / passes, fastest_us=min(all_us), slowest_us=max(all_us),
        ratio=ratio.value, ratio_low=ratio.low, ratio_high=ratio.high, rounds=ratio.rounds,
    )
