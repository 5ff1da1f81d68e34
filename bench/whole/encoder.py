"""The vision encoder: fp16 and bf16, dynamic int8 in three steps and fused, each as it is and compiled; time and peak memory."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from bench.precompiling import sentence
from bench.whole.measuring import Called, allocated, interleaved, peak_bytes
from bench.whole.recording import record_of, with_spans
from bench.whole.swapping import BEST, TEMPLATES, as_one_operation, change, compile_blocks, fuse, unfuse
from bench.whole.vit import EncoderSizes, VisionEncoder
from grader.model import Device
from grader.reporting.whole_models import ModelEntry, ModelRecord, Which
from grader.timing.telemetry import watch_current_gpu
from model.layers import relative_error, weight_bytes

BATCH = 16
ROUNDS = 9
SECONDS = 300.0
"""What is compiled only when so much time is over is left out."""

LARGEST_ERROR = 0.1
"""Relative distance from fp32: far above what int8 comes to in 32 blocks, far below what another product would."""

Step = Callable[[nn.Module], None]
Listener = Callable[[str], None]


@dataclass(frozen=True)
class Variant:
    """One way of running the encoder. steps: what is done to it, once it is in `dtype`. compiled: what torch.compile is told."""

    name: str
    about: str
    dtype: torch.dtype = torch.float16
    steps: tuple[Step, ...] = ()
    compiled: Mapping[str, Any] | None = None

    def build(self, plain: VisionEncoder, backend: str) -> VisionEncoder:
        """A copy of the encoder, changed. backend: torch.compile's; "inductor" is the one whose time means something."""
        model = change(copy.deepcopy(plain).to(self.dtype), *self.steps)
        assert isinstance(model, VisionEncoder)
        if self.compiled is not None:
            compile_blocks(model.blocks, {"backend": backend, **({"options": dict(self.compiled)} if backend == "inductor" else {})})
        return model.eval()


FUSED = partial(fuse, lab="w8a8")
WAYS = (
    Variant("fp16", "PyTorch as it is, what the ratios are against"),
    Variant("bf16", "the same in bfloat16", torch.bfloat16),
    Variant("int8, three steps", "quantise, torch._int_mm into int32 in memory, rescale; each operation of PyTorch a kernel",
            steps=(unfuse,)),
    Variant("int8, fused", "the solution of lab w8a8 in its layer; its scales, and its bias, are kernels of their own", steps=(FUSED,)),
    Variant("fp16, torch.compile", "each block compiled, products by cuBLAS", compiled=BEST),
    Variant("int8, three steps, torch.compile", "each block compiled, products by cuBLAS", steps=(unfuse,), compiled=BEST),
    Variant("int8, fused, torch.compile around it", "the kernel left alone, all else compiled",
            steps=(FUSED, as_one_operation), compiled=BEST),
    Variant("bf16, torch.compile", "each block compiled, products by cuBLAS", torch.bfloat16, compiled=BEST),
    Variant("int8, three steps, torch.compile with templates",
            "products by Inductor's Triton templates, which can rescale in their epilogue", steps=(unfuse,), compiled=TEMPLATES),
)


@dataclass
class ReadyEncoder:
    """A way that is ready to be timed, or the entry that says why it is not."""

    entry: ModelEntry
    model: VisionEncoder | None = None
    images: torch.Tensor | None = None


@dataclass
class EncoderRun:
    """What all ways of a run have in common. expected: the outputs of the first image in fp32."""

    plain: VisionEncoder
    images: torch.Tensor
    expected: torch.Tensor
    backend: str = "inductor"
    seconds: float = SECONDS
    began: float = field(default_factory=time.monotonic)


def encoder(sizes: EncoderSizes, device: Device, *, compiling: bool = True, seconds: float = SECONDS,
            listen: Listener = lambda text: None) -> ModelRecord:
    """Times every way on the GPU of `device`. What fails or is left out becomes an entry that says so."""
    run = run_of(sizes, torch.device("cuda"), seconds=seconds)
    prepared = []
    for way in WAYS:
        prepared.append(prepare(way, run, compiling=compiling))
        entry = prepared[-1].entry
        listen(f"{entry.contestant}: {entry.message or 'ready'}, {time.monotonic() - run.began:.0f} s")
    entries = timed(prepared)
    which: Which = "encoder_positions" if sizes.relative_positions else "encoder"
    return record_of(which, device, {**asdict(sizes), "batch": BATCH}, entries, time.monotonic() - run.began)


def run_of(sizes: EncoderSizes, device: torch.device, batch: int = BATCH, **settings: Any) -> EncoderRun:
    """An encoder with random weights in fp32, and images."""
    torch.manual_seed(1)
    plain = VisionEncoder(sizes).to(device).eval()
    images = torch.randn(batch, 3, sizes.image, sizes.image, device=device)
    with torch.no_grad():
        return EncoderRun(plain, images, plain(images[:1]), **settings)


@torch.no_grad()
def prepare(way: Variant, run: EncoderRun, *, compiling: bool = True) -> ReadyEncoder:
    """Builds and compiles a way, compares its outputs with those of fp32, and measures its peak memory."""
    entry = ModelEntry(way.name, way.about, len(run.images), "skipped")
    if way.compiled is not None and not compiling:
        return ReadyEncoder(with_message(entry, "nothing was compiled in this run"))
    if way.compiled is not None and time.monotonic() - run.began > run.seconds:
        return ReadyEncoder(with_message(entry, f"the {run.seconds:.0f} seconds for compiling were over"))
    on_gpu = run.images.device.type == "cuda"
    try:
        others = allocated() if on_gpu else 0
        model, images = way.build(run.plain, run.backend), run.images.to(way.dtype)
        error = relative_error(model(images)[:1], run.expected)
        peak = peak_bytes(partial(model, images), others) if on_gpu else None
    except Exception as problem:  # out of memory, a shape that torch._int_mm does not take, or what a compiler raises
        if on_gpu:
            torch.cuda.empty_cache()
        return ReadyEncoder(with_message(entry, sentence(problem), "failed"))
    if not error <= LARGEST_ERROR:
        return ReadyEncoder(with_message(entry, f"its outputs are {error:.3g} away from those of fp32", "failed"))
    entry = replace(entry, status="timed", peak_bytes=peak, weight_bytes=weight_bytes(model), error=error)
    return ReadyEncoder(entry, model, images)


def with_message(entry: ModelEntry, message: str, status: Any = "skipped") -> ModelEntry:
    """The entry with a reason why it has no time."""
    return replace(entry, status=status, message=message)


@torch.no_grad()
def timed(prepared: Sequence[ReadyEncoder], rounds: int = ROUNDS) -> list[ModelEntry]:
    """The entries with their times, in the order of `prepared`; the first that can be timed is the baseline."""
    ready = [one for one in prepared if one.model is not None]
    watch = watch_current_gpu()
    spans = interleaved([Called(partial(one.model, one.images)) for one in ready if one.model], rounds, watch)
    notes = "; ".join(watch.notes()) if watch else ""
    found = {id(one): with_spans(one.entry, span, spans[0], 1, notes) for one, span in zip(ready, spans, strict=True)}
    return [found.get(id(one), one.entry) for one in prepared]
