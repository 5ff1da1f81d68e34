"""Work that is repeated on other data: a function of a seed, recorded once as a graph where there is a GPU.

A graph of two hundred small operations is queued in the time of one, which is what makes it cheap to draw new inputs
and to check all outputs. The seed of a replay lies in device memory until the next one: `forget` puts another in its place.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Generic, TypeVar

import torch

from grader.gpu.memory_pool import MemoryPool
from grader.timing.rounds import recording, side_stream

Result = TypeVar("Result")


class GraphRecorder:
    """What work of one device is recorded with. `generator` is what it draws from; `pool` holds all that it makes."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.pool = MemoryPool(device)
        self.generator = generator = torch.Generator(device=device)
        self._decoy = Recorded(self, lambda: torch.rand(1, generator=generator, device=device))

    def forget(self) -> None:
        """Leaves a seed that means nothing where the last one was."""
        self._decoy(secrets.randbits(63))


class Recorded(Generic[Result]):
    """Work as a function of a seed; it may read results of other recorded work, and tensors that are kept.

    `result`: what it made, in the same memory each time on a GPU.
    """

    result: Result

    def __init__(self, recorder: GraphRecorder, work: Callable[[], Result]) -> None:
        self._generator, self._work = recorder.generator, work
        self._graph: torch.cuda.CUDAGraph | None = None
        if recorder.device.type == "cuda":
            self._capture(recorder)

    def _capture(self, recorder: GraphRecorder) -> None:
        self._graph = torch.cuda.CUDAGraph()
        self._graph.register_generator_state(self._generator)
        side = side_stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            with recorder.pool.use():
                self._work()  # once without recording, so that lazy set-up stays out
            torch.cuda.synchronize()  # the recording uses the same memory, on another stream
            with recording(self._graph, recorder.pool.pool_id):
                self.result = self._work()

    def __call__(self, seed: int) -> Result:
        """Does the work with a seed, on the current stream."""
        self._generator.manual_seed(seed)
        if self._graph:
            self._graph.replay()
        else:
            self.result = self._work()
        return self.result
