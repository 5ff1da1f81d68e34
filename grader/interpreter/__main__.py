"""`python -m grader.interpreter FILE:KERNEL [NAME=VALUE ...]`: launches your own kernel once, checked, and prints what is wrong.

A VALUE is a number, None, or a tensor such as `fp16[128,64]`, filled with random numbers; prefix `empty:`, `zeros:` or `ones:` for
other contents, append strides as in `int8[64,128]@1,64`. Without any VALUE, the function KERNEL_arguments of the file is called: it
returns them in a dict, tensors of NumPy or PyTorch among them, and the grid: a tuple, or a function of the arguments.

Exit status: 0 nothing was found, 1 something was, 2 invalid arguments.
"""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton

import argparse
import ast
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

TENSOR = re.compile(r"(?:(random|empty|zeros|ones):)?(\w+)\[([\d,\s]*)\](?:@([\d,\s]+))?")
TYPES = {
    "fp16": "f2", "fp32": "f4", "fp64": "f8", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "bool": "?",
}  # fmt: skip


class UnusableArgument(Exception):
    """The arguments cannot be used; the message is a sentence."""


def value_of(text: str, random: np.random.Generator) -> tuple[Any, bool]:
    """An argument from the command line, and whether it is a tensor that arrives empty. Raises UnusableArgument."""
    found = TENSOR.fullmatch(text)
    if not found:
        try:
            return ast.literal_eval(text), False
        except (ValueError, SyntaxError):
            raise UnusableArgument(
                f"found {text!r}, expected a number, None or a tensor such as fp16[128,64]"
            ) from None
    fill, kind, sizes, steps = found.groups()
    if kind not in TYPES:
        raise UnusableArgument(
            f"found the type {kind}, expected one of {', '.join(TYPES)}; for others write KERNEL_arguments"
        )
    shape, dtype = _numbers(sizes), np.dtype(TYPES[kind])
    strides = _numbers(steps) if steps else tuple(math.prod(shape[at + 1 :]) for at in range(len(shape)))
    if len(strides) != len(shape):
        raise UnusableArgument(
            f"found {len(strides)} strides for {len(shape)} dimensions in {text!r}; give one for each"
        )
    extent = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    tensor = np.lib.stride_tricks.as_strided(
        np.zeros(extent, dtype), shape, tuple(step * dtype.itemsize for step in strides)
    )
    if fill == "ones":
        tensor[...] = 1
    elif fill in (None, "random"):
        tensor[...] = (
            random.standard_normal(shape)
            if dtype.kind == "f"
            else random.integers(0, 2 if dtype.kind == "b" else 8, shape)
        )
    return tensor, fill == "empty"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m grader run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kernel", metavar="FILE:KERNEL")
    parser.add_argument("arguments", metavar="NAME=VALUE", nargs="*")
    parser.add_argument("--grid", default="", help="programs along each axis, as 4,8")
    parser.add_argument("--config", type=int, default=0, help="which of an autotuner's configs")
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU time that the launch may take")
    return parser


def _given(module: ModuleType, name: str, options: argparse.Namespace) -> tuple[dict[str, Any], Any, list[str]]:
    """The arguments, the grid, and which tensors arrive empty."""
    grid: Any = _numbers(options.grid)
    if not options.arguments:
        function = getattr(module, f"{name}_arguments", None)
        if function is None:
            raise UnusableArgument(
                f"found no arguments; give NAME=VALUE, or write {name}_arguments() in {Path(str(module.__file__)).name}"
            )
        arguments, own = function()
        return dict(arguments), grid or own, []
    random, arguments, empty = np.random.default_rng(0), {}, []
    for text in options.arguments:
        key, equals, value = text.partition("=")
        if not equals:
            raise UnusableArgument(f"found {text!r}, expected NAME=VALUE")
        arguments[key], arrives_empty = value_of(value, random)
        empty += [key] * arrives_empty
    if not grid:
        raise UnusableArgument("found no grid; give --grid X, --grid X,Y or --grid X,Y,Z")
    return arguments, grid, empty


def main(words: Sequence[str] | None = None) -> int:
    """Parses, launches, prints."""
    from grader.interpreter.child_process import module_at
    from grader.interpreter.watched_launch import watched_launch

    options = _options().parse_args(words)
    file, _, name = options.kernel.rpartition(":")
    try:
        module = module_at(Path(file).resolve(), "__main__")
        if not hasattr(module, name):
            raise UnusableArgument(f"found no {name} in {file}")
        arguments, grid, empty = _given(module, name, options)
        result = watched_launch(
            getattr(module, name), grid, arguments, config=options.config, empty=empty, seconds=options.seconds
        )
    except (UnusableArgument, ImportError, TypeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    for text in (*result.sentences, *(f"note: {note}" for note in result.notes)):
        print(text)
    if not result.sentences:
        print("nothing found: no access out of bounds, no race, no broken promise")
    return 1 if result.sentences else 0


if __name__ == "__main__":
    sys.exit(main())
