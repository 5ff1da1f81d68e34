"""The notebooks: generated without drift, run by a real kernel, stopping where work is left."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from grader.authoring.notebooks import SOURCE, instructor_notebook, sources, student_files, student_notebook
from grader.authoring.record_tables import ladder_table
from grader.classroom.marked_answers import answer_score, asked
from grader.exercises import exercises, steps_of
from grader.gpu.devices import choose
from grader.judging.rubric import load_rubric
from grader.labs import all_labs, speed_steps_of
from grader.labs.question import questions_of
from grader.pipeline.grading import GradeOptions, grade
from grader.reading.answers import answers_in
from grader.unusable import Unusable
from tests.commands import python, ran
from tests.tables import each_row, table

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NAMES = [path.stem for path in sources(ROOT)]
LABS = list(all_labs())
SECONDS = 240


def source(name: str) -> Path:
    return ROOT / SOURCE / f"{name}.py"


def nbgrader_of(cell: Any) -> dict[str, Any]:
    return dict(cell.metadata.get("nbgrader", {}))


# ---------------------------------------------------------------- generated


def test_notebooks_match_their_sources():
    made = student_files(ROOT)
    folder = ROOT / "notebooks"
    assert set(made) == {path.relative_to(folder).as_posix() for path in folder.glob("**/*.ipynb") if "." not in path.parent.name}
    for name, text in made.items():
        assert (ROOT / "notebooks" / name).read_text(encoding="utf-8") == text, f"run `make release`: {name} drifted"


def test_every_lab_has_a_notebook():
    assert set(LABS) | {"opening", "claims"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_valid_and_holds_no_solution(name):
    for notebook in (instructor_notebook(source(name), ROOT), student_notebook(source(name), ROOT)):
        nbformat.validate(notebook)
        assert all(not cell.get("outputs") for cell in notebook.cells)
    assert all("SOLUTION" not in cell.source for cell in notebook.cells)
    assert len(notebook.cells) == len(instructor_notebook(source(name), ROOT).cells)


@pytest.mark.parametrize("lab_id", LABS)
def test_grade_ids_and_points(lab_id):
    cells = {
        nbgrader_of(cell)["grade_id"]: cell
        for cell in student_notebook(source(lab_id), ROOT).cells
        if nbgrader_of(cell)
    }
    rubric = load_rubric()
    for grade_id, points, code in (
        ("correctness", rubric.correctness, f'check("{lab_id}")'),
        ("speed", rubric.speed, f'check_speed("{lab_id}")'),
    ):
        entry = nbgrader_of(cells[f"{lab_id}_{grade_id}"])
        assert (entry["grade"], entry["locked"], entry["solution"], entry["points"]) == (True, True, False, points)
        assert cells[f"{lab_id}_{grade_id}"].source == code
    kernel = nbgrader_of(cells[f"{lab_id}_kernel"])
    assert (kernel["grade"], kernel["locked"], kernel["solution"]) == (False, False, True)
    for name in steps_of(lab_id):
        assert cells[f"{lab_id}_step_{name}_check"].source == f'check("{lab_id}", step="{name}")'
        assert not nbgrader_of(cells[f"{lab_id}_step_{name}_check"])["grade"]
    questions = {grade_id: cell for grade_id, cell in cells.items() if "_question_" in grade_id}
    for name, question in questions_of(lab_id).items():
        cell = cells[f"{lab_id}_question_{name}"]
        entry = nbgrader_of(cell)
        assert (entry["grade"], entry["locked"], entry["solution"], entry["points"]) == (True, True, False, question.points)
        assert cell.source == f'check_answer("{lab_id}", "{name}")'
        assert f"{lab_id}_{name} = None" in cells[f"{lab_id}_answer_{name}"].source
    by_hand = [cell for grade_id, cell in questions.items() if asked(grade_id) is None]
    assert 2 <= len(by_hand) <= 3
    assert all(cell.source == "YOUR ANSWER HERE" and nbgrader_of(cell)["points"] > 0 for cell in by_hand)
    assert sum(nbgrader_of(cell)["points"] for cell in questions.values()) == 10, "as HANDOUT.md says"
    assert all(entry["schema_version"] == 3 for entry in map(nbgrader_of, cells.values()))


@pytest.mark.parametrize("lab_id", LABS)
def test_the_model_answers_are_right_and_nothing_is_answered_in_what_is_handed_out(lab_id, tmp_path):
    path = tmp_path / f"{lab_id}.ipynb"
    nbformat.write(instructor_notebook(source(lab_id), ROOT), path)
    answers = answers_in(path)
    for question in questions_of(lab_id).values():
        score, sentence = answer_score(lab_id, question, answers, question.points)
        assert score == question.points, sentence
        assert answer_score(lab_id, question, answers_in(ROOT / "notebooks" / f"{lab_id}.ipynb"), 1)[0] == 0


@each_row
def test_a_bad_source_is_refused_with_its_reason(tmp_path, text, said):
    path = tmp_path / "bad.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Unusable, match=said):
        instructor_notebook(path, ROOT)


def test_the_ladder_is_read_from_its_measurements():
    table = ladder_table(ROOT, "w8a8", ["m16_n4096_k4096"])
    assert "NVIDIA H200" in table
    assert table.count("\n| ") == 6


def test_numbers_of_the_benchmark_are_in_the_text(tmp_path):
    path = tmp_path / "numbers.py"
    path.write_text('# %% [markdown]\n# @bench{bytes_per_second / 1e12:.1f} TB/s, @bench{1 / ratio("dds", "m1024_n1024_k1024_s80"):.1f}\n')
    assert instructor_notebook(path, ROOT).cells[0].source.startswith("4.8 TB/s, 1.0\n")


# ---------------------------------------------------------------- run


def executed(notebook: Any, folder: Path, *, allow_errors: bool = False) -> Any:
    """The notebook after a kernel ran it from notebooks/, with `folder` as the home of its settings."""
    from nbclient import NotebookClient

    client = NotebookClient(
        notebook, timeout=SECONDS, allow_errors=allow_errors, resources={"metadata": {"path": str(ROOT / "notebooks")}}
    )
    client.create_kernel_manager().kernel_spec.argv[0] = sys.executable
    alone = {"OMP_NUM_THREADS": "1"}  # beside other tests, two threads that wait for each other take ten times as long as one
    environment = {**os.environ, **alone, "IPYTHONDIR": str(folder), "GRADER_PREDICTIONS": str(folder / "predictions.json")}
    asyncio.run(client.async_execute(env=environment))
    return notebook


LESS = (
    ("Recipe(steps=20,", "Recipe(steps=1,"),
    ("(0.05, 0.1, 0.2, 0.5)", "(0.1, 0.5)"),
    ("16 * context", "4 * context"),
    ("8 * context", "2 * context"),
)
"""Of the model's training, and of its windows of text, which take longer than all the rest."""


