"""The pipeline from a path to a report: read, build, run, check, score. Each stage is a function of another module."""

from __future__ import annotations

import itertools
import math
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch

from grader.building import BinaryCache, BuildOptions, Scope, assignments, build, with_binaries
from grader.judging.checking import Finding, References, check
from grader.judging.judge import Launched, Pair, Reinterpret, Terms, judge
from grader.judging.judged import Reasons
from grader.judging.rubric import load_rubric, load_tiers
from grader.judging.rungs import standing
from grader.judging.scoring import facts_of, refused
from grader.labs import Lab
from grader.labs.problems import Problems
from grader.model import (
    Device,
    KernelBundle,
    KernelSource,
    LabReport,
    Outcome,
    Problem,
    Profile,
    Refusal,
    Report,
    SanitizerResult,
    SpeedSample,
    Submission,
)
from grader.reading import read
from grader.reporting.profile_texts import build_texts, profile_texts
from grader.reporting.rung_text import standing_text
from grader.running import profiler, sanitizer
from grader.running.cpu import CASE_SECONDS, InterpretOptions, interpret
from grader.sandbox import prewarm

if TYPE_CHECKING:
    from grader.running.cuda import CudaRunner

CHECKED_CAPABILITIES = (80, 90)
"""What kernels are compiled for without a GPU: to a binary for the newest capability; for the others only as far as the pass that allocates
shared memory. In a batch most configs are compiled only to LLVM IR for the newest (`GradeOptions.facts`)."""


Stage = Literal["describe", "compile", "run", "time", "score"]


@dataclass(frozen=True)
class Progress:
    """A stage of one lab's grading, and how much of it is done; a stage that is not counted has 0 of 0.

    case: the one that was run or timed last. points: what the lab earned, once it is scored.
    """

    lab_id: str
    stage: Stage
    done: int = 0
    total: int = 0
    case: str = ""
    points: float | None = None

    def __str__(self) -> str:
        match self.stage:
            case "describe":
                return "reading configs and grid"
            case "compile":
                return f"compiled {self.done} of {self.total} binaries"
            case "run":
                return f"ran {self.done} of {self.total} launches ({self.case})"
            case "time":
                return f"timed {self.case}"
            case "score":
                return f"{self.points or 0:.1f} points"


Listener = Callable[[Progress], None]


def no_listener(progress: Progress) -> None:
    """Where nobody waits."""


@dataclass(frozen=True)
class GradeOptions:
    """How to grade.

    seed: of the inputs; None: from the operating system. jobs: how many sandboxes at once; None: one per core. confined: whether
    sandboxes must be confined; None: if possible. case_seconds: the interpreter's limit per launch.
    capabilities: what kernels are compiled for if there is no GPU. cache: of binaries of earlier runs, for your own work only.
    facts: whether to compile every config to a binary without a GPU too, and report its facts; the verdict needs a binary only where
    LLVM IR does not settle whether a config compiles. profile: whether to profile the fastest configs on the GPU after timing.
    """

    device: Device
    seed: int | None = None
    jobs: int | None = None
    confined: bool | None = None
    case_seconds: float = CASE_SECONDS
    capabilities: tuple[int, ...] = CHECKED_CAPABILITIES
    cache: BinaryCache | None = None
    facts: bool = True
    profile: bool = False

    @property
    def cores(self) -> int:
        return self.jobs or len(os.sched_getaffinity(0))

    @property
    def building(self) -> BuildOptions:
        """How to build where there is no GPU."""
        scope: Scope = "check" if self.facts else "verdict"
        return BuildOptions(self.capabilities, scope, self.cores, self.confined, cache=self.cache)

    def interpreting(self, cores: int) -> InterpretOptions:
        """How to launch on the interpreter, in `cores` sandboxes at once."""
        return InterpretOptions(cores, self.confined, self.case_seconds)


Ran = dict[tuple[str, int], tuple[Outcome, Finding]]
"""What each launch, (case, config), gave."""
Heard = Callable[[Outcome, Finding], None]


