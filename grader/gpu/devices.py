"""What can grade here: the GPUs that NVML sees, or Triton's interpreter."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grader.model import Device
from grader.sandbox import bubblewrap
from grader.unusable import Unusable

OLDEST_CAPABILITY = 80


@dataclass(frozen=True)
class Gpu:
    """One GPU as NVML reports it; capability 90 means 9.0."""

    index: int
    name: str
    capability: int
    driver: str


def gpus() -> list[Gpu]:
    """The GPUs of this machine; an empty list where there is no driver or no nvidia-ml-py."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        driver = pynvml.nvmlSystemGetDriverVersion()
        found = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
            found.append(Gpu(index, pynvml.nvmlDeviceGetName(handle), 10 * major + minor, driver))
        return found
    finally:
        pynvml.nvmlShutdown()


def visible_gpus() -> int:
    """How many GPUs may be used: those of CUDA_VISIBLE_DEVICES, or all."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return len([name for name in visible.split(",") if name]) if visible is not None else len(gpus())


def cuda_problem(gpu: Gpu | None) -> str | None:
    """Why speed cannot be graded on this GPU, as a sentence; None when it can."""
    if gpu is None:
        return (
            "no NVIDIA GPU with a working driver was found; grade with --device cpu, or see `python -m grader doctor`"
        )
    if gpu.capability < OLDEST_CAPABILITY:
        return (
            f"{gpu.name} has compute capability {gpu.capability // 10}.{gpu.capability % 10}, the labs need 8.0 or later "
            "(int8 tl.dot does not compile below); grade with --device cpu"
        )
    try:
        import cuda.bindings.driver  # noqa: F401
    except ImportError:
        return "the package cuda-bindings is missing; run `pip install cuda-bindings`, or grade with --device cpu"
    if _cuda_of_torch() is None:
        return "this torch is a CPU build; install one with CUDA, or grade with --device cpu"
    return None


def _cuda_of_torch() -> str | None:
    """The version of CUDA that torch was built for; without importing it, which takes seconds."""
    found = importlib.util.find_spec("torch")
    where = found.submodule_search_locations if found else None
    if not where:
        return None
    cuda: str | None = runpy.run_path(str(Path(where[0]) / "version.py"))["cuda"]
    return cuda


def choose(wanted: Literal["auto", "cpu", "cuda"]) -> tuple[Device, str | None]:
    """The device to grade on, and a note when `auto` had to fall back to the CPU although a GPU is there.

    Raises Unusable when `cuda` is asked for and cannot be had.
    """
    gpu = next(iter(gpus()), None)
    problem = cuda_problem(gpu) if wanted != "cpu" else None
    if wanted == "cuda" and problem:
        raise Unusable(problem)
    sandbox = "bubblewrap" if bubblewrap() else "none"
    versions = {"torch": _version("torch"), "triton": _version("triton"), "sandbox": sandbox}
    if wanted == "cpu" or problem or gpu is None:
        note = problem if gpu is not None and problem else None
        return Device("cpu", "Triton's interpreter on the CPU", None, gpu.driver if gpu else None, **versions), note
    return Device("cuda", gpu.name, gpu.capability, gpu.driver, **versions), None


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"
