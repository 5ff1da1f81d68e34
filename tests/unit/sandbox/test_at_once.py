"""An error in a thread is the caller's: no job goes missing in silence."""

from __future__ import annotations

import pytest

from grader.building import BuildOptions, build
from grader.labs import get_lab
from grader.labs.problems import make_problem
from grader.reading import read
from grader.running.cpu import InterpretOptions, interpret
from grader.sandbox import at_once
from tests.submissions import style_file


def test_the_first_error_is_raised_once_all_have_ended():
    done = []

    def work(place):
        done.append(place)
        if place:
            raise ValueError(place)

    with pytest.raises(ValueError, match=r"[12]"):
        at_once(work, 3)
    assert sorted(done) == [0, 1, 2]
    at_once(work, 1)


def test_an_error_while_building_or_interpreting_is_no_missing_launch():
    def fails(*progress):
        raise RuntimeError("nobody listens")

    lab = get_lab("dds")
    source = read(style_file("dds_while"), [lab], all_labs=True).labs["dds"]
    options = BuildOptions((90,), "check", 2)
    with pytest.raises(RuntimeError, match="nobody listens"):
        build(lab, source, options, fails)
    bundle = build(lab, source, options)
    case = lab.cases[0]
    with pytest.raises(RuntimeError, match="nobody listens"):
        interpret(lab, source, bundle, {case.name: make_problem(lab, case, 1)}, [(case.name, 0)], InterpretOptions(2), fails)
