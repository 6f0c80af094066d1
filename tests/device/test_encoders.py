"""Encoders on a device: the states of the CPU, one batch for all runs that share one, and a run that is the same."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.config import EnvConfig
from mfec.device import Channel, DeviceError, open_channel
from mfec.device.engine import Engine, Request
from mfec.device.local import LocalChannel
from mfec.embeddings import VAE, RandomProjection
from mfec.experiments.train import train
from mfec.memory import EpisodicMemory

from .serving import at_once, parts

SIZE, K = 84 * 84, 3
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def vae(encoder: Path) -> VAE:
    return VAE.load(encoder)


@pytest.fixture(scope="module")
def other(make_encoder) -> VAE:
    return VAE.load(make_encoder(seed=1))


def pictures(n: int, seed: int) -> np.ndarray:
    """Observations as a run sends them, uint8 (n, pixels)."""
    return np.random.default_rng(seed).integers(0, 256, (n, SIZE), np.uint8)


def states(vae: VAE, seen: np.ndarray) -> np.ndarray:
    return vae(seen.reshape(-1, 84, 84))


def begin(channel: Channel, vae: VAE, seed: int, n_actions: int = 2) -> None:
    """Twenty entries for each action, the states of pictures."""
    channel.open(n_actions, 100, vae.dim)
    channel.encode_with(vae)
    n = 20 * n_actions
    channel.store(
        np.repeat(np.arange(n_actions), 20), np.tile(np.arange(20), n_actions), states(vae, pictures(n, seed))
    )


def look_up(channel: Channel, seen: np.ndarray, n_actions: int = 2) -> Any:
    return channel.look_up(seen, np.ones((len(seen), n_actions), np.bool_), K)


# -- Look-ups ---------------------------------------------------------------------------------------------------------


def test_a_look_up_of_pictures_finds_what_is_nearest_to_their_states(vae, owner):
    stored, seen = states(vae, pictures(40, 0)).astype(np.float64).reshape(2, 20, vae.dim), pictures(5, 1)
    for channel in (open_channel("cpu"), owner.connect()):
        begin(channel, vae, 0)
        found = look_up(channel, seen)
        assert found.states.tobytes() == states(vae, seen).tobytes()
        for row, state in enumerate(found.states.astype(np.float64)):
            for action in range(2):
                squared = ((stored[action] - state) ** 2).sum(axis=1)
                assert found.slots[row, action, :K].tolist() == np.argsort(squared)[:K].tolist()
                assert found.squared[row, action, :K] == pytest.approx(np.sort(squared)[:K])


def test_a_pipe_gives_the_answers_of_a_channel_in_this_process(vae, owner):
    seen = [pictures(1, 1), pictures(7, 2), pictures(1, 3)]
    answers = []
    for channel in (open_channel("cpu"), owner.connect()):
        begin(channel, vae, 0)
        own = [look_up(channel, each) for each in seen]
        own.append(look_up(channel, states(vae, seen[1])))  # states need no encoder
        answers.append([part for found in own for part in parts(found)])
    assert answers[0] == answers[1]


def test_pictures_of_another_size_are_the_trouble_of_their_run_alone(vae, owner):
    good, bad = owner.connect(), owner.connect()
    begin(good, vae, 0)
    begin(bad, vae, 0)
    found, error = at_once(
        owner, lambda: look_up(good, pictures(2, 1)), lambda: look_up(bad, pictures(2, 1)[:, :-1].copy())
    )
    assert isinstance(error, DeviceError)
    assert found.states.tobytes() == states(vae, pictures(2, 1)).tobytes()


class Counted(VAE):
    """Counts how often it is taken to a device, and the batches that it encodes there."""

    taken = 0
    batches: list[int]

    def on(self, device: str) -> Any:
        Counted.taken += 1
        encode, batches = super().on(device), self.batches

        def counting(observations: np.ndarray) -> np.ndarray:
            batches.append(len(observations))
            return encode(observations)

        return counting


def counted(encoder: Path, batches: list[int]) -> Counted:
    vae = Counted.load(encoder)
    vae.batches = batches  # type: ignore[attr-defined]
    return vae


def test_runs_with_equal_encoders_share_one(encoder, other, monkeypatch):
    monkeypatch.setattr(Counted, "taken", 0)
    engine = Engine("cpu")
    batches: list[int] = []
    channels = [LocalChannel(engine) for _ in range(3)]
    for channel, vae in zip(channels, (counted(encoder, batches), counted(encoder, []), other), strict=True):
        begin(channel, vae, 0)
    assert Counted.taken == 1
    assert channels[0].run.encoder is channels[1].run.encoder
    assert channels[0].run.encoder is not channels[2].run.encoder
    everything = np.ones((2, 2), np.bool_)
    engine.look_up([Request(channel.run, pictures(2, 1), everything, K) for channel in channels])
    assert batches == [4]  # both runs at once


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [5, 2, 4, 0, 3, 1]])
def test_look_ups_with_and_without_encoders_are_answered_together_as_alone(vae, other, order):
    engine = Engine("cpu")
    channels = [LocalChannel(engine) for _ in range(4)]
    for number, (channel, encoder) in enumerate(zip(channels, (vae, vae, other), strict=False)):
        begin(channel, encoder, number, n_actions=2 + number)
    begin(channels[3], vae, 3)
    channels[3].run.encoder = None
    channels[3].project_with(RandomProjection(SIZE, vae.dim, seed=0).weights)
    requests = [
        Request(channels[0].run, pictures(2, 4), np.ones((2, 2), np.bool_), K),
        Request(channels[1].run, pictures(1, 5), np.ones((1, 3), np.bool_), K),
        Request(channels[2].run, pictures(3, 6), np.ones((3, 4), np.bool_), K),
        Request(channels[3].run, pictures(2, 7), np.ones((2, 2), np.bool_), K),
        Request(channels[0].run, states(vae, pictures(2, 8)), np.ones((2, 2), np.bool_), K),
        Request(channels[2].run, pictures(2, 9), np.ones((2, 4), np.bool_), 5),
    ]
    alone = [parts(engine.look_up([request])[0]) for request in requests]
    together = engine.look_up([requests[i] for i in order])
    assert [parts(found) for found in together] == [alone[i] for i in order]


def test_a_memory_that_is_not_on_a_device_leaves_encoding_to_the_agent(vae):
    assert EpisodicMemory(2, vae.dim, capacity=10, index="cuda").embed_with(vae) is True
    assert EpisodicMemory(2, vae.dim, capacity=10, index="exact").embed_with(vae) is False


# -- Runs -------------------------------------------------------------------------------------------------------------


def config(encoder: Path, index: Any) -> RunConfig:
    agent = MFECConfig(embedding="vae", vae=str(encoder), capacity=60, index=index)
    return RunConfig("qbert", 400, 0, agent, EnvConfig(max_frames=120))


def test_a_run_that_encodes_on_the_device_plays_the_same_games(encoder, tmp_path):
    games = []
    for index in ("exact", "cuda"):
        train(config(encoder, index), tmp_path / index, console=Console(file=io.StringIO()))
        games.append((tmp_path / index / "episodes.csv").read_bytes())
    assert games[0] == games[1]
    assert len(games[0].splitlines()) > 3
