"""The steps of the W8A16 notebook: make fp16 of bytes, multiply, loop over K, scale; and one token without a matrix instruction."""

from __future__ import annotations

import torch

from grader.labs.loop_slips import loop_slips
from grader.labs.notebook_step import Inputs, Slip, Step, apart, integer, stored, tensor

ROWS, COLUMNS, DEPTH = 16, 32, 64
ROWS_INSIDE, COLUMNS_INSIDE = ROWS - 3, COLUMNS - 5


def _bytes(generator: torch.Generator, K: int, N: int) -> torch.Tensor:
    """int8 [K, N] of all values, the view of a stored [N, K]."""
    return torch.randint(-128, 128, (N, K), generator=generator).to(torch.int8).t()


def _convert_inputs(generator: torch.Generator) -> Inputs:
    """Every value of int8 several times, in an order of its own."""
    values = (torch.arange(DEPTH * COLUMNS) % 256 - 128)[torch.randperm(DEPTH * COLUMNS, generator=generator)]
    return {"q_ptr": values.view(DEPTH, COLUMNS).to(torch.int8)}


def _converted(inputs: Inputs) -> torch.Tensor:
    return tensor(inputs, "q_ptr").to(torch.float16)


def _dot_inputs(generator: torch.Generator) -> Inputs:
    return {
        "x_ptr": (3 * torch.randn(ROWS, DEPTH, generator=generator)).to(torch.float16),
        "q_ptr": torch.randint(-128, 128, (DEPTH, COLUMNS), generator=generator).to(torch.int8),
        "acc_ptr": 100 * torch.randn(ROWS, COLUMNS, generator=generator),
    }


def _dot(inputs: Inputs, *, whole_x: bool = False, unsigned: bool = False) -> torch.Tensor:
    """x @ q. whole_x: x without its fractions; unsigned: the bytes as 0 to 255."""
    x, q = tensor(inputs, "x_ptr").double(), tensor(inputs, "q_ptr").double()
    return ((torch.trunc(x) if whole_x else x) @ (q % 256 if unsigned else q)).float()


def _loop_inputs(generator: torch.Generator) -> Inputs:
    """K ends in the middle of the third tile, M and N inside theirs; elements of X and columns of the weight stand apart."""
    M, N, K = ROWS_INSIDE, COLUMNS_INSIDE, 5 * DEPTH // 2
    x = apart(torch.randn(M, K, generator=generator).to(torch.float16))
    weight = _bytes(generator, K + 16, N)[:K]
    strides = {"stride_xm": x.stride(0), "stride_xk": x.stride(1), "stride_wn": K + 16}
    return {"x_ptr": x, "qweight_ptr": weight, "M": M, "N": N, "K": K, **strides}


def _loop_sum(inputs: Inputs, first: int = 0, last: int | None = None) -> torch.Tensor:
    """fp32 [ROWS, COLUMNS]: the sum over part of K; zeros beyond M and N."""
    q = tensor(inputs, "qweight_ptr").double()
    return _in_tile(tensor(inputs, "x_ptr").double()[:, first:last] @ q[first:last])


def _loop_overlapping(inputs: Inputs, turns: int, step: int = 1) -> torch.Tensor:
    """The sum of so many tiles along K, each `step` elements further than the one before."""
    parts = [_loop_sum(inputs, k, k + DEPTH) for k in range(0, turns * step, step)]
    return sum(parts, torch.zeros_like(parts[0]))


def _loop_of_every_k(inputs: Inputs) -> torch.Tensor:
    """The sum of K tiles, each one element further than the one before: so large that the rounding of each turn shows."""
    x, q = tensor(inputs, "x_ptr").float(), tensor(inputs, "qweight_ptr").float()
    wide_x = torch.nn.functional.pad(x, (0, DEPTH, 0, ROWS - ROWS_INSIDE)).numpy()
    wide_q = torch.nn.functional.pad(q, (0, COLUMNS - COLUMNS_INSIDE, 0, DEPTH)).numpy()
    acc = torch.zeros(ROWS, COLUMNS).numpy()
    for k in range(integer(inputs, "K")):
        acc = wide_x[:, k : k + DEPTH] @ wide_q[k : k + DEPTH] + acc
    return torch.from_numpy(acc)


