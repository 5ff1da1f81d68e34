"""How does text leave the grader? Through this module: what a reader sees is what is there, and nothing of it acts.

Names, messages and sources come from students, compilers and file systems. A terminal obeys control characters, a
browser obeys markup, a spreadsheet obeys formulas, and parsers stop at what their format does not allow. Every output
takes its words from here: `prose` and `name` for people, `cell` for CSV, `json_text` for JSON, `Terminal` for screens.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

SEPARATORS = re.compile(r"([;,|])")
"""Where a spreadsheet of another country begins a new cell."""

SIGNS = frozenset("=+-@\u2212")
"""What a formula begins with, after NFKC, which also folds the full-width and the small signs."""

SURROGATE = re.compile("[\ud800-\udfff]")
PLAIN_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?", re.ASCII)


def prose(text: str) -> str:
    r"""Text of several lines: control, bidirectional, invisible and private characters are written out ("\u202e").

    Bytes of a name that are no UTF-8 become "\xce"; line feeds and tabs stay. The result can be encoded as UTF-8, is
    legal in XML 1.0, and reads in the order in which it is stored.
    """
    return _written_out(text, "\n\t")


def name(text: str) -> str:
    """A name or one line of anything: as `prose`, and line feeds and tabs are written out too."""
    return _written_out(text, "")


def encodable(text: str) -> str:
    """The text as it is, save for lone surrogates, which no file in UTF-8 can hold; for text that programs go on with."""
    return SURROGATE.sub(lambda found: _escape(found[0]), text)


def _written_out(text: str, allowed: str) -> str:
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in allowed or _is_space(one) else _escape(one) for one in text)


def _is_space(character: str) -> bool:
    """Spaces of other scripts and widths, which Python does not count as printable."""
    return unicodedata.category(character) == "Zs"


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # how Python keeps a byte that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def cell(value: object) -> object:
    """A field of a CSV table, column headers too: numbers as they are, names that no spreadsheet takes for a formula."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if not isinstance(value, str):
        return value
    text = name(value)
    if text == "-" or PLAIN_NUMBER.fullmatch(text):
        return text
    return "".join(f"'{part}" if _is_formula(part) else part for part in SEPARATORS.split(text))


def _is_formula(text: str) -> bool:
    """Whether the first character that counts is a formula's sign: blanks, marks and quotes before it do not count."""
    for one in unicodedata.normalize("NFKC", text):
        if one in SIGNS:
            return True
        if not (one in "\"'" or unicodedata.category(one)[0] in "ZMC"):
            return False
    return False


def page_value(value: Any) -> Any:
    """A value of a template before it is escaped: numbers and markup as they are, all else as `prose`."""
    if value is None or isinstance(value, int | float) or hasattr(value, "__html__"):
        return value
    return prose(str(value))


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON that every reader takes: finite numbers (others become words such as "inf"), text that is UTF-8."""
    return json.dumps(_plain(value), indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 1024:
        return f"a whole number of {value.bit_length()} bits"
    if isinstance(value, Mapping):
        return {_plain(key) if isinstance(key, str) else key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


class Terminal(Console):
    """A console that shows text and obeys none: escape sequences come from styles of ours, never from what is printed."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(prose(segment.text), segment.style)
