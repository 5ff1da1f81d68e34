"""What DDS is raced on and against: PyTorch's bsr_dense_addmm, tuned and as it comes, and F.linear with a BSR weight."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import torch

from bench.peers import Call, Peer, Skip
from bench.shapes import Shape
from grader.model import Case, Problem
from grader.timing.l2_flush import L2Flush
from grader.timing.rounds import capture, timed_replay

SPARSITIES = (0.5, 0.7, 0.8, 0.9)
LAUNCHES = {128: 32, 1024: 32, 8192: 8, 65536: 2}
"""Launches of one graph by tokens: from 8192 on X and Y of one launch alone displace what L2 held."""


def _shape(M: int, sparsity: float) -> Shape:
    name = f"m{M}_n1024_k1024_s{round(100 * sparsity)}"
    about = f"{M} tokens, 1024 x 1024 weight, sparsity {sparsity}"
    case = Case(name, about, M, 1024, 1024, w=f"sparsity_{sparsity}", launches=LAUNCHES[M])
    return Shape("dds", case, sparsity, ladder=sparsity in (0.8, 0.9) and M in (1024, 8192))


SHAPES = tuple(_shape(M, sparsity) for M in LAUNCHES for sparsity in SPARSITIES)

PARTS = 2
REPLAYS = 5


def _bsr(problem: Problem) -> torch.Tensor:
    tensors, (N, K) = problem.tensors, (problem.scalars["N"], problem.scalars["K"])
    return torch.sparse_bsr_tensor(
        tensors["crow_indices_ptr"], tensors["col_indices_ptr"], tensors["values_ptr"], (N, K), device="cuda"
    )


def _metas(tokens: int) -> list[dict[str, int]]:
    """The kernel's parameters that are searched; SPLIT_N cuts the tokens into tiles of 32 to 256."""
    warps = {32: (2, 4), 64: (2, 4), 128: (4, 8), 256: (4, 8)}
    return [
        {"SPLIT_N": tokens // tile, "GROUP_SIZE_ROW": group, "num_stages": stages, "num_warps": num_warps}
        for group, tile, stages in itertools.product((1, 4), warps, (1, 2, 3, 4))
        for num_warps in warps[tile]
        if tokens % tile == 0
    ]


def _call(problem: Problem, meta: dict[str, int] | None) -> Call:
    """W X^T with X^T stored as such, [K, M], and Y^T written as such: what the kernel wants."""
    from torch.sparse._triton_ops import bsr_dense_addmm

    bsr = _bsr(problem)
    x_transposed = problem.tensors["x_ptr"].t().contiguous()
    y_transposed = torch.empty(bsr.shape[0], x_transposed.shape[1], dtype=torch.float16, device="cuda")
    options: dict[str, Any] = {"beta": 0, "alpha": 1, "out": y_transposed, "skip_checks": True}
    return partial(bsr_dense_addmm, y_transposed, bsr, x_transposed, **options, meta=meta)


def _work(call: Call) -> Callable[[], None]:
    def work() -> None:
        call()

    return work


def _fastest(problem: Problem) -> dict[str, int]:
    flush = L2Flush()
    before = capture(flush)
    times: list[tuple[float, int]] = []
    metas = _metas(problem.scalars["M"])
    for number, meta in enumerate(metas):
        try:
            graph = capture(_work(_call(problem, dict(meta))))
        except Exception:  # too much shared memory, or a tile the compiler refuses: not a candidate
            continue
        events = []
        for _ in range(REPLAYS):
            before.replay()
            events.append(timed_replay(graph))
        torch.cuda.synchronize()
        times.append((median([start.elapsed_time(end) for start, end in events]), number))
    if not times:
        raise Skip("no parameters of bsr_dense_addmm could be launched")
    return metas[min(times)[1]]


def _tuned(problems: Sequence[Problem]) -> list[Call]:
    meta = _fastest(problems[0])
    return [_call(problem, dict(meta)) for problem in problems]


def _stock(problems: Sequence[Problem]) -> list[Call]:
    return [_call(problem, None) for problem in problems]


def _linear(problems: Sequence[Problem]) -> list[Call]:
    return [partial(torch.nn.functional.linear, problem.tensors["x_ptr"], _bsr(problem)) for problem in problems]


def _precompile(problem: Problem, part: int) -> None:
    for meta in _metas(problem.scalars["M"])[part::PARTS]:
        try:
            _call(problem, dict(meta))()
        except Exception:  # the search meets it again and leaves it out
            continue


PEERS = (
    Peer("bsr_dense_addmm, tuned", "dds", "X given and Y left transposed; parameters searched for each shape", _tuned,
         transposed=True, parts=PARTS, precompile=_precompile),
    Peer("bsr_dense_addmm, stock", "dds", "X given and Y left transposed; PyTorch's own parameters", _stock, transposed=True),
    Peer("F.linear, BSR weight", "dds", "X and Y as in the lab", _linear),
)
