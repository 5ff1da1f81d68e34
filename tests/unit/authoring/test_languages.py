"""Notebooks in English and Chinese come from one source; what is not translated yet is counted, and the count only shrinks."""

from __future__ import annotations

import nbformat
import pytest

from grader.authoring.notebooks import instructor_notebook, sources, student_notebook, untranslated
from grader.unusable import Unusable
from tests.submissions import TESTS

ROOT = TESTS.parent
UNTRANSLATED: dict[str, int] = {}
"""Text cells without a Chinese twin. Lower a number when you translate; a notebook that is not named here has none."""

SOURCE = """# %% [markdown]
# # Title
#
# See [the handout](HANDOUT.md), [a page](../docs/student.md), [the labs](w8a8.ipynb) and [a site](https://example.org).

# %% [markdown] lang="zh"
# # 标题
#
# 见[讲义](HANDOUT.zh.md)、[一页](../docs/student.md)、[实验](w8a8.ipynb)。一行写
# 不完，接着写：
# `tile` 也接上。
#
# - 一项，
# - 又一项

# %%
x = 1

# %% [markdown]
# Only in English.

# %% [markdown] answer="q" points=3
# The model answer.

# %% [markdown] lang="zh"
# 参考答案。
"""


def test_both_languages_have_the_same_cells(tmp_path):
    path = tmp_path / "two.py"
    path.write_text(SOURCE, encoding="utf-8")
    english, chinese = (student_notebook(path, ROOT, language) for language in ("en", "zh"))
    nbformat.validate(chinese)
    assert [cell.id for cell in english.cells] == [cell.id for cell in chinese.cells]
    assert [cell.metadata for cell in english.cells] == [cell.metadata for cell in chinese.cells]
    title, install, code, text, answer = chinese.cells
    assert title.source.startswith("# 标题\n\n[![Open in Colab]")
    assert "/blob/main/notebooks/zh/two.ipynb" in title.source
    assert "/blob/main/notebooks/two.ipynb" in english.cells[0].source
    assert "[讲义](../HANDOUT.zh.md)、[一页](../../docs/student.md)、[实验](w8a8.ipynb)" in title.source
    assert title.source.endswith("一行写不完，接着写：`tile` 也接上。\n\n- 一项，\n- 又一项"), "Markdown would show a line's end as a space"
    assert "[a page](../docs/student.md), [the labs](w8a8.ipynb) and [a site](https://example.org)" in english.cells[0].source
    assert (install.cell_type, code.source, text.source) == ("code", "x = 1", "Only in English.")
    assert answer.source == "YOUR ANSWER HERE"
    assert instructor_notebook(path, ROOT, "zh").cells[-1].source == "参考答案。"
    assert untranslated(path) == ["Only in English."]


LADDER = "# %% [markdown]\n# @ladder w8a8: m16_n4096_k4096\n#\n# @speed w8a8: tiles\n\n# %% [markdown] lang=\"zh\"\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        *((text, "below the English text") for text in (
            '# %%\nx = 1\n# %% [markdown] lang="zh"\n# 文\n',
            '# %% [markdown] lang="zh"\n# 文\n',
            '# %% [markdown]\n# a\n# %% [markdown] lang="de"\n# b\n',
            '# %% [markdown]\n# a\n# %% [markdown] lang="zh"\n# 文\n# %% [markdown] lang="zh"\n# 文\n',
            '# %% [markdown] answer="q" points=3\n# a\n# %% [markdown] lang="zh" answer="q" points=3\n# 文\n')),
        (f"{LADDER}# @ladder w8a8: m16_n4096_k4096\n# | 一步\n", "1 lines"),
        (f"{LADDER}# @speed w8a8: tiles\n", "asks nothing in zh"),
    ],
)
def test_a_twin_stands_below_what_it_translates_and_has_its_words(tmp_path, text, told):
    path = tmp_path / "bad.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Unusable, match=told):
        student_notebook(path, ROOT, "zh")


@pytest.mark.parametrize("path", sources(ROOT), ids=lambda path: path.stem)
def test_what_is_untranslated_is_counted(path):
    """A lab that is made anew has no Chinese at all, and nobody has to say so here."""
    missing = untranslated(path)
    begun = 'lang="zh"' in path.read_text(encoding="utf-8") or path.stem in UNTRANSLATED
    allowed = UNTRANSLATED.get(path.stem, 0) if begun else len(missing)
    assert len(missing) == allowed, (
        f"{path.name} has {len(missing)} text cells without a Chinese twin, expected {allowed}; translate the one that you added, "
        "or lower the number here:\n" + "\n".join(missing)
    )


def test_what_a_cell_takes_from_the_code_is_said_in_its_language(tmp_path):
    path = tmp_path / "times.py"
    ideas = "".join(f"# | 第{number}步\n" for number in "一二三四")
    path.write_text(f"{LADDER}# @ladder w8a8: m16_n4096_k4096\n{ideas}#\n# @speed w8a8: tiles | 几个程序？\n", encoding="utf-8")
    english, chinese = (student_notebook(path, ROOT, language).cells[0].source for language in ("en", "zh"))
    assert "| 4 | tiles that fit the work" in english
    assert "**Predict:** With N = 4096" in english
    assert "| 4 | 第四步 |" in chinese
    assert "**预测：** 几个程序？\n\n表中的时间" in chinese
    assert not [word for word in ("Predict", "tiles", "before") if word in chinese]
