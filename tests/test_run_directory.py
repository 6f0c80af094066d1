"""The run directory: settings that read back as they were, tables that are cut where a checkpoint ends."""

from __future__ import annotations

import math
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfec import __version__
from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.checkpoint import CheckpointError
from mfec.config import EnvConfig
from mfec.envs import make_env
from mfec.run_directory import RunDirectory, RunDirectoryError, find_runs

CONFIG = RunConfig("FrozenLake-v1", 5000, 3, MFECConfig(k=5, embedding="identity"), EnvConfig(n_envs=2))
EPISODES_HEADER = "frames,episode,return,length_frames\n"
PROGRESS_HEADER = "frames,seconds,steps_per_second,return_mean_100\n"

searches = st.sampled_from(
    [("cpu", index) for index in ("exact", "cells", "cuda", "auto")] + [("cuda", "cuda"), ("cuda", "auto")]
)
agents = st.builds(
    lambda search, **settings: MFECConfig(device=search[0], index=search[1], **settings),
    searches,
    k=st.integers(1, 10**6),
    kernel=st.sampled_from(["mean", "inverse"]),
    gamma=st.floats(0, 1, exclude_min=True),
    epsilon=st.floats(0, 1),
    capacity=st.integers(1, 2**62),
    embedding=st.sampled_from(["random_projection", "identity"]),
    recall=st.floats(0, 1, exclude_min=True),
    eviction=st.sampled_from(["updated", "used"]),
    update=st.sampled_from(["max", "replace"]),
    few_neighbours=st.sampled_from(["infinity", "mean", "zero"]),
    ties=st.sampled_from(["random", "first"]),
    episode=st.sampled_from(["game", "life"]),
)
environments = st.builds(EnvConfig, n_envs=st.integers(1, 999), sticky_actions=st.floats(0, 1, exclude_max=True))
names = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=30)
configs = st.builds(
    RunConfig, names, st.integers(1, 2**62), st.integers(0, 2**130), agent=agents, environment=environments
)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory(tmp_path / "run")
    directory.create(CONFIG)
    return directory


# -- Settings ---------------------------------------------------------------------------------------------------------


@given(config=configs)
def test_settings_read_back_equal(config, tmp_path_factory):
    directory = RunDirectory(tmp_path_factory.getbasetemp() / "settings")
    directory.create(config)
    assert directory.read_config() == config


def test_a_new_run_has_its_settings_and_empty_tables(run):
    values = tomllib.loads(run.config_file.read_text())
    assert values["mfec"] == __version__
    assert (values["env"], values["total_frames"], values["seed"]) == ("FrozenLake-v1", 5000, 3)
    assert set(values["agent"]) == {field.name for field in fields(MFECConfig)}
    assert set(values["environment"]) == {field.name for field in fields(EnvConfig)}
    assert run.episodes_file.read_text() == EPISODES_HEADER
    assert run.progress_file.read_text() == PROGRESS_HEADER
    assert run.exists
    assert not run.has_checkpoint
    assert sorted(file.name for file in run.path.iterdir()) == ["config.toml", "episodes.csv", "progress.csv"]


def test_a_directory_without_settings_is_no_run(tmp_path):
    directory = RunDirectory(tmp_path)
    assert not directory.exists
    with pytest.raises(RunDirectoryError, match=r"is no run directory: config\.toml is missing"):
        directory.read_config()


@pytest.mark.parametrize("text", [
    "", "not toml", 'mfec = "0.1.0"', 'mfec = "0.1.0"\n[agent]\n[environment]\n', "\x00", "[agent]\nk = 11",
    'mfec = "1"\nenv = "e"\ntotal_frames = 5\ncolour = 3\n[agent]\n[environment]\n',
    'mfec = "1"\nenv = "e"\ntotal_frames = 5\n[agent]\nk = 0\n[environment]\n',
    'mfec = "1"\nenv = "e"\ntotal_frames = 5\n[agent]\nk = "many"\n[environment]\n',
    'mfec = "1"\nenv = "e"\ntotal_frames = 0\n[agent]\n[environment]\n',
    'mfec = "1"\nenv = "e"\ntotal_frames = 5\nagent = 3\nenvironment = 4\n',
])  # fmt: skip
def test_damaged_settings_are_an_error_that_names_the_file(run, text):
    run.config_file.write_text(text)
    with pytest.raises(RunDirectoryError, match=r"config\.toml cannot be read"):
        run.read_config()


def test_settings_that_are_not_text_are_an_error_that_names_the_file(run):
    run.config_file.write_bytes(b"\xff\xfe\x80")
    with pytest.raises(RunDirectoryError, match=r"config\.toml cannot be read"):
        run.read_config()


