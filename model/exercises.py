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
from model.quantisers.rounding import Format, Share, rounded
from model.quantisers.smoothquant import smoothing
from model.store import load
from model.transformer import linear_layers

LAYER = "blocks.1.mlp.up"
WINDOWS = 4
CLOSE = 0.25
"""By how much of the definition's own error the outputs may differ from those of the definition: ties, and scales in fp16, are less."""

UNROUNDED = 1e-3
"""An output error of so little of the definition's is that of fp32 sums in another order."""

SAME = 1e-4
"""How far, relatively, an output error may lie from that of a usual mistake to be taken for it: the order of fp32 sums."""

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
class UsualMistake:
    """A mistake that is easily made: a function that makes it, and a sentence that says it and what to do."""

    function: Callable[..., torch.Tensor]
    told: str


@dataclass(frozen=True)
class Exercise:
    """`outputs(captured, function)`: the layer's outputs with the reader's function; `right`: what does it as defined.

    plain: the output error without the method. slips: what is often done instead; each has an output error of its own.
    again: the same with other arguments than the first ones, which `other` names; None where there are none.
    """

    name: str
    outputs: Callable[[CapturedLayer, Callable[..., torch.Tensor]], torch.Tensor]
    right: Callable[..., torch.Tensor]
    plain: Callable[[CapturedLayer], torch.Tensor]
    slips: tuple[UsualMistake, ...]
    again: Callable[[CapturedLayer, Callable[..., torch.Tensor]], torch.Tensor] | None = None
    other: str = ""


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
    defined = exercise.outputs(given, exercise.right)
    expected = relative_error(defined, given.outputs)
    plain = relative_error(exercise.plain(given), given.outputs)
    try:
        found = exercise.outputs(given, _written(function))
        error = relative_error(found, given.outputs) if found.shape == given.outputs.shape else None
        other = error is not None and _right(found, defined, expected) and not _right_again(exercise, given, function)
    except (TypeError, AttributeError, ValueError, RuntimeError, IndexError) as problem:
        print(f"✗ {name}: it stopped with {type(problem).__name__}: {problem}")
        return False
    if error is None:
        print(f"✗ {name}: the outputs have the shape {tuple(found.shape)}, expected {tuple(given.outputs.shape)}")
        return False
    right = _right(found, defined, expected) and not other
    print(f"{'✓' if right else '✗'} {name}: output error {error:.4f}, by definition {expected:.4f}; without the method {plain:.4f}")
    if other:
        print(f"  Right with the arguments of the first check, and not with {exercise.other}: compute with the arguments.")
    elif not right:
        apart = relative_error(found, defined)
        said = f"These are other outputs than the definition's: they differ from them by {apart:.4f} of their size."
        print(f"  {_slip(exercise, given, error, expected) or said}")
    return right


def _right(found: torch.Tensor, defined: torch.Tensor, expected: float) -> bool:
    """Whether outputs are the definition's. expected: the definition's own error."""
    return relative_error(found, defined) <= CLOSE * expected


def _right_again(exercise: Exercise, given: CapturedLayer, function: Callable[..., torch.Tensor]) -> bool:
    """The same with other arguments, where an exercise has some."""
    if exercise.again is None:
        return True
    defined = exercise.again(given, exercise.right)
    found = exercise.again(given, _written(function))
    return found.shape == defined.shape and _right(found, defined, relative_error(defined, given.outputs))


def _slip(exercise: Exercise, given: CapturedLayer, error: float, expected: float) -> str:
    """What the usual mistake is that has this very error; "" for another one."""
    if error <= UNROUNDED * expected:
        return "Nothing was rounded: these are the outputs of the layer as it was."
    for slip in exercise.slips:
        likely = relative_error(exercise.outputs(given, slip.function), given.outputs)
        if abs(error - likely) <= SAME * likely:
            return slip.told
    return ""


