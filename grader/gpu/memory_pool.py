"""The judge's own device memory: products, projections and copies live here after a replay, and are wiped before the next.

Nothing lies here while a student's kernel runs. What is computed there is allocated from a pool of its own, so that
all of it can be overwritten, freed pieces too.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from grader.gpu.driver import LaunchGraph


class MemoryPool:
    """A pool of device memory. On the CPU it is the ordinary memory, and there is nothing to wipe."""

    def __init__(self, device: torch.device) -> None:
        self._pool = torch.cuda.MemPool() if device.type == "cuda" else None
        self._reserved = -1
        self._wiping: LaunchGraph | None = None

    @property
    def pool_id(self) -> Any:
        """What recorded graphs name as their memory."""
        return self._pool.id if self._pool else None

    def use(self) -> AbstractContextManager[None]:
        """Within it, new tensors lie in the pool. None of them may be kept."""
        return torch.cuda.use_mem_pool(self._pool) if self._pool else nullcontext()

    def wipe(self) -> None:
        """Overwrites the whole pool, on the current stream."""
        if not self._pool:
            return
        reserved = torch.cuda.memory_stats_as_nested_dict()["reserved_bytes"]["all"]["current"]
        if reserved != self._reserved:
            torch.cuda.synchronize()
            self.close()
            self._wiping = self._recorded()
            self._reserved = reserved
        if self._wiping:
            self._wiping.replay()

    def _recorded(self) -> LaunchGraph | None:
        """The wiping of all memory that the pool has by now."""
        from grader.gpu import driver

        assert self._pool
        # memory_snapshot(id) gives back a reference to the id's number that it never took (torch 2.11): from the 257th pool of a
        # process on, whose number is an object of its own, that frees it twice
        everything = torch.cuda.memory_snapshot()
        segments = [
            (one["address"], one["total_size"]) for one in everything if one["segment_pool_id"] == self._pool.id
        ]

        def fill(stream: int) -> None:
            for address, size in segments:
                driver.fill_bytes(address, size, stream)

        return driver.LaunchGraph.of(fill, torch.cuda.Stream().cuda_stream) if segments else None

    def close(self) -> None:
        """Gives up what wipes the pool, once no wiping is under way; the next one makes it anew."""
        if self._wiping:
            self._wiping.close()
        self._wiping, self._reserved = None, -1
