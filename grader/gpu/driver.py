"""The CUDA driver API, as far as the runner needs it: load a cubin, launch it, record launches as a graph, unload it.

Argument order of a Triton cubin (3.6 to 3.9): the non-constexpr parameters, then two pointers, global scratch and
profile scratch.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from cuda.bindings import driver

from grader.building.cubin import fault
from grader.gpu.roofline import Peaks, fp16_peak
from grader.model import Binary, Launch

STATIC_SHARED_BYTES = 48 << 10
SCRATCH_ALIGNMENT = 256


class CudaError(RuntimeError):
    """A driver call that failed; `name` is CUDA's, such as CUDA_ERROR_ILLEGAL_ADDRESS."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class RefusedCubin(RuntimeError):
    """Machine code that is not loaded; the message is a sentence."""


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


@dataclass(frozen=True)
class LoadedKernel:
    """A cubin loaded into the current context. Use as a context manager: leaving it unloads the module."""

    binary: Binary
    module: Any
    function: Any

    def __enter__(self) -> LoadedKernel:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is None or not issubclass(kind, CudaError):
            self.unload()

    def unload(self) -> None:
        """Waits for the GPU and unloads the module."""
        torch.cuda.synchronize()
        call(driver.cuModuleUnload(self.module))

    def scratch_bytes(self, launch: Launch) -> int:
        """Scratch memory of one launch (tensor descriptors), a multiple of its alignment."""
        x, y, z = launch.grid
        return -(-x * y * z * self.binary.scratch_bytes_per_program // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT

    def bind(
        self, launch: Launch, pointers: Mapping[str, int], scalars: Mapping[str, int], scratch: int = 0
    ) -> BoundLaunch:
        """The kernel with these arguments; `scratch`: address of scratch memory, where it needs any."""
        types = dict(launch.signature)
        values: list[Any] = []
        for name in self.binary.parameters:
            if types[name].startswith("*"):
                values.append(ctypes.c_void_p(pointers[name]))
            else:
                values.append((ctypes.c_int64 if types[name] == "i64" else ctypes.c_int32)(scalars[name]))
        values += [ctypes.c_void_p(scratch), ctypes.c_void_p(0)]
        addresses = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        return BoundLaunch(self, launch.grid, values, addresses)


@dataclass(frozen=True)
class BoundLaunch:
    """A kernel with its arguments; call it with a stream, as often as you like. It keeps alive what the driver reads."""

    kernel: LoadedKernel
    grid: tuple[int, int, int]
    values: list[Any]
    addresses: ctypes.Array[ctypes.c_void_p]

    def __call__(self, stream: int) -> None:
        binary, arguments = self.kernel.binary, ctypes.addressof(self.addresses)
        threads, shared_bytes = 32 * binary.num_warps, binary.shared_bytes
        call(driver.cuLaunchKernel(self.kernel.function, *self.grid, threads, 1, 1, shared_bytes, stream, arguments, 0))


def load(binary: Binary) -> LoadedKernel:
    """Loads a binary and raises its shared-memory limit where it needs more than 48 KB. Raises RefusedCubin, CudaError."""
    reason = fault(binary.cubin, binary.entry)
    if reason:
        raise RefusedCubin(reason)
    module = call(driver.cuModuleLoadData(binary.cubin))
    function = call(driver.cuModuleGetFunction(module, binary.entry.encode()))
    if binary.shared_bytes > STATIC_SHARED_BYTES:
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        call(driver.cuFuncSetAttribute(function, attribute, binary.shared_bytes))
    return LoadedKernel(binary, module, function)


def fill_bytes(address: int, size: int, stream: int, byte: int = 0) -> None:
    """Fills device memory with a byte, in the order of the stream."""
    call(driver.cuMemsetD8Async(address, byte, size, stream))


class LaunchGraph:
    """Launches recorded once, to be replayed on the current stream. `record` queues them on the stream that it is given."""

    def __init__(self, record: Callable[[int], None], stream: int) -> None:
        call(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
        try:
            record(stream)
        finally:
            graph = call(driver.cuStreamEndCapture(stream))
        self._executable = call(driver.cuGraphInstantiate(graph, 0))
        call(driver.cuGraphDestroy(graph))
        call(driver.cuGraphUpload(self._executable, torch.cuda.current_stream().cuda_stream))

    def replay(self) -> None:
        call(driver.cuGraphLaunch(self._executable, torch.cuda.current_stream().cuda_stream))

    def close(self) -> None:
        """Frees the graph; no replay of it may be under way."""
        call(driver.cuGraphExecDestroy(self._executable))


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
