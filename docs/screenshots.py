"""Pictures of the inspector's page for the documentation: a step of a run, as a browser shows it.

    python docs/screenshots.py RUN --seed 0 --step 60 --out docs/images/inspector/qbert.png
    python docs/screenshots.py RUN --step 60 --memory 2 --after 5 --dark --out docs/images/inspector/then.png

`--memory` opens the comparison with a memory of the action taken, the nearest being 0, and `--after` goes so many steps
on in it. It needs Debian's chromium, and playwright, which the tests need too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import threading
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from mfec.inspector.app import make_app
from mfec.inspector.inspection import Inspection
from mfec.inspector.server import listen, make_server
from mfec.run_directory import RunDirectory

HOST = "127.0.0.1"


def main() -> None:
    """Play a game, show it, and take the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step", type=int, required=True)
    parser.add_argument("--memory", type=int, help="open the comparison with this memory of the action taken")
    parser.add_argument("--after", type=int, default=0, help="steps after the memory")
    parser.add_argument("--size", type=int, nargs=2, default=(1280, 800))
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    inspection = Inspection(RunDirectory(options.run), seed=options.seed)
    inspection.finish(inspection.play())
    address = f"#game=0&step={options.step}"
    if options.memory is not None:
        told = inspection.step(0, options.step)
        near = told["actions"][told["action"]]["neighbours"][options.memory]
        address += f"&memory={told['action']}:{near['id']}"
    with listen(HOST, 0) as listening, sync_playwright() as playwright:
        port = listening.getsockname()[1]
        server = make_server(make_app(inspection, host=HOST, port=port, title="mfec inspect"), begun=lambda: None)
        threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True).start()
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        width, height = options.size
        page = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme="dark" if options.dark else "light"
        )
        page.goto(f"http://{HOST}:{port}/{address}")
        _settle(page)
        for _ in range(options.after):
            page.keyboard.press("ArrowRight")
        _settle(page)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=options.out)
        print(options.out)
        server.should_exit = True
    inspection.close()


def _settle(page: Page) -> None:
    """Wait until nothing is asked for any more, and what came is drawn."""
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(1000)


if __name__ == "__main__":
    main()
