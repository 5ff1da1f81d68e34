"""What things are worth: rubric.toml and the tier table of a GPU, read and checked. No other module knows a point."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class BadRubric(ValueError):
    """A rubric or tier table that cannot be used; the message is one sentence."""


@dataclass(frozen=True)
class Rubric:
    """The numbers of rubric.toml. `memory`: how many of the correctness points the memory test has."""

    correctness: float
    memory: float
    speed: float
    speed_needs_correctness: float
    tier_shares: tuple[float, ...]
    weights: Mapping[str, Mapping[str, float]]

    def shares(self, lab_id: str, names: Sequence[str], total: float) -> dict[str, float]:
        """Points of each named case, proportional to its weight."""
        weights = {name: float(self.weights.get(lab_id, {}).get(name, 1.0)) for name in names}
        whole = sum(weights.values()) or 1.0
        return {name: total * weight / whole for name, weight in weights.items()}


@dataclass(frozen=True)
class Tiers:
    """Tier boundaries by lab and speed case, for one GPU."""

    source: str
    calibrated: bool
    table: Mapping[str, Mapping[str, tuple[float, ...]]]
    default: tuple[float, ...]

    def boundaries(self, lab_id: str, case: str) -> tuple[float, ...]:
        """Ratios, ascending, at which a case's tiers begin."""
        return self.table.get(lab_id, {}).get(case, self.default)


@cache
def load_rubric(path: Path = HERE / "rubric.toml") -> Rubric:
    """Reads rubric.toml; raises BadRubric with the place for numbers that make no rubric."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        rubric = Rubric(
            correctness=float(data["correctness"]),
            memory=float(data["memory"]),
            speed=float(data["speed"]),
            speed_needs_correctness=float(data.get("speed_needs_correctness", 0)),
            tier_shares=tuple(float(share) for share in data["tier_shares"]),
            weights={lab: {k: float(v) for k, v in table.items()} for lab, table in data.get("weights", {}).items()},
        )
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise BadRubric(f"{path.name} cannot be used ({error}); compare it with the one in the repository") from None
    if not 0 <= rubric.memory < rubric.correctness:
        raise BadRubric(f"{path.name} has memory = {rubric.memory}, expected a part of correctness; correct it")
    numbers = [rubric.correctness, rubric.speed, *rubric.tier_shares]
    numbers += [weight for table in rubric.weights.values() for weight in table.values()]
    if any(number < 0 for number in numbers) or list(rubric.tier_shares) != sorted(rubric.tier_shares):
        raise BadRubric(f"{path.name} has a negative number or tier_shares that do not rise; correct it")
    return rubric


def slug(gpu: str) -> str:
    """A GPU's name as a file name: "NVIDIA H200" -> "nvidia_h200"."""
    return re.sub(r"[^a-z0-9]+", "_", gpu.lower()).strip("_")


UNCALIBRATED = "uncalibrated.toml"


def load_tiers(gpu: str, capability: int | None = None, folder: Path = HERE / "tiers") -> Tiers:
    """The GPU's own tier table; without one that of its compute capability (sm_90.toml for 9.0), then uncalibrated.toml.

    Raises BadRubric with the file's name for a table that cannot be used.
    """
    default = _read_tiers(folder / UNCALIBRATED).get("default", [])
    own = folder / f"{slug(gpu)}.toml"
    shared = folder / f"sm_{capability}.toml"
    path = next((path for path in (own, shared) if path.exists()), folder / UNCALIBRATED)
    table = {
        lab: {case: _boundaries(path, values) for case, values in cases.items()}
        for lab, cases in _read_tiers(path).get("tiers", {}).items()
    }
    return Tiers(path.name, path == own, table, _boundaries(folder / UNCALIBRATED, default))


def _read_tiers(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise BadRubric(f"tiers/{path.name} cannot be used ({error}); write it again with `make calibrate`") from None


def _boundaries(path: Path, values: Any) -> tuple[float, ...]:
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        numbers = ()
    if not numbers or numbers[0] <= 0 or list(numbers) != sorted(numbers):
        raise BadRubric(f"tiers/{path.name} has {values!r} where rising ratios above 0 are expected; correct it")
    return numbers
