"""An order that Triton leaves open is noted and tried in another way: what does not care stays the same, to the bit where it is exact."""

from __future__ import annotations

import json

import pytest

from grader.judging.checking import LEFT_OPEN, order_left_open
from grader.labs import get_lab
from grader.reading import read
from tests.commands import python
from tests.submissions import TESTS

BOTH_ORDERS = """
import itertools, json, os, sys
os.environ["TRITON_INTERPRET"] = "1"
import numpy as np
import triton.language as tl
from grader.interpreter import number_formats, orders, reductions
from grader.interpreter.per_program import PerProgram
from grader.interpreter import launching
from grader.interpreter.host_builder import ELEMENTWISE, METHODS
from grader.interpreter.libdevice_on_host import FLOAT
from triton.runtime.interpreter import TensorHandle

def tile(data, dtype):
    return tl.core.tensor(TensorHandle(data, dtype), tl.block_type(dtype, list(data.shape)))

def affine(a, b, c, d):
    return a * c, b * c + d

def larger(value, at, other, there):
    left = (value > other) | ((value == other) & (at < there))
    return tl.where(left, value, other), tl.where(left, at, there)

def either(value, at, other, there):
    left = value > other
    return tl.where(left, value, other), tl.where(left, at, there)

ONE = {{
    "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "max": tl.maximum, "xor": lambda a, b: a ^ b,
    "minus": lambda a, b: a - b, "turned": lambda a, b: b - a, "half": lambda a, b: (a + b) // 2, "first": lambda a, b: a,
    "last": lambda a, b: b, "twice": lambda a, b: 2 * a + b,
}}
TWO = {{"affine": affine, "larger": larger, "either": either}}
rng, differ = np.random.default_rng(0), {{}}
for shape, together in itertools.product([(2,), (4,), (8,), (64,), (4, 8), (16, 2), (2, 4, 8)], (False, True)):
    for name, combine in (ONE | TWO).items():
        for axis, scan in itertools.product(range(len(shape)), (False, True)):
            made = [rng.integers(-9, 9, (3, *shape) if together else shape).astype(np.int32) for _ in range(1 + (name in TWO))]
            if name in ("larger", "either"):
                made = [made[0] // 8, np.broadcast_to(np.arange(shape[-1], dtype=np.int32), made[0].shape)]
            inputs = [tile(PerProgram(one) if together else one, tl.int32) for one in made]
            results = []
            for seed in (None, 1, 2, 3):
                orders.Orders.begin("", seed)
                call = reductions.scanned if scan else reductions.reduced
                result = [one.handle.data for one in call(inputs, axis, combine, False)]
                results.append(np.stack([one.stack if together else one for one in result]))
                assert bool(orders.Orders.met) == (shape[axis] > (2 if scan else 1)), (name, shape, axis, scan)
            if orders.Orders.met:
                key = f"{{name}} {{'scan' if scan else 'reduce'}}"
                differ.setdefault(key, []).append(any((other != results[0]).any() for other in results[1:]))
for size, dtype in itertools.product((2, 8, 256), (np.float16, np.float32)):
    data, sums = rng.standard_normal((size, 4)).astype(dtype), []
    inputs = [tile(data, tl.float16 if dtype == np.float16 else tl.float32)]
    for seed in (None, 5):
        orders.Orders.begin("", seed)
        sums.append(reductions.reduced(inputs, 0, ONE["add"], False)[0].handle.data)
    assert np.allclose(sums[0], sums[1], rtol=0, atol=8 * np.finfo(dtype).eps * size**0.5), size
for known in reductions.ANY_ORDER:
    orders.Orders.begin("", 1)
    count = 2 if "arg" in known.fn.__name__ else 1
    reductions.reduced([tile(np.arange(8, dtype=np.int32), tl.int32)] * count, 0, known, False)
    assert not orders.Orders.met, known
assert all(sorted(orders.another(n)) == list(range(n)) and (orders.another(n) != np.arange(n)).all() for n in (2, 3, 4, 16, 100))
highest, hole = tl.standard._elementwise_max, rng.standard_normal((3, 8)).astype(np.float32)
hole[1, 2] = np.nan
both = reductions.reduced([tile(PerProgram(hole), tl.float32)], 0, highest, False)[0].handle.data.stack
each_alone = [reductions.reduced([tile(one, tl.float32)], 0, highest, False)[0].handle.data for one in hole]
assert np.array_equal(both.reshape(-1), np.concatenate(each_alone), equal_nan=True), (both, each_alone)

def cancels(chosen):
    orders.Orders.begin("", None)
    x, y = (TensorHandle(np.full(8, number, np.float32), tl.float32) for number in (0.1, 0.3))
    product = METHODS["create_fmul"](None, x, y)
    back = TensorHandle(-product.data, tl.float32)
    if chosen is not None:
        product = METHODS["create_select"](None, TensorHandle(np.full(8, chosen), tl.int1), product, TensorHandle(-back.data, tl.float32))
    assert not METHODS["create_fadd"](None, product, back).data.any()
    return bool(orders.Orders.met)

def rounded(function, *numbers):
    return approximated(orders.approximated(function), *numbers)

def approximated(function, *numbers):
    orders.Orders.begin("", None)
    first = function(*numbers)
    open_ = bool(orders.Orders.met)
    orders.Orders.begin("", 3)
    other = function(*numbers)
    return open_, int(np.abs(other.view(f"i{{other.itemsize}}") - first.view(f"i{{first.itemsize}}")).max())

whole = np.arange(-64, 64).astype(np.float32)
fractions = (rng.standard_normal(128) + 0.1).astype(np.float32)
each = lambda number: np.full(128, number, dtype=np.float32)
quotients = {{
    "by 41": rounded(np.divide, 41 * whole, each(41)), "one by 49": rounded(np.divide, each(1), each(49)),
    "by 64": rounded(np.divide, whole, each(64)), "by nothing": rounded(np.divide, whole, each(0)),
    "nothing": rounded(np.divide, each(0), each(7)), "a fraction": rounded(np.divide, fractions, each(7)),
    "by a fraction": rounded(np.divide, whole, fractions), "root": rounded(np.sqrt, whole**2), "no root": rounded(np.sqrt, fractions**2),
    "three quarters": rounded(np.divide, (2 * whole + 1) * np.float32(0.75), each(0.75)),
    "tenths": rounded(np.divide, whole * each(0.1), each(0.1)),
    "two by 49": rounded(np.divide, each(0.5), each(12.25)), "cube root": rounded(np.cbrt, (8 * whole + 3) ** 3),
    "halves": rounded(np.divide, (3 * whole).astype(np.float16), np.full(128, 3, dtype=np.float16)),
    "three squared": approximated(FLOAT["pow"], each(3), each(2)), "powers of two": approximated(FLOAT["pow"], each(2), whole),
    "programs": rounded(lambda x, y: (x / y).stack, PerProgram(whole[:, None]), PerProgram(each(3)[:, None])),
}}
orders.Orders.begin("", None)
nearest = fractions / (fractions[::-1] + 3)
apart = np.abs(orders.approximated(np.divide)(fractions, fractions[::-1] + 3).view("i4") - nearest.view("i4"))

def directions(function, numbers):
    # of each number, in which directions the other ways go, and how far the farthest
    orders.Orders.begin("", None)
    first, found = function(numbers), []
    for seed in rng.integers(2**48, size=60).tolist():
        orders.Orders.begin("", seed)
        found.append(function(numbers).astype(np.float64) - first)
    return [np.min(found, axis=0).tolist(), np.max(found, axis=0).tolist(), bool(orders.Orders.met)]

some = np.abs(fractions[:32]) + np.float32(0.1)
names = ("sin", "cos", "tan", "tanh", "log10", "log1p", "expm1", "exp", "log", "log2", "exp2")
coarse = {{name: directions(FLOAT[name], some) for name in names}}
coarse |= {{f"tl.{{name}}": directions(ELEMENTWISE[name], some) for name in ("sin", "cos", "log2", "exp2")}}
known = {{
    "sine of nothing": directions(ELEMENTWISE["sin"], each(0)), "powers of two": directions(ELEMENTWISE["exp2"], whole),
    "logarithms": directions(ELEMENTWISE["log2"], np.exp2(whole)),
}}
differ = {{key: sum(values) / len(values) for key, values in differ.items()}}
kinds = [orders.ELEMENTS, orders.COMBINING, orders.PACKS, orders.BITS, orders.LAST_BIT, orders.FUSED, orders.PROMISED]
cancelled = [cancels(chosen) for chosen in (None, True, False)]
digits = {{"apart": apart.tolist(), "coarse": coarse, "known": known}}
print(json.dumps({{"differ": differ, "quotients": quotients, "kinds": kinds, "cancelled": cancelled, **digits}}))
"""


