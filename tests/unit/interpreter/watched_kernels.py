"""Kernels of nobody's lab, as a stranger has them; each name says what is wrong with it."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def scaled(value, factor):
    return value * factor


@triton.jit
def right(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, scaled(x, factor), mask=offs < n)


@triton.jit
def unmasked(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(out_ptr + offs, x * factor, mask=offs < n)


@triton.jit
def stores_beside(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs - 1, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


@triton.jit
def adds_without_atomic(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(out_ptr, tl.load(out_ptr) + tl.sum(x))


@triton.jit
def half(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n // 2)


@triton.jit
def promises(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    n = tl.multiple_of(n, 16)
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


@triton.jit
def shifts_in_place(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(out_ptr + offs + 1, mask=offs + 1 < n)
    tl.store(out_ptr + offs, x, mask=offs < n)


@triton.jit
def never_ends(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    while n > 0:
        n += factor.to(tl.int32) * 0


@triton.autotune(configs=[triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["n"])
@triton.heuristics({"factor": lambda arguments: 0.5})
@triton.jit
def tuned(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * factor, mask=offs < n)


def tuned_arguments():
    x = np.arange(100, dtype=np.float32)
    return {"x_ptr": x, "out_ptr": np.zeros_like(x), "n": 100}, lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)
