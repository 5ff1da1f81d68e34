"""A watched launch in a process of its own, for one that compiles, or has a GPU: tensors go there as bytes, and come back changed.

    python -m grader.interpreter.child_process FOLDER

Both sides are the caller's own code. What travels is pickled, as `request` and `answer` in a folder that only they know.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from grader.interpreter.generated_module import executed
from grader.interpreter.guarded_tensor import GuardedTensor, copy_back, is_tensor
from grader.interpreter.watched_launch import Grid, WatchedLaunch, watched_launch

PATIENCE = 10
"""How much longer than its CPU time a launch may take, imports included."""


def launch(
    kernel: Any,
    grid: Grid,
    *values: Any,
    empty: Sequence[str] = (),
    config: int = 0,
    seconds: float = 60.0,
    **named: Any,
) -> WatchedLaunch:
    """As kernel[grid](*values, **named), watched; what is wrong is in the result. The tensors hold afterwards what the kernel stored.

    config: which of an autotuner's configs. empty: parameters of uninitialised tensors. The kernel is found again by its file and its
    name, so it has to stand at the top of a module. Raises TypeError and ValueError for what cannot be launched, and RuntimeError when
    the process ended without an answer.
    """
    function, meta = kernel, {}
    while hasattr(function, "fn"):
        if hasattr(function, "configs"):
            meta = function.configs[config].kwargs
        function = function.fn
    if "." in function.__qualname__:
        raise ValueError(
            f"{function.__qualname__} is defined inside a function; define the kernel at the top of a module"
        )
    arguments = {**dict(zip(inspect.signature(function).parameters, values, strict=False)), **named}
    tensors = {name: value for name, value in arguments.items() if is_tensor(value)}
    guarded = {name: GuardedTensor.of(name, value, empty=name in empty) for name, value in tensors.items()}
    request = {
        "file": inspect.getsourcefile(function),
        "module": function.__module__,
        "kernel": function.__name__,
        "grid": list(grid({**meta, **arguments}) if callable(grid) else grid),
        "arguments": {**arguments, **guarded},
        "options": {"config": config, "empty": list(empty), "seconds": seconds},
    }
    result = _ask(request, PATIENCE * seconds)
    for one in result.tensors:
        copy_back(tensors[one.name], one.data)
    return result


def _ask(request: Mapping[str, Any], seconds: float) -> WatchedLaunch:
    paths = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": paths}
    with tempfile.TemporaryDirectory(prefix="watched-") as folder:
        Path(folder, "request").write_bytes(pickle.dumps(request))
        command = [sys.executable, "-m", __name__, folder]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds, check=False)
        if not Path(folder, "answer").is_file():
            raise RuntimeError(f"the watched launch ended without an answer:\n{done.stderr[-4000:]}")
        answer = pickle.loads(Path(folder, "answer").read_bytes())
    if isinstance(answer, Exception):
        raise answer
    return answer


def main(folder: Path) -> None:
    """In the child: launches what was asked for, and writes what came of it, or what was raised."""
    request = pickle.loads((folder / "request").read_bytes())
    answer: WatchedLaunch | Exception
    try:
        kernel = getattr(module_at(Path(request["file"]), request["module"]), request["kernel"])
        answer = watched_launch(kernel, request["grid"], request["arguments"], **request["options"])
    except (TypeError, ValueError) as error:
        answer = error
    (folder / "answer").write_bytes(pickle.dumps(answer))


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
    return executed(str(path), path.stem)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
