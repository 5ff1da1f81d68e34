"""Only text is compiled and interpreted: what a submission's Python says can choose numbers, never code."""

from __future__ import annotations

import ast
import math
import re
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader.building import BuildOptions, describe, read_by_triton
from grader.building.describing import MAX_MESSAGES
from grader.building.module_generation import NotGenerated, generated_module, referred_names
from grader.building.reports import Constant, ConstexprReport, FunctionReport, Named, TritonObject, parse, parse_names
from grader.building.resolving import MODULES, permitted
from grader.compile_errors.names import OF_TRITON
from grader.compile_errors.names import attribute as told_of
from grader.labs import all_labs, get_lab
from grader.model import KernelBundle, KernelSource, Refusal, SourceLine
from grader.reading import read
from tests.commands import python
from tests.submissions import TESTS, plain

pytestmark = pytest.mark.slow

LAB = get_lab("w8a8")
BASE = plain("w8a8")
FIRST = "    # which tile of Y does this program compute?\n"
OPTIONS = BuildOptions((90,), "check", 1)


def source(module: str, kernel: str = "W8A8_MM") -> KernelSource:
    """A kernel's source as if the reader had let it pass."""
    lines = tuple(SourceLine("w8a8.py", number) for number in range(1, module.count("\n") + 2))
    return KernelSource("w8a8", kernel, None, module, lines, Path("w8a8.py"))


def described(body: str = "", top: str = "", bottom: str = "") -> KernelBundle | Refusal:
    """What becomes of the right kernel with a body line and module text of one's own."""
    assert BASE.count(FIRST) == 1
    module = BASE.replace("import triton.language as tl\n", "import triton.language as tl\n" + textwrap.dedent(top), 1)
    module = module.replace(FIRST, FIRST + textwrap.indent(textwrap.dedent(body), "    "))
    return describe(LAB, source(module + textwrap.dedent(bottom)), OPTIONS)


def refused(result: KernelBundle | Refusal) -> str:
    assert isinstance(result, Refusal)
    assert result.status == "rejected", result.message
    return result.message


# ---------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("door = tl.core.builtins\n", "tl.core.builtins"),
        ("door = tl.core.inspect.getsource(tl.load)\n", "tl.core.inspect"),
        ("door = tl.core.builtin(tl.load)\n", "tl.core.builtin"),
        ("door = tl.math.__loader__\n", "underscore"),
        ("door = tl.standard.core\n", "as a value"),
        ("door = tl\n", "as a value"),
        ("door = getattr(tl, 'core')\n", "getattr"),
        ("door = hasattr(M, 'handle')\n", "hasattr"),
        ("door = isinstance(M, tl.tensor)\n", "isinstance"),
        ("door = M.handle\n", ".handle"),
        ("door = '{0.__class__}'.format(M)\n", ".format"),
        ("door = f'{M:{M}}'\n", "format specification"),
        ("door = (lambda: 1)()\n", "cannot use lambda"),
        ("door = [part for part in (1, 2)]\ndoor2 = (lambda x: x)\n", "lambda"),
        ("tl.load = 3\n", "attribute"),
        ("M[0] = 3\n", "element"),
        ("def inner():\n    pass\n", "a function inside a function"),
        ("class Door:\n    pass\n", "class"),
        ("import os\n", "import"),
        ("global M2\n", "global"),
        ("try:\n    pass\nexcept Exception:\n    pass\n", "try"),
        ("with M:\n    pass\n", "with"),
        ("door = open('/etc/passwd')\n", "open"),
        ("door = eval('1')\n", "eval"),
        ("door = tl.core.extern_elementwise('', '', [], {}, True)\n", "extern_elementwise"),
        ("door = tl.extra.cuda.globaltimer()\n", "globaltimer"),
        ("door = tl.dot_product(M, N)\n", "has no `tl.dot_product`"),
        ("tl = 3\n", "program_id"),
        ("__door = 3\n", "underscores"),
        ("door = tl.exp(**{'x': 1})\n", "**"),
        ("door = yield M\n", "yield"),
        ("if (door := M) > 0:\n    pass\n", ":="),
        ("for door in tl.static_range(1):\n    pass\nelse:\n    M = 3\n", "a loop has no else"),
        ("door = 0\nwhile door < 1:\n    door += 1\nelse:\n    M = 3\n", "a loop has no else"),
        ("door = [part for part in (1, 2) if False]\n", "whatever the `if` of a comprehension says"),
        ("if M is N:\n    pass\n", "`is` asks"),
        ("door: tl.constexpr if BLOCK_M == 32 else tl.int32 = 7\n", "annotation is computed"),
        ("door: tl.load(y_ptr) = 7\n", "annotation is computed"),
        ("other: tl.constexpr = tl.constexpr\ndoor: other = 7\n", "annotation is computed"),
        ("if M > 3:\n    getattr: tl.constexpr = tl.minimum\ndoor: tl.constexpr = getattr(M, 'handle')\n", "one of Python's"),
        ("for i in range(M):\n    getattr: tl.constexpr = tl.minimum\nalso: tl.constexpr = getattr\n", "one of Python's"),
    ],
)
def test_text_with_a_door_is_refused(body, words):
    message = refused(described(body))
    assert words in message
    assert "w8a8.py line" in message


