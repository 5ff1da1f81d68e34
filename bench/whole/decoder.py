"""One decoder layer of a model of 7 B: fp16 beside the layers of every lab, for one new token of each sequence in a batch.

Several layers with weights and caches of their own run one after the other in a CUDA graph, so that launching costs nothing and each
layer finds its weights cold in L2, as in the whole model. L2 is flushed before each replay.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import torch

from bench.precompiling import Precompilation, sentence
from bench.whole.llama import Decoder, DecoderSizes
from bench.whole.measuring import Spans, interleaved
from bench.whole.recording import record_of, with_spans
from bench.whole.swapping import GROUP, fuse
from grader.labs import all_labs
from grader.model import Device
from grader.reporting.whole_models import ModelEntry, ModelRecord
from grader.timing.l2_flush import L2Flush
from grader.timing.rounds import Captured, capture
from grader.timing.telemetry import watch_current_gpu
from model.layers import relative_error, weight_bytes
from model.swap import Runs, options_of

BATCHES = (1, 16)
LAYERS = 4
"""Copies of the layer in a graph: together several times as large as any L2, in 4 bits too."""

ROUNDS = 45
PRECOMPILE_SECONDS = 120.0
LARGEST_ERROR = 0.05
"""Relative distance of a layer with kernels from the same with `naive`: above what rounding comes to, int8 quanta that flip among it, and
far below what another product would make."""

FP16 = "fp16"
Listener = Callable[[str], None]


@dataclass
class ReadyLayer:
    """A contestant at one batch size: its graph, or the entry that says why there is none. held: what the graph reads, kept alive."""

    entry: ModelEntry
    captured: Captured | None = None
    held: tuple[object, ...] = ()


def decoder(sizes: DecoderSizes, device: Device, listen: Listener = lambda text: None) -> ModelRecord:
    """Times fp16 and every lab on the GPU of `device`. What fails becomes an entry that says so."""
    began = time.monotonic()
    not_compiled = precompile(sizes)
    listen(f"compiled ahead until {time.monotonic() - began:.0f} s")
    if not_compiled:
        listen(not_compiled)
    plain = plain_decoder(sizes, torch.device("cuda"))
    flush = L2Flush()  # kept: its graph writes to its memory
    before = capture(flush)
    entries: list[ModelEntry] = []
    for batch in BATCHES:
        prepared = [prepare(name, plain, batch, before) for name in (FP16, *all_labs())]
        entries += timed(prepared)
        listen(f"batch {batch}, {time.monotonic() - began:.0f} s")
    return record_of("decoder", device, {**asdict(sizes), "layers_in_a_graph": LAYERS}, entries, time.monotonic() - began)


def plain_decoder(sizes: DecoderSizes, device: torch.device, layers: int = LAYERS) -> Decoder:
    """Layers with random weights in fp16."""
    torch.manual_seed(1)
    with torch.device(device):
        return Decoder(sizes, layers).half().eval()


def contestant(name: str, plain: Decoder, runs: Runs = "auto") -> Decoder:
    """A copy of the layers, as they are or with those of a lab."""
    changed = copy.deepcopy(plain)
    if name != FP16:
        fuse(changed, name, runs)
    return changed


def about(name: str) -> str:
    """What has to be known of a contestant."""
    if name == FP16:
        return "PyTorch as it is, what the ratios are against"
    options = options_of(name)
    kind = f", groups of {GROUP}" if "group_size" in options else ", half of the blocks" if "sparsity" in options else ""
    return f"all seven products through {all_labs()[name].layer}{kind}"


@torch.no_grad()
def first_layer(changed: Decoder, batch: int) -> torch.Tensor:
    """What the first layer makes of inputs that are the same for all: [batch, 1, width]."""
    torch.manual_seed(2)
    x = torch.randn(batch, 1, changed.sizes.width, device=next(changed.parameters()).device, dtype=torch.float16)
    keys, values = changed.caches(batch, x)[0]
    return changed.layers[0](x, keys, values)  # type: ignore[no-any-return]


@torch.no_grad()
def prepare(name: str, plain: Decoder, batch: int, before: torch.cuda.CUDAGraph) -> ReadyLayer:
    """Builds a contestant, compares it with `naive`, and records its graph."""
    entry = ModelEntry(name, about(name), batch, "failed")
    try:
        changed = contestant(name, plain)
        error = None if name == FP16 else _error(name, changed, plain, batch)
        if error is not None and not error <= LARGEST_ERROR:
            return ReadyLayer(_failed(entry, f"its outputs are {error:.3g} away from those of naive"))
        x = torch.randn(batch, 1, changed.sizes.width, device="cuda", dtype=torch.float16)
        caches = changed.caches(batch, x)
        captured = Captured(capture(lambda: changed(x, caches)), before)
    except Exception as problem:  # whatever a kernel raises is the reason why it has no time
        return ReadyLayer(_failed(entry, sentence(problem)))
    entry = replace(entry, status="timed", weight_bytes=weight_bytes(changed.layers[0]), error=error)
    return ReadyLayer(entry, captured, (changed, x, caches))


@torch.no_grad()
def timed(prepared: list[ReadyLayer], rounds: int = ROUNDS) -> list[ModelEntry]:
    """The entries with their times a layer; the first that can be timed is the baseline."""
    watch = watch_current_gpu()
    graphs = [one.captured for one in prepared if one.captured is not None]
    spans: list[Spans] = interleaved(graphs, rounds, watch)
    notes, left = "; ".join(watch.notes()) if watch else "", iter(spans)
    return [one.entry if one.captured is None else with_spans(one.entry, next(left), spans[0], LAYERS, notes) for one in prepared]


@dataclass(frozen=True)
class LayerTask:
    """One lab's layer at every batch size."""

    lab: str
    sizes: DecoderSizes

    def __str__(self) -> str:
        return self.lab


def precompile(sizes: DecoderSizes) -> str:
    """Lets each lab's kernels be compiled and tuned once in a process of its own, all at once, so that Triton's cache is warm.

    Returns the sentence that says what was not, or "".
    """
    with Precompilation(_meet, [[LayerTask(lab, sizes)] for lab in all_labs()], PRECOMPILE_SECONDS) as precompilation:
        return precompilation.wait()


def _meet(task: LayerTask) -> None:
    """Runs one layer of a lab at each batch size."""
    changed = contestant(task.lab, plain_decoder(task.sizes, torch.device("cuda"), 1))
    for batch in BATCHES:
        first_layer(changed, batch)
    torch.cuda.synchronize()


def _error(name: str, changed: Decoder, plain: Decoder, batch: int) -> float:
    """The first layer with kernels against the same with `naive`."""
    alone = Decoder(plain.sizes, 0)
    alone.layers = plain.layers[:1]
    return relative_error(first_layer(changed, batch), first_layer(contestant(name, alone, "naive"), batch))


def _failed(entry: ModelEntry, message: str) -> ModelEntry:
    return replace(entry, status="failed", message=message)
