"""The steps of the notebooks: what is right passes, and what is often done wrong is named."""

from __future__ import annotations

import ast
import re
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from grader.authoring.notebooks import SOURCE, instructor_notebook
from grader.exercises import exercises, steps_of
from grader.labs import all_labs
from grader.model import KernelSource, Refusal, SourceLine
from grader.notebook import NotYet, check_cells, graded, step_values, step_words
from grader.notebook import cells as notebook_cells
from grader.notebook.harness import StepAnswer, check_executed, problem_of
from grader.notebook.step_words import deviation, differing
from grader.reading import read_executed, read_step
from grader.running.cpu import InterpretOptions

ROOT = Path(__file__).parents[3]
LABS = list(all_labs())
NOTEBOOKS = list(exercises())
WRONG = [
    pytest.param(notebook, *(entry[key] for key in ("step", "find", "replace", "said")))
    for notebook, entries in tomllib.loads(Path(__file__).with_name("wrong_steps.toml").read_text(encoding="utf-8")).items()
    for entry in entries
]
SWAPPED = (
    "rows[:, None] * stride_row + columns[None, :] * stride_column",
    "columns[:, None] * stride_column + rows[None, :] * stride_row",
)


def solution_cells(lab_id: str) -> list[str]:
    notebook = instructor_notebook(ROOT / SOURCE / f"{lab_id}.py", ROOT)
    return ["", *(cell.source for cell in notebook.cells if cell.cell_type == "code")]


@pytest.fixture(scope="module")
def options() -> InterpretOptions:
    return InterpretOptions(1, case_seconds=20.0)


def answer(notebook: str, name: str, cells: list[str], options: InterpretOptions) -> StepAnswer | Refusal:
    return check_executed(steps_of(notebook), name, cells, options, notebook)


def text_of(found: StepAnswer | Refusal) -> str:
    assert isinstance(found, Refusal) or not found.ok
    return found.message if isinstance(found, Refusal) else "\n".join(found.sentences)


def edited(notebook: str, name: str, right: str, wrong: str) -> list[str]:
    """The solved notebook's cells with a mistake in one step."""
    cells = solution_cells(notebook)
    at = next(i for i, cell in enumerate(cells) if f"def {steps_of(notebook)[name].function}(" in cell)
    assert right in cells[at]
    cells[at] = cells[at].replace(right, wrong)
    return cells


@pytest.mark.slow
@pytest.mark.parametrize(("notebook", "name", "right", "wrong", "said"), WRONG)
def test_a_wrong_step_is_explained(notebook, name, right, wrong, said, options):
    assert said in text_of(answer(notebook, name, edited(notebook, name, right, wrong), options))


@pytest.mark.slow
def test_what_a_mask_leaves_out_may_be_undefined_where_nothing_depends_on_it(options):
    """The store's mask leaves the same lanes out."""
    cells = [cell.replace("mask=at < n, other=0.0", "mask=at < n") for cell in solution_cells("opening")]
    found = answer("opening", "mask", cells, options)
    assert isinstance(found, StepAnswer)
    assert found.ok, found.sentences


def test_a_line_of_a_docstring_is_not_the_one_to_look_at():
    """The only statement is, where a slip has no line of its own; and 127 stands in the docstring as well."""
    text = 'def scale(x):\n    """x / 127"""\n    y = x / 127\n    return y'
    places = tuple(SourceLine("cell", n) for n in range(1, 5))
    source = KernelSource("", "scale", None, text, places, Path("steps.ipynb"))
    assert step_words._place(source, "scale", r"127") == "cell line 3"
    alone = replace(source, module='def scale(x):\n    """x / 127"""\n    return x / 127\n', lines=places[:3])
    assert step_words._place(alone, "scale") == "cell line 3"
    assert step_words._place(source, "scale") == "cell"


def test_where_to_look_is_told_in_words_and_what_to_write_is_not():
    for step in (step for notebook in NOTEBOOKS for step in steps_of(notebook).values()):
        assert not re.search(r"\w\(|=|<<|\[:, None|\[None", step.hint), step.hint
        assert step.code != step.hint