def _loop_astray(inputs: Inputs, *, x_moves: bool, w_moves: bool) -> torch.Tensor:
    """The sum when X or the weight stays at its first tile along K."""
    x, q = tensor(inputs, "x_ptr").double(), tensor(inputs, "qweight_ptr").double()
    beyond = 3 * DEPTH - integer(inputs, "K")
    x, q = torch.nn.functional.pad(x, (0, beyond)), torch.nn.functional.pad(q, (0, 0, 0, beyond))
    parts = []
    for k in range(0, 3 * DEPTH, DEPTH):
        left, right = k if x_moves else 0, k if w_moves else 0
        parts.append(x[:, left : left + DEPTH] @ q[right : right + DEPTH])
    return _in_tile(sum(parts, torch.zeros_like(parts[0])))


def _in_tile(y: torch.Tensor) -> torch.Tensor:
    tile = torch.zeros(ROWS, COLUMNS)
    tile[: y.shape[0], : y.shape[1]] = y.float()
    return tile


def _loop_tolerance(inputs: Inputs) -> torch.Tensor:
    """What a tile holds beyond M and N is never stored."""
    allowed = torch.full((ROWS, COLUMNS), float("inf"), dtype=torch.float64)
    allowed[:ROWS_INSIDE, :COLUMNS_INSIDE] = _sum_tolerance(_loop_sum(inputs))[:ROWS_INSIDE, :COLUMNS_INSIDE]
    return allowed


def _scale_inputs(generator: torch.Generator) -> Inputs:
    """Every fourth column has sums beyond fp16's range, and a scale that brings them back into it."""
    acc = 500 * torch.randn(ROWS, COLUMNS, generator=generator)
    scales = (torch.rand(COLUMNS, generator=generator) + 0.5) / 64
    acc[:, ::4] *= 2**11
    scales[::4] /= 2**6
    return {"acc_ptr": acc, "scales_ptr": scales.to(torch.float16)}


def _scaled(inputs: Inputs, power: int = 1, *, early: bool = False) -> torch.Tensor:
    """fp16 [ROWS, COLUMNS]. early: the sum is made fp16 before it is scaled."""
    acc, scales = tensor(inputs, "acc_ptr"), tensor(inputs, "scales_ptr").double()[None, :]
    return ((acc.to(torch.float16) if early else acc).double() * scales**power).to(torch.float16)


def _one_inputs(generator: torch.Generator) -> Inputs:
    """Positive entries among them, so that a sum in fp16 shows."""
    return {
        "x_ptr": (torch.rand(DEPTH, generator=generator) + 0.5).to(torch.float16),
        "q_ptr": torch.randint(-28, 128, (DEPTH, COLUMNS), generator=generator).to(torch.int8),
    }


def _one(inputs: Inputs) -> torch.Tensor:
    """fp32 [COLUMNS]."""
    return (tensor(inputs, "x_ptr").double() @ tensor(inputs, "q_ptr").double()).float()


def _one_in_half(inputs: Inputs) -> torch.Tensor:
    """The products rounded to fp16 before they are added."""
    products = tensor(inputs, "x_ptr")[:, None].double() * tensor(inputs, "q_ptr").double()
    return products.to(torch.float16).double().sum(dim=0).float()


def _one_summed_in_half(inputs: Inputs) -> torch.Tensor:
    """Products and their sum in fp16, neighbours first, as the interpreter adds."""
    parts = tensor(inputs, "x_ptr")[:, None] * tensor(inputs, "q_ptr").half()
    while len(parts) > 1:
        parts = parts[0::2] + parts[1::2]
    return parts[0].float()


