"""What hostile code in one sandbox can reach: not the grader, not the warm parent, not a sibling, not a successor."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from functools import cache
from pathlib import Path

import psutil
import pytest

from grader.sandbox import Sandbox, SandboxDied, SandboxTimeout, bubblewrap, confinement, process
from grader.sandbox.inside import isolation, system_calls, wire
from grader.sandbox.pool import Pool, pool
from grader.sandbox.process_handle import ColdProcess, ForkedProcess
from tests.hostile import load, outcome, told

pytestmark = pytest.mark.skipif(bubblewrap() is None, reason="bubblewrap does not work here")
LIBC = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), '')
"""


@pytest.fixture(params=["warm", "cold"])
def start(request, monkeypatch):
    """How to start a sandbox: both ways must hold."""
    if request.param == "cold":
        monkeypatch.setattr(Pool, "start", lambda self, interpret, bwrap: ColdProcess(interpret, bwrap))
    return lambda **kind: Sandbox(confined=True, **kind)


@pytest.fixture
def box(start):
    with start() as sandbox:
        yield sandbox


OF_A_FORK = {
    "no /proc, and is process one": ("answer = [os.listdir('/proc'), os.getpid(), os.getppid()]", [[], 1, 0]),
    "its files are bounded in bytes and number": (
        "answer = [(one.f_blocks * one.f_frsize, one.f_files) for one in map(os.statvfs, ('/tmp', '/dev/shm'))]",
        [(512 << 20, 16384), (16 << 20, 1024)]),
    "killing itself changes nothing": ("os.kill(os.getpid(), 9); os.kill(1, 9); answer = 'here'", "here"),
    "no terminal": ("answer = os.listdir('/dev/pts')", []),
}


@pytest.mark.parametrize("what", OF_A_FORK)
def test_the_usual_start_is_a_fork_that_has_nothing_of_others(what):
    code, expected = OF_A_FORK[what]
    with Sandbox(confined=True) as box:
        assert isinstance(box._process, ForkedProcess)
        assert told(box, f"import os; {code}") == expected
        assert outcome(box, "os.kill(-1, 9)", "import os") == "ESRCH"
        assert outcome(box, "os.openpty()", "import os") == "ENOENT"


PRIVILEGES = LIBC + """
PR_GET_DUMPABLE, PR_CAPBSET_READ, PR_GET_SECUREBITS, PR_GET_NO_NEW_PRIVS = 3, 23, 27, 39
header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(*[7] * 6)
libc.capget(header, sets)
answer = [list(sets), [libc.prctl(PR_CAPBSET_READ, one, 0, 0, 0) for one in range(41)],
          libc.prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), libc.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), libc.prctl(PR_GET_SECUREBITS, 0, 0, 0, 0)]
"""


def test_no_privilege_is_left_nor_can_be_had_again(box):
    held, could_be, dumpable, no_new, bits = told(box, PRIVILEGES)
    assert set(held) == {0}
    assert set(could_be) <= {0, -1}, "0: dropped, -1: unknown to this kernel"
    assert (dumpable, no_new) == (0, 1)
    assert bits == isolation.NO_ROOT_NO_FIXUP_LOCKED or not isinstance(box._process, ForkedProcess), "of a fork; bubblewrap sets none"


LIMITS = {"AS": 24 << 30, "DATA": 6 << 30, "CPU": 900, "FSIZE": 512 << 20, "NOFILE": 256, "CORE": 0, "MSGQUEUE": 0, "MEMLOCK": 0}


def test_the_kernel_keeps_these_limits(box):
    code = f"import resource\nanswer = {{name: resource.getrlimit(getattr(resource, 'RLIMIT_' + name)) for name in {list(LIMITS)}}}"
    assert told(box, code) == {name: (most, most) for name, most in LIMITS.items()}


# ---------------------------------------------------------------- other processes


