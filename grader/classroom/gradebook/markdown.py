"""How is a text cell of a student shown in formgrader and in feedback? As HTML that nh3 has let through, and nothing else.

nbgrader's pages run in the browser of whoever grades, signed in to the course. The course's configuration names
`shown` as nbconvert's filter for markdown, which formgrader and feedback both use.
"""

from __future__ import annotations

import re
from typing import Any

import nh3
from jinja2 import pass_context
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

TAGS = frozenset(
    "a abbr b blockquote br code dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q s samp small "
    "span strong sub sup table tbody td tfoot th thead tr u ul var".split()
)
ATTRIBUTES = {
    "*": {"title"}, "a": {"href"}, "img": {"src", "alt", "width", "height"}, "span": {"class"}, "ol": {"start"},
    "td": {"align", "colspan", "rowspan"}, "th": {"align", "colspan", "rowspan"},
}  # fmt: skip
LINKS = frozenset({"http", "https", "mailto"})
PASTED = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*")
"""Pictures that lie in the notebook. Others would be fetched with the cookies of whoever looks at the page."""

HIGHLIGHT = re.compile(r"[a-z0-9]{1,3}")
"""Pygments' classes of tokens; others belong to the page around the text."""

COMMANDS = re.compile(r"\\(?=(href|url|require|unicode|style|class|cssId|bbox|mmlToken|data|html)\b)", re.IGNORECASE)
"""TeX macros of MathJax that make links, attributes or load code."""

BREAK = "\\\u200b"


@pass_context
def shown(context: Any, source: str) -> str:
    """A cell's markdown as HTML, with the pictures that are attached to it."""
    cell = context.get("cell") or {}
    return clean(rendered(source, cell.get("attachments") or {}))


def rendered(source: str, attachments: Any) -> str:
    """As nbconvert renders it: any HTML and any address."""
    renderer = IPythonRenderer(escape=False, attachments=attachments, exclude_anchor_links=True)
    return str(MarkdownWithMath(renderer=renderer).render(source))


def clean(html: str) -> str:
    """Only the tags, attributes and addresses above; the content of scripts and styles is gone with them."""
    text = nh3.clean(
        html,
        tags=set(TAGS),
        attributes=ATTRIBUTES,
        url_schemes={*LINKS, "data"},
        attribute_filter=_attribute,
        link_rel="noopener noreferrer nofollow",
    )
    return COMMANDS.sub(lambda _: BREAK, text)


def _attribute(tag: str, attribute: str, value: str) -> str | None:
    """The attribute's value, or None to drop it."""
    if attribute == "src":
        return value if PASTED.fullmatch(value) else None
    if attribute == "href":
        scheme = re.match(r"\s*([a-z][a-z0-9+.-]*):", value, re.IGNORECASE)
        return value if scheme and scheme[1].lower() in LINKS else None
    if attribute == "class":
        return value if HIGHLIGHT.fullmatch(value) else None
    return value
