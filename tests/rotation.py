"""Which of the dear tests are run: those of a corpus go round, a share with each commit. EVERY=all runs them all.

Each of these families asks one thing of many kernels, cases or notebooks. With every commit it asks it of another share, so that as many
commits as a family has shares ask it of all; a release, and a change of what the family is about, asks all at once.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

BONUS_TOO = (
    "tests/kernels/", "tests/integration/test_notebooks.py", "tests/unit/building/test_broken_kernels.py", "tests/unit/diagnosis/",
    "tests/unit/labs/test_planted.py", "tests/unit/notebook/", "tests/unit/labs/test_margin.py",
    "tests/unit/authoring/test_slips.py::test_the_edits",
)
"""Where bonus labs go the way of the others, so that theirs are left to EVERY=all."""

FROM_START_TO_END = (
    "tests/faults/test_killed.py", "tests/faults/test_course_killed.py", "tests/integration/test_jupyterlab.py",
    "tests/integration/test_one_secrets_file.py", "tests/integration/test_unpacked_bundle.py::test_the_workflow_grades_a_push",
    "tests/unit/classroom/test_batch.py::test_a_ray_worker", "tests/unit/classroom/test_classroom50.py::test_a_checkout_is_graded",
    "tests/unit/classroom/test_clones.py::test_the_workflow",
)
"""One way from what is handed in to what comes of it each, whose parts have tests of their own that are run with every commit."""

SHARES: dict[str | tuple[str, ...], int] = {
    FROM_START_TO_END: 2,
    "tests/kernels/test_exploits.py::test_exploit_gets_its_verdict": 6,
    "tests/kernels/test_idioms.py::test_idiom_is_graded_in_full": 5,
    "tests/kernels/test_kernels.py::test_other_styles_are_right": 7,
    "tests/kernels/test_mistakes.py::test_mistake_fails_its_cases": 4,
    "tests/integration/test_notebooks.py::test_a_solved_notebook_runs_in_silence": 3,
    "tests/integration/test_notebooks.py::test_an_unsolved_notebook_stops_at_the_first_unfilled_cell": 2,
    "tests/unit/authoring/test_slips.py::test_the_edits_give_what_lies_there_and_are_told_as_themselves": 4,
    "tests/unit/bench/test_whole_models.py::test_every_way_agrees_with_fp32_within_what_its_format_loses": 3,
    "tests/unit/building/test_broken_kernels.py::test_a_kernel_that_does_not_build_is_taught": 3,
    "tests/unit/building/test_launchable.py::test_what_a_gpu_cannot_launch": 3,
    "tests/unit/building/test_launchable.py::test_every_specialisation_is_compiled_once_until_its_shared_memory_is_known": 3,
    "tests/unit/building/test_stages.py::test_the_binary_is_that_of_tritons_own_loop": 3,
    "tests/unit/diagnosis/test_relation.py::test_of_a_right_kernel_nothing_deviates_though_every_element_is_asked": 5,
    "tests/unit/diagnosis/test_relation.py::test_something_is_observed_of_a_wrong_kernel": 3,
    "tests/unit/interpreter/test_lockstep.py::test_styles_come_to_the_same": 4,
    "tests/unit/interpreter/test_lockstep.py::test_what_is_judged_afterwards_runs_together": 3,
    "tests/unit/interpreter/test_lockstep.py::test_wrong_kernels_come_to_the_same": 3,
    "tests/unit/judging/test_hidden.py::test_nothing_but_the_verdict_of_a_hidden_case_is_told": 3,
    "tests/unit/judging/test_rungs.py::test_a_rung_of_the_ladder_stands_at_itself_as_far_as_grading_tells": 3,
    "tests/unit/judging/test_hidden.py::test_what_is_said_of_a_wrong_kernel_does_not_depend_on_a_hidden_case": 3,
    "tests/unit/labs/test_margin.py::test_slices_that_carry": 3,
    "tests/unit/labs/test_margin.py::test_slices_whose_loads": 4,
    "tests/unit/labs/test_margin.py::test_what_is_wrong_fails_and_what_is_right_passes": 4,
    "tests/unit/labs/test_planted.py::test_one_wrong_config_of_eight_costs_points": 4,
    "tests/unit/labs/test_planted.py::test_some_mistakes_behind_any_tile_fail": 4,
    "tests/unit/notebook/test_speed_path.py::test_a_kernel_stands_where_its_rung_does": 3,
    "tests/unit/notebook/test_speed_path.py::test_a_step_is_open_before_its_rung_and_done_after_it": 3,
    "tests/unit/notebook/test_steps.py::test_a_wrong_step_is_explained": 3,
    "tests/unit/pipeline/test_facts.py::test_the_verdict_needs_no_binaries": 3,
    "tests/unit/running/test_language.py::test_interpreted_as_compiled": 3,
    "tests/unit/timing/test_what_checks_see.py::test_what_is_seen_is_what_the_document_says": 4,
}
"""How many commits a family takes to go round, by how its tests' names begin, in one or several ways: of those that take more than ten
seconds together."""


def everything() -> bool:
    return "EVERY" in os.environ


@cache
def commit_number() -> int:
    """How many commits there were before; of a shallow clone, which does not know, a number made of its commit; 0 without git."""
    try:
        if _git("rev-parse", "--is-shallow-repository") == "true":
            return int(_git("rev-parse", "HEAD")[:8], 16)
        return int(_git("rev-list", "--count", "HEAD"))
    except (OSError, ValueError):
        return 0


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def share(those: Sequence[Any], shares: int) -> list[Any]:
    """This commit's part of them, or all."""
    return list(those) if everything() else list(those[commit_number() % shares :: shares])


def left_out(names: Sequence[str], bonus: Sequence[str]) -> dict[str, str]:
    """Why tests are not run this time, by name. bonus: the labs that are."""
    if everything():
        return {}
    why = {
        name: "of a bonus lab, and takes long; EVERY=all runs it"
        for name in names
        if name.startswith(BONUS_TOO) and any(lab in name.partition("[")[2] for lab in bonus)
    }
    for family, shares in SHARES.items():
        mine = [name for name in names if name.startswith(family) and name not in why]
        chosen = set(share(mine, shares))
        why |= {name: f"one in {shares} is run with each commit; EVERY=all runs it" for name in mine if name not in chosen}
    return why
