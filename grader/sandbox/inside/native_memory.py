"""The interpreter's native memory functions, and what those who look at each access on its way need of them."""

from __future__ import annotations

import sys
from typing import Any

POISON_BYTE = 0x7E
"""What fills a value that no kernel can rely on: a large number in every type, NaN in fp16."""


class NativeMemory:
    """Stands in front of Triton's native functions: what a subclass does not define goes straight to them."""

    def __init__(self, memory: Any, builder: Any) -> None:
        self._memory, self._builder = memory, builder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)

    def _program(self) -> int:
        """The number of the program that is running, counted along the grid."""
        (x, y, z), (_, height, depth) = self._builder.grid_idx, self._builder.grid_dim
        return int((x * height + y) * depth + z)


def line_in(path: str) -> int | None:
    """The innermost line of the module at `path` on the stack."""
    return next(iter(lines_in(path)), None)


def lines_in(path: str) -> list[int]:
    """The lines of the module at `path` on the stack, the innermost first: where something is, and the calls that led there."""
    lines, frame = [], sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == path:
            lines.append(frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return lines
