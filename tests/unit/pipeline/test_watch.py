"""`python -m grader watch`: a real process, a file that is edited under it, and what it says."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import psutil
import pytest
from rich.console import Console

from grader.judging.scoring import refused
from grader.labs import get_lab
from grader.model import Refusal
from grader.pipeline.watching import stamp_of
from grader.reading import read
from grader.reporting.compact import Lines

COUNT = sum(case.configs != "few" for case in get_lab("w8a8").cases)
"""Cases of a kernel that is not persistent."""

ROOT = Path(__file__).parents[3]
KERNEL = (ROOT / "tests" / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
WRONG = KERNEL.replace("x = tl.floor(x + 0.5)", "x = x + 0.5")
PATIENCE = 90.0
FIRST_ANSWER_SECONDS = 5.0


class Watched:
    """A running `watch` with its lines and the times at which they came."""

    def __init__(self, path: Path, *arguments: str) -> None:
        self.lines: list[tuple[float, str]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", "grader", "watch", str(path), "--device", "cpu", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT,
            env={**os.environ, "COLUMNS": "200", "PYTHONIOENCODING": "utf-8"},
        )
        self.at = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append((time.monotonic(), line.rstrip()))

    def hears(self, *texts: str, patience: float = PATIENCE) -> tuple[float, str]:
        """The next line that holds one of the texts."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            while self.at < len(self.lines):
                when, line = self.lines[self.at]
                self.at += 1
                if any(text in line for text in texts):
                    return when, line
            assert self.process.poll() is None, self.said()
            time.sleep(0.02)
        raise AssertionError(f"none of {texts} within {patience} s; it said\n{self.said()}")

    def said(self) -> str:
        return "\n".join(line for _, line in self.lines)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    file = tmp_path / "w8a8.py"
    file.write_text(KERNEL, encoding="utf-8")
    session = Watched(file, "--html", str(tmp_path / "page.html"))
    yield session
    if session.process.poll() is None:
        session.process.kill()


@pytest.mark.slow
def test_a_saved_file_is_graded_again(watched: Watched, tmp_path: Path):
    file, page = tmp_path / "w8a8.py", tmp_path / "page.html"
    watched.hears(f"{COUNT} of {COUNT} cases pass")
    watched.hears("3 of 3 configs compile")
    watched.hears("watching")
    assert "60 of 100 points" in page.read_text(encoding="utf-8")
    time.sleep(4)  # the sandboxes for the next answer get ready

    saved = time.monotonic()
    file.write_text(WRONG, encoding="utf-8")
    when, line = watched.hears("✗", "launches right so far")
    assert "✗" in line
    elapsed, load = when - saved, os.getloadavg()[0] / len(os.sched_getaffinity(0))
    print(f"first answer after {elapsed:.2f} s at a load of {load:.1f} a core")
    assert elapsed < FIRST_ANSWER_SECONDS * max(1.0, load)
    watched.hears(f"2 of {COUNT} cases pass")
    watched.hears("adds 0.5 and lets the cast truncate")
    deadline = time.monotonic() + 30
    while "✗" not in page.read_text(encoding="utf-8") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert "✗" in page.read_text(encoding="utf-8")

    file.write_text(KERNEL + "\nprint('nothing that a kernel reads')\n", encoding="utf-8")
    watched.hears(f"{COUNT} of {COUNT} cases pass")

    children = psutil.Process(watched.process.pid).children(recursive=True)
    assert watched.stop() == 0
    assert "Traceback" not in watched.said()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive, "every sandbox ends with the session"


@pytest.mark.slow
def test_half_written_files_are_survived(watched: Watched, tmp_path: Path):
    file = tmp_path / "w8a8.py"
    watched.hears("running its cases")
    file.write_text(KERNEL[: KERNEL.index("BLOCK_K)):")], encoding="utf-8")
    watched.hears("rejected")
    file.unlink()
    watched.hears("does not exist")
    file.write_text(KERNEL, encoding="utf-8")
    watched.hears("running its cases")
    file.write_text(KERNEL + "\n# a comment\n", encoding="utf-8")
    watched.hears("no kernel changed")
    watched.hears(f"{COUNT} of {COUNT} cases pass")
    assert watched.stop() == 0
    assert "Traceback" not in watched.said()


