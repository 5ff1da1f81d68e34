"""torch, imported when something of it is first used: reading, describing and compiling a kernel use nothing of it.

`stand_in` puts a module by that name where `import torch` finds it. What a module of the grader imports of torch while it is
imported itself is the module alone, so all of them can be imported before torch is.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any

NAME = "torch"


class _Late(ModuleType):
    """Has what the real one has, which it imports for that."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self.__spec__ = importlib.util.find_spec(NAME)
        self._lock = threading.RLock()
        self._real: ModuleType | None = None

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            if self._real is None:
                if sys.modules.get(NAME) is self:
                    del sys.modules[NAME]
                self._real = importlib.import_module(NAME)
        return getattr(self._real, name)


def stand_in() -> None:
    """Does nothing where torch is imported already, or is not installed."""
    if NAME not in sys.modules and importlib.util.find_spec(NAME):
        sys.modules[NAME] = _Late()


def begin() -> None:
    """Begins to import torch; returns at once."""
    late = sys.modules.get(NAME)
    if isinstance(late, _Late):
        threading.Thread(target=lambda: late.Tensor, daemon=True).start()
