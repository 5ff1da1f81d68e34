"""A kernel that does not build is answered by the student's line with a caret, the cause and a next step; no more."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from inspect import signature
from types import FunctionType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader import building
from grader.compile_errors import Fault, blocks, compile_message, headline
from grader.compile_errors.compile_message import MATCHERS, rows
from grader.compile_errors.excerpt import INDENT, NEXT, excerpt
from grader.compile_errors.fault import fault_of
from grader.compile_errors.names import suggest
from grader.compile_errors.setting import plain_types
from grader.compile_errors.syntax import syntax_sentence
from grader.labs import get_lab
from grader.labs.edits import edited, read_edits
from grader.model import Refusal
from grader.reading import read
from grader.reading.files import Cell
from grader.sandbox import Sandbox
from tests.reports import kernel_source
from tests.submissions import TESTS, with_data
from tests.versions import triton_before

pytestmark = pytest.mark.slow

MAX_LINES = 6
NEVER = (
    "Traceback", "AssertionError", "TypeError", "ValueError", "NameError", "AttributeError", "RuntimeError",
    "NotImplementedError", "UnsupportedLanguageConstruct", "IncompatibleTypeError", "CompilationError", "<class",
    "object at 0x", "_semantic", "/tmp", "site-packages", "kernel_module", "constexpr[", "pointer<", "AST ",
)


@dataclass(frozen=True)
class Broken:
    """One kernel that does not build. line: the source line that the message must show; words: what it must hold."""

    lab: str
    name: str
    says: str
    source: str
    line: str
    words: tuple[str, ...]
    before: str = ""


@cache
def broken() -> tuple[Broken, ...]:
    """Every entry of tests/broken/*.toml, its edits applied to its lab's right kernel."""
    found = []
    for lab in with_data("broken"):
        data = tomllib.loads((TESTS / "broken" / f"{lab}.toml").read_text(encoding="utf-8"))
        base = (TESTS / "styles" / data["base"]).read_text(encoding="utf-8")
        for entry in data["broken"]:
            source = edited(base, read_edits(entry["edits"]), f"{data['base']} of {lab}/{entry['name']}")
            found.append(Broken(lab, entry["name"], entry["says"], source, entry["line"], tuple(entry["words"]), entry.get("before", "")))
    return tuple(found)


@pytest.fixture(scope="module")
def start():
    """Makes sandboxes that are one process: each kernel is loaded into it anew."""
    with Sandbox() as process:

        class Shared:
            spent = 0.0

            def __init__(self, **how: Any) -> None:
                self.ask = process.ask

            def __enter__(self) -> Shared:
                return self

            def __exit__(self, *error: object) -> None:
                pass

            def close(self) -> None:
                pass

        yield Shared


def message_of(kernel: Broken, folder, start) -> str:
    path = folder / f"{kernel.lab}.py"
    path.write_text(kernel.source, encoding="utf-8")
    lab = get_lab(kernel.lab)
    lab = replace(lab, cases=tuple(case for case in lab.cases if case.configs == "all"))
    source = read(path, [lab]).labs[lab.id]
    if isinstance(source, Refusal):
        return source.message
    built = building.build(lab, source, building.BuildOptions((90,), "check", 1, start=start))
    if isinstance(built, Refusal):
        return built.message
    assert built.failures, f"{kernel.name} compiles"
    return built.failures[0].message


@pytest.mark.parametrize("kernel", broken(), ids=lambda kernel: f"{kernel.lab}-{kernel.name}")
def test_a_kernel_that_does_not_build_is_taught(kernel, tmp_path, start):
    if kernel.before and not triton_before(kernel.before):
        pytest.skip(f"for Triton before {kernel.before}")
    message = message_of(kernel, tmp_path, start)
    lines = kernel.source.split("\n")
    numbers = [number for number, line in enumerate(lines, 1) if line.strip() == kernel.line]
    assert any(f"{kernel.lab}.py line {number}: " in message for number in numbers), message
    for word in kernel.words:
        assert word in message
    for word in NEVER:
        assert word not in message
    parts = message.split("\n")
    assert len(parts) <= MAX_LINES
    assert parts[-1].startswith(NEXT) or "; " in message
    own = {line.strip() for line in lines if line.strip()}
    assert sum(part.strip() in own for part in parts) <= 1, "more than one line of the student's own source"


def test_every_row_of_the_table_can_be_read():
    for row in rows():
        for pattern in (row.says, row.text, *row.where.values()):
            re.compile(pattern)
        assert not row.match or row.match in MATCHERS, row.match
        assert all(hasattr(ast, name) for name in row.node), row
        assert row.says or row.text or row.match or row.where, row
        for sentence in (row.cause, row.next):
            assert sentence.format_map(defaultdict(str)) is not None, sentence
    named = {row.match for row in rows()}
    own = [name for name, thing in MATCHERS.items() if isinstance(thing, FunctionType) and not name.startswith("_")]
    matchers = {name for name in own if "words" in signature(MATCHERS[name]).parameters}
    assert matchers == named - {""}, "a matcher that no row names"


def test_there_are_many_and_each_has_a_name():
    names = [(kernel.lab, kernel.name) for kernel in broken()]
    assert len(names) == len(set(names)) > 150


@given(st.text("abc ()*é，\t", max_size=200), st.integers(0, 220), st.integers(1, 40))
def test_the_caret_stands_below_what_it_means(text, column, length):
    source = text.strip()
    lines = excerpt(source, min(column, len(source.encode())), column + length)
    if not lines:
        assert not source
        return
    assert all(len(line) <= 90 for line in lines)
    if len(lines) == 2 and source.isascii() and column < len(source) and "..." not in lines[0]:
        at = lines[1].index("^")
        assert lines[0][at : at + 1] == source.replace("\t", " ")[column : column + 1]


@settings(deadline=None, max_examples=200)
@given(
    st.sampled_from(["NameError", "AssertionError", "TypeError", "RuntimeError", ""]),
    st.one_of(
        st.text(max_size=80),
        st.sampled_from([
            "name 'x' is not defined", "cannot convert None of type", "unsupported AST node type: Match",
            "Loop-carried variable acc has initial type int32 but is re-assigned to <['1'], fp32> in loop!",
            "Cannot make_shape_compatible: incompatible dimensions at index 0: 16 and 32", "{call} {0} {}",
            "Both operands must be same dtype. Got fp32 and int8", "arange's range must be a power of 2",
            "missing 1 required positional argument: 'other'", "error encountered during parsing",
        ]),
    ),
    st.none() | st.integers(0, 40), st.none() | st.integers(0, 200), st.none() | st.integers(0, 200),
)
def test_every_fault_has_a_short_answer(kind, message, line, column, end):
    told = compile_message(Fault(kind, message, line, column, line, end), kernel_source())
    assert len(told.split("\n")) <= MAX_LINES
    assert told.split("\n")[-1].startswith(NEXT)
    assert len(told) < 1500


@given(st.text(max_size=120))
def test_every_syntax_error_has_a_short_answer(text):
    try:
        compile(text, "x", "exec")
    except SyntaxError as error:
        told = syntax_sentence(Cell("x.py", text, None), error)
        assert told.startswith("x.py line ")
        assert NEXT in told
    except ValueError:
        pass


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(["error", "message", "line", "column", "values", "scope", "callers"]),
                       st.recursive(st.none() | st.integers() | st.text(max_size=9),
                                    lambda inner: st.lists(inner, max_size=3), max_leaves=6)))
def test_what_leaves_the_sandbox_is_checked(header):
    fault = fault_of(header)
    assert fault.line is None or fault.line >= 0
    assert all(isinstance(text, str) and len(text) <= 600 for pair in fault.values for text in pair)


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("<['16', '32'], fp16>", "fp16 [16, 32]"),
        ("<['16'], pointer<fp16>>", "pointers to fp16 [16]"),
        ("pointer<int8>", "pointer to int8"),
        ("fp32[constexpr[16], constexpr[32]]", "fp32 [16, 32]"),
        ("int32[]", "scalar int32"),
        ("triton.language.float32", "fp32"),
    ],
)
def test_types_are_written_as_a_kernel_says_them(said, means):
    assert plain_types(said) == means


@pytest.mark.parametrize(
    ("name", "among", "expected"),
    [
        ("off_k", ["offs_k", "offs_m", "K"], "offs_k"),
        ("Arange", ["tl.arange", "tl.load"], "tl.arange"),
        ("BLOK_K", ["BLOCK_M", "BLOCK_K"], "BLOCK_K"),
        ("quantize", ["quantise", "tl.dot"], "quantise"),
        ("zzz", ["offs_k", "tl.load"], None),
        (
            "offs_k" * 20,
            ["offs_k" * 20 + "s"],
            None,
        ),  # no slip of the fingers: comparing takes the square of the length
        ("offs", ["offs_k" * 40, "off"], "off"),
    ],
)
def test_the_nearest_name_is_suggested(name, among, expected):
    assert suggest(name, among) == expected


def test_a_message_is_one_line_for_those_who_have_one():
    told = compile_message(Fault("AssertionError", "arange's range must be a power of 2", 7, 4), kernel_source())
    assert "\n" not in headline(told)
    assert headline("plain") == "plain"
    verbatim = [block.text for block in blocks(told) if block.verbatim]
    assert verbatim
    assert all(line.startswith(INDENT) for line in verbatim[0].split("\n"))
