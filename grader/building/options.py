"""How to build: for what, how much, and in which sandboxes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from grader.building.binary_cache import BinaryCache
from grader.sandbox import Sandbox

Scope = Literal["all", "check", "verdict"]


@dataclass(frozen=True)
class BuildOptions:
    """For which compute capabilities to build, with how many sandboxes at once, confined or not.

    Binaries are made for the newest; for the others each config is compiled until its shared memory is allocated.
    `scope` "all" builds what a GPU run launches; "check" builds each config once and tries of the other launches whether they could
    be built (`Compiler.drop_uncompilable`); "verdict" is "check" with one binary: the other configs go down to LLVM IR, and further only
    where that leaves open what a binary would own. `start` makes the sandboxes; once `cancelled` says so, nothing more is compiled, and the
    result is unusable. `cache`: where binaries of earlier runs may come from; None: nowhere.
    """

    capabilities: tuple[int, ...]
    scope: Scope
    jobs: int
    confined: bool | None = None
    start: Callable[..., Sandbox] = Sandbox
    cancelled: Callable[[], bool] = lambda: False
    cache: BinaryCache | None = None
