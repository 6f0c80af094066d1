"""The server: what it answers to its own page, and that nobody else gets anything but a sentence."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.errors import MfecError
from mfec.experiments.train import train
from mfec.inspector.app import LONGEST_BODY, MOST_GAMES, SLOW, Threads
from mfec.inspector.inspection import Inspection
from mfec.inspector.security import Address
from mfec.inspector.server import listen
from mfec.run_directory import RunDirectory

from ..waiting import PATIENCE, deadline, wait_until
from .serving import Reply, Served, serving

HOSTILE = """<img src=x onerror=alert(1)>&"'"""
OWN_PAGE = {"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Mode": "cors", "Sec_Fetch_Dest": "empty"}
LINK = {"Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunDirectory]:
    """A run whose environment and directory have names that a page must not take for markup."""
    place = tmp_path_factory.mktemp("runs")
    (place / f"{HOSTILE}.py").write_text("")  # Gymnasium imports what is before the colon
    config = RunConfig(f"{HOSTILE}:FrozenLake-v1", 3_000, 0, MFECConfig(capacity=2000))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place)
        yield train(config, place / HOSTILE, console=Console(file=io.StringIO()))


@pytest.fixture(scope="module")
def served(run: RunDirectory) -> Iterator[Served]:
    """A server that has played one game."""
    inspection = Inspection(run)
    with serving(inspection, title=f"</title><script>{HOSTILE}") as server:
        assert inspection.play() == 0
        inspection.finish(0)
        yield server
        assert server.ask("/api/games/0").status == 200  # after all that the tests have sent
    inspection.close()


# -- Its own page -----------------------------------------------------------------------------------------------------


def test_the_page_is_served_under_its_policy(served):
    page = served.ask("/")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'sha256-")
    assert page.body.startswith(b"<!doctype html>")


def test_answers_are_those_of_the_inspection(served):
    inspection = served.inspection
    for path, own in {
        "/api/run": inspection.run(),
        "/api/games/0": inspection.game(0),
        "/api/games/0/steps/0": inspection.step(0, 0),
        "/api/past/1": inspection.past(1),
        "/api/thumbnails?at=1:0,2:1": inspection.thumbnails([(1, 0), (2, 1)]),
    }.items():
        answer = served.ask(path, **OWN_PAGE)
        assert answer.status == 200, path
        assert answer.headers["content-type"] == "application/json"
        assert answer.json == json.loads(json.dumps(own)), path
    pictures = served.ask("/api/games/0/pictures/0", **OWN_PAGE)
    assert pictures.headers["content-type"] == "application/octet-stream"
    assert pictures.body == inspection.pictures(0, 0)


@pytest.mark.parametrize(("path", "status"), [
    ("/", 200), ("/api/run", 200), ("/api/games/0/pictures/0", 200), ("/nothing", 404), ("/api/games/x", 400),
    ("/api/games/8", 404), ("/%2e", 404),
])  # fmt: skip
def test_every_answer_is_closed(served, path, status):
    for method in ("GET", "HEAD"):
        answer = served.ask(path, method=method)
        assert answer.status == status
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "access-control-allow-origin" not in answer.headers
        assert "server" not in answer.headers


def test_head_has_the_length_of_what_it_does_not_send(served):
    whole, head = served.ask("/api/run"), served.ask("/api/run", method="HEAD")
    assert head.body == b""
    assert head.headers["content-length"] == str(len(whole.body))


def test_names_stay_text(served, run):
    """In the page they are escaped; in JSON, which no browser takes for a page, they are as they are."""
    page = served.ask("/").body.decode()
    assert HOSTILE not in page
    assert "&lt;/title&gt;&lt;script&gt;&lt;img src=x onerror=alert(1)&gt;&amp;&quot;&#x27;" in page
    facts = served.ask("/api/run").json
    assert HOSTILE in facts["environment"]
    assert Path(facts["directory"]).name == HOSTILE


# -- Other hosts ------------------------------------------------------------------------------------------------------


