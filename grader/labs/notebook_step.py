"""What a step is: a small @triton.jit function that a lab's notebook asks for, and how to tell whether it is right.

A lab lists its steps in `steps.py`, in the order of its notebook. The check runs `harness` once on Triton's
interpreter; it calls the student's function and stores what came back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

Inputs = Mapping[str, torch.Tensor | int]
"""A tensor for each pointer parameter of the harness but the last, out_ptr, and an int for each other parameter."""


@dataclass(frozen=True)
class Slip:
    """A mistake that is easily made in a step.

    what: completes "the result is ...". imitate(inputs): the result with this mistake.
    """

    what: str
    imitate: Callable[[Inputs], torch.Tensor]


@dataclass(frozen=True)
class Step:
    """One step of a lab's notebook.

    name: what `check(lab, step=name)` calls it. function: name of the student's function. result: what the function
    returns, in a word. right: a sentence when it is right. look: where to look when it is not.
    harness: source of `@triton.jit def harness(...)`, whose parameters are named as `inputs` has them, then out_ptr.
    inputs(generator): its arguments, on the host. expected(inputs): what ends in out_ptr; its shape and dtype are
    those of the output. tolerance(inputs): how far an element may be off, None for not at all.
    """

    name: str
    function: str
    result: str
    right: str
    look: str
    harness: str
    inputs: Callable[[torch.Generator], Inputs]
    expected: Callable[[Inputs], torch.Tensor]
    tolerance: Callable[[Inputs], torch.Tensor] | None = None
    slips: tuple[Slip, ...] = field(default=())


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
