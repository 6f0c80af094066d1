"""Grids of runs: what the presets hold, what can be chosen of them, and what is refused."""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from mfec.algorithms import RunConfig
from mfec.algorithms.baselines.settings import DQNConfig
from mfec.algorithms.mfec import MFEC_ALGORITHM, MFECConfig
from mfec.algorithms.nec import NECConfig
from mfec.config import EnvConfig, EvaluationConfig
from mfec.embeddings.vae import shipped_names
from mfec.envs import make_env
from mfec.experiments.grid import Choices, GridRun, asked, expand, read_experiment

GAMES = ["ms_pacman", "space_invaders", "frostbite", "qbert", "river_raid"]
LEVELS = ["labyrinth_forage", "labyrinth_forage_and_avoid", "labyrinth_double_t_maze"]
M = 1_000_000
PUBLISHED = DQNConfig(replay_start=50_000, epsilon_steps=1_000_000, target_every=10_000)


def grid(name: str, **choices) -> list[GridRun]:
    return expand(read_experiment(name), Choices(**choices))


def cells(runs: list[GridRun]) -> list[str]:
    return list(dict.fromkeys(str(run.cell) for run in runs))


def of(runs: list[GridRun], place: str) -> RunConfig:
    [config] = [run.config for run in runs if str(run.place) == place]
    return config


def used(config: RunConfig) -> Any:
    """The settings that the run comes to have in its environment."""
    return config.kind.resolve(config, make_env(config.env, config.kind.environment_of_agent(config))).agent


# -- Presets ----------------------------------------------------------------------------------------------------------


def test_figure_1_is_all_algorithms_in_the_games_and_mfec_and_a2c_in_the_levels():
    runs = grid("figure1")
    in_games = ["mfec_random_projection", "mfec_vae", "dqn", "prioritised_dqn", "a2c"]
    in_levels = ["mfec_random_projection", "mfec_vae", "a2c"]
    expected = [f"{env}/{name}" for env in GAMES for name in in_games]
    expected += [f"{env}/{name}" for env in LEVELS for name in in_levels]
    assert sorted(cells(runs)) == sorted(expected)
    assert set(Counter(str(run.cell) for run in runs).values()) == {5}
    assert len({run.place for run in runs}) == len(runs) == 170
    for run in runs:
        assert run.config.total_frames == (10 * M if run.config.env in GAMES else 40 * M)
        assert run.place.name == f"seed-{run.config.seed}"
        assert run.config.agent.device == "cpu"


def test_the_settings_are_the_papers_for_each_environment_and_algorithm():
    runs = grid("figure1", seeds=1)
    projected = of(runs, "qbert/mfec_random_projection/seed-0")
    assert projected == RunConfig("qbert", 10 * M, 0, MFECConfig(embedding="random_projection"))
    encoded = of(runs, "labyrinth_forage/mfec_vae/seed-0")
    agent = MFECConfig(k=50, gamma=0.99, capacity=100_000, embedding="vae", vae="labyrinth_forage")
    assert encoded == RunConfig("labyrinth_forage", 40 * M, 0, agent)
    assert used(of(runs, "qbert/dqn/seed-0")) == PUBLISHED
    assert of(runs, "qbert/dqn/seed-0").environment == EnvConfig(frame_stack=4)
    assert used(of(runs, "qbert/prioritised_dqn/seed-0")) == replace(PUBLISHED, learning_rate=0.00025 / 4)
    assert of(runs, "qbert/a2c/seed-0").environment == EnvConfig(n_envs=16, frame_stack=4)


def test_every_encoder_that_is_named_ships():
    runs = [run.config.agent for run in grid("figure1") + grid("figure2") if run.config.algorithm == "mfec"]
    vaes = {agent.vae for agent in runs if agent.embedding == "vae"}
    assert vaes == set(GAMES) | set(LEVELS)
    assert vaes <= set(shipped_names())


def test_figure_2_varies_k_with_vae_features():
    runs = grid("figure2")
    assert len(runs) == 8 * 5 * 5
    assert [run.config.seed for run in runs] == [seed for seed in range(5) for _ in range(40)]  # stopped, it has curves
    assert cells(runs)[:5] == [f"ms_pacman/mfec_vae/k-{k}" for k in (1, 3, 11, 25, 50)]
    for run in runs:
        k = int(run.cell.name.removeprefix("k-"))
        agent = replace(MFEC_ALGORITHM.defaults(run.config.env), k=k, embedding="vae", vae=run.config.env)
        assert run.config.agent == agent
    some = grid("figure2", games=("qbert",), k=(2, 7), seeds=1)
    assert [(run.name, run.config.agent.k) for run in some] == [(f"qbert mfec_vae k {k} seed 0", k) for k in (2, 7)]


