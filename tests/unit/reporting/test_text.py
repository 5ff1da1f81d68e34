"""A table of hostile strings through every output: nothing acts, nothing breaks a format, nothing vanishes."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import sys
import unicodedata
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.classroom.batch.exports import canvas_csv, grades_csv, grades_jsonl, moodle_csv
from grader.classroom.batch.hand_in import HandIn
from grader.classroom.batch.journal import Journal
from grader.classroom.batch.marks import Rules
from grader.classroom.batch.pages import page_name
from grader.classroom.batch.standing import Graded, standings
from grader.classroom.gradescope.results import results
from grader.labs import get_lab
from grader.model import Config, Device, LabReport, Report, TestResult
from grader.reporting import page as html
from grader.reporting import terminal
from grader.reporting.compact import Remark
from grader.reporting.document import document
from grader.reporting.inline import Inline
from grader.reporting.junit import junit
from grader.reporting.text import Terminal, cell, json_text, name, prose

FORMULAS = [
    '=HYPERLINK("http://x")', "+1+cmd|'/C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1", "\n=1", " =1", "\u00a0=1", "\u3000=1",
    "＝1", "＋1+1", "－1+1", "＠x", "﹦1", "\u2212 1", "\u200e=1", "\u202e=1", "\ufeff=1", "\u0301=1", "'=1", '"=1', "a;=1", "a,=1",
    "a|=1", "x;\u3000＝1", "\x00=1", "\u200b\u200b=1", "\u2064=1",
]
STRINGS = [
    *FORMULAS, "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "\x9b2J", "\x08\x08\x08100",
    "\u202e001", "\u2067x\u2069", "\u200fx", "\u061cx", "a\u200bb", "\u2028x", "\ud800", "\udcce\udcd2", "\ufffe", "\uffff", "\x00", "\x7f",
    "<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "'; DROP TABLE grade; --", "{{ 7*7 }}", "[red]x[/red]", "[/]",
    "]]>", "&amp;&#x6a;", "%s%n", "\U000e0041\U000e0042", "x" * 5000, "李雷", "José", "🙂", "\r\n✓ w8a8: 100 of 100 points",
]
DEVICE = Device("cpu", "Triton's interpreter on the CPU", None, None, "2.11.0", "3.6.0", "bubblewrap")


def reported(text: str) -> Report:
    """A report that says a string wherever a student's words can come to stand."""
    tests = (
        TestResult("one_tile", "correctness", "failed", 0.0, 30.0, text, text, {"mistake": None, text: math.inf}),
        TestResult("memory", "memory", "failed", 0.0, 10.0, text, None),
    )
    config = Config(0, {"BLOCK_M": text, text: math.nan, "X": -math.inf}, 4, 1)
    lab = LabReport(
        "w8a8", get_lab("w8a8").title, "graded", text, tests, 0.0, 60.0, "skipped", 0.0, 40.0, 60.0, configs=(config,)
    )
    refused = replace(lab, lab_id="dds", status="rejected", tests=(), configs=())
    return Report(text, DEVICE, 7, {"w8a8": lab, "dds": refused}, (text,))


def harmless(text: str, also: str = "") -> None:
    """Only characters that a person sees, in the order in which they stand."""
    acting = [
        one for one in text if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp") and one not in "\n\t" + also
    ]
    assert not acting, [hex(ord(one)) for one in acting]
    text.encode("utf-8")


def one_standing(text: str):
    hand_in = HandIn(text, text, text, Path("x"), datetime(2026, 11, 20, tzinfo=UTC))
    return standings([Graded(hand_in, reported(text), (text,))], Rules())


every = pytest.mark.parametrize("text", STRINGS, ids=[ascii(text)[:40] for text in STRINGS])


@every
def test_terminal(text):
    out = io.StringIO()
    terminal.show(reported(text), Terminal(file=out, width=200, highlight=False))
    harmless(out.getvalue())
    coloured = io.StringIO()
    console = Terminal(file=coloured, width=200, force_terminal=True, color_system="standard")
    console.print(text, markup=False)
    assert "\x1b]" not in coloured.getvalue()
    assert "\x9b" not in coloured.getvalue()


