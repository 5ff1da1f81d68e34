"""Chinese notebooks ask and answer in Chinese: questions, where to look, wrong answers, steps that are right, and usual mistakes."""

from __future__ import annotations

import ast
import re
import string
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grader.authoring.notebooks import SOURCE
from grader.compile_errors.table import compile_errors, construct, example, instead, rows
from grader.diagnosis.catalogue import Mistake, load
from grader.diagnosis.observation import Observation
from grader.exercises import exercises, slips_of, steps_of
from grader.judging.answer_marks import OTHERS, UNITS, _binary, wanted
from grader.labs import all_labs, speed_steps_of
from grader.labs.question import posed, questions_of
from grader.model import Config
from grader.notebook import ask, asking, check_cells, language
from grader.notebook.speed_path import compared
from grader.reading.answers import Answers
from tests.tables import each_row

ROOT = Path(__file__).parents[3]
IN_CHINESE = 'lang="zh"'
NOTEBOOKS = [name for name in sorted({*exercises(), *all_labs()}) if IN_CHINESE in (ROOT / SOURCE / f"{name}.py").read_text("utf-8")]
"""Those that are there in Chinese."""

CONFIG = Config(0, {"BLOCK_M": 16}, 4, 1)
CHINESE = re.compile("[\u4e00-\u9fff]")
NAMES = re.compile(r"\btl\.\w+|\b\w*[\d_]\w*|\b[A-Z]{2,}\b|\b[B-Z]\b|\b(?:acc|depth|pid|range)\b|`[^`]+`", re.ASCII)
"""Numbers and identifiers: what a translation keeps as it is."""
PROSE = re.compile(r"\b[a-z]+ [a-z]{2,}\b|\b(?:is|of|how|what|the)\b", re.ASCII)
CODE = re.compile(
    r"`[^`]*`|（[a-z ]+）|（while condition:）|elif condition:|for \w in range\([^)]*\)|triton\.language\.extra|lambda args:"
)
"""What is no prose although it has small words."""


@pytest.fixture(autouse=True)
def notebook_in_chinese(monkeypatch):
    """As in notebooks/zh."""
    monkeypatch.setenv(language.PLACE, "zh")


def in_chinese(english: str) -> str:
    """What the reader gets; it is Chinese throughout and has all numbers and identifiers."""
    text = language.translated(english)
    assert CHINESE.search(text), text
    assert not PROSE.search(CODE.sub("", text)), text
    assert set(NAMES.findall(english)) <= set(NAMES.findall(text)), (english, text)
    return text


def test_every_question_is_asked_and_marked_in_chinese_with_its_numbers():
    for lab_id, question in ((name, question) for name in NOTEBOOKS for question in questions_of(name).values()):
        for student in ("ann", "李雷", *map(str, range(10))):
            found = posed(lab_id, question, student)
            text = in_chinese(f"For {student}: {found.text}")
            numbers = [sorted(re.findall(r"(?<![\w.])(?:0x)?[0-9A-F.]*\d", one)) for one in (found.text, text)]
            assert set(numbers[1]) >= {n for n in numbers[0] if len(n) > 1}, text
            assert CHINESE.search(language.translated(f"Asked for: {wanted(found)}."))
            look = in_chinese(found.hint)
            refused = f"0 of 2 points. 7.5 is not right (asked for: {wanted(found)}). Hint: {found.hint}."
            assert language.translated(refused) == f"0/2 分。7.5 不对。提示：{look}。"
            for trap in found.traps:
                assert language.translated(f"0 of 2 points. {trap.sentence}") == f"0/2 分。{in_chinese(trap.sentence)}"


@pytest.mark.parametrize("unit", ["MB", "KB", "operations per byte"])
def test_a_number_that_is_off_by_a_factor_is_told_so_in_chinese(unit):
    for _, sentence in (*UNITS, *OTHERS, *_binary(unit)):
        text = in_chinese(f"Right except for the unit. {sentence.format(unit=unit)}")
        assert unit in text or "{unit}" not in sentence or "次运算/字节" in text


def test_every_step_is_praised_and_helped_in_chinese():
    for step in (step for notebook in NOTEBOOKS for step in steps_of(notebook).values()):
        assert language.translated(f"✓ {step.name}: {step.right}") == f"✓ {step.name}：{in_chinese(step.right)}"
        in_chinese(f"{step.hint}.")
        assert language.translated(f"Try this: {step.code}.").startswith("可以这样写：")
        assert re.search(r"[a-z]{3} [a-z]{3}", step.code) is None or CHINESE.search(language.translated(step.code)), step.code


def test_every_usual_mistake_is_told_in_chinese_at_the_first_try_and_at_the_third():
    for slip in (slip for notebook in NOTEBOOKS for step in steps_of(notebook) for slip in slips_of(notebook, step)):
        said = f"The result is {slip.what}{'' if slip.what.endswith('?') else '.'}"
        fact, _, advice = slip.what.removesuffix("?").partition("; ")
        assert in_chinese(check_cells._without_advice(said)) == f"结果：{in_chinese(fact)}。"
        if advice:
            assert in_chinese(said) == f"结果：{in_chinese(fact)}；{in_chinese(advice)}{'？' if said.endswith('?') else '。'}"


