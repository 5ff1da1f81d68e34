"""One launch under Triton's interpreter: tensors in, the same guarded buffers out. Nothing is judged here."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
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
    grid, recorded, started = request["grid"], request.get("record"), time.process_time()
    size = lockstep.batch_size(grid, request["constants"])
    few = recorded is None or 2 * len(recorded) <= math.prod(grid)
    late: Findings | None = None
    if size > 1 and few and not (request.get("accesses") or request.get("alone")):
        answer, together = _together(module, request, blobs, size, started)
        if answer and recorded is None:
            return answer
        if answer:
            given, begun = _Given(module, request, blobs), time.process_time()
            theirs, blobs_there = _one_after_the_other(module, request, given, begun, together.stores)
            if "error" not in theirs:
                return answer[0], [*answer[1], blobs_there[-1]]
        if together.out_of_time:
            late = together.found
    given = _Given(module, request, blobs)
    return _one_after_the_other(module, request, given, started, [] if request.get("alone") else None, late)


def _together(
    module: LoadedModule, request: dict[str, Any], blobs: list[bytes], size: int, started: float
) -> tuple[tuple[dict[str, Any], list[bytes]] | None, lockstep.Lockstep]:
    """Its programs in lockstep, `size` at most; no answer where the launch one program after the other has to tell what is wrong. started:
    when it began, in CPU time."""
    given, grid = _Given(module, request, blobs), request["grid"]
    together = lockstep.Lockstep(
        given.areas, module.path, request.get("seconds"), math.prod(grid), poison_masked=given.poison_masked
    )
    together.contributions = _contributions(given, request)
    try:
        with together.active():
            lockstep.launch(module.jit.rewrite(), grid, size, given.arguments, together)
        check: memory_check.MemoryCheck = together
        if together.log.disputed:
            given, check = _judged(module, request, blobs, together.log)
            check.found.join(together.found)
            check.contributions = together.contributions
        return _answer(given, check, started), together
    except Exception as error:
        parted = together.divergences and not together.longer  # else one after the other would take longer
        if not together.out_of_time or parted or request.get("record") is not None:
            return None, together
        with contextlib.suppress(Exception):
            if together.log.disputed:
                together.found.join(_judged(module, request, blobs, together.log)[1].found)
        return (_failed(error, module, together, started), []), together


class _Given:
    """What a launch is given: its tensors' buffers, its arguments by name, and where each tensor lies."""

    def __init__(self, module: LoadedModule, request: dict[str, Any], blobs: list[bytes]) -> None:
        self.buffers = [np.frombuffer(blob, dtype=np.uint8).copy() for blob in blobs]
        areas = {
            tensor["name"]: Area(
                tensor["name"],
                buffer,
                tensor["type"],
                tensor["shape"],
                tensor["strides"],
                tensor["offset"],
                tensor["name"] in request.get("unwritten", ()),
                tensor["name"] == request.get("output", tensor["name"]),
            )
            for tensor, buffer in zip(request["tensors"], self.buffers, strict=True)
        }
        names = [parameter.name for parameter in module.parameters]
        self.areas = [areas[name] for name in names if name in areas]
        for window, area in enumerate(self.areas):
            area.place(window)
        given = {
            **{name: program_loop.number(value) for name, value in request["scalars"].items()},
            **{area.name: program_loop.pointer(area.kind, area.base) for area in self.areas},
            **constants(request["constants"]),
        }
        self.arguments = {name: given[name] for name in names}
        self.poison_masked = bool(request.get("poison_masked"))


def _answer(given: _Given, check: memory_check.MemoryCheck, started: float) -> tuple[dict[str, Any], list[bytes]]:
    """Of a launch that came to its end. started: when, in CPU time."""
    answer = {
        "seconds": time.process_time() - started,
        "memory": check.findings(),
        "strayed": check.strayed(),
        "written": check.written(),
        "additions": check.additions(),
        "left_open": [list(one) for one in Orders.met],
        "printed": Printed.lines,
    }
    out = [buffer.tobytes() for buffer in given.buffers]
    if check.contributions and check.contributions.complete:
        answer["contributions"] = True
        out.append(check.contributions.answer())
    return answer, out


def _failed(error: Exception, module: LoadedModule, check: memory_check.MemoryCheck, started: float) -> dict[str, Any]:
    """The same of one that raised."""
    seconds = time.process_time() - started
    return {
        **faults.describe(error, module.path, check.out_of_time),
        "seconds": seconds,
        "memory": check.findings(),
    }


def _judged(
    module: LoadedModule, request: dict[str, Any], blobs: list[bytes], log: lockstep.Log
) -> tuple[_Given, memory_check.MemoryCheck]:
    """What programs that ran together did, one program after the other, on tensors as they came."""
    given = _Given(module, request, blobs)
    check = memory_check.MemoryCheck(
        given.areas, module.path, request.get("seconds"), math.prod(request["grid"]), given.poison_masked
    )
    lockstep.judged(log, request["grid"], check)
    return given, check


def _contributions(given: _Given, request: dict[str, Any]) -> Contributions | None:
    """What follows the slices that programs add, where the request names the factor whose columns make them."""
    areas = {area.name: area for area in given.areas}
    factor, output = areas.get(request.get("factor", "")), areas.get(request.get("output", ""))
    return Contributions(factor, output, math.prod(request["grid"])) if factor and output else None


def _one_after_the_other(
    module: LoadedModule,
    request: dict[str, Any],
    given: _Given,
    started: float,
    stores: Sequence[list[Any]] | None,
    late: Findings | None = None,
) -> tuple[dict[str, Any], list[bytes]]:
    """Program by program, checked at each access. started: when the launch began, in CPU time. stores: what is known already of those of
    others, where only recorded programs run. late: what was found when the launch ran out of time otherwise, should it again."""
    count = math.prod(request["grid"])
    wanted: Iterable[int] = range(count)
    check = memory_check.MemoryCheck(given.areas, module.path, request.get("seconds"), count, given.poison_masked)
    check.contributions, check.since = _contributions(given, request), started
    recorder: Any = None
    begins: Callable[[int], None] | None = None
    if "record" in request:
        recorder = recording.Recorder(check.areas, check.path, request["record"], request.get("enough"), stores)
        begins = recorder.begin
        if stores is not None:
            wanted = filter(recorder.wants, request["record"])
    elif request.get("accesses"):
        recorder = access_log.AccessLog(check.areas, check.path)
        check.told = recorder.add
    try:
        with check.active(), recorder.active() if "record" in request else contextlib.nullcontext():
            program_loop.run(module.jit.rewrite(), request["grid"], wanted, given.arguments, begins)
    except Exception as error:
        if late and check.out_of_time:
            check.found.join(late)
        return _failed(error, module, check, started), [recorder.answer()] if recorder else []
    answer, out = _answer(given, check, started)
    return answer, [*out, recorder.answer()] if recorder else out
