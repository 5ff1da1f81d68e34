"""Inputs of a case, the same on every machine for the same seed."""

from __future__ import annotations

import hashlib

import torch

from grader.labs import Lab
from grader.model import Case, Problem


def generator_for(seed: int, *names: str | int, device: torch.device | None = None) -> torch.Generator:
    """A generator whose stream depends on the seed and the names (lab, case, copy)."""
    text = "/".join(str(name) for name in (seed, *names))
    state = int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
    return torch.Generator(device=device or torch.device("cpu")).manual_seed(state)


class Problems(dict[str, Problem]):
    """The inputs of a lab's cases by their names, each made when it is first asked for."""

    def __init__(self, lab: Lab, seed: int) -> None:
        super().__init__()
        self._lab, self._seed = lab, seed

    def __missing__(self, name: str) -> Problem:
        self[name] = make_problem(self._lab, self._lab.case(name), self._seed)
        return self[name]


def make_problem(lab: Lab, case: Case, seed: int) -> Problem:
    """A correctness case's inputs, on the host."""
    return lab.problem(case, generator_for(seed, lab.id, case.name), torch.device("cpu"))
