"""calibrate: the reference solutions' ratios on this GPU, and the tier table that follows from them."""

from __future__ import annotations

import datetime
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from grader.building import BuildOptions, build
from grader.judging.checking import check
from grader.judging.ratios import ratio
from grader.judging.rubric import SOLUTION, Tier, rung_of, slug
from grader.labs import Lab
from grader.labs.problems import make_problem
from grader.model import Device, KernelBundle, Refusal, SpeedSample
from grader.pipeline.grading import launch_pairs
from grader.reading import read
from grader.running.cuda import CudaRunner
from grader.unusable import Unusable

ROOM = 0.92
"""A rung's tier begins at this share of its ratio: room for a GPU's bad day."""
FIRST_ROOM = 0.85
"""The same of the first rung: every kernel that works in its way earns something."""
APART = 1.08
"""A rung has a tier of its own at a case where it is that many times as fast as the best rung before it."""
BEYOND = 1.04
"""How far beyond the rungs that a case does not tell apart the next tier begins: more than a race is off by."""
LEAST = 0.01
"""The ratio of whatever is slower, or could not be timed."""
FIRST = 0.1
"""Share of a case's points at the first rung; later rungs have more by equal steps, the solution all."""
WITHOUT_LADDER = ((0.4, 0.25), (0.6, 0.5), (0.8, 0.75), (ROOM, 1.0))
"""Tiers of a lab without a ladder: share of the solution's ratio, share of the points."""
Listener = Callable[[str, str], None]


@dataclass(frozen=True)
class CaseRatios:
    """A kernel on one speed case: its ratios to cuBLAS fp16 on each GPU, one a repetition; time and notes of the last."""

    by_gpu: tuple[tuple[float, ...], ...]
    time_us: float
    notes: tuple[str, ...] = ()

    @property
    def ratios(self) -> list[float]:
        """Those of all GPUs."""
        return [ratio for ratios in self.by_gpu for ratio in ratios]

    @property
    def median(self) -> float:
        """Of the GPU on which it is lowest: whichever times a student's kernel, a rung has its own tier."""
        return min(map(statistics.median, self.by_gpu))


Rungs = Mapping[str, CaseRatios]
"""One speed case: what was measured of each rung that could be timed."""


@dataclass(frozen=True)
class Calibration:
    """What was measured on one GPU: rungs by lab and speed case. ladders: the names of each lab's rungs, the solution among them."""

    device: Device
    date: str
    labs: Mapping[str, Mapping[str, Rungs]]
    ladders: Mapping[str, Sequence[str]]


def rungs_with_tiers(ladder: Sequence[str], cases: Iterable[Mapping[str, float]]) -> list[str]:
    """The rungs that are worth points of their own: the first, the solution, and each that is APART times as fast as every one before it
    in some case. cases: the ratios of the rungs, by case."""
    found, known = ladder[:1], list(cases)
    for number, rung in enumerate(ladder[1:-1], start=1):
        before = [max((ratios.get(each, 0.0) for each in ladder[:number]), default=0.0) for ratios in known]
        if any(ratios.get(rung, 0.0) >= APART * best for ratios, best in zip(known, before, strict=True)):
            found = [*found, rung]
    return [*found, *ladder[1:][-1:]]


def tiers_of(ladder: Sequence[str], measured: Mapping[str, float]) -> tuple[Tier, ...]:
    """A case's tiers from the ratios of the ladder's rungs: one a rung, each worth more than the one before.

    A rung that is APART times as fast as every rung before it, and the solution as much faster than it, has its tier a little below
    its own ratio and above those of the rungs before. The tiers of rungs that this case does not tell apart lie at equal steps, beyond
    what they reach themselves. Whatever was measured, ratios and shares rise, and the last tier is ROOM below the solution.
    """
    best = measured[SOLUTION]
    if len(ladder) == 1:
        tiers = [Tier(_rounded(part * best), share) for part, share in WITHOUT_LADDER]
        return (*tiers[:-1], replace(tiers[-1], rung=SOLUTION, measured=round(best, 3)))
    last = len(ladder) - 1
    ratios = [max(LEAST, min(measured.get(rung, 0.0), best / APART)) for rung in ladder[:last]]
    fastest = list(itertools.accumulate(ratios, max))
    begins = {0: FIRST_ROOM * fastest[0], last: ROOM * best}
    for number in range(1, last):
        if ratios[number] >= APART * fastest[number - 1] and measured.get(ladder[number], 0.0) <= best / APART:
            begins[number] = max(ROOM * ratios[number], math.sqrt(ratios[number] * fastest[number - 1]))
    return tuple(
        Tier(
            _rounded(_beginning(begins, ratios, number)),
            round(FIRST + (1 - FIRST) * number / last, 3),
            rung if rung in measured else "",
            round(measured.get(rung, 0.0), 3),
        )
        for number, rung in enumerate(ladder)
    )


