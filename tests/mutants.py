"""Which small changes of the grader's core do its tests notice? A sample of mutants, each run against the tests of its module.

    python -m tests.mutants [--out FILE] [--only WORD]        one line of JSON a mutant, and the score of each module

A mutant has one comparison, operator, constant, condition or call changed. The sample is drawn by a fixed seed from the text, so that two
versions of the tests meet the same mutants. It runs in a copy of the repository, forked from a process that has imported torch.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS = 600
SAID = "tests_said.txt"
JUDGING = tuple(
    f"tests/unit/judging/test_{name}.py" for name in ("ratios", "tiers", "points", "scoring", "memory", "answers", "slices_seen")
)
CHECKING = ("tests/unit/judging/test_checking.py",)
BOUND = ("tests/unit/labs/test_tolerance.py",)
MARGIN = ("tests/unit/labs/test_margin.py", "-k", "w8a8 or dds")
SLICES = ("tests/unit/labs/test_margin.py", "-k", "(slice or record) and not w4a16 and not w8a16 and not gptq and not orders")
SYSTEM_CALLS, SANDBOX, WALLS, BUDGETS, USAGE = (
    (f"tests/unit/sandbox/test_{name}.py",) for name in ("system_calls", "sandbox", "sandbox_walls", "budgets", "usage")
)
OTHER_USER = ("tests/unit/classroom/test_gradescope.py", "-k", "without_bubblewrap")
MODULES: dict[str, tuple[int, tuple[tuple[str, ...], ...]]] = {
    "grader/labs/tolerance.py": (8, (BOUND, MARGIN)),
    "grader/judging/slice_sums.py": (8, (JUDGING, SLICES)),
    "grader/judging/checking.py": (40, (CHECKING, JUDGING, BOUND, MARGIN)),
    "grader/judging/scoring.py": (6, (JUDGING,)),
    "grader/judging/ratios.py": (4, (JUDGING,)),
    "grader/judging/points.py": (4, (JUDGING,)),
    "grader/judging/correctness_tests.py": (4, (JUDGING,)),
    "grader/timing/freivalds.py": (8, (("tests/unit/timing/test_freivalds.py",),)),
    "grader/sandbox/confinement.py": (10, (WALLS, SANDBOX, BUDGETS, OTHER_USER)),
    "grader/sandbox/usage.py": (10, (USAGE, BUDGETS)),
    "grader/sandbox/inside/isolation.py": (10, (WALLS, BUDGETS)),
    "grader/sandbox/inside/system_calls.py": (10, (SYSTEM_CALLS, WALLS)),
}
"""How many mutants of a module, and pytest's arguments for the tests that are to notice them, quick ones first."""

OPERATORS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in", ast.NotIn: "in",
    ast.Is: "is not", ast.IsNot: "is", ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "+",
    ast.Pow: "*", ast.And: "or", ast.Or: "and", ast.BitAnd: "|", ast.BitOr: "&",
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """One change of a module: `put` in place of the characters from `start` to `stop`."""

    module: str
    start: int
    stop: int
    put: str

    def text(self, source: str) -> str:
        return source[: self.start] + self.put + source[self.stop :]


