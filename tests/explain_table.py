"""What is said of every wrong kernel of the corpus, and of right ones: `python -m tests.explain_table`, or `make explain-table`.

Each kernel is graded as a student's on a CPU, in a process that ends with it where it takes too long; what is said is compared with what
the corpus expects, and summed up in a table. Two runs are put side by side by `--compare`. `--capture` also keeps what each diagnosis was
made from, and `--replay` makes the table of a changed diagnosis from that, in half a second a kernel.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # one process a core already

import argparse
import json
import multiprocessing
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import torch

from grader.building import BuildOptions, read_by_triton
from grader.gpu.devices import choose
from grader.judging.checking import check
from grader.judging.judge import Launched, Terms
from grader.judging.rubric import load_rubric
from grader.labs import get_lab
from grader.labs.problems import make_problem
from grader.labs.wrong_kernels import alternatives
from grader.model import Refusal, Report
from grader.pipeline.grading import lab_report, launch_pairs
from grader.reading import read
from grader.reporting.document import document
from grader.running.cpu import InterpretOptions, interpret
from grader.sandbox import prewarm
from tests.explained_kernels import RIGHT, Kernel, blind_kernels, right_kernels, wrong_kernels
from tests.recorded_failures import capture, load

SECONDS = 180.0
"""So long a kernel may take; a right one takes five."""

START_SECONDS = 60.0
"""So much longer the first one of a process may take, which imports torch before."""

SEED = 1
NEAR = 2
VERDICTS = ("named", "observed", "nothing", "false", "to judge")
WRONG = ("single", "several")
LEFT_OUT = {"w4a16_many_programs": ("several_tiles",)}
"""A case of 8192 programs, which takes two minutes."""


def graded(kernel: Kernel) -> dict[str, Any]:
    """What a student would get for it on a CPU, and how many CPU seconds the reasons take beyond the grading."""
    device, rubric = choose("cpu")[0], load_rubric()
    lab = get_lab(kernel.lab)
    lab = replace(lab, cases=tuple(case for case in lab.cases if case.name not in LEFT_OUT.get(kernel.name, ())))
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{lab.id}{kernel.suffix}"
        path.write_text(kernel.source, encoding="utf-8")
        submission = read(path, [lab], all_labs=True)
        source = submission.labs[lab.id]
        how = BuildOptions((90,), "check", 1)
        built = source if isinstance(source, Refusal) else read_by_triton(lab, source, how)
        if isinstance(built, Refusal) or isinstance(source, Refusal):
            return {"status": "not graded", "message": built.message if isinstance(built, Refusal) else "", "tests": []}
        problems = {case.name: make_problem(lab, case, SEED) for case in lab.cases}
        options = InterpretOptions(1)
        outcomes = interpret(lab, source, built, problems, launch_pairs(lab, built, compiled=False), options)
        findings = [check(lab, problems[one.case], one, built) for one in outcomes]
        before, middle = cpu_seconds(), time.monotonic()
        launched = Launched(lab, source, built, problems, outcomes, outcomes)
        report = lab_report(launched, Terms(rubric, None, (90,), SEED), options, checked=findings)
        spent, ended = cpu_seconds() - before, time.monotonic()
        found = document(Report(submission.name, device, SEED, {lab.id: report}, submission.notes))["labs"][lab.id]
        return {**found, "cpu": round(spent, 2), "seconds": [round(middle - started, 2), round(ended - middle, 2)]}


def cpu_seconds() -> float:
    """The CPU time of this process and of all that it started, those included that have ended."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def judged(kernel: Kernel, found: dict[str, Any]) -> dict[str, Any]:
    """One record of the table: what was expected, what was said, and what to think of it."""
    failed = [test for test in found["tests"] if test["status"] == "failed"]
    texts = dict.fromkeys(test["diagnosis"] for test in failed if test.get("diagnosis"))
    if kernel.kind == RIGHT:
        texts |= dict.fromkeys(test["message"] for test in failed)
    memory = [test["message"] for test in failed if test["kind"] == "memory"]
    mistakes = [name for test in failed for name in test["metrics"].get("mistakes", ())]
    record = {
        "status": found["status"], "failed": [test["name"] for test in failed], "memory": memory, "cpu": found.get("cpu"),
        "seconds": found.get("seconds"), "message": found.get("message") or "", "defects": found.get("defects", []),
    }
    return record | _said(kernel, texts, mistakes, memory)


