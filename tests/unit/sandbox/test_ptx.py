"""What is read in PTX, in the sandbox: one iteration of a compiled loop, loads; and that no text makes the reader slow."""

from __future__ import annotations

import sys

import pytest

from grader.building.facts import loop_facts as checked
from grader.building.sandboxed import ptx
from grader.model import LoopFacts
from grader.sandbox.inside.wire import WireError
from tests.tables import table


def loop_facts(text: str, num_warps: int) -> LoopFacts | None:
    return checked(ptx.read(text, num_warps)["loop"])


PTX = """
	cvt.rn.f32.s32 	%r900, %r901;
$L__BB0_1:
	mul.f32 	%f1, %f2, %f3;
$L__BB0_2:                              // Parent Loop BB0_1
	cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, %r2;
	cp.async.commit_group;
	div.full.f32 	%r10, %r11, %r12;
	@%p1 mul.rn.f32 	%r13, %r10, %r12;
	mul.lo.s32 	%r14, %r1, %r2;
	fma.rn.f32 	%r15, %r10, %r12, %r13;
	max.f16x2 	%r16, %r16, %r17;
	cvt.f32.f16 	%r18, %rs1;
	cvt.rmi.ftz.f32.f32 	%r19, %r18;
	cvt.rzi.s16.f32 	%rs2, %r19;
	cvt.u32.u16 	%r20, %rs2;
	cvt.rn.f32.s32 	%r21, %r20;
	st.shared.v4.b32 	[%r3], {%r4, %r5, %r6, %r7};
	wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 {%r30,%r31}, %rd2, %rd3, 1, 1, 1;
	wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 {%r30,%r31}, %rd4, %rd5, 1, 1, 1;
	cvt.rn.f32.s32 	%r32, %r30;
	@%p2 bra 	$L__BB0_2;
	bra.uni 	$L__BB0_1;
"""


def test_one_turn_of_the_innermost_loop_is_counted():
    facts = loop_facts(PTX, 8)
    assert facts is not None
    assert (facts.divisions, facts.multiplications, facts.async_copies) == (1, 1, 1)
    assert (facts.accumulator_to_float, facts.int_to_float_outside) == (1, 1), "a conversion of no sum is none"
    assert facts.float_to_int == 2
    assert facts.float_instructions == 7, "those that read a float"
    assert facts.shared_store_bytes == 16
    assert facts.products == 2 * 64 * 32 * 32 * 2, "8 warps are two groups"


def test_the_older_instruction_is_one_warps():
    text = PTX.replace("wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")
    facts = loop_facts(text, 4)
    assert facts is not None
    assert facts.products == 2 * 16 * 8 * 32 * 4


def test_without_a_product_in_a_loop_there_is_nothing_to_tell():
    assert loop_facts(PTX.replace("wgmma", "other"), 4) is None
    assert loop_facts(PTX.replace("bra", "ret"), 4) is None


def test_a_short_loop_beside_the_one_that_counts_hides_nothing():
    short = """$L__BB0_9:
	wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 {%r30,%r31}, %rd2, %rd3, 1, 1, 1;
	@%p9 bra 	$L__BB0_9;
"""
    assert loop_facts(short, 8) is not None
    for text in (PTX + short, short + PTX):
        facts = loop_facts(text, 8)
        assert facts is not None
        assert (facts.divisions, facts.shared_store_bytes) == (1, 16)


def test_what_a_comment_says_is_not_done():
    hidden = "// wgmma.mma_async.m64n8k16;\n/* ld.global.v4.b32 {%r1}, [%r2];\n mma.sync.m16n8k32.s8 {%r1}; */ ld.global.b32 %r1, [%r2];\n"
    assert ptx.read(hidden, 4) == {"matrix_instruction": "none", "int8_matrix": False, "widest_load_bytes": 4, "loop": None}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\t@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];", 16),
        ("ld.global.L1::evict_last.L2::cache_hint.v2.b32 {%r1, %r2}, [%rd1], %rd2;", 8),
        ("{ .reg .b16 r; ld.global.u16 r, [%rd1]; }", 2),
        ("cp.async.ca.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x8, %r2;", 8),
        ("cp.async.bulk.tensor.2d.shared::cluster.global [%r1], [%rd1, {%r2, %r3}], [%r4];", 16),
        ("ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r5];", 0),
    ],
)
def test_the_widest_load(text, expected):
    assert ptx.read(text, 4)["widest_load_bytes"] == expected


# ---------------------------------------------------------------- time against length

UNITS = table(__file__)["units"]


def of(unit: str, count: int) -> str:
    return "".join(map(unit.format, range(count))) if "{0}" in unit else unit * count


def steps(text: str) -> int:
    """What Python does to read a text: lines executed, and how many characters patterns and methods were handed in them."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        if frame.f_code.co_filename != ptx.__file__:
            return None
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        ptx.read(text, 4, clock=lambda: 0.0)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS.keys())
def test_eight_times_the_text_is_eight_times_the_work(unit):
    """Counted in steps, which no busy machine changes; the time that a step takes is bounded by MAX_STATEMENT."""
    assert steps(PTX + of(unit, 8 * 200)) <= 10 * steps(PTX + of(unit, 200))


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS.keys())
def test_two_megabytes_of_anything_are_read_in_time(unit):
    """By the process's own clock. A reader that goes back to the start for each of them takes hours."""
    from time import process_time

    text = of(unit, (2 << 20) // len(unit))
    began = process_time()
    ptx.read(text, 4, clock=lambda: 0.0)
    assert process_time() - began < 20


def test_a_text_that_is_too_long_or_takes_too_long_says_nothing():
    nothing = {"matrix_instruction": "none", "int8_matrix": False, "widest_load_bytes": 0, "loop": None}
    assert ptx.read(PTX + " " * ptx.MAX_CHARACTERS, 4) == nothing
    ticks = iter(range(10**9))
    assert ptx.read(PTX + ";" * 10 * ptx.CLOCK_EVERY, 4, clock=lambda: 10.0 * next(ticks)) == nothing
    assert ptx.read(PTX, 4) != nothing


@pytest.mark.parametrize("number", [-1, 1.5, True, "7", None, 2**63])
def test_what_is_no_count_is_refused_outside(number):
    loop = ptx.read(PTX, 4)["loop"]
    assert loop is not None
    assert checked(loop) is not None
    with pytest.raises(WireError):
        checked({**loop, "divisions": number})