@pytest.mark.slow
def test_only_the_lab_that_changed_is_graded_and_a_notebook_counts_as_well_as_a_file(tmp_path: Path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(KERNEL)])
    (tmp_path / "w8a8.ipynb").write_text(nbformat.writes(notebook), encoding="utf-8")
    dds = tmp_path / "dds.py"
    dds.write_text("import triton\n\n\ndef DDS_MM():\n    pass\n", encoding="utf-8")
    session = Watched(tmp_path, "--lab", "w8a8", "--lab", "dds")
    try:
        session.hears("w8a8.ipynb: running")
        session.hears(f"{COUNT} of {COUNT} cases pass")
        session.hears("dds   not attempted")
        session.hears("3 of 3 configs compile")
        (tmp_path / "w8a8.ipynb").write_text(nbformat.writes(notebook)[:300], encoding="utf-8")
        _, line = session.hears("not a Jupyter notebook")
        assert "rejected" in line
        notebook.cells[0].source = WRONG
        (tmp_path / "w8a8.ipynb").write_text(nbformat.writes(notebook), encoding="utf-8")
        session.hears("✗")
        before = sum(" dds " in line for _, line in session.lines)
        session.hears(f"2 of {COUNT} cases pass")
        assert before == sum(" dds " in line for _, line in session.lines) == 1
        assert session.stop() == 0
    finally:
        if session.process.poll() is None:
            session.process.kill()


@pytest.mark.slow
def test_nothing_to_watch_is_refused(tmp_path: Path):
    session = Watched(tmp_path / "nowhere.py")
    assert session.process.wait(timeout=PATIENCE) == 2


COLUMN = KERNEL.split("\n")[43].index("tl.floor") + 1
SHAPES = """none of the 3 configs compiles: w8a8.py line 44: the shapes differ
  x = tl.floor(x + 0.5)
      ^^^^^^^^^^^^^^^^^
Next: transpose one"""


@pytest.mark.parametrize(
    ("text", "told", "error"),
    [
        (KERNEL.replace("tl.floor(x + 0.5)", "tl.floor((x + 0.5)"), None, rf"44:{COLUMN + 8}: error: the bracket .*; close it"),
        (KERNEL.replace("tl.floor(", "tl.floot("), None, rf"44:{COLUMN}: error: triton.language has no `tl.floot`; did you mean"),
        (KERNEL, Refusal("build_error", SHAPES), rf"44:{COLUMN}: error: .*the shapes differ; transpose one$"),
        (KERNEL, Refusal("timeout", "it takes too long (w8a8.py line 20)"), "20:5: error: it takes too long"),
        (KERNEL, Refusal("not_attempted", "W8A8_MM is still the stub in w8a8.py"), None),
    ],
    ids=["syntax", "names", "compiler", "in brackets", "stub"],
)
def test_editors_mark_each_message_with_a_line_and_clear_it_at_the_next_answer(tmp_path, text, told, error):
    """By the patterns of the handout's .vscode/tasks.json."""
    (tmp_path / "w8a8.py").write_text(text, encoding="utf-8")
    lab, out = get_lab("w8a8"), io.StringIO()
    lines = Lines(Console(file=out, width=400), lambda report: None, tmp_path)
    tasks = json.loads((ROOT / "grader/authoring/handout/.vscode/tasks.json").read_text("utf-8"))
    matcher = tasks["tasks"][0]["problemMatcher"]
    begins, ends = (re.compile(matcher["background"][name]) for name in ("beginsPattern", "endsPattern"))

    def answered(refusal: Refusal) -> tuple[int, list[str]]:
        """How often marks are cleared, and what is marked."""
        out.seek(0)
        out.truncate()
        lines.answer(refused(lab, refusal, gpu=False), 0.1, final=True)
        said = out.getvalue().splitlines()
        marked = [line for line in said if re.match(matcher["pattern"]["regexp"], line)]
        starts = [at for at, line in enumerate(said) if begins.search(line)]
        last = next(at for at, line in enumerate(said) if ends.search(line))
        assert all(start < said.index(line) < last for start in starts for line in marked)
        return len(starts), marked

    refusal = told or read(tmp_path / "w8a8.py", [lab]).labs["w8a8"]
    assert isinstance(refusal, Refusal)
    cleared, marked = answered(refusal)
    assert cleared == len(marked) == (error is not None)
    assert error is None or re.match(rf"{re.escape(str(tmp_path / 'w8a8.py'))}:{error}", marked[0])
    assert answered(Refusal("rejected", "without a line")) == (cleared, [])


def test_a_stamp_changes_with_each_save(tmp_path: Path):
    (tmp_path / "w8a8.py").write_text("a = 1\n", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("a", encoding="utf-8")
    first = stamp_of(tmp_path)
    assert [name for name, _, _ in first] == ["w8a8.py"]
    os.utime(tmp_path / "w8a8.py", ns=(1, 1))
    assert stamp_of(tmp_path) != first
    assert stamp_of(tmp_path / "gone.py") == ()
