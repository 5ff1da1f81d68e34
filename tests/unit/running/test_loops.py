"""A loop on the interpreter has the turns that the compiler gives it, whatever the types and signs of its bounds."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.language.folded import KERNELS
from tests.submissions import TESTS


def stored(what, path):
    command = [sys.executable, "-W", "ignore", "-m", "tests.language.folded", what, str(path)]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_turns_of_a_loop_are_the_compilers(tmp_path):
    compiled = stored("compile", tmp_path / "compiled.json")
    assert all(len(numbers) == 1 and numbers[0] is not None for numbers in compiled.values()), compiled
    assert compiled.keys() == KERNELS.keys()
    assert stored("interpret", tmp_path / "interpreted.json") == compiled
