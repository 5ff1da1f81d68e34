"""What a top-level statement changes in place: a config that a kernel has is the one that Python would give it."""

from __future__ import annotations

import ast
import time

import pytest

from grader.reading import changes

CHANGED = (
    "C.append(2)",
    "del C[0]",
    "C[0] = 2",
    "C[:] = [2]",
    "C += [2]",
    "C[0].kwargs.update(a=1)",
    "C[0].num_warps = 8",
    "setattr(C[0], 'num_warps', 8)",
    "[C.append(size) for size in (1, 2)]",
    "for c in C: c.num_warps = 8",
    "for at, c in enumerate(C): c.kwargs['a'] = at",
    "for c in reversed(C):\n    if c.num_warps:\n        c.num_warps = 8",
    "while len(C) < 3: C.insert(0, 1)",
    "first = C[0]\nfirst.num_warps = 8",
    "other = C\nother.append(1)",
    "both = C + [1]\nfor c in both: c.num_warps = 8",
    "rows = []\nfor c in C: rows.append(c)\nrows[0].num_warps = 8",
    "max(C).num_warps = 8",
    "one = C[0] if C else None\none.num_warps = 8",
    "(last := C[-1]).kwargs.update(a=1)",
    "def add(size): C.append(size)\nadd(16)",
    "add = lambda size: C.append(size)\nadd(16)",
    "def add(size): C.append(size)\nlist(map(add, (16, 32)))",
    "def widen(config): config.num_warps = 8\nfor c in C: widen(c)",
    "def widen(config): config.num_warps = 8\nlist(map(widen, C))",
    "def all_of_them():\n    for c in C: one(c)\ndef one(c): two(c)\ndef two(c): c.num_warps = 8\nall_of_them()",
    "T = {}\nT['all'] = C\nT['all'].append(1)",
    "T = {1: C}\nT.get(1).append(2)",
)
KEPT = (
    "print(C)",
    "rows = []\nfor c in C: rows.append((c.num_warps, bench(c)))\nrows.sort()",
    "times = {}\nfor c in C: times[c] = bench(c)",
    "copy = list(C)\ncopy.append(1)",
    "few = [c for c in C if c.num_warps]\nfew.pop()",
    "T = {}\nT['all'] = C\nT['none'] = 3",
    "C = [1]",
    "def add(size):\n    C = [size]\n    C.append(1)\nadd(16)",
    "def add(size): C.append(size)",
    "x = run(C)\nx.weight = 1",
    "import C\nC.cache.clear()",
    "def C(): pass\nC.cache.clear()",
    "def widest(configs): return configs[0]\nwidest(C)",
)


def changed(text: str) -> frozenset[str]:
    """By the last statement."""
    body = ast.parse(text).body
    return changes.names(body).changed(body[-1])


@pytest.mark.parametrize("text", CHANGED)
def test_what_is_changed(text):
    assert "C" in changed(text)


@pytest.mark.parametrize("text", KEPT)
def test_what_stays_as_it_is(text):
    assert "C" not in changed(text)


LONG = {
    "names of names": lambda n: "\n".join(f"a{i} = a{i - 1}\na{i}.x = 1" for i in range(1, n)),
    "one list of all": lambda n: f"A = [{', '.join(f'a{i}' for i in range(n))}]\n" + "A[0].x = 1\n" * n,
    "functions of functions": lambda n: "\n".join(f"def f{i}(p): f{i - 1}(p); f{i - 1}(p); A{i}.append(p)" for i in range(1, n)),
    "calls of one function": lambda n: f"def f(p): p.x = 1\n[{', '.join(f'f(a{i})' for i in range(n))}]",
    "many at once": lambda n: f"{' = '.join(f'a{i}' for i in range(n))} = [{', '.join(f'b{i}' for i in range(n))}]",
}


@pytest.mark.parametrize("name", LONG)
def test_time_grows_as_the_text_does(name):
    def seconds(count: int) -> float:
        body = ast.parse(LONG[name](count)).body
        begin = time.process_time()
        names = changes.names(body)
        for statement in body:
            names.changed(statement)
        return time.process_time() - begin

    assert seconds(4000) < 12 * seconds(1000) + 0.2