def read_after(top, body):
    lab = replace(LAB, cases=LAB.cases[:1])
    module = BASE.replace("import triton.language as tl\n", "import triton.language as tl\n" + top, 1)
    return read_by_triton(lab, source(module.replace(FIRST, FIRST + textwrap.indent(body, "    "))), OPTIONS)


SCALE = "SCALE = tl.constexpr(2)\n@triton.jit\ndef scaled(x):\n    return x * SCALE\n"
UNROLLED = "for SCALE in tl.static_range(2):\n        pass\n"


PAIR = "@triton.jit\ndef pair(x):\n    return x, x + 1, x + 2\n"
MADE = "made = [i * 2 for i in (M, N)]\n"
WITHOUT_VALUE = [
    ("if M > 3:\n    SCALE = 1\ndoor = SCALE\n", False), ("for i in range(M):\n    SCALE = 1\ndoor = SCALE\n", False),
    ("while M < 0:\n    SCALE = 1\ndoor = SCALE\n", False),
    ("for i in range(M):\n    if i == 1:\n        door = SCALE\n    SCALE = 1\n", False),
    ("for i in range(M):\n    if M > 3:\n        SCALE = 1\n    door = SCALE\n", False),
    ("i = 0\nwhile (i < 1 if i == 0 else SCALE > 5):\n    SCALE = 1\n    i += 1\n", False),
    ("if M > 3:\n    SCALE = 1\nSCALE += 1\n", False),
    ("if M > 3:\n    SCALE: tl.constexpr = 1\nelse:\n    SCALE: tl.constexpr = 1\ndoor = SCALE\n", False),
    (f"if M > 3:\n    {UNROLLED}else:\n    {UNROLLED}door = SCALE\n", False),
    ("if M > 3:\n    max: tl.constexpr = tl.minimum\ndoor = max(M, N)\n", False), ("door = max(M, N)\nmax = 3\n", False),
    ("if BLOCK_M < 0:\n    SCALE = 1\ndoor = SCALE\n", False),
    ("if BLOCK_M > 0:\n    SCALE = 1\nif BLOCK_M > 0:\n    door = SCALE\n", True),
    ("for i in range(M):\n    if BLOCK_M > 0:\n        SCALE = i\n    door = SCALE\n", True),
    (f"for SCALE in range(M):\n    {UNROLLED}", True),
    ("if M > 3:\n    SCALE = 1\nelse:\n    SCALE = 2\ndoor = SCALE\n", True),
    ("for i in range(M):\n    SCALE = 1\n    door = SCALE\n", True), ("for i in range(M):\n    min = i\n    door = min\n", True),
    ("SCALE = 1\nif M > 3:\n    SCALE = 2\n", True), ("for SCALE in range(M):\n    pass\n", True), ("SCALE: tl.constexpr = 3\n", True),
]
LEFT_OVER = [
    ("a, b = (M, N, K)\n", False), ("t = (M, N, K)\na, b = t\n", False),
    ("a, b = pair(M)\n", False), ("(a,) = (M, N)\n", False), ("a, b, c = pair(M)\n", True),
]
"""Triton takes as many as there are names; Python none."""
BEHIND = [
    (f"{MADE}door = i\n", False), (f"i = 1\n{MADE}door = i\n", False), (f"i = 1\n{MADE}i += 1\n", False),
    ("made = [M * 2 for M in (N, K)]\ndoor = M\n", False), ("made = [SCALE * 2 for SCALE in (N, K)]\ndoor = SCALE\n", False),
    ("made = [[i for i in (3, 4)] + [i] for i in (1, 2)]\n", False), (f"i = 1\nif M > 3:\n    {MADE}door = i\n", False),
    (f"i = 1\nfor k in range(M):\n    door = i\n    {MADE}", False), (f"i = 1\nif M > 3:\n    {MADE}else:\n    i = 2\ni = i\n", True),
    (f"i = 1\nmade = {MADE[7:-1]} if BLOCK_M > 0 else (M, N)\ndoor = i\n", False),
    (f"i = 1\nwhile (i < 3):\n    {MADE}    i = 4\n", True), (f"{MADE}{MADE}", True), (f"{MADE}i = 1\ndoor = i\n", True),
    (f"{MADE}for i in range(M):\n    door = i\n", True), (f"{MADE}for i in tl.static_range(2):\n    door = i\n", True),
    (f"for i in range(M):\n    door = i\n{MADE}", True), ("made = [[i for i in (3, 4)] + [i for i in (k, 5)] for k in (1, 2)]\n", True),
]
"""Triton has the last element there, Python what there was before; what both read alike stays."""


