"""Numbers that a student of W4A16 should be able to find: bytes, the most to gain, bits a weight, a nibble."""

from __future__ import annotations

from random import Random

from grader.labs.question import WIDTHS, Posed, Question, Trap, most_to_gain


def _bytes(random: Random) -> Posed:
    M, N, K = random.choice((1, 2, 4, 8, 16)), *random.sample(WIDTHS, 2)
    moved = 2 * M * K + N * K / 2 + 2 * N + 2 * M * N
    return Posed(
        f"A launch of W4A16 with M = {M}, N = {N}, K = {K}: how many MB must it move at least (1 MB = 10^6 bytes)? X, Y and the scales, "
        "one for each output channel, are fp16.",
        moved / 1e6,
        "MB",
        "eight weights share one word of four bytes",
        traps=(
            Trap((moved + N * K / 2) / 1e6, "That is with one byte per weight; an int4 weight has half a byte."),
            Trap((moved + 1.5 * N * K) / 1e6, "That is with two bytes per weight; an int4 weight has half a byte."),
        ),
    )


def _gain(random: Random) -> Posed:
    trap = "Four is the ratio of the weights' bytes: X and Y move too, and the products take time."
    return most_to_gain(random, "W4A16", 0.5, trap, 0.03)


def _bits(random: Random) -> Posed:
    group, zeros = random.choice((16, 32, 64, 128, 256)), random.choice((True, False))
    offset = 4 if zeros else 0
    return Posed(
        f"An int4 weight has an fp16 scale{' and a zero point of 4 bits' if zeros else ' and no zero point'} for every {group} "
        "elements of a row. How many bits is that for each weight, on average?",
        4 + (16 + offset) / group,
        "bits",
        "the bits that a whole group takes, divided by its elements",
        tolerance=0.002,
        traps=(
            Trap(4.0, "That is without the scales."),
            Trap(4 + 16 / group if zeros else 4 + 20 / group, f"A group has {'a' if zeros else 'no'} zero point here."),
            Trap(4 + (2 + offset / 8) / group, "That adds bytes to bits: an fp16 scale has 16 bits."),
        ),
    )


def _nibble(random: Random) -> Posed:
    nibbles = [random.randrange(16) for _ in range(8)]
    at = random.randrange(8)
    nibbles[at] = random.randint(9, 15)  # a negative one
    nibbles[7 - at] = (nibbles[at] + random.randint(1, 6)) % 16  # another one where the order is reversed
    word = sum(nibble << (4 * i) for i, nibble in enumerate(nibbles))
    signed = [nibble - 16 * (nibble > 7) for nibble in nibbles]
    return Posed(
        f"The word 0x{word:08X} holds the weights k = 0 to 7 of a column. What is the weight k = {at}?",
        signed[at],
        "",
        "k = 0 lies in the lowest four bits; a pattern above 7 is a negative number",
        tolerance=0,
        traps=(
            Trap(nibbles[at], "That is the pattern without a sign."),
            Trap(signed[7 - at], "That counts nibbles from the left: k = 0 is in the lowest four bits."),
            Trap(nibbles[at] - 8, "That is with an offset of 8: the pattern is two's complement."),
        ),
    )


QUESTIONS = (
    Question("bytes", 2, _bytes),
    Question("gain", 2, _gain),
    Question("bits", 1, _bits),
    Question("nibble", 1, _nibble),
)
