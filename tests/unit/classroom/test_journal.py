"""The journal keeps every verdict, one process at a time, and survives damage."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import grader
from grader.classroom.batch.journal import Journal, JournalFull, code_digest, grader_digest, verdict_key
from grader.classroom.batch.verdicts import PLACE, anonymous, from_json, placed, to_json
from grader.classroom.hidden_cases import Secrets, draw, load_secrets
from grader.labs import all_labs, get_lab
from grader.labs.validation import MOST_ELEMENTS
from grader.model import (
    BuildFacts,
    Config,
    Device,
    ErrorMap,
    KernelSource,
    LabReport,
    SourceLine,
    TestResult,
)
from grader.unusable import Unusable
from tests.commands import ran

DEVICE = Device("cpu", "interpreter", None, None, "2.13.0", "3.7.1", "bubblewrap")


def source(module="kernel = 1\n", place="w8a8.py"):
    return KernelSource("w8a8", "W8A8_MM", None, module, (SourceLine(place, 41),), Path(place))


def report(points=12.5):
    errors = ErrorMap("one_tile", 0, 8, 8, (1, 1), np.eye(8, dtype=np.uint8), (56, 8, 0, 0), (4, 4))
    test = TestResult("one_tile", "correctness", "failed", 0.0, 3.0, f"{PLACE} line 1: no", f"see {PLACE}", {"n": [1]})
    facts = BuildFacts(32, 0, 2048, "wgmma", True, 16, 8, 32)
    config = Config(0, {"BLOCK_M": 16, "GROUP": None, "FLAG": True, "RATE": 0.5, "NAME": "x"}, 4, 3)
    return LabReport(
        "w8a8", "W8A8", "graded", f"{PLACE} line 1", (test,), points, 60.0, "skipped", 0.0, 40.0, 60.0,
        (config,), {0: facts}, 90, (errors,),
    )


def test_reports_survive_the_journal(tmp_path):
    with Journal(tmp_path / "journal.sqlite") as journal:
        journal.put("key", report())
    with Journal(tmp_path / "journal.sqlite") as journal:
        kept = journal.get("key")
        assert journal.get("other") is None
    assert to_json(kept) == to_json(report())
    assert np.array_equal(kept.error_maps[0].cells, np.eye(8))
    assert kept.configs[0].constants == report().configs[0].constants
    assert kept.facts == report().facts


def test_a_report_speaks_of_each_students_own_file():
    said = replace(report(), remarks=(f"{PLACE} line 1: no points lost",), profile=(f"whole\n{PLACE} line 1, `x`: 40%",))
    mine = placed(from_json(to_json(said)), source(place="mine.ipynb cell 3"))
    assert mine.remarks == ("mine.ipynb cell 3 line 41: no points lost",)
    assert mine.profile == ("whole\nmine.ipynb cell 3 line 41, `x`: 40%",)
    assert mine.message == "mine.ipynb cell 3 line 41"
    assert mine.tests[0].message == "mine.ipynb cell 3 line 41: no"
    assert PLACE not in to_json(mine)


def test_a_verdict_is_kept_until_the_code_that_decided_it_changes(tmp_path):
    shutil.copytree(Path(grader.__file__).parent, tmp_path / "grader", ignore=shutil.ignore_patterns("__pycache__"))

    def digest():
        grader_digest.cache_clear()
        return grader_digest(tmp_path / "grader")

    before = digest()
    assert before == grader_digest()
    weights = ("judging/rubric.toml", "judging/tiers/sm_90.toml")
    without_a_say = (
        "classroom/batch/exports.py", "reporting/terminal.py", "cli/class_commands.py", "labs/dds/slips.toml", "labs/dds/steps.py",
    )
    for paths, all_that_was_read_stays in ((weights, True), (without_a_say, False)):
        for path in paths:
            with (tmp_path / "grader" / path).open("a") as file:
                file.write("# another column\n")
        assert digest() == before
        code_digest.cache_clear()
        assert (code_digest(tmp_path / "grader") == code_digest()) == all_that_was_read_stays
    for path in ("labs/dds/lab.py", "judging/points.py", "sandbox/inside/worker.py", "model.py", "classroom/hidden_cases.py"):
        with (tmp_path / "grader" / path).open("a") as file:
            file.write("# another tolerance\n")
        before, last = digest(), before
        assert before != last


def test_keys_follow_what_a_verdict_depends_on():
    secrets = Secrets(1)
    key = verdict_key(source(), DEVICE, secrets)
    assert key == verdict_key(source(place="elsewhere.py"), DEVICE, secrets)
    assert key == verdict_key(anonymous(source()), DEVICE, secrets)
    hidden = Secrets(1, (("w8a8", replace(get_lab("w8a8").cases[0], name="hidden_1", hidden=True)),))
    others = [
        verdict_key(source("kernel = 2\n"), DEVICE, secrets),
        verdict_key(source(), replace(DEVICE, kind="cuda", name="NVIDIA H200"), secrets),
        verdict_key(source(), replace(DEVICE, triton="3.6.0"), secrets),
        verdict_key(source(), DEVICE, Secrets(2)),
        verdict_key(source(), DEVICE, hidden),
    ]
    assert len({key, *others}) == 6


def test_the_verdict_in_force_is_the_one_that_was_used_last(tmp_path):
    with Journal(tmp_path / "journal.sqlite") as journal:
        assert journal.in_force("work") is None
        for points in (1.0, 2.0):
            journal.put(f"key {points}", report(points))
        gpu = replace(DEVICE, kind="cuda", name="NVIDIA H200")
        journal.use("work", "key 2.0", DEVICE)
        journal.use("work", "key 1.0", gpu)
    with Journal(tmp_path / "journal.sqlite") as journal:
        verdict, device = journal.in_force("work")
        assert (verdict.correctness_points, device) == (1.0, gpu)


def test_a_damaged_row_is_graded_again(tmp_path):
    path = tmp_path / "journal.sqlite"
    with Journal(path) as journal:
        journal.put("key", report())
    database = sqlite3.connect(path)
    database.execute("UPDATE verdict SET report = replace(report, '12.5', '60.0')")
    database.commit()
    database.close()
    with Journal(path) as journal:
        assert journal.get("key") is None


@pytest.mark.parametrize("damage", ["truncated", "overwritten", "no database"])
def test_a_damaged_file_is_put_aside_and_what_is_whole_is_kept(tmp_path, damage):
    path = tmp_path / "journal.sqlite"
    with Journal(path) as journal:
        assert journal.setting("seed", "5") == "5"
        for number in range(200):
            journal.put(f"key {number}", report(number))
            journal.use(f"work {number}", f"key {number}", DEVICE)
    data = bytearray(path.read_bytes())
    if damage == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "overwritten":
        middle = len(data) // 2
        data[middle : middle + 20_000] = os.urandom(20_000)
        path.write_bytes(data)
    else:
        path.write_bytes(b"the dog ate it" * 1000)
    with Journal(path) as journal:
        assert "was damaged" in journal.notes[0]
        for number in range(200):
            verdict = journal.get(f"key {number}")
            assert verdict is None or verdict.correctness_points == number
            used = journal.in_force(f"work {number}")
            assert used is None or used[0].correctness_points == number
        journal.put("new", report())
        assert journal.get("new")
    assert len(list(tmp_path.glob("journal.sqlite.damaged-*"))) >= 1
    with Journal(path) as journal:
        assert not journal.notes


@pytest.mark.slow
def test_two_batches_cannot_share_a_journal(tmp_path):
    with Journal(tmp_path / "journal.sqlite"):
        program = "import sys; from pathlib import Path; from grader.classroom.batch.journal import Journal\nJournal(Path(sys.argv[1]))"
        other = ran(sys.executable, "-c", program, tmp_path / "journal.sqlite")
        assert "Unusable" in other.stderr
        assert f"process {os.getpid()}" in other.stderr
        with pytest.raises(Unusable):
            Journal(tmp_path / "journal.sqlite")
    with Journal(tmp_path / "journal.sqlite"):
        pass


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare to mount a small disk")
def test_a_full_disk_loses_nothing_that_was_kept(tmp_path):
    program = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from grader.classroom.batch.journal import Journal, JournalFull
from tests.unit.classroom.test_journal import report
kept = 0
journal = Journal(Path(sys.argv[1]) / "journal.sqlite")
try:
    while True:
        journal.put(f"key {kept}", report(kept))
        kept += 1
except JournalFull as full:
    print(full)
assert kept > 5
assert all(journal.get(f"key {number}").correctness_points == number for number in range(kept))
print("kept", kept)
"""
    script = tmp_path / "fill.py"
    script.write_text(program)
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=400k none {disk}"
    probe = ran("unshare", "-rm", "sh", "-c", mount)
    if probe.returncode:
        pytest.skip(f"no small disk can be mounted here: {probe.stderr.strip()}")
    command = f"{mount} && {sys.executable} {script} {disk} {Path(__file__).parents[3]}"
    done = ran("unshare", "-rm", "sh", "-c", command)
    assert done.returncode == 0, done.stderr
    assert "free some space and run the same command again" in done.stdout
    assert "kept" in done.stdout


