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
from grader.reporting.causes import Cause, causes
from grader.reporting.listing import Listing, listing
from grader.reporting.terminal import next_step, number, outcome, total
from grader.reporting.text import page_value
from grader.reporting.walk_picture import drawn_walk
from grader.traffic import Traffic

HERE = Path(__file__).parent
MAX_CAUSES_SHOWN = 6
MAX_PICTURES_SHOWN = 3
FIRST = "(look here first)"
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
    drawn: Mapping[str, list[DrawnMap]] = MappingProxyType({}),
) -> str:
    """The whole page. traffic: of the labs whose page shows it.

    statement: in a class, what counts; then the grader's points are a step on the way to that. made_of: see MADE_OF.
    reload_seconds: how often an open page looks for a newer one; 0: never. drawn: the error maps of labs for which `error_maps` drew them.
    """
    template, style, script = _template()
    return template.render(
        report=report,
        total=total(report),
        statement=statement,
        made_of=Markup(MADE_OF.format(made_of)) if made_of else "",
        labs=[_lab_page(report, lab, traffic.get(lab.lab_id), drawn.get(lab.lab_id)) for lab in report.labs.values()],
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


def _lab_page(report: Report, lab: LabReport, traffic: Traffic | None, drawn: list[DrawnMap] | None) -> dict[str, Any]:
    """What the page shows of one lab: what is wrong, each thing once, and then case by case."""
    shown = listing(lab.source, lab.lab_id) if lab.source else None
    found, maps = causes(lab.tests, lab.source), error_maps(lab.error_maps) if drawn is None else drawn
    listed = found[:MAX_CAUSES_SHOWN]
    return {
        "report": lab,
        "verdict": outcome(lab)[0],
        "causes": [(cause, _remarks(cause, lab.source, shown)) for cause in listed],
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


def _remarks(cause: Cause, source: KernelSource | None, shown: Listing | None) -> list[dict[str, Any]]:
    """The sentences of a cause, with the lines around the one that each names, which bears it; below the same excerpt where that has the
    line. One that shows a line of its own, which is not there yet, stays as it is."""
    remarks: list[dict[str, Any]] = []
    for sentence in cause.sentences:
        at = named_line(sentence, source) if source is not None else None
        line = shown.lines[at - 1] if shown is not None and at is not None and at <= len(shown.lines) else None
        inside = line is not None and bool(cause.follow and remarks) and line in remarks[-1]["lines"]
        if line is None or source is None or shown is None or at is None or (f"\n{INDENT}" in sentence and not inside):
            remarks.append({"text": sentence, "lines": ()})
            continue
        place = str(source.lines[at - 1])
        first, text = FIRST in sentence, sentence.replace(f" {FIRST}", "")
        text = text.removeprefix(place).lstrip(":, ") if text.startswith(place) else text
        if inside:
            text = "\n".join(part for part in text.split("\n") if not part.startswith(INDENT))
            remarks[-1]["texts"].setdefault(line.anchor, []).append(text)
        else:
            remarks.append(
                {
                    "texts": {line.anchor: [text]},
                    "place": place,
                    "first": first,
                    "anchor": line.anchor,
                    "lines": shown.around(at),
                }
            )
    return remarks


DrawnMap = tuple[dict[str, Any], list[str]]


def error_maps(errors: Sequence[ErrorMap]) -> list[DrawnMap]:
    """A picture of each error map, and the other cases in which the same elements are wrong. Takes a second or two."""
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