@pytest.mark.parametrize(
    ("top", "body", "fault"),
    [(top, body + last, "" if sound else words)
     for top, last, words, table in ((SCALE, "last = scaled(M)\n", "has no value", WITHOUT_VALUE),
                                     (PAIR, "", "values are unpacked into", LEFT_OVER),
                                     (SCALE, "", "the variable of a comprehension", BEHIND))
     for body, sound in table],
)
def test_what_the_compiler_reads_as_something_else_than_python_is_refused(top, body, fault):
    result = read_after(top, body)
    assert fault in result.message if fault else isinstance(result, KernelBundle), result


@pytest.mark.parametrize(
    "body",
    [
        "door = [part + 1 for part in (1, 2)]\nother = [part for part in door]\n",
        "if M is None or N is not True:\n    pass\n",
        "door: tl.constexpr = 3\nother: tl.int32 = 4\nthird: 'a word' = 5\nfourth: int = 6\n",
        "max = 3\ndoor = min(M, max)\n",
    ],
)
def test_what_both_read_alike_stays(body):
    assert isinstance(described(body), KernelBundle)


@pytest.mark.parametrize(
    ("top", "use", "words"),
    [
        ("import math\nhelper = math.__loader__.load_module\n", "helper('os')", "helper"),
        ("def helper(x):\n    return x\n", "helper(M)", "plain Python function"),
        ("class Door:\n    value = 3\nhelper = Door()\n", "helper", "helper"),
        ("import os as helper\n", "helper.sep", "os"),
        ("import torch as helper\n", "helper.float16", "torch"),
        ("import triton.runtime as helper\n", "helper.driver", "triton.runtime"),
        ("from triton.runtime import driver as helper\n", "helper", "helper"),
        ("helper = [1, [2, [3, [4, [5]]]]]\n", "helper[0]", "helper"),
        ("helper = tl.core.builtin(lambda x, _semantic=None: 3)\n", "helper(M)", "`helper`"),
        ("@triton.constexpr_function\ndef helper(x):\n    return x.__class__\n", "helper(3)", "plain numbers only"),
        ("@triton.constexpr_function\ndef helper(x):\n    return open('x')\n", "helper(3)", "open"),
        ("@triton.constexpr_function\ndef helper(x):\n    return triton.runtime\n", "helper(3)", "`triton.runtime`"),
        ("@triton.constexpr_function\ndef helper(x):\n    return triton.language.load\n", "helper(3)", "plain numbers only"),
        ("import math\n@triton.constexpr_function\ndef helper(x):\n    return math.__loader__\n", "helper(3)", "underscore"),
        ("def real(x):\n    return x\nhelper = triton.jit(real)\nhelper.fn = print\n", "helper(M)", "`helper`"),
    ],
)
def test_a_name_that_ends_outside_the_language_is_refused(top, use, words):
    assert words in refused(described(f"door = {use}\n", top))


