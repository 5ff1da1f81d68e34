"""Frames between a sandbox and the grader: what comes back, and what is refused with its reason."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.sandbox.inside import wire

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=30,
)
HEADERS = st.dictionaries(TEXT, VALUES, max_size=5)


def reader(data):
    position = 0

    def read(count):
        nonlocal position
        if position + count > len(data):
            raise EOFError
        position += count
        return data[position - count : position]

    return read


def framed(text: bytes) -> bytes:
    return b"KLAB" + len(text).to_bytes(4, "little") + bytes(4) + text


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP" + bytes(20),
        b"KLAB" + (9 << 20).to_bytes(4, "little") + bytes(4),
        b"KLAB" + (2).to_bytes(4, "little") + (65).to_bytes(4, "little"),
        b"KLAB" + (2).to_bytes(4, "little") + (1).to_bytes(4, "little") + (1 << 60).to_bytes(8, "little"),
        *map(framed, (b"[]", b"{x}", b"[" * 200000)),
        b"KLAB" + bytes(3),
    ],
)
def test_what_is_no_frame_is_refused(data):
    with pytest.raises(EOFError if len(data) < 8 else wire.WireError):  # of a cut one it is the end
        wire.decode(reader(data))


@given(HEADERS, st.lists(st.binary(max_size=50), max_size=4))
def test_whatever_may_travel_comes_back_unchanged(header, blobs):
    data = b"".join(bytes(part) for part in wire.encode(header, blobs))
    assert wire.decode(reader(data)) == (header, blobs)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_header_or_refused(text):
    try:
        header, _ = wire.decode(reader(framed(text)))
    except wire.WireError:
        return
    assert isinstance(header, dict)


BAD = [
    math.inf,
    -math.inf,
    math.nan,
    2**63,
    -(2**63),
    10**5000,
    "\ud800",
    "a\udfff",
    b"x",
    {1, 2},
    1j,
    object(),
    {1: 2},
]


@given(HEADERS, st.sampled_from(BAD), st.lists(st.sampled_from(["list", "dict", "tuple"]), max_size=5))
def test_what_may_not_travel_is_refused_at_any_depth_on_both_sides(header, bad, layers):
    value = bad
    for layer in layers:
        value = {"list": [1, value], "dict": {"k": value}, "tuple": (value,)}[layer]
    header = {**header, "here": value}
    with pytest.raises(wire.WireError, match="here"):
        wire.encode(header)
    try:
        text = json.dumps(header).encode()
    except (TypeError, ValueError):
        return
    if not isinstance(bad, dict):  # JSON makes text of a key that is a number
        with pytest.raises(wire.WireError):
            wire.decode(reader(framed(text)))


def test_nesting_is_bounded_on_both_sides():
    value: list = []
    for _ in range(wire.MAX_DEPTH + 1):
        value = [value]
    with pytest.raises(wire.WireError, match="nested deeper"):
        wire.encode({"a": value})
    with pytest.raises(wire.WireError, match="nested deeper"):
        wire.decode(reader(framed(json.dumps({"a": value}).encode())))


@pytest.mark.parametrize(
    ("check", "value", "said"),
    [
        (
            lambda v: wire.integer(v, 1, 32, name="num_warps"),
            33,
            "num_warps is 33; expected a whole number from 1 to 32",
        ),
        (lambda v: wire.integer(v, 1, 32), True, "a value is a bool; expected a whole number"),
        (lambda v: wire.integer(v, 1, 32), 4.0, "is a float; expected a whole number"),
        (lambda v: wire.integer(v), 10**400, "a number of 1329 bits"),
        (lambda v: wire.number(v, 0, 1, name="seconds"), math.nan, "seconds is nan; expected a finite number"),
        (lambda v: wire.number(v, 0, 1), 2, "is 2; expected a number from 0 to 1"),
        (lambda v: wire.number(v), "1", "is a str; expected a number"),
        (lambda v: wire.number(v), 10**400, "a number of 1329 bits"),
        (lambda v: wire.text(v, limit=3), "long", "has 4 characters; expected at most 3"),
        (wire.text, None, "is a NoneType; expected text"),
        (wire.text, "\ud83d", "half of a character"),
        (lambda v: wire.items(v, limit=1), [1, 2], "has 2 values; expected at most 1"),
        (wire.items, {}, "is a dict; expected a list"),
    ],
)
def test_each_kind_of_value_is_checked_with_a_sentence(check, value, said):
    with pytest.raises(wire.WireError) as refusal:
        check(value)
    assert said in str(refusal.value)


def test_right_values_pass_unchanged():
    assert wire.integer(7, 7, 7) == 7
    assert wire.number(3, 0, 3) == 3.0
    assert isinstance(wire.number(3), float)
    assert wire.text("é") == "é"
    assert wire.items([1]) == [1]
