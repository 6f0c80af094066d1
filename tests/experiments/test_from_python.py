"""Runs of `mfec.train`: those of the command, whatever ends them, and environments that only a program knows."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import mfec
from mfec import MFEC, Agent, Callback, Game, Linear
from mfec.agent import EnvironmentCrash
from mfec.checkpoint import CheckpointError
from mfec.cli import main
from mfec.experiments.stopping import STOP_SIGNALS
from mfec.run_directory import RunDirectory, RunDirectoryError

from ..playing import Walk
from ..waiting import PATIENCE
from .stopping import outcome

ROOT = Path(__file__).parents[2]
LAKE: dict[str, Any] = {"total_frames": 800, "seed": 3, "capacity": 500, "gamma": 0.9}


def lake(out: Path, **options: Any) -> MFEC:
    return mfec.train("FrozenLake-v1", out, **{**LAKE, "progress_bar": False, **options})


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`python ARGUMENTS` in another process and folder."""
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=PATIENCE, cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(ROOT)])},
    )  # fmt: skip


# -- One run ----------------------------------------------------------------------------------------------------------


def test_it_is_the_run_of_the_command(tmp_path, capsys):
    agent = lake(tmp_path / "python", evaluate_every=400, evaluate_games=3, epsilon=Linear(1.0, 0.1, 500))
    assert capsys.readouterr().out == ""
    given = ["--total-frames", "800", "--seed", "3", "--capacity", "500", "--gamma", "0.9", "--no-video"]
    given += ["--evaluate-every", "400", "--evaluate-games", "3", "--epsilon", "linear:1:0.1:500"]
    assert main(["train", "FrozenLake-v1", *given, "--out", str(tmp_path / "command")]) == 0
    one, other = RunDirectory(tmp_path / "python"), RunDirectory(tmp_path / "command")
    assert outcome(one.path) == outcome(other.path)
    assert one.config_file.read_text() == other.config_file.read_text()
    assert one.evaluations_file.read_text() == other.evaluations_file.read_text()
    assert {file.name for file in other.path.iterdir()} - {file.name for file in one.path.iterdir()} >= {"curve.png"}
    assert (agent.num_timesteps, agent.games, agent.run_directory) == (800, len(one.episodes()["frames"]), one.path)
    assert list(agent.scores) == one.episodes()["return"][-100:]


def test_without_a_word_it_goes_where_the_command_goes(elsewhere):
    lake(None, total_frames=20)
    assert RunDirectory(elsewhere / "runs" / "FrozenLake-v1").has_checkpoint


def test_what_there_is_to_say_is_said_beside_the_bar(tmp_path, capsys):
    lake(tmp_path, progress_bar=True)
    memory, *_, last = capsys.readouterr().out.splitlines()
    assert memory.startswith("memory: 4 x 500 entries can grow to ")
    assert last.startswith("800/800 frames")


def test_a_run_that_is_there_goes_on_only_if_it_is_told_to(tmp_path):
    lake(tmp_path / "run", total_frames=500)
    with pytest.raises(RunDirectoryError, match="already holds a run: resume=True goes on with it, or choose another"):
        lake(tmp_path / "run")
    agent = lake(tmp_path / "run", resume=True)
    again = lake(tmp_path / "run", resume=True)  # there is nothing left to do
    assert agent.frames == again.frames == 800
    assert len(again.memory) == len(agent.memory)
    lake(tmp_path / "whole")
    assert outcome(tmp_path / "run")[0] == outcome(tmp_path / "whole")[0]
    assert outcome(tmp_path / "run")[2:] == outcome(tmp_path / "whole")[2:]
    with pytest.raises(RunDirectoryError, match=r"begun with gamma = 0.9, it cannot go on with 0.5"):
        lake(tmp_path / "run", resume=True, gamma=0.5)


