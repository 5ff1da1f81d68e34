"""Whether what the interpreter stored is what the compiled kernel stored."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from tests.language.cases import Case, kind_of

HERE = Path(__file__).parent


@cache
def recorded() -> dict[str, np.ndarray]:
    """What the kernels stored on an H200, by "case/argument"; `about` has versions and date."""
    with np.load(HERE / "compiled_nvidia_h200.npz") as file:
        return {name: file[name] for name in file.files}


def difference(case: Case, name: str, found: np.ndarray, expected: np.ndarray) -> str:
    """One sentence about the first element that differs by more than the case allows; empty when none does.

    NaN equals NaN and zeros equal each other, whatever their bits.
    """
    kind = kind_of(case, name)
    floating = kind.startswith(("fp1", "fp3", "fp6", "bf"))
    with np.errstate(all="ignore"):
        x, y = (_values(data, kind) if floating else data for data in (found, expected))
    if case.unordered:
        x, y = np.sort(x), np.sort(y)
    same = x == y
    with np.errstate(all="ignore"):
        if floating:
            allowed = case.ulp * _unit(y, kind) + case.near
            same |= (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= allowed)
        elif case.near:
            same |= np.abs(x.astype(np.int64) - y.astype(np.int64)) <= case.near
    if same.all():
        return ""
    at = int(np.flatnonzero(~same)[0])
    return f"{case.name}/{name}[{at}] is {x[at]} on the interpreter and {y[at]} compiled ({int((~same).sum())} of {len(x)} differ)"


def _values(data: np.ndarray, kind: str) -> np.ndarray:
    if kind == "bf16":
        data = (data.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return data.astype(np.float64)


def _unit(values: np.ndarray, kind: str) -> np.ndarray:
    digits, smallest = {"fp16": (10, -14), "bf16": (7, -126), "fp32": (23, -126), "fp64": (52, -1022)}.get(kind, (0, 0))
    _, exponent = np.frexp(np.where(np.isfinite(values), values, 1.0))
    return np.ldexp(1.0, np.maximum(exponent - 1, smallest) - digits)