def _beginning(begins: Mapping[int, float], ratios: Sequence[float], number: int) -> float:
    """Where a tier begins: as its rung says, or at equal steps (of a factor) from beyond what the rungs below the next that says so
    reach."""
    if number in begins:
        return begins[number]
    low, high = max(n for n in begins if n < number), min(n for n in begins if n > number)
    stop = begins[high]
    start = min(stop, max(begins[low], BEYOND * max((ratio for ratio in ratios[:high] if ratio < stop), default=0.0)))
    return float(start * (stop / start) ** ((number - low - 1) / (high - low)))


def _rounded(ratio: float) -> float:
    return max(LEAST, round(ratio, 2))


def calibrate(
    path: Path,
    labs: Sequence[Lab],
    device: Device,
    repeats: int = 3,
    jobs: int = 4,
    listen: Listener = lambda lab, text: None,
    gpus: int = 1,
) -> Calibration:
    """Checks and times the solutions in `path`, and the ladders in its folder ladder/, on each of so many GPUs at the same time; each
    repetition in a GPU process of its own.

    Raises Unusable when a lab is missing, or a kernel does not build, fails a correctness case or, a solution, cannot be built for
    a case or timed. A rung that is too slow to be timed at a case, or does not build for it, has no tier of its own there.
    """
    rungs = {
        lab.id: [(rung, _build(place, lab, device, jobs, listen)) for rung, place in _ladder(path, lab)] for lab in labs
    }
    with ThreadPoolExecutor(gpus) as pool:
        samples = [
            one
            for found in pool.map(lambda gpu: _timed(labs, rungs, repeats, gpu, listen), range(gpus))
            for one in found
        ]
    found: dict[str, dict[str, dict[str, list[SpeedSample]]]]
    found = {lab.id: {case.name: {} for case in lab.speed_cases} for lab in labs}
    for lab_id, rung, sample in samples:
        found[lab_id][sample.case].setdefault(rung, []).append(sample)
    return Calibration(
        device,
        datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        {
            lab_id: {case: {rung: _ratios(those) for rung, those in timed.items()} for case, timed in cases.items()}
            for lab_id, cases in found.items()
        },
        {lab_id: [rung for rung, _ in ladder] for lab_id, ladder in rungs.items()},
    )


def _timed(
    labs: Sequence[Lab],
    rungs: Mapping[str, Sequence[tuple[str, KernelBundle]]],
    repeats: int,
    gpu: int,
    listen: Listener,
) -> list[tuple[str, str, SpeedSample]]:
    """The lab, the rung and the time of whatever could be timed on one GPU. Raises Unusable."""
    found = []
    for repetition in range(repeats):
        with CudaRunner(gpu) as runner:
            for lab in labs:
                for rung, bundle in rungs[lab.id]:
                    if repetition == 0:
                        listen(lab.id, f"checking {rung} on GPU {runner.visible}")
                        _check(lab, rung, bundle, runner)
                    listen(lab.id, f"timing {rung} on GPU {runner.visible}, {repetition + 1} of {repeats}")
                    for sample in runner.speed(lab, bundle, boundaries={}):
                        if sample.status == "timed":
                            found.append((lab.id, rung, sample))
                        elif rung == SOLUTION:
                            raise Unusable(f"{lab.id} {sample.case}: {sample.message}; fix that, then calibrate again")
    return found


def _ladder(path: Path, lab: Lab) -> list[tuple[str, Path]]:
    """The lab's rungs in their order, by name: ladder/w8a8_3_rounding.py is `rounding`; the solution is the last."""
    return [(rung_of(step), step) for step in sorted((path / "ladder").glob(f"{lab.id}_[0-9]_*.py"))] + [
        (SOLUTION, path)
    ]


