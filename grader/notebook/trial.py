"""For notebooks that try a claim: the benchmark's record, a verdict, and a clock for one's own GPU.

The record is bench/results/nvidia_h200.json, which students have too. Times are microseconds a launch; ratios are those of
the same race, time of cuBLAS fp16 over time of the contestant, so that more than 1 is faster.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from functools import cache

import torch

from grader.notebook.cells import NotYet, display
from grader.notebook.own_kernels import device
from grader.notebook.predicting import Prediction, after, lock, reveal
from grader.reporting.benchmarks import SHOWN, Entry, Record, load
from grader.reporting.compact import Remark
from grader.reporting.whole_models import ROOT, ModelRecord, Which, load_model_record, not_measured
from grader.unusable import Unusable

__all__ = ["Prediction", "after", "gpu_here", "lock", "measured", "megabytes", "microseconds", "record", "reveal", "verdict",
           "whole_model"]  # fmt: skip

FLUSHED_BYTES = 256 * 2**20
"""Written before each timed call: more than any GPU's L2 holds, so that a weight comes from memory as it does in a model."""


@cache
def record() -> Record:
    """The benchmark's record. Raises NotYet when it is not where the repository has it."""
    try:
        return load(ROOT / SHOWN)
    except Unusable as problem:
        raise NotYet(f"{problem}; it belongs beside the folder grader/ that this notebook uses.") from None


def measured(lab_id: str, contestant: str, **sizes: float) -> list[Entry]:
    """A contestant's entries in the order of M, then sparsity; only those with the given M, N, K or sparsity.

    Raises NotYet when the record has none.
    """
    found = [
        entry
        for entry in record().timed(lab_id)
        if entry.contestant == contestant and all(getattr(entry, size) == value for size, value in sizes.items())
    ]
    if not found:
        raise NotYet(f"{SHOWN} has no time of {contestant!r} in {lab_id} with {sizes}")
    return sorted(found, key=lambda entry: (entry.M, entry.sparsity or 0.0))


def whole_model(which: Which) -> ModelRecord | None:
    """The record of a whole model; None, with a sentence in the cell, as long as nobody measured it."""
    found = load_model_record(which)
    if found is None:
        display([Remark(not_measured(which).strip(), "dim")])
    return found


def verdict(claim: str, findings: Mapping[str, bool]) -> None:
    """Shows what a claim comes to: where it holds by the findings, and where not."""
    places = {holds: "; ".join(place for place, held in findings.items() if held is holds) for holds in (True, False)}
    word = "holds in part" if all(places.values()) else "holds" if places[True] else "does not hold"
    where = [
        Remark(f"{mark} {places[holds]}")
        for holds, mark in ((True, "✓ holds:"), (False, "✗ does not hold:"))
        if places[holds]
    ]
    display([Remark(f"“{claim}” {word}.", "cyan"), *where])


def gpu_here() -> bool:
    """Whether cells can measure on this machine; says so when they cannot."""
    if device.type == "cuda":
        return True
    display([Remark("Nothing is measured here: this cell needs a GPU of compute capability 8.0 or later.", "dim")])
    return False


def microseconds(run: Callable[[], object], *, times: int = 30) -> float:
    """Median time of a call on the GPU by CUDA events, after three calls that do not count, L2 flushed before each.

    Unlike the record's times, which are those of launches in a CUDA graph, this one includes what PyTorch does around a
    launch, so small kernels look slower here.
    """
    filler = torch.empty(FLUSHED_BYTES, dtype=torch.int8, device=device)
    for _ in range(3):
        run()
    spans = []
    for _ in range(times):
        filler.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        spans.append((begin, end))
    torch.cuda.synchronize()
    return float(statistics.median(1e3 * begin.elapsed_time(end) for begin, end in spans))


def megabytes(run: Callable[[], object]) -> float:
    """Device memory allocated during a call beyond what was there before, its result included, in MB."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return float(torch.cuda.max_memory_allocated() - before) / 1e6
