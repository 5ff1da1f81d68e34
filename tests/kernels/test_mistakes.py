"""Wrong kernels, as students write them, must fail the cases that were made for them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from grader.labs import get_lab
from tests.submissions import failed_cases, graded_as_read, mistakes

pytestmark = pytest.mark.slow
OUT_OF_BOUNDS = re.compile(r"which has|the address is wrong|begins outside|outside every tensor")


@pytest.mark.parametrize(("at", "mistake"), list(enumerate(mistakes())), ids=[f"{one.lab}-{one.name}" for one in mistakes()])
def test_mistake_fails_its_cases(at, mistake, tmp_path):
    """With a reason, and with the lines that leave a tensor.

    Every third one is graded on every_config too, which takes longest, and the one after it is read by Triton and explained. Configs are
    in the opposite order, largest tiles first: where it must fail one case, that has the fewest programs.
    """
    path = tmp_path / f"{mistake.lab}.py"
    path.write_text(_configs_turned(mistake.source), encoding="utf-8")
    lab = get_lab(mistake.lab)
    names = (*mistake.fails, *(("every_config",) if at % 3 == 0 else ()))
    lab = replace(lab, cases=tuple(case for case in lab.cases if case.name in names))
    report = graded_as_read(path, lab, brief=at % 3 != 1)
    lab = report["labs"][mistake.lab]
    assert lab["status"] in ("graded", "crash"), lab["message"]
    assert lab["correctness"]["points"] < lab["correctness"]["max_points"]
    assert set(mistake.fails) <= failed_cases(report, mistake.lab)
    assert lab["defects"] == []
    for test in lab["tests"]:
        if test["status"] == "failed":
            assert len(test["message"]) > 20
            assert "Traceback" not in test["message"]
    memory = next(test for test in lab["tests"] if test["kind"] == "memory")
    found = [line for line in memory["message"].split("\n") if OUT_OF_BOUNDS.search(line)]
    begins, numbered = mistake.out_of_bounds, enumerate(mistake.source.split("\n"), 1)
    lines = {number for number, text in numbered if begins and text.strip().startswith(begins)}
    assert memory["status"] == "failed" or not lines
    assert {int(re.search(r"line (\d+): ", sentence)[1]) for sentence in found} >= lines


def _configs_turned(source: str) -> str:
    """The lines that hold a config each, in the opposite order; all others where they are."""
    lines = source.split("\n")
    places = [number for number, line in enumerate(lines) if line.strip().startswith("triton.Config(")]
    turned = dict(zip(places, [lines[number] for number in reversed(places)], strict=True))
    return "\n".join(turned.get(number, line) for number, line in enumerate(lines))
