"""run, on a GPU: hands jobs to the process that owns it, watches it from outside, and starts it anew when it dies."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

import torch

from grader.labs import Lab
from grader.model import KernelBundle, Outcome, SpeedSample
from grader.running.cuda_process import LAUNCH_SECONDS, SPEED_SECONDS, CorrectnessJob, SpeedJob, main
from grader.supervised import CannotStart, ProcessDied, ProcessTimeout, Supervised

MAX_DEATHS = 3
DEADLY = 2
"""So many deaths of the process at one job are the job's doing."""


DIED_TIMING = "the GPU process died while timing"
SLOW_TIMING = f"the kernel did not finish its timing within {SPEED_SECONDS:.0f} s"


class RunnerFailed(RuntimeError):
    """The GPU process could not be started; the message says why."""


class CudaRunner:
    """One GPU's process. Use as a context manager; leaving it ends the process.

    `target` is what the process runs: a function that takes its end of the pipe and the GPU's name for
    CUDA_VISIBLE_DEVICES.
    """

    target: Callable[[Connection, str], None] = staticmethod(main)

    def __init__(self, gpu: int = 0) -> None:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        self._process = Supervised(self.target, visible.split(",")[gpu] if visible else str(gpu))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._process.stop()

    def start(self) -> None:
        """Starts the process without waiting for it: the GPU wakes up while kernels are built."""
        self._process.start()

    def ask(self, job: Any, seconds: float) -> Any:
        """The job's answer; None when the process died of it twice, a TimeoutError when it had to be killed.

        Once may be anybody's doing: a kernel's faults come as answers, and the process lives until it has told them.
        """
        deaths = 0
        while True:
            try:
                answer, poisoned = self._process.ask(job, seconds)
            except ProcessTimeout:
                raise TimeoutError from None
            except ProcessDied:
                deaths += 1
                if deaths == DEADLY:
                    return None
                continue
            except CannotStart as error:
                deaths += 1
                if deaths == DEADLY:
                    reason = f"the GPU process could not be started: {error}"
                    raise RunnerFailed(f"{reason}; run `python -m grader doctor`") from None
                continue
            if poisoned:
                self._process.stop()
            return answer

    def correctness(
        self,
        lab: Lab,
        bundle: KernelBundle,
        pairs: Sequence[tuple[str, int]],
        seed: int,
        progress: Callable[[Outcome], None] = lambda outcome: None,
    ) -> list[Outcome]:
        """Runs the (case, config) pairs in order; after three deaths of the process the rest is not run."""
        outcomes: list[Outcome] = []
        deaths = 0
        for case, config in pairs:
            if deaths >= MAX_DEATHS:
                outcome = Outcome(case, config, "crash", message=f"not run: {_died(deaths)}")
            else:
                outcome = self._one(CorrectnessJob(lab.id, bundle.part(case, config), lab.case(case), config, seed))
                deaths += deaths_in([outcome])
            outcomes.append(outcome)
            progress(outcome)
        return outcomes

    def _one(self, job: CorrectnessJob) -> Outcome:
        try:
            answer = self.ask(job, LAUNCH_SECONDS)
        except TimeoutError:
            return Outcome(
                job.case.name,
                job.config,
                "timeout",
                message=f"the kernel did not finish within {LAUNCH_SECONDS:.0f} s; look for a loop that never ends",
            )
        if answer is None:
            return Outcome(job.case.name, job.config, "crash", message="the GPU process died while the kernel ran")
        outcome: Outcome = answer[0]
        y = answer[1]
        return replace(outcome, y=None if y is None else torch.from_numpy(y))

    def speed(
        self,
        lab: Lab,
        bundle: KernelBundle,
        seed: int,
        boundaries: Mapping[str, Sequence[float]],
        deaths: int = 0,
        progress: Callable[[SpeedSample], None] = lambda sample: None,
    ) -> list[SpeedSample]:
        """Times every speed case of the lab; `deaths`: how often the kernel has ended the process already."""
        samples: list[SpeedSample] = []
        for case in lab.speed_cases:
            if deaths >= MAX_DEATHS:
                sample = SpeedSample(case.name, None, "failed", message=f"not timed: {_died(deaths)}")
            else:
                part = bundle.part(case.name)
                sample = self._time(SpeedJob(lab.id, part, case, seed, tuple(boundaries.get(case.name, ()))))
                deaths += sample.message in (DIED_TIMING, SLOW_TIMING)
            samples.append(sample)
            progress(sample)
        return samples

    def _time(self, job: SpeedJob) -> SpeedSample:
        try:
            answer: SpeedSample | None = self.ask(job, SPEED_SECONDS)
        except TimeoutError:
            return SpeedSample(job.case.name, None, "failed", message=SLOW_TIMING)
        return answer or SpeedSample(job.case.name, None, "failed", message=DIED_TIMING)


def deaths_in(outcomes: Sequence[Outcome]) -> int:
    """How many of these launches ended the GPU process."""
    return sum(outcome.status in ("timeout", "crash") for outcome in outcomes)


def _died(deaths: int) -> str:
    return f"the GPU process had died {deaths} times before"