def _said(kernel: Kernel, texts: Iterable[str], mistakes: Iterable[str], memory: Sequence[str]) -> dict[str, Any]:
    """What a record has of a kernel and of sentences. mistakes: what these are counted as: "column: aspect" was observed, and names
    nothing."""
    said = [sentence for text in texts for sentence in text.split("\n")]
    claimed = list(dict.fromkeys(name for name in mistakes if ":" not in name))
    lines = [[int(number) for number in re.findall(r"\bline (\d+)", sentence)] for sentence in said]
    first = next((numbers[0] for numbers in lines[:1] if numbers), None)
    known = {key: value for key, value in asdict(kernel).items() if key not in ("source", "suffix")}
    judged = verdict(kernel, said, claimed, memory, lines)
    return {**known, "said": said, "claimed": claimed, "lines": lines, "verdict": judged, "off": _off(first, kernel.edited)}


def replayed(kernel: Kernel, path: Path) -> dict[str, Any]:
    """The record of a kernel that was captured, with what is said of it now. cpu: seconds of the diagnosis alone."""
    record, failure = load(path)
    if not failure.lab:
        return record | {"of": kernel.of}
    started = time.process_time()
    found = failure.again(SEED)
    answers = [one for one in found.diagnoses if one is not None]
    texts, mistakes = dict.fromkeys(one.sentences for one in answers), [name for one in answers for name in one.mistakes]
    record |= {"cpu": round(time.process_time() - started, 2), "defects": list(found.defects)}
    return record | _said(kernel, texts, mistakes, record["memory"])


def verdict(
    kernel: Kernel, said: Sequence[str], claimed: Sequence[str], memory: Sequence[str], lines: Sequence[Sequence[int]]
) -> str:
    """`false`: a name that is not expected, or anything said of a right kernel; `observed`: a line, no name; `to judge`: by a reader."""
    if kernel.kind == RIGHT:
        return "false" if said or claimed or memory else "nothing"
    if kernel.truth and (claimed or any(lines) or memory):
        return "to judge"
    expected = alternatives((*kernel.expected, kernel.name))
    if any(not expected & set(name.split(" or ")) for name in claimed):
        return "false"
    if claimed:
        return "named"
    return "observed" if any(lines) or memory else "nothing"


def _off(line: int | None, edits: Sequence[int] | None) -> int | None:
    """How far the first sentence's line is from the nearest edited one; None where there is no such line."""
    return None if line is None or not edits else min(abs(line - edit) for edit in edits)


# ---- many kernels at once


def work(pipe: Connection) -> None:
    """Grades what comes through the pipe, one kernel after the other, with sandboxes that stay warm; or what was captured of it."""
    torch.set_num_threads(1)
    prewarm()
    while (asked := pipe.recv()) is not None:
        kernel, captured, fresh = asked
        try:
            record = _worked(kernel, captured, fresh=fresh)
        except Exception as error:  # a defect of the grader is a row of the table
            message = f"{type(error).__name__}: {error}"
            record = judged(kernel, {"status": "defect", "tests": [], "message": message, "defects": [message]})
        pipe.send(record)


def _worked(kernel: Kernel, captured: Path | None, *, fresh: bool) -> dict[str, Any]:
    """A kernel's record. captured: the file of what its diagnosis is made from; fresh: to be written."""
    if captured is None:
        return judged(kernel, graded(kernel))
    return capture(captured, lambda: judged(kernel, graded(kernel))) if fresh else replayed(kernel, captured)


class Worker:
    """A process that grades; a new one takes its place where it dies or a kernel takes too long."""

    def __init__(self) -> None:
        self._process: multiprocessing.process.BaseProcess | None = None

    def ask(self, kernel: Kernel, captured: Path | None = None, *, fresh: bool = True) -> dict[str, Any]:
        starts = self._process is None
        if starts:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=work, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        try:
            self._pipe.send((kernel, captured, fresh))
            if self._pipe.poll(SECONDS + (START_SECONDS if starts else 0)):
                return dict(self._pipe.recv())
            message = f"took more than {SECONDS:.0f} s"
        except (EOFError, OSError) as error:
            message = f"the process ended: {error!r}"
        self.end()
        return judged(kernel, {"status": "not graded", "tests": [], "message": message})

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None


