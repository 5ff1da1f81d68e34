"""What ncu wrote on an H200, read: counters of each launch, and the lines where its warps were met; and why there is no profile.

ncu/raw.csv: W4A16's second ladder step, three launches. ncu/source.csv: W8A8's solution, two launches, some of the columns.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from grader.labs import get_lab
from grader.model import (
    Binary,
    BuildFacts,
    Config,
    GeneratedModule,
    KernelBundle,
    KernelSource,
    Launch,
    Profile,
    SourceLine,
    SpeedSample,
)
from grader.reporting.profile_texts import REASONS, build_texts, profile_texts
from grader.running import profiler
from grader.running.profiler import NoProfile, counters, hot_lines, profile

DATA = Path(__file__).parent / "ncu"
LAB = get_lab("dds")
PAIR = (LAB.speed_cases[0].name, 0)
LAUNCH = Launch((1, 1, 1), (("x", "*fp16"),), (), ())
BUNDLE = KernelBundle(
    "dds", (Config(0, {}, 4, 2),), {PAIR: LAUNCH}, {}, GeneratedModule("", "DDS_MM", ()),
    {(90, 0, LAUNCH.key): Binary(0, 90, b"", "k", 4, 0, 0, (), None)},
)
MADE = GeneratedModule("", "W8A8_MM", tuple(range(101, 201)))


def read(name):
    return (DATA / name).read_text(encoding="utf-8")


def test_a_launch_has_its_counters():
    found = counters(read("raw.csv"))
    assert [one[profiler.TIME] for one in found] == [59616, 56064, 102304]
    assert [one[profiler.PEAKS["instruction issue"]] for one in found] == [17.53, 17.09, 35.91]


def test_a_launch_has_its_lines_and_the_next_begins_with_a_file_seen_before():
    first, second = hot_lines(read("source.csv"), MADE)
    assert [(one.line, one.reason) for one in first] == [(154, "wait"), (153, "short_sb"), (156, "wait"), (163, "wait")]
    assert [(one.line, one.reason) for one in second][:2] == [(163, "barrier"), (146, "long_sb")]
    assert first[0].share == pytest.approx(0.245, abs=0.001)
    assert first[0].reason_share == pytest.approx(1355 / 3856)
    assert (first[0].shared, first[0].sectors) == (1.0, 1.0)


def test_lines_of_the_graders_own_are_no_ones():
    assert hot_lines(read("source.csv"), replace(MADE, lines=(0,) * 100)) == [(), ()]


def test_a_line_that_takes_more_than_its_bytes_need_says_so():
    text = read("source.csv").replace('"16777216","16777216","0","0"', '"33554432","16777216","0","0"')
    assert hot_lines(text, MADE)[0][3].shared == 2


@pytest.mark.parametrize("text", ["", '"a","b"\n', '"File Path","x.py"\n"Line No","# Samples"\n"7","many"\n', '"7","8"\n', "no\n"])
def test_what_is_no_table_has_no_launches(text):
    assert counters(text) == []
    assert all(lines == () for lines in hot_lines(text, MADE))


def test_a_profile_in_words_names_the_students_lines():
    source = KernelSource("w8a8", "W8A8_MM", None, "\n".join(f"line_{at}()" for at in range(1, 201)), tuple(
        SourceLine("w8a8.ipynb cell 5", at) for at in range(1, 201)), Path("w8a8.ipynb"))
    hot = hot_lines(read("source.csv"), MADE)[0]
    (text,) = profile_texts(source, [Profile("speed_m16", 3, hot, 7.86, {"DRAM": 0.464, "L2": float("nan")}, 4.0)])
    whole, first, second, *_ = text.split("\n")
    assert whole == "speed_m16, config 3: 7.9 us, 4.0 warps on an SM; share of the GPU's peak: DRAM 46%. Where its warps were sampled:"
    assert first.startswith("w8a8.ipynb cell 5 line 154, `line_154()`: 25% of the samples; 35% of these wait for an instruction")
    assert "for shared memory or a special function" in second
    (text,) = profile_texts(source, [Profile("speed_m16", 3, hot)])
    assert text.split("\n")[0].startswith("speed_m16, config 3: where its warps were sampled, by Proton")
    assert text.split("\n")[1] == first


def test_without_a_profile_the_builds_of_the_fastest_configs_are_told():
    facts = BuildFacts(255, 64, 70 << 10, "none", False, 16, 2, 8)
    built = replace(BUNDLE, binaries={key: replace(one, facts=facts) for key, one in BUNDLE.binaries.items()})
    source = KernelSource("dds", "DDS_MM", None, "x = 1", (), Path("dds.py"))
    timed = SpeedSample(PAIR[0], 0, "timed")
    why, text = build_texts("no counters", LAB, source, built, [timed, SpeedSample("other", None, "failed")], 90)
    assert why == "no profile: no counters. What the compiler made of the fastest configs:"
    head, *advised = text.split("\n")
    assert head.startswith(f"{PAIR[0]}, config 0: 255 registers, spills 64 bytes per thread, 70 KB shared, no tensor-core instruction")
    assert advised[0].startswith("no tensor-core instruction: there is no tl.dot")
    assert build_texts("no case was timed", LAB, source, built, [], 90) == ("no profile: no case was timed",)


def tool_of(folder, script):
    """An ncu that is this script."""
    tool = folder / "ncu"
    tool.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    tool.chmod(0o755)
    return str(tool)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'", "only administrators may read this GPU's counters"),
        ("echo '==ERROR== unknown option'; exit 1", "its last words: ==ERROR== unknown option"),
        ("exit 1", "ncu gave no report, its last words: nothing; Proton took no samples, its last words: "),
        ("echo x > /dev/stderr; touch $(echo \"$@\" | sed 's/.*-o \\([^ ]*\\).*/\\1/')", "ncu counted 0 of"),
        ("", "is not installed here; Proton took no samples"),
    ],
)
def test_why_there_is_no_profile(tmp_path, monkeypatch, script, why):
    monkeypatch.setattr(profiler, "installed", lambda: tool_of(tmp_path, script) if script else None)
    with pytest.raises(NoProfile, match=why):
        profile(LAB, BUNDLE, [PAIR], 90, "0")


def frame(name, children=(), **metrics):
    return {"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": list(children)}


def sampled(name):
    """A tree as Proton writes it: the launch's scope, the kernel, and a frame for each line that a warp was met in."""
    place = f"/tmp/x/{profiler.MODULE_FILE}:"
    lines = [
        frame(f"{place}W8A8_MM@7", num_samples=60, num_stalled_samples=50, stalled_long_scoreboard=45, stalled_wait=5, stalled_selected=10),
        frame(f"{place}8@W8A8_MM", num_samples=30, stalled_barrier=30),
        frame("/triton/language/standard.py:sum@3", num_samples=10, stalled_wait=10),
    ]
    return json.dumps([frame("ROOT", [frame(name, [frame("W8A8_MM", lines)])]), {"CUDA": {}}])


