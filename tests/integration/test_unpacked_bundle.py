"""What students get, unpacked somewhere: every command of its README is run there, and the workflow in a repository made of it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from pathlib import Path

import pytest
import yaml

from grader.authoring.bundle import OWN, write_bundle
from grader.labs import all_labs
from tests.submissions import TESTS

ROOT = TESTS.parent
README = (ROOT / OWN / "README.md").read_text(encoding="utf-8")
COMMANDS = [line.partition(" #")[0].strip() for line in re.findall(r"^ {4}(.+)$", README, re.MULTILINE)]
WORKFLOW = ".github/workflows/grade.yml"
COURSE_LABS = sum(not lab.bonus for lab in all_labs().values())
LASTING = {
    "make notebook": (["ARGS=--no-browser --allow-root --port=0 --ServerApp.port_retries=50"], " is running at:"),
    "make watch LAB=w8a8": ([], "w8a8"),
}
"""Commands that go on until somebody ends them: what keeps them from opening a browser, and what they write once they are up."""
WITHOUT_NETWORK = {"PIP_OPTIONS": "--no-index --no-deps --no-build-isolation"}

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("unpacked bundle")]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The archive, unpacked in a folder whose name has a space; its .venv finds this Python's packages, so nothing is downloaded."""
    folder = tmp_path_factory.mktemp("unpacked")
    write_bundle(ROOT, folder / "student.zip", None)
    zipfile.ZipFile(folder / "student.zip").extractall(folder / "my lab")
    home = folder / "my lab"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home / ".venv"], check=True)
    (packages,) = (home / ".venv" / "lib").glob("python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return home


def environment() -> dict[str, str]:
    ours = ("GRADER_", "PYTHONPATH", "MAKE", "VIRTUAL_ENV", "GIT_")
    names = {"GIT_AUTHOR_NAME": "S", "GIT_AUTHOR_EMAIL": "s@example.org", "GIT_COMMITTER_NAME": "S", "GIT_COMMITTER_EMAIL": "s@example.org"}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**inherited, **names, **WITHOUT_NETWORK, "PYTHON": sys.executable, "JUPYTER_RUNTIME_DIR": tempfile.gettempdir()}


def run(home: Path, command: str) -> str:
    done = subprocess.run(["bash", "-ec", command], cwd=home, env=environment(), capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def run_until(home: Path, command: str, variant: list[str], words: str) -> None:
    """Starts a command, waits for its words, and ends it as Ctrl-C does."""
    log = home.parent / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [*shlex.split(command), *variant], cwd=home, env=environment(), stdout=out, stderr=out, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 300
        while words not in log.read_text(errors="replace"):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if process.poll() is None:
                os.killpg(process.pid, number)
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    continue


def test_its_readme_has_commands_of_every_kind():
    assert {"make notebook", "make grade", "make doctor", "make grade LAB=w8a8", "make grade SUBMISSION=assignment"} <= {*COMMANDS}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_its_readme_works_as_it_stands(home, command):
    if command.startswith("docker"):
        pytest.skip("needs a Docker daemon; the next test runs what the image is made by and what it starts")
    if command in LASTING:
        run_until(home, command, *LASTING[command])
    else:
        said = run(home, command)
        if command == "make grade":
            assert said.count("not attempted: ") == COURSE_LABS
            assert (home / "report" / "index.html").is_file()


def test_what_its_dockerfile_runs_and_starts_works(home):
    text = (home / "Dockerfile").read_text(encoding="utf-8")
    for command in re.findall(r"^RUN (make .+)$", text, re.MULTILINE):
        run(home, command.replace('PIP_OPTIONS="$PIP_OPTIONS"', ""))
    assert "graded on" in run(home, shlex.join(json.loads(re.search(r"^CMD (.+)$", text, re.MULTILINE)[1])))
    container = json.loads((home / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    assert (home / ".devcontainer" / container["build"]["dockerfile"]).resolve() == home.resolve() / "Dockerfile"
    run(home, container["postCreateCommand"])


def test_make_lists_what_is_there_for_students_only(home):
    listed = re.findall(r"^  make ([a-z-]+)", run(home, "make"), re.MULTILINE)
    assert listed == ["help", "notebook", "grade", "watch", "submit", "status", "board", "doctor", "install", "model", "clean"]
    commands = run(home, ".venv/bin/python -m grader --help")
    assert "doctor" in commands
    assert "batch" not in commands


@pytest.fixture
def repository(home, tmp_path):
    """A clone of a repository that the README's commands make of the unpacked folder, as a runner of GitHub's checks it out."""
    if not (home / ".git").is_dir():
        run(home, "\n".join(command for command in COMMANDS if command.startswith("git ")))
    run(tmp_path, f"git clone -q {shlex.quote(str(home))} checkout")
    shutil.copytree(home / ".venv", tmp_path / "checkout" / ".venv", symlinks=True)
    (tmp_path / "checkout" / ".venv" / ".installed").unlink(missing_ok=True)
    return tmp_path / "checkout"


def steps(checkout: Path) -> dict[str, str]:
    """The workflow's own commands by name, but for the one that needs root."""
    workflow = yaml.safe_load((checkout / WORKFLOW).read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    return {step["name"]: step["run"] for step in job["steps"] if "run" in step and "sudo" not in step["run"]}


def test_nothing_that_is_made_while_working_gets_into_the_repository(repository):
    assert run(repository, "git ls-files .venv report build '*.egg-info' | wc -l").strip() == "0"
    assert "make install" in steps(repository).values()


@pytest.mark.parametrize("handed_in", ["right", "nothing", "in the other folder"])
def test_the_workflow_grades_a_push(repository, handed_in):
    solution = (ROOT / "solutions" / "w8a8.py").read_text(encoding="utf-8")
    if handed_in == "right":
        notebook = repository / "notebooks" / "w8a8.ipynb"
        document = json.loads(notebook.read_text(encoding="utf-8"))
        next(c for c in document["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == "w8a8_kernel")["source"] = solution
        notebook.write_text(json.dumps(document), encoding="utf-8")
    elif handed_in == "in the other folder":
        (repository / "assignment" / "w8a8.py").write_text(solution, encoding="utf-8")
    commands = steps(repository)
    summary = commands.pop("Summary")
    grade = commands.pop("Grade")
    for command in commands.values():
        run(repository, command)
    done = subprocess.run(["bash", "-ec", grade], cwd=repository, env=environment(), capture_output=True, text=True, timeout=500)
    said = run(repository, summary)
    if handed_in == "in the other folder":
        assert done.returncode == 2
        assert "assignment/w8a8.py has W8A8_MM" in done.stderr
        assert "Nothing was graded" in said
        return
    assert done.returncode == 0, done.stderr
    points = 60 if handed_in == "right" else 0
    assert f"**{points} of {60 * COURSE_LABS} points that can be earned without a GPU**" in said
    assert f"| w8a8 | {'graded' if points else 'not_attempted'} | {points} of 100 |" in said
