"""The CUDA driver API, as far as the runner needs it: load a cubin, launch it, unload it.

Argument order of a Triton cubin (3.6 to 3.9): the non-constexpr parameters, then two pointers, global scratch and
profile scratch.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from cuda.bindings import driver

from grader.model import Binary, Launch
from grader.running.roofline import Peaks, fp16_peak

STATIC_SHARED_BYTES = 48 << 10


class CudaError(RuntimeError):
    """A driver call that failed; `name` is CUDA's, such as CUDA_ERROR_ILLEGAL_ADDRESS."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def call(result: tuple[Any, ...]) -> Any:
    """The value of a driver call, or CudaError."""
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise CudaError(getattr(status, "name", str(status)))
    return values[0] if len(values) == 1 else tuple(values)


def explain(error: CudaError) -> str:
    """A failed launch or synchronisation as a sentence for the student."""
    sentences = {
        "CUDA_ERROR_ILLEGAL_ADDRESS": "the kernel read or wrote memory that is not its own (illegal address); "
        "look at its masks and strides, and grade with DEVICE=cpu to see where",
        "CUDA_ERROR_MISALIGNED_ADDRESS": "the kernel used a misaligned address; look at its pointer arithmetic",
        "CUDA_ERROR_ASSERT": "a device_assert of the kernel failed",
        "CUDA_ERROR_LAUNCH_FAILED": "the kernel died while running (launch failed); look at its masks and strides",
        "CUDA_ERROR_ILLEGAL_INSTRUCTION": "the kernel executed a trap or an illegal instruction",
        "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "the launch needs more registers or threads than a program may have",
        "CUDA_ERROR_OUT_OF_MEMORY": "the GPU ran out of memory",
    }
    return sentences.get(error.name, f"the GPU reported {error.name}")


@dataclass
class LoadedKernel:
    """A cubin loaded into the current context. Use as a context manager: leaving it unloads the module."""

    binary: Binary
    module: Any
    function: Any
    scratch: torch.Tensor | None = None

    def __enter__(self) -> LoadedKernel:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is None:
            self.unload()

    def unload(self) -> None:
        """Waits for the GPU and unloads the module."""
        torch.cuda.synchronize()
        call(driver.cuModuleUnload(self.module))

    def bind(self, launch: Launch, pointers: Mapping[str, int], scalars: Mapping[str, int]) -> BoundLaunch:
        """The kernel with these arguments."""
        types = dict(launch.signature)
        values: list[Any] = []
        for name in self.binary.parameters:
            if types[name].startswith("*"):
                values.append(ctypes.c_void_p(pointers[name]))
            else:
                values.append((ctypes.c_int64 if types[name] == "i64" else ctypes.c_int32)(scalars[name]))
        scratch = self._scratch(launch)
        values += [ctypes.c_void_p(scratch.data_ptr() if scratch is not None else 0), ctypes.c_void_p(0)]
        addresses = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        return BoundLaunch(self, launch.grid, values, addresses, scratch)

    def _scratch(self, launch: Launch) -> torch.Tensor | None:
        if not self.binary.scratch_bytes_per_program:
            return None
        x, y, z = launch.grid
        size = x * y * z * self.binary.scratch_bytes_per_program
        if self.scratch is None or self.scratch.numel() < size:
            self.scratch = torch.zeros(size, dtype=torch.uint8, device="cuda")
        return self.scratch


@dataclass(frozen=True)
class BoundLaunch:
    """A kernel with its arguments; call it with a stream, as often as you like. It keeps alive what the driver reads."""

    kernel: LoadedKernel
    grid: tuple[int, int, int]
    values: list[Any]
    addresses: ctypes.Array[ctypes.c_void_p]
    scratch: torch.Tensor | None

    def __call__(self, stream: int) -> None:
        binary, arguments = self.kernel.binary, ctypes.addressof(self.addresses)
        threads, shared_bytes = 32 * binary.num_warps, binary.shared_bytes
        call(driver.cuLaunchKernel(self.kernel.function, *self.grid, threads, 1, 1, shared_bytes, stream, arguments, 0))


def load(binary: Binary) -> LoadedKernel:
    """Loads a binary and raises its shared-memory limit where it needs more than 48 KB."""
    module = call(driver.cuModuleLoadData(binary.cubin))
    function = call(driver.cuModuleGetFunction(module, binary.entry.encode()))
    if binary.shared_bytes > STATIC_SHARED_BYTES:
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        call(driver.cuFuncSetAttribute(function, attribute, binary.shared_bytes))
    return LoadedKernel(binary, module, function)


@functools.cache
def peaks() -> Peaks:
    """Peak bandwidth and tensor-core rate of the current device, by its clocks; 0.0 for what is not told."""
    device = call(driver.cuCtxGetDevice())
    kinds = driver.CUdevice_attribute

    def attribute(kind: Any) -> int:
        return int(call(driver.cuDeviceGetAttribute(kind, device)))

    memory_khz = attribute(kinds.CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)
    width_bits = attribute(kinds.CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)
    capability = 10 * attribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) + attribute(
        kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
    )
    return Peaks(
        2.0 * memory_khz * 1e3 * width_bits / 8,
        fp16_peak(
            capability,
            attribute(kinds.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
            1e3 * attribute(kinds.CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
        ),
    )
