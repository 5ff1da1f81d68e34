"""build: from a kernel's source to a KernelBundle, in sandboxes. No GPU is needed."""

from __future__ import annotations

import queue
import re
import struct
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from grader import insight
from grader.labs import Lab
from grader.model import (
    Binary,
    BuildFailure,
    Config,
    Constant,
    KernelBundle,
    KernelSource,
    Launch,
    Refusal,
)
from grader.sandbox import Answer, Sandbox, SandboxDied, SandboxTimeout
from grader.sandboxed.wire import WireError
from grader.teaching import fault_of, teach, teach_config, teach_grid

MAX_CONFIGS = 16
MAX_PROGRAMS = 1 << 24
GRID_LIMITS = (2**31 - 1, 65535, 65535)
DESCRIBE_SECONDS = 20.0
COMPILE_SECONDS = 60.0
BUILD_SECONDS = 240.0
MAX_TIMEOUTS = 2

Progress = Callable[[str], None]


@dataclass(frozen=True)
class BuildOptions:
    """How to build: for which compute capabilities, with how many sandboxes at once, confined or not.

    `scope` "all" builds what a GPU run launches; "check" builds each config once per capability. `start` makes the
    sandboxes; once `cancelled` says so, nothing more is compiled, and the result is of no use.
    """

    capabilities: tuple[int, ...]
    scope: str
    jobs: int
    confined: bool | None = None
    start: Callable[..., Sandbox] = Sandbox
    cancelled: Callable[[], bool] = lambda: False


def build(
    lab: Lab, source: KernelSource, options: BuildOptions, progress: Progress = lambda text: None
) -> KernelBundle | Refusal:
    """Describes and compiles one lab's kernel. A kernel with no config that compiles is a `build_error`."""
    described = describe(lab, source, options)
    if isinstance(described, Refusal):
        return described
    return compile_described(lab, source, described, options, progress)


def compile_described(
    lab: Lab, source: KernelSource, bundle: KernelBundle, options: BuildOptions, progress: Progress = lambda text: None
) -> KernelBundle | Refusal:
    """The second half of `build`: the bundle that `describe` made, with binaries."""
    first = next(case for case in lab.cases if case.configs == "all")
    wanted = [(capability, config, first.name) for capability in options.capabilities for config in bundle.configs]
    deadline = time.monotonic() + BUILD_SECONDS
    compiler = _Compiler(lab, source, options, deadline, progress)
    bundle = compiler.compile(bundle, wanted)
    working = {config for _, config, _ in bundle.binaries}
    if not working:
        return Refusal("build_error", _why_nothing_builds(bundle))
    if options.scope == "all":
        assigned = assignments(lab, bundle)
        pairs = [(case, config) for case, configs in assigned.items() for config in configs]
        pairs += [(case.name, index) for case in lab.speed_cases for index in sorted(working)]
        by_index = {config.index: config for config in bundle.configs}
        wanted = [(capability, by_index[index], case) for capability in options.capabilities for case, index in pairs]
        bundle = compiler.compile(bundle, wanted)
    return bundle


def assignments(lab: Lab, bundle: KernelBundle, *, compiled: bool = True) -> dict[str, tuple[int, ...]]:
    """Which configs each correctness case runs with: those that compile, in turn; all of them where the case says so.

    compiled=False: before anything was compiled, as if every config did.
    """
    working = sorted({config for _, config, _ in bundle.binaries}) if compiled else list(range(len(bundle.configs)))
    return {
        case.name: tuple(working) if case.configs == "all" else (working[number % len(working)],)
        for number, case in enumerate(lab.cases)
    }


def _why_nothing_builds(bundle: KernelBundle) -> str:
    if bundle.failures:
        count = len({failure.config for failure in bundle.failures})
        return f"none of the {count} configs compiles: {_common_reason(bundle)}"
    refused = [
        (f"{bundle.configs[index]} on {case}: ", sentence) for (case, index), sentence in bundle.refused.items()
    ]
    places = {sentence.removeprefix(prefix).split(": ")[0] for prefix, sentence in refused}
    prefix, first = refused[0] if refused else ("", "there is none")
    return f"no config can be launched: {first.removeprefix(prefix) if len(places) == 1 else first}"


