"""The report as one HTML file: nothing to fetch, one script that moves a slider, everything that a student wrote escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import Template
from markupsafe import Markup

from grader.compile_errors import blocks
from grader.compile_errors.excerpt import INDENT
from grader.compile_errors.named_line import named_line
from grader.model import ErrorMap, KernelSource, LabReport, Report, TestResult
from grader.reporting import drawings, memory_pictures, pictures, traffic_words
from grader.reporting.advice import Built, builds
from grader.reporting.causes import Cause, causes
from grader.reporting.listing import Line, Listing, listing
from grader.reporting.templates import templates
from grader.reporting.terminal import next_step, outcome, total
from grader.reporting.text import page_value
from grader.reporting.walk_picture import Drawn, drawn_walk
from grader.traffic import Traffic

HERE = Path(__file__).parent
MAX_CAUSES_SHOWN = 6
MAX_PICTURES_SHOWN = 3
MAX_TEXT = 4000
MADE_OF = '<meta name="made-of" content="{}">'
"""Stands in the head of a page of feedback: a digest of all that it was made of."""


@dataclass(frozen=True)
class MarkStatement:
    """What the gradebook says of a student: who it is, the points of each of its columns, how they came about.

    marks: column and points. questions: name, points and why. board: who the student is on the page that shows no names.
    """

    who: str
    assignment: str
    marks: tuple[tuple[str, str], ...]
    steps: tuple[str, ...]
    questions: tuple[tuple[str, str, str], ...] = ()
    board: str = ""


@dataclass(frozen=True)
class Image:
    """A picture inside the page: a data address, words for those who do not see it, and its size in CSS pixels."""

    address: str
    alt: str
    width: int
    height: int


@dataclass(frozen=True)
class Memory:
    """What a right kernel does to memory: on which sizes, a sentence for each tensor, and pictures."""

    summary: str
    rows: tuple[str, ...]
    images: tuple[Image, ...]


@dataclass(frozen=True)
class Excerpt:
    """A sentence, and the lines around the one that it names, which bears it; "" and () where it names none."""

    text: str
    place: str = ""
    anchor: str = ""
    lines: tuple[Line, ...] = ()


@dataclass(frozen=True)
class ShownCause:
    """A cause, sentence by sentence."""

    cause: Cause
    remarks: tuple[Excerpt, ...]


@dataclass(frozen=True)
class Map:
    """Where Y is wrong: one picture, and the other cases in which the same elements are."""

    image: Image
    also: tuple[str, ...]


@dataclass(frozen=True)
class LabPage:
    """What the page shows of one lab: what is wrong, each thing once, and then case by case.

    verdict: how many cases fail, and how many things are to be fixed. maps: the first are shown, the rest on request.
    """

    report: LabReport
    verdict: str
    causes: tuple[ShownCause, ...]
    more_causes: int
    maps: tuple[Map, ...]
    more_maps: tuple[Map, ...]
    cases: tuple[TestResult, ...]
    speed: tuple[TestResult, ...]
    speed_images: tuple[Image, ...]
    listing: Listing | None
    builds: tuple[Built, ...]
    memory: Memory | None
    walk: Drawn | None


def page(
    report: Report,
    traffic: Mapping[str, Traffic] = MappingProxyType({}),
    statement: MarkStatement | None = None,
    made_of: str = "",
    reload_seconds: int = 0,
) -> str:
    """The whole page. traffic: of the labs whose page shows it.

    statement: in a class, what counts; then the grader's points are a step on the way to that. made_of: see MADE_OF.
    reload_seconds: how often an open page looks for a newer one; 0: never.
    """
    template, style, script = _template()
    return template.render(
        report=report,
        total=total(report),
        statement=statement,
        made_of=Markup(MADE_OF.format(made_of)) if made_of else "",
        labs=[_lab_page(report, lab, traffic.get(lab.lab_id)) for lab in report.labs.values()],
        next_step=next_step(report, beside=True),
        style=style,
        style_hash=security_digest(style),
        script=Markup(script),
        script_hash=security_digest(script),
        reload_seconds=reload_seconds,
    )


@cache
def _template() -> tuple[Template, str, str]:
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return templates(HERE, _shown, blocks=blocks).get_template("page.html.j2"), style, script


def security_digest(text: str) -> str:
    """As the page's content security policy names what it may use."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _shown(value: Any) -> Any:
    """What becomes of each value before it is escaped: strings made visible and kept to a sensible length."""
    text = page_value(value)
    if not isinstance(text, str) or hasattr(text, "__html__"):
        return text
    return text if len(text) <= MAX_TEXT or text.startswith("data:image/svg+xml;base64,") else f"{text[:MAX_TEXT]} ..."


