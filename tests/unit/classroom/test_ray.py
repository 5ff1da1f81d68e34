"""A cluster that does not come up is a sentence, whatever Ray raises."""

from __future__ import annotations

import os
import socket
import sys
from types import SimpleNamespace

import pytest

from grader.classroom.batch.ray_engine import connect
from grader.classroom.batch.workers import NICE
from grader.unusable import Unusable
from tests.commands import python
from tests.processes import free_port


class Late(Exception):
    """As Ray raises for a node that is late: no class of its own."""


@pytest.mark.parametrize("address", [None, "head:6379"])
@pytest.mark.parametrize(
    ("where", "error", "sentence"),
    [
        ("init", Late("The current node timed out during startup.\nThis could happen because " + "x" * 5000), "timed out during startup"),
        ("init", ConnectionError("no"), "(no)"),
        ("get", TimeoutError(), "(TimeoutError)"),
        ("init", RuntimeError("Authentication token is missing"), "its nodes want a token, see docs/instructor.md"),
    ],
)
def test_a_node_that_does_not_come_up_is_a_sentence(monkeypatch, address, where, error, sentence):
    def failing(*arguments, **options):
        raise error

    ended = []
    calls = {"init": lambda **options: None, "get": lambda *reference, **options: True, where: failing}
    remote = SimpleNamespace(remote=lambda *arguments: None)
    ray = SimpleNamespace(**calls, remote=lambda function: remote, shutdown=lambda: ended.append(True))
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(socket, "create_connection", lambda place, seconds: SimpleNamespace(close=lambda: None))
    with pytest.raises(Unusable) as problem:
        connect(address, "cpu")
    text = str(problem.value)
    assert sentence in text
    assert (address or "this machine") in text
    assert "\n" not in text
    assert len(text) < 500
    assert ended


def test_an_address_where_nobody_listens_is_told_at_once():
    pytest.importorskip("ray")
    place = f"127.0.0.1:{free_port()}"
    with pytest.raises(Unusable, match=f"no Ray cluster comes up at {place} .*refused"):
        connect(place, "cpu")


@pytest.mark.slow
def test_tasks_give_way_to_the_processes_of_gpus():
    program = "import os; from grader.classroom.batch.ray_engine import giving_way as way; print(way(lambda a: (a, os.nice(0)))(3))"
    assert python("-c", program).strip() == f"(3, {max(NICE, os.nice(0))})"
