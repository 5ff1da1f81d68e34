"""One peer on one shape, in a GPU process of its own: prepared, checked, raced against cuBLAS fp16."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Literal

import torch

from bench.peers import Call, Peer, Skip, get_peer
from grader.labs import Lab, get_lab
from grader.labs.problems import generator_for
from grader.model import Case, Problem
from grader.running.cuda import GpuProcess, ProcessLost
from grader.timing.l2_flush import L2Flush
from grader.timing.rounds import Captured, Timings, capture, race
from grader.timing.telemetry import Monitor, watch_current_gpu

ROUNDS = 45
LARGEST_ERROR = 0.02
"""Relative Frobenius distance to fp64: above bf16's and int8's, below anything that is another product."""


@dataclass(frozen=True)
class PeerJob:
    """Race one peer on one case."""

    peer: str
    case: Case
    seed: int


@dataclass(frozen=True)
class PeaksJob:
    """Tell the peaks of the GPU."""


@dataclass(frozen=True)
class PeerSample:
    """What a race gave; see record.Entry for the fields."""

    status: Literal["timed", "skipped", "failed"]
    message: str = ""
    log_ratios: tuple[float, ...] = ()
    time_us: float = 0.0
    cublas_us: float = 0.0
    error: float | None = None
    extra_bytes: int | None = None
    bytes_moved: int = 0
    operations: int = 0


def serve(connection: Connection, gpu: str) -> None:
    """Answers jobs until the pipe closes; ends when a peer has poisoned the context."""
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    warnings.simplefilter("ignore")
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    connection.send("ready")
    while True:
        try:
            job: Any = connection.recv()
        except EOFError:
            return
        if isinstance(job, PeaksJob):
            from grader.gpu import driver

            connection.send((driver.peaks(), False))
            continue
        sample = _answer(job)
        poisoned = _is_poisoned()
        connection.send((sample, poisoned))
        if poisoned:
            return


class PeerRunner(GpuProcess):
    """The process that peers run in."""

    target = staticmethod(serve)

    def race(self, peer: Peer, case: Case, seed: int, seconds: float) -> PeerSample:
        """Races, and restarts the process when the peer takes it down or takes too long."""
        sample: PeerSample | ProcessLost = self.ask(PeerJob(peer.name, case, seed), seconds)
        if sample is ProcessLost.LATE:
            return PeerSample("failed", f"took longer than {seconds:.0f} s")
        return PeerSample("failed", "its process died") if isinstance(sample, ProcessLost) else sample


def _answer(job: PeerJob) -> PeerSample:
    try:
        return race_peer(get_peer(job.peer), job.case, job.seed)
    except Skip as reason:
        return PeerSample("skipped", str(reason))
    except Exception as error:  # whatever a library raises is the reason why it has no time
        lines = str(error).strip().splitlines() or [""]
        return PeerSample("failed", f"{type(error).__name__}: {lines[0][:200]}")


def _is_poisoned() -> bool:
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    except RuntimeError:
        return True
    return False


def race_peer(peer: Peer, case: Case, seed: int) -> PeerSample:
    """Races a peer on the current GPU. Raises what the peer raises."""
    lab, device = get_lab(peer.lab_id), torch.device("cuda")
    problems = [
        lab.problem(case, generator_for(seed, lab.id, case.name, copy, device=device), device)
        for copy in range(case.launches)
    ]
    calls = peer.prepare(problems)
    calls[0]()
    extra_bytes = _allocated_by(calls[0])
    error = _error(lab, peer, problems[-1], calls[-1]()) if peer.checked else None
    if error is not None and not error <= LARGEST_ERROR:
        return PeerSample("failed", f"its result is {error:.3g} away from fp64, so its time means nothing", error=error)
    watch = watch_current_gpu()
    timings = _race(lab, problems, calls, watch)
    return PeerSample(
        "timed",
        "; ".join(watch.notes()) if watch else "",
        timings.log_ratios,
        1e3 * timings.a_ms / case.launches,
        1e3 * timings.b_ms / case.launches,
        error,
        extra_bytes,
        lab.bytes_moved(problems[0]),
        lab.operations(problems[0]),
    )


def _allocated_by(call: Call) -> int:
    """Peak of device memory allocated during a call, its result included."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = call()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    del result
    return int(peak)


def _error(lab: Lab, peer: Peer, problem: Problem, y: torch.Tensor) -> float:
    reference = lab.reference(problem, 1).y
    y = (y.t() if peer.transposed else y).double()
    return float(torch.linalg.norm(y - reference) / torch.linalg.norm(reference))


def _race(lab: Lab, problems: Sequence[Problem], calls: Sequence[Call], watch: Monitor | None) -> Timings:
    """Outputs of a graph's calls are kept apart, as the lab's own are."""
    weights = [lab.baseline_weight(problem) for problem in problems]
    outputs = [torch.empty_like(problem.tensors[lab.output]) for problem in problems]
    peers_outputs: list[torch.Tensor] = []

    def theirs() -> None:
        peers_outputs.clear()
        peers_outputs.extend(call() for call in calls)

    def cublas() -> None:
        for problem, weight, output in zip(problems, weights, outputs, strict=True):
            torch.mm(problem.tensors["x_ptr"], weight.t(), out=output)

    flush = L2Flush()  # kept: its graph writes to its memory
    before = capture(flush)
    return race(Captured(capture(theirs), before), Captured(capture(cublas), before), ROUNDS, watch)
