"""What is done to a model before it is timed: its Linear layers replaced, its blocks compiled."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from bench.whole.unfused import UnfusedLinear
from model.layers import replace
from model.swap import Runs, Swapped, options_of, swap
from model.transformer import linear_layers

GROUP = 128
BEST = {"max_autotune": True, "max_autotune_gemm_backends": "ATEN"}
"""Inductor's options for its fastest code. CUDA graphs are left out, since launching does not show in times this long. So are its own
templates for products: on an H200 cuBLAS won against them for each product of the encoder in fp16, after three minutes of trying.
"""

TEMPLATES = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}
"""The same with products by Inductor's Triton templates alone, which can take what follows a product into its epilogue."""

VERSIONS = 64

_names = itertools.count()


def unfuse(model: nn.Module) -> None:
    """Every Linear layer becomes dynamic int8 in three steps, in place."""
    for name, layer in linear_layers(model).items():
        replace(model, name, UnfusedLinear(layer))


def fuse(model: nn.Module, lab: str, runs: Runs = "auto") -> None:
    """Every Linear layer becomes the lab's, in place; in groups of 128 where it has groups, with half of the blocks where it is sparse."""
    options: dict[str, Any] = {"group_size": GROUP} if "group_size" in options_of(lab) else {}
    swap(model, lab, runs=runs, **options)


def as_one_operation(model: nn.Module) -> None:
    """Makes the launch in a swapped model's layers an operation that torch.compile leaves alone, so that it can compile all around it."""
    layers = [module.layer for module in model.modules() if isinstance(module, Swapped)]
    for home in {id(scope): scope for scope in (type(layer).forward.__globals__ for layer in layers)}.values():
        home["launch"] = torch.library.custom_op(f"bench_whole::launch_{next(_names)}", home["launch"], mutates_args=("y",))


def compile_blocks(blocks: Iterable[nn.Module], how: Mapping[str, Any]) -> None:
    """Compiles each block by itself, in place: blocks of one kind share their code. how: what torch.compile takes.

    What cannot be compiled raises. PyTorch's limit of versions of a function is raised too, since each way of running is one, and
    what is beyond it would run uncompiled.
    """
    torch._dynamo.config.recompile_limit = VERSIONS
    for block in blocks:
        block.compile(dynamic=False, fullgraph=True, **how)


def change(model: nn.Module, *steps: Callable[[nn.Module], None]) -> nn.Module:
    """The model after the steps, each of which changes it in place."""
    for step in steps:
        step(model)
    return model
