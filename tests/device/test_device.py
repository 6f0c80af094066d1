"""Which device there is, what is said where there is none, and that nobody pays for torch who does not use it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from mfec.agent import MFEC
from mfec.config import AgentConfig
from mfec.device import DeviceError, device_name, free_on_device, open_channel, start_engine
from mfec.device.buffers import ActionBuffers
from mfec.memory import EpisodicMemory

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# -- Without a GPU ----------------------------------------------------------------------------------------------------


@no_gpu
@pytest.mark.parametrize(
    "use",
    [
        lambda: start_engine("cuda"),
        lambda: open_channel("cuda"),
        free_on_device,
        lambda: EpisodicMemory(2, 3, device="cuda", capacity=10),
        lambda: MFEC("CartPole-v1", device="cuda", capacity=10),
    ],
    ids=["engine", "channel", "free", "memory", "agent"],
)
def test_a_machine_without_a_gpu_is_an_error_that_says_so(use) -> None:
    said = r"^device 'cuda' needs an NVIDIA GPU, and torch .* (finds no GPU|was built without CUDA) on this machine$"
    with pytest.raises(DeviceError, match=said):
        use()


@pytest.mark.parametrize("index", ["exact", "cells"])
def test_an_index_of_the_cpu_is_refused_on_a_gpu(index: str) -> None:
    said = rf"^index '{index}' searches on the CPU; device 'cuda' takes 'cuda' or 'auto'$"
    with pytest.raises(ValueError, match=said):
        AgentConfig(index=index, device="cuda")
    with pytest.raises(ValueError, match=said):
        EpisodicMemory(2, 3, index=index, device="cuda", capacity=10)
    with pytest.raises(ValueError, match=said):
        MFEC("CartPole-v1", index=index, device="cuda", capacity=10)


def test_what_auto_stands_for_depends_on_the_device() -> None:
    assert AgentConfig(device="cuda").resolved_index() == "cuda"
    assert AgentConfig(device="cuda", index="cuda").resolved_index() == "cuda"
    assert AgentConfig(device="cpu", index="cuda").resolved_index() == "cuda"
    assert AgentConfig(device="cpu").resolved_index() == "auto"
    assert AgentConfig(device="cpu", index="exact").resolved_index() == "exact"


def test_another_device_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"device .*cpu.*cuda.*'tpu'"):
        EpisodicMemory(2, 3, device="tpu", index="cuda", capacity=10)


def test_a_device_has_a_name_however_it_is_given() -> None:
    assert device_name("cuda") == "cuda"
    assert device_name(open_channel("cpu")) == "cpu"


def test_a_device_without_room_says_how_much_the_run_has_and_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = open_channel("cpu")
    channel.open(1, 100, 2)

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(ActionBuffers, "store", full)
    with pytest.raises(DeviceError, match=r"no room for more entries: this run holds 0\.00 GB .* --capacity"):
        channel.store(np.array([0]), np.array([0]), np.zeros((1, 2), np.float32))


def test_a_channel_must_be_opened_first() -> None:
    with pytest.raises(DeviceError, match=r"^no buffers were opened on this channel$"):
        open_channel("cpu").rows(np.array([0]), np.array([0]))


# -- Without torch ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        "mfec.device.start_engine('cpu')",
        "mfec.device.open_channel('cpu')",
        "mfec.EpisodicMemory(2, 3, index='cuda', capacity=10)",
        "mfec.EpisodicMemory(2, 3, device='cuda', capacity=10)",
        "mfec.MFEC('CartPole-v1', device='cuda', capacity=10)",
    ],
)
def test_missing_torch_is_an_error_that_names_the_extra(use: str) -> None:
    run(f"""
import sys
sys.modules["torch"] = None
import mfec, mfec.device
try:
    {use}
except ImportError as error:
    assert str(error) == "the device needs the extra `torch`: pip install 'mfec[torch]'", error
else:
    raise AssertionError("no error")
""")


def test_torch_is_imported_by_those_who_use_it_alone() -> None:
    """It takes seconds and hundreds of megabytes."""
    run("""
import sys
import mfec, mfec.device, mfec.device.service
for name in mfec.__all__:
    getattr(mfec, name)
assert "torch" not in sys.modules, "by the package"

import gymnasium, numpy as np
class Pictures(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (10, 10), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 5
        return self.observation_space.sample(), {}
    def step(self, action):
        self.left -= 1
        return self.observation_space.sample(), 1.0, self.left == 0, False, {}

agent = mfec.MFEC(Pictures(), capacity=100, seed=0).learn(total_frames=50)
assert agent.embedding.name == "random_projection"
assert len(agent.memory) > 0
assert "torch" not in sys.modules, "by an agent on the CPU"
assert "triton" not in sys.modules
""")


# -- Observations on their way ----------------------------------------------------------------------------------------


def test_an_estimate_brings_the_states_of_observations_along() -> None:
    from mfec.embeddings import RandomProjection

    projection = RandomProjection(50, 4, seed=0)
    memory = EpisodicMemory(2, 4, index="cuda", capacity=10, k=1)
    assert memory.embed_with(projection)
    observations = np.random.default_rng(0).integers(0, 256, (3, 50), np.uint8)
    assert memory.estimate(observations).states.tobytes() == projection(observations).tobytes()


def test_a_subclass_of_a_projection_embeds_itself() -> None:
    """It may compute something else than its parent's weights say."""
    from mfec.embeddings import RandomProjection

    class Other(RandomProjection):
        pass

    memory = EpisodicMemory(2, 4, index="cuda", capacity=10, k=1)
    assert not memory.embed_with(Other(50, 4, seed=0))
    assert not memory.embed_with(lambda observations: observations)


@pytest.mark.parametrize("index", ["exact", "cells", "auto"])
def test_a_memory_on_the_cpu_embeds_nothing(index: str) -> None:
    from mfec.embeddings import RandomProjection

    memory = EpisodicMemory(2, 4, index=index, capacity=10, k=1)
    assert not memory.embed_with(RandomProjection(50, 4, seed=0))
    with pytest.raises(ValueError, match=r"states must have the shape \(n, 4\)"):
        memory.estimate(np.zeros((3, 50), np.uint8))
