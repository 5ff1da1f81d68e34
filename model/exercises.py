"""The notebook's exercises: a function on plain tensors, checked by the error of a layer's outputs on captured inputs.

Nothing here gives points, and the function runs where it was written: it is the reader's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch

from model.corpus import held_out_text
from model.layers import layer_inputs, relative_error
from model.outliers import plant
from model.perplexity import windows
from model.quantisers.llm_int8 import llm_int8
from model.quantisers.rounding import Format, rounded
from model.quantisers.smoothquant import smoothing
from model.store import load
from model.transformer import linear_layers

LAYER = "blocks.1.mlp.up"
WINDOWS = 4
CLOSE = 0.01
"""How far, relatively, an output error may lie from that of the definition."""

BITS, GROUP, THRESHOLD = 4, 32, 6.0
INT8 = Format(8)


@dataclass(frozen=True)
class CapturedLayer:
    """A layer with planted outliers: weight fp32 [N, K] and what it is given, fp32 [M, K]."""

    x: torch.Tensor
    weight: torch.Tensor

    @property
    def outputs(self) -> torch.Tensor:
        """X W^T, [M, N]."""
        return self.x @ self.weight.t()


@dataclass(frozen=True)
class Exercise:
    """`outputs(captured, function)`: the layer's outputs with the reader's function; `right`: what does it as defined.

    plain: the output error without the method.
    """

    name: str
    outputs: Callable[[CapturedLayer, Callable[..., torch.Tensor]], torch.Tensor]
    right: Callable[..., torch.Tensor]
    plain: Callable[[CapturedLayer], torch.Tensor]


@cache
def captured() -> CapturedLayer:
    """Inputs and weight of LAYER in the small model, with outliers planted in four of its features."""
    model = load()
    plant(model)
    tokens = windows(held_out_text().text[: WINDOWS * model.sizes.context + 1], model.sizes.context)[:, :-1]
    x = layer_inputs(model, tokens, lambda name: name == LAYER)[LAYER]
    return CapturedLayer(x, linear_layers(model)[LAYER].weight.detach().clone())


def check_outputs(name: str, function: Callable[..., torch.Tensor]) -> bool:
    """Prints whether `function` does what exercise `name` asks for, and returns it. KeyError names the exercises."""
    if name not in EXERCISES:
        raise KeyError(f"found no exercise {name!r}; the exercises are {', '.join(EXERCISES)}")
    exercise, given = EXERCISES[name], captured()
    expected = relative_error(exercise.outputs(given, exercise.right), given.outputs)
    plain = relative_error(exercise.plain(given), given.outputs)
    try:
        found = exercise.outputs(given, _written(function))
        error = relative_error(found, given.outputs) if found.shape == given.outputs.shape else None
    except (TypeError, AttributeError, ValueError, RuntimeError, IndexError) as problem:
        print(f"✗ {name}: it stopped with {type(problem).__name__}: {problem}")
        return False
    if error is None:
        print(f"✗ {name}: the outputs have the shape {tuple(found.shape)}, expected {tuple(given.outputs.shape)}")
        return False
    right = abs(error - expected) <= CLOSE * expected
    print(f"{'✓' if right else '✗'} {name}: output error {error:.4f}, by definition {expected:.4f}; without the method {plain:.4f}")
    return right


def _written(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def written(*arguments: object) -> torch.Tensor:
        result = function(*arguments)
        if not isinstance(result, torch.Tensor):
            raise ValueError(f"found {type(result).__name__} returned, expected a tensor; write the function's body")
        return result

    return written


def _rounded_outputs(given: CapturedLayer, function: Callable[..., torch.Tensor]) -> torch.Tensor:
    return given.x @ function(given.weight.clone(), BITS, GROUP).t()


def _smooth_outputs(given: CapturedLayer, function: Callable[..., torch.Tensor]) -> torch.Tensor:
    s = function(given.x.clone(), given.weight.clone())
    return rounded(given.x / s, INT8) @ rounded(given.weight * s, INT8).t()


def _int8_outputs(given: CapturedLayer) -> torch.Tensor:
    return rounded(given.x, INT8) @ rounded(given.weight, INT8).t()


def _decomposed_outputs(given: CapturedLayer, function: Callable[..., torch.Tensor]) -> torch.Tensor:
    return function(given.x.clone(), given.weight.clone(), THRESHOLD)


EXERCISES = {
    exercise.name: exercise
    for exercise in (
        Exercise(
            "groups", _rounded_outputs, lambda weight, bits, group: rounded(weight, Format(bits, group=group)),
            lambda given: given.x @ rounded(given.weight, Format(BITS)).t(),
        ),
        Exercise("smooth", _smooth_outputs, smoothing, _int8_outputs),
        Exercise("decompose", _decomposed_outputs, llm_int8, _int8_outputs),
    )
}  # fmt: skip
