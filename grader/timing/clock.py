"""The clock: times student against cuBLAS fp16 in A B B A rounds of captured launches, with new inputs each time and every output checked.

Tuning: each config runs one launch, then some replays, and all outputs are checked. The fastest config without a fault races, longer
if a tier boundary is near. One replay of the race, chosen at random, is kept and compared element by element with fp64 once the module
is unloaded; so is an output in which a fault was found.
A time below what the bytes and operations take at the GPU's peaks fails. What NVML reports meanwhile goes into the note.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

import torch

from grader.gpu import driver
from grader.gpu.limits import Budget, GivenUp
from grader.gpu.roofline import floor
from grader.labs import Lab
from grader.model import Case, Config, KernelBundle, SpeedSample
from grader.timing.contestants import Baseline, Candidate, FaultyRun
from grader.timing.freivalds import too_far_together
from grader.timing.replays import MISFIT, Evidence, Stage
from grader.timing.rounds import FIRST_ROUNDS, ROUNDS, Timings, race, rounds_to_go, timed_replay
from grader.timing.telemetry import watch_current_gpu

CONTROL_ROUNDS = 25
TUNING_REPLAYS = 2
HOPELESS = 2.0
"""A config whose first launch takes more than this multiple of the best time so far is not replayed."""

BEHIND = 1.25
"""A config whose first replay takes more than this multiple of the best time so far is not replayed again."""

LAUNCH_OVERHEAD_US = 50.0
"""A launch without a graph, of a kernel that was just loaded, takes at most this much longer than in a replay."""

TOGETHER = (
    "every replay is within its bound, but together they are too far off; accumulate in fp32 or int32 and round once"
)


@dataclass
class TimingSession:
    """What a process keeps from kernel to kernel. controls: log-ratios of the A/A control, by (lab, case). processes: how many of the
    grader's processes use this GPU."""

    controls: dict[tuple[str, str], tuple[float, ...]] = field(default_factory=dict)
    processes: int = 1


def time_case(
    lab: Lab,
    case: Case,
    bundle: KernelBundle,
    capability: int,
    boundaries: Sequence[float],
    session: TimingSession,
    budget: Budget,
) -> SpeedSample:
    """Times one speed case: picks the fastest correct config, then races it against cuBLAS fp16.

    boundaries: the tiers' ratios; without them the race takes all of its rounds. The first kernel of a session to be timed on a case has
    the case's control measured as well.
    """
    with closing(Stage(lab, case, torch.device("cuda"))) as stage, closing(Baseline(stage)) as baseline:
        sample = _CaseTiming(stage, baseline, bundle, capability, boundaries, session, budget).sample()
    torch.cuda.empty_cache()
    return sample


