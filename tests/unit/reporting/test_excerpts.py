"""A caret stands under what it marks, in terminals and in editors, however long the line is and however wide its characters are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grader.compile_errors.excerpt import INDENT, MAX_LINE, columns_of, excerpt
from grader.compile_errors.named_line import as_diagnostic

parts = st.text(alphabet="ab(+ 词列ｗé", min_size=0, max_size=70)


@given(indent=st.sampled_from(["", "    ", "\t"]), before=parts, marked=st.text("xyz", min_size=1, max_size=9), after=parts)
def test_the_caret_is_under_what_it_marks(tmp_path_factory, indent, before, marked, after):
    line = f"{indent}q{before}{marked}{after}"
    first = len(f"{indent}q{before}")
    column = len(line[:first].encode())
    shown, caret = excerpt(line, column, column + len(marked))
    assert columns_of(shown) <= MAX_LINE
    left = len(caret) - len(caret.lstrip())
    under = next(shown[at:] for at in range(len(shown) + 1) if columns_of(shown[:at]) == left)
    assert under.startswith(marked)
    assert caret.strip() == "^" * len(marked)
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "a.py").write_text(f"import triton\n{line}\n", encoding="utf-8")
    said = as_diagnostic(f"a.py line 2: what is wrong\n{INDENT}{shown}\n{INDENT}{caret}\nNext: mend it", folder)
    assert said == f"{folder / 'a.py'}:2:{first + 1}: error: what is wrong; mend it"


@given(line=parts.filter(str.strip))
def test_a_line_without_a_place_in_it_fits_too(line):
    (shown,) = excerpt(line, None)
    assert columns_of(shown) <= MAX_LINE
