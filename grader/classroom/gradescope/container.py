"""What run_autograder runs: grades ROOT/submission by ROOT/source/settings.toml and writes ROOT/results/results.json.

Called as `python -m grader.classroom.gradescope.container ROOT`. It replaces results.json in one step when all is done; what
run_autograder wrote there before stays when it does not come to that.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grader.classroom.batch.tasks import Content, read_folder
from grader.classroom.gradescope.results import Visibility, results
from grader.classroom.secrets_file import SecretsInForce, secrets_in_force
from grader.gpu.devices import choose
from grader.labs import all_labs
from grader.model import Submission
from grader.pipeline import grading
from grader.reporting.atomic import write_whole
from grader.reporting.text import json_text, name

SETTINGS = "settings.toml"


def grade_submission(folder: Path, lab_ids: Sequence[str], hidden: Visibility, found: SecretsInForce) -> dict[str, Any]:
    """Grades what a student handed in, as results.json; every one of the labs counts. hidden: when students see hidden cases."""
    device = choose("auto")[0]
    labs = found.labs(all_labs()[lab_id] for lab_id in lab_ids)
    options = grading.GradeOptions(device, seed=found.secrets.seed if found.secrets else None)
    content = read_folder(folder, tuple(lab_ids))
    if isinstance(content, Content):
        submission = content.submission
    elif content.status == "not_graded":
        raise RuntimeError(content.message)
    else:
        submission = Submission(folder.name, folder, dict.fromkeys(lab_ids, content))
    report = grading.grade_submission(submission, labs, options, lambda news: print(name(f"{news.lab_id}: {news}")))
    return results(report, [(lab.id, case.name) for lab in labs for case in lab.all_cases if case.hidden], hidden)


def main(root: Path) -> None:
    """Grades and writes results.json; any exception is the grader's own failure."""
    settings = tomllib.loads((root / "source" / SETTINGS).read_text(encoding="utf-8"))
    found = secrets_in_force(near=root / "source")
    print(found.sentence(all_labs()[lab_id] for lab_id in settings["labs"]))  # Gradescope shows it to the staff alone
    graded = grade_submission(root / "submission", settings["labs"], settings["hidden"], found)
    write_whole(root / "results" / "results.json", json_text(graded, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
