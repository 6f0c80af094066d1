"""An agent that matches no state exactly, whose every value is one of neighbours: what the page tells of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from rich.console import Console

from mfec.algorithms import RunConfig
from mfec.algorithms.nec import NECConfig
from mfec.config import EnvConfig
from mfec.experiments.train import train
from mfec.inspector.export import export_game
from mfec.inspector.inspection import Inspection

from .looking import near, open_page, shows
from .test_in_browser import remembered

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.torch
P, DELTA, N, GAMMA = 6, 0.5, 20, 0.9


def inspected(out: Path, *, keep_frames: bool) -> Inspection:
    """A game of an agent of stacked frames; whether they were kept does not change a run."""
    own = NECConfig(
        p=P, delta=DELTA, n_step=N, gamma=GAMMA, epsilon=0.2, dim=8, capacity=500, replay_start=50, replay_capacity=500
    )
    config = RunConfig("qbert", 1600, 0, own, EnvConfig(frame_stack=4, max_frames=400), "nec")
    run = train(config, out, keep_frames=keep_frames, console=Console(quiet=True))
    inspection = Inspection(run, seed=3)
    inspection.finish(inspection.play())
    return inspection


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspection]:
    inspection = inspected(tmp_path_factory.mktemp("remade"), keep_frames=False)
    yield inspection
    inspection.close()


def test_every_action_is_told_with_its_neighbours_and_their_weights(played):
    game = played.game(0)
    for step in range(0, game["steps"], 7):
        for own in played.step(0, step)["actions"]:
            assert own["source"] == "weighted_mean"
            assert len(own["neighbours"]) == P
            weights = np.array([each["weight"] for each in own["neighbours"]])
            kernel = np.array([1.0 / (each["distance"] ** 2 + DELTA) for each in own["neighbours"]])
            assert weights == pytest.approx(kernel / kernel.sum())
            assert own["value"] == pytest.approx(weights @ [each["value"] for each in own["neighbours"]], rel=1e-5)


def test_nothing_is_said_of_exact_matches(played):
    run, figures = played.run(), played.step(0, 5)["figures"]
    assert (run["exact_matches"], run["k"], run["n_step"], run["gamma"]) == (False, P, N, GAMMA)
    assert played.game(0)["exact"] is None
    assert (figures["exact_share"], figures["exact_chosen_share"]) == (None, None)


def test_frames_of_memories_are_made_again_from_stacks(played, tmp_path):
    """Those of the same run that were kept while it trained, one of each stack."""
    kept = inspected(tmp_path, keep_frames=True)
    places = {
        (each["episode"], each["frame"])
        for step in range(0, 60, 6)
        for own in played.step(0, step)["actions"]
        for each in own["neighbours"]
    }
    assert len(places) > 20
    assert played.past(1)["source"] == "recreated"
    assert kept.past(1)["source"] == "kept"
    for place in places:
        assert np.array_equal(remembered(played, *place), remembered(kept, *place))
    kept.close()


def test_the_page_shows_weights_and_no_matches(played, browser: Browser, tmp_path):
    out = export_game(played, 0, tmp_path / "page.html", max_mb=14).file
    watched = open_page(browser, out.as_uri(), step=30)
    page, told = watched.page, played.step(0, 30)
    behind = told["actions"][told["action"]]["neighbours"]
    cards = page.locator(f".strip[data-action='{told['action']}'] .card").all()
    for card, each in zip(cards, behind, strict=True):
        [weight] = [line for line in card.inner_text().splitlines() if line.startswith("weight")]
        assert near(weight, each["weight"])
        assert shows(card.locator("canvas"), remembered(played, each["episode"], each["frame"]))
    assert page.locator(".row .kind").first.inner_text() == f"weighted, of {P}"
    assert f"{P} neighbours" in page.locator("#about").inner_text()
    shown = page.locator("body").inner_text().lower()
    assert "matched" not in shown
    assert "exact" not in shown
    cards[0].click()
    page.wait_for_function("document.querySelector('#followed-note').textContent !== ''")
    memory = behind[0]
    rewards = played.past(memory["episode"])["rewards"][memory["frame"] // 4 :][:N]
    followed = sum(GAMMA**i * reward for i, reward in enumerate(rewards))
    said = page.locator("#followed-note").inner_text()
    assert near(said.removeprefix("Then, "), followed)
    assert f"in {len(rewards)} step{'s' * (len(rewards) > 1)}" in said
    assert watched.complaints == []
    page.context.close()
