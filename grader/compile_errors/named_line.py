"""Below a sentence that names a line of the kernel, the line as it stands there and a caret, as errors of the compiler have them."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from grader.compile_errors.excerpt import INDENT, excerpt_at, headline, place_of_caret
from grader.compile_errors.setting import span, unparsed
from grader.model import KernelSource
from grader.parsing import nodes, parse


def named_line(text: str, source: KernelSource) -> int | None:
    """The line of the source's module that a text names first, counted from 1."""
    for found in re.finditer(r"line (\d+)", text):
        before, number = text[: found.end()], int(found[1])
        for at, line in enumerate(source.lines, 1):
            if line.line == number and before.endswith(str(line)):
                return at
    return None


def with_lines(text: str, source: KernelSource | None) -> str:
    """The text; below each of its lines that names a line of the source, that line, but not where a line of it follows already."""
    if source is None:
        return text
    said = text.split("\n")
    shown: set[int] = set()
    lines = []
    for sentence, after in zip(said, [*said[1:], ""], strict=True):
        lines.append(sentence)
        at = None if after.startswith(INDENT) or sentence.startswith(INDENT) else named_line(sentence, source)
        if at is not None and at not in shown:
            shown.add(at)
            lines += [f"{INDENT}{part}" for part in _pointed(sentence, source.module, at)]
    return "\n".join(lines)


def each_with_lines(sentences: Sequence[str], source: KernelSource | None) -> list[str]:
    """Sentences as `with_lines` has them; a line that an earlier one showed is not shown again."""
    said: list[str] = []
    shown: set[int] = set()
    for sentence in sentences:
        at = named_line(sentence, source) if source is not None else None
        text = with_lines(sentence, source)
        if at is not None and at in shown:
            text = "\n".join(line for line in text.split("\n") if not line.startswith(INDENT))
        shown |= {at} if at is not None else set()
        said.append(text)
    return said


def as_diagnostic(message: str, folder: Path) -> str | None:
    """A message as editors read it, `file:line:column: error: ...`, at the caret below its first line; None where it names no line of
    a .py in the folder."""
    first, *below = message.split("\n")
    for file in folder.glob("*.py"):
        if found := re.search(rf"(?<!\S){re.escape(file.name)} line (\d+)", first.replace("(", " ")):
            number = int(found[1])
            text = [*file.read_text("utf-8", errors="replace").split("\n")[:number], ""][number - 1]
            shown, caret, *_ = [line.removeprefix(INDENT) for line in (*below, "", "")]
            at = place_of_caret(text, shown, caret) if caret.lstrip().startswith("^") else None
            column = (len(text) - len(text.lstrip()) if at is None else at) + 1
            said = (
                headline(message).split("\n")[0].removeprefix(found[0]).replace("(look here first)", "").lstrip(":, ")
            )
            return f"{file}:{number}:{column}: error: {said}"
    return None


def _pointed(sentence: str, module: str, line: int) -> list[str]:
    if module.split("\n")[line - 1].startswith(("def ", "@")):  # the sentence is about the function, which it names
        return []
    node = _meant(sentence, module, line)
    where = span(node) if node is not None and node.lineno == line else None
    return excerpt_at(module, where or (line, None, None, None))


def _meant(sentence: str, module: str, line: int) -> ast.expr | None:
    """What of a line a sentence is about: the call that it names, else what is assigned, returned, asked or looped over there."""
    try:
        tree = parse(module)
    except SyntaxError:
        return None
    for call in nodes(tree, ast.Call):
        name = unparsed(call.func)
        if call.lineno == line and re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", sentence):
            return call
    parts = ("value", "iter", "test")
    held = [getattr(node, part, None) for node in nodes(tree, ast.stmt) if node.lineno == line for part in parts]
    return next((node for node in held if isinstance(node, ast.expr)), None)