def test_it_answers_under_the_names_of_this_machine(served):
    for host in ("127.0.0.1", "localhost", "LocalHost", "[::1]", "[0:0:0:0:0:0:0:1]"):
        assert served.ask("/api/run", Host=f"{host}:{served.port}").status == 200, host


@pytest.mark.parametrize("host", [
    "evil.example:{port}", "127.0.0.1.nip.io:{port}", "localhost.evil.example:{port}", "evil.example", "127.0.0.1",
    "localhost", "localhost:1", "127.0.0.1:{port}0", "127.0.0.2:{port}", "192.168.0.1:{port}", "0.0.0.0:{port}",
    "[::]:{port}", "[::ffff:127.0.0.1]:{port}", "127.1:{port}", "2130706433:{port}", "0x7f.1:{port}",
    "localhost.:{port}", "127.0.0.1:{port}@evil.example", "evil@127.0.0.1:{port}",
    "127.0.0.1:{port}, evil.example", "127.0.0.1:{port}/",
    "127.0.0.1:-1", "127.0.0.1:", "[::1", "[]:{port}", "[zz]:{port}", "", "*", "null", "http://127.0.0.1:{port}",
])  # fmt: skip
def test_other_hosts_are_refused(served, host):
    for path in ("/", "/api/run"):
        refused = served.ask(path, Host=host.format(port=served.port))
        assert refused.status == 403, host
        assert refused.error.startswith(
            f"This server answers only under its own address, http://{served.host}/, not as"
        )


def test_on_a_network_addresses_are_answered_and_names_are_not(served):
    with serving(served.inspection, host="0.0.0.0") as wide:
        own = socket.gethostname()
        for host in ("192.168.0.1", "10.1.2.3", "[fe80::1]", "127.0.0.1", "localhost", own, own.upper()):
            assert wide.ask("/api/run", Host=f"{host}:{wide.port}").status == 200, host
        for host in ("evil.example", f"{own}.evil.example", "192.168.0.1.nip.io", "1.2.3", "1.2.3.4.5", "[fe80::g]"):
            assert wide.ask("/api/run", Host=f"{host}:{wide.port}").status == 403, host
        assert wide.ask("/api/run", Host="192.168.0.1:80").status == 403
        assert wide.ask("/api/run", Host=f"10.0.0.1:{wide.port}", Origin=f"http://10.0.0.2:{wide.port}").status == 403


@pytest.mark.parametrize(("host", "loopback", "url"), [
    ("127.0.0.1", True, "http://127.0.0.1:80/"), ("localhost", True, "http://localhost:80/"),
    ("::1", True, "http://[::1]:80/"), ("0.0.0.0", False, "http://127.0.0.1:80/"), ("::", False, "http://127.0.0.1:80/"),
    ("192.168.0.1", False, "http://192.168.0.1:80/"), ("myhost", False, "http://myhost:80/"),
])  # fmt: skip
def test_an_address_says_who_can_reach_it(host, loopback, url):
    address = Address(host, 80)
    assert (address.loopback, address.url) == (loopback, url)
    assert address.accepts("203.0.113.1", 80) is not loopback


def test_a_browser_leaves_port_80_out(served):
    with serving(served.inspection) as server:
        assert server.ask("/api/run", Host="127.0.0.1").status == 403
    assert Address("127.0.0.1", 80).accepts("127.0.0.1", 80)


# -- Other origins ----------------------------------------------------------------------------------------------------


def test_its_own_origin_is_answered(served):
    for host in (served.host, f"localhost:{served.port}", f"[::1]:{served.port}"):
        assert served.ask("/api/run", Host=host, Origin=f"http://{host}").status == 200