@each_row
def test_where_kernels_run_progress_and_what_pictures_show_is_told_in_chinese(said):
    in_chinese(said)


def test_every_unit_of_a_locked_prediction_is_told_in_chinese():
    sources = "".join(path.read_text("utf-8") for path in (ROOT / SOURCE).glob("*.py"))
    units = set(re.findall(r'^lock\("\w+", guess, "(.+)"\)$', sources, re.MULTILINE))
    assert len(units) > 4
    for unit in units:
        in_chinese(f"Locked: 2.5 {unit} [abc].")
        in_chinese(f"You predicted 2.5 {unit}; it is 3: well predicted.")
        in_chinese(f"Your prediction is missing: write a number ({unit}), run this cell, then the next one.")


def test_nothing_is_translated_in_two_places():
    tables = [tomllib.loads(path.read_text("utf-8"))["say"] for path in language.GRADER.rglob(language.TABLE)]
    assert len(tables) > 5
    english = [line for table in tables for line in table]
    assert len(english) == len(set(english)), {line for line in english if english.count(line) > 1}


def test_a_wrong_step_is_told_by_its_line():
    english = "✗ add: `add`, line 7: 48 of 48 elements are wrong: out[0] is 1, expected 2."
    assert language.translated(english) == "✗ add：`add` 第 7 行：48 个元素中有 48 个不对：out[0] 是 1，应为 2。"


def test_only_the_chinese_notebooks_are_answered_so(monkeypatch, capsys):
    monkeypatch.setattr(asking, "_answers", lambda: Answers("ann", {}))
    ask("w8a8", "bytes")
    assert capsys.readouterr().out.startswith("ann：启动一次 W8A8")
    monkeypatch.setenv(language.PLACE, "en")
    ask("w8a8", "bytes")
    assert capsys.readouterr().out.startswith("For ann: A launch of W8A8")
    assert language.translated("program 0 prints:") == "program 0 prints:"


def test_both_sides_of_an_entry_have_the_same_braces():
    for path in language.GRADER.rglob(language.TABLE):
        for english, text in tomllib.loads(path.read_text("utf-8"))["say"].items():
            names = [field for _, field, _, _ in string.Formatter().parse(text) if field is not None]
            missing = set(re.findall(r"\{(\w+)\}", english)) - set(names)
            assert missing <= {"what"}, f"{path}: {english}"
            text.format(**dict.fromkeys(set(re.findall(r"\{(\w+)\}", english)), ""))


@pytest.mark.parametrize("lab_id", [name for name in NOTEBOOKS if speed_steps_of(name)])
def test_every_step_towards_speed_asks_and_answers_in_chinese_and_asks_what_its_notebook_asks(lab_id):
    source = (ROOT / SOURCE / f"{lab_id}.py").read_text("utf-8")
    for step in speed_steps_of(lab_id).values():
        asked = re.search(rf"^# @speed {lab_id}: {step.name} \| (.+)$", source, re.MULTILINE)
        assert asked is not None, step.name
        assert in_chinese(step.question) == asked[1].replace("$", "")
        assert in_chinese(f"{step.question} Put your number in place of the dots.").startswith(in_chinese(step.question))
        for guess in ((2.0, None), (3.0, None), (2.0, 4.0)):
            in_chinese(f"{step.question} {compared(*guess, 3.0, answered=True)}")
        in_chinese(f"{step.question} {compared(2.0, None, 3.0, answered=False)}")
        in_chinese(f"{step.hint}.")
        in_chinese(f"Try next: {step.code or step.hint}. Then run the kernel's cell, and this one again.")
        in_chinese(f"✓ {step.name}: {step.right} [{CONFIG}]")
        for demand in step.demands:
            for found in (1.0, 7.0, 1e6):
                in_chinese(f"✗ {demand.sentence(found)}")


class _Names(dict[str, str]):
    """What each brace holds: its own name, marked."""

    def __missing__(self, name: str) -> str:
        return f"«{name.upper()}»"


def _filled(text: str) -> str:
    """A sentence of the table of compile errors as a student gets it."""
    return re.sub(r"(?<!\{)\{(\d)\}", r"{N_\1}", text).format_map(_Names())


def _sentences_on_compile_errors() -> Iterator[str]:
    for row in compile_errors():
        yield from (row["cause"], row["next"])
    for name in ("syntax", "operator", "pasted"):
        for _, cause, step in rows(name):
            yield from (cause, step)
    kinds = [kind for kind in vars(ast) if "a kernel cannot contain" not in construct(kind)[0]]
    assert len(kinds) > 20
    for kind in kinds:
        yield from construct(kind)
    for name in ("tl.arange", "tl.store", "tl.where", "tl.maximum", "tl.nothing"):
        yield example(name)
    yield from (f"write {what}" for what in instead().values())


KEPT = re.compile(r"«\w+»|`[^`]+`")


