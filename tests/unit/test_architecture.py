"""Packages know only those below them: import-linter's contracts in pyproject.toml hold, and they cover every package."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

from tests.commands import python
from tests.lines_table import PARTS, rows, shown
from tests.submissions import TESTS

ROOT = TESTS.parent


def test_imports_go_one_way():
    python("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()")


def test_every_package_has_its_place():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    folders = {path.parent.name for path in (ROOT / "grader").glob("*/__init__.py")}
    assert set(layers) == folders | {path.stem for path in (ROOT / "grader").glob("[!_]*.py")}


def test_no_two_classes_have_one_name():
    places: dict[str, list[str]] = {}
    for path in [*(ROOT / "grader").rglob("*.py"), *(ROOT / "bench").rglob("*.py"), *(ROOT / "model").rglob("*.py")]:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert len(places) > 100
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_no_module_shadows_the_standard_library():
    shadows = {path.stem for path in (ROOT / "grader").rglob("*.py")} & sys.stdlib_module_names
    assert shadows - {"__init__", "__main__"} == set()


PER_LAB = ("labs", "exercises")
"""Their folders hold modules of one name each: every lab has its lab.py, every notebook its steps.py."""


def test_no_two_modules_or_folders_have_one_name():
    root, places = ROOT / "grader", defaultdict(list)
    for path in [*root.rglob("*.py"), *(folder for folder in root.rglob("*") if folder.is_dir())]:
        place = path.relative_to(root)
        if path.stem.startswith("__") or "__pycache__" in place.parts or (place.parts[0] in PER_LAB and len(place.parts) == 3):
            continue
        places[path.stem].append(place.as_posix())
    assert len(places) > 100
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


PRIVATE = {"told", "tells", "kept", "look", "looks", "looked", "looking", "waking", "desk", "ahead", "settling", "lives", "turn", "turns",
           "owes", "elsewhere", "whose", "astray"}
"""Words that this code once had for what the field calls message, cache, check, prestart, pool, iteration, outside or stray."""


def _defined(text: str) -> set[str]:
    """The names that a module gives: to functions, classes, arguments, variables, constants and attributes."""
    names = set()
    for part in ast.walk(ast.parse(text)):
        if isinstance(part, ast.FunctionDef | ast.ClassDef):
            names.add(part.name)
        elif isinstance(part, ast.Name | ast.Attribute) and isinstance(part.ctx, ast.Store):
            names.add(part.id if isinstance(part, ast.Name) else part.attr)
        elif isinstance(part, ast.arg):
            names.add(part.arg)
        elif isinstance(part, ast.alias) and part.asname:
            names.add(part.asname)
    return names


def _words(name: str) -> set[str]:
    return {word.lower() for word in re.findall("[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


@pytest.mark.parametrize("text", [
    "def kept(): ...", "class KeptBack: ...", "MAX_TOLD = 1", "def f(*, astray=1): ...", "f = lambda whose: whose", "for turn in (): ...",
    "self.told = 1", "import x as elsewhere", "a, (*b, looked) = c",
])
def test_a_private_word_is_seen_wherever_it_names_something(text):
    assert any(PRIVATE & _words(name) for name in _defined(text))


@pytest.mark.slow
def test_names_are_the_fields_words():
    paths = (path for folder in ("grader", "bench", "model") for path in (ROOT / folder).rglob("*.py"))
    given = ((path, name) for path in paths for name in (path.stem, *sorted(_defined(path.read_text(encoding="utf-8")))))
    assert [f"{path.relative_to(ROOT)}: {name}" for path, name in given if PRIVATE & _words(name)] == []


TABLE = (ast.Tuple, ast.List, ast.Dict, ast.Set)


def _is_table(node: ast.stmt) -> bool:
    """Whether a statement gives a name a table: a tuple, list, set or dictionary that is written out."""
    value = getattr(node, "value", None) if isinstance(node, ast.Assign | ast.AnnAssign) else None
    return isinstance(value, TABLE) or (isinstance(value, ast.Call) and any(isinstance(part, TABLE) for part in value.args))


@pytest.mark.slow
@pytest.mark.parametrize("package", sorted(path.parent.name for path in (ROOT / "grader").glob("*/__init__.py")))
def test_lines_are_as_the_formatter_makes_them(package):
    """Only a table may be laid out by hand."""
    folder = ROOT / "grader" / package
    python("-m", "ruff", "format", "--check", folder)
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        ends = {number for number, line in enumerate(text.split("\n"), 1) if re.search(r"# fmt: (skip|off)", line)}
        tables = {node.end_lineno for node in ast.parse(text).body if _is_table(node)}
        assert ends <= tables, f"{path}: `# fmt: skip` in lines {sorted(ends - tables)}, where no table ends"


@pytest.mark.parametrize("folder", ["tests", "bench", "model"])
def test_what_the_formatter_does_not_lay_out_tells_it_nothing(folder):
    """Only grader/ is formatted; of the rest kernels keep their marks."""
    paths = [path for path in (ROOT / folder).rglob("*.py") if path != Path(__file__)]
    assert [str(path) for path in paths if "# fmt:" in path.read_text(encoding="utf-8")] == []


def test_the_lines_in_the_tree_are_todays():
    """`python -m tests.lines_table` writes them; a tenth of a thousand is no news."""
    today = {names: lines for names, _, lines, _, _ in rows()}
    assert shown().keys() == today.keys()
    assert {names: lines for names, lines in shown().items() if abs(lines - today[names]) > 0.15} == {}


def test_every_package_has_a_budget():
    named = {name for part in PARTS for name in part.names}
    folders = {path.parent.name for path in (ROOT / "grader").glob("*/__init__.py")}
    assert named == folders | {path.name for path in (ROOT / "grader").glob("[!_]*.py")}


MOST_BRANCHES = 20
NOT_SPLIT = "Not split: "
"""What begins the sentence of a longer function's docstring that says why it is not several."""


def _branches(node: ast.AST) -> int:
    """Cyclomatic complexity as radon counts it, less 1, functions inside included; more than 20 is its D."""
    found = 0
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.If | ast.IfExp | ast.For | ast.While | ast.ExceptHandler | ast.Assert | ast.FunctionDef):
            found += 1 + bool(isinstance(part, ast.For | ast.While) and part.orelse)
        elif isinstance(part, ast.BoolOp):
            found += len(part.values) - 1
        elif isinstance(part, ast.comprehension):
            found += 1 + len(part.ifs)
        found += _branches(part)
    return found


@pytest.mark.slow
def test_a_function_of_many_branches_says_why():
    many, said, count = [], [], 0
    for path in (path for folder in ("grader", "bench", "model") for path in (ROOT / folder).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for holder in [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]:
            for part in (part for part in holder.body if isinstance(part, ast.FunctionDef)):
                place, count = f"{path.relative_to(ROOT)}: {part.name}", count + 1
                many += [place] * (_branches(part) + 1 > MOST_BRANCHES)
                said += [place] * (NOT_SPLIT in (ast.get_docstring(part) or ""))
    assert count > 1000
    assert said == many
