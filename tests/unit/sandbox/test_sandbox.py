"""What the sandbox alone must stop: code that the reader would have refused, put straight into it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from grader import building
from grader.building import BuildOptions, build
from grader.judging.rubric import HERE as RULES
from grader.labs import get_lab
from grader.model import KernelBundle, KernelSource, Refusal, SourceLine
from grader.sandbox import Sandbox, SandboxDied, bubblewrap, confinement
from tests.commands import python
from tests.submissions import plain

BASE = plain("w8a8")
LAB = get_lab("w8a8")
pytestmark = pytest.mark.skipif(bubblewrap() is None, reason="bubblewrap does not work here")


def source(top="", bottom="", grid=None, base=BASE):
    module = textwrap.dedent(top) + "\n" + base + textwrap.dedent(bottom)
    lines = tuple(SourceLine("w8a8.py", n) for n in range(1, module.count("\n") + 2))
    return KernelSource("w8a8", "W8A8_MM", grid, module, lines, Path("w8a8.py"))


def built(kernel, **limits):
    return build(LAB, kernel, BuildOptions((90,), "check", 1, confined=True))


def refused(result, status):
    assert isinstance(result, Refusal)
    assert result.status == status, result.message
    return result.message


def ask(code, timeout=20.0):
    """Runs code at import time in a confined sandbox and returns the answer to `load`."""
    with Sandbox(confined=True) as box:
        kernel = source(code)
        return box.ask(building.load_request(kernel, 90), timeout=timeout)


def test_home_project_and_secrets_are_not_visible():
    rubric = str(RULES / "rubric.toml")
    assert Path(rubric).exists()
    home = [str(Path.home() / name) for name in (".ssh", ".bashrc")]
    hidden = [rubric, "/etc/shadow", "/etc/passwd", "/sys/class/net", "/dev/nvidia0", *home]
    code = f"""
    import os
    found = [p for p in {hidden!r} if os.path.exists(p)]
    raise ValueError(str(found) + " " + str(os.environ.get('HOME')))
    """
    message = ask(code).header["message"]
    assert message.startswith("[] ")
    assert "/tmp/grading" in message


FORGED = "import os\nfor d in range(3, 256):\n    try: os.write(d, b'{\"points\": 100}' * 10)\n    except OSError: pass\n"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        *((code, "configs and the grid") for code in (
            "import os; os._exit(0)", "import os; os.abort()", "import os, signal; os.kill(1, 9); os._exit(3)",
            "import ctypes; ctypes.string_at(0)")),
        (FORGED, "the sandbox gave an unusable answer"),
    ],
)
def test_exit_code_games_and_forged_answers_are_a_crash(code, words):
    assert words in refused(built(source(code)), "crash")


def test_a_forged_frame_ends_the_conversation_or_is_checked():
    forged = """
    import os
    from grader.sandbox.inside import wire
    for d in range(3, 256):
        try:
            for part in wire.encode({'configs': [{'constants': {}, 'num_warps': 4, 'num_stages': 1}] * 99,
                                     'launches': [], 'unspecialised': {'value': [], 'alignment': []}}):
                os.write(d, part)
        except OSError: pass
    """
    assert isinstance(built(source(forged)), Refusal)


def test_a_loop_outside_the_kernel_times_out(monkeypatch):
    monkeypatch.setattr(building.describing, "DESCRIBE_SECONDS", 2.0)
    grid = "\ndef W8A8_MM_grid(M, N, K, meta):\n    while True:\n        pass\n"
    message = refused(built(source(bottom=grid, grid="W8A8_MM_grid")), "timeout")
    assert "W8A8_MM_grid did not return" in message


@pytest.mark.slow
def test_a_compile_that_never_ends_is_given_up(monkeypatch):
    monkeypatch.setattr(building.compiler, "COMPILE_SECONDS", 3.0)
    endless = BASE.replace("for k in range(0, tl.cdiv(K, BLOCK_K)):", "for k in tl.static_range(0, 1000000):")
    assert "did not compile within" in refused(built(source(base=endless)), "build_error")


def test_refusing_to_start_without_bubblewrap(monkeypatch):
    monkeypatch.setattr(confinement, "bubblewrap", lambda: None)
    with pytest.raises(SandboxDied, match="bubblewrap"):
        Sandbox(confined=True)


@pytest.mark.slow
def test_without_bubblewrap_your_own_work_is_still_graded(monkeypatch):
    monkeypatch.setattr(confinement, "bubblewrap", lambda: None)
    assert isinstance(build(LAB, source(), BuildOptions((90,), "check", 1)), KernelBundle)


LATE = """
from grader.sandbox import Sandbox
code = '''
import os, late
try:
    open(os.path.join(os.path.dirname(late.__file__), "written"), "w")
except OSError as error:
    found = error.strerror
raise ValueError(f"{late.VALUE}, {found}")
'''
with Sandbox() as sandbox:
    request = {"op": "load", "module": code, "kernel": "k", "grid": None, "capability": 90}
    print(sandbox.ask(request, timeout=60).header["message"])
"""


def test_packages_in_the_temporary_folder_are_read_after_the_fork(tmp_path):
    """A clone, and with it .venv, may lie in /tmp, which each sandbox has anew: what Python imports late is still there."""
    if not str(tmp_path).startswith("/tmp/"):
        pytest.skip("pytest's folders are not in /tmp")
    (tmp_path / "late.py").write_text("VALUE = 'imported late'\n", encoding="utf-8")
    assert python("-c", LATE, PYTHONPATH=str(tmp_path)).strip() == "imported late, Read-only file system"