@pytest.mark.parametrize(("settings", "error", "why"), [
    ({"kk": 3}, TypeError, "MFEC has no setting 'kk'; did you mean 'k'"),
    ({"frame_stak": 3}, TypeError, "did you mean 'frame_stack'"),
    ({"k": 0}, ValueError, "k, capacity and dim must be at least 1"),
    ({"epsilon": lambda frames: 0.1}, ValueError, "epsilon must be a number or linear.*a function could not be saved"),
    ({"algorithm": "dqm"}, ValueError, "unknown algorithm 'dqm'; did you mean 'dqn'"),
    ({"recipe": "best"}, ValueError, "recipe must be one of paper, tuned, not 'best'"),
    ({"callback": Callback}, TypeError, "a function of the agent, not the class Callback; give one of its objects"),
    ({"callback": [3]}, TypeError, "a callback is a mfec.Callback or a function of the agent, not 3"),
])  # fmt: skip
def test_what_makes_no_run_is_an_error_before_it_begins(tmp_path, settings, error, why):
    with pytest.raises(error, match=why):
        lake(tmp_path / "run", **settings)
    assert not (tmp_path / "run" / "config.toml").exists()


@pytest.mark.torch
def test_other_algorithms_are_trained_with_their_own_settings(tmp_path, one_thread):
    agent = mfec.train(
        "CartPole-v1",
        tmp_path,
        total_frames=64,
        algorithm="a2c",
        rollout_steps=2,
        progress_bar=False,
        callback=lambda _: None,
    )
    config = RunDirectory(tmp_path).read_config()
    assert (config.agent.rollout_steps, config.environment.n_envs) == (2, 16)  # as many as it was published with
    assert agent.frames == agent.num_timesteps == 64  # type: ignore[attr-defined]
    assert "a2c" in agent._repr_html_()  # type: ignore[attr-defined]
    assert len(mfec.evaluate(tmp_path, episodes=2).scores) == 2


# -- What ends a run --------------------------------------------------------------------------------------------------


class Fails(Callback):
    """Raises in one of its methods, from a number of games on."""

    def __init__(self, method: str, games: int) -> None:
        self.method, self.games = method, games
        self.ended = self.closed = False

    def on_game(self, agent: Agent, game: Game) -> None:
        self.fail("on_game", game.episode)

    def on_progress(self, agent: Agent, row: dict[str, Any]) -> None:
        self.fail("on_progress", agent.games)

    def on_step(self, agent: Agent) -> None:
        self.fail("on_step", agent.games)

    def on_end(self, agent: Agent) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = True

    def fail(self, method: str, games: int) -> None:
        assert self.callbacks is not None
        if method == self.method and games >= self.games:
            raise ZeroDivisionError(method)


@pytest.mark.parametrize("method", ["on_game", "on_progress", "on_step"])
def test_an_exception_of_a_callback_is_raised_and_loses_nothing(tmp_path, method):
    """Of three environments several end their games in one step: the first of these is told of, then it fails."""
    fails = Fails(method, 10)
    with pytest.raises(ZeroDivisionError, match=method):
        lake(tmp_path / "run", n_envs=3, callback=[fails])
    run = RunDirectory(tmp_path / "run")
    stopped = MFEC.load(run.checkpoint)
    assert 10 <= stopped.games == len(run.episodes()["frames"]) < 20
    assert fails.closed
    assert not fails.ended  # it is told nothing more
    lake(run.path, n_envs=3, resume=True)
    lake(tmp_path / "whole", n_envs=3)
    assert outcome(run.path) == outcome(tmp_path / "whole")


@pytest.mark.parametrize("callback", [
    lambda agent: agent.games < 7,
    [lambda agent: None, lambda agent: agent.games < 7],
    mfec.callbacks.StopAfterGames(7),
], ids=["a function", "functions", "a callback"])  # fmt: skip
def test_a_callback_ends_a_run_which_can_go_on(tmp_path, callback):
    agent = lake(tmp_path / "run", callback=callback)
    run = RunDirectory(tmp_path / "run")
    assert agent.games == len(run.episodes()["frames"]) == MFEC.load(run.checkpoint).games == 7
    assert agent.frames < 800
    lake(run.path, resume=True)
    lake(tmp_path / "whole")
    assert outcome(run.path) == outcome(tmp_path / "whole")


