"""Is a step towards speed done? Checks the launch, the binary and the traffic of each config until one meets all demands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from grader.building import BuildOptions, describe
from grader.building.compiler import Compiler
from grader.judging.checking import check
from grader.judging.memory_sentences import sentences
from grader.labs import Lab
from grader.labs.problems import make_problem
from grader.labs.speed_step import ConfigFacts, Demand, Needs, SpeedStep, Unknown, shown
from grader.model import Case, KernelBundle, KernelSource, Refusal
from grader.running.cpu import InterpretOptions, interpret
from grader.traffic import Cache, Traffic, Uncounted, count_traffic, describe_case

CAPABILITY = 90
"""What is built without a GPU of another kind: the one whose times the notebooks tell."""

BUILD_SECONDS = 60.0
MOST_CONFIGS = 4
"""So many configs of a kernel are compiled or interpreted for one step, so that the answer comes soon."""

SEED = 20
STAGES: tuple[Needs, ...] = ("launch", "binary", "traffic")


@dataclass(frozen=True)
class DemandResult:
    """One demand: whether it holds, and the sentence."""

    ok: bool
    text: str


@dataclass(frozen=True)
class SpeedAnswer:
    """What became of a step: whether it is done, with which config, the predicted quantity, and every demand's sentence.

    found: None where it could not be told. wrong: why the kernel is not right with that config, "" when it is.
    """

    ok: bool
    config: str
    found: float | None
    results: tuple[DemandResult, ...]
    wrong: str = ""


@dataclass
class Guess:
    """A prediction: the number, and what was found when the question could first be answered."""

    value: float
    first: float | None = None

    def compared(self, found: float, *, answered: bool) -> str:
        """One sentence on what was predicted and found. answered: whether the kernel is the one that the question is about."""
        if self.first is None and not answered:
            return f"You predicted {shown(self.value)}; so far it is {shown(found)}."
        if self.first is None:
            self.first = found
        if self.first != found:
            return f"You predicted {shown(self.value)}. It was {shown(self.first)} at first, and is {shown(found)} now."
        if math.isclose(self.value, found, rel_tol=0.01):
            return f"You predicted {shown(self.value)}, and that is right: {shown(found)}."
        return f"You predicted {shown(self.value)}; it is {shown(found)}."


@dataclass
class SpeedPath:
    """One kernel's answers so far: what was built and interpreted is there for the next step."""

    lab: Lab
    source: KernelSource
    jobs: int
    right: bool = False
    """Whether this very kernel was graded and is right, so that no case need be run again."""
    _bundle: KernelBundle | None = None
    _traffic: dict[tuple[str, int], Traffic | Uncounted] = field(default_factory=dict)
    _wrong: dict[int, str] = field(default_factory=dict)

    def check(self, step: SpeedStep) -> SpeedAnswer | Refusal:
        """Judges one step, with the first config that meets all demands, or else the one that meets most."""
        bundle = self._described()
        if isinstance(bundle, Refusal):
            return bundle
        candidates = self._launched(step, bundle)
        if not candidates:
            return Refusal("rejected", next(iter(bundle.refused.values()), f"no config can be launched on {step.case}"))
        best: tuple[int, ConfigFacts, list[DemandResult]] | None = None
        promising = self._promising(step, candidates)
        for number, candidate in enumerate(promising):
            if number == 1:
                self._compile(step, promising[1:])
            seen, results = self._judged(step, candidate)
            met = sum(one.ok for one in results)
            if best is None or met > best[0]:
                best = (met, seen, results)
            if met == len(step.demands):
                break
        assert best is not None
        met, candidate, results = best
        wrong = "" if self.right else self._wrong_with(candidate.config.index)
        candidate, why = self._with(step, candidate, step.quantity.needs)
        found = why or _value(step.quantity.of, candidate)
        if isinstance(found, str) and all(one.ok for one in results):
            results.append(DemandResult(False, found))
        done = not wrong and all(one.ok for one in results)
        value = None if isinstance(found, str) else found
        return SpeedAnswer(done, str(candidate.config), value, tuple(results), wrong)

    def standing(self, steps: Sequence[SpeedStep]) -> str:
        """The last rung of the ladder, as a step names it, up to which every one of the lab's steps is taken; "" before the first."""
        taken = list(takewhile(lambda step: isinstance(answer := self.check(step), SpeedAnswer) and answer.ok, steps))
        before = {step.rungs[1] for step in steps[len(taken) :]}
        return next((step.rungs[1] for step in reversed(taken) if step.rungs[1] not in before), "")

    def _described(self) -> KernelBundle | Refusal:
        if self._bundle is None:
            described = describe(self.lab, self.source, self._options())
            if isinstance(described, Refusal):
                return described
            self._bundle = described
        return self._bundle

    def _options(self) -> BuildOptions:
        return BuildOptions((CAPABILITY,), "check", self.jobs)

    def _launched(self, step: SpeedStep, bundle: KernelBundle) -> list[ConfigFacts]:
        """The configs that can be launched on the step's case, with what the launch tells."""
        found = []
        for index, config in enumerate(bundle.configs):
            if (launch := bundle.launches.get((step.case, index))) is not None:
                constants = {**self.lab.constants, **config.constants, **dict(launch.folded)}
                found.append(ConfigFacts(self.lab.case(step.case), config, launch.grid, constants))
        return found

    def _promising(self, step: SpeedStep, candidates: Sequence[ConfigFacts]) -> Sequence[ConfigFacts]:
        """The configs whose launch is as it should be; where there is none, the one that comes nearest."""
        launches = [demand for demand in step.demands if demand.quantity.needs == "launch"]

        def met(candidate: ConfigFacts) -> int:
            return sum(_judgement(demand, candidate).ok for demand in launches)

        def preference(candidate: ConfigFacts) -> float:
            found = _value(step.prefer, candidate)
            return -math.inf if isinstance(found, str) else found

        most = max(map(met, candidates))
        near = sorted((one for one in candidates if met(one) == most), key=preference, reverse=True)
        return near[:MOST_CONFIGS] if most == len(launches) else near[:1]

    def _judged(self, step: SpeedStep, candidate: ConfigFacts) -> tuple[ConfigFacts, list[DemandResult]]:
        """Every demand, cheaper ones first; traffic is counted only where all else holds."""
        results: dict[int, DemandResult] = {}
        for stage in STAGES:
            demands = [(number, demand) for number, demand in enumerate(step.demands) if demand.quantity.needs == stage]
            if not demands:
                continue
            if stage == "traffic" and not all(one.ok for one in results.values()):
                break
            candidate, why = self._with(step, candidate, stage)
            for number, demand in demands:
                results[number] = DemandResult(False, why) if why else _judgement(demand, candidate)
        return candidate, [results[number] for number in sorted(results)]

    def _with(self, step: SpeedStep, candidate: ConfigFacts, stage: Needs) -> tuple[ConfigFacts, str]:
        """The candidate with what a stage needs, or a sentence why that cannot be had."""
        if stage == "binary" and candidate.facts is None:
            return self._built(step, candidate)
        if stage == "traffic" and candidate.traffic is None:
            return self._counted(step, candidate)
        return candidate, ""

    def _compile(self, step: SpeedStep, candidates: Sequence[ConfigFacts]) -> None:
        """Compiles several configs at once, where a demand of the step needs binaries."""
        if any(
            quantity.needs == "binary" for quantity in (step.quantity, *(demand.quantity for demand in step.demands))
        ):
            assert self._bundle is not None
            wanted = [(CAPABILITY, candidate.config, step.case) for candidate in candidates]
            with Compiler(self.lab, self.source, self._options(), seconds=BUILD_SECONDS) as compiler:
                self._bundle = compiler.compile(self._bundle, wanted)

    def _built(self, step: SpeedStep, candidate: ConfigFacts) -> tuple[ConfigFacts, str]:
        self._compile(step, [candidate])
        assert self._bundle is not None
        binary = self._bundle.binary(step.case, candidate.config.index, CAPABILITY)
        if binary is not None:
            return replace(candidate, facts=binary.facts, loop=binary.loop), ""
        failed = [failure.message for failure in self._bundle.failures if failure.config == candidate.config.index]
        return candidate, failed[0] if failed else f"{candidate.config} was not compiled."

    def _counted(self, step: SpeedStep, candidate: ConfigFacts) -> tuple[ConfigFacts, str]:
        assert step.small is not None, f"{step.name} asks for traffic and names no small case"
        key = (step.small.name, candidate.config.index)
        if key not in self._traffic:
            small = describe_case(self.lab, self.source, step.small, self._options())
            self._traffic[key] = (
                Uncounted(small.message)
                if isinstance(small, Refusal)
                else count_traffic(
                    self.lab, self.source, small, step.small, candidate.config.index, InterpretOptions(1)
                )
            )
        traffic = self._traffic[key]
        if isinstance(traffic, Uncounted):
            return candidate, traffic.message
        return replace(
            candidate, traffic=traffic, fetched=lambda resident, size: traffic.missed(Cache("", resident, size)).fetched
        ), ""

    def _wrong_with(self, index: int) -> str:
        """Why one of the hardest public cases is wrong with a config; "" when they are right, or the interpreter cannot tell."""
        if index not in self._wrong:
            hardest = [case for case in self.lab.cases if case.configs == "all" and not case.hidden]
            self._wrong[index] = next(filter(None, (self._wrong_on(case, index) for case in hardest)), "")
        return self._wrong[index]

    def _wrong_on(self, case: Case, index: int) -> str:
        """The same of one case: its numbers, or else accesses that it must not make, such as those of programs that repeat each other."""
        assert self._bundle is not None
        problems, pairs = {case.name: make_problem(self.lab, case, SEED)}, [(case.name, index)]
        (outcome,) = interpret(self.lab, self.source, self._bundle, problems, pairs, InterpretOptions(1))
        finding = check(self.lab, problems[case.name], outcome, self._bundle)
        if finding.skipped:
            return ""
        said = sentences(self.lab, self.source, problems, [outcome], alike=True) if finding.ok else (finding.message,)
        return f"{case.name}: {said[0]}" if said else ""


def _judgement(demand: Demand, candidate: ConfigFacts) -> DemandResult:
    found = _value(demand.quantity.of, candidate)
    return (
        DemandResult(False, found)
        if isinstance(found, str)
        else DemandResult(demand.holds(found), demand.sentence(found))
    )


def _value(of: Callable[[ConfigFacts], float], candidate: ConfigFacts) -> float | str:
    """A number about a kernel, or the sentence why it cannot be told."""
    try:
        return of(candidate)
    except Unknown as problem:
        return f"{problem}."
