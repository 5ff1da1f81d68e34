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
from grader.building.reports import Constant, ConstexprReport, FunctionReport, Symbol, TritonObject, parse, parse_names
from grader.building.resolving import MODULES, permitted
from grader.compile_errors.names import OF_TRITON
from grader.compile_errors.names import attribute as told_of
from grader.labs import all_labs, get_lab
from grader.model import KernelBundle, KernelSource, Refusal, SourceLine
from grader.reading import read
from tests.commands import python
from tests.submissions import TESTS, plain
from tests.tables import each_row, table

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


@each_row
def test_text_with_a_door_is_refused(body, words):
    message = refused(described(body))
    assert words in message
    assert "w8a8.py line" in message


def read_after(top, body):
    lab = replace(LAB, cases=LAB.cases[:1])
    module = BASE.replace("import triton.language as tl\n", "import triton.language as tl\n" + top, 1)
    return read_by_triton(lab, source(module.replace(FIRST, FIRST + textwrap.indent(body, "    "))), OPTIONS)


SCALE = "SCALE = tl.constexpr(2)\n@triton.jit\ndef scaled(x):\n    return x * SCALE\n"
PAIR = "@triton.jit\ndef pair(x):\n    return x, x + 1, x + 2\n"
READ_OTHERWISE = {
    "without_value": (SCALE, "last = scaled(M)\n", "has no value"),
    "left_over": (PAIR, "", "values are unpacked into"),
    "behind": (SCALE, "", "the variable of a comprehension"),
}
"""What stands above and below the lines of a table, and how one of the lines that are not sound is refused. Left over: Triton takes as many
values as there are names, Python none. Behind: Triton has the last element there, Python what there was before."""


@pytest.mark.parametrize(
    ("top", "body", "fault"),
    [(top, row["body"] + last, "" if row["sound"] else words)
     for name, (top, last, words) in READ_OTHERWISE.items() for row in table(__file__)[name]],
)
def test_what_the_compiler_reads_as_something_else_than_python_is_refused(top, body, fault):
    result = read_after(top, body)
    assert fault in result.message if fault else isinstance(result, KernelBundle), result


@each_row
def test_what_both_read_alike_stays(body):
    assert isinstance(described(body), KernelBundle)


@each_row
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


@each_row
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


@each_row
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
    made = generated_module(kernel, kernel_reports(BASE), {"tl": Symbol("module", "triton.language")})
    body = BASE[BASE.index(FIRST) :].rstrip("\n").split("\n")
    assert [line for line in body if line.strip() and not line.strip().startswith("#")] == [
        line for line in made.text.split("\n")[5:] if line.strip() and not line.strip().startswith("#")
    ]
    for number, line in enumerate(made.text.split("\n")[:-1], start=1):
        origin = made.origin(number)
        if origin is not None and number > 5:
            assert BASE.split("\n")[origin - 1] == line


def test_a_constant_has_the_line_that_binds_its_name():
    bundle = described("limit = LIMIT\n", top="LIMIT: tl.constexpr = 127\n")
    assert isinstance(bundle, KernelBundle)
    rows = bundle.made.text.split("\n")
    (number,) = (number for number, row in enumerate(rows, start=1) if row.startswith("LIMIT"))
    assert bundle.made.origin(number) == 1 + BASE.split("\n").index("import triton.language as tl") + 1


def test_names_are_found_in_functions_only():
    assert "triton" not in referred_names("import triton\nA = 1\ndef f(x):\n    return A + x\n")
    assert "A" in referred_names("import triton\nA = 1\ndef f(x):\n    return A + x\n")


@pytest.mark.parametrize(
    "report",
    [TritonObject("os", "system"), TritonObject("triton.runtime.jit", "JITFunction"), Symbol("module", "sys"), Symbol("other", "dict")],
)
def test_what_is_no_part_of_the_language_cannot_be_bound(report):
    module = BASE.replace(FIRST, FIRST + "    door = NAME\n")
    with pytest.raises(NotGenerated, match=r"`NAME`|module"):
        generated_module(source(module), kernel_reports(module), {"tl": Symbol("module", "triton.language"), "NAME": report})


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
