"""ncu, Nsight Compute: what a launch did to the GPU by the GPU's own counters, and in which lines of the kernel its warps waited.

The lines are known without ncu, too, from Proton, which comes with Triton. The launches are made by the process that compute-sanitizer
watches (sanitized.py), when nothing is timed. What ncu and Proton write names the kernel and its instructions; it is read to a limit.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from grader.labs import Lab
from grader.model import GeneratedModule, HotLine, KernelBundle, Profile
from grader.running.tools import launches, run_tool

SHARED = ("L1 Wavefronts Shared", "L1 Wavefronts Shared Ideal")
SECTORS = ("L2 Theoretical Sectors Global", "L2 Theoretical Sectors Global Ideal")
"""What a line's accesses took, and the least that as many bytes can take."""

SECONDS = 120.0
"""All launches of a kernel together; a right kernel takes ten to twenty."""
MAX_BYTES = 16 << 20
SEED = 0
"""Of the inputs, the same for everybody: what is counted depends on them."""
TOOLKIT = "/usr/local/cuda/bin/ncu"
MOST_LINES = 4
SMALLEST_SHARE = 0.05
FORBIDDEN = "ERR_NVGPUCTRPERM"
MODULE_FILE = "kernel_module.py"
"""The generated module's name in a binary's table of lines (building/sandboxed/operations.py)."""
STALL, GOES_ON = "stall_", "selected"
SAMPLES, PLACE = "num_samples", re.compile(rf"{re.escape(MODULE_FILE)}:(?:\w+@)?(\d+)")
"""Proton's samples of a line, and how it writes which line."""
STALL_OF = {
    "stalled_dispatch_stall": "stall_dispatch",
    "stalled_imc_miss": "stall_imc",
    "stalled_lg_throttle": "stall_lg",
    "stalled_long_scoreboard": "stall_long_sb",
    "stalled_math_pipe_throttle": "stall_math",
    "stalled_mio_throttle": "stall_mio",
    "stalled_no_instruction": "stall_no_inst",
    "stalled_short_scoreboard": "stall_short_sb",
    "stalled_tex_throttle": "stall_tex",
}
"""Proton's words for stalls that ncu has others for."""

PEAKS = {
    "DRAM": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "tensor cores": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "instruction issue": "smsp__issue_active.avg.pct_of_peak_sustained_active",
}
"""Counters in percent of what the GPU can do."""
TIME = "gpu__time_duration.sum"
WARPS = "sm__warps_active.avg.per_cycle_active"
COUNTERS = (TIME, WARPS, *PEAKS.values())


class NoProfile(RuntimeError):
    """Why there is none, in a sentence."""


def installed() -> str | None:
    """ncu's path, or None."""
    return shutil.which("ncu") or (TOOLKIT if os.access(TOOLKIT, os.X_OK) else None)


def profile(
    lab: Lab, bundle: KernelBundle, pairs: Sequence[tuple[str, int]], capability: int, gpu: str
) -> list[Profile]:
    """What these launches did, a case and a config each: ncu's profile, or Proton's where there is none. Raises NoProfile."""
    try:
        return _counted(lab, bundle, pairs, capability, gpu)
    except NoProfile as why:
        return _sampled(lab, bundle, pairs, capability, gpu, str(why))


def _sampled(
    lab: Lab, bundle: KernelBundle, pairs: Sequence[tuple[str, int]], capability: int, gpu: str, without: str
) -> list[Profile]:
    """Lines alone, by Proton's samples. without: why ncu has no profile."""
    with tempfile.TemporaryDirectory(prefix="profiled-") as folder:
        samples = Path(folder, "samples")
        said = _run(launches(Path(folder), lab, bundle, pairs, SEED, capability, str(samples)), gpu)
        try:
            with samples.with_suffix(".hatchet").open(encoding="utf-8") as file:
                hot = sampled_lines(file.read(MAX_BYTES), bundle.made)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise NoProfile(f"{without}; Proton took no samples, {_last_words(said)}") from None
    found = [Profile(*pair, lines=hot[name]) for pair in pairs if (name := f"{pair[0]} {pair[1]}") in hot]
    if not any(one.lines for one in found):
        raise NoProfile(f"{without}; Proton took no samples of the kernel's lines")
    return found


def _counted(
    lab: Lab, bundle: KernelBundle, pairs: Sequence[tuple[str, int]], capability: int, gpu: str
) -> list[Profile]:
    """By ncu. Raises NoProfile."""
    tool = installed()
    if tool is None:
        raise NoProfile("Nsight Compute's `ncu` is not installed here")
    with tempfile.TemporaryDirectory(prefix="profiled-") as folder:
        report = Path(folder, "report.ncu-rep")
        counting = ("--metrics", ",".join(COUNTERS), "--section", "SourceCounters", "--clock-control", "none")
        launching = launches(Path(folder), lab, bundle, pairs, SEED, capability)
        said = _run([tool, *counting, "-o", str(report), *launching], gpu)
        if not report.exists():
            raise NoProfile(_why(said))
        read = (tool, "--import", str(report), "--csv", "--print-units", "base", "--page")
        counted = counters(_run([*read, "raw"], gpu))
        hot = hot_lines(_run([*read, "source", "--print-source", "cuda,sass"], gpu), bundle.made)
    launched = [pair for pair in pairs if bundle.binary(*pair, capability) is not None and pair not in bundle.refused]
    if not len(launched) == len(counted) == len(hot):
        raise NoProfile(f"ncu counted {len(counted)} of {len(launched)} launches")
    return [_profile(*found) for found in zip(launched, counted, hot, strict=True)]


