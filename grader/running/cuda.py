"""run, on a GPU: hands jobs to the process that owns it, watches it from outside, and restarts it when it dies."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

import torch

from grader.gpu.limits import ATTEMPTS, LAUNCH_SECONDS, MAX_DEATHS, MAX_LOST, SPEED_SECONDS
from grader.labs import Lab
from grader.model import NOT_RUN, KernelBundle, Outcome, SpeedSample
from grader.running import prestart
from grader.running.cuda_process import Job, Launching, Timing
from grader.sandbox.supervisor import CannotStart, ProcessDied, ProcessTimeout

VANISHED = (
    f"not graded: the GPU process ended {ATTEMPTS} times without a CUDA error while it worked on this, as when the "
    "system runs out of memory or someone kills it; that is not the kernel's doing, so grade it again"
)


class RunnerFailed(RuntimeError):
    """The GPU process could not be started; the message says why."""


class ProcessLost(Enum):
    """Why a part of a job has no answer: its process vanished again and again, or had to be killed."""

    DIED = "died"
    LATE = "late"


class GpuProcess:
    """One GPU's process. Use as a context manager; leaving it ends the process.

    `target` is what the process runs: a function that takes its end of the pipe and the GPU's name for
    CUDA_VISIBLE_DEVICES, which `visible` holds. Each of its answers is a pair: the answer, and whether the process ends because of it.
    """

    target: Callable[[Connection, str], None]

    def __init__(self, gpu: int = 0) -> None:
        self.visible = prestart.visible(gpu)
        self._process = prestart.take(self.target, gpu)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._process.stop()

    def start(self) -> None:
        """Starts the process without waiting for it: the GPU gets ready while kernels are built."""
        self._process.start()

    @property
    def running(self) -> bool:
        """Whether there is a process, as far as is known."""
        return self._process.running

    def ask(self, job: Any, seconds: float) -> Any:
        """The answer to a job, or why there is none."""
        return next(self.answers(lambda done: job, 1, seconds))

    def answers(self, job_from: Callable[[int], Any], parts: int, seconds: float) -> Generator[Any]:
        """One answer for each part of a job, or ProcessLost; whoever leaves before the last must not come back to this job.

        job_from(done): the job without its first `done` parts, for a process that was restarted. `seconds` a part.
        A kernel's faults come as answers. A process that vanishes was ended from outside, which is nobody's fault: the
        part is begun again in a new process, ATTEMPTS times in all, and once only when MAX_LOST parts were lost so.
        """
        done = deaths = lost = 0
        under_way = False
        try:
            while done < parts:
                poisoned = False
                try:
                    asked = self._process.more(seconds) if under_way else self._process.ask(job_from(done), seconds)
                    under_way = True
                    answer, poisoned = asked
                except ProcessTimeout:
                    under_way, answer = False, ProcessLost.LATE
                except (ProcessDied, CannotStart) as error:
                    under_way = False
                    deaths += 1
                    if deaths < ATTEMPTS and lost < MAX_LOST:
                        continue
                    if isinstance(error, CannotStart):
                        reason = f"the GPU process could not be started: {error}"
                        raise RunnerFailed(f"{reason}; run `python -m grader doctor`") from None
                    answer, lost = ProcessLost.DIED, lost + 1
                if poisoned:
                    self._process.stop()
                    under_way = False
                done, deaths = done + 1, 0
                yield answer
        finally:
            if under_way and done < parts:
                self._process.stop()


class CudaRunner(GpuProcess):
    """Runs and times students' kernels. Hidden cases are launched in a process of their own, which knows no other case: what a
    launch leaves in local memory, shared memory and registers may be read by the next one, in the same process."""

    target = staticmethod(prestart.serve)

    def __init__(self, gpu: int = 0) -> None:
        super().__init__(gpu)
        self._gpu = gpu
        self._hidden: CudaRunner | None = None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._hidden:
            self._hidden.__exit__(kind, error, tb)
        super().__exit__(kind, error, tb)

    def correctness(
        self,
        lab: Lab,
        bundle: KernelBundle,
        pairs: Sequence[tuple[str, int]],
        seed: int,
        progress: Callable[[Outcome], None] = lambda outcome: None,
        before: Sequence[Outcome] = (),
    ) -> list[Outcome]:
        """Runs the (case, config) pairs, those of hidden cases last; what comes after MAX_DEATHS faults or too many seconds is not
        run. before: outcomes of the same kernel that count for both."""
        public = [pair for pair in pairs if not lab.hides(pair[0])]
        hidden = [pair for pair in pairs if lab.hides(pair[0])]
        outcomes = self._launch(lab, bundle, public, seed, progress, before)
        if hidden:
            beside = self._hidden = self._hidden or type(self)(self._gpu)
            outcomes += beside._launch(lab, bundle, hidden, seed, progress, [*before, *outcomes])
        found = dict(zip([*public, *hidden], outcomes, strict=True))
        return [found[pair] for pair in pairs]

    def _launch(
        self,
        lab: Lab,
        bundle: KernelBundle,
        pairs: Sequence[tuple[str, int]],
        seed: int,
        progress: Callable[[Outcome], None],
        before: Sequence[Outcome],
    ) -> list[Outcome]:
        """`correctness` of pairs that are all hidden, or none of them, in this process."""
        outcomes: list[Outcome] = []
        parts = tuple(Launching(lab.case(case), config, seed) for case, config in pairs)
        part_of_bundle = _of(bundle, {case for case, _ in pairs})

        def job(done: int) -> Job:
            return Job(lab.id, part_of_bundle, parts[done:], sum(outcome.seconds for outcome in [*before, *outcomes]))

        answers = self.answers(job, len(parts), LAUNCH_SECONDS)
        for case, config in pairs:
            deaths = deaths_in([*before, *outcomes])
            if deaths < MAX_DEATHS:
                outcome = _outcome(case, config, next(answers))
            else:
                outcome = Outcome(case, config, "crash", message=f"{NOT_RUN}{_died(deaths)}")
            outcomes.append(outcome)
            progress(outcome)
        answers.close()
        return outcomes

    def speed(
        self,
        lab: Lab,
        bundle: KernelBundle,
        boundaries: Mapping[str, Sequence[float]],
        deaths: int = 0,
        progress: Callable[[SpeedSample], None] = lambda sample: None,
    ) -> list[SpeedSample]:
        """Times every speed case of the lab; `deaths`: how many launches ended the process already."""
        samples: list[SpeedSample] = []
        parts = tuple(Timing(case, tuple(boundaries.get(case.name, ()))) for case in lab.speed_cases)
        part_of_bundle = _of(bundle, {case.name for case in lab.speed_cases})
        processes = 2 if self._hidden and self._hidden.running else 1

        def job(done: int) -> Job:
            return Job(lab.id, part_of_bundle, parts[done:], sum(sample.gpu_seconds for sample in samples), processes)

        answers = self.answers(job, len(parts), SPEED_SECONDS)
        for case in lab.speed_cases:
            if deaths < MAX_DEATHS:
                answer = next(answers)
                deaths += answer is ProcessLost.LATE
                sample = replace(_sample(case.name, answer), gpu=self.visible)
            else:
                sample = SpeedSample(case.name, None, "failed", message=f"not timed: {_died(deaths)}")
            samples.append(sample)
            progress(sample)
        answers.close()
        return samples


def _of(bundle: KernelBundle, cases: set[str]) -> KernelBundle:
    """A bundle that knows of no other case than these: no grid, no specialisation, no heuristic's value."""
    launches = {pair: launch for pair, launch in bundle.launches.items() if pair[0] in cases}
    keys = {(config, launch.key) for (_, config), launch in launches.items()}
    return replace(
        bundle,
        lowered=frozenset(bundle.working),
        launches=launches,
        refused={pair: why for pair, why in bundle.refused.items() if pair[0] in cases},
        binaries={key: binary for key, binary in bundle.binaries.items() if key[1:] in keys},
    )


