"""Every way of quantising the small model that the table compares: what is stored in how many bits, and how it is done.

All of them leave the embedding and the last layer as they are. What needs examples gets windows of the training text, and
all layers see the inputs of the model as it was; the papers of GPTQ and AWQ feed each layer what the quantised ones before
it give.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import nn

from model.layers import but_the_head, layer_inputs, replace, set_weight
from model.outliers import plant
from model.perplexity import as_tokens
from model.quantisers.activations import RoundedInputLinear
from model.quantisers.awq import awq
from model.quantisers.gptq import gptq, hessian
from model.quantisers.llm_int8 import LLMInt8Linear
from model.quantisers.qat import train_quantised
from model.quantisers.rounding import Format, rounded
from model.quantisers.smoothquant import migrate, smoothing
from model.quantisers.zeroquant import zeroquant
from model.training import Recipe
from model.transformer import Transformer, linear_layers, norms_before

GROUP = 128
EXAMPLES = 16
"""Windows of the training text that a method may look at."""

TAUGHT = Recipe(steps=100, batch=8, learning_rate=5e-5)
"""The training of quantisation-aware training."""

INT8, INT4, INT3 = Format(8), Format(4), Format(3)


@dataclass
class Examples:
    """What a method may look at: the training text, and what the layers of `model` are given on windows of it."""

    model: Transformer
    text: bytes
    windows: int = EXAMPLES
    seed: int = 1
    recipe: Recipe = field(default_factory=lambda: TAUGHT)

    @cached_property
    def tokens(self) -> torch.Tensor:
        """int64 [windows, context], from random places."""
        context = self.model.sizes.context
        generator = torch.Generator().manual_seed(self.seed)
        starts = torch.randint(len(self.text) - context, (self.windows,), generator=generator).tolist()
        return torch.stack([as_tokens(self.text[start : start + context]) for start in starts])

    @cached_property
    def inputs(self) -> dict[str, torch.Tensor]:
        """Name of layer -> fp32 [windows * context, K]."""
        return layer_inputs(self.model, self.tokens)


Apply = Callable[[Transformer, Examples], None]


@dataclass(frozen=True)
class Method:
    """One row of the table. `apply` changes a copy of the model in place. weights: how they are stored; None for fp16.

    activation_bits: of what the layers multiply with the weights. planted: outlier features are planted first.
    kernel: the lab whose kernel multiplies with weights that are stored so; None where there is none.
    """

    name: str
    apply: Apply
    weights: Format | None = None
    activation_bits: int = 16
    planted: bool = False
    kernel: str | None = None

    @property
    def group(self) -> int:
        """How many weights of a row share a scale; 0 where all do."""
        return (self.weights.group or 0) if self.weights else 0


def quantised(method: Method, model: Transformer, examples: Examples) -> Transformer:
    """A copy of the model, quantised. With planted outliers the examples are those of the planted model."""
    changed = copy.deepcopy(model)
    if method.planted:
        plant(changed)
        examples = Examples(copy.deepcopy(changed), examples.text, examples.windows, examples.seed, examples.recipe)
    method.apply(changed, examples)
    return changed


def weight_bits(method: Method, model: Transformer) -> float:
    """Bits a weight of the quantised layers, their scales counted; the mean over all weights."""
    layers = chosen(model)
    if method.weights is None:
        return 16.0
    total = sum(layer.weight.numel() * method.weights.stored_bits(layer.in_features) for layer in layers.values())
    return total / sum(layer.weight.numel() for layer in layers.values())


def chosen(model: nn.Module) -> dict[str, nn.Linear]:
    """The layers that are quantised."""
    return {name: layer for name, layer in linear_layers(model).items() if but_the_head(name)}


def kernel_for(format: Format) -> str | None:
    """The lab whose kernel multiplies fp16 activations with weights of this format, whatever chose them; None where there is none.

    One scale for all is one a channel, repeated; what AWQ divides X by belongs to what comes before the layer.
    """
    if format.group is not None or format.zero_point:
        return "gptq" if format.bits == 4 else None  # without a zero point it is 8 for every group
    return {8: "w8a16", 4: "w4a16"}.get(format.bits)


def _as_it_is(model: Transformer, examples: Examples) -> None:
    """Leaves the weights in 16 bits, in which they are stored."""


def _nearest(format: Format) -> Apply:
    def apply(model: Transformer, examples: Examples) -> None:
        for layer in chosen(model).values():
            set_weight(layer, rounded(layer.weight, format))

    return apply


def _gptq(format: Format) -> Apply:
    def apply(model: Transformer, examples: Examples) -> None:
        for name, layer in chosen(model).items():
            set_weight(layer, gptq(layer.weight, hessian(examples.inputs[name]), format))

    return apply


def _awq(format: Format) -> Apply:
    def apply(model: Transformer, examples: Examples) -> None:
        for name, layer in chosen(model).items():
            set_weight(layer, awq(layer.weight, examples.inputs[name], format).weight)

    return apply


def _taught(format: Format) -> Apply:
    def apply(model: Transformer, examples: Examples) -> None:
        train_quantised(model, examples.text, examples.recipe, format, but_the_head)

    return apply


def _replaced(by: Callable[[nn.Linear], nn.Module]) -> Apply:
    def apply(model: Transformer, examples: Examples) -> None:
        for name, layer in chosen(model).items():
            replace(model, name, by(layer))

    return apply


def _smooth(model: Transformer, examples: Examples) -> None:
    for _, norm, name, layer in norms_before(model):
        if but_the_head(name):
            migrate(norm, layer, smoothing(examples.inputs[name], layer.weight))
    _int8_both(model, examples)


_int8_both = _replaced(lambda layer: RoundedInputLinear(rounded(layer.weight.detach(), INT8)))
_llm_int8 = _replaced(lambda layer: LLMInt8Linear(layer.weight))
_zeroquant = _replaced(lambda layer: zeroquant(layer, group=GROUP))


def _weights_only() -> Iterable[Method]:
    grouped, uneven, few = Format(4, group=GROUP), Format(4, group=GROUP, zero_point=True), Format(3, group=GROUP)
    for words, format in (
        ("int8, one scale a tensor", Format(8, "tensor")), ("int8, one a channel", INT8),
        ("int4, one a tensor", Format(4, "tensor")), ("int4, one a channel", INT4),
        (f"int4, groups of {GROUP}", grouped), (f"int4, groups of {GROUP}, zero points", uneven),
        ("int4, groups of 32", Format(4, group=32)), (f"int3, groups of {GROUP}", few),
    ):
        yield Method(f"round to nearest: {words}", _nearest(format), format, kernel=kernel_for(format))
    coarse, fine, coarser = ("int4, one a channel", INT4), (f"int4, groups of {GROUP}", grouped), (f"int3, groups of {GROUP}", few)
    for words, format in (coarse, fine, coarser):
        yield Method(f"GPTQ: {words}", _gptq(format), format, kernel=kernel_for(format))
        yield Method(f"AWQ: {words}", _awq(format), format, kernel=kernel_for(format))
    for words, format in (("int4, one a channel", INT4), ("int3, one a channel", INT3)):
        yield Method(f"quantisation-aware training: {words}", _taught(format), format, kernel=kernel_for(format))


def _both_in_int8() -> Iterable[Method]:
    for planted in (False, True):
        if planted:
            yield Method("fp16", _as_it_is, planted=True)
        yield Method("int8 x int8, by channel and token", _int8_both, INT8, 8, planted, "w8a8")
        yield Method(f"ZeroQuant, groups of {GROUP}", _zeroquant, Format(8, group=GROUP), 8, planted)
        yield Method("SmoothQuant", _smooth, INT8, 8, planted, "w8a8")
        yield Method("LLM.int8()", _llm_int8, INT8, 8, planted)


METHODS: tuple[Method, ...] = (Method("fp16", _as_it_is), *_weights_only(), *_both_in_int8())
"""The rows of the table in their order, before those of the labs."""
