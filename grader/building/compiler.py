"""compile: from the generated module to binaries. Compiles in sandboxes where no student's Python ever ran; no GPU is needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal

from grader.building.cubin import fault as cubin_fault
from grader.building.facts import facts, loop_facts
from grader.building.options import BuildOptions
from grader.building.sentences import COMPILER_FAILURE, compiler_failure, defect, describe_error, fault_in, is_defect
from grader.building.sm_limits import sm_limits, too_much_shared_memory
from grader.compile_errors import config_message
from grader.labs import Lab
from grader.model import Binary, BuildFailure, Config, GeneratedModule, KernelBundle, KernelSource, Launch, as_data
from grader.sandbox import LOST, Answer, MemoryCorrupted, Sandbox, SandboxDied, SandboxLost, SandboxTimeout, at_once
from grader.sandbox.inside import wire

BUILD_SECONDS = 240.0
LOAD_SECONDS = 20.0
COMPILE_SECONDS = 60.0
MAX_TIMEOUTS = 2
NO_TIME_LEFT = "not compiled: earlier compilations used up the build time"
HIDDEN = "a hidden case does not compile"

Operation = Literal["compile", "lower", "allocate", "read"]
"""How far to compile: to a binary, to LLVM IR, until shared memory is allocated, or to the end of Triton's front end."""

Wanted = tuple[int, Config, str]
"""Capability, config, and the name of a case."""

Compiled = Callable[[int, int], None]
"""Called with how many binaries are compiled, and of how many."""

_Made = Binary | BuildFailure | bool | None
"""What becomes of a job. Of one that was lowered: whether it would be one kernel and nothing else."""


@dataclass(frozen=True)
class _Job:
    """One specialisation of one config for one capability. public: whether a case that is not hidden launches it."""

    capability: int
    config: Config
    launch: Launch
    public: bool

    @property
    def key(self) -> tuple[int, int, str]:
        return self.capability, self.config.index, self.launch.key

    def failure(self, message: str, *, ours: bool = False, gradable: bool = True) -> BuildFailure:
        """Why there is no binary; `ours`: the grader is to blame, and not the kernel; `gradable`: not the compiler itself. Of hidden cases
        no word of the compiler's is kept."""
        if not self.public and message not in (LOST, NO_TIME_LEFT):
            message = defect("on a hidden case") if ours else HIDDEN
        sentence = f"{self.config} for sm_{self.capability}: {message}"
        return BuildFailure(self.config.index, self.capability, sentence, message if ours else "", gradable)


