"""What one kernel may take: seconds of a launch, of all its correctness launches, of all its timing; and lost processes.

A kernel that spends its time on the GPU spends the time of the class. Past a limit it is given up with a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass

from grader.model import NOT_RUN

LAUNCH_SECONDS = 10.0
"""A correctness launch that is not over by then is killed with its process."""

CORRECTNESS_SECONDS = 20.0
"""All correctness launches of one kernel together; a right kernel takes well below one second."""

SPEED_SECONDS = 60.0
"""The timing of one speed case, the judge's work included, is killed with its process after this."""

SPEED_GPU_SECONDS = 20.0
"""GPU time of all launches of one kernel in its speed cases together; a good kernel takes about one second."""

TIMES_CUBLAS = 100.0
LAUNCH_SLACK_US = 1000.0
"""A config whose launch takes more than so many times cuBLAS fp16's time, and a millisecond, is not timed."""

MAX_DEATHS = 2
"""After so many CUDA errors and killed launches the rest of a kernel's launches is interpreted, as on a machine without a GPU."""

ATTEMPTS = 3
"""Work whose process vanished is begun again in a new one, until it was tried so often."""

MAX_LOST = 2
"""After so many parts that were lost with their process, the rest of a job is not tried."""


class GivenUp(Exception):
    """A kernel or a config is not timed; the message says why."""


@dataclass
class Budget:
    """Seconds of GPU time: what is left for a kernel, and what the speed case in hand has used of it."""

    left: float
    spent_here: float = 0.0

    def spend(self, seconds: float) -> None:
        self.left -= seconds
        self.spent_here += seconds

    def expect(self, seconds: float, what: str) -> None:
        """Raises GivenUp when so many more seconds are not left."""
        if seconds > self.left:
            raise GivenUp(
                f"{what} would take {seconds:.1f} s more of GPU time, {max(self.left, 0):.1f} of the "
                f"{SPEED_GPU_SECONDS:.0f} s for this kernel's timing are left; make it faster, or leave slow configs out"
            )

    def one_launch(self, config: str, launch_us: float, cublas_us: float) -> None:
        """Raises GivenUp when a single launch says that no replay is worth it."""
        if launch_us > TIMES_CUBLAS * cublas_us + LAUNCH_SLACK_US:
            raise GivenUp(
                f"{config}: one launch took {launch_us / 1e3:.3g} ms, more than {TIMES_CUBLAS:.0f} times the "
                f"{cublas_us / 1e3:.3g} ms of cuBLAS fp16, so it was not timed; use smaller tiles or reorder the loops"
            )


def used_up(seconds: float) -> str:
    """Why a correctness launch was not run, as a sentence."""
    return (
        f"{NOT_RUN}the kernel used {seconds:.1f} s of GPU time on the launches before, expected at most "
        f"{CORRECTNESS_SECONDS:.0f} s for all of them; is there a loop that runs too often?"
    )
