"""Pictures: they draw, they say in words what they show, and they follow light and dark."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from grader.judging.checking import Finding
from grader.judging.error_map import classify, error_map
from grader.judging.scoring import _error_maps
from grader.labs import get_lab
from grader.labs.inputs import pack_int4
from grader.labs.problems import make_problem
from grader.model import Config, Reference, TestResult, Verdict
from grader.reporting import pictures
from tests.commands import python
from tests.reports import wrong_report


def reference(M: int = 40, N: int = 64) -> Reference:
    return Reference(torch.zeros(M, N, dtype=torch.float64), torch.full((M, N), 0.1, dtype=torch.float64), 1e-3)


def test_verdicts_tell_near_far_and_unwritten_apart():
    y = torch.zeros(1, 64, dtype=torch.float16)
    y[0, :4] = torch.tensor([0.05, 0.5, 5.0, float("nan")])
    y[0, 4] = float("inf")
    verdicts = classify(y, reference(1))
    assert verdicts[0, :6].tolist() == [
        Verdict.RIGHT, Verdict.NEAR, Verdict.FAR, Verdict.UNWRITTEN, Verdict.FAR, Verdict.RIGHT,
    ]


def test_the_map_keeps_the_worst_of_each_cell_and_every_count():
    lab, y = get_lab("w8a8"), torch.zeros(300, 1024, dtype=torch.float16)
    y[299, 1023] = float("nan")
    y[0, 0] = 0.5
    errors = error_map(lab, "case", Config(0, {"BLOCK_M": 64, "BLOCK_N": 64}, 4, 2), y, reference(300, 1024))
    assert errors.step == (2, 4)
    assert errors.cells.shape == (150, 256)
    assert errors.cells[0, 0] == Verdict.NEAR
    assert errors.cells[-1, -1] == Verdict.UNWRITTEN
    assert np.count_nonzero(errors.cells) == 2
    assert errors.counts == (300 * 1024 - 2, 1, 0, 1)
    assert pictures.wrong_tiles(errors) == ([(0, 0), (256, 960)], 5 * 16)


@pytest.mark.parametrize(("lab", "constants", "tile"), [("w8a8", {"TILE": 64}, None), ("dds", {"BLOCK_M": 16}, (16, 32))])
def test_a_config_without_the_usual_names_has_no_tile_lines_and_a_dds_tile_is_a_block_wide(lab, constants, tile):
    errors = error_map(get_lab(lab), "case", Config(0, constants, 4, 2), torch.ones(40, 64).half(), reference())
    assert errors.tile == tile
    assert ("tiles" in pictures.error_map(errors).alt) == bool(tile)


def test_no_map_is_kept_of_a_hidden_case():
    lab = get_lab("w8a8")
    case = lab.case("one_tile")
    errors = error_map(lab, case.name, Config(0, {}, 4, 2), torch.ones(40, 64).half(), reference())
    findings = [Finding(False, "wrong", errors=errors)]
    assert _error_maps(lab, findings) == (errors,)
    assert _error_maps(replace(lab, cases=(replace(case, hidden=True),)), findings) == ()


def all_pictures() -> dict[str, pictures.Picture]:
    lab = get_lab("dds")
    problem = make_problem(lab, replace(lab.case("rectangular"), N=256, K=512), 1)
    metrics = {"ratio": 1.55, "ratio_low": 1.54, "ratio_high": 1.56, "tiers": [0.25, 0.5, 0.75, 1.0]}
    timed = [TestResult("speed_m16", "speed", "passed", 10, 10, "", metrics=metrics)]
    points = [pictures.RooflinePoint("speed_m16", 5.4e8, 1.7e7, 8.8, 13.7)]
    return {
        "error_map": pictures.error_map(wrong_report().labs["w8a8"].error_maps[0]),
        "quantisation": pictures.quantisation(torch.tensor([1.0, -3.0, 90.0]), 0.5, name="row 0 of $X$"),
        "int4_levels": pictures.quantisation(torch.tensor([1.0, -8.0, 3.0]), 1.0, bits=4),
        "bsr_pattern": pictures.bsr_pattern(
            problem.tensors["crow_indices_ptr"], problem.tensors["col_indices_ptr"], problem.scalars["K"]
        ),
        "int4_word": pictures.int4_word(-0x1234567, row=3, column=17),
        "speed_tiers": pictures.speed_tiers(timed),
        "roofline": pictures.roofline(points, 4800, {"fp16": 760.0, "int8": 1520.0}),
        "shared_scales": pictures.shared_scales({"per tensor": torch.zeros(4, 6).int(), "groups": torch.arange(24).view(4, 6) // 3}),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", list(all_pictures()))
def test_each_picture_is_an_svg_that_follows_the_readers_setting(name: str):
    picture = all_pictures()[name]
    svg = picture.svg()
    assert svg.startswith("<svg")
    assert "prefers-color-scheme:dark" in svg
    assert "var(--ink" in svg
    assert not re.search(r'(?:href|src)="(?!#|data:)', svg), "a picture refers to nothing outside itself"
    assert len(svg) < 120_000
    assert picture.png().startswith(b"\x89PNG")
    assert len(picture.alt) > 20
    assert picture.svg() == svg, "the same data draw the same file"


@pytest.mark.slow
def test_words_carry_the_numbers():
    drawn = all_pictures()
    assert "1664 NaN or unwritten" in drawn["error_map"].alt
    assert "5 of 20 tiles" in drawn["error_map"].alt
    assert "1 clamped" in drawn["quantisation"].alt
    assert "0 clamped" in drawn["int4_levels"].alt
    assert "1.55x (1.54 to 1.56), tier 4 of 4" in drawn["speed_tiers"].alt
    assert "38 of 128 blocks" in drawn["bsr_pattern"].alt
    assert "per tensor has 1 scale; groups has 8 scales" in drawn["shared_scales"].alt


@pytest.mark.slow
def test_a_slider_shows_one_picture_of_several_with_the_same_axes():
    roofs, frames = {"fp16": 760.0}, {}
    for tokens, moved in (("1", 1e7), ("<512>", 1e8)):
        points = [pictures.RooflinePoint(f"a format that is far from its roof, {tokens}", 5e8, moved, 9.0, 9.0)]
        frames[tokens] = pictures.roofline(points, 4800, roofs, reach=(1, 2000))
    assert "baseline" not in frames["1"].alt
    axes = [one.figure.axes[0] for one in frames.values()]
    assert axes[0].get_xlim() == axes[1].get_xlim()
    assert axes[0].get_ylim() == axes[1].get_ylim()
    slider = pictures.Slider("tokens", frames, first=1)
    html = slider.html()
    assert html.count("display:block") == html.count("display:none") == 1
    assert html.index("display:none") < html.index("display:block")
    assert "<output>&lt;512&gt;</output>" in html
    assert not re.search(r'(?:href|src)="(?!data:)', html), "nothing is loaded from elsewhere"
    assert "tokens 1: Roofline" in slider._repr_mimebundle_()["text/plain"]


def words_inside_and_apart(picture: pictures.Picture) -> list[str]:
    """The texts of a picture, none of which leaves it or covers another."""
    figure = picture.figure
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [
        (text.get_text(), text.get_window_extent(canvas.get_renderer()))
        for text in figure.findobj(Text)
        if text.get_visible() and len(text.get_text()) > 4
    ]
    for at, (words, box) in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1, words
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1, words
        assert [other for other, theirs in boxes[:at] if box.overlaps(theirs)] == [], words
    return [words for words, _ in boxes]


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(277, 192), (48, 256), (1, 512), (16, 64), (269, 40), (300, 1024)])
def test_words_of_an_error_map_lie_inside_it_and_apart(shape: tuple[int, int]):
    y = torch.ones(shape).half()
    errors = error_map(get_lab("dds"), "every_config_tall", Config(13, {"BLOCK_M": 16}, 4, 2), y, reference(*shape))
    words = words_inside_and_apart(pictures.error_map(errors))
    assert "column n of Y" in words
    assert any(text.startswith("every_config_tall") for text in words)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 3, 6])
@pytest.mark.parametrize("scale", [1e-4, 1.0, -1e9])
def test_values_can_be_read_whatever_their_size(columns, scale):
    got = scale * torch.linspace(0.123456, 9.87654, 8 * columns, dtype=torch.float64).view(8, columns)
    wrong = torch.ones(8, columns, dtype=torch.bool)
    unset = torch.arange(8)[:, None].expand(8, columns) == 3
    words = words_inside_and_apart(pictures.values("acc", got.long() if scale < 0 else got, -got, wrong, unset, (3, 0)))
    assert words.count("unset") == columns
    assert "acc: got" in words


@pytest.mark.slow
def test_titles_of_footprints_lie_inside_and_apart():
    touched = np.ones((4, 4), dtype=bool)
    names = ("x_ptr", "qweight_ptr", "input_scale_ptr", "weight_scale_ptr", "out_ptr")
    words_inside_and_apart(pictures.footprints([dict.fromkeys(names, touched)] * 4, "found (block row; first, last)"))


def test_the_word_shows_what_packing_packed():
    q = torch.tensor([-8, -1, 0, 1, 7, -7, 3, -2], dtype=torch.int32)
    word = int(pack_int4(q[:, None])[0, 0])
    assert f"are {', '.join(str(int(value)) for value in q)}, lowest" in pictures.int4_word(word).alt


@pytest.mark.slow
def test_degenerate_data_draw():
    assert pictures.quantisation(torch.zeros(16), 1.0).png()
    assert pictures.bsr_pattern(torch.zeros(5, dtype=torch.int32), torch.zeros(0, dtype=torch.int32), 128).png()


@pytest.mark.slow
def test_matplotlib_is_imported_only_to_draw():
    """It takes half a second of CPU, and the pages of right kernels have no picture."""
    code = (
        "import sys, grader.reporting.pictures, grader.cli.main, grader.pipeline.grading; from grader.reporting import page; "
        "from dataclasses import replace; from tests.reports import wrong_report; report = wrong_report(); "
        "page.page(replace(report, labs={k: replace(lab, error_maps=()) for k, lab in report.labs.items()})); "
        "sys.exit('matplotlib' in sys.modules)"
    )
    python("-c", code)