@pytest.mark.parametrize("origin", [
    "null", "http://evil.example", "https://127.0.0.1:{port}", "http://127.0.0.1", "http://localhost:{port}",
    "http://127.0.0.1:{port}.evil.example", "http://127.0.0.1:{port}/", "http://127.0.0.1:1", "127.0.0.1:{port}", "",
    "http://", "file://", "http://evil.example@127.0.0.1:{port}", "chrome-extension://abc",
])  # fmt: skip
def test_other_origins_are_refused(served, origin):
    given = origin.format(port=served.port)
    assert served.ask("/api/run", Origin=given).error.startswith("Only the page of this server is answered, not '")
    assert served.ask("/", Origin=given, **LINK).status == 403
    assert served.post(Origin=given, **OWN_PAGE).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "Same-Origin", "same-origin, cross-site"])
def test_pages_from_elsewhere_get_nothing(served, site):
    for path in ("/api/run", "/api/games/0/pictures/0", "/"):
        for mode, destination in (
            ("no-cors", "image"),
            ("cors", "empty"),
            ("navigate", "iframe"),
            ("no-cors", "script"),
        ):
            given = {"Sec_Fetch_Site": site, "Sec_Fetch_Mode": mode, "Sec_Fetch_Dest": destination}
            refused = served.ask(path, **given)
            assert refused.status == 403
            assert refused.error == "Only the page of this server is answered, not a page from elsewhere."


def test_a_link_elsewhere_leads_to_the_page_and_to_nothing_else(served):
    for site in ("cross-site", "same-site"):
        assert served.ask("/", Sec_Fetch_Site=site, **LINK).status == 200
        assert served.ask("/api/run", Sec_Fetch_Site=site, **LINK).status == 403
        assert served.ask("/", method="HEAD", Sec_Fetch_Site=site, **LINK).status == 403
        assert served.post(Origin=None, Sec_Fetch_Site=site, **LINK).status == 403
    assert served.ask("/", Sec_Fetch_Site="none", **LINK).status == 200  # typed, or a bookmark


# -- Games from the page ----------------------------------------------------------------------------------------------


def test_the_page_begins_games_one_at_a_time(served):
    with serving(served.inspection) as server:
        begun = server.post()
        assert begun.status == 201
        game = begun.json["game"]
        assert game >= 1
        assert _until_it_begins(server).json == {"game": game + 1}
        served.inspection.finish(game + 1)


def _until_it_begins(server: Served) -> Reply:
    """Ask for a game until the one before is over."""
    begun = server.post()

    def ask_again() -> None:
        nonlocal begun
        assert begun.status == 409
        assert begun.error.startswith("A game is being played")
        begun = server.post()

    wait_until(lambda: begun.status == 201, "a game to begin", between=ask_again)
    return begun


class _Endless:
    """Games that never end."""

    def __init__(self) -> None:
        self.begun = 0

    def play(self) -> int:
        self.begun += 1
        return self.begun - 1

    def run(self) -> dict[str, Any]:
        return {"recorded_games": self.begun}

    def game(self, game: int) -> dict[str, Any]:
        return {"done": False}


def test_of_many_requests_one_begins_a_game():
    with serving(_Endless()) as server, ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(lambda _: server.post().status, range(32)))
        assert sorted(statuses) == [201, *[409] * 31]


def test_games_are_not_begun_without_end():
    games = _Endless()
    games.game = lambda game: {"done": True}
    with serving(games) as server:
        for game in range(MOST_GAMES):
            assert server.post().json == {"game": game}
        refused = server.post()
        assert refused.status == 409
        assert refused.error.startswith("100 games were played here")
        assert games.begun == MOST_GAMES


@pytest.mark.parametrize(("headers", "status"), [
    ({"Origin": None}, 403),
    ({"Origin": None, "Sec_Fetch_Site": "none"}, 403),
    ({"Content_Type": None}, 415),
    ({"Content_Type": "text/plain"}, 415),
    ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
    ({"Content_Type": "multipart/form-data; boundary=application/json"}, 415),
    ({"Content_Type": "application/jsonp"}, 415),
])  # fmt: skip
def test_a_game_is_begun_by_the_page_only(served, headers, status):
    before = served.inspection.run()["recorded_games"]
    refused = served.post(**headers)
    assert (refused.status, refused.error[:2]) == (status, "A ")
    assert served.inspection.run()["recorded_games"] == before


