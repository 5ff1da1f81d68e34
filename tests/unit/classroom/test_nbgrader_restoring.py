"""Submitted notebooks come back in the shape of the release, whatever was done to them; their points are read exactly."""

from __future__ import annotations

import copy
import json
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat import v4

from grader.classroom.gradebook.feedback import cell_outputs
from grader.classroom.gradebook.restoring import read_submitted, restored
from grader.classroom.gradebook.scores import cell_score, graded_part
from grader.reporting.document import document
from tests.reports import gpu_report, hostile_report, wrong_report


def released_cell(grade_id: str, kind: str, source: str, **flags: Any) -> Any:
    make = v4.new_code_cell if kind == "code" else v4.new_markdown_cell
    nbgrader = {"grade": False, "locked": False, "solution": False, "task": False, "schema_version": 3, **flags}
    return make(source, id=grade_id, metadata={"nbgrader": {**nbgrader, "grade_id": grade_id}})


def released() -> Any:
    """A lab's notebook in small: its kernel, two graded cells, a question, and cells of no account between them."""
    return v4.new_notebook(
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        cells=[
            v4.new_markdown_cell("A <b>story</b>", id="story"),
            released_cell("w8a8_kernel", "code", "# YOUR CODE HERE", solution=True),
            released_cell("w8a8_correctness", "code", 'check("w8a8")', grade=True, locked=True, points=60),
            released_cell("w8a8_speed", "code", 'check_speed("w8a8")', grade=True, locked=True, points=40),
            released_cell("w8a8_question_a", "markdown", "YOUR ANSWER HERE", grade=True, solution=True, points=4),
        ],
    )


IDS = ["w8a8_kernel", "w8a8_correctness", "w8a8_speed", "w8a8_question_a"]


def grade_ids(notebook: Any) -> list[str]:
    return [cell.metadata.nbgrader.grade_id for cell in notebook.cells if "nbgrader" in cell.metadata]


def find(notebook: Any, grade_id: str) -> Any:
    return next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def check_shape(notebook: Any) -> None:
    """Every released cell once, as released except for the text of solutions; no output anywhere."""
    nbformat.validate(notebook)
    assert sorted(grade_ids(notebook)) == sorted(IDS)
    for original in released().cells[1:]:
        cell = find(notebook, original.metadata.nbgrader.grade_id)
        assert cell.metadata == original.metadata
        assert cell.cell_type == original.cell_type
        if not original.metadata.nbgrader.solution:
            assert cell.source == original.source
    assert not any(cell.get("outputs") for cell in notebook.cells)


def test_text_of_solutions_is_kept_and_outputs_are_not():
    submitted = released()
    find(submitted, "w8a8_kernel").source = "x = 1"
    find(submitted, "w8a8_question_a").source = "because a < b"
    find(submitted, "w8a8_speed").outputs = [v4.new_output("execute_result", data={"text/plain": "100"})]
    submitted.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {}}
    found = restored(submitted, released())
    check_shape(found)
    assert find(found, "w8a8_kernel").source == "x = 1"
    assert find(found, "w8a8_question_a").source == "because a < b"
    assert found.metadata == released().metadata


