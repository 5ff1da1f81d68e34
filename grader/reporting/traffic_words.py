"""What a kernel does to memory, in words: sentences for reports and notebooks, and the words that pictures use."""

from __future__ import annotations

from collections.abc import Sequence

from grader.traffic import Traffic


def short(name: str) -> str:
    """A pointer's name without what every pointer's ends in."""
    return name.removesuffix("_ptr")


def mega(count: float) -> str:
    """Bytes as a reader wants them."""
    for unit, size in (("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"


def summary(traffic: Traffic) -> str:
    """Sizes, config, and all loads together against the distinct bytes among them, as a sentence."""
    case = traffic.case
    ratio = traffic.requested / traffic.distinct if traffic.distinct else 0.0
    return (
        f"M = {case.M}, N = {case.N}, K = {case.K}, {traffic.config}: all loads ask for {mega(traffic.requested)}, "
        f"{ratio:.3g} times the {mega(traffic.distinct)} of distinct bytes among them."
    )


def traffic_rows(traffic: Traffic) -> list[str]:
    """A sentence for each tensor: bytes asked for, against bytes that are there."""
    rows = []
    for tensor in traffic.tensors.values():
        parts = []
        if tensor.loaded:
            parts.append(
                f"loads ask for {mega(tensor.loaded)}, {mega(tensor.distinct_loaded)} of it distinct: "
                f"{counted(tensor.mean_reads, 'load')} per element, by {counted(tensor.mean_readers, 'program')}"
            )
        if tensor.stored:
            parts.append(f"stores write {mega(tensor.stored)}, {mega(tensor.distinct_written)} of it distinct")
        if tensor.added:
            parts.append(f"atomics add {mega(tensor.added)} to {mega(tensor.distinct_written)}")
        rows.append(f"{short(tensor.name)} {shape_of(tensor.shape)}: {'; '.join(parts) or 'not touched'}")
    return rows


def counted(mean: float, noun: str) -> str:
    """A number and its noun: "1 load", "2.5 loads"."""
    return f"1 {noun}" if mean == 1 else f"{mean:.3g} {noun}s"


def shape_of(shape: Sequence[int]) -> str:
    """A shape as a reader writes it: "[64, 128]"."""
    return str(list(shape))
