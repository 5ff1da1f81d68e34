"""compute-sanitizer's report, read; and the road from a kernel to it, with a stand-in for the tool."""

from __future__ import annotations

import json
import os
import sys

import pytest

from grader.labs import get_lab
from grader.model import Config, GeneratedModule, KernelBundle, SanitizerResult
from grader.running import sanitizer
from grader.running.sanitizer import SeenError, read_report, watches

REPORT = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at W4A16_MM+0x3d0 in kernel_module.py:31
=========     by thread (33,0,0) in block (3,1,0)
=========     Address 0x7f1c5a001010 is out of bounds
=========     and is 17 bytes after the nearest allocation at 0x7f1c5a000000 of size 4,096 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: [0x33c1ef] in libcuda.so.1
=========
========= Invalid __shared__ write of size 4 bytes
=========     at W4A16_MM+0x100
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x400 is out of bounds
=========
========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) due to "unspecified launch failure" on CUDA API call to cuCtxSynchronize.
========= ERROR SUMMARY: 3 errors
"""
X = 0x7F1C5A000000


def launch_log(*launches):
    tensors = {"x_ptr": X, "y_ptr": X + 8192}
    entries = [{"case": case, "config": 0, "ended": ended, "tensors": tensors} for case, ended in launches]
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def test_errors_are_read():
    first, second = read_report(REPORT)
    assert first == SeenError("read", 16, "(3 1 0)", 17, "after", X)
    assert second == SeenError("write", 4, "(0 0 0)")
    assert read_report("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n") == []


def test_the_launch_that_ended_with_an_error_has_it():
    found = watches(launch_log(("one_tile", True), ("k_tail", False)), read_report(REPORT))
    assert found[0] == SanitizerResult("one_tile", 0)
    assert found[1].fault.startswith("reads 16 bytes, 17 bytes after x, in program (3 1 0), as compute-sanitizer saw; ")


def test_errors_that_no_launch_ended_with_leave_none_clean():
    assert all(one.fault for one in watches(launch_log(("one_tile", True), ("k_tail", True)), read_report(REPORT)))


def test_what_is_not_told_is_not_seen():
    assert watches("", read_report(REPORT)) == []
    assert watches("nonsense\n{}\n[1]\n" + launch_log(("one_tile", True)), []) == [SanitizerResult("one_tile", 0)]


UNITS = {
    "errors": "========= Invalid __global__ read of size 4 bytes\n",
    "allocations": "and is 1 bytes after the nearest allocation at 0x1 of size 2\n",
    "numbers": "1", "words": "Invalid ", "commas": ",", "equals": "= ", "lines": "\n", "sizes": "of size ",
}


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS.keys())
def test_a_report_of_any_length_is_read_in_a_bounded_time(unit):
    from time import process_time

    text = "========= Invalid __global__ read of size 4 bytes " + unit * ((8 << 20) // len(unit))
    began = process_time()
    read_report(text)
    watches(text, [])
    assert process_time() - began < 10


# ---------------------------------------------------------------- the road to it

LAB = get_lab("w8a8")
BUNDLE = KernelBundle(LAB.id, (Config(0, {}, 4, 2),), {}, {}, GeneratedModule("tl.inline_asm_elementwise", LAB.kernel, ()))
PAIRS = [("one_tile", 0), ("k_tail", 0)]

STAND_IN = """#!{python}
import json, pickle, sys
arguments = sys.argv[1:]
assert arguments[:2] == ["--tool", "memcheck"], arguments
at = arguments.index("-m")
assert arguments[at + 1] == "grader.running.sanitized"
job, told = arguments[at + 2:]
lab, bundle, launches, seed, capability = pickle.load(open(job, "rb"))
with open(told, "w") as file:
    for case, config in launches:
        print(json.dumps(dict(case=case.name, config=config, ended=True, tensors=dict())), file=file)
open(arguments[arguments.index("--log-file") + 1], "w").write("========= ERROR SUMMARY: 0 errors")
{then}
"""


def tool(tmp_path, then=""):
    path = tmp_path / "compute-sanitizer"
    path.write_text(STAND_IN.format(python=sys.executable, then=then), encoding="utf-8")
    path.chmod(0o755)
    return os.fspath(path)


BROKEN = "open(arguments[arguments.index('--log-file') + 1], 'w').write('=========')"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("then", "seen"), [("", PAIRS), (BROKEN, []), (None, [])], ids=["whole", "a report without its end", "no tool"]
)
def test_what_was_launched_under_the_tool_is_seen(tmp_path, monkeypatch, then, seen):
    monkeypatch.setattr(sanitizer, "installed", lambda: None if then is None else tool(tmp_path, then))
    assert sanitizer.watch(LAB, BUNDLE, PAIRS, 1, 90, "0") == [SanitizerResult(*pair) for pair in seen]


def test_a_tool_that_hangs_is_ended(tmp_path, monkeypatch):
    from time import monotonic

    monkeypatch.setattr(sanitizer, "SECONDS", 1.0)
    monkeypatch.setattr(sanitizer, "installed", lambda: tool(tmp_path, "import time; time.sleep(600)"))
    began = monotonic()
    sanitizer.watch(LAB, BUNDLE, PAIRS, 1, 90, "0")
    assert monotonic() - began < 60


@pytest.mark.parametrize(
    ("text", "needed"), [("tl.inline_asm_elementwise(", True), ("tl.extra.cuda.globaltimer()", True), ("tl.dot(a, b)", False)]
)
def test_it_is_asked_for_kernels_that_the_interpreter_cannot_run(text, needed):
    assert sanitizer.needed(KernelBundle("w8a8", (), {}, {}, GeneratedModule(text, "W8A8_MM", ()))) == needed