def test_signals_reach_nobody(start):
    with start() as sibling, start() as box:
        here = os.getpid()
        parent = pool().parent(False, bubblewrap())._process.pid
        load(sibling, "")
        code = f"""
        import os, signal
        answer = 0
        for pid in (-1, {here}, {parent}, {sibling.pid}, {box.pid}, os.getppid(), *range(1, 3000), *range(-3000, 0)):
            for number in (signal.SIGTERM, signal.SIGSTOP, signal.SIGUSR1):
                if pid in (os.getpid(), -os.getpgrp(), 0):
                    continue
                try:
                    os.kill(pid, number)
                    answer += pid > 1
                except OSError:
                    pass
        """
        assert told(box, code) == 0
        assert load(sibling, "").header == {}
        assert psutil.Process(parent).status() != psutil.STATUS_STOPPED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ptrace", "0, 0, 0, 0"),
        ("ptrace", "16, os.getppid(), 0, 0"),
        ("process_vm_readv", "1, 0, 0, 0, 0, 0"),
        ("process_vm_writev", "1, 0, 0, 0, 0, 0"),
        ("pidfd_getfd", "0, 0, 0"),
        ("kcmp", "1, 1, 0, 0, 0"),
        ("keyctl", "0, -3, 0, 0, 0"),
        ("unshare", "0x10000000"),
        ("setns", "0, 0"),
        ("mount", "0, 0, 0, 0, 0"),
        ("umount2", "0, 0"),
        ("bpf", "0, 0, 0"),
        ("perf_event_open", "0, 0, 0, 0, 0"),
        ("userfaultfd", "0"),
        ("io_uring_setup", "1, 0"),
        ("memfd_create", "b'x', 0"),
        ("memfd_secret", "0"),
        ("shmget", "0, 4096, 0o1600"),
        ("msgget", "0, 0o1600"),
        ("semget", "0, 1, 0o1600"),
        ("mq_open", "b'x', 66, 0o600, 0"),
        ("open_by_handle_at", "0, 0, 0"),
        ("prlimit64", "0, 0, (ctypes.c_uint64 * 2)(1, 1), 0"),
        ("prlimit64", "os.getpid(), 0, ctypes.c_void_p(1 << 32), 0"),
        ("setrlimit", "0, (ctypes.c_uint64 * 2)(1, 1)"),
        ("socket", "40, 1, 0"),
        ("clone", "0x10000011, 0, 0, 0, 0"),
    ],
)
def test_wide_doors_of_the_kernel_are_shut(box, name, arguments):
    number = {**system_calls.NUMBERS[os.uname().machine], **system_calls.EVERYWHERE}[name]
    assert outcome(box, f"call({number}, {arguments})", LIBC) == "EPERM"


def test_a_call_of_another_architecture_ends_the_process(box):
    x32 = LIBC + "call(0x40000000 + 39)\nanswer = 1"
    if os.uname().machine != "x86_64":
        pytest.skip("x32 is of x86")
    with pytest.raises(SandboxDied):
        told(box, x32)


# ---------------------------------------------------------------- files and descriptors


def test_a_sibling_sees_none_of_the_files(start):
    with start() as first, start() as second:
        load(first, "for f in ('/tmp/a', '/tmp/grading/b', '/dev/shm/c'): open(f, 'w').write('mine')")
        code = "import os; answer = [os.path.exists(f) for f in ('/tmp/a', '/tmp/grading/b', '/dev/shm/c')]"
        assert told(second, code) == [False] * 3
        assert told(first, code) == [True] * 3


WRITABLE = """
import os
answer = []
for folder, folders, files in os.walk('/'):
    try:
        os.close(os.open(os.path.join(folder, 'new'), os.O_CREAT | os.O_WRONLY))
        answer.append(folder)
    except OSError:
        pass
    for name in files:
        try:
            os.close(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
            answer.append(os.path.join(folder, name))
        except OSError:
            pass
    folders[:] = [name for name in folders if os.path.join(folder, name) not in ('/proc', '/usr/share', '/root')]
answer = [name for name in answer if not name.startswith('/tmp/grading/')]
"""
SCRATCH_FOLDERS = {"/tmp", "/tmp/grading", "/dev/shm"}
DEVICES = {f"/dev/{name}" for name in ("full", "null", "ptmx", "pts/ptmx", "random", "tty", "urandom", "zero")}


@pytest.mark.slow
def test_nothing_but_the_scratch_folders_can_be_written(box):
    assert set(told(box, WRITABLE, 120)) <= SCRATCH_FOLDERS | DEVICES


CLONE = "a clone é"