def run(
    kernels: Sequence[Kernel], jobs: int, out: Path, captured: Path | None = None, *, fresh: bool = True
) -> list[dict[str, Any]]:
    """Grades all of them, and writes a line of JSON as each is done. captured: the folder of what their diagnoses are made from; fresh: to
    be written, and not to be read."""
    idle = [Worker() for _ in range(min(jobs, len(kernels)))]
    records: list[dict[str, Any]] = []
    started = time.monotonic()

    def one(kernel: Kernel) -> dict[str, Any]:
        worker = idle.pop()
        try:
            return worker.ask(kernel, captured and captured / file_of(kernel), fresh=fresh)
        finally:
            idle.append(worker)

    try:
        with out.open("w", encoding="utf-8") as file, ThreadPoolExecutor(len(idle)) as pool:
            for done in as_completed([pool.submit(one, kernel) for kernel in kernels]):
                records.append(record := done.result())
                file.write(json.dumps(record) + "\n")
                file.flush()
                if not len(records) % 25:
                    print(
                        f"{len(records)} of {len(kernels)} after {time.monotonic() - started:.0f} s",
                        file=sys.stderr,
                        flush=True,
                    )
    finally:
        for worker in idle:
            worker.end()
    return records


# ---- tables


def summary(records: Sequence[dict[str, Any]]) -> str:
    """The table, in Markdown: how many kernels, what was said of them, and how near its line is to the mistake."""
    heads = ("lab", "kernels", *VERDICTS, "line exact", f"within {NEAR}", "of", "median CPU s", "largest")
    rows = [heads, tuple("---" for _ in heads)]
    labs, classes = sorted({record["lab"] for record in records}), sorted({record["of"] for record in records} - {""})
    for kind in WRONG:
        rows += [
            row(f"{lab}, {kind}", [one for one in records if (one["lab"], one["kind"]) == (lab, kind)]) for lab in labs
        ]
        rows.append(row(f"**all, {kind}**", [one for one in records if one["kind"] == kind]))
    rows += [row(name, [one for one in records if one["of"] == name and one["kind"] != RIGHT]) for name in classes]
    rows.append(row("**all that are wrong**", [one for one in records if one["kind"] != RIGHT]))
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in rows if cells[1] != "0")
    right = [one for one in records if one["kind"] == RIGHT]
    accused = [one for one in right if one["verdict"] == "false"]
    odd = [one for one in records if one["status"] not in ("graded", "crash", "timeout") or one["defects"]]
    lines = [
        text,
        "",
        f"{len(right)} right kernels, {len(accused)} accused. {len(odd)} not graded, or with a defect of the grader.",
    ]
    lines += [
        f"- {title(one)}: {one['message']} {' '.join(one['said'])} {' '.join(one['defects'])}"
        for one in (*accused, *odd)
    ]
    return "\n".join(lines)


