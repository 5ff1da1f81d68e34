"""The way of W4A16 from a right kernel to a fast one: the ladder of solutions/ladder, as steps that are checked."""

from __future__ import annotations

from grader.labs.speed_step import (
    FILLS_THE_GPU,
    NOT_SPLIT,
    PROGRAMS,
    SHARED_STORES,
    SPLIT_CODE,
    SPLIT_HINT,
    WORDS_ONCE,
    ConfigFacts,
    Demand,
    SpeedStep,
    compiled,
    counted,
    launched,
    tile_size,
)
from grader.model import Case

ONE, FEW, MANY = "m1_n4096_k4096", "m16_n4096_k4096", "m512_n4096_k4096"


def _scalings(facts: ConfigFacts) -> float:
    """How often the loops of a launch multiply one weight by a float of its own."""
    return (
        facts.iteration.multiplications
        * facts.threads
        * facts.iterations
        * facts.programs
        / (facts.case.N * facts.case.K)
    )


def _on_a_weight(facts: ConfigFacts) -> float:
    """Float instructions, and conversions to floats, that the loop spends on one weight."""
    loop = facts.iteration
    return (
        (loop.int_to_float + loop.float_instructions) * facts.threads / (facts.size("BLOCK_N") * facts.size("BLOCK_K"))
    )


READ = counted(lambda facts: facts.counted.tensors["qweight_ptr"].loaded)
SMALL = Case("sixteen_tokens", "16 tokens, a small weight", 16, 128, 512)

SPEED_STEPS = (
    SpeedStep(
        name="epilogue",
        case="speed_m512",
        question="With 512 tokens, how many times does one launch of your current kernel multiply the same weight by its scale?",
        quantity=compiled(_scalings),
        demands=(
            Demand(
                compiled(lambda facts: facts.iteration.multiplications),
                "The loop multiplies only tiles.",
                "The loop makes {found} multiplications in addition to tl.dot, per iteration and thread.",
                at_most=0,
            ),
        ),
        hint="multiply x by the integers as they are, and the sum by the scales, once, after the loop",
        right="The loop waits for loads, not for multiplications, so the time hardly changes; but now q * s is never rounded.",
        rungs=("w4a16_1_obvious", "w4a16_2_epilogue"),
        shapes=(FEW, MANY),
        prefer=tile_size,
        about_now=True,
    ),
    SpeedStep(
        name="words",
        case="speed_m16",
        question="With M = 16, N = 128, K = 512, how many bytes of qweight will a launch load in all, once this step is done?",
        quantity=READ,
        demands=(WORDS_ONCE,),
        hint="load each word once and unpack it into eight values in registers; with 16 tokens one tile of rows must hold them all",
        code="load [BLOCK_K // 8, BLOCK_N] words, shift them by 4 * i along an axis of its own, then tl.reshape",
        right="A word holds eight weights: one load brings them all. DRAM was not read eight times, but each load was an instruction.",
        rungs=("w4a16_2_epilogue", "w4a16_3_words"),
        shapes=(FEW, MANY),
        prefer=lambda facts: -abs(facts.size("BLOCK_M") - 16),
        small=SMALL,
    ),
    SpeedStep(
        name="nibbles",
        case="speed_m512",
        question="How many float instructions, conversions included, will the loop spend on one weight, once this step is done?",
        quantity=compiled(_on_a_weight),
        demands=(
            Demand(
                compiled(lambda facts: facts.iteration.int_to_float),
                "The loop converts no integer to a float.",
                "The loop converts {found} integers to floats, per iteration and thread: one conversion for each weight.",
                at_most=0,
            ),
        ),
        hint="the bits 0x6400 | u are the fp16 number 1024 + u, for u of 0 to 15, and a nibble whose sign bit is flipped is u = q + 8: put "
        "two nibbles into the two halves of an int32, and make each half such a number",
        code="pair = (... & 0x000F000F) ^ 0x64086408; its halves, .to(tl.int16).to(tl.float16, bitcast=True), are 1032.0 too large: join "
        "and reshape them, then subtract it from the whole tile",
        right="The bits already are an fp16 number: no conversion, and one subtraction for two weights.",
        rungs=("w4a16_2_epilogue", "w4a16_3_words"),
        shapes=(FEW, MANY),
        prefer=tile_size,
    ),
    SpeedStep(
        name="split",
        case="speed_m1",
        question="How many programs will your launch with 1 token and N = K = 4096 have, with the config that gives the most?",
        quantity=PROGRAMS,
        demands=(FILLS_THE_GPU,),
        hint=SPLIT_HINT,
        code=SPLIT_CODE,
        right="With one token a launch mostly reads weights: what counts is how many multiprocessors load them at once.",
        rungs=("w4a16_3_words", "w4a16_4_split"),
        shapes=(ONE, FEW),
        prefer=lambda facts: facts.programs,
    ),
    SpeedStep(
        name="registers",
        case="speed_m512",
        question="How many bytes does one program store in shared memory in one iteration of your loop, as the kernel is now?",
        quantity=SHARED_STORES,
        demands=(
            Demand(
                SHARED_STORES,
                "The loop stores nothing in shared memory: each thread multiplies the weights that it unpacked itself.",
                "The loop stores {found} bytes in shared memory, per iteration and program: the unpacked weights, on their way to tl.dot.",
                at_most=0,
            ),
        ),
        hint="make the weight the first operand; wgmma gives a thread two neighbours along K of it, so unpack a word byte by byte",
        code="tl.dot(w, x, acc) with w [BLOCK_N, BLOCK_K] and x [BLOCK_K, BLOCK_M]; for w, byte = words[:, :, None] >> 8 * i with i of 0 "
        "to 3, then tl.join of its low and its high nibble, and tl.reshape",
        right="wgmma takes its first operand from registers and its second from shared memory only.",
        rungs=("w4a16_4_split", "w4a16_5_registers"),
        shapes=(ONE, FEW, MANY),
        prefer=tile_size,
        about_now=True,
    ),
    SpeedStep(
        name="slices",
        case="speed_m1",
        question="The weight has 8,388,608 bytes. How many of them will each of your programs read, with 1 token, once this "
        "step is done?",
        quantity=launched(lambda facts: facts.case.N * facts.case.K / 2 / facts.programs),
        demands=(NOT_SPLIT, FILLS_THE_GPU),
        hint="make BLOCK_N 16, which gives enough programs; so that each of their warps has work, let the warps share K",
        code="tl.dot of [slice, n, k] by [slice, k, m], then tl.sum over the slices",
        right="Enough programs, and neither zeroing nor atomics.",
        rungs=("w4a16_5_registers", "solution"),
        shapes=(ONE,),
        prefer=lambda facts: facts.programs,
    ),
)
