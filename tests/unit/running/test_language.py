"""The interpreter means what the compiler means: for everything that triton.language documents a small kernel was compiled and
run on a GPU, and gives the same on the corrected interpreter, or the difference is listed with its sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest
import triton.language as tl

from tests.commands import python
from tests.language.cases import all_cases, cases
from tests.language.comparing import difference, recorded
from tests.tables import each_row, table
from tests.unit.running.test_memory_check import STORE, checked, edited

ALL = cases()
REFUSED = [name for name, case in ALL.items() if case.refused]
COMPARED = [name for name, case in ALL.items() if not case.refused and not case.differs]
SENSELESS = table(__file__)["senseless"]
REFLECTED = {"__req__", "__rne__", "__rlt__", "__rle__", "__rgt__", "__rge__"}


def documented() -> set[str]:
    """Every public name of triton.language, of its tensors and of its descriptors."""
    names = {f"tl.{name}" for name in tl.__all__}
    names |= {f"tensor.{name}" for name in dir(tl.tensor) if not name.startswith("_")}
    own = {name for name, member in vars(tl.tensor).items() if name.startswith("__") and callable(member)}
    names |= {f"tensor.{name}" for name in own - REFLECTED}
    return names | {f"tensor_descriptor.{name}" for name in dir(tl.tensor_descriptor) if not name.startswith("_")}


def run(what: str, path: str) -> None:
    python("-W", "ignore", "-m", "tests.language.run", what, path, seconds=600, OMP_NUM_THREADS="1")


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory):
    """What every kernel stored on the interpreter, or raised."""
    path = tmp_path_factory.mktemp("language") / "interpreted.npz"
    run("interpret", str(path))
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def outputs(name: str) -> list[str]:
    return [argument for argument in ALL[name].arguments if argument.startswith("out")]


def test_everything_documented_has_a_kernel_or_a_reason():
    covered = {word for case in all_cases().values() for word in case.covers.split()}
    reasons = {*SENSELESS, *(name.replace("tl.", "tensor.") for name in SENSELESS)}
    assert documented() - covered - reasons == set()


@pytest.mark.slow
def test_an_operation_that_is_planned_gives_what_the_whole_way_gave(interpreted):
    first = {key: value for key, value in interpreted.items() if not key.startswith(("again:", "about"))}
    assert {key for key, value in first.items() if interpreted[f"again:{key}"].tobytes() != value.tobytes()} == set()
    assert len(first) > len(ALL)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPARED)
def test_interpreted_as_compiled(interpreted, name):
    assert f"{name}!" not in interpreted, str(interpreted.get(f"{name}!"))
    for argument in outputs(name):
        expected = recorded().get(f"{name}/{argument}")
        if expected is None:
            pytest.skip(
                f"compiled by no GPU that was recorded: since Triton {ALL[name].since}, from sm_{ALL[name].capability} on"
            )
        assert difference(ALL[name], argument, interpreted[f"{name}/{argument}"], expected) == ""


@pytest.mark.parametrize("name", REFUSED)
def test_what_runs_on_a_gpu_only_says_so(interpreted, name):
    said = json.loads(str(interpreted[f"{name}!"]))
    assert said["error"] == "Unsupported"
    assert ALL[name].refused in said["message"]
    assert said["line"] is not None


def test_nothing_is_compared_loosely_without_a_reason():
    loose = [name for name, case in ALL.items() if (case.ulp or case.near or case.unordered) and not case.why]
    assert loose == []


def test_what_was_recorded_says_with_what():
    about = json.loads(str(recorded()["about"]))
    assert about["gpu"]
    assert about["triton"]
    assert about["date"]


ONE = (
    "one << 31", "(one << 31) > 0", "one << 40", "one * 65536 * 65536", "one * 2147483647 + 2147483647", "-one // 2", "-one % 3", "~one",
    "one / 3", "1 - one / 2", "(one - 2) >> 1", "one == 1.0", "one - 2 < 0", "one + one == 2 and one > 0",
)
"""Expressions in an argument that is passed as 1: most of them are other numbers where it is an int32."""


@pytest.mark.parametrize("folded", [True, False])
def test_an_argument_of_one_is_to_the_interpreter_what_it_is_to_the_compiler(tmp_path, folded):
    """The compiler folds it into a constant, unless the kernel asks it not to."""
    expected = [eval(one, {"one": tl.constexpr(1)}) for one in ONE]
    stores = [
        f"    tl.store(y_ptr + {place}, tl.where(({one.replace('one', 'stride_wk')}) == {getattr(value, 'value', value)}, 1.0, 0.0))\n"
        for place, (one, value) in enumerate(zip(ONE, expected, strict=True))
    ]
    result = checked(tmp_path, edited(STORE, "".join(stores)), M=16, N=32, folded=("stride_wk",) if folded else ())
    assert result.outcome.y is not None, result.outcome.message
    agree = dict(zip(ONE, result.outcome.y.flatten()[: len(ONE)].tolist(), strict=True))
    assert all(agree.values()) == folded, agree


@pytest.mark.slow
@each_row
def test_a_loop_leaves_no_variable_behind(tmp_path, lines, name):
    """To the compiler it is poison once the loop has ended, whatever it held before."""
    outcome = checked(tmp_path, edited(STORE, lines + STORE), M=16, N=32).outcome
    assert outcome.status == ("crash" if name else "ran"), outcome.message
    assert name is None or f"`{name}` is a loop variable, and its loop has ended" in outcome.message


def test_a_constant_that_does_not_fit_its_type_is_cut_off(tmp_path):
    """The compiler takes it so; NumPy would raise."""
    numbers = ((300, "int8", 44), (70000, "uint16", 4464), (2**32 - 1, "int32", -1), (2**40, "int32", 0), (2**63 + 5, "int64", 5 - 2**63))
    stores = [
        f"    tl.store(y_ptr + {place}, tl.where(tl.full((), {number}, tl.{kind}) == {becomes}, 1.0, 0.0))\n"
        for place, (number, kind, becomes) in enumerate(numbers)
    ]
    result = checked(tmp_path, edited(STORE, "".join(stores)), M=16, N=32)
    assert result.outcome.y is not None, result.outcome.message
    assert result.outcome.y.flatten()[: len(numbers)].tolist() == [1.0] * len(numbers)


SHIFTS = (
    ("M << 32", False), ("M >> 32", False), ("M.to(tl.uint32) >> 33", False), ("M.to(tl.int8) << 8", False), ("M << wide", False),
    ("M.to(tl.int64) << 64", False), ("tl.sum((tl.arange(0, 8) + M) << 40)", False),
    ("M << (wide - 1)", False), ("M.to(tl.int64) << (wide * 2)", False), ("M << (wide - 5 - turn)", True),
    ("M << (32 - 4 * (M < 0))", False),
    ("(M << 28) << 4", True), ("M.to(tl.int64) << 63 << 1", True), ("M >> 31", True), ("tl.where(M < 0, M << 32, 0)", True),
)


@pytest.mark.parametrize("columns", [32, 512])
def test_a_shift_by_the_types_width_has_no_answer(tmp_path, columns):
    """The compiler that sees it makes poison of it; an instruction makes 0, or the sign."""
    stores = [
        f"        tl.store(y_ptr + {place}, tl.where(({one}) == 0, 1.0, 0.0), mask=pid == 0)\n" for place, (one, _) in enumerate(SHIFTS)
    ]
    text = f"    wide = 36\n    for turn in range(2):\n        tl.debug_barrier()\n{''.join(stores)}"
    result = checked(tmp_path, edited(STORE, text), M=16, N=columns)
    assert result.outcome.y is not None, result.outcome.message
    found = result.outcome.y.flatten()[: len(SHIFTS)].tolist()
    assert dict(zip((one for one, _ in SHIFTS), found, strict=True)) == {one: float(zero) for one, zero in SHIFTS}


@each_row
def test_a_descriptor_that_no_gpu_takes_is_the_kernels_fault(tmp_path, made, says):
    line = f"    tile = tl.make_tensor_descriptor({made}, [16, 16]).load([0, 0])\n"
    outcome = checked(tmp_path, edited(STORE, line + STORE), M=16, N=32).outcome
    assert outcome.status == ("crash" if says else "ran"), outcome.message
    assert says in outcome.message
    assert "the grader itself failed" not in outcome.message


@pytest.mark.gpu
def test_interpreted_as_compiled_here(interpreted, tmp_path):
    """On this machine's GPU and Triton, as recorded and as interpreted."""
    path = tmp_path / "compiled.npz"
    run("launch", str(path))
    with np.load(path) as file:
        compiled = {name: file[name] for name in file.files}
    raised = {name: str(compiled[name]) for name in compiled if name.endswith("!")}
    assert raised == {}
    found = [
        difference(ALL[name], argument, interpreted[f"{name}/{argument}"], compiled[f"{name}/{argument}"])
        for name in COMPARED
        for argument in outputs(name)
        if f"{name}/{argument}" in compiled
    ]
    assert [sentence for sentence in found if sentence] == []
