"""The HTML page: what it says, that it holds nothing from outside, and that no submission can write into it."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from grader.compile_errors.named_line import named_line
from grader.labs import get_lab
from grader.model import KernelSource, SourceLine
from grader.reporting import page as html
from grader.reporting.advice import advice
from grader.reporting.document import document
from grader.reporting.listing import MAX_LINES, listing
from grader.reporting.terminal import number, total
from grader.reporting.walk_picture import drawn_walk
from tests.reports import CONFIGS, FACTS, WALK, gpu_report, hostile_report, kernel_source, wrong_report

ALLOWED_TAGS = set(
    "html head meta title style body header main section article nav h1 h2 h3 h4 p span strong a ul ol li meter div "
    "figure figcaption img svg g rect text script label input output table thead tbody tr th td code br details summary".split()
)
ALLOWED_ATTRIBUTES = set(
    "lang charset name content http-equiv class id href min max value src alt width height aria-label aria-labelledby "
    "aria-hidden role scope tabindex start viewbox x y data-step hidden type aria-live".split()
)
VOID = {"meta", "img", "br", "input"}


class Outline(HTMLParser):
    """Tags, attributes and text of a page, with a check that tags close in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if self.open and self.open[-1] not in ("style", "script") else ""

    def values(self, tag: str, name: str) -> list[str]:
        return [value for t, n, value in self.attributes if (t, n) == (tag, name)]


REPORTS = {"wrong": wrong_report, "gpu": gpu_report, "hostile": hostile_report}


@pytest.mark.parametrize("name", list(REPORTS))
def test_the_page_is_well_formed_and_made_of_known_parts_only(name: str):
    outline = Outline(html.page(REPORTS[name]()))
    assert outline.open == []
    assert set(outline.tags) <= ALLOWED_TAGS
    assert {attribute for _, attribute, _ in outline.attributes} <= ALLOWED_ATTRIBUTES
    assert all(source.startswith("data:image/svg+xml;base64,") for source in outline.values("img", "src"))
    assert all(len(alt) > 20 for alt in outline.values("img", "alt"))
    assert len(outline.values("img", "alt")) == outline.tags.count("img")
    ids = [value for _, attribute, value in outline.attributes if attribute == "id"]
    assert len(ids) == len(set(ids))
    targets = outline.values("a", "href")
    assert all(target.startswith("#") and target[1:] in ids for target in targets)
    assert outline.tags.count("h1") == 1


