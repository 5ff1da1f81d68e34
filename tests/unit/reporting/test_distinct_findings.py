"""Each finding is told once, in the terminal and on the page, and Next says the most certain thing."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from grader.compile_errors import headline
from grader.judging.memory import sentences
from grader.labs import get_lab
from grader.labs.problems import make_problem
from grader.model import MemoryFinding, Outcome, Report, TestResult
from grader.reporting import page as html
from grader.reporting.compact import explanations
from grader.reporting.distinct_findings import findings, first_said, says_something_new
from grader.reporting.listing import listing
from grader.reporting.terminal import next_step, show
from tests.reports import kernel_source, wrong_report

OBSERVED = (
    "(1 of 2) w8a8.ipynb cell 7 line 6, in `odd_m`, program 0: X[0, 1] / s = 2.6 became 2, expected 3: truncated\n"
    "(2 of 2) w8a8.ipynb cell 7 line 7, in `odd_m`, program 0: 88 417 as fp16 is inf, expected the scales first"
)
TWICE = "w8a8.ipynb cell 7 line 9, in `k_tail`: the products are multiplied by X scaled twice"


def case(name, message="9 of 10 elements of Y are wrong [config 0]", diagnosis=None, mistake=None, mistakes=(), status="failed"):
    metrics = {"mistake": mistake, **({"mistakes": list(mistakes)} if mistakes else {})}
    return TestResult(name, "correctness", status, 0, 3, message, diagnosis=diagnosis, metrics=metrics)


BUILD = TestResult("build_sm90", "build", "failed", 0, 0, "2 of 3 configs compile; config 1: out of shared memory")
MEMORY = TestResult("memory", "memory", "failed", 0, 10, "w8a8.ipynb cell 7 line 5: tl.load reads row 3 of x\nand a second line",
                    metrics={"seen": True})  # fmt: skip
UNSEEN = TestResult("memory", "memory", "failed", 0, 10, "4 of 4 launches did not finish")
ROUNDED = [case(name, f"{name} is wrong", OBSERVED, "truncation", ("truncation", "fp16_before_scaling")) for name in ("odd_m", "n_tail")]
SCALED = [
    case(name, f"{name} is wrong", TWICE, "scale: powers 2 1", ("scale: powers 2 1",)) for name in ("k_tail", "long_k")
]
REGION = [case("one_tile", diagnosis="how Y comes about could not be followed in this kernel")]


def report(*tests: TestResult, status="graded", message="") -> Report:
    lab = wrong_report().labs["w8a8"]
    return replace(wrong_report(), labs={"w8a8": replace(lab, tests=tests, status=status, message=message)})


def printed(shown: Report) -> str:
    out = io.StringIO()
    show(shown, Console(file=out, width=500))
    return out.getvalue()


@pytest.mark.parametrize(
    ("tests", "status", "said"),
    [
        ((BUILD, MEMORY, *ROUNDED), "graded", "w8a8: 2 of 3 configs compile; config 1: out of shared memory"),
        ((MEMORY, *ROUNDED), "graded", "w8a8: w8a8.ipynb cell 7 line 5: tl.load reads row 3 of x"),
        ((*ROUNDED, *SCALED, UNSEEN), "graded", "w8a8: w8a8.ipynb cell 7 line 6, in `odd_m`, program 0: X[0, 1] / s"),
        ((*REGION, UNSEEN), "graded", "w8a8: make `one_tile` pass first. how Y comes about could not be followed"),
        ((*SCALED, UNSEEN), "graded", "w8a8: w8a8.ipynb cell 7 line 9, in `k_tail`: the products"),
        ((UNSEEN,), "graded", "w8a8: 4 of 4 launches did not finish"),
        ((case("odd_m", "did not finish within 24 s"), MEMORY), "timeout", "w8a8: w8a8.ipynb cell 7 line 5: tl.load reads"),
        ((case("odd_m", "did not finish within 24 s"), UNSEEN), "timeout", "w8a8: did not finish within 24 s"),
    ],
)  # fmt: skip
def test_next_says_the_most_certain_thing(tests, status, said):
    message = "did not finish within 24 s" if status == "timeout" else ""
    assert next_step(report(*tests, status=status, message=message)).startswith(said)


def test_equal_findings_are_one_with_all_their_cases():
    told = findings([*ROUNDED, *SCALED, *REGION])
    assert [(one.number, one.cases, len(one.sentences)) for one in told] == [(1, ("odd_m", "n_tail"), 2), (2, ("k_tail", "long_k"), 1)]
    assert not any("(1 of 2)" in sentence for one in told for sentence in one.sentences)
    assert not any(one.whole for one in told)
    assert findings(ROUNDED)[0].whole


@pytest.mark.parametrize("shown", [printed, html.page], ids=["terminal", "page"])
def test_each_sentence_is_there_once(shown):
    """What was observed, and a message that several cases share, each beside or below its cases."""
    same = [case(name, f"the kernel wrote outside y_ptr [config {n}]") for n, name in enumerate(("a_case", "b_case", "c_case"))]
    text = shown(report(*ROUNDED, *SCALED, *same, MEMORY))
    text = re.sub(r'<table class="listing">.*?</table>', "", text, flags=re.DOTALL)  # notes beside the source say it there
    text = re.sub(r'<p class="next">.*?</p>|Next:.*', "", text, flags=re.DOTALL)
    for sentence in ("became 2, expected 3", "as fp16 is inf", "X scaled twice", "the kernel wrote outside y_ptr"):
        assert text.count(sentence) == 1, sentence
    assert text.count("as in a_case") == 2
    for name in ("odd_m", "n_tail", "k_tail", "long_k", "b_case"):
        assert name in text


def test_a_notebook_says_each_finding_once():
    said = [remark.text for remark in explanations(report(*ROUNDED, *SCALED, MEMORY).labs["w8a8"])]
    assert sum("became 2" in text for text in said) == 1
    assert sum("X scaled twice" in text for text in said) == 1
    assert any("in odd_m, n_tail" in text for text in said)


def test_only_the_config_may_differ_between_messages_that_are_the_same():
    several = "[2 of 3 configs fail, the first is config 1]"
    tests = [case("a", "x is 1 [config 0]"), case("b", f"x is 1 {several}"), case("c", "x is 2 [config 0]")]
    assert first_said(tests) == {"b": "a"}


def test_that_nothing_could_be_followed_is_said_once_whatever_the_sizes():
    where = "how Y comes about could not be followed in this kernel"
    texts = (where, where, f"{where} (it ends at `scan`)", f"{where}; it fails from M=1 N=32 K=32 on")
    tests = [case(name, f"{name} is wrong", diagnosis=text) for name, text in zip("abcd", texts, strict=True)]
    assert says_something_new([*tests, *ROUNDED]) == {"a", "c"}
    text = " ".join(printed(report(*tests)).split())
    assert text.count("could not be followed") == 3, "two in the table, one in Next"
    assert all(f"{name} is wrong" in text for name in "abcd")


def test_every_line_that_was_observed_and_of_memory_is_marked():
    memory = replace(MEMORY, message="w8a8.ipynb cell 7 line 1: tl.load reads\nw8a8.ipynb cell 7 line 3: tl.store writes")
    lab = report(*ROUNDED, memory).labs["w8a8"]
    marked = {line.number: [(note.test, note.text) for note in line.notes] for line in listing(kernel_source(), lab).marked}
    assert set(marked) == {1, 3, 6, 7}
    assert marked[6] == [("1 of 2", "in `odd_m`, program 0: X[0, 1] / s = 2.6 became 2, expected 3: truncated")]
    assert marked[3] == [("memory", "tl.store writes")]


def test_at_most_three_pictures_before_the_rest():
    lab = wrong_report().labs["w8a8"]
    maps = tuple(replace(lab.error_maps[0], case=f"case_{number}") for number in range(5))
    shown = replace(report(*ROUNDED), labs={"w8a8": replace(lab, tests=tuple(ROUNDED), error_maps=maps)})
    text = html.page(shown)
    before, after = text.split("<details>")
    assert (before.count("<img"), after.count("<img")) == (3, 2)
    assert "show all 5 pictures" in after
    assert "<details>" not in html.page(replace(shown, labs={"w8a8": replace(shown.labs["w8a8"], error_maps=maps[:3])}))


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
    lab = get_lab("w8a8")
    problems = {"one_tile": make_problem(lab, lab.case("one_tile"), 1)}
    seen = tuple(MemoryFinding("store", fault, 8, "y_ptr", (0, 64), 1, (0, 1), offset=4096) for fault in faults)
    said = sentences(lab, kernel_source(), problems, [Outcome("one_tile", 0, "ran", memory=seen)])
    assert len(said) == len(expected)
    assert all(words in sentence for words, sentence in zip(expected, said, strict=True))


@pytest.mark.parametrize(("differs", "advice"), [(True, "or add with tl.atomic_add"), (False, "give each program tiles of its own")])
def test_sums_are_advised_where_programs_bring_different_numbers(differs, advice):
    lab = get_lab("w8a8")
    problems = {"one_tile": make_problem(lab, lab.case("one_tile"), 1)}
    same = MemoryFinding("store", "race", 8, "y_ptr", (0, 0), programs=(0, 1))
    seen = (same, replace(same, differs=True)) if differs else (same,)
    (sentence,) = sentences(lab, kernel_source(), problems, [Outcome("one_tile", 0, "ran", memory=seen)])
    assert sentence.endswith(f"{advice} (in `one_tile`)")


def test_a_race_elsewhere_comes_first():
    lab = get_lab("w8a8")
    problems = {"one_tile": make_problem(lab, lab.case("one_tile"), 1)}
    seen = (
        MemoryFinding("load", "beyond", 7, "x_ptr", (64, 0), 0),
        MemoryFinding("store", "race", 8, "y_ptr", (0, 0), programs=(0, 1)),
    )
    said = sentences(lab, kernel_source(), problems, [Outcome("one_tile", 0, "ran", memory=seen)])
    assert "another program writes too" in said[0]
    assert "mask it to rows below M" in said[1]


def test_a_tile_that_lies_across_may_have_its_strides_exchanged():
    """A mask is right where the tile is meant to lie so, and hides the mistake where it is not."""
    lab = get_lab("w8a8")
    problems = {"one_tile": make_problem(lab, lab.case("one_tile"), 1)}
    own = problems["one_tile"].tensors["y_ptr"].stride()
    across = MemoryFinding("store", "beyond", 8, "y_ptr", (64, 0), 0, steps=own[::-1])
    outcomes = [Outcome("one_tile", 0, "ran", memory=(across,))]
    (said,) = sentences(lab, kernel_source(), problems, outcomes)
    assert "if that is not intended, swap its strides" in said
    source = kernel_source("\n" * 7 + "tl.store(y_ptrs, acc, mask=inside)\n")
    (let_through,) = sentences(lab, source, problems, outcomes)
    assert "swap its strides, or, if that is intended, make its mask false for rows from M on" in let_through
    (known,) = sentences(lab, kernel_source(), problems, outcomes, astray={8: "its strides are not the tensor's"})
    assert "its strides are not the tensor's: fix that first" in known
    assert "mask it" not in known


def test_headlines_stay_one_line():
    """What Next says fits one line, whatever the compiler said below it."""
    taught = replace(BUILD, message="config 0: w8a8.py line 3: Triton rejects this: no\n  x\n  ^\nNext: write y")
    assert next_step(report(taught)) == f"w8a8: {headline(taught.message)}"
    assert "\n" not in next_step(report(taught))


@pytest.mark.parametrize("bonus", [False, True])
@pytest.mark.parametrize(("gradable", "said"), [(60, "grade on a GPU for the speed points"), (100, "nothing left to do here")])
def test_a_right_kernel_is_told_what_this_machine_cannot_grade(gradable, said, bonus):
    right = replace(report(), labs={"w8a8": replace(report().labs["w8a8"], gradable_points=gradable, bonus=bonus, error_maps=())})
    assert next_step(right).endswith(said)
    assert ("60 can be earned on this machine" in printed(right)) == (gradable == 60)


def test_a_kernel_of_which_nothing_runs_here_is_not_called_right():
    reason = "w8a8.py line 7: inline assembly runs on a GPU only"
    lab = replace(report(BUILD, case("one_tile", reason, status="skipped")).labs["w8a8"], gradable_points=0, error_maps=())
    lab = replace(lab, tests=tuple(replace(test, status="passed") if test is BUILD else test for test in lab.tests))
    assert next_step(replace(report(), labs={"w8a8": lab})) == f"w8a8: no case can be graded on this machine: {reason}; grade it on a GPU"
