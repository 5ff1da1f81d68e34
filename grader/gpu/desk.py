"""The judge's own device memory: products, projections and copies live here after a replay, and are wiped before the next.

Nothing lies here while a student's kernel runs. What is computed on a desk is allocated from a pool of its own, so that
all of it can be overwritten, freed pieces too.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


class Desk:
    """A pool of device memory. On the CPU it is the ordinary memory, and there is nothing to wipe."""

    def __init__(self, device: torch.device) -> None:
        self._pool = torch.cuda.MemPool() if device.type == "cuda" else None
        self._reserved = -1
        self._segments: list[tuple[int, int]] = []

    @property
    def pool_id(self) -> Any:
        """What recorded graphs name as their memory."""
        return self._pool.id if self._pool else None

    def use(self) -> AbstractContextManager[None]:
        """Within it, new tensors lie on the desk. None of them may be kept."""
        return torch.cuda.use_mem_pool(self._pool) if self._pool else nullcontext()

    def wipe(self) -> None:
        """Overwrites the whole desk, on the current stream."""
        if not self._pool:
            return
        from grader.gpu import driver

        reserved = torch.cuda.memory_stats_as_nested_dict()["reserved_bytes"]["all"]["current"]
        if reserved != self._reserved:
            segments = torch.cuda.memory_snapshot(self._pool.id)
            self._segments = [(int(segment["address"]), int(segment["total_size"])) for segment in segments]
            self._reserved = reserved
        stream = torch.cuda.current_stream().cuda_stream
        for address, size in self._segments:
            driver.fill_bytes(address, size, stream)
