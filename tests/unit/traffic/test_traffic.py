"""Every number of grader.traffic against one that was worked out by hand, on solutions and ladder kernels."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest

from grader.labs import all_labs
from grader.labs.problems import make_problem
from grader.model import Config, Refusal
from grader.traffic import ORDERS, Cache, Coalescing, Traffic, coalesce, in_order
from grader.traffic.accesses import AXES, OFF, Access, launch_order, parse
from grader.traffic.caching import CacheReplay
from grader.traffic.cases import tiled_case
from grader.traffic.counting import ProgramTraffic, Region
from tests.commands import python
from tests.submissions import TESTS
from tests.traffics import counted, counted_text, of_solution

pytestmark = pytest.mark.xdist_group("traffic")  # the counted kernels are shared

SIDE, TILE = 256, 64


@pytest.mark.parametrize("lab", all_labs().values(), ids=lambda lab: lab.id)
@pytest.mark.parametrize("deep", [16, 32, 64, 256])
def test_a_right_kernel_of_any_tile_has_a_case_to_be_counted_on(lab, deep):
    """GPTQ's groups are longer than the tiles of some right kernels."""
    config = Config(0, {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": deep}, 4, 2)
    case = tiled_case(lab, config)
    problem = make_problem(lab, case, 0)
    assert {size: problem.scalars[size] for size in "MNK"} == {"M": case.M, "N": case.N, "K": case.K}


def test_a_word_is_loaded_eight_times_or_once():
    """4 x 4 tiles of 64 x 64: four programs share each column of words, [32, 256] of 4 bytes, and each row of X."""
    each = of_solution("ladder/w4a16_1_obvious.py", "w4a16", (256, 256, 256))
    once = of_solution("ladder/w4a16_3_words.py", "w4a16", (256, 256, 256))
    words = SIDE // 8 * SIDE * 4
    assert [traffic.tensors["qweight_ptr"].loaded for traffic in (each, once)] == [8 * 4 * words, 4 * words]
    for traffic, lanes in ((each, 8), (once, 1)):
        weight, x, y = (traffic.tensors[name] for name in ("qweight_ptr", "x_ptr", "y_ptr"))
        assert weight.distinct_loaded == weight.total_bytes == words
        assert (weight.mean_reads, weight.mean_readers) == (4 * lanes, 4)
        assert weight.histogram == {4 * lanes: SIDE // 8 * SIDE}
        assert (x.loaded, x.distinct_loaded, x.mean_readers) == (4 * SIDE * SIDE * 2, SIDE * SIDE * 2, 4)
        assert (y.loaded, y.stored, y.added, y.distinct_written) == (0, SIDE * SIDE * 2, 0, SIDE * SIDE * 2)
    assert each.requested == 4 * SIDE * SIDE * 2 + 32 * words + 4 * SIDE * 2
    assert each.distinct == SIDE * SIDE * 2 + words + SIDE * 2


def _asked(found: Coalescing) -> tuple[int, int, int]:
    """Instructions of a warp that ask for anything, the distinct 32-byte sectors of each of them in all, and the bytes asked for."""
    active = found.offsets != OFF
    first = found.offsets[active].astype(np.int64)
    owners = np.stack([found.warp[active], found.request[active]])
    ends = [np.vstack([owners, at // 32]) for at in (first, first + found.width - 1)]
    return len(np.unique(owners, axis=1).T), len(np.unique(np.hstack(ends), axis=1).T), first.size * found.width


def test_programs_tiles_and_reads():
    """Program 6 of 4 x 4 in rows of tiles is tile (1, 2)."""
    traffic = of_solution("ladder/w4a16_1_obvious.py", "w4a16", (256, 256, 256))
    program = traffic.programs[6]
    assert program.place == (6, 0, 0)
    assert program.tile == Region((((64, 128),), ((128, 192),)), TILE * TILE)
    assert program.reads["x_ptr"].box == ((64, 128), (0, SIDE))
    assert program.reads["qweight_ptr"].box == ((0, SIDE // 8), (128, 192))
    assert (program.slice, program.slices) == (0, 1)


def test_slices_of_k():
    """Config 0: 16 x 64 tiles, four slices, which take blocks of 128 along K in turn: slice 1 of K = 1024 has two."""
    traffic = of_solution("ladder/w4a16_4_split.py", "w4a16", (16, 128, 1024))
    assert traffic.grid == (2, 4, 1)
    program = traffic.programs[3]
    assert (program.place, program.slice, program.slices) == ((1, 1, 0), 1, 4)
    assert program.tile.box == ((0, 16), (64, 128))
    assert program.reads["x_ptr"].runs == (((0, 16),), ((128, 256), (640, 768)))
    assert program.reads["qweight_ptr"].runs == (((16, 32), (80, 96)), ((64, 128),))
    y = traffic.tensors["y_ptr"]
    assert (y.stored, y.added, y.distinct_written) == (0, 4 * 16 * 128 * 2, 16 * 128 * 2)
    # 16 x 64 sums of two bytes, eight neighbours a thread, added two at a time
    (added,) = (one for one in traffic.coalescing if one.kind == "atomic")
    assert (added.vector, *_asked(added)) == (4, 16, 16 * 16, 16 * 16 * 8)


def test_blocks_that_are_not_there_are_not_read():
    traffic = of_solution("dds.py", "dds", "sparsity_80", 2)
    values = traffic.tensors["values_ptr"]
    assert values.mean_reads == 1.0  # M = 64 is one tile of rows
    assert values.distinct_loaded == values.total_bytes == values.loaded
    x = traffic.tensors["x_ptr"]
    assert x.loaded == values.shape[0] * 64 * 32 * 2  # a tile of 64 x 32 for each block


def test_coalescing_of_real_loads():
    """X in tiles of 64 x 64 fp16: 16 bytes per thread, 512 a warp, 16 sectors. A word for each of two rows of K: half of them."""
    traffic = of_solution("ladder/w4a16_1_obvious.py", "w4a16", (256, 256, 256))
    by_tensor = {one.tensor: one for one in traffic.coalescing}
    x, words = by_tensor["x_ptr"], by_tensor["qweight_ptr"]
    assert (x.vector, *_asked(x)) == (16, 16, 16 * 16, 16 * 16 * 32)
    assert (words.vector, *_asked(words)) == (16, 32, 32 * 8, 32 * 8 * 64)
    assert traffic.lines[words.line] == "w4a16.py line 41"


def _access(offsets: np.ndarray, width: int, program: int = 0, step: int = 0, tensor: str = "x_ptr") -> Access:
    return Access(program, step, "load", tensor, 1, width, offsets.astype(np.int32))


def test_coalescing_of_columns_gaps_and_masks():
    rows, columns = np.arange(32)[:, None], np.arange(32)[None, :]
    row_major, column_major = rows * 4096 + 2 * columns, rows * 2 + 4096 * columns
    # 1024 elements, one warp: 8 fp16 a thread, 4 threads a row of 64 bytes, 8 rows a request
    for offsets in (row_major, column_major):
        found = coalesce(_access(offsets, 2), 1)
        assert (found.vector, *_asked(found)[:2]) == (16, 4, 64)
    apart = coalesce(_access(rows * 4096 + 64 * columns, 2), 1)
    assert (apart.vector, *_asked(apart)[:2]) == (2, 32, 32 * 32)
    shifted = coalesce(_access(row_major + 2, 2), 1)  # no alignment: one element a thread, a warp a row, three sectors
    assert (shifted.vector, *_asked(shifted)[:2]) == (2, 32, 32 * 3)
    half = coalesce(_access(np.where(rows < 16, row_major, OFF), 2), 1)
    assert (half.vector, *_asked(half)) == (16, 2, 32, 1024)
    odd = coalesce(_access(np.where(columns < 31, row_major, OFF), 2), 1)
    assert odd.vector == 2


def test_owners_are_a_warps_lanes():
    """64 x 64 of fp16, four warps: warp 1 begins at row 4; its lane 9 holds row 5, columns 8 to 15."""
    found = coalesce(_access(np.arange(64)[:, None] * 128 + 2 * np.arange(64)[None, :], 2), 4)
    assert found.layout.lanes == (4, 8)
    assert np.argwhere((found.warp == 1) & (found.request == 0) & (found.lane == 9)).tolist() == [[5, n] for n in range(8, 16)]


def _square(order: list[tuple[int, int]], kilobytes: int, resident: int, repeats: int = 1) -> tuple[int, int]:
    """A 4 x 4 grid of tiles; each program reads a piece of 1 KB of X by its row and one of W by its column."""
    accesses, programs = [], []
    for number, (row, column) in enumerate(order):
        accesses += [_access(1024 * row + 2 * np.arange(512), 2, number), _access(1024 * column + 2 * np.arange(512), 2, number, 1, "w")]
        programs.append(ProgramTraffic(number, (number, 0, 0), Region((((row, row + 1),), ((column, column + 1),)), 1), {}))
    missed = CacheReplay(accesses, programs).missed(Cache("", resident, kilobytes << 10), repeats=repeats)
    return missed.total >> 10, missed.distinct >> 10


def test_the_order_of_tiles_decides_what_misses():
    row_major = [(row, column) for row in range(4) for column in range(4)]
    squares = [(2 * i + a, 2 * j + b) for i in range(2) for j in range(2) for a in range(2) for b in range(2)]
    assert _square(row_major, 64, 4) == (8, 8)  # all of it fits
    # 4 KB: a wave of a row needs 1 + 4 pieces. X drops out when the last of W comes, then W as it goes round: 5 each time.
    assert _square(row_major, 4, 4) == (20, 8)
    # A wave of 2 x 2 needs 2 + 2 pieces; the second and the fourth find the two of X still there.
    assert _square(squares, 4, 4) == (12, 8)
    assert _square(row_major, 64, 4, repeats=3) == (24, 24)


def test_an_order_is_one_of_tiles_whatever_the_launch_order():
    square = [(row, column) for row in range(16) for column in range(2)]
    programs = [
        ProgramTraffic(number, (number, 0, 0), Region((((16 * row, 16 * row + 16),), ((8 * column, 8 * column + 8),)), 128), {})
        for number, (row, column) in enumerate(reversed(square))
    ]
    made = {order.name: [square[31 - number] for number in in_order(programs, order)] for order in ORDERS}
    assert made["as launched"] == square[::-1]
    assert made["row by row"] == square
    assert made["column by column"] == sorted(square, key=lambda tile: tile[::-1])
    assert made["8 rows at a time"] == [(row, c) for rows in (range(8), range(8, 16)) for c in range(2) for row in rows]


def test_launch_order_has_axis_0_fastest():
    assert launch_order((2, 3, 1)).tolist() == [0, 2, 4, 1, 3, 5]


def _log(rows: list[list[int]], lanes: list[int]) -> bytes:
    table, flat = np.array(rows, dtype="<i4"), np.array(lanes, dtype="<i4")
    return struct.pack("<II", len(table), len(flat)) + table.tobytes() + flat.tobytes()


ROW = [0, 0, 0, 7, 2, 4, *[1] * (AXES - 1)]


def test_a_log_is_parsed_strictly():
    (access,) = parse(_log([ROW], [0, 2, 4, OFF]), [("x_ptr", 6)], (1, 1, 1))
    assert (access.kind, access.tensor, access.line, access.active.tolist()) == ("load", "x_ptr", 7, [0, 2, 4])
    assert parse(b"", [("x_ptr", 6)], (1, 1, 1)) == ()
    good = _log([ROW], [0, 2, 4, OFF])
    bad = [good[:-1], good + b"\0", good[:5], _log([ROW], [0, 2, 4, 5]), _log([ROW], [0, 2, 4, -1]), _log([ROW], [0, 2, 4])]
    for place, value in ((0, 1), (0, -1), (1, 3), (2, 1), (3, -1), (4, 0), (4, 32), (5, 0), (5, 2**30)):
        row = list(ROW)
        row[place] = value
        bad.append(_log([row], [0, 2, 4, OFF]))
    for log in bad:
        with pytest.raises(ValueError):  # noqa: PT011
            parse(log, [("x_ptr", 6)], (1, 1, 1))


def _edited(old: str, new: str) -> Traffic | Refusal:
    text = (TESTS.parent / "solutions/ladder/w4a16_1_obvious.py").read_text(encoding="utf-8")
    assert text.count(old) == 1
    return counted_text(text.replace(old, new), "w4a16", "one_tile")


def test_a_wrong_kernel_is_counted_and_says_so():
    found = _edited("y = acc.to(tl.float16)", "y = (acc + 1).to(tl.float16)")
    assert isinstance(found, Traffic)
    assert "elements of Y are wrong" in found.wrong


@pytest.mark.slow
def test_what_cannot_be_counted_gets_a_sentence():
    outside = _edited("tl.store(y_ptrs, y", "tl.store(y_ptrs + 1, y")
    assert isinstance(outside, Refusal)
    assert outside.message.startswith("it accesses memory outside its tensors")
    again = "for again in range(2200):\n        acc += tl.load(x_ptr + row[:, None] * stride_xm + offs_k[None, :])\n"
    many = _edited("    y = acc.to(tl.float16)\n", f"    {again}    y = acc.to(tl.float16)\n")
    assert isinstance(many, Refusal)
    assert many.message.startswith("w4a16.py line 48: asks for more than 8388608 elements in all, too many")
    large = counted("solutions/w4a16.py", "w4a16", (2048, 2048, 64))
    assert isinstance(large, Refusal)
    assert "too large to count" in large.message
    none = counted("solutions/ladder/w4a16_1_obvious.py", "w4a16", "one_tile", 7)
    assert isinstance(none, Refusal)
    assert none.message == "there is no config 7; CONFIGS has 1, counted from 0"


@pytest.mark.slow
def test_the_assumed_layout_is_the_compilers(tmp_path: Path):
    """The loads and stores of step 1 and the atomics of step 4, compiled for sm_90: the same blocked layouts."""
    pointers = {"x_ptr": "*fp16", "qweight_ptr": "*i32", "scales_ptr": "*fp16", "y_ptr": "*fp16"}
    for name, sizes in (("1_obvious", (256, 256, 256)), ("4_split", (16, 128, 1024))):
        traffic = of_solution(f"ladder/w4a16_{name}.py", "w4a16", sizes)
        program = COMPILE.format(path=TESTS.parent / f"solutions/ladder/w4a16_{name}.py", pointers=pointers,
                                 constants=dict(traffic.config.constants), warps=traffic.config.num_warps)
        ttgir = python("-c", program, TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(tmp_path))
        layouts = dict(re.findall(r"^(#blocked\d*) = #ttg\.blocked<(.*?)>", ttgir, re.MULTILINE))
        lines = [line for line in ttgir.splitlines() if re.search(r"async_copy_global|tt\.store|atomic_rmw", line)]
        for one in traffic.coalescing:
            if one.offsets.ndim < 2:
                continue
            shape, kind = "x".join(map(str, one.offsets.shape)), "i32" if one.tensor == "qweight_ptr" else "f16"
            wanted = (f"sizePerThread = {list(one.layout.each)}, threadsPerWarp = {list(one.layout.lanes)}, "
                      f"warpsPerCTA = {list(one.layout.warps)}, order = {list(one.layout.order)}")
            seen = {layouts[found] for line in lines for found in re.findall(rf"<{shape}x!tt\.ptr<{kind}>, (#blocked\d*)>", line)}
            assert {re.sub(r"[{}]", "", layout) for layout in seen} >= {wanted}, (one.tensor, seen, wanted)


COMPILE = """
import importlib.util, triton
from triton.backends.compiler import GPUTarget
spec = importlib.util.spec_from_file_location("kernel", "{path}")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
kernel = module.W4A16_MM.fn
names, pointers, constants = kernel.arg_names, {pointers}, {constants}
constants |= dict.fromkeys(("stride_xk", "stride_wn", "stride_yn"), 1)
signature = {{name: "constexpr" if name in constants else pointers.get(name, "i32") for name in names}}
attributes = {{(names.index(name),): [["tt.divisibility", 16]] for name in names if name not in constants}}
values = {{(names.index(name),): value for name, value in constants.items()}}
source = triton.compiler.ASTSource(kernel, signature, values, attributes)
print(triton.compile(source, target=GPUTarget("cuda", 90, 32), options={{"num_warps": {warps}, "num_stages": 3}}).asm["ttgir"])
"""
