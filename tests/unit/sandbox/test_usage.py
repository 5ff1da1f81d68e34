"""What a family of processes uses, held against psutil, and where its limits lie."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from grader.sandbox import usage

BUSY = """
import os, threading, time
for _ in range(3):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
if os.fork():
    while time.process_time() < 1.0: pass
held = b"x" * (32 << 20)
if os.fork() == 0:
    print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture(scope="module")
def family():
    """One that has computed and sleeps now: a process with threads, a child, and a child of each; stopped, so that nothing changes."""
    parent = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True)
    assert [parent.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
    time.sleep(0.2)
    members = [psutil.Process(parent.pid), *psutil.Process(parent.pid).children(recursive=True)]
    assert len(members) == 4
    for member in members:
        member.send_signal(signal.SIGSTOP)
    time.sleep(0.2)
    yield members
    for member in members:
        member.kill()
    parent.wait()


@pytest.mark.parametrize("listed", [True, False], ids=["children", "table"])
def test_a_family_uses_what_its_members_use(family, monkeypatch, listed):
    monkeypatch.setattr(usage, "LISTED", listed and usage.LISTED)
    found = usage.measure(family[0].pid)
    assert sorted(found.pids) == sorted(member.pid for member in family)
    assert found.threads == sum(member.num_threads() for member in family) == 7
    assert found.cpu_seconds == pytest.approx(sum(sum(member.cpu_times()[:4]) for member in family), abs=0.01)
    assert 1.0 <= found.cpu_seconds < 10
    assert not found.runnable


def test_who_computes_is_runnable():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        time.sleep(0.5)
        seen = [usage.measure(busy.pid).runnable for _ in range(20)]
        busy.kill()
    assert any(seen)
    assert usage.measure(busy.pid).threads == 0, "who has ended counts no more"


def test_memory_is_what_is_resident_and_shared_pages_are_divided(family, monkeypatch):
    for member in family:
        held = member.memory_full_info()
        assert usage._resident(member.pid) == held.rss > 32 << 20
        assert usage._proportional(member.pid) == pytest.approx(held.pss, abs=2 << 20), "others come and go that share its libraries"
    opened = open

    def without_rollup(path, *arguments, **named):
        if path.endswith("smaps_rollup"):
            raise PermissionError(path)
        return opened(path, *arguments, **named)

    monkeypatch.setattr("builtins.open", without_rollup)
    assert usage._proportional(family[-1].pid) == held.rss - held.shared > 32 << 20
    assert usage._proportional(0) == usage._resident(0) == 0


def test_one_look_at_all_processes_serves_for_a_moment(monkeypatch):
    looks, now = [], [100.0]
    monkeypatch.setattr(usage.os, "listdir", lambda path: looks.append(path) or [str(os.getpid())])
    monkeypatch.setattr(usage.time, "monotonic", lambda: now[0])
    table = usage._Table()
    for now[0], expected in ((100.0, 1), (100.09, 1), (100.2, 2)):
        assert table.children(os.getppid()) == [os.getpid()]
        assert len(looks) == expected


def test_a_fork_bomb_is_not_followed_to_its_end(monkeypatch):
    monkeypatch.setattr(usage, "_children", lambda pid: [pid + 1])
    assert len(usage._family(0)) == 4 * usage.MAX_PROCESSES + 1


@pytest.mark.parametrize(
    ("processes", "threads", "resident", "proportional", "words"),
    [
        (48, 256, 48 << 20, 48 << 20, None),
        (49, 256, 0, 0, "more than 48 processes"),
        (48, 257, 0, 0, "more than 256 threads"),
        (1, 1, 6 << 30, 7 << 30, None),
        (1, 1, 7 << 30, 6 << 30, None),
        (1, 1, (6 << 30) + 1, (6 << 30) + 1, "more than 6 GB of memory"),
        (2, 2, (3 << 30) + 1, (3 << 30) + 1, "more than 6 GB of memory"),
    ],
)
def test_a_limit_may_be_reached_and_not_passed(monkeypatch, processes, threads, resident, proportional, words):
    monkeypatch.setattr(usage, "_resident", lambda pid: resident)
    monkeypatch.setattr(usage, "_proportional", lambda pid: proportional)
    found = usage.excess(usage.Usage(0.0, False, tuple(range(processes)), threads))
    assert found is None if words is None else words in found