def _written(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def written(*arguments: object) -> torch.Tensor:
        result = function(*arguments)
        if result is None:
            raise ValueError("found nothing returned, expected a tensor; write the function's body, and end it with return")
        if not isinstance(result, torch.Tensor):
            raise ValueError(f"found {type(result).__name__} returned, expected one tensor")
        if result.dtype != torch.float32:
            raise ValueError(f"found {result.dtype} returned, expected torch.float32, as the arguments are; .float() converts it")
        return result

    return written


def _rounded_outputs(given: CapturedLayer, function: Callable[..., torch.Tensor]) -> torch.Tensor:
    return given.x @ function(given.weight.clone(), BITS, GROUP).t()


def _rounded_finer(given: CapturedLayer, function: Callable[..., torch.Tensor]) -> torch.Tensor:
    return given.x @ function(given.weight.clone(), BITS - 1, 2 * GROUP).t()


def _smooth_outputs(given: CapturedLayer, function: Callable[..., torch.Tensor]) -> torch.Tensor:
    s = function(given.x.clone(), given.weight.clone())
    return rounded(given.x / s, INT8) @ rounded(given.weight * s, INT8).t()


def _int8_outputs(given: CapturedLayer) -> torch.Tensor:
    return rounded(given.x, INT8) @ rounded(given.weight, INT8).t()


def _decomposed_outputs(given: CapturedLayer, function: Callable[..., torch.Tensor]) -> torch.Tensor:
    return function(given.x.clone(), given.weight.clone(), THRESHOLD)


def _decomposed_at_half(given: CapturedLayer, function: Callable[..., torch.Tensor]) -> torch.Tensor:
    return function(given.x.clone(), given.weight.clone(), THRESHOLD / 2)


def _in_groups(weight: torch.Tensor, group: int, largest: float, to_whole: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Groups of a row, with another largest code or another way to whole numbers than the definition's."""
    parts = weight.reshape(weight.shape[0], -1, group)
    scale = parts.abs().amax(dim=-1, keepdim=True) / largest
    return (to_whole(parts / scale).clamp(-8, 7) * scale).reshape(weight.shape)


def _codes(weight: torch.Tensor, bits: int, group: int) -> torch.Tensor:
    parts = weight.reshape(weight.shape[0], -1, group)
    return torch.round(parts / (parts.abs().amax(dim=-1, keepdim=True) / (2 ** (bits - 1) - 1))).reshape(weight.shape)


def _parts(weight: torch.Tensor, peak: Callable[[torch.Tensor], torch.Tensor], *shape: int) -> torch.Tensor:
    """Four bits with the scale that `peak` finds in the weight of another shape."""
    parts = weight.reshape(weight.shape[0], *shape)
    scale = peak(parts) / 7
    return (torch.round(parts / scale).clamp(-8, 7) * scale).reshape(weight.shape)


def _with_zero_point(weight: torch.Tensor, bits: int, group: int) -> torch.Tensor:
    return rounded(weight, Format(bits, group=group, zero_point=True))


def _down_columns(weight: torch.Tensor, bits: int, group: int) -> torch.Tensor:
    return rounded(weight.t().contiguous(), Format(bits, group=group)).t()


def _column(values: torch.Tensor) -> torch.Tensor:
    return values.abs().amax(dim=0)


def _split(x: torch.Tensor, weight: torch.Tensor, threshold: float, *, whole: bool = True, share: Share = "row") -> torch.Tensor:
    """Both products of LLM.int8(); whole: with the one that is left in floating point."""
    outlier = (x.abs() >= threshold).any(dim=0)
    rest = Format(8, share=share)
    y = rounded(x[:, ~outlier], rest) @ rounded(weight[:, ~outlier], rest).t()
    return y + x[:, outlier] @ weight[:, outlier].t() if whole else y


def _outliers_alone(x: torch.Tensor, weight: torch.Tensor, threshold: float) -> torch.Tensor:
    outlier = (x.abs() >= threshold).any(dim=0)
    return x[:, outlier] @ weight[:, outlier].t()


def _scaled_with_outliers(x: torch.Tensor, weight: torch.Tensor, threshold: float) -> torch.Tensor:
    """Rounded by the scales of whole rows, the outliers in them."""
    outlier = (x.abs() >= threshold).any(dim=0)
    return x[:, outlier] @ weight[:, outlier].t() + rounded(x, INT8)[:, ~outlier] @ rounded(weight, INT8)[:, ~outlier].t()


def _elementwise(x: torch.Tensor, weight: torch.Tensor, threshold: float) -> torch.Tensor:
    large = torch.where(x.abs() >= threshold, x, 0.0)
    return large @ weight.t() + rounded(x - large, INT8) @ rounded(weight, INT8).t()


def _one_side(x: torch.Tensor, weight: torch.Tensor, threshold: float, *, left: bool) -> torch.Tensor:
    outlier = (x.abs() >= threshold).any(dim=0)
    a, w = x[:, ~outlier], weight[:, ~outlier]
    return x[:, outlier] @ weight[:, outlier].t() + (rounded(a, INT8) @ w.t() if left else a @ rounded(w, INT8).t())


EXERCISES = {
    exercise.name: exercise
    for exercise in (
        Exercise(
            "groups", _rounded_outputs, lambda weight, bits, group: rounded(weight, Format(bits, group=group)),
            lambda given: given.x @ rounded(given.weight, Format(BITS)).t(),
            (
                UsualMistake(lambda weight, bits, group: rounded(weight, Format(bits)),
                     "A row has one scale here: reshape it to [N, K / group, group] and take the maxima of the last axis."),
                UsualMistake(lambda weight, bits, group: rounded(weight, Format(bits, share="tensor")),
                     "The whole matrix has one scale here: take the maxima with dim=-1 and keepdim=True, within each group."),
                UsualMistake(_down_columns, "The groups run down the columns here: consecutive elements of a row share a scale."),
                UsualMistake(lambda weight, bits, group: _in_groups(weight, group, 8, torch.round),
                     "The largest weight becomes 8 here, and the clamp makes it 7: divide by 2^(b-1) - 1, which is 7."),
                UsualMistake(lambda weight, bits, group: _in_groups(weight, group, 15, torch.round),
                     "The scale is too small here: max|w| becomes 2^(b-1) - 1, which is 7 of 4 bits, and not 15."),
                UsualMistake(lambda weight, bits, group: _in_groups(weight, group, 7, torch.trunc),
                     "This cuts off: round to nearest, with .round()."),
                UsualMistake(lambda weight, bits, group: _in_groups(weight, group, 7, torch.floor),
                     "This rounds down: round to nearest, with .round()."),
                UsualMistake(lambda weight, bits, group: _in_groups(weight, group, 16, torch.round),
                     "The scale is too small here: max|w| becomes 2^(b-1) - 1, which is 7 of 4 bits, and not 16."),
                UsualMistake(lambda weight, bits, group: _in_groups(weight, group, 7, torch.ceil),
                     "This rounds up: round to nearest, with .round()."),
                UsualMistake(lambda weight, bits, group: _parts(weight, lambda parts: parts.amax(dim=-1, keepdim=True), -1, group),
                     "The scale comes from the largest value: take the largest magnitude, with .abs() first."),
                UsualMistake(lambda weight, bits, group: _parts(weight, lambda parts: parts.abs().amax(dim=1, keepdim=True), -1, group),
                     "The maxima are taken over the groups here: take those of the last axis, within each group."),
                UsualMistake(lambda weight, bits, group: _parts(weight, lambda parts: parts.abs().amax(dim=1, keepdim=True), group, -1),
                     "Elements that are K / group apart share a scale here: reshape to [N, K / group, group], so that neighbours do."),
                UsualMistake(_with_zero_point, "This has a zero point: it is better than what is asked for, which is symmetric."),
                UsualMistake(_codes, "These are the codes q: return q * s, numbers of the size of the weight."),
            ), _rounded_finer, f"{BITS - 1} bits and groups of {2 * GROUP}",
        ),
        Exercise(
            "smooth", _smooth_outputs, smoothing, _int8_outputs,
            (
                UsualMistake(lambda x, weight: _column(x) / _column(weight), "The root is missing: s is the root of the quotient."),
                UsualMistake(lambda x, weight: (_column(weight) / _column(x)).sqrt(),
                     "This is 1 / s: the maxima of X stand above, those of W below."),
                UsualMistake(lambda x, weight: _column(x),
                     "The maxima of X alone move all of the outliers into W: divide by those of W, and take the root."),
                UsualMistake(lambda x, weight: _column(x).sqrt(),
                     "The maxima of the columns of W are missing below the root, or one number stands for all of them: dim=0."),
                UsualMistake(lambda x, weight: (_column(x) * _column(weight)).sqrt(), "This multiplies by the maxima of W: divide."),
                UsualMistake(lambda x, weight: (x.amax(dim=0).clamp(min=1e-5) / weight.amax(dim=0).clamp(min=1e-5)) ** 0.5,
                     "These are the largest values: take the largest magnitudes, with .abs() first."),
                UsualMistake(lambda x, weight: (x.abs().mean(dim=0) / weight.abs().mean(dim=0)).sqrt(),
                     "These are means: take the largest magnitudes."),
                UsualMistake(lambda x, weight: (x.std(dim=0) / weight.std(dim=0)).sqrt(),
                     "These are standard deviations: take the largest magnitudes."),
                UsualMistake(lambda x, weight: smoothing(x, weight, 0.75), "This is a strength of 0.75: the root stands for 0.5."),
                UsualMistake(lambda x, weight: torch.ones(x.shape[1]), "This s changes nothing: it has to differ from feature to feature."),
            ),
        ),
        Exercise(
            "decompose", _decomposed_outputs, llm_int8, _int8_outputs,
            (
                UsualMistake(lambda x, weight, threshold: rounded(x, INT8) @ rounded(weight, INT8).t(),
                     "All of X was rounded here: features with |x| >= threshold are to be multiplied as they are."),
                UsualMistake(lambda x, weight, threshold: _split(x, weight, threshold, whole=False),
                     "The product of the outlier features is missing: return the sum of both."),
                UsualMistake(_outliers_alone, "The product of all other features is missing: return the sum of both."),
                UsualMistake(lambda x, weight, threshold: _split(x, weight, threshold, share="tensor"),
                     "X and W have one scale each here: one for each row of X and one for each row of W."),
                UsualMistake(_scaled_with_outliers,
                     "The scales come from whole rows here, outliers included: take out the outlier features first, then find the scales."),
                UsualMistake(_elementwise, "Single elements are split here: a feature with one outlier goes whole, from X and from W."),
                UsualMistake(lambda x, weight, threshold: _one_side(x, weight, threshold, left=True),
                     "W was not rounded: both factors are."),
                UsualMistake(lambda x, weight, threshold: _one_side(x, weight, threshold, left=False),
                     "X was not rounded: both factors are."),
            ), _decomposed_at_half, f"a threshold of {THRESHOLD / 2:g}",
        ),
    )
}  # fmt: skip
