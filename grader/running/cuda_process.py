"""The trusted process that owns one GPU: takes jobs from a pipe, tells what it starts, answers, and dies when poisoned.

Nothing of the student's Python ever runs here; a kernel comes as machine code.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Literal

import torch

from grader.gpu.limits import CORRECTNESS_SECONDS, SPEED_GPU_SECONDS, Budget, used_up
from grader.gpu.muting import mute_kernels
from grader.labs import Lab, all_labs, get_lab, offsets
from grader.labs.guarded import guard
from grader.labs.problems import make_problem
from grader.labs.slices import arrives_zeroed, slices
from grader.model import Case, KernelBundle, Outcome, Problem, SpeedSample

if TYPE_CHECKING:
    from grader.timing.clock import TimingSession


@dataclass(frozen=True)
class Launching:
    """Run one correctness case with one config."""

    case: Case
    config: int
    seed: int


@dataclass(frozen=True)
class Timing:
    """Time one speed case, on inputs that nobody can foretell; `boundaries` are the tier boundaries of its ratio."""

    case: Case
    boundaries: tuple[float, ...]


@dataclass(frozen=True)
class Job:
    """What to do with one lab's kernels, part by part; each part has an answer of its own.

    `spent_seconds`: GPU time that the kernel used on parts of this kind before. `processes`: how many the grader has on this GPU.
    """

    lab_id: str
    bundle: KernelBundle
    parts: tuple[Launching | Timing, ...]
    spent_seconds: float = 0.0
    processes: int = 1


def main(connection: Connection, gpu: str) -> None:
    """Answers jobs until the pipe closes. After a CUDA error the context is lost: it answers and ends."""
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    mute_kernels()
    faulthandler.enable(sys.stderr)  # who restarts this process tells nobody why it died
    from grader.timing.clock import TimingSession

    torch.set_num_threads(1)  # inputs are small; a thread pool on cores that compile kernels only waits for itself
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    major, minor = torch.cuda.get_device_capability()
    capability = 10 * major + minor
    _warm_up()
    connection.send("ready")
    session = TimingSession()
    # a grader that is busy with a class reads late, and the GPU would wait
    with ThreadPoolExecutor(max_workers=1) as sender:
        while True:
            try:
                job: Job = connection.recv()
            except EOFError:
                return
            spent = job.spent_seconds
            for part in job.parts:
                answer, poisoned = _answer(job, part, capability, session, spent)
                spent += answer.gpu_seconds if isinstance(answer, SpeedSample) else answer[0].seconds
                sender.submit(connection.send, (answer, poisoned))
                if poisoned:
                    return


def _warm_up() -> None:
    """Does what the timing of each lab of the course does, small: PyTorch's kernels are loaded while the student's are compiled."""
    from grader.timing.replays import Stage

    for lab in all_labs().values():
        if lab.bonus or not lab.speed_cases:
            continue
        case = replace(lab.speed_cases[0], M=16, N=256, K=256, launches=2)
        try:
            with closing(Stage(lab, case, torch.device("cuda"))) as stage:
                stage.inspect(stage.renew(), range(2), 1)
                stage.wipe()
        except RuntimeError:  # what is wrong with this GPU shows again where it is told
            return
    torch.cuda.empty_cache()


def _answer(
    job: Job, part: Launching | Timing, capability: int, session: TimingSession, spent: float
) -> tuple[Any, bool]:
    """The answer to one part, and whether the context is lost with it. `spent`: seconds of GPU time before this part."""
    from grader.gpu import driver
    from grader.timing.rounds import ClockFault

    lab = get_lab(job.lab_id)
    try:
        if isinstance(part, Launching):
            if spent >= CORRECTNESS_SECONDS:
                return _as_sent(Outcome(part.case.name, part.config, "timeout", message=used_up(spent))), False
            return _as_sent(_run(lab, job, part, capability)), False
        from grader.timing.clock import time_case

        session.processes = job.processes
        budget = Budget(SPEED_GPU_SECONDS - spent)
        return time_case(lab, part.case, job.bundle, capability, part.boundaries, session, budget), False
    except driver.CudaError as error:
        message, poisoned = driver.explain(error), error.name != "CUDA_ERROR_OUT_OF_MEMORY"
    except ClockFault as fault:
        return SpeedSample(part.case.name, None, "error", message=str(fault)), False
    except torch.OutOfMemoryError:
        message, poisoned = "the GPU ran out of memory; is another process using it?", False
    except RuntimeError as error:
        name = next(
            (
                word
                for word in ("ILLEGAL_ADDRESS", "MISALIGNED_ADDRESS", "ASSERT", "LAUNCH_FAILED", "ILLEGAL_INSTRUCTION")
                if word.lower().replace("_", " ") in str(error).lower()
                or (word == "ILLEGAL_ADDRESS" and "illegal memory access" in str(error))
            ),
            "",
        )
        message = driver.explain(driver.CudaError(f"CUDA_ERROR_{name}")) if name else str(error).splitlines()[0]
        poisoned = True
    if not poisoned:
        torch.cuda.empty_cache()
    if isinstance(part, Launching):
        return _as_sent(Outcome(part.case.name, part.config, "crash", message=message)), poisoned
    status: Literal["error", "failed"] = "error" if "out of memory" in message else "failed"
    return SpeedSample(part.case.name, None, status, message=message), poisoned


def _as_sent(outcome: Outcome) -> tuple[Outcome, Any]:
    """An outcome and its output as a NumPy array: plain bytes on the pipe."""
    return replace(outcome, y=None), None if outcome.y is None else outcome.y.contiguous().numpy()


@lru_cache(maxsize=128)
def _problem(lab_id: str, case: Case, seed: int) -> Problem:
    """A case's inputs on the host, the same for every kernel of a class."""
    return make_problem(get_lab(lab_id), case, seed)


