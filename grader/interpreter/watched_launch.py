"""A launch of any kernel of one's own, in this process, under the watchers. The process must interpret: TRITON_INTERPRET=1 from its start.

`grader.interpreter.pytest_plugin` and `python -m grader.interpreter` make such a process; a grader's sandbox asks `launching` itself.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from grader.interpreter.finding_text import is_harmless, sentence
from grader.interpreter.guarded_tensor import GuardedTensor, is_tensor

CAPABILITY = 90
"""The compute capability that a kernel sees when it asks for its target."""

LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""What a launch takes beside the kernel's own parameters."""

Grid = Sequence[int] | Callable[[Mapping[str, Any]], Sequence[int]]


@dataclass(frozen=True)
class WatchedLaunch:
    """What came of a launch. sentences: one for each thing that is wrong. notes: what is no mistake by itself.

    tensors: as they are afterwards; none when the launch did not end.
    """

    sentences: tuple[str, ...]
    notes: tuple[str, ...]
    tensors: tuple[GuardedTensor, ...]


def watched_launch(
    kernel: Any,
    grid: Grid,
    arguments: Mapping[str, Any],
    *,
    config: int = 0,
    empty: Sequence[str] = (),
    seconds: float = 60.0,
) -> WatchedLaunch:
    """Launches a @triton.jit function, autotuned or with heuristics or not, once over the grid.

    arguments: by name, constants among them. config: which of an autotuner's configs. empty: tensors that arrive uninitialised.
    Raises TypeError for arguments that the kernel does not take, or does not get.
    """
    from grader.interpreter import launching
    from grader.interpreter.generated_module import LoadedModule, see_gpu

    see_gpu(CAPABILITY)
    function, given = _bound(kernel, dict(arguments), config)
    tensors = {
        name: GuardedTensor.of(name, value, empty=name in empty) for name, value in given.items() if is_tensor(value)
    }
    guarded = list(tensors.values())
    known = {name for name, value in given.items() if name not in tensors and _is_known(function, name, value)}
    request = {
        "tensors": [
            {"name": one.name, "type": one.kind, "shape": one.shape, "strides": one.strides, "offset": one.offset}
            for one in guarded
        ],
        "scalars": {name: value for name, value in given.items() if name not in tensors and name not in known},
        "constants": {name: given[name] for name in known},
        "grid": [int(size) for size in (grid(given) if callable(grid) else grid)],
        "seconds": seconds,
        "unwritten": list(empty),
    }
    path = function.fn.__code__.co_filename
    answer, blobs = launching.interpret_one(
        LoadedModule(function, path), request, [one.buffer.tobytes() for one in guarded]
    )
    return _result(answer, blobs, guarded, path, empty)


def _bound(kernel: Any, arguments: dict[str, Any], config: int) -> tuple[Any, dict[str, Any]]:
    """The jit function below autotuner and heuristics, and a value for each of its parameters."""
    while type(kernel).__name__ in ("Autotuner", "Heuristics"):
        if hasattr(kernel, "configs"):
            arguments = {**kernel.configs[config].kwargs, **arguments}
        else:
            arguments |= {name: value(arguments) for name, value in kernel.values.items()}
        kernel = kernel.fn
    if type(kernel).__name__ != "InterpretedFunction":
        raise TypeError(
            f"found a {type(kernel).__name__}, expected a kernel under @triton.jit in a process that interprets"
        )
    parameters = inspect.signature(kernel.fn).parameters
    missing = [name for name, one in parameters.items() if name not in arguments and one.default is one.empty]
    unknown = [name for name in arguments if name not in parameters and name not in LAUNCH_OPTIONS]
    if missing or unknown:
        wrong = f"gets no {', '.join(missing)}" if missing else f"has no parameter {', '.join(unknown)}"
        raise TypeError(f"{kernel.fn.__name__} {wrong}; it takes {', '.join(parameters)}")
    return kernel, {name: arguments.get(name, one.default) for name, one in parameters.items()}


def _is_known(function: Any, name: str, value: Any) -> bool:
    """Whether the compiler knows the value: a constexpr, None, what is no number, and an integer that is 1."""
    from triton.runtime.jit import _normalize_ty

    return (
        "constexpr" in _normalize_ty(function.fn.__annotations__.get(name, ""))
        or not isinstance(value, (bool, int, float))
        or (type(value) is int and value == 1)
    )


def _result(
    answer: Mapping[str, Any], blobs: Sequence[bytes], guarded: Sequence[GuardedTensor], path: str, empty: Sequence[str]
) -> WatchedLaunch:
    file, shapes = os.path.relpath(path), {one.name: one.shape for one in guarded}
    said = [sentence(finding, shapes, file) for finding in answer["memory"] if not is_harmless(finding)]
    if "error" in answer:
        line = f":{answer['line']}" if answer.get("line") else ""
        said.append(f"{file}{line}: {answer['error']}: {answer['message']}")
        return WatchedLaunch(tuple(said), (), ())
    after = tuple(
        replace(one, buffer=np.frombuffer(blob, dtype=np.uint8)) for one, blob in zip(guarded, blobs, strict=False)
    )
    for one in after:
        if one.name in empty and one.poisoned and not answer["written"]:
            left = f"{one.poisoned} of {one.data.size} elements of {one.name}"
            said.append(f"{file}: {left} were never stored to; check the grid and the mask of the store")
    notes = [sentence(finding, shapes, file) for finding in answer["memory"] if is_harmless(finding)]
    notes += [
        f"{file}:{line}: the result may depend on an order that Triton leaves open ({what})"
        for what, line in answer["left_open"]
    ]
    return WatchedLaunch(tuple(said), tuple(notes), after)
