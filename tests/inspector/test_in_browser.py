"""The whole inspector in a real browser: a trained agent, a real server, a real file; what is seen was lived."""

from __future__ import annotations

import zlib
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from rich.console import Console

from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.cli import main
from mfec.config import EnvConfig
from mfec.experiments.train import train
from mfec.history.frame_codec import unpack_frames
from mfec.inspector.inspection import Inspection
from mfec.run_directory import RunDirectory

from ..browser import Watched
from .looking import go_to, near, open_page, shows, wait_for, wait_for_step
from .serving import Served, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOLDER = """<img src=x onerror=alert(1)> & "it's" </script>"""
STEPS = (3, 70)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run in a folder whose name is HTML."""
    agent = MFECConfig(k=5, dim=16, capacity=2000, epsilon=0.05, gamma=0.98)
    config = RunConfig("qbert", 4000, agent=agent, environment=EnvConfig(max_frames=600))
    folder = tmp_path_factory.mktemp("runs") / FOLDER.replace("/", "\N{FRACTION SLASH}")
    return train(config, folder, keep_frames=True, console=Console(quiet=True))


@pytest.fixture(scope="module")
def server(run: RunDirectory) -> Iterator[Served]:
    inspection = Inspection(run, seed=2)
    inspection.finish(inspection.play())
    with serving(inspection) as served:
        yield served
    inspection.close()


@pytest.fixture(scope="module")
def exported(run: RunDirectory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("pages") / "page.html"
    assert main(["inspect", str(run.path), "--seed", "2", "--export", str(out)]) == 0
    return out


@pytest.fixture(scope="module", params=["server", "file"])
def page(request: pytest.FixtureRequest, browser: Browser, server: Served, exported: Path) -> Iterator[Watched]:
    """The page from the server, and from the file."""
    address = f"http://{server.host}/" if request.param == "server" else exported.as_uri()
    watched = open_page(browser, address, step=STEPS[0])
    yield watched
    elsewhere = [url for url in watched.requests if not url.startswith((address, "data:", "blob:"))]
    assert elsewhere == []  # no request leaves the machine
    assert watched.complaints == []
    assert watched.page.evaluate("window.broken") == []
    watched.page.context.close()


def picture(inspection: Inspection, step: int) -> np.ndarray:
    """What the environment drew at a step of the game."""
    about = inspection.game(0)["picture"]
    chunk, place = divmod(step, about["per_chunk"])
    return unpack_frames(inspection.pictures(0, chunk), tuple(about["shape"]))[place]


def remembered(inspection: Inspection, episode: int, frame: int) -> np.ndarray:
    told = inspection.thumbnails([(episode, frame)])
    return np.frombuffer(zlib.decompress(b64decode(told["frames"])), np.uint8).reshape(told["shape"])


def test_a_step_shows_the_agent_s_own_numbers_and_frames(page, server):
    for step in STEPS:
        go_to(page.page, step)
        told = server.inspection.step(0, step)
        rows = page.page.locator(".row").all()
        assert len(rows) == 6
        for action, (row, own) in enumerate(zip(rows, told["actions"], strict=True)):
            assert near(row.locator(".value").inner_text(), own["value"])
            said = "exact match" if own["source"] == "exact" else f"average of {len(own['neighbours'])}"
            assert row.locator(".kind").inner_text() == said
            assert (row.locator(".tag", has_text="taken").count() == 1) == (action == told["action"])
        assert shows(page.page.locator("#stage canvas"), picture(server.inspection, step))
        cards = page.page.locator(".card:visible").all()
        behind = told["actions"][told["action"]]["neighbours"]
        assert len(cards) == len(behind)
        for card, each in zip(cards, behind, strict=True):
            assert f"episode {each['episode']}" in card.inner_text()
            assert f"frame {each['frame']:,}" in card.inner_text()
            assert shows(card.locator("canvas"), remembered(server.inspection, each["episode"], each["frame"]))


def test_a_memory_is_watched_in_its_own_episode_and_left_again(page, server):
    """By the keyboard alone. What followed then is, to the end of that life, what the memory keeps."""
    inspection = server.inspection
    for step in STEPS:
        go_to(page.page, step)
        told = inspection.step(0, step)
        memory = told["actions"][told["action"]]["neighbours"][0]
        page.page.keyboard.press("m")
        page.page.keyboard.press("Enter")
        wait_for(page.page, "document.querySelector('#followed-note').textContent !== ''")
        assert page.page.locator("#followed-note").inner_text().endswith("This is what the memory keeps.")
        then = page.page.locator("#side-then canvas").first
        anchor = memory["frame"] // 4
        for after in range(3):
            frame = remembered(inspection, memory["episode"], 4 * (anchor + after))
            wait_for(page.page, f"document.querySelector('#side-then').innerText.includes('{anchor + after}')")
            label = f"Remembered frame {4 * (anchor + after)} of episode {memory['episode']}"
            wait_for(page.page, f"!!document.querySelector('#side-then canvas[aria-label=\"{label}\"]')")
            assert shows(then, frame)
            page.page.keyboard.press("ArrowRight")
        page.page.keyboard.press("Escape")
        wait_for(page.page, "document.querySelector('#comparison').hidden")
        assert page.page.evaluate("inspector.shown()") == step
        assert page.page.evaluate("document.activeElement.classList.contains('card')")


def test_names_are_text(page):
    assert page.page.locator("img").count() == 0
    assert page.page.locator("#about code").inner_text().endswith(FOLDER.replace("/", "\N{FRACTION SLASH}"))


def test_another_game_is_played_from_the_page(browser, run):
    inspection = Inspection(run, seed=2)
    inspection.finish(inspection.play())
    with serving(inspection) as served:
        watched = open_page(browser, f"http://{served.host}/", step=5)
        watched.page.get_by_role("button", name="Play another game").click()
        wait_for(watched.page, "document.querySelector('#game').value === '1'")
        wait_for_step(watched.page, 0)
        inspection.finish(1)
        score = inspection.game(1)["score"]
        wait_for(watched.page, f"document.querySelector('#game').selectedOptions[0].text === 'Game 2: score {score:g}'")
        assert watched.complaints == []
        watched.page.context.close()
    inspection.close()


def test_the_file_is_small_and_says_nothing_of_this_machine(exported, run):
    assert exported.stat().st_size < 15e6
    assert str(run.path.parent) not in exported.read_text()
