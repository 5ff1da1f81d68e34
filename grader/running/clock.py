"""The clock: student and cuBLAS fp16 in A B B A rounds of graph-captured launches, every output checked.

Each launch of a graph has inputs and an output of its own, so there is no earlier result to be found again. Before
each replay all outputs are filled with NaN and L2 with the lines of a buffer of its own, so that no replay finds
inputs that the one before it left there; after it a hash of each output is kept. Once the student's module is
unloaded, the outputs of the last replay are checked against fp64, and the hashes of all replays against theirs.
A time below what bytes and operations take at the GPU's peaks fails; what NVML saw meanwhile goes into the note.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from grader.checking import compare
from grader.guarded import Guarded, guard
from grader.labs import Lab
from grader.model import Case, Config, KernelBundle, Problem, SpeedSample
from grader.problems import generator_for
from grader.running import driver
from grader.running.roofline import floor
from grader.running.rounds import Flush, Timings, capture, race, timed_replay
from grader.running.telemetry import Watch, watch_current_gpu
from grader.statistics import ratio

ROUNDS = 45
EXTRA_ROUNDS = 135
CONTROL_ROUNDS = 15
TUNING_REPLAYS = 6


@dataclass
class _Set:
    """One launch's own inputs and output."""

    problem: Problem
    guarded: dict[str, Guarded]
    weight: torch.Tensor
    dense_out: torch.Tensor

    @property
    def pointers(self) -> dict[str, int]:
        return {name: guarded.tensor.data_ptr() for name, guarded in self.guarded.items()}


def _make_set(lab: Lab, case: Case, seed: int, copy: int) -> _Set:
    device = torch.device("cuda")
    problem = lab.problem(case, generator_for(seed, lab.id, case.name, copy, device=device), device)
    guarded = {name: guard(name, tensor, fill=name != lab.output) for name, tensor in problem.tensors.items()}
    return _Set(problem, guarded, lab.baseline_weight(problem), torch.empty_like(problem.tensors[lab.output]))


def time_case(
    lab: Lab,
    case: Case,
    bundle: KernelBundle,
    capability: int,
    seed: int,
    boundaries: Sequence[float],
    rounds: int = ROUNDS,
) -> SpeedSample:
    """Times one speed case: picks the fastest config that is right, then races it against cuBLAS fp16."""
    sets = [_make_set(lab, case, seed, copy) for copy in range(case.launches)]
    config_us, wrong = _tune(lab, case, bundle, capability, sets)
    right = {index: time_us for index, time_us in config_us.items() if index not in wrong}
    if not right:
        message = next(iter(wrong.values()), "no config could be launched")
        return SpeedSample(case.name, None, "failed", config_us=config_us, message=message)
    best = min(right, key=lambda index: right[index])
    watch = watch_current_gpu()
    contest = _Race(lab, case, bundle, capability, bundle.configs[best], sets)
    control = contest.control(CONTROL_ROUNDS)
    timings = contest.run(rounds, watch)
    if ratio(timings.log_ratios).crosses(boundaries):
        timings += contest.run(EXTRA_ROUNDS, watch)
    message = contest.finish()
    student_us, baseline_us = (1e3 * time_ms / case.launches for time_ms in (timings.a_ms, timings.b_ms))
    problem = sets[0].problem
    bytes_moved, operations = lab.bytes_moved(problem), lab.operations(problem)
    least = floor(bytes_moved, operations, lab.operand, driver.peaks())
    message = message or least.fault(student_us)
    notes = [f"left out, wrong here: {next(iter(wrong.values()))}"] if wrong else []
    notes += watch.notes() if watch else ()
    return SpeedSample(
        case=case.name,
        config=best,
        status="failed" if message else "timed",
        log_ratios=timings.log_ratios,
        control_log_ratios=control.log_ratios,
        student_us=student_us,
        baseline_us=baseline_us,
        floor_us=least.bytes_us,
        bytes_moved=bytes_moved,
        operations=operations,
        config_us=config_us,
        message=message or "; ".join(notes),
    )


def _student_work(
    lab: Lab, case: Case, bundle: KernelBundle, config: Config, kernel: driver.LoadedKernel, sets: Sequence[_Set]
) -> Callable[[], None]:
    launch = bundle.launches[case.name, config.index]

    def work() -> None:
        for one in sets:
            if config.split_k > 1:
                one.guarded[lab.output].tensor.zero_()
            kernel.launch(launch, one.pointers, dict(one.problem.scalars))

    return work


def _poison(outputs: Sequence[torch.Tensor]) -> None:
    for output in outputs:
        output.fill_(math.nan)


