"""Validates a lab's definition: sentences on what it lacks. A lab that lacks something is refused when labs are looked up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import gcd

from grader.labs.contract import Lab, cdiv, dense_operations

TAILS = 512
"""The deepest tile for which a case of all configs must end inside a tile after several steps."""
STEPS = 2
ODD = {
    ("x_layout", "odd_slice"): 1, ("x_layout", "column_slice"): 1, ("x_layout", "every_other"): 1, ("x_layout", "transposed_gaps"): 1,
    ("x_layout", "transposed"): 128, ("y_layout", "odd_slice"): 1,
}  # fmt: skip
"""Layouts that tell what takes X's rows or columns to be adjacent, or rows to begin at a multiple of 16 bytes; of more tokens than so
many: where X is transposed a kernel may take another way, which has to find its rows too."""
FEW_TOKENS = ((1, 1), (2, 3), (4, 7), (8, 15))
TIMES_TIMED = 2
"""A case has a K of more than so many times the longest timed one, lest a loop that ends too early is missed."""
TOGETHER = ({"M": 128, "N": 1024}, {"M": 128, "K": 1024}, {"N": 1024, "K": 1024})
"""Sizes that a case exceeds together."""
MANY_TILES = ({"M": 512, "N": 512},)
"""The same of the course's labs: 17 thousand programs of GPTQ's solution, a row of 16 columns each, would not end in time."""
FOR_EACH_CONFIG = ({"M": 300}, {"N": 1024}, {"M": 16, "K": 1024})
"""Those that a case of all configs does."""
FOR_MOST_CONFIGS = ({"M": 1024, "N": 256},)
"""Those that one of most configs does: tiles in groups, of which the last has fewer."""
DIVIDED_BY = {"M": (16, 32, 64), "N": (8, 16, 32, 64), "K": (8, 16, 32, 64, 128)}
"""A mask that is left out where this divides a size is missed by larger tiles: a case of all configs has an odd multiple of it."""
WIDE = 128
"""An odd multiple of this and more may be that of a case of most configs."""
TILE = 128
"""Rows and columns of the tiles of which a persistent kernel's programs make several each; columns where the lab's blocks do not say."""
SM_COUNT = 132
"""Programs of a persistent kernel on an H100 or H200: a count of columns' tiles without a factor of it gives a program several columns."""
EVEN = {"M": 128, "N": 256, "K": 512}
"""What is done where tiles divide a size is seen on two tiles of this and more, in a case of all configs or of most; M and N in one."""
DEPTH = 32
"""No tile is less deep, but for the smallest."""
APART = {"M": 6, "N": 5, "K": 4}
"""How many times the next smaller of the cases' sizes a size is at most, from `APART_FROM` on, lest a range of sizes meets no case."""
APART_FROM = 128
MOST_PRODUCTS = 24_000_000
"""Of a case: GPTQ programs of one row each, one after the other, made 25 million in the 24 s that a launch has on the interpreter."""
MOST_ELEMENTS = 320_000
"""Of a case's Y: of 517 x 1040, with a K of 32, right kernels whose programs make a row, or a few elements, did not end in that time."""


def validate_lab(lab: Lab, folder: str) -> Iterator[str]:
    """What the lab in labs/<folder> lacks, a sentence each; nothing for a sound one."""
    if lab.id != folder:
        yield f"LAB.id is {lab.id!r}, expected the folder's name {folder!r}; rename one of them"
    names = [case.name for case in lab.all_cases]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"two cases are called {name!r}; names of cases are points and results: give one another name"
    parameters = [parameter.name for parameter in lab.parameters]
    if lab.output not in parameters:
        yield f"its output {lab.output!r} is not a parameter of {lab.kernel}; add it to `parameters`"
    for name in ("M", "N", "K"):
        if name not in parameters:
            yield f"{lab.kernel} has no parameter {name}; the grid and the report need M, N and K"
    for case in lab.all_cases:
        missing = set(lab.scalars(case)) - set(parameters)
        if missing:
            yield f"scalars({case.name}) has {sorted(missing)}, which are not parameters of {lab.kernel}; add or rename them"
            break
    always = replace(lab, cases=tuple(case for case in lab.cases if case.configs != "few"))
    for rule in (
        _hard_enough,
        _large_and_few,
        _large_together,
        _in_time,
        _of_every_kind,
        _of_whole_tiles,
        _of_every_layout,
    ):
        yield from rule(always)
    yield from _of_persistent_kernels(lab)
    if not lab.speed_cases:
        yield "it has no speed case; add at least one to `speed_cases`"


def _hard_enough(lab: Lab) -> Iterator[str]:
    """Every config meets everything (docs/tolerance.md): the cases of all configs are the hardest."""
    every = [case for case in lab.cases if case.configs == "all"]
    if not every:
        yield 'no case has configs="all", so a config could be wrong unseen; add `every_config` as in the other labs'
        return
    if not any(case.x_layout != "contiguous" for case in every) or not any(
        case.y_layout != "contiguous" for case in every
    ):
        yield "its cases of all configs have X and Y contiguous; give them x_layout and y_layout of strided views"
    if not any(case.M % 16 for case in every):
        yield "its cases of all configs have M a multiple of 16; take an M that no tile divides"
    longest = max(case.K for case in every)
    if longest <= max([STEPS * TAILS, *(case.K for case in lab.speed_cases)]):
        yield f"its cases of all configs have K of at most {longest}, no longer than timed ones or a loop of few steps; take a longer K"


