"""Numbers that a student of DDS should be able to find: break-even, the bytes of a BSR weight, an order of magnitude."""

from __future__ import annotations

from random import Random

from grader.labs.question import Posed, Question, Trap

BLOCK = 32


def _breakeven(random: Random) -> Posed:
    sparsity, ratio = random.choice((80, 85, 90, 95)), random.choice((0.7, 0.8, 1.2, 1.3, 1.4, 1.6, 1.8))
    share = ratio * (1 - sparsity / 100)
    return Posed(
        f"At {sparsity} % zeros a kernel was {ratio} times as fast as cuBLAS. Suppose it computes its products, only those of "
        "stored blocks, at a fixed share e of cuBLAS's rate. From what percentage of zeros on is it faster than cuBLAS?",
        100 * (1 - share),
        "%",
        "dense time 1, sparse time (1 - s) / e; find e from the measurement, then the s at which both are equal",
        tolerance=0.01,
        traps=(
            Trap(1 - share, "That is a fraction; the answer should be a percentage."),
            Trap(
                100 * share, "That is the percentage of blocks that are present; the question asks how many are zero."
            ),
            Trap(sparsity / ratio, "The time is proportional to 1 - s, the blocks that are left, not to s."),
        ),
    )


def _bytes(random: Random) -> Posed:
    N, K = (random.choice((1024, 2048, 4096)) for _ in range(2))
    zeros = random.choice((50, 75, 87.5))
    blocks = round(N * K / BLOCK**2 * (1 - zeros / 100))
    values, indices = 2 * BLOCK**2 * blocks, 4 * blocks + 4 * (N // BLOCK + 1)
    return Posed(
        f"A weight of {N} x {K} in BSR with blocks of 32 x 32, {zeros:g} % of them empty: how many kB does it take (1 kB = 1000 bytes)? "
        "Values are fp16, crow_indices and col_indices int32.",
        (values + indices) / 1e3,
        "kB",
        "the values of the stored blocks, a column index for each, and one more row pointer than there are block rows",
        tolerance=0.00005,
        traps=(
            Trap(values / 1e3, "That is the values alone: the two arrays of indices take space too."),
            Trap((values + 4 * blocks) / 1e3, "crow_indices is missing."),
            Trap((2 * N * K + indices) / 1e3, "That is with the empty blocks: they are not stored."),
            Trap(
                (values * zeros / (100 - zeros) + indices) / 1e3,
                "That counts the empty blocks instead of the stored ones.",
            ),
        ),
    )


def _magnitude(random: Random) -> Posed:
    M = random.choice((4096, 16384, 65536, 262144))
    terabytes = random.choice((1, 2, 3, 5))
    microseconds = 2 * (2 * M * 1024) / (terabytes * 1e6)
    return Posed(
        f"An order of magnitude, in your head: {M} tokens, N = K = 1024. How many microseconds does it take, at least, to read X and "
        f"write Y, in fp16, at {terabytes} TB/s?",
        microseconds,
        "us",
        "bytes of X and of Y, divided by bytes per microsecond",
        factor=2.0,
    )


QUESTIONS = (
    Question("breakeven", 2, _breakeven),
    Question("bytes", 1, _bytes),
    Question("magnitude", 1, _magnitude),
)
