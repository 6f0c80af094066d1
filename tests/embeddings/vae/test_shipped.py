"""The encoders that come with the package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mfec.embeddings.vae
from mfec.embeddings.vae import VAE, Architecture, shipped_names
from mfec.embeddings.vae.files import find_files, read_network

SHIPPED = Path(mfec.embeddings.vae.__file__).parent / "shipped"
LEVELS = ["labyrinth_double_t_maze", "labyrinth_forage", "labyrinth_forage_and_avoid"]
GAMES = ["frostbite", *LEVELS, "ms_pacman", "qbert", "river_raid", "space_invaders"]


def some_frames(n: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, 84, 84), np.uint8)


def test_there_is_one_for_each_of_the_paper_s_games_and_levels() -> None:
    assert shipped_names() == GAMES


@pytest.mark.parametrize(
    ("spelling", "name"),
    [("mspacman", "ms_pacman"), ("mfec/Labyrinth-Forage-v0", "labyrinth_forage"), ("qbert", "qbert")],
)
def test_they_are_found_however_the_environment_is_spelled(spelling: str, name: str) -> None:
    assert find_files(spelling) == SHIPPED / name


@pytest.mark.parametrize("part", ["encoder", "decoder"])
@pytest.mark.parametrize("game", GAMES)
def test_files_are_small(game: str, part: str) -> None:
    assert (SHIPPED / game / f"{part}.safetensors").stat().st_size < 2.5e6


@pytest.mark.parametrize("game", GAMES)
def test_it_loads_by_name_and_has_the_paper_s_layers(game: str) -> None:
    vae = VAE.load(game)
    assert vae.source == SHIPPED / game
    assert vae.architecture == Architecture((84, 84))
    assert vae.dim == 64
    vae.check_fits(np.dtype(np.uint8), (84, 84))
    states = vae(some_frames(3))
    assert states.shape == (3, 64)
    assert states.dtype == np.float32
    assert np.isfinite(states).all()
    assert len(np.unique(states, axis=0)) == 3


@pytest.mark.parametrize("game", GAMES)
def test_its_decoder_comes_with_it(game: str) -> None:
    assert read_network(SHIPPED / game, "decoder")[0] == Architecture((84, 84))
    vae = VAE.load(game)
    assert vae.reconstruct(some_frames(2)).shape == (2, 84, 84)
    assert np.isfinite(vae.costs(some_frames(2))).all()


@pytest.mark.parametrize("game", GAMES)
def test_it_was_trained(game: str) -> None:
    """First weights lie within 1 over the square root of a layer's inputs."""
    tensors = read_network(SHIPPED / game, "encoder")[1]
    for name, inputs in (("convolutions.1", 32 * 5 * 5), ("hidden", 576), ("posterior", 512)):
        assert np.abs(tensors[f"{name}.weight"]).max() > 1.01 / np.sqrt(inputs)


def test_each_is_another() -> None:
    assert len({VAE.load(game).digest for game in GAMES}) == len(GAMES)
