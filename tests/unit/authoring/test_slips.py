"""What slips give is computed from their edits: it is what lies there, an instructor's edit is enough, and students get no edit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from grader import exercises
from grader.authoring import slip_runs
from grader.authoring.bundle import student_files
from grader.authoring.slip_runs import as_json, catalogues, computed, entries, stored_results, write_slips
from grader.exercises import RESULTS, SENTENCES, slips_of
from grader.notebook.harness import check_step, problem_of
from grader.notebook.step_words import deviation
from grader.running.cpu import InterpretOptions
from grader.unusable import Unusable
from tests.commands import python
from tests.submissions import TESTS

pytestmark = pytest.mark.slow

ROOT = TESTS.parent
CATALOGUES = [path.relative_to(ROOT).as_posix() for path in catalogues(ROOT)]


@pytest.mark.parametrize("catalogue", CATALOGUES)
def test_what_lies_there_is_of_these_edits(catalogue):
    """Sentences, edited steps and inputs; `make release` writes it anew."""
    found = entries(ROOT / catalogue, ROOT)
    folder = (ROOT / catalogue).parent
    assert (folder / SENTENCES).read_text(encoding="utf-8") == as_json(found)
    assert stored_results(folder).keys() == {entry.digest for entry in found}


@pytest.mark.parametrize("catalogue", CATALOGUES)
def test_the_edits_give_what_lies_there_and_are_told_as_themselves(catalogue):
    """All of them, checked as a student's step is: no other slip gives the same, and nothing else is said first."""
    stored = stored_results((ROOT / catalogue).parent)
    for entry in entries(ROOT / catalogue, ROOT):
        answer = check_step(entry.step, entry.source, InterpretOptions(1, case_seconds=60.0))
        assert entry.what in answer.sentences[1], entry.name
        assert answer.values is not None
        problem, expected = problem_of(entry.step)
        given = deviation(entry.step, problem, answer.values.y, expected, written=False)
        assert given.equals(torch.from_numpy(stored[entry.digest])), entry.name


def test_students_get_results_and_no_edit():
    names = student_files(ROOT).keys()
    for catalogue in CATALOGUES:
        assert catalogue not in names
        assert {f"{Path(catalogue).parent.as_posix()}/{name}" for name in (SENTENCES, RESULTS)} <= names
    assert not any("slips" in name and name.endswith(".toml") for name in names)


def test_the_installed_package_has_results_and_no_edit(tmp_path):
    """Of slips; nor wrong kernels, which are edits too."""
    setup = ["-c", "from setuptools import setup; setup()", "-q"]
    command = [*setup, "egg_info", "--egg-base", str(tmp_path), "build_py", "--build-lib", str(tmp_path)]
    python(*command)
    built = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("slip*")}
    folders = [Path(catalogue).parent.as_posix() for catalogue in CATALOGUES]
    assert built == {"grader/authoring/slip_runs.py",
                     *(f"{folder}/{name}" for folder in folders for name in (SENTENCES, RESULTS))}
    assert (tmp_path / "grader/compile_errors/messages.toml").is_file(), "the table of compile errors is data of the package"
    assert list(tmp_path.rglob("mistakes.toml")) == []


@pytest.fixture
def repository(tmp_path):
    """The sources of one notebook, with a catalogue that may be changed; the rest is the repository's."""
    for name in ("notebooks", "solutions", "bench", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    folder = tmp_path / "grader" / "labs" / "dds"
    folder.mkdir(parents=True)
    for name in ("slips.toml", SENTENCES, RESULTS):
        (folder / name).write_bytes((ROOT / "grader" / "labs" / "dds" / name).read_bytes())
    return tmp_path


ADDED = """
[[slip]]
step = "find"
what = "one too large at the start"
edits = [{ find = "block_row), ", replace = "block_row) + 1, " }]
"""


def test_an_edit_and_a_sentence_are_enough(repository, monkeypatch):
    """Only what is new is run; then it stands among the step's slips, with what it gives."""
    ran = []
    monkeypatch.setattr(slip_runs, "computed", lambda entry: ran.append(entry.what) or computed(entry))
    folder = repository / "grader" / "labs" / "dds"
    assert write_slips(repository) == []
    with (folder / "slips.toml").open("a", encoding="utf-8") as file:
        file.write(ADDED)
    assert write_slips(repository) == [folder / RESULTS, folder / SENTENCES]
    assert ran == ["one too large at the start"]
    monkeypatch.setattr(exercises, "LABS", folder.parent)
    last = slips_of("dds", "find")[-1]
    assert last.what == ran[0]
    assert last.result.tolist() == [[1, 2], [3, 2], [3, 5], [6, 6]]
    assert write_slips(repository) == []
    text = (folder / "slips.toml").read_text(encoding="utf-8")
    (folder / "slips.toml").write_text(text.removesuffix(ADDED), encoding="utf-8")
    write_slips(repository)
    assert (folder / SENTENCES).read_text(encoding="utf-8") == (ROOT / "grader" / "labs" / "dds" / SENTENCES).read_text(encoding="utf-8")
    assert stored_results(folder).keys() == stored_results(ROOT / "grader" / "labs" / "dds").keys()


def refusal_of(repository, text):
    """What is said where this stands at the end of a catalogue."""
    with (repository / "grader" / "labs" / "dds" / "slips.toml").open("a", encoding="utf-8") as file:
        file.write(text)
    with pytest.raises(Unusable) as refused:
        write_slips(repository)
    return str(refused.value)


BAD = {
    "right after all": ("block_row), ", "block_row) + 0, ", "gives the right result"),
    "no Python": ("block_row), ", "block_row)), ", "the bracket `)` matches no open bracket"),
    "an undefined name": ("block_row), ", "block_rows), ", "`block_rows`"),
    "a type that does not fit": ("tl.load(crow_indices_ptr + block_row), ", "", "gives no result: "),
    "a crash": ("block_row), ", "block_row + 2**29), ", "gives no result: "),
    "no such text": ("block_col", "block_row", "'block_col' is 0 times in the step's solution, expected once"),
    "text that is there twice": ("block_row", "block_row + 1", "is 2 times in the step's solution, expected once"),
    "told already": ("block_row + 1)", "block_row + 1 - 1)", "gives the same result as grader/labs/dds/slips.toml entry 2"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_slip_is_refused(repository, name):
    find, replace, said = BAD[name]
    number = (repository / "grader/labs/dds/slips.toml").read_text("utf-8").count("[[slip]]") + 1
    refusal = refusal_of(repository, ADDED.replace("block_row), ", find, 1).replace("block_row) + 1, ", replace, 1))
    assert refusal.startswith(f"grader/labs/dds/slips.toml entry {number} (one too large at the start)")
    assert said in refusal


TABLES = {
    "no such step": ('step = "find"', 'step = "fund"', "expected step (one of find, gather"),
    "no sentence": ('what = "one too large at the start"\n', "", "expected step"),
    "an unknown key": ("edits =", "hints =", "found step = 'find', what = "),
    "both": ("edits =", 'body = "return 0, 0"\nedits =', "either edits or body"),
    "an edit that is none": ("replace", "with", "expected { find = text, replace = text }"),
    "a line that the edit left": ("edits =", "at = 'def '\nedits =", "`at` names no line of the edited step"),
    "no regular expression": ("edits =", "at = '('\nedits =", "unterminated subpattern"),
    "no TOML": ("[[slip]]", "[[slip]", "holds no [[slip]] tables"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_is_no_slip_is_refused(repository, name):
    before, after, said = TABLES[name]
    assert said in refusal_of(repository, ADDED.replace(before, after))
