"""Looking at the inspector's page: where it is, what is drawn on it, what it says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from ..browser import Watched, wait_for, watch

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

MINUS = "\N{MINUS SIGN}"


def open_page(browser: Browser, address: str, *, step: int | None = None, size=(1280, 800), dark=False) -> Watched:
    watched = watch(browser, width=size[0], height=size[1], dark=dark)
    watched.page.add_init_script(
        "window.broken = []; window.steps = [];"
        "document.addEventListener('securitypolicyviolation', event => broken.push(event.violatedDirective));"
        "document.addEventListener('inspector:shown', event => steps.push(event.detail.step));"
    )
    watched.page.goto(address + ("" if step is None else f"#game=0&step={step}"))
    assert watched.page.evaluate("window.inspector.ready")
    wait_for_step(watched.page, step or 0)
    return watched


def wait_for_step(page: Page, step: int) -> None:
    """Wait until a step is on the screen, with its frames."""
    wait_for(page, f"steps.at(-1) === {step} && !document.querySelector('.stale')")


def go_to(page: Page, step: int) -> None:
    """To a step, by its address."""
    page.evaluate(f"location.hash = ''; location.hash = '#game=0&step={step}'")
    wait_for_step(page, step)


def pixels(canvas: Locator) -> np.ndarray:
    """What is on a canvas: (height, width, 4)."""
    height, width, data = canvas.evaluate(
        """canvas => {
            const copy = new OffscreenCanvas(canvas.width, canvas.height)
            const context = copy.getContext("2d", { willReadFrequently: true })
            context.drawImage(canvas, 0, 0)
            const { data } = context.getImageData(0, 0, canvas.width, canvas.height)
            return [canvas.height, canvas.width, Array.from(data, byte => String.fromCharCode(byte)).join("")]
        }"""
    )
    return np.frombuffer(data.encode("latin-1"), np.uint8).reshape(height, width, 4)


def shows(canvas: Locator, frame: np.ndarray) -> bool:
    drawn = pixels(canvas)
    coloured = frame if frame.ndim == 3 else np.repeat(frame[..., None], 3, axis=2)
    return bool((drawn[..., :3] == coloured).all() and (drawn[..., 3] == 255).all())


def read(text: str) -> float:
    """The number in a text, as the page writes them."""
    return float(re.search(r"-?[\d,]*\.?\d+", text.replace(MINUS, "-")).group().replace(",", ""))


def near(text: str, value: float) -> bool:
    """Whether a text tells this number, to the places that it has."""
    return abs(read(text) - value) <= max(0.5 if abs(value) >= 1000 else 0.051 if abs(value) >= 100 else 0.0051, 1e-9)
