"""A mistake is named where an operand equals what the mistake's own kernel held, at every element; a near one is not."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from grader.authoring.mistake_operands import operands, write_mistakes
from grader.diagnosis.catalogue import Catalogue, Mistake, load, title
from grader.diagnosis.observation import Observation
from grader.labs import all_labs, get_lab
from grader.labs.wrong_kernels import wrong_kernels
from tests.submissions import TESTS, failed_tests, graded_as_read, style_file

WITH_CATALOGUE = [lab for lab in all_labs().values() if wrong_kernels(lab)]


def observation(values):
    numbers = np.array([(row, k, number) for (row, k), number in values.items()])
    return Observation("value", "left", 1, "X[0, 0] is multiplied as 1", values=numbers)


def test_only_an_operand_that_is_the_same_everywhere_has_a_name():
    held = np.arange(20, dtype=np.float32).reshape(4, 5)
    catalogue = Catalogue({"half": Mistake("half", "half", "halves X")}, {("case", "left", "half"): held})
    places = {(row, k): float(held[row, k]) for row in range(4) for k in range(5)}
    assert catalogue.named("case", observation(places)).text("line 1").endswith(". A kernel that halves X gives the same numbers here")
    assert not catalogue.named("other case", observation(places)).mistake
    assert not catalogue.named("case", observation({**places, (3, 4): 18.5})).mistake
    assert not catalogue.named("case", observation({**places, (9, 9): 1.0})).mistake


def test_two_mistakes_that_hold_the_same_name_nothing():
    held = np.arange(20, dtype=np.float32).reshape(4, 5)
    both = {name: Mistake(name, name, name) for name in ("one", "other")}
    catalogue = Catalogue(both, {("case", "left", name): held for name in both})
    alike = Catalogue({name: Mistake(name, "kind", name) for name in both}, catalogue.operands)
    values = {(row, k): float(held[row, k]) for row in range(4) for k in range(5)}
    assert alike.named("case", observation(values)).mistake == "kind"
    assert not catalogue.named("case", observation({(row, k): float(held[row, k]) for row in range(4) for k in range(5)})).mistake


@pytest.mark.slow
def test_the_kept_files_are_of_these_edits(tmp_path):
    """By the digests of all wrong kernels: nothing is to be run."""
    for folder in ("tests", "solutions"):
        (tmp_path / folder).symlink_to(TESTS.parent / folder)
    shutil.copytree(TESTS.parent / "grader" / "labs", tmp_path / "grader" / "labs")
    assert all((tmp_path / "grader" / "labs" / lab.id / "mistakes.npz").is_file() for lab in WITH_CATALOGUE)
    assert write_mistakes(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("lab", WITH_CATALOGUE, ids=lambda lab: lab.id)
def test_the_kept_file_is_what_the_edits_give(lab):
    """By running every twentieth of the wrong kernels that hold something."""
    known = load(lab.id)
    kept = [kernel for kernel in wrong_kernels(lab) if any(key[2] == kernel.name for key in known.operands)]
    for kernel in kept[::20]:
        for (case, aspect), array in operands(lab.id, kernel).items():
            np.testing.assert_array_equal(array, known.operands[case, aspect, kernel.name])


@pytest.mark.parametrize(
    ("style", "find", "put", "cases", "mistake"),
    [
        # all_tails has no -8; on the values of the diagnosis it has
        ("w4a16_bytes", "q.to(tl.float16)", "tl.maximum(q, -7).to(tl.float16)", ("all_tails", "every_nibble"), "minus_eight_clamped"),
        # where the blocks lie is drawn for each grading
        ("dds_transposed_sum", "v, xt, acc)", "v.to(tl.bfloat16), xt.to(tl.bfloat16), acc)", ("rectangular",), "multiplied_in_bf16"),
    ],
)
def test_a_mistake_is_named_in_another_style_whatever_the_seed_and_the_case(style, find, put, cases, mistake, tmp_path):
    lab = get_lab(style.split("_")[0])
    text = style_file(style).read_text(encoding="utf-8")
    assert text.count(find) == 1
    path = tmp_path / f"{lab.id}.py"
    path.write_text(text.replace(find, put), encoding="utf-8")
    document = graded_as_read(path, replace(lab, cases=tuple(lab.case(name) for name in cases)))
    (failed,) = failed_tests(document, lab.id)
    says = next(one.says for one in wrong_kernels(lab) if one.name == mistake)
    assert says in failed["diagnosis"]


def test_what_a_report_counts_has_words():
    assert title("w8a8", "k: left step") == "the two operands do not meet at the same k"
    assert title("w8a8", "truncation") == next(one.says for one in wrong_kernels(get_lab("w8a8")) if one.name == "truncation")
