"""The two contestants of a race: a student's kernel, with a new graph and new data for every replay, and cuBLAS fp16.

The same last steps precede both: the judge's own memory is wiped, the baseline's outputs become NaN, and L2 is flushed. Before a
student's replay all inputs are drawn again (replays.py), scratch memory is zeroed, and the launches are captured again, for their new
addresses and order. A student's replay is checked while the host prepares the baseline's; no student's kernel runs until that is done.
The baseline's dense weights are made once per race: renewing them would take longer than the race, only cuBLAS reads them, and a kernel
that found them would have another replay's weights.
"""

from __future__ import annotations

import math
import secrets
from functools import partial

import torch

from grader.gpu import driver
from grader.labs import offsets
from grader.labs.slices import arrives_zeroed, slices
from grader.model import Config, KernelBundle
from grader.timing.l2_flush import L2Flush
from grader.timing.replays import Draw, Evidence, PendingCheck, Stage
from grader.timing.rounds import capture, side_stream, timed_replay

PREFIX_EVERY = 4
"""Before one round in about so many, the first few launches (a random number) run alone and untimed."""


class FaultyRun(Exception):
    """One run of a kernel left something wrong: the evidence."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence.fault)
        self.evidence = evidence


class Baseline:
    """cuBLAS fp16 on the activations of the last draw: x fp16 [launches, M, K], weights fp16 [N, K] of its own."""

    def __init__(self, stage: Stage) -> None:
        case, lab = stage.case, stage.lab
        self.stage = stage
        draw = stage.renew()
        self.weights = torch.empty(case.launches, case.N, case.K, dtype=torch.float16, device=stage.device)
        for launch, weight in enumerate(self.weights):
            weight.copy_(lab.baseline_weight(stage.problem(draw, launch)))
        torch.cuda.empty_cache()
        self.x = torch.empty(case.launches, case.M, case.K, dtype=torch.float16, device=stage.device)
        self.take(draw)
        stage.arena.clear()
        row = -(-case.M * case.N // 128) * 128
        self.outputs = torch.empty(case.launches, row, dtype=torch.float16, device=stage.device)
        self._flush = L2Flush()
        self.settle = capture(self._settle)
        self._recording = self._recorded()

    def take(self, draw: Draw) -> None:
        """Copies a draw's activations; weights stay as they are."""
        self.x.copy_(self.stage.arena.tensors(draw.places, "x_ptr"))

    def multiply(self) -> None:
        M, N = self.stage.case.M, self.stage.case.N
        for x, weight, output in zip(self.x, self.weights, self.outputs, strict=True):
            torch.mm(x, weight.t(), out=output[: M * N].view(M, N))

    def _settle(self) -> None:
        self.outputs.fill_(math.nan)
        self._flush()

    def _recorded(self) -> driver.Recording:
        side = side_stream()
        side.wait_stream(torch.cuda.current_stream())

        def record(stream: int) -> None:
            with torch.cuda.stream(side):
                self.multiply()

        record(side.cuda_stream)  # once without recording, so that lazy set-up stays out
        torch.cuda.synchronize()
        return driver.Recording(record, side.cuda_stream)

    def prepare(self) -> None:
        """The same last steps as before a student's replay."""
        self.stage.wipe_pools()
        self.graph = self._recording.instantiate()
        self.settle.replay()

    def replay(self) -> None:
        self.graph.replay()

    def inspect(self) -> None:
        """Waits, so that the next replay begins on a GPU that was idle for as long as before a student's."""
        torch.cuda.synchronize()
        self.graph.close()

    def close(self) -> None:
        """Frees what was recorded."""
        self._recording.close()

    def microseconds(self) -> float:
        """Time of one launch, the shortest of three replays."""
        spans: list[float] = []
        for _ in range(3):
            self.prepare()
            start, end = timed_replay(self)
            self.inspect()
            spans.append(1e3 * start.elapsed_time(end) / self.stage.case.launches)
        return min(spans)


