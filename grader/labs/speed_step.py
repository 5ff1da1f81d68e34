"""What a step towards speed is: what a lab asks a student to change, a number to predict, and how to tell that it is done.

A lab lists them in `speed_steps.py`, in the order of its notebook; without the file it has none. Nothing is timed: a step
is judged by the launch, by the compiled code and by the memory traffic that the interpreter counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from grader.model import BuildFacts, Case, Config, LoopFacts

MULTIPROCESSORS = 132
"""Of an H100 or H200 SXM. Source: NVIDIA H100 Tensor Core GPU Architecture, table 2."""

Needs = Literal["launch", "binary", "traffic"]


class Unknown(Exception):
    """A quantity cannot be told of this kernel; the message is one sentence that says why."""


Traffic = Any
"""A `grader.traffic.Traffic`: what one launch does to memory. That package knows the labs, so they cannot import it."""


@dataclass(frozen=True)
class ConfigFacts:
    """What is known of a kernel with one config on one case.

    constants: every constexpr. facts, loop: of the binary for compute capability 9.0, None before it is compiled.
    traffic: of the step's small case. fetched(resident, size): bytes of each tensor that miss in an L2 of so many bytes while so many
    programs run at a time, on that case. Both None before it was interpreted.
    """

    case: Case
    config: Config
    grid: tuple[int, int, int]
    constants: Mapping[str, object] = field(default_factory=dict)
    facts: BuildFacts | None = None
    loop: LoopFacts | None = None
    traffic: Traffic | None = None
    fetched: Callable[[int, int], Mapping[str, int]] | None = None

    @property
    def programs(self) -> int:
        """Programs of one launch."""
        return math.prod(self.grid)

    @property
    def threads(self) -> int:
        """Threads of one program."""
        return 32 * self.config.num_warps

    @property
    def built(self) -> BuildFacts:
        """The binary's facts."""
        assert self.facts is not None, "a quantity that needs a binary was asked before there was one"
        return self.facts

    @property
    def iteration(self) -> LoopFacts:
        """One iteration of the loop that multiplies. Raises Unknown where there is none."""
        if self.loop is None:
            raise Unknown(
                "the compiler made no loop with a matrix instruction; multiply with tl.dot inside the loop along K"
            )
        return self.loop

    @property
    def counted(self) -> Traffic:
        """The traffic of the step's small case."""
        assert self.traffic is not None, "a quantity that needs traffic was asked before it was counted"
        return self.traffic

    def missed(self, tensor: str, resident: int, size: int) -> int:
        """Bytes of a tensor that miss in an L2 of `size` bytes, while `resident` programs run at a time."""
        assert self.fetched is not None, "a quantity that needs traffic was asked before it was counted"
        return self.fetched(resident, size)[tensor]

    def size(self, name: str) -> int:
        """A tile size by its name in the kernel. Raises Unknown where the kernel has no such parameter."""
        value = self.constants.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise Unknown(f"{self.config} has no {name}; give the tile size that name, as the kernel's docstring does")
        return value

    @property
    def iterations(self) -> int:
        """Iterations of the loop along K in one program."""
        return -(-self.case.K // (self.size("BLOCK_K") * self.config.split_k))


@dataclass(frozen=True)
class Quantity:
    """A number about a kernel, and what must be there before it can be told."""

    needs: Needs
    of: Callable[[ConfigFacts], float]


@dataclass(frozen=True)
class Demand:
    """A quantity within limits. met, unmet: the sentences for it, with {found} and {limit} for the numbers."""

    quantity: Quantity
    met: str
    unmet: str
    at_least: float = -math.inf
    at_most: float = math.inf

    def holds(self, found: float) -> bool:
        """Whether a number that was found is within the limits."""
        return self.at_least <= found <= self.at_most

    def sentence(self, found: float) -> str:
        """What is said of it."""
        limit = self.at_least if math.isfinite(self.at_least) else self.at_most
        text = self.met if self.holds(found) else self.unmet
        return text.format(found=shown(found), limit=shown(limit))


@dataclass(frozen=True)
class SpeedStep:
    """One step towards speed.

    name: what `check(lab, speed=name)` calls it. case: the speed case whose launch is looked at. question: what to
    predict, one number; quantity: the answer. demands: all must hold with one and the same config. hint: where to look;
    code: what to write, "" where the hint says it. right: a sentence once it is done. rungs: the steps of the ladder
    before and after it, by their file names in solutions/ladder without ".py", or "solution". shapes: the shapes of the
    benchmark on which their times are told.
    small: the case that is interpreted to count traffic, where a quantity needs it. prefer: configs with a higher value are looked
    at first. about_now: the question is about the kernel before the step is done, and not after it.
    """

    name: str
    case: str
    question: str
    quantity: Quantity
    demands: tuple[Demand, ...]
    hint: str
    right: str
    rungs: tuple[str, str]
    shapes: tuple[str, ...]
    code: str = ""
    small: Case | None = None
    prefer: Callable[[ConfigFacts], float] = lambda facts: 0.0
    about_now: bool = False


def shown(value: float) -> str:
    """A number as a sentence shows it: whole ones with thousands apart, others with three digits."""
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:.3g}"