def row(head: str, records: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """One line of the table. The line counts where something was said of a kernel whose edits are known."""
    verdicts = Counter(one["verdict"] for one in records)
    known = [one["off"] for one in records if one["off"] is not None]
    asked = [one for one in records if one["edited"] and one["verdict"] != "nothing"]
    spent = sorted(one["cpu"] for one in records if one["cpu"] is not None) or [0.0]
    exact, near = sum(off == 0 for off in known), sum(off <= NEAR for off in known)
    cells = (
        len(records),
        *(verdicts[name] for name in VERDICTS),
        exact,
        near,
        len(asked),
        spent[len(spent) // 2],
        spent[-1],
    )
    return (head, *map(str, cells))


def file_of(kernel: Kernel) -> Path:
    """Where in a folder a kernel's diagnosis is kept."""
    return Path(kernel.of or kernel.kind, f"{kernel.lab}-{kernel.name.replace('/', '_')}.pkl")


def title(record: dict[str, Any]) -> str:
    return f"{record['lab']}-{record['name']} ({record['kind']})"


def compared(old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> str:
    """Both tables, of the kernels that both have, and the kernels of which something else is said."""
    before = {(one["lab"], one["name"], one["kind"]): one for one in old}
    after = {(one["lab"], one["name"], one["kind"]): one for one in new}
    both = [key for key in before if key in after]
    lines = [
        "## Old",
        "",
        summary([before[key] for key in both]),
        "",
        "## New",
        "",
        summary([after[key] for key in both]),
        "",
    ]
    changed = [key for key in both if any(before[key][one] != after[key][one] for one in ("verdict", "said"))]
    lines += [
        f"{len(before) - len(both)} kernels are only in the old file, {len(after) - len(both)} only in the new one.",
        "",
    ]
    lines += [f"## {len(changed)} kernels of which something else is said", ""]
    for key in sorted(changed, key=lambda key: (VERDICTS.index(after[key]["verdict"]), key), reverse=True):
        one, other = before[key], after[key]
        verdicts, apart = ("{} -> {}".format(*(what[name] for what in (one, other))) for name in ("verdict", "off"))
        meant = ", ".join(one["expected"]) or " ".join(one["truth"])
        lines += [f"- {title(one)}: {verdicts}; {apart} lines from {one['edited']}: {meant}"]
        lines += [f"  - old: {said}" for said in one["said"] if said not in other["said"]]
        lines += [f"  - new: {said}" for said in other["said"] if said not in one["said"]]
    return "\n".join(lines)


def _first(record: dict[str, Any]) -> str:
    return (record["said"] or record["memory"] or [record["message"] or "nothing"])[0]


def loaded(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def every(items: Sequence[Kernel], count: int) -> list[Kernel]:
    """So many of them, evenly over all."""
    return list(items) if count >= len(items) else [items[number * len(items) // count] for number in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.explain_table", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/explain.json"), help="one line of JSON a kernel")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes at once")
    parser.add_argument("--sample", type=int, default=sys.maxsize, help="so many kernels, evenly over all")
    parser.add_argument("--lab", help="kernels of this lab alone")
    parser.add_argument("--kernel", metavar="NAME", help="the entries of this name alone, with all that is said of them")
    parser.add_argument(
        "--blind", type=Path, nargs="+", metavar="PATH", help="those of tests/blind/DATE, or of files in tests/corpus/, alone, for a reader"
    )
    parser.add_argument("--styles", action="store_true", help="right kernels alone")
    parser.add_argument(
        "--compare", nargs=2, type=Path, metavar=("OLD", "NEW"), help="run nothing: put two results side by side"
    )
    parser.add_argument("--capture", type=Path, metavar="FOLDER", help="keep there what each diagnosis is made from, 5 MB a kernel")
    parser.add_argument("--replay", type=Path, metavar="FOLDER", help="grade nothing: the diagnosis alone, of what was captured there")
    options = parser.parse_args()
    if options.compare:
        print(compared(*map(loaded, options.compare)))
        return
    kernels = [*(() if options.styles else wrong_kernels()), *right_kernels()]
    if options.blind:
        kernels = [kernel for path in options.blind for kernel in blind_kernels(path)]
    kernels = [one for one in kernels if options.lab in (None, one.lab) and options.kernel in (None, one.name)]
    if options.replay:
        kernels = [one for one in kernels if (options.replay / file_of(one)).is_file()]
    if not kernels:
        parser.error(f"there is no kernel `{options.kernel}` in lab `{options.lab or 'any'}`; names are those of mistakes.toml")
    kernels = every(kernels, options.sample)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    captured = options.capture or options.replay
    records = run(kernels, max(1, options.jobs), options.out, captured, fresh=options.replay is None)
    print(summary(records))
    for one in records if options.replay is None or options.kernel else ():
        if one["truth"]:
            print(
                f"- {title(one)}: lines {one['edited']}: {' '.join(one['truth'])}",
                *(f"  - {said}" for said in one["said"]),
                sep="\n",
            )
        elif options.kernel:
            print(f"- {title(one)}: {one['verdict']}", *(f"  - {said}" for said in one["said"]), sep="\n")
        elif one["verdict"] == "false" and one["kind"] != RIGHT:
            print(
                f"- false: {title(one)}: {', '.join(one['claimed'])}, expected {', '.join(one['expected'])}: {_first(one)}"
            )


if __name__ == "__main__":
    main()
