"""The way of W8A8 from a right kernel to a fast one: the ladder of solutions/ladder, as steps that are checked."""

from __future__ import annotations

from grader.labs.speed_step import (
    FILLS_THE_GPU,
    NO_SPILLS,
    ON_WARP_GROUPS,
    PROGRAMS,
    SPLIT_CODE,
    SPLIT_HINT,
    ConfigFacts,
    Demand,
    SpeedStep,
    compiled,
    counted,
    launched,
    tile_size,
)
from grader.model import Case

MANY = "m4096_n4096_k4096"
FEW = "m16_n4096_k4096"
WIDE = 256


def _x_elements(facts: ConfigFacts) -> float:
    """Elements of X that one thread quantises in one iteration."""
    return facts.size("BLOCK_M") * facts.size("BLOCK_K") / facts.threads


def _rescales(facts: ConfigFacts) -> float:
    """How often an element of Y is turned from int32 to fp32 in the whole sum along K."""
    of_a_thread = facts.size("BLOCK_M") * facts.size("BLOCK_N") / facts.threads
    return (
        facts.iteration.accumulator_to_float * facts.iterations + facts.iteration.int_to_float_outside
    ) / of_a_thread


def _wasted(facts: ConfigFacts) -> float:
    """Multiply-adds that the tensor cores make for each one that Y needs."""
    return facts.iteration.products * facts.iterations * facts.programs / (facts.case.M * facts.case.N * facts.case.K)


def _few_rows(facts: ConfigFacts) -> float:
    """Higher for fewer rows in a tile, and then for more columns."""
    return -facts.size("BLOCK_M") + facts.size("BLOCK_N") / 4096


DIVISIONS = compiled(lambda facts: facts.iteration.divisions)
PRODUCTS = compiled(_wasted)
READERS = counted(lambda facts: facts.counted.tensors["x_ptr"].mean_readers)
ALL_COLUMNS = Case("few_rows_all_columns", "64 rows, a short K, all 4096 columns", 64, 4096, 64)