@dataclass(frozen=True)
class BuiltKernel:
    """A lab's kernel as source text and as built, and the seed of its inputs."""

    lab: Lab
    source: KernelSource
    bundle: KernelBundle
    seed: int

    @cached_property
    def problems(self) -> Mapping[str, Problem]:
        """The inputs of each case, by its name."""
        return Problems(self.lab, self.seed)

    def interpret(
        self,
        pairs: Sequence[tuple[str, int]],
        how: InterpretOptions,
        listen: Callable[[Outcome], None] = lambda outcome: None,
    ) -> list[Outcome]:
        """Makes these launches, (case, config), on the interpreter."""
        return interpret(self.lab, self.source, self.bundle, self.problems, pairs, how, listen)

    def run(
        self,
        pairs: Sequence[tuple[str, int]],
        how: InterpretOptions,
        listen: Heard = lambda outcome, finding: None,
    ) -> Ran:
        """The same, each checked while others run."""
        found, references = Ran(), References()

        def checked(outcome: Outcome) -> None:
            finding = check(self.lab, self.problems[outcome.case], outcome, self.bundle, references)
            found[outcome.case, outcome.config] = outcome, finding
            listen(outcome, finding)

        self.interpret(pairs, how, checked)
        return {pair: found[pair] for pair in pairs}

    def scored(self, ran: Ran, capabilities: tuple[int, ...], how: InterpretOptions) -> LabReport:
        """The report without a GPU. capabilities: those that it was built for. how: for further launches on the interpreter."""
        outcomes, findings = [outcome for outcome, _ in ran.values()], [finding for _, finding in ran.values()]
        launched = Launched(self.lab, self.source, self.bundle, self.problems, outcomes, outcomes)
        return lab_report(launched, Terms(load_rubric(), None, capabilities, self.seed), how, checked=findings)


def built_or_refused(
    lab: Lab, source: KernelSource | Refusal, bundle: KernelBundle | Refusal, seed: int, *, gpu: bool
) -> BuiltKernel | LabReport:
    """The kernel to launch, or the report of a lab whose source or build was refused. gpu: whether speed is graded."""
    if isinstance(source, Refusal):
        return refused(lab, source, gpu=gpu)
    if isinstance(bundle, Refusal):
        return refused(lab, bundle, source, gpu=gpu)
    return BuiltKernel(lab, source, bundle, seed)


def grade(
    path: Path, labs: Sequence[Lab], options: GradeOptions, *, all_labs: bool = False, listen: Listener = no_listener
) -> Report:
    """Grades one submission. Raises reading.UnusablePath for a path that cannot be graded."""
    return grade_submission(read(path, labs, all_labs=all_labs), labs, options, listen)


