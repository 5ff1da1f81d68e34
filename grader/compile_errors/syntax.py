"""A text that Python cannot read: the line with a caret, what is wrong, and what to do, from Python's own error."""

from __future__ import annotations

import io
import keyword
import re
import tokenize

from grader.compile_errors.excerpt import paragraph

LESSONS = (
    (r"expected ':'", "a colon is missing", "end the line with `:`"),
    (r"'(.)' was never closed", "the bracket `{0}` is never closed", "close it, or look for one too few on this line"),
    (r"unmatched '(.)'", "the bracket `{0}` closes none that is open", "delete it, or open one before it"),
    (
        r"closing parenthesis '(.)' does not match opening parenthesis '(.)'",
        "`{0}` closes a bracket that was opened with `{1}`",
        "close the brackets in the order in which they were opened",
    ),
    (
        r"unexpected indent",
        "this line is indented further than the one above it, which opens no block",
        "give it the indentation of the lines around it",
    ),
    (
        r"unindent does not match",
        "this line's indentation is that of no block above it",
        "indent it as far as another line of the block that it belongs to",
    ),
    (
        r"inconsistent use of tabs and spaces",
        "this line is indented with tabs where others use spaces",
        "replace the tabs by four spaces each",
    ),
    (
        r"expected an indented block after (.*) on line (\d+)",
        "the {0} on line {1} has nothing under it: this line should be its body",
        "indent the body by four spaces, or write pass where there is none yet",
    ),
    (
        r"Maybe you meant '==' or ':=' instead of '='",
        "a condition compares with `==`; a single `=` assigns",
        "write == to compare",
    ),
    (r"forgot a comma", "something is missing between these two expressions", "put a comma (or an operator) between them"),
    (r"unterminated (triple-quoted )?(f-)?string literal", "a string has no closing quote", "close it with the quote that opened it"),
    (r"EOL while scanning string literal", "a string has no closing quote", "close it with the quote that opened it"),
    (
        r"invalid character '(.)' \((U\+[0-9A-F]+)\)",
        "`{0}` ({1}) is no character of Python, though it looks like one",
        "type it again on an English keyboard: , ( ) : are ASCII",
    ),
    (
        r"positional argument follows keyword",
        "an argument without a name follows one with a name",
        "give it its name, or move it to the front",
    ),
    (r"keyword argument repeated: (\w+)", "`{0}` is passed twice", "delete one of the two"),
    (r"duplicate argument '(\w+)'", "the parameter `{0}` stands twice in the list", "delete one of the two"),
    (r"'return' outside function", "`return` stands outside of every function", "indent it under the function that it ends"),
    (r"'(break|continue)' (outside|not properly in) loop", "`{0}` stands outside of every loop", "indent it under its loop, or delete it"),
    (r"cannot assign to (.*?)(\.|$| here)", "{0} cannot be assigned to", "put a variable on the left of ="),
    (r"invalid decimal literal|invalid number", "this is neither a number nor a name", "a name may not begin with a digit"),
    (r"unexpected EOF|was expecting", "the text ends too early", "close what is still open on this line or above"),
)  # fmt: skip
"""Python's message (a pattern over it), what it means, and the next step; the groups fill the braces."""

OPERATORS = (
    ("&&", "Python has no `&&`", "join masks with &, each in its own brackets: (a < M) & (b < N)"),
    ("||", "Python has no `||`", "join masks with |, each in its own brackets"),
    ("++", "Python has no `++`", "write += 1, or += the step"),
    ("--", "Python has no `--`", "write -= 1, or -= the step"),
    ("?", "Python has no `? :`", "write tl.where(condition, a, b) for tiles"),
)


