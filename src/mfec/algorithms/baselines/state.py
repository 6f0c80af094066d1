"""Everything that Stable-Baselines3's models go on from, as JSON and tensors: no pickle, and nothing left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from stable_baselines3 import A2C, DQN

from mfec.algorithms.baselines.replay import FrameReplay
from mfec.algorithms.torch_state import (
    Tensors,
    module_tensors,
    optimizer_tensors,
    restore_module,
    restore_optimizer,
)

# Counters of the models, by what they are called there.
_COUNTERS = ("num_timesteps", "_n_updates", "_episode_num", "_current_progress_remaining")
_DQN_COUNTERS = ("_n_calls", "exploration_rate")


def model_state(model: DQN | A2C) -> tuple[dict[str, Any], dict[str, Tensors]]:
    """What JSON takes, and tensors by file."""
    counters = _COUNTERS + (_DQN_COUNTERS if isinstance(model, DQN) else ())
    state: dict[str, Any] = {
        "counters": {name: getattr(model, name) for name in counters},
        "action_space": model.action_space.np_random.bit_generator.state,
        "numpy": _numpy_state(),
        "begun": None if model._last_episode_starts is None else np.asarray(model._last_episode_starts).tolist(),
    }
    tensors: dict[str, Tensors] = {
        "policy": module_tensors(model.policy),
        "optimizer": optimizer_tensors(model.policy.optimizer),
        "random": {"torch": torch.get_rng_state().numpy()},
        "shown": {"observations": np.asarray(model._last_obs)},
    }
    if model.device.type == "cuda":
        tensors["random"]["cuda"] = torch.cuda.get_rng_state(model.device).numpy()
    if isinstance(model, DQN):
        assert isinstance(model.replay_buffer, FrameReplay)
        state["replay"] = model.replay_buffer.summary()
        tensors["replay"] = model.replay_buffer.tensors()
    return state, tensors


def restore_policy(model: DQN | A2C, tensors: dict[str, Tensors]) -> None:
    """Take over the networks alone: enough to play."""
    restore_module(model.policy, tensors["policy"])


def restore_model(model: DQN | A2C, state: dict[str, Any], tensors: dict[str, Tensors]) -> None:
    """Take over everything that `model_state` gave; the model goes on as if it had never stopped."""
    restore_policy(model, tensors)
    restore_optimizer(model.policy.optimizer, tensors["optimizer"])
    for name, value in state["counters"].items():
        setattr(model, name, value)
    model._last_obs = tensors["shown"]["observations"].copy()
    model._last_episode_starts = None if state["begun"] is None else np.array(state["begun"], np.bool_)
    if isinstance(model, DQN):
        assert isinstance(model.replay_buffer, FrameReplay)
        model.replay_buffer.restore(state["replay"], tensors["replay"])
    model.action_space.np_random.bit_generator.state = state["action_space"]
    _restore_numpy(state["numpy"])
    torch.set_rng_state(torch.from_numpy(tensors["random"]["torch"].copy()))
    if model.device.type == "cuda" and "cuda" in tensors["random"]:
        torch.cuda.set_rng_state(torch.from_numpy(tensors["random"]["cuda"].copy()), model.device)


def _numpy_state() -> list[Any]:
    """Stable-Baselines3 explores with numpy's own generator, the one of the whole process."""
    kind, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    return [kind, np.asarray(keys).tolist(), position, has_gauss, gauss]


def _restore_numpy(state: list[Any]) -> None:
    kind, keys, position, has_gauss, gauss = state
    np.random.set_state((kind, np.array(keys, np.uint32), position, has_gauss, gauss))
