"""calibrate: the reference solutions' ratios on this GPU, and the tier table that follows from them."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.building import BuildOptions, assignments, build
from grader.judging.checking import check
from grader.judging.ratios import ratio
from grader.judging.rubric import slug
from grader.labs import Lab
from grader.labs.problems import make_problem
from grader.model import Device, KernelBundle, Refusal
from grader.reading import read
from grader.running.cuda import CudaRunner

SHARES = (0.4, 0.6, 0.8, 0.92)
"""Where tiers begin, as shares of the solution's ratio: the last leaves room for a GPU's bad day."""

Listener = Callable[[str, str], None]


class CannotCalibrate(ValueError):
    """The solutions give no table on this GPU; the message says which lab or case and why."""


@dataclass(frozen=True)
class CaseRatios:
    """One speed case: the solution's ratio to cuBLAS fp16 in each repetition; time and notes of the last."""

    ratios: tuple[float, ...]
    time_us: float
    notes: tuple[str, ...] = ()

    @property
    def median(self) -> float:
        return statistics.median(self.ratios)

    @property
    def boundaries(self) -> tuple[float, ...]:
        """SHARES of the median, to two decimals."""
        return tuple(max(0.01, round(share * self.median, 2)) for share in SHARES)


@dataclass(frozen=True)
class Calibration:
    """What was measured on one GPU: ratios by lab and speed case."""

    device: Device
    date: str
    labs: Mapping[str, Mapping[str, CaseRatios]]


def calibrate(
    path: Path,
    labs: Sequence[Lab],
    device: Device,
    repeats: int = 3,
    jobs: int = 4,
    listen: Listener = lambda lab, text: None,
) -> Calibration:
    """Checks and times the solutions in `path`, each repetition in a GPU process of its own.

    Raises CannotCalibrate when a lab is missing, does not build, fails a correctness case or cannot be timed.
    """
    bundles = {lab.id: _build(path, lab, device, jobs, listen) for lab in labs}
    ratios: dict[str, dict[str, list[float]]] = {lab.id: {} for lab in labs}
    times: dict[tuple[str, str], float] = {}
    notes: dict[tuple[str, str], tuple[str, ...]] = {}
    for repetition in range(repeats):
        with CudaRunner() as runner:
            for lab in labs:
                if repetition == 0:
                    listen(lab.id, "checking")
                    _check(lab, bundles[lab.id], runner)
                listen(lab.id, f"timing, {repetition + 1} of {repeats}")
                for sample in runner.speed(lab, bundles[lab.id], boundaries={}):
                    if sample.status != "timed":
                        raise CannotCalibrate(
                            f"{lab.id} {sample.case}: {sample.message}; fix that, then calibrate again"
                        )
                    ratios[lab.id].setdefault(sample.case, []).append(ratio(sample.log_ratios).value)
                    times[lab.id, sample.case] = sample.student_us
                    notes[lab.id, sample.case] = (sample.message,) if sample.message else ()
    return Calibration(
        device,
        datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        {
            lab_id: {
                case: CaseRatios(tuple(values), times[lab_id, case], notes[lab_id, case])
                for case, values in cases.items()
            }
            for lab_id, cases in ratios.items()
        },
    )


def _build(path: Path, lab: Lab, device: Device, jobs: int, listen: Listener) -> KernelBundle:
    assert device.capability is not None
    source = read(path, [lab], all_labs=True).labs[lab.id]
    if isinstance(source, Refusal):
        raise CannotCalibrate(f"{lab.id}: {source.message}; calibrate with a folder that solves every lab")
    listen(lab.id, "building")
    built = build(lab, source, BuildOptions((device.capability,), "all", jobs))
    if isinstance(built, Refusal):
        raise CannotCalibrate(f"{lab.id}: {built.message}; fix the solution first")
    return built


def _check(lab: Lab, bundle: KernelBundle, runner: CudaRunner) -> None:
    pairs = [(case, config) for case, configs in assignments(lab, bundle).items() for config in configs]
    for outcome in runner.correctness(lab, bundle, pairs, seed=0):
        problem = make_problem(lab, lab.case(outcome.case), 0)
        finding = check(lab, problem, outcome, bundle)
        if not finding.ok:
            raise CannotCalibrate(f"{lab.id} {outcome.case}: {finding.message}; fix the solution first")


def tier_table(calibration: Calibration) -> str:
    """The table as TOML that an instructor can read and edit."""
    device = calibration.device
    assert device.capability is not None
    shares = ", ".join(f"{share:g}" for share in SHARES)
    repeats = len(next(iter(next(iter(calibration.labs.values())).values())).ratios)
    lines = [
        f"# Speed tiers for {device.name} (compute capability {device.capability // 10}.{device.capability % 10}).",
        f"# Measured {calibration.date} with driver {device.driver}, torch {device.torch}, triton {device.triton}.",
        "#",
        "# A number is a ratio: time of cuBLAS fp16 / time of the kernel, in the same run. A case's four numbers are",
        "# where its tiers begin; rubric.toml says what each tier is worth. They are the shares",
        f"# {shares} of the reference solution's ratio, the median of {repeats} runs in separate GPU processes,",
        "# rounded to two decimals. Edit them freely, or measure again with `make calibrate`.",
    ]
    for lab_id, cases in calibration.labs.items():
        lines += ["", f"[tiers.{lab_id}]"]
        width = max(len(case) for case in cases)
        for case, measured in cases.items():
            numbers = ", ".join(f"{boundary:.2f}" for boundary in measured.boundaries)
            spread = f"{min(measured.ratios):.3f} to {max(measured.ratios):.3f}"
            lines.append(
                f"{case:<{width}} = [{numbers}]  # solution {measured.median:.3f} ({spread}), {measured.time_us:.1f} us"
            )
            lines += [f"# note on {case}: {note}" for note in measured.notes]
    return "\n".join(lines) + "\n"


def table_names(device: Device, fallback: bool) -> list[str]:
    """File names of a GPU's table; with `fallback` also the one for other GPUs of its compute capability."""
    return [f"{slug(device.name)}.toml", *([f"sm_{device.capability}.toml"] if fallback else [])]
