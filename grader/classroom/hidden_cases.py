"""What students must not know: the seed of the inputs and the hidden cases, read from a file outside their bundle."""

from __future__ import annotations

import hashlib
import json
import math
import random
import secrets
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from grader.labs import Lab, all_labs
from grader.model import Case
from grader.unusable import Unusable

LAYOUTS = ("x_layout", "y_layout")
RECIPES = ("x", "w", *LAYOUTS)
FEW = 15
"""Tokens of a case of few, at most."""
LARGE = 1 << 24
"""M N K of a recipe that is drawn with few tokens alone: with many it might be more than twice as large."""
ALWAYS = ("contiguous", "column_slice")
"""Layouts that any lab's X and Y may have, whether or not one of its cases has them: a course's secrets outlast changes of the cases."""
FIELDS = ("name", "M", "N", "K", "group_size", *RECIPES)
ABOUT = "hidden: judged like the others, its data stays with the instructor"
CASES_A_LAB = 3


@dataclass(frozen=True)
class Secrets:
    """The seed of every case's inputs, and hidden cases by lab."""

    seed: int
    cases: tuple[tuple[str, Case], ...] = ()

    @property
    def fingerprint(self) -> str:
        """Tells two sets of secrets apart and gives neither away."""
        return hashlib.sha256(repr((self.seed, self.cases)).encode()).hexdigest()[:16]

    def lab(self, lab: Lab) -> Lab:
        """The lab with its hidden cases added."""
        hidden = tuple(case for lab_id, case in self.cases if lab_id == lab.id)
        return replace(lab, cases=lab.cases + hidden)


def load_secrets(path: Path) -> Secrets:
    """Reads a secrets file: `seed`, and a table [[case]] for each hidden case. Raises Unusable."""
    try:
        return _read(path, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Unusable(f"{path} cannot be read ({error}); write one with `make secrets`") from None


@lru_cache(maxsize=4)
def _read(path: Path, text: str) -> Secrets:
    """The secrets of this text; kept, as it takes seconds to try the inputs of every case."""
    data = tomllib.loads(text)
    if not data:
        raise Unusable(f"{path} is empty; write it with `make secrets`")
    seed = data.get("seed")
    if not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise Unusable(f"{path}: seed is {seed!r}, expected a whole number from 0 to 2^63")
    cases = tuple(_case(path, number, entry) for number, entry in enumerate(data.get("case", []), start=1))
    names = [(lab_id, case.name) for lab_id, case in cases]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled:
        raise Unusable(f"{path}: {doubled[0]} has two cases named {doubled[1]!r}; rename one")
    return Secrets(seed, cases)


def _case(path: Path, number: int, entry: dict[str, Any]) -> tuple[str, Case]:
    where = f"{path}: case {number}"
    lab = all_labs().get(entry.get("lab", ""))
    if lab is None:
        raise Unusable(f"{where} has lab {entry.get('lab')!r}, expected one of {', '.join(all_labs())}")
    problem = next(_faults(lab, entry), None)
    if problem is not None:
        raise Unusable(f"{where} has {problem}")
    case = Case(about=ABOUT, hidden=True, **{field: entry[field] for field in FIELDS if field in entry})
    try:
        from grader.labs.problems import make_problem

        lab.scalars(case)
        lab.reference(make_problem(lab, case, 0), 1)
    except Exception as error:  # a recipe refuses with whatever its tensors raise
        raise Unusable(
            f"{where} ({case.name}) cannot be given inputs: {error}; compare it with the lab's own cases"
        ) from None
    return lab.id, case


def _faults(lab: Lab, entry: dict[str, Any]) -> Iterator[str]:
    """What an entry has, and what was expected in its place."""
    unknown = sorted(set(entry) - set(FIELDS) - {"lab"})
    if unknown:
        yield f"{unknown[0]!r}, expected lab and {', '.join(FIELDS)}"
    name = entry.get("name")
    if not isinstance(name, str) or not name.isidentifier() or name in {case.name for case in lab.all_cases}:
        yield f"the name {name!r}, expected an identifier that no other case of {lab.id} has"
    for size in ("M", "N", "K", *(["group_size"] if "group_size" in entry else [])):
        if not isinstance(entry.get(size), int) or entry[size] < 1:
            yield f"{size} = {entry.get(size)!r}, expected a whole number above 0"
    for field in RECIPES:
        of_every_lab = ALWAYS if field.endswith("layout") else ()
        known = sorted({*of_every_lab, *(str(getattr(case, field)) for case in lab.cases)})
        if field in entry and entry[field] not in known:
            yield f"{field} = {entry[field]!r}, expected one of {', '.join(known)}"


def draw(labs: Iterable[Lab]) -> str:
    """A new secrets file: a seed, and for each lab a few of its own recipes at sizes that no student has seen, every other one with few
    tokens, each in any layout of the lab's cases, so that nobody can be right for just what the public cases combine."""
    chance = random.Random(secrets.randbits(64))
    lines = ["# Secrets of one course: keep this file out of what students get.", f"seed = {secrets.randbits(48)}"]
    for lab in labs:
        recipes = [case for case in lab.cases if case.configs == "one"]
        for number, recipe in enumerate(chance.sample(recipes, min(CASES_A_LAB, len(recipes))), start=1):
            few = number % 2 == 0 or recipe.M < FEW or recipe.M * recipe.N * recipe.K >= LARGE
            rows = chance.randint(1, FEW) if few else recipe.M + chance.randint(-7, 23)
            columns = _longer(chance, recipe.N, math.gcd(*(case.N for case in lab.cases)))
            whole = recipe.group_size == recipe.K
            step = math.gcd(*(case.K for case in lab.cases)) if whole or not recipe.group_size else recipe.group_size
            depth = _longer(chance, recipe.K, step)
            fields = {"lab": lab.id, "name": f"hidden_{number}", "M": rows, "N": columns, "K": depth}
            if recipe.group_size:
                fields["group_size"] = depth if whole else recipe.group_size
            fields |= {field: getattr(recipe, field) for field in ("x", "w")}
            fields |= {field: chance.choice(sorted({getattr(case, field) for case in lab.cases})) for field in LAYOUTS}
            lines += ["", "[[case]]", *(f"{key} = {json.dumps(value)}" for key, value in fields.items())]
    return "\n".join(lines) + "\n"


def _longer(chance: random.Random, size: int, step: int) -> int:
    """A size of up to half as much again."""
    return size + step * chance.randint(0, size // (2 * step))
