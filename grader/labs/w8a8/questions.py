"""Numbers that a student of W8A8 should be able to find: bytes, intensity, the longest exact sum, work done again."""

from __future__ import annotations

from random import Random

from grader.labs.question import WIDTHS, Posed, Question, Trap


def _bytes(random: Random) -> Posed:
    M, N, K = random.choice((8, 16, 24, 32, 48)), *random.sample(WIDTHS, 2)
    moved = 2 * M * K + N * K + 4 * (M + N) + 2 * M * N
    return Posed(
        f"A launch of W8A8 with M = {M}, N = {N}, K = {K}: how many MB must it move at least (1 MB = 10^6 bytes)? X is read and Y is "
        "written in fp16, the weight is int8, the scales are fp32.",
        moved / 1e6,
        "MB",
        "one term each for X, the weight, the scales and Y",
        traps=(
            Trap((moved + N * K) / 1e6, "That is with two bytes per weight: an int8 weight has one."),
            Trap((moved - N * K / 2) / 1e6, "That is with half a byte per weight: an int8 weight has one."),
            Trap(N * K / 1e6, "That is the weight alone: X and Y move too."),
        ),
    )


def _intensity(random: Random) -> Posed:
    M, N, K = random.choice((64, 128, 256, 512, 1024)), *random.sample(WIDTHS, 2)
    moved, operations = 2 * M * K + N * K + 2 * M * N, 2 * M * N * K
    return Posed(
        f"W8A8 with M = {M}, N = {N}, K = {K}: how many operations is that for each byte that must move? A multiply-add is two "
        "operations; X and Y are fp16, the weight is int8, the scales do not matter.",
        operations / moved,
        "operations per byte",
        "2 M N K divided by the bytes of X, weight and Y",
        traps=(
            Trap(operations / (moved + N * K), "That is with an fp16 weight: an int8 weight has one byte."),
            Trap(
                operations / (M * K + N * K + M * N),
                "That is with one byte per element of X and Y; outside the kernel they are fp16.",
            ),
            Trap(moved / operations, "That is bytes for each operation: invert it."),
        ),
    )


def _exact(random: Random) -> Posed:
    x, w, width = random.randint(4, 8), random.randint(4, 8), random.choice((18, 20, 24, 28, 32))
    largest, product = 2 ** (width - 1) - 1, 2 ** (x + w - 2)
    return Posed(
        f"Activations are integers of {x} bits, weights of {w} bits, both with every value from -2^(bits - 1) to 2^(bits - 1) - 1. The "
        f"accumulator has {width} bits, one of them for the sign. What is the largest K for which no sum can overflow?",
        largest // product,
        "terms",
        "divide the largest number that the accumulator holds by the product of the largest magnitude",
        tolerance=0,
        traps=(
            Trap(
                (largest + 1) // product,
                "One too many: that sum is one more than the largest positive number of the accumulator.",
            ),
            Trap(
                largest // ((2 ** (x - 1) - 1) * (2 ** (w - 1) - 1)),
                "That is for the largest positive values: the most negative ones are larger in magnitude.",
            ),
            Trap((2 * largest + 1) // product, "That is without a bit for the accumulator's sign."),
        ),
    )


def _again(random: Random) -> Posed:
    M, N = random.choice((256, 512, 1024, 2048)), random.choice(WIDTHS)
    block_m, block_n = random.sample((16, 32, 64, 128, 256), 2)
    return Posed(
        f"A launch with M = {M}, N = {N}, BLOCK_M = {block_m}, BLOCK_N = {block_n} and SPLIT_K = 1: how often is one element of X "
        "quantised?",
        N // block_n,
        "times",
        "which programs load that element",
        tolerance=0,
        traps=(
            Trap(M // block_m, "Those are the programs along M: each of them has other rows of X."),
            Trap(N // block_n * (M // block_m), "Those are all programs: most have other rows of X."),
            Trap(1, "It would be, if one program had the whole row of tiles."),
        ),
    )


QUESTIONS = (
    Question("bytes", 2, _bytes),
    Question("intensity", 1, _intensity),
    Question("exact", 1, _exact),
    Question("times", 1, _again),
)
