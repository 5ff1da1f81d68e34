"""The notebook's exercises: a function on plain tensors, checked by the error of a layer's outputs on captured inputs.

Nothing here gives points, and the function runs where it was written: it is the reader's own.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import TracebackType

import torch

from grader.notebook.cells import running_shell
from grader.reading import unread
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
WINDOWS = 2
CLOSE = 0.25
"""By how much of the definition's own error the outputs may differ from those of the definition: ties, and scales in fp16, are less."""

UNROUNDED = 1e-3
"""An output error of so little of the definition's is that of fp32 sums in another order."""

SAME = 1e-4
"""How far, relatively, what outputs are known by may lie from a usual mistake's to be taken for it: the order of fp32 sums."""

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
    message: str


@dataclass(frozen=True)
class Exercise:
    """`outputs(captured, function)`: the layer's outputs with the reader's function; `right`: what does it as defined.

    returned: the shape that a function is asked to return, and the words for it.
    plain: the output error without the method. slips: what is often done instead; each has an output error of its own.
    again: the same with other arguments than the first ones, which `other` names; None where there are none.
    """

    name: str
    outputs: Callable[[CapturedLayer, Callable[..., torch.Tensor]], torch.Tensor]
    right: Callable[..., torch.Tensor]
    returned: Callable[[CapturedLayer], tuple[tuple[int, ...], str]]
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


class BadAnswer(Exception):
    """What a function returned can be no answer; the message is a sentence about it."""


@dataclass(frozen=True)
class Known:
    """What stays the same from one check to the next. plain: the output error without the method."""

    outputs: torch.Tensor
    error: float
    plain: float

    def right(self, found: torch.Tensor) -> bool:
        return relative_error(found, self.outputs) <= CLOSE * self.error


@cache
def known(name: str) -> Known:
    """The definition's outputs with the first arguments, its error, and that without the method."""
    exercise, given = EXERCISES[name], captured()
    defined = exercise.outputs(given, exercise.right)
    return Known(defined, relative_error(defined, given.outputs), relative_error(exercise.plain(given), given.outputs))


@cache
def known_again(name: str) -> Known:
    """The same with other arguments, where an exercise has some."""
    exercise, given = EXERCISES[name], captured()
    assert exercise.again is not None
    defined = exercise.again(given, exercise.right)
    return Known(defined, relative_error(defined, given.outputs), 0.0)


@cache
def slipped(name: str, slip: int) -> tuple[float, float, float]:
    """What outputs are known by, of a slip by its number."""
    exercise = EXERCISES[name]
    return known_by(name, exercise.outputs(captured(), exercise.slips[slip].function))


def known_by(name: str, outputs: torch.Tensor) -> tuple[float, float, float]:
    """Their error, their distance from the definition's outputs, and how long they are along those."""
    defined = known(name).outputs.flatten()
    along = float(outputs.detach().flatten() @ defined / (defined @ defined))
    return relative_error(outputs, captured().outputs), relative_error(outputs, known(name).outputs), along


def check_outputs(name: str, function: Callable[..., torch.Tensor]) -> bool:
    """Prints whether `function` does what exercise `name` asks for, and returns it. KeyError names the exercises."""
    if name not in EXERCISES:
        raise KeyError(f"found no exercise {name!r}; the exercises are {', '.join(EXERCISES)}")
    shell = running_shell()
    broken = unread(shell.history_manager.input_hist_raw, function.__name__) if shell is not None and callable(function) else ""
    if broken:
        print(f"✗ {name}: {broken}\n  Then run that cell, and this one.")
        return False
    exercise, given, first = EXERCISES[name], captured(), known(name)
    written = _written(exercise, given, function)
    try:
        found = exercise.outputs(given, written)
        other = first.right(found) and exercise.again is not None and not known_again(name).right(exercise.again(given, written))
    except BadAnswer as problem:
        print(f"✗ {name}: {problem}")
        return False
    except Exception as problem:
        print(f"✗ {name}: {_stopped(function, problem)}")
        return False
    error, right = relative_error(found, given.outputs), first.right(found) and not other
    numbers = f"output error {error:.4f}, by definition {first.error:.4f}; without the method {first.plain:.4f}"
    print(f"{'✓' if right else '✗'} {name}: {numbers}")
    if other:
        print(f"  Right with the arguments of the first check, and not with {exercise.other}: compute with the arguments.")
    elif not right:
        apart = relative_error(found, first.outputs)
        said = f"These are other outputs than the definition's: they differ from them by {apart:.4f} of their size."
        print(f"  {_slip(name, found) or said}")
    return right