def told(notebook: str, name: str, y: torch.Tensor) -> list[str]:
    """What is said of a result of a step, after how much of it is wrong."""
    step = steps_of(notebook)[name]
    problem, expected = problem_of(step)
    text, lines = f"def {step.function}():\n    tl.store()", (SourceLine("cell", 1), SourceLine("cell", 2))
    source = KernelSource(notebook, step.function, None, text, lines, Path("steps.ipynb"))
    return differing(step, source, deviation(step, problem, y, expected, written=True))[1][1:]


def test_a_slip_is_all_of_the_result():
    """-7 alone is left unsigned here, so that "unsigned" would be no reason: -1 is right."""
    _, expected = problem_of(steps_of("opening")["unpack"])
    assert told("opening", "unpack", torch.where(expected == -7, expected + 16, expected)) == []
    assert "unsigned" in told("opening", "unpack", expected % 16)[0]


def test_inputs_are_the_same_bits_on_every_machine(monkeypatch):
    """The results of slips are stored: torch.randn gives other bits on a processor with other instructions."""
    monkeypatch.setattr(torch, "randn", None)
    monkeypatch.setattr(torch.Tensor, "normal_", None)
    for notebook in NOTEBOOKS:
        for step in steps_of(notebook).values():
            problem_of(step)


@pytest.mark.slow
def test_of_a_wrong_step_the_earlier_ones_come_first(options):
    """The loop of the notebook calls all that came before it."""
    for name, right, wrong, said in (
        ("quantise", "tl.maximum(nearest, -128.0)", "-nearest", "calls quantise_tile, which is not right yet"),
        ("load", *SWAPPED, "calls load_tile, which is not right yet"),
    ):
        assert said in text_of(answer("w8a8", "loop", edited("w8a8", name, right, wrong), options))
    cells = solution_cells("w8a8")
    cells.append("@triton.jit\ndef multiply_tiles(q, w, acc):\n    pass")
    assert "multiply_tiles is still the stub" in text_of(answer("w8a8", "loop", cells, options))
    cells = ["" if "def load_tile(" in cell else cell for cell in solution_cells("w8a8")]
    assert "Next: run the cell of the step `load`" in text_of(answer("w8a8", "loop", cells, options))


@pytest.mark.slow
def test_swapped_axes_are_told_with_their_shapes(options):
    cells = edited("w8a8", "load", SWAPPED[0], SWAPPED[1])
    cells = [cell.replace("(rows < row_count)[:, None] & (columns < column_count)[None, :]",
                          "(columns < column_count)[:, None] & (rows < row_count)[None, :]") for cell in cells]
    text = text_of(answer("w8a8", "load", cells, options))
    assert "load_tile returns fp16 [64, 16], expected fp16 [16, 64]; its axes are swapped" in text
    assert "the check line" not in text


@pytest.mark.slow
def test_a_loop_without_end_is_told_at_its_while_before_it_runs(options):
    cells = edited("w8a16", "loop", "for k in range(0, K, BLOCK_K):", "k = 0\n    while k < K:")
    text = text_of(answer("w8a16", "loop", cells, replace(options, case_seconds=4.0)))
    at = next(cell for cell in cells if "while k < K" in cell).split("\n").index("    while k < K:") + 1
    never = "`while k < K` never ends: nothing in its body changes k or K"
    assert f"line {at}: {never}; advance the counter at the end of its body: k += " in text, text


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_right_steps_pass_in_time(notebook, options):
    """Seconds of this process and of those it waits for; a warm sandbox takes a tenth of them."""
    cells = solution_cells(notebook)
    slowest = 0.0
    for name in steps_of(notebook):
        found = answer(notebook, name, cells, options)
        assert isinstance(found, StepAnswer), found
        assert found.ok, found.sentences
        began = time.perf_counter()
        answer(notebook, name, cells, options)
        slowest = max(slowest, time.perf_counter() - began)
    print(f"{notebook}: {slowest:.2f} s")
    assert slowest < 15.0, "1.5 s on a quiet machine, and this one may be crowded"