def test_a_journal_that_cannot_be_written(tmp_path):
    with pytest.raises(JournalFull, match="choose another place"):
        Journal(tmp_path / "missing" / "journal.sqlite")


def test_drawn_secrets_can_be_loaded_and_hide_themselves(tmp_path):
    path = tmp_path / "secrets.toml"
    path.write_text(draw(all_labs().values()))
    secrets = load_secrets(path)
    for lab in all_labs().values():
        hidden = [case for case in secrets.lab(lab).cases if case.hidden]
        assert len(hidden) == 3
        assert secrets.lab(lab).cases[: len(lab.cases)] == lab.cases
        assert {bool(case.group_size) for case in hidden} == {any(case.group_size for case in lab.cases)}
        public = {(case.N, case.K) for case in lab.cases}
        drawn = [case for _ in range(8) for case in tomllib.loads(draw([lab]))["case"]]
        assert any((case["N"], case["K"]) not in public for case in drawn), "only rows are hidden"
        assert len({case["M"] for case in drawn if case["M"] < 16}) > 3
        together = {(case.x, case.w, case.x_layout) for case in lab.cases}
        assert any((case["x"], case["w"], case["x_layout"]) not in together for case in drawn), "public cases combine the same"
        many = [case for _ in range(100) for case in tomllib.loads(draw([lab]))["case"]]
        assert {(case["x"], case["w"]) for case in many} == {(case.x, case.w) for case in lab.cases if case.configs == "one"}
        assert max(case["M"] * case["N"] for case in many) <= MOST_ELEMENTS
    assert str(secrets.seed) not in secrets.fingerprint
    again = tmp_path / "again.toml"
    again.write_text(draw(all_labs().values()))
    assert load_secrets(again).fingerprint != secrets.fingerprint