@pytest.fixture
def clone(request, monkeypatch):
    """A checkout of the grader in a folder, whose packages lie in it; sandboxes start from there."""
    home = Path(tempfile.mkdtemp(dir=request.param))
    folder = home / CLONE
    packages = folder / ".venv" / "packages"
    packages.mkdir(parents=True)
    (packages / "borrowed.py").write_text("here = 1")
    (folder / "secrets.toml").write_text("seed = 1")
    monkeypatch.setenv("PYTHONPATH", str(packages))
    monkeypatch.setattr(confinement, "CHECKOUT", str(folder))
    monkeypatch.setattr(process, "pool", cache(Pool))
    confinement._readable.cache_clear()
    yield folder
    process.pool().end()
    confinement._readable.cache_clear()
    shutil.rmtree(home)


@pytest.mark.slow
@pytest.mark.parametrize("clone", [tempfile.gettempdir(), "/tmp", "/dev/shm", Path.home()], indirect=True)
def test_a_clone_may_lie_anywhere(clone, start):
    with start() as box:
        assert told(box, "import borrowed; answer = borrowed.here") == 1
        assert set(told(box, WRITABLE, 120)) <= SCRATCH_FOLDERS | DEVICES


@pytest.mark.slow
@pytest.mark.parametrize("clone", ["/tmp", "/dev/shm", Path.home()], indirect=True)
@pytest.mark.parametrize("around", [".", ".."])
def test_the_clone_is_empty_even_where_packages_lie_around_it(clone, start, around, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.environ["PYTHONPATH"], str(clone / around)]))
    with start() as box:
        seen = f"import os, borrowed; answer = [os.listdir(os.path.normpath({str(clone / around)!r})), os.listdir({str(clone)!r})]"
        assert set(told(box, WRITABLE, 120)) <= SCRATCH_FOLDERS | DEVICES
        assert told(box, seen) == [[CLONE] if around == ".." else [".venv"], [".venv"]]


DESCRIPTORS = """
import os
answer = []
for descriptor in range(256):
    try:
        os.fstat(descriptor)
        answer.append(descriptor)
    except OSError:
        pass
"""


def test_a_fork_inherits_two_pipes_and_nothing_else():
    with Sandbox(confined=True), Sandbox(confined=True), Sandbox(confined=True) as box:
        # 5 is the file that holds the module while it is read, or nothing
        assert set(told(box, DESCRIPTORS)) <= {0, 1, 2, 3, 4, 5}
        kinds = told(box, "import os, stat\nanswer = [stat.S_ISFIFO(os.fstat(d).st_mode) for d in range(5)]")
        assert kinds == [False, False, False, True, True]


def test_no_mapping_is_shared_and_writable():
    with Sandbox(confined=True, interpret=True) as box:
        with open(f"/proc/{box.pid}/maps") as maps:
            shared = [line for line in maps if line.split()[1].startswith("rw") and line.split()[1].endswith("s")]
        assert shared == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "statement"),
    [
        ("import fcntl, sys; f = open(sys.executable)", "fcntl.flock(f, fcntl.LOCK_EX)"),
        ("import fcntl, sys; f = open(sys.executable)", "fcntl.lockf(f, fcntl.LOCK_SH)"),
        ("import fcntl, sys; f = open(sys.executable)", "fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_RDLCK)"),
        ("import fcntl, os; f = os.open('/usr/lib', os.O_RDONLY)", "fcntl.fcntl(f, fcntl.F_NOTIFY, fcntl.DN_ACCESS)"),
        (LIBC, "call({'x86_64': 294, 'aarch64': 26}[os.uname().machine], 0)"),
        ("import os, sys; f = os.open(sys.executable, 0)", "os.preadv(f, [bytearray(9)], 0, os.RWF_NOWAIT)"),
        ("import os, sys; f = os.open(sys.executable, 0)", "os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)"),
        (LIBC, "call({'x86_64': 27, 'aarch64': 232}[os.uname().machine], 0, 0, 0)"),
        (LIBC, "call(451, 0, 0, 0, 0)"),
        *(("import socket", f"socket.socket(socket.AF_{family}, socket.SOCK_STREAM)")
          for family in ("UNIX", "INET", "INET6", "NETLINK", "VSOCK", "ALG")),
        ("import os", "os.memfd_create('x')"),
        ("import mmap", "mmap.mmap(-1, 4096)"),
        ("import mmap", "mmap.mmap(-1, 4096, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)"),
        ("import mmap\nf = open('/dev/zero', 'r+b')", "mmap.mmap(f.fileno(), 4096)"),
        ("import mmap\nf = open('x', 'w+b'); f.write(bytes(4096)); f.flush()", "mmap.mmap(f.fileno(), 4096)"),
        ("import mmap", "mmap.mmap(-1, 4096, flags=3 | mmap.MAP_ANONYMOUS)"),
        ("from multiprocessing import shared_memory", "shared_memory.SharedMemory(create=True, size=4096)"),
    ],
)
def test_no_message_in_files_that_two_sandboxes_read_no_socket_and_no_memory_that_is_in_no_resident_set(box, before, statement):
    assert outcome(box, statement, before) == "EPERM"


