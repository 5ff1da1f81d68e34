"""Is this Triton older than a version?"""

from __future__ import annotations

import triton


def triton_before(version: str) -> bool:
    """Whether the installed Triton comes before a version such as "3.8"."""
    return _numbers(triton.__version__) < _numbers(version)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:2]]