def _common_reason(bundle: KernelBundle) -> str:
    """The first failure; without its config where every config fails at the same place."""
    by_index = {config.index: str(config) for config in bundle.configs}
    reasons = [
        failure.message.removeprefix(f"{by_index[failure.config]} for sm_{failure.capability}: ")
        for failure in bundle.failures
    ]
    places = {reason.split(": ")[0] for reason in reasons}
    return reasons[0] if len(places) == 1 and len(bundle.configs) > 1 else bundle.failures[0].message


# ---------------------------------------------------------------- describe


def describe(lab: Lab, source: KernelSource, options: BuildOptions) -> KernelBundle | Refusal:
    """The first half of `build`: configs and the launch of each case, without a binary."""
    scalars = {case.name: lab.scalars(case) for case in lab.all_cases}
    request = {
        "op": "describe",
        "contract": [parameter.name for parameter in lab.parameters],
        "problems": [
            {"name": name, "scalars": values, "constants": dict(lab.constants)} for name, values in scalars.items()
        ],
    }
    try:
        with options.start(confined=options.confined) as sandbox:
            for header in (load_request(source, max(options.capabilities)), request):
                answer = sandbox.ask(header, timeout=DESCRIBE_SECONDS)
                if "error" in answer.header:
                    return Refusal("rejected", describe_error(source, answer))
            return _bundle(lab, source, scalars, answer.header)
    except SandboxTimeout:
        return Refusal(
            "timeout",
            f"the configs or {source.grid or 'the grid'} did not return within {DESCRIBE_SECONDS:.0f} s; "
            "look for an endless loop outside the kernel",
        )
    except SandboxDied as death:
        return Refusal("crash", f"while the configs and the grid were evaluated: {death}")
    except (WireError, KeyError, TypeError, ValueError):
        return Refusal("crash", "the sandbox answered something that is no answer; nothing of it was used")


def load_request(source: KernelSource, capability: int) -> dict[str, Any]:
    """The request that brings a kernel's module into a sandbox; `capability` is what the module sees as its GPU."""
    return {
        "op": "load",
        "module": source.module,
        "kernel": source.kernel,
        "grid": source.grid,
        "capability": capability,
    }


def describe_error(source: KernelSource, answer: Answer) -> str:
    """A sandbox's error as a paragraph with the student's own place in it, or as the sentence that it is already."""
    fault = fault_of(answer.header)
    if fault.kind == "ContractError":
        index = re.match(r"config (\d+) of ", fault.message)
        return teach_config(source, int(index[1]), fault.message) if index else fault.message
    if fault.kind == "Unsupported":
        return fault.message
    return teach(fault, source)


def _bundle(lab: Lab, source: KernelSource, scalars: dict[str, dict[str, int]], header: dict[str, Any]) -> KernelBundle | Refusal:
    configs = tuple(
        Config(
            index, dict(config["constants"]), int(config["num_warps"]), int(config["num_stages"]), config.get("maxnreg")
        )
        for index, config in enumerate(header["configs"])
    )
    if len(configs) > MAX_CONFIGS:
        return Refusal(
            "rejected",
            f"@triton.autotune of {lab.kernel} has {len(configs)} configs, at most {MAX_CONFIGS} are graded; keep the best",
        )
    launches: dict[tuple[str, int], Launch] = {}
    refused: dict[tuple[str, int], str] = {}
    for described in header["launches"]:
        name, index = str(described["problem"]), int(described["config"])
        result = _launch(lab, scalars[name], configs[index], described, header["unspecialised"])
        if isinstance(result, Launch):
            launches[name, index] = result
        else:
            told = teach_grid(source, lab.grid, result, tuple(configs[index].constants)) if source.grid else result
            refused[name, index] = f"{configs[index]} on {name}: {told}"
    return KernelBundle(lab.id, configs, launches, refused)


