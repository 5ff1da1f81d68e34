"""Which elements of an output are wrong, by how much, and in which tiles: an ErrorMap from an output and its reference."""

from __future__ import annotations

import numpy as np
import torch

from grader.labs import Lab
from grader.model import NEAR_BOUNDS, Config, ErrorMap, Reference, Verdict

Verdicts = np.ndarray[tuple[int, int], np.dtype[np.uint8]]
"""The Verdict of each element, or of each cell of elements."""

MAX_CELLS = 256
"""Most cells along a side: a tile of 16 stays visible in a matrix of 4096."""


def error_map(lab: Lab, case: str, config: Config, y: torch.Tensor, reference: Reference) -> ErrorMap:
    """The map of one output. y: fp16 [M, N] on the reference's device."""
    verdicts = classify(y, reference)
    counts = np.bincount(verdicts.ravel(), minlength=len(Verdict)).tolist()
    M, N = verdicts.shape
    step = (-(-M // MAX_CELLS), -(-N // MAX_CELLS))
    return ErrorMap(
        case=case,
        config=config.index,
        M=M,
        N=N,
        step=step,
        cells=_worst_of(verdicts, step),
        counts=(counts[0], counts[1], counts[2], counts[3]),
        tile=tile_of(lab, config),
    )


def classify(y: torch.Tensor, reference: Reference) -> Verdicts:
    """The Verdict of each element: uint8 [M, N] on the host."""
    error = (y.double() - reference.y).abs()
    verdicts = torch.full_like(error, Verdict.FAR, dtype=torch.uint8)
    verdicts[error <= NEAR_BOUNDS * reference.bound] = Verdict.NEAR
    verdicts[error <= reference.bound] = Verdict.RIGHT
    verdicts[torch.isnan(y)] = Verdict.UNWRITTEN
    return verdicts.cpu().numpy()


def tile_of(lab: Lab, config: Config) -> tuple[int, int] | None:
    """Rows and columns of Y that one program makes, by the usual names BLOCK_M and BLOCK_N; None where there are none."""
    rows = config.constants.get("BLOCK_M")
    columns = config.constants.get("BLOCK_N", lab.constants.get("BLOCK"))
    if isinstance(rows, int) and isinstance(columns, int) and rows > 0 and columns > 0:
        return rows, columns
    return None


def _worst_of(verdicts: Verdicts, step: tuple[int, int]) -> Verdicts:
    rows, columns = (-(-size // by) for size, by in zip(verdicts.shape, step, strict=True))
    padded = np.zeros((rows * step[0], columns * step[1]), dtype=np.uint8)
    padded[: verdicts.shape[0], : verdicts.shape[1]] = verdicts
    worst: Verdicts = padded.reshape(rows, step[0], columns, step[1]).max((1, 3))
    return worst
