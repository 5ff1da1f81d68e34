"""nbgrader and formgrader, driven for real: a course, a class, autograde, feedback, export, the button in a browser."""

from __future__ import annotations

import copy
import csv
import html
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import v4

from grader.authoring.notebooks import SOURCE, sources, student_notebook
from grader.classroom.gradebook import BONUS
from grader.classroom.gradebook.course import make_course
from grader.classroom.gradebook.scores import write_scores
from grader.classroom.hidden_cases import load_secrets
from grader.gpu.devices import choose
from grader.labs import all_labs, get_lab
from grader.labs.question import posed, questions_of
from grader.model import Report
from grader.pipeline.grading import GradeOptions, grade
from grader.reading.answers import answers_for
from grader.reporting.document import document
from grader.unusable import Unusable
from tests.integration.test_browser import CHROMIUM, SCREENSHOTS, chromium, served
from tests.reports import gpu_report
from tests.submissions import TESTS, mistakes

pytest.importorskip("nbgrader", reason="nbgrader is not installed: pip install -e .[test]")

ROOT = TESTS.parent
ASSIGNMENT = "kernels"
RIGHT = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
WRONG = next(mistake.source for mistake in mistakes() if (mistake.lab, mistake.name) == ("w8a8", "no_clamp"))
SECRETS = """
seed = 418923477718
[[case]]
lab = "w8a8"
name = "hidden_1"
M = 61
N = 112
K = 144
x = "saturating"
"""
SECRET_WORDS = ("418923477718", "M=61", "N=112", "K=144", "[61, 112]")
TOKEN = "of-this-test"

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("nbgrader")]


@dataclass(frozen=True)
class Course:
    """A graded course, and the file that students' cells would write if anybody ran them."""

    folder: Path
    marker: Path

    @property
    def database(self) -> Path:
        return self.folder / "gradebook.db"

    def nbgrader(self, *arguments: str) -> str:
        """Runs a command of nbgrader in the course and returns what it logged."""
        command = [sys.executable, "-m", "nbgrader", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=500, env=self.environment
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stderr

    @property
    def environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "GRADER_SECRETS": str(self.folder / "secrets.toml")}

    def grades(self, student: str) -> dict[str, tuple[float | None, bool]]:
        """Score and whether a human has to look, by cell, of one student's w8a8 notebook."""
        return _grades(self.database, student)

    def feedback(self, student: str) -> str:
        return (self.folder / "feedback" / student / ASSIGNMENT / "w8a8.html").read_text(encoding="utf-8")


def _grades(database: Path, student: str) -> dict[str, tuple[float | None, bool]]:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{database}") as book:
        found = book.find_submission_notebook("w8a8", ASSIGNMENT, student).grades
        return {grade.name: (grade.auto_score, grade.needs_manual_grade) for grade in found}


def find(notebook: Any, grade_id: str) -> Any:
    return next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def solved(released: Any, kernel: str) -> Any:
    notebook = copy.deepcopy(released)
    find(notebook, "w8a8_kernel").source = kernel
    return notebook


def hostile(released: Any, marker: Path) -> Any:
    """A right kernel among everything that nbgrader could stumble over or fall for."""
    notebook = solved(released, RIGHT)
    notebook.cells.remove(find(notebook, "w8a8_correctness"))
    forged = [
        v4.new_output("execute_result", data={"text/plain": "100"}),
        v4.new_output("stream", name="stderr", text="x" * 2_000_000),
    ]
    speed = find(notebook, "w8a8_speed")
    speed.source, speed.outputs = "100", forged
    speed.metadata.nbgrader.update(points="NaN", schema_version=99)
    find(notebook, "w8a8_kernel").metadata.nbgrader.grade = True
    question = find(notebook, "w8a8_question_scales")
    question.update(cell_type="code", outputs=forged, execution_count=None)
    run = f"import os, sys\nopen({str(marker)!r}, 'w').write('ran')\nprint('no', file=sys.stderr)\nsys.exit(3)"
    free = {
        "grade": True,
        "locked": True,
        "solution": False,
        "grade_id": "free_points",
        "points": 1000,
        "schema_version": 3,
    }
    return v4.new_notebook(
        metadata={**notebook.metadata, "title": "<script>alert(0)</script>"},
        cells=[
            v4.new_code_cell(run, outputs=forged),
            v4.new_code_cell("1000", metadata={"nbgrader": free}, outputs=forged),
            *notebook.cells,
            v4.new_code_cell("60", metadata=copy.deepcopy(speed.metadata), outputs=forged),
            v4.new_raw_cell("<script>alert(1)</script>"),
            v4.new_markdown_cell("<script>alert(2)</script>"),
        ],
    )


