"""What programs add to Y, and of which k, as a record that can be read."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from grader.interpreter import split_k
from grader.interpreter.split_k import MAX_RANKS, Contributions


def area(shape, strides):
    size = 1 + sum((length - 1) * step for length, step in zip(shape, strides, strict=True))
    return SimpleNamespace(shape=shape, strides=strides, offset=0, valid=np.ones(size, dtype=bool))


def test_additions_between_rows_are_left_out():
    """Of a strided Y, where they are additions to none of its elements."""
    factor, output = area((2, 4), (4, 1)), area((2, 3), (5, 1))
    record = Contributions(factor, output, programs=1)
    record.begin(np.array([0]))
    record.load(factor, np.arange(4), 0)
    record.write(output, np.array([2, 3, 5]), np.array([1, 2, 3], dtype=np.float16), 0, adds=True)
    answer = record.answer()
    slices, additions, K = np.frombuffer(answer, np.int64, 3)
    assert (slices, additions, K) == (1, 2, 4)
    assert np.frombuffer(answer[24 + 2 * 4 + 4 * 2 :][: 4 * 2], np.int32).tolist() == [2, 3]
    assert len(answer) == 24 + 2 * 4 + 10 * 2


def test_programs_that_return_at_once_take_no_part():
    """A right kernel may launch a square of programs of which a few have a tile."""
    factor, output = area((2, 4), (4, 1)), area((2, 3), (3, 1))
    programs = MAX_RANKS
    record = Contributions(factor, output, programs)
    for program, k in ((5, [0, 1]), (programs - 1, [2, 3])):
        record.begin(np.array([program]))
        record.load(factor, np.array(k), program)
        record.write(output, np.arange(6), np.ones(6, dtype=np.float16), program, adds=True)
    assert record.complete
    slices, additions, K = np.frombuffer(record.answer(), np.int64, 3)
    assert (slices, additions, K) == (2, 12, 4)
    assert np.frombuffer(record.answer(), np.uint16)[12:20].tolist() == [1, 2, 0, 0, 0, 0, 1, 2]


def test_each_addition_has_the_k_that_its_program_loaded_last():
    """A program may go from a share of K to one that is empty, and add zeros to another tile; another one adds two sums in a row."""
    factor, output = area((2, 4), (4, 1)), area((2, 4), (4, 1))
    record = Contributions(factor, output, 2)
    record.begin(np.array([0, 1]))
    for ks, again in (([0, 1], 0), ([2, 3], 1)):
        for program in (0, 1):
            record.load(factor, np.array(ks), program)
        record.write(output, np.arange(8), np.ones(8, dtype=np.float16), np.repeat([0, 1], 4), adds=True)
        record.write(output, np.arange(8), np.full(8, again, dtype=np.float16), np.repeat([1, 0], 4), adds=True)
    answer = record.answer()
    assert np.frombuffer(answer, np.int64, 3).tolist() == [6, 24, 4]
    assert np.frombuffer(answer, np.uint16)[12:36].reshape(6, 4).tolist() == [[1, 2, 0, 0]] * 2 + [[0, 0, 1, 2]] * 4


@pytest.mark.parametrize(
    ("dtype", "first", "adds", "complete"),
    [("float16", 4, False, True), ("float16", 0, False, False), ("float32", 4, False, False), ("int32", 0, True, False)],
    ids=["a store to zeros", "a store over what was added", "a store of two elements", "an integer that is added"],
)
def test_only_fp16_that_is_added_or_stored_to_zeros_is_followed(dtype, first, adds, complete):
    factor, output = area((2, 4), (4, 1)), area((2, 4), (4, 1))
    record = Contributions(factor, output, 1)
    record.write(output, np.arange(4), np.ones(4, dtype=np.float16), 0, adds=True)
    record.write(output, first + np.arange(4), np.ones(4, dtype=dtype), 0, adds=adds)
    assert record.complete is complete


def test_more_programs_that_load_than_are_kept_are_not_followed(monkeypatch):
    factor, output = area((2, 4), (4, 1)), area((2, 3), (3, 1))
    monkeypatch.setattr(split_k, "MAX_RANKS", 2 * 4)
    record = Contributions(factor, output, 9)
    for program in range(3):
        assert record.complete
        record.load(factor, np.arange(4), program)
    assert not record.complete


def test_programs_of_one_access_come_in_any_order():
    """As they do where neighbours along the grid's first axis run together."""
    factor, output = area((2, 4), (4, 1)), area((2, 3), (3, 1))
    record = Contributions(factor, output, 3)
    record.begin(np.array([2, 0, 1]))
    record.load(factor, np.array([1, 0, 2, 3]), np.array([2, 2, 0, 1]))
    record.load(factor, np.array([2, 0, 3, 1]), np.array([2, 0, 1, 1]))
    for program in range(3):
        record.write(output, np.arange(6), np.ones(6, dtype=np.float16), program, adds=True)
    ranks = np.frombuffer(record.answer(), np.uint16)[12:24].reshape(3, 4)
    assert ranks.tolist() == [[2, 0, 1, 0], [0, 2, 0, 1], [2, 1, 3, 0]]
