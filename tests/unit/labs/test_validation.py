"""A lab whose cases leave something unseen is refused, with what to change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.labs import all_labs, get_lab
from grader.labs.validation import validate_lab

UNSEEN = {
    "whole tiles": ("M a multiple of 128, 256 or more", lambda case: case.M % 256 == 0, {"M": 60}),
    "second tiles": ('configs="few" and more than 132 tiles of 128 x 128', lambda case: case.configs == "few", {"M": 3328}),
    "other columns": ("in a number of columns that has no factor in common with it", lambda case: case.configs == "few", {"N": 768}),
    "whole steps": ("K a multiple of 512, 1024 or more", lambda case: case.K % 512 == 0 and case.K >= 1024, {"K": 4232}),
}


@pytest.mark.parametrize("lab_id", [lab for lab in all_labs() if lab != "dds"])
@pytest.mark.parametrize("name", UNSEEN)
def test_what_no_case_would_show_is_asked_for(lab_id, name):
    asked, shows, instead = UNSEEN[name]
    lab = get_lab(lab_id)
    assert not list(validate_lab(lab, lab_id))
    lacking = replace(lab, cases=tuple(replace(case, **instead) if shows(case) else case for case in lab.cases))
    assert asked in " ".join(validate_lab(lacking, lab_id))
