"""Is what only shows outside the grader said, and nothing of kernels that are right there too?"""

from __future__ import annotations

import re

import pytest

from grader.judging.remarks import remarks, seen_when_timed
from grader.labs import get_lab
from grader.model import Config, GeneratedModule, KernelBundle, Launch, Outcome
from tests.submissions import TESTS, graded, source_of, style_file

STYLE = style_file("w4a16_split_k").read_text(encoding="utf-8")
RESET = '    reset_to_zero=["y_ptr"],\n'


def said(text: str, *, configs: int = 2, additions: int | None = 2) -> tuple[str, ...]:
    lab = get_lab("w4a16")
    source = source_of(lab, text)
    assert source is not None
    all_configs = tuple(Config(number, {}, 4, 1) for number in range(configs))
    bundle = KernelBundle(lab.id, all_configs, {}, {}, GeneratedModule("", lab.kernel, ()))
    outcomes = (Outcome("one_tile", 0, "ran", additions=0), Outcome("k_tail", 1, "ran", additions=additions))
    return remarks(source, bundle, outcomes, lab.output)


def test_trials_that_add_to_one_y_are_told_with_the_line():
    assert STYLE.count(RESET) == 1
    (sentence,) = said(STYLE.replace(RESET, ""))
    line = 1 + STYLE.split("@triton.autotune")[0].count("\n")
    assert sentence.startswith(f"w4a16.py line {line}: no points lost")
    assert 'config 1 adds to it in every trial; give triton.autotune reset_to_zero=["y_ptr"]' in sentence


@pytest.mark.parametrize("instead", [RESET, '    restore_value=["y_ptr"],\n', '    pre_hook=lambda arguments, reset_only=False: None,\n'])
def test_whose_y_is_emptied_is_not_spoken_of(instead):
    assert said(STYLE.replace(RESET, instead)) == ()


@pytest.mark.parametrize(
    "configs",
    [
        "[triton.Config({}, pre_hook=empty), triton.Config({}, pre_hook=empty)]",
        "[triton.Config({}, pre_hook=empty if split > 1 else None) for split in (1, 4)]",
        '[triton.Config({}, **{"pre_hook": empty}) for split in (1, 4)]',
    ],
)
def test_configs_that_empty_y_themselves_are_not_spoken_of(configs):
    hook = f'def empty(arguments):\n    arguments["y_ptr"].zero_()\n\n\nCONFIGS = {configs}\n\n\n@triton.autotune'
    text = re.sub(r"configs=\[.*?\n    \],", "configs=CONFIGS,", STYLE.replace(RESET, ""), flags=re.DOTALL)
    assert text.count("configs=CONFIGS,") == 1
    assert said(text.replace("@triton.autotune", hook)) == ()


def test_where_nothing_is_tried_or_added_nothing_is_said():
    assert said(STYLE.replace(RESET, ""), configs=1) == ()
    assert said(STYLE.replace(RESET, ""), additions=0) == ()
    assert said(STYLE.replace(RESET, ""), additions=None) == ()


@pytest.mark.parametrize(
    ("in_cases", "when_timed", "told"),
    [
        ({"one_tile": 1, "k_tail": 2}, {"speed_m16": 1, "speed_m512": 2}, ""),
        ({"one_tile": 1, "k_tail": 1}, {"speed_m16": 1, "speed_m512": 2}, "config 0 SPLIT = 2 in speed_m512"),
        ({"one_tile": 8, "k_tail": 9}, {"speed_m16": 7, "speed_m512": 8}, "config 0 SPLIT = 7 in speed_m16"),
        ({}, {"speed_m16": 1}, ""),  # nothing ran at all, which is told otherwise
    ],
)
def test_what_a_heuristic_gives_timed_cases_alone_is_told(in_cases, when_timed, told):
    lab = get_lab("w4a16")
    launches = {(case, 0): Launch((1, 1, 1), (), (), (("M", 1), ("SPLIT", value))) for case, value in (in_cases | when_timed).items()}
    bundle = KernelBundle(lab.id, (Config(0, {}, 4, 1),), launches, {}, GeneratedModule("", lab.kernel, ()))
    said = seen_when_timed(lab, bundle, [Outcome(case, 0, "ran") for case in in_cases])
    assert len(said) == bool(told)
    assert all(f"not seen here: a heuristic gives {told}" in sentence for sentence in said)


STUDENT = (TESTS / "styles" / "w4a16_plain.py").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edits", "left_to_chance"),
    [
        ([(", other=0)", ")")], False),  # finite numbers, times an X that is zero there
        ([("scales_ptr + offs_n, mask=offs_n < N, other=0.0)", "scales_ptr + offs_n, mask=offs_n < N)")], False),  # never stored
        ([(", other=0.0)", ")"), (", other=0)", ")")], True),
        ([], False),
    ],
)
def test_what_depends_on_masked_elements_without_other_is_told_and_costs_nothing(tmp_path, edits, left_to_chance):
    text = STUDENT
    for find, replace in edits:
        assert find in text
        text = text.replace(find, replace)
    path = tmp_path / "w4a16.py"
    path.write_text(text, encoding="utf-8")
    report = graded(path, labs=("w4a16",))
    assert report["labs"]["w4a16"]["points"] == 60
    assert len(report["notes"]) == left_to_chance
    assert all("what the mask leaves out is undefined, and Y depends on it; add other=0." in note for note in report["notes"])