def submissions(released: Any, marker: Path) -> dict[str, str]:
    answered = solved(released, RIGHT)
    find(answered, "w8a8_question_scales").source = "Because <script>alert(3)</script> k is summed over."
    find(answered, "w8a8_student").source = 'student = "Right Student"'
    for name, question in questions_of("w8a8").items():
        right = posed("w8a8", question, "Right Student").answer * (1000 if name == "bytes" else 1)
        find(answered, f"w8a8_answer_{name}").source = f"w8a8_{name} = 2 * {right!r} / 2"
    return {
        "broken": '{"cells": [',
        "hostile": json.dumps(hostile(released, marker)),
        "right": json.dumps(answered),
        "stub": json.dumps(released),
        "wrong": json.dumps(solved(released, WRONG)),
    }


MISPLACED = "misplaced"
"""A student who handed in no w8a8 notebook, and w8a8's kernel in the notebook of dds."""
BARE = "bare"
"""One who handed in no notebook at all, but a file of Python."""
STUDENTS = (BARE, "broken", "hostile", MISPLACED, "right", "stub", "wrong")


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """Made by `make_course`, graded by nbgrader's command line, all students in one run."""
    folder = tmp_path_factory.mktemp("course")
    make_course(ROOT, folder, ASSIGNMENT)
    made = Course(folder, folder / "a-cell-was-run")
    (folder / "secrets.toml").write_text(SECRETS, encoding="utf-8")
    released, other = (
        nbformat.read(folder / "release" / ASSIGNMENT / f"{name}.ipynb", as_version=4) for name in ("w8a8", "dds")
    )
    other.cells.append(v4.new_code_cell(RIGHT))
    (folder / "submitted" / MISPLACED / ASSIGNMENT).mkdir(parents=True)
    nbformat.write(other, folder / "submitted" / MISPLACED / ASSIGNMENT / "dds.ipynb")
    (folder / "submitted" / BARE / ASSIGNMENT).mkdir(parents=True)
    (folder / "submitted" / BARE / ASSIGNMENT / "my kernel.py").write_text(RIGHT, encoding="utf-8")
    for student, text in submissions(released, made.marker).items():
        place = folder / "submitted" / student / ASSIGNMENT
        place.mkdir(parents=True)
        (place / "w8a8.ipynb").write_text(text, encoding="utf-8")
    made.nbgrader("autograde", ASSIGNMENT)
    made.nbgrader("generate_feedback", ASSIGNMENT)
    made.nbgrader("export")
    return made


@pytest.fixture(scope="module")
def ours(course: Course) -> Report:
    """The wrong student's report, graded without nbgrader."""
    secrets = load_secrets(course.folder / "secrets.toml")
    path = course.folder / "submitted" / "wrong" / ASSIGNMENT / "w8a8.ipynb"
    options = GradeOptions(choose("cpu")[0], seed=secrets.seed, confined=True, capabilities=(90,), facts=False)
    return grade(path, [secrets.lab(get_lab("w8a8"))], options)


def test_the_release_is_of_our_students_notebooks(course):
    for path in (course.folder / "release").glob("*/*.ipynb"):
        released, ours = nbformat.read(path, as_version=4), student_notebook(ROOT / SOURCE / f"{path.stem}.py", ROOT)
        assert all("SOLUTION" not in cell.source for cell in released.cells)
        stubs = [cell.source for cell in ours.cells if "# YOUR CODE HERE" in cell.source]
        assert [cell.source for cell in released.cells if "# YOUR CODE HERE" in cell.source] == stubs
        assert [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in released.cells] == [
            cell.metadata.get("nbgrader", {}).get("grade_id") for cell in ours.cells
        ]
    names = {path.stem for path in (course.folder / "release").glob("*/*.ipynb")}
    assert names == {path.stem for path in sources(ROOT)}


def test_nbgrader_validates_a_solved_notebook(course):
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", "validate", f"source/{ASSIGNMENT}/dds.ipynb"], cwd=course.folder, capture_output=True, text=True,
        env={**course.environment, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))},
    )
    assert "Success" in done.stdout, done.stdout + done.stderr


