"""Pictures of programs and memory: they draw, say the counted numbers in words, and reach notebook and page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.notebook import cells as notebook_cells
from grader.notebook import showing
from grader.notebook.showing import NotYet, missed_in_l2, show_memory, show_order, show_programs, show_warp
from grader.pipeline.page_traffic import counted as counted_of
from grader.reporting import memory_pictures as drawn
from grader.reporting import traffic_words
from grader.reporting.inline import Inline
from grader.reporting.page import page
from grader.reporting.pictures import Picture
from grader.traffic import GPUS
from tests.reports import wrong_report
from tests.traffics import of_solution
from tests.unit.notebook.test_steps import solution_cells
from tests.unit.reporting.test_pictures import words_inside_and_apart

pytestmark = pytest.mark.xdist_group("traffic")


@pytest.mark.slow
def test_pictures_say_the_numbers_that_they_show():
    words = of_solution("ladder/w4a16_1_obvious.py", "w4a16", (256, 256, 256))
    split = of_solution("ladder/w4a16_4_split.py", "w4a16", (16, 128, 1024))
    blocks = of_solution("dds.py", "dds", "sparsity_80", 2)
    by_tensor = {one.tensor: one for one in words.coalescing}
    shown: list[tuple[Picture | None, str]] = [
        (drawn.programs(words), "16 programs, grid (16,), in the order of launch. Tiles of Y [256, 256]: program 0 owns [0:64, 0:64]"),
        (drawn.one_program(words, 6), "it reads 16384 of 65536 elements of x, reads 2048 of 8192 elements of qweight"),
        (drawn.reads(words), "x: each 4 times; qweight: each 32 times"),
        (drawn.nibbles(words), "each word loaded 8 times in a tile"),
        (drawn.coalesced(words, by_tensor["qweight_ptr"]), "512 bytes asked for, 8 sectors of 32 bytes touched"),
        (drawn.programs(split), "4 share a tile, each has a slice of K"),
        (drawn.one_program(split, 3), "slice 1 of 4"),
        (drawn.slices_of_k(split), "slice 1 reads k = 128 to 255, 640 to 767"),
        (drawn.nibbles(split), "thread 0 holds the first word"),
        (drawn.one_program(blocks, 6), "elements of values"),
        (drawn.reads(blocks), "values: each once"),
        (drawn.order_in_l2(words, GPUS["T4"], 16), "K = 4096"),
    ]
    for picture, said in shown:
        assert picture is not None, said
        assert said in picture.alt
        assert picture.svg().startswith("<svg")
        words_inside_and_apart(picture)
    assert drawn.slices_of_k(words) is None
    assert drawn.nibbles(blocks) is None
    rows = traffic_words.traffic_rows(words)
    assert rows[1] == "qweight [32, 256]: loads ask for 1.05 MB, 32.8 KB of it distinct: 32 loads per element, by 4 programs"
    assert "4 times" not in rows[3]


@pytest.mark.slow
def test_in_a_notebook(monkeypatch: pytest.MonkeyPatch):
    cells, shown = solution_cells("dds"), []
    elsewhere = notebook_cells.inputs
    monkeypatch.setattr(notebook_cells, "inputs", lambda *_: cells)
    monkeypatch.setattr(showing, "display", lambda *answer: shown.append(Inline(*answer)))
    show_programs("dds")
    show_memory("dds", program=3)
    show_warp("dds")
    show_order("dds", sizes=(64, 256, 256))
    assert [len(answer.pictures) for answer in shown] == [1, 2, 3, 1]
    assert "values" in repr(shown[1])
    show_order("dds", sizes=(64, 256, 256), order=lambda pid, rows, columns: divmod(pid, columns))

    def mine(pid: int, rows: int, columns: int) -> tuple[int, int]:
        return divmod(pid, columns)

    missed = missed_in_l2("dds", sizes=(64, 256, 256), order=mine)
    assert missed["mine"] == missed["row by row"] > 0
    wrong = {
        lambda pid, rows, columns: (pid % rows, pid % columns): "both make tile",
        lambda pid, rows, columns: (0, pid): r"is \(0, \d+\), expected \(row, column\) with a row below",
        lambda pid, rows, columns: None: r"is None, expected \(row, column\)",
        lambda pid, rows, columns: (pid / 2, 0): r"is \(0.0, 0\), expected",
    }
    for order, said in wrong.items():
        with pytest.raises(NotYet, match=said):
            show_order("dds", sizes=(64, 256, 256), order=order)
    with pytest.raises(NotYet, match="There is no program 99: this launch has 16"):
        show_memory("dds", program=99)
    with pytest.raises(NotYet, match=r"expected \(M, N, K\), N and K multiples of 32"):
        show_memory("dds", sizes=(64, 100, 64))
    with pytest.raises(NotYet, match="there is no config 40; CONFIGS has"):
        show_programs("dds", config=40)
    with pytest.raises(NotYet, match="There is no model of 'B200'"):
        show_order("dds", "B200")
    cells.clear()
    with pytest.raises(NotYet, match="DDS_MM"):
        show_programs("dds")
    monkeypatch.setattr(notebook_cells, "inputs", elsewhere)
    with pytest.raises(NotYet, match="works in a notebook"):
        show_programs("dds")


def test_on_a_page():
    report = wrong_report()
    assert "What it does to memory" not in page(report)
    text = page(report, {"w8a8": of_solution("ladder/w4a16_1_obvious.py", "w4a16", (256, 256, 256))})
    assert "What it does to memory" in text
    assert "32 loads per element" in text
    assert counted_of(replace(report, labs={"w8a8": report.labs["w8a8"]})) == {}
