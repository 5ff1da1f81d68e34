"""Reading: right kernels in every wrapping, and a sentence for everything else."""

from __future__ import annotations

import ast
import json
import re
import shutil
import textwrap
from dataclasses import replace

import pytest

from grader.labs import all_labs, get_lab
from grader.labs.question import questions_of
from grader.model import KernelSource, Refusal
from grader.reading import read
from grader.reading.answers import answers_for
from grader.reading.files import MAX_CELLS, MAX_STATEMENTS, executed_cells
from tests.submissions import TESTS, plain

BASE = plain("w8a8")
LABS = list(all_labs().values())
W8A8 = [get_lab("w8a8")]


def read_text(tmp_path, text, name="w8a8.py", **options):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read(path, LABS, **options).labs


def notebook(*cells, **extra):
    made = [
        {"cell_type": "code", "id": f"c{n}", "metadata": {}, "execution_count": None, "outputs": [], "source": source}
        for n, source in enumerate(cells)
    ]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made, **extra})


def refusal(result, status="rejected"):
    assert isinstance(result, Refusal)
    assert result.status == status
    return result.message


# ---------------------------------------------------------------- which labs


BONUS = [replace(get_lab("w8a8"), bonus=False), replace(get_lab("dds"), bonus=True)]


def test_a_bonus_lab_that_was_not_begun_is_not_missed(tmp_path):
    (tmp_path / "w8a8.py").write_text(BASE, encoding="utf-8")
    assert list(read(tmp_path, BONUS).labs) == ["w8a8"]
    shutil.copy(TESTS.parent / "assignment" / "dds.py", tmp_path)
    assert list(read(tmp_path, BONUS).labs) == ["w8a8"]
    assert list(read(tmp_path / "w8a8.py", BONUS, all_labs=True).labs) == ["w8a8"]


def test_a_bonus_lab_that_was_begun_is_graded_or_told_and_so_is_one_that_was_asked_for_alone(tmp_path):
    (tmp_path / "w8a8.py").write_text(BASE, encoding="utf-8")
    for broken, kind in (("", KernelSource), ("\ndef f(:\n", Refusal)):
        (tmp_path / "dds.py").write_text(plain("dds") + broken, encoding="utf-8")
        labs = read(tmp_path, BONUS).labs
        assert isinstance(labs["dds"], kind)
        assert isinstance(labs["w8a8"], KernelSource)
    (tmp_path / "dds.py").unlink()
    refusal(read(tmp_path, BONUS[1:], all_labs=True).labs["dds"], "not_attempted")


# ---------------------------------------------------------------- what is taken

NOISE = "import os, matplotlib.pyplot as plt\nprint('hello')\nx = os.listdir('/')\nplt.plot(x)\n"
LIBDEVICE = "from triton.language.extra{} import libdevice\n"
GUARDED = f"try:\n    {LIBDEVICE.format('')}except ImportError:\n    {LIBDEVICE.format('.cuda')}\n"
TUNED = BASE[BASE.index("@triton.autotune") : BASE.index("@triton.jit")]
TAKEN = {
    "not what the kernel does not reach": (f"{NOISE}{BASE}\nos.system('true')\n", "", ("import os", "listdir", "plt")),
    "no namesake of a local variable": ("import torch\nacc = torch.randn(3)\n" + BASE, "", ("randn",)),
    "an import that is tried": (
        BASE.replace("@triton.autotune", GUARDED + "@triton.autotune").replace("tl.floor(x + 0.5)", "libdevice.rint(x)"), GUARDED[:50], ()),
    "one statement of a line": (BASE.replace("import triton\n", "import os; import triton; x = 3\n"), "import triton\n", ("import os",)),
    "a byte order mark and lines of Windows": ("\ufeff" + BASE.replace("\n", "\r\n"), "", ()),
    "a form feed ends the indentation before it": (
        "\f" + BASE.replace("@triton.autotune", " \f\f@triton.autotune").replace("    pid = ", "\t\f    pid = "), "", ()),
    "the autotuner by another name": (BASE.replace(TUNED, f"tune = {TUNED[1:]}\n\n@tune\n"), "tune = ", ()),
    "constexpr by another name": (BASE.replace("import triton\n", "import triton\nfrom triton.language import constexpr as ce\n")
                                  .replace(": tl.constexpr", ": ce"), "constexpr as ce", ()),
}


