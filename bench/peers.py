"""The peers: what other libraries offer for a lab's product, each under a name of its own; labs list theirs in bench.py."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import torch

from bench.shapes import lab_bench
from grader.labs import all_labs
from grader.model import Problem

ROOT = Path(__file__).parents[1]
Call = Callable[[], torch.Tensor]


class Skip(Exception):
    """A peer cannot take a shape; the message says why."""


@dataclass(frozen=True)
class Peer:
    """One way of others to compute a lab's product.

    prepare(problems): a call for each problem, with inputs of its own, in whatever layout the peer wants; laying
        weights out, and tuning, happens there and is not timed. `checked`: the call's result is Y, or Y^T where
        `transposed`, and is compared with fp64.
    parts: how many processes may share the compilation ahead; `precompile(problem, part)` does one share.
    """

    name: str
    lab_id: str
    about: str
    prepare: Callable[[Sequence[Problem]], list[Call]]
    package: str | None = None
    checked: bool = True
    transposed: bool = False
    parts: int = 0
    precompile: Callable[[Problem, int], None] | None = None

    def missing(self) -> str:
        """Why the peer cannot race on this machine; "" when it can."""
        if self.package and importlib.util.find_spec(self.package) is None:
            return f"{self.package} is not installed"
        return ""


def first_call(prepare: Callable[[Sequence[Problem]], list[Call]]) -> Callable[[Problem, int], None]:
    """A peer's compilation ahead, in one share: its first call, which compiles whatever it needs."""

    def precompile(problem: Problem, part: int) -> None:
        prepare([problem])[0]()

    return precompile


@cache
def solution_module(lab_id: str) -> ModuleType:
    """solutions/<lab>.py as a module, for its layer."""
    path = ROOT / "solutions" / f"{lab_id}.py"
    spec = importlib.util.spec_from_file_location(f"solution_{lab_id}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def all_peers() -> tuple[Peer, ...]:
    """Every peer, installed or not, in the order of reports."""
    modules = filter(None, map(lab_bench, all_labs()))
    return tuple(peer for module in modules for peer in module.PEERS)


def get_peer(name: str) -> Peer:
    """The peer of this name."""
    return next(peer for peer in all_peers() if peer.name == name)
