"""What one turn of a compiled loop costs, read from PTX."""

from __future__ import annotations

from grader.building.loops import loop_facts

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
    assert (facts.sums_to_float, facts.to_float_outside) == (1, 1), "a conversion of no sum is none"
    assert facts.to_integer == 2
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