@pytest.mark.parametrize("what", TAKEN)
def test_what_the_kernel_needs_is_taken_and_nothing_else(tmp_path, what):
    text, kept, left = TAKEN[what]
    source = read_text(tmp_path, text)["w8a8"]
    assert isinstance(source, KernelSource), source
    assert kept in source.module
    assert [words for words in left if words in source.module] == []


def test_helpers_constants_and_config_functions_are_taken(tmp_path):
    text = BASE.replace(
        "import triton.language as tl\n",
        textwrap.dedent("""\
        import triton.language as tl
        SIZES = [16]
        SIZES.append(32)
        SIZES.append(64)
        del SIZES[0]
        UNUSED = undefined_name
        def make():
            return [triton.Config({"BLOCK_M": m, "BLOCK_N": 32, "BLOCK_K": 32}) for m in SIZES]
        CONFIGS = make()
        @triton.jit
        def rounded(v):
            return tl.floor(v + HALF)
        HALF: tl.constexpr = 0.5
        """),
    ).replace("x = tl.floor(x + 0.5)", "x = rounded(x)")
    start, end = text.index("    configs=["), text.index("    key=")
    text = text[:start] + "    configs=CONFIGS,\n" + text[end:]
    source = read_text(tmp_path, text)["w8a8"]
    assert isinstance(source, KernelSource)
    for name in ("SIZES.append(32)", "del SIZES[0]", "def make", "def rounded", "HALF"):
        assert name in source.module
    assert "UNUSED" not in source.module


def test_notebook_with_magics_and_a_broken_cell(tmp_path):
    kernel = f"%%time\n{BASE}\nfiles = !ls\nif True:\n    !ls\nt = %timeit -o 1"
    cells = ["%matplotlib inline\n!nvidia-smi\n", "def broken(:\n", "%%bash\nls", kernel, "W8A8_MM?"]
    source = read_text(tmp_path, notebook(*cells), "w8a8.ipynb")["w8a8"]
    assert isinstance(source, KernelSource)
    line = next(n for n, text in enumerate(source.module.split("\n"), 1) if "def W8A8_MM" in text)
    assert source.locate(line) == f"`W8A8_MM`, line {BASE.split(chr(10)).index('def W8A8_MM(') + 2}"


def test_places_are_exact_for_a_file(tmp_path):
    source = read_text(tmp_path, "print('one')\n\n" + BASE)["w8a8"]
    assert isinstance(source, KernelSource)
    text = ("print('one')\n\n" + BASE).split("\n")
    for number, (line, place) in enumerate(zip(source.module.split("\n"), source.lines, strict=False), 1):
        assert text[place.line - 1] == line, number


@pytest.mark.parametrize(
    ("broken", "binds"),
    [("CONFIGS = [triton.Config({})", True), ("CONFIGS: list = []\nprint 'configs'", True), ("def CONFIGS(:\n    pass", True),
     ("if CONFIGS == 3 print", False)],
)
def test_a_name_that_a_broken_cell_would_bind_is_answered_by_that_cell(tmp_path, broken, binds):
    kernel = "@triton.autotune(configs=CONFIGS, key=[])\n@triton.jit" + BASE.split("@triton.jit", 1)[1]
    cells = ("import triton\nimport triton.language as tl", broken, kernel)
    message = refusal(read_text(tmp_path, notebook(*cells), "w8a8.ipynb")["w8a8"])
    assert bool(re.match(r"`CONFIGS.*`, line ", message)) or not binds, message
    assert ("`CONFIGS` is not defined" in message) != binds


