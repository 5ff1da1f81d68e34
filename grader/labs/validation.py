"""Validates a lab's definition: sentences on what it lacks. A lab that lacks something is refused when labs are looked up."""

from __future__ import annotations

from collections.abc import Iterator

from grader.labs.contract import Lab

TAILS = 512
"""The deepest tile for which a case of all configs must end inside a tile after several steps."""
STEPS = 2


def validate_lab(lab: Lab, folder: str) -> Iterator[str]:
    """What the lab in labs/<folder> lacks, a sentence each; nothing for a sound one."""
    if lab.id != folder:
        yield f"LAB.id is {lab.id!r}, expected the folder's name {folder!r}; rename one of them"
    names = [case.name for case in lab.all_cases]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"two cases are called {name!r}; names of cases are points and results: give one another name"
    parameters = [parameter.name for parameter in lab.parameters]
    if lab.output not in parameters:
        yield f"its output {lab.output!r} is not a parameter of {lab.kernel}; add it to `parameters`"
    for name in ("M", "N", "K"):
        if name not in parameters:
            yield f"{lab.kernel} has no parameter {name}; the grid and the report need M, N and K"
    for case in lab.all_cases:
        missing = set(lab.scalars(case)) - set(parameters)
        if missing:
            yield f"scalars({case.name}) has {sorted(missing)}, which are not parameters of {lab.kernel}; add or rename them"
            break
    yield from _hard_enough(lab)
    if not lab.speed_cases:
        yield "it has no speed case; add at least one to `speed_cases`"


def _hard_enough(lab: Lab) -> Iterator[str]:
    """Every config meets everything (docs/tolerance.md): the cases of all configs are the hardest."""
    every = [case for case in lab.cases if case.configs == "all"]
    if not every:
        yield 'no case has configs="all", so a config could be wrong unseen; add `every_config` as in the other labs'
        return
    if not any(case.x_layout != "contiguous" for case in every) or not any(
        case.y_layout != "contiguous" for case in every
    ):
        yield "its cases of all configs have X and Y contiguous; give them x_layout and y_layout of strided views"
    if not any(case.M % 16 for case in every):
        yield "its cases of all configs have M a multiple of 16; take an M that no tile divides"
    longest = max(case.K for case in every)
    if longest <= max([STEPS * TAILS, *(case.K for case in lab.speed_cases)]):
        yield f"its cases of all configs have K of at most {longest}, no longer than timed ones or a loop of few steps; take a longer K"
