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

from grader.building.cubin import fault, local_fault
from grader.gpu.roofline import Peaks, fp16_peak
from grader.model import Binary, Launch

_INTEGERS = {"i32": ctypes.c_int32, "i64": ctypes.c_int64}
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
        "CUDA_ERROR_ILLEGAL_ADDRESS": "the kernel accessed memory outside its tensors (illegal address); "
        "check its masks and strides, and grade with DEVICE=cpu to see where",
        "CUDA_ERROR_MISALIGNED_ADDRESS": "the kernel used a misaligned address; check its pointer arithmetic",
        "CUDA_ERROR_ASSERT": "a device_assert of the kernel failed",
        "CUDA_ERROR_LAUNCH_FAILED": "the kernel died while running (launch failed); check its masks and strides",
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
            torch.cuda.synchronize()
            call(driver.cuModuleUnload(self.module))

    def scratch_bytes(self, launch: Launch) -> int:
        """Scratch memory of one launch (tensor descriptors), a multiple of its alignment."""
        x, y, z = launch.grid
        return -(-x * y * z * self.binary.scratch_bytes_per_program // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT


class BoundLaunch:
    """A kernel with all of its arguments but the pointers; queue it as often as you like, with others each time."""

    def __init__(self, kernel: LoadedKernel, launch: Launch, scalars: Mapping[str, int]) -> None:
        binary, types = kernel.binary, dict(launch.signature)
        self._pointers = {name: ctypes.c_void_p() for name in binary.parameters if types[name].startswith("*")}
        self._scratch = ctypes.c_void_p()
        values: list[Any] = [
            self._pointers[name] if name in self._pointers else _INTEGERS[types[name]](scalars[name])
            for name in binary.parameters
        ]
        self._values = [*values, self._scratch, ctypes.c_void_p()]
        self._addresses = (ctypes.c_void_p * len(self._values))(*map(ctypes.addressof, self._values))
        self._shape = (*launch.grid, 32 * binary.num_warps, 1, 1, binary.shared_bytes)
        self._function = kernel.function

    def __call__(self, pointers: Mapping[str, int], stream: int, scratch: int = 0) -> None:
        """Queues a launch; `scratch`: address of scratch memory, where it needs any. The driver copies the arguments."""
        for name, value in self._pointers.items():
            value.value = pointers[name]
        self._scratch.value = scratch
        call(driver.cuLaunchKernel(self._function, *self._shape, stream, ctypes.addressof(self._addresses), 0))


def load(binary: Binary) -> LoadedKernel:
    """Loads a binary and raises its shared-memory limit where it needs more than 48 KB. Raises RefusedCubin, CudaError.

    What it needs of local memory the driver says here, whatever the cubin says of itself.
    """
    reason = fault(binary.cubin, binary.entry)
    if reason:
        raise RefusedCubin(reason)
    module = call(driver.cuModuleLoadData(binary.cubin))
    function = call(driver.cuModuleGetFunction(module, binary.entry.encode()))
    local_bytes = call(
        driver.cuFuncGetAttribute(driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function)
    )
    reason = local_fault(int(local_bytes))
    if reason:
        call(driver.cuModuleUnload(module))
        raise RefusedCubin(reason)
    if binary.shared_bytes > STATIC_SHARED_BYTES:
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        call(driver.cuFuncSetAttribute(function, attribute, binary.shared_bytes))
    return LoadedKernel(binary, module, function)


def fill_bytes(address: int, size: int, stream: int) -> None:
    """Fills device memory with zeros, in the order of the stream."""
    call(driver.cuMemsetD8Async(address, 0, size, stream))


def current_stream() -> int:
    """The handle of the stream that PyTorch works on now."""
    return int(torch.cuda.current_stream(torch.cuda.current_device()).cuda_stream)


class Recording:
    """Launches, recorded once; `record` queues them on the stream that it is given."""

    def __init__(self, record: Callable[[int], None], stream: int) -> None:
        call(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
        try:
            record(stream)
        finally:
            self._graph = call(driver.cuStreamEndCapture(stream))

    def instantiate(self) -> LaunchGraph:
        """A graph that can be replayed, uploaded on the current stream."""
        return LaunchGraph(self._graph)

    def close(self) -> None:
        """Frees the recording; graphs made from it stay."""
        call(driver.cuGraphDestroy(self._graph))


class LaunchGraph:
    """A recording that can be replayed on the current stream."""

    def __init__(self, graph: Any) -> None:
        self._executable = call(driver.cuGraphInstantiate(graph, 0))
        call(driver.cuGraphUpload(self._executable, current_stream()))

    @classmethod
    def of(cls, record: Callable[[int], None], stream: int) -> LaunchGraph:
        """What `record` queues on this stream, to be replayed."""
        recording = Recording(record, stream)
        try:
            return recording.instantiate()
        finally:
            recording.close()

    def replay(self) -> None:
        call(driver.cuGraphLaunch(self._executable, current_stream()))

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