def test_a_kernel_within_another_statement_is_pointed_to(tmp_path):
    lines = BASE.split("\n")
    first = next(n for n, line in enumerate(lines) if line.startswith("@triton.autotune"))
    text = "\n".join([*lines[:first], "if True:", *(f"    {line}" for line in lines[first:])])
    message = refusal(read_text(tmp_path, text)["w8a8"])
    assert "`W8A8_MM` is defined inside another statement; define it at the top level of the file" in message


@pytest.mark.parametrize("above", ["# a remark :(", "print('[')", '"""\nfrom 0 up to K (\n"""', "y = (\n    8\n    % 3)"])
def test_a_magic_is_one_whatever_brackets_stand_in_the_text_above_it(above):
    (cell,) = executed_cells([f"{above}\n%matplotlib inline\n!ls\nz = 1"])
    assert ast.dump(cell.tree) == ast.dump(ast.parse(f"{above}\nz = 1"))


@pytest.mark.parametrize("text", ["x = [\n7\n% 5\n]", '"""\nWhat?\n%time\n"""', "a = (\nb\n!= c)"])
def test_python_has_no_magics(text):
    (cell,) = executed_cells([text])
    assert ast.dump(cell.tree) == ast.dump(ast.parse(text))


@pytest.mark.parametrize("magic", ["%%writefile kernel.py", "%%script false", "%%html"])
def test_a_kernel_under_a_magic_that_takes_the_cell_is_pointed_to(tmp_path, magic):
    message = refusal(read_text(tmp_path, notebook("print(1)", f"{magic}\n{BASE}"), "w8a8.ipynb")["w8a8"])
    assert message.startswith(f"`W8A8_MM`, line 1: {magic.split()[0]} makes this cell no Python")
    both = read_text(tmp_path, notebook(f"{magic}\n{BASE}", BASE), "w8a8.ipynb")["w8a8"]
    assert both.lines[0].place == "w8a8.ipynb cell 2"


@pytest.mark.parametrize(
    "cells",
    [
        ("# copied:\u2028  from the web\x85 with\x0b odd\x1c separators\n" + BASE,),
        *((place.replace("@", "\ud800"), BASE) for place in ('student = "@"', "# @", "print(@)")),
    ],
    ids=["ends of lines that are none of Python's", "half a character in text", "in a remark", "in code"],
)
def test_odd_characters_cost_their_cell_at_most(tmp_path, cells):
    assert isinstance(read_text(tmp_path, notebook(*cells), "w8a8.ipynb")["w8a8"], KernelSource)


@pytest.mark.slow
def test_a_100_mb_notebook_is_read(tmp_path):
    big = {"output_type": "stream", "name": "stdout", "text": "x" * (100 << 20)}
    data = json.loads(notebook(BASE))
    data["cells"][0]["outputs"] = [big]
    path = tmp_path / "w8a8.ipynb"
    path.write_text(json.dumps(data), encoding="utf-8")
    assert isinstance(read(path, W8A8).labs["w8a8"], KernelSource)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"  \n", "is empty"),
        (b"caf\xe9 = 1", "not UTF-8"),
        (b"x = 1\n", "no function W8A8_MM"),
        (b"x = 1\nW8A8_MM = autotune(jit(x))\n", "w8a8.py line 2: `W8A8_MM` is assigned, expected a function"),
        (b"def W8A8_MM(:\n  pass", "line 1"),
        (b"\x00\x01", "w8a8.py"),
        (b"x" * (2 << 20), "MB"),
    ],
)
def test_unreadable_files(tmp_path, content, words):
    path = tmp_path / "w8a8.py"
    path.write_bytes(content)
    assert words in refusal(read(path, LABS).labs["w8a8"])


