"""In a notebook: what the kernel of the cells does to memory, as pictures and numbers.

show_programs: who owns which tile of Y. show_memory: what one program reads, and how often each element is read.
show_warp: what one warp's loads touch, and which thread holds what. show_order: what the order of tiles means for L2;
missed_in_l2: its bytes as numbers.
All are counted on the interpreter, on sizes of a few tiles, in a second or two; nothing is graded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from grader.labs import Lab
from grader.model import KernelSource, Refusal
from grader.notebook.cells import NotYet, display, executed_kernel, lab_named, sentence
from grader.notebook.predicting import plain
from grader.reporting import memory_pictures, traffic_words
from grader.reporting.compact import Remark
from grader.reporting.pictures import Picture
from grader.running.cpu import InterpretOptions
from grader.traffic import GPUS, ORDERS, Order, Traffic, count_tiles, tiles_of

SECONDS = 20.0
LONG_K = 4096
MOST_WARPS = 4
Sizes = tuple[int, int, int]
Swizzle = Callable[[int, int, int], tuple[int, int]]


def show_programs(lab_id: str, *, sizes: Sizes | None = None, config: int = 0) -> None:
    """Y in tiles, each with the number of the program that stores it, and the slices of K where K is split.

    sizes: M, N and K; without them a few tiles of the config. config: which of CONFIGS. Raises NotYet with a sentence when
    there is no kernel, or nothing can be counted; this holds for all functions here.
    """
    traffic = _counted(lab_id, sizes, config, (8, 8), 1)
    drawn = [memory_pictures.programs(traffic), memory_pictures.slices_of_k(traffic)]
    if drawn[0] is None:
        raise NotYet(
            "No program stores anything to Y: there are no tiles to show. Store first, then run this cell again."
        )
    _show(traffic, [], drawn)


def show_memory(lab_id: str, program: int = 0, *, sizes: Sizes | None = None, config: int = 0) -> None:
    """What one program reads and stores, how often each element is read, and the bytes of each tensor."""
    traffic = _counted(lab_id, sizes, config, (4, 4), 2)
    if not 0 <= program < len(traffic.programs):
        raise NotYet(f"There is no program {program}: this launch has {len(traffic.programs)}, counted from 0.")
    rows = [Remark(sentence, "") for sentence in traffic_words.traffic_rows(traffic)]
    drawn = [memory_pictures.one_program(traffic, program), memory_pictures.reads(traffic)]
    _show(traffic, rows, drawn)


def show_warp(lab_id: str, *, sizes: Sizes | None = None, config: int = 0) -> None:
    """For each load and store of a matrix the sectors that one warp touches, and who holds which element of a packed word."""
    traffic = _counted(lab_id, sizes, config, (4, 4), 2)
    matrices = [one for one in traffic.coalescing if one.offsets.ndim > 1 and one.kind != "atomic"]
    drawn = [
        *(memory_pictures.coalesced(traffic, one) for one in matrices[:MOST_WARPS]),
        memory_pictures.nibbles(traffic),
    ]
    said = Remark("Threads are those of Triton's default layout: an assumption, since no GPU compiled this.", "dim")
    _show(traffic, [said], drawn)


def show_order(
    lab_id: str,
    gpu: str = "T4",
    order: Swizzle | None = None,
    *,
    sizes: Sizes | None = None,
    config: int = 0,
) -> None:
    """A model of L2: the bytes that DRAM must deliver with your kernel's order of tiles, and with others.

    gpu: "H100", "A100", "L4" or "T4". order: a function of your own, order(pid, tiles_m, tiles_n) -> (row, column) of the tile of Y that
    program pid makes. K is lengthened to about 4096 in the model. Raises NotYet for an order that leaves out a tile or makes one twice.
    """
    traffic, orders, repeats = _modelled(lab_id, gpu, order, sizes, config)
    picture = memory_pictures.order_in_l2(traffic, GPUS[gpu], repeats, orders)
    longer = f", K lengthened from {traffic.case.K} to {traffic.case.K * repeats}" if repeats > 1 else ""
    said = Remark(
        f"A model, not a measurement: waves of programs that run in lockstep, an L2 that evicts the oldest line{longer}.",
        "dim",
    )
    _show(traffic, [said], [picture])


def missed_in_l2(
    lab_id: str,
    gpu: str = "T4",
    order: Swizzle | None = None,
    *,
    sizes: Sizes | None = None,
    config: int = 0,
) -> dict[str, int]:
    """The bytes of show_order's picture, by the name of the order; a student's own is called as its function."""
    traffic, orders, repeats = _modelled(lab_id, gpu, order, sizes, config)
    return {one.name: traffic.missed(GPUS[gpu], one, repeats).total for one in orders}


def _modelled(
    lab_id: str, gpu: str, order: Swizzle | None, sizes: Sizes | None, config: int
) -> tuple[Traffic, tuple[Order, ...], int]:
    """What the model of L2 is given: the traffic of a launch, the orders, and how many times its K is repeated."""
    if gpu not in GPUS:
        raise NotYet(f"There is no model of {gpu!r}; there are {', '.join(GPUS)}.")
    traffic = _counted(lab_id, sizes, config, (8, 24), 1)
    orders = ORDERS if order is None else (*ORDERS, _own_order(traffic, order))
    return traffic, orders, max(1, LONG_K // traffic.case.K)


def _own_order(traffic: Traffic, order: Swizzle) -> Order:
    """A student's order of the tiles, once it is one: every tile of Y is some program's, and nobody else's."""
    name = getattr(order, "__name__", "your order")
    tiles = set(tiles_of(traffic.programs).values())
    rows, columns = (1 + max((tile[axis] for tile in tiles), default=0) for axis in (0, 1))
    numbers: dict[tuple[int, int], int] = {}
    for pid in range(rows * columns):
        given: Any = order(pid, rows, columns)
        found: Any = tuple(map(plain, given)) if isinstance(given, tuple) else given
        inside = isinstance(found, tuple) and len(found) == 2 and all(isinstance(one, int) for one in found)
        if not inside or not (0 <= found[0] < rows and 0 <= found[1] < columns):
            raise NotYet(
                f"{name}({pid}, {rows}, {columns}) is {found!r}, expected (row, column) with a row below {rows} and a column below "
                f"{columns}."
            )
        if found in numbers:
            raise NotYet(
                f"Programs {numbers[found]} and {pid} both make tile {found} of {rows} x {columns}, so some tile is left out."
            )
        numbers[found] = pid
    return Order(name, lambda row, column: (numbers[row, column],))


