"""What pages of others can do to the inspector, in a real browser: nothing."""

from __future__ import annotations

import http.server
import io
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.experiments.train import train
from mfec.inspector.inspection import Inspection

from ..browser import launched, watch
from .serving import Served, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EVIL = "evil.example"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The inspector of a short run, with a game that is over."""
    config = RunConfig("FrozenLake-v1", 300, 0, MFECConfig(capacity=2000))
    run = train(config, tmp_path_factory.mktemp("runs") / "lake", console=Console(file=io.StringIO()))
    inspection = Inspection(run)
    inspection.finish(inspection.play())
    with serving(inspection) as server:
        yield server
    inspection.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser that finds another's name at this machine, as after DNS rebinding."""
    with launched(f"--host-resolver-rules=MAP {EVIL} 127.0.0.1") as started:
        yield started


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[int]:
    """The port of another server on this machine, whose page has a link to wherever its address says."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(
                b"<!doctype html><title>Elsewhere</title><a rel=opener target=_blank>link</a><form></form>"
            )

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def window(browser: Browser) -> Page:
    return watch(browser).page


@pytest.fixture(params=["127.0.0.1", EVIL])
def stranger(request: pytest.FixtureRequest, window: Page, elsewhere: int) -> Page:
    """A page of another port of this machine, which is the same site, and one of another site."""
    window.goto(f"http://{request.param}:{elsewhere}/")
    return window


def test_the_page_works_under_its_own_policy(browser, served):
    watched = watch(browser)
    watched.page.goto(f"http://{served.host}/")
    watched.page.get_by_role("heading", name="FrozenLake-v1").wait_for()
    assert watched.page.evaluate("window.inspector.ready")
    assert {url.split("/")[2] for url in watched.requests} == {served.host}
    assert f"http://{served.host}/api/games/0/steps/0" in watched.requests
    assert watched.complaints == []


def test_scripts_of_others_are_refused(stranger, served):
    games = served.inspection.run()["recorded_games"]
    statuses: list[int] = []
    stranger.on("response", lambda response: statuses.append(response.status))
    for options in (
        {}, {"mode": "no-cors"}, {"method": "POST", "mode": "no-cors", "body": "{}"},
        {"method": "POST", "headers": {"Content-Type": "application/json"}, "body": "{}"},
    ):  # fmt: skip
        for path in ("/api/run", "/api/games", "/"):
            asked = "([url, options]) => fetch(url, options).then(answer => answer.text(), () => '')"
            assert stranger.evaluate(asked, [f"http://{served.host}{path}", options]) == ""
    assert set(statuses) <= {403, 405}  # 405: the question that a browser asks before
    assert served.inspection.run()["recorded_games"] == games


PUT_IN = """([kind, url]) => new Promise(tell => {
    const part = document.createElement(kind)
    part.onload = () => tell("loaded")
    part.onerror = () => tell("refused")
    part.src = url
    document.body.append(part)
})"""


def test_pictures_and_scripts_of_this_server_are_for_nobody_else(stranger, served):
    for kind in ("img", "script", "audio"):
        for path in ("/", "/api/run", "/api/games/0/pictures/0"):
            assert stranger.evaluate(PUT_IN, [kind, f"http://{served.host}{path}"]) == "refused"


def test_frames_of_others_are_refused(stranger, served):
    for kind in ("iframe", "embed"):
        for path in ("/", "/api/run"):
            with stranger.expect_response(f"http://{served.host}{path}") as waiting:
                stranger.evaluate(f"place => {{ ({PUT_IN})(place) }}", [kind, f"http://{served.host}{path}"])
            assert waiting.value.status == 403


def test_forms_of_others_are_refused(stranger, served):
    games = served.inspection.run()["recorded_games"]
    with stranger.expect_navigation() as waiting:
        sent = "url => { const [form] = document.forms; form.method = 'post'; form.action = url; form.submit() }"
        stranger.evaluate(sent, f"http://{served.host}/api/games")
    assert waiting.value.status == 403
    assert served.inspection.run()["recorded_games"] == games


def test_a_link_opens_the_page_and_leaves_nobody_a_hand_on_it(stranger, served):
    stranger.evaluate("url => { document.querySelector('a').href = url }", f"http://{served.host}/")
    with stranger.context.expect_page() as waiting:
        stranger.click("a")
    opened = waiting.value
    opened.get_by_role("heading", name="FrozenLake-v1").wait_for()
    assert opened.evaluate("window.opener") is None
    opened.close()


def test_a_name_that_was_made_to_mean_this_machine_is_refused(browser, served):
    page = watch(browser).page
    for path in ("/", "/api/run"):
        answer = page.goto(f"http://{EVIL}:{served.port}{path}")
        assert answer is not None
        assert answer.status == 403
        assert f"not as '{EVIL}:{served.port}'" in answer.text()
