"""Each cause is told once, in the terminal and on the page, with its line, and Next says the most certain thing."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from grader.judging.memory_sentences import sentences
from grader.labs import get_lab
from grader.labs.problems import make_problem
from grader.model import MemoryFinding, Outcome, Report, TestResult
from grader.reporting import page as html
from grader.reporting.causes import SEEN_BY_MEMORY, causes
from grader.reporting.compact import build_remarks, explanations
from grader.reporting.terminal import next_step, show
from tests.reports import kernel_source, wrong_report

OBSERVED = (
    "(1 of 2) w8a8.ipynb cell 7 line 6, in `odd_m`, program 0: X[0, 1] / s = 2.6 became 2, expected 3: truncated\n"
    "(2 of 2) w8a8.ipynb cell 7 line 7, in `odd_m`, program 0: 88 417 as fp16 is inf, expected the scales first"
)
TWICE = "w8a8.ipynb cell 7 line 9, in `k_tail`: the products are multiplied by X scaled twice"


def case(
    name,
    message="9 of 10 elements of Y are wrong [config 0]",
    diagnosis=None,
    mistake=None,
    mistakes=(),
    status="failed",
):
    metrics = {"mistake": mistake, **({"mistakes": list(mistakes)} if mistakes else {})}
    return TestResult(name, "correctness", status, 0, 3, message, diagnosis=diagnosis, metrics=metrics)


BUILD = TestResult("build_sm90", "build", "failed", 0, 0, "2 of 3 configs compile; config 1: out of shared memory")
MEMORY = TestResult("memory", "memory", "failed", 0, 10, "w8a8.ipynb cell 7 line 5: tl.load reads row 3 of x\nand a second line",
                    metrics={"seen": True})
UNSEEN = TestResult("memory", "memory", "failed", 0, 10, "4 of 4 launches did not finish")
ROUNDED = [
    case(name, f"{name} is wrong", OBSERVED, "truncation", ("truncation", "fp16_before_scaling"))
    for name in ("odd_m", "n_tail")
]
SCALED = [
    case(name, f"{name} is wrong", TWICE, "scale: powers 2 1", ("scale: powers 2 1",)) for name in ("k_tail", "long_k")
]
REGION = [case("one_tile", diagnosis="the grader could not trace how this kernel computes Y")]


def report(*tests: TestResult, status="graded", message="") -> Report:
    lab = wrong_report().labs["w8a8"]
    return replace(wrong_report(), labs={"w8a8": replace(lab, tests=tests, status=status, message=message)})


def printed(shown: Report, *, every: bool = False) -> str:
    out = io.StringIO()
    show(shown, Console(file=out, width=500), every=every)
    return out.getvalue()


@pytest.mark.parametrize(
    ("tests", "status", "said"),
    [
        ((BUILD, MEMORY, *ROUNDED), "graded", "w8a8: 2 of 3 configs compile; config 1: out of shared memory"),
        ((MEMORY, *ROUNDED), "graded", "w8a8: w8a8.ipynb cell 7 line 5: tl.load reads row 3 of x"),
        ((*ROUNDED, *SCALED, UNSEEN), "graded", "w8a8: w8a8.ipynb cell 7 line 6, in `odd_m`, program 0: X[0, 1] / s"),
        ((*REGION, UNSEEN), "graded", "w8a8: `one_tile`: 9 of 10 elements of Y are wrong"),
        ((*SCALED, UNSEEN), "graded", "w8a8: w8a8.ipynb cell 7 line 9, in `k_tail`: the products"),
        ((UNSEEN,), "graded", "w8a8: 4 of 4 launches did not finish"),
        ((case("odd_m", "did not finish within 24 s"), MEMORY), "timeout", "w8a8: w8a8.ipynb cell 7 line 5: tl.load reads"),
        ((case("odd_m", "did not finish within 24 s"), UNSEEN), "timeout", "w8a8: did not finish within 24 s"),
    ],
)
def test_next_says_the_most_certain_thing(tests, status, said):
    message = "did not finish within 24 s" if status == "timeout" else ""
    told = next_step(report(*tests, status=status, message=message))
    assert told.startswith(said)
    assert "\n" not in told


def test_equal_findings_are_one_cause_with_all_their_cases():
    told = causes([*ROUNDED, *SCALED, *REGION])
    assert [(one.number, one.cases, one.reasons) for one in told] == [
        (1, ("odd_m", "n_tail"), 2), (2, ("k_tail", "long_k"), 1), (3, ("one_tile",), 1),
    ]
    assert not any("(1 of 2)" in sentence for one in told for sentence in one.sentences)
    assert told[0].where == "", "its sentence says in which case it was observed, and of others nobody knows"
    assert causes([case(name) for name in "abcd"])[0].where == "in all 4 failing cases"


def test_causes_come_in_the_order_in_which_to_put_them_right():
    early = case("k_tail", diagnosis=TWICE, mistake="k: left step")
    early = replace(early, metrics={**early.metrics, "early": True})
    stray = case("m_tail", f"all of Y is NaN {SEEN_BY_MEMORY}")
    told = causes([*ROUNDED, *REGION, MEMORY, BUILD, replace(BUILD, name="build_sm80"), early, stray])
    assert [one.test or one.cases[0] for one in told] == ["build_sm90", "k_tail", "memory", "odd_m", "one_tile"]
    assert told[2].cases == ("m_tail",)
    assert [one.test for one in causes([UNSEEN, *REGION])] == ["", "memory"]


@pytest.mark.parametrize("shown", [printed, html.page], ids=["terminal", "page"])
def test_each_sentence_is_there_once(shown):
    """What was observed, and a message that several cases share. Of the page's table, which has each case's message, see below."""
    same = [
        case(name, f"the kernel wrote outside y_ptr [config {n}]")
        for n, name in enumerate(("a_case", "b_case", "c_case"))
    ]
    text = shown(report(*ROUNDED, *SCALED, *same, MEMORY))
    text = re.sub(r"<summary>Cases</summary>.*?</details>", "", text, flags=re.DOTALL)
    for sentence in (
        "became 2, expected 3",
        "as fp16 is inf",
        "X scaled twice",
        "the kernel wrote outside y_ptr",
        "reads row 3 of x",
    ):
        assert text.count(sentence) == 1, sentence
    assert "7 of 7 cases fail" in text
    assert "to fix" not in text, "two sentences may have one cause"
    assert re.search("in .*a_case.*b_case.*c_case", text, re.IGNORECASE)


def test_a_case_in_the_pages_table_refers_to_its_cause():
    for tests, words in (([*ROUNDED, *SCALED], ["cause 1", "cause 1", "cause 2", "cause 2"]), (ROUNDED, ["the cause above"] * 2)):
        text = html.page(report(*tests))
        table = text[text.index("<summary>Cases</summary>") :]
        assert re.findall(r'<a href="#w8a8-cause-\d">(.*?)</a>', table) == words
        assert "became 2" not in table[: table.index("</details>")]
        assert ("<h4>Cause 2</h4>" in text) == ("cause 2" in words)


@pytest.mark.parametrize(
    ("tests", "said", "last"),
    [
        (ROUNDED, "2 of 2 cases fail", "2."),  # one cause: its sentences are numbered
        ([*ROUNDED, *SCALED, MEMORY], "4 of 4 cases fail", "3."),
        (SCALED, "2 of 2 cases fail", ""),
        (REGION, "1 of 1 cases fail", ""),
    ],
)
def test_the_headline_counts_cases_alone(tests, said, last):
    text = printed(report(*tests))
    assert re.search(rf"{said} *\n", text)
    assert (re.findall(r"^ *(\d\.) ", text, re.MULTILINE) or [""])[-1] == last


def test_a_line_stands_below_its_sentence():
    text = printed(report(MEMORY))
    assert re.search(r"line 5: tl\.load reads row 3 of x *\n +for k in range\(0, tl\.cdiv\(K, BLOCK_K\)\): *\n", text)
    text = printed(report(replace(MEMORY, message="w8a8.ipynb cell 7 line 6: tl.load reads row 3 of x")))
    assert re.search(r"reads row 3 of x *\n +x = tl\.load\(x_ptrs\) *\n +\^{15} *\n", text), "a caret below the call"


def test_each_case_is_shown_when_asked_for():
    cases = [*ROUNDED, MEMORY, case("k_tail", "M=1: right", status="passed")]
    short, long = printed(report(*cases)), printed(report(*cases), every=True)
    assert "odd_m is wrong" not in short
    assert "registers" not in short
    assert all(text in long for text in ("odd_m is wrong", "M=1: right", "registers"))
    assert "✓ 1 of 1 cases pass" in printed(report(cases[-1]))


def test_a_notebook_says_each_cause_once():
    said = [remark.text for remark in explanations(report(*ROUNDED, *SCALED, MEMORY).labs["w8a8"])]
    assert sum("became 2" in text for text in said) == 1
    assert sum("X scaled twice" in text for text in said) == 1


def test_messages_that_differ_in_numbers_alone_are_one_cause():
    messages = [f"Y[{n}, 0] is {value}, expected {-value} [config {n}]" for n, value in enumerate((-2.5, 3, -1, 4))]
    tests = [case(name, message) for name, message in zip("abcd", messages, strict=True)]
    assert [one.cases for one in causes([*tests, case("e", "all of Y is NaN")])] == [("a", "b", "c", "d"), ("e",)]


def test_what_could_not_be_traced_at_one_line_is_one_cause_whatever_came_out():
    where = "the grader could not trace how this kernel computes Y (it ends at `{}`, w8a8.py line {}); the smallest is `a`"
    ends = (("dot", 5), ("dot", 5), ("scan", 5), ("dot", 51))
    messages = ("1 of 9 elements of Y are wrong", "all of Y is NaN", "9 of 9", "2 of 9")
    tests = [case(name, said, where.format(*end)) for name, said, end in zip("abcd", messages, ends, strict=True)]
    assert [one.cases for one in causes(tests)] == [("a", "b"), ("c",), ("d",)]


def test_every_line_that_was_observed_and_of_memory_bears_its_sentence():
    memory = replace(
        MEMORY, message="w8a8.ipynb cell 7 line 1: tl.load reads\nw8a8.ipynb cell 7 line 3: tl.store writes"
    )
    text = html.page(report(*ROUNDED, memory))
    marked = re.findall(
        r'<tr class="marked"><td class="line"><span class="pointer">▶ </span>(\d+)</td>.*?<tr class="remark"><td></td><td>(.*?)</td>',
        text,
        re.DOTALL,
    )
    assert [int(number) for number, _ in marked] == [1, 3, 6, 7]
    assert marked[2][1] == "in `odd_m`, program 0: X[0, 1] / s = 2.6 became 2, expected 3: truncated"
    assert marked[1][1] == "tl.store writes"


@pytest.mark.slow
def test_at_most_three_pictures_before_the_rest():
    lab = wrong_report().labs["w8a8"]
    maps = tuple(replace(lab.error_maps[0], case=f"case_{number}", M=77 + number) for number in range(5))
    shown = replace(report(*ROUNDED), labs={"w8a8": replace(lab, tests=tuple(ROUNDED), error_maps=maps)})
    before, after = html.page(shown).split("show all 5 pictures")
    assert (before.count("<img"), after.count("<img")) == (3, 2)
    same = tuple(replace(one, M=77) for one in maps)
    text = html.page(replace(shown, labs={"w8a8": replace(shown.labs["w8a8"], error_maps=same)}))
    assert text.count("<img") == 1
    assert "The same elements in case_1, case_2, case_3, case_4." in text


def told_of(*seen, source=None, **how):
    """The sentences on the accesses of one launch."""
    lab = get_lab("w8a8")
    problems = {"one_tile": make_problem(lab, lab.case("one_tile"), 1)}
    return sentences(lab, source or kernel_source(), problems, [Outcome("one_tile", 0, "ran", memory=seen)], **how)


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        (("beyond", "race"), ["mask it to columns below N"]),
        (("outside", "gap", "race"), ["it has no mask: mask what lies outside y, or fix its offsets and strides"]),
        (("past", "beyond"), ["the tile begins outside"]),
        (("race",), ["another program writes too"]),
    ],
)
def test_one_cause_of_one_access_is_told(faults, expected):
    said = told_of(*(MemoryFinding("store", fault, 8, "y_ptr", (0, 64), 1, (0, 1), offset=4096, differs=True) for fault in faults))
    assert len(said) == len(expected)
    assert all(words in sentence for words, sentence in zip(expected, said, strict=True))


@pytest.mark.parametrize(
    ("differs", "advice"), [(True, "or add with tl.atomic_add"), (False, "give each program tiles of its own")]
)
def test_sums_are_advised_where_programs_bring_different_numbers(differs, advice):
    same = MemoryFinding("store", "race", 8, "y_ptr", (0, 0), programs=(0, 1))
    seen = (same, replace(same, differs=True)) if differs else (same,)
    (sentence,) = told_of(*seen, alike=True)
    assert sentence.endswith(f"{advice} (in `one_tile`)")
    assert bool(told_of(*seen)) == differs, "one number stored twice does no harm"


def test_a_race_elsewhere_comes_first():
    beyond = MemoryFinding("load", "beyond", 7, "x_ptr", (64, 0), 0)
    said = told_of(beyond, MemoryFinding("store", "race", 8, "y_ptr", (0, 0), programs=(0, 1), differs=True))
    assert "another program writes too" in said[0]
    assert "mask it to rows below M" in said[1]


def test_a_tile_that_lies_across_may_have_its_strides_exchanged():
    """A mask is right where the tile is meant to lie so, and hides the mistake where it is not."""
    lab = get_lab("w8a8")
    own = make_problem(lab, lab.case("one_tile"), 1).tensors["y_ptr"].stride()
    across = MemoryFinding("store", "beyond", 8, "y_ptr", (64, 0), 0, steps=own[::-1])
    (said,) = told_of(across)
    assert "if that is not intended, swap its strides" in said
    source = kernel_source("\n" * 7 + "tl.store(y_ptrs, acc, mask=inside)\n")
    (let_through,) = told_of(across, source=source)
    assert "swap its strides, or, if that is intended, make its mask false for rows from M on" in let_through
    (known,) = told_of(across, stray={8: "its strides are not the tensor's"})
    assert "its strides are not the tensor's: fix that first" in known
    assert "mask it" not in known


@pytest.mark.parametrize("bonus", [False, True])
@pytest.mark.parametrize(
    ("gradable", "said"), [(60, "grade on a GPU for the speed points"), (100, "nothing left to do here")]
)
def test_a_right_kernel_is_told_what_this_machine_cannot_grade(gradable, said, bonus):
    right = replace(
        report(), labs={"w8a8": replace(report().labs["w8a8"], gradable_points=gradable, bonus=bonus, error_maps=())}
    )
    assert next_step(right).endswith(said)
    assert ("60 can be earned on this machine" in printed(right)) == (gradable == 60)


@pytest.mark.parametrize(("passed", "which"), [((), "no case can"), (("k_tail",), "1 of 2 cases cannot")])
def test_a_kernel_of_which_not_all_runs_here_is_not_called_right(passed, which):
    reason = "w8a8.py line 7: inline assembly runs on a GPU only"
    cases = [case("one_tile", reason, status="skipped"), *(case(name, "", status="passed") for name in passed)]
    lab = replace(report(BUILD, *cases).labs["w8a8"], error_maps=())
    lab = replace(lab, tests=tuple(replace(test, status="passed") if test is BUILD else test for test in lab.tests))
    said = next_step(replace(report(), labs={"w8a8": lab}))
    assert said == f"w8a8: {which} be graded on this machine: {reason}; grade it on a GPU"


def placed(*tests):
    """The causes of tests that name lines of a kernel: X's pointers are assigned in line 5 and moved in 9, Y's in line 11."""
    return causes(tests, LINES)


LINES = kernel_source("\n".join([
    "@triton.jit", "def W8A8_MM(", "    x_ptr):", "    pid = tl.program_id(0)", "    x_ptrs = x_ptr + pid", "    w = tl.load(x_ptr + pid)",
    "    for k in range(8):", "        x = tl.load(x_ptrs)", "        x_ptrs += 1", "    n = pid", "    y_ptrs = y_ptr + n",
    "    tl.store(y_ptrs, x)",
]))


def at(line, said):
    return f"{LINES.lines[line - 1]}: {said}"


def memory(*lines):
    return replace(MEMORY, message="\n".join(at(line, "accesses past the end") for line in lines))


@pytest.mark.parametrize(("blamed", "accessed", "one"), [
    (11, 12, True), (12, 12, True), (5, 8, True), (9, 8, True), (8, 8, True),
    (11, 8, False), (5, 12, False), (8, 12, False), (10, 12, False), (6, 8, False),
])
def test_an_access_and_the_line_that_makes_its_addresses_are_one_cause(blamed, accessed, one):
    told = placed(case("a", diagnosis=at(blamed, "moves by 1, expected 2"), mistake="k: step"), memory(accessed))
    assert len(told) == (1 if one else 2)
    assert sum(len(cause.sentences) for cause in told) == 2, "nothing is lost"
    assert told[0].reasons == 1


def test_what_memory_saw_elsewhere_is_a_cause_of_its_own():
    told = placed(case("a", diagnosis=at(11, "moves by 1, expected 2"), mistake="store"), memory(8, 12))
    assert [(one.test, one.cases, len(one.sentences)) for one in told] == [("", ("a",), 2), ("memory", (), 1)]


def test_one_line_is_one_cause_whatever_the_case_and_the_config():
    grids = [
        case(name, f"config {n} (BLOCK_M={16 << n}) on {name}: " + at(10, f"W8A8_MM_grid returned ({n},), expected one program"))
        for n, name in enumerate("bcde")
    ]
    told = placed(case("a", diagnosis=at(10, "rows 16 to 33 are never stored"), mistake="programs"), *grids)
    assert [(one.cases, len(one.sentences)) for one in told] == [(("a", "b", "c", "d", "e"), 2)]
    assert len(placed(*grids, case("f", "config 1 on f: " + at(6, "W8A8_MM_grid returned (1,)")))) == 2


@pytest.mark.parametrize("shown", [printed, html.page, lambda report: "\n".join(one.text for one in build_remarks(report.labs["w8a8"]))],
                         ids=["terminal", "page", "notebook"])
def test_a_compile_error_is_told_once_for_all_gpus(shown):
    tests = [replace(BUILD, name=f"build_sm{n}", message=f"2 of 3 configs compile; config 1 for sm_{n}: needs {n} KB") for n in (80, 90)]
    text = shown(report(*tests))
    causes_alone = text.split("<summary>Cases")[0].partition("<h3>")[2] if shown is html.page else text.split("Next:")[0]
    assert causes_alone.count("needs 80 KB") == 1
    assert "needs 90 KB" not in causes_alone
    assert "he same for sm_90" in causes_alone
