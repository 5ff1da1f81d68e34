"""The way of GPTQ from a published kernel to a fast one: the ladder of solutions/ladder, as steps that are checked."""

from __future__ import annotations

from grader.labs.speed_step import (
    FILLS_THE_GPU,
    NOT_SPLIT,
    SHARED_STORES,
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

ONE, FEW, MORE = "m1_n4096_k4096", "m16_n4096_k4096", "m64_n4096_k4096"


def _float_work(facts: ConfigFacts) -> float:
    """Instructions on floats for each weight that an iteration unpacks, without matrix products and conversions of integers."""
    return facts.iteration.float_instructions * facts.threads / (facts.size("BLOCK_N") * facts.size("BLOCK_K"))


def _scalings(facts: ConfigFacts) -> float:
    """Multiplications of floats for each weight that an iteration unpacks."""
    return facts.iteration.multiplications * facts.threads / (facts.size("BLOCK_N") * facts.size("BLOCK_K"))


def _tile_reads(facts: ConfigFacts) -> float:
    """How often a tile along K that lies in one group reads a scale."""
    tiles = SMALL.group_size / min(facts.size("BLOCK_K"), SMALL.group_size)
    reads: float = facts.counted.tensors["scales_ptr"].mean_reads
    return reads / tiles


READ = counted(lambda facts: facts.counted.tensors["qweight_ptr"].loaded)
SMALL = Case("sixteen_tokens", "16 tokens, a small weight in groups of 128", 16, 128, 512, group_size=128)

SPEED_STEPS = (
    SpeedStep(
        name="words",
        case="speed_m16",
        question="With M = 16, N = 128, K = 512, how many bytes of qweight will a launch load in all, once this step is done?",
        quantity=READ,
        demands=(
            WORDS_ONCE,
            Demand(
                counted(_tile_reads),
                "A tile along K inside one group loads one scale per column.",
                "A tile along K inside one group loads the same scale {found} times.",
                at_most=1,
            ),
        ),
        hint="load each word once and unpack it into eight values in registers; with 16 tokens one tile of rows must hold them all. A tile "
        "that lies in one group needs one row of scales and one of zeros, others need one for each word",
        code="load [BLOCK_K // 8, BLOCK_N] words, shift them by 4 * i along an axis of its own, then tl.reshape. Where group_size % "
        "BLOCK_K == 0 a tile lies in one group, first // group_size; with a constexpr parameter that triton.heuristics makes, lambda args: "
        "args['group_size'] % args['BLOCK_K'] == 0, the compiler drops the branch that is not taken",
        right="A word holds eight weights: one load brings them all. DRAM was not read eight times, but each load was an instruction.",
        rungs=("gptq_1_published", "gptq_2_words"),
        shapes=(FEW, MORE),
        prefer=lambda facts: -abs(facts.size("BLOCK_M") - 16),
        small=SMALL,
    ),
    SpeedStep(
        name="zeros",
        case="speed_m64",
        question="How many float instructions will your loop make for each weight that it unpacks, once this step is done? Neither "
        "matrix products nor conversions of integers count; an instruction that works on two fp16 numbers counts half for each.",
        quantity=compiled(_float_work),
        demands=(
            Demand(
                compiled(_float_work),
                "The loop makes {found} float instructions for each unpacked weight.",
                "The loop makes {found} float instructions for each unpacked weight; {limit} is enough.",
                at_most=1,
            ),
        ),
        hint="a difference of integers needs no float instruction: subtract before you convert",
        code="subtract the zero point from q while both are integers, convert the difference to fp16, and multiply it by the scale in fp16",
        right="A difference of integers is exact, so the weight is rounded once, by its scale.",
        rungs=("gptq_2_words", "gptq_3_zeros"),
        shapes=(FEW, MORE),
        prefer=tile_size,
    ),
    SpeedStep(
        name="groups",
        case="speed_m16",
        question="With M = 16, how many float instructions will your loop make for each weight that it unpacks, once this step is done? "
        "Count as before; a multiplication and the addition to the accumulator are one instruction.",
        quantity=compiled(_float_work),
        demands=(
            Demand(
                compiled(_scalings),
                "The loop multiplies sums by the scales: {found} multiplications for each weight.",
                "The loop makes {found} multiplications for each weight that it unpacks; {limit} is enough.",
                at_most=1 / 2,
            ),
        ),
        hint="in a tile that lies in one group, all products of a column have the same scale: multiply their sum by it",
        code="in a tile that lies in one group, add tl.dot(x, q - (z + 1)) * scale to the accumulator, in fp32; other tiles do as before",
        right="The scale is common to all products of a tile and a column: it costs one multiplication for each element of a tile of Y, "
        "and no weight is rounded.",
        rungs=("gptq_3_zeros", "gptq_4_groups"),
        shapes=(FEW, MORE),
        prefer=lambda facts: -abs(facts.size("BLOCK_M") - 16),
    ),
    SpeedStep(
        name="registers",
        case="speed_m64",
        question="How many bytes does one program store in shared memory in one iteration of your loop, as the kernel is now?",
        quantity=SHARED_STORES,
        demands=(
            Demand(
                SHARED_STORES,
                "The loop stores nothing in shared memory: each thread multiplies the weights that it unpacked itself.",
                "The loop stores {found} bytes in shared memory, per iteration and program: what threads compute passes through it to "
                "tl.dot, mainly the unpacked weights, and so does what moves between threads: scales and zeros by k, sums in a new layout.",
                at_most=0,
            ),
        ),
        hint="make the weight the first operand; wgmma gives a thread two neighbours along K of it, so unpack a word byte by byte",
        code="tl.dot(w, x) with w [BLOCK_N, BLOCK_K] and x [BLOCK_K, BLOCK_M]; for w, byte = words[:, :, None] >> 8 * i with i of 0 to 3, "
        "then tl.join of its low and its high nibble, and tl.reshape. Scales and zero points stay one row per tile, [BLOCK_N, 1], as in "
        "the step before",
        right="wgmma takes its first operand from registers and its second from shared memory only.",
        rungs=("gptq_3_zeros", "solution"),
        shapes=(ONE, FEW, MORE),
        prefer=tile_size,
        about_now=True,
    ),
    SpeedStep(
        name="slices",
        case="speed_m1",
        question="The words of the weight have 8,388,608 bytes. How many of them will each of your programs read, with 1 token, once this "
        "step is done?",
        quantity=launched(lambda facts: facts.case.N * facts.case.K / 2 / facts.programs),
        demands=(NOT_SPLIT, FILLS_THE_GPU),
        hint="make BLOCK_N 16, which gives enough programs; so that each of their warps has work, let the warps share K",
        code="tl.dot of [slice, n, k] by [slice, k, m], each slice times its scale, then tl.sum over the slices",
        right="Enough programs, and neither zeroing nor atomics.",
        rungs=("gptq_5_registers", "solution"),
        shapes=(ONE,),
        prefer=lambda facts: facts.programs,
    ),
)