class Compiler:
    """Compiles, or has Triton's front end read, launches of configs in several sandboxes at once.

    A sandbox survives until it fails; use as a context manager, whose end is theirs. Why a launch of hidden cases alone does not compile
    is told to nobody.
    seconds: what each of the sandboxes that work at once may spend; waiting for a CPU does not count (`Sandbox.spent`), so
    that a busy machine changes no verdict.
    """

    def __init__(
        self,
        lab: Lab,
        source: KernelSource,
        options: BuildOptions,
        compiled: Compiled = lambda done, total: None,
        *,
        seconds: float = BUILD_SECONDS,
    ) -> None:
        self.lab, self.source, self.options, self.compiled = lab, source, options, compiled
        self.left = seconds * options.jobs
        self.timeouts = 0
        self.idle: list[Sandbox] = []
        self.tiles: dict[tuple[int, str], int] = {}
        """Bytes of shared memory that were allocated, by config and by what is done with tiles."""

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for sandbox in self.idle:
            sandbox.close()

    def compile(self, bundle: KernelBundle, wanted: Sequence[Wanted], *, refuse: bool = False) -> KernelBundle:
        """The bundle with the wanted binaries that it lacks. refuse: a launch that has none is refused,
        so that the interpreter gives no points for it either."""
        failed = {(failure.capability, failure.config) for failure in bundle.failures}
        jobs = [
            job
            for job in self._jobs(bundle, wanted)
            if job.key not in bundle.binaries and (job.capability, job.config.index) not in failed
        ]
        results = self._run("compile", bundle.made, jobs, len(bundle.binaries))
        made = {job.key: result for job, result in results if isinstance(result, Binary)}
        bundle = replace(bundle, binaries={**bundle.binaries, **made})
        return self._without(bundle, wanted if refuse else (), results)

    def lower(self, bundle: KernelBundle, wanted: Iterable[Wanted]) -> tuple[KernelBundle, frozenset[int]]:
        """The bundle with why what is wanted does not compile; no binary is made of what does. And the configs, by index, of whose binary
        LLVM IR says that it would be one kernel and nothing else."""
        results = self._run("lower", bundle.made, self._jobs(bundle, wanted), len(bundle.binaries))
        plain = frozenset(job.config.index for job, result in results if result is True)
        return self._without(bundle, (), results), plain

    def allocate(self, bundle: KernelBundle, wanted: Iterable[Wanted]) -> KernelBundle:
        """The bundle with why what is wanted does not compile until its shared memory is allocated. After that Triton only translates,
        for one capability as for another."""
        jobs = self._jobs(bundle, wanted)
        return self._without(bundle, (), self._run("allocate", bundle.made, jobs, len(bundle.binaries)))

    def read(self, bundle: KernelBundle, wanted: Sequence[Wanted]) -> KernelBundle:
        """The bundle without the launches that Triton's front end refuses, and why."""
        return self._without(bundle, wanted, self._run("read", bundle.made, self._jobs(bundle, wanted), None))

    def drop_uncompilable(
        self, bundle: KernelBundle, wanted: Sequence[Wanted], compiled: Mapping[int, Launch]
    ) -> KernelBundle:
        """The bundle without the launches of which no binary can be made, and why; none is kept.

        Each specialisation is compiled until its shared memory is known, and to the end where heuristics give a config values that
        it has in none before, since then it may have another tile. compiled: a launch of each config that compiles, by index.

        Not split: one pass over public and hidden launches, in comprehensions.
        """
        own = {parameter.name for parameter in self.lab.parameters}

        def values(index: int, launch: Launch) -> str:
            return repr((index, [pair for pair in launch.folded if pair[0] not in own]))

        tried = {values(index, launch) for index, launch in compiled.items()}
        done = {(index, launch.key) for index, launch in compiled.items()}
        jobs = [job for job in self._jobs(bundle, wanted) if (job.config.index, job.launch.key) not in done]
        broken: dict[str, BuildFailure] = {}
        for public in (True, False):  # of hidden cases last, as `_jobs` says
            results = self._run("allocate", bundle.made, [job for job in jobs if job.public is public], None)
            given = [(values(job.config.index, job.launch), job) for job, result in results if result is None]
            whole = {value: job for value, job in reversed(given) if value not in tried}
            tried |= set(whole)
            for job, result in self._run("compile", bundle.made, list(whole.values()), None):
                if isinstance(result, BuildFailure):
                    broken[values(job.config.index, job.launch)] = result
            results += [
                (job, broken[value] if public else job.failure("", gradable=broken[value].gradable))
                for value, job in given
                if value in broken
            ]
            bundle = self._without(bundle, wanted, results)
        return bundle

    def _without(
        self, bundle: KernelBundle, wanted: Sequence[Wanted], results: Sequence[tuple[_Job, _Made]]
    ) -> KernelBundle:
        """The bundle with why jobs failed, and without the wanted launches of these."""
        refused, failures = dict(bundle.refused), {(f.config, f.capability): f for f in bundle.failures}
        ungradable = set(bundle.ungradable)
        for job, result in results:
            if not isinstance(result, BuildFailure):
                continue
            if job.public or result.ours:
                failures.setdefault((job.config.index, job.capability), result)
            for _, config, case in wanted:
                launch = bundle.launches.get((case, config.index))
                if config.index == job.config.index and launch is not None and launch.key == job.launch.key:
                    refused[case, config.index] = result.message
                    ungradable |= set() if result.gradable else {(case, config.index)}
        failed = tuple(failures[key] for key in sorted(failures))
        return replace(bundle, refused=refused, failures=failed, ungradable=frozenset(ungradable))

    def _jobs(self, bundle: KernelBundle, wanted: Iterable[Wanted]) -> list[_Job]:
        """Each specialisation once; those of hidden cases last, so that the time they take is missing to no other."""
        jobs: dict[tuple[int, int, str], _Job] = {}
        hidden = {case.name for case in self.lab.all_cases if case.hidden}
        for capability, config, case in wanted:
            launch = bundle.launches.get((case, config.index))
            if launch is None:
                continue
            job = _Job(capability, config, launch, case not in hidden)
            if job.public or job.key not in jobs:
                jobs[job.key] = job
        return sorted(jobs.values(), key=lambda job: not job.public)

    def _run(
        self, operation: Operation, made: GeneratedModule, jobs: Sequence[_Job], before: int | None
    ) -> list[tuple[_Job, _Made]]:
        """What became of each job: a binary, a failure, or None where nothing was to be had against it.

        before: how many binaries there were already; None: nobody is told how many there are.
        """
        waiting = iter([(job, self._request(operation, job)) for job in jobs])  # each is taken by one of the threads
        results: list[tuple[_Job, _Made]] = []
        lock = threading.Lock()

        def work(place: int) -> None:
            with lock:
                sandbox = self.idle.pop() if self.idle else None
            try:
                for job, request in waiting:
                    sandbox, result = self._one(operation, made, sandbox, job, request)
                    with lock:
                        results.append((job, result))
                        if before is not None:
                            self.compiled(before + len(results), before + len(jobs))
            finally:
                if sandbox:
                    self.idle.append(sandbox)

        at_once(work, min(self.options.jobs, len(jobs)))
        return sorted(results, key=lambda pair: jobs.index(pair[0]))

    def _request(self, operation: Operation, job: _Job) -> dict[str, Any]:
        """With what fits for sure if it is to be allocated: of the same tiles there are as many copies as stages, two at least where
        only their addresses are known better or worse, or another capability has other layouts."""
        request = compile_request(operation, self.lab.constants, job.capability, job.config, job.launch)
        if operation == "allocate":
            most = sm_limits(job.capability).shared_bytes_per_program // max(2, job.config.num_stages)
            mine = {tiles: used for (index, tiles), used in self.tiles.items() if index == job.config.index}
            request["fitting"] = sorted(tiles for tiles, used in mine.items() if used <= most)
        return request

    def _one(
        self, operation: Operation, made: GeneratedModule, sandbox: Sandbox | None, job: _Job, request: dict[str, Any]
    ) -> tuple[Sandbox | None, _Made]:
        if self.timeouts >= MAX_TIMEOUTS or self.left <= 0 or self.options.cancelled():
            return sandbox, job.failure(NO_TIME_LEFT)
        cache = self.options.cache
        before = sandbox.spent if sandbox else 0.0
        try:
            answer = cache.answer(made, request) if cache else None
            if answer is None:
                if sandbox is None:
                    sandbox = self.options.start(confined=self.options.confined)
                    loaded = sandbox.ask(made_request(made, max(self.options.capabilities)), timeout=LOAD_SECONDS)
                    if "error" in loaded.header:
                        sandbox.close()  # it holds no module that the next job could ask for
                        return None, job.failure(describe_error(self.source, loaded, made), ours=is_defect(loaded))
                answer = sandbox.ask(request, timeout=COMPILE_SECONDS)
                if cache and "error" not in answer.header:
                    cache.keep(made, request, answer)
            return sandbox, self._result(operation, made, answer, job)
        except SandboxLost:
            return None, job.failure(LOST, ours=True)
        except SandboxTimeout:
            self.timeouts += 1
            death = f"did not compile within {COMPILE_SECONDS:.0f} s; use smaller tiles or unroll less"
        except MemoryCorrupted as error:
            return None, job.failure(compiler_failure(self.source, made, str(error)), gradable=False)
        except SandboxDied as error:
            death = f"the compiler's process died: {error}"
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            death = f"the compiler gave an unusable answer ({error})"
        finally:
            self.left -= sandbox.spent - before if sandbox else 0.0
        if sandbox:
            sandbox.close()
        return None, job.failure(death)

    def _result(self, operation: Operation, made: GeneratedModule, answer: Answer, job: _Job) -> _Made:
        """What the compiler's answer comes to. Raises ValueError and the like for one that is unusable."""
        if "error" in answer.header:
            sentence = describe_error(self.source, answer, made)
            old = "; the labs need compute capability 8.0 or later" if job.capability < 80 else ""
            own = answer.header["error"] == COMPILER_FAILURE
            return job.failure(f"{sentence}{old}", ours=is_defect(answer), gradable=not own)
        if operation == "read":
            return None
        shared, tiles = int(answer.header["shared_bytes"]), str(answer.header["tiles"])
        if tiles:
            self.tiles[job.config.index, tiles] = max(shared, self.tiles.get((job.config.index, tiles), 0))
        too_large = too_much_shared_memory(shared, job.capability)
        if too_large:
            return job.failure(config_message(self.source, job.config.index, too_large))
        if operation == "allocate":
            return None
        if operation == "lower":
            return answer.header["plain"] is True
        made_of = _binary(answer, job.capability, job.config, job.launch)
        return job.failure(made_of) if isinstance(made_of, str) else made_of


