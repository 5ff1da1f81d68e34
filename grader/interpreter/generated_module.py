"""The module that the grader wrote from a submission's text: loaded here, where no student's Python ever runs."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any


@dataclass(frozen=True)
class LoadedModule:
    """The kernel's jit function, and the module's file, which is how lines of tracebacks are told from Triton's own."""

    jit: Any
    path: str

    @property
    def parameters(self) -> list[str]:
        """Their names."""
        return list(inspect.signature(self.jit.fn).parameters)


def see_gpu(capability: int) -> None:
    """What `driver.active.get_current_target()` answers from now on, where Triton sees no GPU."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    driver.set_active(SimpleNamespace(get_current_target=lambda: GPUTarget("cuda", capability, 32)))


def executed(path: str, name: str) -> ModuleType:
    """The file as a module of this name. Raises ImportError, and whatever the file raises."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise ImportError(f"found no Python file at {path}; name one as FILE:KERNEL")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load(path: str, kernel: str, capability: int) -> LoadedModule:
    """Imports the module at `path`; `capability` is what the kernel sees as its GPU."""
    see_gpu(capability)
    return LoadedModule(getattr(executed(path, "made_module"), kernel), path)


def constants(values: dict[str, Any]) -> dict[str, Any]:
    """The values of constexpr parameters as a kernel is given them; a dtype travels as {"dtype": its name}."""
    import triton.language as tl

    return {name: tl.dtype(value["dtype"]) if isinstance(value, dict) else value for name, value in values.items()}
