"""One secrets file for everything: where it is looked for, what is refused because it would be ignored, how it is written."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from grader.classroom import secrets_file
from grader.classroom.secrets_file import secrets_in_force, write_secrets
from grader.labs import all_labs, get_lab
from grader.unusable import Unusable
from tests.commands import invoked
from tests.submissions import TESTS

CASE = '[[case]]\nlab = "w8a8"\nname = "hidden_{}"\nM = 9\nN = 16\nK = 32\n'
TEXT = f"seed = 5\n{CASE.format(1)}"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository whose secrets file may be written."""
    monkeypatch.delenv("GRADER_SECRETS")
    monkeypatch.setattr(secrets_file, "REPOSITORY", tmp_path / "repository")
    (tmp_path / "repository").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "repository"


def test_the_file_lies_in_the_repository_from_wherever_a_command_runs(repository, tmp_path, monkeypatch):
    (repository / "secrets.toml").write_text(TEXT)
    for folder in (tmp_path, repository, repository / "course"):
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        found = secrets_in_force(near=folder)
        assert (found.secrets.seed, found.path) == (5, repository / "secrets.toml")


def test_the_repository_is_the_one_that_the_grader_runs_from():
    assert TESTS.parent == secrets_file.REPOSITORY


def test_without_a_file_it_says_so(repository):
    found = secrets_in_force(near=repository)
    assert (found.secrets, found.path) == (None, None)
    assert found.sentence(all_labs().values()) == "hidden cases: none, there is no repository/secrets.toml (`make secrets` writes one)"
    assert found.labs(all_labs().values()) == list(all_labs().values())


@pytest.mark.parametrize("there", [None, TEXT.replace("5", "6")])
def test_a_file_that_would_be_ignored_is_refused(repository, tmp_path, there):
    if there:
        (repository / "secrets.toml").write_text(there)
    (tmp_path / "secrets.toml").write_text(TEXT)
    with pytest.raises(Unusable, match=r"/secrets.toml is not read: .* are .*/repository/secrets.toml; move it there"):
        secrets_in_force(near=tmp_path)
    (repository / "secrets.toml").write_text(TEXT)
    assert secrets_in_force(near=tmp_path).secrets.seed == 5, "a copy of it does no harm"


@pytest.mark.parametrize("name", ["other.toml", "absent.toml", "empty.toml"])
@pytest.mark.parametrize("how", ["option", "variable"])
def test_a_named_file_counts_alone_and_has_to_be_usable(repository, tmp_path, monkeypatch, name, how):
    (repository / "secrets.toml").write_text(TEXT)
    (tmp_path / "other.toml").write_text("seed = 7")
    (tmp_path / "empty.toml").touch()
    if how == "variable":
        monkeypatch.setenv("GRADER_SECRETS", str(tmp_path / name))
    named = tmp_path / name if how == "option" else None
    if name == "other.toml":
        assert secrets_in_force(named).secrets.seed == 7
    else:
        with pytest.raises(Unusable, match=f"{name} (cannot be read|is empty)"):
            secrets_in_force(named)


@pytest.mark.parametrize("what", ["a folder", "a link to nothing", "an empty file", "a locked file"])
def test_what_is_there_and_cannot_be_read_is_not_taken_for_none(repository, tmp_path, what):
    path = repository / "secrets.toml"
    if what == "a folder":
        path.mkdir()
    elif what == "a link to nothing":
        path.symlink_to(tmp_path / "absent")
    else:
        path.touch(0 if what == "a locked file" else 0o600)
    for near in (repository, tmp_path, None):
        with pytest.raises(Unusable, match=r"repository/secrets\.toml (cannot be read|is empty)"):
            secrets_in_force(near=near)


def test_an_empty_variable_means_none(repository, monkeypatch):
    (repository / "secrets.toml").write_text(TEXT)
    monkeypatch.setenv("GRADER_SECRETS", "")
    assert secrets_in_force().secrets is None
    with pytest.raises(Unusable, match="GRADER_SECRETS is empty"):
        write_secrets(all_labs().values())


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_an_installed_grader_keeps_no_secrets_beside_itself(tmp_path, monkeypatch, folder):
    monkeypatch.delenv("GRADER_SECRETS")
    monkeypatch.setattr(secrets_file, "REPOSITORY", tmp_path / folder)
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "secrets.toml").write_text(TEXT)
    assert secrets_in_force().sentence(all_labs().values()).endswith("give GRADER_SECRETS the path of their file")
    with pytest.raises(Unusable, match="no secrets are written, as the grader is installed"):
        write_secrets(all_labs().values())
    with pytest.raises(Unusable, match=f"{folder}/secrets.toml is not read: .* set GRADER_SECRETS to its path"):
        secrets_in_force(near=tmp_path / folder)
    monkeypatch.setenv("GRADER_SECRETS", str(tmp_path / "mine.toml"))
    assert write_secrets(all_labs().values()) == tmp_path / "mine.toml"


def test_the_sentence_counts_by_lab_where_they_differ(repository):
    (repository / "secrets.toml").write_text(TEXT + CASE.format(2))
    found = secrets_in_force()
    assert found.sentence([get_lab("w8a8")]) == "hidden cases: 2 per lab, from repository/secrets.toml"
    assert found.sentence([get_lab("w8a8"), get_lab("dds")]) == "hidden cases: w8a8 2, dds 0, from repository/secrets.toml"


def test_the_command_writes_where_the_others_find_it(repository):
    done = invoked("secrets")
    assert done.exit_code == 0
    path = repository / "secrets.toml"
    assert path.stat().st_mode & 0o777 == 0o600
    assert done.stdout.splitlines()[1] == "hidden cases: 3 per lab, from repository/secrets.toml"
    text = path.read_text()
    again = invoked("secrets")
    assert again.exit_code == 2
    assert "repository/secrets.toml exists already" in again.stderr
    assert path.read_text() == text


@pytest.mark.slow
def test_the_command_of_older_documents_leaves_no_empty_file(tmp_path):
    """`python -m grader secrets > secrets.toml`: the shell has made an empty file before the command begins."""
    path = tmp_path / "secrets.toml"
    with path.open("w") as redirected:
        environment = {**os.environ, "GRADER_SECRETS": str(path)}
        subprocess.run([sys.executable, "-m", "grader", "secrets"], cwd=TESTS.parent, env=environment, stdout=redirected, check=True)
    assert secrets_in_force(path).secrets is not None


@pytest.mark.parametrize("command", ["batch", "course", "gradescope", "release"])
def test_every_command_refuses_a_stray_file(repository, tmp_path, command):
    (tmp_path / "solutions").mkdir()
    (tmp_path / "secrets.toml").write_text(TEXT)
    (tmp_path / "class").mkdir()
    done = invoked(command, *{"batch": ["class"], "course": ["."], "gradescope": ["out.zip"], "release": []}[command])
    assert done.exit_code == 2
    assert "secrets.toml is not read" in done.stderr
