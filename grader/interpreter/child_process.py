"""A watched launch in a process of its own, for one that compiles, or has a GPU: tensors go there as bytes, and come back changed.

    python -m grader.interpreter.child_process FOLDER

Both sides are the caller's own code. What travels is `request.npz` and `answer.npz` in a folder that only they know.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from grader.interpreter.guarded_tensor import GuardedTensor, copy_back, is_tensor
from grader.interpreter.watched_launch import Grid, WatchedLaunch, watched_launch

PATIENCE = 10
"""How much longer than its CPU time a launch may take, imports included."""

LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""What a launch takes beside the kernel's own parameters."""

Arrays = Mapping[str, np.ndarray[Any, Any]]


def launch_in_child(
    kernel: Any,
    grid: Grid,
    arguments: Mapping[str, Any],
    *,
    config: int = 0,
    empty: Sequence[str] = (),
    seconds: float = 60.0,
) -> WatchedLaunch:
    """As `watched_launch`; the tensors hold afterwards what the kernel stored.

    The kernel is found again by its file and its name, so it has to stand at the top of a module. Raises TypeError and ValueError for what
    cannot be launched, and RuntimeError when the process ended without an answer.
    """
    function, meta = kernel, dict(arguments)
    while hasattr(function, "fn"):
        if hasattr(function, "configs"):
            meta = {**function.configs[config].kwargs, **meta}
        function = function.fn
    if "." in function.__qualname__:
        raise ValueError(
            f"{function.__qualname__} is defined inside a function; define the kernel at the top of a module"
        )
    tensors = {name: value for name, value in arguments.items() if is_tensor(value)}
    guarded = [GuardedTensor.of(name, value, empty=name in empty) for name, value in tensors.items()]
    request = {
        "file": inspect.getsourcefile(function),
        "module": function.__module__,
        "kernel": function.__name__,
        "grid": list(grid(meta) if callable(grid) else grid),
        "config": config,
        "empty": list(empty),
        "seconds": seconds,
        "values": {name: value for name, value in arguments.items() if name not in tensors},
        "tensors": [[one.name, one.kind, one.shape, one.strides, one.offset] for one in guarded],
    }
    answer, after = _ask(request, {one.name: one.buffer for one in guarded}, PATIENCE * seconds)
    if answer["error"]:
        raise TypeError(answer["error"])
    changed = tuple(replace(one, buffer=after[one.name]) for one in guarded if one.name in after)
    for one in changed:
        copy_back(tensors[one.name], one.data)
    return WatchedLaunch(tuple(answer["sentences"]), tuple(answer["notes"]), changed)


def launch(
    kernel: Any,
    grid: Grid,
    *values: Any,
    empty: Sequence[str] = (),
    config: int = 0,
    seconds: float = 60.0,
    **named: Any,
) -> WatchedLaunch:
    """As kernel[grid](*values, **named), watched; what is wrong is in the result. empty: parameters of uninitialised tensors."""
    function = kernel
    while hasattr(function, "fn"):
        function = function.fn
    names = list(inspect.signature(function).parameters)
    arguments = {
        **dict(zip(names, values, strict=False)),
        **{name: value for name, value in named.items() if name not in LAUNCH_OPTIONS},
    }
    return launch_in_child(kernel, grid, arguments, config=config, empty=empty, seconds=seconds)


def _ask(request: Mapping[str, Any], buffers: Arrays, seconds: float) -> tuple[dict[str, Any], Arrays]:
    paths = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": paths}
    with tempfile.TemporaryDirectory(prefix="watched-") as folder:
        _write(Path(folder, "request.npz"), request, buffers)
        command = [sys.executable, "-m", __name__, folder]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds, check=False)
        if not Path(folder, "answer.npz").is_file():
            raise RuntimeError(f"the watched launch ended without an answer:\n{done.stderr[-4000:]}")
        return _read(Path(folder, "answer.npz"))


def module_at(path: Path, name: str) -> ModuleType:
    """The file as a module: by its name, where that leads to the file, so that relative imports work. Raises ImportError."""
    if name != "__main__":
        try:
            found = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            found = None
        if found and found.origin and Path(found.origin) == path:
            return importlib.import_module(name)
    sys.path.insert(0, str(path.parent))  # for its neighbours
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ImportError(f"found no Python file at {path}; name one as FILE:KERNEL")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _write(path: Path, header: Mapping[str, Any], arrays: Arrays) -> None:
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with path.open("wb") as file:
        np.savez(file, header=text, **{f"tensor {name}": array for name, array in arrays.items()})


def _read(path: Path) -> tuple[dict[str, Any], Arrays]:
    with np.load(path, allow_pickle=False) as held:
        arrays = {name.removeprefix("tensor "): held[name] for name in held.files if name != "header"}
        return json.loads(held["header"].tobytes()), arrays


def main(folder: Path) -> None:
    """In the child: launches what was asked for, and writes what came of it."""
    request, buffers = _read(folder / "request.npz")
    tensors = {
        name: GuardedTensor(name, kind, tuple(shape), tuple(strides), offset, buffers[name])
        for name, kind, shape, strides, offset in request["tensors"]
    }
    options = {key: request[key] for key in ("config", "empty", "seconds")}
    try:
        kernel = getattr(module_at(Path(request["file"]), request["module"]), request["kernel"])
        result = watched_launch(kernel, request["grid"], {**request["values"], **tensors}, **options)
    except (TypeError, ValueError) as error:
        _write(folder / "answer.npz", {"error": str(error)}, {})
        return
    header = {"error": "", "sentences": result.sentences, "notes": result.notes}
    _write(folder / "answer.npz", header, {one.name: one.buffer for one in result.tensors})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