def _slip(name: str, found: torch.Tensor) -> str:
    """What the usual mistake is that gives these outputs, as far as they are known by three numbers; "" for another one."""
    numbers = known_by(name, found)
    error = numbers[0]
    if error <= UNROUNDED * known(name).error:
        return "Nothing was rounded: these are the outputs of the layer as it was."
    if error == 1.0:
        return "All outputs are zero here: divide by s to find q, and multiply q by s."
    for number, slip in enumerate(EXERCISES[name].slips):
        if all(abs(a - b) <= SAME * abs(b) for a, b in zip(numbers, slipped(name, number), strict=True)):
            return slip.message
    return ""


def _stopped(function: Callable[..., torch.Tensor], problem: Exception) -> str:
    """What a function met, and on which line of its cell: the innermost one that is the reader's own."""
    own, trace = getattr(function, "__code__", None), problem.__traceback__
    found: TracebackType | None = None
    while trace is not None:
        found = trace if own is not None and trace.tb_frame.f_code.co_filename == own.co_filename else found
        trace = trace.tb_next
    said = f"{type(problem).__name__}: {problem}"
    if found is None:
        return said
    line = linecache.getline(found.tb_frame.f_code.co_filename, found.tb_lineno).strip()
    return f"line {found.tb_lineno} of the cell stopped with {said}" + (f"\n    {line}" if line else "")


