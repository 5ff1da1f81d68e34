"""Work that is recorded as a graph: nothing is collected meanwhile, and what is given up leaves no cycle behind."""

from __future__ import annotations

import contextlib
import gc
import weakref
from dataclasses import replace

import pytest
import torch

from grader.labs import get_lab
from grader.timing.replays import Stage
from grader.timing.rounds import recording
from tests.commands import python

POOLS_IN_CYCLES = """
import gc, torch
from grader.gpu.memory_pool import MemoryPool
from grader.timing.rounds import capture

class Node:
    pass

def litter():
    node = Node()
    node.itself, node.pool = node, MemoryPool(torch.device("cuda"))
    with node.pool.use():
        torch.zeros(1 << 20, device="cuda")

place = torch.zeros(1, device="cuda")

def work():
    place.add_(1)
    for _ in range(3):
        [Node() for _ in range(1000)]

gc.set_threshold(50)
for _ in range(20):
    gc.disable()
    litter()
    gc.enable()
    capture(work).replay()
torch.cuda.synchronize()
print("recorded", int(place))
"""


class Graph:
    """A stand-in for torch.cuda.CUDAGraph that remembers whether the collector was at work."""

    def __init__(self):
        self.collected = []

    def capture_begin(self, pool):
        self.collected.append(gc.isenabled())

    def capture_end(self):
        self.collected.append(gc.isenabled())


def test_nothing_is_collected_while_a_graph_is_recorded():
    """And the collector comes back, after an error too; where it was off it stays off."""
    graph = Graph()
    assert gc.isenabled()
    with contextlib.suppress(ValueError), recording(graph):
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()
    gc.disable()
    try:
        with recording(graph):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
    assert graph.collected == [False] * len(graph.collected) != []


def test_a_stage_that_was_closed_is_gone_without_the_collector():
    lab = get_lab("dds")
    gc.disable()
    try:
        stage = Stage(lab, replace(lab.speed_cases[0], M=32, launches=2), torch.device("cpu"))
        stage.inspect(stage.renew(), range(2), 1)
        gone = weakref.ref(stage.recorder), weakref.ref(stage)
        stage.close()
        del stage
        assert [one() for one in gone] == [None, None]
    finally:
        gc.enable()


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
def test_memory_pools_in_garbage_do_not_end_the_process():
    assert python("-c", POOLS_IN_CYCLES) == "recorded 40\n"
