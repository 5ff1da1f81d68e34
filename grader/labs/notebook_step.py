"""What a step is: a small @triton.jit function that a notebook asks for, and how to tell whether it is right.

A notebook's steps are listed in the order of the notebook. The check runs `harness` once on Triton's interpreter; it
calls the student's function and stores what came back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

Inputs = Mapping[str, "torch.Tensor | int"]
"""A tensor for each pointer parameter of the harness but the last, out_ptr, and an int for each other parameter."""


@dataclass(frozen=True)
class Step:
    """One step of a notebook.

    name: what `check(notebook, step=name)` calls it. function: name of the student's function. result: what is compared,
    in a word. returns: what the function gives back, as Triton would say it, such as "fp16 [16, 32]"; "" for nothing, or
    for several values. right: a sentence when it is right. hint: where to look when it is not, in words; code: what to write, which
    is shown at the third try.
    harness: source of `@triton.jit def harness(...)`, whose parameters are named as `inputs` has them, then out_ptr;
    `stored` writes its end. grid: how many programs run it.
    inputs(generator): its arguments, on the host. expected(inputs): what ends in out_ptr; its shape and dtype are
    those of the output. tolerance(inputs): how far an element may be off, None for not at all.
    sizes: the shape of an input in the words of the step, where that says more than its numbers.
    """

    name: str
    function: str
    result: str
    right: str
    hint: str
    code: str
    harness: str
    inputs: Callable[[torch.Generator], Inputs]
    expected: Callable[[Inputs], torch.Tensor]
    tolerance: Callable[[Inputs], torch.Tensor] | None = None
    returns: str = ""
    grid: tuple[int, int, int] = (1, 1, 1)
    sizes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


DTYPES = {"fp16": "float16", "fp32": "float32", "int8": "int8", "int32": "int32"}


def stored(name: str, returns: str, *, at: str = "out_ptr") -> str:
    """The end of a harness: demands that the variable `name` is what `returns` says, and stores it row by row from `at` on."""
    dtype, _, shape = returns.partition(" ")
    sizes = [int(size) for size in shape.strip("[]").split(",")]
    demands = [f"{name}.dtype == tl.{DTYPES[dtype]}", f"len({name}.shape) == {len(sizes)}"]
    demands += [f"{name}.shape[{axis}] == {size}" for axis, size in enumerate(sizes)]
    offsets = f"tl.arange(0, {sizes[-1]})"
    if len(sizes) == 2:
        offsets = f"tl.arange(0, {sizes[0]})[:, None] * {sizes[1]} + {offsets}[None, :]"
    lines = [f"tl.static_assert({demand})" for demand in demands]
    return "".join(f"    {line}\n" for line in [*lines, f"tl.store({at} + {offsets}, {name})"])


def tensor(inputs: Inputs, name: str) -> torch.Tensor:
    """A tensor among the inputs."""
    value = inputs[name]
    assert isinstance(value, torch.Tensor)
    return value


def integer(inputs: Inputs, name: str) -> int:
    """An int among the inputs."""
    value = inputs[name]
    assert isinstance(value, int)
    return value


def normal(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """fp32 of mean 0 and variance 1, the same bits on every machine; those of torch.randn depend on the processor's instructions."""
    return torch.randint(-1024, 1024, (3, *shape), generator=generator).sum(dim=0).float() / 1024


def padded(values: torch.Tensor, *shape: int, beyond: float = 0) -> torch.Tensor:
    """A matrix in the corner of a larger one, which holds `beyond` elsewhere: zeros that a mask gave, or an infinite tolerance."""
    larger = values.new_full(shape, beyond)
    larger[: values.shape[0], : values.shape[1]] = values
    return larger


def sum_tolerance(expected: torch.Tensor, least: float = 1e-4) -> torch.Tensor:
    """An fp32 sum in any order."""
    return least + 1e-5 * expected.double().abs()


def apart(values: torch.Tensor) -> torch.Tensor:
    """The same values [M, K] in every other column of a wider tensor, so that no stride is what one would guess."""
    rows, columns = values.shape
    wide = values.new_zeros(rows, 2 * columns + 8)
    wide[:, : 2 * columns : 2] = values
    return wide[:, : 2 * columns : 2]


def column_scales(
    offsets: str, rows: int, columns: int, *, sums: float, divisor: float, raised: float, lowered: float
) -> Step:
    """The last step of a kernel whose weight has one scale for each column: the fp32 sums times the scales, as fp16.

    offsets: the first lines of the harness, which name `rows` and `columns`. sums, divisor: how large the sums are, and how small the
    scales. raised, lowered: factors by which every fourth column's sums are larger, beyond fp16's range, and its scale is smaller.
    """

    def inputs(generator: torch.Generator) -> Inputs:
        acc = sums * normal(generator, rows, columns)
        scales = (torch.rand(columns, generator=generator) + 0.5) / divisor
        acc[:, ::4] *= raised
        scales[::4] /= lowered
        return {"acc_ptr": acc, "scales_ptr": scales.to(torch.float16)}

    def scaled(inputs: Inputs) -> torch.Tensor:
        return (tensor(inputs, "acc_ptr").double() * tensor(inputs, "scales_ptr").double()[None, :]).to(torch.float16)

    y = f"fp16 [{rows}, {columns}]"
    return Step(
        name="epilogue",
        function="apply_scales",
        result="y",
        returns=y,
        right="One multiplication per element of Y, none in the loop, and no product was rounded before the sum.",
        hint="a sum may not fit fp16, so scale it in fp32, once; each column has its own scale",
        code="(acc * scales.to(tl.float32)[None, :]).to(tl.float16)",
        harness=f"""
@triton.jit
def harness(acc_ptr, scales_ptr, out_ptr):{offsets}
    acc = tl.load(acc_ptr + rows[:, None] * {columns} + columns[None, :])
    y = apply_scales(acc, tl.load(scales_ptr + columns))
{stored("y", y)}""",
        inputs=inputs,
        expected=scaled,
        tolerance=lambda inputs: scaled(inputs).double().abs() * 2.0**-9,
    )