def test_the_interpreters_reading_of_a_docstring_cannot_differ():
    """Triton's interpreter starts at the last line that begins with `def`, the compiler at the first."""
    hidden = '"""\ndef W8A8_MM(x_ptr):\n    other = 1\n"""\n'
    bundle = described(hidden + "seen = '''\n    def W8A8_MM(y_ptr):\n'''\n")
    assert isinstance(bundle, KernelBundle)
    made = bundle.made.text
    assert sum(line.strip().startswith("def ") for line in made.split("\n")) == 1
    assert "other = 1" not in [line.strip() for line in made.split("\n")]


# ---------------------------------------------------------------- what describe says


HIJACK = """
import sys
student = sys.modules["grader.building.sandboxed.student_module"]
original = student.report
def lie(value, depth=0):
    said = original(value, depth)
    {lie}
    return said
student.report = lie
"""


@pytest.mark.parametrize(
    "lie",
    [
        'said = {"object": ["os", "system"]} if "constexpr" in said else said',
        'said = {"module": "os"} if "constexpr" in said else said',
        'said = {"builtin": "eval"} if "constexpr" in said else said',
        'said = {"constexpr": {"constant": 16}} if "constexpr" in said else said',
        'said = {"constant": "3); import os; (4"} if "constexpr" in said else said',
        'said = {"constexpr": {"float": "nan"}} if "constexpr" in said else said',
        'said = {"constexpr": {"constant": 10**30}} if "constexpr" in said else said',
        'said = {"dtype": "fp16); import os; (4"} if "constexpr" in said else said',
        'said = {"other": "\\n"} if "constexpr" in said else said',
        'said = {"function": "jit", "line": 1} if "constexpr" in said else said',
        'said = {} if "constexpr" in said else said',
        'said = [1] if "constexpr" in said else said',
    ],
)
def test_a_lying_describe_is_refused_or_changes_nothing_but_numbers(lie):
    """The sandbox of describe belongs to the student once the module has run: nothing it says is believed."""
    result = described("size = SIZE\n", "SIZE = tl.constexpr(32)\n" + HIJACK.format(lie=lie))
    assert isinstance(result, Refusal), result.made.text
    assert result.status in ("rejected", "crash")
    assert '"constant": 16}' not in lie or "`SIZE` is 32 where it is written and constexpr(16)" in refused(result)


SAYS = """
import sys
StudentModule = sys.modules["grader.building.sandboxed.student_module"].StudentModule
original = StudentModule.describe
def lie(self, contract, problems):
    said = original(self, contract, problems)
    {lie}
    return said
StudentModule.describe = lie
"""