@pytest.mark.parametrize(
    "content", ["not json", "[]", "{}", '{"cells": 3, "nbformat": 4, "nbformat_minor": 5}', "[" * 100_000]
)
def test_unreadable_notebooks(tmp_path, content):
    message = refusal(read_text(tmp_path, content, "w8a8.ipynb")["w8a8"])
    assert message.startswith("w8a8.ipynb ")


def importing(line):
    """The kernel with an import of which it uses the name."""
    use = BASE.replace("acc = tl.zeros", f"{line.split()[-1].split('.')[0]}\n    acc = tl.zeros")
    return use.replace("import triton\n", f"import triton\n{line}\n")


DEEP = BASE.replace("num_pid_n = tl.cdiv(N, BLOCK_N)", "num_pid_n = tl.cdiv(N, BLOCK_N)\n    junk = " + " + ".join(["pid"] * 900))
REFUSED = {
    "the kernel by another name": (BASE.replace("W8A8_MM", "w8a8_matmul"), ("`w8a8_matmul`", "rename")),
    "parameters in another order": (BASE.replace("x_ptr, qweight_ptr,", "qweight_ptr, x_ptr,", 1),
                                    ("parameter 1", "`qweight_ptr`, expected `x_ptr`")),
    "a parameter of one's own that is no constexpr": (BASE.replace("BLOCK_K: tl.constexpr", "BLOCK_K"), ("`BLOCK_K`", "constexpr")),
    "no autotuner": (BASE.replace(TUNED, ""), ("not decorated with @triton.autotune",)),
    "no jit": (BASE.replace("@triton.jit\n", ""), ("not decorated with @triton.jit",)),
    "a name that nothing defines": (BASE.replace("tl.floor(x + 0.5)", "tl.floor(x + HALF)"), ("`HALF` is not defined",)),
    "an expression too deep, which is no undefined name": (DEEP, ("`W8A8_MM` is nested more than",)),
    "NumPy": (importing("import numpy as np"), ("`numpy`",)),
    "a part of os": (importing("from os import path"), ("`os`",)),
    "a part of torch": (importing("import torch.utils.cpp_extension"), ("`torch.utils.cpp_extension`",)),
    "what lies beside the file": (importing("from . import other"), ("`.`",)),
    "Triton's runtime": (importing("import triton.runtime.cache as triton_cache"), ("`triton.runtime.cache`",)),
    **{f"a door to plain Python: {door}": (BASE.replace("    # dequantise\n", f"    q = {door}\n"), ())
       for door in ("tl.core.builtins", "tl.__dict__", "x.handle", "tl.math.core.inspect", "(lambda: 0).__globals__",
                    "tl.tensor.__class__")},
}


@pytest.mark.parametrize("name", ["w8a8.py", "bo_w8a8.py", "m\u00fcller-W8A8_final.py", "kernel.py"])
def test_a_file_that_cannot_be_read_is_no_lab_that_was_not_begun(tmp_path, name):
    """Whatever it is called, if there is nothing else."""
    (tmp_path / name).write_bytes(BASE.encode() + "# \u00e9".encode("latin-1"))
    assert name in refusal(read(tmp_path, W8A8).labs["w8a8"])
    shutil.copy(TESTS.parent / "assignment" / "w8a8.py", tmp_path / "stub.py")
    found = read(tmp_path, W8A8).labs["w8a8"]
    if name == "kernel.py":
        refusal(found, "not_attempted")
    else:
        assert name in refusal(found)


@pytest.mark.parametrize(
    ("broken", "words"),
    [("{", "w8a8.ipynb is not a Jupyter notebook"), (notebook(BASE.replace("):\n", ")\n", 1)), "a colon is missing")],
    ids=["no_json", "syntax"],
)
def test_a_copy_is_not_graded_in_place_of_a_notebook_that_is_broken(tmp_path, broken, words):
    (tmp_path / "w8a8.ipynb").write_text(broken, encoding="utf-8")
    (tmp_path / "w8a8-Copy1.ipynb").write_text(notebook(BASE), encoding="utf-8")
    assert words in refusal(read(tmp_path, W8A8).labs["w8a8"])
    (tmp_path / "w8a8.ipynb").write_text("", encoding="utf-8")
    assert isinstance(read(tmp_path, W8A8).labs["w8a8"], KernelSource)  # nothing was handed in there


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_kernel_of_the_lab_is_told(tmp_path, what):
    text, words = REFUSED[what]
    message = refusal(read_text(tmp_path, text)["w8a8"])
    assert [part for part in words if part not in message] == []