@pytest.mark.parametrize(("body", "status"), [
    (b"{", 400), (b"[]", 400), (b"1", 400), (b"null", 400), (b'{"games": 5}', 400), (b"\xff", 400), (b"[" * 500, 400),
    (b" " * (LONGEST_BODY + 1), 413), (b"x" * 10**6, 413),
])  # fmt: skip
def test_a_body_says_nothing_else(served, body, status):
    refused = served.post(body)
    assert refused.status == status
    assert "body" in refused.error.lower()


# -- Malformed requests -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [
    "/../", "/..", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc%2fpasswd", "/%2e%2e%5cconfig.toml",
    "/..\\..\\config.toml", "/api/past/..%2f..%2fconfig.toml", "/api/past/../../config.toml", "/api/past/..",
    "/api/games/0/pictures/..%2f0", "/api/run%00", "/api/run%0a", "/api/run/", "//api/run", "/api//run", "/API/RUN",
    "/config.toml", "/checkpoint/manifest.json", "/api/run;x", "/api/games/0/steps", "/api/games/0/steps/",
    "/api/past/1/frames", "/favicon.ico", "/%", "/%zz", "/api/games/%30", "//evil.example/", "/\\evil.example",
    "http://evil.example/", "http://127.0.0.1/api/run", "file:///etc/passwd", "api/run", "?",
])  # fmt: skip
def test_there_is_nothing_but_what_there_is(served, path):
    answer = served.ask(path)
    assert answer.status in (400, 404), path
    assert answer.error
    assert b"root:" not in answer.body
    assert b"[agent]" not in answer.body


NUMBERED = [
    "/api/games/{}", "/api/games/{}/steps/0", "/api/games/0/steps/{}", "/api/games/0/pictures/{}",
    "/api/games/0/observations/{}", "/api/past/{}", "/api/past/{}/frames/0", "/api/past/1/frames/{}",
]  # fmt: skip
NO_NUMBERS = ["-1", "+1", "1.0", "0x10", "1_0", "NaN", "1" * 10, "9" * 4000, "0,1", "0;", "0'", "..", "1:2"]


@pytest.mark.parametrize(
    ("path", "number"),
    [*((NUMBERED[2], number) for number in NO_NUMBERS), *((path, "x") for path in NUMBERED)],
)
def test_numbers_are_digits(served, path, number):
    refused = served.ask(path.format(number))
    assert refused.status == 400
    assert "is a number of at most 9 digits" in refused.error
    assert len(refused.body) < 300


@pytest.mark.parametrize("path", NUMBERED)
def test_numbers_that_are_not_there_are_a_sentence(served, path):
    refused = served.ask(path.format(999_999_999))
    assert refused.status == 404
    assert refused.error


@pytest.mark.parametrize("digits", ["\u0661", "\u00b2", "\uff11"])
def test_digits_of_other_scripts_are_none(served, digits):
    path = f"/api/games/{digits}".encode()
    head = b"GET " + path + b" HTTP/1.1\r\nHost: " + served.host.encode() + b"\r\nConnection: close\r\n\r\n"
    assert served.send(head).startswith(b"HTTP/1.1 400 ")
    quoted = "".join(f"%{byte:02x}" for byte in digits.encode())
    assert served.ask(f"/api/games/{quoted}").status == 404


@pytest.mark.parametrize("query", [
    "", "?", "?at", "?at=", "?at=1", "?at=1:", "?at=:1", "?at=1:2,", "?at=,1:2", "?at=1:2;3:4", "?at=-1:2", "?at=1:2:3",
    "?at=1:2&at=3:4", "?at=1:2&file=x", "?file=1:2", "?at=1:2.0", "?at=1%3a2%00", "?at=" + "1:2," * 200 + "1:2",
    "?at=%ef%bc%91:2",
])  # fmt: skip
def test_thumbnails_are_named_strictly(served, query):
    refused = served.ask(f"/api/thumbnails{query}")
    assert refused.status == 400
    assert refused.error


