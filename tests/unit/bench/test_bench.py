"""The benchmark's data, tables and figures from a small record; and what is committed agrees with itself."""

from __future__ import annotations

import ast
import dataclasses
import json
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from bench import students, waiting
from bench.breakeven import break_even
from bench.figures import draw
from bench.peers import all_peers
from bench.running import contestants
from bench.shapes import all_shapes, shapes_of
from bench.tables import PICTURES, markdown, page, terminal_table
from bench.whole.pages import load_models
from grader.labs import all_labs
from grader.model import KernelSource
from grader.reporting.benchmarks import SHOWN, Entry, Record, from_json, load, others, to_json
from grader.unusable import Unusable

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
COMMITTED = ROOT / SHOWN


def entry(contestant, kind, shape, ratio):
    case = shape.case
    return Entry(
        contestant, kind, shape.lab_id, case.name, case.M, case.N, case.K, shape.sparsity, "timed",
        time_us=10.0, cublas_us=10.0 * ratio, ratio=ratio, ratio_low=ratio * 0.99, ratio_high=ratio * 1.01, rounds=45,
        extra_bytes=2 * case.M * case.N, bytes_moved=2 * case.M * case.K, operations=2 * case.M * case.N * case.K,
    )


def sample_record():
    entries = []
    for shape in all_shapes():
        ratio = 1.5 if shape.sparsity is None else 0.5 / (1.25 - shape.sparsity)
        entries.append(entry("solution", "solution", shape, ratio))
        entries.append(entry("a peer", "peer", shape, 0.8 * ratio))
        if shape.ladder:
            entries.append(entry(f"ladder/{shape.lab_id}_1_naive", "ladder", shape, 0.2))
    skipped = replace(entries[1], contestant="absent", status="skipped", message="absent is not installed", time_us=0.0)
    return Record(
        "NVIDIA H200", 90, "580.1", {"torch": "2.11.0"}, "2026-11-21 10:00 UTC", 100.0, 4.8e12, 1.07e15,
        (*entries, skipped), {"a peer": "what it does"},
    )


def test_a_record_survives_its_json():
    record = sample_record()
    again = from_json(to_json(record))
    assert to_json(again) == to_json(record)
    assert again.entries[0].config == record.entries[0].config
    assert len(again.entries) == len(record.entries)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema_version": 1, "entries": [{}]}'])
def test_what_is_no_record_is_refused(text):
    with pytest.raises(Unusable, match=r"run `make bench` again"):
        from_json(text, "x.json")


def test_a_missing_record_says_what_to_do(tmp_path):
    with pytest.raises(Unusable, match=r"run `make bench` on a GPU first"):
        load(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("points", "sparsity", "text"),
    [
        ([(0.5, 0.5), (0.9, 2.0)], 0.7, "0.70"),
        ([(0.9, 2.0), (0.5, 0.5), (0.7, 0.8)], 0.7 + 0.2 * math.log(1 / 0.8) / math.log(2.0 / 0.8), "0.75"),
        ([(0.5, 1.1), (0.9, 2.0)], None, "below 0.5"),
        ([(0.5, 0.3), (0.9, 0.9)], None, "above 0.9"),
    ],
)
def test_break_even(points, sparsity, text):
    found = break_even(points)
    assert found.text == text
    assert found.sparsity == (None if sparsity is None else pytest.approx(sparsity))


def test_tables_hold_every_timed_entry_and_every_reason():
    record = sample_record()
    text = markdown(record)
    for words in ("**w8a8**", "**w4a16**", "**dds**", "10.0 (1.50)", "absent is not installed", "a peer: what it does"):
        assert words in text
    assert "Break-even sparsity, solution: 0.75 (M = 128), 0.75 (M = 1024)" in text
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) >= len(all_shapes())
    assert "absent is not installed" in terminal_table(record)


def test_the_page_shows_every_drawing_and_the_tables():
    record = sample_record()
    written = page(record, [replace(record, gpu="Another")], {})
    assert markdown(record) in written
    assert "\n## Another\n" in written
    assert set(PICTURES) == set(draw(record))
    assert re.findall(r"\(\.\./bench/figures/([\w.]+)\)", written) == list(PICTURES)


def test_figures_are_svg_and_the_same_each_time():
    record = sample_record()
    drawn = draw(record)
    assert set(drawn) == {"speedup_tokens.svg", "speedup_sparsity.svg", "roofline.svg", "ladder.svg"}
    for svg in drawn.values():
        assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert draw(record) == drawn


