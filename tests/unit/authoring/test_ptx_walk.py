"""The lanes and the PTX that the notebook shows are what this machine's Triton makes of the solution."""

from __future__ import annotations

import importlib.util
import re
from itertools import product
from pathlib import Path

import pytest

from grader.labs import get_lab
from tests.versions import triton_before

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "notebooks" / "source" / "w4a16.py"
STEPS = {"registers": (16, "wgmma"), "slices": (8, "mma.sync")}
"""BLOCK_M of the config that is shown, and its matrix instruction."""
LIKE = (("gptq", "registers"), ("gptq", "slices"), ("w8a16", "registers"))
"""Other labs' steps, whose notebooks say that the lanes are the same."""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """TTGIR and PTX that a solution's config for a step becomes for sm_90, by lab and step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        return {(lab, step): compiled_for(lab, STEPS[step][0]) for lab, step in (*(("w4a16", step) for step in STEPS), *LIKE)}


def compiled_for(lab_id, block_m):
    """The listings of the first config with so many rows of Y and the most along K."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    spec = importlib.util.spec_from_file_location(f"{lab_id}_solution", ROOT / "solutions" / f"{lab_id}.py")
    solution = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(solution)
    lab = get_lab(lab_id)
    kernel = getattr(solution, lab.kernel)
    while not isinstance(kernel, triton.JITFunction):
        kernel = kernel.fn
    config = max((one for one in solution.CONFIGS if one.kwargs["BLOCK_M"] == block_m), key=lambda one: one.kwargs["BLOCK_K"])
    constants = {"TILES_A_GROUP": 1, "stride_xk": 1, "stride_wn": 1, "stride_yn": 1, **config.kwargs}
    pointers = {one.name: one.type for one in lab.parameters if one.type.startswith("*")}
    types = {one: "constexpr" if one in constants else pointers.get(one, "i32") for one in kernel.arg_names}
    at = {one: (number,) for number, one in enumerate(kernel.arg_names)}
    divisible = {at[one]: [["tt.divisibility", 16]] for one, kind in types.items() if kind != "constexpr"}
    source = ASTSource(kernel, types, {at[one]: value for one, value in constants.items() if one in at}, divisible)
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm


def shown(step, kind):
    """What the notebook shows of a step in each language: its table of lanes or its lines of PTX."""
    text = SOURCE.read_text(encoding="utf-8")
    found = []
    for asked in (f"# @speed w4a16: {step}\n", f"# @speed w4a16: {step} | "):
        blocks = re.findall(r"# ```text\n(.*?)# ```", text[: text.index(asked)], re.DOTALL)[-2:]
        found.append([line.removeprefix("# ") for line in blocks[kind == "ptx"].splitlines()])
    return found


def made_of(ptx, last):
    """The instructions that a register is made of, backwards through the text, and the registers that each reads."""
    wanted, found = {last}, []
    for line in reversed(ptx.splitlines()):
        match = re.match(r"\s*([a-z][\w.:]*)\s+(%\w+),\s*(.*);", line)
        if match and match[2] in wanted:
            found.append((match[1], match[2], match[3]))
            wanted.discard(match[2])
            if not match[1].startswith("ld."):
                wanted.update(re.findall(r"%\w+", match[3]))
    return found[::-1]


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_each_line_of_the_walk_is_in_what_the_compiler_makes(compiled, step):
    ptx = compiled["w4a16", step]["ptx"]
    matrix = next(line for line in ptx.splitlines() if f"{STEPS[step][1]}." in line and "mma" in line and line.count("{") >= 2)
    register = re.findall(r"%\w+", matrix.split("{")[2])[0]
    today = [(name, set(re.findall(r"(?<![%\w])-?\d+", rest.split("[")[0]))) for name, _, rest in made_of(ptx, register)]
    for lines in shown(step, "ptx"):
        *parts, last, operands = [line.split("//")[0].split(None, 1) for line in lines]
        before, last = parts, [*last, " ".join(operands)]
        assert last[0] == matrix.split()[0]
        expected = [(name, set(re.findall(r"(?<![%\w])-?\d+", rest.split("[")[0]))) for name, rest in before]
        rest = iter(today)
        assert all(line in rest for line in expected), (expected, today)
        for at, (_, rest) in enumerate(before):
            assert rest.split(",")[0] in " ".join(later for _, later in [*before[at + 1 :], last]), "each line is for a later one"


@pytest.mark.slow
@pytest.mark.parametrize(("step", "axes"), [("registers", (0, 2)), ("slices", (0, 3))])
def test_the_lanes_are_those_of_the_compilers_layout(compiled, step, axes):
    """axes: of the layout in which nibbles are opened, the row of W and what lies in a lane of its own along k."""
    lanes = _lanes(compiled["w4a16", step]["ttgir"], axes)
    assert len(lanes) == 32
    for lines in shown(step, "lanes"):
        rows = {int(line.split()[2]): [int(lane) for lane in line.split()[3:]] for line in lines if line.startswith("n = ")}
        assert sorted(rows) == [0, 1, 2, 7]
        for row, expected in rows.items():
            assert expected == [lanes[row, k * 4 // len(expected)] for k in range(len(expected))]


@pytest.mark.slow
@pytest.mark.skipif(triton_before("3.7"), reason="the walk is that of Triton 3.7, whose lanes are others")
@pytest.mark.parametrize(("lab", "step"), LIKE)
def test_the_lanes_of_other_labs_are_the_same(compiled, lab, step):
    axes = {"registers": (0, 2), "slices": (0, 3)}[step]
    mine, known = (_lanes(compiled[one, step]["ttgir"], axes) for one in (lab, "w4a16"))
    assert {(row, k // (2 if lab == "w8a16" else 1)): lane for (row, k), lane in mine.items()} == known


def _lanes(ttgir, axes):
    """Lanes by row and place along k, in the first layout that has as many axes as words are opened in."""
    layouts = map(_numbers, re.findall(r"lane = (\[\[.*?\]\])", ttgir))
    bases = next(one for one in layouts if len(one[0]) == {2: 3, 3: 5}[axes[1]])
    lanes = {}
    for bits in product((0, 1), repeat=5):
        place = [sum(bit * base[axis] for bit, base in zip(bits, bases, strict=True)) for axis in axes]
        lanes[tuple(place)] = sum(bit << at for at, bit in enumerate(bits))
    return lanes


def _numbers(text):
    return [[int(number) for number in base.split(",")] for base in re.findall(r"\[([\d, ]+)\]", text)]
