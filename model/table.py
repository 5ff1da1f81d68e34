"""What does each way of quantising cost? One row a method: bits, perplexity of the small model, and time where a GPU measured it.

The rows are data, `results.json` and `times.json`; `model/README.md` and the notebook show them.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from grader.labs import all_labs
from grader.unusable import Unusable
from model.corpus import HeldOut
from model.layers import but_the_head
from model.methods import GROUP, METHODS, Examples, Method, quantised, weight_bits
from model.perplexity import Quality, measure
from model.store import device_name, today, versions
from model.swap import swap
from model.times import LayerTimes, usual_options
from model.transformer import Transformer

RESULTS = Path(__file__).with_name("results.json")
SAMPLE_BYTES = 32_768
"""How much of the held-out text is read for each row."""

FP16 = "fp16"
NOT_MEASURED, NO_KERNEL = "not measured", "no kernel"

Listener = Callable[[str], None]
Measured = Callable[[bytes], tuple["CostRow", int]]
"""Measures a row on a sample; the number is how many bytes were predicted."""


@dataclass(frozen=True)
class CostRow:
    """One method. weight_bits: a weight of the quantised layers, scales counted.

    kernel, group: the lab whose kernel multiplies with such weights, "fp16" for weights as they are, None where there is none, and
    the weights that share a scale, 0 for a whole row. lab: whose layer it is, None for a method.
    """

    method: str
    weight_bits: float
    activation_bits: int
    planted: bool
    bits_per_byte: float
    perplexity: float
    kernel: str | None = None
    group: int = 0
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
    model: Transformer, weights: Path, training: bytes, held_out: HeldOut, methods: tuple[Method, ...] = METHODS,
    listen: Listener = lambda text: None,
) -> CostTable:
    """Measures every method and every lab's layers on `model`, which stays as it is, over the first SAMPLE_BYTES of the held-out text."""
    examples, rows = Examples(model, training), []
    of_methods: list[Measured] = [partial(_method_row, method, model, examples) for method in methods]
    for measured in (*of_methods, *_labs(model)):
        row, predicted = measured(held_out.text[: SAMPLE_BYTES + 1])
        rows.append(row)
        listen(_row_text(row))
    device = device_name(next(model.parameters()).device)
    return CostTable(device, versions(), today(), digest_of(weights), predicted, held_out.differing, tuple(rows))


def with_labs(results: CostTable, model: Transformer, weights: Path, sample: bytes, listen: Listener = lambda text: None) -> CostTable:
    """The table with the rows of all labs measured anew and those of methods as they are. Raises Unusable where these do not fit."""
    device = device_name(next(model.parameters()).device)
    if (results.weights_sha256, results.device, results.versions) != (digest_of(weights), device, versions()):
        raise Unusable(
            f"the table was measured with other weights or versions, or on another device ({results.device}, {results.versions}), expected "
            "those of now; measure all rows with `python -m model table`"
        )
    rows = [row for row in results.rows if row.lab is None]
    for measured in _labs(model):
        rows.append(measured(sample[: results.sample_bytes + 1])[0])
        listen(_row_text(rows[-1]))
    return replace(results, date=today(), rows=tuple(rows))


def digest_of(weights: Path) -> str:
    """SHA-256 of a file of weights, by which a table knows them."""
    return hashlib.sha256(weights.read_bytes()).hexdigest()


def _row_text(row: CostRow) -> str:
    return f"{row.method}{' (planted outliers)' if row.planted else ''}: perplexity {row.perplexity:.4f}"


def _method_row(method: Method, model: Transformer, examples: Examples, sample: bytes) -> tuple[CostRow, int]:
    quality = measure(quantised(method, model, examples), sample, model.sizes.context)
    bits, kernel = weight_bits(method, model), method.kernel if method.weights else FP16
    return CostRow(
        method.name, bits, method.activation_bits, method.planted, quality.bits_per_byte, quality.perplexity, kernel, method.group
    ), quality.predicted


