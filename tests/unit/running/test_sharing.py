"""Which launches share a sandbox, and that none has another outcome for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from grader.labs import get_lab
from grader.labs.problems import make_problem
from grader.model import Config, GeneratedModule, KernelBundle, KernelSource, Launch
from grader.running.cpu import InterpretOptions, interpret
from grader.sandbox import SandboxDied
from grader.sandbox.process import Answer
from tests.shared_sandboxes import compared
from tests.submissions import TESTS, exploits, mistakes

LAB = get_lab("w8a8")
CASE = "one_tile"
SOURCE = KernelSource(LAB.id, LAB.kernel, None, "", (), Path("w8a8.py"))
FINDING = {"kind": "load", "fault": "wild", "line": None, "lanes": 1}
CLEAN = {"seconds": 0.1, "memory": [], "strayed": [], "written": True, "additions": 0, "left_open": []}
UNCLEAN = {
    "finding": {"memory": [FINDING]},
    "error": {"error": "ValueError", "message": "shapes", "line": None},
    "unwritten": {"written": False},
    "strayed output": {"strayed": ["y_ptr"]},
    "strayed input": {"strayed": ["x_ptr"]},
    "time": {"error": "LaunchEnded", "reason": "time", "message": "did not finish", "line": None},
    "unsupported": {"error": "Unsupported", "message": "no", "line": None},
    "nonsense": {"memory": "?"},
    "death": {"die": True},
}


class Scripted:
    """A sandbox whose launches answer what is next in `says`; `log` has the number of the sandbox of each launch."""

    says: ClassVar[list[dict[str, object]]]
    log: ClassVar[list[int]]
    begun: ClassVar[list[Scripted]]
    spent = 0.0

    def __init__(self, **how):
        self.number, self.closed = len(self.begun), False
        self.begun.append(self)

    def close(self):
        self.closed = True

    def ask(self, request, blobs=(), **how):
        assert not self.closed
        if request["op"] != "interpret":
            return Answer({}, [])
        self.log.append(self.number)
        said = self.says.pop(0)
        if said.get("die"):
            raise SandboxDied("it ended")
        return Answer({**CLEAN, **said}, [] if "error" in said else list(blobs))


def sandboxes(monkeypatch, says, hidden=(), **how):
    """The numbers of the sandboxes in which launches were made, and the status of each outcome."""
    for name, value in (("says", list(says)), ("log", []), ("begun", [])):
        monkeypatch.setattr(Scripted, name, value, raising=False)
    count = len(says) if "count" not in how else how.pop("count")
    names = [case.name for case in LAB.cases[:count]]
    lab = replace(LAB, cases=tuple(replace(case, hidden=place in hidden) for place, case in enumerate(LAB.cases)))
    launches = {(name, 0): Launch((1, 1, 1), (), (), ()) for name in names}
    bundle = KernelBundle(lab.id, (Config(0, {"BLOCK_M": 16}, 4, 2),), launches, {}, GeneratedModule("", lab.kernel, ()))
    problems = {name: make_problem(lab, lab.case(name), 1) for name in names}
    outcomes = interpret(lab, SOURCE, bundle, problems, list(launches), InterpretOptions(1, start=Scripted, **how))
    assert all(sandbox.closed for sandbox in Scripted.begun)
    assert Scripted.says == []
    return Scripted.log, [outcome.status for outcome in outcomes]


@pytest.mark.parametrize("how", [{}, {"poison_masked": True}, {"shuffled": 1}])
@pytest.mark.parametrize("says", [{}, {"left_open": [["elements", 1]]}])
def test_clean_launches_share_a_sandbox(monkeypatch, how, says):
    """One that left an order open is clean: it reached nothing but its tensors."""
    assert sandboxes(monkeypatch, [says] * 5, **how) == ([0] * 5, ["ran"] * 5)


@pytest.mark.parametrize("how", [{"sharing": False}, {"accesses": True}, {"record": range}])
def test_some_never_share(monkeypatch, how):
    assert sandboxes(monkeypatch, [{}] * 3, **how)[0] == [0, 1, 2]


@pytest.mark.parametrize("kind", UNCLEAN)
def test_what_is_not_clean_counts_in_a_sandbox_of_its_own_only(monkeypatch, kind):
    """The third launch is not clean in the shared sandbox: it is made again, and what that says counts; the next has a new one."""
    assert sandboxes(monkeypatch, [{}, {}, UNCLEAN[kind], {}, {}], count=4) == ([0, 0, 0, 1, 1], ["ran"] * 4)
    log, statuses = sandboxes(monkeypatch, [{}, {}, UNCLEAN[kind], UNCLEAN[kind], {}], count=4)
    assert log == [0, 0, 0, 1, 2]
    log, statuses = sandboxes(monkeypatch, [UNCLEAN[kind], {}, {}])
    assert log == [0, 1, 1]  # the first in its sandbox: once is enough
    assert statuses[1:] == ["ran", "ran"]


def test_a_hidden_launch_has_a_sandbox_of_its_own(monkeypatch):
    assert sandboxes(monkeypatch, [{}] * 5, hidden=(3, 4))[0] == [0, 0, 0, 1, 2]


def test_configs_that_are_one_to_the_interpreter_have_one_launch(monkeypatch):
    """Other warps and stages; not other constants, grids or folded numbers, and not what was refused or did not run to its end."""
    configs = (
        Config(0, {"BLOCK_M": 16}, 4, 2), Config(1, {"BLOCK_M": 16}, 8, 3, 128), Config(2, {"BLOCK_M": 32}, 4, 2),
        Config(3, {"BLOCK_M": 16}, 4, 2), Config(4, {"BLOCK_M": 16}, 4, 2), Config(5, {"BLOCK_M": 16.0}, 4, 2),
        Config(6, {"BLOCK_M": 16}, 2, 5),
    )
    launches = {(CASE, index): Launch((1, 1, 1), (), (), ()) for index in range(7)}
    launches[CASE, 3], launches[CASE, 4] = Launch((2, 1, 1), (), (), ()), Launch((1, 1, 1), (), (), (("M", 1),))
    refused = {(CASE, 6): "too large"}
    bundle = KernelBundle(LAB.id, configs, launches, refused, GeneratedModule("", LAB.kernel, ()))
    problems = {CASE: make_problem(LAB, LAB.case(CASE), 1)}
    for says, made in (([{}] * 5, 5), ([UNCLEAN["error"]] * 6, 6)):
        for name, value in (("says", list(says)), ("log", []), ("begun", [])):
            monkeypatch.setattr(Scripted, name, value, raising=False)
        heard = []
        outcomes = interpret(LAB, SOURCE, bundle, problems, list(launches), InterpretOptions(1, start=Scripted), heard.append)
        assert len(Scripted.log) == made
        assert [outcome.config for outcome in outcomes] == list(range(7)) == sorted(outcome.config for outcome in heard)
        assert [outcome.status for outcome in outcomes] == [*["ran" if made == 5 else "crash"] * 6, "refused"]
        assert made == 6 or (outcomes[1].y is not None and outcomes[1].seconds == 0 < outcomes[0].seconds)


PLAIN = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
NAMES = ("truncation", "last_lane_wins", "sum_read_by_an_atomic", "an_order_left_to_the_compiler")
KERNELS = {
    "right": ("w8a8", PLAIN),
    "annotated": ("w8a8", PLAIN.replace("    M, N, K,\n", "    M: tl.constexpr, N, K: tl.constexpr,\n")),
    **{one.name: (one.lab, one.source) for one in (*mistakes(), *exploits()) if one.name in NAMES},
}
"""A right kernel, one whose constants differ between launches, wrong ones and hostile ones."""


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_the_outcome_is_that_of_a_sandbox_of_its_own(name):
    """Small cases, and those that fold a 1; `python -m tests.shared_sandboxes` has all of the tests' submissions and cases."""
    lab, text = KERNELS[name]
    dear = tuple(
        case.name for case in get_lab(lab).cases if case.configs == "all" or case.M * case.N * case.K > 2_000_000
    )
    done = compared(name, lab, text, InterpretOptions(1), without=dear)
    assert done is not None
    assert done.launches >= 5
    assert done.differs == ()
    if name in ("right", "annotated", "truncation"):
        assert done.started == 1
