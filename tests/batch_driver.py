"""Runs one batch on a few cases, for tests that kill it: `python -m tests.batch_driver CLASS JOURNAL TABLE [ENGINE [DEVICE]]`.

TABLE receives the verdicts as JSON when the batch has come to its end. ENGINE: local or ray. DEVICE: cpu or cuda.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from grader.classroom.batch.coordinating import Plan, run_batch
from grader.classroom.batch.engine import EngineFailed
from grader.classroom.batch.journal import Journal, JournalFull
from grader.classroom.batch.local import LocalEngine
from grader.classroom.batch.standing import Graded
from grader.classroom.batch.tasks import Setup
from grader.classroom.batch.workers import WorkerPool
from grader.classroom.hidden_cases import Secrets
from grader.gpu.devices import choose, visible_gpus
from grader.model import LabReport
from grader.unusable import Unusable

CASES = ("one_tile", "one_block", "single_token", "every_config")
SEED = 7
CASE_SECONDS = 3.0
"""Of CPU time; a kernel without an end uses them up twice."""


def table(graded: Sequence[Graded]) -> dict[str, dict[str, list[object]]]:
    """By hand-in and lab: status, points of correctness, and the verdict of every test; of speed, that it was graded."""
    return {one.hand_in.key: {lab_id: row(lab) for lab_id, lab in one.report.labs.items()} for one in graded}


def row(lab: LabReport) -> list[object]:
    """What must come again whenever a kernel is graded: ratios and tiers are told apart by no name here."""
    tests = [[test.name, test.status, "" if test.kind == "speed" else test.message] for test in lab.tests]
    return [lab.status, lab.correctness_points, lab.message, tests]


def main(folder: Path, journal_file: Path, out: Path, engine: str = "local", device: str = "cpu") -> int:
    labs = ("w8a8", "dds")
    try:
        with WorkerPool(2) as pool, Journal(journal_file) as journal:
            for note in journal.notes:
                print(note, flush=True)
            if engine == "ray":
                from grader.classroom.batch.ray_engine import RayEngine, connect

                setup = Setup(connect(os.environ.get("RAY_ADDRESS"), device), Secrets(SEED), CASE_SECONDS, (80,), CASES)
                graded = run_batch(Plan(folder, labs, setup), journal, pool, lambda: RayEngine(setup)).graded
            else:
                setup = Setup(choose(device)[0], Secrets(SEED), CASE_SECONDS, (80,), CASES)
                gpus = visible_gpus() if device == "cuda" else 0
                graded = run_batch(Plan(folder, labs, setup), journal, pool, lambda: LocalEngine(setup, pool, gpu_count=gpus)).graded
    except (Unusable, JournalFull, EngineFailed) as problem:
        print(f"{type(problem).__name__}: {problem}", flush=True)
        return 3
    out.write_text(json.dumps(table(graded), sort_keys=True, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*(Path(argument) for argument in sys.argv[1:4]), *sys.argv[4:6]))
