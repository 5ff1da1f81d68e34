"""Same verdict on both devices: every mistake, style and exploit of the tests, on this machine's GPU and on the interpreter.

python -m tests.verdicts --write FILE [--every N [--first I]]   # on a GPU machine: grades them and writes what came of each
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from grader.building import BuildOptions, build
from grader.gpu.devices import choose
from grader.judging.judge import Launched, findings_of
from grader.judging.judged import Judged
from grader.judging.memory_sentences import sentences
from grader.judging.rubric import load_rubric
from grader.judging.scoring import score
from grader.labs import Lab, all_labs, get_lab
from grader.labs.problems import make_problem
from grader.model import Device, KernelBundle, KernelSource, LabReport, Outcome
from grader.pipeline.grading import launch_pairs, reinterpreter
from grader.running.cpu import InterpretOptions, interpret
from tests.submissions import TESTS, exploits, mistakes, source_of, styles


@dataclass(frozen=True)
class Verdict:
    """Correctness points of one submission on each device, and the cases whose status differs, with both statuses.

    reason: why the interpreter cannot say, where that is so. failed: the cases that fail on the GPU.
    """

    name: str
    gpu_points: float
    cpu_points: float
    differs: tuple[tuple[str, str, str], ...]
    reason: str = ""
    failed: tuple[str, ...] = ()

    @property
    def agree(self) -> bool:
        return not self.differs or bool(self.reason)


def submissions() -> Iterator[tuple[str, str, str]]:
    """(name, lab, source text) of everything that the tests hand in, but for exploits that must not end in time; and of the ladder."""
    for mistake in mistakes():
        yield f"mistakes/{mistake.lab}/{mistake.name}", mistake.lab, mistake.source
    for path in styles():
        if path.suffix == ".py":
            yield f"styles/{path.stem}", path.stem.split("_")[0], path.read_text(encoding="utf-8")
    for path in sorted((TESTS.parent / "solutions").rglob("*.py")):
        yield f"{path.parent.name}/{path.stem}", path.stem.split("_")[0], path.read_text(encoding="utf-8")
    for exploit in exploits():
        if exploit.expect != "late":
            yield f"exploits/{exploit.number}-{exploit.name}", exploit.lab, exploit.source


def compare_all(device: Device, jobs: int, first: int = 0, every: int = 1) -> Iterator[Verdict]:
    """Every submission on the GPU and on the interpreter, with the same inputs; or one in so many, from the first of these.

    Each verdict as soon as it and those before it are there: a run that is cut off has what it came to.
    """
    from grader.running.cuda import CudaRunner

    assert device.capability is not None
    seed, how = secrets.randbits(40), BuildOptions((device.capability,), "all", 1)

    def prepared(entry: tuple[str, str, str]) -> tuple[str, Lab, KernelSource, KernelBundle, list[Outcome]] | None:
        name, lab_id, text = entry
        lab = get_lab(lab_id)
        source = source_of(lab, text)
        built = build(lab, source, how) if source is not None else None
        if source is None or not isinstance(built, KernelBundle):
            return None
        problems = {case.name: make_problem(lab, case, seed) for case in lab.cases}
        return (
            name,
            lab,
            source,
            built,
            interpret(lab, source, built, problems, launch_pairs(lab, built), InterpretOptions(1)),
        )

    pending: deque[Future[Verdict]] = deque()
    with CudaRunner() as runner, ThreadPoolExecutor(jobs) as pool, ThreadPoolExecutor(2) as judges:
        for done in pool.map(prepared, islice(submissions(), first, None, every)):
            if done is None:
                continue
            name, lab, source, built, watched = done
            ran = runner.correctness(lab, built, launch_pairs(lab, built), seed)
            pending.append(judges.submit(_verdict, name, lab, source, built, ran, watched, seed, device))
            while pending and pending[0].done():
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _verdict(
    name: str, lab: Lab, source: KernelSource, built: KernelBundle, ran: list[Outcome], watched: list[Outcome], seed: int,
    device: Device,
) -> Verdict:
    problems = {case.name: make_problem(lab, case, seed) for case in lab.cases}
    located = sentences(lab, source, problems, watched)

    def report(outcomes: list[Outcome]) -> LabReport:
        launched = Launched(lab, source, built, problems, outcomes, watched)
        findings = findings_of(launched, reinterpreter(launched, InterpretOptions(1)), seed)
        assert device.capability is not None
        judged = Judged(built, (device.capability,), outcomes, findings, None, (), watched, located)
        return score(lab, judged, load_rubric(), None)

    on_gpu, on_cpu = report(ran), report(watched)
    statuses = [
        (a.name, a.status, b.status)
        for a, b in zip(on_gpu.tests, on_cpu.tests, strict=True)
        if a.kind in ("correctness", "memory") and a.status != b.status
    ]
    reason = next((outcome.message for outcome in watched if outcome.status == "unsupported"), "")
    failed = tuple(test.name for test in on_gpu.tests if test.kind == "correctness" and test.status == "failed")
    return Verdict(name, on_gpu.correctness_points, on_cpu.correctness_points, tuple(statuses), reason, failed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, required=True)
    parser.add_argument("--every", type=int, default=1, help="only one in so many")
    parser.add_argument("--first", type=int, default=0, help="where these begin")
    arguments = parser.parse_args()
    device = choose("cuda")[0]
    verdicts: list[Verdict] = []
    for verdict in compare_all(device, max(1, len(os.sched_getaffinity(0)) - 2), arguments.first, arguments.every):
        verdicts.append(verdict)
        _write(arguments.write, device, verdicts)
        if verdict.differs:
            print(
                f"  {verdict.name}: GPU {verdict.gpu_points:g}, CPU {verdict.cpu_points:g}: {verdict.differs[:4]} {verdict.reason[:100]}",
                flush=True,
            )
    agree = sum(not verdict.differs for verdict in verdicts)
    print(f"{agree} of {len(verdicts)} submissions have the same verdict on both devices")


def _write(path: Path, device: Device, verdicts: list[Verdict]) -> None:
    record = {
        "device": asdict(device),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "labs": list(all_labs()),
        "submissions": len(verdicts),
        "agree": sum(not verdict.differs for verdict in verdicts),
        "exceptions": [asdict(verdict) for verdict in verdicts if verdict.differs],
    }
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
