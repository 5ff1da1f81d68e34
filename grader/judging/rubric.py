"""What things are worth: reads and checks rubric.toml and a GPU's tier table. Points and tier boundaries are stored nowhere else."""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from grader.unusable import Unusable

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Rubric:
    """The numbers of rubric.toml. `memory`: how many of the correctness points the memory test has."""

    correctness: float
    memory: float
    speed: float
    speed_needs_correctness: float
    weights: Mapping[str, Mapping[str, float]]

    def shares(self, lab_id: str, names: Sequence[str], total: float) -> dict[str, float]:
        """Points of each named case, proportional to its weight."""
        weights = {name: float(self.weights.get(lab_id, {}).get(name, 1.0)) for name in names}
        whole = sum(weights.values()) or 1.0
        return {name: total * weight / whole for name, weight in weights.items()}


@dataclass(frozen=True)
class Tier:
    """A kernel whose ratio to cuBLAS fp16 is at least `ratio` earns `share` of a speed case's points.

    rung: the step of the lab's ladder that the tier was made for, and its own ratio; "" and 0 where nothing was measured.
    """

    ratio: float
    share: float
    rung: str = ""
    measured: float = 0.0

    @property
    def named(self) -> str:
        """The rung, where it reaches its own tier: at some cases it is no faster than the one before it."""
        return self.rung if self.measured >= self.ratio else ""


@dataclass(frozen=True)
class Tiers:
    """Tiers by lab and speed case, for one GPU; `default` for a case that `table` lacks."""

    source: str
    calibrated: bool
    table: Mapping[str, Mapping[str, tuple[Tier, ...]]]
    default: tuple[Tier, ...]

    def of(self, lab_id: str, case: str) -> tuple[Tier, ...]:
        """A case's tiers, by ascending ratio."""
        return self.table.get(lab_id, {}).get(case, self.default)

    def boundaries(self, lab_id: str, case: str) -> tuple[float, ...]:
        """Ratios, ascending, at which a case's tiers begin."""
        return tuple(tier.ratio for tier in self.of(lab_id, case))

    def rungs(self, lab_id: str) -> dict[str, dict[str, float]]:
        """The ratios of the lab's ladder that were measured on this GPU, by rung and case."""
        found: dict[str, dict[str, float]] = {}
        for case, tiers in self.table.get(lab_id, {}).items():
            for tier in tiers:
                if tier.measured:
                    found.setdefault(tier.rung, {})[case] = tier.measured
        return found


SOLUTION = "solution"


def rung_of(path: Path) -> str:
    """The name of the rung in a file: `rounding` for ladder/w8a8_3_rounding.py, `solution` beside the ladder."""
    return path.stem.split("_", 2)[-1] if path.parent.name == "ladder" else SOLUTION


def tier_reached(tiers: Sequence[Tier], ratio: float) -> int:
    """How many tiers a ratio reaches; 0 for none."""
    return sum(ratio >= tier.ratio for tier in tiers)


def share(tiers: Sequence[Tier], ratio: float) -> float:
    """The share of a case's points that a ratio earns."""
    tier = tier_reached(tiers, ratio)
    return tiers[tier - 1].share if tier else 0.0


@cache
def load_rubric(path: Path = HERE / "rubric.toml") -> Rubric:
    """Reads rubric.toml. Raises Unusable, which says where, for invalid numbers."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        rubric = Rubric(
            correctness=float(data["correctness"]),
            memory=float(data["memory"]),
            speed=float(data["speed"]),
            speed_needs_correctness=float(data.get("speed_needs_correctness", 0)),
            weights={lab: {k: float(v) for k, v in table.items()} for lab, table in data.get("weights", {}).items()},
        )
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise Unusable(f"{path.name} cannot be used ({error}); compare it with the one in the repository") from None
    if not 0 <= rubric.memory < rubric.correctness:
        raise Unusable(f"{path.name} has memory = {rubric.memory}, expected a part of correctness; correct it")
    numbers = [weight for table in rubric.weights.values() for weight in table.values()]
    if not all(0 <= number < math.inf for number in (rubric.correctness, rubric.speed, *numbers)):
        raise Unusable(f"{path.name} has a negative or infinite number; correct it")
    if not 0 <= rubric.speed_needs_correctness <= 1:
        raise Unusable(
            f"{path.name} has speed_needs_correctness = {rubric.speed_needs_correctness:g}, expected a share from 0 to 1; correct it"
        )
    if unknown := set(data) - {field.name for field in fields(Rubric)}:
        raise Unusable(
            f"{path.name} has {', '.join(sorted(unknown))}, which no rubric has; see the one in the repository"
        )
    return rubric


def check_names(rubric: Rubric, tiers: Tiers | None, cases: Mapping[str, Collection[str]]) -> None:
    """Raises Unusable for an unknown lab or case, whose number would have no effect and go unnoticed.

    cases: the names of every lab's cases, hidden ones included.
    """
    tables: dict[str, Mapping[str, Mapping[str, object]]] = {"rubric.toml": rubric.weights}
    if tiers is not None:
        tables[f"tiers/{tiers.source}"] = tiers.table
    for file, table in tables.items():
        for lab, numbers in table.items():
            known = cases.get(lab, ())
            if wrong := [name for name in numbers if name not in known]:
                expected = f"one of {', '.join(known)}" if known else f"a lab: one of {', '.join(cases)}"
                raise Unusable(f"{file} has a number for {lab}.{wrong[0]}, expected {expected}; correct the name")


def slug(gpu: str) -> str:
    """A GPU's name as a file name: "NVIDIA H200" -> "nvidia_h200"."""
    return re.sub(r"[^a-z0-9]+", "_", gpu.lower()).strip("_")


UNCALIBRATED = "uncalibrated.toml"


def load_tiers(gpu: str, capability: int | None = None, folder: Path = HERE / "tiers") -> Tiers:
    """The GPU's own tier table; without one that of its compute capability (sm_90.toml for 9.0), then uncalibrated.toml.

    Raises Unusable with the file's name for a table that cannot be used.
    """
    default = _read_tiers(folder / UNCALIBRATED).get("default", [])
    own = folder / f"{slug(gpu)}.toml"
    shared = folder / f"sm_{capability}.toml"
    path = next((path for path in (own, shared) if path.exists()), folder / UNCALIBRATED)
    table = {
        lab: {case: _tiers(path, values) for case, values in cases.items()}
        for lab, cases in _read_tiers(path).get("tiers", {}).items()
    }
    return Tiers(path.name, path == own, table, _tiers(folder / UNCALIBRATED, default))


def _read_tiers(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise Unusable(f"tiers/{path.name} cannot be used ({error}); write it again with `make calibrate`") from None


def _tiers(path: Path, values: Any) -> tuple[Tier, ...]:
    try:
        tiers = tuple(Tier(**value) for value in values)
        order = [(tier.ratio, tier.share) for tier in tiers]
        rising = all(a[0] <= b[0] and a[1] <= b[1] for a, b in itertools.pairwise(order))
        usable = bool(tiers) and rising and tiers[0].ratio > 0 and 0 <= tiers[0].share <= tiers[-1].share <= 1
    except TypeError:
        usable = False
    if not usable:
        raise Unusable(
            f"tiers/{path.name} has {values!r}, expected a list of {{ratio = ..., share = ...}}, rising, with ratios above 0 "
            "and shares of at most 1; correct it"
        )
    return tiers
