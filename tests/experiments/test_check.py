"""`mfec check`: what it measures in environments whose nature is known, and what it says of broken ones."""

from __future__ import annotations

import json
import random
import shlex
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from mfec.cli import main
from mfec.config import EnvConfig
from mfec.experiments.check import Check, check_environment
from mfec.experiments.check.rules import RULES, Measured, advice, settings_of

from ..playing import Pictures, Walk


def measured(check: Check) -> Measured:
    assert check.measured is not None, check
    return check.measured


def lake(slippery: bool) -> gymnasium.Env:
    return gymnasium.make("FrozenLake-v1", is_slippery=slippery)


# -- Environments with known answers ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slippery() -> Check:
    return check_environment(lambda: lake(True), frames=4000)


def test_a_slippery_lake_is_noisy_given_the_state_and_a_poor_fit(slippery):
    found = measured(slippery).determinism
    assert found.repeatable  # under one seed
    assert found.chance
    assert found.chance_share > 0.3
    assert found.elsewhere_share == pytest.approx(2 / 3, abs=0.05)  # it slips in two cases of three
    assert found.starts == 1
    assert slippery.verdict == "poor"
    assert "depend on chance" in slippery.reasons[0]


def test_the_same_lake_without_slipping_is_not():
    check = check_environment(lambda: lake(False), frames=4000)
    own = measured(check)
    assert not own.determinism.chance
    assert (own.determinism.elsewhere, own.determinism.alike_games) == (0, 1)
    assert own.determinism.met_again > 3000
    assert own.repeats.share_late > 0.95
    assert own.repeats.distinct <= 16
    assert own.memory.entries <= 16 * 4
    assert own.spaces.kind == "number"
    assert 0 < own.rewards.positive_share < 0.1  # 1.5 in a hundred reach the other side
    assert dict(check.settings)["epsilon"] > 0.005  # there is one start, and nothing left to chance
    assert own.learning is not None
    assert own.learning.better_than(own.rewards)
    assert check.verdict == "good"


def test_cart_pole_never_repeats_and_is_deterministic():
    check = check_environment("CartPole-v1", frames=3000)
    own = measured(check)
    assert own.determinism.repeatable
    assert not own.determinism.chance
    assert own.determinism.starts == own.determinism.resets >= 200
    assert (own.repeats.share, own.determinism.met_again) == (0.0, 0)
    assert own.repeats.new_late == 1000
    assert own.spaces.embedding == "identity"
    assert (own.games.time_limit, own.games.lives) == (500, None)
    assert (own.rewards.lowest, own.rewards.highest, own.rewards.positive_share) == (1.0, 1.0, 1.0)
    assert check.verdict == "fair"
    assert "only neighbours vote" in check.reasons[0]
    assert dict(check.settings)["kernel"] == "inverse"


def test_taxi_has_a_time_limit_and_many_starts():
    own = measured(check_environment("Taxi-v4", frames=6000))
    assert own.games.time_limit == own.games.longest_steps == 200
    assert own.games.cut_off_share > 0.5
    assert 100 < own.determinism.starts <= 300
    assert not own.determinism.chance
    assert own.rewards.lowest == -10
    assert own.rewards.positive == 0


def test_qbert_is_deterministic_though_a_picture_hides_some_of_its_thirty_starts():
    check = check_environment("qbert", frames=6000)
    own = measured(check)
    assert own.determinism.repeatable
    assert not own.determinism.chance
    # Before the first step 14 pictures can be told apart; on one of them the same actions come to different games.
    assert own.determinism.starts == 14
    assert 1 < own.determinism.alike_games < own.determinism.alike_seeds
    assert own.determinism.elsewhere > 0  # one picture does not show motion
    assert (own.games.lives, own.spaces.frame_skip, own.games.time_limit) == (4, 4, 27_000)
    assert own.games.lives_lost > 0
    assert own.spaces.kind == "picture"
    assert dict(check.settings) == {"k": 50, "kernel": "inverse", "gamma": 0.99, "episode": "game"}  # the tuned ones


def test_sticky_actions_are_chance():
    check = check_environment("qbert", EnvConfig(sticky_actions=0.25), frames=6000)
    assert measured(check).determinism.chance
    assert "--sticky-actions 0.25" in check.command


def test_cards_are_chance_beside_what_is_observed():
    class Cards(gymnasium.ObservationWrapper):
        """Blackjack with its three numbers in one."""

        def __init__(self):
            super().__init__(gymnasium.make("Blackjack-v1"))
            self.observation_space = spaces.Discrete(32 * 11 * 2)

        def observation(self, observation):
            own, dealer, ace = observation
            return (own * 11 + dealer) * 2 + ace

    own = measured(check_environment(Cards, frames=3000))
    assert own.determinism.chance
    assert own.determinism.elsewhere_share > 0.2
    assert own.games.longest_steps < 20


