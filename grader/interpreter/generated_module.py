"""The module that the grader wrote from a submission's text: loaded here, where no student's Python ever runs."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any


class TargetOnly:
    """Stands in for Triton's driver, so that `driver.active.get_current_target()` answers where no GPU is seen."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.capability, 32)


class LoadedModule:
    """The kernel's jit function, and the module's file, which is how lines of tracebacks are told from Triton's own."""

    def __init__(self, jit: Any, path: str) -> None:
        self.jit, self.path = jit, path

    @property
    def parameters(self) -> list[Any]:
        import inspect

        return list(inspect.signature(self.jit.fn).parameters.values())


def load(path: str, kernel: str, capability: int) -> LoadedModule:
    """Imports the module at `path`; `capability` is what the kernel sees as its GPU."""
    from triton.runtime import driver

    driver.set_active(TargetOnly(capability))
    spec = importlib.util.spec_from_file_location("made_module", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["made_module"] = module
    spec.loader.exec_module(module)
    return LoadedModule(getattr(module, kernel), path)


def constants(told: dict[str, Any]) -> dict[str, Any]:
    """The values of constexpr parameters as a kernel is given them; a dtype travels as {"dtype": its name}."""
    import triton.language as tl

    return {name: tl.dtype(value["dtype"]) if isinstance(value, dict) else value for name, value in told.items()}