launched, compiled, counted = partial(Quantity, "launch"), partial(Quantity, "binary"), partial(Quantity, "traffic")
"""Quantities that the launch alone tells, that the binary does, and that the traffic of the small case does."""


def tile_size(facts: ConfigFacts) -> float:
    """Elements of the tile that a program makes: to prefer configs for many tokens. 0 without BLOCK_M and BLOCK_N."""
    sizes = [facts.constants.get(name) for name in ("BLOCK_M", "BLOCK_N")]
    return math.prod(size if isinstance(size, int) else 0 for size in sizes)


PROGRAMS = launched(lambda facts: facts.programs)
FILLS_THE_GPU = Demand(
    PROGRAMS,
    "{found} programs, so that each of the {limit} multiprocessors of an H200 has work.",
    "{found} programs for the {limit} multiprocessors of an H200: the others idle.",
    at_least=MULTIPROCESSORS,
)
ON_WARP_GROUPS = Demand(
    compiled(lambda facts: facts.built.matrix_instruction in ("wgmma", "tcgen05")),
    "tl.dot became wgmma, which feeds Hopper's tensor cores at their full rate.",
    "tl.dot did not become wgmma: it multiplies at least 64 rows of the first operand, with at least 4 warps.",
    at_least=1,
)
NO_MATRIX_INSTRUCTION = Demand(
    compiled(lambda facts: facts.built.matrix_instruction != "none"),
    "No matrix instruction: the product is computed element by element.",
    "tl.dot became a matrix instruction, which multiplies 16 rows or more at a time; only one of them is your token.",
    at_most=0,
)
NO_SPILLS = Demand(
    compiled(lambda facts: facts.built.spill_bytes),
    "Nothing spills: the tile fits in registers.",
    "{found} bytes per thread spill to memory: take a smaller tile, or more warps for it.",
    at_most=0,
)
NOT_SPLIT = Demand(
    launched(lambda facts: facts.config.split_k),
    "K is not split among programs, so Y is neither zeroed first nor added to.",
    "SPLIT_K is {found}: Y is zeroed before the launch, and every slice adds to it with atomics. Both take time.",
    at_most=1,
)
WORDS_ONCE = Demand(
    counted(lambda facts: facts.counted.tensors["qweight_ptr"].mean_reads),
    "Each word of qweight is loaded once.",
    "Each word of qweight is loaded {found} times.",
    at_most=1,
)
SHARED_STORES = compiled(lambda facts: facts.iteration.shared_store_bytes * facts.threads)
"""Bytes that one program stores in shared memory in one iteration."""
SPLIT_HINT = "give a config a SPLIT_K above 1: so many programs share a tile of Y, and each sums its own part of K"
SPLIT_CODE = (
    "program_id(1) starts at its own BLOCK_K and steps by BLOCK_K * SPLIT_K, and tl.atomic_add joins the slices in a Y that arrives "
    "zeroed; for SPLIT_K == 1 keep the plain store, since Y is not zeroed then"
)