@pytest.mark.parametrize(
    "lie",
    [
        'said["configs"][0]["constants"]["K"] = 16',
        'said["configs"][0]["constants"]["x_ptr"] = 16',
        'said["configs"][0]["constants"]["OTHER"] = 16',
        'del said["configs"][0]["constants"]["BLOCK_K"]',
        'said["launches"][0]["heuristics"] = {"OTHER": 16}',
        'said["launches"] *= 1000',
        'said["launches"].pop()',
    ],
)
def test_configs_and_launches_are_those_of_the_kernels_own_parameters(lie):
    result = described("", SAYS.replace("{lie}", lie))
    assert isinstance(result, Refusal)
    assert result.status == "crash"


OTHER = "@triton.jit\ndef other(a_ptr, BLOCK_M, BLOCK_N, BLOCK_K):\n    tl.store(a_ptr, 1)\n"


@pytest.mark.parametrize(("top", "line", "words"), [(OTHER, 4, "does not have the lab's parameters"), ("", 3, "def")])
def test_a_kernel_is_text_of_the_file_and_has_the_parameters_of_the_lab(top, line, words):
    """Another function of the text, or what describe says begins elsewhere, is not taken for it."""
    lie = f"said = {{**said, 'line': {line}}} if said.get('function') else said"
    assert words in refused(described("", top + HIJACK.replace("{lie}", lie)))


@pytest.mark.parametrize("name", ["GraderDefect", "ContractError", "Unsupported", "LaunchEnded"])
def test_no_error_of_a_submission_speaks_for_the_grader(name):
    message = refused(described("", f"class {name}(Exception):\n    pass\nraise {name}('all is well')\n"))
    assert message.startswith("w8a8.py line 6: ")
    assert "the grader" not in message


def test_an_error_that_refuses_to_speak_is_told_with_its_line():
    top = "class Mute(Exception):\n    def __str__(self):\n        raise self\nraise Mute()\n"
    assert refused(described("", top)).startswith("w8a8.py line 7: Mute")


PARAMETERS = ", ".join(f"P{number}: tl.constexpr = 1" for number in range(3000))


@pytest.mark.parametrize(
    ("top", "body", "words"),
    [
        ("", f"BLOCK_K: tl.constexpr, {PARAMETERS},\n", "3003 parameters after the lab's, expected at most 64"),
        ("TEXT = tl.constexpr('x' * 5000)\n", "tl.static_assert(TEXT != 'a')\n", "a text of 5000 characters, expected at most 1000"),
        ("BIG = tl.constexpr(1 << 70)\n", "door = BIG >> 70\n", "a whole number of 71 bits, expected at most 63"),
        ("HALF = tl.constexpr('a\\ud800')\n", "tl.static_print(HALF)\n", "a text with half of a character, '\\ud800'; write the whole"),
        (f"@triton.jit\ndef {'h' * 400}(x):\n    return x\n", f"door = {'h' * 400}(M)\n", "has 400 characters, expected at most 200"),
        (f"@triton.jit\ndef h(x, {PARAMETERS}):\n    return x\n", "door = h(M)\n", "6000 constants and defaults among its"),
    ],
    ids=["parameters", "text", "number", "half", "name", "helper"],
)
def test_what_is_too_large_is_told_so(top, body, words):
    if body.startswith("BLOCK_K"):
        message = refused(describe(LAB, source(BASE.replace("BLOCK_K: tl.constexpr,\n", body)), OPTIONS))
    else:
        message = refused(described(body, top))
    assert words in message
    assert re.search("; (compute|shorten|use fewer|write the whole)", message)


def test_a_heuristic_for_no_parameter_is_told_so():
    module = BASE.replace("@triton.jit\n", '@triton.heuristics({"OTHER": lambda args: 3})\n@triton.jit\n', 1)
    message = refused(describe(LAB, source(module), OPTIONS))
    assert "sets `OTHER`, which is not a parameter of W8A8_MM" in message


