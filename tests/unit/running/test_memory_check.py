"""The memory checker names the line, tensor and index of every bad access, survives it, and is silent on right kernels."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from grader.building import BuildOptions, made_module
from grader.gpu.devices import choose
from grader.judging.checking import check
from grader.judging.memory_sentences import sentences
from grader.labs import get_lab
from grader.labs.edits import edited as edits_made
from grader.labs.edits import read_edits
from grader.labs.problems import make_problem
from grader.model import Case, Config, GeneratedModule, KernelBundle, KernelSource, Launch, Outcome
from grader.pipeline.grading import GradeOptions, grade
from grader.reading import read
from grader.reporting.terminal import next_step
from grader.running.cpu import InterpretOptions, interpret
from tests.commands import python
from tests.submissions import TESTS, plain, style_file
from tests.tables import each_row

LAB = get_lab("w8a8")
SMALL = Case("small", "a test", 33, 80, 208)
BASE = plain("w8a8")
STORE = "    tl.store(y_ptrs, y.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))\n"


@dataclass(frozen=True)
class Checked:
    """What one launch of a kernel showed, in words and as the outcome."""

    sentences: tuple[str, ...]
    outcome: Outcome
    source: str

    def line(self, text: str) -> int:
        """The 1-based line of the source that holds `text`."""
        return next(n for n, line in enumerate(self.source.split("\n"), 1) if text in line)

    def placed(self, words: str) -> str:
        """What a sentence says, with the number of the line that holds the text in braces."""
        return re.sub(r"\{(.+)\}", lambda text: f"line {self.line(text[1])}: ", words)


def checked(
    tmp_path, source: str, *, M=33, N=80, K=48, layout="contiguous", lab_id="w8a8", seconds=30.0, folded=(),
    right=False, strides_of="",
) -> Checked:
    """One launch of a kernel with small tiles on small sizes. folded: arguments that the compiler takes for the constant 1.

    right: whether the sentences are those of a kernel whose Y is right. strides_of: what is in a line whose strides are known to be wrong.
    """
    path = tmp_path / f"{lab_id}.py"
    path.write_text(source, encoding="utf-8")
    kernel = read(path, [get_lab(lab_id)]).labs[lab_id]
    case = Case("small", "a test", M, N, K, x_layout=layout, w="dense" if lab_id == "dds" else "normal")
    lab = replace(get_lab(lab_id), cases=(case,), speed_cases=())
    tile = {"BLOCK_M": 16} if lab_id == "dds" else {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}
    config = Config(0, tile, num_warps=2, num_stages=2)
    grid = (*lab.default_grid(M, N, K, {**lab.constants, **config.constants}), 1, 1)[:3]
    launch = Launch(grid, (), (), tuple((name, 1) for name in folded))
    bundle = KernelBundle(lab.id, (config,), {(case.name, 0): launch}, {}, made_of(kernel))
    problems = {case.name: make_problem(lab, case, seed=1)}
    (outcome,) = interpret(lab, kernel, bundle, problems, [(case.name, 0)], InterpretOptions(1, case_seconds=seconds))
    lines = (n for n, line in enumerate(kernel.module.split("\n"), 1) if strides_of and strides_of in line)
    known = dict.fromkeys(lines, "its strides are not the tensor's")
    return Checked(sentences(lab, kernel, problems, [outcome], stray=known, right=right, alike=True), outcome, source)


def made_of(kernel: KernelSource) -> GeneratedModule:
    made = made_module(kernel, BuildOptions((90,), "check", 1))
    assert isinstance(made, GeneratedModule), made
    return made


def edited(find: str, put: str, text: str = BASE) -> str:
    assert text.count(find) == 1
    return text.replace(find, put)


def shared(source: str) -> str:
    """The kernel with programs that all store the same columns."""
    return edited("offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)", "offs_n = tl.arange(0, BLOCK_N)", source)


@pytest.mark.slow
@each_row
def test_a_gpu_takes_no_number_from_between_two_places(tmp_path, line, stops):
    """Every access has to begin at a multiple of its bytes; programs together say so as one alone does."""
    outcome = checked(tmp_path, edited(STORE, f"    {line}\n{STORE}"), M=16, N=512).outcome
    assert outcome.status == ("crash" if stops else "ran"), outcome.message
    assert stops in outcome.message


def test_a_right_kernel_is_silent(tmp_path):
    result = checked(tmp_path, BASE)
    assert result.sentences == ()
    assert result.outcome.memory == ()


@pytest.mark.slow
@each_row
def test_a_bad_access_is_said_as_what_it_is(tmp_path, edits, sizes, said, unsaid, others):
    """Edits of the right kernel, its sizes, what one sentence says together, and what none says. {text}: the line that holds it.

    others: whether other sentences may stand beside it.
    """
    source = edits_made(BASE, read_edits(edits), "w8a8_plain")
    result = checked(tmp_path, source, **(sizes or {}))
    assert [one for one in result.sentences if all(result.placed(words) in one for words in said)], result.sentences
    assert len(result.sentences) == 1 or others
    assert not [one for one in result.sentences for words in unsaid or () if words in one]


@each_row
def test_a_wrong_address_is_no_missing_mask(tmp_path, find, put, words):
    """The stores are masked to M and N, and go elsewhere: what is said names the element and no mask."""
    result = checked(tmp_path, edited(find, put), K=208)
    sentence = next(sentence for sentence in result.sentences if f"line {result.line('tl.store(y_ptrs')}:" in sentence)
    assert words in sentence
    assert re.search(r"element \d+ .*the last is 2639", sentence)
    assert "mask" not in sentence
    assert result.outcome.overrun
    assert "mask" not in check(LAB, make_problem(LAB, SMALL, 1), result.outcome, None).message


@pytest.mark.parametrize(
    ("far", "status", "words"),
    [
        *((far, "ran", "element of x (33 x 48): the tile begins outside") for far in ("1 << 20", "1 << 40", "-(1 << 36)")),
        ("1 << 60", "crash", "outside every tensor"),
    ],
)
def test_a_far_access_costs_no_process(tmp_path, far, status, words):
    result = checked(tmp_path, edited("x_ptrs = x_ptr +", f"x_ptrs = x_ptr + tl.full((1, 1), {far}, tl.int64) +"))
    assert result.outcome.status == status
    assert words in result.sentences[0]


def test_a_far_store_counts_as_an_overrun(tmp_path):
    result = checked(tmp_path, edited("y_ptrs = y_ptr +", "y_ptrs = y_ptr + (1 << 30) +"))
    assert result.outcome.status == "ran"
    assert result.outcome.overrun == ("y_ptr",)
    assert any(f"line {result.line('tl.store(y_ptrs')}:" in sentence for sentence in result.sentences)


def test_atomics_do_not_race(tmp_path):
    result = checked(tmp_path, shared(BASE).replace("tl.store(y_ptrs", "tl.atomic_add(y_ptrs"))
    assert not any("another program" in sentence for sentence in result.sentences)
    assert any("is still uninitialised" in sentence for sentence in result.sentences)


@pytest.mark.parametrize(
    ("before", "added", "becomes"),
    [("6e4", "6e4", "inf"), ("-6e4", "-6e4", "-inf"), ("6e4", "5500", "65504"), ("float('inf')", "-float('inf')", "nan"), ("1", "2", "3")],
)
def test_an_atomic_sum_that_fp16_cannot_hold_is_infinite(tmp_path, before, added, becomes):
    mask = "mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))"
    stores = f"    tl.store(y_ptrs, tl.zeros_like(y) + {before}, {mask}\n"
    stores += f"    tl.atomic_add(y_ptrs, (tl.zeros_like(y) + {added}).to(tl.float16), {mask}\n"
    outcome = checked(tmp_path, edited(STORE, stores)).outcome
    assert outcome.status == "ran", outcome.message
    torch.testing.assert_close(outcome.y, torch.full_like(outcome.y, float(becomes)), equal_nan=True)


@pytest.mark.parametrize(("each", "becomes"), [("1024", 32768.0), ("3072", float("inf"))])
def test_lanes_that_add_to_one_element_add_up(tmp_path, each, becomes):
    zeroed = "    tl.store(y_ptrs, tl.zeros_like(y), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))\n"
    one = "y_ptr + pid_m * BLOCK_M * stride_ym + 0 * offs_n[None, :]"
    add = f"    tl.atomic_add({one}, tl.full((1, BLOCK_N), {each}, tl.float16), mask=(pid_n == 0) & (offs_n[None, :] >= 0))\n"
    outcome = checked(tmp_path, edited(STORE, zeroed + add)).outcome
    assert outcome.status == "ran", outcome.message
    assert outcome.y[0, 0] == becomes
    assert outcome.y[0, 1] == 0


ADD = "tl.atomic_add(y_ptrs, y.to(tl.float16), mask=offs_m[:, None] < M)\n"


@pytest.mark.slow
@each_row
def test_what_depends_on_the_order_of_programs_is_known(tmp_path, stores, unordered):
    source = shared(edited(STORE, f"    {stores}"))
    source = source.replace("@triton.autotune", "from triton.language import atomic_add as plus\n\n\n@triton.autotune")
    outcome = checked(tmp_path, source, M=32, N=96).outcome
    assert outcome.status == "ran", outcome.message
    assert any(finding.unordered for finding in outcome.memory) == unordered


@pytest.mark.slow
@each_row
def test_what_depends_on_the_order_of_the_lanes_of_a_store_is_known(tmp_path, stores, unordered):
    result = checked(tmp_path, edited(STORE, f"    {stores}"), M=13, N=16)
    assert result.outcome.status == "ran", result.outcome.message
    assert any(finding.unordered for finding in result.outcome.memory) == unordered
    assert any("which of them remains is undefined" in sentence for sentence in result.sentences) == unordered


READ, STORED = "put tl.debug_barrier() between", "or store each element once"


@pytest.mark.slow
@each_row
def test_threads_of_a_program_that_read_or_store_what_others_stored_meet_a_barrier(tmp_path, lines, advice, unordered):
    result = checked(tmp_path, edited(STORE, "".join(f"    {line.strip()}\n" for line in lines)), M=16, N=64)
    assert result.outcome.status == "ran", result.outcome.message
    assert any(finding.fault == "thread" for finding in result.outcome.memory) == unordered
    assert sum(advice in sentence for sentence in result.sentences) == unordered


def test_what_an_atomic_gives_back_of_other_programs_is_poison(tmp_path):
    helper = "\n\n@triton.jit\ndef added(ptrs, y, mask):\n    return tl.atomic_add(ptrs, y, mask=mask)\n"
    given = "before = added(y_ptrs, y.to(tl.float16), offs_m[:, None] < M)\n"
    given += "    tl.atomic_add(y_ptrs, before * 0, mask=offs_m[:, None] < M)\n"
    source = (shared(edited(STORE, f"    {given}")) + helper).replace('"BLOCK_K": 32}', '"BLOCK_K": 32, "SPLIT_K": 2}')
    y = checked(tmp_path, source, M=32, N=96).outcome.y
    assert y is not None
    assert bool(y[:, :32].isnan().all())


def test_an_input_that_is_changed_and_put_back_was_changed(tmp_path):
    there = "    tl.store(weight_scale_ptr + offs_n, w_scale * {factor}, mask=offs_n < N)\n"
    for between, changed in (("2.0", ("weight_scale_ptr",)), ("1.0", ())):
        source = edited(STORE, STORE + there.format(factor=between) + there.format(factor="1.0"))
        assert checked(tmp_path, source, M=16, N=32).outcome.changed == changed


@pytest.mark.parametrize(("added", "additions"), [("y", 3), ("y * (pid_n == 1)", 1), ("y * (offs_n[None, :] < 20)", 3), ("y * 0", 0)])
def test_additions_are_counted_where_something_is_added(tmp_path, added, additions):
    source = shared(edited(STORE, "    " + ADD.replace("y.to", f"({added}).to")))
    assert checked(tmp_path, source, M=32, N=96).outcome.additions == additions


def test_an_index_outside_a_tile_gathers_what_no_kernel_can_rely_on(tmp_path):
    lost = "    y = tl.gather(y, tl.zeros((BLOCK_M, BLOCK_N), tl.int32) + {index}, 1)\n"
    for index, right in (("offs_n - pid_n * BLOCK_N", True), ("BLOCK_N", False), ("-1", False)):
        outcome = checked(tmp_path, edited(STORE, lost.format(index=f"({index})") + STORE), M=32, N=96).outcome
        assert outcome.status == "ran", outcome.message
        assert bool(outcome.y.isnan().any() | (outcome.y == float("inf")).any()) != right


def test_addresses_say_nothing_of_the_device(tmp_path):
    """Where a tensor lies differs with what it holds, so that no remainder of an address can be counted on."""
    tell = "    tl.store(y_ptr, (((x_ptr.to(tl.int64) // 512) % 1000).to(tl.float16)), mask=pid == 0)\n"
    source = edited(STORE, STORE + tell)
    stored = {float(checked(tmp_path, source, M=M, N=32).outcome.y[0, 0]) for M in (1, 2, 3, 4)}
    assert len(stored) > 1


def test_what_costs_points_is_not_crowded_out(tmp_path):
    loads = "".join(f"    tl.load(x_ptr - {number})\n" for number in range(1, 40))
    source = edited(STORE, f"{loads}    tl.store(y_ptrs, (y + pid_n).to(tl.float16), mask=offs_m[:, None] < M)\n")
    outcome = checked(tmp_path, shared(source), M=32, N=96).outcome
    assert any(finding.unordered for finding in outcome.memory)


def test_block_pointers(tmp_path):
    if version("triton") >= "3.9":
        pytest.skip("Triton has no block pointers from 3.9 on")
    source = edited(STORE, """    block = tl.make_block_ptr(y_ptr, (M, N), (stride_ym, stride_yn),
                              (pid_m * BLOCK_M, pid_n * BLOCK_N),
                              (BLOCK_M, BLOCK_N), (1, 0))
    tl.store(block, y.to(tl.float16), boundary_check=(0,))
