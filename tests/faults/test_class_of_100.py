"""A hundred submissions, a third of them wrong and a quarter hostile or broken, with twenty kills: as graded one by one.

Takes six minutes on two cores: `CLASS_OF_100=1 pytest tests/faults/test_class_of_100.py` runs it.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import psutil
import pytest

from grader.classroom.batch.tasks import Setup, grade_on_cpu
from grader.classroom.hidden_cases import Secrets
from grader.gpu.devices import choose
from grader.model import KernelSource
from grader.reading import read
from tests import batch_driver
from tests.deliveries import delivered
from tests.faults import test_killed as killing
from tests.faults.conftest import leftovers
from tests.processes import command_line
from tests.submissions import exploits, mistakes
from tests.unit.building.test_broken_kernels import broken
from tests.unit.classroom.test_batch import variant

KILLS = 20
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("batch"),
    pytest.mark.skipif("CLASS_OF_100" not in os.environ, reason="takes six minutes; CLASS_OF_100=1 runs it"),
]


def class_of_100() -> dict[str, str]:
    """By path: right kernels, each a little different; wrong, hostile and broken ones among them."""
    labs = ("w8a8", "dds")
    wrong = [(one.lab, one.source) for one in mistakes() if one.lab in labs][::3][:33]
    hostile = [(exploit.lab, exploit.source) for exploit in exploits()][:16]
    unbuilt = [(one.lab, one.source) for one in broken() if one.lab in labs][::5][:10]
    right = [(labs[number % 2], variant(labs[number % 2], number)) for number in range(100 - len(wrong) - len(hostile) - len(unbuilt))]
    everybody = [*right, *wrong, *hostile, *unbuilt]
    random.Random(3).shuffle(everybody)
    return {f"student{number:03}/{lab}.py": text for number, (lab, text) in enumerate(everybody)}


def test_each_has_the_verdict_of_being_graded_alone(tmp_path, temporary, monkeypatch):
    monkeypatch.setattr(killing, "DEADLINE", 3000.0)
    files = class_of_100()
    assert len(files) == 100
    folder = delivered(tmp_path / "class", files)
    place = tmp_path / "batch"
    place.mkdir()
    killer = killing.Killer(folder, place)
    killer.disturb(KILLS, random.Random(11))
    assert sum(killer.killed.values()) == KILLS, killer.killed
    table = killing.finished(folder, place)
    alive = psutil.wait_procs(killer.seen, timeout=15)[1]
    assert not [command_line(one) for one in alive]
    assert leftovers(temporary) == []
    verdicts = {key.split("/")[0]: labs for key, labs in table.items()}
    different = {name: (verdicts[name.split("/")[0]], alone(folder / name)) for name in files}
    assert {name: pair for name, pair in different.items() if pair[0][name.split("/")[1].removesuffix(".py")] != pair[1]} == {}


def alone(path: Path) -> list[object]:
    """The row of the table of one submission that is graded by itself."""
    setup = Setup(choose("cpu")[0], Secrets(batch_driver.SEED), batch_driver.CASE_SECONDS, (80,), batch_driver.CASES)
    source = read(path, [setup.lab(path.stem)], all_labs=True).labs[path.stem]
    if not isinstance(source, KernelSource):
        return [source.status, 0.0, source.message, []]
    return batch_driver.row(grade_on_cpu(setup, source))
