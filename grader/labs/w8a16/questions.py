"""Numbers that a student of W8A16 should be able to find: bytes, the most to gain, the bytes of scales, a scale."""

from __future__ import annotations

from random import Random

from grader.labs.question import WIDTHS, Posed, Question, Trap, most_to_gain


def _bytes(random: Random) -> Posed:
    M, N, K = random.choice((1, 2, 4, 8, 16)), *random.sample(WIDTHS, 2)
    moved = 2 * M * K + N * K + 2 * N + 2 * M * N
    return Posed(
        f"A launch of W8A16 with M = {M}, N = {N}, K = {K}: how many MB must it move at least (1 MB = 10^6 bytes)? X, Y and the scales, "
        "one for each output channel, are fp16.",
        moved / 1e6,
        "MB",
        "a weight is one byte",
        traps=(
            Trap(
                (moved + N * K) / 1e6,
                "That is with two bytes per weight; an int8 weight has one, and it is converted inside the kernel.",
            ),
            Trap((moved - N * K / 2) / 1e6, "That is with half a byte per weight, which would be int4."),
        ),
    )


def _gain(random: Random) -> Posed:
    trap = "Two is the ratio of the weights' bytes: X and Y move too, and the products take time."
    return most_to_gain(random, "W8A16", 1, trap, 0.02)


def _overhead(random: Random) -> Posed:
    N, K = random.sample(WIDTHS, 2)
    group = random.choice((32, 64, 128, 256))
    scales = 2 * N * K / group
    return Posed(
        f"An int8 weight of N = {N} output channels and K = {K}. How many KB (10^3 bytes) of fp16 scales does it have with one scale for "
        f"every {group} elements of a channel?",
        scales / 1e3,
        "KB",
        "count the groups of a channel, then those of all channels; a scale has two bytes",
        tolerance=0.002,
        traps=(
            Trap(2 * N / 1e3, "That is one scale for each channel."),
            Trap(scales / 2 / 1e3, "That counts the scales; each has two bytes."),
            Trap(2 * K / group / 1e3, "Those are the scales of one channel."),
        ),
    )


def _step(random: Random) -> Posed:
    large, small = random.randint(20, 90) / 10, random.randint(2, 9) / 10
    answer = large / 127
    return Posed(
        f"A weight has two output channels. The largest magnitude in the first is {large}, in the second {small}. "
        "With one scale for the whole weight (per tensor), how far apart are neighbouring values of the second channel?",
        answer,
        "",
        "the scale of the whole weight is max|w| / 127, and neighbouring integers are one scale apart",
        tolerance=0.01,
        traps=(
            Trap(small / 127, "That is with a scale for each channel."),
            Trap(large / 255, "127 positive values and their negatives lie in -max to max: the scale is max / 127."),
            Trap(large / 127 / 2, "That is the largest rounding error, half of the distance."),
        ),
    )


QUESTIONS = (
    Question("bytes", 2, _bytes),
    Question("gain", 2, _gain),
    Question("overhead", 1, _overhead),
    Question("step", 1, _step),
)
