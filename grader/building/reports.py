"""What describe says of the names that a kernel's text refers to: parsed strictly, since a student's Python said it."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from grader.sandbox.inside import wire

MAX_NAME = 200
PATH = re.compile(r"[A-Za-z_][\w.]{0,199}\Z", re.ASCII)
MAX_TEXT = 1000
MAX_NAMES = 2000
MAX_DEPTH = 4
MAX_PARAMETERS = 512


class TooLarge(ValueError):
    """What a submission may hold, only not so much of it; the message is one sentence for the student."""


@dataclass(frozen=True)
class Constant:
    value: bool | int | float | str | None


@dataclass(frozen=True)
class ConstexprReport:
    value: Report


@dataclass(frozen=True)
class Symbol:
    """What is told by its name: a dtype of Triton's, a module, a Python builtin; "other": what no kernel can use, by its type's."""

    kind: Literal["dtype", "module", "builtin", "other"]
    name: str


@dataclass(frozen=True)
class TupleReport:
    parts: tuple[Report, ...]


@dataclass(frozen=True)
class TritonObject:
    module: str
    name: str


@dataclass(frozen=True)
class FunctionReport:
    """A function of the submission's text, by the first line of its definition, decorators included."""

    kind: Literal["jit", "constexpr"]
    line: int
    noinline: bool = False
    constexprs: tuple[str, ...] = ()
    defaults: Mapping[str, Report] = field(default_factory=dict)


Report = Constant | ConstexprReport | TupleReport | Symbol | TritonObject | FunctionReport


def parse_names(data: Any) -> dict[str, Report]:
    """Reports by name. Raises ValueError for what is none."""
    if not isinstance(data, dict) or len(data) > MAX_NAMES:
        raise ValueError("names that are no object")
    return {_name(name): parse(value) for name, value in data.items()}


def parse(data: Any, depth: int = 0) -> Report:
    """One report. Raises ValueError for what is none."""
    if not isinstance(data, dict) or depth > MAX_DEPTH:
        raise ValueError("a report that is no object")
    if "constant" in data:
        return Constant(constant(data["constant"]))
    if "float" in data:
        return Constant(_float(data["float"]))
    if "constexpr" in data:
        return ConstexprReport(parse(data["constexpr"], depth + 1))
    if "tuple" in data and isinstance(data["tuple"], list):
        return TupleReport(tuple(parse(part, depth + 1) for part in data["tuple"][:64]))
    if "object" in data and isinstance(data["object"], list) and len(data["object"]) == 2:
        module, name = data["object"]
        return TritonObject(_path(module), _name(name)) if module else Symbol("other", "function")
    if "function" in data:
        return _function(data, depth)
    if "module" in data:
        return Symbol("module", _path(data["module"]))
    for kind in ("dtype", "builtin", "other"):
        if kind in data:
            return Symbol(kind, _name(data[kind]))
    raise ValueError("a report of no known kind")


def _function(data: dict[str, Any], depth: int) -> FunctionReport:
    kind, line = data["function"], wire.integer(data.get("line"), 1, (1 << 24) - 1)
    constexprs, defaults = data.get("constexprs", []), data.get("defaults", {})
    if kind not in ("jit", "constexpr"):
        raise ValueError("not a function")
    if not isinstance(constexprs, list) or not isinstance(defaults, dict):
        raise ValueError("a function's parameters that are none")
    if (count := len(constexprs) + len(defaults)) > MAX_PARAMETERS:
        raise TooLarge(
            f"a helper has {count} constants and defaults among its parameters, expected at most {MAX_PARAMETERS}; use fewer"
        )
    return FunctionReport(
        kind,
        line,
        data.get("noinline") is True,
        tuple(_name(name) for name in constexprs),
        {_name(name): parse(value, depth + 1) for name, value in defaults.items()},
    )


def constant(value: Any) -> bool | int | float | str | None:
    """A plain constant within its limits. Raises ValueError for anything else."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < 1 << 63:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise TooLarge(
                f"the kernel uses a text of {len(value)} characters, expected at most {MAX_TEXT}; shorten it"
            )
        value.encode()  # a lone surrogate raises UnicodeEncodeError, a ValueError
        return value
    raise ValueError("a constant out of range")


def _float(text: Any) -> float:
    """A float as it was told: as text, since JSON knows neither infinity nor NaN. Raises ValueError."""
    if not isinstance(text, str) or len(text) >= 64:
        raise ValueError("not a float")
    return float(text)


def _name(text: Any) -> str:
    """An identifier as Python has it once a file is read, letters of any alphabet included."""
    if not isinstance(text, str) or not text.isidentifier() or unicodedata.normalize("NFKC", text) != text:
        raise ValueError("not a name")
    if len(text) > MAX_NAME:
        raise TooLarge(f"the name `{text[:20]}...` has {len(text)} characters, expected at most {MAX_NAME}; shorten it")
    return text


def _path(text: Any) -> str:
    if not isinstance(text, str) or (text and not PATH.match(text)):
        raise ValueError("not a module")
    return text
