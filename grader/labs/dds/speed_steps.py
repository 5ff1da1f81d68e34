"""The way of DDS from a right kernel to a fast one: the ladder of solutions/ladder, as steps that are checked."""

from __future__ import annotations

from grader.labs.speed_step import NO_SPILLS, ConfigFacts, Demand, SpeedStep, compiled, counted
from grader.model import Case

BLOCK = 32
SHAPES = ("m1024_n1024_k1024_s90", "m8192_n1024_k1024_s80")


def _tile_bytes(facts: ConfigFacts) -> int:
    """A tile of X and a block of the weight, in fp16."""
    return 2 * (facts.size("BLOCK_M") * BLOCK + BLOCK * BLOCK)


def _row_tiles(facts: ConfigFacts) -> float:
    """From how many tiles of rows of X the first programs read, as many as there are block rows."""
    together = facts.counted.programs[: ORDER.N // BLOCK]
    read = [program.reads["x_ptr"].runs[0] for program in together if "x_ptr" in program.reads]
    rows = {row for runs in read for first, end in runs for row in range(first, end)}
    return len(rows) / facts.size("BLOCK_M")


def _fetched_again(facts: ConfigFacts) -> float:
    """Bytes of X that miss in an L2 with room for half of X, over the bytes of X."""
    size: int = facts.counted.tensors["x_ptr"].total_bytes
    return facts.missed("x_ptr", ORDER.N // BLOCK, size // 2) / size


SHARED = compiled(lambda facts: facts.built.shared_bytes)
BUFFERS = compiled(lambda facts: facts.built.shared_bytes // _tile_bytes(facts))
READERS = counted(lambda facts: facts.counted.tensors["values_ptr"].mean_readers)
ROW_TILES = counted(_row_tiles)
ORDER = Case("order", "a few block rows by a few tiles of rows", 512, 128, 128, w="sparsity_0.5")
TALL = Case("tall", "2048 tokens, a small weight", 2048, 64, 128, w="sparsity_0.5")

SPEED_STEPS = (
    SpeedStep(
        name="order",
        case="speed_m8192_s80",
        question="With M = 512 and N = K = 128 there are 4 block rows. From how many tiles of rows of X do the first 4 programs read, "
        "as your kernel is now?",
        quantity=ROW_TILES,
        demands=(
            Demand(
                ROW_TILES,
                "Programs that run at the same time read the same rows of X.",
                "The first 4 programs read from {found} tiles of rows of X.",
                at_most=1,
            ),
            Demand(
                counted(_fetched_again),
                "With an L2 that has room for half of X, all of X comes from DRAM about once: {found} times the bytes of X are fetched.",
                "With an L2 that has room for half of X, X is fetched from DRAM repeatedly: {found} times the bytes of X are fetched, "
                "since a tile is evicted before the next block row needs it.",
                at_most=1.5,
            ),
        ),
        hint="let block rows run fastest over the programs; the grid stays as it is",
        code="block_row = pid % (N // BLOCK), and the tile of rows is pid // (N // BLOCK)",
        right="What one program fetched, the others find in L2. An H200's L2 holds all of X at these sizes, so its times hardly show it.",
        rungs=("dds_1_obvious", "dds_2_order"),
        shapes=SHAPES,
        small=ORDER,
        prefer=lambda facts: -abs(facts.size("BLOCK_M") - 64),
        about_now=True,
    ),
    SpeedStep(
        name="tiles",
        case="speed_m8192_s80",
        question="With M = 2048, how many programs read the same block of the weight, once this step is done?",
        quantity=READERS,
        demands=(
            Demand(
                READERS,
                "A block is read by {found} programs.",
                "A block is read by {found} programs, one for each tile of rows. Aim for {limit} at most.",
                at_most=16,
            ),
            NO_SPILLS,
        ),
        hint="add configs with more rows of X in a tile",
        code="BLOCK_M = 128 or 256",
        right="A block is 2 KB: the more rows it is multiplied by, the less often it is fetched.",
        rungs=("dds_2_order", "dds_3_pipelined"),
        shapes=SHAPES,
        small=TALL,
        prefer=lambda facts: facts.size("BLOCK_M"),
    ),
    SpeedStep(
        name="pipelined",
        case="speed_m8192_s80",
        question="In your config with num_stages = 2, how many bytes of shared memory will a program have, with room for two tiles of X "
        "and two blocks?",
        quantity=SHARED,
        demands=(
            Demand(
                compiled(lambda facts: facts.iteration.async_copies),
                "The loop copies to shared memory ahead of the products.",
                "The loop copies nothing ahead: each iteration waits for its own loads.",
                at_least=1,
            ),
            Demand(
                BUFFERS,
                "Shared memory has room for {found} iterations. While one is multiplied, another arrives.",
                "Shared memory has room for {found} iterations; {limit} are needed, so that one arrives while another is multiplied.",
                at_least=2,
            ),
        ),
        hint="add configs with more stages: Triton loads num_stages - 1 iterations ahead",
        code="for example BLOCK_M = 128, num_stages = 2",
        right="Loads issued earlier keep the loop from waiting for memory.",
        rungs=("dds_2_order", "dds_3_pipelined"),
        shapes=SHAPES,
        prefer=lambda facts: 2 * (facts.config.num_stages == 2) + (facts.size("BLOCK_M") == 128),
    ),
    SpeedStep(
        name="prefetch",
        case="speed_m1024_s90",
        question="In your config with the most stages, how many iterations will fit into shared memory, once the column index comes early?",
        quantity=BUFFERS,
        demands=(
            Demand(
                BUFFERS,
                "Shared memory has room for {found} iterations, so at least two arrive while one is multiplied.",
                "Shared memory has room for {found} iterations; {limit} are needed. The column index is a load that the load of X "
                "waits for, so Triton spends a stage on it.",
                at_least=3,
            ),
        ),
        hint="load the column index one iteration before it is needed, and have a config with more stages",
        code="load the column index of the first block before the loop, and the next block's at the end of each iteration, with a mask for "
        "the last; and a config with num_stages = 3 or 4",
        right="The index is there when the iteration begins, so every stage holds a tile of X.",
        rungs=("dds_3_pipelined", "solution"),
        shapes=SHAPES,
        prefer=lambda facts: facts.config.num_stages + facts.size("BLOCK_M") / 1024,
    ),
)
