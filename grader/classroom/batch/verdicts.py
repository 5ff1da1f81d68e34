"""A lab's report as text that can be kept, and without the places that only one student's file has."""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from cattrs import Converter
from cattrs.preconf.json import make_converter

from grader.model import Constant, KernelSource, LabReport, SourceLine

PLACE = "⟦kernel⟧"
"""Stands for the student's file or cell while a kernel is graded, so that equal kernels get one verdict."""

_PLACES = re.compile(re.escape(PLACE) + r"(?: line (\d+))?")


def anonymous(source: KernelSource) -> KernelSource:
    """The same kernel from nowhere: its lines are counted in the extracted module."""
    lines = tuple(SourceLine(PLACE, number) for number in range(1, len(source.lines) + 1))
    return replace(source, lines=lines, path=Path(PLACE))


def placed(report: LabReport, source: KernelSource) -> LabReport:
    """The report of an anonymous kernel in the words of one student: their files, cells and lines."""

    def locate(match: re.Match[str]) -> str:
        return source.locate(int(match[1])) if match[1] else source.path.name

    def words(text: str) -> str:
        return _PLACES.sub(locate, text)

    tests = tuple(
        replace(test, message=words(test.message), diagnosis=words(test.diagnosis) if test.diagnosis else None)
        for test in report.tests
    )
    remarks, profile = (tuple(map(words, texts)) for texts in (report.remarks, report.profile))
    return replace(report, message=words(report.message), tests=tests, source=source, remarks=remarks, profile=profile)


def to_json(report: LabReport) -> str:
    """The report without its source, which belongs to the submission."""
    return unstructured(replace(report, source=None), LabReport)


def from_json(text: str) -> LabReport:
    """The report that `to_json` wrote."""
    report: LabReport = structured(text, LabReport)
    return report


def unstructured(value: Any, kind: Any) -> str:
    """A value of one of the grader's dataclasses as text."""
    return json.dumps(_spelled(_converter().unstructure(value, unstructure_as=kind)), allow_nan=False)


def structured(text: str, kind: Any) -> Any:
    """The value that `unstructured` wrote."""
    return _converter().structure(json.loads(text, object_hook=_meant), kind)


NUMBER = "⟦number⟧"
"""The only key of an object that stands for a number that JSON cannot hold: infinite, none, or with thousands of digits."""


def _spelled(value: Any) -> Any:
    """Data as JSON can hold it: a config may say float("inf"), and its report is kept all the same."""
    if isinstance(value, float) and not math.isfinite(value):
        return {NUMBER: str(value)}
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 1024:
        return {NUMBER: hex(value)}
    if isinstance(value, dict):
        return {key: _spelled(entry) for key, entry in value.items()}
    return [_spelled(entry) for entry in value] if isinstance(value, list | tuple) else value


def _meant(value: dict[str, Any]) -> Any:
    if value.keys() != {NUMBER}:
        return value
    text = str(value[NUMBER])
    return int(text, 16) if "0x" in text else float(text)


@cache
def _converter() -> Converter:
    converter = make_converter()

    def is_array(kind: Any) -> bool:
        return getattr(kind, "__origin__", kind) is np.ndarray

    def pack(array: np.ndarray[Any, Any]) -> dict[str, Any]:
        data = base64.b64encode(zlib.compress(array.tobytes())).decode()
        return {"dtype": str(array.dtype), "shape": list(array.shape), "zlib": data}

    def unpack(value: dict[str, Any], _: Any) -> np.ndarray[Any, Any]:
        data = zlib.decompress(base64.b64decode(value["zlib"]))
        return np.frombuffer(data, dtype=value["dtype"]).reshape(value["shape"])

    as_is: Callable[[Any, Any], Any] = lambda value, kind: value  # noqa: E731
    converter.register_unstructure_hook_func(is_array, pack)
    converter.register_structure_hook_func(is_array, unpack)
    converter.register_structure_hook_func(lambda kind: kind == Constant, as_is)
    return converter