LEFT_BEHIND = (
    (r"<{7}|={7}$|>{7}", "this is a mark of git's: two versions of these lines were merged and none was chosen",
     "keep one of the two versions, and delete the lines with <<<<<<<, ======= and >>>>>>>"),
    (r"```|~~~", "this line marks code in a chat or in Markdown, and is no Python", "delete it, and the one that closes it"),
    (r">>> ?|In ?\[\d*\]:", "this is the prompt of an interactive Python, copied with the line",
     "delete the prompt from every line"),
    (r"[%!]", "commands that begin with % or ! belong to notebooks: a .py file has none", "delete this line"),
    (r"(elif|else) +if\b.*|else if\b.*", "Python writes `else if` as one word", "write elif condition:"),
    (r"print +[^( ]", "print is a function, and in a kernel it prints values known while compiling",
     'delete the line, or write tl.device_print("acc", acc)'),
    (r".*[\w\])]\s*=$", "nothing stands to the right of `=`", "write the value, or delete the line"),
    (r"\d+[:.]? +\S", "the line begins with a number that is no part of it, as if copied with line numbers",
     "delete the numbers in front of the lines"),
)  # fmt: skip
"""What was pasted with the code: a pattern at the beginning of the line, what it is, and the next step."""


def syntax_sentence(place: str, source: str, error: SyntaxError) -> str:
    """The paragraph on a SyntaxError in `source`; `place` is what the student calls the text: "w8a8.py"."""
    if "\0" in source:
        return _null_character(place, source)
    message = str(error.msg or "invalid syntax")
    lines = source.split("\n")
    if re.search(r"was never closed|Maybe you meant '==' or ':='", message) and (late := _closed_too_late(source)):
        name, line, column = late
        cause = f"`{name}=` names an argument of a call, but stands inside a bracket that is none: a `)` is missing in front of it"
        text = lines[line - 1]
        at, until = (len(text[:where].encode()) for where in (column, column + len(name) + 1))
        step = f"close that bracket before the comma: ..., mask=(a < M) & (b < N), {name}=...)"
        return paragraph(f"{place} line {line}", cause, step, text=text, column=at, end_column=until)
    number = error.lineno or 1
    text = lines[number - 1] if 1 <= number <= len(lines) else ""
    cause, step = _meaning(message, text, error.offset or 1)
    column = len(text[: max(0, (error.offset or 1) - 1)].encode())
    end = error.end_offset if error.end_lineno == number else None
    end_column = len(text[: end - 1].encode()) if end and end > (error.offset or 1) else None
    return paragraph(f"{place} line {number}", cause, step, text=text, column=column, end_column=end_column)


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


def _meaning(message: str, text: str, offset: int) -> tuple[str, str]:
    if told := _of_another_language(message, text.strip()):
        return told
    if "invalid syntax" in message:
        for operator, cause, step in OPERATORS:
            if operator in text:
                return cause, step
    for pattern, cause, step in LESSONS:
        if found := re.search(pattern, message):
            groups = [group or "" for group in found.groups()] + ["", ""]
            return cause.format(*groups), step.format(*groups)
    return f"Python cannot read this line ({message})", "look at the caret and at the end of the line above it"


def _null_character(place: str, source: str) -> str:
    line = source[: source.index("\0")].count("\n") + 1
    cause = "the line holds a character of value 0, which no text has: the file was damaged, or saved as something else than text"
    return paragraph(f"{place} line {line}", cause, "type the line again, or save the file as UTF-8 text")


def _of_another_language(message: str, text: str) -> tuple[str, str] | None:
    """What was pasted, or is written as in another language; `text` is the line."""
    if re.match(r"(for|if|while|def|else|elif)\b.*\{$", text):
        return "Python opens a block with `:` and indents it, without braces", "write `:` instead of `{`, and delete the closing `}`"
    if "cannot assign to literal" in message and re.search(r"[{,]\s*(\"\w+\"|'\w+')\s*=(?!=)", text):
        return "a dictionary joins a key and its value with a colon", 'write "BLOCK_M": 64'
    if re.search(r"invalid syntax|leading zeros|decimal literal|expected ':'|Missing parentheses", message):
        return next(((cause, step) for pattern, cause, step in LEFT_BEHIND if re.match(pattern, text)), None)
    if invisible := re.search(r"invalid non-printable character (U\+[0-9A-F]+)", message):
        cause = f"there is a character here that cannot be seen ({invisible[1]}), as copied from a web page or a PDF"
        return cause, "delete it and type spaces"
    return None
