"""A profile by the GPU's own counters: of the lines that the student wrote, and no number that cannot be."""

import pytest

from grader.building import BuildOptions, build
from grader.gpu.devices import choose
from grader.labs import get_lab
from grader.reading import read
from grader.reporting.profile_texts import REASONS, profile_texts
from grader.running import profiler
from tests.submissions import TESTS

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]


@pytest.fixture(scope="module")
def profiled():
    """Two launches of a solution, a function that profiles them, and the source."""
    lab, (device, _) = get_lab("dds"), choose("cuda")
    source = read(TESTS.parent / "solutions", [lab], all_labs=True).labs["dds"]
    bundle = build(lab, source, BuildOptions((device.capability,), "all", 4))
    pairs = [(case.name, 0) for case in lab.speed_cases[:2]]
    return pairs, lambda: profiler.profile(lab, bundle, pairs, device.capability, "0"), source


def test_proton_names_the_lines_where_there_is_no_ncu(profiled, monkeypatch):
    pairs, profile, source = profiled
    monkeypatch.setattr(profiler, "installed", lambda: None)
    found = profile()
    assert [(one.case, one.config, one.peaks) for one in found] == [(*pair, {}) for pair in pairs]
    text = source.module.splitlines()
    assert any("tl.load" in text[line.line - 1] or "tl.dot" in text[line.line - 1] for one in found for line in one.lines)
    assert any(line.reason in REASONS for one in found for line in one.lines)


@pytest.mark.skipif(profiler.installed() is None, reason="needs Nsight Compute's ncu")
def test_a_profile_names_the_lines_where_warps_wait(profiled):
    pairs, profile, source = profiled
    found = profile()
    assert [(one.case, one.config) for one in found] == pairs
    for one in found:
        assert 1 < one.us < 1e4
        assert 0 < one.warps <= 64
        assert len(one.peaks) == 4
        assert all(0 <= share <= 1.01 for share in one.peaks.values())
        assert one.lines
        assert 0.05 <= sum(line.share for line in one.lines) <= 1
        assert all(line.reason in REASONS and 0 < line.reason_share <= 1 for line in one.lines)
    text = source.module.splitlines()
    assert any("tl.load" in text[line.line - 1] or "tl.dot" in text[line.line - 1] for one in found for line in one.lines)
    said = profile_texts(source, found)
    assert len(said) == 2
    assert f"dds.py line {source.lines[found[0].lines[0].line - 1].line}, " in said[0]