def test_scores_equal_ours_to_the_point(course, ours):
    points = document(ours)["labs"]["w8a8"]["correctness"]["points"]
    assert 0 < points < 60
    assert course.grades("wrong")["w8a8_correctness"] == (points, False)
    expected = {BARE: 60.0, "broken": 0.0, "hostile": 60.0, MISPLACED: 60.0, "right": 60.0, "stub": 0.0}
    assert {s: course.grades(s)["w8a8_correctness"] for s in expected} == {s: (p, False) for s, p in expected.items()}
    assert {course.grades(student)["w8a8_speed"] for student in STUDENTS} == {(0.0, False)}


def test_a_notebook_is_graded_for_its_own_labs_only(course):
    path = course.folder / "autograded" / MISPLACED / ASSIGNMENT / "dds.ipynb"
    shown = [cell for cell in nbformat.read(path, as_version=4).cells if cell.get("outputs")]
    assert [cell.metadata.nbgrader.grade_id for cell in shown] == [
        "dds_correctness", "dds_speed", *(f"dds_question_{name}" for name in questions_of("dds")),
    ]
    assert {cell.outputs[1].data["text/plain"] for cell in shown} == {"0.0"}
    assert "still the stub" in shown[0].outputs[0].data["text/plain"]


def test_nothing_that_a_student_wrote_was_run(course):
    assert not course.marker.exists()


def test_the_autograded_notebooks_are_of_the_release_and_hold_our_outputs_only(course):
    for student in STUDENTS:
        notebook = nbformat.read(course.folder / "autograded" / student / ASSIGNMENT / "w8a8.ipynb", as_version=4)
        nbformat.validate(notebook)
        shown = [cell.metadata.nbgrader.grade_id for cell in notebook.cells if cell.get("outputs")]
        questions = list(questions_of("w8a8"))
        assert sorted(shown) == sorted(["w8a8_correctness", "w8a8_speed", *(f"w8a8_question_{name}" for name in questions)]), student
        assert sorted(cell.source for cell in notebook.cells if cell.get("outputs")) == sorted([
            'check("w8a8")', 'check_speed("w8a8")', *(f'check_answer("w8a8", "{name}")' for name in questions),
        ])
        assert "free_points" not in json.dumps(notebook)


def test_written_answers_wait_for_a_human(course):
    assert course.grades("right")["w8a8_question_scales"] == (None, True)
    assert course.grades("right")["w8a8_question_again"] == (0, False), "an unchanged answer is nbgrader's 0"
    assert course.grades("hostile")["w8a8_question_scales"][1] is False


def test_questions_with_numbers_are_marked_from_the_text(course):
    """The bytes came in kB: right but for the unit."""
    for student, shares in (("right", {"bytes": 0.5}), ("wrong", dict.fromkeys(questions_of("w8a8"), 0.0))):
        found = {name: course.grades(student)[f"w8a8_question_{name}"] for name in questions_of("w8a8")}
        assert found == {
            name: (question.points * shares.get(name, 1.0), False) for name, question in questions_of("w8a8").items()
        }
    assert "look at the unit (MB)" in html.unescape(course.feedback("right"))


def test_feedback_says_what_we_say(course, ours):
    text = html.unescape(re.sub(r"<[^>]+>", " ", course.feedback("wrong")))
    failed = next(test for test in document(ours)["labs"]["w8a8"]["tests"] if test["name"] == "saturating_scale")
    assert " ".join(failed["diagnosis"].splitlines()[0].split()) in " ".join(text.split())
    assert "data:image/png" in course.feedback("wrong")
    assert "not gradable here" in text
    assert "60/60 points" in html.unescape(course.feedback("right"))
    assert "still the stub" in course.feedback("stub")
    assert "is not a Jupyter notebook" in course.feedback("broken")


def test_feedback_hides_what_is_hidden_and_shows_nothing_forged(course):
    for student in STUDENTS:
        page = course.feedback(student)
        assert [word for word in SECRET_WORDS if word in html.unescape(page)] == []
        assert "<script>alert" not in page
        assert "x" * 100 not in page


