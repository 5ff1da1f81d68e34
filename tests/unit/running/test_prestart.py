"""A GPU's process that is started early goes to the first runner, and to no other."""

from __future__ import annotations

import time

import pytest

from grader.running import prestart
from grader.sandbox.supervisor import Supervised
from tests.commands import python


def serve(connection, gpu):
    connection.send("ready")
    while True:
        connection.recv()
        connection.send(("here", gpu))


def fresh(monkeypatch, there):
    monkeypatch.setattr(prestart, "DRIVER", there)
    monkeypatch.setattr(prestart, "serve", serve)
    monkeypatch.setattr(prestart, "_prestarted", {})
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_the_first_runner_takes_the_woken_process_and_the_next_one_starts_its_own(tmp_path, monkeypatch):
    fresh(monkeypatch, tmp_path)
    prestart.prestart()
    first, second = prestart.take(serve, 0), prestart.take(serve, 0)
    try:
        pid = first._process.pid
        first.start()
        assert first.ask("who", 30.0) == ("here", "0")
        assert first._process.pid == pid
        assert second._process is None
    finally:
        first.stop()
        second.stop()


def test_nothing_is_woken_without_a_driver_or_for_another_gpu(tmp_path, monkeypatch):
    fresh(monkeypatch, tmp_path / "nowhere")
    prestart.prestart()
    assert not prestart._prestarted
    fresh(monkeypatch, tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    prestart.prestart(1)
    assert prestart.take(serve, 0)._process is None
    mine = prestart.take(serve, 1)
    assert mine._arguments == ("5",)
    mine.stop()


def test_a_process_that_cannot_be_started_is_told_to_the_runner_only(tmp_path, monkeypatch):
    fresh(monkeypatch, tmp_path)

    def start(self):
        raise prestart.CannotStart("no process left")

    monkeypatch.setattr(Supervised, "start", start)
    prestart.prestart()
    with pytest.raises(prestart.CannotStart):
        prestart.take(serve, 0).start()


def test_waking_imports_no_torch_and_a_command_that_ends_early_takes_the_process_with_it(tmp_path):
    code = f"""
import sys
from pathlib import Path
from grader.running import prestart
prestart.DRIVER = Path({str(tmp_path)!r})
prestart.prestart()
(process,) = prestart._prestarted.values()
assert "torch" not in sys.modules
print(process._process.pid)
"""
    pid = int(python("-c", code))
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and _runs(pid):
        time.sleep(0.1)
    assert not _runs(pid)


def _runs(pid):
    import psutil

    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
