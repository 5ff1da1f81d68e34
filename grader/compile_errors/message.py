"""What a student reads of an error: where, what stood there, and what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass

from grader.compile_errors.excerpt import paragraph
from grader.compile_errors.setting import Setting, shortened, unparsed

MAX_TYPES = 3
SILENT = ("module", "function", "JITFunction", "tuple", "type", "builtin_function_or_method", "None")


@dataclass(frozen=True)
class Message:
    """What is wrong, where, and what to do. `quiet`: the operands' types say nothing here."""

    setting: Setting
    cause: str
    next_step: str
    quiet: bool = False

    def text(self) -> str:
        """The paragraph: place, line and caret, cause, types, next step."""
        fault, source, line = self.setting.fault, self.setting.source, self.setting.fault.line or 0
        caller = f"; called in {source.locate(fault.callers[-1])}" if fault.callers and not self.quiet else ""
        found = "" if self.quiet else _types(self.setting)
        cause, span = self.cause + caller, (line, fault.column, fault.end_line, fault.end_column)
        return paragraph(source.locate(line), cause, self.next_step, source=source.module, span=span, found=found)


def _types(setting: Setting) -> str:
    """What the operands are: "x is fp32 [16, 32]; w is int8 [32, 64]"."""
    chosen = {unparsed(part) for part in setting.operands()}
    values = sorted(setting.fault.values, key=lambda pair: pair[0] not in chosen)
    useful = [(text, kind) for text, kind in values if _informative(text, kind)]
    known = [pair for pair in useful if pair[0] in chosen] or useful
    return "; ".join(f"{shortened(text)} is {kind}" for text, kind in known[:MAX_TYPES])


def _informative(text: str, kind: str) -> bool:
    return bool(kind and re.search(r"[^\W\d]", text)) and kind not in SILENT and not kind.startswith("dtype")
