"""run, without a GPU: launches interpreted in sandboxes, their inputs and guarded outputs compared outside.

A launch knows nothing of the others: neither their inputs nor what they left behind. Each of a hidden case has a sandbox of its own.
Clean ones of one kernel's public cases share a sandbox: a launch reaches what another left behind only by an access outside its
tensors, which is found, and whatever is found counts only of a launch that was the first in its sandbox.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from grader.building import describe_error, made_request
from grader.building.sentences import defect
from grader.interpreter.finding_text import PROMISES
from grader.judging.checking import LEFT_OPEN
from grader.judging.memory_sentences import VERBS, WORST_FIRST
from grader.judging.slice_sums import factor
from grader.labs import Launchable
from grader.labs.guarded import Guarded, guard
from grader.labs.slices import arrives_zeroed
from grader.model import (
    GeneratedModule,
    KernelBundle,
    KernelSource,
    MemoryFinding,
    Outcome,
    Problem,
    as_data,
    place_in,
)
from grader.sandbox import LOST, Answer, MemoryCorrupted, Sandbox, SandboxDied, SandboxLost, SandboxTimeout, at_once
from grader.sandbox.inside.wire import WireError

CASE_SECONDS = 30.0
LONGER = 4.0
"""So many times the seconds of a case are waited for a launch: its process ends it before, as memory_check says."""

TOGETHER = 16.0
"""So many times the seconds of a case all launches of a lab may take together; a right kernel of 8192 programs takes four."""

START_SECONDS = 60.0
MAX_TIMEOUTS = 2
MAX_FINDINGS = 24
MAX_AXES = 8
MAX_CALLS = 8
MAX_PRINTED = 100
"""Lines, and characters of each; the interpreter keeps fewer."""


@dataclass(frozen=True)
class InterpretOptions:
    """How many sandboxes at once, and whether they must be confined (None: where bubblewrap works).

    `start` makes the sandboxes; once `cancelled` says so, no further launch begins. `record`: which programs of a
    launch to record, by how many it has, in the order of their worth; after so many operations as `enough` no further one.
    `alone`: run no others. `accesses`: log every load and store instead. `poison_masked`: what a load's mask
    leaves out is poison where the load has no `other`, and not zero as on NVIDIA's GPUs. `shuffled`: the seed of other orders
    where Triton leaves one open. `sharing`: whether clean launches may share a sandbox; those that are recorded or logged never do.
    """

    jobs: int
    confined: bool | None = None
    case_seconds: float = CASE_SECONDS
    start: Callable[..., Sandbox] = Sandbox
    cancelled: Callable[[], bool] = lambda: False
    record: Callable[[int], Sequence[int]] | None = None
    enough: int | None = None
    alone: bool = False
    accesses: bool = False
    poison_masked: bool = False
    shuffled: int | None = None
    sharing: bool = True

    @property
    def shares(self) -> bool:
        """Whether clean launches share a sandbox."""
        return self.sharing and not (self.record or self.accesses)


def interpret(
    kernel: Launchable,
    source: KernelSource,
    bundle: KernelBundle,
    problems: Mapping[str, Problem],
    pairs: Sequence[tuple[str, int]],
    options: InterpretOptions,
    progress: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Runs the (case, config) pairs and returns their outcomes in the same order.

    Those of hidden cases must be the last: what they take is missing to whatever comes after them. Configs of which the interpreter sees
    no difference, such as other numbers of warps or stages, have one launch of a case together, if it runs to its end. When a launch
    does not finish in time, no other begins until those that were running have ended: they may not, either.

    Not split: the queue, the limits and the threads of one call share their state.
    """
    waiting = list(range(len(pairs)))
    seen = [_seen(bundle, pair) for pair in pairs]
    outcomes: dict[int, Outcome] = {}
    timeouts: list[str] = []
    running, suspected = set[int](), set[int]()
    lock = threading.Lock()
    ended = threading.Condition(lock)
    most = TOGETHER * options.case_seconds

    def taken(longest: bool) -> int | None:
        """The next launch: in order, or that of the most programs, lest it begin last and all wait for it. Hidden ones stay behind."""
        with lock:
            public = [number for number in waiting if not kernel.hides(pairs[number][0])]
            if longest and public and not timeouts:
                number = max(public, key=lambda number: bundle.programs(*pairs[number]))
            elif waiting:
                number = waiting[0]
            else:
                return None
            waiting.remove(number)
            return number

    def launched(number: int, launches: _Launches) -> Outcome:
        outcome, (case, config) = None, pairs[number]
        with lock:
            running.add(number)
        try:
            outcome = launches.run(problems[case], case, config)
        finally:
            with ended:
                running.remove(number)
                suspected.discard(number)
                if outcome is not None and outcome.status == "timeout":
                    timeouts.append(case)
                    suspected.update(running)
                ended.notify_all()
        return outcome

    def outcome_of(number: int, launches: _Launches) -> Outcome:
        """Of one launch, which is not made where something speaks against it."""
        case, config = pairs[number]
        with ended:
            ended.wait_for(lambda: not suspected)
        if options.cancelled():
            return Outcome(case, config, "refused", message="not run: cancelled")
        if len(timeouts) >= MAX_TIMEOUTS:
            names = " and ".join(timeouts[:MAX_TIMEOUTS])
            return Outcome(case, config, "timeout", message=f"not run: {names} did not finish in time")
        if sum(done.seconds for done in list(outcomes.values())) > most:
            message = f"not run: the launches before it took more than {most:.0f} s together on the interpreter"
            return Outcome(case, config, "timeout", message=message)
        return bundle.refusal(case, config) or launched(number, launches)

    def work(place: int) -> None:
        with closing(_Launches(kernel, source, bundle, options)) as launches:
            while (number := taken(longest=place % 2 == 1)) is not None:
                outcome = outcome_of(number, launches)
                with lock:
                    alike = [other for other in waiting if outcome.status == "ran" and seen[other] == seen[number]]
                    waiting[:] = [other for other in waiting if other not in alike]
                    outcomes[number] = outcome
                    outcomes.update({other: replace(outcome, config=pairs[other][1], seconds=0.0) for other in alike})
                    for one in (number, *alike):
                        progress(outcomes[one])

    at_once(work, min(options.jobs, len(pairs)))
    return [outcomes[number] for number in range(len(pairs))]


