"""Debian's chromium for tests that look at a page: installed where it is missing, and watched while it shows one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

PACKAGE = "chromium"


def chromium() -> str:
    """The path of chromium. Of several test processes that miss it, one installs it, and the others wait."""
    with (Path(tempfile.gettempdir()) / f"mfec-chromium-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = "" if shutil.which(PACKAGE) else _install()
    found = shutil.which(PACKAGE)
    if found is None:
        pytest.fail(f"tests of pages need Debian's chromium (apt-get install {PACKAGE}), which is missing: {said}")
    return found


def _install() -> str:
    """Install chromium, if this user may; returns what was said about it."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return "only root can install it, on Debian and its like"
    said = ""
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", PACKAGE]):
        ended = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        )
        said = ended.stdout[-500:] + ended.stderr[-1500:]
    return said


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