def _written(exercise: Exercise, given: CapturedLayer, function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The reader's function, with demands on what it returns. Raises BadAnswer."""
    name = getattr(function, "__name__", "the function")

    def written(*arguments: object) -> torch.Tensor:
        if not callable(function):
            raise BadAnswer(f"found {type(function).__name__}, expected a function; give check_outputs the function itself, without ()")
        result = function(*arguments)
        if result is None:
            raise BadAnswer(f"{name} returns nothing, expected a tensor; write the function's body, and end it with return")
        if not isinstance(result, torch.Tensor):
            raise BadAnswer(f"{name} returns {type(result).__name__}, expected one tensor")
        if result.dtype != torch.float32:
            raise BadAnswer(f"{name} returns {result.dtype}, expected torch.float32, as the arguments are; .float() converts it")
        shape, words = exercise.returned(given)
        if tuple(result.shape) not in (shape, (1, *shape)):
            raise BadAnswer(f"{name} returns the shape {list(result.shape)}, expected {list(shape)}: {words}")
        if not bool(result.isfinite().all()):
            raise BadAnswer(
                f"{name} returns {int((~result.isfinite()).sum())} elements that are inf or nan: is something divided by 0, "
                "or is a root taken of a negative number? (2 ** 3 is a power, 2 ^ 3 is not.)"
            )
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


def _in_groups(
    weight: torch.Tensor, group: int, largest: float, to_whole: Callable[[torch.Tensor], torch.Tensor], *, clamped: float = 7
) -> torch.Tensor:
    """Groups of a row, with another largest code or another way to whole numbers than the definition's. clamped: the largest code."""
    parts = weight.reshape(weight.shape[0], -1, group)
    scale = parts.abs().amax(dim=-1, keepdim=True) / largest
    return (to_whole(parts / scale).clamp(-clamped - 1, clamped) * scale).reshape(weight.shape)


def _divided_down(weight: torch.Tensor, bits: int, group: int) -> torch.Tensor:
    parts = weight.reshape(weight.shape[0], -1, group)
    scale = parts.abs().amax(dim=-1, keepdim=True) / 7
    return ((parts // scale).clamp(-8, 7) * scale).reshape(weight.shape)


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


def _of_chosen(x: torch.Tensor, weight: torch.Tensor, exact: torch.Tensor, rest: torch.Tensor) -> torch.Tensor:
    """The product of the features `exact` as they are, and of those in `rest` rounded."""
    return x[:, exact] @ weight[:, exact].t() + rounded(x[:, rest], INT8) @ rounded(weight[:, rest], INT8).t()


def _of_outliers(x: torch.Tensor, threshold: float) -> torch.Tensor:
    return (x.abs() >= threshold).any(dim=0)


def _large_values(x: torch.Tensor, weight: torch.Tensor, threshold: float) -> torch.Tensor:
    outlier = (x >= threshold).any(dim=0)
    return _of_chosen(x, weight, outlier, ~outlier)


def _in_another_way(
    x: torch.Tensor, weight: torch.Tensor, threshold: float, *, dim: int = 1, largest: int = 127,
    to_whole: Callable[[torch.Tensor], torch.Tensor] = torch.round, scaled: bool = True,
) -> torch.Tensor:
    """Both products, with int8 along another axis, with another largest code or way to whole numbers, or left as codes."""
    outlier = _of_outliers(x, threshold)

    def int8(rows: torch.Tensor) -> torch.Tensor:
        scale = rows.abs().amax(dim=dim, keepdim=True) / largest
        return to_whole(rows / scale) * (scale if scaled else 1.0)

    return x[:, outlier] @ weight[:, outlier].t() + int8(x[:, ~outlier]) @ int8(weight[:, ~outlier]).t()


def _one_side(x: torch.Tensor, weight: torch.Tensor, threshold: float, *, left: bool) -> torch.Tensor:
    outlier = (x.abs() >= threshold).any(dim=0)
    a, w = x[:, ~outlier], weight[:, ~outlier]
    return x[:, outlier] @ weight[:, outlier].t() + (rounded(a, INT8) @ w.t() if left else a @ rounded(w, INT8).t())


EXERCISES = {
    exercise.name: exercise
    for exercise in (
        Exercise(
            "groups", _rounded_outputs, lambda weight, bits, group: rounded(weight, Format(bits, group=group)),
            lambda given: (tuple(given.weight.shape), "that of the weight; .reshape(weight.shape) gives it back"),
            lambda given: given.x @ rounded(given.weight, Format(BITS)).t(),
            (
                UsualMistake(lambda weight, bits, group: rounded(weight, Format(bits)),
                     "A row has one scale here: reshape it to [N, K / group, group] and take the maxima of the last axis."),
                UsualMistake(lambda weight, bits, group: rounded(weight, Format(bits, share="tensor")),
                     "The whole matrix has one scale here: take the maxima with dim=-1 and keepdim=True, within each group."),
                UsualMistake(_down_columns, "The groups run down the columns here: consecutive elements of a row share a scale."),
                UsualMistake(lambda weight, bits, group: _in_groups(weight, group, 8, torch.round),
                     "The largest weight becomes 8 here, and the clamp makes it 7: divide by 2^(b-1) - 1, which is 7."),
                UsualMistake(lambda weight, bits, group: _in_groups(weight, group, 8, torch.round, clamped=8),
                     "The largest weight becomes 8 here, which 4 bits do not hold: divide by 2^(b-1) - 1, which is 7; clamp to -8 to 7."),
                UsualMistake(lambda weight, bits, group: _in_groups(weight, group, 15, torch.round),
                     "The scale is too small here: max|w| becomes 2^(b-1) - 1, which is 7 of 4 bits, and not 15."),
                UsualMistake(lambda weight, bits, group: _in_groups(weight, group, 15, torch.round, clamped=15),
                     "These are codes of 5 bits, up to 15: max|w| becomes 2^(b-1) - 1, which is 7 of 4 bits."),
                UsualMistake(lambda weight, bits, group: _in_groups(weight, group, 16, torch.round, clamped=16),
                     "These are codes of more than 5 bits, up to 16: max|w| becomes 2^(b-1) - 1, which is 7 of 4 bits."),
                UsualMistake(_divided_down, "// rounds down: divide with /, and round to nearest, with .round()."),
                UsualMistake(lambda weight, bits, group: _parts(weight, lambda parts: parts.abs().amax(dim=0, keepdim=True), -1, group),
                     "The maxima are taken over the rows here (dim=0): take those of the last axis, within each group."),
                UsualMistake(lambda weight, bits, group: _parts(weight, lambda parts: parts.abs().amax(dim=-1, keepdim=True), group, -1),
                     "A row has as many groups here as a group should have elements: reshape to [N, K / group, group]."),
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
            "smooth", _smooth_outputs, smoothing,
            lambda given: ((given.x.shape[1],), "one number for each feature, [K]; dim=0 finds the largest of each column"), _int8_outputs,
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
                UsualMistake(lambda x, weight: (x.amax(dim=0).clamp(min=1e-5) / _column(weight)).sqrt(),
                     "These are the largest values of X: take the largest magnitudes, with .abs() first."),
                UsualMistake(lambda x, weight: (_column(x) / weight.amax(dim=0).clamp(min=1e-5)).sqrt(),
                     "These are the largest values of W: take the largest magnitudes, with .abs() first."),
                UsualMistake(lambda x, weight: (x.abs().max() / _column(weight)).sqrt(),
                     "One number stands for all columns of X: dim=0 gives each its own."),
                UsualMistake(lambda x, weight: (x.abs().mean(dim=0) / weight.abs().mean(dim=0)).sqrt(),
                     "These are means: take the largest magnitudes."),
                UsualMistake(lambda x, weight: (x.std(dim=0) / weight.std(dim=0)).sqrt(),
                     "These are standard deviations: take the largest magnitudes."),
                UsualMistake(lambda x, weight: smoothing(x, weight, 0.75), "This is a strength of 0.75: the root stands for 0.5."),
                UsualMistake(lambda x, weight: torch.ones(x.shape[1]), "This s changes nothing: it has to differ from feature to feature."),
            ),
        ),
        Exercise(
            "decompose", _decomposed_outputs, llm_int8, lambda given: (tuple(given.outputs.shape), "[M, N], the sum of both products"),
            _int8_outputs,
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
                UsualMistake(_large_values, "Only large positive values count here: compare |x|, with .abs()."),
                UsualMistake(lambda x, weight, threshold: _of_chosen(x, weight, *[_of_outliers(x, threshold)] * 2),
                     "The outlier features are multiplied twice here, and the others not at all: ~ picks the others."),
                UsualMistake(lambda x, weight, threshold: _of_chosen(x, weight, *[~_of_outliers(x, threshold)] * 2),
                     "The features without outliers are multiplied twice here, and the outliers not at all."),
                UsualMistake(lambda x, weight, threshold: _of_chosen(x, weight, ~_of_outliers(x, threshold), _of_outliers(x, threshold)),
                     "The outlier features are rounded here and the others are not: it is the other way round."),
                UsualMistake(lambda x, weight, threshold: _in_another_way(x, weight, threshold, dim=0),
                     "These are the scales of columns: a row of X and a row of W has one each, dim=1."),
                UsualMistake(lambda x, weight, threshold: _in_another_way(x, weight, threshold, largest=128),
                     "The largest of a row becomes 128 here, which int8 does not hold: divide by 127."),
                UsualMistake(lambda x, weight, threshold: _in_another_way(x, weight, threshold, to_whole=torch.trunc),
                     "This cuts off: round to nearest, with .round()."),
                UsualMistake(lambda x, weight, threshold: _in_another_way(x, weight, threshold, scaled=False),
                     "The codes are multiplied here without their scales: int8 gives back q * s."),
                UsualMistake(_elementwise, "Single elements are split here: a feature with one outlier goes whole, from X and from W."),
                UsualMistake(lambda x, weight, threshold: _one_side(x, weight, threshold, left=True),
                     "W was not rounded: both factors are."),
                UsualMistake(lambda x, weight, threshold: _one_side(x, weight, threshold, left=False),
                     "X was not rounded: both factors are."),
            ), _decomposed_at_half, f"a threshold of {THRESHOLD / 2:g}",
        ),
    )
}
