"""A lab made by `new-lab` is green as it is, on its own, and what a lab's definition lacks is a sentence."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from grader.authoring.new_lab import missing
from grader.labs import all_labs, get_lab
from grader.labs.validation import validate_lab
from tests.commands import invoked, python, ran
from tests.submissions import TESTS

pytestmark = pytest.mark.slow

ROOT = TESTS.parent
PARTS = ("grader", "bench", "docs", "model", "solutions", "assignment", "notebooks", "tests", "pyproject.toml", "README.md", "LICENSE")
RUN_ELSEWHERE = "solution_is_right or freivalds"
"""Tests of every lab that take long and have no list of labs of their own."""
PLAIN = '''
    configs=[triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4)],
    key=["M", "N", "K"],
'''
MISTAKES = """
base = "tests/styles/w16a16_plain.py"

[[mistake]]
name = "last_k_block_dropped"
says = "leaves out what is left of K after the last whole tile"
edits = [{ find = "range(0, K, BLOCK_K)", replace = "range(0, K // BLOCK_K * BLOCK_K, BLOCK_K)" }]
fails = ["k_tail"]
names = ["last_k_block_dropped"]
"""


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return ran(sys.executable, "-m", "grader", *arguments, cwd=root)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A copy of the repository in which a lab was made."""
    root = tmp_path_factory.mktemp("repository")
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, root / part, ignore=shutil.ignore_patterns("__pycache__", "results"))
        else:
            shutil.copy(source, root / part)
    shutil.copytree(ROOT / "bench" / "results", root / "bench" / "results")
    assert run(root, "new-lab", "w16a16").returncode == 0
    released = run(root, "release")
    assert released.returncode == 0, released.stderr
    return root


@pytest.mark.xdist_group("new_lab")
def test_the_solution_of_a_new_lab_is_right(repository):
    report = repository / "report.json"
    done = run(repository, "grade", "solutions", "--lab", "w16a16", "--device", "cpu", "--json", str(report))
    assert done.returncode == 0, done.stderr
    lab = json.loads(report.read_text(encoding="utf-8"))["labs"]["w16a16"]
    assert [test["name"] for test in lab["tests"] if test["status"] not in ("passed", "skipped")] == []
    assert lab["correctness"] == {"points": 60, "max_points": 60}


@pytest.mark.xdist_group("new_lab")
def test_no_test_has_to_be_told_of_it(repository):
    """Those that take the labs from all_labs() pass with a lab that none of them names, and with wrong kernels of its own."""
    solved = (repository / "solutions" / "w16a16.py").read_text(encoding="utf-8")
    student = solved[solved.index("import triton") : solved.index("def naive")]
    student = student.replace('configs=CONFIGS, key=["M", "N", "K"]', PLAIN).replace("### BEGIN", "#").replace("### END", "#")
    (repository / "tests" / "styles" / "w16a16_plain.py").write_text(student, encoding="utf-8")
    (repository / "grader" / "labs" / "w16a16" / "mistakes.toml").write_text(MISTAKES, encoding="utf-8")
    options = ["-p", "no:xdist", "-p", "no:cacheprovider", "-o", "markers=gpu\nbrowser\nslow\nxdist_group"]
    chosen = ["-m", "not gpu and not slow", "-k", f"w16a16 and not ({RUN_ELSEWHERE})"]
    assert " passed" in python("-m", "pytest", *options, *chosen, cwd=repository)


WRONG = {
    "store": ("tl.store(y_ptrs, acc.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))",
              "tl.store(y_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16), "
              "mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))"),
    "count": ("range(0, K, BLOCK_K)", "range(0, K // BLOCK_K * BLOCK_K, BLOCK_K)"),
    "sum": ("acc = tl.dot(x, w, acc)", "acc = tl.dot(x, w)"),
}
"""By the column in which it is seen, an edit of the lab's solution."""
GRADED = """
import json, sys
from pathlib import Path
from grader.labs import get_lab
from tests.submissions import graded_as_read
print(json.dumps([graded_as_read(Path(path), get_lab("w16a16"))["labs"]["w16a16"] for path in sys.argv[1:]]))
"""


@pytest.mark.xdist_group("new_lab")
def test_its_stub_is_not_attempted_and_mistakes_in_its_solution_are_observed(repository):
    source = (repository / "solutions" / "w16a16.py").read_text(encoding="utf-8")
    for column, (right, wrong) in WRONG.items():
        assert source.count(right) == 1
        (repository / column).mkdir()
        (repository / column / "w16a16.py").write_text(source.replace(right, wrong), encoding="utf-8")
    stub, notebook, *wrong = json.loads(python("-c", GRADED, "assignment", "notebooks", *WRONG, cwd=repository))
    assert stub["status"] == notebook["status"] == "not_attempted"
    for column, lab in zip(WRONG, wrong, strict=True):
        observed = {test["metrics"].get("mistake") or "" for test in lab["tests"] if test["status"] == "failed"}
        assert lab["correctness"]["points"] < 60
        assert any(one.startswith(f"{column}: ") for one in observed), column