def test_every_sentence_of_the_table_of_compile_errors_is_told_in_chinese():
    told = [sentence for sentence in _sentences_on_compile_errors() if not re.fullmatch(r"\{\w+\}", sentence)]
    assert len(told) > 500
    for sentence in told:
        english = _filled(sentence)
        text = language.translated(english)
        assert CHINESE.search(text), english
        assert not PROSE.search(CODE.sub("", text)), text
        assert set(KEPT.findall(english)) <= set(KEPT.findall(text)), text


def test_code_and_what_nobody_translated_stay_as_they_are():
    said = "`f`, line 3: the bracket `(` is never closed; called in `g`, line 9\n  x = tl.load(p: q\n             ^\nNext: do it yourself"
    first, code, caret, step = language.translated(said).split("\n")
    assert first == "`f` 第 3 行：括号 `(` 没有闭合；由 `g` 第 9 行 调用"
    assert (code, caret) == ("  x = tl.load(p: q", "             ^")
    assert step == "下一步：do it yourself"
    assert language.translated("nobody: knows this; or that.") == "nobody: knows this; or that."


def _known_mistakes() -> Iterator[tuple[str, Mistake]]:
    """With its lab, each that a student may be told: an operand is named by its kind, in the words of the plainest entry of that kind."""
    for lab_id in NOTEBOOKS:
        catalogue = load(lab_id)
        for kind in sorted({catalogue.mistakes[name].kind for _, _, name in catalogue.operands}):
            yield lab_id, catalogue.plainest(kind)


SEEN = Observation("value", "left", 7, "X[0, 3] is multiplied as 3", "4", variable="q", program=0, iteration=1, case="one_tile")
SEEN_IN_CHINESE = "用例 `one_tile`，程序 0，第 1 轮（从 0 数起）：X[0, 3] 是当作 3 去乘的，应为：4"
FIRST, FIRST_IN_CHINESE = " (look here first)", "（先看这里）"
PLACES = [
    (f"`f`, line 45{FIRST}", f"`f` 第 45 行{FIRST_IN_CHINESE}"),
    (f"`f` (step 2), line 45{FIRST}", f"`f`（第 2 步）第 45 行{FIRST_IN_CHINESE}"),
    (f"`f`, line 45{FIRST}, called in `g`, line 9", f"`f` 第 45 行{FIRST_IN_CHINESE}，在 `g` 第 9 行调用"),
    (f"`f`, line 45{FIRST}, called in `g` (step 2), line 9", f"`f` 第 45 行{FIRST_IN_CHINESE}，在 `g`（第 2 步）第 9 行调用"),
]


def test_what_a_known_mistake_does_is_told_in_chinese():
    told = list(_known_mistakes())
    assert {lab_id for lab_id, _ in told} == {"w8a8", "w4a16", "dds", "gptq", "w8a16"}
    assert len(told) > 80
    for _, known in told:
        what, hint = in_chinese(known.says), known.hint and f"（{in_chinese(known.hint)}）"
        seen = replace(SEEN, what=known.says, hint=known.hint)
        place, chinese = PLACES[0]
        assert in_chinese(seen.text(place)) == f"{chinese}，`q`，{SEEN_IN_CHINESE}。这样的 kernel 在这里得出同样的数：{what}{hint}"


@pytest.mark.parametrize(("place", "chinese"), PLACES)
def test_where_to_look_first_stands_after_the_line(place, chinese):
    what, hint = "divides by the scale", "leave the scale in fp32"
    named = f"。这样的 kernel 在这里得出同样的数：{in_chinese(what)}"
    for seen, said in (
        (SEEN, SEEN_IN_CHINESE),
        (replace(SEEN, expected=""), SEEN_IN_CHINESE.removesuffix("，应为：4")),
    ):
        look = replace(seen, hedged=True)
        assert in_chinese(seen.text(place)) == f"{chinese}，`q`，{said}"
        assert in_chinese(look.text(place)) == f"{chinese}，{said}"
        assert in_chinese(replace(look, what=what).text(place)) == f"{chinese}，{said}{named}"
        assert in_chinese(replace(look, what=what, hint=hint).text(place)) == f"{chinese}，{said}{named}（{in_chinese(hint)}）"
    where = replace(SEEN, hedged=True, program=None, iteration=None)
    assert in_chinese(where.text(place)).startswith(f"{chinese}，出现在 `one_tile`：")


def test_what_is_wrong_is_told_in_chinese_before_the_advice_is():
    said = (
        "`load_tile`, line 7: this tl.load has a mask but no other=, so what the mask leaves out is undefined, and tile depends on it; "
        "add other=0."
    )
    fact = check_cells._without_advice(said)
    assert in_chinese(fact) == "`load_tile` 第 7 行：" + in_chinese(said).partition("：")[2].partition("；")[0] + "。"
    returned = check_cells._without_advice("`pack`, line 5: pack returns int32 [8], expected int32 [16]; check the axis")
    assert in_chinese(returned) == "`pack` 第 5 行：pack 返回 int32 [8]，应为 int32 [16]。"
