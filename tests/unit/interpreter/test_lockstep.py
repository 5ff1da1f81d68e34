"""Programs that run together leave what they leave one after the other, and what is wrong with them is told in the same words."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from grader.building import BuildOptions, read_by_triton
from grader.labs import get_lab
from grader.labs.problems import make_problem
from grader.model import KernelBundle
from grader.pipeline.grading import launch_pairs
from grader.reading import read
from grader.running.cpu import InterpretOptions, _Launches
from tests.commands import python
from tests.submissions import LABS, TESTS, all_mistakes, style_file
from tests.tables import each_row, table

CASES = ("every_config", "single_token", "odd_m", "uneven_rows")
STYLES = (
    "dds_block_ptr", "dds_count", "dds_descriptor", "dds_persistent", "dds_while", "w4a16_join", "w4a16_split_k",
    "w8a16_block_ptr", "w8a8_bf16_dot", "w8a8_libdevice", "w8a8_persistent", "w8a8_three_dimensions",
)
MOST = 3
"""Launches of a kernel."""
BOTH = """
import os, pickle, sys, traceback
os.environ["TRITON_INTERPRET"] = "1"
import numpy as np
from grader.interpreter import generated_module, launching, lockstep

size, ended, together = lockstep.batch_size, [], lockstep.launch

def launch(*arguments):
    together(*arguments)
    ended.append(True)

def compared(path):
    with open(path, "rb") as file:
        kernel, text, requests = pickle.load(file)
    with open(path + ".py", "w") as file:
        file.write(text)
    module = generated_module.load(path + ".py", kernel, 90)
    return {name: both(module, name, request, blobs) for name, request, blobs in requests}

def both(module, name, request, blobs):
    lockstep.batch_size = size
    ended.clear()
    first, after = launching.interpret_one(module, request, blobs)
    lockstep.batch_size = lambda *_: 1
    second, expected = launching.interpret_one(module, request, blobs)
    for answer in (first, second):
        answer.pop("seconds")
    assert first == second, (name, first, second)
    sums = first.get("additions", 0) > 1  # by atomics, in another order
    assert list(map(len, after)) == list(map(len, expected)), name  # what is added, slice by slice, as well
    assert "record" not in request or after[-1] == expected[-1], name
    for one, other in zip(after[: len(blobs)], expected[: len(blobs)], strict=True):
        same = one == other
        if sums and not same:
            y, z = (np.frombuffer(blob, np.float16).astype(np.float64) for blob in (one, other))
            near = np.abs(y - z) <= 0.01 * np.abs(z) + 0.02 * np.nanstd(z)
            same = bool((near | (y == z) | (np.isnan(y) & np.isnan(z))).all())
        assert same, name
    return bool(ended)