def test_neural_episodic_control_is_beside_mfec_on_the_games():
    runs = grid("nec")
    assert cells(runs) == [f"{env}/{name}" for env in GAMES for name in ("mfec_random_projection", "nec")]
    assert len(runs) == 20
    own = of(runs, "qbert/nec/seed-1")
    assert own == RunConfig("qbert", 2 * M, 1, NECConfig(), EnvConfig(frame_stack=4), "nec")
    tuned = of(grid("nec", recipe="tuned"), "qbert/mfec_random_projection/seed-0")
    assert tuned.agent == replace(MFEC_ALGORITHM.defaults("qbert", "tuned"), embedding="random_projection")
    with pytest.raises(ValueError, match="nec has no levels"):
        grid("nec", levels=("all",))


def test_match_rates_are_taken_with_random_projections_everywhere():
    runs = grid("match_rates")
    assert cells(runs) == [f"{env}/mfec_random_projection" for env in GAMES + LEVELS]
    assert len(runs) == 40
    # They are runs of figure 1, and need not be trained twice.
    of_figure_1 = {run.place: run for run in grid("figure1")}
    assert all(of_figure_1[run.place] == run for run in runs)


# -- Choices ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("choices", "envs"), [
    ({}, GAMES + LEVELS),
    ({"games": ("qbert",)}, ["qbert"]),
    ({"levels": ("labyrinth_forage",)}, ["labyrinth_forage"]),
    ({"games": ("qbert", "qbert"), "levels": ("labyrinth_forage",)}, ["qbert", "labyrinth_forage"]),
    ({"games": ("all",)}, GAMES),
    ({"games": ("frostbite",), "levels": ("all",)}, ["frostbite", *LEVELS]),
])  # fmt: skip
def test_what_is_named_is_run_and_nothing_else(choices, envs):
    assert list(dict.fromkeys(run.config.env for run in grid("figure1", **choices))) == envs


def test_algorithms_and_embeddings_can_be_chosen():
    assert cells(grid("figure1", games=("qbert",), algorithms=("a2c", "dqn"))) == ["qbert/dqn", "qbert/a2c"]
    assert cells(grid("figure1", games=("qbert",), embeddings=("vae",), algorithms=("mfec",))) == ["qbert/mfec_vae"]
    assert cells(grid("figure1", games=("qbert",), embeddings=("vae",)))[:2] == ["qbert/mfec_vae", "qbert/dqn"]
    # Where no environment is named, those that have the algorithm are meant.
    assert {run.config.env for run in grid("figure1", algorithms=("dqn",))} == set(GAMES)


def test_frames_seeds_environments_and_device_are_as_given():
    runs = grid("figure1", games=("qbert",), seeds=3, total_frames=2000, n_envs=8, device="cuda")
    assert {run.config.seed for run in runs} == {0, 1, 2}
    assert {run.config.total_frames for run in runs} == {2000}
    assert {run.config.environment.n_envs for run in runs} == {8}
    assert {run.config.agent.device for run in runs} == {"cuda"}


@pytest.mark.parametrize(("choices", "said"), [
    ({"games": ("pacman",)}, "unknown game 'pacman'; did you mean 'ms_pacman'? figure1 has ms_pacman, space_invaders"),
    ({"levels": ("qbert",)}, "unknown level 'qbert'; figure1 has labyrinth_forage, "),
    ({"algorithms": ("a3c",)}, "unknown algorithm 'a3c'; did you mean 'a2c'? mfec has mfec, nec, dqn, "),
    ({"embeddings": ("identity",)}, "unknown embedding 'identity'; figure1 has random_projection, vae"),
    ({"levels": ("all",), "algorithms": ("dqn",)}, "figure1 runs mfec and a2c on the levels, not dqn"),
    ({"k": (3,)}, "--k is for figure2"),
    ({"scale": 0.0}, "scale must lie above 0 and not above 1, not 0.0"),
    ({"scale": 0.5, "total_frames": 100}, "give one of the two"),
    ({"total_frames": 0}, "total_frames must be at least 1, not 0"),
    ({"seeds": 0}, "at least 1, not 0"),
    ({"n_envs": 0}, "n_envs must be at least 1, not 0"),
])  # fmt: skip
def test_what_is_not_there_is_refused_with_what_is(choices, said):
    with pytest.raises(ValueError) as error:
        grid("figure1", **choices)
    assert said in str(error.value)