@pytest.mark.parametrize("value", ["Lies(16)", "Lies(2 ** 70)", "Lies(16 ** 4000)"])
def test_a_config_holds_plain_numbers(value):
    top = "class Lies(int):\n    def __lt__(self, other):\n        return True\n    __le__ = __ge__ = __lt__\n"
    module = BASE.replace('{"BLOCK_M": 16,', f'{{"BLOCK_M": {value},').replace("@triton.autotune", f"{top}\n\n@triton.autotune", 1)
    assert "to a Lies" in refused(describe(LAB, source(module), OPTIONS))


@pytest.mark.parametrize(
    ("value", "step"),
    [("enum.IntEnum('Sides', 'LEFT').LEFT", "put .value after it"), ("(16, 16)", "a parameter of its own"), ("True + Whole(15)", None)],
)
def test_a_config_value_that_is_not_plain_comes_with_what_to_write(value, step):
    module = BASE.replace('{"BLOCK_M": 16,', f'{{"BLOCK_M": {value},')
    module = module.replace("@triton.autotune", "import enum\n\n\nclass Whole(int):\n    pass\n\n\n@triton.autotune", 1)
    answer = describe(LAB, source(module), OPTIONS)
    assert isinstance(answer, KernelBundle) if step is None else step in refused(answer)


def test_reasons_cost_no_more_for_a_long_text():
    """Each reason reads the whole text: of hundreds of launches only the first few are told with their line."""
    module = BASE + "\n\ndef W8A8_MM_grid(M, N, K, meta):\n    return f'{M} {N} {K} {meta}'\n"
    kernel = replace(source(module), grid="W8A8_MM_grid")
    bundle = describe(LAB, kernel, OPTIONS)
    assert isinstance(bundle, KernelBundle)
    said = {sentence.split(": ", 1)[1] for sentence in bundle.refused.values()}
    assert len(said) > sum("w8a8.py line" in sentence for sentence in said) == MAX_MESSAGES


@pytest.mark.parametrize("name", ["__jit", "__constexpr_function", "__int8"])
def test_what_the_made_module_is_written_with_is_no_name_of_a_submission(name):
    """Not even when describe says that it is one, and what it stands for."""
    lie = f"said['names']['{name}'] = {{'object': ['triton.language.core', 'static_assert']}}"
    top = SAYS.replace(".describe", ".report").replace("contract, problems", "names").replace("{lie}", lie)
    assert f"`{name}`" in refused(described(f"size = {name}\n", top))


def test_a_function_called_as_the_made_module_calls_constexpr_is_told_so():
    assert "give it another name" in refused(described("size = constexpr(M)\n", "@triton.jit\ndef constexpr(x):\n    return x\n"))


@pytest.mark.parametrize(("links", "each", "made"), [(8, 2, True), (9, 2, False), (5, 4, False), (900, 1, True)])
def test_helpers_that_multiply_one_another_are_counted_before_anything_compiles_them(links, each, made):
    chain = "@triton.jit\ndef link0(x):\n    return x\n"
    for number in range(1, links + 1):
        called = f"link{number - 1}(" * each + "x" + ")" * each
        chain += f"@triton.jit\ndef link{number}(x):\n    return {called}\n"
    result = described(f"M = link{links}(M)\n", chain)
    assert isinstance(result, KernelBundle) if made else "more than 1000 calls" in refused(result)


@pytest.mark.parametrize(
    "data",
    [
        {"constant": float("inf")}, {"constant": "\ud800"}, {"constant": "x" * 2000}, {"constant": [1]}, {"float": "one"},
        {"tuple": 3}, {"object": ["a"]}, {"object": ["a;b", "c"]}, {"module": "a b"}, {"function": "jit", "line": True},
        {"function": "jit", "line": -1}, {"function": "exec", "line": 3}, {"constexpr": 3}, 7, None,
        {"constexpr": {"constexpr": {"constexpr": {"constexpr": {"constexpr": {"constant": 1}}}}}},
    ],
)
def test_a_report_that_is_none_is_a_value_error(data):
    with pytest.raises(ValueError, match=r"."):
        parse(data)