lockstep.launch = launch
for path in map(str.strip, sys.stdin):
    if os.fork() == 0:
        try:
            said = repr(compared(path))
        except BaseException:
            said = repr(traceback.format_exc())
        print(said, flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module")
def both():
    """A function: by launch of a kernel, whether its programs ran together; asserts that each comes to the same both ways.

    Its arguments: lab, kernel's file, a folder, names of cases; record: programs to be recorded, in a launch of their own. One process has
    Triton loaded and forks for each kernel.
    """
    process = subprocess.Popen([sys.executable, "-c", BOTH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(lab_id: str, source: Path, folder: Path, *names: str, record: Sequence[int] = ()) -> dict[str, bool]:
        path = folder / "launches"
        path.write_bytes(pickle.dumps(launches(lab_id, source, names, record)))
        print(path, file=process.stdin, flush=True)
        said = ast.literal_eval(process.stdout.readline() or "'the process ended'")
        assert isinstance(said, dict), said[-2000:]
        return said

    yield ask
    process.stdin.close()
    assert process.wait(60) == 0


def launches(lab_id: str, source: Path, names: Sequence[str], record: Sequence[int]) -> tuple[str, str, list[Any]]:
    """The kernel's name, the generated module's text, and for each launch its name, the request and the buffers."""
    lab = get_lab(lab_id)
    kernel = read(source, [lab]).labs[lab_id]
    built = read_by_triton(lab, kernel, BuildOptions((90,), "check", 1))
    assert isinstance(built, KernelBundle)
    launching = _Launches(lab, kernel, built, InterpretOptions(1))
    requests, pairs = [], [(case, config) for case, config in launch_pairs(lab, built, compiled=False) if case in names]
    for case, config in pairs[:: -(-len(pairs) // MOST)]:
        if (case, config) in built.refused:
            continue
        problem = make_problem(lab, lab.case(case), 3)
        buffers = launching.buffers(problem, config)
        request = launching.request(problem, case, config, buffers)
        blobs = [one.buffer.numpy().tobytes() for one in buffers]
        requests.append((f"{case}:{config}", request, blobs))
        if record:
            requests.append((f"{case}:{config}:record", {**request, "record": list(record)}, blobs))
    return built.made.kernel, built.made.text, requests


@pytest.mark.slow
@pytest.mark.parametrize("lab", LABS)
def test_solutions_run_together(both, lab, tmp_path):
    ran = both(lab, TESTS.parent / "solutions" / f"{lab}.py", tmp_path, *CASES)
    assert sum(ran.values()) >= 0.6 * len(ran), ran


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
def test_styles_come_to_the_same(both, style, tmp_path):
    assert both(style.split("_")[0], style_file(style), tmp_path, "every_config")


WRONG = {
    "w8a8": ("program_ids_swapped", "fp16_accumulator", "adds_to_stale_y", "store_without_m_mask"),
    "dds": ("adds_to_stale_y", "block_row_offset_forgotten", "empty_row_unwritten", "ignores_stride_ym"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("lab", "name"), [(one.lab, one.name) for one in all_mistakes() if one.name in WRONG.get(one.lab, ())])
def test_wrong_kernels_come_to_the_same(both, lab, name, tmp_path):
    mistake = next(one for one in all_mistakes() if (one.lab, one.name) == (lab, name))
    path = tmp_path / f"{lab}.py"
    path.write_text(mistake.source, encoding="utf-8")
    assert both(lab, path, tmp_path, "single_token", "odd_m", "uneven_rows")


def edited(tmp_path: Path, *edits: tuple[str, str]) -> Path:
    """The tests' right kernel of w8a8 with some of its text replaced."""
    text = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
    for find, replace in edits:
        assert find in text, find
        text = text.replace(find, replace)
    path = tmp_path / "w8a8.py"
    path.write_text(text, encoding="utf-8")
    return path


PID = "    pid = tl.program_id(0)\n"


SPLIT = style_file("w4a16_split_k").read_text(encoding="utf-8")
ADDED = "        tl.atomic_add(y_ptrs, y, mask=keep, sem=\"relaxed\")\n"
HELPER = "@triton.jit\ndef added(ptrs, y, keep):\n    return tl.atomic_add(ptrs, y, mask=keep, sem=\"relaxed\")\n\n\n"


@pytest.mark.slow
@each_row
def test_what_a_helper_got_from_an_atomic_is_judged(both, use, together, tmp_path):
    assert ADDED in SPLIT
    text = SPLIT.replace(ADDED, f"        {use}\n").replace("@triton.autotune(", HELPER + "@triton.autotune(")
    path = tmp_path / "w4a16.py"
    path.write_text(text, encoding="utf-8")
    ran = both("w4a16", path, tmp_path, "every_config")
    assert ran["every_config:0"] is together


LINES = {
    "part at a condition": ("    if pid % 2 == 0:\n        pid = pid + 0\n", None),
    "part at nan": ("    some = tl.load(weight_scale_ptr) * 0.0 + pid\n    if some / (some * 0) != 0.0:\n        pid = pid + 0\n", None),
    "part at a loop": ("    for _ in range(pid % 3):\n        pid = pid * 1\n", None),
    "part at a while": ("    turns = pid\n    while turns > 0:\n        turns -= 1\n", None),
    "part where loops begin": ("    for at in range(pid, pid + 3):\n        pid = pid + (at - at)\n", None),
    "part downward": ("    for at in range(pid + 3, pid, -1):\n        pid = pid + at * 0\n", None),
    "output read": ("    tl.load(y_ptr)\n", False),
    "input changed": ("    tl.store(x_ptr, 0.0)\n", False),
    "answer used": ("    if tl.atomic_add(y_ptr, 0.0) == 5.0:\n        return\n", False),
    "assumed": ("    tl.assume(pid < 1)\n", False),
    "promised": ("    pid = tl.multiple_of(pid, 2)\n", False),
    "index from outside": ("    pid += tl.load(x_ptr.to(tl.pointer_type(tl.int32)) - 2) * 0\n", False),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", LINES)
def test_programs_that_part_and_what_is_judged_at_once(both, what, tmp_path):
    """The latter runs one after the other; how often programs that part do is not the point."""
    line, together = LINES[what]
    ran = both("w8a8", edited(tmp_path, (PID, PID + line)), tmp_path, "n_tail").values()
    assert together in (None, any(ran))


@pytest.mark.slow
def test_kept_promises_do_not_keep_programs_apart(both, tmp_path):
    lines = "    tl.assume(pid >= 0)\n    at = tl.max_contiguous(tl.multiple_of(pid * BLOCK_M + tl.arange(0, BLOCK_M), BLOCK_M), BLOCK_M)\n"
    assert any(both("w8a8", edited(tmp_path, (PID, PID + lines + "    pid = pid + tl.sum(at) * 0\n")), tmp_path, "odd_m").values())


JUDGED = table(__file__)["judged"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", JUDGED)
def test_what_is_judged_afterwards_runs_together(both, kind, tmp_path):
    after, lines = JUDGED[kind]
    assert all(both("w8a8", edited(tmp_path, (after, after + lines)), tmp_path, "all_tails", record=(0, 3)).values())


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    ["tl.load(x_ptr - pid * 100000)", "tl.load(x_ptr - 1 - tl.program_id(1))", "tl.atomic_add(y_ptr - 1 - 100000 * pid, 1.0)"],
)
def test_slices_of_what_is_judged_afterwards_are_followed(both, line, tmp_path):
    path = tmp_path / "w4a16.py"
    path.write_text(SPLIT.replace(ADDED, f"{ADDED}        {line}\n").replace(PID, f"{PID}    {line}\n"), encoding="utf-8")
    assert all(both("w4a16", path, tmp_path, "every_config").values())


GRID = """
import resource
from grader.interpreter import lockstep
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
ran = []
def one(indices):
    ran.append(indices.shape[1])
    if len(ran) > 3: raise KeyboardInterrupt
lockstep._run = lambda function, given, indices, check: one(indices)
try:
    lockstep.launch(lambda: None, [2**31 - 1, 65535, 65535], 64, {}, lockstep.Lockstep([], "", None, 1))
except KeyboardInterrupt:
    print(ran)
"""


def test_a_grid_of_any_size_costs_a_batch():
    assert python("-c", GRID).strip() == "[64, 64, 64, 64]"


FULL = """
import os
os.environ["TRITON_INTERPRET"] = "1"
import numpy as np
from grader.interpreter import lockstep
from grader.interpreter.per_program import NeedsOneByOne

lockstep.MOST_LOGGED = 8
one = lockstep.Logged((1, []), 1, np.arange(2), np.zeros((2, 3)), np.ones((2, 3), bool), np.zeros((2, 3)))

def refused(function, *arguments):
    try:
        function(*arguments)
    except NeedsOneByOne:
        return True
    return False

disputed = lockstep.Log()
disputed.add(one)
disputed.dispute("")
late = lockstep.Log()
late.add(one)
mark = late.mark()
late.add(one)
late.back_to(mark)
print(refused(disputed.add, one), refused(late.dispute, ""))
"""


def test_a_log_that_is_not_complete_is_never_judged():
    assert python("-c", FULL).split() == ["True", "True"]
