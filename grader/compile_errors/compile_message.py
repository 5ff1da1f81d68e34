"""From a sandbox's error to the paragraph that a student reads: of the first row of messages.toml that is about it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from grader.compile_errors import matchers, shapes
from grader.compile_errors.fault import Fault
from grader.compile_errors.setting import Setting, last_store, plain_types
from grader.compile_errors.table import compile_errors
from grader.compile_errors.words import about
from grader.model import KernelSource

MATCHERS: Mapping[str, Callable[[Setting, Mapping[str, str]], matchers.Found | None]] = {
    **vars(matchers),
    **vars(shapes),
}


@dataclass(frozen=True)
class KnownError:
    """One kind of compile error; the head of messages.toml says what each field is."""

    cause: str
    next: str
    says: str = ""
    text: str = ""
    node: tuple[str, ...] = ()
    match: str = ""
    where: Mapping[str, str] = field(default_factory=dict)
    at: str = ""
    quiet: bool = False

    def message(self, setting: Setting, said: str) -> str | None:
        """The message if this row is about the error; said: "Kind: what the compiler said"."""
        if self.node and type(setting.node).__name__ not in self.node:
            return None
        heard, read = re.search(self.says, said), re.search(self.text, setting.text)
        if not heard or not read:
            return None
        groups = {name.rstrip("_"): value for name, value in {**heard.groupdict(), **read.groupdict()}.items() if value}
        words: dict[str, str] = defaultdict(str, {**setting.words, **groups})
        found = MATCHERS[self.match](setting, words) if self.match else matchers.Found()
        if found is None:
            return None
        words.update(found.words)
        if not all(re.search(pattern, words[name]) for name, pattern in self.where.items()):
            return None
        words.update(about(words, setting))
        place = setting.at(found.at or self._place(setting, words))
        return place.message(self.cause.format_map(words), self.next.format_map(words), quiet=self.quiet)

    def _place(self, setting: Setting, words: Mapping[str, str]) -> ast.AST | None:
        if self.at == "stored":
            branch = {"then": "body", "else": "orelse"}.get(words["branch"])
            held = ast.Module(getattr(setting.node, branch, []), []) if branch else setting.node
            return last_store(held, words["name"])
        parts = ast.walk(setting.node or setting.tree) if self.at else ()
        return next((part for part in parts if type(part).__name__ == self.at), None)


@cache
def rows() -> tuple[KnownError, ...]:
    """The rows of messages.toml, in its order."""
    return tuple(KnownError(**{**row, "node": tuple(row.get("node", ()))}) for row in compile_errors())


def compile_message(fault: Fault, source: KernelSource) -> str:
    """Place, line and caret, what was found and expected, and a next step: at most six lines."""
    setting = Setting(fault, source)
    said = f"{fault.kind}: {plain_types(fault.message)}"
    known = (message for row in rows() if (message := row.message(setting, said)))
    return next(known, None) or _unknown(setting)


def _unknown(setting: Setting) -> str:
    fault = setting.fault
    words = plain_types(fault.message).split(" at 0x")[0]
    words = re.split(r"(?<=[.!?])\s", words)[0][:200]
    if not fault.scope:  # Python ran this line: configs, the grid, or the kernel on the interpreter
        said = f"{fault.kind}: {words}" if words and words != fault.kind else fault.kind
        here, anywhere = "correct this line: Python stops at it", "run the file by itself to see where Python stops"
        return setting.message(said, here if fault.line else anywhere)
    said = f"Triton rejects this: {words}" if words else f"Triton stops here ({fault.kind})"
    typed, bare = "check the types above against what this operation takes", "simplify this line until it compiles"
    return setting.message(said, typed if fault.values else bare)
