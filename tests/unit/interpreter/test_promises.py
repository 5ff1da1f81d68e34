"""What a kernel promises the compiler has to be so, and the promises of Triton's tutorials, which lanes past an end break, may stay."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import triton.language as tl

from grader.interpreter.promises import CONSTANT, CONTIGUOUS, MULTIPLE, breaks
from grader.judging.checking import BROKEN_PROMISE, Finding, reject_undefined
from tests.unit.running.test_memory_check import checked, edited

LANES = np.arange(16)
FP16, INT8 = tl.pointer_type(tl.float16), tl.pointer_type(tl.int8)
BASE = 1 << 44


def tile(data, dtype=tl.int32) -> SimpleNamespace:
    return SimpleNamespace(data=np.asarray(data), dtype=dtype)


@pytest.mark.parametrize(
    "numbers",
    [
        48 + LANES,
        (32 + LANES) % 37,
        (32 + LANES) % 33,
        LANES % 1,
        LANES % 5,
        np.minimum(32 + LANES, 36),
        np.minimum(32 + LANES, 32),
        np.where(32 + LANES < 37, 32 + LANES, 0),
        np.where(32 + LANES < 33, 32 + LANES, 0),
    ],
)
def test_what_the_tutorials_promise_of_a_last_tile_is_no_lie(numbers):
    """Of `offs % M`, of lanes that stay at the last row, and of those that are 0 past it."""
    assert breaks(MULTIPLE, tile(numbers), [16]) == breaks(CONTIGUOUS, tile(numbers), [16]) == []
    for step in (2, 64):
        across = np.stack([numbers * step, numbers * step + 6])
        assert breaks(CONTIGUOUS, tile(across.T.copy()), [1, 2]) != []


@pytest.mark.parametrize(
    ("kind", "data", "promised", "seen"),
    [
        (MULTIPLE, [176], [64], [(64, (176,))]),
        (MULTIPLE, [192], [64], []),
        (MULTIPLE, LANES + 1, [16], [(16, (1,))]),
        (MULTIPLE, LANES * 4, [4], []),
        (MULTIPLE, LANES * 4, [8], [(8, (4,))]),
        (MULTIPLE, (8 + LANES) % 12, [8], []),
        (MULTIPLE, LANES * 2.5, [2], []),
        (MULTIPLE, np.stack([LANES, LANES + 5]), [1, 16], [(16, (5,))]),
        (CONTIGUOUS, 7 * LANES % 16, [16], [(16, (0, 7))]),
        (CONTIGUOUS, LANES[::-1], [16], [(16, (15, 14))]),
        (CONTIGUOUS, LANES // 8, [16], [(16, (0, 0))]),
        (CONTIGUOUS, LANES // 8, [8], []),
        (CONTIGUOUS, LANES ^ 8, [8], []),
        (CONTIGUOUS, LANES ^ 8, [16], []),
        (CONTIGUOUS, LANES ^ 4, [16], [(16, (7, 0))]),
        (CONTIGUOUS, LANES // 2 * 2 + 1 - LANES % 2, [16], [(16, (1, 0))]),
        (CONSTANT, LANES // 8, [8], []),
        (CONSTANT, LANES // 8, [16], [(16, (0, 1))]),
    ],
)
def test_a_promise_that_is_not_so_is_told_with_what_was_seen(kind, data, promised, seen):
    assert breaks(kind, tile(data), promised) == seen


@pytest.mark.parametrize(
    ("kind", "bytes_", "dtype", "promised", "seen"),
    [
        (CONTIGUOUS, 2 * LANES, FP16, 16, []),
        (CONTIGUOUS, 2 * ((32 + LANES) % 37), FP16, 16, []),
        (CONTIGUOUS, 2 * LANES, INT8, 16, [(16, (0, 2))]),
        (CONTIGUOUS, 96 * LANES, FP16, 16, [(16, (0, 48))]),
        (MULTIPLE, 2 * LANES, FP16, 16, []),
        (MULTIPLE, 2 * LANES + 6, FP16, 16, [(16, (6,))]),
    ],
)
def test_promises_of_pointers_are_of_bytes_and_elements(kind, bytes_, dtype, promised, seen):
    assert breaks(kind, tile((BASE + bytes_).astype(np.uint64), dtype), [promised]) == seen


PID = "pid = tl.program_id(0)\n"


@pytest.mark.parametrize(
    ("promise", "says"),
    [
        ("tl.assume(M > 0)", ""),
        ("offs = tl.max_contiguous(tl.multiple_of((pid // 3 * 16 + tl.arange(0, 16)) % M, 16), 16)", ""),
        ("tl.assume(K % 64 == 0)", "tl.assume assumes `K % 64 == 0`, which is false (M = 33, N = 80, K = 48)"),
        ("K = tl.multiple_of(K, 32)", "tl.multiple_of promises multiples of 32, found 48"),
        ("offs = tl.max_contiguous(tl.arange(0, 16) * 2, 16)", "tl.max_contiguous promises 16 consecutive values, found 0 beside 2"),
        ("offs = tl.max_constancy(tl.arange(0, 16) // 4, [8])", "tl.max_constancy promises 8 equal values, found 0 beside 1"),
    ],
)
def test_a_broken_promise_is_named_and_a_right_result_is_no_longer_right(tmp_path, promise, says):
    result = checked(tmp_path, edited("    " + PID, f"    {PID}    {promise}\n"))
    assert result.outcome.status == "ran", result.outcome.message
    verdict = reject_undefined(Finding(True, ""), result.outcome)
    assert verdict.ok == (not says)
    assert verdict.message == (BROKEN_PROMISE if says else "")
    assert len(result.sentences) == bool(says)
    for sentence in result.sentences:
        assert f"line {result.line(promise)}: {says}" in sentence
