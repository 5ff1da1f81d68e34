"""What the terminal says of a class: students are counted once, however many assignments they have."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from grader.cli.class_summary import _people, _some_of


def of(*pairs):
    return [SimpleNamespace(student=student, name=student, assignment=assignment) for student, assignment in pairs]


@pytest.mark.parametrize(
    ("pairs", "people", "some"),
    [
        ([("ann", "")], "1 student", "ann"),
        ([("ann", ""), ("ben", "")], "2 students", "2 students, ann first"),
        ([("eve", "kernels"), ("eve", "other")], "1 student in 2 assignments", "eve, kernels, other"),
        ([("ann", "a"), ("ann", "b"), ("ben", "a")], "2 students in 2 assignments", "2 students in 2 assignments, ann, a first"),
    ],
)
def test_students_are_counted_once(pairs, people, some):
    assert (_people(of(*pairs)), _some_of(of(*pairs))) == (people, some)
