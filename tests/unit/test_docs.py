"""What the documents say exists: links, paths, commands; the README is short, and architecture.md names every package in order."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

from bench.__main__ import app as racing
from grader.authoring.bundle import OWN
from grader.cli.lab_commands import app as student_app
from grader.cli.main import app
from model.__main__ import app as modelling
from tests.commands import python, ran
from tests.submissions import mistakes

ROOT = Path(__file__).parents[2]
INTERPRETER = ROOT / "grader" / "interpreter"
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (
        ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "notebooks" / "HANDOUT.md", ROOT / "notebooks" / "HANDOUT.zh.md",
        *(path for folder in ("docs", "solutions", "model") for path in (ROOT / folder).glob("*.md")),
        *(path for folder in ("grader", "tests") for path in (ROOT / folder).glob("*/README.md")), *(ROOT / ".github").rglob("*.md"),
    )
)
WORKFLOWS = sorted([*(ROOT / ".github").rglob("*.yml"), *(ROOT / OWN).rglob("*.yml")])
SHOWN = (".ci", ".devcontainer", ".github")
FOLDERS = tuple(
    f"{path.name}/" for path in sorted(ROOT.iterdir())
    if path.is_dir() and (path.name in SHOWN or not path.name.startswith((".", "_", "build", "report", "course")))
)
MADE = {"secrets.toml", "nbgrader_config.py", "worklog.md"}
"""Files that a command writes, so that they are not in the repository."""


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def placed(path: str) -> str:
    """A path of a document with the placeholders of a lab filled in."""
    return path.replace("<id>", "w8a8").replace("ID", "w8a8").replace("LAB_style", "w8a8_helpers").replace("LAB", "w8a8")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", text_of(page))
    for link in links:
        if link.startswith(("http:", "https:")):
            continue
        target, _, anchor = link.partition("#")
        place = (ROOT / page).parent / target if target else ROOT / page
        assert place.exists(), f"{page} links to {link}"
        if anchor:
            assert anchor in anchors(place.read_text(encoding="utf-8")), f"{page} links to {link}"


@pytest.mark.parametrize("page", PAGES)
def test_paths_are_there(page):
    """In backticks: whatever begins with a folder of the repository, and the names of Python, TOML and Markdown files."""
    names = {path.name for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")}
    names |= {path.name for path in ROOT.iterdir()} | MADE
    for code in re.findall(r"`([^`\n]+)`", text_of(page)):
        if code.startswith(FOLDERS) and " " not in code:
            path = placed(code)
            if "<" in path or (page == "docs/new-lab.md" and "ID" in code):
                path = path[: path.rindex("/")]
            assert list(ROOT.glob(path.rstrip("/"))), f"{page} names {code}"
        elif re.fullmatch(r"[\w.-]+\.(py|toml|md)", code):
            assert placed(code) in names, f"{page} names {code}"


OF_OTHERS = {"--head", "--rm", "--security-opt", "--gpus", "--build-arg", "--extra-index-url"}
OF_OTHERS |= {"--generate", "--private", "--template", "--limit", "--json", "--jq"}
"""Options of Ray, Docker, pip and GitHub's gh that pages name."""


def options() -> set[str]:
    """Every option of a command of this repository, those of `run` and of the tests' own programs included."""
    found = {"--help"}
    for program in (*(ROOT / "tests").glob("*.py"), INTERPRETER / "__main__.py"):
        found |= set(re.findall(r'add_argument\(\s*"(--[a-z-]+)"', program.read_text(encoding="utf-8")))
    for group in map(typer.main.get_command, (app, student_app, racing, modelling)):
        for command in (group, *group.commands.values()):
            found |= {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_options_are_there(page):
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text_of(page))) <= options() | OF_OTHERS


@pytest.mark.parametrize("page", [*PAGES, "Dockerfile", (OWN / "Dockerfile").as_posix(), ".devcontainer/devcontainer.json",
                                  *(path.relative_to(ROOT).as_posix() for path in WORKFLOWS)])
def test_commands_are_there(page):
    text = text_of(page)
    targets = set(re.findall(r"^([\w-]+):", text_of("Makefile") + text_of("course.mk"), re.MULTILINE))
    said = re.findall(r"(?:`|^    |run: |&& |\n {10})make ([a-z][\w-]*)", text, re.MULTILINE)
    assert set(said) <= targets
    commands = {(command.name or command.callback.__name__).replace("_", "-") for command in app.registered_commands}
    assert set(re.findall(r"python -m grader ([a-z][\w-]*)", text)) <= commands
    for package, package_app in (("bench", racing), ("model", modelling)):
        assert set(re.findall(rf"python -m {package} ([a-z][\w-]*)", text)) <= set(typer.main.get_command(package_app).commands)
    for module in re.findall(r"python -m ((?:grader|bench|model|tests)(?:\.\w+)*)", text):
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), f"{page} runs {module}"