def test_a_run_goes_on_with_the_same_settings_only(run):
    run.check_same(CONFIG)
    run.check_same(replace(CONFIG, total_frames=9000))
    run.check_same(replace(CONFIG, agent=replace(CONFIG.agent, embedding="auto")))  # not resolved yet
    others = {
        "env": replace(CONFIG, env="CartPole-v1"),
        "seed": replace(CONFIG, seed=4),
        "k": replace(CONFIG, agent=replace(CONFIG.agent, k=6)),
        "gamma": replace(CONFIG, agent=replace(CONFIG.agent, gamma=0.5)),
        "index": replace(CONFIG, agent=replace(CONFIG.agent, index="exact")),
        "embedding": replace(CONFIG, agent=replace(CONFIG.agent, embedding="random_projection")),
        "n_envs": replace(CONFIG, environment=replace(CONFIG.environment, n_envs=3)),
    }
    for name, config in others.items():
        with pytest.raises(RunDirectoryError, match=rf"was begun with {name} = .*, it cannot go on with"):
            run.check_same(config)


CPU_AUTO, EXACT, CELLS, CUDA_ON_CPU = (("cpu", index) for index in ("auto", "exact", "cells", "cuda"))
GPU, GPU_AUTO = ("cuda", "cuda"), ("cuda", "auto")
EXACT_SEARCHES = [EXACT, CUDA_ON_CPU, GPU, GPU_AUTO]


def searching(search: tuple[str, str]) -> RunConfig:
    return replace(CONFIG, agent=replace(CONFIG.agent, device=search[0], index=search[1]))


@pytest.mark.parametrize("after", EXACT_SEARCHES)
@pytest.mark.parametrize("before", EXACT_SEARCHES)
def test_a_run_goes_on_with_another_exact_search_on_any_device(run, before, after):
    run.create(searching(before))
    run.check_same(searching(after))
    run.check_same(replace(searching(after), total_frames=9000))
    with pytest.raises(RunDirectoryError, match="was begun with k = 5, it cannot go on with 6"):
        run.check_same(replace(CONFIG, agent=replace(searching(after).agent, k=6)))


@pytest.mark.parametrize(("before", "after"), [
    *((CPU_AUTO, other) for other in (EXACT, CELLS, CUDA_ON_CPU, GPU)),
    *((CELLS, other) for other in (CPU_AUTO, EXACT, CUDA_ON_CPU, GPU, GPU_AUTO)),
    *((other, CELLS) for other in (EXACT, CUDA_ON_CPU, GPU, GPU_AUTO)),
    *((other, CPU_AUTO) for other in (EXACT, CUDA_ON_CPU, GPU)),
])  # fmt: skip
def test_a_run_does_not_go_on_with_a_search_that_may_find_others(run, before, after):
    run.create(searching(before))
    message = f"was begun with index = {before[1]}, it cannot go on with {after[1]}"
    with pytest.raises(RunDirectoryError, match=message):
        run.check_same(searching(after))


def test_the_checkpoint_of_another_run_is_refused(run):
    env = make_env(CONFIG.env, CONFIG.environment)
    config = CONFIG.kind.resolve(CONFIG, env)
    config.kind.make(env, config).save(run.checkpoint)
    assert config.kind.load(run.checkpoint, env, config).seed == CONFIG.seed
    for other in (replace(config, agent=replace(config.agent, k=6)), replace(config, seed=CONFIG.seed + 1)):
        with pytest.raises(CheckpointError, match=r"checkpoint is of another run: its settings are not those of"):
            other.kind.load(run.checkpoint, env, other)


def test_a_place_that_cannot_be_written_is_an_error_that_names_it(tmp_path):
    (tmp_path / "taken").write_text("mine")
    for path in (tmp_path / "taken", tmp_path / "taken" / "below"):
        with pytest.raises(RunDirectoryError, match=r"cannot begin a run in .*taken"):
            RunDirectory(path).create(CONFIG)
    assert (tmp_path / "taken").read_text() == "mine"


# -- Tables -----------------------------------------------------------------------------------------------------------


def test_tables_read_back_by_column(run):
    with run.episodes_file.open("a") as file:
        file.write("120,1,2.5,120\n200,2,-1e-07,80\n")
    columns = [*PROGRESS_HEADER.strip().split(","), "memory_bytes", "recall"]
    assert run.progress_columns(columns) == columns
    with run.progress_file.open("a") as file:
        file.write("100,0.5,200.0,,5000,\n")
    assert run.episodes() == {
        "frames": [120.0, 200.0],
        "episode": [1.0, 2.0],
        "return": [2.5, -1e-07],
        "length_frames": [120.0, 80.0],
    }
    progress = run.progress()
    assert progress["frames"] == [100.0]
    assert math.isnan(progress["return_mean_100"][0])  # no game has ended yet
    assert progress["memory_bytes"] == [5000.0]
    assert math.isnan(progress["recall"][0])  # the search is exact