def test_figures_of_a_record_with_almost_nothing():
    record = sample_record()
    draw(replace(record, entries=record.entries[:1]))


def test_shapes_cover_the_labs():
    for lab in all_labs():
        assert len(shapes_of(lab, ladder=True)) < max(1, len(shapes_of(lab)))
    assert sum(bool(shapes_of(lab, ladder=True)) for lab in all_labs()) >= 3
    names = [(shape.lab_id, shape.case.name) for shape in all_shapes()]
    assert len(set(names)) == len(names)


def test_contestants_are_the_solutions_and_the_ladder():
    found = contestants(ROOT / "solutions")
    assert [one.lab.id for one in found[: len(all_labs())]] == list(all_labs())
    assert all(isinstance(one.source, KernelSource) for one in found), [one.source for one in found]
    steps = {path.stem for path in (ROOT / "solutions" / "ladder").glob("*.py")}
    assert {one.name.removeprefix("ladder/") for one in found[len(all_labs()) :]} == steps


@pytest.mark.parametrize("path", sorted((ROOT / "solutions" / "ladder").glob("*.py")), ids=lambda path: path.stem)
def test_a_step_of_the_ladder_tells_what_was_measured(path):
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    record = load(ROOT / SHOWN)
    entries = [e for e in record.timed(kind="ladder") if e.contestant == f"ladder/{path.stem}"]
    measured = re.search(r"^Measured, microseconds, cuBLAS fp16 in brackets: (.*)", text, re.DOTALL | re.MULTILINE)[1]
    pairs = re.findall(r"([\d.]+) \(([\d.]+)\)", measured)
    assert len(pairs) == len(entries)
    for time_us, cublas_us in pairs:
        close = [e for e in entries if math.isclose(float(time_us), e.time_us, rel_tol=0.05)]
        assert any(math.isclose(float(cublas_us), e.cublas_us, rel_tol=0.05) for e in close), (time_us, cublas_us)


def test_peers_have_names_of_their_own():
    peers = all_peers()
    assert len({peer.name for peer in peers}) == len(peers)
    assert {peer.lab_id for peer in peers} == {lab for lab in all_labs() if shapes_of(lab)}
    absent = dataclasses.replace(peers[0], package="surely_not_installed")
    assert absent.missing() == "surely_not_installed is not installed"


def test_the_page_and_the_record_agree():
    committed = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert page(load(COMMITTED), others(ROOT), load_models(ROOT)) == committed, (
        "docs/benchmarks.md and bench/results/ differ; run `make figures`"
    )