def test_of_a_folder_each_file_counts_for_its_own_lab(tmp_path):
    """What lies beside it harms none: another's nonsense, or a stub of an older name."""
    for result in read(tmp_path, LABS).labs.values():
        assert "start from the stub in notebooks/ or assignment/" in refusal(result, "not_attempted")
    (tmp_path / "w8a8.py").write_text(BASE, encoding="utf-8")
    (tmp_path / "old.py").write_text("def W8A8_MM():\n    pass\n", encoding="utf-8")
    (tmp_path / "dds.py").write_bytes(b"\xff\xfa")
    (tmp_path / "w4a16.ipynb").write_text("nonsense")
    labs = read(tmp_path, LABS).labs
    assert isinstance(labs["w8a8"], KernelSource)
    assert "UTF-8" in refusal(labs["dds"])
    assert "not a Jupyter notebook" in refusal(labs["w4a16"])


def test_the_stub_is_not_attempted(tmp_path):
    head, _, _ = BASE.partition("    # which tile of Y")
    stub = head + '    """Fill in."""\n    raise NotImplementedError()\n'
    message = refusal(read_text(tmp_path, stub)["w8a8"], "not_attempted")
    assert "still the stub" in message


@pytest.mark.slow
def test_work_in_the_chinese_notebooks_is_read_there_and_pointed_to_from_above(tmp_path):
    shutil.copytree(TESTS.parent / "notebooks", tmp_path / "notebooks", ignore=shutil.ignore_patterns("source"))
    for folder in ("notebooks", "notebooks/zh"):
        assert {refusal(result, "not_attempted")[:5] for result in read(tmp_path / folder, LABS).labs.values()}
    (tmp_path / "notebooks" / "zh" / "w8a8.ipynb").write_text(notebook(BASE), encoding="utf-8")
    assert isinstance(read(tmp_path / "notebooks" / "zh", LABS).labs["w8a8"], KernelSource)
    above = read(tmp_path / "notebooks", LABS).labs
    assert "it is in zh/w8a8.ipynb; grade that folder" in refusal(above["w8a8"], "not_attempted")
    assert "still the stub" in refusal(above["dds"], "not_attempted")


def test_of_several_attempts_the_last_one_counts_with_a_note(tmp_path):
    later = BASE.replace("# dequantise", "# the last attempt")
    path = tmp_path / "w8a8.ipynb"
    path.write_text(notebook(BASE, "1 + 1", later), encoding="utf-8")
    submission = read(path, LABS)
    source = submission.labs["w8a8"]
    assert isinstance(source, KernelSource)
    assert "# the last attempt" in source.module
    assert "# dequantise" not in source.module
    (note,) = submission.notes
    assert note.endswith("defined 2 times in w8a8.ipynb; the last one counts, as in Python")


def test_that_configs_are_pruned_for_nobody_is_told(tmp_path):
    path = tmp_path / "w8a8.py"
    pruned = "@triton.autotune(\n    prune_configs_by={'early_config_prune': lambda configs, args: configs[:1]},"
    path.write_text(BASE.replace("@triton.autotune(", pruned, 1))
    submission = read(path, LABS)
    assert isinstance(submission.labs["w8a8"], KernelSource)
    assert submission.notes == ("W8A8_MM: prune_configs_by is not asked; every config has to be right for every size",)


