"""What does each way of quantising cost? One row a method: bits, perplexity of the small model, and time where a GPU measured it.

The rows are data, `results.json`; `model/README.md` and the notebook show them.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from grader.labs import all_labs
from model.layers import but_the_head
from model.methods import METHODS, Examples, Method, quantised, weight_bits
from model.perplexity import measure
from model.store import device_name, today, versions
from model.swap import swap
from model.transformer import Transformer

RESULTS = Path(__file__).with_name("results.json")
SAMPLE_BYTES = 32_768
"""How much of the held-out text is read for each row."""

TIMED_LAYER, TIMED_TOKENS = "blocks.0.mlp.up", 4096
NOT_MEASURED = "not measured"

Listener = Callable[[str], None]


class UnusableResults(ValueError):
    """A file of results that cannot be read; the message says how to make one."""


@dataclass(frozen=True)
class CostRow:
    """One method. weight_bits: a weight of the quantised layers, scales counted. time_us: of TIMED_LAYER with TIMED_TOKENS tokens."""

    method: str
    weight_bits: float
    activation_bits: int
    planted: bool
    bits_per_byte: float
    perplexity: float
    time_us: float | None = None
    lab: str | None = None


@dataclass(frozen=True)
class CostTable:
    """A table, and what its numbers rest on. weights_sha256: of the weights' file; sample_bytes: predicted for each row."""

    device: str
    versions: dict[str, str]
    date: str
    weights_sha256: str
    sample_bytes: int
    differing: tuple[str, ...]
    rows: tuple[CostRow, ...]

    def of(self, method: str, *, planted: bool = False) -> CostRow:
        """The row of this method; KeyError when there is none."""
        found = [row for row in self.rows if row.method == method and row.planted == planted]
        if not found:
            raise KeyError(f"found no row {method!r}; the methods are {', '.join(row.method for row in self.rows)}")
        return found[0]


def tabulate(
    model: Transformer, weights: Path, training: bytes, sample: bytes, differing: tuple[str, ...] = (),
    methods: tuple[Method, ...] = METHODS, listen: Listener = lambda text: None,
) -> CostTable:  # fmt: skip
    """Measures every method and every lab's layers on `model`, which stays as it is."""
    device = next(model.parameters()).device
    rows, predicted = [], 0
    for row, count in _rows(model, Examples(model, training), sample, methods):
        rows.append(row)
        predicted = count
        listen(f"{row.method}{' (planted outliers)' if row.planted else ''}: perplexity {row.perplexity:.4f}")
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    return CostTable(device_name(device), versions(), today(), digest, predicted, differing, tuple(rows))


def _rows(model: Transformer, examples: Examples, sample: bytes, methods: tuple[Method, ...]) -> Iterator[tuple[CostRow, int]]:
    for method in methods:
        quality = measure(quantised(method, model, examples), sample, model.sizes.context)
        time_us = layer_time(model.get_submodule(TIMED_LAYER)) if method.weights is None and not method.planted else None
        bits = weight_bits(method, model)
        yield CostRow(
            method.name, bits, method.activation_bits, method.planted, quality.bits_per_byte, quality.perplexity, time_us
        ), quality.predicted
    for lab_id, lab in all_labs().items():
        changed = copy.deepcopy(model)
        names = swap(changed, lab_id, choose=but_the_head)
        quality = measure(changed, sample, model.sizes.context)
        bits, activations = stored_bits(changed, names, model), 8 if lab.operand == "int8" else 16
        yield CostRow(
            f"{lab.layer}", bits, activations, False, quality.bits_per_byte, quality.perplexity,
            layer_time(changed.get_submodule(TIMED_LAYER)), lab_id,
        ), quality.predicted  # fmt: skip


def stored_bits(changed: nn.Module, names: list[str], model: nn.Module) -> float:
    """Bits that the buffers of the named layers take, for each weight of the layers that they replaced."""
    stored = sum(buffer.numel() * buffer.element_size() for name in names for buffer in changed.get_submodule(name).buffers())
    replaced = sum(parameter.numel() for name in names for parameter in model.get_submodule(name).parameters())
    return 8 * stored / replaced


def layer_time(layer: nn.Module, tokens: int = TIMED_TOKENS) -> float | None:
    """Microseconds of one call on a GPU, the median of many with a cold L2; None elsewhere. fp16 goes in; a plain layer is in fp16."""
    device = next(iter(layer.state_dict().values())).device
    if device.type != "cuda":
        return None
    import triton

    layer = copy.deepcopy(layer).half() if isinstance(layer, nn.Linear) else layer
    inner: Any = getattr(layer, "layer", layer)
    x = torch.randn(tokens, inner.in_features, device=device, dtype=torch.float16)
    return 1000.0 * float(triton.testing.do_bench(lambda: inner(x), return_mode="median"))


def to_json(results: CostTable) -> str:
    """The results as text that `load` reads."""
    return json.dumps(asdict(results), indent=1) + "\n"


def load(path: Path = RESULTS) -> CostTable:
    """Reads results. Raises UnusableResults."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        rows = tuple(CostRow(**row) for row in data.pop("rows"))
        return CostTable(differing=tuple(data.pop("differing")), rows=rows, **data)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise UnusableResults(f"{path} cannot be used ({problem}); run `python -m model table`") from None


def markdown(results: CostTable) -> str:
    """The table in Markdown: methods on the model as it is, then with planted outliers."""
    base = results.rows[0].perplexity
    lines = []
    for planted in (False, True):
        rows = [row for row in results.rows if row.planted == planted]
        if not rows:
            continue
        if planted:
            lines += ["", "With planted outlier features:", ""]
        lines += ["| method | bits a weight | bits an activation | perplexity | against fp16 | time of a layer |"]
        lines += ["|---|--:|--:|--:|--:|--:|"]
        lines += [_line(row, base) for row in rows]
    return "\n".join(lines) + "\n"


def _line(row: CostRow, base: float) -> str:
    time = NOT_MEASURED if row.time_us is None else f"{row.time_us:.1f} us"
    name = f"`{row.method}` (lab {row.lab})" if row.lab else row.method
    return (
        f"| {name} | {row.weight_bits:.2f} | {row.activation_bits} | {row.perplexity:.3f} | {row.perplexity / base - 1:+.1%} | {time} |"
    )