def _ratios(samples: Sequence[SpeedSample]) -> CaseRatios:
    last = samples[-1]
    notes = (last.message,) if last.message else ()
    by_gpu: dict[str, list[float]] = {}
    for sample in samples:
        by_gpu.setdefault(sample.gpu, []).append(ratio(sample.log_ratios).value)
    return CaseRatios(tuple(map(tuple, by_gpu.values())), last.student_us, notes)


def _build(path: Path, lab: Lab, device: Device, jobs: int, listen: Listener) -> KernelBundle:
    assert device.capability is not None
    source = read(path, [lab], all_labs=True).labs[lab.id]
    if isinstance(source, Refusal):
        raise Unusable(f"{lab.id}: {source.message}; calibrate with a folder that solves every lab")
    listen(lab.id, f"building {path.name}")
    built = build(lab, source, BuildOptions((device.capability,), "all", jobs))
    if isinstance(built, Refusal):
        raise Unusable(f"{lab.id}: {built.message}; fix {path} first")
    return built


def _check(lab: Lab, rung: str, bundle: KernelBundle, runner: CudaRunner) -> None:
    """Raises Unusable for a case that is wrong. A step of the ladder may be refused: what a compiler cannot build is not timed."""
    for outcome in runner.correctness(lab, bundle, launch_pairs(lab, bundle), seed=0):
        problem = make_problem(lab, lab.case(outcome.case), 0)
        finding = check(lab, problem, outcome, bundle)
        if not finding.ok and (rung == SOLUTION or outcome.status != "refused"):
            raise Unusable(f"{lab.id} {outcome.case}: {finding.message}; fix the solution first")


def tier_table(calibration: Calibration) -> str:
    """The table as TOML that an instructor can read and edit."""
    device = calibration.device
    assert device.capability is not None
    measured = [one for cases in calibration.labs.values() for rungs in cases.values() for one in rungs.values()]
    repeats, gpus = max(len(one.by_gpu[0]) for one in measured), max(len(one.by_gpu) for one in measured)
    where = f" each on {gpus} GPUs, of the slowest GPU" if gpus > 1 else ""
    lines = [
        f"# Speed tiers for {device.name} (compute capability {device.capability // 10}.{device.capability % 10}).",
        f"# Measured {calibration.date} with driver {device.driver}, torch {device.torch}, triton {device.triton}.",
        "#",
        "# ratio: time of cuBLAS fp16 / time of the kernel, in the same run. share: what part of the case's points a kernel",
        "# earns from there on. measured: the ratio of this step of the lab's ladder (solutions/ladder/), the median of",
        f"# {repeats} runs in separate GPU processes{where}; how tiers follow from it: docs/timing.md. Edit ratios and shares freely, or",
        "# measure again with `make calibrate`.",
    ]
    for lab_id, cases in calibration.labs.items():
        lines += ["", f"[tiers.{lab_id}]"]
        medians = {case: {rung: one.median for rung, one in rungs.items()} for case, rungs in cases.items()}
        ladder = rungs_with_tiers(calibration.ladders[lab_id], medians.values())
        for case, rungs in cases.items():
            tiers = tiers_of(ladder, medians[case])
            lines += [f"{case} = [", *(_entry(tier, rungs.get(tier.rung)) for tier in tiers), "]"]
            lines += [f"# note on {case}: {note}" for note in rungs[SOLUTION].notes]
    return "\n".join(lines) + "\n"


def _entry(tier: Tier, measured: CaseRatios | None) -> str:
    entry = f"ratio = {tier.ratio:.2f}, share = {tier.share:g}"
    if measured is None:
        return f"    {{ {entry} }},"
    spread = f"{min(measured.ratios):.3f} to {max(measured.ratios):.3f}, {measured.time_us:.1f} us"
    return f'    {{ {entry}, rung = "{tier.rung}", measured = {tier.measured:.3f} }},  # {spread}'


def table_names(device: Device, fallback: bool) -> list[str]:
    """File names of a GPU's table; with `fallback` also the one for other GPUs of its compute capability."""
    return [f"{slug(device.name)}.toml", *([f"sm_{device.capability}.toml"] if fallback else [])]
