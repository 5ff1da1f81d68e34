"""NVIDIA's tools that watch launches on a GPU: the process that makes the launches (sanitized.py), and how a tool is run with it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from grader.labs import Lab
from grader.model import KernelBundle


def launches(
    folder: Path,
    lab: Lab,
    bundle: KernelBundle,
    pairs: Sequence[tuple[str, int]],
    seed: int,
    capability: int,
    *samples: str,
) -> list[str]:
    """The command that makes launches, a case and a config each, and notes in `folder`/progress what became of them; samples: see
    sanitized.py."""
    job = folder / "job"
    job.write_bytes(
        pickle.dumps((lab.id, bundle, [(lab.case(case), config) for case, config in pairs], seed, capability))
    )
    return [sys.executable, "-m", "grader.running.sanitized", str(job), str(folder / "progress"), *samples]


def run_tool(command: Sequence[str], gpu: str, seconds: float, printed: int | IO[bytes] = subprocess.DEVNULL) -> None:
    """Runs it to its end, or ends it and what it started. printed: a file for all that it prints."""
    with subprocess.Popen(
        command,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": gpu, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.DEVNULL,
        stdout=printed,
        stderr=printed,
        start_new_session=True,
    ) as process:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