def _lab_page(report: Report, lab: LabReport, traffic: Traffic | None) -> LabPage:
    shown = listing(lab.source, lab.lab_id) if lab.source else None
    found, maps = causes(lab.tests), _maps(lab.error_maps)
    speed_images = (image(lambda: drawings.tiers(lab)), image(lambda: drawings.roofline(report, lab)))
    return LabPage(
        report=lab,
        verdict=outcome(lab)[0],
        causes=tuple(
            ShownCause(cause, tuple(_remark(sentence, lab.source, shown) for sentence in cause.sentences))
            for cause in found[:MAX_CAUSES_SHOWN]
        ),
        more_causes=max(0, len(found) - MAX_CAUSES_SHOWN),
        maps=maps[:MAX_PICTURES_SHOWN],
        more_maps=maps[MAX_PICTURES_SHOWN:],
        cases=tuple(test for test in lab.tests if test.kind != "speed"),
        speed=tuple(test for test in lab.tests if test.kind == "speed"),
        speed_images=tuple(shown for shown in speed_images if shown),
        listing=shown,
        builds=() if found else tuple(builds(lab)),
        memory=_memory(traffic) if traffic else None,
        walk=drawn_walk(lab.walk) if lab.walk else None,
    )


def _remark(sentence: str, source: KernelSource | None, shown: Listing | None) -> Excerpt:
    """A sentence below the line that it names; one that shows a line of its own stays as it is."""
    at = named_line(sentence, source) if source is not None else None
    if source is None or shown is None or at is None or at > len(shown.lines) or f"\n{INDENT}" in sentence:
        return Excerpt(sentence)
    place = str(source.lines[at - 1])
    text = sentence.removeprefix(place)
    return Excerpt(text.lstrip(":, ") if text != sentence else sentence, place, shown.anchor(at), shown.around(at))


def _maps(errors: tuple[ErrorMap, ...]) -> tuple[Map, ...]:
    """A picture of each error map; the cases in which the same elements are wrong share one."""
    groups: dict[tuple[object, ...], list[ErrorMap]] = {}
    for one in errors:
        groups.setdefault((one.M, one.N, one.counts, one.cells.tobytes()), []).append(one)
    drawn = [(image(partial(pictures.error_map, group[0])), group) for group in groups.values()]
    return tuple(Map(shown, tuple(one.case for one in group[1:])) for shown, group in drawn if shown is not None)


def _memory(traffic: Traffic) -> Memory:
    images = (
        image(lambda: memory_pictures.programs(traffic)),
        image(lambda: memory_pictures.one_program(traffic, 0)),
        image(lambda: memory_pictures.reads(traffic)),
        image(lambda: memory_pictures.slices_of_k(traffic)),
    )
    rows = tuple(traffic_words.traffic_rows(traffic))
    return Memory(traffic_words.summary(traffic), rows, tuple(shown for shown in images if shown))


# ---------------------------------------------------------------- pictures


def image(draw: Callable[[], pictures.Picture | None]) -> Image | None:
    """What `draw` makes as part of a page; None where it makes nothing."""
    picture = draw()
    if picture is None:
        return None
    encoded = base64.b64encode(picture.svg().encode()).decode()
    width, height = (round(96 * inches) for inches in picture.figure.get_size_inches())
    return Image(f"data:image/svg+xml;base64,{encoded}", picture.alt, width, height)