class Noisy(gymnasium.Env):
    """A walk whose steps are drawn by a generator of its own, where a check cannot reach."""

    observation_space = spaces.Discrete(1000)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.own, self.at, self.t = random.Random(seed), 500, 0
        return self.at, {}

    def step(self, action):
        self.at, self.t = self.at + self.own.choice((-1, 1)), self.t + 1
        return self.at, float(action), self.t == 20, False, {}


def test_chance_of_the_environments_own_is_found_by_seeds_that_all_differ():
    found = measured(check_environment(Noisy, frames=2000)).determinism
    assert found.repeatable
    assert found.chance_found == 0
    assert found.chance


def test_an_environment_that_does_not_take_its_seed_cannot_be_repeated():
    class Unseeded(Noisy):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=None, options=options)

    check = check_environment(Unseeded, frames=2000)
    found = measured(check).determinism
    assert not found.repeatable
    assert "game 1" in found.other_environment
    assert any("cannot be repeated" in reason for reason in check.reasons)


# -- Where there is nothing to learn, or no end -----------------------------------------------------------------------


def test_where_no_random_game_goes_another_way_there_is_nothing_to_remember():
    check = check_environment("MountainCar-v0", frames=5000)
    assert measured(check).rewards.different == 1
    assert check.verdict == "poor"
    assert "nothing to remember" in check.reasons[0]


def test_an_environment_that_never_ends_is_said_to(capsys):
    class Endless(Walk):
        def step(self, action):
            return *super().step(action)[:2], False, False, {}

    check = check_environment(Endless, frames=1000)
    own = measured(check)
    assert (own.games.ended, own.games.median_steps, own.games.longest_steps) == (0, None, 1000)
    assert check.verdict == "poor"
    assert "time limit" in check.reasons[0]
    assert "none ended in 1,000 steps" in str(check)


def test_a_slow_environment_ends_with_the_time():
    check = check_environment(Walk, seconds=0.01)
    assert measured(check).repeats.steps >= 1


# -- Broken ones ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("nan reward", "the reward nan"),
        ("inf reward", "the reward inf"),
        ("nan observation", "an observation that is not finite"),
    ],
)
def test_numbers_that_are_none_are_refused_where_they_come(fault, said):
    check = check_environment(lambda: Walk(faults={30: fault}), frames=1000)
    assert check.verdict == "fails"
    [problem] = check.problems
    assert said in problem.sentence
    assert "in game 5, step 2" in problem.sentence  # seven steps a game
    assert check.command == ""


class Changing(Walk):
    """Its observations have another shape, another dtype, lie beyond their space, or are no array at all."""

    def __init__(self, change):
        super().__init__()
        self.observation_space = spaces.Box(0, 20, (2,), np.float32 if change != "floats" else np.uint8)
        self.change = change

    def _observe(self):
        seen = super()._observe()
        if self.change == "beyond":
            return seen + np.float32(15)
        if self.t < 3:
            return seen.astype(self.observation_space.dtype)
        return {"shape": np.zeros(3, np.float32), "floats": seen + 0.5, "ragged": [[1.0], [1.0, 2.0]]}[self.change]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("shape", "an observation of the shape (3,), where the space has (2,)"),
        ("floats", "an observation of float32, where the space has uint8"),
        ("ragged", "returned what cannot be taken in game 1, step 3"),
    ],
)
def test_observations_that_are_not_of_their_space_are_refused(change, said):
    check = check_environment(lambda: Changing(change), frames=100)
    assert check.verdict == "fails"
    assert said in check.problems[0].sentence


def test_an_observation_beyond_its_bounds_is_told_though_a_run_would_take_it():
    check = check_environment(lambda: Changing("beyond"), frames=300)
    assert check.verdict != "fails"
    [problem] = check.problems
    assert not problem.stops
    assert "the space goes from 0 to 20" in problem.sentence


class Crashing(Walk):
    def step(self, action):
        if self.t == 4:
            self.fall()
        return super().step(action)

    def fall(self):
        raise KeyError("no such door")


def test_a_crash_shows_the_lines_of_the_environment_and_none_of_ours():
    check = check_environment(lambda: gymnasium.wrappers.TimeLimit(Crashing(), 50), frames=100)
    [problem] = check.problems
    assert problem.stops
    assert "Crashing raised KeyError: 'no such door'" in problem.sentence
    assert "in game 1, step 5" in problem.sentence
    assert "self.fall()" in problem.traceback
    assert "in fall" in problem.traceback
    assert "mfec/experiments" not in problem.traceback
    assert "gymnasium/wrappers" not in problem.traceback