def _labs(model: Transformer) -> Iterator[Measured]:
    yield from (partial(_lab_row, lab_id, model) for lab_id in all_labs())


def _lab_row(lab_id: str, model: Transformer, sample: bytes) -> tuple[CostRow, int]:
    lab, options = all_labs()[lab_id], usual_options(lab_id)
    changed, names = with_layers_of(lab_id, model)
    quality = measure(changed, sample, model.sizes.context)
    bits, activations = stored_bits(changed, names, model), 8 if lab.operand == "int8" else 16
    return CostRow(
        f"{lab.layer}{f', groups of {GROUP}' if options else ''}", bits, activations, False, quality.bits_per_byte,
        quality.perplexity, lab_id, options.get("group_size", 0), lab_id,
    ), quality.predicted


def with_layers_of(lab_id: str, model: Transformer) -> tuple[Transformer, list[str]]:
    """A copy of the model with a lab's layers in the place of all but the last, and their names."""
    changed = copy.deepcopy(model)
    return changed, swap(changed, lab_id, choose=but_the_head, **usual_options(lab_id))


def again(results: CostTable, model: Transformer, sample: bytes) -> Iterator[tuple[CostRow, Quality]]:
    """Measures the rows of fp16 and of the labs once more on the table's sample; those of methods take longer than one waits."""
    for row in results.rows:
        if row.lab is not None or (row.kernel == FP16 and not row.planted):
            changed = with_layers_of(row.lab, model)[0] if row.lab else model
            yield row, measure(changed, sample[: results.sample_bytes + 1], model.sizes.context)


def stored_bits(changed: nn.Module, names: list[str], model: nn.Module) -> float:
    """Bits that the buffers of the named layers take, for each weight of the layers that they replaced."""
    stored = sum(buffer.numel() * buffer.element_size() for name in names for buffer in changed.get_submodule(name).buffers())
    replaced = sum(parameter.numel() for name in names for parameter in model.get_submodule(name).parameters())
    return 8 * stored / replaced


def to_json(results: CostTable) -> str:
    """The results as text that `load` reads."""
    return json.dumps(asdict(results), indent=1) + "\n"


def load(path: Path = RESULTS) -> CostTable:
    """Reads results. Raises Unusable."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        rows = tuple(CostRow(**row) for row in data.pop("rows"))
        return CostTable(differing=tuple(data.pop("differing")), rows=rows, **data)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise Unusable(f"{path} cannot be used ({problem}); run `python -m model table`") from None


def markdown(results: CostTable, times: LayerTimes | None = None) -> str:
    """The table in Markdown: methods on the model as it is, then with planted outliers. times: None where none were measured."""
    base = results.rows[0].perplexity
    lines = []
    for planted in (False, True):
        rows = [row for row in results.rows if row.planted == planted]
        if not rows:
            continue
        if planted:
            lines += ["", "With planted outlier features:", ""]
        lines += ["| method | bits a weight | bits an activation | perplexity | against fp16 | kernel | time of a layer |"]
        lines += ["|---|--:|--:|--:|--:|---|--:|"]
        lines += [_line(row, base, times) for row in rows]
    return "\n".join(lines) + "\n"


def _line(row: CostRow, base: float, times: LayerTimes | None) -> str:
    layer, comma, format = row.method.partition(",")
    name = f"`{layer}`{comma}{format} (lab {row.lab})" if row.lab else row.method
    return (
        f"| {name} | {row.weight_bits:.2f} | {row.activation_bits} | {row.perplexity:.3f} | {row.perplexity / base - 1:+.1%} | "
        f"{row.kernel or '–'} | {_time(row, times)} |"
    )


def _time(row: CostRow, times: LayerTimes | None) -> str:
    if row.kernel is None:
        return NO_KERNEL
    time_us = times.microseconds(None if row.kernel == FP16 else row.kernel, row.group) if times else None
    return NOT_MEASURED if time_us is None else f"{time_us:.1f} us"
