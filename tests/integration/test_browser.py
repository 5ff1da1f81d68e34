"""The page in a real browser: light and dark, a phone's width, nothing fetched, nothing complained about."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from grader.reporting.page import page
from tests.processes import free_port
from tests.reports import gpu_report, hostile_report, wrong_report

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]
LOOKS = (("light", 1280), ("dark", 360))
"""What a page is looked at in: no rule of its style is for a scheme and a width together."""
REPORTS = {"wrong": wrong_report, "gpu": gpu_report, "hostile": hostile_report}

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here; install Debian's package chromium"),
]


@contextmanager
def chromium(*flags: str) -> Iterator[Any]:
    """A browser, with these flags and FLAGS."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install -e .[test]")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *flags])
        yield started
        started.close()


@contextmanager
def served(module: str, *options: str, log: Path, **how: Any) -> Iterator[str]:
    """The address of a Jupyter server of this module, which ends with the block. how: as subprocess has it."""
    port = free_port()
    command = [sys.executable, "-m", module, "--no-browser", "--allow-root", f"--port={port}", *options]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, **how)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{address}/api", timeout=2).close()
                break
            except OSError:
                assert process.poll() is None, log.read_text(encoding="utf-8", errors="replace")
                time.sleep(0.25)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    files = {name: folder / f"{name}.html" for name in REPORTS}
    for name, file in files.items():
        file.write_text(page(REPORTS[name]()), encoding="utf-8")
    return files


CONTRAST = """
() => {
  const channel = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const numbers = text => text.match(/[0-9.]+/g).map(Number);
  const behind = node => {
    for (; node; node = node.parentElement) {
      const colour = numbers(getComputedStyle(node).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return matchMedia('(prefers-color-scheme: dark)').matches ? [0, 0, 0] : [255, 255, 255];
  };
  const bad = [];
  for (const node of document.body.querySelectorAll('*')) {
    if (![...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim())) continue;
    const [a, b] = [light(numbers(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push(`${node.tagName}.${node.className} ${ratio.toFixed(2)}: ${node.textContent.slice(0, 40)}`);
  }
  return bad;
}
"""


@pytest.mark.parametrize("name", list(REPORTS))
@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_the_page_in_chromium(browser: Any, pages: dict[str, Path], name: str, scheme: str, width: int):
    complaints: list[str] = []
    requests: list[str] = []
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    tab = context.new_page()
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(pages[name].as_uri())
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    tab.screenshot(path=SCREENSHOTS / f"report-{name}-{scheme}-{width}.png", full_page=True)
    outside = [url for url in requests if not url.startswith(("data:", pages[name].as_uri()))]
    assert outside == []
    assert complaints == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate("[...document.images].every(image => image.scrollWidth <= image.parentElement.clientWidth)")
    assert tab.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    assert tab.evaluate("document.scripts.length") == (name == "wrong")
    assert tab.evaluate(CONTRAST) == []
    context.close()


@pytest.mark.parametrize("runs", [True, False], ids=["with scripts", "without"])
def test_a_slider_goes_through_the_iterations(browser: Any, pages: dict[str, Path], runs: bool):
    context = browser.new_context(java_script_enabled=runs)
    tab = context.new_page()
    tab.goto(pages["wrong"].as_uri())
    slider, shown = tab.locator(".walk input"), tab.locator(".walk p[data-step]:visible")
    assert "X[0:32, 0:64] meets" in shown.inner_text()
    assert slider.is_visible() == runs
    if runs:
        slider.focus()
        tab.keyboard.press("ArrowRight")
        assert "X[0:32, 64:128] meets" in shown.inner_text()
        assert tab.locator(".walk g:visible").get_attribute("data-step") == "1"
        read = "box => document.elementFromPoint(box.x + 9, box.y + box.height - 9).textContent"
        assert "program (0, 1) stores" in tab.evaluate(read, tab.locator(".tile.wrong").bounding_box())
    context.close()


def test_the_page_prints(browser: Any, pages: dict[str, Path]):
    tab = browser.new_page()
    tab.goto(pages["wrong"].as_uri())
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    printed = tab.pdf(path=SCREENSHOTS / "report-wrong-print.pdf", format="A4")
    assert printed.startswith(b"%PDF")
    tab.close()


def test_a_keyboard_reaches_the_source(browser: Any, pages: dict[str, Path]):
    tab = browser.new_page(viewport={"width": 360, "height": 800})
    tab.goto(pages["wrong"].as_uri())
    reached = set()
    for _ in range(40):
        tab.keyboard.press("Tab")
        reached.add(tab.evaluate("document.activeElement.className || document.activeElement.tagName"))
        if tab.evaluate("document.activeElement.tagName === 'SUMMARY' && !document.activeElement.parentElement.open"):
            tab.keyboard.press("Enter")  # the source is folded
    assert "A" in reached
    assert "card code" in reached
    tab.close()
