"""bench: builds everything, warms the caches, then races one contestant after the other on one GPU."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.peers import Peer, all_peers, get_peer
from bench.precompiling import Precompilation
from bench.race import PeaksJob, PeerRunner, PeerSample
from bench.shapes import Shape, shapes_of
from grader.building import BuildOptions, build
from grader.gpu.roofline import Peaks
from grader.judging.ratios import ratio
from grader.labs import Lab, all_labs
from grader.model import Case, Device, KernelBundle, KernelSource, Refusal, SpeedSample
from grader.reading import read
from grader.reporting.benchmarks import Entry, Kind, Record
from grader.running.cuda import CudaRunner

PRECOMPILE_SECONDS = 75.0
PRECOMPILE_PROCESSES = 8
PEER_SECONDS = 45.0
VERSIONED = ("torch", "triton", "gemlite", "humming-kernels", "torchao")

Listener = Callable[[str], None]


@dataclass(frozen=True)
class Entrant:
    """A kernel of this repository: its name in the report and its source."""

    name: str
    kind: Kind
    lab: Lab
    source: KernelSource | Refusal

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return shapes_of(self.lab.id, ladder=self.kind == "ladder")

    @property
    def raced(self) -> Lab:
        """The lab with the benchmark's shapes as its speed cases, and nothing to build but these."""
        shapes = tuple(shape.case for shape in self.shapes)
        return replace(self.lab, cases=(replace(shapes[0], configs="all"),), speed_cases=shapes)


def contestants(solutions: Path) -> list[Entrant]:
    """The solutions of every lab and the steps in the folder ladder/ beside them, in the order of their names."""
    labs = list(all_labs().values())
    found: list[Entrant] = []
    solved = read(solutions, labs, all_labs=True).labs
    found += [Entrant("solution", "solution", lab, solved[lab.id]) for lab in labs]
    for path in sorted((solutions / "ladder").glob("*.py")):
        for lab in labs:
            source = read(path, labs).labs.get(lab.id)
            if source is not None:
                found.append(Entrant(f"ladder/{path.stem}", "ladder", lab, source))
    return found