def test_a_crash_while_it_is_made_is_reported_alike():
    def make():
        raise RuntimeError("no licence")

    check = check_environment(make, frames=100)
    assert "raised RuntimeError: no licence" in check.problems[0].sentence
    assert check.spaces is None


def test_what_gymnasium_warns_of_is_told_and_not_printed(recwarn):
    class Loud(Walk):
        def step(self, action):
            gymnasium.logger.warn("the door is open")
            return super().step(action)

    check = check_environment(Loud, frames=100)
    assert [problem.sentence for problem in check.problems] == ["a warning: the door is open"]
    assert not recwarn.list


# -- The table of rules -----------------------------------------------------------------------------------------------


def test_the_worst_rule_decides_and_comes_first(slippery):
    own = measured(slippery)
    fit, reasons = advice(own)
    assert (fit, reasons[0]) == ("poor", slippery.reasons[0])
    certain = replace(
        own, determinism=replace(own.determinism, chance_found=0, elsewhere=0, alike_games=1), learning=None
    )
    better = replace(certain, rewards=replace(own.rewards, positive_share=0.5))
    assert [advice(each)[0] for each in (own, certain, better)] == ["poor", "fair", "good"]


def test_every_sentence_has_its_numbers_and_every_setting_is_one(slippery):
    own = measured(slippery)
    for rule in RULES:
        assert rule.sentence.format(c=own)
        replace(Pictured.agent, **rule.settings)


class Pictured:
    """Settings of MFEC, to try a rule's on."""

    from mfec.algorithms.mfec import MFECConfig

    agent = MFECConfig()


def test_a_memory_that_would_not_fit_is_proposed_smaller(slippery):
    own = measured(slippery)
    small = replace(own, memory=replace(own.memory, ram=own.memory.full))
    assert "capacity" not in settings_of(own)
    assert settings_of(small)["capacity"] < own.memory.capacity


# -- The function and the command -------------------------------------------------------------------------------------


def test_the_same_frames_give_the_same_report_but_for_speeds():
    def report() -> dict:
        own = check_environment(Pictures, frames=300, seed=3).as_json()
        assert own["measured"].pop("steps_per_second") > 0
        assert own["measured"]["learning"].pop("steps_per_second") > 0
        return own

    assert report() == report()


def test_an_environment_itself_is_refused():
    with pytest.raises(TypeError, match="what makes one"):
        check_environment(Walk(), frames=10)


def test_no_play_is_refused():
    with pytest.raises(ValueError, match="frames at least 1"):
        check_environment("CartPole-v1", frames=0)


def test_the_command_prints_a_page_that_fits_and_a_command_that_runs(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.chdir(tmp_path)
    assert main(["check", "CartPole-v1", "--frames", "600"]) == 0
    lines = capsys.readouterr().out.rstrip().splitlines()
    assert all(len(line) <= 60 for line in lines[:-1])
    labels = {line.split()[0] for line in lines if line[:1].strip()}
    assert {"spaces", "determinism", "repeats", "games", "rewards", "memory", "speed", "learning", "verdict"} <= labels
    mfec, *arguments = shlex.split(lines[-1])
    assert mfec == "mfec"
    at = arguments.index("--total-frames") + 1
    assert arguments[at] == "1000000"
    arguments[at] = "300"
    assert main([*arguments, "--no-video", "--out", str(tmp_path / "run")]) == 0


def test_the_command_prints_json_and_nothing_else(capsys):
    assert main(["check", "FrozenLake-v1", "--frames", "500", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["env"] == "FrozenLake-v1"
    assert told["verdict"] in ("good", "fair", "poor")
    assert told["measured"]["determinism"]["starts"] == 1
    assert told["measured"]["determinism"]["chance"] is True


def test_a_run_that_would_fail_is_an_exit_status_and_a_traceback(capsys):
    gymnasium.register("tests/Crashing-v0", Crashing)
    try:
        assert main(["check", "tests/Crashing-v0", "--frames", "100"]) == 1
    finally:
        del gymnasium.registry["tests/Crashing-v0"]
    said = capsys.readouterr().out
    assert "no such door" in said
    assert "self.fall()" in said
    assert "begin with" not in said


def test_an_unknown_environment_is_a_sentence(capsys):
    assert main(["check", "CartPol-v1"]) == 1
    assert "did you mean 'CartPole-v1'" in capsys.readouterr().err
