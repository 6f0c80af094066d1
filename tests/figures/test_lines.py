"""Runs sorted into lines: which belong together, in which order, and which must not be averaged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mfec.algorithms import RunConfig
from mfec.algorithms.baselines.settings import DQNConfig
from mfec.cli import main
from mfec.config import EnvConfig
from mfec.figures.lines import FigureError, curve_settings, kind_of, label_of, settings_of, sort_runs, title_of
from mfec.run_directory import RunDirectory

from .run_files import baseline, evaluated, mfec, vae, write_run


def on_gpu(config: RunConfig) -> RunConfig:
    return replace(config, agent=replace(config.agent, device="cuda"))


def write(path: Path, *configs: RunConfig) -> list[RunDirectory]:
    return [write_run(path / str(number), config, [(100, 1.0)]) for number, config in enumerate(configs)]


def test_every_algorithm_and_embedding_is_a_line(tmp_path):
    configs = [baseline("a2c"), baseline("dqn"), vae(), mfec(), baseline("prioritised_dqn"), mfec(embedding="identity")]
    assert [line.label for line in sort_runs(write(tmp_path, *configs))] == [
        "MFEC, random projections",
        "MFEC, VAE",
        "MFEC, no embedding",
        "DQN",
        "prioritised DQN",
        "A2C (synchronous A3C)",
    ]


def test_seeds_are_one_line_whatever_searched_and_however_far(tmp_path):
    first = mfec(index="exact")
    configs = [
        first,
        replace(first, seed=1, total_frames=500),
        mfec(seed=2, index="cells"),
        mfec(seed=3, device="cuda", index="auto"),
    ]
    runs = write(tmp_path, *configs)
    [line] = sort_runs(runs)
    assert line.runs == tuple(runs)
    assert (line.env, line.algorithm, line.embedding, line.config) == ("qbert", "mfec", "random_projection", first)


def test_a_vae_of_the_run_itself_is_a_vae(tmp_path):
    [line] = sort_runs(write(tmp_path, mfec(embedding="vae")))
    assert line.label == "MFEC, VAE"


def test_environments_come_in_the_order_of_the_paper(tmp_path):
    known = [
        "ms_pacman", "space_invaders", "qbert", "frostbite", "river_raid",
        "labyrinth_forage", "labyrinth_forage_and_avoid", "labyrinth_double_t_maze",
    ]  # fmt: skip
    envs = ["CartPole-v1", *reversed(known), "asterix"]
    lines = sort_runs(write(tmp_path, *map(mfec, envs)))
    assert [line.env for line in lines] == [*known, "CartPole-v1", "asterix"]
    assert [line.title for line in lines] == [
        "Ms. Pac-Man", "Space Invaders", "Q*bert", "Frostbite", "River Raid",
        "Forage", "Forage and Avoid", "Double T-Maze", "CartPole-v1", "Asterix",
    ]  # fmt: skip


@pytest.mark.parametrize(("other", "said"), [
    (mfec(seed=1, k=5), "k 11 and k 5"),
    (mfec(seed=1, few_neighbours="zero"), "few_neighbours mean and few_neighbours zero"),
    (replace(mfec(seed=1), environment=EnvConfig(n_envs=4)), "n_envs 1 and n_envs 4"),
])  # fmt: skip
def test_runs_of_other_settings_are_not_averaged(tmp_path, other, said):
    runs = write(tmp_path, mfec(), other)
    with pytest.raises(FigureError) as error:
        sort_runs(runs)
    assert str(error.value) == (
        f"{tmp_path / '0'} and {tmp_path / '1'} are both MFEC, random projections on qbert, but differ in {said}; "
        "name the directories to draw, so that they are of one kind"
    )


def test_an_encoder_of_ones_own_is_another_setting(tmp_path):
    own = replace(mfec(embedding="vae", seed=1), total_frames=2_000_000)
    with pytest.raises(FigureError, match="differ in vae qbert and no vae"):
        sort_runs(write(tmp_path, vae(), own))


def test_settings_of_baselines_count_too(tmp_path):
    other = replace(baseline("dqn", seed=1), agent=DQNConfig(gamma=0.9))
    with pytest.raises(FigureError, match=r"both DQN on qbert, but differ in gamma 0\.99 and gamma 0\.9;"):
        sort_runs(write(tmp_path, baseline("dqn"), other))


def test_settings_of_what_did_not_run_do_not_count():
    assert settings_of(mfec())["gamma"] == 1.0  # neither that of DQN nor of A2C
    assert settings_of(mfec())["epsilon"] == 0.005
    assert "k" not in settings_of(baseline("dqn"))
    assert settings_of(baseline("prioritised_dqn"))["learning_rate"] == 0.00025 / 4
    assert settings_of(baseline("a2c"))["learning_rate"] == 0.0007
    assert "replay_capacity" not in settings_of(baseline("a2c"))


def test_other_environments_and_other_algorithms_may_have_other_settings(tmp_path):
    configs = [mfec(k=5), mfec("frostbite", k=7), replace(vae(), environment=EnvConfig(n_envs=8))]
    assert [len(line.runs) for line in sort_runs(write(tmp_path, *configs))] == [1, 1, 1]


def test_a_seed_counts_once(tmp_path):
    with pytest.raises(FigureError) as error:
        sort_runs(write(tmp_path, mfec(seed=1, index="exact"), mfec(seed=2), mfec(seed=1, index="cells")))
    assert str(error.value) == (
        f"{tmp_path / '0'} and {tmp_path / '2'} are both seed 1 of MFEC, random projections on qbert; "
        "name only one of them"
    )


@pytest.mark.parametrize("command", [
    ["plot"], ["figure", "figure1"], ["figure", "figure2", "--embedding", "random_projection"],
    ["figure", "match_rates"], ["figure", "table"],
])  # fmt: skip
def test_every_command_refuses_a_seed_that_is_there_twice(tmp_path, capsys, command):
    write(tmp_path, mfec(), replace(mfec(), total_frames=5_000_000))
    assert main([*command, str(tmp_path), *(["--out", str(tmp_path / "out.png")])]) == 1
    assert capsys.readouterr().err == (
        f"mfec: {tmp_path / '0'} and {tmp_path / '1'} are both seed 0 of MFEC, random projections on qbert; "
        "name only one of them\n"
    )


def test_a_game_has_one_line_however_it_was_spelled(tmp_path):
    runs = write(tmp_path, mfec("ms_pacman"), mfec("ms_pacman", seed=1))
    config = runs[1].config_file
    config.write_text(config.read_text().replace('env = "ms_pacman"', 'env = "mspacman"'))  # as it was once stored
    [line] = sort_runs(runs)
    assert (line.env, line.title, len(line.runs)) == ("ms_pacman", "Ms. Pac-Man", 2)


@pytest.mark.parametrize(("one", "other"), [
    (mfec(index="exact"), mfec(device="cuda", index="cuda")), (mfec(index="exact"), mfec(device="cuda", index="auto")),
    (mfec(), replace(mfec(seed=5), total_frames=7)), (baseline("nec"), on_gpu(baseline("nec"))),
])  # fmt: skip
def test_what_does_not_change_a_run_makes_no_other_curve(one, other):
    assert curve_settings(one) == curve_settings(other)


@pytest.mark.parametrize("other", [mfec(index="cells"), mfec(index="auto"), mfec(k=3), mfec("frostbite")])
def test_what_changes_a_run_makes_another_curve(other):
    assert curve_settings(mfec(index="exact")) != curve_settings(other)


EVALUATIONS = [
    evaluated(mfec()), evaluated(mfec(seed=1), every=5000), evaluated(mfec(seed=2), games=10),
    evaluated(mfec(seed=3), epsilon=0.05), mfec(seed=4),
]  # fmt: skip


def test_how_a_run_was_evaluated_does_not_matter_to_its_training(tmp_path):
    runs = write(tmp_path, *EVALUATIONS)
    [line] = sort_runs(runs)
    assert line.runs == tuple(runs)
    assert [curve_settings(config) for config in EVALUATIONS] == [curve_settings(mfec())] * 5
    assert not [name for name in settings_of(EVALUATIONS[3]) if "evaluat" in name]


def test_how_often_a_run_was_evaluated_never_matters(tmp_path):
    one, other, *_, without = EVALUATIONS
    [line] = sort_runs(write(tmp_path, without, one, other), score="greedy")
    assert len(line.runs) == 3
    assert curve_settings(one, score="greedy") == curve_settings(other, score="greedy")
    assert settings_of(one, score="greedy") == settings_of(other, score="greedy") | {"seed": 0}


@pytest.mark.parametrize(("other", "said"), [
    (EVALUATIONS[2], "evaluate_games 30 and evaluate_games 10"),
    (EVALUATIONS[3], "evaluate_epsilon 0.0 and evaluate_epsilon 0.05"),
])  # fmt: skip
@pytest.mark.parametrize("apart", [[], ["k"]])
def test_evaluations_of_different_kinds_are_not_averaged(tmp_path, other, said, apart):
    runs = write(tmp_path, EVALUATIONS[4], EVALUATIONS[0], other)  # the first was not evaluated, and has no kind
    with pytest.raises(FigureError) as error:
        sort_runs(runs, apart=apart, score="greedy")
    assert str(error.value) == (
        f"{tmp_path / '1'} and {tmp_path / '2'} are both MFEC, random projections on qbert, but differ in {said}; "
        "name the directories to draw, so that they are of one kind"
    )


def test_settings_can_be_kept_apart(tmp_path):
    lines = sort_runs(write(tmp_path, mfec(k=11), mfec(k=100), mfec(k=5), mfec(k=11, seed=1)), apart=["k"])
    assert [(line.config.agent.k, len(line.runs)) for line in lines] == [(5, 1), (11, 2), (100, 1)]
    with pytest.raises(FigureError, match="differ in epsilon"):
        sort_runs(write(tmp_path, mfec(k=5), mfec(k=5, seed=1, epsilon=0.1)), apart=["k"])


def test_names():
    assert title_of("ALE/Qbert-v5") == "ALE/Qbert-v5"
    assert label_of("mfec", "auto") == "MFEC, auto"
    assert {kind_of(env) for env in ("qbert", "pong", "ALE/Pong-v5")} == {"Atari games"}
    assert {kind_of(env) for env in ("labyrinth_forage", "mfec/Labyrinth-Forage-v0")} == {"Labyrinth levels"}
    assert {kind_of(env) for env in ("CartPole-v1", "VizdoomBasic-v1")} == {"Other environments"}
