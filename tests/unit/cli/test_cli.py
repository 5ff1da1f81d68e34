"""The command line as users type it: exit status, sentences, files."""

from __future__ import annotations

import io
import json
import os
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from rich.console import Console

from grader.authoring.release import assignment_files, release, strip_solution
from grader.classroom.batch.coordinating import BatchProgress
from grader.cli import class_commands
from grader.labs import all_labs
from grader.unusable import Unusable
from tests.commands import invoked, python, ran
from tests.submissions import TESTS

ROOT = TESTS.parent
STUDENT = TESTS / "styles" / "w8a8_plain.py"


def run(*arguments, **environment):
    return ran(sys.executable, "-m", "grader", *arguments, seconds=120, **{"COLUMNS": "100", **environment})


@pytest.fixture(scope="module")
def student(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    done = run(
        "grade", STUDENT, "--device", "cpu", "--json", folder / "r.json", "--junit", folder / "r.xml", "--seed", 7
    )
    assert done.returncode == 0, done.stderr
    return done, json.loads((folder / "r.json").read_text()), ElementTree.parse(folder / "r.xml").getroot()


def test_the_command_line_starts_without_what_only_some_commands_need():
    """--help answers at once, and the processes that a batch starts import only what they use."""
    loaded = set(python("-c", "import grader.cli.main, sys; print(*sys.modules)").split())
    assert "typer" in loaded
    assert not loaded & {"torch", "triton", "numpy", "nbformat", "jinja2", "matplotlib"}


@pytest.mark.slow
def test_json_is_as_designed(student):
    _, report, _ = student
    assert report["schema_version"] == 1
    assert report["seed"] == 7
    assert (report["points"], report["max_points"], report["gradable_points"]) == (60, 100, 60)
    assert report["device"]["kind"] == "cpu"
    lab = report["labs"]["w8a8"]
    assert lab["status"] == "graded"
    assert lab["speed"] == {"status": "skipped", "points": 0, "max_points": 40}
    for test in lab["tests"]:
        assert set(test) == {"name", "kind", "status", "points", "max_points", "message", "diagnosis", "metrics"}
        assert test["kind"] in ("correctness", "speed", "memory", "build")
        assert test["status"] in ("passed", "failed", "skipped", "error")
    assert sum(test["max_points"] for test in lab["tests"]) == pytest.approx(100)


def test_junit_counts_agree(student):
    _, report, root = student
    suite = root.find("testsuite[@name='w8a8']")
    assert int(suite.get("tests")) == len(report["labs"]["w8a8"]["tests"])
    assert int(suite.get("failures")) == 0
    assert int(suite.get("skipped")) == len(all_labs()["w8a8"].speed_cases)


def test_terminal_report_says_what_counts(student):
    done, _, _ = student
    count = sum(case.configs != "few" for case in all_labs()["w8a8"].cases)
    for words in ("60 of 100 points", f"{count} of {count} cases pass", "40 points, graded on a GPU only", "seed 7", "Next:"):
        assert words in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("grade", "absent.py"), "does not exist"),
        (("grade", "a" * 300), "cannot be read (File name too long)"),
        (("grade", "README.md"), "neither .py nor .ipynb"),
        (("grade", STUDENT, "--lab", "w9a9"), "the labs are w8a8, w4a16, dds"),
        (("grade", STUDENT, "--json", "absent/folder/r.json"), "does not exist"),
        (("grade", STUDENT, "--device", "tpu"), "tpu"),
        (("grade", STUDENT, "--jobs", "0"), "jobs"),
        (("grade", STUDENT, "--profile"), "--profile needs a GPU"),
        (("grad",), "grad"),
    ],
)
def test_unusable_arguments_exit_2_with_a_sentence(arguments, words, monkeypatch):
    monkeypatch.chdir(ROOT)
    chosen = ("--device", "cpu") if arguments[0] == "grade" and "--device" not in arguments else ()
    done = invoked(*arguments, *chosen)
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_as_a_process_it_ends_with_the_same_status_and_sentence():
    done = run("grade", "absent.py", "--device", "cpu")
    assert done.returncode == 2
    assert "does not exist" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="there is a GPU here")
def test_asking_for_a_gpu_that_is_not_there():
    done = invoked("grade", STUDENT, "--device", "cuda")
    assert done.exit_code == 2
    assert "--device cpu" in done.stderr


@pytest.mark.parametrize("handed_out", ["assignment", "notebooks"])
def test_what_is_handed_out_is_not_attempted_and_exits_0(handed_out, monkeypatch):
    monkeypatch.chdir(ROOT)
    done = invoked("grade", handed_out, "--device", "cpu")
    assert done.exit_code == 0
    course = sum(not lab.bonus for lab in all_labs().values())
    assert done.stdout.count("not attempted: ") == course
    assert f"0 of {100 * course} points" in done.stdout
    assert "start with w8a8" in done.stdout


