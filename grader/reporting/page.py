"""The report as one HTML file: nothing to fetch, one script that moves a slider, everything that a student wrote escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from grader.compile_errors import blocks
from grader.compile_errors.excerpt import INDENT
from grader.compile_errors.named_line import named_line
from grader.model import ErrorMap, KernelSource, LabReport, Report
from grader.reporting import drawings, memory_pictures, pictures, traffic_words
from grader.reporting.advice import builds
from grader.reporting.causes import causes
from grader.reporting.listing import Listing, listing
from grader.reporting.terminal import next_step, number, outcome, total
from grader.reporting.text import page_value
from grader.reporting.walk_picture import drawn_walk
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


def templates(folder: Path, finalize: Callable[[Any], Any] = page_value, **filters: Callable[..., Any]) -> Environment:
    """The templates of a folder: what they show is escaped, and a name that has no value is an error.

    finalize: what becomes of each value before it is escaped; filters: those beside `number`.
    """
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, **filters}
    return environment


def security_digest(text: str) -> str:
    """As the page's content security policy names what it may use."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _shown(value: Any) -> Any:
    """What becomes of each value before it is escaped: strings made visible and kept to a sensible length."""
    text = page_value(value)
    if not isinstance(text, str) or hasattr(text, "__html__"):
        return text
    return text if len(text) <= MAX_TEXT or text.startswith("data:image/svg+xml;base64,") else f"{text[:MAX_TEXT]} ..."


def _lab_page(report: Report, lab: LabReport, traffic: Traffic | None) -> dict[str, Any]:
    """What the page shows of one lab: what is wrong, each thing once, and then case by case."""
    shown = listing(lab.source, lab.lab_id) if lab.source else None
    found, maps = causes(lab.tests), _maps(lab.error_maps)
    listed = found[:MAX_CAUSES_SHOWN]
    return {
        "report": lab,
        "verdict": outcome(lab)[0],
        "causes": [(cause, [_remark(sentence, lab.source, shown) for sentence in cause.sentences]) for cause in listed],
        "cause_of": {case: cause.number for cause in listed for case in cause.cases},
        "more_causes": max(0, len(found) - MAX_CAUSES_SHOWN),
        "maps": maps[:MAX_PICTURES_SHOWN],
        "more_maps": maps[MAX_PICTURES_SHOWN:],
        "cases": [test for test in lab.tests if test.kind != "speed"],
        "speed": [test for test in lab.tests if test.kind == "speed"],
        "speed_images": _images(lambda: drawings.tiers(lab), lambda: drawings.roofline(report, lab)),
        "listing": shown,
        "builds": [] if found else builds(lab),
        "memory": _memory(traffic) if traffic else None,
        "walk": drawn_walk(lab.walk) if lab.walk else None,
    }


def _remark(sentence: str, source: KernelSource | None, shown: Listing | None) -> dict[str, Any]:
    """A sentence, and the lines around the one that it names, which bears it; one that shows a line of its own stays as it is."""
    at = named_line(sentence, source) if source is not None else None
    if source is None or shown is None or at is None or at > len(shown.lines) or f"\n{INDENT}" in sentence:
        return {"text": sentence, "lines": ()}
    place = str(source.lines[at - 1])
    text = sentence.removeprefix(place).lstrip(":, ") if sentence.startswith(place) else sentence
    return {"text": text, "place": place, "anchor": shown.lines[at - 1].anchor, "lines": shown.around(at)}


def _maps(errors: Sequence[ErrorMap]) -> list[tuple[dict[str, Any], list[str]]]:
    """A picture of each error map, and the other cases in which the same elements are wrong."""
    groups: dict[tuple[object, ...], list[ErrorMap]] = {}
    for one in errors:
        groups.setdefault((one.M, one.N, one.counts, one.cells.tobytes()), []).append(one)
    drawn = [(image(partial(pictures.error_map, group[0])), group) for group in groups.values()]
    return [(shown, [one.case for one in group[1:]]) for shown, group in drawn if shown is not None]


def _memory(traffic: Traffic) -> dict[str, Any]:
    """What a right kernel does to memory: on which sizes, a sentence for each tensor, and pictures."""
    return {
        "summary": traffic_words.summary(traffic),
        "rows": traffic_words.traffic_rows(traffic),
        "images": _images(
            lambda: memory_pictures.programs(traffic),
            lambda: memory_pictures.one_program(traffic, 0),
            lambda: memory_pictures.reads(traffic),
            lambda: memory_pictures.slices_of_k(traffic),
        ),
    }


# ---------------------------------------------------------------- pictures


def _images(*draws: Callable[[], pictures.Picture | None]) -> list[dict[str, Any]]:
    return [shown for shown in map(image, draws) if shown is not None]


def image(draw: Callable[[], pictures.Picture | None]) -> dict[str, Any] | None:
    """What `draw` makes as part of a page, its size in CSS pixels; None where it makes nothing."""
    picture = draw()
    if picture is None:
        return None
    encoded = base64.b64encode(picture.svg().encode()).decode()
    width, height = (round(96 * inches) for inches in picture.figure.get_size_inches())
    return {"address": f"data:image/svg+xml;base64,{encoded}", "alt": picture.alt, "width": width, "height": height}
