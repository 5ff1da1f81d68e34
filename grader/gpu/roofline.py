"""The fewest microseconds a launch can take on a GPU: bytes at peak bandwidth, operations at the tensor cores' peak."""

from __future__ import annotations

from dataclasses import dataclass

FP16_OPERATIONS_PER_CLOCK = {80: 2048, 86: 1024, 89: 1024, 90: 4096, 100: 8192, 120: 1024}
"""Dense fp16 tensor-core operations (a multiply-add is two) of one SM in one clock, at the faster accumulator.

Source: peak rates of NVIDIA's architecture whitepapers (A100, GA102, AD102, H100, Blackwell) over SMs times boost
clock. int8 runs at twice the rate on each of them.
"""

TOLERANCE = 0.85
"""A time below this share of the floor is an error, not a record: caches keep some bytes from moving."""


@dataclass(frozen=True)
class Peaks:
    """What a GPU can do at best; 0.0 where its driver or this module's table does not tell."""

    bytes_per_second: float
    fp16_per_second: float


@dataclass(frozen=True)
class Floor:
    """The two floors of one launch in microseconds; 0.0 where a peak is unknown."""

    bytes_us: float
    operations_us: float

    @property
    def time_us(self) -> float:
        return max(self.bytes_us, self.operations_us)

    def fault(self, time_us: float) -> str:
        """Why a time cannot be right, as a sentence; "" when it can."""
        if time_us >= TOLERANCE * self.time_us:
            return ""
        what = "moving the operands" if self.bytes_us >= self.operations_us else "the products"
        return (
            f"{time_us:.2f} us is less than the {self.time_us:.2f} us that {what} take on this GPU at best; "
            "this time cannot be right, so it does not count"
        )


def floor(bytes_moved: int, operations: int, operand: str, peaks: Peaks) -> Floor:
    """The floors of a launch that moves `bytes_moved` bytes and does `operations` on `operand` ("fp16" or "int8")."""
    rate = peaks.fp16_per_second * (2 if operand == "int8" else 1)
    return Floor(
        1e6 * bytes_moved / peaks.bytes_per_second if peaks.bytes_per_second else 0.0,
        1e6 * operations / rate if rate else 0.0,
    )


def fp16_peak(capability: int, multiprocessors: int, clock_hz: float) -> float:
    """Peak fp16 operations a second; 0.0 for a capability the table does not hold."""
    return float(FP16_OPERATIONS_PER_CLOCK.get(capability, 0) * multiprocessors * clock_hz)
