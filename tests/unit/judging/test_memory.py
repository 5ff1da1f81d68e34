"""What the memory test says of launches that did not come to their end."""

from __future__ import annotations

import pytest

from grader.judging.correctness import memory_test
from grader.judging.judged import Judged
from grader.labs import get_lab
from grader.model import Config, KernelBundle, MadeModule, Outcome


def outcome(case, status, message=""):
    return Outcome(case, 0, status, message=message)


LATE = outcome("one_tile", "timeout", "did not finish within 24 s")
SKIPPED = [outcome(case, "timeout", "not run: one_tile did not finish in time") for case in ("odd_m", "n_tail")]


@pytest.mark.parametrize(
    ("watched", "said"),
    [
        ([LATE, outcome("k_tail", "ran")], "1 of 2 launches did not finish, the first in one_tile; fix"),
        ([LATE, *SKIPPED], "1 of 1 launches did not finish, the first in one_tile, and 2 more launches were not made; fix"),
        (SKIPPED[:1], "1 launch was not made; fix"),
    ],
)
def test_launches_that_were_not_made_are_not_said_to_have_gone_on_for_too_long(watched, said):
    lab = get_lab("w8a8")
    bundle = KernelBundle(lab.id, (Config(0, {}, 4, 2),), {}, {}, MadeModule("", lab.kernel, ()))
    judged = Judged(bundle, (), watched, [], None, watched=watched)
    assert memory_test(lab, judged).message.startswith(said)
