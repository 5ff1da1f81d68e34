"""Numbers that a student of GPTQ should be able to find: bits a weight, bytes, a zero point, a weight."""

from __future__ import annotations

from random import Random

from grader.labs.question import WIDTHS, Posed, Question, Trap


def _bits(random: Random) -> Posed:
    group = random.choice((16, 32, 64, 128, 256))
    return Posed(
        f"How many bits per weight do GPTQ's three tensors, qweight, scales and zeros, take with groups of {group}?",
        4 + 20 / group,
        "bits",
        "the bits that a whole group of a column takes, divided by its elements",
        tolerance=0.002,
        traps=(
            Trap(4.0, "That is qweight alone."),
            Trap(4 + 16 / group, "That is without the zero points."),
            Trap(4 + 32 / group, "A zero point has 4 bits, not 16."),
            Trap(4 + 2.5 / group, "That adds bytes to bits: a scale has 16 bits, a zero point 4."),
        ),
    )


def _bytes(random: Random) -> Posed:
    M, N, K = random.choice((1, 2, 4, 8, 16)), *random.sample(WIDTHS, 2)
    group = random.choice((32, 64, 128))
    rest, groups = 2 * M * K + 2 * M * N + N * K / 2, N * K / group
    return Posed(
        f"A launch of GPTQ_MM with M = {M}, N = {N}, K = {K} and groups of {group}: how many MB must it move at least (1 MB = 10^6 bytes)? "
        "X, Y and the scales are fp16.",
        (rest + 2.5 * groups) / 1e6,
        "MB",
        "each group of a column has two bytes of scale and half a byte of zero point",
        tolerance=0.002,
        traps=(
            Trap(rest / 1e6, "That is without scales and zeros."),
            Trap((rest + 2 * groups) / 1e6, "That is without the zeros."),
            Trap((rest + 2.5 * N) / 1e6, "That is one group for all of K."),
            Trap(
                (rest + N * K / 2 + 2.5 * groups) / 1e6,
                "That is with one byte per weight; an int4 weight has half a byte.",
            ),
        ),
    )


def _word(nibbles: list[int]) -> int:
    return sum(nibble << (4 * i) for i, nibble in enumerate(nibbles))


def _zero(random: Random) -> Posed:
    """The other places of the word hold other numbers than the asked one, so that a wrong place shows."""
    group, first = random.choice((32, 64, 128)), 8 * random.randint(1, 6)
    k, at = random.randint(3, 9) * group + random.randrange(group), random.randrange(8)
    g = k // group
    nibbles = random.sample(range(15), 8)
    while nibbles[7 - at] in (nibbles[at] + 1, nibbles[at]):
        nibbles = random.sample(range(15), 8)
    return Posed(
        f"Groups of {group}. Word {first // 8} of row {g} of the zeros is 0x{_word(nibbles):08X}. Which number is subtracted from "
        f"q at k = {k}, n = {first + at}?",
        nibbles[at] + 1,
        "",
        "the first column of a word is in its lowest nibble, the last in its highest; what is stored is one less",
        tolerance=0,
        traps=(
            Trap(nibbles[at], "That is the stored number; the one that is subtracted is larger by one."),
            Trap(nibbles[7 - at] + 1, "That counts nibbles from the left: the first column is in the lowest bits."),
        ),
    )


def _weight(random: Random) -> Posed:
    q, stored, scale = random.randint(9, 14), random.choice((2, 3, 4, 5)), random.choice((0.125, 0.25, 0.5))
    return Posed(
        f"A nibble of qweight is 0x{q:X}, the stored zero 0x{stored:X}, the scale {scale}. What is the weight?",
        (q - stored - 1) * scale,
        "",
        "the stored zero is one less than the zero point, and q is unsigned",
        tolerance=0,
        traps=(
            Trap((q - stored) * scale, "That subtracts the stored number without adding one."),
            Trap((q - 16 - stored - 1) * scale, "q is unsigned here."),
            Trap(q * scale - stored - 1, "The scale multiplies the difference."),
        ),
    )


QUESTIONS = (
    Question("bits", 1, _bits),
    Question("bytes", 2, _bytes),
    Question("zero", 2, _zero),
    Question("weight", 1, _weight),
)
