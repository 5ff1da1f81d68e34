"""Packages know only those below them: import-linter's contracts in pyproject.toml hold, and they cover every package."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib

from tests.submissions import TESTS

ROOT = TESTS.parent


def test_imports_go_one_way():
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_every_package_has_its_place():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    packages = {path.parent.name for path in (ROOT / "grader").glob("*/__init__.py")} | {"model", "parsing"}
    assert set(layers) == packages


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