def _launch(
    lab: Lab, scalars: dict[str, int], config: Config, described: dict[str, Any], unspecialised: dict[str, list[str]]
) -> Launch | str:
    """The launch of one problem with one config, or a sentence why there is none."""
    if "fault" in described:
        return f"{lab.grid} or a heuristic raised {described['fault']}"
    meta: dict[str, Constant] = {**lab.constants, **config.constants, **described["heuristics"]}
    if "grid" in described:
        grid: Any = described["grid"]
        source = lab.grid
    else:
        source = f"the default grid {lab.default_grid_text}"
        try:
            grid = list(lab.default_grid(scalars["M"], scalars["N"], scalars["K"], meta))
        except (KeyError, ValueError) as error:
            reason = f"needs the meta parameter {error}" if isinstance(error, KeyError) else f"got {error}"
            return f"{source} {reason}; add it to the config or define {lab.grid}(M, N, K, meta)"
    fault = _grid_fault(source, grid)
    if fault:
        return fault
    dimensions = tuple(grid) + (1,) * (3 - len(grid))
    folded: list[tuple[str, Constant]] = sorted(described["heuristics"].items())
    signature, divisible = [], []
    for parameter in lab.parameters:
        if parameter.type == "constexpr":
            continue
        if parameter.type != "int":
            signature.append((parameter.name, parameter.type))
            divisible.append(parameter.name)
            continue
        value = scalars[parameter.name]
        if value == 1 and parameter.name not in unspecialised["value"]:
            folded.append((parameter.name, 1))
            continue
        signature.append((parameter.name, "i32" if -(2**31) <= value < 2**31 else "i64"))
        if value % 16 == 0 and parameter.name not in unspecialised["value"] + unspecialised["alignment"]:
            divisible.append(parameter.name)
    return Launch((dimensions[0], dimensions[1], dimensions[2]), tuple(signature), tuple(divisible), tuple(folded))


def _grid_fault(source: str, grid: Any) -> str | None:
    shown = f"{source} returned {tuple(grid) if isinstance(grid, list) else grid}"
    if not isinstance(grid, list) or not 1 <= len(grid) <= 3:
        return f"{shown}; expected a tuple of one to three ints"
    if not all(isinstance(part, int) and not isinstance(part, bool) for part in grid):
        return f"{shown}; expected whole numbers: use triton.cdiv(a, b) or a // b instead of a / b"
    if any(part < 1 for part in grid):
        return f"{shown}; expected at least one program in each dimension"
    programs = 1
    for part in grid:
        programs *= part
    if programs > MAX_PROGRAMS or any(part > limit for part, limit in zip(grid, GRID_LIMITS, strict=False)):
        return f"{shown}, {programs} programs; expected at most {MAX_PROGRAMS} (and 65535 in dimensions 2 and 3)"
    return None


# ---------------------------------------------------------------- compile


