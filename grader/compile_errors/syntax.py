"""A text that Python cannot read: the line with a caret, what is wrong, and what to do, from Python's own error."""

from __future__ import annotations

import io
import keyword
import re
import tokenize

from grader.compile_errors.excerpt import Written, paragraph
from grader.compile_errors.table import Message, rows


def syntax_sentence(written: Written, error: SyntaxError) -> str:
    """The paragraph on a SyntaxError in the student's text."""
    source = written.source
    if "\0" in source:
        return _null_character(written)
    message = str(error.msg or "invalid syntax")
    lines = source.split("\n")
    if re.search(r"was never closed|Maybe you meant '==' or ':='", message) and (late := _closed_too_late(source)):
        name, line, column = late
        cause = f"`{name}=` names an argument of a call, but is inside plain brackets: a `)` is missing before it"
        text = lines[line - 1]
        at, until = (len(text[:where].encode()) for where in (column, column + len(name) + 1))
        step = f"close that bracket before the comma: ..., mask=(a < M) & (b < N), {name}=...)"
        return paragraph(str(written.at(line)), cause, step, source=source, span=(line, at, line, until))
    number = error.lineno or 1
    text = lines[number - 1] if 1 <= number <= len(lines) else ""
    cause, step = _meaning(message, text, error.offset or 1)
    column = len(text[: max(0, (error.offset or 1) - 1)].encode())
    end = error.end_offset if error.end_lineno == number else None
    end_column = len(text[: end - 1].encode()) if end and end > (error.offset or 1) else None
    return paragraph(str(written.at(number)), cause, step, source=source, span=(number, column, number, end_column))


def _closed_too_late(source: str) -> tuple[str, int, int] | None:
    """Name, line and column of the first `name=` directly inside a round bracket that calls nothing, as in mask=(a < N, other=0)."""
    named: list[bool] = []  # of the brackets that are open: whether `name=` may stand in them
    comma, last = "", tokenize.TokenInfo(tokenize.OP, "", (1, 0), (1, 0), "")  # the two tokens before
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.string in ("(", "[", "{"):
                name = last.type == tokenize.NAME and not keyword.iskeyword(last.string)
                named.append(name or last.string in (")", "]") or token.string != "(")
            elif token.string in (")", "]", "}"):
                named = named[:-1]
            elif token.string == "lambda":
                named = [*named[:-1], True]
            elif token.string == "=" and comma == "," and last.type == tokenize.NAME and not all(named[-1:]):
                return last.string, *last.start
            if token.type not in (tokenize.NL, tokenize.COMMENT):
                comma, last = last.string, token
    except (tokenize.TokenError, SyntaxError):
        pass
    return None


def _meaning(message: str, text: str, offset: int) -> Message:
    if foreign := _of_another_language(message, text.strip()):
        return foreign
    if "invalid syntax" in message:
        for operator, cause, step in rows("operator"):
            if operator in text:
                return Message(cause, step)
    for pattern, cause, step in rows("syntax"):
        if found := re.search(pattern, message):
            groups = [group or "" for group in found.groups()] + ["", ""]
            return Message(cause.format(*groups), step.format(*groups))
    return Message(
        f"Python cannot read this line ({message})", "check the line at the caret, and the end of the line above"
    )


def _null_character(written: Written) -> str:
    line = written.source[: written.source.index("\0")].count("\n") + 1
    cause = "the line holds a null character: the file is damaged, or was not saved as text"
    return paragraph(str(written.at(line)), cause, "type the line again, or save the file as UTF-8 text")


def _of_another_language(message: str, text: str) -> Message | None:
    """What was pasted, or is written as in another language; `text` is the line."""
    if re.match(r"(for|if|while|def|else|elif)\b.*\{$", text):
        return Message(
            "Python opens a block with `:` and indents it, without braces",
            "write `:` instead of `{`, and delete the closing `}`",
        )
    if "cannot assign to literal" in message and re.search(r"[{,]\s*(\"\w+\"|'\w+')\s*=(?!=)", text):
        return Message("a dictionary joins a key and its value with a colon", 'write "BLOCK_M": 64')
    if re.search(r"invalid syntax|leading zeros|decimal literal|expected ':'|Missing parentheses", message):
        return next((Message(cause, step) for pattern, cause, step in rows("pasted") if re.match(pattern, text)), None)
    if invisible := re.search(r"invalid non-printable character (U\+[0-9A-F]+)", message):
        cause = f"there is an invisible character here ({invisible[1]}), often copied from a web page or a PDF"
        return Message(cause, "delete it and type spaces")
    return None
