"""Functions of libdevice that move bits, against Python's own bytes."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from grader.interpreter.libdevice_on_host import FLOAT, INTEGER

WORD = st.integers(-(2**31), 2**31 - 1)


def on_host(name, *values):
    function, kind = INTEGER[name]
    return function(*(np.array([value]) for value in values)).astype(kind)[0]


@given(WORD, WORD, WORD)
def test_byte_perm_takes_the_bytes_that_the_selector_names(low, high, selector):
    """Of each nibble of the selector the lower three bits, as in libdevice, which masks it with 0x7777."""
    both = struct.pack("<ii", low, high)
    picked = bytes(both[selector >> 4 * at & 7] for at in range(4))
    values = (np.array([value], dtype=np.int32) for value in (low, high, selector))
    assert on_host("byte_perm", *(value[0] for value in values)) == struct.unpack("<i", picked)[0]


@given(st.floats(width=32, allow_nan=False))
def test_bits_of_a_number_and_back(number):
    bits = struct.unpack("<i", struct.pack("<f", number))[0]
    assert on_host("float_as_int", np.float32(number)) == on_host("float_as_uint", np.float32(number)) == bits
    assert on_host("int_as_float", np.int32(bits)) == on_host("uint_as_float", np.int32(bits)) == np.float32(number)


def test_no_function_has_two_meanings():
    assert not FLOAT.keys() & INTEGER.keys()
