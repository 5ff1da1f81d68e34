"""W8A8: quantisation of X and its scales, as they go wrong. Then what goes wrong in any tiled product."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from grader.labs.generic_mistakes import generic_mistakes
from grader.labs.imitation import Imitation, Mistake, grid_of, product, reread, tiles
from grader.labs.tiling_mistakes import (
    Operands,
    Reading,
    half_sum,
    sizes,
)
from grader.model import Config, Problem

TIE_WIDTH = 4 * 127 * 2.0**-24
Convert = Callable[[torch.Tensor], torch.Tensor]


def clamped(ratio: torch.Tensor) -> torch.Tensor:
    """x / s to int8 as it should be."""
    return torch.round(ratio).clamp(-128, 127)


def scale_of(problem: Problem, name: str) -> torch.Tensor:
    return problem.tensors[f"{name}_scale_ptr"].double()


def integers(problem: Problem) -> torch.Tensor:
    """The stored weight, float64 [N, K] of int8 values."""
    return problem.tensors["qweight_ptr"].t().double()


def converted(ratio: torch.Tensor, convert: Convert) -> tuple[torch.Tensor, torch.Tensor]:
    """`convert(x / s)`, and how much it could differ when x / s is off by rounding."""
    return convert(ratio), (convert(ratio + TIE_WIDTH) - convert(ratio - TIE_WIDTH)).abs()


def read_as(problem: Problem, x: torch.Tensor) -> list[Reading]:
    """A from X; poison becomes 0 on the interpreter, -128 on a GPU after a clamp."""
    scale = scale_of(problem, "input")[:, None]
    q, slack = converted(x / scale, clamped)
    poison = q.isnan()
    values = (0.0, -128.0, 127.0) if bool(poison.any()) else (0.0,)
    return [(torch.where(poison, value, q) * scale, slack.nan_to_num(0.0) * scale) for value in values]


def weight(problem: Problem, k: torch.Tensor) -> torch.Tensor:
    _, N, _ = sizes(problem)
    n = torch.arange(N)[:, None]
    index = k[None, :] * problem.scalars["stride_wk"] + n * problem.scalars["stride_wn"]
    return reread(problem.tensors["qweight_ptr"], index).double() * scale_of(problem, "weight")[:, None]


def unscaled(problem: Problem) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    scale = scale_of(problem, "input")[:, None]
    q = clamped(problem.tensors["x_ptr"].double() / scale)
    return q, integers(problem), scale * scale_of(problem, "weight")[None, :]


def quantised_by(*conversions: Convert) -> Callable[[Problem, Config], Iterator[Imitation]]:
    """x / s brought to int8 in another way."""

    def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
        scale = scale_of(problem, "input")[:, None]
        w = integers(problem) * scale_of(problem, "weight")[:, None]
        for convert in conversions:
            q, slack = converted(problem.tensors["x_ptr"].double() / scale, convert)
            yield product(q * scale, w, slack=slack * scale)

    return imitate


def quantised_with(
    scales: Callable[[Problem, int], torch.Tensor], *, rescaled: bool = False
) -> Callable[[Problem, Config], Iterator[Imitation]]:
    """X quantised with other scales: `scales(problem, BLOCK_M)`, float64 [M, 1]; `rescaled`: Y uses them too."""

    def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
        right = scale_of(problem, "input")[:, None]
        w = integers(problem) * scale_of(problem, "weight")[:, None]
        for tile in tiles(config, "M"):
            scale = scales(problem, tile)
            q, slack = converted(problem.tensors["x_ptr"].double() / scale, clamped)
            after = scale if rescaled else right
            yield product(q * after, w, slack=slack * after)

    return imitate


def rescaled_by(
    scale: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
) -> Callable[[Problem, Config], Iterator[Imitation]]:
    """Right integers, other scales. scale(s_x, s_w, m, n): factors of A's rows [M, 1] and W's rows [N, 1]."""

    def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
        M, N, _ = sizes(problem)
        s_x, s_w = scale_of(problem, "input"), scale_of(problem, "weight")
        q, slack = converted(problem.tensors["x_ptr"].double() / s_x[:, None], clamped)
        left, right = scale(s_x, s_w, torch.arange(M), torch.arange(N))
        yield product(q * left[:, None], integers(problem) * right[:, None], slack=slack * left[:, None].abs())

    return imitate


def first_weight_scales(problem: Problem, config: Config) -> Iterator[Imitation]:
    """Right integers, the weight scales of the first column tile."""
    a, slack, _ = OPERANDS.both(problem)
    s_w = scale_of(problem, "weight")
    for tile in tiles(config, "N"):
        yield product(a, integers(problem) * s_w[torch.arange(len(s_w)) % tile, None], slack=slack)


def sum_in_half(problem: Problem, config: Config) -> Iterator[Imitation]:
    q, w, scale = unscaled(problem)
    halved = half_sum([q @ w.t()], scale)
    _, slack, scaled_w = OPERANDS.both(problem)
    assert slack is not None
    yield Imitation(halved.y, halved.bound + slack @ scaled_w.abs().t())


def unquantised(problem: Problem, config: Config) -> Iterator[Imitation]:
    w = integers(problem) * scale_of(problem, "weight")[:, None]
    yield product(problem.tensors["x_ptr"].double(), w, rounded=True)


def half_precision_ratio(problem: Problem, config: Config) -> Iterator[Imitation]:
    scale = scale_of(problem, "input")[:, None]
    w = integers(problem) * scale_of(problem, "weight")[:, None]
    half = scale.to(torch.float16)
    q, slack = converted(problem.tensors["x_ptr"].double() / half.double(), clamped)
    for after in (scale, half.double()):
        yield product(q * after, w, slack=slack * after)
    ratio = (problem.tensors["x_ptr"] / half).double()
    for q in (clamped(ratio), torch.floor(ratio + 0.5).clamp(-128, 127)):
        yield product(q * scale, w)


def weight_at(
    place: Callable[[Problem, torch.Tensor, torch.Tensor], torch.Tensor],
) -> Callable[[Problem, Config], Iterator[Imitation]]:
    """Element (k, n) of the weight read at the flat offset place(problem, k [K, 1], n [1, N])."""

    def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
        _, N, K = sizes(problem)
        a, slack, _ = OPERANDS.both(problem)
        w = reread(problem.tensors["qweight_ptr"], place(problem, *grid_of(K, N))).double().t()
        yield product(a, w * scale_of(problem, "weight")[:, None], slack=slack)

    return imitate


def seen(convert: Convert) -> Callable[[Problem, Config], str]:
    """The element of X for which `convert` and the right conversion differ first."""

    def witness(problem: Problem, config: Config) -> str:
        ratio = problem.tensors["x_ptr"].double() / scale_of(problem, "input")[:, None]
        right, other = clamped(ratio), convert(ratio)
        differ = ((right - other).abs() > 0.5) & ((ratio - torch.floor(ratio) - 0.5).abs() > TIE_WIDTH)
        if not bool(differ.any()):
            return ""
        m, k = (int(i) for i in differ.nonzero()[0])
        return (
            f"X[{m}, {k}] / s is {float(ratio[m, k]):.4g}, which is {int(right[m, k])} in int8; "
            f"your kernel used {int(other[m, k])}"
        )

    return witness


def wrapped(ratio: torch.Tensor) -> torch.Tensor:
    return (torch.round(ratio) + 128) % 256 - 128


def truncated(ratio: torch.Tensor) -> torch.Tensor:
    return torch.trunc(ratio).clamp(-128, 127)


def half_up_truncated(ratio: torch.Tensor) -> torch.Tensor:
    return torch.trunc(ratio + 0.5).clamp(-128, 127)


def narrow(ratio: torch.Tensor) -> torch.Tensor:
    return torch.round(ratio).clamp(-127, 127)


def unsigned(ratio: torch.Tensor) -> torch.Tensor:
    return torch.round(ratio).clamp(0, 127)


OPERANDS = Operands(read_as, weight, unscaled)
ROUNDING = "how does a value that is no integer become one, on both sides of zero?"
EPILOGUE = "write the rescaled element Y[m, n] down with its indices: which scale belongs to m, which to n?"
VIEW = "qweight is a transposed view; which arguments say how far apart its elements are?"

MISTAKES = (
    Mistake("truncation", "X quantised by truncation instead of rounding to nearest", ROUNDING,
            quantised_by(truncated, lambda r: (torch.trunc(r) + 128) % 256 - 128), seen(truncated)),
    Mistake("half_up_truncation", "X quantised by adding 0.5 and truncating, which is wrong for negative values",
            ROUNDING, quantised_by(half_up_truncated), seen(half_up_truncated)),
    Mistake("no_clamp", "X quantised without a clamp, so that values beyond int8 wrap around",
            "what becomes of a value that does not fit into int8?",
            quantised_by(wrapped, lambda r: (torch.trunc(r) + 128) % 256 - 128), seen(wrapped)),
    Mistake("clamp_to_minus_127", "X clamped to [-127, 127]", "what is the smallest value of int8?",
            quantised_by(narrow), seen(narrow)),
    Mistake("floor_rounding", "X quantised by rounding down", ROUNDING,
            quantised_by(lambda r: torch.floor(r).clamp(-128, 127)), seen(torch.floor)),
    Mistake("ceil_rounding", "X quantised by rounding up", ROUNDING,
            quantised_by(lambda r: torch.ceil(r).clamp(-128, 127)), seen(torch.ceil)),
    Mistake("clamp_to_unsigned", "X clamped to numbers from 0 on", "which numbers does int8 hold?",
            quantised_by(unsigned, lambda r: wrapped(torch.round(r).clamp(0, 255))), seen(unsigned)),
    Mistake("not_quantised", "X multiplied as it is, without becoming int8",
            "where in the kernel does X become integers?", unquantised),
    Mistake("fp16_division", "x / s computed in fp16, or from a scale in fp16, whose rounding moves it across the next "
            "threshold", "in which type is the scale kept, and x / s computed?", half_precision_ratio),
    Mistake("unscaled_quantisation", "X rounded to int8 without dividing by its scale first",
            "what has to happen to X before it is rounded?",
            quantised_with(lambda p, tile: torch.ones_like(scale_of(p, "input")[:, None]))),
    Mistake("wrong_token_scale", "X quantised with the scale of another token: the one at its place in the first tile",
            "which rows of X, and which scales, does the second row tile load?",
            quantised_with(lambda p, tile: scale_of(p, "input")[torch.arange(p.scalars["M"]) % tile, None])),
    Mistake("wrong_token_scale", "every row tile quantised and rescaled with the input scales of the first one",
            "which scales does the second row tile load?",
            quantised_with(lambda p, tile: scale_of(p, "input")[torch.arange(p.scalars["M"]) % tile, None],
                           rescaled=True)),
    Mistake("one_scale_for_all_tokens", "every token quantised and rescaled with the scale of token 0",
            "how many scales does X have?",
            quantised_with(lambda p, tile: scale_of(p, "input")[:1, None].expand(p.scalars["M"], 1), rescaled=True)),
    Mistake("wrong_token_scale", "every token quantised with the scale of token 0", "how many scales does X have?",
            quantised_with(lambda p, tile: scale_of(p, "input")[:1, None].expand(p.scalars["M"], 1))),
    Mistake("no_rescale", "the integer product without any scale", EPILOGUE,
            rescaled_by(lambda x, w, m, n: (torch.ones_like(x), torch.ones_like(w)))),
    Mistake("input_scale_forgotten", "the product rescaled with the weight scale only", EPILOGUE,
            rescaled_by(lambda x, w, m, n: (torch.ones_like(x), w))),
    Mistake("weight_scale_forgotten", "the product rescaled with the input scale only", EPILOGUE,
            rescaled_by(lambda x, w, m, n: (x, torch.ones_like(w)))),
    Mistake("input_scale_twice", "the product multiplied by the input scale twice", EPILOGUE,
            rescaled_by(lambda x, w, m, n: (x * x, w))),
    Mistake("weight_scale_twice", "the product multiplied by the weight scale twice", EPILOGUE,
            rescaled_by(lambda x, w, m, n: (x, w * w))),
    Mistake("scale_without_tile_offset", "every column tile rescaled with the weight scales of the first one",
            "which weight scales does the second column tile load?", first_weight_scales),
    Mistake("fp16_before_scaling", "the sum brought to fp16, which ends at 65504, before it is scaled",
            "in which type is the sum when the scales are applied?", sum_in_half),
    Mistake("scales_swapped", "the input scale taken by column and the weight scale by row", EPILOGUE,
            rescaled_by(lambda x, w, m, n: (w[m % len(w)], x[n % len(x)]))),
    Mistake("weight_scale_by_row", "the weight scale taken by row instead of by column", EPILOGUE,
            rescaled_by(lambda x, w, m, n: (x * w[m % len(w)], torch.ones_like(w)))),
    Mistake("input_scale_by_column", "the input scale taken by column instead of by row", EPILOGUE,
            rescaled_by(lambda x, w, m, n: (torch.ones_like(x), w * x[n % len(x)]))),
    Mistake("weight_row_major", "the weight read as a contiguous [K, N] matrix", VIEW,
            weight_at(lambda p, k, n: k * p.scalars["N"] + n)),
    Mistake("weight_strides_swapped", "the weight read with its two strides exchanged", VIEW,
            weight_at(lambda p, k, n: k * p.scalars["stride_wn"] + n * p.scalars["stride_wk"])),
    *generic_mistakes(OPERANDS),
    Mistake("multiplied_by_scale", "X multiplied by its scale before it is rounded, instead of divided",
            "what has to happen to X before it is rounded?",
            quantised_with(lambda p, tile: 1 / scale_of(p, "input")[:, None])),  # after zeros, which it often looks like
)  # fmt: skip
