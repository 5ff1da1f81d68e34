"""An answer inside a notebook: HTML with pictures where the front end shows HTML, plain lines elsewhere."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from grader.compile_errors import Block, blocks
from grader.reporting.compact import Remark
from grader.reporting.text import prose

if TYPE_CHECKING:
    from grader.reporting.pictures import Picture

COLOURS = {"green": "#009e73", "red": "#e5383b", "yellow": "#b8860b", "cyan": "#0072b2"}
"""The bar left of a line; the text keeps the front end's own colour, so that it can be read in the light and the dark."""


@dataclass(frozen=True)
class Inline:
    """Lines and pictures, as a notebook displays them."""

    remarks: Sequence[Remark]
    pictures: Sequence[Picture] = ()

    def _repr_html_(self) -> str:
        lines = "".join(_line(remark) for remark in self.remarks)
        images = "".join(
            f'<img alt="{escape(prose(picture.alt))}" style="max-width:100%;margin:6px 12px 0 0;width:26em;vertical-align:top" '
            f'src="data:image/png;base64,{base64.b64encode(picture.png()).decode()}">'
            for picture in self.pictures
        )
        return f'<div style="max-width:60em;line-height:1.5">{lines}{images}</div>'

    def __repr__(self) -> str:
        said = [f"{one.folded}: {one.text}" if one.folded else one.text for one in self.remarks]
        return prose("\n".join(said + [picture.alt for picture in self.pictures]))


def _line(remark: Remark) -> str:
    bar = COLOURS.get(remark.style, "transparent")
    faint = "opacity:.75;font-size:90%;" if remark.style == "dim" else ""
    text = "".join(_part(block) for block in blocks(prose(remark.text)))
    opened = " open" if remark.opened else ""
    text = f"<details{opened}><summary>{escape(remark.folded)}</summary>{text}</details>" if remark.folded else text
    return f'<div style="{faint}border-left:4px solid {bar};padding:1px 0 1px 10px;margin:3px 0">{text}</div>'


def _part(block: Block) -> str:
    """Running text, or lines of the student's with what stands below their columns: in one width, and no space is lost."""
    if not block.verbatim:
        return f"<div>{escape(block.text)}</div>"
    style = "font-family:monospace;margin:2px 0;padding:0;background:none;color:inherit;overflow-x:auto"
    return f'<pre style="{style}">{escape(block.text)}</pre>'
