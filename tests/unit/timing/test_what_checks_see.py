"""The table of docs/timing.md: which slips the checks of a timed output see, each of them alone."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch

from grader.judging.checking import compare
from grader.labs import all_labs, get_lab
from grader.labs.problems import generator_for
from grader.timing.freivalds import COLUMNS, fit, random_signs, too_far_together
from grader.timing.rounds import FIRST_ROUNDS
from tests.submissions import TESTS

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("references")]  # a lab's right answer is worked out once

CPU = torch.device("cpu")
SLIPS = {
    "one k": "a single k left out (of 4096; DDS: of 1024)",
    "bf16": "X, and W of DDS, in bfloat16",
    "fp8": "X, and W of DDS, in fp8 (e4m3)",
    "one element": "one element of a launch off by 2 %",
}
DOCUMENT = (TESTS.parent / "docs" / "timing.md").read_text(encoding="utf-8")


def case_of(lab):
    """The timed case of the fewest tokens."""
    case = min(lab.speed_cases, key=lambda case: case.M)
    return replace(case, launches=1)


def slipped(slip, stack):
    """The inputs as a kernel with this slip takes them: a k of rather small X left out, or X and fp16 weights in another format."""
    kind = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}.get(slip)
    changed = dict(stack)
    for name in ("x_ptr", "values_ptr"):
        if name in stack and kind is not None:
            changed[name] = stack[name].to(kind).to(torch.float16)
    if slip == "one k":
        changed["x_ptr"] = stack["x_ptr"].clone()
        large = stack["x_ptr"].abs().amax(dim=(0, 1))
        used = 32 * int(stack["col_indices_ptr"][0, 0]) if "col_indices_ptr" in stack else int(large.argsort()[len(large) // 4])
        changed["x_ptr"][:, :, used] = 0
    return changed


@cache
def seen(lab_id, slip) -> tuple[bool, bool, bool]:
    """Whether a slip is seen by the full check, by the projection of a row, and by that of all rows over a short race."""
    lab = get_lab(lab_id)
    case = case_of(lab)
    stack, right = right_answer(lab_id)
    y = right.y.clone()
    if slip == "one element":
        y[0, torch.argmax(y[0].abs())] *= 1.02
    elif slip:
        y = lab.reference(lab.stacked_problem(case, slipped(slip, stack), 0), 1).y
    y = y.to(torch.float16)
    signs = random_signs(case.N, generator_for(1, "signs"), CPU)
    found = fit(y[None], lab.project(stack, signs), signs, case.K, torch.ones(1))
    mean = float(found.squares.mean()) / (case.M * COLUMNS)
    return not compare(y, right).ok, not float(found.worst.max()) <= 1, too_far_together(mean, 2 * FIRST_ROUNDS)


@cache
def right_answer(lab_id):
    """The inputs of a timed launch, and the reference for them."""
    lab = get_lab(lab_id)
    stack = lab.timed_inputs(case_of(lab), generator_for(1, device=CPU), CPU, 1, False)
    return stack, lab.reference(lab.stacked_problem(case_of(lab), stack, 0), 1)


def row(slip) -> str:
    """The row of the document's table."""
    missed = [[lab_id for lab_id in all_labs() if not seen(lab_id, slip)[check]] for check in range(3)]
    cells = ["seen" if not labs else f"not seen: {', '.join(labs)}" for labs in missed]
    return f"| {SLIPS[slip]} | {' | '.join(cells)} |"


@pytest.mark.parametrize("slip", SLIPS)
def test_what_is_seen_is_what_the_document_says(slip):
    assert row(slip) in DOCUMENT
    assert all(seen(lab_id, slip)[0] for lab_id in all_labs())


@pytest.mark.parametrize("lab_id", all_labs())
def test_nothing_is_seen_of_a_right_output(lab_id):
    assert seen(lab_id, "") == (False, False, False)