@pytest.mark.parametrize("lab_id", NOTEBOOKS)
def test_every_step_has_its_cells(lab_id):
    """A step in steps.py, its function in the notebook, its check after it, and in the same order."""
    notebook = instructor_notebook(ROOT / SOURCE / f"{lab_id}.py", ROOT)
    ids = [cell.metadata["nbgrader"]["grade_id"] for cell in notebook.cells if "nbgrader" in cell.metadata]
    expected = [f"{lab_id}_step_{name}{end}" for name in steps_of(lab_id) for end in ("", "_check")]
    assert [grade_id for grade_id in ids if "_step_" in grade_id] == expected
    for cell in notebook.cells:
        name = cell.get("metadata", {}).get("nbgrader", {}).get("grade_id", "").removeprefix(f"{lab_id}_step_")
        if name in steps_of(lab_id):
            assert f"def {steps_of(lab_id)[name].function}(" in cell.source


@pytest.mark.slow
@pytest.mark.parametrize("lab_id", LABS)
def test_the_notebooks_kernel_is_the_solutions(lab_id):
    """Same statements, so the same points, whichever of the two is graded."""
    from grader.reading import read

    lab = all_labs()[lab_id]
    in_cells = read_executed(solution_cells(lab_id), lab)
    in_file = read(ROOT / "solutions" / f"{lab_id}.py", [lab]).labs[lab_id]
    assert isinstance(in_cells, KernelSource)
    assert isinstance(in_file, KernelSource)
    parts = [sorted(ast.dump(node) for node in ast.parse(source.module).body) for source in (in_cells, in_file)]
    imports = [[part for part in found if not part.startswith("Import")] for found in parts]
    assert imports[0] == imports[1]


