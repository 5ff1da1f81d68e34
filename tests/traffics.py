"""Kernels whose traffic the tests count: read, described for one case and interpreted with the log on."""

from __future__ import annotations

from functools import cache

from grader.building import BuildOptions
from grader.labs import get_lab
from grader.model import Case, KernelBundle, Refusal
from grader.running.cpu import InterpretOptions
from grader.traffic import Traffic, count_traffic, describe_case
from tests.submissions import TESTS, source_of

ROOT = TESTS.parent


@cache
def counted(file: str, lab_id: str, sizes: tuple[int, int, int] | str, config: int = 0) -> Traffic | Refusal:
    """The traffic of a file of the repository: on a case of the lab, or on one of these M, N, K."""
    return counted_text((ROOT / file).read_text(encoding="utf-8"), lab_id, sizes, config)


def counted_text(text: str, lab_id: str, sizes: tuple[int, int, int] | str, config: int = 0) -> Traffic | Refusal:
    """The traffic of a kernel in text."""
    lab = get_lab(lab_id)
    case = lab.case(sizes) if isinstance(sizes, str) else Case("sized", "a size", *sizes)
    source = source_of(lab, text)
    assert source is not None
    bundle = describe_case(lab, source, case, BuildOptions((90,), "check", 1, None))
    assert isinstance(bundle, KernelBundle), bundle
    return count_traffic(lab, source, bundle, case, config, InterpretOptions(1))


def of_solution(file: str, lab_id: str, sizes: tuple[int, int, int] | str, config: int = 0) -> Traffic:
    """The traffic of a right kernel in solutions/."""
    found = counted(f"solutions/{file}", lab_id, sizes, config)
    assert isinstance(found, Traffic), found
    assert found.wrong == ""
    return found
