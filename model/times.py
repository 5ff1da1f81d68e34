"""How long does a layer of the small model take through the labs' kernels? By the clock that grades them, raced against fp16.

A CUDA graph holds LAUNCHES calls of the layer, each with a weight and inputs of its own; L2 is flushed before each replay, and replays
alternate with those of the same layer in fp16, A B B A. The layer is timed, not the kernel alone: what else it does with X counts.
"""

from __future__ import annotations

import copy
import datetime
import json
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from grader.judging.ratios import ratio
from grader.labs import all_labs
from grader.model import Device
from grader.timing.l2_flush import L2Flush
from grader.timing.rounds import Captured, Timings, capture, race
from grader.timing.telemetry import watch_current_gpu
from grader.unusable import Unusable
from model.layers import relative_error
from model.methods import GROUP, METHODS
from model.swap import Swapped, options_of, swap
from model.transformer import Transformer

TIMES = Path(__file__).with_name("times.json")
TIMED_LAYER, TIMED_TOKENS = "blocks.0.mlp.up", 4096
LAUNCHES, ROUNDS = 16, 45
LARGEST_ERROR = 0.003
"""Relative distance of a kernel's outputs from those of `naive`: above what fp16 sums in slices lose, below any other product."""

Listener = Callable[[str], None]


@dataclass(frozen=True)
class LayerTime:
    """The layer of one lab. group: weights that share a scale, 0 for a whole row. ratio: time in fp16 by time of the lab's layer.

    status: "timed", or "failed" with the reason in `message`. error: relative distance of Y from what `naive` computes.
    """

    lab: str
    group: int
    status: str
    message: str = ""
    time_us: float = 0.0
    fp16_us: float = 0.0
    ratio: float = 0.0
    ratio_low: float = 0.0
    ratio_high: float = 0.0
    error: float = 0.0


@dataclass(frozen=True)
class LayerTimes:
    """Times of TIMED_LAYER with TIMED_TOKENS tokens, and what they were measured on."""

    gpu: str
    driver: str
    versions: dict[str, str]
    date: str
    layer: str
    tokens: int
    rows: tuple[LayerTime, ...]

    def microseconds(self, lab: str | None, group: int = 0) -> float | None:
        """The time through a lab's kernel, or in fp16 where `lab` is None; None where there is none."""
        timed = [row for row in self.rows if row.status == "timed"]
        if lab is None:
            return timed[0].fp16_us if timed else None
        return next((row.time_us for row in timed if (row.lab, row.group) == (lab, group)), None)


def measure_times(model: Transformer, device: Device, listen: Listener = lambda text: None) -> LayerTimes:
    """Times every lab's layer on the GPU where `model` is; a layer that fails gets a row that says so."""
    import triton

    rows = []
    for lab, group in kernels():
        try:
            row = _timed(model, lab, group)
        except Exception as error:  # whatever a kernel raises is the reason why it has no time
            row = LayerTime(lab, group, "failed", f"{type(error).__name__}: {(str(error).strip() or 'no reason given').splitlines()[0]}")
        rows.append(row)
        listen(f"{lab}{f', groups of {group}' * bool(group)}: {row.message or f'{row.time_us:.2f} us, {row.ratio:.2f} times fp16'}")
    found = {"python": platform.python_version(), "torch": torch.__version__, "triton": triton.__version__}
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return LayerTimes(device.name, device.driver or "", found, date, TIMED_LAYER, TIMED_TOKENS, tuple(rows))


def kernels() -> Iterator[tuple[str, int]]:
    """Every lab, one whose weights lie in groups with each size of a group that the table has."""
    for lab in all_labs():
        in_groups = usual_options(lab)
        groups = {method.group for method in METHODS if method.kernel == lab} | {GROUP} if in_groups else {0}
        yield from ((lab, group) for group in sorted(groups, reverse=True))


def usual_options(lab: str) -> dict[str, Any]:
    """What `swap` is told of a lab in the table: groups of GROUP, where its layer has groups."""
    return {"group_size": GROUP} if "group_size" in options_of(lab) else {}


def _timed(model: Transformer, lab: str, group: int) -> LayerTime:
    linear = model.get_submodule(TIMED_LAYER)
    assert isinstance(linear, nn.Linear)
    inputs = [torch.randn(TIMED_TOKENS, linear.in_features, device="cuda", dtype=torch.float16) for _ in range(LAUNCHES)]
    by_kernel, by_naive = (_swapped(linear, lab, group, runs) for runs in ("kernel", "naive"))
    with torch.no_grad():
        error = relative_error(by_kernel(inputs[0]), by_naive(inputs[0]))
        if not error <= LARGEST_ERROR:
            return LayerTime(lab, group, "failed", f"its outputs are {error:.3g} away from those of naive", error=error)
        watch, flush = watch_current_gpu(), L2Flush()  # kept: its graph writes to its memory
        before = capture(flush)
        contestants = (by_kernel, copy.deepcopy(linear).half())
        calls = [_calls([copy.deepcopy(layer) for _ in inputs], inputs) for layer in contestants]  # alive as long as their graphs
        ours, theirs = (Captured(capture(call), before) for call in calls)
        timings = race(ours, theirs, ROUNDS, watch)
    return _row(lab, group, timings, error, "; ".join(watch.notes()) if watch else "")


def _row(lab: str, group: int, timings: Timings, error: float, message: str) -> LayerTime:
    found = ratio(timings.log_ratios)
    ours_us, theirs_us = (1e3 * time_ms / LAUNCHES for time_ms in (timings.a_ms, timings.b_ms))
    return LayerTime(lab, group, "timed", message, ours_us, theirs_us, found.value, found.low, found.high, error)


def _swapped(linear: nn.Linear, lab: str, group: int, runs: Any) -> nn.Module:
    """The lab's layer itself, which takes and gives fp16."""
    holder = nn.ModuleDict({"layer": copy.deepcopy(linear)})
    options: dict[str, Any] = {"group_size": group} if group else {}
    swap(holder, lab, runs=runs, **options)
    swapped = holder["layer"]
    assert isinstance(swapped, Swapped)
    return swapped.layer


def _calls(layers: Sequence[nn.Module], inputs: Sequence[torch.Tensor]) -> Callable[[], None]:
    """One call of each layer; outputs are kept apart, as those of layers in a model are."""
    outputs: list[torch.Tensor] = []

    def calls() -> None:
        outputs.clear()
        outputs.extend(layer(x) for layer, x in zip(layers, inputs, strict=True))

    return calls


def to_json(times: LayerTimes) -> str:
    """The times as text that `load_times` reads."""
    return json.dumps(asdict(times), indent=1, allow_nan=False) + "\n"


def load_times(path: Path = TIMES) -> LayerTimes | None:
    """Reads times; None where none were measured. Raises Unusable."""
    if not path.is_file():
        return None
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        rows = tuple(LayerTime(**row) for row in data.pop("rows"))
        return LayerTimes(rows=rows, **data)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise Unusable(f"{path} cannot be used ({problem}); run `python -m model times` on a GPU, or delete it") from None
