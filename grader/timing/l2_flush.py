"""Flushes L2 between timed runs, so that every run starts with a cold cache."""

from __future__ import annotations

import torch


class L2Flush:
    """Called, it writes and then reads a buffer four times the size of L2, which evicts everything else."""

    def __init__(self) -> None:
        l2_bytes = max(torch.cuda.get_device_properties().L2_cache_size, 32 << 20)
        self._filler = torch.zeros(l2_bytes, dtype=torch.float32, device="cuda")
        self._sum = torch.zeros((), device="cuda")

    def __call__(self) -> None:
        self._filler.zero_()
        torch.sum(self._filler, dim=0, out=self._sum)
