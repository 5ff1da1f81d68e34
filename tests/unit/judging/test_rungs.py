"""Where a right kernel stands on the ladder, by what grading has compiled already; what that leaves open is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grader.building import BuildOptions, build
from grader.judging.points import speed_points
from grader.judging.rungs import rung, standing
from grader.labs import all_labs, speed_steps_of
from grader.model import KernelBundle, KernelSource
from grader.reading import read
from grader.reporting.benchmarks import SHOWN, load
from grader.reporting.rung_text import standing_text
from tests.submissions import style_file

SOLUTIONS = Path(__file__).parents[3] / "solutions"
LABS = list(all_labs())

# of which nothing is said: no step is taken, or launches and binaries leave one open, as one that only memory traffic tells
OPEN = {"w8a8_1_obvious", "w8a8_4_tiles", "w4a16_1_obvious", "dds_2_order", "w8a16_2_gemv", "w8a16_3_vectors", "w4a16_gemv"}


def built(lab_id: str, name: str) -> KernelBundle:
    lab = all_labs()[lab_id]
    path = SOLUTIONS / "ladder" / f"{name}.py"
    source = read(path if path.exists() else style_file(name), [lab]).labs[lab_id]
    assert isinstance(source, KernelSource)
    bundle = build(lab, source, BuildOptions((80, 90), "check", 2))
    assert isinstance(bundle, KernelBundle)
    return bundle


@pytest.mark.slow
@pytest.mark.parametrize("name", ["w8a8_1_obvious", "w8a8_4_tiles", "w4a16_1_obvious", "w4a16_3_words", "w4a16_5_registers",
                                  "dds_2_order", "dds_3_pipelined", "w8a16_2_gemv",
                                  "w8a16_3_vectors", "w8a16_4_split", "gptq_5_registers", "w4a16_gemv"])
def test_a_rung_of_the_ladder_stands_at_itself_as_far_as_grading_tells(name):
    lab = all_labs()[name.split("_")[0]]
    bundle = built(lab.id, name)
    assert standing(lab, bundle) == ("" if name in OPEN else name)
    assert standing(lab, replace(bundle, binaries={})) == ""


def test_rungs_follow_the_steps():
    for lab_id in LABS:
        steps = list(speed_steps_of(lab_id).values())
        found = [rung(steps, taken) for taken in range(len(steps) + 1)]
        assert found[0] == ""
        assert found[-1] == max((step.rungs[1] for step in steps), key=lambda name: (name == "solution", name))
        numbers = [99 if name == "solution" else int(name.split("_")[1]) for name in found[1:]]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("lab_id", LABS)
def test_the_sentence_has_the_rungs_own_times_and_points(lab_id):
    record = load(SOLUTIONS.parent / SHOWN)
    assert standing_text(lab_id, "solution") == standing_text(lab_id, "") == ""
    for path in sorted((SOLUTIONS / "ladder").glob(f"{lab_id}_*.py")):
        text, step = standing_text(lab_id, path.stem), path.stem.split("_")[1]
        assert text.startswith(f"The kernel is built like step {step} of the table in {lab_id}.ipynb. On an {record.gpu} ")
        timed = [one for one in record.timed(lab_id, "ladder") if one.contestant == f"ladder/{path.stem}"]
        assert timed
        assert all(f" {one.time_us:.1f} us" in text for one in timed)
        named = path.stem.split("_", 2)[2] in speed_points(record.gpu, lab_id)
        assert text.endswith(" of 40 points for speed." if named else "so it has no points of its own.")
