"""What a launch leaves in local memory, shared memory and registers: a hidden case's is read by no launch of another case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.building import BuildOptions, build
from grader.gpu.devices import choose
from grader.labs import Lab, get_lab
from grader.model import Case, KernelBundle
from grader.reading import read
from grader.running import cuda
from tests.submissions import TESTS

BASE = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
STORE = "    tl.store(y_ptrs, y.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))"
NOTED, READING = 33, 64
"""Tokens of the case that leaves a note, its own M, and of the case that looks for one."""
SHOWN = 1024.0 * NOTED
TAG = 0x5EC10000
WORDS = {"local": 1024, "shared": 4096, "registers": 96}

MATCH = "and.b32 t, v, 0xFFFF0000; setp.eq.u32 hit, t, tag; @hit and.b32 found, v, 0xFFFF; "
BEGIN = (
    f"{{ .reg .pred hit, wr, more; .reg .b32 i, v, t, w, tag, found; .reg .b64 a; mov.u32 tag, {TAG}; "
    f"mov.u32 found, 0; or.b32 w, $1, tag; setp.eq.u32 wr, $1, {NOTED}; "
)
END = "mov.u32 $0, found; }"


def in_memory(space):
    """PTX by which a launch of the noted case fills an array with its M, and another one searches the array for such a word."""
    return (
        f"{BEGIN} .{space} .align 4 .b8 note[{4 * WORDS[space]}]; mov.u64 a, note; mov.u32 i, 0; again: mov.u32 v, 0; "
        f"@wr st.{space}.u32 [a], w; @!wr ld.{space}.u32 v, [a]; {MATCH} add.u64 a, a, 4; add.u32 i, i, 1; "
        f"setp.lt.u32 more, i, {WORDS[space]}; @more bra again; @wr mov.u32 found, 0; {END}"
    )


def in_registers():
    """The same by registers: filled by loads of which none can be left out, and read where nothing was put."""
    many = WORDS["registers"]
    fill = "".join(f"st.volatile.shared.u32 [note+{4 * i}], w; " for i in range(many))
    fill += "".join(f"ld.volatile.shared.u32 r{i}, [note+{4 * i}]; " for i in range(many))
    fill += "".join(f"st.volatile.shared.u32 [note+{4 * i}], r{many - 1 - i}; " for i in range(many))
    search = "".join(f"mov.b32 v, u{i}; {MATCH}" for i in range(many))
    names = ", ".join(f"{kind}{i}" for kind in "ru" for i in range(many))
    note = f".reg .b32 {names}; .shared .align 4 .b8 note[{4 * many}]; "
    return f"{BEGIN} {note} @!wr bra search; {fill} bra done; search: {search} done: {END}"


NOTES = {"local": in_memory("local"), "shared": in_memory("shared"), "registers": in_registers()}


def with_note(where):
    """A right kernel that shows in Y what it finds of a note."""
    search_globals = (
        f'    note = tl.inline_asm_elementwise("{NOTES[where]}", "=r,r", [M], dtype=tl.int32, is_pure=False, pack=1)\n'
    )
    assert BASE.count(STORE) == 1
    return BASE.replace(STORE, f"{search_globals}    y = tl.where(note > 0, note * 1024.0, y)\n{STORE}")


def built(where, folder, capability, *, hidden) -> tuple[Lab, KernelBundle]:
    lab = get_lab("w8a8")
    noted = Case("noted", "leaves a note", NOTED, 8192, 64, configs="all", hidden=hidden)
    reading = Case("reading", "looks for it", READING, 8192, 64, configs="all")
    every = next(case for case in lab.cases if case.configs == "all")
    lab = replace(lab, cases=(every, noted, reading), speed_cases=())
    path = folder / "w8a8.py"
    path.write_text(with_note(where), encoding="utf-8")
    bundle = build(lab, read(path, [lab]).labs["w8a8"], BuildOptions((capability,), "all", 2))
    assert isinstance(bundle, KernelBundle), bundle
    return lab, bundle


def found(where, folder, *, hidden) -> bool:
    """Whether a note is found, in one of several launches after one that leaves it."""
    capability = choose("cuda")[0].capability
    lab, bundle = built(where, folder, capability, hidden=hidden)
    with cuda.CudaRunner() as runner:
        for _ in range(4):
            (noted,) = runner.correctness(lab, bundle, [("noted", 0)], seed=1)
            (reading,) = runner.correctness(lab, bundle, [("reading", 0)], seed=1)
            assert (noted.status, reading.status) == ("ran", "ran"), (noted.message, reading.message)
            assert not bool((noted.y == SHOWN).any())
            if bool((reading.y == SHOWN).any()):
                return True
    return False


@pytest.mark.parametrize("where", NOTES)
def test_the_kernels_below_compile(where, tmp_path):
    _, bundle = built(where, tmp_path, 90, hidden=False)
    assert len(bundle.working) == len(bundle.configs)
    assert bundle.binary("reading", 0, 90)
    assert bundle.binary("noted", 0, 90)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.xdist_group("gpu")
def test_a_note_is_found_by_the_next_launch_of_a_process(tmp_path):
    """What this file is about: the test below could fail."""
    assert found("local", tmp_path, hidden=False)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.xdist_group("gpu")
@pytest.mark.parametrize("where", NOTES)
def test_nothing_is_found_of_a_hidden_launch(where, tmp_path):
    assert not found(where, tmp_path, hidden=True)