def _tune(
    lab: Lab, case: Case, bundle: KernelBundle, capability: int, sets: Sequence[_Set]
) -> tuple[dict[int, float], dict[int, str]]:
    """Time per launch in microseconds of every config, and why a config is wrong on the last set."""
    times: dict[int, float] = {}
    outputs: dict[int, torch.Tensor] = {}
    wrong: dict[int, str] = {}
    last = sets[-1].guarded[lab.output].tensor
    for config in bundle.configs:
        binary = bundle.binary(case.name, config.index, capability)
        if binary is None:
            continue
        try:
            kernel = driver.load(binary)
        except driver.CudaError as error:
            wrong[config.index] = f"{config}: {driver.explain(error)}"
            continue
        with kernel:
            graph = capture(_student_work(lab, case, bundle, config, kernel, sets))
            _poison([last])
            events = [timed_replay(graph) for _ in range(TUNING_REPLAYS)]
            torch.cuda.synchronize()
            times[config.index] = 1e3 * min(start.elapsed_time(end) for start, end in events[1:]) / case.launches
            outputs[config.index] = last.to("cpu", copy=True)
            del graph
    for index, y in outputs.items():
        config = bundle.configs[index]
        finding = compare(y.cuda(), lab.reference(sets[-1].problem, config.split_k))
        if not finding.ok:
            wrong[index] = f"{config}: {finding.message}"
    return times, wrong


class _Race:
    """Student and baseline, captured once, replayed in rounds."""

    def __init__(
        self, lab: Lab, case: Case, bundle: KernelBundle, capability: int, config: Config, sets: Sequence[_Set]
    ) -> None:
        binary = bundle.binary(case.name, config.index, capability)
        assert binary is not None
        self.lab, self.config, self.sets = lab, config, sets
        self.kernel = driver.load(binary)
        self.outputs = [one.guarded[lab.output].tensor for one in sets]
        self.student = capture(_student_work(lab, case, bundle, config, self.kernel, sets))
        self.baseline = capture(self._multiply)
        M, N = self.outputs[0].shape
        generator = torch.Generator(device="cuda").manual_seed(torch.seed() % 2**63)
        self.hash_weights = torch.randint(-(2**62), 2**62, (M, N), generator=generator, device="cuda")
        self.hashes = torch.zeros(len(sets), dtype=torch.int64, device="cuda")
        self.sums = torch.zeros(len(sets), M, dtype=torch.float64, device="cuda")
        self.direction = torch.randn(N, generator=generator, device="cuda", dtype=torch.float64)
        self.hashing = capture(self._hash)
        self.flush = Flush()
        self.before = capture(self._poison_and_flush)
        self.kept: list[tuple[torch.Tensor, torch.Tensor]] = []

    def _poison_and_flush(self) -> None:
        _poison(self.outputs)
        self.flush()

    def _multiply(self) -> None:
        for one in self.sets:
            torch.mm(one.problem.tensors["x_ptr"], one.weight.t(), out=one.dense_out)

    def _hash(self) -> None:
        for number, output in enumerate(self.outputs):
            bits = output.contiguous().view(torch.int16).to(torch.int64)
            self.hashes[number] = (bits * self.hash_weights).sum()
            self.sums[number] = output.double() @ self.direction

    def run(self, rounds: int, watch: Watch | None = None) -> Timings:
        """A is the student, B the baseline; hashes of the student's outputs are kept after each of its replays."""
        return race(self.student, self.baseline, rounds, self.before, self._keep, watch)

    def control(self, rounds: int) -> Timings:
        """The same rounds with a second capture of the baseline in the student's place: the ratio must be 1.

        Runs before the student's rounds, whose last outputs are checked afterwards.
        """
        return race(capture(self._multiply), self.baseline, rounds, self.before)

    def _keep(self) -> None:
        self.hashing.replay()
        self.kept.append((self.hashes.clone(), self.sums.clone()))

    def finish(self) -> str:
        """Unloads the student's module, then checks every output of every replay. Returns "" or what was wrong."""
        final_hashes, final_sums = self.kept[-1]
        outputs = [output.to("cpu", copy=True) for output in self.outputs]
        del self.student
        self.kernel.unload()
        for one in self.sets:
            for name, guarded in one.guarded.items():
                if guarded.overrun():
                    return f"the kernel wrote outside {name}; mask its stores"
                if name != self.lab.output and not torch.equal(guarded.tensor, one.problem.tensors[name]):
                    return f"the kernel changed its input {name}"
        tolerance = torch.zeros_like(final_sums)
        for number, (one, output) in enumerate(zip(self.sets, outputs, strict=True)):
            reference = self.lab.reference(one.problem, self.config.split_k)
            finding = compare(output.cuda(), reference)
            if not finding.ok:
                return f"{self.config} after timing: {finding.message}"
            tolerance[number] = 8 * (reference.bound.square() @ self.direction.square()).sqrt()
        for hashes, sums in self.kept:
            different = hashes != final_hashes
            if bool(different.any()):
                off = ~((sums - final_sums).abs() <= tolerance)
                if bool((off.any(dim=1) & different).any()):
                    return (
                        "some launches of the timed rounds wrote another result than the last ones; none of them counts"
                    )
        return ""
