"""What a lab is: the contract of its kernel, its cases, its inputs and its reference.

A new lab is a folder beside this file whose `lab.py` defines `LAB`. Nothing else has to know it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import torch

from grader.labs.inputs import laid_out
from grader.labs.projection import Projected, Stack
from grader.model import Case, Config, Constant, Parameter, Problem, Reference

Grid = tuple[int, ...]
TILE_NAMES = {
    "M": ("BLOCK_M", "BLOCK_SIZE_M", "BM", "TILE_M", "BLOCK_SIZE_ROW"),
    "N": ("BLOCK_N", "BLOCK_SIZE_N", "BN", "TILE_N", "BLOCK_SIZE_COL"),
    "K": ("BLOCK_K", "BLOCK_SIZE_K", "BK", "TILE_K"),
}
"""Usual names of tile sizes, by axis."""


def tile_of(config: Config, axis: str) -> int | None:
    """The config's tile along M, N or K, by the usual names; None without one."""
    sizes = (config.constants.get(name) for name in TILE_NAMES[axis])
    return next((size for size in sizes if isinstance(size, int) and not isinstance(size, bool) and size > 0), None)


class Launchable(Protocol):
    """What must be known about a kernel to launch it and to describe its memory accesses. A Lab is one; so is a notebook's step."""

    @property
    def parameters(self) -> tuple[Parameter, ...]: ...

    @property
    def constants(self) -> Mapping[str, Constant]: ...

    @property
    def output(self) -> str: ...

    @property
    def split_k(self) -> bool: ...

    def hides(self, case: str) -> bool:
        """Whether students learn nothing of this case but its verdict."""