class _Compiler:
    """Compiles pairs of (config, launch) in several sandboxes at once, each of which survives until it fails."""

    def __init__(
        self, lab: Lab, source: KernelSource, options: BuildOptions, deadline: float, progress: Progress
    ) -> None:
        self.lab, self.source, self.options, self.deadline, self.progress = lab, source, options, deadline, progress
        self.timeouts = 0

    def compile(self, bundle: KernelBundle, wanted: Iterable[tuple[int, Config, str]]) -> KernelBundle:
        """The bundle with binaries for the wanted (capability, config, case) that it lacks."""
        binaries, failures = dict(bundle.binaries), list(bundle.failures)
        failed = {(failure.capability, failure.config) for failure in failures}
        jobs: queue.SimpleQueue[tuple[int, Config, Launch]] = queue.SimpleQueue()
        pending = set()
        for capability, config, case in wanted:
            launch = bundle.launches.get((case, config.index))
            if launch is None or (capability, config.index) in failed:
                continue
            key = (capability, config.index, launch.key)
            if key not in binaries and key not in pending:
                pending.add(key)
                jobs.put((capability, config, launch))
        lock = threading.Lock()

        def work() -> None:
            sandbox: Sandbox | None = None
            try:
                while True:
                    try:
                        capability, config, launch = jobs.get_nowait()
                    except queue.Empty:
                        return
                    sandbox, result = self._compile_in(sandbox, capability, config, launch)
                    with lock:
                        if isinstance(result, Binary):
                            binaries[capability, config.index, launch.key] = result
                        elif (capability, config.index) not in {(f.capability, f.config) for f in failures}:
                            failures.append(result)
                        self.progress(f"compiled {len(binaries)} of {len(bundle.binaries) + len(pending)} binaries")
            finally:
                if sandbox:
                    sandbox.close()

        threads = [threading.Thread(target=work, daemon=True) for _ in range(min(self.options.jobs, len(pending)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return replace(
            bundle, binaries=binaries, failures=tuple(sorted(failures, key=lambda f: (f.config, f.capability)))
        )

    def _compile_in(
        self, sandbox: Sandbox | None, capability: int, config: Config, launch: Launch
    ) -> tuple[Sandbox | None, Binary | BuildFailure]:
        def failure(message: str) -> BuildFailure:
            return BuildFailure(config.index, capability, f"{config} for sm_{capability}: {message}")

        if self.timeouts >= MAX_TIMEOUTS or time.monotonic() > self.deadline or self.options.cancelled():
            return sandbox, failure("not compiled: the configs before it used up the time for building")
        request = _compile_request(self.lab, capability, config, launch)
        try:
            if sandbox is None:
                sandbox = self.options.start(confined=self.options.confined)
                sandbox.ask(load_request(self.source, max(self.options.capabilities)), timeout=DESCRIBE_SECONDS)
            answer = sandbox.ask(request, timeout=COMPILE_SECONDS)
            if "error" in answer.header:
                return sandbox, failure(_compile_sentence(self.source, answer, capability))
            return sandbox, _binary(self.source, answer, capability, config, launch)
        except SandboxTimeout:
            self.timeouts += 1
            death = f"did not compile within {COMPILE_SECONDS:.0f} s; use smaller tiles or unroll less"
        except SandboxDied as error:
            death = f"the compiler's process died: {error}"
        except (WireError, KeyError, TypeError, ValueError) as error:
            death = f"the compiler answered something unusable ({error})"
        if sandbox:
            sandbox.close()
        return None, failure(death)


def _compile_request(lab: Lab, capability: int, config: Config, launch: Launch) -> dict[str, Any]:
    return {
        "op": "compile",
        "capability": capability,
        "signature": dict(launch.signature),
        "divisible": list(launch.divisible),
        "constants": {**lab.constants, **config.constants, **dict(launch.folded)},
        "options": {"num_warps": config.num_warps, "num_stages": config.num_stages, "maxnreg": config.maxnreg},
    }


def _compile_sentence(source: KernelSource, answer: Answer, capability: int) -> str:
    sentence = describe_error(source, answer)
    if capability < 80:
        sentence += "; the labs need compute capability 8.0 or later"
    return sentence


def _binary(source: KernelSource, answer: Answer, capability: int, config: Config, launch: Launch) -> Binary | BuildFailure:
    """Checks what the sandbox sent before anything trusts it."""
    header, (cubin, ptx) = answer.header, answer.blobs
    entry = str(header["entry"])
    machine = struct.unpack_from("<H", cubin, 18)[0] if len(cubin) > 64 and cubin[:4] == b"\x7fELF" else 0
    if machine != 190 or not entry.isidentifier():
        raise ValueError("a cubin that is none")
    numbers = {
        name: int(header[name])
        for name in ("num_warps", "shared_bytes", "scratch_bytes_per_program", "profile_scratch_bytes", "registers",
                     "local_bytes")
    }  # fmt: skip
    limit = insight.multiprocessor(capability).shared_bytes_per_program
    if numbers["shared_bytes"] > limit:
        sentence = (
            f"needs {numbers['shared_bytes'] / 1024:.0f} KB of shared memory, a program may use {limit // 1024} KB; "
            "use smaller tiles or fewer stages"
        )
        told = teach_config(source, config.index, sentence)
        return BuildFailure(config.index, capability, f"{config} for sm_{capability}: {told}")
    if not 1 <= numbers["num_warps"] <= 32 or not 0 <= numbers["scratch_bytes_per_program"] <= 1 << 20:
        raise ValueError("numbers out of range")
    return Binary(
        config=config.index,
        capability=capability,
        cubin=cubin,
        entry=entry,
        num_warps=numbers["num_warps"],
        shared_bytes=numbers["shared_bytes"],
        scratch_bytes_per_program=numbers["scratch_bytes_per_program"],
        parameters=tuple(name for name, _ in launch.signature),
        facts=insight.facts(
            ptx.decode(errors="replace"),
            registers=numbers["registers"],
            local_bytes=numbers["local_bytes"],
            shared_bytes=numbers["shared_bytes"],
            num_warps=numbers["num_warps"],
            capability=capability,
        ),
    )