METADATA = st.one_of(
    st.none(), st.text(max_size=3), st.integers(), st.lists(st.integers(), max_size=2),
    st.fixed_dictionaries({}, optional={
        "grade_id": st.one_of(st.sampled_from([*IDS, "free_points", ""]), st.integers(), st.none()),
        "grade": st.booleans(), "solution": st.booleans(), "locked": st.booleans(), "task": st.booleans(),
        "points": st.sampled_from([1000, -1, "NaN", None]), "schema_version": st.sampled_from([0, 1, 3, 99, "x"]),
        "checksum": st.text(max_size=4), "cell_type": st.sampled_from(["code", "markdown", 7]),
    }),
)
CELLS = st.lists(
    st.fixed_dictionaries(
        {"cell_type": st.sampled_from(["code", "markdown", "raw", "heading", 3]), "source": st.text(max_size=20)},
        optional={
            "metadata": st.one_of(st.fixed_dictionaries({}, optional={"nbgrader": METADATA}), st.none()),
            "outputs": st.just([{"output_type": "execute_result", "data": {"text/plain": "100"}}]),
            "attachments": st.sampled_from([{}, {"a": {"text/html": "<script>"}}, {"p": {"image/png": "aGk="}}, 4]),
            "id": st.sampled_from(["w8a8_speed", "", "x" * 99]),
        },
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(CELLS)
def test_any_cells_come_back_in_shape(cells: list[dict[str, Any]]):
    check_shape(restored(nbformat.from_dict({"cells": cells, "metadata": {}}), released()))


def test_removed_cells_come_back_in_their_order():
    submitted = released()
    submitted.cells = [cell for cell in submitted.cells if cell.id in ("story", "w8a8_kernel", "w8a8_question_a")]
    assert grade_ids(restored(submitted, released())) == IDS
    assert grade_ids(restored(v4.new_notebook(), released())) == IDS


def test_of_copies_the_last_counts_and_the_others_stay():
    submitted = released()
    first = copy.deepcopy(find(submitted, "w8a8_kernel"))
    first.source = "first"
    find(submitted, "w8a8_kernel").source = "last"
    submitted.cells.insert(1, first)
    found = restored(submitted, released())
    check_shape(found)
    assert find(found, "w8a8_kernel").source == "last"
    assert "first" in [cell.source for cell in found.cells]


def test_no_tag_of_a_student_begins_and_the_release_keeps_its_own():
    submitted = released()
    find(submitted, "w8a8_question_a").source = "<script>alert(1)</script> and a<b, 1 < 2"
    submitted.cells += [v4.new_markdown_cell("<img src=x onerror=alert(1)>"), v4.new_raw_cell("<script>1</script>")]
    found = restored(submitted, released())
    assert find(found, "w8a8_question_a").source == "<\u200bscript>alert(1)<\u200b/script> and a<\u200bb, 1 < 2"
    assert [cell.source for cell in found.cells[-2:]] == [
        "<\u200bimg src=x onerror=alert(1)>",
        "<\u200bscript>1<\u200b/script>",
    ]
    assert found.cells[0].source == "A <b>story</b>"


def test_a_question_made_code_hides_no_tag():
    submitted = released()
    find(submitted, "w8a8_question_a").update(cell_type="code", source="<script>alert(1)</script>", outputs=[])
    assert "<script" not in find(restored(submitted, released()), "w8a8_question_a").source


def test_lone_surrogates_can_be_written_in_the_end():
    submitted = released()
    for cell in submitted.cells:
        cell.source = "a\ud800b"
    find(submitted, "w8a8_question_a").attachments = {"\udfff.png": {"image/png": "aGk=", "image/x\ud800": "x"}}
    submitted.cells.append(v4.new_markdown_cell("\udcce"))
    text = nbformat.writes(restored(submitted, released()))
    assert text.encode("utf-8").decode().count("a\\\\ud800b") == 3, "the kernel, the answer and the free cell"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}', "\x00\xff", "[" * 100_000, '{"cells": [1]}'])
def test_what_is_no_notebook_has_no_cells(tmp_path, text):
    path = tmp_path / "w8a8.ipynb"
    path.write_text(text, encoding="latin-1")
    check_shape(restored(read_submitted(path), released()))


def test_links_folders_and_pipes_are_not_read(tmp_path):
    import os

    (tmp_path / "real.ipynb").write_text(json.dumps(released()))
    (tmp_path / "link.ipynb").symlink_to(tmp_path / "real.ipynb")
    (tmp_path / "folder.ipynb").mkdir()
    os.mkfifo(tmp_path / "pipe.ipynb")
    assert len(read_submitted(tmp_path / "real.ipynb").cells) == 5
    for name in ("link", "folder", "pipe", "absent"):
        assert read_submitted(tmp_path / f"{name}.ipynb").cells == []


# ---------------------------------------------------------------- points


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(FINITE, FINITE, st.sampled_from([0.0, 4.0, 40.0, 60.0, 100.0]))
def test_a_cell_score_is_within_its_cell(points: float, most: float, max_score: float):
    assert 0 <= cell_score(SimpleNamespace(speed_points=points, speed_max=most), "speed", max_score) <= max_score


@pytest.mark.parametrize("points", [float("nan"), float("inf"), float("-inf")])
def test_points_that_are_no_number_are_refused(points: Any):
    with pytest.raises(ValueError, match="finite"):
        cell_score(SimpleNamespace(speed_points=points, speed_max=40), "speed", 40.0)


def test_a_cell_score_is_ours_or_in_proportion():
    lab = SimpleNamespace(correctness_points=52.173913, correctness_max=60.0)
    assert cell_score(lab, "correctness", 60.0) == 52.173913
    assert cell_score(lab, "correctness", 30.0) == 26.086956
    assert cell_score(SimpleNamespace(speed_points=0.0, speed_max=0.0), "speed", 40.0) == 0.0


def test_which_cells_are_ours():
    assert graded_part("w8a8_correctness") == ("w8a8", "correctness")
    assert graded_part("dds_speed") == ("dds", "speed")
    for other in ("w8a8_kernel", "w8a8_question_speed_limit", "free_points", "_speed", "w9a9_speed", "speed"):
        assert graded_part(other) is None


@pytest.mark.parametrize("report", [wrong_report(), gpu_report(), hostile_report()], ids=["wrong", "gpu", "hostile"])
def test_nbgrader_reads_exactly_our_points_from_the_outputs(report):
    utils = pytest.importorskip("nbgrader.utils")
    for lab_id, lab in report.labs.items():
        for part in ("correctness", "speed"):
            most = float(document(report)["labs"][lab_id][part]["max_points"])
            score = cell_score(lab, part, most)
            cell = released_cell(f"{lab_id}_{part}", "code", "", grade=True, locked=True, points=most)
            cell.outputs = cell_outputs(report, lab, part, score)
            nbformat.validate(v4.new_notebook(cells=[cell]))
            assert utils.determine_grade(cell) == (score, most)
            assert "<script" not in cell.outputs[0].data["text/html"]
            assert not utils.has_failed(cell)


def test_speed_says_what_was_and_was_not_gradable():
    on_cpu, on_gpu = wrong_report(), gpu_report()
    said = cell_outputs(on_cpu, on_cpu.labs["w8a8"], "speed", 0.0)[0].data["text/plain"]
    assert "not gradable here" in said
    assert "0/40" in said
    timed = cell_outputs(on_gpu, on_gpu.labs["w8a8"], "speed", 20.0)[0].data
    assert "NVIDIA H200" in timed["text/plain"]
    assert "speed_m512" in timed["text/plain"]
    assert "data:image/png" in timed["text/html"]
