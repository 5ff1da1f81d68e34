"""What a student wrote in a text cell is shown in formgrader and in feedback, and does nothing there."""

from __future__ import annotations

import html
import json
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("nbgrader", reason="nbgrader is not installed: pip install -e .[test]")

from nbconvert.exporters import HTMLExporter
from nbformat import v4
from traitlets.config import Config

from grader.classroom.gradebook.course import TEMPLATE
from grader.classroom.gradebook.markdown import ATTRIBUTES, TAGS, clean, rendered
from tests.submissions import TESTS

ATTACKS = [
    "[a](javascript:alert(1))", "[a](JaVaScRiPt:alert(1))", "[a](jav&#x09;ascript:alert(1))", "[a](&#106;avascript:alert(1))",
    "[a]( javascript:alert(1))", "<javascript:alert(1)>", "[a][1]\n\n[1]: javascript:alert(1)", "[a](vbscript:x)",
    "[a](data:text/html;base64,PHNjcmlwdD4=)", "![a](javascript:alert(1))", "![a](data:image/svg+xml;base64,PHN2Zz4=)",
    "![a](http://elsewhere/x.png)", "![a](/logout)", "![a](x \"onerror=alert(1)\")", "![a\" onerror=\"alert(1)](x)",
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg onload=alert(1)>", "<a href='javascript:alert(1)'>x</a>",
    "<a href='&#x6a;avascript:alert(1)'>x</a>", "<iframe srcdoc='<script>alert(1)</script>'>", "<form action=//e><button>x</button></form>",
    "<style>*{display:none}</style>", "<base href=//e>", "<meta http-equiv=refresh content='0;url=//e'>", "<p style='position:fixed'>x</p>",
    "<math><mtext><img src=x onerror=alert(1)></mtext></math>", "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "$\\href{javascript:alert(1)}{x}$", "$$\\class{btn}{x}$$", "\\\\(\\unicode{x}\\\\)", "$\\HTML{<b>}$",
    "```mermaid\nclick A \"javascript:alert(1)\"\n```", "`<script>alert(1)</script>`", "<div id=grade class=panel>x</div>",
    "[relative](../../formgrader)", "[elsewhere](//e.org)",
]


class Page(HTMLParser):
    """Whether only what is allowed is left."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag not in TAGS:
            self.found.append(tag)
        for key, value in attributes:
            if key not in ATTRIBUTES.get(tag, set()) | {"title", "rel"}:
                self.found.append(f"{tag} {key}")
            if key == "href" and not (value or "").startswith(("http://", "https://", "mailto:")):
                self.found.append(f"{tag} {value}")
            if key == "src" and not (value or "").startswith("data:image/png;base64,"):
                self.found.append(f"{tag} {value}")


@pytest.mark.parametrize("source", ATTACKS)
def test_nothing_acts(source):
    shown = clean(rendered(source, {}))
    assert Page(shown).found == []
    assert "\\href" not in shown
    assert "\\class" not in shown
    assert 'mermaid"' not in shown


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from([*ATTACKS, "\n", "[", "](", ")", "<", ">", "`", "$", "&#", '"', "'", "javascript:", "*", "|"]),
        max_size=8,
    )
)
def test_nothing_acts_in_pieces(parts):
    assert Page(clean(rendered("".join(parts), {}))).found == []


def test_what_a_student_may_write_is_shown():
    source = "**b** [link](https://a.org) <me@a.org> $a_b < c$\n\n| a |\n|---|\n| 1 |\n\n```python\nx = 1\n```\n![p](attachment:p.png)"
    shown = clean(rendered(source, {"p.png": {"image/png": "aGk="}}))
    for part in (
        "<strong>b</strong>",
        'href="https://a.org"',
        "mailto:me@a.org",
        "$a_b &lt; c$",
        "<td>1</td>",
        'class="n">x',
        "base64,aGk=",
    ):
        assert part in shown


def test_the_released_text_is_shown_as_it_was_written():
    """Only badges, which lie elsewhere, are shown by their words."""
    for path in sorted((TESTS.parent / "notebooks").glob("**/*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                before = rendered("".join(cell["source"]), cell.get("attachments", {}))
                after = clean(before)
                for mark in ("<a ", "<img", "<li", "<td", "<h", "href=", "src="):
                    elsewhere = before.count('src="https://') if mark == "src=" else 0
                    assert after.count(mark) == before.count(mark) - elsewhere, (path.name, mark, cell["source"])


def test_the_courses_configuration_puts_it_into_nbconverts_pages():
    """The line of the configuration itself, through the exporter that formgrader and feedback both use."""
    config = Config()
    lines = [
        line
        for line in TEMPLATE.read_text(encoding="utf-8").format(root="", stub="").splitlines()
        if "HTMLExporter" in line
    ]
    assert len(lines) == 1
    exec(lines[0], {"c": config})
    notebook = v4.new_notebook(cells=[v4.new_markdown_cell(source) for source in ATTACKS])
    page, _ = HTMLExporter(config=config, template_name="basic").from_notebook_node(notebook)
    text = html.unescape(page).lower()
    assert 'href="javascript' not in text
    assert "onerror=alert(1)>" not in page
    assert "<script>alert" not in page
    assert 'src="http://elsewhere' not in text
