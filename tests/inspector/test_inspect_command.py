"""`mfec inspect`: a page on this machine until it is stopped, a file, and sentences for all else."""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.cli import main
from mfec.experiments.train import train
from mfec.run_directory import RunDirectory

from ..waiting import PATIENCE

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A short run of a game that takes no time."""
    config = RunConfig("FrozenLake-v1", 500, 0, MFECConfig(capacity=2000))
    return train(config, tmp_path_factory.mktemp("runs") / "lake", console=Console(file=io.StringIO()))


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `mfec inspect` as a shell on a terminal does."""
    started = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "mfec", "inspect", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "SDL_VIDEODRIVER": "dummy"},  # the lake is drawn by SDL
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def port_of(process: subprocess.Popen[str], *, host: str = "127.0.0.1") -> int:
    """Where the page is, from what was said."""
    assert process.stdout is not None
    said = process.stdout.readline()
    found = re.fullmatch(rf"the page is at http://{re.escape(host)}:([0-9]+)/\n", said)
    assert found, (said, end_of(process))
    return int(found.group(1))


def end_of(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit status, what else was said, and complaints."""
    assert process.stdout is not None
    assert process.stderr is not None
    return process.wait(PATIENCE), process.stdout.read(), process.stderr.read()


def get(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


# -- A page -----------------------------------------------------------------------------------------------------------


def test_it_shows_a_page_until_it_is_stopped(run, start):
    process = start(str(run.path), "--port", "0", "--episodes", "2", "--epsilon", "0.5")
    port = port_of(process)
    status, page = get(port, "/")
    assert status == 200
    assert b"<title>FrozenLake-v1: " in page
    facts = json.loads(get(port, "/api/run")[1])
    assert (facts["recorded_games"], facts["epsilon"]) == (2, 0.5)
    process.send_signal(signal.SIGINT)
    assert end_of(process) == (0, "stop with Ctrl-C\n", "")
    with pytest.raises(ConnectionRefusedError):
        get(port, "/")


def test_who_else_can_look_is_said(run, start):
    process = start(str(run.path), "--port", "0", "--host", "0.0.0.0", "--episodes", "100")
    port = port_of(process)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("everybody who can reach this port can look at the run")
    assert get(port, "/api/games/0")[0] == 200
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", "/api/run")  # it can be stopped with an open connection, and asked twice
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
        process.send_signal(number)
    assert end_of(process) == (0, "stop with Ctrl-C\n", "")
    connection.close()


def test_a_port_that_is_taken_is_said_before_the_memory_is_read(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["inspect", str(tmp_path / "nowhere"), "--port", str(port)]) == 1
    assert f"port {port} is taken" in capsys.readouterr().err


# -- A file -----------------------------------------------------------------------------------------------------------


def test_a_file_is_written_and_what_is_in_it_is_said(run, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["inspect", str(run.path), "--export", str(page)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"game: [0-9,]+ steps  [0-9,]+/s  score [01]", said[0])
    assert said[-1] == f"page: {page} ({page.stat().st_size / 10**6:.1f} MB)"
    assert page.read_text().startswith("<!doctype html>")


def test_the_same_seed_writes_the_same_file(run, tmp_path):
    pages = []
    for seed in ("4", "4", "5"):
        page = tmp_path / f"page-{len(pages)}.html"
        assert main(["inspect", str(run.path), "--seed", seed, "--epsilon", "0.9", "--export", str(page)]) == 0
        pages.append(page.read_bytes())
    assert pages[0] == pages[1] != pages[2]


def test_a_file_needs_no_server(run, tmp_path):
    assert _without_the_extra("inspect", str(run.path), "--export", str(tmp_path / "page.html")).returncode == 0
    assert (tmp_path / "page.html").is_file()


def test_a_page_without_the_extra_says_what_to_install(run):
    ended = _without_the_extra("inspect", str(run.path))
    assert ended.returncode == 1
    assert ended.stderr == "mfec: the page of mfec inspect needs the extra `inspect`: pip install 'mfec[inspect]'\n"


def _without_the_extra(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = """if True:
        import sys
        sys.modules |= dict.fromkeys(["starlette", "uvicorn", "h11"])
        from mfec.cli import main
        sys.exit(main(sys.argv[1:]))
    """
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=PATIENCE)


# -- What is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "sentence"), [
    (["--episodes", "0"], "episodes must be at least 1, not 0"),
    (["--episodes", "101"], "at most 100 games are kept for a page, not 101"),
    (["--epsilon", "2"], "epsilon must lie between 0 and 1, not 2.0"),
    (["--seed", "-1"], "a seed must not be negative"),
    (["--port", "65536"], "a port lies between 0 and 65535 (0: any that is free), not 65536"),
    (["--host", "203.0.113.7"], "203.0.113.7 is no address of this machine; 127.0.0.1 is one always"),
    (["--export", "page.html", "--episodes", "2"], "a file holds one game: leave --episodes out"),
    (["--export", "page.pdf"], "cannot write page.pdf: a page ends in .html"),
    (["--export", "nowhere/page.html"], "cannot write nowhere/page.html: there is no directory nowhere"),
    (["--export", "page.html", "--max-mb", "0"], "--max-mb must be above 0"),
    (["--export", "page.html", "--max-mb", "0.01"], "so that --max-mb 0.01 is too little"),
])  # fmt: skip
def test_senseless_options_are_refused_in_a_sentence(run, tmp_path, monkeypatch, capsys, options, sentence):
    monkeypatch.chdir(tmp_path)
    port = [] if "--port" in options else ["--port", "0"]
    assert main(["inspect", str(run.path), *port, *options]) == 1
    said = capsys.readouterr().err
    assert said.startswith("mfec: ")
    assert sentence in said
    assert list(tmp_path.iterdir()) == []


def test_directories_that_cannot_be_inspected(tmp_path, capsys):
    def said(path: Path) -> str:
        assert main(["inspect", str(path), "--port", "0"]) == 1
        return capsys.readouterr().err

    assert said(tmp_path / "none") == f"mfec: {tmp_path / 'none'} is no run directory: config.toml is missing\n"
    for algorithm, sentence in (("mfec", "has no checkpoint yet"), ("dqn", "is a run of DQN, which has no memories")):
        begun = RunDirectory(tmp_path / algorithm)
        begun.create(RunConfig("qbert", 1_000, 0, algorithm=algorithm))
        assert sentence in said(begun.path)