def _large_and_few(lab: Lab) -> Iterator[str]:
    """What is wrong for few tokens, for the smallest or for large sizes is wrong in a case."""
    for size in ("N", "K"):
        lengths = [getattr(case, size) for case in lab.cases]
        if min(lengths) > gcd(*lengths):
            yield f"no case has {size} = {gcd(*lengths)}, which divides all others: the smallest that there is; give one such a size"
    long = TIMES_TIMED * max([0, *(case.K for case in lab.speed_cases)])
    if max(case.K for case in lab.cases) <= long:
        yield f"no case has K > {long}, {TIMES_TIMED} times the longest timed one; give one such a K"
    for low, high in FEW_TOKENS:
        if not any(low <= case.M <= high for case in lab.cases):
            yield f"no case has {low} to {high} tokens; give one such an M"


def _large_together(lab: Lab) -> Iterator[str]:
    """What is wrong where two sizes are large at once is wrong in a case."""
    every = [case for case in lab.cases if case.configs == "all"]
    most = [case for case in lab.cases if case.configs != "one"]
    kinds = (
        (lab.cases, "case", TOGETHER if lab.bonus else (*MANY_TILES, *TOGETHER)),
        (every, "case of all configs", FOR_EACH_CONFIG),
        (most, "case of most configs", FOR_MOST_CONFIGS),
    )
    for cases, kind, wanted in kinds:
        for sizes in wanted:
            if not any(all(getattr(case, size) > least for size, least in sizes.items()) for case in cases):
                yield f"no {kind} has {' and '.join(f'{size} > {least}' for size, least in sizes.items())}; enlarge one"


def _in_time(lab: Lab) -> Iterator[str]:
    """A right kernel of small programs ends in time."""
    for case in lab.cases if lab.operations is dense_operations else ():
        if case.M * case.N * case.K > MOST_PRODUCTS:
            yield f"{case.name} has {case.M} x {case.N} x {case.K} products, more than the interpreter does in time; shrink one"
        if case.M * case.N > MOST_ELEMENTS:
            yield f"{case.name} has {case.M} x {case.N} elements of Y, more than small programs make in time on the interpreter; shrink one"


def _of_every_kind(lab: Lab) -> Iterator[str]:
    """A config without a mask where a tile does not divide is wrong in a case, and so is what is wrong for a range of one size."""
    every = [case for case in lab.cases if case.configs == "all"]
    most = [case for case in lab.cases if case.configs in ("all", "most")]
    for size, divisors in DIVIDED_BY.items():
        unit = gcd(*(getattr(case, size) for case in lab.cases))
        for divisor in divisors:
            if divisor % unit == 0 and not any(
                getattr(case, size) % (2 * divisor) == divisor for case in (most if divisor >= WIDE else every)
            ):
                yield f"no case of all configs has as {size} an odd multiple of {divisor}, where a mask may be missing; change one"
    for size, apart in APART.items():
        sizes = sorted({max(APART_FROM, getattr(case, size)) for case in lab.cases})
        for smaller, larger in pairwise([APART_FROM, *sizes]):
            if larger > apart * smaller:
                yield f"no case has {size} between {smaller} and {larger}; change one, so that each is at most {apart} times the one before"


def _of_every_layout(lab: Lab) -> Iterator[str]:
    """What is wrong where rows or columns lie otherwise is wrong in a case."""
    for (side, layout), tokens in ODD.items():
        if not any(getattr(case, side) == layout for case in lab.cases if tokens < case.M):
            yield f"no case has {side}={layout!r} and M > {tokens}; give one that layout"
    if not any(case.x_layout == "contiguous" for case in lab.cases if case.M == 1):
        yield "no case has one contiguous token, for which a kernel may take another way; give one"


def _of_whole_tiles(lab: Lab) -> Iterator[str]:
    """What is wrong only where every tile is whole, or whole but for K's end, is wrong in a case."""
    every = [case for case in lab.cases if case.configs in ("all", "most")]
    if lab.operations is dense_operations and not any(
        case.M % EVEN["M"] == case.N % EVEN["N"] == 0 < case.K % DEPTH for case in every
    ):
        yield f"no case of all or most configs has whole tiles in M and N ({EVEN['M']} x {EVEN['N']}) and a K that ends inside one; add it"
    for sizes in (("M", "N"), ("K",)) if lab.operations is dense_operations else ():
        if not any(
            all(getattr(case, size) % EVEN[size] == 0 < getattr(case, size) // EVEN[size] - 1 for size in sizes)
            for case in every
        ):
            multiples = " and ".join(f"{size} a multiple of {EVEN[size]}, {2 * EVEN[size]} or more" for size in sizes)
            yield f"no case of all or most configs has {multiples}; give one such sizes"


def _of_persistent_kernels(lab: Lab) -> Iterator[str]:
    """What is wrong in a program's second tile, or in one of other columns, is wrong in a case, whatever the tiles' size."""
    block = lab.constants.get("BLOCK")
    width = block if isinstance(block, int) else TILE
    for case in lab.cases:
        columns = cdiv(case.N, width)
        if case.configs == "few" and columns > 1 == gcd(columns, SM_COUNT) and columns * cdiv(case.M, TILE) > SM_COUNT:
            return
    yield (
        f'no case has configs="few" and more than {SM_COUNT} tiles of {TILE} x {width}, in a number of columns that has no factor '
        "in common with it, where persistent kernels alone make several tiles each; give one"
    )