@pytest.mark.parametrize("name", NAMES)
def test_a_solved_notebook_runs_in_silence(name, tmp_path):
    notebook = instructor_notebook(source(name), ROOT)
    for cell in notebook.cells:
        for whole, part in LESS:
            cell.source = cell.source.replace(whole, part)
    executed(notebook, tmp_path)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"] == []
    shown = [output.data for output in outputs if "data" in output]
    assert any("image/png" in data for data in shown)
    texts = "\n".join(data.get("text/plain", "") for data in shown)
    if name in LABS:
        assert "correctness 60/60 points" in texts
        assert all(f"✓ {step}:" in texts for step in speed_steps_of(name))
        assert not re.findall(r"You predicted [\d,.]+; it is .*", texts), "the answer of the instructor's notebook is of another config"
    assert texts.count("✓") >= len(steps_of(name))


@pytest.mark.parametrize("lab_id", list(exercises()))
def test_an_unsolved_notebook_stops_at_the_first_unfilled_cell(lab_id, tmp_path):
    from nbclient.exceptions import CellExecutionError

    notebook = student_notebook(source(lab_id), ROOT)
    with pytest.raises(CellExecutionError):
        executed(notebook, tmp_path)
    errors = [
        (cell, output) for cell in notebook.cells for output in cell.get("outputs", []) if output.output_type == "error"
    ]
    assert len(errors) == 1
    cell, output = errors[0]
    step = next(iter(steps_of(lab_id).values()))
    assert nbgrader_of(cell)["grade_id"] == f"{lab_id}_step_{step.name}_check"
    assert len(output.traceback) == 1
    assert output.traceback[0].startswith(f"{step.function} is still the stub; fill it in")
    assert output.traceback[0] == output.evalue


