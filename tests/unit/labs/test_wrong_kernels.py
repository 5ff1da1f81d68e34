"""Wrong kernels are made from the entries of mistakes.toml; an entry that cannot be used is one sentence."""

from __future__ import annotations

import tomllib

import pytest

from grader.authoring.new_lab import missing
from grader.labs import get_lab
from grader.labs.wrong_kernels import ROOT, SHARED, alternatives, catalogue, wrong_kernels
from grader.unusable import Unusable
from tests.submissions import LABS, corpus, plain, with_mistakes
from tests.tables import each_row

BASE = "one\ntwo\ntwo\nthree\n"
ENTRY = {
    "name": '"a"',
    "says": '"does it wrong"',
    "edits": '[{ find = "one", replace = "uno" }]',
    "fails": '["one_tile"]',
    "names": '["truncation"]',
}


def made(root, *entries, top='base = "plain.py"'):
    path = catalogue("w8a8", root)
    path.parent.mkdir(parents=True, exist_ok=True)
    (root / "plain.py").write_text(BASE, encoding="utf-8")
    other = '[[kernel]]\nname = "other"\nbase = "plain.py"\nedits = [{ find = "one", replace = "four" }]\n'
    (root / "kernels.toml").write_text(other, encoding="utf-8")
    tables = [
        "[[mistake]]\n" + "\n".join(f"{key} = {value}" for key, value in entry.items() if value) for entry in entries
    ]
    path.write_text("\n\n".join([top, *tables]), encoding="utf-8")
    return wrong_kernels(get_lab("w8a8"), root)


def test_edits_are_made_one_after_the_other(tmp_path):
    edits = '[{ find = "one\\ntwo", replace = "zwei" }, { find = "two", replace = "deux" }]'
    (kernel,) = made(
        tmp_path, {**ENTRY, "edits": edits, "names": '["truncation", "no_clamp or zeros"]'}
    )
    assert kernel.source == "zwei\ndeux\nthree\n"
    assert kernel.base == BASE
    assert alternatives(kernel.names) == {"truncation", "no_clamp", "zeros"}
    assert kernel.fails == ("one_tile",)


def test_a_whole_file_has_no_base(tmp_path):
    (tmp_path / "whole.py").write_text("wrong\n", encoding="utf-8")
    (kernel,) = made(tmp_path, {**ENTRY, "edits": "", "file": '"whole.py"'})
    assert (kernel.source, kernel.base, kernel.edits) == ("wrong\n", None, ())
    (kernel,) = made(tmp_path, {**ENTRY, "edits": "", "file": '"kernels.toml:other"'})
    assert (kernel.source, kernel.base) == (BASE.replace("one", "four"), None)


def test_a_lab_without_the_file_has_none(tmp_path):
    assert wrong_kernels(get_lab("w8a8"), tmp_path) == ()


@each_row
def test_a_bad_entry_is_a_sentence(tmp_path, change, sentence):
    with pytest.raises(Unusable) as problem:
        made(tmp_path, {**ENTRY, **change})
    assert str(problem.value).startswith("grader/labs/w8a8/mistakes.toml, `a`: ")
    assert sentence in str(problem.value)


def test_names_and_kernels_are_there_once(tmp_path):
    other = {**ENTRY, "edits": '[{ find = "three", replace = "3" }]'}
    with pytest.raises(Unusable, match="`a`: the name is there twice"):
        made(tmp_path, ENTRY, other)
    with pytest.raises(Unusable, match="`b`: the same kernel as `a`"):
        made(tmp_path, ENTRY, {**ENTRY, "name": '"b"'})
    assert len(made(tmp_path, ENTRY, {**other, "name": '"b"'})) == 2


def test_an_entry_for_all_labs_is_one_of_each_whose_kernel_it_fits(tmp_path):
    shared = tmp_path / "grader" / "labs" / "mistakes.toml"
    shared.parent.mkdir(parents=True)
    entries = [
        '[[mistake]]\nname = "b"\nsays = "does it wrong"\nedits = [{ find = "three", replace = "3" }]\nnames = ["b"]\n'
        'fails = ["one_tile", "one_block"]',
        '[[mistake]]\nname = "a"\nsays = "is the lab\'s own"\nedits = [{ find = "three", replace = "4" }]\nnames = ["a"]\n'
        'fails = ["one_tile"]',
        '[[mistake]]\nname = "c"\nsays = "fits no kernel here"\nedits = [{ find = "two", replace = "3" }]\nnames = ["c"]\n'
        'fails = ["one_tile"]',
    ]
    shared.write_text("\n\n".join(['base = "plain.py"', *entries]), encoding="utf-8")
    own, other = made(tmp_path, ENTRY)
    assert (own.name, own.says, other.name, other.fails) == ("a", "does it wrong", "b", ("one_tile",))
    assert other.source == BASE.replace("three", "3")


def test_an_entry_for_all_labs_fits_several():
    entries = tomllib.loads((ROOT / SHARED).read_text(encoding="utf-8"))["mistake"]
    for entry in entries:
        labs = [kernel.lab for kernel in corpus() if kernel.name == entry["name"] and kernel.says == entry["says"]]
        assert len(labs) > 1, entry["name"]


@pytest.mark.parametrize(("top", "sentence"), [("base = ", "expected TOML"), ('bases = "x"', "`bases` at the top")])
def test_a_bad_file_is_a_sentence(tmp_path, top, sentence):
    with pytest.raises(Unusable, match=sentence):
        made(tmp_path, ENTRY, top=top)


def test_check_lab_says_so(tmp_path):
    made(tmp_path, ENTRY)
    catalogue("w8a8", tmp_path).write_text('[[mistake]]\nname = "a"\n', encoding="utf-8")
    assert any(must and "there is no `says`" in sentence for must, sentence in missing("w8a8", tmp_path))
    catalogue("w8a8", tmp_path).unlink()
    assert (False, "grader/labs/w8a8/mistakes.toml: no wrong kernel shows that its cases catch one") in missing(
        "w8a8", tmp_path
    )


def test_every_lab_here_has_wrong_kernels():
    assert with_mistakes() == LABS
    assert {kernel.lab for kernel in corpus() if kernel.base == plain(kernel.lab)} == set(LABS)
    assert any(len(kernel.names) > 1 for kernel in corpus())
