"""`python -m grader tokens`: who gets one, in which file, and which ends."""

from __future__ import annotations

import csv
import stat

import pytest
from typer.testing import CliRunner

from grader.classroom.server.store import Store, digest
from grader.cli.main import app


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "roster.csv").write_text("login,name,email\nann,Ann Doe,ann@example.org\n=cmd,<b>,\n", encoding="utf-8")

    def tokens(*options):
        return CliRunner().invoke(app, ["tokens", "course.sqlite", *options])

    return tokens


def written(path):
    return {row["login"]: row for row in csv.DictReader(path.open(encoding="utf-8"))}


def test_a_roster_gets_tokens_once_and_a_lost_one_is_replaced(run, tmp_path):
    everybody = ("--roster", "roster.csv", "--instructor", "prof", "--out", "tokens.csv")
    assert run(*everybody).exit_code == 0
    file = tmp_path / "tokens.csv"
    first = written(file)
    assert list(first) == ["ann", "'=cmd", "prof"], "a spreadsheet takes no login for a formula"
    assert first["ann"]["email"] == "ann@example.org"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert b"lab_" not in (tmp_path / "course.sqlite").read_bytes()
    file.unlink()
    assert run(*everybody).exit_code == 0
    assert not file.exists(), "who has one keeps it"
    assert run("--renew", "ann", "--out", "tokens.csv").exit_code == 0
    store = Store(tmp_path / "course.sqlite")
    assert store.member(digest(first["ann"]["token"])) is None
    assert store.member(digest(written(file)["ann"]["token"])).name == "Ann Doe"
    assert store.member(digest(first["prof"]["token"])).instructs
    assert run("--revoke", "prof").exit_code == 0
    assert store.member(digest(first["prof"]["token"])) is None
    assert "prof  instructor  no token in force" in run().output
    store.close()


@pytest.mark.parametrize("options", [("--renew", "nobody"), ("--revoke", "nobody"), ("--roster", "none.csv")])
def test_who_is_not_there_is_a_sentence(run, options):
    done = run(*options)
    assert (done.exit_code, "Traceback" in done.output) == (2, False)