@pytest.mark.parametrize("name", list(REPORTS))
def test_the_page_needs_nothing_from_outside(name: str):
    text = html.page(REPORTS[name]())
    for _, attribute, value in Outline(text).attributes:
        if attribute in ("src", "href"):
            assert not re.match(r"\s*(?:[a-z]+:)?//", value)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)
    assert (script is not None) == (name == "wrong"), "the one report that has a walk"
    hashed = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode() if script else ""
    runs = f" script-src 'sha256-{hashed}';" if script else ""
    assert f"default-src 'none'; style-src 'sha256-{digest}';{runs} img-src data:" in text
    for encoded in re.findall(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", text):
        picture = base64.b64decode(encoded).decode()
        outside = re.findall(r'(?:href|src)="((?!#|data:)[^"]*)"|url\((?!#|"?data:)([^)]*)\)', picture)
        assert not outside


def test_a_walk_shows_its_first_iteration_until_a_script_moves_it_and_names_programs():
    text = html.page(wrong_report())
    steps = re.findall(r'<(\w)( data-step="\d")( hidden)?>', text)
    assert steps == [(tag, f' data-step="{at}"', ("", " hidden")[at]) for tag in "gp" for at in (0, 1)]
    assert '<p hidden><label>Iteration <input type="range" min="0" max="1" value="0">' in text
    tile = "program (0, 1) stores Y[0:32, 32:64]: 2 wrong, first Y[0, 32] = 1, expected 2"
    assert text.count(f"<title>{tile}</title></rect>") == 2, "the tile, and its frame"
    assert "<title>program (0, 0) stores Y[0:32, 0:32]: all right</title>" in text
    boxes = drawn_walk(WALK).steps
    assert [len(step) for step in boxes] == [3, 3], "a stretch of k in X, two in W"
    (x, first, second), (moved, *_) = boxes
    assert (x.x, x.width) == (1, 85)
    assert (moved.x, moved.width) == (86, 85)
    assert first.x == second.x
    assert first.y < second.y


def test_nothing_of_a_hostile_submission_becomes_markup():
    text = html.page(hostile_report())
    outline = Outline(text)
    assert "script" not in outline.tags
    assert "img" not in outline.tags
    assert "{{7*7}}" in text, "a template in a submission is text"
    assert "49" not in outline.text.replace("0049", "")
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert "\\u202e" in outline.text, "what cannot be shown is written out"
    text.encode("utf-8")


def test_the_page_says_what_the_report_says():
    report = wrong_report()
    outline = Outline(html.page(report))
    for lab in report.labs.values():
        assert lab.title in outline.text
        for test in lab.tests:
            assert test.name in outline.text
            assert test.message in outline.text
            assert not test.diagnosis or test.diagnosis in outline.text
    assert "DDS_MM is still the stub" in outline.text
    assert "Next: w8a8: `odd_m`: 2176 of 9856 elements of Y are wrong" in outline.text
    assert "no GPU: speed is not graded" in outline.text
    assert "2 files were left out" in outline.text
    assert outline.tags.count("img") == 1, "the error map of the failing case"


def test_bonus_points_stand_apart_on_page_terminal_and_in_the_document():
    report = gpu_report()
    first = next(iter(report.labs))
    report = replace(report, labs={**report.labs, "other": replace(report.labs[first], lab_id="other")})
    without = replace(report, labs={lab_id: lab for lab_id, lab in report.labs.items() if lab_id != first})
    report = replace(report, labs={**report.labs, first: replace(report.labs[first], bonus=True)})
    earned, most = report.labs[first].points, report.labs[first].max_points
    assert (report.points, report.max_points, report.gradable_points) == (
        without.points, without.max_points, without.gradable_points,
    )
    told = f"{number(report.points)} of {number(report.max_points)} points and {number(earned)} of {number(most)} bonus points"
    assert total(report) == told
    assert total(without) == told.split(" and ")[0]
    assert total(replace(report, labs={first: report.labs[first]})) == told.split(" and ")[1]
    assert f"<title>{report.submission}: {told}</title>" in html.page(report)
    written = document(report)
    assert written["bonus"] == {"points": earned, "max_points": most}
    assert [lab for lab, entry in written["labs"].items() if entry["bonus"]] == [first]


def test_speed_comes_with_interval_tiers_and_pictures():
    outline = Outline(html.page(gpu_report()))
    assert outline.tags.count("img") == 4, "tiers and roofline of two labs"
    assert "interval 1.539 to 1.553 over 45 rounds" in outline.text.replace("\n", " ")
    assert "they begin at 0.25, 0.50, 0.75, 1.00" in outline.text


def test_line_2_is_not_line_23():
    module = "\n".join(f"x{number} = {number}" for number in range(40))
    source = kernel_source(module)
    assert named_line("w8a8.ipynb cell 7 line 23: bad", source) == 24
    assert named_line("w8a8.ipynb cell 7 line 2: bad", source) == 3
    assert named_line("w8a8.ipynb cell 8 line 2: bad", source) is None
    lines = listing(source, "w8a8").around(24)
    assert [line.number for line in lines] == [20, 21, 22, 23, 24, 25]


def test_an_excerpt_ends_where_another_cell_or_statement_begins():
    source = kernel_source("\n".join(f"x{number} = {number}" for number in range(12)))
    own = [SourceLine("a", at, "f", 2) for at in (1, 2, 3)]
    beside = [SourceLine("a", at, "g") for at in (7, 8)]
    lines = listing(replace(source, lines=(*own, *beside, *(SourceLine("b", at, "h") for at in range(9, 16)))), "w8a8")
    assert [[line.number for line in lines.around(at)] for at in (1, 3, 4, 5, 6)] == [
        [1, 2, 3], [1, 2, 3], [7, 8], [7, 8], [9, 10, 11],
    ]
    assert [line.place for line in lines.lines if line.place] == ["f (step 2)", "h"]


def test_a_huge_kernel_makes_no_huge_page():
    sources = ["x = 1\n" * 200_000, "y = [" + "1 if 2 else 3," * 70_000 + "]\n", "'''" + "<&>" * 300_000 + "'''\n"]
    for module in sources:
        text = html.page(hostile_report(module))
        assert len(text) < 1_500_000
    assert f"{200_000 + 1 - MAX_LINES}" in html.page(hostile_report(sources[0] + "z = 2\n"))


def test_a_long_message_is_cut():
    lab = wrong_report().labs["w8a8"]
    tests = (replace(lab.tests[2], message="m" * 1_000_000),)
    report = replace(wrong_report(), labs={"w8a8": replace(lab, tests=tests)})
    assert len(html.page(report)) < 300_000


def test_the_json_document_holds_neither_source_nor_maps():
    text = str(document(wrong_report()))
    assert "cells" not in text
    assert "tl.load(x_ptrs)" not in text


def test_advice_in_words():
    lab, source = get_lab("w8a8"), kernel_source()
    assert advice(FACTS[0], CONFIGS[0], lab, source, 90) == ()
    spilling = " ".join(advice(FACTS[1], CONFIGS[1], lab, source, 90))
    assert "not on the int8 tensor cores" in spilling
    assert "spills 312 bytes per thread" in spilling
    assert "low occupancy: 1 program, 4 of 64 warps per SM, limited by 192 KB of shared memory" in spilling
    narrow = " ".join(advice(FACTS[2], CONFIGS[2], lab, source, 90))
    assert "no tensor-core instruction: this config has no tl.dot, or one with operands" in narrow
    assert "widest load 2 bytes" in narrow


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("mask = offs[:, None] < M and cols[None, :] < N", "`and` between two tensors works, element by element as `&` does"),
        ("mask = offs < M or offs >= N", "`or` between two tensors works, element by element as `|` does"),
        ("mask = (offs < M) & (offs >= N)", ""),
        ("if M > 1 and N > 1: pass", ""),
        ("most = tl.max(offs, axis=0) < M and N > 1", ""),
    ],
)
def test_advice_on_blocks_that_are_joined_by_a_word(line, told):
    module = f"@triton.jit\ndef k(M, N):\n    offs = M * 2 + tl.arange(0, 16)\n    {line}\n    tl.dot(a, b)\n"
    source = replace(kernel_source(), module=module, lines=())
    said = " ".join(advice(FACTS[0], CONFIGS[0], get_lab("w8a8"), source, 90))
    assert (told in said) if told else not said


def test_advice_knows_whether_there_is_a_dot_and_what_the_lab_multiplies():
    plain = KernelSource("w8a8", "W8A8_MM", None, "acc += tl.sum(x * w)\n", (), kernel_source().path)
    assert "there is no tl.dot" in advice(FACTS[2], CONFIGS[2], get_lab("w8a8"), plain, 90)[0]
    assert not any("int8" in sentence for sentence in advice(FACTS[1], CONFIGS[1], get_lab("dds"), kernel_source(), 90))
