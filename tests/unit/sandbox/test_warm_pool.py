"""The warm parents: when they begin and end, what their death costs, and that a fork does what a cold start does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from grader.building import BuildOptions, build
from grader.labs import get_lab
from grader.labs.problems import make_problem
from grader.model import KernelSource
from grader.running.cpu import InterpretOptions, interpret
from grader.sandbox import Sandbox, SandboxDied, SandboxLost, Session, bubblewrap, confinement
from grader.sandbox import pool as pools
from grader.sandbox.pool import Pool, WarmParent
from grader.sandbox.process_handle import ColdProcess, ForkedProcess
from tests.hostile import load, told
from tests.submissions import TESTS

ROOT = TESTS.parent
KERNEL = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")

pytestmark = pytest.mark.skipif(bubblewrap() is None, reason="bubblewrap does not work here")


@pytest.fixture
def own_pool(monkeypatch):
    """A pool of this test's own, ended with it."""
    own = Pool()
    monkeypatch.setattr(pools, "_pool", own)
    yield own
    own.end()


def parent_of(pool, interpret=False) -> WarmParent:
    return pool.parent(interpret, bubblewrap())


def tree(pid):
    return [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]


def test_one_parent_serves_many_at_once(own_pool):
    parent_of(own_pool)
    boxes: list[Sandbox] = []
    threads = [threading.Thread(target=lambda: boxes.append(Sandbox(confined=True))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({box.pid for box in boxes}) == 12
    assert len(own_pool._parents) == 1
    for box in boxes:
        assert load(box, "").header == {}
        box.close()


def test_whoever_prewarms_does_not_wait_for_bubblewrap(own_pool, monkeypatch):
    found, path = threading.Event(), bubblewrap()
    monkeypatch.setattr(confinement, "bubblewrap", lambda: path if found.wait(60) else None)
    pools.prewarm()
    assert not own_pool._parents
    found.set()
    with Sandbox(confined=True) as box:
        assert load(box, "").header == {}
    assert set(own_pool._parents) == {(False, path), (True, path)}


def test_a_fork_ends_with_its_sandbox_and_the_parent_stays(own_pool):
    with Sandbox(confined=True) as box:
        load(box, "import os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass\n")
        family = tree(box.pid)
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []
    assert parent_of(own_pool)._process.poll() is None


@pytest.mark.parametrize("victim", ["bubblewrap", "parent"])
def test_a_parent_killed_from_outside_costs_nobody_anything(own_pool, victim):
    with Sandbox(confined=True) as box:
        load(box, "from grader.building.sandboxed import student_module\nstudent_module.kept = 'state'\n")
        process = psutil.Process(parent_of(own_pool)._process.pid)
        below = [child for child in process.children(recursive=True) if "forking" in child.cmdline()]
        killed = process if victim == "bubblewrap" else next(c for c in below if "forking" in c.cmdline()[2:3])
        killed.send_signal(signal.SIGKILL)
        assert told(box, "from grader.building.sandboxed import student_module\nanswer = student_module.kept") == "state"
    with Sandbox(confined=True) as box:
        assert load(box, "").header == {}


def test_a_fork_killed_from_outside_is_asked_again(own_pool):
    with Sandbox(confined=True) as box:
        load(box, "from grader.building.sandboxed import student_module\nstudent_module.kept = 'state'\n")
        first = box.pid
        os.kill(first, signal.SIGKILL)
        assert told(box, "from grader.building.sandboxed import student_module\nanswer = student_module.kept") == "state"
        assert box.pid != first


def test_one_that_is_always_killed_from_outside_is_given_up(own_pool):
    with Sandbox(confined=True) as box:
        stop = threading.Event()

        def killer():
            while not stop.wait(0.02):
                try:
                    os.kill(box.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

        thread = threading.Thread(target=killer)
        thread.start()
        try:
            with pytest.raises(SandboxLost, match="ended from outside"):
                load(box, "import time; time.sleep(5)")
        finally:
            stop.set()
            thread.join()


def test_what_is_killed_by_us_is_not_asked_again(own_pool):
    with Sandbox(confined=True) as box:
        timer = threading.Timer(0.3, box.kill)
        timer.start()
        with pytest.raises(SandboxDied):
            load(box, "import time; time.sleep(20)")
        with pytest.raises(SandboxDied):
            load(box, "")


def test_a_session_ends_what_it_started(own_pool):
    session = Session()
    boxes = [session.start(), session.start(interpret=True)]
    other = Sandbox(confined=True)
    session.end()
    for box in boxes:
        with pytest.raises(SandboxDied):
            load(box, "")
        box.close()
    with other:
        assert load(other, "").header == {}


GRADER = """
import sys, threading, time
from grader.sandbox import Sandbox
confined = sys.argv[1] == "confined"
endless = {"op": "load", "module": "while True: pass", "kernel": "", "grid": None, "capability": 90}
boxes = [Sandbox(confined=confined), Sandbox(confined=confined, interpret=True)]
for box in boxes:
    threading.Thread(target=box.ask, args=(endless,), kwargs={"timeout": 60}, daemon=True).start()
time.sleep(0.5)
print(*(box.pid for box in boxes), flush=True)
time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["confined", "unconfined"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_everything_ends_with_the_grader_whatever_ends_that(end, how):
    with subprocess.Popen([sys.executable, "-c", GRADER, how], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as grader:
        assert grader.stdout is not None
        pids = [int(pid) for pid in grader.stdout.readline().split()]
        family = tree(grader.pid)
        assert {process.pid for process in family} >= set(pids)
        grader.send_signal(end)
        _, alive = psutil.wait_procs(family, timeout=20)
        assert alive == []


def test_a_child_of_the_grader_has_parents_of_its_own(own_pool):
    with Sandbox(confined=True) as box:
        load(box, "")
        child = os.fork()
        if child == 0:
            fine = 1
            try:
                with Sandbox(confined=True) as own:
                    fine = 0 if load(own, "").header == {} and pools.pool() is not own_pool else 2
                pools.pool().end()
            finally:
                os._exit(fine)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert load(box, "").header == {}


def test_where_forks_cannot_be_kept_apart_sandboxes_start_cold(own_pool, monkeypatch):
    real = confinement.confinement
    # process 1 of bubblewrap's own namespaces may then create no further ones
    monkeypatch.setattr(
        confinement, "confinement", lambda variables: [*real(variables), "--unshare-user", "--disable-userns"]
    )
    with Sandbox(confined=True) as box:
        assert isinstance(box._process, ColdProcess)
        assert load(box, "").header == {}
    assert "unshare" in next(iter(own_pool._cannot.values()))


def test_a_parent_that_cannot_begin_says_why(own_pool, monkeypatch):
    monkeypatch.setattr(pools, "IMPORTED", {False: ("no_such_module",), True: ()})
    with pytest.raises(SandboxDied, match="No module named 'no_such_module'"):
        Sandbox(confined=True)


def test_without_bubblewrap_a_fork_has_a_folder_of_its_own(own_pool):
    with Sandbox(confined=False) as first, Sandbox(confined=False) as second:
        assert isinstance(first._process, ForkedProcess)
        look = "import os\nanswer = [os.getcwd(), os.environ['HOME'], os.environ['TRITON_CACHE_DIR']]"
        folder, home, cache = told(first, look)
        assert folder == home
        assert cache == f"{home}/triton-cache"
        assert told(second, look)[0] != folder
        family = tree(first.pid)
    assert not os.path.exists(folder)
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []


@pytest.mark.slow
def test_a_fork_compiles_and_interprets_as_a_cold_start_does(own_pool, monkeypatch):
    source = KernelSource("w8a8", "W8A8_MM", None, KERNEL, (), ROOT / "w8a8.py")
    lab = get_lab("w8a8")
    problem = make_problem(lab, lab.cases[0], 1)

    def results():
        bundle = build(lab, source, BuildOptions((90,), "check", 1, confined=True))
        binaries = {key: (binary.cubin, binary.facts) for key, binary in bundle.binaries.items()}
        pairs = [(lab.cases[0].name, 0)]
        outcome = interpret(lab, source, bundle, {lab.cases[0].name: problem}, pairs, InterpretOptions(1, True))[0]
        return binaries, outcome.y.numpy().tobytes(), outcome.status

    warm = results()
    assert len(warm[0]) == 3
    assert warm[2] == "ran"
    monkeypatch.setattr(Pool, "start", lambda self, interpret, bwrap: ColdProcess(interpret, bwrap))
    assert results() == warm


SMALLEST = "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef kernel(x_ptr):\n    pass\n"


def test_a_fork_is_ready_much_sooner_than_a_cold_start(own_pool, monkeypatch):
    def seconds(interpret):
        began = time.perf_counter()
        with Sandbox(confined=True, interpret=interpret) as box:
            box.ask({"op": "made", "module": SMALLEST, "kernel": "kernel", "capability": 90}, timeout=60)
        return time.perf_counter() - began

    seconds(True)
    warm = min(seconds(True) for _ in range(4))
    monkeypatch.setattr(Pool, "start", lambda self, interpret, bwrap: ColdProcess(interpret, bwrap))
    assert warm < min(seconds(True) for _ in range(2)) / 4