""")
    result = checked(tmp_path, source)
    assert any("writes column 80 of y, which has 80 columns" in sentence for sentence in result.sentences)
    assert not any("row 33" in sentence for sentence in result.sentences)


def test_an_access_in_a_helper_is_placed_there(tmp_path):
    helper = "@triton.jit\ndef put(ptrs, value):\n    tl.store(ptrs, value.to(tl.float16))\n\n\n"
    source = edited(STORE, "    put(y_ptrs, y)\n").replace("@triton.autotune(", helper + "@triton.autotune(")
    result = checked(tmp_path, source)
    assert all(f"line {result.line('tl.store(ptrs')}:" in sentence for sentence in result.sentences)
    assert all(f"; called in w8a8.py line {result.line('put(y_ptrs')}" in sentence for sentence in result.sentences)
    assert result.sentences


MEASURE = """
import os, statistics
os.environ["TRITON_INTERPRET"] = "1"
from contextlib import contextmanager
from grader.interpreter import areas, lockstep, memory_check
from grader.labs.guarded import guard
from grader.labs import get_lab
from grader.labs.edits import edited as edits_made
from grader.labs.edits import read_edits
from grader.labs.problems import make_problem
from grader.interpreter import generated_module, launching

lab = get_lab({lab!r})
case = lab.case({case!r})
module = generated_module.load({path!r}, lab.kernel, 90)
problem = make_problem(lab, case, seed=1)
buffers = [guard(name, tensor) for name, tensor in problem.tensors.items()]
types = {{parameter.name: parameter.type.removeprefix("*") for parameter in lab.parameters}}
constants = {{**lab.constants, **{tile!r}}}
request = {{
    "tensors": [{{"name": b.name, "type": types[b.name], "shape": list(b.tensor.shape),
                 "strides": list(b.tensor.stride()), "offset": b.offset}} for b in buffers],
    "scalars": dict(problem.scalars),
    "constants": constants,
    "grid": lab.default_grid(case.M, case.N, case.K, constants),
}}
blobs = [b.buffer.numpy().tobytes() for b in buffers]

