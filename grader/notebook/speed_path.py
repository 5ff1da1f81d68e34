"""Is a step towards speed done? Checks the launch, the binary and the traffic of each config until one meets all demands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from grader.building import BuildOptions, describe
from grader.building.compiler import Compiler
from grader.judging.memory_sentences import sentences
from grader.judging.rungs import CAPABILITY, DemandResult, judgement, launched, promising, rung, value
from grader.labs import Lab
from grader.labs.speed_step import ConfigFacts, Needs, SpeedStep, shown
from grader.model import Case, KernelBundle, KernelSource, Refusal
from grader.pipeline.grading import BuiltKernel
from grader.running.cpu import InterpretOptions
from grader.traffic import Cache, Traffic, count_traffic, describe_case

BUILD_SECONDS = 60.0
SEED = 20
STAGES: tuple[Needs, ...] = ("launch", "binary", "traffic")


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


def compared(predicted: float, first: float | None, found: float, *, answered: bool) -> str:
    """One sentence on what was predicted and found. first: what was found when the question could first be answered; answered: whether
    the kernel is the one that the question is about."""
    said = f"You predicted {shown(predicted)}"
    if first is None and not answered:
        return f"{said}; so far it is {shown(found)}."
    if first not in (None, found):
        return f"{said}. It was {shown(first)} at first, and is {shown(found)} now."
    return (
        f"{said}, and that is right: {shown(found)}."
        if math.isclose(predicted, found, rel_tol=0.01)
        else f"{said}; it is {shown(found)}."
    )


@dataclass
class SpeedPath:
    """One kernel's answers so far: what was built and interpreted is there for the next step."""

    lab: Lab
    source: KernelSource
    jobs: int
    _bundle: KernelBundle | None = None
    _traffic: dict[tuple[str, int], Traffic | Refusal] = field(default_factory=dict)
    _wrong: dict[int, str] = field(default_factory=dict)

    def check(self, step: SpeedStep) -> SpeedAnswer | Refusal:
        """Judges one step, with the first config that meets all demands, or else the one that meets most."""
        bundle = self._described()
        if isinstance(bundle, Refusal):
            return bundle
        candidates = launched(self.lab, step, bundle)
        if not candidates:
            return Refusal("rejected", next(iter(bundle.refused.values()), f"no config can be launched on {step.case}"))
        best: tuple[int, ConfigFacts, list[DemandResult]] | None = None
        near = promising(step, candidates)
        for at, candidate in enumerate(near):
            if at == 1:
                self._compile(step, near[1:])
            seen, results = self._judged(step, candidate)
            met = sum(one.ok for one in results)
            if best is None or met > best[0]:
                best = (met, seen, results)
            if met == len(step.demands):
                break
        assert best is not None
        met, candidate, results = best
        wrong = self._wrong_with(candidate.config.index)
        candidate, why = self._with(step, candidate, step.quantity.needs)
        found = why or value(step.quantity.of, candidate)
        if isinstance(found, str) and all(one.ok for one in results):
            results.append(DemandResult(False, found))
        done = not wrong and all(one.ok for one in results)
        number = None if isinstance(found, str) else found
        return SpeedAnswer(done, str(candidate.config), number, tuple(results), wrong)

    def standing(self, steps: Sequence[SpeedStep]) -> str:
        """The last rung of the ladder, as a step names it, up to which every one of the lab's steps is taken; "" before the first."""
        taken = list(takewhile(lambda step: isinstance(answer := self.check(step), SpeedAnswer) and answer.ok, steps))
        return rung(steps, len(taken))

    def _described(self) -> KernelBundle | Refusal:
        if self._bundle is None:
            described = describe(self.lab, self.source, self._options())
            if isinstance(described, Refusal):
                return described
            self._bundle = described
        return self._bundle

    def _options(self) -> BuildOptions:
        return BuildOptions((CAPABILITY,), "check", self.jobs)

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
                results[number] = DemandResult(False, why) if why else judgement(demand, candidate)
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
                small
                if isinstance(small, Refusal)
                else count_traffic(
                    self.lab, self.source, small, step.small, candidate.config.index, InterpretOptions(1)
                )
            )
        traffic = self._traffic[key]
        if isinstance(traffic, Refusal):
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
        built = BuiltKernel(self.lab, self.source, self._bundle, SEED)
        ((outcome, finding),) = built.run([(case.name, index)], InterpretOptions(1)).values()
        if finding.skipped:
            return ""
        wrong = sentences(self.lab, self.source, built.problems, [outcome], alike=True)
        said = wrong if finding.ok else (finding.message,)
        return f"{case.name}: {said[0]}" if said else ""
