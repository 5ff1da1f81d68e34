"""Is a hand-in read in a time that grows as its text does, whatever the text is?"""

from __future__ import annotations

import json
import time
import unicodedata

import pytest

from grader.labs import get_lab
from grader.model import KernelSource
from grader.parsing import MAX_MARKS, parse
from grader.reading import read
from grader.reading.answers import answers_in
from tests.submissions import plain

KERNEL = plain("w8a8")
USED = KERNEL.replace('"BLOCK_M": 16', '"BLOCK_M": 16 * T[0]')
FIRST = "    # which tile of Y does this program compute?\n"
MARKS = [chr(code) for code in (0x300, 0x316, 0x344, 0xF73, 0x1D165, 0xFE20)]
"""Of several classes, and some that are two when they are written out."""
TEXTS = {
    "decorators": lambda n: KERNEL.replace("@triton.jit", "@triton.heuristics({})\n" * n + "@triton.jit"),
    "lines of one statement": lambda n: f"T = [\n1,{n * chr(10)}]\nfor T[0] in (\n1,{n * chr(10)}):\n    pass\n{USED}",
    "statements without a name": lambda n: "T = [1]\n" + "if T: T.append(1)\n" * n + USED,
    "helpers": lambda n: "".join(f"@triton.jit\ndef h{i}(x):\n    return x\n" for i in range(n // 8))
    + KERNEL.replace(FIRST, "".join(f"    h{i}(0)\n" for i in range(n // 8))),
    "brackets that stay open": lambda n: f"{KERNEL}\nx = (\n{n * '1,' + chr(10)}",
    "a name that is not there": lambda n: KERNEL.replace(FIRST, "".join(f"    v{i} = {i}\n" for i in range(n)) + "    v = vv\n"),
    "letters of a few marks": lambda n: KERNEL.replace(FIRST, f"    a{n // 2 * 'e' + chr(0x300)} = 0\n"),
    "marks in a comment": lambda n: KERNEL.replace(FIRST, f"    # {'汉字' * n}\n"),
    "fields of one line": lambda n: KERNEL.replace(FIRST, f"    tl.static_print(f'{8 * n * '{M}'}')\n"),
    "fields of many lines": lambda n: KERNEL.replace(FIRST, f'    tl.static_print(f"""{8 * n * ("{M}" + chr(10))}""")\n'),
    **{f"marks {at}": lambda n, mark=mark: KERNEL.replace(FIRST, f"    a{(mark + MARKS[1]) * n} = 0\n") for at, mark in enumerate(MARKS)},
}


@pytest.mark.parametrize("notebook", [False, True])
@pytest.mark.parametrize("name", TEXTS)
def test_time_grows_as_the_text_does(name, notebook, tmp_path):
    path = tmp_path / ("w8a8.ipynb" if notebook else "w8a8.py")

    def seconds(count: int) -> float:
        text = TEXTS[name](count)
        cell = {"cell_type": "code", "source": text, "metadata": {}, "outputs": [], "execution_count": None}
        path.write_text(json.dumps({"cells": [cell]}) if notebook else text)
        begin = time.process_time()
        read(path, [get_lab("w8a8")])
        answers_in(path)
        return time.process_time() - begin

    seconds(1000)
    assert seconds(8000) < 20 * seconds(1000) + 0.3


@pytest.mark.parametrize("marks", [1, MAX_MARKS // 4])
def test_names_with_a_few_marks_are_read(marks, tmp_path):
    name = unicodedata.normalize("NFD", "é") + "\u0316" * (marks - 1)
    (tmp_path / "w8a8.py").write_text(KERNEL.replace("num_pid_n", name))
    assert isinstance(read(tmp_path / "w8a8.py", [get_lab("w8a8")]).labs["w8a8"], KernelSource)


@pytest.mark.parametrize("mark", MARKS)
def test_more_marks_than_a_letter_has_are_a_syntax_error_with_its_line(mark):
    with pytest.raises(SyntaxError, match="combining marks") as found:
        parse(f"a = 1\n\na{mark * (MAX_MARKS + 1)} = 2\n")
    assert found.value.lineno == 3
