"""`docs/extending.md`, run to the letter: what the page shows works, and is as short as it says."""

from __future__ import annotations

import importlib
import pkgutil
import re
import shlex
import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mfec import MFEC, make_atari
from mfec.algorithms import RunConfig, UnknownAlgorithm, algorithm, names
from mfec.algorithms.mfec import MFECConfig
from mfec.callbacks import Checkpoints, Tables
from mfec.checkpoint import CheckpointError
from mfec.cli import main
from mfec.experiments.train import train
from mfec.memory.neighbours.exact import ExactIndex
from mfec.run_directory import RunDirectory

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.M | re.S)
ALGORITHM, INDEX, FUNCTION, MODULE, KEPT, CALLBACK = BLOCKS
COMMANDS = re.findall(r"^    (mfec [^\n]*)$", PAGE, flags=re.M)


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package of the page, installed beside ours."""
    place = tmp_path / "site"
    (place / "q_learning-1.dist-info").mkdir(parents=True)
    (place / "q_learning.py").write_text(ALGORITHM)
    (place / "q_learning-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: q-learning\nVersion: 1\n")
    points = re.search(r'^\[project\.entry-points\."(.*?)"\]\n(.*?) = "(.*?)"$', PAGE, flags=re.M)
    assert points
    group, name, value = points.groups()
    (place / "q_learning-1.dist-info" / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
    (place / "encoders.py").write_text(FUNCTION + KEPT)
    monkeypatch.syspath_prepend(place)
    monkeypatch.chdir(tmp_path)
    algorithm.cache_clear()
    yield place
    algorithm.cache_clear()
    sys.modules.pop("q_learning", None)
    sys.modules.pop("encoders", None)


def run_text(text: str, name: str = "page") -> Any:
    module = types.ModuleType(name)
    code: Any = importlib.import_module("builtins").__dict__["exec"]
    code(text, vars(module))
    return module


def test_the_algorithm_is_at_most_sixty_lines():
    assert len(ALGORITHM.splitlines()) <= 60


def test_every_command_of_the_page_works(capsys: pytest.CaptureFixture[str]):
    assert len(COMMANDS) == 8
    for command in COMMANDS:
        arguments = shlex.split(command.replace("--total-frames 20000", "--total-frames 2000").replace("40000", "4000"))
        extra = ["--no-video"] if arguments[1] == "train" else []
        assert main([*arguments[1:], *extra]) == 0, command
    run = RunDirectory("runs/q")
    assert run.read_config().agent.step_size == 0.3
    assert run.progress()["states_tried"][-1] > 1
    assert max(run.progress()["frames"]) == 4000
    for file in ("q.png", "figure1.png", "q.html", "runs/q/curve.png"):
        assert Path(file).stat().st_size > 1000
    assert "Q-learning" in Path("q.html").read_text()


def test_it_goes_on_bit_for_bit(tmp_path: Path):
    config = RunConfig("FrozenLake-v1", 600, 1, algorithm="q_learning")
    once = train(config, tmp_path / "once")
    train(RunConfig("FrozenLake-v1", 234, 1, algorithm="q_learning"), tmp_path / "twice")
    twice = train(config, tmp_path / "twice", resume=True)
    assert once.episodes_file.read_text() == twice.episodes_file.read_text()
    agents = [config.kind.load(run.checkpoint, _lake(), config) for run in (once, twice)]
    assert np.array_equal(agents[0].q, agents[1].q)  # type: ignore[attr-defined]
    other = RunConfig("FrozenLake-v1", 600, 2, algorithm="q_learning")
    with pytest.raises(CheckpointError, match="seed"):
        other.kind.load(once.checkpoint, _lake(), other)


def test_it_learns_a_lake_without_slipping(tmp_path: Path):
    import gymnasium

    config = RunConfig("FrozenLake-v1", 8000, 0, algorithm="q_learning")
    agent = config.kind.make(gymnasium.make("FrozenLake-v1", is_slippery=False), config).learn(8000)
    assert np.mean(list(agent.scores)) > 0.5


def test_it_is_part_of_a_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    command = "reproduce figure1 --games qbert --algorithms q_learning dqn --seeds 1 --dry-run"
    assert main(shlex.split(command)) == 0
    said = capsys.readouterr().out
    assert "--algorithm q_learning" in said
    assert "--algorithm dqn" in said


def test_options_of_another_algorithm_are_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["train", "FrozenLake-v1", "--algorithm", "q_learning", "--k", "3"])
    assert "--k" in capsys.readouterr().err


def test_a_name_that_nobody_brings_is_an_error(capsys: pytest.CaptureFixture[str]):
    assert "q_learning" in names()
    assert main(["train", "FrozenLake-v1", "--algorithm", "q_lerning"]) == 1
    assert "did you mean 'q_learning'?" in capsys.readouterr().err


def test_a_package_that_does_not_load_is_named(package: Path):
    (package / "q_learning.py").write_text("import a_module_that_is_not_there")
    with pytest.raises(UnknownAlgorithm, match=r"q_learning.*a_module_that_is_not_there"):
        algorithm("q_learning")
    assert algorithm("mfec").label == "MFEC"


def test_the_index_finds_what_exact_search_finds(monkeypatch: pytest.MonkeyPatch):
    found = re.search(r'^    "brute_force": "(.*?)",$', PAGE, flags=re.M)
    assert found
    module = run_text(INDEX, found[1].partition(":")[0])
    monkeypatch.setitem(sys.modules, module.__name__, module)
    kind = pkgutil.resolve_name(found[1])
    rng = np.random.default_rng(0)
    entry_ids = np.tile(np.arange(50), (3, 1))
    indexes = [own((3, 50, 4), entry_ids) for own in (kind, ExactIndex)]
    states = rng.integers(3, size=(90, 4)).astype(np.float32)  # many are equally near
    actions, slots = rng.integers(3, size=90), rng.integers(40, size=90)
    # Slots fill from the first on.
    slots = np.array([np.count_nonzero(actions[:i] == action) % 50 for i, action in enumerate(actions)])
    wanted = rng.random((7, 3)) < 0.8
    asked = rng.integers(3, size=(7, 4)).astype(np.float32)
    for index in indexes:
        index.put(actions, slots, states)
    ours, exact = (index.search(asked, wanted, 5) for index in indexes)
    assert np.array_equal(ours.slots, exact.slots)
    assert np.array_equal(ours.squared, exact.squared)


def test_the_function_is_an_embedding_that_must_be_given_back():
    function = run_text(FUNCTION).every_eighth_pixel
    agent = MFEC(make_atari("qbert"), embedding=function, seed=0).learn(400)
    assert agent.embedding.dim == 11 * 11
    agent.save("runs/eighth")
    with pytest.raises(CheckpointError, match="every_eighth_pixel"):
        MFEC.load("runs/eighth")
    again = MFEC.load("runs/eighth", embedding=function)
    assert len(again.memory) == len(agent.memory)


@pytest.mark.torch
def test_the_module_is_an_embedding():
    agent = MFEC(make_atari("qbert"), embedding=run_text(MODULE).Convolutions, seed=0).learn(400)
    assert (agent.embedding.name, agent.embedding.dim) == ("Convolutions", 16 * 4 * 4)


def test_what_the_checkpoint_holds_of_an_embedding_is_what_is_loaded(tmp_path: Path):
    kept = run_text(KEPT).SomePixels
    agent = MFEC(make_atari("qbert"), embedding=kept, dim=30, seed=5).learn(400)
    agent.save("runs/some")
    again = MFEC.load("runs/some", embedding=kept)
    assert np.array_equal(again.embedding.pixels, agent.embedding.pixels)  # type: ignore[attr-defined]
    config = RunConfig("qbert", 400, agent=MFECConfig(embedding="encoders:SomePixels", dim=30))
    train(config, tmp_path / "run")
    assert RunDirectory(train(replace(config, total_frames=800), tmp_path / "run", resume=True).path).exists


def test_the_callback_ends_training(tmp_path: Path):
    stop = run_text(CALLBACK).StopWhenFull()
    agent = MFEC("CartPole-v1", capacity=50, seed=0)
    agent.learn(100_000, [stop, Tables("runs/mine"), Checkpoints("runs/mine/checkpoint")])
    assert agent.metrics()["memory_fill"] == 1.0
    assert agent.frames < 1000
    assert len(RunDirectory("runs/mine").episodes()["frames"]) == agent.games
    assert MFEC.load("runs/mine/checkpoint").frames == agent.frames


def _lake() -> Any:
    import gymnasium

    return gymnasium.make("FrozenLake-v1")
