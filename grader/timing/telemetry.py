"""What NVML saw while a case was timed: other processes on the GPU, and clocks that were held down.

Everything here is a remark beside a time. Where NVML is missing or does not tell, there is no remark and no error.
"""

from __future__ import annotations

from typing import Any

import torch

SLOWDOWNS = {
    0x04: "its power limit",
    0x08: "a hardware slowdown",
    0x20: "its temperature",
    0x40: "its temperature (hardware limit)",
    0x80: "the power supply's brake",
}
"""Bits of nvmlClocksEventReasons (nvml.h) that slow a busy GPU; idle clocks and user settings are not among them."""

SHARE_WORTH_SAYING = 0.25
SLOWDOWN_WORTH_SAYING = 0.95
"""A slowdown is reported when it showed in this share of the samples and took the SM clock below this share of its top."""


class Monitor:
    """Samples the state of one GPU and remembers it. `nvml` is the module pynvml or a stand-in. ours: the grader's processes
    on this GPU, of which all but the one that asks are idle."""

    def __init__(self, nvml: Any, handle: Any, ours: int = 1) -> None:
        self._nvml, self._handle, self._ours = nvml, handle, ours
        self._foreign = 0
        self._samples = 0
        self._held: dict[int, int] = {}
        self._clocks_mhz: list[int] = []

    def sample(self) -> None:
        """Asks NVML once; call it while the GPU is busy."""
        self._samples += 1
        self._foreign = max(self._foreign, self._count_foreign())
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons") or self._ask(
            "nvmlDeviceGetCurrentClocksThrottleReasons"
        )
        for bit in SLOWDOWNS:
            if isinstance(reasons, int) and reasons & bit:
                self._held[bit] = self._held.get(bit, 0) + 1
        clock = self._ask("nvmlDeviceGetClockInfo", getattr(self._nvml, "NVML_CLOCK_SM", 1))
        if isinstance(clock, int):
            self._clocks_mhz.append(clock)

    def notes(self) -> tuple[str, ...]:
        """What was seen, one sentence each; empty when nothing was."""
        notes = []
        if self._foreign:
            others = "another process" if self._foreign == 1 else f"{self._foreign} other processes"
            notes.append(f"{others} used this GPU while it was timed")
        held = [SLOWDOWNS[bit] for bit, count in self._held.items() if count >= SHARE_WORTH_SAYING * self._samples]
        if held and not self._ran_near_top():
            clocks = f" (SM clock {min(self._clocks_mhz)} to {max(self._clocks_mhz)} MHz)" if self._clocks_mhz else ""
            notes.append(f"the GPU was slowed down by {' and '.join(held)}{clocks}")
        return tuple(notes)

    def _ran_near_top(self) -> bool:
        top = self._ask("nvmlDeviceGetMaxClockInfo", getattr(self._nvml, "NVML_CLOCK_SM", 1))
        return bool(self._clocks_mhz) and isinstance(top, int) and min(self._clocks_mhz) >= SLOWDOWN_WORTH_SAYING * top

    def _count_foreign(self) -> int:
        """Compute processes but ours, whose pids may be another namespace's, so pids are only counted."""
        processes = self._ask("nvmlDeviceGetComputeRunningProcesses")
        if not isinstance(processes, list):
            return 0
        pids = {getattr(process, "pid", None) for process in processes}
        return max(0, len(pids) - self._ours)

    def _ask(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self._nvml, name)(self._handle, *arguments)
        except Exception:  # NVML raises what it likes, and no answer is an answer
            return None


def watch_current_gpu(ours: int = 1) -> Monitor | None:
    """A Monitor on the GPU that torch uses now; None where NVML is missing or does not know it. ours: as Monitor's."""
    try:
        import pynvml

        pynvml.nvmlInit()
        uuid = str(torch.cuda.get_device_properties().uuid)
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
    except Exception:  # see above: a machine without NVML grades as well
        return None
    return Monitor(pynvml, handle, ours)