@pytest.fixture(scope="module")
def seen() -> dict:
    """What the script above printed."""
    return json.loads(python("-c", BOTH_ORDERS.format()))


@pytest.fixture
def differ(seen) -> dict[str, float]:
    """By function, the share of tiles of several shapes whose result is another in one of three other orders."""
    return seen["differ"]


@pytest.mark.slow
def test_what_is_associative_and_commutative_stays_the_same_to_the_bit(differ):
    for name in ("add", "mul", "max", "xor", "larger"):
        assert differ[f"{name} reduce"] == differ[f"{name} scan"] == 0, name


def test_a_scan_need_not_be_commutative(differ):
    for name in ("first", "last", "affine"):
        assert differ[f"{name} scan"] == 0 < 0.9 < differ[f"{name} reduce"], name


def test_what_is_not_shows(differ):
    for name in ("minus", "turned", "twice"):
        assert differ[f"{name} reduce"] > 0.9, name
        assert differ[f"{name} scan"] > 0.9, name
    assert differ["half reduce"] > 0.6  # of two elements it is the same either way
    assert differ["half scan"] > 0.9
    assert differ["either reduce"] > 0.5  # where numbers are equal, and so not in every tile


def test_quotients_and_roots_of_whole_numbers_are_off_in_the_last_bit(seen):
    """As a GPU's are: where floor or a conversion would show it, and the reciprocal is not that of a power of two."""
    open_ones = {"by 41", "one by 49", "root", "programs", "three quarters", "tenths", "two by 49", "cube root", "three squared"}
    for name, (is_open, off) in seen["quotients"].items():
        assert (is_open, off in (1, 2)) == (name in open_ones, name in open_ones), name
        assert is_open or not off, name