@lru_cache(4)
def _traffic(
    lab_id: str, source: KernelSource, sizes: Sizes | None, config: int, tiles: tuple[int, int], steps: int
) -> Traffic | Refusal:
    options = InterpretOptions(1, case_seconds=SECONDS)
    return count_tiles(lab_named(lab_id), source, options, config=config, sizes=sizes, tiles=tiles, steps=steps)


def _counted(lab_id: str, sizes: Sizes | None, config: int, tiles: tuple[int, int], steps: int) -> Traffic:
    lab = lab_named(lab_id)
    if sizes is not None:
        sizes = _checked(lab, sizes)
    found = _traffic(lab_id, executed_kernel(lab), sizes, config, tiles, steps)
    if isinstance(found, Refusal):
        raise NotYet(sentence(found.message))
    return found


def _checked(lab: Lab, sizes: Sizes) -> Sizes:
    """The sizes as ints that the lab's format allows."""
    step = lab.constants.get("BLOCK", 8)
    whole = (
        isinstance(sizes, (tuple, list))
        and len(sizes) == 3
        and all(isinstance(size, int) and size > 0 for size in sizes)
    )
    if not whole or not isinstance(step, int) or sizes[1] % step or sizes[2] % step:
        raise NotYet(
            f"Found sizes={sizes!r}, expected (M, N, K), N and K multiples of {step}: sizes=(256, 256, 256), for instance."
        )
    return (sizes[0], sizes[1], sizes[2])


def _show(traffic: Traffic, said: Sequence[Remark], pictures: Sequence[Picture | None]) -> None:
    """Shows what was counted: the launch, that Y is wrong where it is, what is said of it, and what there is to draw."""
    remarks = [Remark(traffic_words.summary(traffic), "cyan")]
    if traffic.wrong:
        words = f"Y is not right yet ({traffic.wrong}): this is what your kernel does, not what it should do."
        remarks.append(Remark(words, "yellow"))
    display([*remarks, *said], [picture for picture in pictures if picture])