def _seen(bundle: KernelBundle, pair: tuple[str, int]) -> object:
    """What the interpreter sees of a launch, beside the kernel and the inputs of the case; of one that is refused, itself."""
    launch = bundle.launches.get(pair)
    if launch is None or pair in bundle.refused:
        return pair
    return pair[0], repr(sorted(bundle.configs[pair[1]].constants.items())), launch.grid, repr(launch.folded)


class _Launches:
    """Launches of one kernel, one after the other; close it at the end."""

    def __init__(
        self, kernel: Launchable, source: KernelSource, bundle: KernelBundle, options: InterpretOptions
    ) -> None:
        self.kernel, self.source, self.bundle, self.options = kernel, source, bundle, options
        self.sandbox: Sandbox | None = None
        """Where the next launch is made; after `run` it is one that only clean launches of public cases know, or None."""

    def run(self, problem: Problem, case: str, config: int) -> Outcome:
        """One launch. One that is not clean, and not the first in its sandbox, is made again in a sandbox of its own."""
        shares = self.options.shares and not self.kernel.hides(case)
        if not shares:
            self.close()
        first = self.sandbox is None
        outcome = self._launch(problem, case, config)
        if not first and not _is_clean(outcome) and not self.options.cancelled():
            self.close()
            spent, outcome = outcome.seconds, self._launch(problem, case, config)
            outcome = replace(outcome, seconds=spent + outcome.seconds)
        if not shares or not _is_clean(outcome):
            self.close()
        return outcome

    def close(self) -> None:
        """Ends the sandbox, if there is one; the next launch has a new one."""
        if self.sandbox:
            self.sandbox.close()
        self.sandbox = None

    def _launch(self, problem: Problem, case: str, config: int) -> Outcome:
        """In the sandbox at hand, or in a new one."""
        bundle, options = self.bundle, self.options
        buffers = self.buffers(problem, config)
        sent = [guarded.buffer.numpy().tobytes() for guarded in buffers]
        request = self.request(problem, case, config, buffers)
        before = self.sandbox.spent if self.sandbox else 0.0
        try:
            if self.sandbox is None:
                self.sandbox = options.start(interpret=True, confined=options.confined)
                newest = max((capability for capability, _, _ in bundle.binaries), default=90)
                loaded = self.sandbox.ask(made_request(bundle.made, newest), timeout=START_SECONDS)
                if "error" in loaded.header:  # the compiler has read this very module
                    said = str(loaded.header.get("message", "")).split("\n")[0]
                    return Outcome(case, config, "unsupported", message=defect(f"{loaded.header['error']}: {said}"))
            answer = self.sandbox.ask(request, sent, timeout=LONGER * options.case_seconds)
            if "error" in answer.header:
                return self._failure(case, config, answer)
            return self._outcome(case, config, buffers, sent, answer)
        except SandboxLost:
            return Outcome(case, config, "lost", message=LOST)
        except SandboxTimeout:
            message = (
                f"did not finish within {options.case_seconds:.0f} s on the interpreter; is there a loop that "
                "never ends, or a grid of far too many programs?"
            )
            return Outcome(case, config, "timeout", message=message, seconds=LONGER * options.case_seconds)
        except MemoryCorrupted as death:
            message = f"the kernel read or wrote far outside its tensors: {death}; check its masks and strides"
        except SandboxDied as death:
            message = f"the interpreter's process died: {death}"
        except (WireError, ValueError, KeyError, TypeError, OverflowError) as error:
            message = f"the interpreter gave an unusable answer ({error})"
        return Outcome(
            case, config, "crash", message=message, seconds=self.sandbox.spent - before if self.sandbox else 0.0
        )

    def buffers(self, problem: Problem, config: int) -> list[Guarded]:
        """The tensors as the launch finds them, each between guard regions."""
        kernel = self.kernel
        buffers = [guard(name, tensor, fill=name != kernel.output) for name, tensor in problem.tensors.items()]
        if arrives_zeroed(kernel, self.bundle.configs[config]):
            for guarded in buffers:
                if guarded.name == kernel.output:
                    guarded.tensor.zero_()
        return buffers

    def request(self, problem: Problem, case: str, config: int, buffers: list[Guarded]) -> dict[str, Any]:
        """What the interpreter is told of a launch: tensors, scalars, constants, grid, limits, and what to look at meanwhile."""
        kernel, options = self.kernel, self.options
        launch, chosen = self.bundle.launches[case, config], self.bundle.configs[config]
        # to the compiler a 1 that is passed at run time is the number 1, whatever its width
        folded = dict(launch.folded)
        zeroed = arrives_zeroed(kernel, chosen)
        request: dict[str, Any] = {
            "op": "interpret",
            "tensors": [_tensor_request(kernel, guarded) for guarded in buffers],
            "scalars": {name: value for name, value in problem.scalars.items() if name not in folded},
            "constants": as_data({**kernel.constants, **chosen.constants, **folded}),
            "grid": list(launch.grid),
            "unwritten": [] if zeroed else [kernel.output],
            "output": kernel.output,
            "seconds": 0.8 * options.case_seconds,
        }
        if zeroed and (name := factor(kernel)) is not None and not (options.accesses or options.record):
            request["factor"] = name
        if options.poison_masked:
            request["poison_masked"] = True
        if options.shuffled is not None:
            request["shuffled"] = options.shuffled
        if options.accesses:
            request["accesses"] = True
        elif options.record:
            recorded = list(options.record(self.bundle.programs(case, config)))
            request |= {"record": recorded, "enough": options.enough, "alone": options.alone}
        return request

    def _failure(self, case: str, config: int, answer: Answer) -> Outcome:
        """Of a launch that ended with an error."""
        made, status = self.bundle.made, "crash"
        if answer.header.get("reason") == "time":
            status = "timeout"
        elif answer.header["error"] in ("Unsupported", "GraderDefect"):
            status = "unsupported"
        grid = self.bundle.launches[case, config].grid
        found = tuple(_finding(entry, made, grid) for entry in answer.header.get("memory", [])[:MAX_FINDINGS])
        message = describe_error(self.source, answer, made)
        flow = answer.blobs[0] if status == "crash" and len(answer.blobs) == 1 else b""
        return Outcome(case, config, status, memory=found, message=message, seconds=_seconds(answer), flow=flow)  # type: ignore[arg-type]

    def _outcome(self, case: str, config: int, buffers: list[Guarded], sent: list[bytes], answer: Answer) -> Outcome:
        """Of a launch that ended by itself, by what became of its buffers."""
        output, made, header = self.kernel.output, self.bundle.made, answer.header
        grid = self.bundle.launches[case, config].grid
        overrun, changed, y = False, [], None
        beside = answer.blobs[len(buffers)] if len(answer.blobs) == len(buffers) + 1 else b""
        added = header.get("contributions") is True
        for guarded, before, after in zip(buffers, sent, answer.blobs[: len(buffers)], strict=True):
            if len(after) != len(before):
                raise ValueError(f"{len(after)} bytes for {guarded.name}, expected {len(before)}")
            strayed = guarded.name in header["strayed"]
            if guarded.name == output:
                guarded.buffer.copy_(torch.from_numpy(np.frombuffer(after, dtype=np.uint8).copy()))
                y = guarded.tensor.clone()
                overrun = guarded.overrun() or strayed
            elif after != before or strayed:
                changed.append(guarded.name)
        return Outcome(
            case,
            config,
            "ran",
            y=y,
            overrun=(output,) if overrun else (),
            changed=tuple(changed),
            memory=tuple(_finding(entry, made, grid) for entry in header["memory"][:MAX_FINDINGS]),
            written=bool(header["written"]),
            additions=_integer(header["additions"]),
            left_open=tuple(_open_order(entry, made) for entry in header["left_open"][:MAX_FINDINGS]),
            contributions=beside if added else b"",
            seconds=_seconds(answer),
            flow=b"" if added else beside,
            printed=tuple(str(line)[:MAX_PRINTED] for line in list(header.get("printed", ()))[:MAX_PRINTED]),
        )


