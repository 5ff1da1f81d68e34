"""What is begun in a file? Which of the labs' kernels it defines, which of them are more than a stub, which questions it answers.

By its text alone, in time that grows with its length: taking in a class reads files of strangers, and no Python of theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path

from grader.labs import all_labs
from grader.labs.question import questions_of
from grader.plain_files import UnreadableFile, opened_plain
from grader.reading.files import MAX_PYTHON_BYTES, UTF16, is_notebook

MAX_SEARCHED_BYTES = 32 << 20
MOST_DEFINITIONS = 1000
"""Of the labs' kernels in one file, that are looked at."""
MAX_STUB_BYTES, MOST_STUBS = 1 << 16, 20
"""A function of more text is begun, and so is what a file defines more often."""
DOCSTRING = re.compile(rb"\s*(?:\"\"\".*?\"\"\"|'''.*?''')", re.DOTALL)
NOTHING = re.compile(rb"pass|\.\.\.|return|raise\b.*")
BETWEEN_LINES, UNESCAPED = re.compile(rb'(?<!\\)",\s*"'), re.compile(rb'(?<!\\)"')
"""In the JSON of a notebook: what parts the lines of a cell, and a quotation mark that ends a text."""


def is_work(file: Path) -> bool:
    """Whether a source has a kernel that was begun, or an answer: what was given out has none, nor a stub that was saved again, or with
    other comments."""
    return bool(begun_in([file]))


def kernels_in(files: Iterable[Path]) -> set[str]:
    """The labs' kernels that these files define, or seem to: no Python is read here, only where a `def` begins."""
    return {name for file in files for name in _found_in(file)[0]}


def begun_in(files: Iterable[Path]) -> set[str]:
    """Those of them that seem to be more than a stub: by their text, as reading asks of their syntax. And questions that have an answer."""
    return {name for file in files for name in _found_in(file)[1]}


def _found_in(file: Path) -> tuple[frozenset[str], frozenset[str]]:
    try:
        now = file.lstat()
    except OSError:
        return frozenset(), frozenset()
    return _searched(file, (now.st_ino, now.st_mtime_ns, now.st_size))


@lru_cache(4096)
def _searched(file: Path, _: tuple[int, int, int]) -> tuple[frozenset[str], frozenset[str]]:
    """The kernels that a file defines, and what is begun in it; once for each state of the file."""
    text = _text_of(file)
    begun = {name.decode() for name in _answered().findall(text)}
    kernels: dict[str, int] = {}
    for match in islice(_defined().finditer(text), MOST_DEFINITIONS):
        name, begin = match[1].decode(), match.end()
        kernels[name] = kernels.get(name, 0) + 1
        if name not in begun and (
            kernels[name] > MOST_STUBS or not _is_stub(text[begin : begin + MAX_STUB_BYTES], is_notebook(file))
        ):
            begun.add(name)
    return frozenset(kernels), frozenset(begun)


@cache
def _answered() -> re.Pattern[bytes]:
    """What an answer to a lab's question looks like: its name, and something other than None."""
    names = "|".join(f"{lab_id}_{name}" for lab_id in all_labs() for name in questions_of(lab_id))
    return re.compile(rf"(?:\b|\\n)({names})[ \t]*=[ \t]*(?!None\b|[=\s\\\"])".encode())


def _text_of(file: Path) -> bytes:
    """What a file begins with; nothing of one that cannot be read."""
    most = MAX_SEARCHED_BYTES if is_notebook(file) else MAX_PYTHON_BYTES  # more Python than that is not read
    try:
        with opened_plain(file) as opened:
            text = opened.read(most)
    except (OSError, UnreadableFile):
        return b""
    return text.decode("utf-16", "replace").encode("utf-8", "replace") if text.startswith(UTF16) else text


@cache
def _defined() -> re.Pattern[bytes]:
    """Where a lab's kernel is defined; also in a notebook whose cells are one string each."""
    names = "|".join(lab.kernel for lab in all_labs().values())
    return re.compile(rf"(?:\b|\\n)def[ \t]+({names})[ \t]*\(".encode())


def _is_stub(text: bytes, notebook: bool) -> bool:
    """Whether nothing but a docstring, comments, pass, ..., return or raise follows a function's parameters."""
    if notebook:
        text = UNESCAPED.split(BETWEEN_LINES.sub(b"", text), maxsplit=1)[0]
        for escaped, meant in ((b"\\n", b"\n"), (b"\\t", b"\t"), (b"\\r", b""), (b'\\"', b'"')):
            text = text.replace(escaped, meant)
    begin = 0
    for line in text.splitlines(keepends=True):
        begin += len(line)
        if b")" in line and line.split(b"#")[0].rstrip().endswith(b":"):  # the end of the signature
            break
    else:
        return False
    docstring = DOCSTRING.match(text, begin)
    for line in text[docstring.end() if docstring else begin :].splitlines():
        code = line.split(b"#")[0].rstrip()
        if code and not code[:1].isspace():
            return True
        if code and not NOTHING.fullmatch(code.strip()):
            return False
    return len(text) < MAX_STUB_BYTES
