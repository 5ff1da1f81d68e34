"""What a kernel does to memory, counted on Triton's interpreter: no GPU, no clock, no guess.

    traffic = count_tiles(lab, source, InterpretOptions(1), config=0, sizes=(256, 256, 256))

or, with a bundle at hand or a case of the lab,

    case = sized_case(lab, (256, 256, 256))     or a case of the lab, or tiled_case(lab, bundle.configs[0], (4, 4), steps=2)
    bundle = describe_case(lab, source, case, BuildOptions((90,), "check", 1, None))
    traffic = count_traffic(lab, source, bundle, case, 0, InterpretOptions(1))
    if isinstance(traffic, Refusal): say traffic.message   # a sentence; also see Traffic.wrong

    traffic.tensors["x_ptr"].loaded             bytes that the lanes of all loads asked for
    traffic.tensors["x_ptr"].distinct_loaded    bytes of the elements that were loaded at all
    traffic.tensors["x_ptr"].mean_reads         how often an element is loaded; .histogram, .reads (a map)
    traffic.tensors["x_ptr"].mean_readers       by how many programs; .readers (a map)
    traffic.programs[3].tile.box                rows and columns of Y that program 3 stores: ((0, 64), (64, 128))
    traffic.programs[3].reads["x_ptr"].runs     what it loads: along each dimension, ranges of indices
    traffic.programs[3].slice, .slices          its slice of K among the programs that share its tile
    traffic.coalescing                          for each line: who loads which element, and the bytes that a thread asks for at once
    traffic.missed(GPUS["T4"], repeats=32).total
                                                bytes that miss in a modelled L2, K being 32 times as long

counting, coalescing and caching say how each number comes about, and what is assumed.
"""

from __future__ import annotations

from grader.traffic.accesses import OFF, Access
from grader.traffic.caching import GPUS, ORDERS, Cache, Missed, Order, in_order, tiles_of
from grader.traffic.cases import sized_case, tiled_case
from grader.traffic.coalescing import Blocked, Coalescing, coalesce
from grader.traffic.counting import ProgramTraffic, Region, TensorLayout, TensorTraffic
from grader.traffic.launch_traffic import Traffic, count_tiles, count_traffic, describe_case

__all__ = [
    "GPUS", "OFF", "ORDERS", "Access", "Blocked", "Cache", "Coalescing", "Missed", "Order", "ProgramTraffic", "Region",
    "TensorLayout", "TensorTraffic", "Traffic", "coalesce", "count_tiles", "count_traffic",
    "describe_case", "in_order", "sized_case", "tiled_case", "tiles_of",
]  # fmt: skip
