"""Where the CPU seconds of one student go: the course's three solutions, built and launched by one process as in a batch."""

from __future__ import annotations

import datetime
import json
import os
import platform
import resource
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from grader.building import BuildOptions, assignments, describe
from grader.building.compiler import compile_request
from grader.gpu.devices import choose
from grader.labs import Lab, all_labs
from grader.model import KernelBundle, KernelSource
from grader.pipeline.grading import BuiltKernel, GradeOptions, build_lab, judge_on_cpu, watch_memory
from grader.reading import read
from grader.sandbox import Sandbox, prewarm, usage

SOLUTIONS = Path(__file__).parents[1] / "solutions"
RESULTS = Path(__file__).parent / "results"
BEGIN, END = "<!-- stages: begin -->", "<!-- stages: end -->"
SEED = 1
EVERY = 4
"""Of so many binaries one is compiled stage by stage."""

Machine = Literal["no GPU", "a GPU"]
ASKED = {
    "describe": "sandbox: configs and grids", "lower": "sandbox: to LLVM IR", "allocate": "sandbox: until shared memory is known",
    "compile": "sandbox: to a binary", "interpret": "sandbox: launches on the interpreter",
}
"""Requests of a sandbox that are counted by themselves."""


@dataclass(frozen=True)
class StageTime:
    """cpu_seconds: of user and system time, for all `count` of it together."""

    name: str
    count: int
    cpu_seconds: float


@dataclass(frozen=True)
class StageRecord:
    """What was measured on one machine, by what a class there is graded on. load: mean number of processes that wanted a core in the
    minute before each part. memory_gb: the largest resident set of this process and of any that it waited for."""

    date: str
    cores: int
    load: tuple[float, ...]
    versions: dict[str, str]
    stages: dict[str, tuple[StageTime, ...]]
    memory_gb: float


class Requests:
    """Counts and CPU seconds by stage."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])

    def add(self, name: str, seconds: float) -> None:
        self.spent[name][0] += 1
        self.spent[name][1] += seconds

    @contextmanager
    def here(self, name: str) -> Iterator[None]:
        """What this process and children that it waits for spend meanwhile; not what sandboxes do."""
        before = _spent()
        yield
        self.add(name, _spent() - before)

    def asking(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        """Sandbox._ask, counted. A sandbox's first request has what it took to fork it, too."""

        def counted(sandbox: Sandbox, header: dict[str, Any], *rest: Any) -> Any:
            before = usage.measure(sandbox.pid).cpu_seconds if sandbox.spent else 0.0
            try:
                return ask(sandbox, header, *rest)
            finally:
                after = usage.measure(sandbox.pid).cpu_seconds
                self.add(ASKED.get(header["op"], "sandbox: forks, and modules that are loaded"), max(0.0, after - before))

        return counted

    def stages(self) -> tuple[StageTime, ...]:
        return tuple(StageTime(name, int(count), round(seconds, 2)) for name, (count, seconds) in self.spent.items())


def _spent() -> float:
    """CPU seconds of this process and of children that it waited for."""
    both = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(one.ru_utime + one.ru_stime for one in both)


def student(machine: Machine) -> tuple[StageTime, ...]:
    """One student's way through a batch, except for what a GPU does."""
    counted, device = Requests(), choose("cpu")[0]
    options = GradeOptions(device, jobs=1, facts=False)
    building = BuildOptions((90,), "all", 1) if machine == "a GPU" else options.building
    prewarm()
    with patch.object(Sandbox, "_ask", counted.asking(Sandbox._ask)):
        for lab, source in _sources():
            with counted.here("the grader's process: building"):
                bundle = build_lab(lab, source, building)
            assert isinstance(bundle, KernelBundle), bundle
            built = BuiltKernel(lab, source, bundle, SEED)
            if machine == "a GPU":
                with counted.here("the grader's process: launching"):
                    watch_memory(built, options)
            else:
                with counted.here("the grader's process: launching and judging"):
                    judge_on_cpu(built, options)
    return counted.stages()


def compiling() -> tuple[StageTime, ...]:
    """One in EVERY of the binaries of a class with a GPU, by the compiler's stages; they are compiled in this process."""
    triton_stages, generated_module = map(import_module, ("grader.building.sandboxed.triton_stages", "grader.interpreter.generated_module"))
    counted = Requests()
    for lab, source in _sources():
        bundle = describe(lab, source, BuildOptions((90,), "all", 1))
        assert isinstance(bundle, KernelBundle), bundle
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernel_module.py"
            path.write_text(bundle.made.text, encoding="utf-8")
            module = generated_module.load(str(path), bundle.made.kernel, 90)
            for config, case in binaries(lab, bundle)[::EVERY]:
                request = compile_request("compile", lab.constants, 90, bundle.configs[config], bundle.launches[case, config])
                with counted.here("front end"):
                    stages, metadata, made, _alive = triton_stages._stages(module, request)
                for name, stage in stages.items():
                    with counted.here("ptxas" if name == "cubin" else name):
                        made = stage(made, metadata)
    return counted.stages()


def binaries(lab: Lab, bundle: KernelBundle) -> list[tuple[int, str]]:
    """A config and a case for each binary that a class with a GPU needs, as if every config compiled."""
    every = range(len(bundle.configs))
    asked = {**assignments(lab, replace(bundle, lowered=frozenset(every))), **{case.name: every for case in lab.speed_cases}}
    known = {(index, bundle.launches[case, index].key): (index, case) for case, indices in asked.items() for index in indices}
    return sorted(known.values())


def _sources() -> Iterator[tuple[Lab, KernelSource]]:
    for lab in all_labs().values():
        if not lab.bonus:
            source = read(SOLUTIONS / f"{lab.id}.py", [lab], all_labs=True).labs[lab.id]
            assert isinstance(source, KernelSource)
            yield lab, source


def measure() -> StageRecord:
    """All of it; takes a minute and a half of CPU time."""
    import torch

    torch.set_num_threads(1)
    load, stages = [], {}
    for name, part in {
        "without a GPU": lambda: student("no GPU"), "for a GPU": lambda: student("a GPU"), f"one binary in {EVERY}": compiling,
    }.items():
        load.append(round(os.getloadavg()[0], 1))
        stages[name] = part()
    versions = {"python": platform.python_version(), "torch": torch.__version__, "triton": version("triton")}
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return StageRecord(date, len(os.sched_getaffinity(0)), tuple(load), versions, stages, round(peak / 1e6, 1))


def to_json(record: StageRecord) -> str:
    return json.dumps(asdict(record), indent=1) + "\n"


def table(record: StageRecord) -> str:
    """The record as Markdown."""
    lines = ["| | stage | how many | CPU s |", "|---|---|---|---|"]
    for name, stages in record.stages.items():
        dearest = sorted(stages, key=lambda one: -one.cpu_seconds)
        lines += [f"| {name} | {stage.name} | {stage.count} | {stage.cpu_seconds:.2f} |" for stage in dearest]
        lines.append(f"| {name} | all | | {sum(stage.cpu_seconds for stage in stages):.1f} |")
    load = ", ".join(map(str, record.load))
    return "\n".join(lines) + f"\n\n*{record.cores} cores, load {load}, {record.memory_gb} GB, {record.date}.*\n"
