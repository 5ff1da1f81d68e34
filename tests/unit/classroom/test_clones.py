"""A clone's time is that of its newest commit, read without the clone's own settings, which could run a program."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime

import pytest
import yaml

from grader.authoring.bundle import student_files
from grader.classroom.batch.times import committed
from tests.commands import ran
from tests.deliveries import delivered
from tests.submissions import TESTS
from tests.unit.classroom.test_accounts import fates
from tests.unit.classroom.test_intake import by_student, collect, write

ROOT = TESTS.parent
WHEN = datetime(2026, 11, 20, 23, 58, tzinfo=UTC)


def git(folder, *arguments):
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    dates = {"GIT_COMMITTER_DATE": f"{int(WHEN.timestamp())} +0100", "GIT_AUTHOR_DATE": "1000000000 +0000"}
    environment = {**os.environ, **who, **dates, "GIT_CONFIG_GLOBAL": "/dev/null"}
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, env=environment, capture_output=True)


@pytest.fixture(params=["sha1"])
def clone(tmp_path, request):
    folder = write(tmp_path / "class" / "lab-1-ann", "grader/model.py", "assignment/w8a8.py", "README.md")
    git(folder, "init", "-q", "-b", "main", f"--object-format={request.param}")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "work")
    return folder


@pytest.mark.parametrize("clone", ["sha1", "sha256"], indirect=True)
def test_the_newest_commit_tells_the_time(clone, tmp_path):
    (found,) = collect(clone.parent, tmp_path / "w")
    assert (found.student, found.platform, found.submitted) == ("lab-1-ann", "clone", WHEN)
    git(clone, "pack-refs", "--all")
    git(clone, "gc", "-q")
    assert committed(clone) == WHEN
    git(clone, "checkout", "-q", "--detach")
    assert committed(clone) == WHEN


def test_a_clone_whose_grader_was_deleted_has_its_time(clone, tmp_path):
    shutil.rmtree(clone / "grader")
    (found,) = collect(clone.parent, tmp_path / "w")
    assert (found.student, found.submitted) == ("lab-1-ann", WHEN)


def test_what_students_were_given_is_no_loss(tmp_path):
    """A clone holds hundreds of files, of which one is theirs: the others are counted as of the handout, and nothing is to be looked at."""
    folder = tmp_path / "class" / "lab-ann"
    files = student_files(ROOT)
    delivered(folder, files)
    write(folder, "assignment/w8a8.py", "own_notes.txt")
    write(folder, "my/dds.py", text="def DDS_MM(x_ptr):\n    x = 1\n")
    (one,) = collect(tmp_path / "class", tmp_path / "w2")
    assert [note for note in one.notes if "was not read" in note] == ["lab-ann/my/dds.py was not read: files of another folder are graded"]
    found = fates(tmp_path / "class", tmp_path)
    assert len(found) == len(files) + 2
    others = {name: fate for name, fate in found.items() if fate != "of the handout"}
    assert others == {"lab-ann/assignment/w8a8.py": "graded", "lab-ann/own_notes.txt": "left out", "lab-ann/my/dds.py": "left out"}


def test_no_setting_of_the_clone_runs_anything(clone, tmp_path):
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    for name in ("core.fsmonitor", "core.pager", "gpg.program", "core.sshCommand", "core.alternateRefsCommand", "credential.helper"):
        git(clone, "config", name, str(program))
    git(clone, "config", "log.showSignature", "true")
    git(clone, "config", "core.hooksPath", str(tmp_path))
    (tmp_path / "ran").unlink(missing_ok=True)
    assert committed(clone) == WHEN
    assert by_student(clone.parent, tmp_path)["lab-1-ann"].submitted == WHEN
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "head", ["", "x" * 1000, "ref: refs/heads/none", "ref: ../../../secret", "ref: refs/../../../secret", "0" * 40, "\0", "-" * 40]
)
def test_what_is_no_commit_is_no_time(clone, tmp_path, head):
    (tmp_path / "secret").write_text("0" * 40)
    (clone / ".git" / "HEAD").write_text(head)
    assert committed(clone) is None
    (clone / ".git" / "HEAD").unlink()
    os.mkfifo(clone / ".git" / "HEAD")
    assert committed(clone) is None


@pytest.mark.slow
def test_the_workflow_in_the_template_runs_in_a_clean_clone(tmp_path):
    """Its own commands, in a clone of what students get; only the installation is this machine's."""
    template, clone = delivered(tmp_path / "template", student_files(ROOT)), tmp_path / "clone"
    git(tmp_path, "init", "-q", "-b", "main", str(template))
    git(template, "add", "-A")
    git(template, "commit", "-q", "-m", "template")
    git(tmp_path, "clone", "-q", str(template), str(clone))
    steps = yaml.safe_load((clone / ".github" / "workflows" / "grade.yml").read_text())["jobs"]["grade"]["steps"]
    commands = {step["name"]: step["run"] for step in steps if "run" in step}
    variables = {"VENV": "", "PYTHON": sys.executable, "MAKEFLAGS": "", "GITHUB_STEP_SUMMARY": ""}
    for name in ("Install", "Grade", "Summary"):
        done = ran("bash", "-e", "-c", commands[name], cwd=clone, **variables)
        assert done.returncode == 0, (name, done.stderr)
    assert "| w8a8 | not_attempted | 0 of 100 |" in done.stdout
    assert (clone / "report" / "index.html").exists()