def deaths_in(outcomes: Sequence[Outcome]) -> int:
    """How many of these launches ended the GPU process, by a CUDA error or by not ending."""
    return sum(outcome.status in ("timeout", "crash") and not outcome.not_run for outcome in outcomes)


def _died(deaths: int) -> str:
    return f"{deaths} launches before it ended the GPU process; fix those first"


def _outcome(case: str, config: int, answer: Any) -> Outcome:
    if answer is ProcessLost.LATE:
        late = f"the kernel did not finish within {LAUNCH_SECONDS:.0f} s; is there a loop that never ends?"
        return Outcome(case, config, "timeout", message=late, seconds=LAUNCH_SECONDS)
    if answer is ProcessLost.DIED:
        return Outcome(case, config, "lost", message=VANISHED)
    outcome: Outcome = answer[0]
    y = answer[1]
    return replace(outcome, y=None if y is None else torch.from_numpy(y))


def _sample(case: str, answer: SpeedSample | ProcessLost) -> SpeedSample:
    if answer is ProcessLost.LATE:
        late = f"the kernel did not finish its timing within {SPEED_SECONDS:.0f} s; is there a loop that never ends?"
        return SpeedSample(case, None, "failed", message=late, gpu_seconds=SPEED_SECONDS)
    if answer is ProcessLost.DIED:
        return SpeedSample(case, None, "error", message=VANISHED)
    assert isinstance(answer, SpeedSample)
    return answer
