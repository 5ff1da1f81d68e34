"""Pointers are where Triton's own interpreter puts them, whatever was broadcast of the offsets, and for each program of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from grader.interpreter.host_builder import create_addptr
from grader.interpreter.per_program import PerProgram

OFFSETS = (np.int8, np.int32, np.int64, np.uint32)


@st.composite
def broadcast(draw: Any, kind: Any, sizes: tuple[int, ...]) -> np.ndarray:
    """Numbers [*sizes], the same along some of the axes."""
    own = tuple(draw(st.sampled_from((1, size))) for size in sizes)
    numbers = np.random.default_rng(draw(st.integers(0, 99))).integers(np.iinfo(kind).min, np.iinfo(kind).max, own, kind)
    return np.broadcast_to(numbers, sizes)


@pytest.mark.parametrize("element", [tl.int1, tl.int8, tl.float16, tl.float32, tl.int64], ids=str)
@settings(deadline=None)
@given(data=st.data())
def test_an_offset_moves_a_pointer_by_elements(element, data):
    programs, *tile = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4)))
    sizes = (programs, *tile)
    base, offsets = data.draw(broadcast(np.uint64, sizes)), data.draw(broadcast(data.draw(st.sampled_from(OFFSETS)), sizes))
    pointer, number = tl.pointer_type(element), tl.int64
    stacked = data.draw(st.sampled_from((PerProgram, lambda stack: stack[0])))
    moved = create_addptr(None, TensorHandle(PerProgram(base), pointer), TensorHandle(stacked(offsets), number))
    assert moved.data.stack.shape == sizes
    for program in range(programs):
        own = offsets[program if stacked is PerProgram else 0]
        expected = InterpreterBuilder.create_addptr(None, TensorHandle(base[program], pointer), TensorHandle(own, number))
        one = create_addptr(None, TensorHandle(base[program], pointer), TensorHandle(own, number))
        assert moved.dtype == one.dtype == pointer
        assert (moved.data.stack[program] == expected.data).all()
        assert (one.data == expected.data).all()