def bench(solutions: Path, device: Device, cores: int, listen: Listener = lambda text: None) -> Record:
    """Races everything on the GPU of `device`. What is missing or fails becomes an entry that says so."""
    started = time.monotonic()
    assert device.capability is not None
    runners = contestants(solutions)
    shares, workers = precompile_shares(all_peers()), max(1, cores // 2)
    with Precompilation(precompile, shares, PRECOMPILE_SECONDS) as precompilation, ThreadPoolExecutor(max_workers=workers) as pool:
        options = BuildOptions((device.capability,), "all", 3)
        bundles = list(pool.map(lambda one: _build(one, options), runners))
        listen(f"built {len(bundles)} kernels in {time.monotonic() - started:.0f} s")
        not_compiled = precompilation.wait()
    listen(f"compiled peers ahead until {time.monotonic() - started:.0f} s")
    if not_compiled:
        listen(not_compiled)
    entries: list[Entry] = []
    with CudaRunner() as runner:
        for contestant, bundle in zip(runners, bundles, strict=True):
            entries += _race_kernel(contestant, bundle, runner)
            listen(f"{contestant.lab.id} {contestant.name}, {time.monotonic() - started:.0f} s")
    with PeerRunner() as peer_runner:
        peaks: Peaks = peer_runner.ask(PeaksJob(), PEER_SECONDS)
        for peer in all_peers():
            entries += _race_peer(peer, peer_runner)
            listen(f"{peer.lab_id} {peer.name}, {time.monotonic() - started:.0f} s")
    return Record(
        gpu=device.name,
        capability=device.capability,
        driver=device.driver or "",
        versions={"python": platform.python_version(), **_versions()},
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        seconds=round(time.monotonic() - started, 1),
        bytes_per_second=peaks.bytes_per_second,
        fp16_per_second=peaks.fp16_per_second,
        entries=tuple(entries),
        about={peer.name: peer.about for peer in all_peers()},
    )


def _versions() -> dict[str, str]:
    found = {}
    for package in VERSIONED:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _build(contestant: Entrant, options: BuildOptions) -> KernelBundle | Refusal:
    if isinstance(contestant.source, Refusal):
        return contestant.source
    return build(contestant.raced, contestant.source, options)


# ---------------------------------------------------------------- race


def _entry(name: str, kind: Kind, shape: Shape, **fields: Any) -> Entry:
    case = shape.case
    return Entry(name, kind, shape.lab_id, case.name, case.M, case.N, case.K, shape.sparsity, **fields)


def _race_kernel(contestant: Entrant, bundle: KernelBundle | Refusal, runner: CudaRunner) -> Iterator[Entry]:
    if isinstance(bundle, Refusal):
        for shape in contestant.shapes:
            yield _entry(contestant.name, contestant.kind, shape, status="skipped", message=bundle.message)
        return
    samples = runner.speed(contestant.raced, bundle, boundaries={})
    for shape, sample in zip(contestant.shapes, samples, strict=True):
        yield _kernel_entry(contestant, shape, bundle, sample)


def _kernel_entry(contestant: Entrant, shape: Shape, bundle: KernelBundle, sample: SpeedSample) -> Entry:
    if sample.status != "timed":
        return _entry(contestant.name, contestant.kind, shape, status="failed", message=sample.message)
    measured = ratio(sample.log_ratios)
    assert sample.config is not None
    return _entry(
        contestant.name,
        contestant.kind,
        shape,
        status="timed",
        message=sample.message,
        time_us=sample.student_us,
        cublas_us=sample.baseline_us,
        ratio=measured.value,
        ratio_low=measured.low,
        ratio_high=measured.high,
        rounds=measured.rounds,
        config=str(bundle.configs[sample.config]),
        extra_bytes=2 * shape.case.M * shape.case.N,
        bytes_moved=sample.bytes_moved,
        operations=sample.operations,
    )


def _race_peer(peer: Peer, runner: PeerRunner) -> Iterator[Entry]:
    missing = peer.missing()
    for shape in shapes_of(peer.lab_id):
        if missing:
            yield _entry(peer.name, "peer", shape, status="skipped", message=missing)
            continue
        sample = runner.race(peer, shape.case, 0, PEER_SECONDS)
        yield _peer_entry(peer, shape, sample)


def _peer_entry(peer: Peer, shape: Shape, sample: PeerSample) -> Entry:
    if sample.status != "timed":
        return _entry(peer.name, "peer", shape, status=sample.status, message=sample.message, error=sample.error)
    measured = ratio(sample.log_ratios)
    return _entry(
        peer.name,
        "peer",
        shape,
        status="timed",
        message=sample.message,
        time_us=sample.time_us,
        cublas_us=sample.cublas_us,
        ratio=measured.value,
        ratio_low=measured.low,
        ratio_high=measured.high,
        rounds=measured.rounds,
        error=sample.error,
        extra_bytes=sample.extra_bytes,
        bytes_moved=sample.bytes_moved,
        operations=sample.operations,
    )


# ---------------------------------------------------------------- compile ahead


@dataclass(frozen=True)
class PeerTask:
    """One share of a peer's compilation for one case."""

    peer: str
    case: Case
    part: int

    def __str__(self) -> str:
        return f"{self.peer}, {self.case.name}"


def precompile_shares(peers: Sequence[Peer]) -> list[list[PeerTask]]:
    """What a process each does, so that every peer that compiles has been met once on each shape."""
    tasks = [
        PeerTask(peer.name, shape.case, part)
        for peer in peers
        if peer.precompile and not peer.missing()
        for shape in shapes_of(peer.lab_id)
        if shape.sparsity in (None, 0.5, 0.9)
        for part in range(peer.parts)
    ]
    return [tasks[number::PRECOMPILE_PROCESSES] for number in range(PRECOMPILE_PROCESSES)]


def precompile(task: PeerTask) -> None:
    """Does one share of a peer's compilation on the GPU."""
    import torch

    from grader.labs import get_lab
    from grader.labs.problems import generator_for

    warnings.simplefilter("ignore")
    device = torch.device("cuda")
    peer = get_peer(task.peer)
    lab = get_lab(peer.lab_id)
    problem = lab.problem(task.case, generator_for(0, lab.id, task.case.name, device=device), device)
    assert peer.precompile
    peer.precompile(problem, task.part)
    torch.cuda.synchronize()
