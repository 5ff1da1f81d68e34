"""The local or Ray engine with everything but kernels: real workers, a real process that stands for the GPU's, answers that are made up.

`pretend()` puts this module's functions in place of those that compile, run and judge; call it before an engine is made.
"""

from __future__ import annotations

import time
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from grader.classroom.batch import local, ray_engine
from grader.classroom.batch.tasks import Setup
from grader.model import Config, GeneratedModule, KernelBundle, KernelSource, LabReport, Outcome, SpeedSample
from grader.pipeline.grading import GpuRun
from grader.running import cuda
from grader.running.cuda_process import Timing
from tests.reports import gpu_report
from tests.unit.running.gpu_actors import jobs

BUILD_SECONDS, CASE_SECONDS, JUDGE_SECONDS = 0.3, 0.05, 0.1


def build(setup: Setup, source: KernelSource) -> KernelBundle:
    """In a worker."""
    time.sleep(BUILD_SECONDS)
    return KernelBundle(source.lab_id, (Config(0, {}, 4, 1),), {}, {}, GeneratedModule("", source.kernel, ()), lowered=frozenset({0}))


def serve(connection: Connection, gpu: str) -> None:
    """The process of a GPU: has run each launch of a job, and times its cases."""
    for job in jobs(connection):
        for part in job.parts:
            if isinstance(part, Timing):
                time.sleep(CASE_SECONDS)
                connection.send((SpeedSample(part.case.name, None, "failed"), False))
            else:
                connection.send(((Outcome(part.case.name, part.config, "ran"), None), False))


def judge(setup: Setup, source: KernelSource, built: KernelBundle, run: GpuRun) -> LabReport:
    """In a worker, once every case was answered."""
    time.sleep(JUDGE_SECONDS)
    assert [one.case for one in run.samples] == [case.name for case in setup.lab(source.lab_id).speed_cases]
    return replace(gpu_report().labs["w8a8"], source=source)


class Runner(cuda.CudaRunner):
    """The supervisor of a GPU's process, as it is, over `serve`."""

    target = staticmethod(serve)


class Gpu(ray_engine._Gpu):
    """The actor of a cluster's GPU, over `serve`."""

    def __init__(self) -> None:
        self._runner = Runner()
        self._runner.start()


def pretend() -> None:
    """From here on this process's engines grade so."""
    stages: dict[str, Any] = {"build_for_gpu": build, "judge": judge}
    for module in (local, ray_engine):
        for name, function in stages.items():
            setattr(module, name, function)
    cuda.CudaRunner = Runner  # type: ignore[misc]
    ray_engine._Gpu = Gpu  # type: ignore[misc]
