"""Gradescope's archive, unpacked and run as their container does it, and results.json held against their format."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Literal

import psutil
import pytest

from grader.authoring.release import BEGIN, END
from grader.classroom.batch.intake import collect
from grader.classroom.gradescope.container import main
from grader.classroom.gradescope.package import write_archive
from grader.classroom.gradescope.results import results
from grader.labs import get_lab
from grader.model import Refusal, Submission
from grader.model import TestResult as Result
from grader.reading import read
from grader.sandbox import Sandbox
from tests.deliveries import delivered
from tests.hostile import load, outcome, told
from tests.reports import gpu_report, hostile_report, wrong_report
from tests.submissions import TESTS

pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed: pip install -e .[test]")

ROOT = TESTS.parent
RIGHT = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
WRONG = RIGHT.replace("x = tl.minimum(tl.maximum(x, -128.0), 127.0)", "x = x.to(tl.int32)")
SECRETS = 'seed = 5\n[[case]]\nlab = "w8a8"\nname = "hidden_1"\nM = 61\nN = 112\nK = 144\nx = "saturating"\n'


# ---------------------------------------------------------------- their format

Visibility = Literal["hidden", "after_due_date", "after_published", "visible"]
Format = Literal["text", "html", "simple_format", "md", "ansi"]
STRICT = pydantic.ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Test(pydantic.BaseModel):
    """An entry of `tests`."""

    __test__ = False
    model_config = STRICT
    score: float | int
    max_score: float | int
    status: Literal["passed", "failed"] | None = None
    name: str
    name_format: Format = "text"
    number: str | None = None
    output: str
    output_format: Format = "text"
    tags: list[str] | None = None
    visibility: Visibility = "visible"
    extra_data: dict[str, object] | None = None


class Leader(pydantic.BaseModel):
    """An entry of `leaderboard`."""

    model_config = STRICT
    name: str
    value: float | int | str
    order: Literal["asc", "desc"] = "desc"


class ResultsFile(pydantic.BaseModel):
    """results.json by https://gradescope-autograders.readthedocs.io/en/latest/specs/."""

    model_config = STRICT
    score: float | int
    execution_time: float | int | None = None
    output: str
    output_format: Format = "text"
    test_output_format: Format = "text"
    test_name_format: Format = "text"
    visibility: Visibility = "visible"
    stdout_visibility: Visibility = "hidden"
    extra_data: dict[str, object] | None = None
    tests: list[Test]
    leaderboard: list[Leader] | None = None

    def named(self, name: str) -> Test:
        return next(test for test in self.tests if test.name == name)


def parsed(text: str) -> ResultsFile:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    json.loads(text, parse_constant=refuse)
    found = ResultsFile.model_validate_json(text)
    assert all(0 <= test.score <= test.max_score for test in found.tests)
    names = [test.name for test in found.tests]
    assert len(names) == len(set(names))
    return found


@pytest.mark.parametrize("report", [wrong_report(), gpu_report(), hostile_report()], ids=["wrong", "gpu", "hostile"])
def test_every_report_fits_the_format(report):
    found = parsed(json.dumps(results(report), allow_nan=False))
    assert found.score == round(report.points, 6)
    assert not any("\x1b" in test.output or "\u202e" in test.output for test in found.tests)


def test_the_score_of_bonus_labs_alone_is_theirs():
    report = gpu_report()
    bonus = replace(report, labs={"gptq": replace(report.labs["w8a8"], lab_id="gptq", bonus=True)})
    assert results(bonus)["score"] == pytest.approx(bonus.bonus_points, abs=1e-6)
    assert bonus.bonus_points > 0
    both = replace(report, labs={**report.labs, **bonus.labs})
    assert results(both)["score"] == pytest.approx(report.points, abs=1e-6)


def test_a_gpu_brings_a_leaderboard_and_speed_lines():
    found = parsed(json.dumps(results(gpu_report())))
    assert [place.name for place in found.leaderboard or []] == ["w8a8: times cuBLAS fp16", "dds: times cuBLAS fp16"]
    assert all(isinstance(place.value, float) and place.value > 0 for place in found.leaderboard or [])
    assert found.named("w8a8: speed_m512").max_score > 0


def test_without_a_gpu_speed_is_neither_given_nor_asked_for():
    found = parsed(json.dumps(results(wrong_report())))
    assert found.leaderboard is None
    assert found.named("w8a8: speed").max_score == 0
    assert "not gradable here" in found.named("w8a8: speed").output
    assert found.named("dds: submission").max_score == 60
    assert "still the stub" in found.named("dds: submission").output


def with_hidden_failure():
    """The wrong report, in which a hidden case is the only one that fails."""
    report = wrong_report()
    lab = report.labs["w8a8"]
    hidden = Result("hidden_1", "correctness", "failed", 0, 3, "the output is wrong", diagnosis="Likely mistake: X")
    strayed = Result("memory", "memory", "failed", 0, 0, "cell 7 line 5: tl.load reads beyond x (in `hidden_1`)")
    passed = tuple(test for test in lab.tests if test.status == "passed")
    return replace(report, labs={"w8a8": replace(lab, tests=(hidden, strayed, *passed))})