def test_other_quotients_are_sometimes_the_nearest_number(seen):
    """So a kernel can count neither on that nor on the contrary."""
    assert set(seen["apart"]) == {0, 1}


def test_of_sines_and_logarithms_some_digits_are_open(seen):
    """In both directions for each number, whatever its bits are; not where a GPU is exact, too."""
    for name, (lowest, highest, is_open) in seen["coarse"].items():
        assert is_open, name
        assert all(-1e-5 < low < 0 < high < 1e-5 for low, high in zip(lowest, highest, strict=True)), name
    for name, (lowest, highest, is_open) in seen["known"].items():
        assert (is_open, max(highest), min(lowest)) == (False, 0, 0), name


def test_a_product_that_cancels_is_noted_where_it_is_chosen(seen):
    """By itself, and through tl.where; not where that has chosen another value."""
    assert seen["cancelled"] == [True, True, False]


def test_every_order_has_a_sentence_with_its_lines(seen):
    assert sorted(LEFT_OPEN) == sorted(seen["kinds"])
    source = read(TESTS / "styles" / "w8a8_plain.py", [get_lab("w8a8")]).labs["w8a8"]
    found = [("combining", 3), ("elements", 4), ("combining", None), ("combining", 5)]
    assert order_left_open(source, found).endswith(f"({source.locate(3)}, {source.locate(5)})")
