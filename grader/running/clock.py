"""The clock: student and cuBLAS fp16 in A B B A rounds of graph-captured launches, every output checked.

Each launch of a graph has inputs and an output of its own, so there is no earlier result to be found again. Before
each replay all outputs are filled with NaN and L2 with the lines of a buffer of its own, so that no replay finds
inputs that the one before it left there; after it a hash of each output is kept. Once the student's module is
unloaded, the outputs of the last replay are checked against fp64, and the hashes of all replays against theirs.
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
from grader.statistics import ratio

ROUNDS = 45
EXTRA_ROUNDS = 135
CONTROL_ROUNDS = 15
TUNING_REPLAYS = 6
FLOOR_TOLERANCE = 0.85
"""A time below this share of what the bytes allow at peak bandwidth is an error, not a record."""


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
    race = _Race(lab, case, bundle, capability, bundle.configs[best], sets)
    control = race.control(CONTROL_ROUNDS)
    student, baseline = race.run(rounds)
    if ratio(_log_ratios(student, baseline)).crosses(boundaries):
        more_student, more_baseline = race.run(EXTRA_ROUNDS)
        student, baseline = student + more_student, baseline + more_baseline
    message = race.finish()
    per_launch = 1e3 / case.launches
    student_us = per_launch * _median([a for pair in student for a in pair])
    baseline_us = per_launch * _median([b for pair in baseline for b in pair])
    peak = driver.bytes_per_second()
    bytes_moved = lab.bytes_moved(sets[0].problem)
    floor_us = 1e6 * bytes_moved / peak if peak else 0.0
    if not message and student_us < FLOOR_TOLERANCE * floor_us:
        message = (
            f"{student_us:.2f} us is less than the {floor_us:.2f} us that moving the operands takes; "
            "this time cannot be right and does not count"
        )
    return SpeedSample(
        case=case.name,
        config=best,
        status="failed" if message else "timed",
        log_ratios=tuple(_log_ratios(student, baseline)),
        control_log_ratios=tuple(_log_ratios(*control)),
        student_us=student_us,
        baseline_us=baseline_us,
        floor_us=floor_us,
        bytes_moved=bytes_moved,
        operations=lab.operations(sets[0].problem),
        config_us=config_us,
        message=message or (f"left out, wrong here: {next(iter(wrong.values()))}" if wrong else ""),
    )


Pairs = list[tuple[float, float]]


def _log_ratios(student: Pairs, baseline: Pairs) -> list[float]:
    return [math.log((b1 + b2) / (a1 + a2)) for (a1, a2), (b1, b2) in zip(student, baseline, strict=True)]


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _capture(work: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """A graph of what `work` launches; it runs once before, so that lazy set-up stays out."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


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


def _timed_replay(graph: torch.cuda.CUDAGraph) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    graph.replay()
    end.record()
    return start, end


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
            graph = _capture(_student_work(lab, case, bundle, config, kernel, sets))
            _poison([last])
            events = [_timed_replay(graph) for _ in range(TUNING_REPLAYS)]
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
        self.student = _capture(_student_work(lab, case, bundle, config, self.kernel, sets))
        self.baseline = _capture(self._multiply)
        M, N = self.outputs[0].shape
        generator = torch.Generator(device="cuda").manual_seed(torch.seed() % 2**63)
        self.hash_weights = torch.randint(-(2**62), 2**62, (M, N), generator=generator, device="cuda")
        self.hashes = torch.zeros(len(sets), dtype=torch.int64, device="cuda")
        self.sums = torch.zeros(len(sets), M, dtype=torch.float64, device="cuda")
        self.direction = torch.randn(N, generator=generator, device="cuda", dtype=torch.float64)
        self.hashing = _capture(self._hash)
        l2_bytes = torch.cuda.get_device_properties().L2_cache_size
        self.filler = torch.zeros(max(l2_bytes, 32 << 20) * 4 // 4, dtype=torch.int32, device="cuda")
        self.filled = torch.zeros((), dtype=torch.int64, device="cuda")
        self.poisoning = _capture(self._poison_and_flush)
        self.kept: list[tuple[torch.Tensor, torch.Tensor]] = []

    def _poison_and_flush(self) -> None:
        _poison(self.outputs)
        torch.sum(self.filler, dim=0, out=self.filled)

    def _multiply(self) -> None:
        for one in self.sets:
            torch.mm(one.problem.tensors["x_ptr"], one.weight.t(), out=one.dense_out)

    def _hash(self) -> None:
        for number, output in enumerate(self.outputs):
            bits = output.contiguous().view(torch.int16).to(torch.int64)
            self.hashes[number] = (bits * self.hash_weights).sum()
            self.sums[number] = output.double() @ self.direction

    def run(self, rounds: int) -> tuple[Pairs, Pairs]:
        """Milliseconds of each replay: [(A1, A2)] of the student and [(B1, B2)] of the baseline."""
        return self._rounds(self.student, self.baseline, rounds)

    def control(self, rounds: int) -> tuple[Pairs, Pairs]:
        """The same rounds with a second capture of the baseline in the student's place: the ratio must be 1.

        Runs before the student's rounds, whose last outputs are checked afterwards.
        """
        return self._rounds(_capture(self._multiply), self.baseline, rounds)

    def _rounds(self, a: torch.cuda.CUDAGraph, b: torch.cuda.CUDAGraph, rounds: int) -> tuple[Pairs, Pairs]:
        pairs_a: Pairs = []
        pairs_b: Pairs = []
        for _ in range(rounds):
            events = []
            for graph in (a, b, b, a):
                self.poisoning.replay()
                events.append(_timed_replay(graph))
                if graph is self.student:
                    self.hashing.replay()
                    self.kept.append((self.hashes.clone(), self.sums.clone()))
            torch.cuda.synchronize()
            a1, b1, b2, a2 = (start.elapsed_time(end) for start, end in events)
            pairs_a.append((a1, a2))
            pairs_b.append((b1, b2))
        return pairs_a, pairs_b

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