def test_as_many_thumbnails_as_are_allowed(served):
    places = ",".join(f"1:{frame}" for frame in range(200))
    assert len(served.ask(f"/api/thumbnails?at={places}").json["found"]) == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "get", "X" * 1000])
def test_other_methods_are_refused(served, method):
    for path in ("/", "/api/run", "/api/games", "/nothing"):
        refused = served.ask(path, method=method, Origin=f"http://{served.host}")
        assert refused.status == 405
        assert refused.headers["allow"] == "GET, HEAD, POST"
        assert refused.error.endswith("is not answered here: GET is.")


@pytest.mark.parametrize(("path", "method"), [("/", "POST"), ("/api/run", "POST"), ("/api/games", "GET")])
def test_a_path_has_its_own_methods(served, path, method):
    refused = served.ask(path, method=method, Origin=f"http://{served.host}", Content_Type="application/json")
    assert refused.status == 405
    assert refused.error == f"{method} is not answered at this address."


def test_what_is_too_long_is_refused(served):
    for size, status in ((9_000, 414), (40_000, 400), (10**6, 400)):
        head = f"GET /{'a' * size} HTTP/1.1\r\nHost: {served.host}\r\nConnection: close\r\n\r\n"
        assert _status(served.send(head.encode())) in (status, 414), size
    head = f"GET / HTTP/1.1\r\nHost: {served.host}\r\nX: {'a' * 10**6}\r\n\r\n"
    assert _status(served.send(head.encode())) == 400


@pytest.mark.parametrize("data", [
    b"\r\n\r\n\r\n", b"\x00" * 100, b"\xff\xfe" * 5000, b"GARBAGE\r\n\r\n", b"GET\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {host}\rX: y\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {host}\x00\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost : {host}\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {host}\r\nContent-Length: -1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"GET /\x00 HTTP/1.1\r\nHost: {host}\r\n\r\n",
    b"GET / / HTTP/1.1\r\nHost: {host}\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x01" * 300,  # the beginning of TLS
])  # fmt: skip
def test_bytes_that_are_no_request(served, data):
    answer = served.send(data.replace(b"{host}", served.host.encode()))
    if answer:  # some have no end, and the server waits for it
        head, _, body = answer.partition(b"\r\n\r\n")
        assert _status(answer) == 400
        assert b"x-content-type-options: nosniff" in head.lower()
        assert json.loads(body) == {"error": "This is no request that HTTP knows."}
    assert served.ask("/api/run").status == 200


def test_requests_that_name_no_host(served):
    for line in ("GET /api/run HTTP/1.0", "GET http://127.0.0.1/ HTTP/1.0", "GET / HTTP/9.9", "PRI * HTTP/2.0"):
        answer = served.send(f"{line}\r\n\r\n".encode())
        assert _status(answer) == 403
        assert b"must name it once" in answer


def test_a_second_request_in_one_breath_is_checked_like_the_first(served):
    own = f"GET /api/games/0 HTTP/1.1\r\nHost: {served.host}\r\n\r\n".encode()
    answer = served.send(own + own.replace(served.host.encode(), b"evil.example") + b"GARBAGE\r\n\r\n")
    assert [_status(part) for part in answer.split(b"HTTP/1.1 ")[1:]] == [200, 403, 400]


def test_a_body_that_turns_out_to_be_none(served, capfd):
    head = f"POST /api/games HTTP/1.1\r\nHost: {served.host}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    assert _status(served.send(head + b"zz\r\n")) in (400, 403)
    assert "Traceback" not in capfd.readouterr().err


def test_web_sockets_are_not_spoken(served):
    answer = served.ask("/api/run", Connection="Upgrade", Upgrade="websocket", Origin="http://evil.example")
    assert answer.status == 403


def _status(answer: bytes) -> int:
    return int(answer.removeprefix(b"HTTP/1.1 ")[:3])