@pytest.mark.parametrize("visibility", ["after_published", "hidden", "visible"])
def test_hidden_cases_show_when_the_option_says(visibility):
    found = parsed(json.dumps(results(with_hidden_failure(), [("w8a8", "hidden_1")], visibility)))
    assert found.named("w8a8: hidden_1").visibility == visibility
    assert found.named("w8a8: memory").visibility == visibility
    assert found.named("w8a8: one_tile").visibility == "visible"
    shown = found.output + "".join(test.output for test in found.tests if test.visibility == "visible")
    told = [word for word in ("hidden_1", "Likely mistake", " of 100 points") if word in shown]
    assert (told == []) is (visibility != "visible")
    assert ("Next: every case that is shown passes; hidden cases count too" in found.output) is (visibility != "visible")
    assert "is right" not in found.output


# ---------------------------------------------------------------- the archive


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gradescope") / "autograder.zip"
    write_archive(ROOT, path, ["w8a8"])
    return path


def test_the_archive_holds_no_solution_and_no_secret(archive):
    with zipfile.ZipFile(archive) as opened:
        texts = {name: opened.read(name) for name in opened.namelist()}
        modes = {entry.filename: entry.external_attr >> 16 for entry in opened.infolist()}
    assert {"setup.sh", "run_autograder", "settings.toml", "pyproject.toml", "grader/pipeline/grading.py"} <= set(texts)
    assert modes["run_autograder"] == modes["setup.sh"] == 0o755
    assert {name.split("/")[0] for name in texts if "/" in name} == {"grader"}
    assert "secrets.toml" not in texts
    for path in (ROOT / "solutions").rglob("*.py"):
        for region in path.read_text(encoding="utf-8").split(BEGIN)[1:]:
            region = region.split(END)[0].strip()
            assert len(region) > 20
            assert not [name for name, text in texts.items() if region.encode() in text]


def test_equal_files_give_an_equal_archive(archive, tmp_path):
    write_archive(ROOT, tmp_path / "again.zip", ["w8a8"])
    assert (tmp_path / "again.zip").read_bytes() == archive.read_bytes()


@pytest.mark.parametrize("script", ["setup.sh", "run_autograder"])
def test_scripts_are_bash(script):
    path = ROOT / "grader" / "classroom" / "gradescope" / script
    assert path.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")
    subprocess.run(["bash", "-n", path], check=True)


# ---------------------------------------------------------------- the container's folders


class Container:
    """Folders laid out as /autograder, elsewhere."""

    def __init__(self, root: Path, archive: Path, secrets: str = "") -> None:
        self.root = root
        for name in ("source", "submission", "results"):
            (root / name).mkdir(parents=True)
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(root / "source")
        if secrets:
            (root / "source" / "secrets.toml").write_text(secrets, encoding="utf-8")

    def hand_in(self, name: str, text: str) -> None:
        path = self.root / "submission" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run(self, **environment: str) -> ResultsFile:
        inherited = {name: value for name, value in os.environ.items() if name != "GRADER_SECRETS"}
        done = subprocess.run(
            ["bash", self.root / "source" / "run_autograder"],
            cwd=self.root,
            env={**inherited, "AUTOGRADER_ROOT": str(self.root), "AUTOGRADER_PYTHON": sys.executable, **environment},
            capture_output=True,
            timeout=500,
        )
        assert done.returncode == 0
        return self.results()

    def results(self) -> ResultsFile:
        return parsed((self.root / "results" / "results.json").read_text(encoding="utf-8"))


@pytest.fixture
def container(tmp_path: Path, archive: Path) -> Container:
    return Container(tmp_path / "autograder", archive)


@pytest.mark.slow
def test_a_right_submission(container):
    container.hand_in("w8a8.py", RIGHT)
    found = container.run()
    assert found.score == 60
    assert {test.status for test in found.tests} == {"passed"}
    assert sum(test.max_score for test in found.tests) == pytest.approx(60, abs=1e-4)


@pytest.mark.slow
def test_a_wrong_submission_in_a_folder_with_a_hidden_case(tmp_path, archive):
    container = Container(tmp_path / "autograder", archive, SECRETS)
    container.hand_in("mine/w8a8.py", WRONG)
    found = container.run()
    assert 0 < found.score < 60
    assert {test.name for test in found.tests if test.status == "failed"} == {
        "w8a8: outlier_rows",
        "w8a8: saturating_scale",
        "w8a8: strided_y",
        "w8a8: every_config",
        "w8a8: every_config_tall",
        "w8a8: hidden_1",
    }
    assert found.named("w8a8: hidden_1").visibility == "after_published"
    assert "as int8" in found.named("w8a8: saturating_scale").output
    told = found.output + "".join(test.output for test in found.tests)
    assert not [word for word in ("M=61", "N=112", "K=144", "seed") if word in told]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("w8a8.ipynb", '{"cells": [', "is not a Jupyter notebook"),
        ("w8a8.py", "", "is empty"),
        ("readme.txt", "hello", "no file here defines"),
        (None, "", "no file here defines"),
    ],
    ids=["broken", "empty file", "no source", "nothing"],
)
def test_a_submission_that_cannot_be_graded_has_0_points_and_a_reason(container, name, text, says):
    """By what run_autograder runs, in this process."""
    if name:
        container.hand_in(name, text)
    main(container.root)
    found = container.results()
    assert found.score == 0
    assert says in found.named("w8a8: submission").output