# ---------------------------------------------------------------- successors


def test_what_one_module_changes_the_next_sandbox_does_not_see(start):
    change = """
    import builtins, os, random, signal, sys
    from grader.building.sandboxed import operations, student_module
    from grader.sandbox.inside import wire
    builtins.marked = os.environ['MARKED'] = sys.marked = wire.marked = student_module.marked = 'x'
    wire.MAX_BLOBS = 0
    operations.explain = student_module.load = lambda *a: {}
    sys.path.insert(0, '/tmp/evil'); sys.modules['json'] = None
    signal.signal(signal.SIGTERM, lambda *a: None); os.chdir('/'); os.umask(0); random.seed(5); os.nice(1)
    """
    look = """
    import builtins, json, os, random, signal, sys
    from grader.building.sandboxed import operations, student_module
    from grader.sandbox.inside import wire
    answer = [hasattr(thing, 'marked') for thing in (builtins, sys, wire, student_module)] + [
        'MARKED' in os.environ, wire.MAX_BLOBS, student_module.load.__name__, operations.explain.__name__, '/tmp/evil' in sys.path,
        signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, os.getcwd(), os.umask(0o22), os.nice(0)]
    """
    with start() as before:
        clean = told(before, look)
    assert clean[:5] == [False] * 5
    with start() as first, start() as meanwhile:
        load(first, change)
        assert told(meanwhile, look) == clean
    with start() as after:
        assert told(after, look) == clean


def test_every_fork_begins_in_the_same_state():
    look = """
    import os, random, sys, numpy
    answer = [random.random(), numpy.random.random(), 'torch' in sys.modules, hash('a'),
              sorted(os.environ), os.getcwd(), os.listdir('.'), os.getuid()]
    """
    found = []
    for _ in range(3):
        with Sandbox(confined=True, interpret=True) as box:
            found.append(told(box, look))
    assert found[0] == found[1] == found[2]
    assert found[0][2] is False, "what is imported after the fork would draw numbers of its own"
    assert found[0][6] == ["kernel_module.py"]


def test_a_child_that_stays_cannot_answer_for_the_successor(start):
    forger = """
    import os, sys
    from grader.sandbox.inside import wire
    frame = b''.join(bytes(part) for part in wire.encode({'forged': 1}))
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True:
                for descriptor in range(3, 64):
                    try: os.write(descriptor, frame)
                    except OSError: pass
        os._exit(0)
    """
    with start() as first:
        try:
            load(first, forger)
        except wire.WireError:
            pass
        family = [psutil.Process(first.pid), *psutil.Process(first.pid).children(recursive=True)]
    with start() as second:
        for _ in range(20):
            assert load(second, "").header == {}
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []


def ask_often(box):
    for _ in range(50):
        load(box, "", timeout=2)
        time.sleep(0.01)


@pytest.mark.slow
def test_requests_that_a_module_reads_away_help_nobody(start):
    thief = """
    import os, threading
    def steal():
        while True:
            for descriptor in (0, 3):
                try: os.read(descriptor, 1)
                except OSError: pass
    threading.Thread(target=steal, daemon=True).start()
    """
    with start() as first, start() as second:
        load(first, thief)
        with pytest.raises((SandboxDied, SandboxTimeout, wire.WireError)):
            ask_often(first)
        assert load(second, "").header == {}


def test_stopping_the_whole_family_is_only_a_timeout(start):
    with start() as box, pytest.raises(SandboxTimeout):
        load(box, f"import os\nif os.fork() == 0: os.kill(os.getppid(), {int(signal.SIGSTOP)})\nwhile True: pass", 1)