def cdiv(a: int, b: int) -> int:
    """Ceiling division, as triton.cdiv."""
    return -(-a // b)


def taller(case: Case) -> Case:
    """A case of twice the rows, that is never launched: a persistent kernel has as many programs of both."""
    return replace(case, name=f"{case.name}_taller", M=2 * case.M)


def integers(names: str) -> tuple[Parameter, ...]:
    """A kernel's integer parameters (sizes and strides), from a string of names separated by spaces."""
    return tuple(Parameter(name, "int") for name in names.split())


def tiled_grid(M: int, N: int, K: int, meta: Mapping[str, Constant]) -> Grid:
    """(cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N), SPLIT_K): one program per tile of Y and slice of K."""
    split_k = meta.get("SPLIT_K", 1)
    tiles = cdiv(M, _size(meta, "BLOCK_M")) * cdiv(N, _size(meta, "BLOCK_N"))
    return (tiles, split_k if isinstance(split_k, int) else 1)


def _size(meta: Mapping[str, Constant], name: str) -> int:
    value = meta[name]
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is {value!r}, expected a positive int")
    return value


def dense_operations(problem: Problem) -> int:
    """2 M N K: every element of Y is a sum over all of K."""
    return 2 * problem.scalars["M"] * problem.scalars["N"] * problem.scalars["K"]


def bytes_once(problem: Problem) -> int:
    """The bytes of all tensors: each input read once, Y written once."""
    return sum(tensor.numel() * tensor.element_size() for tensor in problem.tensors.values())


def block_row_grid(M: int, N: int, K: int, meta: Mapping[str, Constant]) -> Grid:
    """(cdiv(M, BLOCK_M), N // BLOCK): one program per row tile of X and block row of W."""
    return (cdiv(M, _size(meta, "BLOCK_M")), N // _size(meta, "BLOCK"))


@dataclass(frozen=True)
class Lab:
    """One lab.

    scalars(case): the kernel's integers for a case: sizes and strides in elements.
    inputs(case, generator, device): inputs of a case, drawn from `generator` on `device`: a tensor for each pointer parameter but Y.
    reference(problem, roundings): the fp64 answer and its bound; `roundings` is how many slices of K are added in
        fp16 to an output element (grader.labs.slices).
    baseline_weight(problem): the dense fp16 weight [N, K] that cuBLAS multiplies with in the speed cases.
    timed_inputs(case, generator, device, launches, rare): the inputs of `launches` launches of a speed case. They are drawn
        again before every replay, so draw them with few operations on stacked tensors. The same generator must give the same
        bits. Shapes, sparsity and cost must not vary between draws; the values include the traps of the correctness cases
        (outliers, saturating scales, extreme integers). With `rare`, also the traps that would change a launch's time: such
        draws are checked, not timed (`rare_inputs`: whether the lab has any). The function is captured in a CUDA graph, so it
        must not synchronise or branch on values.
    project(stack, signs): products of such inputs with random signs, float [N, P] of +1 and -1, and bounds; see projection.py.
        Captured as well.
    default_grid(M, N, K, meta): the grid if the student defines none; raises KeyError for a missing meta-parameter,
        ValueError for an unusable one.
    bytes_moved(problem): fewest bytes that one launch can move.
    operations(problem): tensor-core operations of one launch, two per multiply-add, on operands of type `operand`.
    split_k: whether a config's SPLIT_K means slices of K that are added in fp16 to a Y that arrives zeroed.
    blind: cases in which Y is zero whatever the kernel multiplies, each with a sentence on what it checks nevertheless.
    bonus: its points do not count towards the course's, and a submission without it loses nothing.
    """

    id: str
    order: int
    title: str
    kernel: str
    layer: str
    parameters: tuple[Parameter, ...]
    cases: tuple[Case, ...]
    speed_cases: tuple[Case, ...]
    scalars: Callable[[Case], dict[str, int]]
    inputs: Callable[[Case, torch.Generator, torch.device], dict[str, torch.Tensor]]
    reference: Callable[[Problem, int], Reference]
    baseline_weight: Callable[[Problem], torch.Tensor]
    timed_inputs: Callable[[Case, torch.Generator, torch.device, int, bool], Stack]
    project: Callable[[Stack, torch.Tensor], Projected]
    bytes_moved: Callable[[Problem], int] = bytes_once
    operations: Callable[[Problem], int] = dense_operations
    default_grid: Callable[[int, int, int, Mapping[str, Constant]], Grid] = tiled_grid
    default_grid_text: str = "(cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N), meta.get('SPLIT_K', 1))"
    operand: Literal["fp16", "int8"] = "fp16"
    split_k: bool = True
    constants: Mapping[str, Constant] = field(default_factory=dict)
    output: str = "y_ptr"
    rare_inputs: bool = False
    blind: Mapping[str, str] = field(default_factory=dict)
    bonus: bool = False

    @property
    def grid(self) -> str:
        """Name of the student's grid function."""
        return f"{self.kernel}_grid"

    @property
    def all_cases(self) -> tuple[Case, ...]:
        return self.cases + self.speed_cases

    @property
    def timed(self) -> str:
        """The name of the last public timed case, "" without one: a report says what a config is as that launches it."""
        return next((case.name for case in reversed(self.speed_cases) if not case.hidden), "")

    def problem(self, case: Case, generator: torch.Generator, device: torch.device) -> Problem:
        """A case made concrete, its inputs drawn from `generator` on `device`."""
        y = laid_out(torch.zeros(case.M, case.N, dtype=torch.float16, device=device), case.y_layout)
        return Problem({**self.inputs(case, generator, device), self.output: y}, self.scalars(case))

    def stacked_problem(self, case: Case, stack: Stack, number: int) -> Problem:
        """One launch of a stack as a Problem with its own output."""
        tensors = {name: tensor[number] for name, tensor in stack.items()}
        y = next(iter(tensors.values())).new_zeros(case.M, case.N, dtype=torch.float16)
        return Problem({**tensors, self.output: y}, self.scalars(case))

    def hides(self, case: str) -> bool:
        """Whether a case is hidden."""
        return any(known.hidden for known in self.all_cases if known.name == case)

    def case(self, name: str) -> Case:
        return next(case for case in self.all_cases if case.name == name)