@dataclass(frozen=True)
class Complaint:
    """What Triton's front end has against a kernel: a paragraph, the line in the source's module (None: not known), and
    (text, type) of what stood there."""

    sentence: str
    line: int | None = None
    values: tuple[tuple[str, str], ...] = ()


def front_end(
    source: KernelSource, made: GeneratedModule, signature: Mapping[str, str], options: BuildOptions
) -> Complaint | None:
    """Has Triton's front end read a generated module that belongs to no lab. `signature`: Triton's type of each parameter."""
    newest, launch = max(options.capabilities), Launch((1, 1, 1), tuple(signature.items()), (), ())
    request = compile_request("read", {}, newest, Config(0, {}, 4, 1), launch)
    try:
        with options.start(confined=options.confined) as sandbox:
            for header in (made_request(made, newest), request):
                answer = sandbox.ask(header, timeout=LOAD_SECONDS)
                if "error" in answer.header:
                    fault = fault_in(source, answer, made)
                    return Complaint(describe_error(source, answer, made), fault.line, fault.values)
    except SandboxLost:
        return Complaint(LOST)
    except SandboxTimeout:
        return Complaint(f"Triton did not read this within {LOAD_SECONDS:.0f} s; unroll less")
    except (SandboxDied, KeyError, TypeError, ValueError) as error:
        return Complaint(f"Triton's front end died: {error}")
    return None