def hidden(lab, **fields):
    """A secrets file with a case."""
    fields = {"lab": lab, "name": "h", "M": 1, "N": 16, "K": 16, **fields}
    return "\n".join(["seed = 1", "[[case]]", *(f"{name} = {value!r}" for name, value in fields.items())])


@pytest.mark.parametrize("lab_id", all_labs())
def test_secrets_drawn_before_the_cases_changed_can_be_used(lab_id, tmp_path):
    """Slices of wider matrices were in every lab's cases, and in what was drawn from them."""
    path = tmp_path / "secrets.toml"
    wide = {"x_layout": "column_slice", "y_layout": "column_slice", "w": all_labs()[lab_id].cases[0].w}
    path.write_text(hidden(lab_id, M=40, N=96, K=192, **wide))
    ((_, case),) = load_secrets(path).cases
    assert (case.x_layout, case.y_layout) == ("column_slice", "column_slice")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("seed = 'x'", "seed is 'x'"),
        (hidden("fp4"), "lab 'fp4', expected one of w8a8"),
        (hidden("w8a8", name="one_tile"), "that no other case of w8a8 has"),
        (hidden("w8a8", M=0), "M = 0, expected a whole number"),
        (hidden("w8a8", size=3), "'size', expected lab and"),
        (hidden("w8a8", x="nonsense"), "x = 'nonsense', expected one of"),
        (hidden("dds", N=17, K=33), "cannot be given inputs"),
        (hidden("gptq", K=64, group_size=24), "that divides K = 64"),
        (hidden("gptq", K=64, group_size="32"), "group_size = '32', expected"),
        ("seed = ", "cannot be read"),
    ],
)
def test_secrets_that_cannot_be_used(tmp_path, text, sentence):
    path = tmp_path / "secrets.toml"
    path.write_text(text)
    with pytest.raises(Unusable, match=sentence):
        load_secrets(path)
