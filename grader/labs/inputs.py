"""Inputs that several labs share: activations, memory layouts, int4 packing, symmetric quantisation."""

from __future__ import annotations

import math

import torch

from grader.model import Case


def normal(generator: torch.Generator, *shape: int, device: torch.device) -> torch.Tensor:
    """Standard normal float32 of `shape`."""
    return torch.randn(*shape, generator=generator, device=device)


def activations(case: Case, generator: torch.Generator, device: torch.device) -> torch.Tensor:
    """X, fp16 [M, K], by the recipe `case.x`.

    normal: standard normal. outliers: normal with a few entries 100 times as large. zero_rows: every third row
    zero. positive: no negative entry, so that partial sums grow and an fp16 accumulator rounds ever more coarsely.
    negative: no positive entry. large: positive and 512 times as large, so that sums of x q exceed fp16's range. traps: by row, in turn, an
    outlier, zeros, nearly all below fp16's normal numbers, large, as it is, zeros among others, and two as they are, but that every
    other one of the last is 64 times as large, and one of its entries is 8192 or -8192, an eighth of the largest fp16 number.
    """
    x = normal(generator, case.M, case.K, device=device)
    if case.x == "outliers":
        rows = torch.arange(0, case.M, 4, device=device)
        columns = torch.randint(case.K, (len(rows),), generator=generator, device=device)
        x[rows, columns] *= 100
    elif case.x == "zero_rows":
        x[::3] = 0
    elif case.x == "positive":
        x = x.abs() + 0.5
    elif case.x == "negative":
        x = -x.abs()
    elif case.x == "large":
        x = 512 * (x.abs() + 0.5)
    elif case.x == "traps":
        rows = torch.arange(0, case.M, 8, device=device)
        x[rows, torch.randint(case.K, (len(rows),), generator=generator, device=device)] *= 100
        x[1::8] = 0
        x[2::8] *= 1e-5
        x[3::8] = 256 * x[3::8].abs()
        x[5::8] = x[5::8].relu()
        x[5::8, 0] = 0
        x[7::16] *= 64
        x[7::16, case.K // 3] = x[7::16, case.K // 3].sign() * 8192
    elif case.x != "normal":
        raise ValueError(f"unknown recipe {case.x!r} for X")
    return x.to(torch.float16)


TIMED_OUTLIER = 64.0
ONE_ROW_IN = 8
"""Of so many rows of timed activations, about one has an outlier."""


def timed_activations(
    case: Case, generator: torch.Generator, device: torch.device, launches: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """X of a speed case, fp16 [launches, M, K], and a kind for each row, int64 [launches, M] of 0 to 7.

    Standard normal. Rows of kind 0 have one entry, somewhere, that is 64 times as large.
    """
    x = torch.randn(launches, case.M, case.K, generator=generator, device=device, dtype=torch.float16)
    kind = torch.randint(ONE_ROW_IN, (launches, case.M), generator=generator, device=device)
    place = torch.randint(case.K, (launches, case.M, 1), generator=generator, device=device)
    outlier = x.gather(2, place) * torch.where(kind == 0, TIMED_OUTLIER, 1.0).to(torch.float16)[:, :, None]
    return x.scatter_(2, place, outlier), kind


def random_bytes(generator: torch.Generator, device: torch.device, *shape: int) -> torch.Tensor:
    """int8 of `shape`, every value equally likely; the number of elements is a multiple of 8."""
    words = torch.empty(math.prod(shape) // 8, dtype=torch.int64, device=device)
    return words.random_(-(2**63), None, generator=generator).view(torch.int8).view(shape)


def uniform(generator: torch.Generator, low: float, high: float, *shape: int, device: torch.device) -> torch.Tensor:
    """float32 of `shape` between `low` and `high`."""
    return low + (high - low) * torch.rand(*shape, generator=generator, device=device)


VIEWS = {"column_slice": (1, 8, 16), "odd_slice": (1, 7, 17), "every_other": (2, 8, 16)}
"""Views of C columns into a wider matrix of zeros: their stride, the column that they begin at, and by how much more than 2 C it is wide.
The rows of odd_slice are not aligned."""


def laid_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values in another layout: contiguous, transposed, one of VIEWS, or transposed_gaps, the transpose of every_other."""
    if layout == "contiguous":
        return x.contiguous()
    if layout == "transposed":
        return x.t().contiguous().t()
    if layout == "transposed_gaps":
        return laid_out(x.t(), "every_other").t()
    if layout not in VIEWS:
        raise ValueError(f"unknown layout {layout!r}")
    rows, columns = x.shape
    step, first, more = VIEWS[layout]
    view = x.new_zeros(rows, 2 * columns + more)[:, first : first + step * columns : step]
    view.copy_(x)
    return view


def layout_strides(rows: int, columns: int, layout: str) -> tuple[int, int]:
    """The strides, in elements, that `laid_out` gives a [rows, columns] matrix."""
    if layout.startswith("transposed"):
        along_columns, along_rows = layout_strides(
            columns, rows, "every_other" if layout == "transposed_gaps" else "contiguous"
        )
        return along_rows, along_columns
    if layout == "contiguous":
        return columns, 1
    step, _, more = VIEWS[layout]
    return 2 * columns + more, step


def sizes_and_strides(case: Case, **others: tuple[int, int]) -> dict[str, int]:
    """M, N, K and the strides of X and Y of a case, in elements; of other operands by the ends of their names: `wk_wn=(1, K)` are
    stride_wk and stride_wn."""
    x, y = layout_strides(case.M, case.K, case.x_layout), layout_strides(case.M, case.N, case.y_layout)
    pairs = {"xm_xk": x, **others, "ym_yn": y}
    strides = {
        f"stride_{end}": step for ends, both in pairs.items() for end, step in zip(ends.split("_"), both, strict=True)
    }
    return {"M": case.M, "N": case.N, "K": case.K, **strides}


def quantise_rows(w: torch.Tensor, largest: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Symmetric per-row quantisation of float [R, C]: q = clamp(round(w / s), -largest - 1, largest), s = max|w| / largest.

    Returns (q as int32 [R, C], s as float32 [R]). An all-zero row has scale 1.
    """
    peak = w.float().abs().amax(dim=1)
    scale = torch.where(peak > 0, peak / largest, torch.ones_like(peak))
    q = torch.round(w.float() / scale[:, None]).clamp(-largest - 1, largest)
    return q.to(torch.int32), scale


def pack_int4(q: torch.Tensor) -> torch.Tensor:
    """int32 [K, N] of values -8..7 to int32 words [K/8, N]; element k sits at bits 4 * (k % 8) of word k // 8."""
    K, N = q.shape
    nibbles = (q & 0xF).view(K // 8, 8, N).to(torch.int64)
    shifts = torch.arange(0, 32, 4, device=q.device).view(1, 8, 1)
    words = (nibbles << shifts).sum(dim=1)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def unpack_int4(words: torch.Tensor) -> torch.Tensor:
    """int32 words [K/8, N] to int32 values [K, N] in -8..7: the inverse of `pack_int4`."""
    shifts = torch.arange(0, 32, 4, device=words.device, dtype=torch.int32).view(1, 8, 1)
    nibbles = (words.unsqueeze(1) >> shifts) & 0xF
    signed = torch.where(nibbles >= 8, nibbles - 16, nibbles)
    return signed.reshape(-1, words.shape[1])
