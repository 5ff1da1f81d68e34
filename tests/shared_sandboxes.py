"""Same outcome in a sandbox that launches share as in one of its own: every mistake, style and exploit of the tests.

    python -m tests.shared_sandboxes [--write FILE] [--every N]     # prints each launch that differs, and the CPU time of both ways
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from grader.building import BuildOptions, read_by_triton
from grader.labs import get_lab
from grader.labs.problems import make_problem
from grader.model import KernelBundle, Outcome
from grader.pipeline.grading import launch_pairs
from grader.running.cpu import InterpretOptions, interpret
from grader.sandbox import Sandbox
from tests.submissions import source_of
from tests.verdicts import submissions

SEED = 12345


@dataclass(frozen=True)
class Compared:
    """One submission both ways. launches: how many; started: the sandboxes of the launches that could share; differs: (case, config,
    field, shared, alone); seconds: of CPU, which the launches took, shared and alone."""

    name: str
    launches: int
    started: int
    differs: tuple[tuple[str, int, str, str, str], ...]
    seconds: tuple[float, float]


def compared(name: str, lab_id: str, text: str, options: InterpretOptions, without: tuple[str, ...] = ()) -> Compared | None:
    """None for a submission of which nothing is launched. without: names of cases that are left out."""
    lab = get_lab(lab_id)
    lab = replace(lab, cases=tuple(case for case in lab.cases if case.name not in without))
    source = source_of(lab, text)
    built = read_by_triton(lab, source, BuildOptions((90,), "check", options.jobs)) if source is not None else None
    if source is None or not isinstance(built, KernelBundle):
        return None
    problems = {case.name: make_problem(lab, case, SEED) for case in lab.cases}
    pairs = launch_pairs(lab, built, compiled=False)
    started: list[Sandbox] = []

    def start(**how: Any) -> Sandbox:
        started.append(Sandbox(**how))
        return started[-1]

    shared = interpret(lab, source, built, problems, pairs, replace(options, start=start))
    alone = interpret(lab, source, built, problems, pairs, replace(options, sharing=False))
    found = tuple(itertools.chain.from_iterable(map(differences, shared, alone)))
    return Compared(name, len(pairs), len(started), found, (sum(one.seconds for one in shared), sum(one.seconds for one in alone)))


def differences(one: Outcome, other: Outcome) -> Iterator[tuple[str, int, str, str, str]]:
    """Where two outcomes of a launch differ, in all but the time that they took."""
    for field in fields(Outcome):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if field.name == "y" and a is not None and b is not None:
            a, b = a.numpy().tobytes(), b.numpy().tobytes()
        if field.name != "seconds" and a != b:
            yield one.case, one.config, field.name, str(a)[:100], str(b)[:100]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one of N submissions")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    done = []
    for name, lab, text in itertools.islice(submissions(), None, None, arguments.every):
        one = compared(name, lab, text, InterpretOptions(arguments.jobs))
        if one is None:
            continue
        done.append(one)
        for difference in one.differs:
            print(name, *difference, flush=True)
    launches, started, differ = sum(one.launches for one in done), sum(one.started for one in done), sum(len(one.differs) for one in done)
    shared, alone = (sum(one.seconds[place] for one in done) for place in (0, 1))
    record = {
        "submissions": len(done), "launches": launches, "sandboxes": started, "differences": differ,
        "cpu_seconds_shared": round(shared, 1), "cpu_seconds_alone": round(alone, 1),
    }
    print(json.dumps(record))
    if arguments.write:
        arguments.write.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