# -- At work ----------------------------------------------------------------------------------------------------------


class _Slow(_Endless):
    """Past frames that take as long as it is told, and steps that do not; one game has a defect."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = threading.Semaphore(0), threading.Event()

    def past_frames(self, episode: int, chunk: int) -> bytes:
        self.asked.release()
        assert self.go_on.wait(PATIENCE)
        return b"frames"

    def step(self, game: int, step: int) -> dict[str, Any]:
        if game == 13:
            raise ZeroDivisionError("secret of this machine")
        if game == 14:
            return {"value": float("nan")}
        return {"step": step}


def test_slow_answers_hold_up_no_others():
    slow = _Slow()
    with serving(slow) as server, ThreadPoolExecutor(24) as pool:
        waiting = [pool.submit(server.ask, f"/api/past/{episode}/frames/0") for episode in range(12)]
        assert all(slow.asked.acquire(timeout=PATIENCE) for _ in range(SLOW))  # so many at a time
        for step in range(20):
            assert server.ask(f"/api/games/0/steps/{step}").json == {"step": step}
        assert not any(each.done() for each in waiting)
        slow.go_on.set()
        assert {each.result().body for each in waiting} == {b"frames"}


def test_it_ends_though_an_answer_is_under_way():
    slow = _Slow()
    with ThreadPoolExecutor(1) as pool:
        with serving(slow) as server:
            waiting = pool.submit(
                server.send, f"GET /api/past/1/frames/0 HTTP/1.1\r\nHost: {server.host}\r\n\r\n".encode()
            )
            assert slow.asked.acquire(timeout=PATIENCE)
        slow.go_on.set()  # the server has ended by now
        waiting.result()


def test_the_end_waits_for_an_answer_but_not_for_long():
    threads, begun, go_on = Threads(2), threading.Event(), threading.Event()

    async def give_up() -> None:
        asking = asyncio.create_task(threads.run(lambda: (begun.set(), go_on.wait())))
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        asking.cancel()

    asyncio.run(give_up())
    assert not threads.wait(0.0)  # a time that has long been
    go_on.set()
    assert threads.wait(deadline())


@pytest.mark.parametrize("game", [13, 14])
def test_a_defect_is_told_on_the_terminal_only(game, capfd):
    with serving(_Slow()) as server:
        failed = server.ask(f"/api/games/{game}/steps/0")
        assert failed.status == 500
        assert failed.error == "Something went wrong here; the terminal of `mfec inspect` says what."
        assert failed.headers["x-content-type-options"] == "nosniff"
        assert "Traceback" in capfd.readouterr().err
        assert server.ask("/api/games/0/steps/1").json == {"step": 1}


def test_many_ask_at_once(served):
    paths = [
        "/",
        "/api/run",
        "/api/games/0",
        "/api/games/0/steps/0",
        "/api/past/1",
        "/api/games/0/pictures/0",
        "/x",
    ] * 20
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(served.ask, paths))
    for path, answer in zip(paths, answers, strict=True):
        assert answer.status == (404 if path == "/x" else 200)
        assert answer.body == next(each.body for other, each in zip(paths, answers, strict=True) if other == path)


@pytest.mark.parametrize(("host", "port", "sentence"), [
    ("127.0.0.1", 65536, "a port lies between 0 and 65535"),
    ("127.0.0.1", -1, "a port lies between 0 and 65535"),
    ("203.0.113.7", 0, "203.0.113.7 is no address of this machine"),
    ("no such host", 0, "there is no address 'no such host' on this machine"),
    ("a" * 300, 0, "there is no address"),
])  # fmt: skip
def test_places_where_nobody_can_listen(host, port, sentence):
    with pytest.raises((MfecError, ValueError), match=sentence):
        listen(host, port)


def test_a_port_that_is_taken(served):
    with pytest.raises(MfecError, match=f"port {served.port} is taken, perhaps by another `mfec inspect`; --port"):
        listen("127.0.0.1", served.port)