def test_the_interpreters_readme_names_modules_that_are_there():
    """In the last column of its tables."""
    cells = re.findall(r"^\|.*\|([^|]*)\|$", (INTERPRETER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert len(named) > 15
    assert named <= {path.stem for path in INTERPRETER.glob("*.py")}


def test_the_readme_is_short():
    assert len(text_of("README.md").splitlines()) <= 120


READERS = ["For students", "For instructors", "For engineers"]


def test_the_readme_and_make_have_a_place_for_each_reader_in_the_same_order():
    readme = text_of("README.md")
    assert [heading for heading in re.findall(r"^## (.+)$", readme, re.MULTILINE) if heading in READERS] == READERS
    assert {"make grade SUBMISSION=solutions", "make test"} <= {line.partition(" #")[0].strip() for line in readme.splitlines()}
    listed = ran("make", "help").stdout
    assert re.findall(r"^(For .+)$", listed, re.MULTILINE) == READERS
    targets = re.findall(r"^([a-z][a-z-]*):", text_of("Makefile") + text_of("course.mk"), re.MULTILINE)
    assert sorted(re.findall(r"^  make ([a-z-]+) ", listed, re.MULTILINE)) == sorted(targets)
    for reader, part in zip(READERS, re.split(r"^For .+$", listed, flags=re.MULTILINE)[1:], strict=True):
        section = readme.partition(f"## {reader}")[2].partition("\n## ")[0]
        first = re.findall(r"^ {4}make ([a-z-]+)", section, re.MULTILINE)
        here = set(re.findall(r"^  make ([a-z-]+) ", part, re.MULTILINE))
        assert set(first) <= here | {"grade"}, f"{reader}: a command of the README that make lists for somebody else"


def test_both_readmes_have_the_same_path_through_the_notebooks():
    tables = [re.findall(r"^\| \[\w+\.ipynb\].+$", text_of(page), re.MULTILINE) for page in ("README.md", (OWN / "README.md").as_posix())]
    assert tables[0] == tables[1]
    assert [re.search(r"\w+", row)[0] for row in tables[0]] == ["opening", "w8a8", "w4a16", "dds"]


def test_architecture_names_every_package_in_the_order_of_the_layers():
    project = tomllib.loads(text_of("pyproject.toml"))
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    section = text_of("docs/architecture.md").partition("## Packages")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `grader/([\w.]+?)(?:/|\.py)` \|", section, re.MULTILINE)
    assert rows == layers


def test_every_place_that_decides_is_one_click_from_the_readme():
    assert "docs/architecture.md#where-is-x-decided" in text_of("README.md")
    section = text_of("docs/architecture.md").partition("## Where is X decided?")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| (.+) \|$", section, re.MULTILINE)[1:]
    named = {row[0].split(":")[0].strip() for row in rows}
    assert {"tolerance", "message of a compile error", "diagnosis", "tier", "rubric", "Canvas column",
            "a lab's cases", "sandbox walls", "clock"} <= named
    assert [what for what, where in rows if "`" not in where] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_and_forms_are_yaml(path):
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    if "body" in document:
        assert {"name", "description"} <= set(document)
        ids = [part["id"] for part in document["body"] if part["type"] != "markdown"]
        assert len(set(ids)) == len(ids) >= 3
    elif "jobs" in document:
        for job in document["jobs"].values():
            assert all(("uses" in step) != ("run" in step) for step in job["steps"])


@pytest.mark.slow
def test_the_report_of_the_readme_is_a_real_one(tmp_path):
    """The kernel that truncates, graded with the seed that the report names; the README leaves rows out and nothing else."""
    said = text_of("README.md").partition("<!-- report: begin -->\n")[2].partition("<!-- report: end -->")[0]
    wrong = next(mistake for mistake in mistakes() if (mistake.lab, mistake.name) == ("w8a8", "truncation"))
    path = tmp_path / "w8a8.py"
    path.write_text(wrong.source, encoding="utf-8")
    seed = re.search(r"seed (\d+)", said)[1]
    printed = python("-m", "grader", "grade", path, "--lab", "w8a8", "--device", "cpu", "--seed", seed, COLUMNS="96")

    def comparable(text: str) -> list[str]:
        """Lines without what depends on the machine: versions, the binary's facts, seconds."""
        text = re.sub(r"^ *config \d+ \(.*?\n(?= *(?:config|\.\.\.|\n))", "", text, flags=re.DOTALL | re.MULTILINE)
        text = re.sub(r"torch \S+ triton \S+", "", text)
        return [re.sub(r"in [\d.]+ s$", "", line.strip()) for line in text.splitlines() if line.strip()]

    real = iter(comparable(printed))
    for line in itertools.filterfalse("...".__eq__, comparable(said)):
        assert line in real, f"the report has no line {line!r} after those before it"