@contextmanager
def unwatched(check):
    yield

def really(area, number):
    area.base = area.buffer.ctypes.data + area.offset * area.width

lockstep.batch_size = lambda *_: 1  # each program alone, as where something is wrong
watched, placed, ratios = memory_check.MemoryCheck.active, areas.Area.place, []
for _ in range(5):
    seconds = []
    for active, place in ((unwatched, really), (watched, placed)):
        memory_check.MemoryCheck.active, areas.Area.place = active, place
        seconds.append(launching.interpret_one(module, request, blobs)[0]["seconds"])
    ratios.append(seconds[1] / seconds[0])
print(statistics.median(ratios[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("lab", "case"), [("w8a8", "n_tail"), ("w4a16", "n_tail"), ("dds", "rectangular")])
def test_the_check_costs_less_than_three_times_the_interpreter(lab, case, tmp_path):
    """Rounds of the same launch with and without the check, in turn."""
    made = made_of(read(TESTS / "styles" / f"{lab}_plain.py", [get_lab(lab)]).labs[lab])
    path = tmp_path / "made_module.py"
    path.write_text(made.text, encoding="utf-8")
    tile = {"BLOCK_M": 16} if lab == "dds" else {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}
    code = MEASURE.format(lab=lab, case=case, path=str(path), tile=tile)
    assert float(python("-c", code)) < 3


@each_row
def test_an_index_from_outside_ends_the_launch_and_is_told_before_what_it_leads_to(tmp_path, style, edits, sizes, message, said, unsaid):
    """An edit of a right kernel, its sizes, what the crash says, and the sentences in their order. {text}: the line that holds it."""
    source = style_file(style).read_text(encoding="utf-8")
    result = checked(tmp_path, edits_made(source, read_edits(edits), style), lab_id="dds", **sizes)
    assert result.outcome.status == ("crash" if message else "ran")
    assert message in result.outcome.message
    for sentence, words in zip(result.sentences, said, strict=True):
        assert result.placed(words) in sentence
        assert not unsaid or unsaid not in sentence


def test_a_tile_loaded_ahead_of_the_last_iteration_lacks_a_mask_where_y_is_right(tmp_path):
    """What is read there is used nowhere, so neither the tile's offset nor the end of the loop is wrong."""
    source = edited("        k_left = K - k * BLOCK_K\n",
                    "        k_left = K - k * BLOCK_K\n        tl.load(w_ptrs + BLOCK_K * stride_wk)\n")
    wrong, right = (checked(tmp_path, source, N=64, K=64, right=right).sentences for right in (False, True))
    assert any("the tile begins outside" in one and "check the tile's offset, the end of the loop and the grid" in one for one in wrong)
    assert any("the tile begins outside" in one and "there is no mask, and Y is right without it: mask all" in one for one in right)
    assert not any("the end of the loop" in one for one in right)


@pytest.mark.slow
def test_findings_survive_a_launch_that_does_not_end(tmp_path):
    """The loop would never end, and a mask was missing before it."""
    unmasked = "    tl.store(y_ptrs, y.to(tl.float16), mask=offs_m[:, None] < M)\n"
    source = edited(STORE, unmasked + "    while M > 0:\n        acc += 1\n")
    result = checked(tmp_path, source, M=16, N=16, seconds=4.0)
    assert result.outcome.status == "timeout"
    assert any("writes column 16 of y" in sentence for sentence in result.sentences)


@pytest.mark.slow
def test_findings_before_a_timeout_are_what_a_report_says_first(tmp_path):
    """The kernel ends in no case; the mask that was missing before is what to fix first, and costs the memory points."""
    unmasked = "    tl.store(y_ptrs, y.to(tl.float16), mask=offs_n[None, :] < N)\n"
    path = tmp_path / "w8a8.py"
    path.write_text(edited(STORE, unmasked + "    while N > 0:\n        acc += 1\n"), encoding="utf-8")
    lab = replace(LAB, cases=tuple(case for case in LAB.cases if case.name in ("single_token", "every_config")))
    report = grade(path, [lab], GradeOptions(choose("cpu")[0], case_seconds=1.0, capabilities=(90,), facts=False))
    memory = next(test for test in report.labs["w8a8"].tests if test.kind == "memory")
    assert report.labs["w8a8"].status == "timeout"
    assert "tl.store writes row 1 of y, which has 1 row; its mask allows that: make it false for rows from M on" in memory.message
    assert "writes row 1 of y" in next_step(report)


def test_what_was_read_outside_before_a_launch_was_late_costs_the_memory_points(tmp_path):
    """Whether programs part, or others end before, does not matter."""
    pid = "    pid = tl.program_id(0)\n"
    outside = "    seen = tl.load(x_ptr + 0 * pid + M * stride_xm + 5)\n    if pid == 9:\n        seen += 1.0\n"
    endless = "    i = 0\n    while i < tl.where(pid >= 12, 2000000000, 0):\n        i += 1\n"
    path = tmp_path / "w8a8.py"
    path.write_text(edited(pid, pid + outside + endless), encoding="utf-8")
    lab = replace(LAB, cases=tuple(case for case in LAB.cases if case.name == "several_tiles"))
    report = grade(path, [lab], GradeOptions(choose("cpu")[0], case_seconds=1.0, capabilities=(90,), facts=False))
    memory = next(test for test in report.labs["w8a8"].tests if test.kind == "memory")
    assert report.labs["w8a8"].status == "timeout"
    assert memory.points == 0
    assert "tl.load reads" in memory.message


MASKS = {
    "scalar": "mask=pid_m * BLOCK_M < M",
    "from_scalar": "mask=(pid_m * BLOCK_M < M) & (offs_m[:, None] < M) & (offs_n[None, :] < N)",
    "python": "mask=(offs_m[:, None] < M) & (offs_n[None, :] < N) & True",
    "and": "mask=pid_m * BLOCK_M < M and (offs_m[:, None] < M) & (offs_n[None, :] < N)",
    "not": "mask=not ((offs_m[:, None] >= M) | (offs_n[None, :] >= N))",
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_of_every_kind(tmp_path, name):
    result = checked(
        tmp_path, edited("mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))\n", MASKS[name] + ")\n"), M=32, N=64
    )
    assert result.outcome.status == "ran"
    assert result.sentences == ()


def test_a_descriptor_stays_inside_its_tensor(tmp_path):
    source = edited(STORE, """    block = tl.make_tensor_descriptor(y_ptr, [M, N], [stride_ym, 1], [BLOCK_M, BLOCK_N])
    block.store([pid_m * BLOCK_M, pid_n * BLOCK_N], y.to(tl.float16))
""")
    assert checked(tmp_path, source).sentences == ()
    wide = checked(tmp_path, source.replace("[M, N]", "[M, N + 16]"))
    assert any("writes column 80 of y" in sentence for sentence in wide.sentences)


def test_what_the_grader_does_wrong_is_not_the_students(tmp_path):
    """An error of the grader's own code inside the sandbox comes back as such, with the place in our code."""
    from grader.interpreter import faults, memory_check

    kernel = tmp_path / "kernel_module.py"
    scope: dict[str, object] = {}
    exec(compile("def ours():\n    return {}['missing']", memory_check.__file__, "exec"), scope)
    exec(compile("\n\ndef theirs():\n    return ours()", str(kernel), "exec"), scope)
    with pytest.raises(KeyError) as raised:
        scope["theirs"]()  # type: ignore[operator]
    said = faults.describe(raised.value, str(kernel))
    assert (said["error"], said["line"]) == ("GraderDefect", 4)
    assert said["message"].startswith("memory_check.py:2: KeyError")


@pytest.mark.parametrize(
    ("ended", "programs", "goes_on"),
    [(30, 100, True), (25, 100, True), (24, 100, False), (0, 100, False), (7, 8, False), (8, 8, False)],
)
def test_many_small_programs_are_no_endless_loop(ended, programs, goes_on):
    """A launch goes on past its seconds, once, where its programs end so fast that the others will have ended in time."""
    from grader.interpreter import memory_check
    from grader.interpreter.faults import LaunchEnded

    check = memory_check.MemoryCheck([], "kernel_module.py", 24.0, programs)
    check.deadline, check.last, check.end, check.ended = 0.0, 4 * 24.0, 0.0, ended
    if goes_on:
        check._in_time()
        assert check.deadline == 4 * 24.0
        check.deadline = 0.0
    with pytest.raises(LaunchEnded, match=f"within {96 if goes_on else 24} s"):
        check._in_time()


def test_time_that_ran_out_inside_numpy_is_told_as_that(tmp_path):
    """NumPy makes a TypeError of whatever is raised while it reads a shape; that is no fault of the grader's."""
    from grader.interpreter import faults, memory_check

    check = memory_check.MemoryCheck([], str(tmp_path / "kernel_module.py"), 24.0, 1)
    check.deadline = 0.0

    class Shape:  # as Triton's own: Python that NumPy calls
        def __len__(self) -> int:
            check._in_time()  # as the clock does, at any instruction
            return 1

        def __getitem__(self, place: int) -> int:
            return (1,)[place]

    scope: dict[str, object] = {}
    shim = "import numpy\ndef shim(shape):\n    return numpy.empty(shape)\n"
    exec(compile(shim, str(Path(faults.__file__).with_name("host_builder.py")), "exec"), scope)
    with pytest.raises(TypeError) as raised:
        scope["shim"](Shape())  # type: ignore[operator]
    assert faults.describe(raised.value, check.path)["error"] == "GraderDefect"
    said = faults.describe(raised.value, check.path, check.out_of_time)
    assert said["reason"] == "time"
    assert "did not finish within 24 s" in said["message"]