@pytest.mark.xdist_group("new_lab")
def test_it_says_what_the_lab_could_have(repository):
    checked = run(repository, "check-lab", "w16a16")
    assert checked.returncode == 0
    assert "could have: grader/labs/w16a16/steps.py" in checked.stdout
    assert checked.stdout.endswith("nothing is missing that w16a16 must have\n")
    (repository / "assignment" / "w16a16.py").unlink()
    checked = run(repository, "check-lab", "w16a16")
    assert checked.returncode == 1
    assert "missing: assignment/w16a16.py; run `make release`" in checked.stdout
    (repository / "grader" / "labs" / "w16a16" / "steps.py").write_text("STEPS = (\n", encoding="utf-8")
    checked = run(repository, "check-lab", "w16a16")
    assert checked.returncode == 1
    assert "missing: a grader/labs/w16a16/steps.py that can be imported (SyntaxError: '(' was never closed" in checked.stdout


@pytest.mark.parametrize("lab_id", ["W8", "1st", "a-b", "../x", ""])
def test_an_id_that_is_none_is_refused(tmp_path, lab_id, monkeypatch):
    (tmp_path / "solutions").mkdir()
    monkeypatch.chdir(tmp_path)
    done = invoked("new-lab", lab_id)
    assert done.exit_code == 2
    assert "not a valid id for a lab" in done.stderr
    assert list(tmp_path.rglob("*.py")) == []


def test_an_id_that_is_taken_is_refused(tmp_path):
    for part in ("grader", "solutions"):
        (tmp_path / part).mkdir()
    (tmp_path / "solutions" / "w9.py").write_text("# mine\n", encoding="utf-8")
    done = ran(sys.executable, "-m", "grader", "new-lab", "w9", cwd=tmp_path, PYTHONPATH=str(ROOT), PATH="")
    assert done.returncode == 2
    assert "solutions/w9.py exists already" in " ".join(done.stderr.split())
    assert (tmp_path / "solutions" / "w9.py").read_text(encoding="utf-8") == "# mine\n"


def smaller(lab, **which):
    """The lab with 16 in place of a size, in the cases of which that is true."""
    ((size, wanted),) = which.items()
    return replace(lab, cases=tuple(replace(case, **{size: 16}) if wanted(case) else case for case in lab.cases))


@pytest.mark.parametrize("lab_id", all_labs())
def test_labs_are_sound(lab_id):
    assert list(validate_lab(get_lab(lab_id), lab_id)) == []


@pytest.mark.parametrize("lab_id", all_labs())
def test_labs_have_what_they_must(lab_id):
    assert [sentence for must, sentence in missing(lab_id, TESTS.parent) if must] == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda lab: replace(lab, cases=tuple(case for case in lab.cases if case.configs != "all")), 'configs="all"'),
        (lambda lab: replace(lab, cases=(*lab.cases, lab.cases[0])), "two cases are called"),
        (lambda lab: replace(lab, speed_cases=()), "no speed case"),
        (lambda lab: replace(lab, output="z_ptr"), "'z_ptr' is not a parameter"),
        (lambda lab: replace(lab, cases=tuple(
            replace(case, K=64) if case.configs == "all" else case for case in lab.cases)), "take a longer K"),
        (lambda lab: replace(lab, cases=tuple(
            replace(case, x_layout="contiguous") if case.configs == "all" else case for case in lab.cases)), "contiguous"),
        (lambda lab: smaller(lab, M=lambda case: 1 < case.M < 8), "no case has 2 to 3 tokens"),
        (lambda lab: smaller(lab, N=lambda case: case.M > 128), "no case has M > 128 and N > 1024"),
        (lambda lab: smaller(lab, N=lambda case: case.M > 512), "no case has M > 512 and N > 512"),
        (lambda lab: replace(lab, cases=tuple(
            case for case in lab.cases if case.x_layout != "every_other" or case.M == 1)), "x_layout='every_other' and M > 1"),
        (lambda lab: replace(lab, cases=tuple(replace(case, M=max(case.M, 72)) for case in lab.cases)), "more than the interpreter does"),
        (lambda lab: replace(lab, cases=(*lab.cases, replace(lab.cases[0], M=1024, N=512, K=16))), "more than small programs make in time"),
        (lambda lab: smaller(lab, N=lambda case: case.configs == "all"), "no case of all configs has N > 1024"),
        (lambda lab: smaller(lab, M=lambda case: case.K > 4096), "no case of all configs has M > 16 and K > 1024"),
        (lambda lab: smaller(lab, K=lambda case: case.K == 576), "K an odd multiple of 64"),
        (lambda lab: smaller(lab, M=lambda case: case.configs == "most"), "no case of most configs has M > 1024 and N > 256"),
        (lambda lab: replace(lab, cases=tuple(replace(case, K=max(case.K, 64)) for case in lab.cases)), "no case has K = 16, which"),
        (lambda lab: replace(lab, cases=tuple(replace(case, x_layout="contiguous") for case in lab.cases)), "x_layout='transposed_gaps'"),
        (lambda lab: smaller(lab, K=lambda case: case.K > 8192), "no case has K > 8192, 2 times the longest timed one"),
        (lambda lab: smaller(lab, K=lambda case: case.N > 1024), "no case has N > 1024 and K > 1024"),
        (lambda lab: smaller(lab, K=lambda case: 1000 < case.K < 2000), "no case has K between 576 and 5120"),
    ],
)
def test_what_a_lab_lacks_is_a_sentence(change, word):
    assert any(word in sentence for sentence in validate_lab(change(get_lab("w8a8")), "w8a8"))
