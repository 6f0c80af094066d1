"""Embeddings of one's own: callables and torch modules, what they may return, and that an agent knows them again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from mfec import MFEC, RandomProjection
from mfec.checkpoint import CheckpointError, read_checkpoint
from mfec.embeddings import EmbeddingError, Encoder
from mfec.embeddings.fingerprint import probes_of

from ..playing import Pictures, Shifted, Walk, side_by_side

PICTURES = Pictures.observation_space


def corner(observations: Any) -> Any:
    """The green of the first rows."""
    return observations[:, :3, :, 1] / 255


def rows_below(observations: Any) -> Any:
    return observations[:, 3:6, :, 1] / 255


class Thumbnails:
    """An embedding with all of its methods."""

    name, dim = "thumbnails", 4 * 6

    def __init__(self, start: int = 0) -> None:
        self.start = start

    def __call__(self, observations: Any) -> Any:
        return observations[:, self.start :: 5, self.start :: 5, 0].reshape(len(observations), -1).astype(np.float32)

    def tensors(self) -> dict[str, Any]:
        return {}

    @classmethod
    def restore(cls, tensors: dict[str, Any]) -> Thumbnails:
        return cls()


class Scaled(RandomProjection):
    factor = 2

    def __call__(self, observations: Any) -> Any:
        return super().__call__(observations) * self.factor


def test_a_callable_makes_the_states():
    agent = MFEC(Pictures(), embedding=corner, k=3, capacity=100, seed=0).learn(60)
    assert (agent.embedding.name, agent.embedding.dim, agent.memory.dim) == ("corner", 90, 90)
    assert repr(agent).startswith("MFEC(embedding=corner, ")
    pictures = np.stack([PICTURES.sample() for _ in range(3)])
    states = agent.states(pictures)
    assert states.dtype == np.float32
    assert np.array_equal(states, corner(pictures).reshape(3, 90).astype(np.float32))


def test_numbered_observations_count_from_0():
    seen = set()

    def one_hot(numbers: Any) -> Any:
        seen.update(numbers.tolist())
        return np.eye(6)[numbers]

    agent = MFEC(Shifted(), embedding=one_hot, k=2, capacity=100, epsilon=0.5, seed=0).learn(200)
    assert seen == set(range(6))
    assert agent.memory.active_index != "none", "who gives states means that some are near others"


@pytest.mark.parametrize(("result", "said"), [
    (lambda o: np.zeros(8), r"row of numbers for each of 1 observations, and returned the shape \(8,\)"),
    (lambda o: np.zeros((3, 2)), r"row of numbers for each of 8 observations, and returned the shape \(3, 2\)"),
    (lambda o: np.zeros((len(o), 0)), r"returned the shape \(8, 0\)"),
    (lambda o: np.full((len(o), 2), np.nan), "not finite"),
    (lambda o: None, "an array or a tensor of numbers, not None"),
    (lambda o: {"states": 1}, "not a dict"),
    (lambda o: o.reshape(len(o), -1) * 1e300, "not finite"),
    (lambda o: np.random.default_rng().random((len(o), 2)), "another state of the same observation in every call"),
    (lambda o: o.reshape(len(o), -1) / o.sum(), "alone than beside others"),
    (lambda o: np.ones((len(o), len(o))), "makes 8 numbers of an observation among 8, and 1 of it alone"),
    (lambda o: o[:, 0, 0, 7], r"fails on observations uint8 \(8, 20, 30, 3\): IndexError"),
])  # fmt: skip
def test_what_makes_no_states_is_refused_before_a_run_begins(result, said):
    with pytest.raises(EmbeddingError, match=said):
        MFEC(Pictures(), embedding=result, seed=0)


def test_a_state_that_is_not_finite_is_refused_when_it_comes():
    encoder = Encoder(lambda o: np.where(o == 7.0, np.inf, o), Walk().observation_space)
    assert np.array_equal(encoder(np.ones((2, 2), np.float32)), np.ones((2, 2)))
    with pytest.raises(EmbeddingError, match="not finite"):
        encoder(np.full((1, 2), 7.0, np.float32))


def test_what_is_no_embedding_at_all_is_refused():
    with pytest.raises(TypeError, match=r"callable or a torch module .*; not 3"):
        MFEC(Pictures(), embedding=3, seed=0)
    with pytest.raises(EmbeddingError, match="Encoder needs arguments, so name an object of it"):
        MFEC(Pictures(), embedding=Encoder, seed=0)


@pytest.mark.parametrize(("own", "other"), [
    (corner, rows_below),
    (Thumbnails(), Thumbnails(2)),
    (Scaled(20 * 30 * 3, seed=0), Scaled(20 * 30 * 3, seed=1)),
    (Scaled(20 * 30 * 3, seed=0), RandomProjection(20 * 30 * 3, seed=0)),
    (RandomProjection(20 * 30 * 3, seed=0), Scaled(20 * 30 * 3, seed=0)),
])  # fmt: skip
def test_an_agent_is_loaded_with_its_own_embedding_alone(own, other, tmp_path):
    agent = MFEC(Pictures(), embedding=own, k=3, capacity=100, seed=0).learn(60)
    agent.save(tmp_path)
    picture = PICTURES.sample()
    again = MFEC.load(tmp_path, env=Pictures(), embedding=own)
    assert np.array_equal(again.explain(picture).values, agent.explain(picture).values)
    with pytest.raises(CheckpointError, match=r"saved with another embedding than \w+: the states of 8 observations"):
        MFEC.load(tmp_path, embedding=other)


def test_a_checkpoint_says_which_embedding_is_missing(tmp_path):
    MFEC(Pictures(), embedding=corner, capacity=100, seed=0).learn(60).save(tmp_path)
    with pytest.raises(CheckpointError, match=r"embedding .*test_encoder\.corner, .* give it to `load`"):
        MFEC.load(tmp_path)
    with pytest.raises(CheckpointError, match="its states have 90 numbers, not 30"):
        MFEC.load(tmp_path, embedding=lambda o: o[:, 0, :, 0])


def test_rounding_of_another_device_is_no_other_embedding(tmp_path):
    """Ten bits of a product, as in TF32, are kept; an agent that was saved before fingerprints were is loaded, too."""
    MFEC(Pictures(), embedding=corner, capacity=100, seed=0).learn(60).save(tmp_path)
    MFEC.load(tmp_path, embedding=lambda o: corner(o).astype(np.float16))
    _, tensors = read_checkpoint(tmp_path, kind="agent")
    kept = tensors["fingerprint"]
    assert np.array_equal(kept["observations"], probes_of(PICTURES))
    assert np.array_equal(kept["states"], corner(probes_of(PICTURES)).reshape(8, 90).astype(np.float32))


@pytest.mark.parametrize("space", [
    spaces.Box(0, 255, (84, 84), np.uint8), spaces.Box(-np.inf, np.inf, (3,), np.float32), spaces.Discrete(1),
    spaces.Box(-1.7e308, 1.7e308, (2,), np.float64), spaces.Box(0, 1, (9,), np.int8), spaces.Discrete(500, start=7),
    spaces.Box(np.array([0.0, -np.inf]), np.array([np.inf, 5.0]), dtype=np.float64),
])  # fmt: skip
def test_probes_are_of_the_space_and_always_the_same(space):
    probes = probes_of(space)
    assert probes.dtype == space.dtype
    start = int(getattr(space, "start", 0))
    assert all(space.contains(probe + start) if start else space.contains(probe) for probe in probes)
    assert np.array_equal(probes, probes_of(space))
    assert len(np.unique(probes.reshape(len(probes), -1), axis=0)) >= min(6, getattr(space, "n", 6))


# -- torch ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def network(one_thread: None) -> Any:
    """A network with what differs between training and playing."""
    import torch
    from torch import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Conv2d(3, 4, 5, stride=3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5))
            self.seen: list[Any] = []

        def forward(self, pictures: Any) -> Any:
            self.seen = [pictures.dtype, tuple(pictures.shape), torch.is_grad_enabled(), self.training]
            return self.layers(pictures.movedim(-1, 1) / 255)

    torch.manual_seed(0)
    return Network()


@pytest.mark.torch
@pytest.mark.parametrize("index", ["exact", "cuda"])
def test_a_module_makes_the_states_and_goes_on_bit_for_bit(network, index, tmp_path):
    """Its maps are flattened. Where the index is on a device, states are still made by the module."""
    import torch

    def make() -> MFEC:
        env = side_by_side(Pictures, 4)
        return MFEC(env, embedding=network, index=index, k=3, epsilon=0.2, capacity=100, seed=0)

    agent = make().learn(200)
    assert agent.embedding.dim == 4 * 6 * 9
    assert network.seen == [torch.uint8, (len(network.seen) and network.seen[1][0], 20, 30, 3), False, False]
    make().learn(100).save(tmp_path)
    again = MFEC.load(tmp_path, env=side_by_side(Pictures, 4), embedding=network.train()).learn(200)
    assert all(np.array_equal(tensor, again.memory.tensors()[name]) for name, tensor in agent.memory.tensors().items())
    assert np.abs(agent.memory.tensors()["states"]).max() > 0
    with torch.no_grad():
        network.layers[0].weight *= 1.2
    with pytest.raises(CheckpointError, match="another embedding than Network"):
        MFEC.load(tmp_path, embedding=network)


@pytest.mark.torch
def test_what_a_module_returns_must_be_a_tensor(network):
    import torch

    class Both(torch.nn.Module):
        def forward(self, pictures: Any) -> Any:
            return pictures.float(), pictures.float().mean()

    with pytest.raises(EmbeddingError, match="Both must return an array or a tensor of numbers, not a tuple"):
        MFEC(Pictures(), embedding=Both(), seed=0)
    assert Encoder(lambda o: torch.from_numpy(o).float().requires_grad_(), PICTURES).dim == 20 * 30 * 3
