"""The clock: student and cuBLAS fp16 in A B B A rounds of graph-captured launches, every output checked.

Each launch of a graph has inputs and an output of its own, from new entropy for every kernel, so there is no earlier
result to be found again. Before each replay all outputs, the baseline's too, are filled with NaN and L2 with the lines
of a buffer of its own, so that no replay finds inputs or results that the one before it left; after it a hash of each
output is kept. Once the student's module is unloaded, the outputs of the last replay are checked against fp64, and
the hashes of all replays against theirs. Configs are tried on a set of inputs that is timed in no round.
A time below what bytes and operations take at the GPU's peaks fails; what NVML saw meanwhile goes into the note.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from grader.checking import compare
from grader.guarded import Guarded, guard, guarded_bytes
from grader.labs import Lab
from grader.labs.slices import arrives_zeroed, slices
from grader.model import Case, Config, KernelBundle, Problem, SpeedSample
from grader.problems import generator_for
from grader.running import driver
from grader.running.roofline import floor
from grader.running.rounds import Flush, Timings, capture, race, timed_replay
from grader.running.telemetry import Watch, watch_current_gpu
from grader.statistics import ratio

ROUNDS = 45
EXTRA_ROUNDS = 135
CONTROL_ROUNDS = 45
TUNING_REPLAYS = 4
HOPELESS = 2.0
"""A config that takes this many times as long as the best one so far is not replayed again."""

VARIES = "some launches of the timed rounds wrote another result than the last ones; none of them counts"


class HostCopies:
    """Copies of tensors in pinned memory, which a GPU reads and writes several times as fast as any other.

    To allocate it takes longer than to copy, so one piece of it is used again and again.
    """

    def __init__(self) -> None:
        self._memory = torch.empty(0, dtype=torch.uint8)
        self._used = 0

    def clear(self) -> None:
        """Gives the memory to the copies to come; those made before are no longer valid."""
        self._used = 0

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """A contiguous copy on the host."""
        size = tensor.numel() * tensor.element_size()
        if self._used + size > self._memory.numel():
            self._memory = torch.empty(max(size, 2 * self._memory.numel()), dtype=torch.uint8, pin_memory=True)
            self._used = 0
        place = self._memory[self._used : self._used + size].view(tensor.dtype).view(tensor.shape)
        self._used += -(-size // 256) * 256
        return place.copy_(tensor)


@dataclass
class Session:
    """What outlives the timing of one kernel in a process: the A/A controls by lab and case, and memory."""

    controls: dict[tuple[str, str], tuple[float, ...]] = field(default_factory=dict)
    copies: HostCopies = field(default_factory=HostCopies)


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


def _make_sets(lab: Lab, case: Case, count: int) -> tuple[list[_Set], torch.Tensor]:
    """Inputs and outputs of `count` launches, and the memory of the baseline's outputs, fp16 [count, padded M N].

    The outputs' buffers lie in one tensor too, a row a launch.
    """
    device = torch.device("cuda")
    seed = secrets.randbits(48)
    problems = [
        lab.problem(case, generator_for(seed, lab.id, case.name, copy, device=device), device) for copy in range(count)
    ]
    shape = problems[0].tensors[lab.output]
    rows = torch.empty(count, guarded_bytes(shape), dtype=torch.uint8, device=device)
    M, N = shape.shape
    dense = torch.empty(count, -(-M * _whole_words(N) // 256) * 256, dtype=shape.dtype, device=device)
    sets = []
    for problem, row, dense_row in zip(problems, rows, dense, strict=True):
        guarded = {
            name: guard(name, tensor, fill=name != lab.output, buffer=row if name == lab.output else None)
            for name, tensor in problem.tensors.items()
        }
        sets.append(_Set(problem, guarded, lab.baseline_weight(problem), dense_row[: M * N].view(M, N)))
    return sets, dense


def _whole_words(N: int) -> int:
    """Elements of fp16 that N of them take in words of 8 bytes."""
    return -(-N // 4) * 4


def _stacked(lab: Lab, sets: Sequence[_Set]) -> torch.Tensor:
    """The outputs of all sets as one tensor, fp16 [launches, M, N]."""
    first = sets[0].guarded[lab.output]
    row = first.buffer.numel() // first.tensor.element_size()
    flat = first.buffer.view(first.tensor.dtype)
    return torch.as_strided(
        flat, (len(sets), *first.tensor.shape), (row, *first.tensor.stride()), flat.storage_offset() + first.offset
    )


def time_case(
    lab: Lab,
    case: Case,
    bundle: KernelBundle,
    capability: int,
    boundaries: Sequence[float],
    session: Session,
    rounds: int = ROUNDS,
) -> SpeedSample:
    """Times one speed case: picks the fastest config that is right, then races it against cuBLAS fp16.

    The first kernel of a session that is timed on a case has the case's control measured as well.
    """
    sets, dense = _make_sets(lab, case, case.launches + 1)
    config_us, wrong = _tune(lab, case, bundle, capability, sets[1:], session.copies)
    right = {index: time_us for index, time_us in config_us.items() if index not in wrong}
    if not right:
        message = next(iter(wrong.values()), "no config could be launched")
        return SpeedSample(case.name, None, "failed", config_us=config_us, message=message)
    best = min(right, key=lambda index: right[index])
    watch = watch_current_gpu()
    contest = _Race(lab, case, bundle, capability, bundle.configs[best], sets[:-1], dense[:-1])
    if (lab.id, case.name) not in session.controls:
        session.controls[lab.id, case.name] = contest.control(CONTROL_ROUNDS).log_ratios
    timings = contest.run(rounds, watch)
    if ratio(timings.log_ratios).crosses(boundaries):
        timings += contest.run(EXTRA_ROUNDS, watch)
    message = contest.finish(session.copies)
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
        control_log_ratios=session.controls[lab.id, case.name],
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
    launches = [
        (one.guarded[lab.output].tensor, kernel.bind(launch, one.pointers, one.problem.scalars)) for one in sets
    ]

    def work() -> None:
        stream = torch.cuda.current_stream().cuda_stream
        for y, go in launches:
            if arrives_zeroed(lab, config):
                y.zero_()
            go(stream)

    return work


def _slices(lab: Lab, case: Case, bundle: KernelBundle, config: int) -> int:
    return slices(lab, bundle.configs[config], bundle.launches.get((case.name, config)), case.M, case.N, case.K)


def _tune(
    lab: Lab, case: Case, bundle: KernelBundle, capability: int, sets: Sequence[_Set], copies: HostCopies
) -> tuple[dict[int, float], dict[int, str]]:
    """Time per launch in microseconds of every config, and why a config is wrong on the last set."""
    copies.clear()
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
            last.fill_(math.nan)
            times[config.index] = _shortest_us(graph, HOPELESS * min(times.values(), default=math.inf), case.launches)
            outputs[config.index] = copies.copy(last)
            del graph
    added = {index: _slices(lab, case, bundle, index) for index in outputs}
    references = {count: lab.reference(sets[-1].problem, count) for count in set(added.values())}
    for index, y in outputs.items():
        config = bundle.configs[index]
        finding = compare(y.cuda(), references[added[index]])
        if not finding.ok:
            wrong[index] = f"{config}: {finding.message}"
    return times, wrong


def _shortest_us(graph: torch.cuda.CUDAGraph, hopeless_us: float, launches: int) -> float:
    """Time per launch in microseconds: the shortest of some replays, or of few when it is hopeless."""
    shortest = math.inf
    for number in range(TUNING_REPLAYS):
        start, end = timed_replay(graph)
        torch.cuda.synchronize()
        if number:
            shortest = min(shortest, 1e3 * start.elapsed_time(end) / launches)
            if shortest > hopeless_us:
                break
    return shortest


class _Race:
    """Student and baseline, captured once, replayed in rounds. `dense` is the memory of the baseline's outputs."""

    def __init__(
        self, lab: Lab, case: Case, bundle: KernelBundle, capability: int, config: Config, sets: Sequence[_Set],
        dense: torch.Tensor,
    ) -> None:  # fmt: skip
        binary = bundle.binary(case.name, config.index, capability)
        assert binary is not None
        self.lab, self.config, self.sets, self.dense = lab, config, sets, dense
        self.kernel = driver.load(binary)
        self.outputs = _stacked(lab, sets)
        self.student = capture(_student_work(lab, case, bundle, config, self.kernel, sets))
        self.baseline = capture(self._multiply)
        count, M, N = self.outputs.shape
        generator = torch.Generator(device="cuda").manual_seed(torch.seed() % 2**63)
        words = _whole_words(N) // 4
        self.hash_weights = torch.randint(-(2**62), 2**62, (M, words), generator=generator, device="cuda")
        self.products = dense.view(torch.int64)[:, : M * words].view(count, M, words)
        self.hashes = torch.zeros(count, dtype=torch.int64, device="cuda")
        self.sums = torch.zeros(count, M, device="cuda")
        self.direction = torch.randn(N, generator=generator, device="cuda")
        self.slices = _slices(lab, case, bundle, config.index)
        self.wide = torch.empty(self.outputs.shape if self.slices > 1 else 0, device="cuda")
        self.hashing = capture(self._hash)
        self.flush = Flush()
        self.before = capture(self._poison_and_flush)
        self.kept: list[tuple[torch.Tensor, torch.Tensor]] = []

    def _poison_and_flush(self) -> None:
        """No result is left anywhere that a kernel could copy: not its own, not the baseline's, not the hashing's."""
        for results in (self.outputs, self.dense, self.wide):
            results.fill_(math.nan)
        self.flush()

    def _multiply(self) -> None:
        for one in self.sets:
            torch.mm(one.problem.tensors["x_ptr"], one.weight.t(), out=one.dense_out)

    def _hash(self) -> None:
        """A hash of each output's bits; where additions may come in any order (split-K), sums of its rows too."""
        halves = self.outputs.shape[2]
        bits = self.outputs if halves % 4 == 0 else torch.nn.functional.pad(self.outputs, (0, -halves % 4))
        torch.mul(bits.view(torch.int64), self.hash_weights, out=self.products)
        self.hashes.copy_(self.products.sum(dim=(1, 2)))
        if self.slices > 1:
            self.wide.copy_(self.outputs)
            self.sums.copy_(self.wide @ self.direction)

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

    def finish(self, copies: HostCopies) -> str:
        """Unloads the student's module, then checks every output of every replay. Returns "" or what was wrong."""
        copies.clear()
        outputs = copies.copy(self.outputs)
        del self.student
        self.kernel.unload()
        fault = self._touched()
        if fault:
            return fault
        hashes, sums = (torch.stack(parts) for parts in zip(*self.kept, strict=True))
        different = hashes != hashes[-1]
        varies = bool(different.any())
        if varies and self.slices == 1:
            return VARIES
        tolerance = torch.zeros_like(sums[-1])
        for number, (one, output) in enumerate(zip(self.sets, outputs, strict=True)):
            reference = self.lab.reference(one.problem, self.slices)
            finding = compare(output.cuda(), reference)
            if not finding.ok:
                return f"{self.config} after timing: {finding.message}"
            if varies:
                spread = reference.bound.square() @ self.direction.double().square()
                tolerance[number] = 8 * spread.sqrt()
        off = ~((sums - sums[-1]).abs() <= tolerance)
        return VARIES if varies and bool((off.any(dim=2) & different).any()) else ""

    def _touched(self) -> str:
        """What the kernel wrote that it may not: beside its tensors, or into its inputs."""
        every = [(one, name, guarded) for one in self.sets for name, guarded in one.guarded.items()]
        strayed = torch.stack([guarded.strayed() for _, _, guarded in every]).tolist()
        for (_, name, _), fault in zip(every, strayed, strict=True):
            if fault:
                return f"the kernel wrote outside {name}; mask its stores"
        inputs = [(one, name, guarded) for one, name, guarded in every if name != self.lab.output]
        changed = torch.stack([(g.tensor != one.problem.tensors[name]).any() for one, name, g in inputs]).tolist()
        for (_, name, _), fault in zip(inputs, changed, strict=True):
            if fault:
                return f"the kernel changed its input {name}"
        return ""
