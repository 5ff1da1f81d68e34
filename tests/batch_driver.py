"""Runs one batch on a few cases, for tests that kill it: `python tests/batch_driver.py CLASS JOURNAL TABLE [ENGINE]`.

TABLE receives the verdicts as JSON when the batch has come to its end.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from grader.classroom.batch.coordinating import Plan, run_batch
from grader.classroom.batch.engine import EngineFailed
from grader.classroom.batch.intake import UnusableSubmissions
from grader.classroom.batch.journal import Journal, JournalBusy, JournalFull
from grader.classroom.batch.local import LocalEngine
from grader.classroom.batch.standing import Graded
from grader.classroom.batch.tasks import Setup
from grader.classroom.batch.workers import WorkerPool
from grader.classroom.hidden_cases import Secrets
from grader.gpu.devices import choose

CASES = ("one_tile", "one_block", "single_token", "every_config")
SEED = 7
CASE_SECONDS = 6.0


def table(graded: list[Graded]) -> dict[str, dict[str, list[object]]]:
    """By hand-in and lab: status, points, and the verdict of every test."""
    return {
        one.hand_in.key: {
            lab_id: [
                lab.status,
                lab.points,
                lab.message,
                [[test.name, test.status, test.message] for test in lab.tests],
            ]
            for lab_id, lab in one.report.labs.items()
        }
        for one in graded
    }


def main(folder: Path, journal_file: Path, out: Path, engine: str = "local") -> int:
    labs = ("w8a8", "dds")
    try:
        with WorkerPool(2) as pool, Journal(journal_file) as journal:
            for note in journal.notes:
                print(note, flush=True)
            if engine == "ray":
                from grader.classroom.batch.ray_engine import RayEngine, connect

                setup = Setup(connect(os.environ.get("RAY_ADDRESS"), "cpu"), Secrets(SEED), CASE_SECONDS, (80,), CASES)
                graded = run_batch(Plan(folder, labs, setup), journal, pool, lambda: RayEngine(setup))
            else:
                setup = Setup(choose("cpu")[0], Secrets(SEED), CASE_SECONDS, (80,), CASES)
                graded = run_batch(Plan(folder, labs, setup), journal, pool, lambda: LocalEngine(setup, pool))
    except (JournalBusy, JournalFull, UnusableSubmissions, EngineFailed) as problem:
        print(f"{type(problem).__name__}: {problem}", flush=True)
        return 3
    out.write_text(json.dumps(table(graded), sort_keys=True, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*(Path(argument) for argument in sys.argv[1:4]), *sys.argv[4:5]))