def test_a_copy_beside_the_labs_own_file_is_left_alone_and_told(tmp_path):
    (tmp_path / "w8a8.ipynb").write_text(notebook(BASE))
    (tmp_path / "w8a8-Copy1.ipynb").write_text(notebook(BASE.replace("acc", "copied")))
    submission = read(tmp_path, [get_lab("w8a8")])
    assert "copied" not in submission.labs["w8a8"].module
    assert any("taken from w8a8.ipynb" in note and "w8a8-Copy1.ipynb" in note for note in submission.notes)
    (tmp_path / "w8a8.py").write_text(BASE.replace("acc", "total"), encoding="utf-8")
    message = refusal(read(tmp_path, [get_lab("w8a8")]).labs["w8a8"])
    assert "(w8a8.ipynb and w8a8.py)" in message
    assert "Copy1" not in message
    (tmp_path / "w8a8.py").unlink()
    (tmp_path / "w8a8.ipynb").rename(tmp_path / "mine.ipynb")
    message = refusal(read(tmp_path, [get_lab("w8a8")]).labs["w8a8"])
    assert "mine.ipynb" in message
    assert "w8a8-Copy1.ipynb" in message


@pytest.mark.parametrize(
    "statement",
    [
        "DEEP = " + " + ".join(["1"] * 400), "DEEP = f" + "()" * 300, "DEEP = x" + ".value" * 300,
        "if x == 0:\n    DEEP = 0\n" + "".join(f"elif x == {number}:\n    DEEP = {number}\n" for number in range(1, 900)),
    ],
)
def test_what_is_nested_too_deeply_is_told_so_where_the_kernel_needs_it(tmp_path, statement):
    f = "def f():\n    return f\n\n\nx = 1\n"
    source = BASE.replace("@triton.autotune(", f"{f}{statement}\n@triton.autotune(")
    assert isinstance(read_text(tmp_path, source)["w8a8"], KernelSource)
    needed = source.replace("num_pid_n = tl.cdiv(N, BLOCK_N)", "num_pid_n = tl.cdiv(N, BLOCK_N) + DEEP")
    message = refusal(read_text(tmp_path, needed)["w8a8"])
    assert "an expression in `DEEP` is nested more than 150 levels deep" in message


@pytest.mark.parametrize(
    "digits", ["0x" + "f" * 6000, "0o" + "7_7" * 4000, "0b" + "1" * 20_000, "1" * 5000], ids=["hex", "octal", "binary", "decimal"]
)
@pytest.mark.parametrize("place", ["BLOCK_M: tl.constexpr", "num_pid_n = tl.cdiv(N, BLOCK_N)"])
def test_a_number_that_python_will_not_write_out_is_named(tmp_path, place, digits):
    source = BASE.replace(place, place.replace("tl.constexpr", digits).replace("BLOCK_N)", f"{digits})"))
    message = refusal(read_text(tmp_path, source)["w8a8"])
    assert message.startswith("w8a8.py line ")
    assert "a number of " in message
    assert isinstance(read_text(tmp_path, f"{BASE}\nTEXT = '{digits}'\n")["w8a8"], KernelSource)


def test_a_notebook_of_empty_cells_is_left(tmp_path):
    path = tmp_path / "w8a8.ipynb"
    cells = '{"cell_type": "code", "source": ""}, ' * MAX_CELLS
    path.write_text(f'{{"cells": [{cells}{json.dumps({"cell_type": "code", "source": BASE})}]}}', encoding="utf-8")
    assert "holds 20001 cells" in refusal(read(path, W8A8).labs["w8a8"])