def mutants(module: str, source: str) -> Iterator[Mutant]:
    """Every one of a module, those that change messages alone left out."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def at(line: int, column: int) -> int:
        text = source[starts[line - 1] : starts[line]]
        return starts[line - 1] + len(text.encode()[:column].decode())

    def end(node: ast.expr) -> int:
        return at(node.end_lineno or 0, node.end_col_offset or 0)

    def between(left: ast.expr, right: ast.expr, put: str) -> Mutant:
        start, stop = end(left), at(right.lineno, right.col_offset)
        found = source[start:stop]
        inner = found.strip(" \n()")
        begin = start + found.index(inner)
        return Mutant(module, begin, begin + len(inner), put)

    def whole(node: ast.expr, put: str) -> Mutant:
        return Mutant(module, at(node.lineno, node.col_offset), end(node), put)

    for node in _walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
                yield between(left, right, OPERATORS[type(operator)])
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            yield between(node.left, node.right, OPERATORS[type(node.op)])
        elif isinstance(node, ast.BoolOp):
            yield between(*node.values[:2], OPERATORS[type(node.op)])
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield whole(node, ast.unparse(node.operand))
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield whole(node, str(not node.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            yield whole(node, repr(node.value + 1 if isinstance(node.value, int) else 2 * node.value or 1.0))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            yield whole(node.func, CALLS[node.func.id])


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Without types, texts and tables, whose changes nothing shows or everything does."""
    yield node
    for name, field in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list") or isinstance(node, ast.Dict):
            continue
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield from _walk(child)


def sample() -> list[Mutant]:
    """Those that are run."""
    found = []
    for module, (count, _) in MODULES.items():
        every = list(mutants(module, (ROOT / module).read_text(encoding="utf-8")))
        found += random.Random(module).sample(every, min(count, len(every)))
    return found


def noticed(mutant: Mutant, tests: tuple[str, ...], copy: Path) -> str:
    """Which test fails first, or what else went wrong; "" where all pass. copy: of the repository, changed while they run."""
    source = (ROOT / mutant.module).read_text(encoding="utf-8")
    (copy / mutant.module).write_text(mutant.text(source), encoding="utf-8")
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        os.chdir(copy)
        sys.path[:] = [str(copy), *(place for place in sys.path if Path(place).resolve() != ROOT)]
        for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "grader")]:
            del sys.modules[name]
        written = os.open(copy / SAID, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(written, 1)
        os.dup2(written, 2)
        import pytest

        options = ["-x", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", "-m", "not gpu", "--hypothesis-seed=0"]
        os._exit(pytest.main([*options, *tests]) != 0)
    status = os.waitpid(child, 0)[1]
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    (copy / mutant.module).write_text(source, encoding="utf-8")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", (copy / SAID).read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    return "" if status == 0 else failed[1] if failed else "no end, or nothing that could be collected"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/mutants.json"))
    parser.add_argument("--only", default="", metavar="WORD", help="mutants of modules with this in their path")
    options = parser.parse_args()
    import hypothesis  # noqa: F401
    import torch
    import triton  # noqa: F401

    torch.set_num_threads(1)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    score: dict[str, list[bool]] = {}
    with tempfile.TemporaryDirectory() as folder, options.out.open("w", encoding="utf-8") as out:
        Path(folder).chmod(0o755)  # another user's process imports from it, too
        copy = Path(folder) / "repository"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", ".hypothesis", "build", "__pycache__"))
        for mutant in sample():
            if options.only not in mutant.module:
                continue
            runs = MODULES[mutant.module][1]
            if mutant.module not in score:
                unchanged = Mutant(mutant.module, 0, 0, "")
                assert not any(noticed(unchanged, tests, copy) for tests in runs), (
                    f"the tests of {mutant.module} fail as they are"
                )
            began = time.monotonic()
            by = next((by for tests in runs if (by := noticed(mutant, tests, copy))), "")
            score.setdefault(mutant.module, []).append(bool(by))
            source = (ROOT / mutant.module).read_text(encoding="utf-8")
            line = source.count("\n", 0, mutant.start) + 1
            was = source[mutant.start : mutant.stop]
            out.write(json.dumps({"module": mutant.module, "line": line, "was": was, "put": mutant.put, "noticed": by,
                                  "seconds": round(time.monotonic() - began)}) + "\n")
            out.flush()
    for module, all_of_it in score.items():
        print(f"{module}: {sum(all_of_it)} of {len(all_of_it)}")
    print(f"{sum(map(sum, score.values()))} of {sum(map(len, score.values()))} mutants noticed")


if __name__ == "__main__":
    main()
