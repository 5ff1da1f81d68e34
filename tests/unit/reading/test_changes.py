"""What else of a file is executed: whatever may change a list, dict or object that the kernel has, as Python would."""

from __future__ import annotations

import contextlib
import time
from collections import Counter

import pytest

from grader.labs import get_lab
from grader.reading import policy, read
from grader.reading.files import Allowance, read_cells
from grader.reading.selection import closure, statements, with_changes
from tests.submissions import TESTS
from tests.tables import each_row, table

CHANGING = table(__file__)["changing"]
OTHERS = table(__file__)["others"]


BINDING = table(__file__)["binding"]


@pytest.mark.parametrize("text", BINDING)
def test_what_a_statement_binds_is_what_python_binds(text, tmp_path):
    """`match`, `except ... as`, and := in a comprehension bound nothing: "`STAGES` is not defined"."""
    path = tmp_path / "file.py"
    path.write_text(f"{text}\n")
    bound = {name for statement in statements(read_cells(path, Allowance(), {})) for name in statement.binds}
    module = dict[str, object]()
    with contextlib.suppress(ValueError):
        exec(text, module)
    assert module.keys() - {"__builtins__", "__annotations__"} <= bound
    if not any(word in text for word in ("if", "except", "while", "match")):
        assert bound - module.keys() <= ({"a"} if text == "a: int" else set())


def test_a_function_that_assigns_a_global_needs_what_gives_it_a_value(tmp_path):
    path = tmp_path / "file.py"
    path.write_text("count = 0\ndef make():\n    global count\n    count += 1\nmake()\n")
    everything = statements(read_cells(path, Allowance(), {}))
    assert closure(everything, ["make"]) == everything[:2]


def taken(text: str, tmp_path, why: str = ""):
    path = tmp_path / "file.py"
    path.write_text(f"C = [1]\nSIZE = 3\ndef kernel(): C\n{text}\n")
    everything = statements(read_cells(path, Allowance(), {}))
    return everything, *with_changes(everything, closure(everything, ["C", "SIZE"]), ("kernel",), lambda more: why)


@pytest.mark.parametrize("text", CHANGING)
def test_what_may_change_a_list_is_executed(text, tmp_path):
    everything, whole, left_out = taken(text, tmp_path)
    assert everything[-1] in whole
    assert not left_out


@pytest.mark.parametrize("text", OTHERS)
def test_what_changes_nothing_is_not(text, tmp_path):
    everything, whole, _ = taken(text, tmp_path)
    assert everything[-1] not in whole


def test_what_may_not_be_executed_is_left_out_and_told(tmp_path):
    everything, whole, left_out = taken("C[0].num_warps = 8", tmp_path, "no")
    assert everything[-1] not in whole
    assert left_out == [(everything[-1], "no")]


def graded(tmp_path, more: str):
    """A right kernel with CONFIGS and more below them: its module, and the notes."""
    text = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
    begin = text.index("configs=[") + len("configs=")
    end = text.index("],", begin) + 1
    configs, text = text[begin:end], text[:begin] + "CONFIGS" + text[end:]
    path = tmp_path / "w8a8.py"
    path.write_text(text.replace("\n@triton.autotune", f"\nCONFIGS = {configs}\n{more}\n\n@triton.autotune", 1))
    submission = read(path, [get_lab("w8a8")])
    return submission.labs["w8a8"].module, submission.notes


LEFT_OUT = "is not executed for grading, so a change that it makes does not count: "


@each_row
def test_what_may_not_be_there_costs_no_points_and_is_told(tmp_path, more, why):
    module, (note,) = graded(tmp_path, more)
    assert more.strip() not in module
    assert LEFT_OUT in note
    assert why in note


def test_a_config_is_what_python_makes_of_it(tmp_path):
    module, notes = graded(tmp_path, "for config in CONFIGS:\n    config.num_warps = 8\nassert CONFIGS")
    assert "config.num_warps = 8\nassert CONFIGS\n" in module
    assert not notes


def test_what_many_reach_is_looked_through_once(tmp_path, monkeypatch):
    seen = Counter()
    plain = policy.violation

    def counted(selected, *own):
        seen.update(map(id, selected))
        return plain(selected, *own)

    monkeypatch.setattr(policy, "violation", counted)
    chain = "".join(f"def f{at}():\n    return f{at + 1}()\n" for at in range(60))
    _, (note,) = graded(tmp_path, f"{chain}def f60():\n    import os\n" + "CONFIGS.append(f0())\n" * 50)
    assert "`os`" in note
    assert len(seen) > 100
    assert max(seen.values()) <= 2  # once as what the kernel reaches, once as what may change it


LONG = {
    "names of names": lambda n: "\n".join(f"a{i} = {f'a{i - 1}' if i else 'C'}\na{i}.x = 1" for i in range(n)),
    "one list of all": lambda n: f"A = [C, {', '.join(f'a{i}' for i in range(n))}]\n" + "A[0].x = 1\n" * n,
    "functions of functions": lambda n: "\n".join(f"def f{i}(p): {f'f{i - 1}(p)' if i else 'C.append(p)'}" for i in range(n)),
    "many at once": lambda n: f"{' = '.join(f'a{i}' for i in range(n))} = [C, {', '.join(f'b{i}' for i in range(n))}]",
    "a long chain": lambda n: f"C{'.add()' * 900}\n" * (n // 100),
}


@pytest.mark.parametrize("why", ["", "no"])
@pytest.mark.parametrize("name", LONG)
def test_time_grows_as_the_text_does(name, why, tmp_path):
    def seconds(count: int) -> float:
        begin = time.process_time()
        taken(LONG[name](count), tmp_path, why)
        return time.process_time() - begin

    assert seconds(4000) < 10 * seconds(1000) + 0.3