OLD, STUB = RIGHT.replace("pid", "number"), (ROOT / "assignment" / "w8a8.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "files",
    [
        {"w8a8.py": RIGHT}, {"a/b/w8a8.py": RIGHT}, {"w8a8.zip": {"in/w8a8.py": RIGHT}}, {"w8a8.py": STUB, "mine/w8a8.py": RIGHT},
        {"a/w8a8.py": STUB, "b/w8a8.py": RIGHT}, {"w8a8.py": RIGHT, "old/w8a8.py": OLD}, {"new.py": RIGHT, "old.py": OLD},
        {"w8a8.zip": "x"},
        {"grader/x.py": "", "assignment/w8a8.py": RIGHT, "solutions/w8a8.py": OLD}, {"w8a8.py": STUB, "w.zip": {"w8a8.py": RIGHT}},
    ],
)
def test_what_is_read_is_what_a_batch_reads(container, monkeypatch, tmp_path, files):
    """Wherever the work lies, and in archives; the first folder with sources was taken, a stub's too."""
    graded: list[Submission] = []
    monkeypatch.setattr("grader.pipeline.grading.grade_submission", lambda submission, *_: graded.append(submission) or wrong_report())
    delivered(container.root / "submission", files)
    main(container.root)
    beside = {"ben/w8a8.py": RIGHT} | {f"ann/{name}": text for name, text in files.items()}
    ann, _ = collect(delivered(tmp_path / "class", beside), tmp_path / "w").hand_ins
    (found,) = graded
    if ann.refused:
        assert found.labs["w8a8"] == Refusal("rejected", ann.refused)
    else:
        expected = read(ann.path, [get_lab("w8a8")], all_labs=True)
        assert getattr(found.labs["w8a8"], "module", "") == getattr(expected.labs["w8a8"], "module", "")
        assert getattr(found.labs["w8a8"], "message", "") == getattr(expected.labs["w8a8"], "message", "")


@pytest.mark.slow
def test_a_grader_that_fails_still_leaves_results(container):
    (container.root / "source" / "settings.toml").write_text("labs = 3")
    found = container.run()
    assert found.score == 0
    assert "no verdict on your work" in found.output


def test_a_container_without_python_still_leaves_results(container):
    assert "no verdict on your work" in container.run(AUTOGRADER_PYTHON="/absent/python").output


def test_grading_that_takes_too_long_still_leaves_results(container):
    container.hand_in("w8a8.py", RIGHT)
    assert "longer than 1 seconds" in container.run(AUTOGRADER_SECONDS="1").output


HOPPING = "import os\nif os.fork() == 0:\n    os.setsid()\n    while True:\n        if os.fork():\n            os._exit(0)\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a process to another user")
def test_without_bubblewrap_no_process_escapes_by_forking_on_and_on(monkeypatch):
    """Each of them lives for a moment, and whoever looks for it finds one that is gone."""
    monkeypatch.setenv("GRADER_WORKER_USER", "nobody")
    for _ in range(3):
        with Sandbox(confined=False) as box:
            user = told(box, "import os; answer = os.getuid()")
            load(box, HOPPING)
            time.sleep(0.05)
        seen = [process for _ in range(20) for process in psutil.process_iter(["uids"]) if user in (process.info["uids"] or ())]
        assert not [process for process in seen if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a process to another user")
def test_without_bubblewrap_each_worker_belongs_to_another_user(monkeypatch):
    """Neither ours nor a sibling's; what it leaves behind ends with it, even from a session of its own."""
    monkeypatch.setenv("GRADER_WORKER_USER", "nobody")
    who = "import os; answer = [os.getuid(), os.geteuid(), 0 in os.getgroups(), os.access('/etc/shadow', os.R_OK)]"
    daemon = "import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        while True: pass\n    os._exit(0)\n"
    with Sandbox(confined=False) as first, Sandbox(confined=False) as second:
        users = [told(box, who) for box in (first, second)]
        intrusion = f"open({told(first, 'import os; answer = os.getcwd()')!r} + '/kernel_module.py', 'a')"
        assert outcome(second, intrusion) == "EACCES"
        assert outcome(second, f"os.kill({first.pid}, 9)", "import os") == "EPERM"
        load(first, daemon)
    assert users[0][0] != users[1][0]
    for user, effective, grouped, reads in users:
        assert user == effective != 0
        assert not grouped
        assert not reads
        left = [process for process in psutil.process_iter(["uids"]) if user in (process.info["uids"] or ())]
        assert not psutil.wait_procs(left, timeout=30)[1], "a kill may take a moment, and so may the sandbox of a test beside this one"
