"""One name for one environment: every door that a name comes in by, and what is kept behind it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mfec import agent_defaults
from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.canonical_names import GAMES, LEVEL_IDS, canonical_name
from mfec.cli import main
from mfec.envs import make_atari, make_env
from mfec.envs.atari import atari_games
from mfec.envs.labyrinth import LEVELS
from mfec.envs.names import is_atari, is_labyrinth
from mfec.experiments.grid import Choices, expand, read_experiment
from mfec.experiments.play import level_to_play
from mfec.experiments.train import resolve
from mfec.experiments.vae_directory import VAEDirectory, VAEDirectoryError, VAEJob
from mfec.figures.literature import bounds
from mfec.run_directory import RunDirectory

from .waiting import PATIENCE

TINY = ["--total-frames", "80", "--capacity", "50", "--no-video"]


@pytest.mark.parametrize(("given", "kept"), [
    ("mspacman", "ms_pacman"), ("ms_pac_man", "ms_pacman"), ("riverraid", "river_raid"), ("q_bert", "qbert"),
    ("qbert", "qbert"), ("tictactoe3d", "tic_tac_toe_3d"),
    ("mfec/Labyrinth-DoubleTMaze-v0", "labyrinth_double_t_maze"),
    ("mfec.envs:mfec/Labyrinth-Forage-v0", "labyrinth_forage"),
    ("ale_py:ALE/MsPacman-v5", "ALE/MsPacman-v5"),
])  # fmt: skip
def test_every_spelling_has_one_name(given, kept):
    assert canonical_name(given) == kept
    assert canonical_name(kept) == kept
    assert RunConfig(given, 1000).env == kept
    assert agent_defaults(given) == agent_defaults(kept)


@pytest.mark.parametrize("name", [
    "", "ALE/MsPacman-v5", "MsPacman-v4", "CartPole-v1", "Qbert", "nothing_of_the_kind", "VizdoomBasic-v1",
    "labyrinth_forrage", "small_maze:mfec/Labyrinth-Small-v0", "some_module:ALE/Own-v0", "runs/vae/mspacman",
])  # fmt: skip
def test_other_names_stay_as_they_are(name):
    assert canonical_name(name) == name


def test_every_game_and_every_level_is_known():
    assert set(atari_games()) <= set(GAMES)
    assert {level.id: level.name for level in LEVELS.values()} == LEVEL_IDS
    assert set(bounds()) <= set(GAMES)


def test_environments_can_be_made_by_any_spelling():
    plain, other, third = make_atari("ms_pacman"), make_atari("mspacman"), make_env("ms_pac_man")
    assert np.array_equal(plain.reset(seed=3)[0], other.reset(seed=3)[0])
    assert np.array_equal(plain.reset(seed=3)[0], third.reset(seed=3)[0])
    assert is_atari("mspacman")
    assert make_env("mfec.envs:mfec/Labyrinth-Forage-v0").level.name == "labyrinth_forage"
    assert is_labyrinth("mfec.envs:mfec/Labyrinth-Forage-v0")
    assert level_to_play("mfec/Labyrinth-Forage-v0") is LEVELS["labyrinth_forage"]


def test_without_ale_py_an_old_run_still_has_its_one_name(tmp_path):
    run = old_run(tmp_path / "run")
    code = f"""
import sys
sys.modules["ale_py"] = sys.modules["gymnasium"] = None
from mfec.run_directory import RunDirectory
print(RunDirectory({str(run.path)!r}).read_config().env)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "ms_pacman\n", done.stderr


def old_run(path: Path) -> RunDirectory:
    """A run that was stored under the name that was given."""
    run = RunDirectory(path)
    run.create(RunConfig("ms_pacman", 400, agent=MFECConfig(capacity=50, embedding="random_projection")))
    spell_as_once(run)
    return run


def spell_as_once(run: RunDirectory) -> None:
    run.config_file.write_text(run.config_file.read_text().replace('"ms_pacman"', '"mspacman"'))


def test_a_run_is_kept_under_its_one_name(tmp_path, monkeypatch, capsys):
    """In its folder and its settings; what was stored under another name goes on."""
    monkeypatch.chdir(tmp_path)
    assert main(["train", "mspacman", "ms_pacman", *TINY]) == 0
    assert [path.name for path in Path("runs").iterdir()] == ["ms_pacman"]
    run = RunDirectory("runs/ms_pacman")
    assert 'env = "ms_pacman"' in run.config_file.read_text()
    spell_as_once(run)
    assert main(["train", "mspacman", *TINY, "--total-frames", "120", "--resume"]) == 0
    assert "going on from frame 80" in capsys.readouterr().out
    assert 'env = "ms_pacman"' in run.config_file.read_text()


def test_experiments_take_any_spelling():
    choices = Choices(games=("mspacman",), levels=("mfec/Labyrinth-Forage-v0",), seeds=1)
    runs = expand(read_experiment("match_rates"), choices)
    assert {run.config.env for run in runs} == {"ms_pacman", "labyrinth_forage"}
    assert {run.place.parts[0] for run in runs} == {"ms_pacman", "labyrinth_forage"}


# -- Encoders ---------------------------------------------------------------------------------------------------------


def test_an_encoder_that_ships_has_one_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, config = resolve(RunConfig("mspacman", 400, agent=MFECConfig(vae="mspacman")), RunDirectory(tmp_path / "run"))
    assert (config.agent.embedding, config.agent.vae) == ("vae", "ms_pacman")


def test_a_directory_of_that_name_is_taken_for_itself(tmp_path, monkeypatch, make_encoder):
    monkeypatch.chdir(tmp_path)
    make_encoder(tmp_path / "mspacman")
    _, config = resolve(RunConfig("mspacman", 400, agent=MFECConfig(vae="mspacman")), RunDirectory(tmp_path / "run"))
    assert config.agent.vae == "mspacman"


def test_the_training_of_a_vae_is_kept_under_the_one_name(tmp_path):
    job = VAEJob("mspacman", tmp_path)
    assert job.env == "ms_pacman"
    directory = VAEDirectory(tmp_path)
    directory.begin(job, resume=False)
    stored = directory.config_file.read_text()
    assert 'env = "ms_pacman"' in stored
    directory.config_file.write_text(stored.replace('"ms_pacman"', '"mspacman"'))  # as it was once
    directory.begin(job, resume=True)
    with pytest.raises(VAEDirectoryError, match="was begun with env = ms_pacman, it cannot go on with qbert"):
        directory.begin(VAEJob("qbert", tmp_path), resume=True)
