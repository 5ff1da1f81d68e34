"""The course server's pages in a real browser: wide, narrow, light, dark, and by the keyboard alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.course_server import course, kernel
from tests.integration.test_browser import CHROMIUM, CONTRAST, LOOKS, SCREENSHOTS, chromium

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here; install Debian's package chromium"),
]
PAGES = {"own": ("ann", "/"), "board": ("ann", "/board"), "instructor": ("prof", "/instructor"), "report": ("ann", "/attempts/1")}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with course(tmp_path_factory.mktemp("course"), students=6) as found:
        for number, login in enumerate(["ann", "bob", "ann", "s3", "s4", "ann", "bob", "carl", "carl", "carl", "ann"]):
            slip = '\n    tl.static_print("WRONG")' if login == "carl" else ""
            found.submit(login, kernel(17 * number, slip), number)
            found.wait()
        found.service.store.set("server_paused", "yes")
        for number in range(20, 26):
            found.submit(("ann", "bob", "s3")[number % 3], kernel(number), number)
        yield found


@pytest.fixture(scope="module")
def browser():
    with chromium("--no-proxy-server") as started:
        yield started


def signed_in(browser: Any, world: Any, login: str, **options: Any) -> Any:
    context = browser.new_context(**options)
    context.add_cookies([{"name": "lab_token", "value": world.tokens[login], "url": world.url}])
    return context.new_page()


@pytest.mark.parametrize("name", list(PAGES))
def test_the_pages_in_chromium(browser, world, name):
    login, path = PAGES[name]
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for scheme, width in LOOKS:
        complaints: list[str] = []
        tab = signed_in(browser, world, login, color_scheme=scheme, viewport={"width": width, "height": 800})
        tab.on("console", lambda message, to=complaints: to.append(message.text))
        tab.on("pageerror", lambda error, to=complaints: to.append(str(error)))
        tab.goto(world.url + path)
        tab.screenshot(path=SCREENSHOTS / f"course-{name}-{scheme}-{width}.png", full_page=True)
        assert complaints == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.evaluate(CONTRAST) == []
        tab.context.close()


def test_by_the_keyboard_alone(browser, world):
    """Signs in, reaches the board, comes back and cancels what waits; the page follows what happens by itself."""
    tab = browser.new_context().new_page()
    tab.goto(world.url)
    reach(tab, "document.activeElement.id === 'token'")
    tab.keyboard.type(world.tokens["bob"])
    tab.keyboard.press("Enter")
    tab.wait_for_selector("text=Your attempts")
    reach(tab, "document.activeElement.textContent === 'Board'")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("text=(you)")
    tab.go_back()
    waiting = tab.locator("button:has-text('Cancel')").count()
    assert waiting == 2
    reach(tab, "document.activeElement.textContent === 'Cancel'")
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    tab.keyboard.press("Enter")
    until(lambda: tab.locator("tbody button").count() == 1)
    world.service.store.set("server_paused", "")
    until(lambda: tab.locator("[data-attempt]").count() == 0)
    tab.context.close()


def reach(tab: Any, condition: str) -> None:
    """Presses Tab until the focus is there."""
    for _ in range(30):
        tab.keyboard.press("Tab")
        if tab.evaluate(condition):
            return
    raise AssertionError(f"the keyboard does not reach: {condition}")


def until(true: Callable[[], bool]) -> None:
    """Waits for it; the pages' policy forbids Playwright to do that inside them."""
    limit = time.monotonic() + 30
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.1)