def test_a_wrong_kernel_is_answered_with_pictures(tmp_path):
    """The steps are left out: a student may go straight to the kernel."""
    notebook = instructor_notebook(source("w8a8"), ROOT)
    needed = {"w8a8_kernel", "w8a8_correctness"}
    cells = (cell for cell in notebook.cells if cell.cell_type == "code")
    notebook.cells = [cell for cell in cells if "import torch" in cell.source or nbgrader_of(cell).get("grade_id") in needed]
    autograding = "import os\nos.environ['NBGRADER_EXECUTION'] = 'autograde'\ncheck('w8a8')"
    notebook.cells.append(nbformat.v4.new_code_cell(autograding))
    kernel = next(cell for cell in notebook.cells if nbgrader_of(cell).get("grade_id") == "w8a8_kernel")
    kernel.source = kernel.source.replace("* weight_scale[None, :]", "")
    executed(notebook, tmp_path, allow_errors=True)
    outputs = next(cell for cell in notebook.cells if cell.source == 'check("w8a8")').outputs
    assert [output.output_type for output in outputs] == ["display_data", "error"]
    page = outputs[0].data["text/html"]
    assert page.count("data:image/png;base64,") == 2
    assert "Error map of Y" in page
    assert "points so far" in outputs[1].traceback[0]
    assert "Make `one_tile` pass first" in outputs[1].traceback[0]
    graded = notebook.cells[-1].outputs
    assert [output.output_type for output in graded] == ["display_data", "execute_result"]
    assert 0 <= float(graded[1].data["text/plain"]) < 60


PUT_TOGETHER = table(__file__)["put_together"]
"""The body of each kernel as its notebook says it: calls of the steps' functions, and which tile is this program's."""


@pytest.mark.parametrize("lab_id", PUT_TOGETHER)
def test_a_kernel_put_together_from_the_steps_is_right(lab_id, tmp_path):
    """The stub of the kernel filled in with the steps' functions, none rewritten: a saved notebook of full points."""
    notebook, handed_out = instructor_notebook(source(lab_id), ROOT), student_notebook(source(lab_id), ROOT)
    for cell, stub in zip(notebook.cells, handed_out.cells, strict=True):
        if nbgrader_of(cell).get("grade_id") == f"{lab_id}_kernel":
            assert stub.source.count("    # YOUR CODE HERE\n    pass\n") == 1
            cell.source = stub.source.replace("    # YOUR CODE HERE\n    pass\n", PUT_TOGETHER[lab_id])
    path = tmp_path / f"{lab_id}.ipynb"
    nbformat.write(notebook, path)
    options = GradeOptions(choose("cpu")[0], capabilities=(90,), facts=False)
    report = grade(path, [all_labs()[lab_id]], options).labs[lab_id]
    assert report.status == "graded", report.message
    assert [f"{test.name}: {test.message}" for test in report.tests if test.status == "failed"] == []
    assert report.correctness_points == load_rubric().correctness


def test_outside_a_notebook_check_says_what_to_do():
    code = "import grader.notebook.check_cells as n\ntry:\n    n.check('w8a8')\nexcept n.NotYet as e:\n    print(e)"
    done = ran(sys.executable, "-c", code)
    assert "python -m grader grade" in done.stdout
    assert done.stderr == ""


def test_the_grader_needs_no_jupyter():
    code = (
        "import sys, grader.cli.main, grader.pipeline.grading, grader.pipeline.watching\n"
        "import grader.authoring.notebooks, grader.authoring.release\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('IPython', 'jupytext', 'jupyter_client', 'nbclient')])"
    )
    assert python("-c", code).strip() == "[]"