class Candidate:
    """One config's kernel on one case. A replay whose outputs or memory are wrong raises FaultyRun.

    `checked_replay`: the number of the replay whose evidence, outputs included, is kept for a full check.
    """

    def __init__(
        self,
        stage: Stage,
        baseline: Baseline,
        bundle: KernelBundle,
        config: Config,
        kernel: driver.LoadedKernel,
        checked_replay: int = -1,
    ) -> None:
        self.stage, self.baseline, self.config, self.kernel = stage, baseline, config, kernel
        self.launch = bundle.launches[stage.case.name, config.index]
        self.bound = driver.BoundLaunch(kernel, self.launch, stage.lab.scalars(stage.case))
        self.zeroed = arrives_zeroed(stage.lab, config)
        case = stage.case
        self.roundings = slices(stage.lab, config, self.launch, case.M, case.N, case.K, measured=True)
        self.scratch_step = kernel.scratch_bytes(self.launch)
        self.scratch = torch.zeros(
            max(1, stage.case.launches * self.scratch_step), dtype=torch.uint8, device=stage.device
        )
        self.checked_replay = checked_replay
        self.evidence: Evidence | None = None
        self.mean_squares: list[float] = []
        self._under_way: tuple[PendingCheck, driver.LaunchGraph] | None = None

    def _renew(self, rare: bool) -> Draw:
        draw = self.stage.renew(rare)
        self.scratch.zero_()
        self.baseline.take(draw)
        self.stage.wipe()
        return draw

    def _go(self, draw: Draw, launches: int, stream: int) -> None:
        """Queues the first `launches` launches of a draw."""
        case, output = self.stage.case, self.stage.lab.output
        for launch in draw.places.order[:launches]:
            pointers = self.stage.pointers(draw, launch)
            if self.zeroed:
                driver.fill_bytes(pointers[output], 2 * case.M * case.N, stream)
            scratch = self.scratch.data_ptr() + launch * self.scratch_step if self.scratch_step else 0
            self.bound(pointers, stream, scratch)

    def count_additions(self) -> None:
        """Counts the slices of K that are really added to Y (labs/offsets.py): only they widen the tolerance. Two untimed launches."""
        if self.roundings == 1:
            return
        self.finish_check()
        stage, draw = self.stage, self._renew(rare=False)
        launch = draw.places.order[0]
        y = stage.arena.tensors(draw.places, stage.lab.output)[launch]
        rows = y[: offsets.ROWS]

        def left(begins: torch.Tensor) -> torch.Tensor:
            y.zero_()
            rows.copy_(begins)
            self.scratch.zero_()
            self.bound(
                stage.pointers(draw, launch),
                driver.current_stream(),
                self.scratch.data_ptr() if self.scratch_step else 0,
            )
            return rows.clone()

        ordinary = left(torch.zeros_like(rows))
        found = offsets.additions(ordinary, left(offsets.start(ordinary, self.roundings)), self.roundings)
        self.roundings = self.roundings if found is None else offsets.counted(found, self.roundings)
        stage.arena.clear()

    def prepare(self) -> None:
        self.finish_check()
        self.draw = self._renew(rare=False)
        record = partial(self._go, self.draw, self.stage.case.launches)
        self.graph = driver.LaunchGraph.of(record, side_stream().cuda_stream)
        self.baseline.settle.replay()

    def replay(self) -> None:
        self.graph.replay()

    def inspect(self) -> None:
        """Queues the checks; `finish_check` waits for them, before this kernel runs again."""
        pending = self.stage.start_check(self.draw, range(self.stage.case.launches), self.roundings)
        self._under_way = pending, self.graph

    def finish_check(self) -> None:
        """Raises FaultyRun if the last replay left something wrong. Call it once more after the last replay."""
        if self._under_way is None:
            return
        (pending, graph), self._under_way = self._under_way, None
        keep = len(self.mean_squares) == self.checked_replay
        evidence = self.stage.finish_check(pending, keep=keep)
        graph.close()
        if evidence.fault:
            raise FaultyRun(evidence)
        if keep:
            self.evidence = evidence
        self.mean_squares.append(evidence.mean_square)

    def run_first(self, launches: int) -> float:
        """Runs the first `launches` launches of a draw with rare traps, without a graph; returns milliseconds, only an estimate.

        To the kernel this looks like the beginning of a timed replay. Outputs of launches that do not run must stay untouched, which
        exposes a kernel that does the work of later launches.
        """
        self.finish_check()
        draw = self._renew(rare=True)
        self.baseline.settle.replay()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        stream = torch.cuda.current_stream()
        start.record(stream)
        self._go(draw, launches, stream.cuda_stream)
        end.record(stream)
        evidence = self.stage.inspect(draw, draw.places.order[:launches], self.roundings)
        if evidence.fault:
            raise FaultyRun(evidence)
        return float(start.elapsed_time(end))

    def sometimes_run_first(self) -> None:
        """`run_first` of a random number of launches, before about one round in PREFIX_EVERY."""
        if secrets.randbelow(PREFIX_EVERY) == 0:
            self.run_first(1 + secrets.randbelow(self.stage.case.launches))