@pytest.mark.slow
def test_a_grader_that_fails_exits_3(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import grader.pipeline.grading\ndef broken(*a, **k): raise RuntimeError('boom')\n"
        "grader.pipeline.grading.grade_submission = broken\n"
    )
    done = run("grade", STUDENT, "--device", "cpu", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert done.returncode == 3
    assert "the grader itself failed" in done.stderr


IN_A_BATCH = "error: {} is not installed; run `make grade-batch`, or `pip install -e .[batch]`\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "command", "said"),
    [*((package, ["batch", "."], IN_A_BATCH) for package in ("triton", "cattrs", "copydetect", "yaml")),
     *((package, ["grade", STUDENT, "--device", "cpu"], f"error: {{}} is not installed for {sys.executable}; run `make grade`")
       for package in ("torch", "triton"))],
)
def test_a_command_without_its_packages_says_what_to_install(package, command, said):
    script = f"import sys; sys.modules[{package!r}] = None; from grader.cli.main import app; app()"
    done = ran(sys.executable, "-c", script, *command, seconds=60)
    assert done.returncode == 2
    assert said.format(package) in done.stderr
    assert said != IN_A_BATCH or done.stderr == said.format(package)
    assert "Traceback" not in done.stderr


def test_ctrl_c_is_answered_before_a_command_has_begun(tmp_path):
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(60)\n")
    done = run("grade", STUDENT, "--device", "cpu", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert (done.returncode, done.stderr) == (130, "stopped\n")


@pytest.mark.slow
def test_doctor_names_everything():
    done = run("doctor")
    assert done.returncode == 0, done.stdout
    for thing in ("Python", "torch", "triton", "sandbox", "GPU", "This machine grades"):
        assert thing in done.stdout


def test_make_alone_lists_the_targets():
    done = ran("make")
    assert done.returncode == 0
    for target in ("grade", "notebook", "test", "test-fast", "doctor", "release"):
        assert f"make {target}" in done.stdout


@pytest.mark.slow
def test_make_grade_without_a_virtual_environment(tmp_path):
    """With the Python of a clone in a folder whose name a shell would split."""
    python = tmp_path / "a clone é" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    done = ran("make", "grade", "ARGS=", "VENV=", f"PYTHON={python}", "SUBMISSION=assignment", "LAB=dds", "DEVICE=cpu", MAKEFLAGS="")
    assert done.returncode == 0, done.stderr
    assert "DDS_MM is still the stub" in " ".join(done.stdout.split())


# ---------------------------------------------------------------- release


def test_assignment_matches_solutions():
    expected = assignment_files(ROOT / "solutions")
    assert set(expected) == {path.name for path in (ROOT / "assignment").glob("*.py")}
    for name, text in expected.items():
        assert (ROOT / "assignment" / name).read_text(encoding="utf-8") == text, f"run `make release`: {name} drifted"


def test_nothing_between_the_markers_survives():
    for name, text in assignment_files(ROOT / "solutions").items():
        assert "SOLUTION" not in text
        assert "YOUR CODE HERE" in text
        solution = (ROOT / "solutions" / name).read_text(encoding="utf-8")
        assert "tl.dot" in solution
        assert "tl.dot" not in text


def test_release_writes_and_removes(tmp_path):
    (tmp_path / "solutions").mkdir()
    (tmp_path / "assignment").mkdir()
    (tmp_path / "assignment" / "old.py").write_text("")
    (tmp_path / "solutions" / "new.py").write_text("x = 1\n### BEGIN SOLUTION\nx = 2\n### END SOLUTION\n")
    assert {path.name for path in release(tmp_path)} == {"old.py", "new.py"}
    assert (tmp_path / "assignment" / "new.py").read_text() == "x = 1\n# YOUR CODE HERE\n"
    assert release(tmp_path) == []


@pytest.mark.parametrize(
    "text",
    ["### BEGIN SOLUTION\n", "### END SOLUTION\n", "### BEGIN SOLUTION\n### BEGIN SOLUTION\n### END SOLUTION\n",
     "def f():\n### BEGIN SOLUTION\n    pass\n### END SOLUTION\n"],
)
def test_markers_that_do_not_pair_are_named(text):
    with pytest.raises(Unusable, match=r"file\.py"):
        strip_solution(text, "file.py")


def test_no_lab_is_named_outside_its_folder():
    for path in Path(ROOT / "grader").rglob("*.py"):
        if "labs" not in path.relative_to(ROOT / "grader").parts:
            text = path.read_text(encoding="utf-8")
            assert not any(f'"{lab}"' in text for lab in all_labs()), path


def test_a_class_graded_into_a_log_file_says_how_far_it_is(monkeypatch):
    log = io.StringIO()
    clock = iter([0.0, 10.0, 31.0, 40.0, 62.0])
    monkeypatch.setattr(class_commands.time, "monotonic", lambda: next(clock))
    with class_commands._shown_progress(Console(file=log, width=60), on_gpu=False) as listen:
        for graded in range(4):
            listen(BatchProgress(hand_ins=9, read=9, kernels=9, graded=graded))
    first, second = log.getvalue().splitlines()
    assert first == "0:00:31  read 9 of 9 hand-ins, 9 different kernels, graded 1 of 9"
    assert second == "0:01:02  read 9 of 9 hand-ins, 9 different kernels, graded 3 of 9, 0:02:04 left"


@pytest.mark.parametrize(("due", "taken"), [("2026-11-20", False), ("2026-11-20 23:59", True), ("2026-11-20T23:59+01:00", True)])
def test_a_deadline_has_a_time(tmp_path, due, taken):
    """A date alone would be over before its day has begun, and a class late by one."""
    said = invoked("batch", tmp_path / "none", "--due", due).output
    assert ("does not exist" in said) == taken
    assert ("Invalid value for '--due'" in said) != taken
