"""One launch under Triton's interpreter: tensors in, the same guarded buffers out. Nothing is judged here."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np

from grader.interpreter import access_log, faults, language_shims, lockstep, memory_check, program_loop, recording
from grader.interpreter.areas import Area
from grader.interpreter.generated_module import LoadedModule, constants
from grader.interpreter.launch_findings import Findings
from grader.interpreter.orders import Orders
from grader.interpreter.printing import Printed
from grader.interpreter.split_k import Contributions

language_shims.install()  # here, so that a warm parent has done it for all its forks


def interpret_one(
    module: LoadedModule, request: dict[str, Any], blobs: list[bytes]
) -> tuple[dict[str, Any], list[bytes]]:
    """Launches the kernel once over the request's grid.

    request["tensors"]: {"name", "type", "shape", "strides", "offset"} in the order of `blobs`; a blob is the tensor's
    whole guarded buffer and `offset` the element at which the tensor begins. The buffers come back in that order.
    request["record"], when there, lists the programs to record, none after so many operations as request["enough"]; the record is then one
    more blob behind the buffers. With request["alone"] no others run, and these in the order of the list.
    request["accesses"], when there, asks for every load and store instead (access_log.py), also as one more blob.
    request["factor"], when there, names the tensor [M, K] whose columns are K, and what programs add to the output is answered in one more
    blob (split_k.py), announced by "contributions" in the answer; not together with a record.
    request["poison_masked"], when there, makes poison of what a mask without `other` leaves out, and request["shuffled"] is a seed of
    other orders where Triton leaves one open (orders.py).
    request["unwritten"] names the tensors that hold poison, request["output"] the one that may be written. The answer's "memory" lists
    what memory_check found, "strayed" the tensors far beside which something was stored and inputs that were changed, "written"
    tells whether no poison can be left, "additions" how often atomics added to an element, "left_open" (what, line) of the orders that
    were, "printed" what the first program prints.
    A launch that raised, or was ended after request["seconds"], answers what faults.describe says, with "memory" and no
    buffers; a record holds what was done till then. "seconds" is the CPU time that it took.
    """
    Orders.begin(module.path, request.get("shuffled"))
    Printed.lines = []
    launch, recorded = _Launch(module, request, blobs, time.process_time()), request.get("record")
    size = lockstep.batch_size(request["grid"], request["constants"])
    few = recorded is None or 2 * len(recorded) <= math.prod(request["grid"])
    late: Findings | None = None
    if size > 1 and few and not (request.get("accesses") or request.get("alone")):
        answer, together = _together(launch, size)
        if answer and recorded is None:
            return answer
        if answer:
            again = replace(launch, started=time.process_time())
            theirs, blobs_there = _one_after_the_other(again, together.log.stores(together.areas))
            if "error" not in theirs:
                return answer[0], [*answer[1], blobs_there[-1]]
        if together.out_of_time:
            late = together.found
    return _one_after_the_other(launch, [] if request.get("alone") else None, late)


@dataclass(frozen=True)
class _Launch:
    """What is asked for. started: when it began, in CPU time."""

    module: LoadedModule
    request: dict[str, Any]
    blobs: list[bytes]
    started: float


class _Attempt:
    """At a launch: copies of its tensors, each in an area, the arguments by name, and what watches it, a `kind` of MemoryCheck."""

    def __init__(self, launch: _Launch, kind: Any = memory_check.MemoryCheck) -> None:
        self.launch, request = launch, launch.request
        self.buffers = [np.frombuffer(blob, dtype=np.uint8).copy() for blob in launch.blobs]
        areas = {
            tensor["name"]: Area(
                buffer,
                **tensor,
                poisoned=tensor["name"] in request.get("unwritten", ()),
                output=tensor["name"] == request.get("output", tensor["name"]),
            )
            for tensor, buffer in zip(request["tensors"], self.buffers, strict=True)
        }
        names = launch.module.parameters
        placed = [areas[name] for name in names if name in areas]
        for window, area in enumerate(placed):
            area.place(window)
        given = {
            **{name: program_loop.number(value) for name, value in request["scalars"].items()},
            **{area.name: program_loop.pointer(area.type, area.base) for area in placed},
            **constants(request["constants"]),
        }
        self.arguments = {name: given[name] for name in names}
        programs = math.prod(request["grid"])
        self.check = kind(
            placed, launch.module.path, request.get("seconds"), programs, bool(request.get("poison_masked"))
        )
        factor, output = areas.get(request.get("factor", "")), areas.get(request.get("output", ""))
        if factor and output:
            self.check.contributions = Contributions(factor, output, programs)

    def answer(self) -> tuple[dict[str, Any], list[bytes]]:
        """Of a launch that came to its end."""
        check = self.check
        answer = {
            "seconds": time.process_time() - self.launch.started,
            "memory": check.findings(),
            "strayed": check.strayed(),
            "written": check.written(),
            "additions": check.additions(),
            "left_open": [list(one) for one in Orders.met],
            "printed": Printed.lines,
        }
        out = [buffer.tobytes() for buffer in self.buffers]
        if check.contributions and check.contributions.complete:
            answer["contributions"] = True
            out.append(check.contributions.answer())
        return answer, out

    def failed(self, error: Exception) -> dict[str, Any]:
        """The same of one that raised."""
        seconds = time.process_time() - self.launch.started
        described = faults.describe(error, self.launch.module.path, self.check.out_of_time)
        return {**described, "seconds": seconds, "memory": self.check.findings()}


def _together(launch: _Launch, size: int) -> tuple[tuple[dict[str, Any], list[bytes]] | None, lockstep.Lockstep]:
    """Its programs in lockstep, `size` at most; no answer where the launch one program after the other has to tell what is wrong."""
    attempt, grid = _Attempt(launch, lockstep.Lockstep), launch.request["grid"]
    together = attempt.check
    try:
        with together.active():
            lockstep.launch(launch.module.jit.rewrite(), grid, size, attempt.arguments, together)
        if not together.log.disputed:
            return attempt.answer(), together
        judged = _judged(launch, together.log)
        judged.check.found.join(together.found)
        judged.check.contributions = together.contributions
        return judged.answer(), together
    except Exception as error:
        parted = together.divergences and not together.longer  # else one after the other would take longer
        if not together.out_of_time or parted or launch.request.get("record") is not None:
            return None, together
        with contextlib.suppress(Exception):
            if together.log.disputed:
                together.found.join(_judged(launch, together.log).check.found)
        return (attempt.failed(error), []), together


def _judged(launch: _Launch, log: lockstep.Log) -> _Attempt:
    """What programs that ran together did, one program after the other, on tensors as they came."""
    attempt = _Attempt(launch)
    attempt.check.contributions = None  # which the programs that ran together have already told
    lockstep.judged(log, launch.request["grid"], attempt.check)
    return attempt


def _one_after_the_other(
    launch: _Launch, stores: Sequence[list[Any]] | None, late: Findings | None = None
) -> tuple[dict[str, Any], list[bytes]]:
    """Program by program, checked at each access. stores: what is known already of those of others, where only recorded programs run.
    late: what was found when the launch ran out of time otherwise, should it again."""
    request, attempt = launch.request, _Attempt(launch)
    wanted: Iterable[int] = range(math.prod(request["grid"]))
    check = attempt.check
    check.since = launch.started
    recorder: Any = None
    begins: Callable[[int], None] | None = None
    if "record" in request:
        recorder = recording.Recorder(check.areas, check.path, request["record"], request.get("enough"), stores)
        begins = recorder.begin
        if stores is not None:
            wanted = filter(recorder.wants, request["record"])
    elif request.get("accesses"):
        recorder = access_log.AccessLog(check.areas, check.path)
        check.on_access = recorder.add
    try:
        with check.active(), recorder.active() if "record" in request else contextlib.nullcontext():
            program_loop.run(launch.module.jit.rewrite(), request["grid"], wanted, attempt.arguments, begins)
    except Exception as error:
        if late and check.out_of_time:
            check.found.join(late)
        return attempt.failed(error), [recorder.answer()] if recorder else []
    answer, out = attempt.answer()
    return answer, [*out, recorder.answer()] if recorder else out
