"""GPTQ: columns are rounded one after the other, and those still to come make up for the error.

    minimise |X W^T - X Q^T|^2 = tr((W - Q) H (W - Q)^T),    H = X^T X

When column j is rounded, the best the later columns F can do is known in closed form, and is the same for each row:

    w[F] -= (w[j] - q[j]) / H^-1[j, j] * H^-1[j, F],    H^-1 that of the columns j and later

All these inverses are rows of one factor: with H^-1 = U^T U, U upper triangular, H^-1[j, F] / H^-1[j, j] of step j is
U[j, F] / U[j, j]. H gets a share of its mean diagonal added first. The grid of a group is taken when its first column
is reached, from the weights as they are by then. Source: Frantar et al. 2023, "GPTQ: Accurate Post-Training Quantization for
Generative Pre-trained Transformers", arXiv:2210.17323, algorithm 1; the paper's blocks of columns change only its speed.
"""

from __future__ import annotations

import torch

from model.quantisers.rounding import Format, Grid, grid_of

DAMPING = 0.01


def hessian(x: torch.Tensor) -> torch.Tensor:
    """H = X^T X, fp64 [K, K], of calibration inputs x [M, K]."""
    x = x.double()
    return x.t() @ x


def objective(weight: torch.Tensor, rounded_weight: torch.Tensor, h: torch.Tensor) -> float:
    """tr((W - Q) H (W - Q)^T), the squared error of the outputs; both weights [N, K], h fp64 [K, K]."""
    difference = (weight - rounded_weight).double()
    return float(((difference @ h) * difference).sum())


def gptq(weight: torch.Tensor, h: torch.Tensor, format: Format, damping: float = DAMPING) -> torch.Tensor:
    """The rounded weight, fp32 [N, K], of weight [N, K] for h = `hessian` of its inputs.

    damping: the share of the mean of H's diagonal that is added to it. Raises ValueError for a format with one scale a tensor
    or a group that does not divide K, and torch.linalg.LinAlgError when H is singular and not damped.
    """
    columns = weight.shape[1]
    group = format.group or columns
    if format.share != "row" or columns % group:
        raise ValueError(f"gptq: found share={format.share!r} and group={group}, expected groups that divide a row of {columns}")
    left, result = weight.detach().double().clone(), torch.empty_like(weight, dtype=torch.float32)
    u = _factor(h, damping)
    grid: Grid | None = None
    for j in range(columns):
        if j % group == 0:
            grid = grid_of(left[:, j : j + group].float(), format)
        assert grid is not None
        result[:, j] = grid.nearest(left[:, j : j + 1].float())[:, 0]
        error = (left[:, j] - result[:, j].double()) / u[j, j]
        left[:, j:] -= error[:, None] * u[j, j:]
    return result


def _factor(h: torch.Tensor, damping: float) -> torch.Tensor:
    """U, upper triangular, with H^-1 = U^T U. A feature that is always zero gets 1 on the diagonal: any value will do for it."""
    h = h.double().clone()
    diagonal = h.diagonal()
    diagonal[diagonal == 0] = 1.0
    diagonal += damping * diagonal.mean()
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(h))
    return torch.linalg.cholesky(inverse, upper=True)  # type: ignore[no-any-return]