def test_ctrl_c_saves_and_ends_the_program_unless_it_is_caught(tmp_path):
    def interrupt(agent: Agent) -> None:
        if agent.frames == 300:
            os.kill(os.getpid(), signal.SIGINT)

    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    with pytest.raises(KeyboardInterrupt, match=r"stopped, and saved in .*run; resume=True goes on"):
        lake(tmp_path / "run", callback=interrupt)
    assert {number: signal.getsignal(number) for number in before} == before
    assert MFEC.load(tmp_path / "run" / "checkpoint").frames == 300
    assert lake(tmp_path / "run", resume=True).frames == 800


def test_it_trains_in_a_thread(tmp_path):
    """Python tells the main thread alone of signals."""
    agents: list[MFEC] = []
    thread = threading.Thread(target=lambda: agents.append(lake(tmp_path, total_frames=50)))
    thread.start()
    thread.join(PATIENCE)
    assert agents[0].frames == 50


# -- Environments of the program's own --------------------------------------------------------------------------------


def test_a_function_is_played_by_name_in_this_process_and_named_in_a_sentence_elsewhere(tmp_path):
    def walk() -> Walk:
        return Walk(length=5)

    agent = mfec.train(walk, tmp_path / "run", total_frames=100, capacity=100, n_envs=2, progress_bar=False)
    assert RunDirectory(tmp_path / "run").read_config().env == "function/walk"
    assert agent.env is not None
    assert "2 x function/walk" in agent._repr_html_()
    assert mfec.evaluate(tmp_path / "run", episodes=2).lengths_frames == [5, 5]
    assert mfec.train(walk, tmp_path / "run", total_frames=150, capacity=100, n_envs=2, resume=True).frames >= 150
    for arguments in (["evaluate", "run"], ["inspect", "run", "--export", "game.html"]):
        done = command("-m", "mfec", *arguments, cwd=tmp_path)
        assert done.returncode == 1
        assert done.stderr.startswith("mfec: the environment of this run is the Python function walk, which only the ")
        assert "mfec.evaluate(directory, env=walk)" in done.stderr
        assert done.stderr.count("\n") == 1
    program = """if True:
        import mfec
        from tests.playing import Walk
        print(mfec.evaluate("run", env=lambda: Walk(length=3), episodes=2).lengths_frames)
        print(mfec.evaluate("run", episodes=1).lengths_frames)
    """
    done = command("-c", program, cwd=tmp_path)
    assert done.stdout == "[3, 3]\n[3]\n", done.stderr


def test_an_agent_is_evaluated_as_it_is_where_it_was_trained_or_elsewhere(tmp_path):
    agent = lake(tmp_path)
    before = mfec.evaluate(agent, episodes=5, epsilon=0.0)
    assert before == mfec.evaluate(tmp_path, episodes=5, epsilon=0.0) == mfec.evaluate(agent, episodes=5, epsilon=0.0)
    easy = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=7)
    assert max(mfec.evaluate(agent, env=lambda: easy, episodes=5).lengths_frames) <= 7
    assert max(mfec.evaluate(tmp_path, env=lambda: easy, episodes=5).lengths_frames) <= 7
    alone = MFEC("FrozenLake-v1", capacity=100, seed=0)
    with pytest.raises(ValueError, match="no run directory that says where it plays: name the environment"):
        mfec.evaluate(alone)
    assert len(mfec.evaluate(alone, env="FrozenLake-v1").scores) == 10
    with pytest.raises(ValueError, match="only Atari games have thirty starts"):
        mfec.evaluate(alone, env="FrozenLake-v1", starts="all")


OWN = """
import gymnasium

class Slow(gymnasium.Wrapper):
    def step(self, action):
        *made, info = self.env.step(action)
        return *made, info

def corridor(size=3):
    made = gymnasium.make("FrozenLake-v1", desc=["S" + "F" * size + "G"], is_slippery=False, max_episode_steps=30)
    return made
"""


