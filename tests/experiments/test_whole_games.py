"""Whole games side by side: the same as one after the other, and at an Atari game's thirty starts, once each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

from mfec import make_atari
from mfec.config import EnvConfig
from mfec.envs.atari import AtariVector
from mfec.evaluation import AtRandom, WholeGames, whole_games

SHORT = EnvConfig(max_frames=100)


@pytest.fixture(autouse=True)
def _few_emulators(monkeypatch: pytest.MonkeyPatch) -> None:
    """To load one takes long."""
    monkeypatch.setattr(whole_games, "SIDE_BY_SIDE", 3)


class ByRote:
    """Plays actions that depend on the number of the game and of the step alone."""

    name, epsilon, deterministic = "by rote", 0.0, True

    def __init__(self, actions: int) -> None:
        self._actions = actions
        self.steps: dict[int, int] = {}
        self.begun: list[int] = []
        self.most = 0  # games at a time

    def act(self, games: Sequence[int], observations: NDArray[Any], begins: Sequence[bool]) -> NDArray[np.int64]:
        assert len(games) == len(observations) == len(begins)
        self.most = max(self.most, len(games))
        for game, new in zip(games, begins, strict=True):
            self.begun += [game] * new
            self.steps[game] = 0 if new else self.steps[game] + 1
        return np.array([self.action(game, self.steps[game]) for game in games])

    def action(self, game: int, step: int) -> int:
        return (7 * game + step // 5) % self._actions


def one_by_one(game: str, starts: range, config: EnvConfig = SHORT) -> tuple[list[float], list[int]]:
    """Scores and frames of `ByRote` from these starts, through one environment."""
    env = make_atari(game, max_frames=config.max_frames, sticky_actions=config.sticky_actions)
    rote = ByRote(int(env.action_space.n))
    scores, lengths = [], []
    for number, no_ops in enumerate(starts):
        env.reset(options={"no_ops": no_ops})
        score, steps, over = 0.0, 0, False
        while not over:
            _, reward, ended, cut_off, _ = env.step(rote.action(number, steps))
            score, steps, over = score + float(reward), steps + 1, ended or cut_off
        scores.append(score)
        lengths.append(4 * steps)
    return scores, lengths


def test_all_thirty_starts_are_played_once_each():
    """Of Frostbite, whose console has two states after a reset; a stop between two steps does not matter."""
    games = WholeGames("frostbite", SHORT, starts="all")
    calls = iter(range(20))
    with pytest.raises(StopIteration):
        games.play(ByRote(18), lambda: next(calls))
    expected = one_by_one("frostbite", range(30))
    assert len(set(expected[0])) > 1
    rote = ByRote(18)
    evaluation = games.play(rote)  # on the same emulators
    assert sorted(rote.begun) == list(range(30))
    assert (evaluation.scores, evaluation.lengths_frames) == expected
    assert (evaluation.starts, evaluation.exact) == ("all", True)


def test_a_filmed_game_and_those_beside_it_are_those_without_a_film(tmp_path):
    expected = one_by_one("frostbite", range(30))
    games = WholeGames("frostbite", SHORT, starts="all", video=tmp_path / "game.mp4")
    for filmed in (False, True):
        evaluation = games.play(ByRote(18), filmed=filmed)
        assert (evaluation.scores, evaluation.lengths_frames) == expected
        assert (tmp_path / "game.mp4").exists() == filmed


def test_an_emulator_that_has_begun_many_games_still_begins_at_its_starts():
    """The ROM is loaded anew before nobody knows any more which state a reset ends in."""
    board = whole_games._NativeBoard(AtariVector("frostbite", 1))
    env = make_atari("frostbite")
    expected = [env.reset(options={"no_ops": start})[0].tobytes() for start in range(30)]
    loads = 0
    for _ in range(70):
        before = board._resets
        start, shown = board.begin(range(30))
        assert shown.tobytes() == expected[start]
        loads += board._resets < before
    assert loads >= 1


def test_unseen_starts_are_thirty_others():
    games = WholeGames("ms_pacman", SHORT, starts="unseen")
    evaluation = games.play(ByRote(9))
    assert (evaluation.scores, evaluation.lengths_frames) == one_by_one("ms_pacman", range(30, 60))
    assert (evaluation.starts, evaluation.exact) == ("unseen", True)
    assert not games.play(AtRandom(games.action_space, seed=0)).exact


def test_games_do_not_depend_on_how_many_are_played_at_a_time(monkeypatch):
    evaluations = []
    for at_a_time in (12, 5):
        monkeypatch.setattr(whole_games, "SIDE_BY_SIDE", at_a_time)
        rote = ByRote(2)
        evaluations.append(WholeGames("CartPole-v1", seed=3).play(rote))
        assert rote.most == at_a_time
    assert evaluations[0] == evaluations[1]
    assert len(evaluations[0].scores) == 30


def test_sampled_games_begin_on_seeds_of_their_own():
    games = WholeGames("CartPole-v1", games=5, seed=9)
    evaluation = games.play(ByRote(2))
    env, rote, lengths = gymnasium.make("CartPole-v1"), ByRote(2), []
    for number, seed in enumerate((np.random.SeedSequence(9).generate_state(5) >> 1).tolist()):
        env.reset(seed=seed)
        steps, over = 0, False
        while not over:
            over = any(env.step(rote.action(number, steps))[2:4])
            steps += 1
        lengths.append(steps)
    assert evaluation.lengths_frames == lengths
    assert evaluation.scores == list(map(float, lengths))
    assert not evaluation.exact  # CartPole's starts are drawn


def test_what_is_left_to_chance_is_not_called_exact():
    games = WholeGames("qbert", EnvConfig(max_frames=40, sticky_actions=0.25), starts="all", seed=1)
    assert not games.play(ByRote(6)).exact


def test_starts_are_those_of_atari_games():
    with pytest.raises(ValueError, match="only Atari games have thirty starts; CartPole-v1 begins as its seed falls"):
        WholeGames("CartPole-v1", starts="all")
    with pytest.raises(ValueError, match="there are 30 starts, once each, not 10"):
        WholeGames("qbert", games=10, starts="unseen")