@pytest.mark.slow
def test_the_files_of_a_hand_in_share_what_may_be_read_and_those_named_after_a_lab_come_first(tmp_path):
    """Two hundred files may not take two hundred times what one may; a pile of others costs a lab's own file nothing."""
    (tmp_path / "w8a8.py").write_text(f"{BASE}\nw8a8_bytes = 3\n", encoding="utf-8")
    half = "a;" * (MAX_STATEMENTS // 2 - 40)
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text(f"{half}\ndds_bytes = 4\n", encoding="utf-8")
    found = read(tmp_path, LABS)
    assert isinstance(found.labs["w8a8"], KernelSource)
    assert [note for note in found.notes if "in all" in note] == [
        f"c.py: a hand-in holds at most {MAX_STATEMENTS} statements in all; keep the cells and files that the kernels need"
    ]
    answers = answers_for(tmp_path, ["w8a8", "dds"])
    assert answers["w8a8"].numbers["w8a8_bytes"] == 3
    (tmp_path / "w4a16.py").write_text(half, encoding="utf-8")
    (tmp_path / "w8a16.py").write_text(half, encoding="utf-8")
    assert "dds" not in answers_for(tmp_path, ["w8a8", "w4a16", "w8a16", "dds"])


@pytest.mark.parametrize(("file", "asked"), [("w4a16.py", True), ("dds.py", False)])
def test_what_another_labs_file_leaves_open_asks_nobody(tmp_path, file, asked):
    (tmp_path / file).write_text(f"w4a16_{next(iter(questions_of('w4a16')))} = None\n", encoding="utf-8")
    assert ("w4a16" in answers_for(tmp_path, ["w4a16"])) is asked


@pytest.mark.slow
def test_a_kernel_reaches_a_bounded_text(tmp_path):
    table = "TABLE = [" + "1, " * 50_000 + "]\n"
    source = BASE.replace("@triton.autotune(", f"{table}\n\n@triton.autotune(")
    assert isinstance(read_text(tmp_path, source)["w8a8"], KernelSource)
    needed = source.replace("num_pid_n = tl.cdiv(N, BLOCK_N)", "num_pid_n = tl.cdiv(N, BLOCK_N) + TABLE[0]")
    assert "W8A8_MM and what it needs are 1" in refusal(read_text(tmp_path, needed)["w8a8"])


def test_a_single_file_answers_for_its_labs_only(tmp_path):
    assert list(read_text(tmp_path, BASE)) == ["w8a8"]
    assert list(read_text(tmp_path, BASE, all_labs=True)) == [lab.id for lab in LABS if not lab.bonus]


@pytest.mark.parametrize(
    ("edit", "kept"),
    [
        (("import triton\n", "import os, triton\n"), "import triton\n"),
        (("CONFIGS", "SIZES = {}\nfor e in (4, 5):\n    SIZES[e] = 2**e\nCONFIGS"), "SIZES[e] = 2**e"),
        (("CONFIGS", "class Sizes:\n    M = 16\n\n\nSIZES = {4: Sizes.M}\nCONFIGS"), "class Sizes"),
        (("CONFIGS", "import itertools\nSIZES = dict(itertools.product((4,), (16,)))\nCONFIGS"), "itertools.product"),
    ],
)
def test_what_fills_a_constant_comes_with_it(tmp_path, edit, kept):
    text = BASE.replace("@triton.autotune(", "CONFIGS = [triton.Config({'BLOCK_M': SIZES[4]})]\n\n\n@triton.autotune(")
    text = text.replace("    configs=[", "    configs=CONFIGS + [")
    text = text.replace(*edit, 1)
    if "SIZES =" not in text:
        text = text.replace("CONFIGS =", "SIZES = {4: 16}\nCONFIGS =", 1)
    source = read_text(tmp_path, text)["w8a8"]
    assert isinstance(source, KernelSource), source
    assert kept in source.module
    assert "os" not in {
        name for line in source.module.split("\n") if line.startswith("import ") for name in line.split()
    }


def test_a_stub_does_not_hide_that_the_labs_own_file_cannot_be_read(tmp_path):
    (tmp_path / "w8a8.py").write_text(BASE.partition("    # which tile of Y")[0] + "    pass\n", encoding="utf-8")
    (tmp_path / "w8a8.ipynb").write_bytes(b"{\x80")
    assert "w8a8.ipynb is not UTF-8" in refusal(read(tmp_path, [get_lab("w8a8")]).labs["w8a8"])