IMPORTS = "import triton\nimport triton.language as tl"
KERNEL = (ROOT / "tests" / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")


def kernel_from(*cells: str) -> KernelSource | Refusal:
    return read_executed(["", *cells], all_labs()["w8a8"])


STEP_CELL = "@triton.jit\ndef quantise_tile(x, scale):\n    return x"


def test_a_cell_that_is_no_python_is_told_and_not_judged_by_its_last_run():
    step = steps_of("w8a8")["quantise"]
    found = read_step(["", IMPORTS, STEP_CELL, STEP_CELL.replace("return x", "return (x")], "w8a8", step)
    assert isinstance(found, Refusal)
    assert found.message.startswith("`quantise_tile` (step 2), line 3")
    mended = read_step(["", IMPORTS, STEP_CELL.replace("return x", "return (x"), STEP_CELL], "w8a8", step)
    assert isinstance(mended, KernelSource)
    broken = kernel_from(KERNEL, KERNEL.replace("tl.store(", "tl.store((", 1))
    assert isinstance(broken, Refusal)
    assert broken.message.startswith("`W8A8_MM`, line")


def test_a_kernel_that_calls_plain_python_is_told_at_the_call():
    plain = (
        "import torch\ndef ones(rows):\n    return torch.ones_like(rows)\ndef quantise(rows):\n    return ones(rows)"
    )
    step = steps_of("w8a8")["quantise"]
    found = read_step(["", IMPORTS, plain, STEP_CELL.replace("return x", "return quantise(x)")], "w8a8", step)
    assert isinstance(found, Refusal)
    assert (
        "`quantise_tile` (step 2), line 3: the kernel calls `quantise`, which has no @triton.jit" in found.message
    )


def test_the_last_run_of_a_cell_counts():
    first = kernel_from(KERNEL.replace("127", "126"), KERNEL)
    assert isinstance(first, KernelSource)
    assert "126" not in first.module
    assert str(first.lines[-1]).startswith("`W8A8_MM`, line")
    assert first.lines[-1].place == "cell [2]"


def test_a_value_that_was_run_again_stands_before_its_kernel():
    tuned = KERNEL.replace("@triton.autotune(\n", "@triton.autotune(\n", 1)
    start, end = tuned.index("configs=[") + len("configs="), tuned.index("],", tuned.index("configs=[")) + 1
    configs, kernel = tuned[start:end], tuned[:start] + "CONFIGS" + tuned[end:]
    found = kernel_from(
        IMPORTS, f"CONFIGS = {configs}", kernel, "SIZE = 32", f"CONFIGS = {configs.replace('64', 'SIZE', 1)}"
    )
    assert isinstance(found, KernelSource)
    assert found.module.count("CONFIGS = ") == 1
    assert found.module.index("SIZE = 32") < found.module.index("CONFIGS = ") < found.module.index("def W8A8_MM")


def test_appending_goes_with_its_list():
    cells = ["C = [1]", "C.append(2)", "D = C", "C = [3]", "C.append(4)"]
    from grader.reading.executed_cells import latest
    from grader.reading.files import executed_cells
    from grader.reading.selection import statements

    kept = [ast.unparse(statement.node) for statement in latest(statements(executed_cells(["", *cells])))]
    assert kept == ["C = [3]", "C.append(4)", "D = C"]


def test_a_stub_and_nothing_are_told_apart():
    stub = KERNEL[: KERNEL.index("    pid = ")] + "    pass\n"
    for cells, said in (((stub,), "still the stub in this notebook"), ((), "no cell that was run defines W8A8_MM")):
        found = kernel_from(*cells)
        assert isinstance(found, Refusal)
        assert found.status == "not_attempted"
        assert said in found.message


def test_a_step_may_not_leave_triton():
    cells = solution_cells("w8a8")
    cells.append("@triton.jit\ndef load_tile(ptr, rows, columns, a, b):\n    return torch.zeros(2)\n")
    found = read_step(cells, "w8a8", steps_of("w8a8")["load"])
    assert isinstance(found, Refusal)
    assert "torch" in found.message


NOT_RIGHT = "^This cell uses {} of the step `{}`, which is not right yet: .*"
NEEDED = {
    "the opening's row_sums is given, and calls the student's load_tile": ("opening", "masks", True, (), "load_tile", (
        (lambda cell: cell.partition('"""')[0] + "pass", "load_tile is still the stub"),
        (lambda cell: cell.replace("& (columns < column_count)[None, :]", ""), "column 27 of x, which has 27 columns"),
        (lambda cell: "", "no cell that was run defines load_tile"))),
    "its last cell shows the error of a product without its first tile: a step that is wrong may be launched": (
        "opening", "product", False, ("range(0, K,", "range(BLOCK_K, K,"), "multiply", (
            (lambda cell: "@triton.jit\ndef multiply(x_ptr):\n    pass", "multiply is still the stub"),)),
    "a stub stores nothing, and its layer's largest error would be nan: a kernel that is wrong may be launched": (
        "dds", None, True, (), "DDS_MM", ((lambda cell: "@triton.jit\ndef DDS_MM(x_ptr):\n    pass", "DDS_MM is still the stub"),)),
}


@pytest.mark.slow
@pytest.mark.parametrize("why", NEEDED)
def test_a_cell_that_needs_an_earlier_one_says_so_before_it_runs(monkeypatch, why):
    """A notebook, the step that a cell needs, whether it has to be right, a mistake in it, its function, and what is not enough."""
    notebook, step, right, mistake, function, wrong = NEEDED[why]
    cells = edited(notebook, step, *mistake) if mistake else solution_cells(notebook)
    for module in (check_cells, step_values, notebook_cells):
        monkeypatch.setattr(module, "inputs", lambda *_: cells)
    check_cells.needs(notebook, step, right=right)
    at = next(i for i, cell in enumerate(cells) if f"def {function}(" in cell)
    whole = cells[at]
    for change, said in wrong:
        cells[at] = change(whole)
        with pytest.raises(NotYet, match=(NOT_RIGHT.format(function, step) if step else "") + said):
            check_cells.needs(notebook, step, right=right)


@pytest.mark.slow
def test_a_kernel_that_the_check_saw_outside_its_tensors_is_not_launched_in_the_notebooks_own_python(monkeypatch):
    """Triton's interpreter reads any address, and the notebook ended with all that was in it."""
    cells = solution_cells("dds")
    at = next(i for i, cell in enumerate(cells) if "def DDS_MM(" in cell)
    for module in (check_cells, step_values, notebook_cells):
        monkeypatch.setattr(module, "inputs", lambda *_: cells)
    monkeypatch.setattr(graded, "_reports", {})
    whole = cells[at]
    cells[at] = whole.replace("tl.store(", "tl.store(4096 * 4096 * 16 + ", 1)
    assert cells[at] != whole
    with pytest.raises(NotYet):
        check_cells.check("dds")
    with pytest.raises(NotYet, match="could end this notebook's Python"):
        check_cells.needs("dds")
    cells[at] = whole
    check_cells.needs("dds")