def _run(lab: Lab, job: Job, part: Launching, capability: int) -> Outcome:
    from grader.gpu import driver

    case = part.case.name
    if refusal := job.bundle.refusal(case, part.config):
        return refusal
    binary = job.bundle.binary(case, part.config, capability)
    config = job.bundle.configs[part.config]
    if binary is None:
        reasons = [f.message for f in job.bundle.failures if f.config == part.config]
        return Outcome(case, part.config, "refused", message=reasons[0] if reasons else f"{config} was not built")
    problem = _problem(lab.id, part.case, part.seed)
    buffers = {
        name: guard(name, tensor, fill=name != lab.output, device=torch.device("cuda"))
        for name, tensor in problem.tensors.items()
    }
    y = buffers[lab.output]
    if arrives_zeroed(lab, config):
        y.tensor.zero_()
    launch = job.bundle.launches[case, part.config]
    try:
        kernel = driver.load(binary)
    except driver.RefusedCubin as refused:
        return Outcome(case, part.config, "refused", message=f"{config}: {refused}")
    scratch = torch.zeros(kernel.scratch_bytes(launch), dtype=torch.uint8, device="cuda")
    pointers = {name: guarded.tensor.data_ptr() for name, guarded in buffers.items()}
    started = time.perf_counter()
    with kernel:
        bound = driver.BoundLaunch(kernel, launch, problem.scalars)
        bound(pointers, driver.current_stream(), scratch.data_ptr())
        torch.cuda.synchronize()
        seconds = time.perf_counter() - started
        left, rounded = y.tensor.cpu(), None
        sizes = (problem.scalars[size] for size in ("M", "N", "K"))
        added = slices(lab, config, launch, *sizes, measured=True)
        if added > 1:
            y.tensor.copy_(offsets.start(left, added))
            scratch.zero_()
            bound(pointers, driver.current_stream(), scratch.data_ptr())
            torch.cuda.synchronize()
            rounded = offsets.additions(left, y.tensor.cpu(), added)
    changed = [
        name
        for name, guarded in buffers.items()
        if name != lab.output and (guarded.overrun() or not torch.equal(guarded.tensor.cpu(), problem.tensors[name]))
    ]
    return Outcome(
        case,
        part.config,
        "ran",
        y=left,
        overrun=(lab.output,) if y.overrun() else (),
        changed=tuple(changed),
        rounded=rounded,
        seconds=seconds,
    )
