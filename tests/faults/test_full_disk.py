"""A disk that fills up while a class is graded: the command says so and stops, and with space the same table comes out."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import pytest

from grader.reporting import page as html
from tests.commands import ran
from tests.stub_class import grade_class
from tests.submissions import TESTS

pytestmark = pytest.mark.slow

PROGRAM = """
import resource, signal, sys
from pathlib import Path
from grader.reporting import page as html
from tests.stub_class import grade_class
from grader.classroom.batch.journal import JournalFull
html.image = lambda draw: None
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
try:
    grade_class(Path(sys.argv[1]), Path(sys.argv[2]))
except (JournalFull, OSError) as full:
    print("stopped:", full)
    sys.exit(3)
"""
FILES = ("grades.csv", "canvas.csv", "moodle.csv", "grades.jsonl", "junit.xml")


@pytest.fixture(scope="module", autouse=True)
def without_pictures():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html, "image", lambda draw: None)
        yield


@pytest.fixture(scope="module")
def submissions(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("class")
    for number in range(6):
        (root / f"s{number}").mkdir()
        text = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
        (root / f"s{number}" / "w8a8.py").write_text(text.replace("    pid = ", f"    n = {number}\n    pid = ", 1))
    return root


@pytest.fixture(scope="module")
def whole(submissions, tmp_path_factory) -> dict[str, str]:
    """The files of a run with room enough."""
    out = tmp_path_factory.mktemp("whole")
    grade_class(submissions, out)
    return {name: (out / name).read_text() for name in FILES}


@pytest.mark.parametrize("limit", [0, 3_000, 13_000, 30_000, 60_000])
def test_a_file_that_cannot_grow(submissions, whole, tmp_path, limit):
    """RLIMIT_FSIZE cuts writes off in the journal, in a page or in a table, whichever comes first."""
    done = ran(sys.executable, "-c", PROGRAM, submissions, tmp_path / "out", limit, seconds=120)
    assert "Traceback" not in done.stderr
    if done.returncode:
        assert done.returncode == 3
        assert "stopped:" in done.stdout
    for name in FILES:  # what is there is whole: files are replaced at once
        path = tmp_path / "out" / name
        assert not path.exists() or path.read_text() == whole[name]
    assert not list((tmp_path / "out").glob(".*"))
    grade_class(submissions, tmp_path / "out")
    assert {name: (tmp_path / "out" / name).read_text() for name in FILES} == whole
    assert all(json.loads(line)["points"] for line in whole["grades.jsonl"].splitlines())


def test_the_limits_meet_every_stage(submissions, tmp_path):
    """The smallest limit stops the journal, the largest lets all files but the largest pass."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    grade_class(submissions, tmp_path)
    sizes = sorted(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert sizes[-1] > 13_000 > sizes[0]