def test_export_has_the_same_scores(course, ours):
    with open(course.folder / "grades.csv", encoding="utf-8") as file:
        exported = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file) if row["assignment"] == ASSIGNMENT}
    wrong = document(ours)["labs"]["w8a8"]["points"]
    answered = sum(question.points for question in questions_of("w8a8").values()) - 1
    assert exported == {BARE: 60, MISPLACED: 60, "broken": 0, "hostile": 60, "right": 60 + answered, "stub": 0, "wrong": wrong}


# ---------------------------------------------------------------- through the API


@pytest.fixture
def empty_gradebook(course: Course, tmp_path: Path) -> Path:
    """The course's database without its students."""
    copied = tmp_path / "gradebook.db"
    shutil.copy(course.database, copied)
    with sqlite3.connect(copied) as database:
        for table in ("grade", "comment", "submitted_notebook", "submitted_assignment", "student"):
            database.execute(f"DELETE FROM {table}")
    database.close()
    return copied


def test_written_scores_equal_autograded_ones(course, ours, empty_gradebook):
    written = write_scores(empty_gradebook, ASSIGNMENT, "wrong", ours, submitted="2026-11-20 23:58:00 UTC")
    graded = ("w8a8_correctness", "w8a8_speed")
    assert {name: _grades(empty_gradebook, "wrong")[name] for name in graded} == {
        name: course.grades("wrong")[name] for name in graded
    }
    assert written == {name: course.grades("wrong")[name][0] for name in graded}
    assert _grades(empty_gradebook, "wrong")["w8a8_question_scales"] == (None, True)


def test_written_answers_equal_autograded_ones(course, ours, empty_gradebook):
    submitted = course.folder / "submitted"
    for student in ("right", "wrong"):
        answers = answers_for(submitted / student / ASSIGNMENT, ["w8a8"])
        written = write_scores(empty_gradebook, ASSIGNMENT, student, ours, answers=answers)
        asked = [name for name in course.grades(student) if name.startswith("w8a8_question_") and name in written]
        assert {name: _grades(empty_gradebook, student)[name] for name in asked} == {name: course.grades(student)[name] for name in asked}
        assert {name.removeprefix("w8a8_question_") for name in asked} == set(questions_of("w8a8"))


def test_a_report_of_a_gpu_brings_its_speed_points(empty_gradebook):
    report = gpu_report()
    written = write_scores(f"sqlite:///{empty_gradebook}", ASSIGNMENT, "fast", report)
    lab = report.labs["w8a8"]
    assert written["w8a8_correctness"] == 60
    assert written["w8a8_speed"] == pytest.approx(lab.speed_points / lab.speed_max * 40, abs=1e-6)
    assert set(written) == {f"{lab_id}_{part}" for lab_id in report.labs for part in ("correctness", "speed")}


def test_bonus_labs_are_an_assignment_of_their_own(course, empty_gradebook):
    from nbgrader.api import Gradebook

    bonus = [lab.id for lab in all_labs().values() if lab.bonus]
    assert {path.stem for path in (course.folder / "release" / f"{ASSIGNMENT}{BONUS}").glob("*.ipynb")} == set(bonus)
    assert not {path.stem for path in (course.folder / "release" / ASSIGNMENT).glob("*.ipynb")} & set(bonus)
    report = gpu_report()
    extra = replace(report.labs["w8a8"], lab_id=bonus[0], bonus=True)
    plain = set(write_scores(empty_gradebook, ASSIGNMENT, "plain", report))
    with Gradebook(f"sqlite:///{empty_gradebook}") as book:
        assert "plain" not in {one.student.id for one in book.assignment_submissions(f"{ASSIGNMENT}{BONUS}")}
    report = replace(report, labs={**report.labs, bonus[0]: extra})
    written = write_scores(empty_gradebook, ASSIGNMENT, "fast", report)
    apart = {f"{bonus[0]}_correctness", f"{bonus[0]}_speed"}
    assert set(written) == plain | apart
    with Gradebook(f"sqlite:///{empty_gradebook}") as book:
        scores = [book.find_submission(name, "fast").score for name in (ASSIGNMENT, f"{ASSIGNMENT}{BONUS}")]
    assert scores == pytest.approx([sum(written[name] for name in part) for part in (plain, apart)], abs=1e-3)
    assert min(scores) > 0