def test_a_row_that_was_not_written_to_its_end_is_left_out(run):
    run.episodes_file.write_text(EPISODES_HEADER + "120,1,2.5,120\n200,2,1.0")
    assert run.episodes()["frames"] == [120.0]


@pytest.mark.parametrize("text", ["", "frames,episode\nmany,few\n"])
def test_a_table_that_cannot_be_read_is_named(run, text):
    run.episodes_file.write_text(text)
    with pytest.raises(RunDirectoryError, match=r"episodes\.csv cannot be read"):
        run.episodes()
    run.episodes_file.unlink()
    with pytest.raises(RunDirectoryError, match=r"episodes\.csv cannot be read"):
        run.episodes()


def test_what_was_written_after_the_checkpoint_is_cut(run):
    games = [f"{100 * i},{i},1.0,100\n" for i in range(1, 8)]
    rows = [f"{100 * i},1.0,2.0,1.0\n" for i in range(1, 8)]
    run.episodes_file.write_text(EPISODES_HEADER + "".join(games) + "800,8,1.")  # the last one torn
    run.progress_file.write_text(PROGRESS_HEADER + "".join(rows) + "8")
    run.cut_tables(games=5, frames=540)
    assert run.episodes_file.read_text() == EPISODES_HEADER + "".join(games[:5])
    assert run.progress_file.read_text() == PROGRESS_HEADER + "".join(rows[:5])
    run.cut_tables(games=5, frames=500)  # a row at the checkpoint's own frame was written before it
    assert run.progress_file.read_text() == PROGRESS_HEADER + "".join(rows[:5])
    run.cut_tables(games=0, frames=0)
    assert run.episodes_file.read_text() == EPISODES_HEADER
    assert run.progress_file.read_text() == PROGRESS_HEADER
    assert sorted(file.name for file in run.path.iterdir()) == ["config.toml", "episodes.csv", "progress.csv"]


def test_progress_keeps_the_columns_that_its_rows_have(run):
    run.progress_columns(["frames", "seconds"])
    with run.progress_file.open("a") as file:
        file.write("100,0.5\n")
    assert run.progress_columns(["frames", "seconds", "recall"]) == ["frames", "seconds"]
    assert run.progress() == {"frames": [100.0], "seconds": [0.5]}


def test_a_table_with_fewer_games_than_the_checkpoint_is_an_error(run):
    run.episodes_file.write_text(EPISODES_HEADER + "120,1,2.5,120\n")
    with pytest.raises(RunDirectoryError, match=r"episodes\.csv has 1 games, the checkpoint 2"):
        run.cut_tables(games=2, frames=300)


@pytest.mark.parametrize(("name", "text"), [
    ("episodes.csv", None), ("episodes.csv", ""),
    ("progress.csv", None), ("progress.csv", ""), ("progress.csv", PROGRESS_HEADER + "many,1,1,1\n"),
])  # fmt: skip
def test_tables_that_cannot_be_cut_are_named(run, name, text):
    if text is None:
        (run.path / name).unlink()
    else:
        (run.path / name).write_text(text)
    with pytest.raises(RunDirectoryError, match=name):
        run.cut_tables(games=0, frames=300)


# -- Runs in a directory ----------------------------------------------------------------------------------------------


def test_runs_are_found_where_named_and_anywhere_below(tmp_path):
    for name in ("b/seed-1", "b/seed-0", "a"):
        RunDirectory(tmp_path / name).create(CONFIG)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "config.toml").write_text("")  # of something else: no table of episodes beside it
    assert [run.path for run in find_runs([tmp_path])] == [tmp_path / name for name in ("a", "b/seed-0", "b/seed-1")]
    assert [run.path for run in find_runs([tmp_path / "b", tmp_path / "a"])] == [
        tmp_path / name for name in ("b/seed-0", "b/seed-1", "a")
    ]


def test_a_run_named_twice_is_one_run(tmp_path):
    """Counted twice it would be two seeds, with a standard error that is too small."""
    RunDirectory(tmp_path / "a").create(CONFIG)
    assert len(find_runs([tmp_path, tmp_path / "a", tmp_path / "a"])) == 1


def test_no_runs_are_an_error_that_names_the_place(tmp_path):
    with pytest.raises(RunDirectoryError, match=r"there is no directory .*nowhere"):
        find_runs([tmp_path / "nowhere"])
    with pytest.raises(RunDirectoryError, match="there is no run in"):
        find_runs([tmp_path])