def test_names_are_parsed_strictly():
    assert parse_names({"A": {"constexpr": {"constant": 3}}}) == {"A": ConstexprReport(Constant(3))}
    with pytest.raises(ValueError, match="name"):
        parse_names({"a b": {"constant": 1}})


# ---------------------------------------------------------------- what is made


def kernel_reports(module: str) -> FunctionReport:
    node = next(n for n in ast.walk(ast.parse(module)) if isinstance(n, ast.FunctionDef) and n.name == "W8A8_MM")
    return FunctionReport("jit", min(d.lineno for d in node.decorator_list), constexprs=("BLOCK_M", "BLOCK_N", "BLOCK_K"))


def test_the_made_module_holds_the_text_and_ours():
    kernel = source(BASE)
    made = generated_module(kernel, kernel_reports(BASE), {"tl": Named("module", "triton.language")})
    body = BASE[BASE.index(FIRST) :].rstrip("\n").split("\n")
    assert [line for line in body if line.strip() and not line.strip().startswith("#")] == [
        line for line in made.text.split("\n")[5:] if line.strip() and not line.strip().startswith("#")
    ]
    for number, line in enumerate(made.text.split("\n")[:-1], start=1):
        origin = made.origin(number)
        if origin is not None and number > 5:
            assert BASE.split("\n")[origin - 1] == line


def test_names_are_found_in_functions_only():
    assert "triton" not in referred_names("import triton\nA = 1\ndef f(x):\n    return A + x\n")
    assert "A" in referred_names("import triton\nA = 1\ndef f(x):\n    return A + x\n")


@pytest.mark.parametrize(
    "report", [TritonObject("os", "system"), TritonObject("triton.runtime.jit", "JITFunction"), Named("module", "sys"), Named("other", "dict")]
)
def test_what_is_no_part_of_the_language_cannot_be_bound(report):
    module = BASE.replace(FIRST, FIRST + "    door = NAME\n")
    with pytest.raises(NotGenerated, match=r"`NAME`|module"):
        generated_module(source(module), kernel_reports(module), {"tl": Named("module", "triton.language"), "NAME": report})


@pytest.mark.parametrize("name", ["cdiv", "next_power_of_2"])
def test_what_triton_computes_while_compiling_is_permitted(name):
    """Triton compiles calls of these two with constexprs: WORDS: tl.constexpr = triton.cdiv(BLOCK_K, 8)."""
    import triton

    assert permitted(getattr(triton, name))


@pytest.mark.parametrize("call", ["triton.cdiv(size, 8)", "triton.next_power_of_2(size)", "int(math.log2(size))"])
def test_a_constexpr_function_may_name_the_module_of_what_it_calls(call):
    top = f"import math\n\n@triton.constexpr_function\ndef words(size):\n    return {call}\n"
    answer = described("WORDS: tl.constexpr = words(BLOCK_K)\n", top)
    assert isinstance(answer, KernelBundle), answer


@pytest.mark.parametrize("name", sorted(part.removeprefix("triton.") for part in OF_TRITON))
def test_no_advice_is_to_write_what_is_written(name):
    assert f"`triton.{name}`" not in told_of("triton", name)[1]


def test_nothing_that_is_plain_python_is_permitted():
    """Over all modules that a kernel may name: what is permitted is Triton's, or pure mathematics."""
    import importlib
    import types

    for name in MODULES:
        module = importlib.import_module(name)
        for attribute in dir(module):
            thing = getattr(module, attribute)
            if attribute.startswith("_") or not permitted(thing) or not isinstance(thing, types.FunctionType):
                continue
            home = thing.__module__
            assert (
                getattr(thing, "__triton_builtin__", False) or "libdevice" in home or thing.__name__ in ("cdiv", "next_power_of_2")
            ), f"{name}.{attribute}"