def result(name):
    return json.loads((ROOT / "bench" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def words_of(page_name):
    return " ".join((ROOT / "docs" / page_name).read_text(encoding="utf-8").split())


def test_instructors_read_the_measured_throughput():
    text = words_of("instructor.md")
    runs = result("students_nvidia_h200")["runs"]
    rates = [60 * run["students"] / run["seconds"] for run in runs if run["cores"] == 16]
    assert [f"{rate:.1f} students a minute on one H200 with 16 cores" in text for rate in rates] == [True] * len(rates)
    assert f"graded {result('throughput_nvidia_h200')['ratio']:.0f} times as many students per minute on an H200" in text
    assert f"and {result('throughput_cpu')['ratio']:.1f} times as many on two cores without a GPU" in text


def test_the_page_says_what_the_last_comparison_of_both_devices_found():
    record, text = result("same_verdict"), words_of("tolerance.md")
    assert {lab for lab in all_labs() if load(COMMITTED).timed(lab)} <= set(record["labs"]) <= set(all_labs())
    assert f"{record['agree']} of {record['submissions']} agreed" in text
    assert [one["name"] for one in record["exceptions"] if f"`{one['name']}`" not in text] == []


def test_the_page_says_how_ratios_came_again():
    record, text = result("repeatability_nvidia_h200"), words_of("timing.md")
    cases = record["cases"].values()
    controls = [abs(control - 1) for case in cases for control in case["control"]]
    assert f"In {record['runs']} gradings" in text
    assert f"all {len(controls)} controls were within {math.ceil(10000 * max(controls)) / 100:.2f} %" in text
    assert f"all {sum(len(case['tier']) for case in cases)} speed cases in the top tier" in text
    assert {tier for case in cases for tier in case["tier"]} == {4}
    spreads = [100 * (max(case["ratio"]) / min(case["ratio"]) - 1) for case in cases]
    assert f"within {min(spreads):.1f} to {max(spreads):.1f} % of each other" in text


def test_instructors_read_what_a_killed_actor_cost():
    run, text = result("ray_killed_nvidia_h200"), words_of("instructor.md")
    assert f"took {run['seconds']:.0f} s for such a class of {run['students']}" in text
    assert f"all {run['graded']} files were graded" in text
    assert run["graded"] == run["files"]
    assert run["top_tier"][0] == run["top_tier"][1]
    assert f"all {run['top_tier'][1]} timed cases were in the top tier" in text


def test_operators_read_how_soon_a_real_server_answers():
    run, text = result("serving_nvidia_h200"), words_of("server.md")
    assert run["answered"] == run["submissions"]
    crowd = f"{run['submissions']} submissions of {run['students']} students, all at once"
    assert f"{crowd}, were answered within {run['seconds']:.0f} s" in text
    assert f"({run['a_minute']} a minute)" in text
    alone = run["idle_seconds"]
    assert f"after {min(alone)} to {max(alone)} s each ({run['idle_median']} at the median)" in text


def test_operators_read_what_kills_cost():
    run, text = result("course_killed"), words_of("server.md")
    ray, (server, worker, process) = run["ray"], run["killed"].values()
    kills = f"{sum(run['killed'].values())} kills, {server} of the server, {worker} of a worker and {process} of a process"
    assert f"Of {run['submitted']} submissions during {kills}" in text
    assert f"{run['kernels']} kernels have {run['verdicts']} verdicts" in text
    over = f"with {ray['killed']['server']} kills of the server and {ray['killed']['node']} of a node"
    assert f"nothing was lost of {ray['submitted']} either, {over}" in text
    for one in (run, ray):
        assert one["accepted"] == one["submitted"]
        assert not any(one[name] for name in ("not answered", "queued twice", "graded or answered twice", "processes left"))


def test_instructors_read_the_table_of_cores_and_students():
    text = (ROOT / "docs" / "instructor.md").read_text(encoding="utf-8")
    written = text[text.index(students.BEGIN) + len(students.BEGIN) : text.index(students.END)].strip()
    records = students.loaded()
    assert written == (students.table(records).strip() if records else "")
    written = text[text.index(waiting.BEGIN) + len(waiting.BEGIN) : text.index(waiting.END)].strip()
    assert written == waiting.table(waiting.loaded()).strip()


def test_waiting_is_told_by_its_median_for_each_commit():
    runs = [waiting.Command("a row", "abc", wall, wall / 10, cpu, 0.5) for wall, cpu in ((3.0, 5.0), (1.0, None), (2.0, 7.0))]
    text = waiting.table(waiting.WaitingRecord("", 2, "", (*runs, dataclasses.replace(runs[0], commit="def"))))
    assert "| a row | abc | 3 | 2.0 (1.0 to 3.0) | 0.20 | 6.0 |" in text
    assert "| a row | def | 1 | 3.0 (3.0 to 3.0) | 0.30 | 5.0 |" in text


def test_what_is_waited_for_is_new_where_it_says_so(tmp_path):
    for row, (write, labs) in waiting.rows().items():
        texts = []
        for _ in range(2):
            write(tmp_path, labs)
            texts.append([(tmp_path / f"{lab}.py").read_text(encoding="utf-8") for lab in labs])
        assert (texts[0] == texts[1]) is ("kept" in row), row


def test_a_class_has_so_many_distinct_kernels(tmp_path):
    assert students.hand_in(tmp_path, 5, 0.4) == 3
    for lab in all_labs().values():
        texts = [path.read_text(encoding="utf-8") for path in sorted(tmp_path.glob(f"*/{lab.id}.py"))]
        assert [len(texts), len(set(texts))] == ([0, 0] if lab.bonus else [5, 3])


def test_the_cpu_time_of_a_group_is_that_of_its_processes():
    counted = students.Counted()
    if counted.path is None:
        pytest.skip("no control group can be made here")
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    subprocess.run([sys.executable, "-c", burn], check=True, preexec_fn=counted.join)
    assert 0.4 < counted.end() < 5


def test_rows_have_rates_by_the_minute():
    run = students.ClassRun(cores=16, students=20, distinct=16, seconds=60.0, memory_gb=9.0, cpu_seconds=None)
    text = students.table(
        [students.ClassRecord("H", "", {}, (run, dataclasses.replace(run, seconds=120.0, cpu_seconds=600.0)))]
    )
    assert "| H | local | 0 | 16 | 20 | 16 | 60 | 20.0 |  | 9.0 GB |" in text
    assert "| H | local | 0 | 16 | 20 | 16 | 120 | 10.0 | 30 | 9.0 GB |" in text
