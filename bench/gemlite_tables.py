"""GemLite with the tuned table that it ships for the nearest GPU."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch

from bench.peers import Skip


@cache
def gemlite() -> Any:
    """GemLite with the table it ships for the H100, the nearest to newer Hopper GPUs."""
    import gemlite as library

    table = Path(library.__file__).parent / "configs" / "h100.json"
    if torch.cuda.get_device_capability() == (9, 0) and not library.load_config(str(table)):
        raise Skip("GemLite could not load its h100 table")
    return library
