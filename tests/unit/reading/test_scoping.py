"""What Python's scoping rules refuse is told as such, not as a consequence in another line."""

from __future__ import annotations

import pytest

from grader.labs import get_lab
from grader.model import Refusal
from grader.reading import read
from tests.submissions import TESTS


@pytest.mark.parametrize(("find", "replace", "said"), [
    ("M, N, K,\n", "M, N, K, M,\n", "the parameter `M` appears twice"),
    ("    pid = tl.program_id(0)\n", "    M = 1\n    global M\n", "global"),
    ("    pid = tl.program_id(0)\n", "    nonlocal M\n", "nonlocal"),
    ("    pid = tl.program_id(0)\n", "    pid = [pid := 1 for pid in (1,)]\n", "pid"),
])
def test_a_scope_that_python_refuses_is_named(tmp_path, find, replace, said):
    lab, path = get_lab("w8a8"), tmp_path / "mine.py"
    whole = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
    assert find in whole
    path.write_text(whole.replace(find, replace, 1), encoding="utf-8")
    found = read(path, [lab]).labs["w8a8"]
    assert isinstance(found, Refusal)
    assert said in found.message
    assert "has no value" not in found.message