def made_request(made: GeneratedModule, capability: int) -> dict[str, Any]:
    """The request that brings a generated module into a sandbox; `capability` is what the kernel sees as its GPU."""
    return {"op": "made", "module": made.text, "kernel": made.kernel, "capability": capability}


def compile_request(
    operation: str, constants: Mapping[str, Any], capability: int, config: Config, launch: Launch
) -> dict[str, Any]:
    """The request to compile a launch of a config, as far as the operation says. constants: the lab's."""
    return {
        "op": operation,
        "capability": capability,
        "signature": dict(launch.signature),
        "divisible": list(launch.divisible),
        "constants": as_data({**constants, **config.constants, **dict(launch.folded)}),
        "options": {"num_warps": config.num_warps, "num_stages": config.num_stages, "maxnreg": config.maxnreg},
    }


def _binary(answer: Answer, capability: int, config: Config, launch: Launch) -> Binary | str:
    """Checks what the sandbox sent before anything trusts it. A sentence where it is a cubin that is not launched."""
    header, (cubin,) = answer.header, answer.blobs
    entry = str(header["entry"])
    if not cubin.startswith(b"\x7fELF") or not entry.isidentifier():
        raise ValueError("not a cubin")
    if fault := cubin_fault(cubin, entry):
        return fault
    return Binary(
        config=config.index,
        capability=capability,
        cubin=cubin,
        entry=entry,
        num_warps=wire.integer(header["num_warps"], 1, 32),
        shared_bytes=wire.integer(header["shared_bytes"], 0),
        scratch_bytes_per_program=wire.integer(header["scratch_bytes_per_program"], 0, 1 << 20),
        parameters=tuple(name for name, _ in launch.signature),
        facts=facts(header, capability),
        loop=loop_facts(header["ptx"]["loop"]),
    )