def test_protons_samples_have_the_same_lines_and_words():
    hot = profiler.sampled_lines(sampled("speed_m16 0"), MADE)["speed_m16 0"]
    assert [(one.line, one.share, one.reason, one.reason_share) for one in hot] == [(107, 0.6, "long_sb", 0.75), (108, 0.3, "barrier", 1.0)]
    assert set(profiler.STALL_OF.values()) <= {profiler.STALL + name for name in REASONS}


@pytest.fixture
def by_proton(tmp_path, monkeypatch):
    """Profiles without ncu, where Proton writes a text."""
    monkeypatch.setattr(profiler, "installed", lambda: None)
    written = tmp_path / "written"
    monkeypatch.setattr(profiler, "launches", lambda *given: ["cp", str(written), f"{given[-1]}.hatchet"])
    return lambda text: (written.write_text(text, encoding="utf-8"), profile(LAB, replace(BUNDLE, made=MADE), [PAIR], 90, "0"))[1]


@pytest.mark.parametrize("text", ["", "{}", "[]", "[1]", '[{"children": [{}]}]', "[" * 100_000, sampled("another 0")])
def test_where_proton_writes_something_else_there_is_no_profile(by_proton, text):
    with pytest.raises(NoProfile, match="Proton took no samples"):
        by_proton(text)


def test_without_ncu_there_are_protons_lines(by_proton):
    (found,) = by_proton(sampled(f"{PAIR[0]} 0"))
    assert (found.case, found.config, found.peaks, [one.line for one in found.lines]) == (*PAIR, {}, [107, 108])
