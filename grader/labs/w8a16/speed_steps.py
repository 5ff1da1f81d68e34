"""The way of W8A16 from a right kernel to a fast one: the ladder of solutions/ladder, as steps that are checked."""

from __future__ import annotations

from grader.labs.speed_step import (
    FILLS_THE_GPU,
    NO_MATRIX_INSTRUCTION,
    NOT_SPLIT,
    ON_WARP_GROUPS,
    PROGRAMS,
    SHARED_STORES,
    SPLIT_CODE,
    SPLIT_HINT,
    Demand,
    SpeedStep,
    launched,
    tile_size,
)

ONE, FEW, MANY = "m1_n4096_k4096", "m16_n4096_k4096", "m512_n4096_k4096"


SPEED_STEPS = (
    SpeedStep(
        name="one",
        case="speed_m1",
        question="The weight has 16,777,216 bytes. How many of them will each of your programs read, with 1 token, once this "
        "step is done?",
        quantity=launched(lambda facts: facts.case.N * facts.case.K / facts.programs),
        demands=(NOT_SPLIT, FILLS_THE_GPU, NO_MATRIX_INSTRUCTION),
        hint="handle one token separately, without tl.dot: few columns per program, so that there are many programs, and long steps along "
        "K",
        code="`if BLOCK_M == 1:`, with 16 columns per program and steps of 512 along K, the product element by element, kept in a tile of "
        "fp32, and one tl.sum after the loop",
        right="Enough programs, each reading one long stream of weights, and no matrix instruction that multiplies empty rows.",
        rungs=("w8a16_1_naive", "w8a16_3_vectors"),
        shapes=(ONE,),
        prefer=lambda facts: facts.programs,
    ),
    SpeedStep(
        name="split",
        case="speed_m16",
        question="How many programs will your launch with 16 tokens and N = K = 4096 have, with the config that gives the most for a "
        "tile of 16 rows?",
        quantity=PROGRAMS,
        demands=(
            Demand(
                launched(lambda facts: facts.size("BLOCK_M")),
                "One tile of {found} rows holds all 16 tokens.",
                "A tile of {found} rows for 16 tokens: give a config a BLOCK_M of 16.",
                at_least=16,
                at_most=16,
            ),
            FILLS_THE_GPU,
        ),
        hint=SPLIT_HINT,
        code=SPLIT_CODE,
        right="With a few tokens, too, a launch mostly reads weights: what counts is how many multiprocessors load them at once.",
        rungs=("w8a16_1_naive", "w8a16_4_split"),
        shapes=(FEW,),
        prefer=lambda facts: facts.programs if facts.constants.get("BLOCK_M") == 16 else 0,
    ),
    SpeedStep(
        name="registers",
        case="speed_m512",
        question="How many bytes does one program store in shared memory in one iteration of your loop, as the kernel is now?",
        quantity=SHARED_STORES,
        demands=(
            Demand(
                SHARED_STORES,
                "The loop stores nothing in shared memory: each thread multiplies the weights that it converted itself.",
                "The loop stores {found} bytes in shared memory, per iteration and program: what threads compute passes through it to "
                "tl.dot, converted weights above all, and with one stage X and the weight's bytes too.",
                at_most=0,
            ),
            ON_WARP_GROUPS,
        ),
        hint="make the weight the first operand, and transpose the result after the loop",
        code="tl.dot(w, x, acc) with w [BLOCK_N, BLOCK_K] and x [BLOCK_K, BLOCK_M], and tl.trans(acc) after the loop; BLOCK_N is at least "
        "64 then, with at least 4 warps and 2 stages",
        right="wgmma takes its first operand from registers and its second from shared memory only.",
        rungs=("w8a16_4_split", "w8a16_5_registers"),
        shapes=(FEW, MANY),
        prefer=tile_size,
        about_now=True,
    ),
)