def _profile(pair: tuple[str, int], counted: Mapping[str, float], hot: tuple[HotLine, ...]) -> Profile:
    peaks = {name: counted.get(counter, math.nan) / 100 for name, counter in PEAKS.items()}
    return Profile(*pair, hot, counted.get(TIME, math.nan) / 1e3, peaks, counted.get(WARPS, math.nan))


def _run(command: Sequence[str], gpu: str) -> str:
    """What it prints, cut to the limit."""
    with tempfile.TemporaryFile() as printed:
        run_tool(command, gpu, SECONDS, printed)
        printed.seek(0)
        return printed.read(MAX_BYTES).decode(errors="replace")


def _why(said: str) -> str:
    if FORBIDDEN in said:
        return (
            f"only administrators may read this GPU's counters ({FORBIDDEN}); one of them allows it with the driver's option "
            "NVreg_RestrictProfilingToAdminUsers=0"
        )
    return f"ncu gave no report, {_last_words(said)}"


def _last_words(said: str) -> str:
    last = next((line for line in reversed(said.splitlines()) if line.strip()), "nothing")
    return f"its last words: {last[:200]}"


def _rows(text: str) -> Iterator[list[str]]:
    """The rows of a table; ncu's own messages (`==PROF== ...`) lie between them."""
    return csv.reader(line for line in text.splitlines() if line.startswith('"'))


def _number(text: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return math.nan


def counters(text: str) -> list[dict[str, float]]:
    """The counters of each launch, from ncu's page "raw": a row of names, one of units, and one a launch."""
    rows = [*_rows(text), list[str]()]
    names = rows[0]
    return [
        {name: _number(value) for name, value in zip(names, row, strict=True) if name in COUNTERS}
        for row in rows[2:]
        if len(row) == len(names) and TIME in names
    ]


def hot_lines(text: str, made: GeneratedModule) -> list[tuple[HotLine, ...]]:
    """The lines in which the warps of each launch were met most often, from ncu's page "source".

    It has a table for each file of a launch, a row for each of its lines and below that one for each instruction; the next launch begins
    with a file that the last one had.
    """
    launches: list[dict[str, list[dict[str, str]]]] = []
    file, names = "", list[str]()
    for row in _rows(text):
        if row[:1] == ["File Path"]:
            file = Path(row[1]).name
            if not launches or file in launches[-1]:
                launches.append({})
            launches[-1][file] = []
        elif row[:1] == ["Line No"]:
            names = row
        elif launches and row[0].isdigit() and len(row) == len(names):
            launches[-1][file].append(dict(zip(names, row, strict=True)))
    return [_hottest(files, made) for files in launches]


def sampled_lines(text: str, made: GeneratedModule) -> dict[str, tuple[HotLine, ...]]:
    """The same by the name of a launch, from Proton's tree: below a launch a frame for each line, with its samples by their stalls."""
    found = {}
    for launch in json.loads(text)[0]["children"]:
        files: dict[str, list[dict[str, str]]] = {MODULE_FILE: [], "": []}
        frames = [launch]
        while frames:
            frame = frames.pop()
            frames += frame["children"]
            row = {
                STALL_OF.get(name, name.replace("stalled_", STALL)): str(value)
                for name, value in frame["metrics"].items()
            }
            if SAMPLES in row:
                line = PLACE.search(frame["frame"]["name"])
                place = {"Line No": line[1], "# Samples": row[SAMPLES]} if line else {"# Samples": row[SAMPLES]}
                files[MODULE_FILE if line else ""].append(row | place)
        found[str(launch["frame"]["name"])] = _hottest(files, made)
    return found


def _hottest(files: Mapping[str, Sequence[Mapping[str, str]]], made: GeneratedModule) -> tuple[HotLine, ...]:
    total = sum(_number(row["# Samples"]) for rows in files.values() for row in rows)
    found = []
    for row in files.get(MODULE_FILE, ()):
        line, samples = made.origin(int(row["Line No"])), _number(row["# Samples"])
        if line is not None and samples >= SMALLEST_SHARE * total > 0:
            found.append(
                HotLine(line, samples / total, *_reason(row, samples), _excess(row, SHARED), _excess(row, SECTORS))
            )
    return tuple(sorted(found, key=lambda one: -one.share)[:MOST_LINES])


def _reason(row: Mapping[str, str], samples: float) -> tuple[str, float]:
    """Why its warps did not go on, most often, in ncu's word for it, and in which share of the samples."""
    stalls = {name.removeprefix(STALL): _number(value) for name, value in row.items() if name.startswith(STALL)}
    counts = {name: count for name, count in stalls.items() if count > 0 and "(" not in name and name != GOES_ON}
    name = max(counts, key=counts.__getitem__, default="")
    return name, counts.get(name, 0.0) / samples


def _excess(row: Mapping[str, str], columns: tuple[str, str]) -> float:
    """How often more than needed; 1 where there are no such accesses."""
    took, ideal = (_number(row.get(name, "")) for name in columns)
    return took / ideal if ideal > 0 else 1.0
