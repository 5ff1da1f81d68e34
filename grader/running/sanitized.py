"""The process under compute-sanitizer or ncu: launches cubins on tensors that are allocations of exactly their bytes.

    compute-sanitizer --tool memcheck python -m grader.running.sanitized JOB PROGRESS [SAMPLES]

SAMPLES: a file, without its suffix, into which Proton writes where the warps of each launch were met.

Between two tensors lies memory that was given back, so that what runs over the end of one meets no other. Trusted like the process
that owns a GPU: no Python of a student's, and each launch writes a line of JSON to PROGRESS. It ends with the first launch that fails.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cuda.bindings import driver as cuda

from grader.gpu.driver import BoundLaunch, CudaError, RefusedCubin, call, load
from grader.gpu.muting import mute_kernels
from grader.labs import Lab, get_lab
from grader.labs.problems import make_problem
from grader.labs.slices import arrives_zeroed
from grader.model import Case, KernelBundle

APART_BYTES = 1 << 20
POISON = 0x7E


def main(job: Path, progress: Path, samples: str = "") -> None:
    """Launches what the job says."""
    lab_id, bundle, launches, seed, capability = pickle.loads(job.read_bytes())  # written by tools.py
    mute_kernels()
    with _sampling(samples) as scope, progress.open("w", encoding="utf-8") as file:
        call(cuda.cuInit(0))
        call(cuda.cuCtxSetCurrent(call(cuda.cuDevicePrimaryCtxRetain(call(cuda.cuDeviceGet(0))))))
        lab = get_lab(lab_id)
        for case, config in launches:
            with scope(f"{case.name} {config}"):
                entry = _launched(lab, bundle, case, config, seed, capability)
            if entry is not None:
                print(json.dumps(entry), file=file, flush=True)
                if not entry["ended"]:
                    return


@contextmanager
def _sampling(samples: str) -> Iterator[Callable[[str], AbstractContextManager[object]]]:
    """Has Proton watch, from before there is a context of CUDA's; yields what gives a launch its name."""
    if not samples:
        yield nullcontext
        return
    from triton import profiler

    profiler.start(samples, backend="cupti", mode="pcsampling")
    yield profiler.scope
    profiler.finalize()


def _launched(
    lab: Lab, bundle: KernelBundle, case: Case, config: int, seed: int, capability: int
) -> dict[str, Any] | None:
    """One launch: whether it ended, and where its tensors were; None for one that cannot be made."""
    binary = bundle.binary(case.name, config, capability)
    if binary is None or (case.name, config) in bundle.refused:
        return None
    try:
        kernel = load(binary)
    except RefusedCubin:
        return None
    launch, problem = bundle.launches[case.name, config], make_problem(lab, case, seed)
    scratch = kernel.scratch_bytes(launch)
    zeroed = arrives_zeroed(lab, bundle.configs[config])
    hosts = {name: _bytes(tensor) for name, tensor in problem.tensors.items()}
    hosts[lab.output] = np.full_like(hosts[lab.output], 0 if zeroed else POISON)
    if scratch:
        hosts["scratch"] = np.zeros(scratch, dtype=np.uint8)
    places, apart = {}, [call(cuda.cuMemAlloc(APART_BYTES))]
    for name, host in hosts.items():
        places[name] = call(cuda.cuMemAlloc(max(1, host.nbytes)))
        apart.append(call(cuda.cuMemAlloc(APART_BYTES)))
        if host.nbytes:
            call(cuda.cuMemcpyHtoD(places[name], host.ctypes.data, host.nbytes))
    for address in apart:
        call(cuda.cuMemFree(address))
    addresses = {name: int(address) for name, address in places.items()}
    entry = {"case": case.name, "config": config, "ended": True, "tensors": addresses}
    try:
        BoundLaunch(kernel, launch, problem.scalars)(addresses, 0, addresses.get("scratch", 0))
        call(cuda.cuCtxSynchronize())
    except CudaError:
        return {**entry, "ended": False}
    for address in places.values():
        call(cuda.cuMemFree(address))
    call(cuda.cuModuleUnload(kernel.module))
    return entry


def _bytes(tensor: torch.Tensor) -> np.ndarray:
    """A tensor from its first element to its last as they lie in memory, with what a strided view leaves between them."""
    if not tensor.numel():
        return np.zeros(0, dtype=np.uint8)
    extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    flat = torch.as_strided(tensor, (extent,), (1,))
    return flat.contiguous().view(torch.uint8).numpy()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
