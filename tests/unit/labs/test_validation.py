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
    "whole rows of tiles": ("a K that ends inside one", lambda case: case.name == "whole_tiles_k_tail", {"K": 64}),
    "one token": ("one contiguous token", lambda case: case.M == 1, {"x_layout": "every_other"}),
    "columns that are adjacent": ("x_layout='transposed' and M > 128", lambda case: case.x_layout == "transposed", {"M": 100}),
    "gaps and aligned rows": ("x_layout='column_slice' and M > 1", lambda case: case.x_layout == "column_slice", {"x_layout": "odd_slice"}),
}


@pytest.mark.parametrize("lab_id", [lab for lab in all_labs() if lab != "dds"])
@pytest.mark.parametrize("name", UNSEEN)
def test_what_no_case_would_show_is_asked_for(lab_id, name):
    asked, shows, instead = UNSEEN[name]
    lab = get_lab(lab_id)
    assert not list(validate_lab(lab, lab_id))
    lacking = replace(lab, cases=tuple(replace(case, **instead) if shows(case) else case for case in lab.cases))
    assert asked in " ".join(validate_lab(lacking, lab_id))