def _is_clean(outcome: Outcome) -> bool:
    """Whether a launch wrote all of Y, and reached nothing but its tensors. An order left open reaches nothing else."""
    found = outcome.overrun or outcome.changed or outcome.memory
    return outcome.status == "ran" and outcome.written is True and not found


def _tensor_request(kernel: Launchable, guarded: Guarded) -> dict[str, Any]:
    type_of = {parameter.name: parameter.type.removeprefix("*") for parameter in kernel.parameters}
    return {
        "name": guarded.name,
        "type": type_of[guarded.name],
        "shape": list(guarded.tensor.shape),
        "strides": list(guarded.tensor.stride()),
        "offset": guarded.offset,
    }


def _seconds(answer: Answer) -> float:
    """The CPU time of a launch, whatever became of it."""
    seconds = answer.header.get("seconds")
    return float(seconds) if isinstance(seconds, int | float) else 0.0


def _finding(entry: dict[str, Any], made: GeneratedModule, grid: tuple[int, int, int]) -> MemoryFinding:
    """One entry of the checker's answer, whose words are checked like everything that leaves a sandbox."""
    kind, fault = entry["kind"], entry["fault"]
    if (kind != "promise" or fault not in PROMISES) and (kind not in VERBS or fault not in WORST_FIRST):
        raise ValueError("a finding of no known kind")
    line, dimension, offset = entry.get("line"), entry.get("dimension"), entry.get("offset")
    return MemoryFinding(
        kind,
        fault,
        None if line is None else made.origin(_integer(line)),
        str(entry.get("tensor", "")),
        tuple(_integer(i) for i in entry.get("index", ())),
        None if dimension is None else _integer(dimension),
        tuple(place_in(grid, _integer(i)) for i in entry.get("programs", ())),
        _integer(entry["lanes"]),
        None if offset is None else _integer(offset),
        tuple(_integer(step) for step in entry.get("steps", ())[:MAX_AXES]),
        tuple(
            line for line in map(made.origin, map(_integer, entry.get("callers", ())[:MAX_CALLS])) if line is not None
        ),
        tuple(_integer(i) for i in entry.get("meant", ())[:MAX_AXES]),
        entry.get("differs") is True,
        str(entry.get("misled") or ""),
    )


def _open_order(entry: Any, made: GeneratedModule) -> tuple[str, int | None]:
    what, line = entry
    if what not in LEFT_OPEN:
        raise ValueError("an order of no known kind")
    return what, made.origin(_integer(line))


def _integer(value: Any) -> int:
    if not isinstance(value, int) or abs(value) >= 2**62:
        raise ValueError("not a whole number")
    return value