def grade_submission(
    submission: Submission,
    labs: Sequence[Lab],
    options: GradeOptions,
    listen: Listener = no_listener,
    built: dict[str, KernelBundle] | None = None,
) -> Report:
    """Grades a submission that was already read, such as the cells of a running notebook.

    built: without a GPU, filled with each lab's bundle, which `with_facts` needs.
    """
    started = time.monotonic()
    seed = options.seed if options.seed is not None else secrets.randbits(48)
    chosen = [lab for lab in labs if lab.id in submission.labs]
    on_gpu = options.device.kind == "cuda"
    prewarm(confined=options.confined)
    if on_gpu:
        reports = _grade_on_gpu(submission, chosen, options, seed, listen)
    else:
        reports = _grade_on_cpu(submission, chosen, options, seed, listen, {} if built is None else built)
    return Report(
        submission=submission.name,
        device=options.device,
        seed=seed,
        labs=reports,
        notes=submission.notes + (_tier_notes(options.device) if on_gpu else ()),
        seconds=None if any(case.hidden for lab in chosen for case in lab.cases) else time.monotonic() - started,
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """Limits torch to one thread: inputs are small, and more threads would compete with the sandboxes for cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _tier_notes(device: Device) -> tuple[str, ...]:
    tiers = load_tiers(device.name, device.capability)
    if tiers.calibrated:
        return ()
    return (
        f"speed is uncalibrated: grader/judging/tiers/ has no table for {device.name}, so the tiers of {tiers.source} count; "
        "an instructor writes one with `make calibrate`",
    )


def _grade_on_cpu(
    submission: Submission,
    labs: Sequence[Lab],
    options: GradeOptions,
    seed: int,
    listen: Listener,
    bundles: dict[str, KernelBundle],
) -> dict[str, LabReport]:
    """Grades one lab after the other; a lab is judged while the next one is built. torch is not used before the first is built."""
    with ThreadPoolExecutor(max_workers=1) as judges, ExitStack() as until_judged:
        reports: dict[str, Future[LabReport]] = {}
        for lab in labs:
            source = submission.labs[lab.id]
            bundle = build_lab(lab, source, options.building, listen)
            if isinstance(bundle, KernelBundle):
                bundles[lab.id] = bundle
            if not reports:
                until_judged.enter_context(one_thread())
            built = built_or_refused(lab, source, bundle, seed, gpu=False)
            reports[lab.id] = judges.submit(_interpreted(built, options, listen))
        return {lab_id: report.result() for lab_id, report in reports.items()}


def with_facts(
    report: Report,
    submission: Submission,
    labs: Sequence[Lab],
    options: GradeOptions,
    built: Mapping[str, KernelBundle],
) -> Report:
    """A report that was graded without facts, with the facts of each config: compiles the binaries that the verdict did not need."""
    found = dict(report.labs)
    for lab in labs:
        source = submission.labs.get(lab.id)
        if isinstance(source, KernelSource) and lab.id in built:
            whole = with_binaries(lab, source, built[lab.id], options.building)
            one = found[lab.id]
            found[lab.id] = _with_standing(replace(one, facts=facts_of(lab, whole, one.facts_capability)), lab, whole)
    return replace(report, labs=found)


def grade_lab_on_cpu(lab: Lab, source: KernelSource | Refusal, options: GradeOptions, seed: int) -> LabReport:
    """One lab from its source to its report, by Triton's interpreter."""
    bundle = build_lab(lab, source, options.building)
    return judge_on_cpu(built_or_refused(lab, source, bundle, seed, gpu=False), options)


def judge_on_cpu(built: BuiltKernel | LabReport, options: GradeOptions) -> LabReport:
    """The second half of `grade_lab_on_cpu`: runs and judges a kernel that was built, or only read by Triton's front end."""
    return _interpreted(built, options, no_listener)()


def _interpreted(built: BuiltKernel | LabReport, options: GradeOptions, listen: Listener) -> Callable[[], LabReport]:
    """Runs every launch now, checks each while the others run, and returns a function that judges them."""
    if isinstance(built, LabReport):
        return lambda: built
    lab, how = built.lab, options.interpreting(options.cores)
    pairs = launch_pairs(lab, built.bundle, compiled=bool(built.bundle.working))
    count = _counter(lab, len(pairs), listen)
    ran = built.run(pairs, how, lambda outcome, finding: count(outcome))

    def judged() -> LabReport:
        report = built.scored(ran, options.capabilities, how)
        listen(Progress(lab.id, "score", points=report.points))
        return report

    return judged


def _grade_on_gpu(
    submission: Submission, labs: Sequence[Lab], options: GradeOptions, seed: int, listen: Listener
) -> dict[str, LabReport]:
    from grader.running.cuda import CudaRunner

    device, count = options.device, max(1, len(labs))
    how = replace(gpu_build_options(device, max(1, options.cores // 2), options.confined), cache=options.cache)
    with one_thread(), CudaRunner() as runner, ThreadPoolExecutor(max_workers=3 * count) as pool:
        builds = {pool.submit(build_lab, lab, submission.labs[lab.id], how, listen): lab for lab in labs}
        terms = gpu_terms(device, seed)

        def watch(built: BuiltKernel) -> list[Outcome]:
            wait(builds)  # the GPU waits for builds, so they come first
            return watch_memory(built, options)

        def judged(built: BuiltKernel, run: GpuRun, watched: Future[list[Outcome]]) -> LabReport:
            report = judge_gpu_run(built, run, watched.result(), terms, InterpretOptions(1))
            listen(Progress(built.lab.id, "score", points=report.points))
            return report

        reports: dict[str, LabReport | Future[LabReport]] = {}
        for build in as_completed(builds):
            lab = builds[build]
            built = built_or_refused(lab, submission.labs[lab.id], build.result(), seed, gpu=True)
            if isinstance(built, LabReport):
                reports[lab.id] = built
                continue
            watched = pool.submit(watch, built)
            run = run_on_gpu(runner, built, device, listen, profile=options.profile)
            reports[lab.id] = pool.submit(judged, built, run, watched)
        found = {lab.id: reports[lab.id] for lab in labs}
        return {lab_id: one if isinstance(one, LabReport) else one.result() for lab_id, one in found.items()}


@dataclass(frozen=True)
class GpuRun:
    """Results of one lab's kernel on the GPU, before they are judged.

    sanitized: launches under compute-sanitizer, of a kernel that the interpreter cannot run. profiles: those asked for, or why there are
    none.
    """

    outcomes: tuple[Outcome, ...]
    samples: tuple[SpeedSample, ...]
    sanitized: tuple[SanitizerResult, ...] = ()
    profiles: tuple[Profile, ...] | str = ()


def gpu_build_options(device: Device, jobs: int, confined: bool | None) -> BuildOptions:
    """How to build for this GPU, in `jobs` sandboxes at once."""
    assert device.capability is not None
    return BuildOptions((device.capability,), "all", jobs, confined)


def build_lab(
    lab: Lab, source: KernelSource | Refusal, options: BuildOptions, listen: Listener = no_listener
) -> KernelBundle | Refusal:
    """Builds a lab's kernel; a Refusal if there is no source, or if it does not build."""
    if isinstance(source, Refusal):
        return source
    listen(Progress(lab.id, "describe"))
    return build(lab, source, options, lambda done, total: listen(Progress(lab.id, "compile", done, total)))


def run_on_gpu(
    runner: CudaRunner, built: BuiltKernel, device: Device, listen: Listener = no_listener, *, profile: bool = False
) -> GpuRun:
    """Runs every correctness case and times every speed case on the runner's GPU; hidden cases run last, after all timing.

    profile: whether to profile the fastest config of each speed case, which takes ten to twenty seconds.
    """
    from grader.running.cuda import deaths_in

    lab, bundle, seed = built.lab, built.bundle, built.seed
    pairs = launch_pairs(lab, bundle)
    public = [pair for pair in pairs if not lab.hides(pair[0])]
    ran = _counter(lab, len(pairs), listen)
    outcomes = runner.correctness(lab, bundle, public, seed, ran)
    tiers = load_tiers(device.name, device.capability)
    boundaries = {case.name: tiers.boundaries(lab.id, case.name) for case in lab.speed_cases}
    samples = runner.speed(
        lab, bundle, boundaries, deaths_in(outcomes), lambda sample: listen(Progress(lab.id, "time", case=sample.case))
    )
    seen: list[SanitizerResult] = []
    if sanitizer.needed(bundle) and device.capability is not None:
        watched = [(outcome.case, outcome.config) for outcome in outcomes if outcome.status == "ran"]
        seen = sanitizer.watch(lab, bundle, watched, seed, device.capability, runner.visible)
    profiles = _profiled(runner, built, samples, device) if profile else ()
    outcomes += runner.correctness(lab, bundle, pairs[len(public) :], seed, ran, outcomes)
    return GpuRun(tuple(outcomes), tuple(samples), tuple(seen), profiles)


def _profiled(
    runner: CudaRunner, built: BuiltKernel, samples: Sequence[SpeedSample], device: Device
) -> tuple[Profile, ...] | str:
    pairs = [(one.case, one.config) for one in samples if one.status == "timed" and one.config is not None]
    if not pairs or device.capability is None:
        return "no case was timed"
    try:
        return tuple(profiler.profile(built.lab, built.bundle, pairs, device.capability, runner.visible))
    except profiler.NoProfile as why:
        return str(why)


def watch_memory(built: BuiltKernel, options: GradeOptions) -> list[Outcome]:
    """Launches the public cases on the interpreter, which checks every memory access, while the GPU is busy.

    Leaves one core to the process that drives the GPU.
    """
    pairs = [pair for pair in launch_pairs(built.lab, built.bundle) if not built.lab.hides(pair[0])]
    pairs.sort(key=lambda pair: math.prod(built.bundle.launches[pair].grid), reverse=True)  # most programs, most time
    return built.interpret(pairs, options.interpreting(max(1, options.cores - 1)))


def gpu_terms(device: Device, seed: int) -> Terms:
    """What a lab that ran on this GPU is judged by."""
    assert device.capability is not None
    return Terms(load_rubric(), load_tiers(device.name, device.capability), (device.capability,), seed)


def judge_gpu_run(
    built: BuiltKernel, run: GpuRun, watched: Sequence[Outcome], terms: Terms, how: InterpretOptions
) -> LabReport:
    """The report of one lab, from its GPU run and from the launches that the interpreter watched. Needs no GPU.

    how: for further launches on the interpreter.
    """
    lab, source, bundle = built.lab, built.source, built.bundle
    outcomes = _with_interpreted(built, run.outcomes, watched, how)
    launched = Launched(lab, source, bundle, built.problems, outcomes, watched, run.samples, run.sanitized)
    report = lab_report(launched, terms, how)
    if isinstance(run.profiles, str):
        texts = build_texts(run.profiles, lab, source, bundle, run.samples, terms.capabilities[0])
    else:
        texts = profile_texts(source, run.profiles)
    return replace(report, profile=texts)


def _with_interpreted(
    built: BuiltKernel, outcomes: Sequence[Outcome], watched: Sequence[Outcome], how: InterpretOptions
) -> tuple[Outcome, ...]:
    """The GPU's outcomes, with the interpreter's in place of launches that were not made there: these get the verdict of a CPU."""
    hidden = [(one.case, one.config) for one in outcomes if one.not_run and built.lab.hides(one.case)]
    known = [*watched, *(built.interpret(hidden, how) if hidden else ())]
    interpreted = {(one.case, one.config): one for one in known if one.status != "unsupported"}
    return tuple(interpreted.get((one.case, one.config), one) if one.not_run else one for one in outcomes)


def _counter(lab: Lab, total: int, listen: Listener) -> Callable[[Outcome], None]:
    """Tells the listener how many launches are done."""
    done = itertools.count(1)
    return lambda outcome: listen(Progress(lab.id, "run", next(done), total, outcome.case))


def launch_pairs(lab: Lab, bundle: KernelBundle, *, compiled: bool = True) -> list[tuple[str, int]]:
    """The launches to make, (case, config), hidden cases last, so that they cannot affect the others. compiled: see `assignments`."""
    assigned = assignments(lab, bundle, compiled=compiled)
    pairs = [(case, config) for case, configs in assigned.items() for config in configs]
    return sorted(pairs, key=lambda pair: lab.case(pair[0]).hidden)


def lab_report(
    launched: Launched,
    terms: Terms,
    how: InterpretOptions,
    *,
    checked: Sequence[Finding] | None = None,
) -> LabReport:
    """The report of one lab. Needs no GPU.

    how: for launches on the interpreter. checked: the findings, where they are known already.
    """

    def explain(findings: Sequence[Finding]) -> Reasons:
        if all(finding.ok for finding in findings):
            return Reasons([None] * len(findings))
        # these imports take a tenth of a second, which a right kernel need not wait
        from grader.diagnosis.explaining import Failure
        from grader.diagnosis.reasons import reasons

        one = launched
        return reasons(Failure(one.lab, one.source, one.bundle, one.problems, one.outcomes, findings, one.watched, how))

    report = judge(launched, terms, reinterpreter(launched, how), explain, checked)
    return _with_standing(report, launched.lab, launched.bundle)


def _with_standing(report: LabReport, lab: Lab, bundle: KernelBundle) -> LabReport:
    """The report of a right kernel with a remark on its place on the ladder, where each config has its binary."""
    right = report.status == "graded" and report.correctness_points == report.correctness_max
    if not right or len(report.facts) < len(bundle.working):
        return report
    text = standing_text(lab.id, standing(lab, bundle))
    return replace(report, remarks=(*report.remarks, text)) if text and text not in report.remarks else report


def reinterpreter(launched: Launched, how: InterpretOptions) -> Reinterpret:
    """How launches of this kernel are interpreted again."""

    def reinterpret(
        pairs: Sequence[Pair], *, shuffled: int | None = None, poison_masked: bool = False
    ) -> list[Outcome]:
        options = replace(how, shuffled=shuffled, poison_masked=poison_masked)
        return interpret(launched.lab, launched.source, launched.bundle, launched.problems, pairs, options)

    return reinterpret