SPEED_STEPS = (
    SpeedStep(
        name="epilogue",
        case="speed_m4096",
        question="With K = 4096, how often does a launch convert an int32 sum to fp32 for each element of Y, once this step is done?",
        quantity=compiled(_rescales),
        demands=(
            Demand(
                compiled(lambda facts: facts.iteration.accumulator_to_float),
                "The loop converts no sum to floats: the accumulator stays int32.",
                "The loop converts {found} integers from tl.dot to floats, per iteration and thread.",
                at_most=0,
            ),
        ),
        hint="add up integers in the loop, and multiply by both scales after it",
        code="make acc int32, pass it to tl.dot(q, w, acc, out_dtype=tl.int32), and multiply by both scales after the loop",
        right="A scale that is constant along K belongs after the loop.",
        rungs=("w8a8_1_obvious", "w8a8_2_epilogue"),
        shapes=(FEW, MANY),
        prefer=tile_size,
    ),
    SpeedStep(
        name="reciprocal",
        case="speed_m4096",
        question="How many divisions does one thread make in one iteration of your loop, as the kernel is now?",
        quantity=DIVISIONS,
        demands=(
            Demand(
                DIVISIONS,
                "The loop divides nothing.",
                "The loop divides {found} times, per iteration and thread: every element of the tile of X, shared among the threads.",
                at_most=0,
            ),
        ),
        hint="the scale of a row does not change along K: one division per row, before the loop, is enough",
        code="before the loop: inverse = 1.0 / input_scale, one division per row; in the loop multiply by it",
        right="The compiler's listing counts a division as one instruction; in machine code it takes several.",
        rungs=("w8a8_2_epilogue", "w8a8_3_rounding"),
        shapes=(FEW, MANY),
        prefer=tile_size,
        about_now=True,
    ),
    SpeedStep(
        name="rounding",
        case="speed_m4096",
        question="How many float instructions, conversions included, will the loop spend on one element of X?",
        quantity=compiled(lambda facts: facts.iteration.float_instructions / _x_elements(facts)),
        demands=(
            Demand(
                compiled(lambda facts: facts.iteration.float_to_int),
                "No instruction of the loop rounds a float or converts it to an integer.",
                "{found} instructions round a float or convert it to an integer, per iteration and thread: "
                "they run at a fraction of the rate of a multiply-add.",
                at_most=0,
            ),
        ),
        hint="from 2**23 to 2**24 fp32 has no bits left for a fraction: a sum that lies there is rounded to nearest, and its low byte "
        "tells the integer",
        code="clamp x / s to -128..127, then add 12582912.0, which is 1.5 * 2**23; read the low byte with .to(tl.int32, "
        "bitcast=True).to(tl.int8)",
        right="The addition rounds, and the low byte of its result is already the int8.",
        rungs=("w8a8_2_epilogue", "w8a8_3_rounding"),
        shapes=(FEW, MANY),
        prefer=tile_size,
    ),
    SpeedStep(
        name="tiles",
        case="speed_m4096",
        question="With N = 4096, in how many programs is one element of X quantised, once this step is done?",
        quantity=READERS,
        demands=(
            Demand(
                READERS,
                "An element of X is quantised in {found} programs.",
                "An element of X is quantised in {found} programs, once for every tile of columns. Aim for {limit} at most.",
                at_most=4096 // WIDE,
            ),
            FILLS_THE_GPU,
            ON_WARP_GROUPS,
            NO_SPILLS,
        ),
        hint="add a config with a wider tile, whose sum still fits in registers",
        code="BLOCK_N = 256, with BLOCK_M = 64 and BLOCK_K = 64",
        right="Wide tiles quantise less often, and as long as nothing spills they cost nothing else.",
        rungs=("w8a8_3_rounding", "w8a8_4_tiles"),
        shapes=("m512_n4096_k4096", MANY),
        prefer=tile_size,
        small=ALL_COLUMNS,
    ),
    SpeedStep(
        name="rows",
        case="speed_m16",
        question="With 16 tokens and N = K = 4096, how many multiply-adds do the tensor cores make for each one that is needed, as your "
        "kernel is now?",
        quantity=PRODUCTS,
        demands=(
            Demand(
                launched(lambda facts: facts.size("BLOCK_M")),
                "A tile has {found} rows, no more than there are tokens.",
                "A tile has {found} rows, and there are {limit} tokens.",
                at_most=16,
            ),
            Demand(
                PRODUCTS,
                "{found} multiply-add for each one that is needed.",
                "{found} multiply-adds for each one that is needed: the others are for rows that X does not have.",
                at_most=1,
            ),
            ON_WARP_GROUPS,
        ),
        hint="for few tokens make the weight the first operand: then BLOCK_M may be 16, and the 64 rows are columns of Y",
        code="tl.dot(tl.trans(w), tl.trans(q), acc, ...), with acc [BLOCK_N, BLOCK_M] and tl.trans(acc) after the loop",
        right="The instruction needs 64 rows of its first operand: the weight has them.",
        rungs=("w8a8_4_tiles", "solution"),
        shapes=(FEW,),
        prefer=_few_rows,
        about_now=True,
    ),
    SpeedStep(
        name="split",
        case="speed_m16",
        question="How many programs will your launch with 16 tokens and N = K = 4096 have, with the config that gives the most?",
        quantity=PROGRAMS,
        demands=(FILLS_THE_GPU, ON_WARP_GROUPS),
        hint=SPLIT_HINT,
        code=SPLIT_CODE,
        right="With few tokens a launch mostly reads weights: what counts is how many multiprocessors load them at once.",
        rungs=("w8a8_4_tiles", "solution"),
        shapes=(FEW,),
        prefer=lambda facts: facts.programs,
    ),
)
