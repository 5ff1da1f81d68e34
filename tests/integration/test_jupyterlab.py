"""A lab solved in JupyterLab, in a real browser: stubs, a wrong kernel, a right one, and that one submitted to a course server.
Keeps build/screenshots/jupyterlab-*.png."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.authoring.notebooks import SOURCE, instructor_notebook
from tests.course_server import World, course
from tests.integration.test_browser import CHROMIUM, SCREENSHOTS, chromium, served

ROOT = Path(__file__).parents[2]
LAB = "w8a8"
PATIENCE_MS = 240_000
SETTINGS = {
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
}

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here; install Debian's package chromium"),
]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A course server, known to what is started from here as ann's."""
    folder = tmp_path / "course"
    folder.mkdir()
    with course(folder) as found:
        monkeypatch.setenv("LAB_SERVER", found.url)
        monkeypatch.setenv("LAB_TOKEN", found.tokens["ann"])
        yield found


@pytest.fixture
def server(tmp_path: Path, world: World) -> Iterator[str]:
    """The address of a JupyterLab over a copy of notebooks/."""
    pytest.importorskip("jupyterlab", reason="jupyterlab is not installed: pip install -e .[test]")
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    for name, values in SETTINGS.items():
        file = tmp_path / "settings" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values), encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
        **{f"JUPYTER_{kind}_DIR": str(tmp_path / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")},
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "JUPYTERLAB_SETTINGS_DIR": str(tmp_path / "settings"),
    }
    options = ["--IdentityProvider.token=", f"--ServerApp.root_dir={tmp_path / 'notebooks'}"]
    with served("jupyterlab", *options, log=tmp_path / "jupyterlab.log", env=environment) as address:
        yield address


@pytest.fixture
def tab() -> Iterator[Any]:
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.set_default_timeout(PATIENCE_MS)
        yield page


def cell(tab: Any, number: int) -> Any:
    return tab.locator(".jp-Notebook .jp-Cell").nth(number)


def type_into(tab: Any, number: int, text: str) -> None:
    """Replaces a cell's text from the keyboard."""
    cell(tab, number).scroll_into_view_if_needed()
    cell(tab, number).locator(".cm-content").click()
    tab.keyboard.press("Control+A")
    tab.keyboard.insert_text(text)


def run_all(tab: Any) -> None:
    """Runs all cells in the kernel that is there: JupyterLab loses what it is asked for while a kernel restarts."""
    from playwright.sync_api import TimeoutError as NotInTime

    choose(tab, "Edit", "Clear Outputs of All Cells")
    prompt = tab.locator(".jp-Notebook .jp-CodeCell").first.locator(".jp-InputPrompt")
    prompt.and_(tab.get_by_text("[ ]:")).wait_for()
    for patience_ms in (30_000, 60_000, PATIENCE_MS):
        choose(tab, "Run", "Run All Cells")
        try:
            prompt.and_(tab.get_by_text(re.compile(r"\[\d+\]:"))).wait_for(timeout=patience_ms)
            return
        except NotInTime:
            continue
    keep(tab, 0, "0-not-run")
    raise AssertionError("JupyterLab did not run the first cell; see build/screenshots/jupyterlab-0-not-run.png")


def choose(tab: Any, menu: str, item: str) -> None:
    tab.get_by_role("menuitem", name=menu, exact=True).click()
    tab.locator(".lm-Menu-itemLabel").get_by_text(item, exact=True).click()


def keep(tab: Any, number: int, name: str) -> None:
    cell(tab, number).scroll_into_view_if_needed()
    tab.wait_for_timeout(500)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    tab.screenshot(path=SCREENSHOTS / f"jupyterlab-{name}.png")


def test_a_lab_is_solved_in_jupyterlab_and_submitted(server: str, tab: Any, world: World):
    cells = instructor_notebook(ROOT / SOURCE / f"{LAB}.py", ROOT).cells
    number = {c.metadata["nbgrader"]["grade_id"]: i for i, c in enumerate(cells) if "nbgrader" in c.metadata}
    solutions = [
        i for i, c in enumerate(cells) if c.cell_type == "code" and c.metadata.get("nbgrader", {}).get("solution")
    ]
    kernel, correctness = number[f"{LAB}_kernel"], number[f"{LAB}_correctness"]
    tab.goto(f"{server}/lab/tree/{LAB}.ipynb?reset")
    cell(tab, len(cells) - 1).wait_for(state="attached")
    tab.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").first.wait_for(state="attached")

    # As handed out: everything runs up to the first step, which says what to do.
    run_all(tab)
    first = number[f"{LAB}_step_load_check"]
    stopped = cell(tab, first).locator(".jp-OutputArea-output")
    stopped.get_by_text("load_tile is still the stub").wait_for()
    assert "Traceback" not in stopped.inner_text()
    keep(tab, 3, "1-problem")
    keep(tab, first, "2-stub")

    # Every cell filled in, the kernel with a mistake: sentences and pictures of what is wrong.
    for i in solutions:
        text = cells[i].source
        type_into(tab, i, text.replace("* weight_scale[None, :]", "") if i == kernel else text)
    run_all(tab)
    cell(tab, correctness).get_by_text("points so far").wait_for()
    maps = cell(tab, correctness).locator("img")
    assert maps.count() == 2
    keep(tab, number[f"{LAB}_step_quantise_check"], "3-steps")
    keep(tab, correctness, "4-wrong")

    # Fixed: run from the kernel on, full points.
    type_into(tab, kernel, cells[kernel].source)
    choose(tab, "Run", "Run Selected Cell and All Below")
    cell(tab, correctness).get_by_text("correctness 60/60 points").wait_for()
    cell(tab, number[f"{LAB}_speed"]).get_by_text("40 points for speed").wait_for()
    keep(tab, correctness, "5-right")
    images = tab.locator(".jp-OutputArea img")
    assert images.count() >= 2
    for i in range(images.count()):
        assert images.nth(i).evaluate("image => image.complete && image.naturalWidth > 0")

    # In a cell of one's own: the kernel that was run goes to the server, and the answer stands below.
    cell(tab, kernel).locator(".jp-InputPrompt").click()
    tab.keyboard.press("b")
    tab.keyboard.press("Enter")
    tab.keyboard.insert_text(f'from grader.notebook import submit\nsubmit("{LAB}")')
    tab.keyboard.press("Control+Enter")
    cell(tab, kernel + 1).get_by_text("times as fast as cuBLAS fp16").wait_for()
    cell(tab, kernel + 1).get_by_text(f"{world.url}/attempts/1").wait_for()
    keep(tab, kernel + 1, "6-submitted")
    text, lines = world.service.store.content(1)
    assert "* weight_scale[None, :]" in text
    assert all(place.startswith(f"{LAB}.ipynb") or "cell" in place for place, *_ in lines)
