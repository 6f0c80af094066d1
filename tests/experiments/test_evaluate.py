"""Evaluation: whole games that a seed repeats, scores as the game counts them, a memory that stays as it is."""

from __future__ import annotations

import json
import math
import shutil
import statistics
import textwrap
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
import pytest
import torch
from gymnasium import spaces

from mfec import MFEC, make_atari
from mfec.cli import main
from mfec.device import open_channel
from mfec.evaluation import AtRandom, Evaluation
from mfec.experiments.evaluate import evaluate_run
from mfec.run_directory import RunDirectory, RunDirectoryError


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "lake"
    arguments = ["--total-frames", "600", "--capacity", "500", "--n-envs", "3", "--eviction", "used", "--no-video"]
    assert main(["train", "FrozenLake-v1", *arguments, "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def qbert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run, of games that are cut off after 400 frames."""
    out = tmp_path_factory.mktemp("runs") / "qbert"
    arguments = ["--total-frames", "800", "--capacity", "1000", "--max-frames", "400", "--no-video"]
    assert main(["train", "qbert", *arguments, "--out", str(out)]) == 0
    return out


def files_of(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def read_json(text: str) -> list[dict[str, Any]]:
    """JSON as the standard has it: without NaN."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


# -- Scores -----------------------------------------------------------------------------------------------------------


def test_scores_are_sums_of_raw_rewards_over_whole_games(qbert):
    """Against a loop of one's own, with the same agent and random numbers on the same starts."""
    [evaluation] = evaluate_run(RunDirectory(qbert), episodes=3, seed=4, epsilon=0.1)
    agent, env = MFEC.load(qbert / "checkpoint"), make_atari("qbert", max_frames=400)
    scores, lengths = [], []
    for game, seed in enumerate((np.random.SeedSequence(4).generate_state(3) >> 1).tolist()):
        rng = np.random.default_rng([4, 1, game])
        observation, _ = env.reset(seed=seed)
        rewards, over = [], False
        while not over:
            action, _ = agent.predict(observation, epsilon=0.1, rng=rng)
            observation, reward, ended, cut_off, _ = env.step(action)
            rewards.append(reward)
            over = ended or cut_off
        scores.append(sum(rewards))
        lengths.append(4 * len(rewards))
    assert evaluation.scores == scores
    assert evaluation.lengths_frames == lengths
    assert max(scores) > 1  # not clipped


def test_a_game_is_not_over_when_a_life_is_lost(tmp_path):
    """The memory's episodes end with a life; scores are those of all four."""
    arguments = ["--total-frames", "40", "--capacity", "500", "--episode", "life", "--no-video"]
    assert main(["train", "qbert", *arguments, "--out", str(tmp_path)]) == 0
    [evaluation] = evaluate_run(RunDirectory(tmp_path), episodes=1, seed=0, epsilon=1.0)
    env = make_atari("qbert")
    env.reset(seed=0)
    steps, lives = 0, 4
    while lives == 4:
        lives = env.step(env.action_space.sample())[4]["lives"]
        steps += 1
    assert evaluation.lengths_frames[0] > 4 * steps


def test_mean_and_standard_error_are_those_of_the_scores():
    scores = [25.0, 0.0, 125.0, 75.0]
    evaluation = Evaluation("agent", 0.005, scores, [40, 80, 120, 160])
    assert evaluation.mean == statistics.fmean(scores)
    assert evaluation.standard_error == pytest.approx(statistics.stdev(scores) / 2)
    assert evaluation.mean_length_frames == 100
    assert evaluation.as_json() == {
        "policy": "agent",
        "epsilon": 0.005,
        "scores": scores,
        "lengths_frames": [40, 80, 120, 160],
        "starts": "sampled",
        "exact": False,
        "mean": statistics.fmean(scores),
        "standard_error": evaluation.standard_error,
    }


def test_a_seed_repeats_the_games_and_another_plays_others(lake):
    first, again, other = (
        evaluate_run(RunDirectory(lake), episodes=20, seed=seed, epsilon=0.5, random=True) for seed in (0, 0, 1)
    )
    assert first == again
    assert first[0].lengths_frames != other[0].lengths_frames
    assert first[1].lengths_frames != other[1].lengths_frames


def test_the_random_policy_does_not_change_the_agents_games(lake):
    [alone] = evaluate_run(RunDirectory(lake), episodes=20, seed=3, epsilon=0.5)
    beside = evaluate_run(RunDirectory(lake), episodes=20, seed=3, epsilon=0.5, random=True)
    assert [each.policy for each in beside] == ["random", "agent"]
    assert beside[1] == alone


def test_a_run_may_be_evaluated_on_another_device(qbert, monkeypatch):
    """The GPU is stood in for by the same code on the CPU."""
    monkeypatch.setattr("mfec.memory.neighbours.cuda.open_channel", lambda device: open_channel("cpu"))
    here, there = (evaluate_run(RunDirectory(qbert), episodes=1, seed=0, device=device) for device in ("cpu", "cuda"))
    assert here == there


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_a_sentence(qbert, capsys):
    assert main(["evaluate", str(qbert), "--episodes", "1", "--device", "cuda"]) == 1
    assert capsys.readouterr().err.startswith("mfec: device 'cuda' needs an NVIDIA GPU")


def test_the_random_policy_takes_every_action_alike():
    player = AtRandom(spaces.Discrete(4), seed=0)
    actions = player.act(range(2000), np.zeros(2000), [True] * 2000)
    assert np.bincount(actions, minlength=4) == pytest.approx([500] * 4, abs=4 * math.sqrt(2000 * 0.25 * 0.75))


def test_epsilon_is_the_runs_own_unless_given(lake):
    assert evaluate_run(RunDirectory(lake), episodes=1, seed=0)[0].epsilon == 0.005
    assert evaluate_run(RunDirectory(lake), episodes=1, seed=0, epsilon=0.0)[0].epsilon == 0.0


# -- The command ------------------------------------------------------------------------------------------------------


def test_json_has_scores_mean_standard_error_and_epsilon(lake, capsys):
    capsys.readouterr()
    assert main(["evaluate", str(lake), "--episodes", "5", "--seed", "2", "--random", "--json"]) == 0
    random, agent = read_json(capsys.readouterr().out)
    assert (random["policy"], random["epsilon"]) == ("random", 1.0)
    assert (agent["policy"], agent["epsilon"]) == ("agent", 0.005)
    for each in (random, agent):
        assert len(each["scores"]) == len(each["lengths_frames"]) == 5
        assert each["mean"] == pytest.approx(statistics.fmean(each["scores"]))
        assert each["standard_error"] == pytest.approx(statistics.stdev(each["scores"]) / math.sqrt(5))


def test_the_table_states_epsilon_mean_and_standard_error(lake, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    capsys.readouterr()
    assert main(["evaluate", str(lake), "--episodes", "6", "--epsilon", "0.25", "--random"]) == 0
    lines = capsys.readouterr().out.splitlines()
    [head] = [line for line in lines if "policy" in line]
    assert all(word in head for word in ("epsilon", "mean", "standard error", "lowest", "highest", "frames a game"))
    [agent] = [line for line in lines if "agent" in line]
    evaluation = evaluate_run(RunDirectory(lake), episodes=6, seed=0, epsilon=0.25)[0]
    cells = [cell.strip() for cell in agent.strip("│ ").split("│")]
    assert cells == [
        "agent", "0.25", f"{evaluation.mean:.1f}", f"{evaluation.standard_error:.1f}",
        f"{min(evaluation.scores):.1f}", f"{max(evaluation.scores):.1f}", f"{evaluation.mean_length_frames:.1f}",
    ]  # fmt: skip
    assert any("random" in line and " 1 " in line for line in lines)


def test_evaluation_changes_nothing_in_the_run(lake, capsys):
    before = files_of(lake)
    assert main(["evaluate", str(lake), "--episodes", "5", "--random"]) == 0
    assert files_of(lake) == before


# -- Several runs -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def several(tmp_path_factory) -> Path:
    """Three seeds in one environment, one in another, and a run that has no checkpoint yet."""
    out = tmp_path_factory.mktemp("several")
    short = ["--total-frames", "400", "--capacity", "60", "--no-video"]
    for seed in range(3):
        assert main(["train", "FrozenLake-v1", *short, "--seed", str(seed), "--out", str(out / f"lake-{seed}")]) == 0
    assert main(["train", "CartPole-v1", *short, "--out", str(out / "cart")]) == 0
    shutil.copytree(out / "cart", out / "empty", ignore=shutil.ignore_patterns("checkpoint"))
    return out


def test_several_runs_are_evaluated_each_as_alone_with_the_mean_over_seeds(several, capsys):
    arguments = ["--episodes", "4", "--epsilon", "0.5", "--json"]
    capsys.readouterr()
    assert main(["evaluate", str(several), *arguments, "--random"]) == 0
    said = capsys.readouterr()
    assert f"left out: {several / 'empty'} has no checkpoint yet" in said.err
    groups = json.loads(said.out)
    assert [[Path(run["run"]).name for run in group["runs"]] for group in groups] == [
        ["cart"],
        ["lake-0", "lake-1", "lake-2"],
    ]
    for group in groups:
        for run in group["runs"]:
            assert main(["evaluate", run["run"], *arguments]) == 0
            [alone] = read_json(capsys.readouterr().out)
            assert run["scores"] == alone["scores"]
        means = [run["mean"] for run in group["runs"]]
        assert group["mean"] == pytest.approx(statistics.fmean(means))
        if len(means) > 1:
            assert group["standard_error"] == pytest.approx(statistics.stdev(means) / math.sqrt(len(means)))
        else:
            assert group["standard_error"] is None
        assert main(["evaluate", group["runs"][0]["run"], *arguments, "--random"]) == 0
        assert read_json(capsys.readouterr().out)[0] == group["random"]


@pytest.mark.parametrize("columns", ["120", "60", "40"])
def test_several_runs_are_one_table_with_a_row_for_each_and_one_for_their_mean(several, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    given = [str(several / f"lake-{seed}") for seed in range(3)]
    capsys.readouterr()
    assert main(["evaluate", *given, "--episodes", "3", "--epsilon", "0.25"]) == 0
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert said.count("games: 3") == 1
    shown = [name for line in lines for name in ("lake-0", "lake-1", "lake-2", "3 seeds") if name in line]
    assert shown == ["lake-0", "lake-1", "lake-2", "3 seeds"]


def test_a_seed_that_is_there_twice_is_in_no_mean_twice(several, tmp_path, capsys):
    shutil.copytree(several / "lake-1", tmp_path / "again")
    runs = [several / "lake-0", several / "lake-1", tmp_path / "again"]
    capsys.readouterr()
    assert main(["evaluate", *map(str, runs), "--episodes", "2", "--json"]) == 0
    groups = json.loads(capsys.readouterr().out)
    assert [[run["seed"] for run in group["runs"]] for group in groups] == [[0, 1], [1]]


def test_a_video_of_several_runs_is_refused_before_a_game_is_played(several, tmp_path, capsys):
    assert main(["evaluate", str(several), "--video", str(tmp_path / "game.mp4")]) == 1
    assert "a video is of one run" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# -- Video ------------------------------------------------------------------------------------------------------------


def test_the_video_is_of_the_first_game(qbert, tmp_path, capsys):
    film = tmp_path / "films" / "game.mp4"
    capsys.readouterr()
    assert main(["evaluate", str(qbert), "--episodes", "1", "--video", str(film), "--json"]) == 0
    [agent] = read_json(capsys.readouterr().out)
    assert agent["standard_error"] is None  # of a single game
    frames = imageio_ffmpeg.read_frames(str(film))
    about = next(frames)
    assert about["size"] == (480, 630)
    pictures = [hash(bytes(frame)) for frame in frames]
    assert len(pictures) == agent["lengths_frames"][0] // 4 > 1
    assert len(set(pictures)) > 1
    # filmed or not, the games are the same
    assert evaluate_run(RunDirectory(qbert), episodes=1, seed=0)[0].scores == agent["scores"]


def test_a_video_of_another_ending_is_refused_before_a_game_is_played(qbert, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("mfec.envs.atari.Atari.step", lambda *_: pytest.fail("a game was played"))
    assert main(["evaluate", str(qbert), "--random", "--video", str(tmp_path / "game.avi")]) == 1
    assert capsys.readouterr().err == f"mfec: a video is an .mp4 file, not {tmp_path / 'game.avi'}\n"
    assert list(tmp_path.iterdir()) == []


def test_an_environment_that_cannot_be_filmed_is_a_sentence(tmp_path, capsys, monkeypatch):
    program = """
        import gymnasium
        from gymnasium import spaces

        class Blind(gymnasium.Env):
            metadata = {"render_modes": ["rgb_array"], "render_fps": 30}
            observation_space, action_space = spaces.Discrete(2), spaces.Discrete(2)

            def __init__(self, render_mode=None):
                self.render_mode = render_mode

            def reset(self, *, seed=None, options=None):
                super().reset(seed=seed)
                return 0, {}

            def step(self, action):
                return 1, 1.0, True, False, {}

            def render(self):
                raise gymnasium.error.DependencyNotInstalled("the camera is not installed")

        gymnasium.register("Blind-v0", entry_point=Blind)
    """
    (tmp_path / "blind_env.py").write_text(textwrap.dedent(program))
    monkeypatch.syspath_prepend(tmp_path)
    out = tmp_path / "run"
    assert main(["train", "blind_env:Blind-v0", "--total-frames", "20", "--capacity", "9", "--out", str(out)]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(out), "--episodes", "1", "--video", str(tmp_path / "game.mp4")]) == 1
    assert capsys.readouterr().err.splitlines()[-1].endswith("the camera is not installed")
    assert not (tmp_path / "game.mp4").exists()


# -- What is refused --------------------------------------------------------------------------------------------------


def test_a_directory_that_is_no_run_is_refused(tmp_path, capsys):
    for path in (tmp_path, tmp_path / "nowhere"):
        assert main(["evaluate", str(path)]) == 1
        error = capsys.readouterr().err
        assert error.startswith("mfec: there is no ")
        assert str(path) in error


def test_a_run_without_a_checkpoint_is_refused(lake, tmp_path, capsys):
    shutil.copytree(lake, tmp_path / "run", ignore=shutil.ignore_patterns("checkpoint"))
    with pytest.raises(RunDirectoryError, match="has no checkpoint yet: nothing to evaluate"):
        evaluate_run(RunDirectory(tmp_path / "run"), episodes=1, seed=0)
    assert main(["evaluate", str(tmp_path / "run")]) == 1
    assert "no checkpoint yet" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "value", "message"), [
    ("--episodes", "0", "episodes must be at least 1, not 0"),
    ("--epsilon", "-0.1", "epsilon must lie between 0 and 1, not -0.1"),
    ("--epsilon", "nan", "epsilon must lie between 0 and 1, not nan"),
    ("--seed", "-1", "non-negative"),
])  # fmt: skip
def test_senseless_numbers_are_refused(lake, capsys, option, value, message):
    assert main(["evaluate", str(lake), "--json", option, value]) == 1
    error = capsys.readouterr().err
    assert error.startswith("mfec: ")
    assert message in error