@pytest.mark.parametrize(("choices", "said"), [
    ({"algorithms": ("a2c",)}, "nothing of figure2 is left to run: it has mfec (vae)"),
    ({"games": ("qbert",), "embeddings": ("random_projection",)}, "figure2 has the embedding vae, not random_pro"),
    ({"k": (3, 3)}, "k names a number twice: 3, 3"),
    ({"k": (0,)}, "k, capacity and dim must be at least 1"),
])  # fmt: skip
def test_what_figure_2_does_not_have_is_refused(choices, said):
    with pytest.raises(ValueError) as error:
        grid("figure2", **choices)
    assert said in str(error.value)


def test_an_unknown_experiment_is_refused():
    with pytest.raises(ValueError, match="unknown experiment 'figure3'; there are figure1, figure2, match_rates"):
        read_experiment("figure3")


# -- Scale ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scale", "seeds", "game_frames"), [
    (1.0, 5, 10 * M), (0.5, 3, 5 * M), (0.01, 1, 100_000), (1e-9, 1, 4),
])  # fmt: skip
def test_a_scale_shrinks_frames_and_seeds(scale, seeds, game_frames):
    runs = grid("match_rates", scale=scale)
    assert {run.config.seed for run in runs} == set(range(seeds))
    assert {run.config.total_frames for run in runs if run.config.env in GAMES} == {game_frames}
    assert {run.config.total_frames for run in runs if run.config.env in LEVELS} == {
        4 * game_frames if scale > 1e-6 else 4
    }
    assert {run.config.seed for run in grid("match_rates", scale=scale, seeds=3)} == {0, 1, 2}  # those are as given


def test_a_run_that_is_long_enough_to_learn_keeps_the_published_schedule():
    """50,000 steps of four frames are played before the first gradient step."""
    longest_without = grid("figure1", games=("qbert",), algorithms=("dqn",), total_frames=200_000, seeds=1)
    shortest_with = grid("figure1", games=("qbert",), algorithms=("dqn",), total_frames=200_004, seeds=1)
    assert used(shortest_with[0].config) == PUBLISHED
    assert used(longest_without[0].config) == DQNConfig(replay_start=1000, epsilon_steps=20_000, target_every=200)


def test_the_schedule_of_a_run_that_would_never_learn_is_shrunk_as_the_run_is():
    [run] = grid("figure1", games=("qbert",), algorithms=("prioritised_dqn",), scale=0.01)
    expected = DQNConfig(learning_rate=0.00025 / 4, replay_start=500, epsilon_steps=10_000, target_every=100)
    assert used(run.config) == expected
    [shortest] = grid("figure1", games=("qbert",), algorithms=("dqn",), total_frames=4, seeds=1)
    assert used(shortest.config) == DQNConfig(replay_start=0, epsilon_steps=1, target_every=1)


# -- What is kept of it -----------------------------------------------------------------------------------------------


def test_what_was_asked_is_kept():
    experiment = read_experiment("figure2")
    choices = Choices(games=("qbert",), k=(1, 3), seeds=2, device="cuda")
    kept = tomllib.loads(asked(experiment, choices, expand(experiment, choices)))
    del kept["mfec"]
    assert kept == {
        "experiment": "figure2", "runs": 4, "games": ["qbert"], "k": [1, 3], "seeds": 2, "scale": 1.0,
        "recipe": "paper", "device": "cuda",
    }  # fmt: skip


def test_the_recipe_and_the_evaluation_are_those_of_every_run():
    evaluation = EvaluationConfig(200_000)
    runs = grid("figure1", games=("qbert",), seeds=1, recipe="tuned", evaluation=evaluation)
    assert {run.config.evaluation for run in runs} == {evaluation}
    of_mfec = {run.config.agent.gamma for run in runs if run.config.algorithm == "mfec"}
    assert of_mfec == {MFEC_ALGORITHM.defaults("qbert", "tuned").gamma} != {MFECConfig().gamma}
    experiment = read_experiment("figure1")
    kept = tomllib.loads(asked(experiment, Choices(seeds=1, evaluation=evaluation), runs))
    assert kept["evaluation"]["evaluate_every"] == 200_000