@every
def test_pages_and_cells(text, monkeypatch):
    monkeypatch.setattr(html, "image", lambda draw: None)
    whole = html.page(reported(text))
    for page in (whole, Inline([Remark(text, "red")])._repr_html_(), repr(Inline([Remark(text)]))):
        harmless(page)
        if "<script" in text or "<img" in text:
            assert text not in page or page == text
    assert "<script>alert" not in whole


def test_a_caret_stands_below_its_place_in_a_notebook():
    """Outside <pre> a front end joins spaces, and letters differ in width."""
    told = "add: line 5: no\n  at = tl.arange(BLOCK) < n\n       ^^^^^^^^^\nNext: write tl.arange(0, SIZE)"
    page = Inline([Remark(told, "red")])._repr_html_()
    assert ">  at = tl.arange(BLOCK) &lt; n\n       ^^^^^^^^^</pre>" in page
    assert "<div>add: line 5: no</div><pre" in page


@every
def test_tables(text):
    for table in (grades_csv, canvas_csv, moodle_csv):
        written = table(one_standing(text))
        harmless(written)
        rows = list(csv.reader(io.StringIO(written)))
        assert len({len(row) for row in rows}) == 1
        for field in (field for row in rows for field in row):
            for part in field.replace(",", ";").replace("|", ";").split(";"):
                folded = unicodedata.normalize("NFKC", part).lstrip()
                numeric = field == "-" or field.lstrip("-").replace(".", "").isdigit()
                assert numeric or folded[:1] not in set("=+-@\u2212"), field


@every
def test_json_lines_and_documents(text):
    for written in (grades_jsonl(one_standing(text)), json_text(document(reported(text)))):
        written.encode("utf-8")
        for line in written.splitlines():
            found = json.loads(line, parse_constant=lambda word: pytest.fail(word))
            json.dumps(found, ensure_ascii=False).encode("utf-8")


@every
def test_junit(text):
    written = junit(reported(text))
    harmless(written)
    assert len(ElementTree.fromstring(written.encode("utf-8"))) == 2


@every
def test_gradescope(text):
    harmless(json.dumps(results(reported(text)), ensure_ascii=False))


@every
def test_journal_and_file_names(text, tmp_path):
    report = reported(text).labs["w8a8"]
    with Journal(tmp_path / "journal.sqlite") as journal:
        journal.put("key", report)
        kept = journal.get("key")
    assert repr(kept) == repr(report)  # nan is not equal to itself
    page = page_name(one_standing(text)[0])
    (tmp_path / page).write_text("x")
    assert os.path.basename(page) == page
    harmless(page)


def test_names_that_are_no_utf8_are_shown_by_their_bytes():
    assert name(os.fsdecode("李雷".encode("gbk"))) == "\\xc0\\xee\\xc0\\xd7"
    assert name("a\nb\tc") == "a\\u000ab\\u0009c"
    assert prose("a\nb\tc") == "a\nb\tc"
    for plain in ("José Ñandú", "李雷", "Ольга", "a\u3000b", "🙂", "x = a @ b  # café"):
        assert prose(plain) == name(plain) == plain


@pytest.mark.parametrize(
    "value", [0, -1, 2.5, -0.25, 10**9, "-", "-5", "+3.25", "", "12:30", "ann", "a-b", "mail@example.org"]
)
def test_what_is_no_formula_stays_as_it_is(value):
    assert cell(value) == value
    assert type(cell(value)) is type(value)


@given(st.text(st.characters(exclude_categories=()), max_size=50))
def test_whatever_it_is_prose_is_harmless_and_stable(text):
    harmless(prose(text))
    harmless(name(text))
    assert prose(prose(text)) == prose(text)
    assert "\n" not in name(text)
    json.loads(json_text({text: [text, {"x": text}]})).values()


def test_every_acting_character_of_unicode_is_written_out():
    acting = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    everything = "".join(chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in acting)
    harmless(prose(everything))


def test_numbers_that_json_has_no_word_for():
    assert json.loads(json_text([math.inf, -math.inf, math.nan, 10**5000, True, 1])) == [
        "inf", "-inf", "nan", "a whole number of 16610 bits", True, 1,
    ]