def test_constants_of_every_kind_arrive():
    top = """
        SIZES = [2 ** power for power in range(3, 6)]
        SIZE = tl.constexpr(SIZES[-1])
        LOWEST = tl.constexpr(float("-inf"))
        KIND = tl.float32
        NAME = tl.constexpr("fast")
        HALVES = tl.constexpr((1, 2))
        @triton.constexpr_function
        def doubled(x):
            return 2 * x
        @triton.jit
        def scaled(x, factor: tl.constexpr = SIZES[0]):
            return x * factor
    """
    body = "size = doubled(SIZE) + scaled(M)\nlow = tl.full((2,), LOWEST, KIND)\nname: tl.constexpr = NAME\nhalf = HALVES[0]\n"
    bundle = described(body, top)
    assert isinstance(bundle, KernelBundle), bundle
    text = bundle.made.text
    for line in ("SIZE = constexpr(32)", 'LOWEST = constexpr(-1e999)', "KIND = __float32", "NAME = constexpr('fast')",
                 "def scaled(x, factor: constexpr = 8):", "def doubled(x):"):
        assert line in text.split("\n"), text


@pytest.mark.parametrize("number", ["float('nan')", "-float('nan')", "math.nan", "math.inf", "-math.inf", "-0.0", "1e-320", "1e308"])
def test_a_float_without_a_literal_arrives_as_it_is(number):
    """As a constant, inside a tuple and as a helper's default."""
    top = f"""
        import math
        NUMBER = tl.constexpr({number})
        PAIR = tl.constexpr((1.0, {number}))
        @triton.jit
        def added(x, number: tl.constexpr = {number}):
            return x + number
    """
    bundle = described("low = added(tl.full((2,), NUMBER, tl.float32)) + PAIR[1]\n", top)
    assert isinstance(bundle, KernelBundle), bundle
    scope: dict[str, Any] = {}
    exec(bundle.made.text.split("@")[0], scope)
    written = eval(number, {"math": math})
    for value in (scope["NUMBER"].value, scope["PAIR"].value[1]):
        assert (value == written and repr(value) == repr(written)) or (math.isnan(value) and math.isnan(written))
    assert "nan" not in bundle.made.text


def test_prints_are_left_out_and_lines_stay_where_they_are():
    body = 'tl.device_print("pid", M)\nprint(\n    "pid",\n    M,\n)\nseen = M + 1\n'
    bundle = described(body)
    assert isinstance(bundle, KernelBundle), bundle
    made = bundle.made.text.split("\n")
    assert "print" not in bundle.made.text
    at = made.index("    seen = M + 1")
    assert [line.strip() for line in made[at - 5 : at]] == ["pass", "pass", "", "", ""]


@pytest.mark.parametrize("lab", [lab for lab in all_labs().values() if not lab.bonus], ids=lambda lab: lab.id)
def test_the_first_case_of_all_configs_runs_the_binary_that_is_timed(lab):
    """Sizes and strides that 16 divides, as those of the speed cases: a GPU machine checks what it times, and compiles it once."""
    bundle = describe(lab, read(TESTS.parent / "solutions", [lab], all_labs=True).labs[lab.id], OPTIONS)
    assert isinstance(bundle, KernelBundle)
    first = next(case for case in lab.cases if case.configs == "all")
    for config in bundle.configs:
        timed = {bundle.launches[case.name, config.index].key for case in lab.speed_cases}
        assert bundle.launches[first.name, config.index].key in timed, str(config)


def test_every_module_is_found_whatever_was_imported_before():
    """A worker of a batch builds what another process read, and has imported no part of triton.language by itself."""
    code = (
        "from grader.building.resolving import MODULES, language\n"
        "import functools, types\n"
        "for name in MODULES:\n"
        "    if name.startswith('triton.language'):\n"
        "        found = functools.reduce(getattr, name.split('.')[2:], language())\n"
        "        assert isinstance(found, types.ModuleType), name\n"
    )
    python("-c", code)