def test_what_a_human_gave_stays(ours, empty_gradebook):
    from nbgrader.api import Gradebook

    write_scores(empty_gradebook, ASSIGNMENT, "wrong", ours)
    with Gradebook(f"sqlite:///{empty_gradebook}") as book:
        book.find_grade("w8a8_correctness", "w8a8", ASSIGNMENT, "wrong").manual_score = 55.0
        book.db.commit()
    write_scores(empty_gradebook, ASSIGNMENT, "wrong", ours)
    assert _grades(empty_gradebook, "wrong")["w8a8_correctness"][1] is True
    with Gradebook(f"sqlite:///{empty_gradebook}") as book:
        assert book.find_grade("w8a8_correctness", "w8a8", ASSIGNMENT, "wrong").score == 55.0


def test_a_gradebook_that_cannot_take_scores_is_refused(ours, empty_gradebook, tmp_path):
    with pytest.raises(Unusable, match="does not exist"):
        write_scores(tmp_path / "absent.db", ASSIGNMENT, "wrong", ours)
    assert not (tmp_path / "absent.db").exists()
    with pytest.raises(Unusable, match="no assignment 'nonsense'; it has kernels"):
        write_scores(empty_gradebook, "nonsense", "wrong", ours)
    with sqlite3.connect(empty_gradebook) as database:
        database.execute("UPDATE base_cell SET name = 'other_' || name WHERE name LIKE 'w8a8_%'")
    database.close()
    with pytest.raises(Unusable, match="no graded cell such as w8a8_correctness"):
        write_scores(empty_gradebook, ASSIGNMENT, "wrong", ours)


# ---------------------------------------------------------------- the course


def test_a_course_made_again_keeps_configuration_and_scores(course):
    before = course.grades("wrong")
    config = course.folder / "nbgrader_config.py"
    config.write_text(config.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
    written = make_course(ROOT, course.folder, ASSIGNMENT)
    assert config not in written
    assert config.read_text(encoding="utf-8").endswith("# mine\n")
    assert course.grades("wrong") == before


def test_a_course_is_made_of_a_repository(tmp_path):
    with pytest.raises(Unusable, match="repository's root"):
        make_course(tmp_path, tmp_path / "course")
    with pytest.raises(Unusable, match="not a valid name for an assignment"):
        make_course(ROOT, tmp_path / "course", "a+b")


# ---------------------------------------------------------------- formgrader


@pytest.fixture
def formgrader(course: Course) -> Iterator[str]:
    """The address of a Jupyter server with formgrader, in the course's folder."""
    extension = {"nbgrader.server_extensions.formgrader": True}
    options = [f"--ServerApp.root_dir={course.folder}", f"--IdentityProvider.token={TOKEN}", f"--ServerApp.jpserver_extensions={extension}"]
    with served("jupyter_server", *options, log=course.folder / "server.log", env=course.environment, cwd=course.folder) as address:
        yield address


def with_points(report: Report, points: float) -> Report:
    return replace(report, labs={"w8a8": replace(report.labs["w8a8"], correctness_points=points)})


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here; install Debian's package chromium")
def test_formgraders_button_grades_with_our_grader(course, ours, formgrader):
    write_scores(course.database, ASSIGNMENT, "wrong", with_points(ours, 1.0))
    with chromium() as browser:
        tab = browser.new_page(viewport={"width": 1200, "height": 800})
        tab.set_default_timeout(120_000)
        tab.goto(f"{formgrader}/login?token={TOKEN}&next=/formgrader/manage_assignments")
        tab.goto(f"{formgrader}/formgrader/manage_submissions/{ASSIGNMENT}")
        row = tab.locator("tr", has=tab.locator("td.student-id", has_text="wrong"))
        row.locator("td.autograde a").click()
        tab.get_by_text("Successfully autograded").wait_for()
        log = tab.locator(".modal-body").inner_text()
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        tab.screenshot(path=SCREENSHOTS / "formgrader-autograded.png")
        tab.goto(f"{formgrader}/formgrader/manage_submissions/{ASSIGNMENT}")
        tab.locator("td.autograde a").first.wait_for()
        shown = row.locator("td.score").inner_text()
        tab.screenshot(path=SCREENSHOTS / "formgrader-scores.png")
    points = document(ours)["labs"]["w8a8"]["correctness"]["points"]
    assert "Applying preprocessor: GradeKernels" in log
    assert course.grades("wrong")["w8a8_correctness"] == (points, False)
    assert float(shown.split("/")[0]) == pytest.approx(points, abs=0.01)
    assert not course.marker.exists()
