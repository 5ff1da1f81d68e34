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

CHANGING = (
    "C.append(2)",
    "del C[0]",
    "C[0] = 2",
    "C[:] = [2]",
    "C += [2]",
    "C[0].kwargs.update(a=1)",
    "C[0].num_warps = 8",
    "setattr(C[0], 'num_warps', 8)",
    "[C.append(size) for size in (1, 2)]",
    "for at, c in enumerate(C): c.kwargs['a'] = at",
    "while len(C) < 3: C.insert(0, 1)",
    "first = C[0]\nfirst.num_warps = 8",
    "both = C + [1]\nfor c in both: c.num_warps = 8",
    "rows = []\nfor c in C: rows.append(c)\nrows[0].num_warps = 8",
    "add = C.append\nadd(2)",
    "from functools import partial\nadd = partial(C.insert, 0)\nadd(2)",
    "def add(size): C.append(size)\nadd(16)",
    "add = lambda size: C.append(size)\nadd(16)",
    "def add(size):\n    global C\n    C = C + [size]\nadd(16)",
    "def add(size, to=C): to.append(size)\nadd(16)",
    "def widen(config): config.num_warps = 8\nlist(map(widen, C))",
    "def every():\n    for c in C: one(c)\ndef one(c): c.num_warps = 8\nevery()",
    "def early(): pool.append(1)\npool = C\nearly()",
    "class Builder:\n    def add(self, size): C.append(size)\nBuilder().add(16)",
    "def register(make):\n    C.append(make())\n    return make\n@register\ndef small(): return 1",
    "T = {'all': C}\nT.get('all').append(2)",
)
OTHERS = (
    "other = [1]\nother.append(2)",
    "def add(size): C.append(size)",
    "SIZE = 4\nprint(SIZE)",
    "kernel[1](2)",
    "if __name__ == '__main__': print(C)",
)


BINDING = (
    "a = b = 1", "(a, *b), c = (1, 2, 3), 4", "a: int = 1", "a: int", "import os.path, math as m", "from math import pi as p, e",
    "if True:\n    a = 1\nelif (b := 2):\n    c = 3\nelse:\n    d = 4", "for a, (b, c) in [(1, (2, 3))]:\n    d = a\nelse:\n    e = 1",
    "while not (a := 1):\n    b = 2", "with open('/dev/null') as a, open('/dev/null') as (*b,):\n    c = 1",
    "try:\n    a = 1\nexcept ValueError as b:\n    c = 1\nelse:\n    d = 1\nfinally:\n    e = 1",
    "match [1, {'k': 2, 'l': 3}, 4]:\n    case [a, {'k': b, **c}, *d] if (e := a):\n        f = 1\n    case g:\n        h = 1",
    "[b for b in range(3) if (c := b) and [d := c for e in range(2)]]", "print((a := 1), end='')",
    "def a(b, c=(d := 1)):\n    e = 1\n    def f(): pass", "@(a := staticmethod)\nclass b(metaclass=(c := type)):\n    d = 1",
    "a = lambda b: (c := b)", "a = {(b := c): (d := 1) for c in (1,)}",
)


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


BENCHMARK = """
rows = []
for config in CONFIGS:
    rows.append({"config": config, "ms": triton.testing.do_bench(lambda: None)})
for row in rows:
    row["speedup"] = 1 / row["ms"]
"""
LEFT_OUT = "is not executed for grading, so a change that it makes does not count: "


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (BENCHMARK, "`triton.testing.do_bench` is not allowed"),
        ("CONFIGS" + "[0]" * 900 + " = 3", "nested more than 150 levels deep"),
        ("CONFIGS.append(undefined)", "`undefined` is not defined"),
        ("with open('a') as f: CONFIGS.append(f)", "which is a With"),
    ],
)
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
