"""The table of what is said of wrong kernels: its verdicts, the lines of an edit, and a sample of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests import explain_table
from tests.explain_table import (
    Worker,
    compared,
    every,
    file_of,
    graded,
    judged,
    loaded,
    replayed,
    run,
    summary,
    verdict,
)
from tests.explained_kernels import Kernel, blind_kernels, edited, right_kernels, wrong_kernels

BASE = "a\nb\nc\nd"
WRONG = Kernel("w8a8", "any", "single", "", ("truncation or floor_rounding", "no_clamp"), (3,))


@pytest.mark.parametrize(
    ("text", "lines"),
    [("a\nB\nc\nd", (2,)), ("a\nb\nx\ny\nc\nd", (3, 4)), ("a\nc\nd", (1, 2)), ("A\nb\nc\nd\ne", (1, 5)), (BASE, ())],
)
def test_the_edited_lines_are_those_of_the_wrong_text(text, lines):
    assert edited(BASE, text) == lines


@pytest.mark.parametrize(
    ("claimed", "lines", "expected"),
    [
        (["truncation"], [[4]], "named"),
        (["no_clamp", "floor_rounding"], [[4], []], "named"),
        (["no_clamp or zeros"], [[]], "named"),
        (["no_clamp", "zeros"], [[4], [5]], "false"),
        (["zeros"], [[3]], "false"),
        ([], [[4]], "observed"),
        ([], [[]], "nothing"),
        ([], [], "nothing"),
    ],
)
def test_a_verdict_is_about_every_name(claimed, lines, expected):
    assert verdict(WRONG, ["said"] * len(lines), claimed, [], lines) == expected


def test_whatever_is_said_of_a_right_kernel_is_false():
    right = replace(WRONG, kind="right", expected=(), edited=None)
    assert verdict(right, [], [], [], []) == "nothing"
    assert verdict(right, ["something"], [], [], [[]]) == "false"
    assert verdict(right, [], [], ["line 3 reads past X"], []) == "false"


def test_what_is_said_of_a_kernel_written_blind_is_for_a_reader(tmp_path):
    (tmp_path / "dds_01.py").write_text("text", encoding="utf-8")
    wrong = '[{says = "One.", lines = [3]}, {says = "Two.", lines = [7, 8]}]'
    entry = f'[[kernel]]\nlab = "dds"\nfile = "dds_01.py"\nmistakes = {wrong}\n'
    (tmp_path / "truth.toml").write_text(entry, encoding="utf-8")
    (kernel,) = blind_kernels(tmp_path)
    assert (kernel.name, kernel.kind, kernel.edited, kernel.truth) == ("dds_01", "several", (3, 7, 8), ("One.", "Two."))
    assert verdict(kernel, ["said"], ["zeros"], [], [[3]]) == "to judge"
    assert verdict(kernel, ["said"], [], [], [[]]) == "nothing"


def test_a_file_of_a_class_holds_what_its_folder_held(tmp_path):
    one = '[[kernel]]\nlab = "dds"\nname = "dds_01"\nmistakes = [{says = "One.", lines = [3]}]\ntext = "x = 1"\n'
    edit = f'base = "{tmp_path}/c.toml:dds_01"\nedits = [{{ find = "1", replace = "2" }}]\n'
    (tmp_path / "c.toml").write_text(f'{one}[[kernel]]\nlab = "dds"\nname = "right/dds_r1"\nmistakes = []\n{edit}', encoding="utf-8")
    found = [(kernel.name, kernel.kind, kernel.source, kernel.edited) for kernel in blind_kernels(tmp_path / "c.toml")]
    assert found == [("dds_01", "single", "x = 1", (3,)), ("right/dds_r1", "right", "x = 2", None)]


def test_every_kernel_is_there_once():
    kernels = [*wrong_kernels(), *right_kernels()]
    names = [(kernel.lab, kernel.name, kernel.kind) for kernel in kernels]
    assert len(names) == len(set(names)) > 500
    assert all(kernel.expected and kernel.edited != () for kernel in kernels if kernel.kind != "right")


@pytest.mark.slow
def test_a_sample_of_the_table(tmp_path):
    """Of the corpus' own kernels something true is said, on a line; the two tables of one run are alike."""
    single = [kernel for kernel in wrong_kernels() if kernel.lab == "w8a8" and kernel.kind == "single"]
    right = next(kernel for kernel in right_kernels() if kernel.lab == "dds")
    records = run([*every(single, 3), right], 1, tmp_path / "table.json")
    assert {record["verdict"] for record in records if record["kind"] == "single"} <= {"named", "observed"}
    assert all(record["off"] is not None and record["cpu"] > 0 for record in records if record["kind"] == "single")
    assert loaded(tmp_path / "table.json") == json.loads(json.dumps(records))
    text = compared(records, records)
    assert "## 0 kernels of which something else is said" in text
    assert text.count(summary(records)) == 2
    assert "1 right kernels, 0 accused" in text


@pytest.mark.slow
def test_of_what_was_captured_the_same_is_said_again_and_nothing_is_interpreted(tmp_path, monkeypatch):
    kernel = next(kernel for kernel in wrong_kernels() if (kernel.lab, kernel.name) == ("w8a8", "truncation"))
    (graded,) = run([kernel], 1, tmp_path / "graded.json", tmp_path)
    monkeypatch.setattr("tests.recorded_failures.interpret", None)
    again = replayed(kernel, tmp_path / file_of(kernel))
    alike = ("verdict", "claimed", "off", "lab", "name", "failed")
    assert [again[name] for name in alike] == [graded[name] for name in alike]
    assert set(again["said"]) <= set(graded["said"])  # which has what is said of hidden cases as well
    assert again["said"]


@pytest.mark.slow
def test_a_right_kernel_that_is_wrong_is_accused():
    kernel = next(kernel for kernel in wrong_kernels() if (kernel.lab, kernel.name) == ("w8a8", "truncation"))
    record = judged(replace(kernel, kind="right"), graded(kernel))
    assert record["verdict"] == "false"
    assert "accused" in summary([record])


@pytest.mark.slow
def test_a_kernel_that_takes_too_long_is_a_row_and_the_next_one_is_graded(monkeypatch):
    kernel = next(kernel for kernel in wrong_kernels() if (kernel.lab, kernel.name) == ("w8a8", "truncation"))
    worker = Worker()
    with monkeypatch.context() as patched:
        patched.setattr(explain_table, "SECONDS", 0.5 - explain_table.START_SECONDS)
        late = worker.ask(kernel)
    assert (late["verdict"], late["status"]) == ("nothing", "not graded")
    assert "took more than" in late["message"]
    assert f"{kernel.lab}-{kernel.name} (single): took more than" in summary([late])
    try:
        assert worker.ask(kernel)["verdict"] == "named"
    finally:
        worker.end()
