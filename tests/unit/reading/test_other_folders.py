"""A kernel in one of the folders that were handed out while another is graded: said in a sentence, not graded as nothing."""

from __future__ import annotations

import itertools
import shutil

import nbformat
import pytest

from grader.labs import all_labs, get_lab
from grader.reading import UnusablePath, read
from grader.reading.other_folders import PLACES, with_work_in_other_folders
from tests.commands import invoked
from tests.submissions import TESTS

ROOT = TESTS.parent
LABS = list(all_labs().values())


@pytest.fixture
def handed_out(tmp_path, monkeypatch):
    for folder in ("assignment", "notebooks"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fill_in(folder, lab_id):
    """Writes the solution where a student would."""
    text = (ROOT / "solutions" / f"{lab_id}.py").read_text(encoding="utf-8")
    if folder.name == "assignment":
        (folder / f"{lab_id}.py").write_text(text, encoding="utf-8")
        return
    notebook = nbformat.read(folder / f"{lab_id}.ipynb", as_version=4)
    next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == f"{lab_id}_kernel").source = text
    nbformat.write(notebook, folder / f"{lab_id}.ipynb")


@pytest.mark.slow
@pytest.mark.parametrize(("graded", "worked_in"), list(itertools.permutations(PLACES, 2)))
def test_stubs_here_and_work_there_are_refused_with_the_command_that_helps(handed_out, graded, worked_in):
    fill_in(handed_out / worked_in, "dds")
    done = invoked("grade", graded, "--device", "cpu")
    assert done.exit_code == 2
    file = f"{worked_in}/dds.{'py' if worked_in == 'assignment' else 'ipynb'}"
    said = " ".join(done.stderr.split())
    assert f"{graded} holds stubs only, expected a kernel; {file} has DDS_MM, so run `make grade SUBMISSION={worked_in}`" in said
    assert done.stdout == ""


@pytest.mark.parametrize("path", ["notebooks/w8a8.ipynb", "assignment/w8a8.py"])
def test_a_single_file_too(handed_out, path):
    fill_in(handed_out / ("assignment" if path.startswith("notebooks") else "notebooks"), "w8a8")
    with pytest.raises(UnusablePath, match="has W8A8_MM"):
        with_work_in_other_folders(read(handed_out / path, [get_lab("w8a8")]), [get_lab("w8a8")])


@pytest.mark.slow
def test_a_lab_that_is_elsewhere_is_named_beside_one_that_is_here(handed_out):
    fill_in(handed_out / "notebooks", "w8a8")
    fill_in(handed_out / "assignment", "dds")
    submission = read(handed_out / "notebooks", LABS)
    found = with_work_in_other_folders(submission, LABS)
    assert found.labs["w8a8"] == submission.labs["w8a8"]
    assert found.labs["w4a16"] == submission.labs["w4a16"]
    assert found.labs["dds"].message == f"no DDS_MM was written here, but {handed_out / 'assignment' / 'dds.py'} has one; move it here"


@pytest.mark.slow
def test_work_in_all_of_them_or_in_none_is_graded_as_it_is(handed_out):
    for place in PLACES:
        submission = read(handed_out / place, LABS)
        assert with_work_in_other_folders(submission, LABS) == submission
    for place in PLACES:
        fill_in(handed_out / place, "w8a8")
    for place in PLACES:
        submission = read(handed_out / place, LABS)
        assert with_work_in_other_folders(submission, LABS) == submission


def test_what_lies_beside_a_students_folder_is_not_looked_at_for_a_class(handed_out):
    """Two students by the names of notebooks and assignment."""
    fill_in(handed_out / "assignment", "w8a8")
    assert "still the stub" in read(handed_out / "notebooks", LABS).labs["w8a8"].message
