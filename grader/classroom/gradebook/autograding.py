"""What nbgrader runs in place of its own: reading and restoring submissions, and this grader instead of `Execute`.

The course's nbgrader_config.py names these classes. No cell of a student is run here or in any kernel: the submitted
file goes down the grader's own road, and the points come into the graded cells as their results.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from glob import glob
from pathlib import Path
from typing import Any, Literal

import nbformat
from nbconvert.exporters import NotebookExporter
from nbgrader.converters import Autograde
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Enum, Integer, Unicode

from grader.classroom.batch.tasks import Content, read_folder
from grader.classroom.gradebook.feedback import answer_outputs, cell_outputs
from grader.classroom.gradebook.restoring import read_submitted, restored
from grader.classroom.gradebook.scores import cell_score, graded_part
from grader.classroom.marked_answers import answer_score, asked
from grader.classroom.secrets_file import secrets_in_force
from grader.gpu.devices import choose
from grader.labs import all_labs
from grader.model import Device, Refusal, Report, Submission
from grader.pipeline.grading import GradeOptions, grade_submission
from grader.reading import MISSING
from grader.reading.answers import NO_ANSWERS


class CannotAutograde(RuntimeError):
    """Nobody's points can be found on this machine or in this course; the message says why and what to do."""


class SubmittedNotebook(NotebookExporter):  # type: ignore[misc]
    """Reads what was submitted, whatever it is; a file that is no notebook, or was not handed in, is one without cells.

    So every notebook of the release is graded, for everybody who handed in something: the work for it may lie in another file.
    """

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        if isinstance(self.parent, Autograde):
            _with_all_released(self.parent)

    def from_filename(self, filename: str, resources: Any = None, **arguments: Any) -> Any:
        path = Path(filename)
        place = {"name": path.stem, "path": str(path.parent), "modified_date": ""}
        return self.from_notebook_node(read_submitted(path), {**(resources or {}), "metadata": place}, **arguments)


def _with_all_released(converter: Any) -> None:
    """Adds to what nbgrader is about to convert the released notebooks that a folder of its submitted/ does not have."""
    course = converter.coursedir
    released = Path(course.format_path(course.release_directory, ".", course.assignment_id))
    names = [path.name for path in released.glob(f"{course.notebook_id}.ipynb")]
    for folder in glob(course.format_path(course.submitted_directory, course.student_id, course.assignment_id)):
        if os.path.isdir(folder):
            found = {*converter.assignments.get(folder, ()), *(os.path.join(folder, name) for name in names)}
            converter.assignments[folder] = sorted(found)


class RestoreNotebook(NbGraderPreprocessor):  # type: ignore[misc]
    """Brings a submission into the shape of what was released: see grader.classroom.gradebook.restoring."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        path = _place(self, "release_directory", ".", resources)
        try:
            released = nbformat.read(path, as_version=4)
        except (OSError, ValueError) as error:
            raise CannotAutograde(
                f"{path} cannot be read ({error}); run `nbgrader generate_assignment` for this assignment again"
            ) from None
        return restored(nb, released), resources


class GradeKernels(NbGraderPreprocessor):  # type: ignore[misc]
    """Grades the labs and the questions whose graded cells a notebook holds, and clears every other output."""

    device = Enum(("auto", "cpu", "cuda"), "auto", help="Where kernels run; auto: a GPU where one is there.").tag(
        config=True
    )
    jobs = Integer(0, help="Parallel sandboxes (0: one per core).").tag(config=True)
    secrets = Unicode(
        "",
        help="File with the seed and the hidden cases, from the course's folder; empty: the repository's secrets.toml.",
    ).tag(config=True)

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        graded = {at: grade_id for at, cell in enumerate(nb.cells) if (grade_id := _graded_id(cell))}
        parts = {at: found for at, grade_id in graded.items() if (found := graded_part(grade_id))}
        wanted = {lab_id for lab_id, _ in parts.values()}
        questions = {at: question for at, grade_id in graded.items() if (question := asked(grade_id))}
        content = self._read(resources) if parts or questions else Refusal("rejected", "")
        answers = content.answers if isinstance(content, Content) else {}
        report = self._graded(wanted, content, resources) if wanted else None
        for at, cell in enumerate(nb.cells):
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
            if report is not None and at in parts:
                lab_id, part = parts[at]
                score = cell_score(report.labs[lab_id], part, float(cell.metadata.nbgrader["points"]))
                cell.outputs = cell_outputs(report, report.labs[lab_id], part, score)
            elif at in questions:
                lab_id, most = questions[at][0], float(cell.metadata.nbgrader["points"])
                score, sentence = answer_score(*questions[at], answers.get(lab_id, NO_ANSWERS), most)
                cell.outputs = answer_outputs(score, most, sentence)
        return nb, resources

    def _read(self, resources: Any) -> Content | Refusal:
        """All that the student handed in for the assignment, as a batch reads it: work for a lab counts wherever it lies.

        Raises CannotAutograde where that cannot be read for a reason that is not the student's.
        """
        file = _place(self, "submitted_directory", resources["nbgrader"]["student"], resources)
        content = read_folder(file.parent, tuple(all_labs()))
        if isinstance(content, Refusal) and content.status == "not_graded":
            raise CannotAutograde(content.message)
        return content

    def _graded(self, wanted: set[str], content: Content | Refusal, resources: Any) -> Report:
        course = Path(_course(self).root)
        found = secrets_in_force(course / self.secrets if self.secrets else None, near=course)
        _say(self.log, found.sentence(all_labs().values()))
        labs = found.labs(lab for lab in all_labs().values() if lab.id in wanted)
        seed = found.secrets.seed if found.secrets else None
        options = GradeOptions(_device(self.device), seed, self.jobs or None, confined=True)
        if isinstance(content, Content):
            submission = replace(content.submission, labs={**dict.fromkeys(wanted, MISSING), **content.submission.labs})
        else:
            submission = Submission("", Path(), dict.fromkeys(wanted, content))
        report = grade_submission(submission, labs, options)
        for lab in report.labs.values():
            student = resources["nbgrader"]["student"]
            self.log.info("%s, %s: %s, %.6g points", student, lab.lab_id, lab.status, lab.points)
        return report


@cache
def _say(log: Any, sentence: str) -> None:
    """Once a run."""
    log.info("%s", sentence)


def _graded_id(cell: Any) -> str | None:
    """The id of a test cell that is worth points."""
    nbgrader = cell.metadata.get("nbgrader", {})
    graded = cell.cell_type == "code" and nbgrader.get("grade") and not nbgrader.get("solution")
    return str(nbgrader["grade_id"]) if graded else None


def _course(preprocessor: Any) -> Any:
    """The course's folders, which the converter knows: it owns the exporter that owns the preprocessor."""
    return preprocessor.parent.parent.coursedir


def _place(preprocessor: Any, directory: str, student: str, resources: Any) -> Path:
    course, names = _course(preprocessor), resources["nbgrader"]
    folder = course.format_path(getattr(course, directory), student, names["assignment"])
    return Path(folder) / f"{names['notebook']}.ipynb"


@cache
def _device(wanted: Literal["auto", "cpu", "cuda"]) -> Device:
    """The device record. Raises CannotAutograde without a sandbox: this is others' work."""
    device = choose(wanted)[0]
    if device.sandbox == "none":
        raise CannotAutograde(
            "bubblewrap does not work here, and others' work is graded in a sandbox only; see `python -m grader doctor`"
        )
    return device