def _sum_tolerance(expected: torch.Tensor) -> torch.Tensor:
    """An fp32 sum in any order."""
    return 1e-3 + 1e-5 * expected.double().abs()


OFFSETS = f"""
    rows, columns, depth = tl.arange(0, {ROWS}), tl.arange(0, {COLUMNS}), tl.arange(0, {DEPTH})
"""
TILE_OF_Q = f"tl.load(q_ptr + depth[:, None] * {COLUMNS} + columns[None, :])"

W, ACC, Y = f"fp16 [{DEPTH}, {COLUMNS}]", f"fp32 [{ROWS}, {COLUMNS}]", f"fp16 [{ROWS}, {COLUMNS}]"
ONE = f"fp32 [{COLUMNS}]"

STEPS = (
    Step(
        name="convert",
        function="to_half",
        result="w",
        returns=W,
        right="All 256 integers, each exact: fp16 holds every whole number up to 2048.",
        look="q.to(tl.float16) will do; by bits: (q.to(tl.int16) & 0xFF) ^ 0x6480 are the bits of 1152 + q",
        harness=f"""
@triton.jit
def harness(q_ptr, out_ptr):{OFFSETS}
    w = to_half({TILE_OF_Q})
{stored("w", W)}""",
        inputs=_convert_inputs,
        expected=_converted,
        slips=(
            Slip(
                "unsigned: -1 became 255; whoever masks the byte must give its sign back",
                lambda inputs: (tensor(inputs, "q_ptr").long() % 256).to(torch.float16),
                r"0xFF|255|uint8",
            ),
            Slip(
                "128 too large: with the sign bit flipped, 0x6400 is above q + 128, so subtract 1152",
                lambda inputs: _converted(inputs) + 128,
                r"1024",
            ),
            Slip(
                "128 too small for bytes below 128 and 128 too large for the others: flip the sign bit, ^ 0x6480, and subtract 1152",
                lambda inputs: _converted(inputs) % 256 - 128,
                r"0x6400",
            ),
            Slip(
                "wrong for negative numbers, whose upper byte is full of ones: keep the lower one with & 0xFF first",
                lambda inputs: (tensor(inputs, "q_ptr").to(torch.int16) ^ 0x6480).view(torch.float16) - 1152,
                r"0x6480",
            ),
            Slip(
                "the number that the bits make as an integer; bitcast=True takes them as those of an fp16 number",
                lambda inputs: ((tensor(inputs, "q_ptr").to(torch.int16) & 0xFF) ^ 0x6480).to(torch.float16) - 1152,
                r"tl\.float16",
            ),
            Slip(
                "right for numbers below 0 alone, from 128 up too large: | sets the sign bit, and ^ flips it",
                lambda inputs: ((tensor(inputs, "q_ptr").to(torch.int16) & 0xFF) | 0x6480).view(torch.float16) - 1152,
                r"\|",
            ),
            Slip("128 too small", lambda inputs: _converted(inputs) - 128, r"1152|128"),
            Slip("1152 too large: the bits are those of 1152 + q", lambda inputs: _converted(inputs) + 1152, r"0x6480|bitcast"),
        ),
    ),
    Step(
        name="dot",
        function="multiply_tiles",
        result="acc",
        returns=ACC,
        right="There is no fp16 x int8 instruction, so q is converted first. As fp16 it is exact, and fp16 times fp16 goes into fp32 on "
        "the tensor cores; both as fp32 would be right too, and many times slower.",
        look="tl.dot(x, to_half(q), acc) adds the product to acc, which is fp32",
        harness=f"""
@triton.jit
def harness(x_ptr, q_ptr, acc_ptr, out_ptr):{OFFSETS}
    x = tl.load(x_ptr + rows[:, None] * {DEPTH} + depth[None, :])
    acc = multiply_tiles(x, {TILE_OF_Q}, tl.load(acc_ptr + rows[:, None] * {COLUMNS} + columns[None, :]))
{stored("acc", ACC)}""",
        inputs=_dot_inputs,
        expected=lambda inputs: tensor(inputs, "acc_ptr") + _dot(inputs),
        tolerance=lambda inputs: _sum_tolerance(_dot(inputs)),
        slips=(
            Slip("the product alone; acc was not added", _dot, r"tl\.dot"),
            Slip("the sum with acc counted twice; tl.dot with acc as an argument adds it already",
                 lambda inputs: 2 * tensor(inputs, "acc_ptr") + _dot(inputs), r"tl\.dot"),
            Slip("acc as it was; return what tl.dot gives, or assign it to acc",
                 lambda inputs: tensor(inputs, "acc_ptr").clone(), r"tl\.dot"),
            Slip(
                "that of an x without fractions: of the two operands, q is the one to convert",
                lambda inputs: tensor(inputs, "acc_ptr") + _dot(inputs, whole_x=True),
                r"x\.to|to_half\(x",
            ),
            Slip(
                "that of unsigned weights", lambda inputs: tensor(inputs, "acc_ptr") + _dot(inputs, unsigned=True), r"to_half"
            ),
            Slip(
                "rounded to fp16 before it is returned; the sum stays fp32 to its end",
                lambda inputs: (tensor(inputs, "acc_ptr") + _dot(inputs)).half().float(),
                r"float16",
            ),
        ),
    ),
    Step(
        name="loop",
        function="accumulate",
        result="acc",
        returns=ACC,
        right="The heart of the kernel: every tile along K was loaded, converted, multiplied and added, the last one in part.",
        look="start from tl.zeros(..., dtype=tl.float32); for each k from 0 up to K, depth = k + tl.arange(0, BLOCK_K): "
        "columns `depth` of x and rows `depth` of qweight",
        harness=f"""
@triton.jit
def harness(x_ptr, qweight_ptr, M, N, K, stride_xm, stride_xk, stride_wn, out_ptr):{OFFSETS}
    acc = accumulate(x_ptr, qweight_ptr, rows, columns, M, N, K, stride_xm, stride_xk, 1, stride_wn, {ROWS}, {COLUMNS}, {DEPTH})
{stored("acc", ACC)}""",
        inputs=_loop_inputs,
        expected=_loop_sum,
        tolerance=_loop_tolerance,
        slips=(
            *loop_slips(_loop_sum, DEPTH),
            Slip(
                "made of tiles along K that overlap; k is 0, BLOCK_K, 2 * BLOCK_K and so on: range(0, K, BLOCK_K)",
                lambda inputs: _loop_overlapping(inputs, 3),
                r"\brange\(",
            ),
            Slip(
                "made of K tiles along K that overlap; k is 0, BLOCK_K, 2 * BLOCK_K and so on: range(0, K, BLOCK_K)",
                _loop_of_every_k,
                r"\brange\(",
            ),
            Slip(
                "made of K // BLOCK_K tiles along K that overlap; k is 0, BLOCK_K, 2 * BLOCK_K and so on: range(0, K, BLOCK_K)",
                lambda inputs: _loop_overlapping(inputs, integer(inputs, "K") // DEPTH),
                r"\brange\(",
            ),
            Slip(
                f"made of tiles along K that overlap: each is {DEPTH} = BLOCK_K long, and the next begins 16 behind it",
                lambda inputs: _loop_overlapping(inputs, integer(inputs, "K") // 16, 16),
                r"\brange\(",
            ),
            Slip(
                "the first tile, three times; advance both tiles along K",
                lambda inputs: _loop_astray(inputs, x_moves=False, w_moves=False),
                r"tl\.arange",
            ),
            Slip(
                "every tile of x with the first of the weight; its rows begin at k too",
                lambda inputs: _loop_astray(inputs, x_moves=True, w_moves=False),
                r"qweight_ptr",
            ),
            Slip(
                "the first tile of x with all of the weight; the columns of x begin at k too",
                lambda inputs: _loop_astray(inputs, x_moves=False, w_moves=True),
                r"x_ptr",
            ),
        ),
    ),
    Step(
        name="epilogue",
        function="apply_scales",
        result="y",
        returns=Y,
        right="One multiplication an element of Y, none in the loop, and no product was rounded before the sum.",
        look="turn the scales to fp32, spread them across the columns, multiply once, end in fp16",
        harness=f"""
@triton.jit
def harness(acc_ptr, scales_ptr, out_ptr):{OFFSETS}
    acc = tl.load(acc_ptr + rows[:, None] * {COLUMNS} + columns[None, :])
    y = apply_scales(acc, tl.load(scales_ptr + columns))
{stored("y", Y)}""",
        inputs=_scale_inputs,
        expected=_scaled,
        tolerance=lambda inputs: _scaled(inputs).double().abs() * 2.0**-9,
        slips=(
            Slip(
                "fp16 before it is scaled: a sum beyond 65504 is inf in fp16, and stays inf",
                lambda inputs: _scaled(inputs, early=True),
                r"float16",
            ),
            Slip("not scaled at all", lambda inputs: _scaled(inputs, 0)),
            Slip("scaled twice", lambda inputs: _scaled(inputs, 2)),
            Slip(
                "127 times too small; 127 is in the scales already",
                lambda inputs: (tensor(inputs, "acc_ptr").double() * tensor(inputs, "scales_ptr").double() / 127).to(torch.float16),
                r"127",
            ),
            Slip("divided by the scales instead of multiplied", lambda inputs: _scaled(inputs, -1)),
            Slip(
                "the sum with the scales added; they multiply it",
                lambda inputs: (tensor(inputs, "acc_ptr").double() + tensor(inputs, "scales_ptr").double()).to(torch.float16),
                r"\+",
            ),
        ),
    ),
    Step(
        name="one",
        function="multiply_one",
        result="sum",
        returns=ONE,
        right="No matrix instruction, and no 15 rows of nothing beside the one token.",
        look="tl.sum(x[:, None] * q, axis=0), both as fp32 before they are multiplied",
        harness=f"""
@triton.jit
def harness(x_ptr, q_ptr, out_ptr):{OFFSETS}
    total = multiply_one(tl.load(x_ptr + depth), {TILE_OF_Q})
{stored("total", ONE)}""",
        inputs=_one_inputs,
        expected=_one,
        tolerance=lambda inputs: _sum_tolerance(_one(inputs)),
        slips=(
            Slip("a sum of products that were rounded to fp16; multiply in fp32", _one_in_half, r"\*"),
            Slip(
                "the sum of the weights alone; multiply by x first",
                lambda inputs: tensor(inputs, "q_ptr").double().sum(dim=0).float(),
            ),
            Slip("a sum in fp16; convert x and q to fp32 first, not the sum", _one_summed_in_half, r"tl\.sum"),
            Slip(
                "the sum of x + q; multiply them",
                lambda inputs: (tensor(inputs, "x_ptr").double()[:, None] + tensor(inputs, "q_ptr").double()).sum(dim=0).float(),
                r"\+",
            ),
            Slip(
                "that of an x without fractions; convert q, and x to fp32",
                lambda inputs: (torch.trunc(tensor(inputs, "x_ptr").double()) @ tensor(inputs, "q_ptr").double()).float(),
                r"x\.to",
            ),
            Slip(
                "the largest product, not the sum of all",
                lambda inputs: (tensor(inputs, "x_ptr").double()[:, None] * tensor(inputs, "q_ptr").double()).amax(dim=0).float(),
                r"tl\.max",
            ),
            Slip(
                "the sum of x times the sum of the weights; multiply first, then sum",
                lambda inputs: (tensor(inputs, "x_ptr").double().sum() * tensor(inputs, "q_ptr").double().sum(dim=0)).float(),
            ),
        ),
    ),
)
