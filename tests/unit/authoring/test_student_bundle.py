"""Students get no solution and no secret; what they get is enough to grade their own work."""

from __future__ import annotations

import json
import posixpath
import re
import shutil
import tomllib
import zipfile

import pytest

from grader.authoring.bundle import INSTRUCTORS, student_files, write_bundle
from grader.classroom.hidden_cases import draw
from grader.labs import all_labs
from grader.reporting.benchmarks import SHOWN
from grader.reporting.whole_models import SHOWN_MODELS
from grader.unusable import Unusable
from tests.submissions import TESTS
from tests.unit.test_docs import anchors

ROOT = TESTS.parent


def seed_of(secrets: str) -> int:
    return int(tomllib.loads(secrets)["seed"])


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "repository"
    for folder in ("assignment", "notebooks", "grader", "bench", "model"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Makefile", "LICENSE", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, root / name)
    (root / "secrets.toml").write_text(draw(all_labs().values()))
    return root


def test_no_solution_and_no_secret_is_in_it(repository, tmp_path):
    out = tmp_path / "student.zip"
    count = write_bundle(repository, out, repository / "secrets.toml")
    names = zipfile.ZipFile(out).namelist()
    assert len(names) == count
    assert {
        "assignment/w8a8.py", "notebooks/dds.ipynb", "notebooks/zh/dds.ipynb", "notebooks/HANDOUT.md", "grader/cli/main.py", "Makefile",
        SHOWN.as_posix(), "model/swap.py", "model/weights/base.safetensors", "model/weights/base.json", "model/results.json",
    } <= set(names)
    shown = {path.as_posix() for path in (SHOWN, *SHOWN_MODELS.values()) if (ROOT / path).is_file()}
    assert {name for name in names if name.startswith("bench/results")} == shown
    others = ("solutions", "tests", "notebooks/source", "bench/labs", *INSTRUCTORS)
    assert not any(name.startswith(others) for name in names)
    assert "secrets.toml" not in names


def test_no_wrong_kernel_is_in_it_that_tells_what_is_right(repository, tmp_path):
    """Edits of right kernels: neither in the archive nor, in whatever folder, in the installed package."""
    listed = sorted(path.relative_to(repository).as_posix() for path in (repository / "grader").rglob("mistakes.toml"))
    assert len(listed) == len(all_labs()) + 1, "one for each lab and one for all"
    write_bundle(repository, tmp_path / "student.zip", None)
    for name in zipfile.ZipFile(tmp_path / "student.zip").namelist():
        assert not name.endswith("mistakes.toml")
        assert name not in listed
    packaged = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"]
    for pattern in packaged["grader"]:
        assert not {path.name for path in (repository / "grader").glob(pattern)} & {"mistakes.toml"}


PAGES = {name: data.decode() for name, data in student_files(ROOT).items() if name.endswith((".md", ".ipynb"))}


def written(text: str, name: str) -> str:
    """A page's text: a notebook's cells of text."""
    if not name.endswith(".ipynb"):
        return text
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")


@pytest.mark.parametrize("page", PAGES)
def test_every_link_and_picture_of_every_page_is_in_it(page):
    files = student_files(ROOT)
    text = written(PAGES[page], page)
    for link in re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"<img[^>]* src=.([^'\" ]+)", text):
        target, _, anchor = link.partition("#")
        if link.startswith(("http:", "https:", "data:", "attachment:")):
            continue
        place = posixpath.normpath(posixpath.join(posixpath.dirname(page), target)) if target else page
        assert place in files, f"{page} links to {link}"
        if anchor:
            assert anchor in anchors(PAGES[place]), f"{page} links to {link}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.endswith(".md")])
def test_no_page_sends_a_student_to_what_only_others_have(page):
    """Paths in backticks that begin with a folder of the repository, unless the page says that they are not handed out."""
    ours = ("docs/", "grader/", "assignment/", "notebooks/", "model/", ".github/", ".devcontainer/")
    text, files = PAGES[page], student_files(ROOT)
    named = [code for code in re.findall(r"`([^`\s<>*]+)`", text) if code.startswith(ours) and "ID" not in code]
    assert [code for code in named if not any(name == code or name.startswith(f"{code.rstrip('/')}/") for name in files)] == []
    assert [name for name in ("instructor.md", "CONTRIBUTING.md", "CHANGELOG.md") if name in text] == []


def test_it_has_what_its_readme_names_and_nothing_for_instructors():
    names = set(student_files(ROOT))
    assert {"README.md", "Dockerfile", ".devcontainer/devcontainer.json", ".github/workflows/grade.yml", "docs/student.md"} <= names
    assert [name for name in names if "instructor" in name or name in ("course.mk", "CHANGELOG.md", "docs/security.md")] == []


@pytest.mark.parametrize(
    ("place", "what", "sentence"),
    [
        ("grader/judging/rubric.toml", lambda secrets: f"# {seed_of(secrets)}", "holds the seed"),
        ("notebooks/HANDOUT.md", lambda secrets: secrets.split("[[case]]")[2].strip(), "holds a hidden case"),
        ("grader/copied.toml", lambda secrets: secrets, "is secrets.toml itself"),
        ("assignment/w8a8.py", lambda secrets: "### BEGIN SOLUTION", "holds a solution"),
    ],
)
def test_a_leak_stops_the_release(repository, tmp_path, place, what, sentence):
    secrets = (repository / "secrets.toml").read_text()
    with (repository / place).open("a") as file:
        file.write(("" if place.endswith("copied.toml") else "\n") + what(secrets))
    with pytest.raises(Unusable, match=f"{place} {sentence}"):
        write_bundle(repository, tmp_path / "student.zip", repository / "secrets.toml")
    assert not (tmp_path / "student.zip").exists()
