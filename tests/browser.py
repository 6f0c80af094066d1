"""Chromium for tests that look at a page, and what it complains about while it shows one."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from .waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page


def chromium() -> str:
    """The path of chromium, which `make chromium` installs."""
    found = shutil.which("chromium")
    if found is None:
        pytest.fail("tests of pages need chromium, which is missing: `make chromium` installs it, or says how")
    return found


@contextlib.contextmanager
def launched(*options: str) -> Iterator[Browser]:
    """Chromium without a window, with these options."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", *options], timeout=1000 * PATIENCE
        )
        yield started
        started.close()


@dataclass
class Watched:
    """A page, and what it has asked for and complained about."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


def watch(browser: Browser, *, width: int = 1280, height: int = 800, dark: bool = False) -> Watched:
    """An empty page in a window of that size, which records every request, and errors and warnings."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", accept_downloads=True
    )
    context.set_default_timeout(1000 * PATIENCE)
    watched = Watched(context.new_page())

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            watched.complaints.append(message.text)

    watched.page.on("request", lambda request: watched.requests.append(request.url))
    watched.page.on("console", hear)
    watched.page.on("pageerror", lambda error: watched.complaints.append(str(error)))
    return watched


def wait_for(page: Page, condition: str, argument: object = None) -> None:
    """Wait until a condition holds. (Playwright's own way of it is an `eval` in the page, which its policy forbids.)"""
    wait_until(lambda: page.evaluate(condition, argument), condition, between=lambda: page.wait_for_timeout(15))


def let_draw(page: Page, frames: int = 2) -> None:
    """Wait until the browser has drawn so many frames more: what the page had put off until the next one is done."""
    for _ in range(frames):
        page.evaluate("new Promise(requestAnimationFrame)")
