"""The same files have the same mark, whether nbgrader autogrades them or a batch does: for any student, wherever the work lies."""

from __future__ import annotations

import random
from dataclasses import replace
from hashlib import sha256
from types import SimpleNamespace

import nbformat
import pytest
from nbformat import v4

from grader.classroom.batch.coordinating import Plan, points_today, run_batch
from grader.classroom.batch.journal import Journal
from grader.classroom.batch.marks import Rules
from grader.classroom.batch.standing import standings
from grader.classroom.gradebook import BONUS, autograding
from grader.classroom.gradebook.scores import _score
from grader.classroom.hidden_cases import Secrets
from grader.judging.scoring import refused
from grader.labs import all_labs
from grader.labs.question import posed, questions_of
from grader.model import Refusal, Report, TestResult
from tests.deliveries import archive
from tests.stub_class import DEVICE, SETUP, Answering, PoolHere
from tests.submissions import TESTS

LABS = all_labs()
COURSE = [lab_id for lab_id, lab in LABS.items() if not lab.bonus]
EXTRA = [lab_id for lab_id, lab in LABS.items() if lab.bonus]
KERNELS = {lab_id: (TESTS.parent / "solutions" / f"{lab_id}.py").read_text(encoding="utf-8") for lab_id in LABS}


class Deciding(Answering):
    """Says of each kernel that some of its cases pass, by its text alone."""

    def _report(self, source):
        drawn = random.Random(sha256(source.module.encode()).digest())
        tests = tuple(
            TestResult(case.name, "correctness", drawn.choice(["passed", "failed"]), 0.0, 0.0, "") for case in LABS[source.lab_id].cases
        )
        bonus = LABS[source.lab_id].bonus
        return points_today(replace(super()._report(source), tests=tests, bonus=bonus), DEVICE)


def some_kernel(chance, lab_id):
    """Right or wrong, a stub, what is no Python, or nothing."""
    lab = LABS[lab_id]
    return chance.choice([
        KERNELS[lab_id], KERNELS[lab_id].replace("num_warps=4", "num_warps=8"), f"import triton\ndef {lab.kernel}(x_ptr):\n    pass\n",
        f"def {lab.kernel}(: x", "x = 1\n", "",
    ])


def some_answers(chance, lab_id):
    for name, question in questions_of(lab_id).items():
        if chance.random() < 0.7:
            value = chance.choice([None, posed(lab_id, question, "Ann").answer, 1e30])
            yield f"{lab_id}_{name} = {value!r}\n"


def some_notebook(chance, lab_id, others):
    cells = [f"student = {chance.choice(['', 'Ann'])!r}\n", some_kernel(chance, lab_id), *some_answers(chance, lab_id)]
    if chance.random() < 0.4:
        cells += [some_kernel(chance, chance.choice(others))]
    if chance.random() < 0.4:
        cells += some_answers(chance, chance.choice(others))
    if chance.random() < 0.1:
        return '{"cells": [{'
    return nbformat.writes(v4.new_notebook(cells=[v4.new_code_cell(text) for text in cells]))


def hand_in(chance, folder, labs):
    """Some of an assignment's notebooks, and what may lie beside them."""
    folder.mkdir(parents=True)
    for lab_id in chance.sample(labs, chance.randint(0, len(labs))):
        (folder / f"{lab_id}.ipynb").write_text(some_notebook(chance, lab_id, list(LABS)), encoding="utf-8")
    one = chance.choice(labs)
    if chance.random() < 0.2:
        (folder / f"my {one}.ipynb").write_text(some_notebook(chance, one, list(LABS)), encoding="utf-8")
    if chance.random() < 0.3:
        (folder / "more.py").write_text(some_kernel(chance, one) + "".join(some_answers(chance, one)), encoding="utf-8")
    if chance.random() < 0.3:
        (folder / "old.zip").write_bytes(archive({f"{one}.py": some_kernel(chance, one)}))
    if chance.random() < 0.3:
        (folder / "sub").mkdir()
        (folder / "sub" / f"{one}.py").write_text(some_kernel(chance, one), encoding="utf-8")


def worth(lab_id):
    asked = {f"{lab_id}_question_{name}": float(question.points) for name, question in questions_of(lab_id).items()}
    return {f"{lab_id}_correctness": 60.0, f"{lab_id}_speed": 40.0, **asked}


def of_nbgrader(path, lab_id, monkeypatch):
    """The score of each graded cell of a notebook, as nbgrader reads it from the outputs."""
    cells = []
    for name, most in worth(lab_id).items():
        graded = {"grade": True, "solution": False, "grade_id": name, "points": most}
        cells.append(v4.new_code_cell("", metadata={"nbgrader": graded}))
    monkeypatch.setattr(autograding, "_place", lambda *_: path)
    found, _ = autograding.GradeKernels().preprocess(v4.new_notebook(cells=cells), {"nbgrader": {"student": path.parts[-3]}})
    return {cell.metadata.nbgrader.grade_id: float(cell.outputs[1].data["text/plain"]) for cell in found.cells}


def graded_at_once(submission, labs, options):
    engine = Deciding()
    reports = {
        lab.id: refused(lab, one, gpu=False) if isinstance(one := submission.labs[lab.id], Refusal) else engine._report(one) for lab in labs
    }
    return Report(submission.name, DEVICE, None, reports)


@pytest.mark.parametrize("seed", range(12))
def test_nbgrader_and_a_batch_give_the_same_mark_for_the_same_files(seed, tmp_path, monkeypatch):
    chance, root = random.Random(seed), tmp_path / "submitted"
    for student in ("ann", "ben", "cat"):
        hand_in(chance, root / student / "kernels", COURSE)
        hand_in(chance, root / student / f"kernels{BONUS}", EXTRA)
    with Journal(tmp_path / "journal.sqlite") as journal:
        outcome = run_batch(Plan(root, tuple(LABS), SETUP), journal, PoolHere(), Deciding)
    found = {(one.student, one.assignment): one for one in standings(outcome.graded, Rules())}
    assert len(found) == 6
    secrets = SimpleNamespace(secrets=Secrets(7), sentence=lambda labs: "", labs=list)
    monkeypatch.setattr(autograding, "secrets_in_force", lambda *_, **__: secrets)
    monkeypatch.setattr(autograding, "_course", lambda _: SimpleNamespace(root=str(tmp_path)))
    monkeypatch.setattr(autograding, "_device", lambda wanted: DEVICE)
    monkeypatch.setattr(autograding, "grade_submission", graded_at_once)
    for (student, assignment), one in found.items():
        total, labs = 0.0, EXTRA if assignment.endswith(BONUS) else COURSE
        for lab_id in labs:  # nbgrader grades every notebook that was released, also one that was not handed in
            scores = of_nbgrader(root / student / assignment / f"{lab_id}.ipynb", lab_id, monkeypatch)
            batch = {name: _score(name, most, one.labs, one.answers) for name, most in worth(lab_id).items()}
            assert scores == batch, (student, lab_id, one.review)
            total += sum(scores.values())
        assert set(one.parts) <= ({"bonus"} if labs is EXTRA else {"kernels", "questions"}), "a lab counts in one assignment"
        assert sum(part.points for part in one.parts.values()) == pytest.approx(total)