@dataclass
class _CaseTiming:
    """The timing of one speed case. config_us: microseconds per launch, by config. wrong: why a config is wrong or was given up."""

    stage: Stage
    baseline: Baseline
    bundle: KernelBundle
    capability: int
    boundaries: Sequence[float]
    session: TimingSession
    budget: Budget
    config_us: dict[int, float] = field(default_factory=dict)
    wrong: dict[int, str] = field(default_factory=dict)

    def sample(self) -> SpeedSample:
        """Tunes, races, checks; a failed sample where anything is wrong."""
        stage, budget, session = self.stage, self.budget, self.session
        lab, case = stage.lab, stage.case
        try:
            self._tune()
            right = {index: time_us for index, time_us in self.config_us.items() if index not in self.wrong}
            if not right:
                raise GivenUp(next(iter(self.wrong.values()), "no config could be launched"))
            best = min(right, key=lambda index: right[index])
            budget.expect(2e-6 * ROUNDS * case.launches * right[best], f"{self.bundle.configs[best]} on {case.name}")
            # the baseline in the student's place, too: the ratio must be 1
            if (lab.id, case.name) not in session.controls:
                session.controls[lab.id, case.name] = race(self.baseline, self.baseline, CONTROL_ROUNDS).log_ratios
            watch = watch_current_gpu(session.processes)
            candidate = self._load(self.bundle.configs[best], secrets.randbelow(2 * FIRST_ROUNDS))
            timings = Timings((), ())
            try:
                with candidate.kernel:
                    candidate.count_additions()
                    while more := rounds_to_go(timings.log_ratios, self.boundaries):
                        timings += race(candidate, self.baseline, more, watch, candidate.sometimes_run_first)
                    candidate.finish_check()
            except FaultyRun as faulty:
                raise GivenUp(explain(candidate, faulty.evidence)) from None
            budget.spend(1e-3 * sum(time_ms for pair in timings.a for time_ms in pair))
            message = _in_full(stage, candidate)
        except GivenUp as reason:
            return SpeedSample(
                case.name, None, "failed", config_us=self.config_us, message=str(reason), gpu_seconds=budget.spent_here
            )
        student_us, baseline_us = (1e3 * time_ms / case.launches for time_ms in (timings.a_ms, timings.b_ms))
        problem = stage.problem(candidate.draw, 0)
        bytes_moved, operations = lab.bytes_moved(problem), lab.operations(problem)
        minimum = floor(bytes_moved, operations, lab.operand, driver.peaks())
        message = message or minimum.fault(student_us)
        notes = [f"left out: {next(iter(self.wrong.values()))}"] if self.wrong else []
        notes += watch.notes() if watch else ()
        return SpeedSample(
            case=case.name,
            config=best,
            status="failed" if message else "timed",
            log_ratios=timings.log_ratios,
            control_log_ratios=session.controls[lab.id, case.name],
            student_us=student_us,
            baseline_us=baseline_us,
            floor_us=minimum.bytes_us,
            bytes_moved=bytes_moved,
            operations=operations,
            config_us=self.config_us,
            message=message or "; ".join(notes),
            gpu_seconds=budget.spent_here,
        )

    def _load(self, config: Config, checked_replay: int = -1) -> Candidate:
        binary = self.bundle.binary(self.stage.case.name, config.index, self.capability)
        assert binary is not None
        return Candidate(self.stage, self.baseline, self.bundle, config, driver.load(binary), checked_replay)

    def _tune(self) -> None:
        """Times each config for a moment."""
        cublas_us, wrong = self.baseline.microseconds(), self.wrong
        for config in self.bundle.configs:
            if self.bundle.binary(self.stage.case.name, config.index, self.capability) is None:
                continue
            try:
                candidate = self._load(config)
            except driver.CudaError as error:
                wrong[config.index] = f"{config}: {driver.explain(error)}"
                continue
            except driver.RefusedCubin as refused:
                wrong[config.index] = f"{config}: {refused}"
                continue
            best_us = min((time for index, time in self.config_us.items() if index not in wrong), default=float("inf"))
            try:
                with candidate.kernel:
                    self.config_us[config.index] = _shortest_us(candidate, best_us, cublas_us, self.budget)
            except FaultyRun as faulty:
                wrong[config.index] = explain(candidate, faulty.evidence)
            except GivenUp as reason:
                wrong[config.index] = str(reason)
                if self.budget.left <= 0:
                    return


def _shortest_us(candidate: Candidate, best_us: float, cublas_us: float, budget: Budget) -> float:
    """Microseconds per launch: the shortest of TUNING_REPLAYS replays, or of fewer if the config is too slow to win."""
    case = candidate.stage.case
    single_us = 1e3 * candidate.run_first(1)
    budget.spend(1e-6 * single_us)
    budget.one_launch(str(candidate.config), single_us, cublas_us)
    if single_us > HOPELESS * best_us + LAUNCH_OVERHEAD_US:
        return single_us
    candidate.count_additions()
    shortest = float("inf")
    for _ in range(TUNING_REPLAYS):
        budget.expect(1e-6 * single_us * case.launches, f"{candidate.config} on {case.name}")
        candidate.prepare()
        start, end = timed_replay(candidate)
        candidate.inspect()
        candidate.finish_check()
        span_ms = start.elapsed_time(end)
        budget.spend(1e-3 * span_ms)
        shortest = min(shortest, 1e3 * span_ms / case.launches)
        if shortest > BEHIND * best_us:
            break
    return shortest


def explain(candidate: Candidate, evidence: Evidence) -> str:
    """What was wrong with one run, as a sentence. Checks the worst output element by element; the kernel is unloaded by now."""
    stage, config = candidate.stage, candidate.config
    if evidence.fault != MISFIT:
        return f"{config}: {evidence.fault}"
    assert evidence.outputs is not None
    finding = stage.check(evidence.draw, evidence.launch, evidence.outputs[evidence.launch], candidate.roundings)
    share = f"{evidence.share:.3g} times what rounding allows in a random projection of its rows"
    return f"{config}: {finding.message or MISFIT} in a launch of the speed case ({share})"


def _in_full(stage: Stage, candidate: Candidate) -> str:
    """Checks the kept replay element by element, and the errors of all replays together; "" or what is wrong."""
    evidence = candidate.evidence
    assert evidence is not None
    assert evidence.outputs is not None
    for launch, y in enumerate(evidence.outputs):
        finding = stage.check(evidence.draw, launch, y, candidate.roundings)
        if not finding.ok:
            return f"{candidate.config} after timing: {finding.message}"
    squares = candidate.mean_squares
    together = too_far_together(sum(squares) / len(squares), len(squares))
    return f"{candidate.config} after timing: {TOGETHER}" if together else ""