def test_what_is_in_a_module_is_found_by_the_command(tmp_path, monkeypatch):
    (tmp_path / "own_of_a_test.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    own: Any = importlib.import_module("own_of_a_test")
    settings: Any = {"total_frames": 400, "capacity": 100, "gamma": 0.9, "progress_bar": False}
    agent = mfec.train(own.corridor, tmp_path / "run", env_kwargs={"size": 5}, wrappers=[own.Slow], **settings)
    config = RunDirectory(tmp_path / "run").read_config()
    assert config.env == "own_of_a_test:corridor"
    assert (config.environment.env_kwargs, config.environment.wrappers) == (("size=5",), ("own_of_a_test:Slow",))
    assert mfec.evaluate(agent, episodes=2, epsilon=0.0).lengths_frames == [6, 6]
    done = command("-m", "mfec", "evaluate", "run", "--episodes", "2", "--epsilon", "0", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)[0]["lengths_frames"] == [6, 6], done.stderr
    given = ["own_of_a_test:corridor", "--total-frames", "400", "--capacity", "100", "--gamma", "0.9", "--no-video"]
    given += ["--env-kwargs", "size=5", "--wrapper", "own_of_a_test:Slow"]
    assert main(["train", *given, "--out", str(tmp_path / "command")]) == 0
    assert outcome(tmp_path / "command") == outcome(tmp_path / "run")
    with pytest.raises(ValueError, match="does not take the keyword 'sise'; did you mean 'size'"):
        mfec.train(lambda size: own.corridor(size), tmp_path / "bad", env_kwargs={"sise": 5}, **settings)
    with pytest.raises(EnvironmentCrash, match=r"function/lambda raised TypeError: .*int"):
        mfec.train(lambda: 3, tmp_path / "bad", **settings)


def test_a_crash_of_the_environment_is_raised_and_what_was_good_is_saved(tmp_path):
    class Crashes(Walk):
        def step(self, action: int) -> Any:
            if self.steps == 60:
                raise ZeroDivisionError("theirs")
            return super().step(action)

    with pytest.raises(EnvironmentCrash, match="theirs"):
        mfec.train(Crashes, tmp_path, total_frames=100, capacity=100, progress_bar=False)
    assert MFEC.load(tmp_path / "checkpoint").frames == 60
    assert len(RunDirectory(tmp_path).episodes()["frames"]) == 60 // 7


# -- Embeddings of the program's own ----------------------------------------------------------------------------------


def test_an_embedding_may_be_an_object_which_another_process_must_be_given(tmp_path):
    class Weigh:
        def __init__(self, weight: float) -> None:
            self.weight = weight

        def __call__(self, observations: Any) -> Any:
            return observations * self.weight

    def run(weight: float, frames: int = 300, **options: Any) -> MFEC:
        given: Any = {"capacity": 300, "progress_bar": False, "embedding": Weigh(weight), **options}
        return mfec.train("CartPole-v1", tmp_path / "run", total_frames=frames, **given)

    agent = run(2.0)
    assert RunDirectory(tmp_path / "run").read_config().agent.embedding == "mfec.here:Weigh"
    assert (
        agent.embedding(agent.env.reset(seed=1)[0][None]).tolist() == (2.0 * agent.env.reset(seed=1)[0][None]).tolist()
    )
    assert run(2.0, 400, resume=True).frames == 400
    assert mfec.evaluate(tmp_path / "run", episodes=2) == mfec.evaluate(agent.run_directory or "", episodes=2)
    with pytest.raises(CheckpointError, match="was saved with another embedding"):
        run(3.0, 500, resume=True)
    done = command("-m", "mfec", "evaluate", "run", cwd=tmp_path)
    assert done.stderr.startswith("mfec: the embedding Weigh of this run is an object of the program that trained it")
    program = "import mfec; print(len(mfec.evaluate('run', episodes=3, embedding=lambda o: 2.0 * o).scores))"
    done = command("-c", program, cwd=tmp_path)
    assert done.stdout == "3\n", done.stderr
    with pytest.raises(ValueError, match="the embedding of this run is table, which is found without being given"):
        mfec.evaluate(lake(tmp_path / "lake").run_directory or "", embedding=Weigh(1.0))
