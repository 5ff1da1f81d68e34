"""Lines and pictures below a cell, or in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from grader.reporting.compact import Remark
from grader.reporting.inline import Inline

if TYPE_CHECKING:
    from grader.reporting.pictures import Picture


def shown(remarks: Sequence[Remark], pictures: Sequence[Picture] = ()) -> None:
    """Shows an answer: in a notebook below the cell, elsewhere as plain lines."""
    answer = Inline(remarks, pictures)
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        print(answer)
    else:
        ipython.display.display(answer)
